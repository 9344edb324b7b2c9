"""The lines that tests/parallel/cases_types.py runs; programs_sums.py has more of them."""
# ruff: noqa: E501

LINES = []


def add(meshes, *texts):
    """Lines for each of some meshes, named in one string; none for ``-``."""
    for mesh in meshes.split():
        for text in texts:
            line = text if mesh == "-" else f"{mesh} | {text}"
            if line not in LINES:
                LINES.append(line)


# --- specs of results -----------------------------------------------------------------------------

add(
    "line grid mixed",
    "put((8, 2), 'x')",
    "jnp.sin(put((8, 2), 'x'))",
    "put((8, 2), 'x').sum(0)",
    "put((8, 2), 'x').sum()",
    "put((8, 2), 'x').reshape(1, 8, 2)",
    "put((8, 2), 'x', None) * 2",
    "put((4, 2, 2), 'x', None) + 1",
    "jnp.ones((4, 4))",
    "jit(lambda: jnp.ones((4, 4)))()",
    "jit(lambda x: x)(put((8, 2), 'x'))",
    "jit(lambda x: (x.T, x[:, 0], x + 1, 2.0))(put((8, 2), 'x'))",
    "grad(lambda x: (x * x).sum())(put((8, 2), 'x'))",
    "reshard(put((8, 2), 'x'), P())",
    "reshard(put((8, 2), 'x'), P(None, 'x'))",
    "jit(lambda x: reshard(x, P('x')))(X)",
    "jnp.zeros((4, 4), out_sharding=P('x'))",
    "jnp.array(put((8, 2), 'x'))",
    "put((8, 2), 'x').copy()",
    "jnp.asarray(put((8, 2), 'x'))",
    "vmap(lambda r: 2 * r)(put((8, 2), 'x'))",
    "lax.scan(lambda c, _: (c, c), put((8, 2), 'x'), None, length=3)[1]",
    "shard_map(lambda x: x, in_specs=P('x'), out_specs=P('x'))(put((8, 2), 'x'))",
    "jit(shard_map(lambda x: x, in_specs=P('x'), out_specs=P('x')))(put((8, 2), 'x'))",
    "str(jax.eval_shape(lambda x: x + 1, put((8, 2), 'x')).sharding)",
)
add(
    "line grid auto agrid",
    "put((8, 2), 'x', None)",
    "jit(lambda x: x)(put((8, 2), 'x'))",
    "jnp.sin(put((8, 2), 'x', None))",
    "put((8, 2), 'x', None).T",
    "jit(lambda x: 1 * x, out_shardings=P('x'))(put((8, 2), 'x'))",
    "jit(lambda x: 1 * x, out_shardings=P('x', None))(X)",
    "jit(lambda x: (x, 2 * x), out_shardings=(P(None, 'x'), None))(X)[0]",
    "jit(jit(lambda x: 1 * x, out_shardings=P('x', None)))(put((8, 2), 'x'))",
    "jnp.ones((4, 4))",
)
add(
    "line grid",
    "jit(lambda x: jax.device_put(x, P('x')))(X)",
    "str(jax.eval_shape(lambda: jnp.ones(3)).sharding)",
)
add(
    "auto agrid",
    "lax.with_sharding_constraint(X, P('x', None))",
    "jit(lambda x: lax.with_sharding_constraint(x, P('x', None)))(X)",
)
# --- types inside of shard_map --------------------------------------------------------------------

add(
    "line auto",
    "noted(lambda n: shard_map(n, in_specs=P('x'), out_specs=P('x'))(put((4,), 'x')))",
    "noted(lambda n: jit(shard_map(lambda x: n(x * 2), in_specs=P('x'), out_specs=P('x')))(X))",
    "noted(lambda n: shard_map(lambda x: n(lax.psum(x, 'x')), in_specs=P('x'), out_specs=P())(put((4,), 'x')))",
)
add(
    "agrid",
    "noted(lambda n: shard_map(lambda x: n(x), in_specs=P('y', 'x'), out_specs=P('y', 'x'))(X))",
    "noted(lambda n: shard_map(lambda x: n(lax.psum(x, 'x')), in_specs=P('y', 'x'), out_specs=P('y'))(X))",
    "str([sorted(typeof(x).mat.varying) for x in [X]])",
)
add(
    "-",
    "repr(ManualAxisType(varying=frozenset('x')))",
    "repr(ManualAxisType(varying=frozenset('x')).update(reduced=frozenset('y')))",
    "setattr(ManualAxisType(), 'varying', frozenset('x'))",
    "ManualAxisType(varying=frozenset('x'), reduced=frozenset('x'))",
    "ManualAxisType(varying=frozenset('x')) == ManualAxisType(varying=frozenset('x'))",
    "repr(typeof(jnp.ones(3)).mat)",
    "typeof(jnp.ones(3)).vma",
    "jax.core.ShapedArray((2,), 'float32').manual_axis_type.empty",
)
add(
    "-",
    "jit(lambda x: x, out_shardings=NamedSharding(auto, P('x', None)))(X)",
    "jit(lambda x: x, out_shardings=NamedSharding(line, P('x')))(X)",
    "jnp.cos(jax.device_put(X, NamedSharding(line, P('x'))))",
    "jnp.cos(jax.device_put(X, NamedSharding(mixed, P(None, 'y'))))",
)
