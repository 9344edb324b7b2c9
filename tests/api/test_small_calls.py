"""Calls on small arrays outside of ``jit``: native code answers them once they have come before,
with the results, types, errors and warnings of the first time."""

import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.api import making
from weft.api.eager import SEEN, Eager
from weft.api.learning import Learning, Taking
from weft.backends.llvm.calls import dispatch, entries
from weft.base import knobs

KINDS = (Eager, Learning, making.Making, Taking)


@pytest.fixture(autouse=True)
def native():
    if not dispatch.supported():
        pytest.skip("there is no native caller here")
    with knobs.backend("native"):
        dispatch.native()
        yield


def inside(function):
    """What a public function or method calls inside of its boundary."""
    cells = getattr(function, "__closure__", None) or ()
    found = [getattr(function, "_call", None), *(c.cell_contents for c in cells)]
    found = [getattr(x, "__self__", x) for x in found]  # of methods
    found = next(x for x in found if isinstance(x, KINDS))
    return found._learning if isinstance(found, Taking) else found


def hits(function):
    return entries.hits(inside(function)) if hasattr(inside(function), "_entries") else 0


def outcome(call):
    """What a call gives, whatever that is: types and bits, or an error; and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            leaves = weft.tree.leaves(call())
            found = [(x.aval, np.asarray(x).tobytes()) for x in leaves]
        except Exception as error:
            found = type(error), str(error)
    # NumPy warns of a number that is converted for the first time only
    return found, [w.category for w in caught if w.category is not RuntimeWarning]


def agrees(call, times=4, backend="native"):
    """Every call gives what Python gives."""
    with weft.disable_jit(), knobs.backend(backend):
        want = outcome(call)
    for _ in range(times):
        assert outcome(call) == want
    return want


# --- updates --------------------------------------------------------------------------------------

X = np.array([4, 3, 5, 1, 2, 7], np.float32)
INDICES = [
    2,
    -1,
    6,
    slice(1, 3),
    slice(None, None, -2),
    (Ellipsis, 0),
    (2,),
    None,
    np.int64(3),
    np.array([0, 5]),
    np.array([1, 2, 2], np.uint8),
    True,
    [0, 1],
]
VALUES = [0, 3, -1, 300, 2**31, 1.5, -0.0, float("nan"), True, np.float32(2.5), np.float64(0.1)]
VALUES += [np.int64(7), np.uint64(5), np.arange(2.0), np.arange(6), 1 + 2j, [1.0, 2.0], "text"]
METHODS = ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"]
DTYPES = ["float32", "int32", "uint8", "bfloat16", "float16", "bool", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_updates_are_what_python_gives(dtype):
    random = np.random.default_rng(DTYPES.index(dtype))
    x = jnp.asarray(X).astype(dtype)
    indices = [
        *INDICES,
        jnp.array([1, 2, 2]),
        jnp.array(1),
        jnp.asarray(X) > 2,
        jnp.array([True, False]),
    ]
    for _ in range(60):
        index, value = (rows[random.integers(len(rows))] for rows in (indices, VALUES))
        method = METHODS[random.integers(len(METHODS) - 2 * (dtype == "complex64"))]
        rounds = method in ("divide", "power")
        by = "native" if rounds else "reference"
        agrees(lambda: getattr(x.at[index], method)(value), backend=by)  # noqa: B023 -- called at once
        agrees(lambda: x.at[index].get())  # noqa: B023 -- called at once


@pytest.mark.parametrize("method", METHODS)
def test_updates_are_native(method):
    x, mask, where = jnp.asarray(X), jnp.asarray(X) > 1, jnp.array([0, 4])
    function = getattr(type(x.at[0]), method)
    for index, value in [
        (3, 2.5),
        (where, jnp.ones(2)),
        (slice(1, 3), 2),
        (mask, 0.5),
        (np.int64(2), np.float64(2)),
    ]:
        for _ in range(3):
            want = getattr(x.at[index], method)(value)
        before = hits(function)
        found = getattr(x.at[index], method)(value)
        assert hits(function) == before + 1
        np.testing.assert_array_equal(found, want)


def test_numbers_of_an_index_and_values_are_operands():
    x = jnp.asarray(X)
    for k in range(-6, 6):
        want = X.copy()
        want[k] = k / 2
        np.testing.assert_array_equal(x.at[k].set(k / 2), want)
    assert x.at[6].set(1.0).tolist() == X.tolist()
    assert hits(type(x.at[0]).set) >= 8


def test_options_of_updates():
    x, where = jnp.asarray(X), jnp.array([1, -1, 9])
    options = [{"mode": m} for m in ("drop", "fill", "clip", "promise_in_bounds", "wrong")]
    options += [{"wrap_negative_indices": False}, {"unique_indices": True}, {"wrong": 1}]
    for given in options:
        agrees(lambda: x.at[where].set(1.0, **given))  # noqa: B023 -- called at once
        agrees(lambda: x.at[where].get(**given))  # noqa: B023 -- called at once
    for value in (0, 0.0, -0.0, 1.5, np.nan, True, np.float32(2), None):
        agrees(lambda: x.at[where].get(mode="fill", fill_value=value))  # noqa: B023 -- called at once
        agrees(lambda: jnp.take(x, where, mode="fill", fill_value=value))  # noqa: B023 -- called at once
    assert x.at[2].set(values=7.0)[2] == 7.0


def test_updates_that_warn_do_so_every_time():
    x = jnp.arange(5)
    for _ in range(5):
        with pytest.warns(FutureWarning, match="incompatible types"):
            x.at[1].set(jnp.float32(1.5))


def test_wrong_updates_after_right_ones():
    x, where = jnp.asarray(X), jnp.array([0, 4])
    for _ in range(5):
        x.at[where].set(jnp.ones(2))
        with pytest.raises(ValueError, match="broadcast"):
            x.at[where].set(jnp.ones(3))
        with pytest.raises(IndexError):
            x.at[0, 0].set(1.0)
        with pytest.raises(TypeError):
            x.at["a"].set(1.0)


def test_updates_while_something_is_traced():
    x = jnp.asarray(X)
    for _ in range(4):
        x.at[1].set(2.0)
        text = str(weft.make_jaxpr(lambda x, v: x.at[1].set(v))(x, 1.0))
        assert "scatter" in text
        gradient = weft.grad(lambda v: x.at[1].set(v).sum() * v)(2.0)
        assert gradient == X.sum() - X[1] + 4
        assert weft.vmap(lambda v: x.at[1].set(v)[1])(jnp.arange(3.0)).tolist() == [0, 1, 2]


def test_arrays_that_are_deleted_and_floats_that_are_watched():
    x = jnp.asarray(X)
    for _ in range(4):
        x.at[1].set(2.0)
        x.ravel()
    with weft.debug_nans(True), pytest.raises(FloatingPointError):
        x.at[1].set(np.nan)
    x.delete()
    for call in (lambda: x.at[1].set(2.0), lambda: x + np.float32(1), lambda: x[np.arange(2)]):
        with pytest.raises(RuntimeError, match="deleted"):
            call()


def test_tables_of_what_was_learnt_are_bounded():
    x = jnp.asarray(X)
    for n in range(SEEN + 40):
        jnp.ones(3).at[:].set(n * 1.0, indices_are_sorted=bool(n % 2))
        jnp.zeros(n % 1000)
        x[:n]
    assert len(inside(type(x.at[0]).set)._seen) <= SEEN
    assert len(inside(type(x).__getitem__)._seen) <= SEEN
    assert len(entries.entries_of(inside(type(x).__getitem__))) <= entries.MAX_OPERATION_ENTRIES
    assert len(inside(jnp.zeros)._made) <= making.KEPT


# --- operators and indices ------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_on_things_of_numpy(dtype, wide):
    with weft.enable_x64(wide):
        x = jnp.asarray(X).astype(dtype)
        for value in [*VALUES, X[::-1], X.astype(">f4"), np.bool_(True), np.int64(2**40)]:
            agrees(lambda: x + value, 3)  # noqa: B023 -- called at once
            agrees(lambda: value * x, 3)  # noqa: B023 -- called at once
            agrees(lambda: x < value, 3)  # noqa: B023 -- called at once


def test_numpy_arrays_are_read_each_time():
    x, other, where = jnp.asarray(X), np.zeros(6), np.array([0, 1])
    for k in range(5):
        other[:], where[0] = k, k
        assert (x + other).tolist() == (X + k).tolist()
        assert x[where].tolist() == X[where].tolist()
        assert x.at[where].set(9.0)[k] == 9
        assert (x * np.float64(k)).tolist() == (X * k).tolist()
    assert hits(type(x).__add__) and hits(type(x).__getitem__) and hits(type(x).__mul__)


WIDE = {
    "floats": np.array([0.1, -0.0, 1e300, -1e300, 1e-300, np.nan, np.inf, 16777217.0, 1e-46]),
    "integers": np.array([0, -1, 2**31, 2**40 + 3, -(2**63), 2**63 - 1, 7]),
    "naturals": np.array([0, 2**31, 2**32, 2**64 - 1], np.uint64),
    "complex": np.array([1 + 2j, 1e300 - 1e-300j, np.nan + 1j]),
    "rows": np.linspace(0, 1, 12).reshape(3, 4),
    "columns": np.linspace(0, 1, 12).reshape(3, 4).T,
    "number": np.array(0.1),
    "nothing": np.zeros((0, 3)),
}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", WIDE)
def test_numpy_arrays_of_64_bits(name, wide):
    array = WIDE[name]
    with weft.enable_x64(wide), np.errstate(all="ignore"):
        x = jnp.ones(array.shape, jnp.float32)
        for call in (
            lambda: jnp.flip(array),
            lambda: jnp.add(x, array),
            lambda: jnp.stack([array, array]),
            lambda: x * array,
            lambda: array - x,
            lambda: jnp.where(array == 0, array, 1.0),
            lambda: x.at[...].set(array),
        ):
            agrees(call)
    if not wide and name == "rows":
        assert native_after(jnp.flip, lambda: jnp.flip(array))


# --- functions ------------------------------------------------------------------------------------


def native_after(function, call, times=4):
    """Whether a call is answered natively, once it has come some times."""
    for _ in range(times):
        call()
    before = hits(function)
    call()
    return hits(function) == before + 1


def test_settings_are_known_by_their_values():
    weft.clear_caches()
    x = jnp.arange(1200.0)
    rows = iter(range(2, 100))
    assert native_after(jnp.reshape, lambda: jnp.reshape(x, (1200 - 1199, x.size // 1)))
    assert native_after(jnp.roll, lambda: jnp.roll(x, x.size - 600))
    assert native_after(lax.convert_element_type, lambda: lax.convert_element_type(x, jnp.int32))
    for _ in range(5):
        assert jnp.roll(x, next(rows)).shape == (1200,)
    assert jnp.roll(x, True)[0] == 1199 and jnp.roll(x, 1)[0] == 1199


def test_lists_are_settings():
    weft.clear_caches()
    x, sizes = jnp.arange(12.0), [3, 4]
    assert native_after(jnp.reshape, lambda: jnp.reshape(x, [3, 12 // 3]))
    assert native_after(jnp.pad, lambda: jnp.pad(x, [(1, 2)]))
    for _ in range(4):
        assert jnp.reshape(x, sizes).shape == tuple(sizes)
        sizes.reverse()
    for _ in range(4):
        assert jnp.take(x, 0) == 0
        with pytest.raises(TypeError):
            jnp.take(x, [0])
        assert len(jnp.split(x, [3, 5])) == 3


def test_functions_with_rules_of_their_own():
    weft.clear_caches()
    x = jnp.asarray(X) - 1
    learnt = []
    for function in (weft.nn.relu, weft.nn.relu6, weft.scipy.special.xlogy):
        args = (x, x + 3) if function is weft.scipy.special.xlogy else (x,)
        want = outcome(lambda: weft.jit(function)(*args))  # noqa: B023 -- called at once
        for _ in range(5):
            assert outcome(lambda: function(*args)) == want  # noqa: B023 -- called at once
        learnt.append(entries.hits(function._inside) > 0)
    assert all(learnt)
    assert "custom_jvp_call" in str(weft.make_jaxpr(weft.nn.relu)(x))
    assert weft.grad(weft.nn.relu)(0.0) == 0
    with pytest.raises(TypeError):
        weft.nn.relu("a")


def test_what_gives_its_argument_back():
    weft.clear_caches()
    x = jnp.asarray(X)
    for call in (
        lambda x: x.ravel(),
        lambda x: x.astype("float32"),
        lambda x: +x,
        lambda x: x.T,
        lambda x: jnp.asarray(x),
        lambda x: jnp.real(x),
        lambda x: jnp.atleast_1d(x),
    ):
        for _ in range(5):
            assert call(x) is x
    for given in (1.5, X, np.float32(2)):  # these have no place in native code to be given back
        for function in (lax.stop_gradient, jnp.real, jnp.positive, weft.nn.identity):
            found = [function(given) for _ in range(6)]
            assert len({type(y) for y in found}) == 1
            assert all(np.array_equal(y, given) for y in found)
    assert hits(jnp.asarray) and hits(jnp.real)
    assert jnp.asarray(X) is not x and jnp.real(X).tolist() == X.tolist()
    assert jnp.array(x) is not x
    x.delete()
    assert jnp.asarray(x) is x and jnp.asarray(x).is_deleted()


WHOLE = {
    "fold_in": lambda k: weft.random.fold_in(weft.random.PRNGKey(7), k),
    "PRNGKey": lambda k: weft.random.PRNGKey(k),
    "take": lambda k: jnp.take(jnp.asarray(X), k),
    "one_hot": lambda k: weft.nn.one_hot(k, 5),
    "dynamic_slice": lambda k: lax.dynamic_slice(jnp.asarray(X), (k,), (2,)),
    "dynamic_slice 2": lambda k: lax.dynamic_slice(jnp.ones((3, 3)), (jnp.array(k), 0), (2, 1)),
    "dynamic_slice_in_dim": lambda k: lax.dynamic_slice_in_dim(jnp.asarray(X), k, 2),
    "dynamic_index_in_dim": lambda k: lax.dynamic_index_in_dim(jnp.asarray(X), k),
    "dynamic_update_slice": lambda k: lax.dynamic_update_slice(jnp.asarray(X), jnp.ones(2), (k,)),
    "named": lambda k: lax.dynamic_update_slice_in_dim(
        jnp.asarray(X), jnp.ones(2), start_index=k, axis=0
    ),
    "unravel_index": lambda k: jnp.unravel_index(k, (2, 3)),
    "sqrt": lambda k: jnp.sqrt(k),
    "maximum": lambda k: jnp.maximum(k, 2),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_that_are_operands(name):
    weft.clear_caches()
    for k in [*range(20), -1, -5, 100, 2**31 - 1, 2**31, -(2**31), 2**40, True]:
        with knobs.backend("native"):
            agrees(lambda: WHOLE[name](k), 1)  # noqa: B023 -- called at once


def test_one_program_for_all_whole_numbers():
    weft.clear_caches()
    x, key = jnp.asarray(X), weft.random.key(0)
    for k in range(40):
        weft.random.fold_in(key, k)
        lax.dynamic_index_in_dim(x, k, keepdims=False)
        weft.random.PRNGKey(k)
    for function in (weft.random.fold_in, lax.dynamic_index_in_dim, weft.random.PRNGKey):
        assert len(entries.entries_of(inside(function))) == 1 and hits(function) > 30


CHANGING = {
    "maximum": lambda x, k: jnp.maximum(x, k),
    "subtract": lambda x, k: jnp.subtract(k, x),
    "where": lambda x, k: jnp.where(x > 2, x, k),
    "clip": lambda x, k: jnp.clip(x, 0, k),
    "full_like": lambda x, k: jnp.full_like(x, k),
    "roll": lambda x, k: jnp.roll(x, k),
    "randint": lambda x, k: weft.random.randint(weft.random.PRNGKey(1), (3,), 0, k + 1),
    "around": lambda x, k: jnp.around(x, k % 3),
    "power": lambda x, k: jnp.power(x, k % 5),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
@pytest.mark.parametrize("name", CHANGING)
def test_numbers_that_change_all_the_time(name, dtype):
    weft.clear_caches()
    x = jnp.asarray(X).astype(dtype)
    for k in [*range(30), 7, 2**31 - 1, 2**31, 300]:
        agrees(lambda: CHANGING[name](x, k), 2)  # noqa: B023 -- called at once
    if name not in ("around", "power") and (dtype != "uint8" or name in ("roll", "randint")):
        function = weft.random.randint if name == "randint" else getattr(jnp, name)
        before = hits(function)
        CHANGING[name](x, 29)
        CHANGING[name](x, 1234)
        assert hits(function) == before + 2


def test_without_jit():
    key, x = weft.random.PRNGKey(0), jnp.asarray(X)
    for call in (
        lambda: weft.random.randint(key, (3,), 0, 7),
        lambda: weft.random.randint(key, (3,), 0.0, 7.5),
        lambda: weft.random.choice(key, x, (3,)),
        lambda: weft.scipy.special.expn(2, x),
    ):
        want = call()
        with weft.disable_jit():
            np.testing.assert_allclose(call(), want, rtol=1e-6)


# --- arrays of numbers ----------------------------------------------------------------------------

MADE = [
    lambda: jnp.zeros(3),
    lambda: jnp.zeros(3.0),
    lambda: jnp.zeros(True),
    lambda: jnp.zeros((2, 3)),
    lambda: jnp.zeros([2, 3]),
    lambda: jnp.zeros((2.0, 3)),
    lambda: jnp.zeros(()),
    lambda: jnp.zeros(-1),
    lambda: jnp.zeros(3, jnp.float64),
    lambda: jnp.zeros(3, jnp.bfloat16),
    lambda: jnp.zeros(3, "int8"),
    lambda: jnp.zeros(3, dtype=int),
    lambda: jnp.zeros(3, 4),
    lambda: jnp.zeros(shape=3),
    lambda: jnp.zeros(),
    lambda: jnp.ones((np.int64(2), 2)),
    lambda: jnp.ones((2, 2)),
    lambda: jnp.full(3, 0.0),
    lambda: jnp.full(3, -0.0),
    lambda: jnp.full(3, 0),
    lambda: jnp.full(3, False),
    lambda: jnp.full(3, float("nan")),
    lambda: jnp.full(3, 300, jnp.uint8),
    lambda: jnp.full((2,), X[:2]),
    lambda: jnp.full(3, "a"),
    lambda: lax.full((3,), 1.0),
    lambda: jnp.arange(5),
    lambda: jnp.arange(5.0),
    lambda: jnp.arange(1, 9, 2),
    lambda: jnp.arange(0, 1, 0.25, dtype=jnp.float16),
    lambda: jnp.arange(5, dtype=jnp.int64),
    lambda: jnp.arange(1, 2, 0),
    lambda: jnp.empty_like(X),
    lambda: jnp.array(1),
    lambda: jnp.array(1.0),
    lambda: jnp.array(True),
    lambda: jnp.array(2**31),
    lambda: jnp.array([1, 2]),
    lambda: jnp.array([1, 2.0]),
    lambda: jnp.array([True, 2]),
    lambda: jnp.array([[1.0], [2.0]], jnp.int32),
    lambda: jnp.array([[1], [2, 3]]),
    lambda: jnp.array([[1], 2]),
    lambda: jnp.array([2**31]),
    lambda: jnp.array([300], jnp.uint8),
    lambda: jnp.array([]),
    lambda: jnp.array([None]),
    lambda: jnp.array(["a"]),
    lambda: jnp.array([jnp.float32(1), jnp.float32(2)]),
    lambda: jnp.array([jnp.ones(2), 3.0]),
    lambda: jnp.asarray(X, jnp.int32),
    lambda: jnp.asarray(jnp.asarray(X), jnp.float64),
    lambda: weft.device_put(X),
    lambda: weft.device_put(np.ones(3)),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_arrays_of_numbers(number):
    for wide in (False, True, False):
        with weft.enable_x64(wide):
            agrees(MADE[number])


def test_arrays_of_numbers_are_separate():
    made = [jnp.arange(4) for _ in range(4)]
    places = {x.unsafe_buffer_pointer() for x in made}
    assert len(places) == 4
    made[0].delete()
    assert weft.jit(lambda x: x + 1, donate_argnums=0)(made[1]).tolist() == [1, 2, 3, 4]
    assert jnp.arange(4).tolist() == [0, 1, 2, 3]
    text = str(weft.make_jaxpr(lambda: jnp.zeros(3) + jnp.arange(3))())
    assert "broadcast_in_dim" in text and "iota" in text


def test_put_arrays_are_others():
    x = jnp.asarray(X)
    assert weft.device_put(x) is x
    y = weft.device_put(x, weft.devices()[0])
    x.delete()
    assert y is not x and y.tolist() == X.tolist()
    with pytest.raises(RuntimeError, match="deleted"):
        weft.device_put(x)
