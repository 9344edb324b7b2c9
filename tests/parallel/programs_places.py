"""Lines for ``cases_types``: meshes and memories that types name, devices that a call is given, and
what programs show of their values.
"""
# ruff: noqa: E501

from tests.parallel.programs_types import add

ON = "jax.device_put(X, NamedSharding(auto, P('x')))"
SEEN = "(lambda seen: (jit(lambda x: seen.append(str(typeof({0}).sharding.mesh)) or x)({1}), seen))([])[1]"
add(
    "-",
    *[
        SEEN.format(text, ON)
        for text in (
            "jnp.ones(3)",
            "jnp.ones(4) + x",
            "x.sum()",
            "x[0]",
            "x.reshape(-1)",
            "lax.scan(lambda c, a: (c + a, a), x[0], x)[1]",
            "lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x)",
            "lax.cond(True, lambda a: a, lambda a: a * 2, x)",
            "jax.jit(jnp.sin)(x)",
            "grad(lambda a: (a * a).sum())(x)",
            "vmap(jnp.sin)(x)",
            "shard_map(lambda a: a, mesh=auto, in_specs=P('x'), out_specs=P('x'))(jnp.ones((8, 4)))",
        )
    ],
    f"str(typeof(grad(lambda a: a.sum())({ON})).sharding.spec)",
    f"str(jax.make_jaxpr(jnp.sin)({ON}).in_avals[0].sharding.mesh)",
    f"str(jax.make_jaxpr(jnp.sin)({ON}))",
    f"str(jit(jnp.sin).lower({ON}).in_avals[0][0].sharding.mesh)",
    "str(typeof(jax.ShapeDtypeStruct((4,), np.float32, sharding=NamedSharding(auto, P('x')))).sharding.mesh)",
    f"str(typeof({ON}).sharding.spec)",
    "str(typeof(jax.device_put(X, NamedSharding(mixed, P('y', 'x')))).sharding.spec)",
    f"(lambda seen: (vmap(lambda r: seen.append(str(typeof(r).sharding.mesh)) or r)({ON}), seen))([])[1]",
    # memories
    "str(typeof(jnp.ones(3)).memory_space)",
    "str(typeof(jax.device_put(X, jax.memory.Space.Host)))",
    "str(typeof(jax.device_put(X, jax.memory.Space.Host)).memory_space)",
    "str(typeof(jax.device_put(X, NamedSharding(auto, P('x'), memory_kind='pinned_host'))))",
    "str(typeof(jnp.sin(jax.device_put(X, jax.memory.Space.Host))))",
    "noted(lambda n: jit(lambda x: n(x).sum())(jax.device_put(X, jax.memory.Space.Host)))[0]",
    "noted(lambda n: jit(lambda x: n(jax.device_put(x, jax.memory.Space.Device)))(jax.device_put(X, jax.memory.Space.Host)))[0]",
    "noted(lambda n: jit(lambda x: n(jax.device_put(x, jax.memory.Space.Host)))(X))[0]",
    # specs are one object
    "P('x') is P('x')",
    "P() is P()",
    "P('x', None) is P('x', None)",
    "P('x', None) is P('x')",
    "P(('x', 'y')) is P(('x', 'y'))",
    "P(('x',)) is P('x')",
    "P('x', unreduced={'y'}) is P('x', unreduced={'y'})",
    "P('x', unreduced={'y'}) is P('x', reduced={'y'})",
    "P(unreduced=['y'])",
    "copy.copy(P('x')) is P('x')",
    "hash(P('x')) == hash(P('x', None))",
    # a spec may say of dimensions that are not there that they are whole
    "lax.full((2,), 1.0, sharding=NamedSharding(auto, P('x', None))).sharding.shard_shape((2,))",
    "jnp.full((2,), 1.0, device=NamedSharding(auto, P('x', None))).sharding.shard_shape((2,))",
    "jnp.zeros((2,), device=NamedSharding(auto, P('x', None, None))).sharding.shard_shape((2,))",
    "jax.device_put(np.ones(2), NamedSharding(auto, P('x', None)))",
    # the devices of an executable
    f"jit(lambda x: x + 1).lower({ON}).compile(device_assignment=tuple(jax.devices()[:2]))({ON})",
    f"jit(lambda x: x + 1).lower({ON}).compile(device_assignment=tuple(jax.devices()[1::-1]))",
    f"jit(lambda x: x + 1).lower({ON}).compile(device_assignment=tuple(jax.devices()[:3]))",
    f"jit(lambda x: x + 1).lower({ON}).compile(device_assignment=jax.devices()[:2])",
    "jit(lambda x: x + 1).lower(X).compile(device_assignment=tuple(jax.devices()[:1]))(X)",
    "jit(lambda x: x + 1).lower(X).compile(device_assignment=tuple(jax.devices()[1:2]))",
    *[
        "jit(lambda x: x + 1).trace(jax.ShapeDtypeStruct((8, 4), np.float32, sharding=NamedSharding("
        f"AbstractMesh((2,), ('x',)), P('x')))).lower(lowering_platforms=('cpu',)).compile({given}"
        for given in (
            "device_assignment=tuple(jax.devices()[2:4]))(X)",
            "device_assignment=tuple(jax.devices()[:3]))",
            ")",
        )
    ],
)

# What programs show: shardings that are looked at, and what devices have.
LOOK = "(lambda seen: (%s, seen))([])[1]"
NOTE = "jax.debug.inspect_array_sharding({0}, callback=lambda s: seen.append(str(s.spec)))"
PARTS = "jax.debug.callback(lambda a: seen.append(np.asarray(a).tolist()), {0}, partitioned=True)"
ROWS = "jax.device_put(X[:, :2], NamedSharding(auto, P('x')))"
SHOW = "sorted((lambda seen: (%s, jax.effects_barrier(), seen))([])[2])"


def looking(text, call):
    return LOOK % (call % f"lambda x: ({NOTE.format(text)}, jnp.sin(x))[1]")


def showing(text, call):
    return SHOW % (call % f"lambda x: ({PARTS.format(text)}, jnp.sin(x))[1]")


PLACED = "jit(%s, in_shardings=NamedSharding(auto, P('x')))(X[:, :2])"
add(
    "-",
    looking("x", f"jit(%s)({ROWS})"),
    looking("jnp.sin(x)", f"jit(%s)({ROWS})"),
    looking("x.T", f"jit(%s)({ROWS})"),
    looking("x", PLACED),
    looking("x * 2", PLACED),
    looking("x", "jit(%s, in_shardings=NamedSharding(agrid, P('y', 'x')))(X[:, :2])"),
    looking("x", f"jit(lambda y: jit(%s)(y * 2))({ROWS})"),
    looking(
        "lax.with_sharding_constraint(x, NamedSharding(auto, P(None, 'x')))", "jit(%s)(X[:, :2])"
    ),
    looking("x", f"(%s)({ROWS})"),
    showing("x", f"jit(%s)({ROWS})"),
    showing("2 * x", f"jit(%s)({ROWS})"),
    showing("x", PLACED),
    showing("x", "jit(%s)(X[:, :2])"),
    showing("x", f"jit(lambda y: jit(%s)(y * 2))({ROWS})"),
    showing("x[0]", "jit(%s)(jax.device_put(X[:2, :2], NamedSharding(auto, P())))"),
    SHOW
    % f"jit(lambda x: (jax.debug.callback(lambda a: seen.append(a.tolist()), x), x)[1])({ROWS})",
)

# Values inside of shard_map outside of jit.
MAPPED = "shard_map(%s, mesh=auto, in_specs=P(%s), out_specs=P(%s))(X[:4, 0])"


def mapped(text, spec="'x'"):
    return LOOK % (MAPPED % (f"lambda x: (seen.append({text}), x)[1]", spec, spec))


add(
    "-",
    mapped("str(x)"),
    mapped("repr(2 * x)"),
    mapped("f'{x[0]}'"),
    mapped("str(lax.psum(x, 'x'))"),
    mapped("str(lax.axis_index('x'))"),
    mapped("str(x)", ""),
    mapped("bool(x.sum() > 1)", ""),
    mapped("[10, 20, 30][(x.sum() * 0 + 1).astype(int)]", ""),
    mapped("bool(x.sum() > 1)"),
    mapped("bool(lax.psum(x.sum(), 'x') > 1)"),
    mapped("np.asarray(x).tolist()"),
    mapped("np.asarray(x).tolist()", ""),
    mapped("str(lax.fori_loop(0, 3, lambda i, c: c + x, x))"),
    MAPPED % ("lambda x: x + 1 if x.sum() > 1 else x", "", ""),
    MAPPED % ("lambda x: x + 1 if x.sum() > 100 else x", "", ""),
    MAPPED % ("lambda x: x + 1 if x.sum() > 1 else x", "'x'", "'x'"),
    "shard_map(lambda x: x + 1 if x.sum() > 1 else x, mesh=auto, in_specs=P(), out_specs=P(), check_vma=False)(X)",
    "jit(shard_map(lambda x: x + 1 if x.sum() > 1 else x, mesh=auto, in_specs=P(), out_specs=P()))(X)",
    LOOK
    % "shard_map(lambda x: (seen.append(str(x)), x)[1], mesh=agrid, in_specs=P('y', 'x'), out_specs=P('y', 'x'))(X[:4])",
    LOOK
    % "shard_map(lambda x: (seen.append(str(x)), x)[1], mesh=agrid, in_specs=P(None, 'y'), out_specs=P(None, 'y'))(X[:2])",
)
