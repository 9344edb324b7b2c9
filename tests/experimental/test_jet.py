"""Taylor mode against nested forward mode along a curve."""

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.experimental import jet as jet_module
from weft.experimental.jet import fact, jet, jet2

ORDER = 3


def along(f, primals, series):
    """Value and derivatives at 0 of f on the curve with these derivatives, by nested jvp."""

    def curve(t):
        args = [
            x + sum(c * t ** (k + 1) / fact(k + 1) for k, c in enumerate(terms))
            for x, terms in zip(primals, series)
        ]
        return f(*args)

    found, g = [], curve
    for _ in range(len(series[0]) + 1):
        found.append(g(0.0))
        g = functools.partial(lambda h, t: weft.jvp(h, (t,), (1.0,))[1], g)
    return found[0], found[1:]


def check(f, shapes, order=ORDER, low=0.2, high=0.8, tol=1e-8):
    rng = np.random.RandomState(0)
    with weft.enable_x64(True):
        primals = [jnp.asarray(rng.uniform(low, high, s)) for s in shapes]
        series = [[jnp.asarray(rng.randn(*s)) for _ in range(order)] for s in shapes]
        value, terms = jet(f, primals, series)
        want, want_terms = along(f, primals, series)
        np.testing.assert_allclose(value, want, rtol=tol)
        assert len(terms) == order
        for got, expected in zip(terms, want_terms):
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=tol, atol=tol)


UNARY = """
sin cos tan sinh cosh tanh exp exp2 expm1 log log1p sqrt square abs arcsin arccos arctan arcsinh
arctanh cbrt reciprocal negative sign floor cumsum cumprod sum prod max min mean var sort flip
ravel nanmax median
""".split()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name):
    check(getattr(jnp, name), [(5,)])


LAX = {
    "rsqrt": lax.rsqrt,
    "logistic": lax.logistic,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erf_inv": lax.erf_inv,
    "lgamma": lax.lgamma,
    "digamma": lax.digamma,
    "integer_pow": lambda x: lax.integer_pow(x, 5) + lax.integer_pow(x, -3),
    "cummax": lambda x: lax.cummax(x, reverse=True),
    "cumlogsumexp": lax.cumlogsumexp,
    "gather": lambda x: x[jnp.array([2, 0])],
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1,), (2,)),
    "dynamic_update": lambda x: lax.dynamic_update_slice(x, x[:2] * 2, (1,)),
    "scatter": lambda x: x.at[jnp.array([1, 1])].add(x[:2] ** 2),
    "scatter_set": lambda x: x.at[1].set(x[0] ** 2),
    "scatter_mul": lambda x: x.at[1].multiply(x[0]),
    "pad": lambda x: lax.pad(x, 0.0, [(1, 2, 1)]),
    "concatenate": lambda x: jnp.concatenate([x, x**2]),
    "where": lambda x: jnp.where(x > 0.5, x**2, jnp.sin(x)),
    "clamp": lambda x: lax.clamp(0.3, x, 0.6) * x,
    "argmax": lambda x: x[jnp.argmax(x)] * jnp.argmax(x),
    "convert": lambda x: x.astype(np.int32).astype(np.float64) + x,
    "bitwise": lambda x: jnp.sum(jnp.where((x > 0.3) & (x < 0.7), x, 0.0)),
    "logsumexp": lambda x: weft.nn.logsumexp(x),
    "softmax": lambda x: weft.nn.softmax(x) ** 2,
    "silu": lambda x: weft.nn.silu(x),
    "stack": lambda x: jnp.stack([x, x * x]).T,
    "complex": lambda x: jnp.abs(x + 1j * x**2),
    "fft": lambda x: jnp.abs(jnp.fft.fft(x)) ** 2,
    "constant": lambda x: x * 2.0 / 3.0 + 1.0,
    "remat": lambda x: weft.checkpoint(lambda v: jnp.sin(v) * v)(x),
    "vmap": lambda x: weft.vmap(lambda v: jnp.sin(v) * jnp.sum(x))(x),
    "jit": lambda x: weft.jit(lambda v, w: (jnp.sin(v) * w, w))(x, 2.0)[0],
    "grad": lambda x: weft.grad(lambda v: jnp.sum(jnp.sin(v) ** 2))(x),
}


@pytest.mark.parametrize("name", LAX)
def test_lax_and_library(name):
    check(LAX[name], [(5,)], tol=1e-7)


def test_stop_gradient_has_no_series():
    _, terms = jet(lambda x: 2 * lax.stop_gradient(x), (2.0,), ((1.0, 1.0),))
    assert [float(t) for t in terms] == [0.0, 0.0]


BINARY = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": jnp.divide,
    "power": jnp.power,
    "arctan2": jnp.arctan2,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "remainder": jnp.remainder,
    "hypot": jnp.hypot,
    "logaddexp": jnp.logaddexp,
    "rem": lax.rem,
    "constant_power": lambda x, y: x**2.5 * y,
}


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name):
    check(BINARY[name], [(4,), (4,)], tol=1e-7)


def test_broadcasting():
    check(lambda x, y: (x + y) * y - x / y, [(), (3,)])


def test_products():
    check(jnp.matmul, [(2, 3), (3, 4)])
    check(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), [(1, 2, 4, 4), (2, 2, 3, 3)], order=3)
    check(lambda a: jnp.linalg.solve(a @ a.T + jnp.eye(3), a[0]), [(3, 3)], order=3, tol=1e-6)
    check(lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(3)), [(3, 3)], order=3, tol=1e-6)


def test_control_flow():
    check(lambda x: lax.cond(x[0] > 0, lambda v: v**2, lambda v: v * 0.0, x), [(3,)])
    check(lambda x: lax.switch(1, [jnp.sin, jnp.cos, lambda v: 0 * v], x), [(3,)])
    check(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c) * x, x), [(3,)])
    check(
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1],
        [()],
    )

    def scanned(x, y):
        step = lambda c, a: ((c[0] * a, c[1] + 1), jnp.sin(c[0]) * y)
        (last, count), out = lax.scan(step, (1.0, 0), x)
        return out * last * count

    check(scanned, [(3,), ()])
    check(lambda x: lax.map(jnp.sin, x), [(3,)])
    # a carry that starts constant and begins to move in the loop
    check(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + 1.0, 1.0), [()])


def test_under_other_transformations():
    def second(x):
        return jet(jnp.sin, (x,), ((1.0, 0.0),))[1][1]

    x = jnp.array(0.3)
    np.testing.assert_allclose(second(x), -jnp.sin(x), rtol=1e-6)
    np.testing.assert_allclose(weft.jit(second)(x), -jnp.sin(x), rtol=1e-6)
    np.testing.assert_allclose(weft.grad(second)(x), -jnp.cos(x), rtol=1e-6)
    xs = jnp.arange(3.0)
    np.testing.assert_allclose(weft.vmap(second)(xs), -jnp.sin(xs), rtol=1e-6)
    nested = jet(lambda v: second(v), (x,), ((1.0,),))
    np.testing.assert_allclose(nested[1][0], -jnp.cos(x), rtol=1e-6)


def test_trees_come_out():
    value, terms = jet(lambda x, y: {"a": x * y, "b": (y,)}, (2.0, 3.0), ((1.0,), (0.0,)))
    assert float(value["a"]) == 6.0
    assert [float(t) for t in terms["a"]] == [3.0]
    assert [float(t) for t in terms["b"][0]] == [0.0]


def test_plain_coefficients():
    value, terms = jet2(jnp.exp, (0.0,), ((1.0, 0.0, 0.0),))
    np.testing.assert_allclose([value, *terms], [1, 1, 1 / 2, 1 / 6], rtol=1e-6)


def test_order_zero():
    value, terms = jet(jnp.sin, (0.5,), ((),))
    assert float(value) == pytest.approx(np.sin(0.5))
    assert terms == []


def test_ties_share():
    _, (first,) = jet(jnp.maximum, (1.0, 1.0), ((2.0,), (4.0,)))
    assert float(first) == 3.0
    _, (first,) = jet(jnp.max, (jnp.array([1.0, 1.0]),), ((jnp.array([2.0, 4.0]),),))
    assert float(first) == 3.0


def test_high_order_is_exact_for_polynomials():
    _, terms = jet(lambda x: x**6, (1.0,), ((1.0, *[0.0] * 6),))
    np.testing.assert_allclose(terms, [6, 30, 120, 360, 720, 720, 0], rtol=1e-5)


def test_rules_of_users():
    class Cube(weft.extend.core.Primitive):
        pass

    cube = Cube("cube")
    cube.def_impl(lambda x: np.asarray(x) ** 3)
    cube.def_abstract_eval(lambda x: x)
    jet_module.def_deriv(cube, lambda x: 3 * x * x)
    _, terms = jet(lambda x: cube.bind(x), (jnp.array(2.0),), ((1.0, 0.0, 0.0),))
    np.testing.assert_allclose(terms, [12, 12, 6], rtol=1e-5)
    jet_module.def_comp(cube, lambda x: x * x * x)
    _, terms = jet(lambda x: cube.bind(x), (jnp.array(2.0),), ((1.0, 0.0, 0.0),))
    np.testing.assert_allclose(terms, [12, 12, 6], rtol=1e-5)
    jet_module.defzero(cube)
    _, terms = jet(lambda x: cube.bind(x), (jnp.array(2.0),), ((1.0,),))
    assert float(terms[0]) == 0.0


def test_mistakes():
    with pytest.raises(ValueError, match="inconsistent lengths"):
        jet(jnp.add, (1.0, 2.0), ((1.0,), (1.0, 2.0)))
    with pytest.raises(ValueError, match="position 0 is not an array"):
        jet(lambda x: x, ((1.0, 2.0),), ((1.0,),))
    with pytest.raises(ValueError, match="term 0 for argument 0"):
        jet(lambda x: x, (1.0,), (([1.0],),))
