"""What functions compute and move, as jax.experimental.roofline counts it."""

SETUP = """
r = module("experimental.roofline")
import dataclasses
x, y, v = jnp.ones((4, 8)), jnp.ones((8, 16)), jnp.ones(8)
b = jnp.ones((4, 8), "bfloat16")
m4 = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
m2 = Mesh(np.array(jax.devices()[:2]), "x", axis_types=(AxisType.Auto,))
def count(f, *args, **kw):
    shape, found = r.roofline(f, **kw)(*args)
    return jax.tree.map(lambda s: str(s.shape), shape), dataclasses.asdict(found)
def sharded(f, *args, mesh=m2, **kw): return count(f, *args, mesh=mesh, **kw)[1]
def sizes(f, *args): return {k: n for k, n in count(f, *args)[1].items() if k != "peak_hbm_bytes"}
"""

_UNARY = "abs acos asin atan cbrt ceil cos cosh exp expm1 floor log log1p logistic neg round rsqrt sign sin sinh sqrt square tan erf erfc erf_inv lgamma digamma bessel_i1e is_finite tanh".split()
_BINARY = "add sub mul div rem gt lt ge le eq ne min max pow atan2".split()
PROGRAMS = [
    *[f"count(lax.{name}, x)" for name in _UNARY],
    *[f"count(lax.{name}, x, x)" for name in _BINARY],
    *[f"count(lax.{name}, b, b)" for name in ("add", "max")],
    "count(lax.bitwise_and, jnp.ones(3, int), jnp.ones(3, int))", "count(lax.bitwise_not, jnp.ones(3, int))",
    "count(lambda x, y: x @ y, x, y)", "count(lambda x, y: x @ y, x, y, pin_lhs_in_vmem=True)",
    "count(lambda x, y: x @ y, x, y, pin_rhs_in_vmem=True)", "count(lambda x: jnp.einsum('ij,ij->i', x, x), x)",
    "count(lambda x: x.sum(), x)", "count(lambda x: x.sum(0), x)", "count(lambda x: x.sum(1), x)", "count(lambda x: x.T, x)",
    "count(lambda x: x.reshape(-1), x)", "count(lambda x: x + 1, x)", "count(lambda x: jnp.sin(x) * 2, x)", "count(lambda x: x[0], x)",
    "count(lambda x: lax.cumsum(x, 1), x)", "count(lambda x: lax.cummax(x, 0), x)", "count(lambda x: lax.cumlogsumexp(x, 1), x)",
    "count(lambda x: lax.integer_pow(x, 3), x)", "count(lambda x: jnp.where(x > 0, x, 0.), x)", "sizes(jax.nn.softmax, x)",
    "count(jax.jit(lambda x: jnp.exp(x)), x)", "count(lambda x: jax.checkpoint(jnp.exp)(x), x)", "count(lambda x: (x + 1) * (x + 2), x)",
    "count(lambda x, y: lax.conv(x, y, (1, 1), 'SAME'), jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3)))",
    "count(lambda x, y: lax.conv(x, y, (2, 2), 'VALID'), jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3)))",
    "count(lambda x, y: lax.conv_general_dilated(x, y, (1, 1), [(1, 2), (0, 0)], (2, 1), (1, 2)), jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3)))",
    "count(lambda x: x, x)", "count(lambda: jnp.ones(3))", "count(lambda x: {'a': x * 2, 'b': x}, x)",
    "sharded(lambda x: lax.psum(x, 'x'), x, in_specs=P('x'), out_specs=P())", "sharded(lambda x: x * 2, x, in_specs=P('x'), out_specs=P('x'))",
    "sharded(lambda x: lax.all_gather(x, 'x'), x, in_specs=P('x'), out_specs=P('x'))",
    "sharded(lambda x: lax.psum_scatter(x, 'x', tiled=True), x, in_specs=P(None, 'x'), out_specs=P('x'))",
    "sharded(lambda x: lax.pmax(x, 'x'), x, in_specs=P('x'), out_specs=P())",
    "sharded(lambda x: lax.all_to_all(x, 'x', 0, 0, tiled=True), x, in_specs=P('x'), out_specs=P('x'))",
    "sharded(lambda x: lax.psum(x, ('x', 'y')), x, mesh=m4, in_specs=P('x', 'y'), out_specs=P())",
    "sharded(lambda x: lax.all_gather(x, ('x', 'y')), x, mesh=m4, in_specs=P(('x', 'y')), out_specs=P(('x', 'y')))",
    "[dataclasses.asdict(t)['flops'] for t in r.roofline_and_grad(lambda x, y: x @ y, m2, (P(), P()), P())(*[jax.ShapeDtypeStruct(s, 'bfloat16', sharding=NamedSharding(m2, P())) for s in ((4, 8), (8, 4))])[1:]]",
    "dataclasses.asdict(r.RooflineResult(flops=2, ici_bytes={'x': 3}) + r.RooflineResult(flops=3, ici_bytes={'y': 1}, peak_hbm_bytes=4))",
    "dataclasses.asdict(r.RooflineResult(flops=2, peak_hbm_bytes=5) * 3)", "dataclasses.asdict(r.RooflineResult.zeros())",
    "r.RooflineShape(shape=(2, 3), dtype=np.dtype('int8')).bytes",
]  # fmt: skip
