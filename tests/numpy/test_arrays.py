"""Making arrays, their operators and methods, and what they do while being traced."""

from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import ConcretizationTypeError, TracerArrayConversionError

X = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# --- creation -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype", "weak", "shape"),
    [
        (1, "int32", True, ()),
        (1.5, "float32", True, ()),
        (True, "bool", False, ()),
        (2j, "complex64", True, ()),
        ([1, 2.5], "float32", False, (2,)),
        ([True, 2], "int32", False, (2,)),
        ([], "float32", False, (0,)),
        ([[1], [2]], "int32", False, (2, 1)),
        (np.arange(3), "int32", False, (3,)),
        (np.float64(2), "float32", False, ()),
        (np.ones(2, np.float16), "float16", False, (2,)),
        ((X[0, 0], 7), "float32", False, (2,)),
        ([X[0], [1, 2, 3]], "float32", False, (2, 3)),
    ],
)
def test_array_of_data(data, dtype, weak, shape) -> None:
    x = jnp.array(data)
    assert (str(x.dtype), x.weak_type, x.shape) == (dtype, weak, shape)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, ValueError),
        ([1, None], ValueError),
        (["a"], TypeError),
        (object(), TypeError),
        ([[1, 2], [3]], ValueError),
        ([2**40], OverflowError),
        ({1, 2}, TypeError),
    ],
)
def test_array_refuses(data, error) -> None:
    with pytest.raises(error):
        jnp.array(data)


def test_wide_dtypes_warn_and_narrow() -> None:
    with pytest.warns(UserWarning, match="float64"):
        assert jnp.zeros(2, "float64").dtype == np.float32
    with weft.enable_x64(True):
        assert jnp.array([1.0]).dtype == np.float64


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_wide_arrays_are_reduced_in_the_width_of_the_scope() -> None:
    with weft.enable_x64(True):
        wide = jnp.arange(6.0).reshape(2, 3)
    for fn in (jnp.var, jnp.std, jnp.mean, weft.nn.softmax, weft.nn.logsumexp):
        assert fn(wide).dtype == np.float32
    np.testing.assert_allclose(weft.nn.softmax(wide).sum(-1), [1, 1], rtol=1e-6)


def test_fills_keep_weak_types() -> None:
    assert jnp.full(2, 7.0).weak_type and not jnp.full(2, 7.0, "float32").weak_type
    assert jnp.zeros_like(2.0).weak_type and not jnp.zeros_like(X).weak_type
    assert jnp.full((2, 3), jnp.arange(3)).tolist() == [[0, 1, 2]] * 2


@pytest.mark.parametrize("shape", [-1, (2, -1)])
def test_negative_sizes_are_refused(shape) -> None:
    with pytest.raises(TypeError, match="negative sizes"):
        jnp.zeros(shape)


def test_forgotten_parentheses_are_explained() -> None:
    with pytest.raises(TypeError, match=r"zeros\(\(2, 3\)\)"):
        jnp.zeros(2, 3)


def test_arange_of_a_traced_size() -> None:
    with pytest.raises(ConcretizationTypeError):
        weft.jit(lambda n: jnp.arange(n))(3)


def test_scalar_types_make_arrays_and_compare_as_dtypes() -> None:
    assert jnp.float32(2).dtype == jnp.float32 == np.float32
    assert jnp.int8([1, 2]).shape == (2,)
    assert np.zeros(2, jnp.float32).dtype == np.float32
    assert isinstance(np.int8(1), jnp.int8)


# --- while tracing --------------------------------------------------------------------------------


def text(function, *args) -> str:
    return str(weft.make_jaxpr(function)(*args))


def test_scalars_become_literals() -> None:
    for function in (lambda x: x * 2, lambda x: jnp.array(2) * x, lambda x: np.int64(2) * x):
        assert "2.0:f32[]" in text(function, X) and "convert" not in text(function, X)


def test_arrays_made_inside_are_constants_or_equations() -> None:
    assert "broadcast_in_dim 0.0:f32[]" in text(lambda x: x + jnp.zeros(3), X)
    assert "lambda a:i32[2];" in text(lambda x: jnp.array([1, 2]), X)
    assert "copy" in text(lambda x: jnp.array(x), X)
    assert "concatenate" in text(lambda x: jnp.array([x[0], x[1]]), X)


def test_arrays_made_inside_have_no_values() -> None:
    with pytest.raises(TracerArrayConversionError):
        weft.jit(lambda: np.asarray(jnp.array([1.0])))()
    with pytest.raises(ConcretizationTypeError):
        weft.jit(lambda: int(jnp.array(1)))()


def test_where_converts_its_scalars() -> None:
    got = text(lambda x: jnp.where(x > 0, x, 0.0), X[0])
    assert "convert_element_type[new_dtype=float32 weak_type=False] 0.0:f32[]" in got
    assert got.index("broadcast_in_dim") < got.index("select_n")


def test_methods_of_tracers() -> None:
    assert weft.jit(lambda x: x.var())(X) == pytest.approx(np.var(np.asarray(X)))
    rows = weft.jit(lambda x: [row.sum() for row in x])(X)
    assert [float(r) for r in rows] == [6.0, 15.0]


# --- operators and methods ------------------------------------------------------------------------


def test_operators_with_foreign_operands() -> None:
    n = np.asarray(X)
    assert isinstance(n + X, weft.Array) and isinstance(X + n, weft.Array)
    assert (2 - X)[0, 0] == 1 and (X @ n.T).shape == (2, 2) and (n @ X.T).shape == (2, 2)
    for bad in ([1, 2, 3], (1, 2, 3)):
        with pytest.raises(TypeError):
            X + bad
        with pytest.raises(TypeError):
            X == bad
    with pytest.raises(TypeError):
        X < "a"
    assert (X == object()) is False


def test_objects_that_stand_for_arrays() -> None:
    class Boxed:
        def __jax_array__(self) -> weft.Array:
            return X

    assert jnp.sum(X + Boxed()) == 2 * jnp.sum(X)
    assert jnp.sin(Boxed()).shape == X.shape


def test_ranks_are_promoted_or_refused() -> None:
    assert (X + X[0]).shape == X.shape
    with pytest.raises(ValueError, match=r"(?i)incompatible"):
        X + jnp.ones(4)
    with pytest.raises(TypeError, match=r"(?i)incompatible"):
        X + jnp.ones((2, 4))


def test_item_assignment_names_the_other_way() -> None:
    with pytest.raises(TypeError, match=r"\.at\[index\]\.set"):
        X[0] = 1  # type: ignore[index]


METHODS = {
    "sum": ((0,), {}),
    "mean": ((1,), {"keepdims": True}),
    "std": ((), {"ddof": 1}),
    "max": ((1,), {}),
    "argmin": ((0,), {}),
    "cumsum": ((1,), {}),
    "prod": ((), {}),
    "ptp": ((0,), {}) if hasattr(np.ndarray, "ptp") else None,
    "reshape": ((3, -1), {}),
    "transpose": ((1, 0), {}),
    "swapaxes": ((0, 1), {}),
    "ravel": ((), {"order": "F"}),
    "flatten": ((), {}),
    "take": (([0, 2],), {"axis": 1}),
    "repeat": ((2,), {"axis": 0}),
    "clip": ((2, 4), {}),
    "round": ((1,), {}),
    "diagonal": ((), {}),
    "trace": ((1,), {}),
    "squeeze": ((), {}),
    "all": ((), {}),
    "any": ((1,), {}),
    "dot": ((np.ones(3, np.float32),), {}),
    "view": (("int32",), {}),
}


@pytest.mark.parametrize("name", sorted(n for n, given in METHODS.items() if given))
def test_methods(name: str) -> None:
    args, options = METHODS[name]  # type: ignore[misc]
    ours_args = [jnp.array(a) if isinstance(a, list) else a for a in args]
    ours = getattr(X, name)(*ours_args, **options)
    n = np.asarray(X)
    # NumPy 2.0 took this method away
    method = partial(np.ptp, n) if name == "ptp" else getattr(n, name)
    theirs = method(*args, **options)
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)


def test_views_change_the_last_axis() -> None:
    assert X.view("uint8").shape == (2, 12)
    assert X.view("uint8").view("float32").tolist() == X.tolist()
    z = jnp.array([1 + 2j, 3 - 1j])
    assert z.view("float32").tolist() == [1.0, 2.0, 3.0, -1.0]
    assert z.view("float32").view("complex64").tolist() == z.tolist()
    with pytest.raises(ValueError, match="divides"):
        X.view("complex64")


def test_python_protocols() -> None:
    assert 2.0 in X[0] and 9.0 not in X[0]
    assert round(X[0, 0]) == 1 and abs(-X)[0, 0] == 1 and divmod(X, 2)[1][0, 0] == 1
    assert [float(v) for v in X[0]] == [1.0, 2.0, 3.0] and len(X) == 2
    assert X.__array_namespace__() is jnp and X.T.shape == X.mT.shape == (3, 2)
    assert X.real is not None and X.imag.sum() == 0 and X.nbytes == 24


# --- universal functions --------------------------------------------------------------------------


def test_ufunc_methods() -> None:
    n = np.asarray(X)
    for name in ("add", "multiply", "maximum", "subtract"):
        ours, theirs = getattr(jnp, name), getattr(np, name)
        np.testing.assert_allclose(ours.reduce(X), theirs.reduce(n))
        np.testing.assert_allclose(ours.accumulate(X, axis=1), theirs.accumulate(n, axis=1))
        np.testing.assert_allclose(ours.outer(X[0], X[1]), theirs.outer(n[0], n[1]))
        np.testing.assert_allclose(
            ours.reduceat(X[0], jnp.array([0, 2])), theirs.reduceat(n[0], [0, 2])
        )
        copied = n.copy()
        index = np.array([0, 0, 1])
        theirs.at(copied, index, np.float32(2))
        np.testing.assert_allclose(ours.at(X, index, 2.0, inplace=False), copied)


def test_ufuncs_of_python_functions() -> None:
    halfway = jnp.frompyfunc(lambda x, y: (x + y) / 2, 2, 1)
    assert halfway(X, 1.0).shape == X.shape
    assert halfway.reduce(X[0]) == 2.25
    assert repr(jnp.add) == "<jnp.ufunc 'add'>" and jnp.add.nin == 2
    with pytest.raises(NotImplementedError):
        jnp.add(X, X, where=True)
    with pytest.raises(ValueError, match="two arguments"):
        jnp.negative.reduce(X)


def test_vectorize_by_signature() -> None:
    matvec = jnp.vectorize(lambda a, v: a @ v, signature="(n,m),(m)->(n)")
    assert matvec(jnp.ones((4, 2, 3)), X[0]).shape == (4, 2)
    with pytest.raises(ValueError, match="core dimension"):
        matvec(jnp.ones((2, 3)), jnp.ones(4))


def test_out_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="immutable"):
        jnp.sum(X, out=X)


def test_reductions_over_named_axes() -> None:
    total = weft.vmap(lambda x: jnp.sum(x, axis=("i", 0)), axis_name="i")(X)
    assert total.tolist() == [21.0, 21.0]


def test_numpy_scalars_of_64_bits_become_those_of_32_first():
    """Also where they go on to be floats: as arrays of them do."""
    x, wide = jnp.arange(2.0), np.int64((1 << 40) + 3)
    for _ in range(4):  # the ordinary way, and by learnt code
        for got in (x + wide, jnp.add(x, wide), x + np.array(wide), x + np.array([wide, wide])):
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, [3, 4])


def test_masked_arrays_are_refused():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for use in (jnp.asarray, jnp.array, jnp.sin, lambda m: jnp.ones(2) + m, weft.jit(jnp.sum)):
        with pytest.raises(ValueError, match=r"masked array.*x\.filled"):
            use(masked)
    assert jnp.sum(masked.filled(0.0)) == 1
