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


# --- reshapes -------------------------------------------------------------------------------------

for _old, _spec, _news in (
    ((4, 8), "'x'", "(4,2,4,1) (4,1,8) (4,8,1) (2,2,8) (32,) (4,2,2,2) (1,4,8) (4,4,2) (2,2,8,1)"),
    ((4, 8), "None, 'x'", "(4,2,4,1) (32,) (4,8,1,1) (4,4,2) (4,2,4) (2,2,8) (4,1,8) (2,16)"),
    ((4, 8, 2, 1, 1), "None, 'x'", "(4,16) (4,16,1) (4,16,1,1) (4,8,2) (4,8,2,1) (64,) (32,2,1,1)"),
    ((8, 2, 1), "'x'", "(16,) (16,1) (8,2) (1,16) (8,1,2) (4,2,2) (2,4,2,1)"),
    ((2, 4, 6), "'x', 'y'", "(8,6) (2,24) (48,) (2,4,2,3) (2,2,2,6) (2,4,6,1) (1,2,4,6)"),
    ((4, 6), "('x', 'y')", "(24,) (2,2,6) (4,2,3) (4,6,1) (2,2,6,1) (1,4,6)"),
    ((1, 8, 1), "None, 'x'", "(8,) (8,1) (2,4) (1,2,4) (1,2,4,1) (2,4,1)"),
    ((6, 4), "None, 'x'", "(24,) (2,3,4) (6,2,2) (6,4,1) (3,2,4,1) (6,1,4)"),
):
    for _new in _news.split():
        add("grid", f"lax.reshape(put({_old}, {_spec}), {_new})")


# --- meshes ---------------------------------------------------------------------------------------

add(
    "-",
    "repr(AbstractMesh((2, 2), ('x', 'y'), (AxisType.Explicit,) * 2).update_axis_types({'x': AxisType.Auto}))",
    "repr(AbstractMesh((2,), ('x',)).update_axis_types({'x': AxisType.Manual}))",
    "AbstractMesh((2,), ('x',)).update_axis_types({'q': AxisType.Manual})",
    "repr(grid.abstract_mesh.update_axis_types({'y': AxisType.Auto}).axis_types)",
    "grid.update_axis_types({'y': AxisType.Auto})",
    "NamedSharding(line.abstract_mesh, P('x')).is_equivalent_to(NamedSharding(line.abstract_mesh, P('x', None)), 2)",
    "NamedSharding(line.abstract_mesh, P('x')).is_equivalent_to(NamedSharding(line.abstract_mesh, P(None, 'x')), 2)",
    "NamedSharding(line.abstract_mesh, P()).is_equivalent_to(NamedSharding(grid.abstract_mesh, P()), 2)",
    "NamedSharding(line.abstract_mesh, P('x')).is_equivalent_to(NamedSharding(line, P('x')), 1)",
    "NamedSharding(grid.abstract_mesh, P(('x', 'y'))).is_equivalent_to(NamedSharding(grid.abstract_mesh, P(('y', 'x'))), 1)",
    "NamedSharding(line, P('x')).is_equivalent_to(NamedSharding(line, P('x', None)), 2)",
    "NamedSharding(line, P(unreduced={'x'})).is_equivalent_to(NamedSharding(line, P()), 1)",
    "NamedSharding(line, P(reduced={'x'})).is_equivalent_to(NamedSharding(line, P()), 1)",
    "NamedSharding(line, P(unreduced={'x'})).is_equivalent_to(NamedSharding(line, P(unreduced={'x'})), 1)",
    "str(typeof(jax.device_put(X, NamedSharding(auto, P('x')))).sharding.mesh)",
    "str(typeof(jax.device_put(X, NamedSharding(auto, P('x')))).sharding.spec)",
    "typeof(jax.device_put(X, NamedSharding(auto, P('x'))))",
    "str(typeof(jax.device_put(X, NamedSharding(auto, P()))).sharding.mesh)",
    "str(typeof(jnp.sin(jax.device_put(X, NamedSharding(auto, P('x'))))).sharding.mesh)",
    "noted(lambda n: jit(lambda x: n(x))(jax.device_put(X, NamedSharding(auto, P('x')))))",
    "str(jit(lambda x: typeof(x).sharding.mesh is None or x)(jax.device_put(X, NamedSharding(auto, P('x')))).sharding.mesh)",
    "(lambda seen: (jit(lambda x: seen.append(str(typeof(x).sharding.mesh)) or x)(jax.device_put(X, NamedSharding(auto, P('x')))), seen))([])[1]",
    "(lambda seen: (jit(lambda x: seen.append(str(typeof(x + 1).sharding.mesh)) or x)(jax.device_put(X, NamedSharding(auto, P('x')))), seen))([])[1]",
    "(lambda seen: (jit(lambda x: seen.append(str(typeof(lax.with_sharding_constraint(x, NamedSharding(auto, P('x')))).sharding.mesh)) or x)(X), seen))([])[1]",
    "(lambda seen: (jit(lambda x: seen.append(str(typeof(x).sharding.mesh)) or x)(X), seen))([])[1]",
    "str(typeof(jax.device_put(X, NamedSharding(line, P()))).sharding.mesh)",
    "str(typeof(jax.device_put(X, NamedSharding(line, P()))).sharding.spec)",
    "typeof(jax.device_put(X, NamedSharding(auto, P('x')))) == typeof(jnp.asarray(X))",
)
add(
    "line grid",
    "vmap(lambda r: jnp.ones(3))(put((8, 2), 'x'))",
    "vmap(lambda r: 1.0)(put((8, 2), 'x'))",
    "vmap(lambda r: (r.sum(), jnp.arange(2)))(put((8, 2), 'x'))",
    "vmap(lambda r: jnp.ones(3), out_axes=1)(put((8, 2), 'x'))",
    "vmap(lambda r: jnp.ones((3, 2)), in_axes=1)(put((2, 8), None, 'x'))",
    "vmap(lambda r, s: s, in_axes=(0, None))(put((8, 2), 'x'), put((3,)))",
    "vmap(lambda r, s: s, in_axes=(0, None))(put((8, 2), 'x'), jnp.float32(1))",
    "jit(vmap(lambda r: jnp.ones(3)))(put((8, 2), 'x'))",
    "vmap(vmap(lambda r: 2.0))(put((8, 2), 'x'))",
    "jnp.linalg.det(put((4, 2, 2), 'x') + jnp.eye(2))",
    "jnp.linalg.det(put((4, 3, 3), 'x'))",
    "jnp.linalg.det(put((4, 4, 4), 'x') % 1.3 + 2 * jnp.eye(4))",
    "tuple(jnp.linalg.slogdet(put((4, 2, 2), 'x') % 0.7))",
    "tuple(jnp.linalg.slogdet(put((4, 4, 4), 'x') % 1.3 + 2 * jnp.eye(4)))",
    "grad(lambda x: jnp.linalg.slogdet(x)[1].sum())((put((4, 2, 2), 'x') * 3) % 1.7)",
    "jnp.linalg.inv(put((4, 2, 2), 'x') % 0.7)",
    "jnp.linalg.solve(put((4, 2, 2), 'x') % 0.7, put((4, 2, 1), 'x'))",
)

add(
    "one",
    *[
        text
        for inner in (
            "put((4, 4), 'x', 'y')",
            "typeof(put((4, 4), 'x', 'y'))",
            "jnp.sin(put((4, 4), 'x', 'y'))",
            "jnp.dot(put((4, 4), 'x', 'y'), put((4, 4)), out_sharding=P('x'))",
            "jnp.ones((4, 4), out_sharding=P('x', 'y'))",
            "reshard(put((4, 4), 'x', 'y'), P(('x', 'y')))",
            "put((4, 4), 'x', 'y') + reshard(put((4, 4), 'x', 'y'), P(None, 'y'))",
            "noted(lambda n: shard_map(n, in_specs=P('x', 'y'), out_specs=P('x', 'y'))(put((4, 4), 'x', 'y')))",
            "shard_map(lambda a: a, in_specs=P('x', 'y'), out_specs=P(None, 'y'))(put((4, 4), 'x', 'y'))",
        )
        for text in (inner, f"small(lambda: {inner})")
    ],
)
add(
    "line",
    "(lambda scope: (scope.__enter__(), jnp.ones(3), scope.__exit__(None, None, None)))(jax.set_mesh(None))[1]",
)
add(
    "-",
    "under(AbstractMesh((4,), ('a',), (AxisType.Auto,)), lambda x: lax.with_sharding_constraint(x, P('a')))",
    "under(AbstractMesh((2, 2), ('p', 'q'), (AxisType.Auto,) * 2), lambda x: lax.with_sharding_constraint(2 * x, P('q')))",
    "under(AbstractMesh((2, 2), ('p', 'q'), (AxisType.Auto,) * 2), lambda x: lax.with_sharding_constraint(x, P(None, ('p', 'q'))).T)",
)
