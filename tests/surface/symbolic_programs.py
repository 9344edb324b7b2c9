"""Functions that take sizes, steps, widths and places, given symbolic numbers: types and calls."""

SETUP = """
def types(f, *shapes, **kw):
    scope = export.SymbolicScope(kw.get("constraints", ()))
    made = []
    for shape in shapes:
        kind, _, text = shape.partition(" ")
        dtype = {"f": "float32", "i": "int32", "c": "complex64", "b": "bool"}[kind]
        made.append(jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), dtype))
    return made
def out(f, *shapes, **kw): return [str(a) for a in export.export(jax.jit(f))(*types(f, *shapes, **kw)).out_avals]
def run(f, *shapes, **kw):
    e = export.export(jax.jit(f))(*types(f, *shapes, **kw))
    sizes = dict(a=3, b=4, h=5)
    args = []
    for i, shape in enumerate(shapes):
        kind, _, text = shape.partition(" ")
        given = tuple(eval("[" + text + "]", dict(sizes)))
        x = (np.arange(np.prod(given, dtype=int)) * 7 % 11 + i).reshape(given)
        args.append(x.astype({"f": "float32", "i": "int32", "c": "complex64", "b": "bool"}[kind]))
    return [str(a) for a in e.out_avals], e.call(*args)
def ref(f):
    def g(x):
        r = jax.new_ref(x)
        found = f(r, x)
        return found, r[...]
    return g
"""

_F = [
    # slices and steps
    *[f"run(lambda x: x[{s}], 'f b')" for s in (
        "::x.shape[0]", "::-1", "::-x.shape[0]", "::2", "1::2", "::x.shape[0] + 1", "::x.shape[0] // 2 + 1", "1:", ":-1",
        "-2:", ":x.shape[0] - 1", "x.shape[0] // 2:", "x.shape[0] // 2", "x.shape[0] - 1", "-1", "0", ":x.shape[0] * 2",
        "-x.shape[0]:", "x.shape[0]:", "::-2", "x.shape[0] - 1::-1", "1:x.shape[0]:2", ":x.shape[0]:x.shape[0]", ":2", "3:",
        "None", "..., None", "jnp.arange(x.shape[0])", "jnp.array([0, x.shape[0] - 1])", "jnp.arange(x.shape[0]) % 2")],
    *[f"run(lambda x: x[{s}], 'f b, h')" for s in (
        "::x.shape[1]", "::x.shape[0], ::x.shape[1]", ":, ::x.shape[0]", "x.shape[0] - 1, ::2", ":, x.shape[1] - 1",
        "::x.shape[0], jnp.array([0, 1])", "jnp.array([0, 1]), ::2", "1:, :-1", ":, None, ::2", "0, ::x.shape[0]")],
    *[f"run(lambda x: x.at[{s}].{u}, 'f b')" for s in ("::2", ":x.shape[0] - 1", "x.shape[0] - 1", "::x.shape[0]", "1:", "-1")
      for u in ("set(9)", "add(1)", "get()", "mul(2)")],
    # references
    *[f"run(ref(lambda r, x: r[{s}]), 'f b')" for s in (
        "...", ":", "0:x.shape[0]", "1:", ":-1", "::2", "::x.shape[0]", "0", "x.shape[0] - 1", "-1", ":x.shape[0] // 2",
        "jnp.array([0, 1])", "jax.ds(0, x.shape[0] - 1)", "jax.ds(1, 2)")],
    *[f"run(ref(lambda r, x: r.__setitem__({s}, {v})), 'f b')" for s, v in (
        ("slice(None)", "x * 2"), ("...", "x + 1"), ("0", "5."), ("slice(1, None)", "x[1:] * 0"),
        ("slice(0, x.shape[0])", "x * 3"), ("slice(None, None, 2)", "x[::2] * 0"), ("x.shape[0] - 1", "8."))],
    *[f"run(ref(lambda r, x: r.__setitem__({s}, r[{s}] + 1)), 'f b, h')" for s in (
        "0", "(slice(None), 0)", "(0, slice(1, None))", "...", "(slice(0, x.shape[0]), slice(0, x.shape[1]))",
        "slice(None, None, 2)", "(x.shape[0] - 1, x.shape[1] - 1)")],
    "run(ref(lambda r, x: jax.lax.fori_loop(0, x.shape[0], lambda i, c: r.__setitem__(i, r[i] * 2), None)), 'f b')",
    "run(ref(lambda r, x: jax.ref.swap(r, 0, 3.)), 'f b')",
    # sizes and k
    "run(lambda x: lax.top_k(x, x.shape[0] // 2), 'f b')", "run(lambda x: lax.top_k(x, x.shape[0]), 'f b')",
    "run(lambda x: lax.top_k(x, x.shape[0] - 1)[0], 'f b')", "run(lambda x, y: lax.top_k(x, y.shape[0])[0], 'f h, b', 'f a')",
    "run(lambda x: lax.top_k(x, 2)[0], 'f b')", "run(lambda x: lax.approx_max_k(x, 2)[0], 'f b')",
    "run(lambda x: lax.approx_max_k(x, x.shape[0])[0], 'f b')", "run(lambda x: lax.approx_min_k(x, 2)[0], 'f b')",
    *[f"run(lambda x: jnp.{f}, 'f b')" for f in (
        "tril_indices(x.shape[0])", "triu_indices(x.shape[0])", "tril_indices(x.shape[0], 1)", "triu_indices(x.shape[0], -1)",
        "tril_indices(x.shape[0], 0, 3)", "triu_indices(x.shape[0], k=1)", "diag_indices(x.shape[0])",
        "unique(x, size=x.shape[0])", "unique(x, size=x.shape[0] + 1, fill_value=0)", "unique(x, size=3)",
        "nonzero(x, size=x.shape[0])", "flatnonzero(x, size=x.shape[0])", "argwhere(x, size=x.shape[0])",
        "where(x > 2, size=x.shape[0])", "union1d(x, x, size=x.shape[0])", "intersect1d(x, x, size=x.shape[0])",
        "setdiff1d(x, x[:1], size=x.shape[0])", "repeat(x, 2)", "repeat(x, x.shape[0])", "tile(x, x.shape[0])", "tile(x, 2)",
        "repeat(x, jnp.arange(x.shape[0]), total_repeat_length=x.shape[0])", "roll(x, x.shape[0] // 2)", "roll(x, 1)",
        "split(x, [1])", "split(x, [x.shape[0] // 2])", "split(x, [1, x.shape[0] - 1])", "array_split(x, [x.shape[0] // 2])",
        "split(x, 2)", "split(x, x.shape[0])", "pad(x, 1)", "pad(x, x.shape[0])", "pad(x, (0, x.shape[0] - 1))",
        "pad(x, (x.shape[0], 1), constant_values=5)", "pad(x, 1, mode='edge')", "pad(x, x.shape[0], mode='edge')",
        "pad(x, 1, mode='reflect')", "pad(x, x.shape[0] - 1, mode='reflect')", "pad(x, 1, mode='wrap')",
        "pad(x, x.shape[0], mode='wrap')", "pad(x, 1, mode='symmetric')", "pad(x, x.shape[0], mode='symmetric')",
        "pad(x, 2, mode='mean')", "pad(x, 2, mode='mean', stat_length=2)", "pad(x, 2, mode='maximum', stat_length=x.shape[0] // 2)",
        "pad(x, x.shape[0], mode='minimum')", "pad(x, x.shape[0], mode='maximum', stat_length=x.shape[0])",
        "pad(x, x.shape[0], mode='linear_ramp')", "pad(x, 2, mode='linear_ramp', end_values=1.)",
        "arange(x.shape[0])", "arange(1, x.shape[0])", "arange(0, x.shape[0], 2)", "arange(x.shape[0], 0, -1)",
        "arange(0, 10, x.shape[0])", "arange(x.shape[0] * 2)", "linspace(0, 1, x.shape[0])", "linspace(0, 1, x.shape[0] + 1)[1:]",
        "logspace(0, 1, x.shape[0])", "geomspace(1, 2, x.shape[0])", "eye(x.shape[0])", "eye(x.shape[0], 3, 1)",
        "eye(x.shape[0], k=x.shape[0] - 1)", "eye(3, x.shape[0], k=-1)", "tri(x.shape[0], k=1)", "tri(x.shape[0], 3)",
        "diag(x, 1)", "diag(x, x.shape[0])", "diagflat(x)", "vander(x)", "vander(x, 3)", "vander(x, x.shape[0] - 1)",
        "bincount(x.astype(int), length=x.shape[0])", "bincount(x.astype(int), length=x.shape[0] + 2)", "hanning(x.shape[0])",
        "hamming(x.shape[0])", "bartlett(x.shape[0])", "blackman(x.shape[0])", "kaiser(x.shape[0], 1.)", "indices((x.shape[0],))",
        "ones((x.shape[0] + 1,))", "full((x.shape[0], 2), 3)", "zeros(x.shape[0] * 2)", "identity(x.shape[0])", "flip(x)",
        "fromfunction(lambda i: i, (x.shape[0],))", "diff(x)", "diff(x, n=2)", "ediff1d(x)", "gradient(x)", "trapezoid(x)",
        "cumsum(x)", "convolve(x, x)", "convolve(x, x, mode='same')", "convolve(x, jnp.ones(2), mode='valid')", "correlate(x, x)",
        "interp(x, x, x)", "searchsorted(x, x)", "digitize(x, x)", "histogram(x, bins=4)[0]", "quantile(x, 0.5)", "median(x)",
        "percentile(x, 30)", "take(x, jnp.arange(x.shape[0]))", "take(x, x.shape[0] - 1)", "compress(x > 0, x, size=x.shape[0])",
        "extract(x > 0, x, size=x.shape[0])", "delete(x, 0)", "delete(x, x.shape[0] - 1)", "insert(x, 0, 1.)", "append(x, x)",
        "delete(x, slice(0, 2))", "insert(x, x.shape[0], 1.)", "resize(x, (3,))", "resize(x, x.shape[0] + 1)", "reshape(x, (1, -1))",
        "fft.fft(x)", "fft.rfft(x)", "fft.irfft(x)", "fft.fft(x, n=4)", "fft.fft(x, n=x.shape[0] + 1)", "fft.irfft(x, n=x.shape[0])",
        "fft.fftfreq(x.shape[0])", "fft.fftshift(x)", "fft.ifftshift(x)", "argsort(x)", "partition(x, 1)",
        "partition(x, x.shape[0] - 1)", "argpartition(x, 1)", "sort(x)[::-1]", "average(x)", "std(x, ddof=1)", "var(x, ddof=1)",
        "cov(x)", "polyval(x, 2.)", "poly(x)", "roots(x)", "unravel_index(x.shape[0] - 1, (x.shape[0], 2))", "argmax(x)",
        "broadcast_to(x, (x.shape[0], x.shape[0]))", "expand_dims(x, 0)", "outer(x, x)", "kron(x, x)", "vdot(x, x)",
        "block([x, x])", "stack([x, x])", "concatenate([x, x[:1]])", "apply_along_axis(jnp.sum, 0, x)", "piecewise(x, [x > 0], [1, 2])",
        "select([x > 1], [x], 0)", "choose(jnp.zeros(x.shape[0], int), [x, x])", "cross(x, x)", "unwrap(x)",
        "isin(x, x)", "ravel_multi_index((x.astype(int),), (99,))", "mask_indices(x.shape[0], jnp.triu)", "nan_to_num(x)")],
    *[f"run(lambda x: {f}, 'f b, h')" for f in (
        "jnp.tril(x, 1)", "jnp.triu(x, -1)", "jnp.tril(x, x.shape[0] - 1)", "jnp.tril_indices_from(x)", "jnp.triu_indices_from(x)",
        "jnp.diagonal(x)", "jnp.diagonal(x, 1)", "jnp.trace(x)", "jnp.trace(x, 1)", "jnp.rot90(x)", "jnp.split(x, [1], 1)",
        "jnp.split(x, [x.shape[1] // 2], axis=1)", "jnp.pad(x, ((0, x.shape[1]), (1, 0)))", "jnp.roll(x, (1, x.shape[1]), (0, 1))",
        "jnp.roll(x, x.shape[0])", "jnp.repeat(x, 2, axis=1)", "jnp.repeat(x, x.shape[1], axis=0)", "jnp.tile(x, (2, x.shape[0]))",
        "jnp.moveaxis(x, 0, 1)", "jnp.reshape(x, (-1,))", "jnp.reshape(x, (x.shape[1], x.shape[0]))", "x.reshape(x.size)",
        "jnp.take(x, 0, axis=1)", "jnp.take_along_axis(x, jnp.argsort(x, 1), 1)", "jnp.unique(x, size=x.shape[0])",
        "image.resize(x, (x.shape[0] * 2, x.shape[1] * 2), 'nearest')", "image.resize(x, (x.shape[0], 3), 'linear')",
        "image.resize(x, (3, 4), 'nearest')", "image.resize(x, (x.shape[0] // 2 + 1, x.shape[1]), 'linear')",
        "image.resize(x, (x.shape[1], x.shape[0]), 'cubic')", "image.resize(x, (x.shape[0] * 2, x.shape[1]), 'linear', antialias=False)",
        "lax.dynamic_slice(x, (0, 1), (x.shape[0], 2))", "lax.dynamic_slice(x, (0, 0), (x.shape[0] - 1, x.shape[1] - 1))",
        "lax.dynamic_slice(x, (x.shape[0] - 1, 0), (1, x.shape[1]))", "lax.dynamic_slice(x, (1, 1), (2, 2))",
        "lax.dynamic_slice_in_dim(x, 1, 2)", "lax.dynamic_slice_in_dim(x, 0, x.shape[0])", "lax.dynamic_index_in_dim(x, 1)",
        "lax.dynamic_update_slice(x, x[:1], (x.shape[0] - 1, 0))", "lax.dynamic_update_slice_in_dim(x, x[:1], 1, 0)",
        "lax.slice(x, (1, 0), x.shape)", "lax.slice_in_dim(x, 1, x.shape[0])",
        "lax.slice_in_dim(x, 0, x.shape[1], x.shape[1], axis=1).sum()", "lax.pad(x, 0., ((1, x.shape[0], 0), (0, 0, 1)))",
        "lax.pad(x, 0., ((0, 0, x.shape[0]), (0, 0, 0)))", "lax.pad(x, 0., ((-1, 0, 0), (0, -1, 0)))", "lax.rev(x, (0,))",
        "lax.reduce_window(x, 0., lax.add, (2, 2), (1, 1), 'VALID')", "lax.reduce_window(x, 0., lax.add, (2, 2), (2, 2), 'SAME')",
        "lax.reduce_window(x, 0., lax.add, (x.shape[0], 1), (1, 1), 'VALID')", "lax.reduce_window(x, 0., lax.add, x.shape, (1, 1), 'VALID')",
        "lax.reduce_window(x, -jnp.inf, lax.max, (x.shape[0], 2), (1, 2), 'SAME')",
        "lax.reduce_window(x, 0., lax.add, (x.shape[0] // 2, 1), (x.shape[0] // 2, 1), 'VALID')", "lax.cumsum(x, axis=1)",
        "lax.broadcast(x, (x.shape[0],))", "lax.broadcasted_iota(int, (x.shape[0], 3), 0)", "lax.iota(int, x.shape[0] * 2)",
        "lax.full((x.shape[0], x.shape[1] + 1), 2)", "lax.collapse(x, 0, 2)", "lax.expand_dims(x, (1,))", "lax.sort(x, dimension=0)",
        "lax.argmax(x, 1, int)", "lax.concatenate([x, x], 0)", "lax.map(lambda r: r * 2, x)", "lax.scan(lambda c, r: (c + r, r), x[0], x)[0]",
        "lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], x[0])", "lax.associative_scan(jnp.add, x)",
        "lax.while_loop(lambda c: c[0] < x.shape[0], lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]",
        "lax.gather(x, jnp.zeros((1, 1), int), lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)), (1, x.shape[1]))",
        "jax.grad(lambda x: jnp.sum(x[jnp.arange(x.shape[0]), 0] ** 2))(x)", "jax.grad(lambda x: x[::2].sum())(x)",
        "jax.grad(lambda x: jnp.sum(x.at[jnp.arange(x.shape[0]), 0].set(0.) ** 2))(x)", "jax.grad(lambda x: lax.top_k(x, 2)[0].sum())(x)",
        "jax.grad(lambda x: x.at[0].add(x[1]).sum())(x)", "jax.grad(lambda x: jnp.sort(x).sum())(x)", "jax.vmap(lambda r: r[::2])(x)",
        "jax.grad(lambda x: jnp.take(x, jnp.arange(x.shape[0]), axis=0).sum())(x)", "jax.vmap(jnp.argsort)(x)", "nn.one_hot(x[:, 0].astype(int), x.shape[1])",
        "nn.softmax(x)", "nn.logsumexp(x, 1)", "jnp.linalg.norm(x)", "jnp.einsum('ij,kj->ik', x, x)", "jnp.cov(x)", "jnp.corrcoef(x)",
        "jsp.special.logsumexp(x)", "jsp.signal.convolve(x, x)", "jsp.ndimage.map_coordinates(x, [x[0], x[0]], 1)",
        "jax.ops.segment_sum(x, jnp.zeros(x.shape[0], int), x.shape[0])", "jax.ops.segment_max(x, jnp.arange(x.shape[0]), num_segments=x.shape[0])",
        "random.normal(random.key(0), (2,)) * x.shape[0]", "random.permutation(random.key(0), x.shape[0]).shape[0] * x",
        "random.bits(random.key(0), x.shape) * 0", "random.randint(random.key(0), (x.shape[0],), 0, x.shape[1]) * 0",
        "random.choice(random.key(0), x.shape[0], (2,)) * 0", "random.split(random.key(0), x.shape[0]).shape")],
    "out(lambda x, y, g: lax.ragged_dot(x, y, g), 'f b, 3', 'f a, 3, 2', 'i a')", "out(lambda x, y, g: lax.ragged_dot(x, y, g), 'f b, 3', 'f 2, 3, 2', 'i 2')",
    "run(lambda x, i: x[i], 'f b, h', 'i b')", "run(lambda x, i: jnp.take(x, i % 2, axis=1), 'f b, h', 'i h')",
    "run(lambda x, i: jax.grad(lambda x: x[i].sum())(x), 'f b, h', 'i h')", "run(lambda x, i: x.at[i].add(1.), 'f b', 'i h')",
    "run(lambda x, i: jax.grad(lambda x: x.at[i].set(2.).sum())(x), 'f b', 'i h')",
    "run(lambda x, i: jax.grad(lambda x: (x.at[i % 4].multiply(2.) ** 2).sum())(x), 'f b', 'i a')",
    "run(lambda x, y: lax.conv_general_dilated(x, y, (1,), 'SAME'), 'f b, 3, h', 'f 2, 3, 3')",
    "run(lambda x, y: lax.conv_general_dilated(x, y, (2,), 'VALID'), 'f b, 3, h', 'f 2, 3, 3')",
    "run(lambda x, y: x @ y, 'f b, h', 'f h, a')", "run(lambda x, y: jnp.concatenate([x, y]), 'f a', 'f b')",
]  # fmt: skip
PROGRAMS = _F
# weft computes with more functions of symbolic sizes than JAX.
MORE = ("",)
