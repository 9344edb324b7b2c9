"""Small calls that JAX 0.10.2 takes or refuses, each seen there."""

import pickle

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import export, lax
from weft.scipy.optimize import minimize

X = np.arange(4, dtype=np.float32)
LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


@pytest.mark.parametrize("n", [1, 3])
def test_lbfgs_takes_complex_vectors(n):
    target = jnp.arange(n) + 1j * jnp.arange(1, n + 1)

    def fun(z):
        return jnp.sum(jnp.abs(z - target) ** 2) + 0.1 * jnp.sum(jnp.abs(z[1:] - z[:-1]) ** 2)

    found = minimize(fun, jnp.ones(n, jnp.complex64), method=LBFGS)
    assert found.x.dtype == found.jac.dtype == jnp.complex64 and bool(found.success)
    assert np.abs(jax.grad(fun)(found.x)).max() < 1e-4
    np.testing.assert_allclose(found.jac, jax.grad(fun)(found.x), atol=1e-5)
    with pytest.raises(TypeError):
        minimize(fun, jnp.ones(n, jnp.complex64), method="BFGS")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_sums_of_one_element_are_no_sums(dtype):
    def total(*shape):
        return lax.reduce(jnp.ones(shape, dtype), jnp.array(0, dtype), lax.add, (0,))

    with jax.allow_f16_reductions(False):
        assert total(1, 3).tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="allow_f16_reductions"):
            total(2, 3)
        with pytest.raises(ValueError, match="allow_f16_reductions"):
            total(0, 3)


BAD = [
    ("xla_embed_ir_in_executable", "maybe"),
    ("xla_cpu_enable_fast_math", 3.5),
    ("xla_dump_max_hlo_modules", "abc"),
    ("xla_dump_max_hlo_modules", True),
    ("xla_dump_to", 3),
]


@pytest.mark.parametrize("name, value", BAD)
def test_values_that_are_none_of_an_option_are_refused(name, value):
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"{name} takes values of type"):
        jax.jit(lambda x: x, compiler_options={name: value})(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=name):
        jax.jit(lambda x: x).lower(X).compile(compiler_options={name: value})


@pytest.mark.parametrize("value", [True, "false", "1"])
def test_those_that_are_have_no_effect(value):
    with pytest.warns(UserWarning, match="has no effect"):
        options = {"xla_embed_ir_in_executable": value}
        assert jax.jit(lambda x: x + 1, compiler_options=options)(X).tolist() == (X + 1).tolist()


@pytest.mark.parametrize("groups", [1, 3, 5])
def test_ragged_dot_takes_symbolic_groups_and_rows(groups):
    """JAX refuses a number of groups that is symbolic; here one program serves all."""
    g, m = export.symbolic_shape("g, m")
    kinds = [
        jax.ShapeDtypeStruct((m, 3), np.float32),
        jax.ShapeDtypeStruct((g, 3, 2), np.float32),
        jax.ShapeDtypeStruct((g,), np.int32),
    ]
    made = export.export(jax.jit(lax.ragged_dot))(*kinds)
    rng = np.random.default_rng(groups)
    rows = groups + 4
    x, w = rng.normal(size=(rows, 3)), rng.normal(size=(groups, 3, 2))
    sizes = np.array([rows - groups + 1, *[1] * (groups - 1)], np.int32)
    expected = np.concatenate(
        [
            x[end - n : end] @ w[i]
            for i, (n, end) in enumerate(zip(sizes, sizes.cumsum(), strict=True))
        ]
    )
    found = made.call(x.astype(np.float32), w.astype(np.float32), sizes)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def test_structs_have_shardings_that_fit_and_do_not_change():
    mesh = jax.make_mesh((1,), ("x",), (jax.sharding.AxisType.Auto,))
    whole = jax.NamedSharding(mesh, jax.P("x"))
    struct = jax.ShapeDtypeStruct((4,), np.float32, sharding=whole)
    assert pickle.loads(pickle.dumps(jax.ShapeDtypeStruct((4,), np.int8))).shape == (4,)
    for bad in (jax.NamedSharding(mesh, jax.P(None, "x")), jax.P(None, "x"), "x"):
        with pytest.raises(ValueError, match=r"dimensions|a Sharding"):
            jax.ShapeDtypeStruct((4,), np.float32, sharding=bad)
    with pytest.raises(ValueError, match="dimensions"):
        struct.update(shape=())
    with pytest.raises(RuntimeError, match=r"update\(shape="):
        struct.shape = (3,)
    spec = jax.ShapeDtypeStruct((4,), np.float32, sharding=jax.P("x"))
    with pytest.raises(TypeError, match="set_mesh"):
        spec.sharding
    with jax.set_mesh(mesh):
        assert spec.sharding == whole
        compiled = jax.jit(lambda x: x * 2).lower(spec).compile()
        assert compiled.input_shardings[0][0].spec == jax.P("x")
        assert compiled.out_info.shape == (4,)


def test_arguments_of_an_export_have_dimensions_of_one_scope():
    (a,), (b,) = export.symbolic_shape("a"), export.symbolic_shape("b")
    struct = lambda n: jax.ShapeDtypeStruct((n,), np.float32)
    with pytest.raises(ValueError, match="of different scopes"):
        export.export(jax.jit(lambda x, y: (x, y)))(struct(a), struct(b))
    made = export.export(jax.jit(lambda x, y: (x, y)))(struct(a), struct(a + 1))
    assert [str(aval.shape[0]) for aval in made.out_avals] == ["a", "a + 1"]
