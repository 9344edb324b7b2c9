"""Parts of references as arguments of functions inside a traced one."""

SETUP = """
x = jnp.arange(4.0)
def put(v): v[...] = v[...] * 2. + 1.
def on(make, call):
    def f(x):
        r = jax.new_ref(x)
        call(make(r))
        return r[...]
    return jax.jit(f)(x)
jitted = lambda v: jax.jit(put)(v)
cond = lambda v: lax.cond(True, put, lambda v: None, v)
remat = lambda v: jax.checkpoint(put)(v)
scan = lambda v: lax.scan(lambda c, _: (put(v), None), None, None, length=2)
loop = lambda v: lax.fori_loop(0, 2, lambda i, c: jax.jit(put)(v), None)
nested = lambda v: jax.jit(lambda v: lax.switch(1, [put, lambda v: jax.jit(put)(v)], v))(v)
tree = lambda v: jax.jit(lambda t: put(t["a"][0]))({"a": [v]})
deeper = lambda v: jax.jit(lambda v: put(v.at[:1]))(v)
def twice(v): jax.jit(lambda a, b: (put(a), put(b)))(v, v)
"""

_PARTS = [
    "r",
    "r.at[1:3]",
    "r.at[::2]",
    "r.at[jnp.array([0, 2])]",
    "r.at[jax.ds(jnp.int32(1), 2)]",
    "r.at[1:].at[:2]",
]
_CALLS = ["jitted", "cond", "remat", "scan", "loop", "nested", "tree", "deeper", "twice"]
PROGRAMS = [
    *[f"on(lambda r: {part}, {call})" for part in _PARTS for call in _CALLS],
    *[f"on(lambda r: {part}, {call})" for part in ("r.at[2]", "r.at[jnp.int32(2)]", "r.at[-1]") for call in _CALLS[:5]],
    "jax.jit(jax.grad(lambda x: (lambda r: (jax.jit(put)(r.at[1:]), (r[...] ** 2).sum())[1])(jax.new_ref(x))))(x)",
    "jax.jit(jax.vmap(lambda x: (lambda r: (jax.jit(put)(r.at[1:]), r[...])[1])(jax.new_ref(x))))(jnp.ones((2, 3)))",
    "(lambda r: (jax.jit(put)(r.at[1:]), r[...])[1])(jax.new_ref(x))",
]  # fmt: skip
