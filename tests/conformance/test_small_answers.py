"""Answers of single functions that once were other than JAX's."""

import dataclasses
import inspect
import logging

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import dtypes, lax
from weft.experimental.sparse import BCOO, BCSR, bcoo, bcsr
from weft.scipy.optimize import minimize

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class Wrapped:
    """A pytree that stands for an array."""

    x: object

    def __jax_array__(self):
        return jnp.asarray(self.x)


FLOATS = np.array([1.0, 2.0, 3.0], "float32")
INDEX = np.array([0, 2])
OF_WRAPPED = {
    "fmod": (FLOATS, FLOATS + 1),
    "isclose": (FLOATS, FLOATS),
    "allclose": (FLOATS, FLOATS),
    "interp": (FLOATS, FLOATS, FLOATS),
    "searchsorted": (FLOATS, FLOATS),
    "roll": (FLOATS, 1),
    "delete": (FLOATS, INDEX),
    "corrcoef": (FLOATS, FLOATS),
    "polyval": (FLOATS, FLOATS),
    "unwrap": (FLOATS,),
    "percentile": (FLOATS, np.float32(20)),
    "clip": (FLOATS, FLOATS, FLOATS),
    "kron": (FLOATS, FLOATS),
    "gradient": (FLOATS,),
    "linspace": (np.float32(0), np.float32(1)),
    "repeat": (FLOATS, np.array([1, 0, 2])),
}


@pytest.mark.parametrize("name", OF_WRAPPED)
def test_objects_that_stand_for_arrays(name):
    function, args = getattr(jnp, name), OF_WRAPPED[name]
    given = [Wrapped(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in args]
    np.testing.assert_array_equal(function(*given), function(*args))


def test_put_along_axis_of_wrapped():
    found = jnp.put_along_axis(
        Wrapped(FLOATS), Wrapped(INDEX), Wrapped(FLOATS[:2]), 0, inplace=False
    )
    np.testing.assert_array_equal(found, [1, 2, 2])


def test_wrapped_in_a_trace():
    found = weft.jit(lambda x: jnp.fmod(Wrapped(x), Wrapped(x + 1)))(FLOATS)
    np.testing.assert_array_equal(found, FLOATS)


# --- integers have no derivatives -----------------------------------------------------------------


def _is_void(x, shape=()):
    return x.dtype == dtypes.float0 and x.shape == shape


def test_cotangents_of_integer_results_are_not_read():
    _, pull = weft.vjp(jnp.sum, jnp.arange(3))
    for ct in (np.int32(1), 1.0, np.zeros((), dtypes.float0)):
        assert _is_void(pull(ct)[0], (3,))
    with pytest.raises(ValueError, match="float0"):
        pull(np.ones(2, int))
    assert weft.vjp(lambda x: x > 0, 2.0)[1](np.True_)[0] == 0


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, i: (x * jnp.ones(2))[i],
        lambda x, i: lax.scan(lambda c, _: (c * x, i), 1.0, None, length=2)[0] / 4 * 1.0,
        lambda x, i: lax.cond(i > 0, lambda: x * i, lambda: x),
        lambda x, i: weft.checkpoint(lambda x, i: x * i)(x, i),
        lambda x, i: weft.jit(lambda x, i: x * i)(x, i),
    ],
    ids=["index", "scan", "cond", "checkpoint", "jit"],
)
def test_gradients_of_integers_are_void(fun):
    by_x, by_i = weft.grad(fun, (0, 1), allow_int=True)(2.0, 1)
    assert by_x == 1 and _is_void(by_i)


def test_what_has_no_numbers_is_of_numpy_everywhere():
    grad = weft.grad(lambda x, i: x * i, (0, 1), allow_int=True)
    compiled = weft.jit(grad)
    for found in (grad(2.0, 1)[1], *(compiled(2.0, 1)[1] for _ in range(4))):
        assert type(found) is np.ndarray and _is_void(found)
    found = weft.vmap(grad)(jnp.ones(3), jnp.arange(3))[1]
    assert type(found) is np.ndarray and _is_void(found, (3,))


def test_linear_maps_of_integers():
    _, push = weft.linearize(lambda x: jnp.sum(x * 2), jnp.arange(3))
    assert _is_void(push(np.zeros(3, dtypes.float0)))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_arrays_of_float0(shape):
    f0 = dtypes.float0
    like = np.zeros(shape, f0)
    for x in (
        jnp.zeros(shape, f0),
        jnp.ones(shape, f0),
        jnp.full(shape, 0, f0),
        jnp.zeros_like(like),
    ):
        assert _is_void(x, shape)


# --- the rest -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nin", "nout", "nargs", "identity"])
def test_attributes_of_ufuncs_stay(name):
    with pytest.raises(AttributeError):
        setattr(jnp.add, name, None)


def _rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_lbfgs_finds_minima():
    found = minimize(lambda x: jnp.sum(x**2), jnp.ones(2), method=LBFGS)
    assert found.success and found.status == 0 and found.hess_inv is None
    np.testing.assert_allclose(found.x, 0, atol=1e-5)
    with weft.enable_x64(True):
        options = {"gtol": 1e-8, "ftol": 0.0, "maxcor": 5}
        run = weft.jit(lambda x: minimize(_rosenbrock, x, method=LBFGS, options=options))
        found = run(jnp.zeros(8))
        assert found.success
        np.testing.assert_allclose(found.x, 1, atol=1e-6)


def test_lbfgs_says_why_it_stopped():
    def status(**options):
        found = minimize(_rosenbrock, jnp.zeros(4), method=LBFGS, options=options)
        assert not found.success
        return found.status

    assert status(maxiter=2) == 1
    assert status(maxfun=3) == 2
    assert status(maxgrad=3) == 3
    assert status(ftol=1e9) == 4


def test_resize_by_the_other_name_of_pytorchs_cubic():
    x = np.arange(6.0, dtype="float32").reshape(3, 2)
    found = weft.image.resize(x, (6, 4), "bicubic-pytorch")
    np.testing.assert_array_equal(found, weft.image.resize(x, (6, 4), "cubic-pytorch"))


def test_functions_of_bcoo_in_its_module():
    from weft.experimental import sparse

    names = [name for name in vars(sparse) if name.startswith("bcoo_") and name != "bcoo_array"]
    functions = [n for n in names if callable(getattr(sparse, n))]
    assert len(functions) > 20
    for name in functions:
        assert getattr(bcoo, name) is not None
    assert bcoo.BCOO is sparse.BCOO


def test_reductions_of_an_empty_axis():
    add = jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    np.testing.assert_array_equal(add.reduce(jnp.zeros((0, 3)), axis=0), np.zeros(3))
    assert add.reduce(jnp.zeros((0, 3)), axis=0, keepdims=True).shape == (1, 3)
    assert add.reduce(jnp.zeros((0, 3)), axis=None) == 0
    without = jnp.frompyfunc(lambda x, y: x + y, 2, 1)
    np.testing.assert_array_equal(without.reduce(jnp.zeros((0, 2)), initial=2.0), [2, 2])
    with pytest.raises(ValueError, match="identity"):
        without.reduce(jnp.zeros((0, 3)))


def test_what_happens_is_logged_for_debugging(caplog):
    with caplog.at_level(logging.DEBUG):
        weft.jit(lambda x: x - 3)(1)
        weft.grad(weft.checkpoint(lambda x: jnp.sin(jnp.cos(x))))(3.0)
    texts = [r.getMessage() for r in caplog.records if r.name.startswith("weft")]
    assert any(text.startswith("Finished tracing <lambda>") for text in texts)
    assert any(text.startswith("Finished compilation of <lambda>") for text in texts)
    assert any(text == "checkpoint keeps these inputs:\n  float32[]" for text in texts)
    assert all(r.levelno == logging.DEBUG for r in caplog.records if r.name.startswith("weft"))


def test_the_interface_is_named_in_the_environment():
    assert "jax:    0.10.2" in weft.print_environment_info(return_string=True)


@pytest.mark.parametrize(
    ("name", "of"),
    [("abs", "absolute"), ("acos", "arccos"), ("divide", "true_divide"), ("amax", "max")],
)
def test_aliases_say_what_they_are_of(name, of):
    function = getattr(jnp, name)
    assert function.__name__ == name
    assert function.__doc__.startswith(f"Alias of :func:`weft.numpy.{of}`.\n")
    assert inspect.getdoc(function).endswith(inspect.getdoc(getattr(jnp, of)))
    assert getattr(jnp, of).__name__ == of


def test_converted_numbers_are_literals():
    closed = weft.make_jaxpr(lambda x: lax.add(x, lax.convert_element_type(1, "float32")))(1.0)
    assert [eqn.primitive.name for eqn in closed.eqns] == ["add"]
    assert weft.jit(lambda: lax.convert_element_type(2.5, int))() == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "fun",
    [
        lambda c: (jnp.array(c), jnp.sum(c), c),
        lambda c: (c, jnp.sum(c), jnp.array(c)),
        lambda c: (jnp.sin(c), jnp.asarray(c), jnp.asarray(c)),
    ],
)
def test_numpy_data_is_one_constant(fun, dtype):
    data = np.arange(3, dtype=dtype)
    closed = weft.make_jaxpr(lambda: fun(data))()
    assert len(closed.consts) == 1
    for got, want in zip(weft.jit(lambda: fun(data))(), fun(data), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_numpy_data_that_changes_while_it_is_traced():
    data = np.zeros(3, "float32")

    def fill():
        rows = []
        for i in range(3):
            data[0] = i
            rows.append(jnp.array(data))
        return rows

    assert [float(row[0]) for row in weft.jit(fill)()] == [0, 1, 2]


def test_what_is_not_wanted_of_a_pullback_is_not_computed():
    def pull(x, y, ct):
        ref = weft.new_ref(jnp.zeros(3))
        _, back = weft.vjp(lambda x, y: x * y, x, y)
        back.with_refs(ref, weft.ad.DontWant())(ct)
        return ref[...]

    x, y, ct = jnp.arange(9.0).reshape(3, 3)
    eqns = weft.make_jaxpr(pull)(x, y, ct).eqns
    assert [eqn.primitive.name for eqn in eqns].count("mul") == 2
    np.testing.assert_array_equal(pull(x, y, ct), ct * y)


def test_asarray_of_numpy_data_that_is_differentiated():
    data = np.ones(2)
    for out in weft.jvp(jnp.asarray, (data,), (data,)):
        assert isinstance(out, weft.Array) and out.dtype == "float32"
    assert weft.jvp(lambda x: x, (data,), (data,))[0] is data


def test_stored_zeros_are_eliminated():
    data, places = jnp.array([1.0, 0.0, 2.0, 0.0]), jnp.array([[0, 0], [0, 1], [1, 1], [2, 0]])
    mat = BCOO((data, places), shape=(3, 2))
    small = bcoo.bcoo_eliminate_zeros(mat)
    assert small.data.tolist() == [1, 2] and small.indices.tolist() == [[0, 0], [1, 1]]
    padded = weft.jit(lambda mat: bcoo.bcoo_eliminate_zeros(mat, nse=3))(mat)
    assert padded.data.tolist() == [1, 2, 0]
    assert padded.indices.tolist() == [[0, 0], [1, 1], [3, 2]]
    rows = bcsr.bcsr_eliminate_zeros(BCSR.from_bcoo(mat))
    assert rows.data.tolist() == [1, 2] and rows.indptr.tolist() == [0, 1, 2, 2]


WIDER = {
    "float": lambda x: jnp.sin(x) * 2,
    "reversed": lambda x: 2 - x,
    "quotient": lambda x: x / 3,
    "angle": lambda x: jnp.arctan2(x, 2),
}
WAYS = {
    "jit": lambda f: weft.jit(f)(1.0),
    "grad": lambda f: weft.grad(f)(1.0),
    "vjp": lambda f: weft.vjp(f, 1.0)[1](1.0)[0],
    "checkpoint": lambda f: weft.grad(weft.checkpoint(f))(1.0),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WIDER)
def test_numbers_beside_weak_types_of_other_knobs(name, way):
    """A traced number keeps its 32 bits where 64 are enabled later, and so does what it meets."""

    def wider(x):
        with weft.enable_x64(True):
            return WIDER[name](x)

    found, wanted = WAYS[way](wider), WAYS[way](WIDER[name])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
