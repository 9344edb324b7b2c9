"""Exported programs: their attributes, public functions, shardings, trees, and what is refused."""

SETUP = """
import functools
f32 = lambda *shape: jax.ShapeDtypeStruct(shape, "float32")
def sym(text, **kw): return jax.ShapeDtypeStruct(export.symbolic_shape(text, **kw), "float32")
ex = lambda f, *args, **kw: export.export(f if hasattr(f, "lower") else jax.jit(f), **kw)(*args)
# JAX needs another package to write programs
again = lambda e: e if jax.__name__ == "jax" else export.deserialize(e.serialize())
devs = jax.devices()
m2 = Mesh(np.array(devs[:2]), "x", axis_types=(AxisType.Auto,))
m4 = Mesh(np.array(devs[:4]).reshape(2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
s2 = NamedSharding(m2, P("x")); s4 = NamedSharding(m4, P("x", "y"))
x8 = np.arange(8.0, dtype="float32"); x44 = np.arange(16.0, dtype="float32").reshape(4, 4)
def told(s): return None if s is None else (s.num_devices, s.shard_shape((8,)))
con = lambda s: jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, s))
both = jax.jit(lambda x: x + 1, in_shardings=s2, out_shardings=s2)
sm = jax.jit(jax.shard_map(lambda x: x * 2 + jax.lax.axis_index("x"), mesh=m2, in_specs=P("x"), out_specs=P("x")))
ps = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=m2, in_specs=P("x"), out_specs=P()))
dp = jax.jit(lambda x: jax.device_put(x, s2) + 1)
"""

_PUBLIC = [
    f"(lambda e: (e.fun_name, e.call(x8), again(e).call(x8)))(ex(jnp.{name}, f32(8)))"
    for name in ("sin", "exp", "square", "sort", "cumsum", "argsort", "isnan", "median", "ravel", "nan_to_num")
] + [
    "ex(jnp.dot, f32(8), f32(8)).call(x8, x8)", "ex(jnp.matmul, f32(4, 4), f32(4, 4)).out_avals",
    "ex(jax.nn.sigmoid, f32(8)).call(x8)", "ex(jnp.linalg.norm, f32(8)).call(x8)", "ex(jax.nn.softplus, f32(8)).call(x8)",
    "ex(jnp.sin, sym('b')).call(x8)", "export.export(lambda x: x)(f32(8))", "export.export(3)", "export.export(len)(f32(8))",
]  # fmt: skip

_ATTRIBUTES = [
    f"ex(lambda x: x * 2, {spec}{options}).{name}"
    for name in ("uses_global_constants", "nr_devices", "platforms", "module_kept_var_idx", "in_shardings_hlo",
                 "out_shardings_hlo", "ordered_effects", "has_vjp()")
    for spec, options in (("f32(8)", ""), ("sym('b')", ""), ("f32(8)", ", platforms=('cpu', 'cuda')"))
]  # fmt: skip

_SHARDED = [
    form.format(f=f)
    for form in (
        "{f}.nr_devices", "[x is None for x in {f}.in_shardings_hlo]", "[x is None for x in {f}.out_shardings_hlo]",
        "[told(s) for s in {f}.in_shardings_jax(m2)]", "[told(s) for s in {f}.out_shardings_jax(m2)]",
        "again({f}).nr_devices", "[told(s) for s in again({f}).in_shardings_jax(m2)]",
        "{f}.call(jax.device_put(x8, s2))", "again({f}).call(jax.device_put(x8, s2))", "{f}.call(x8)",
        "jax.jit({f}.call)(jax.device_put(x8, s2))", "jax.jit({f}.call, in_shardings=s2)(x8)",
        "{f}.call(jax.device_put(x8, NamedSharding(m4, P('x'))))", "{f}.call(jax.device_put(x8, NamedSharding(m4, P())))",
        "{f}.call(jax.device_put(x8, devs[0]))",
        "jax.grad(lambda x: {f}.call(x).sum())(jax.device_put(x8, s2))",
        "told({f}.call(jax.device_put(x8, s2)).sharding)", "{f}.in_avals, {f}.out_avals",
    )
    for f in ("ex(both, f32(8))", "ex(con(s2), f32(8))", "ex(sm, f32(8))", "ex(ps, f32(8))", "ex(dp, f32(8))",
              "ex(lambda x: x * 2, f32(8))")
] + [
    "ex(con(s4), f32(4, 4)).nr_devices", "ex(con(s4), f32(4, 4)).call(jax.device_put(x44, s4))",
    "ex(con(s4), f32(4, 4)).call(x44)", "again(ex(con(s4), f32(4, 4))).call(jax.device_put(x44, s4))",
    "ex(jax.jit(lambda x: x, in_shardings=s4), f32(4, 4)).nr_devices",
    "ex(lambda x: x, jax.ShapeDtypeStruct((8,), 'float32', sharding=s2)).nr_devices",
    "ex(lambda x: x + 1, jax.device_put(x8, s2)).nr_devices", "ex(lambda x: x + 1, jax.device_put(x8, devs[1])).nr_devices",
    "ex(con(s2), sym('b')).nr_devices", "ex(con(s2), sym('2*b')).call(jax.device_put(x8, s2))",
    "ex(sm, sym('2*b')).call(jax.device_put(x8, s2))",
    "ex(jax.pmap(lambda x: x), f32(2, 3))",
]  # fmt: skip

_TREES = [
    "ex(lambda d: d, {'a': f32(8)}).call({'a': x8})", "again(ex(lambda d: d, {'a': f32(8)})).call({'a': x8})",
    "ex(lambda d: d, {1: f32(8)}).call({1: x8})", "ex(lambda x: {1: x}, f32(8)).call(x8)",
    "(lambda e: again(e).call(x8, y=x8))(export.export(jax.jit(lambda x, y: x + y))(f32(8), y=f32(8)))",
]  # fmt: skip

_UNSOLVED = [
    "(lambda m: ex(lambda x: x, jax.ShapeDtypeStruct((m,), 'float32')).in_avals)(export.symbolic_shape('m', constraints=['m >= m1'])[0])",
    "(lambda m: ex(lambda x: x, jax.ShapeDtypeStruct((m,), 'float32')).in_avals)(export.symbolic_shape('m', constraints=['m >= 2'])[0])",
    "(lambda m: ex(lambda x: x, jax.ShapeDtypeStruct((m,), 'float32')).in_avals)(export.symbolic_shape('m', constraints=['m == 2*m1'])[0])",
    "(lambda m: ex(lambda x: x, jax.ShapeDtypeStruct((m,), 'float32')).in_avals)(export.symbolic_shape('m', constraints=['m <= m1 + 3', 'm1 >= 2'])[0])",
    "ex(lambda x: x, sym('a*b'))", "ex(lambda x: x, sym('a + b'))", "ex(lambda x: x, sym('floordiv(a, 2)'))",
    "ex(lambda x: x, sym('mod(a, 2), b'))", "ex(lambda x: x, sym('a^2'))", "ex(lambda x: x, sym('max(a, 3)'))",
    "ex(lambda x: x, sym('a + b, a - b'))", "ex(lambda x: x, sym('2*a + 4')).call(x8)", "ex(lambda x: x, sym('a*b, b')).in_avals",
    "ex(lambda x: x, sym('3*a')).call(x8)", "ex(lambda x: x, sym('-a + 9')).call(x8)",
    "jax.eval_shape(lambda x: x, sym('a*b')).shape", "(lambda s: jax.core.max_dim(s[0], 3))(export.symbolic_shape('a'))",
    "(lambda s: jax.core.min_dim(s[0], s[0] + 1))(export.symbolic_shape('a'))", "jax.core.max_dim(3, 4)",
]  # fmt: skip

PROGRAMS = [*_PUBLIC, *_ATTRIBUTES, *_SHARDED, *_TREES, *_UNSOLVED]

# JAX has no shard_map over symbolic sizes here.
MORE = ("ex(sm, sym('2*b'))",)
