"""Formats and layouts: where they are taken, what is refused, what executables and arrays say."""

SETUP = """
Format, Layout = layout.Format, layout.Layout
x = np.arange(12.0, dtype="float32").reshape(3, 4)
here = sharding.SingleDeviceSharding(jax.devices()[0])
m2 = Mesh(np.array(jax.devices()[:2]), "x", axis_types=(AxisType.Auto,))
s2 = NamedSharding(m2, P(None, "x"))
f, f2 = Format(Layout((1, 0)), here), Format(Layout((1, 0)), s2)
row, auto = Format(Layout((0, 1)), here), Format(Layout.AUTO)
def order(a): return jax.tree.map(lambda f: f.layout.major_to_minor, a)
def compiled(g, *args, **kw): return jax.jit(g, **kw).lower(*args).compile()
def both(c): return order(c.input_formats), order(c.output_formats)
spec = jax.ShapeDtypeStruct((3, 4), "float32")
"""

PROGRAMS = [
    "both(compiled(lambda x: x * 2, x))", "both(compiled(lambda x, y: (x, {'a': y.sum(0)}), x, x))",
    "both(compiled(lambda x: x.T, spec))", "both(compiled(lambda x, *, k: x + k, x))",
    "both(compiled(lambda t: t['a'][None], {'a': x}))", "both(compiled(lambda x: x, np.float32(1)))",
    "both(compiled(lambda x: x.T @ x, spec, in_shardings=auto, out_shardings=auto))",
    "[a.sharding.num_devices for a in compiled(lambda x: x, spec, in_shardings=s2).input_formats[0]]",
    "compiled(lambda x: x * 2, spec, in_shardings=row).output_formats.sharding == here",
    "jax.device_put(x, f)", "jax.device_put(x, row).format == row or order(jax.device_put(x, row).format)",
    "jax.device_put(x, f2).sharding.num_devices", "jax.device_put([x, x], [f, row])", "jax.device_put(x, Layout((1, 0)))",
    "jax.device_put(x, Format(Layout((0, 1, 2)), here))", "jax.device_put(x, Format(Layout.AUTO, here))", "jax.device_put(x, Format())",
    "jax.jit(lambda x: x * 2, in_shardings=f)(x)", "jax.jit(lambda x: x * 2, out_shardings=f)(x)",
    "jax.jit(lambda x: x * 2, in_shardings=f2, out_shardings=f2)(x).sharding.num_devices",
    "jax.jit(lambda x, y: (x, y), in_shardings=(f, None), out_shardings=(None, f))(x, x)[1]",
    "jax.jit(lambda x: x, out_shardings=Format(Layout((0, 1, 2)), here))(x)", "jax.jit(lambda x: x, out_shardings=auto)(x)",
    "jax.jit(lambda x: lax.with_sharding_constraint(x * 2, f2))(x).sharding.num_devices",
    "jax.jit(lambda x: layout.with_layout_constraint(x, Layout((1, 0))))(x)",
    "jax.jit(lambda x: layout.with_layout_constraint(x, Layout((0, 1, 2))))(x)",
    "jax.ShapeDtypeStruct((3, 4), 'float32', sharding=f).sharding == here",
    "Format(3)", "Format(Layout((0, 1)))", "Format(Layout.AUTO, here).layout is Layout.AUTO", "repr(Layout.AUTO)", "repr(auto)",
    "repr(Format())", "Format() == Format()", "f == Format(Layout((1, 0)), here)", "hash(f) == hash(Format(Layout((1, 0)), here))",
    "repr(Layout((1, 0)))", "Layout((0, 1)) == Layout((0, 1), None, 0)", "order(jnp.ones((2, 3, 4)).format)",
    "repr(jnp.ones((2, 3)).format.layout)", "jax.jit(lambda x: x)(jnp.ones((2, 3))).format.sharding == here",
]  # fmt: skip
