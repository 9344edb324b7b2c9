"""Lines for tests/parallel/cases_types.py that are made: operations of each family, on operands that
are divided in each way, and with what is said of the result."""
# ruff: noqa: E501

from tests.parallel.programs_types import add

SPECS = ["", "'x'", "None, 'x'", "'x', 'y'", "('x', 'y')"]
ONE = """
jnp.exp(a)
jnp.abs(-a)
a.astype(int)
jnp.clip(a, 1, 2)
a.T
a.sum(0)
a.sum(1)
a.sum()
a.max(0)
a.prod(1)
a.any(0)
jnp.argmax(a, 1)
jnp.argmin(a, 0)
jnp.cumsum(a, 0)
jnp.cumprod(a, 1)
jnp.sort(a, 0)
jnp.sort(a, 1)
jnp.argsort(a, 1)
lax.top_k(a, 2)
a[0]
a[:, 1]
a[2:6]
a[::2]
a[:, None]
a[jnp.array([0, 3])]
jnp.take(a, jnp.array([1, 2]), axis=1)
a.at[0].set(1)
a.at[:, 0].add(1)
lax.dynamic_slice(a, (0, 0), (4, 4))
lax.dynamic_slice(a, (0, 0), (8, 2))
lax.dynamic_update_slice(a, a, (0, 0))
jnp.flip(a, 0)
jnp.roll(a, 1, 1)
jnp.pad(a, ((0, 0), (1, 1)))
jnp.pad(a, ((1, 1), (0, 0)))
jnp.concatenate([a, a])
jnp.concatenate([a, a], 1)
jnp.stack([a, a], 1)
jnp.split(a, 2)
jnp.split(a, 2, 1)
jnp.broadcast_to(a, (3, 8, 4))
jnp.expand_dims(a, (0, 2))
a.reshape(8, 4, 1)
a.reshape(32)
a.reshape(2, 4, 4)
jnp.tile(a, (1, 2))
jnp.repeat(a, 2, 1)
jnp.where(a > 1, a, 0)
jax.nn.softmax(a, 1)
jax.nn.logsumexp(a, 0)
jax.nn.one_hot(a[:, 0].astype(int), 4)
jnp.tril(a)
jnp.diff(a, axis=0)
jnp.fft.fft(a)
jnp.fft.fft(a, axis=0)
jnp.linalg.norm(a, axis=1)
lax.reduce_window(a, 0., lax.add, (1, 2), (1, 1), 'VALID')
lax.reduce_precision(a, 5, 10)
lax.bitcast_convert_type(a, 'int32')
lax.rev(a, (1,))
lax.cumsum(a, 1)
lax.reduce(a, 0., lax.add, (0,))
lax.associative_scan(jnp.add, a, axis=1)
lax.scan(lambda c, r: (c + r.sum(), r), 0., a)
lax.map(lambda r: r * 2, a)
lax.cond(True, lambda x: x, lambda x: x * 2, a)
lax.fori_loop(0, 2, lambda i, x: x + 1, a)
vmap(lambda r: r.sum())(a)
vmap(lambda r: r * 2, in_axes=1)(a)
grad(lambda x: (x ** 2).sum())(a)
jax.checkpoint(jnp.sin)(a)
jnp.matvec(a, jnp.ones(4))
jnp.dot(a, jnp.ones((4, 2)))
jnp.einsum('ij->ji', a)
jnp.einsum('ij->i', a)
"""
SAID = """
reshard(a, P('y'))
reshard(a, P(None, 'y'))
jnp.dot(a, jnp.ones((4, 2)), out_sharding=P('x'))
jnp.dot(a, jnp.ones((4, 2)), out_sharding=P())
jnp.einsum('ij,jk->ik', a, jnp.ones((4, 2)), out_sharding=P(None, 'y'))
a.reshape(32, out_sharding=P('x'))
lax.reshape(a, (4, 8), out_sharding=P('y'))
a.at[0].get(out_sharding=P('y'))
a.at[jnp.array([0, 3])].get(out_sharding=P(None, 'y'))
jnp.take(a, jnp.array([0, 1]), axis=0, mode='clip')
lax.reduce_sum(a, axes=(0,), out_sharding=P('y'))
jnp.broadcast_to(a, (2, 8, 4), out_sharding=P('y'))
"""
TWO = (
    "a + b",
    "a * b",
    "jnp.maximum(a, b)",
    "jnp.where(a > b, a, b)",
    "a @ b.T",
    "jnp.concatenate([a, b], 1)",
)
TWO += (
    "lax.dynamic_update_slice(a, b, (0, 0))",
    "jnp.einsum('ij,ij->i', a, b)",
    "jnp.dot(a, b.T, out_sharding=P('x'))",
)
MADE = """
jnp.zeros((8, 4), out_sharding=P('x', 'y'))
jnp.full((8, 4), 2, out_sharding=P(None, 'x'))
jnp.arange(8, out_sharding=P('x'))
jnp.eye(4, out_sharding=P('x'))
jnp.linspace(0, 1, 8, out_sharding=P('x'))
lax.iota('int32', 8)
lax.broadcasted_iota('int32', (8, 4), 0, out_sharding=P('y'))
jax.random.uniform(jax.random.key(0), (8, 4), out_sharding=P('x'))
jax.random.normal(jax.random.key(0), (8, 4), out_sharding=P('x', 'y'))
jax.random.bits(jax.random.key(0), (8,), out_sharding=P('x'))
jax.random.split(jax.random.key(0), 4)
jnp.zeros((3, 4), out_sharding=P('x'))
jnp.zeros((8, 4), out_sharding=P('x', 'x'))
jnp.zeros((8, 4), out_sharding=P('q'))
jnp.zeros((8,), out_sharding=P('x', 'y'))
"""


def _filled(text, a, b=""):
    """A line with operands in the places of ``a`` and ``b``."""
    return f"(lambda a, b: {text})(put((8, 4){', ' if a else ''}{a}), put((8, 4){', ' if b else ''}{b}))"


for _text in [*ONE.strip().splitlines(), *SAID.strip().splitlines()]:
    for _spec in SPECS:
        add("grid", _filled(_text, _spec))
for _text in TWO:
    for _pair in (
        ("'x'", "'x'"),
        ("'x'", ""),
        ("'x'", "'y'"),
        ("'x'", "None, 'x'"),
        ("'x', 'y'", "'x'"),
        ("('x', 'y')", "'x'"),
    ):
        add("grid", _filled(_text, *_pair))
add("grid", *MADE.strip().splitlines())
