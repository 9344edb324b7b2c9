"""Small modules that programs import: shardings alike, own partitions, executables as bytes."""

SETUP = """
se, cp = module("experimental.serialize_executable"), module("experimental.custom_partitioning")
tp, co, eb = module("experimental.topologies"), module("experimental.compute_on"), module("extend.backend")
alike = shard_alike.shard_alike
x = np.arange(8.0, dtype="float32")
m2 = Mesh(np.array(jax.devices()[:2]), "x", axis_types=(AxisType.Auto,))
s2 = NamedSharding(m2, P("x"))
d = jax.device_put(x, s2)
@cp.custom_partitioning
def square(x): return x * x
def part(mesh, args, result):
    return mesh, lambda x: x * x, args[0].sharding, (args[0].sharding,)
square.def_partition(part, infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding, sharding_rule="i -> i")
def plus(x, n, y): return x * n + y
plus = cp.custom_partitioning(plus, static_argnums=(1,))
def part2(n, mesh, args, result):
    return mesh, lambda x, y: x * n + y, args[0].sharding, (args[0].sharding, args[0].sharding)
plus.def_partition(part2, infer_sharding_from_operands=lambda n, mesh, args, result: args[0].sharding, sharding_rule="i, i -> i")
def load(c): return se.deserialize_and_load(*se.serialize(c))
def compiled(f, *args, **kw): return jax.jit(f, **kw).lower(*args).compile()
Space = jax.memory.Space
def places(t): return jax.tree.map(lambda a: a.sharding.num_devices, t)
"""

PROGRAMS = [
    "alike(jnp.ones(3), jnp.zeros(3))", "alike({'a': jnp.ones(3)}, {'a': jnp.zeros(3)})", "alike(jnp.ones(3), jnp.ones(4))",
    "alike({'a': x}, {'b': x})", "alike([x], (x,))", "alike(d, x)", "alike(x, d)", "jax.jit(alike)(d, x)",
    "places(jax.jit(lambda a: alike(a, a * 2))(d))", "places(alike(d, d * 2))", "jax.grad(lambda a: alike(a, a * 2)[1].sum())(x)",
    "jax.vmap(alike)(jnp.ones((2, 3)), jnp.ones((2, 3)))",
    "square(x)", "jax.jit(square)(x)", "jax.jit(square)(d)", "places(jax.jit(square)(d))", "square(d)", "square(x=x)",
    "jax.jit(lambda x: square(x) + 1)(d)", "plus(x, 3, x)", "jax.jit(lambda a: plus(a, 3, a))(d)", "jax.jit(plus, static_argnums=1)(x, 2, x)",
    "cp.CompoundFactor('a')", "cp.CompoundFactor('a', 'b') == ('a', 'b')", "cp.CompoundFactor('a', 3)", "cp.ArrayMapping('i', cp.BATCHING)",
    "cp.ArrayMapping(cp.BATCHING, 'i') == (cp.BATCHING, 'i')", "cp.ArrayMapping('1')", "cp.ArrayMapping(3)", "cp.CompoundFactor('a', cp.BATCHING)",
    "load(compiled(lambda x: x * 2, x))(x)", "load(compiled(lambda x, y: {'a': x @ y}, x, x))(x, x)", "load(compiled(lambda t: t['a'] + 1, {'a': x}))({'a': x})",
    "load(compiled(lambda x: jnp.sort(-x), x))(np.ones(3, 'float32'))", "load(compiled(lambda x, *, k: x * k, x, k=2.0) if False else compiled(lambda x: (x, x.sum()), x))(x)",
    "len(se.serialize(compiled(lambda x: x, x)))", "isinstance(se.serialize(compiled(lambda x: x, x))[0], bytes)",
    "[str(a) for a in jax.tree.leaves(load(compiled(lambda x: x * 2, x)).in_avals)]", "se.deserialize_and_load(b'no', None, None)",
    "len(tp.get_attached_topology().devices)", "len(tp.get_attached_topology('cpu').devices)", "tp.get_topology_desc()",
    "tp.make_mesh(tp.get_attached_topology(), (8,), ('x',)).shape_tuple", "tp.make_mesh(tp.get_attached_topology(), (2, 4), ('x', 'y')).shape_tuple",
    "jax.jit(lambda a: a * 2).lower(jax.ShapeDtypeStruct((8,), 'float32', sharding=NamedSharding(tp.make_mesh(tp.get_attached_topology(), (8,), ('x',)), P('x')))).compile()(x)",
    "jax.jit(co.compute_on('device_host')(lambda x: x * 2))(x)", "co.compute_on('somewhere').__enter__()", "co.compute_on(3).__enter__()",
    "co.compute_on2(lambda x: x * 2, compute_type='device_host', out_memory_spaces=Space.Device)(x)",
    "jax.jit(co.compute_on2(lambda x: (x, x + 1), compute_type='device_host', out_memory_spaces=Space.Device))(x)",
    "jax.jit(co.compute_on2(compute_type='device_host', out_memory_spaces=Space.Device)(lambda x: -x))(x)", "eb.backend_xla_version()", "eb.backend_xla_version('cpu')",
]  # fmt: skip

# JAX loads no executable in a process with several host devices, and unpickles what it is given.
MORE = ("load(",)
