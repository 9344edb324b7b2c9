"""Programs on meshes with explicit axes: types that carry shardings, on weft and on JAX alike.

``tests.parallel.cases`` runs and records them with the others. An answer is the type of the result
as text, and the result itself; where an operation is refused, the class of the error.
"""

import numpy as np

CASES = []
X = (np.arange(32, dtype=np.float32).reshape(8, 4) - 11) / 8
CUBE = (np.arange(64, dtype=np.float32).reshape(4, 8, 2) % 13 - 6) / 4
SQUARE = np.eye(8, dtype=np.float32) * 4 + X @ X.T / 16
INTS = np.arange(32, dtype=np.int32).reshape(8, 4) * 7 % 19


def add(name, function):
    CASES.append((name, function))


def typed(J, y):
    """A result with its type."""
    return J.tree_util.tree_map(lambda a: [str(J.typeof(a)), a], y)


def put(J, x, *spec):
    return J.device_put(x, J.NamedSharding(J.egrid, J.P(*spec)))


LAYOUTS = {
    "x": ("x",),
    "xy": ("x", "y"),
    "_y": (None, "y"),
    "(xy)": (("x", "y"),),
}
SQUARES = {"x": ("x",), "_x": (None, "x"), "xy": ("x", "y"), "whole": ()}
CUBES = {"x": ("x",), "_x": (None, "x"), "__y": (None, None, "y"), "xy": ("x", None, "y")}


def _under(name, function, arrays, layouts, jitted=True):
    """One case for each layout of the first operand."""
    for label, spec in layouts.items():

        def run(J, spec=spec):
            with J.set_mesh(J.egrid):
                f = lambda *xs: function(J, *xs)
                return typed(J, (J.jit(f) if jitted else f)(put(J, arrays[0], *spec), *arrays[1:]))

        add(f"explicit/{name}/{label}", run)


# --- operations on one array ----------------------------------------------------------------------

UNARY = {
    "neg": lambda J, x: -x,
    "sin": lambda J, x: J.jnp.sin(x),
    "tanh_scaled": lambda J, x: J.jnp.tanh(x) * 2 + 1,
    "compare": lambda J, x: x > 0.5,
    "astype": lambda J, x: x.astype(J.jnp.int32),
    "clip": lambda J, x: J.jnp.clip(x, -1, 1),
    "where": lambda J, x: J.jnp.where(x > 0, x, 0.0),
    "sum": lambda J, x: x.sum(),
    "sum_0": lambda J, x: x.sum(0),
    "sum_1": lambda J, x: x.sum(1),
    "sum_keep": lambda J, x: x.sum(0, keepdims=True),
    "mean_var": lambda J, x: (x.mean(1), x.var(0)),
    "max_1": lambda J, x: x.max(1),
    "argmax_0": lambda J, x: x.argmax(0),
    "argmin_1": lambda J, x: x.argmin(1),
    "all_any": lambda J, x: ((x > 0).all(0), (x > 0).any(1)),
    "prod": lambda J, x: J.jnp.prod(x, 1),
    "logsumexp": lambda J, x: J.nn.logsumexp(x, 1),
    "softmax": lambda J, x: J.nn.softmax(x, 1),
    "normalised": lambda J, x: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1),
    "transpose": lambda J, x: x.T,
    "expand": lambda J, x: x[:, None, :],
    "expand_last": lambda J, x: J.jnp.expand_dims(x, 2),
    "squeeze": lambda J, x: J.jnp.squeeze(x[:, None]),
    "flatten": lambda J, x: x.reshape(32),
    "cut_rows": lambda J, x: x.reshape(4, 2, 4),
    "cut_columns": lambda J, x: x.reshape(8, 2, 2),
    "cut_and_join": lambda J, x: x.reshape(4, 8),
    "add_one": lambda J, x: x.reshape(8, 1, 4),
    "flip": lambda J, x: J.jnp.flip(x, 0),
    "roll": lambda J, x: J.jnp.roll(x, 1, 1),
    "broadcast": lambda J, x: J.jnp.broadcast_to(x, (3, 8, 4)),
    "stack": lambda J, x: J.jnp.stack([x, x]),
    "stack_last": lambda J, x: J.jnp.stack([x, x], 2),
    "concatenate": lambda J, x: J.jnp.concatenate([x, x]),
    "concatenate_1": lambda J, x: J.jnp.concatenate([x, x], 1),
    "pad": lambda J, x: J.jnp.pad(x, ((0, 0), (2, 2))),
    "pad_rows": lambda J, x: J.jnp.pad(x, ((8, 0), (0, 0))),
    "pad_odd": lambda J, x: J.jnp.pad(x, ((1, 0), (0, 0))),
    "tile": lambda J, x: J.jnp.tile(x, (1, 2)),
    "split": lambda J, x: J.jnp.split(x, 2, 1),
    "split_rows": lambda J, x: J.jnp.split(x, 2, 0),
    "slice_columns": lambda J, x: J.lax.slice(x, (0, 0), (8, 2)),
    "slice_rows": lambda J, x: J.lax.slice(x, (0, 0), (4, 4)),
    "slice_odd": lambda J, x: J.lax.slice(x, (0, 0), (3, 3)),
    "dynamic_slice": lambda J, x: J.lax.dynamic_slice(x, (1, 1), (4, 2)),
    "dynamic_rows": lambda J, x: J.lax.dynamic_slice_in_dim(x, 1, 3, 0),
    "update_slice": lambda J, x: J.lax.dynamic_update_slice(x, x * 2, (0, 0)),
    "update_whole": lambda J, x: J.lax.dynamic_update_slice(x, J.jnp.ones((8, 4)), (0, 0)),
    "sort_0": lambda J, x: J.jnp.sort(x, 0),
    "sort_1": lambda J, x: J.jnp.sort(-x, 1),
    "argsort": lambda J, x: J.jnp.argsort(x, 1),
    "top_k": lambda J, x: J.lax.top_k(x, 2)[0],
    "cumsum_0": lambda J, x: J.jnp.cumsum(x, 0),
    "cumsum_1": lambda J, x: J.jnp.cumsum(x, 1),
    "cummax": lambda J, x: J.lax.cummax(x, 1),
    "fft": lambda J, x: J.jnp.abs(J.jnp.fft.fft(x)),
    "rfft": lambda J, x: J.jnp.abs(J.jnp.fft.rfft(x, axis=1)),
    "take_rows": lambda J, x: J.jnp.take(x, np.array([1, 3]), axis=0),
    "take_columns": lambda J, x: J.jnp.take(x, np.array([1, 3]), axis=1),
    "index_row": lambda J, x: x[2],
    "index_column": lambda J, x: x[:, 1],
    "index_mask": lambda J, x: x.at[np.array([0, 1])].add(1.0),
    "set_column": lambda J, x: x.at[:, 0].set(0.0),
    "add_scalar_array": lambda J, x: x + J.jnp.float32(2),
    "add_row": lambda J, x: x + J.jnp.arange(4.0),
    "add_column": lambda J, x: x * J.jnp.ones((8, 1)),
    "self_product": lambda J, x: x @ x.T,
    "gram": lambda J, x: x.T @ x,
    "outer": lambda J, x: J.jnp.einsum("ij,ik->ijk", x, x),
    "norm": lambda J, x: J.jnp.linalg.norm(x, axis=1),
    "one_hot": lambda J, x: J.nn.one_hot(J.jnp.argmax(x, 1), 4),
    "relu_gelu": lambda J, x: J.nn.relu(x) + J.nn.gelu(x),
    "iota_like": lambda J, x: x + J.lax.broadcasted_iota(J.jnp.float32, (8, 4), 1),
    "zeros_like": lambda J, x: J.jnp.zeros_like(x),
    "ones_like": lambda J, x: J.jnp.ones_like(x),
    "full_like": lambda J, x: J.jnp.full_like(x, 3),
    "copy": lambda J, x: J.jnp.copy(x),
    "real_imag": lambda J, x: (x + 1j).imag,
    "isnan": lambda J, x: J.jnp.isnan(x / x),
    "power": lambda J, x: x**3,
    "minimum": lambda J, x: J.jnp.minimum(x, x[::-1]),
    "select": lambda J, x: J.lax.select(x > 0, x, -x),
    "clamp": lambda J, x: J.lax.clamp(-0.5, x, 0.5),
    "reduce_max": lambda J, x: J.lax.reduce_max(x, (0,)),
    "reduce_and": lambda J, x: J.lax.reduce_and(x > -9, (0, 1)),
    "barrier": lambda J, x: J.lax.optimization_barrier(x),
    "stop_gradient": lambda J, x: J.lax.stop_gradient(x) * x,
    "diff": lambda J, x: J.jnp.diff(x, axis=1),
    "triu": lambda J, x: J.jnp.triu(x),
    "repeat": lambda J, x: J.jnp.repeat(x, 2, axis=1),
    "swapaxes": lambda J, x: J.jnp.swapaxes(x[None], 1, 2),
    "moveaxis": lambda J, x: J.jnp.moveaxis(x[None], 0, 2),
    "vdot": lambda J, x: J.jnp.vdot(x, np.ones((8, 4), np.float32)),
    "nested_jit": lambda J, x: J.jit(lambda y: J.jnp.sin(y).sum(0))(x),
}
for _name, _function in UNARY.items():
    _under(_name, _function, [X], LAYOUTS)
for (
    _name
) in "neg sum_0 transpose flatten softmax index_row cumsum_1 take_rows self_product".split():
    _under(f"eager_{_name}", UNARY[_name], [X], LAYOUTS, jitted=False)

OF_INTEGERS = {
    "int_add": lambda J, x: x + 1,
    "int_bits": lambda J, x: (x & 3) | (x << 1),
    "int_sum": lambda J, x: x.sum(1),
    "bincount": lambda J, x: J.jnp.bincount(x[:, 0], length=20),
    "int_div": lambda J, x: x // 3 + x % 3,
    "embedding": lambda J, x: J.jnp.arange(20.0)[x],
    "bitcast": lambda J, x: J.lax.bitcast_convert_type(x, J.jnp.float32) * 0,
    "popcount": lambda J, x: J.lax.population_count(x),
}
for _name, _function in OF_INTEGERS.items():
    _under(_name, _function, [INTS], LAYOUTS)

MATRICES = {
    "cholesky": lambda J, x: J.lax.linalg.cholesky(x, symmetrize_input=False),
    "solve": lambda J, x: J.jnp.linalg.solve(x, J.jnp.ones(8)),
    "inverse": lambda J, x: J.jnp.linalg.inv(x),
    "trace": lambda J, x: J.jnp.trace(x),
    "diagonal": lambda J, x: J.jnp.diagonal(x),
    "triangular": lambda J, x: J.lax.linalg.triangular_solve(
        x, J.jnp.ones((8, 2)), left_side=True, lower=True
    ),
    "square": lambda J, x: x @ J.jnp.ones((8, 2)),
    "vector": lambda J, x: x @ J.jnp.arange(8.0),
    "left_vector": lambda J, x: J.jnp.arange(8.0) @ x,
}
for _name, _function in MATRICES.items():
    _under(_name, _function, [SQUARE], SQUARES)

OF_CUBES = {
    "batched_product": lambda J, x: J.jnp.matmul(x, J.jnp.ones((4, 2, 3))),
    "batched_norm": lambda J, x: J.jnp.linalg.norm(x, axis=2),
    "contract_last": lambda J, x: J.jnp.tensordot(x, J.jnp.ones((2, 3)), 1),
    "join_first": lambda J, x: x.reshape(32, 2),
    "join_last": lambda J, x: x.reshape(4, 16),
    "turn": lambda J, x: x.transpose(2, 0, 1),
    "attention": lambda J, x: J.nn.softmax(J.jnp.einsum("bik,bjk->bij", x, x), -1),
    "windows": lambda J, x: J.lax.reduce_window(x, 0.0, J.lax.add, (1, 2, 1), (1, 2, 1), "VALID"),
    "pooled": lambda J, x: J.lax.reduce_window(x, -np.inf, J.lax.max, (1, 2, 1), (1, 1, 1), "SAME"),
    "convolved": lambda J, x: J.lax.conv_general_dilated(
        x, J.jnp.ones((3, 8, 1)), (1,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")
    ),
}
for _name, _function in OF_CUBES.items():
    _under(_name, _function, [CUBE], CUBES)

# --- two arrays -----------------------------------------------------------------------------------

PAIRS = {
    "same": (("x", "y"), ("x", "y")),
    "one_whole": (("x", "y"), ()),
    "apart": (("x",), (None, "y")),
    "different": (("x",), ("y",)),
}
BINARY = {
    "add": lambda J, x, y: x + y,
    "maximum": lambda J, x, y: J.jnp.maximum(x, y),
    "arctan2": lambda J, x, y: J.jnp.arctan2(x, y),
    "joined": lambda J, x, y: J.jnp.concatenate([x, y]),
    "stacked": lambda J, x, y: J.jnp.stack([x, y]),
    "chosen": lambda J, x, y: J.jnp.where(x > y, x, y),
    "selected": lambda J, x, y: J.lax.select(x > 0, x, y),
    "updated": lambda J, x, y: J.lax.dynamic_update_slice(x, y, (0, 0)),
    "product_t": lambda J, x, y: x @ y.T,
    "product_of_t": lambda J, x, y: x.T @ y,
    "einsum": lambda J, x, y: J.jnp.einsum("ij,ij->i", x, y),
    "outer": lambda J, x, y: x[:, :, None] * y[:, None, :],
    "sorted_by": lambda J, x, y: J.lax.sort((x, y), num_keys=1, dimension=1)[1],
    "clamped": lambda J, x, y: J.lax.clamp(x, y, x + 1),
}


def _binary(name, function, label, specs):
    def run(J):
        with J.set_mesh(J.egrid):
            a, b = put(J, X, *specs[0]), put(J, X[::-1] * 2, *specs[1])
            return typed(J, J.jit(lambda x, y: function(J, x, y))(a, b))

    add(f"explicit/two/{name}/{label}", run)


for _name, _function in BINARY.items():
    for _label, _specs in PAIRS.items():
        _binary(_name, _function, _label, _specs)

# --- results whose sharding is said ---------------------------------------------------------------


def _said(name, function):
    def run(J):
        with J.set_mesh(J.egrid):
            x = put(J, X, "x", "y")
            return typed(J, function(J, x))

    add(f"explicit/said/{name}", run)
    add(
        f"explicit/said_in_jit/{name}",
        lambda J: _in_jit(J, function),
    )


def _in_jit(J, function):
    with J.set_mesh(J.egrid):
        return typed(J, J.jit(lambda x: function(J, x))(put(J, X, "x", "y")))


SAID = {
    "dot": lambda J, x: J.jnp.dot(x, x.T, out_sharding=J.P("x")),
    "dot_both": lambda J, x: J.jnp.dot(x, x.T, out_sharding=J.P("x", "y")),
    "dot_whole": lambda J, x: J.jnp.dot(x, x.T, out_sharding=J.P()),
    "matmul": lambda J, x: J.jnp.matmul(x, x.T, out_sharding=J.P(None, "x")),
    "matmul_batch": lambda J, x: J.jnp.matmul(x[None], x.T[None], out_sharding=J.P(None, "x")),
    "einsum": lambda J, x: J.jnp.einsum("ij,kj->ik", x, x, out_sharding=J.P("y", "x")),
    "einsum_turned": lambda J, x: J.jnp.einsum("ij,kj->ki", x, x, out_sharding=J.P("x")),
    "tensordot": lambda J, x: J.jnp.tensordot(x, x, ((1,), (1,)), out_sharding=J.P("x")),
    "dot_general": lambda J, x: J.lax.dot_general(
        x, x, (((1,), (1,)), ((), ())), out_sharding=J.P("x")
    ),
    "reshape": lambda J, x: J.jnp.reshape(x, (4, 8), out_sharding=J.P("x")),
    "reshape_flat": lambda J, x: J.jnp.reshape(x, (32,), out_sharding=J.P("y")),
    "reshape_method": lambda J, x: x.reshape(2, 16, out_sharding=J.P("y")),
    "ravel": lambda J, x: J.jnp.ravel(x, out_sharding=J.P(("x", "y"))),
    "lax_reshape": lambda J, x: J.lax.reshape(x, (16, 2), out_sharding=J.P("x")),
    "broadcast_to": lambda J, x: J.jnp.broadcast_to(x[:, :1], (8, 4), out_sharding=J.P("x", "y")),
    "broadcast_in_dim": lambda J, x: J.lax.broadcast_in_dim(1.0, (8, 4), (), out_sharding=J.P("x")),
    "broadcast": lambda J, x: J.lax.broadcast(1.0, (8, 4), out_sharding=J.P("x")),
    "iota": lambda J, x: J.lax.broadcasted_iota(J.jnp.int32, (8, 4), 0, out_sharding=J.P("x")),
    "zeros": lambda J, x: J.jnp.zeros((8, 4), out_sharding=J.P("x")),
    "ones": lambda J, x: J.jnp.ones((8, 4), out_sharding=J.P(None, "y")),
    "full": lambda J, x: J.jnp.full((8, 4), 2.0, out_sharding=J.P("x", "y")),
    "empty": lambda J, x: J.jnp.empty((8, 4), out_sharding=J.P("x")) * 0,
    "arange": lambda J, x: J.jnp.arange(8, out_sharding=J.P("x")),
    "array": lambda J, x: J.jnp.array(X, out_sharding=J.P("x")),
    "asarray": lambda J, x: J.jnp.asarray(X, out_sharding=J.P("y")),
    "zeros_like": lambda J, x: J.jnp.zeros_like(x, out_sharding=J.P("y")),
    "ones_like": lambda J, x: J.jnp.ones_like(x, out_sharding=J.P()),
    "full_like": lambda J, x: J.jnp.full_like(x, 3.0, out_sharding=J.P(None, "y")),
    "get_rows": lambda J, x: x.at[np.array([0, 3])].get(out_sharding=J.P(None, "y")),
    "get_row": lambda J, x: x.at[2].get(out_sharding=J.P("y")),
    "get_whole": lambda J, x: x.at[np.array([0, 3])].get(out_sharding=J.P()),
    "set_row": lambda J, x: x.at[0].set(1.0, out_sharding=J.P("x", "y")),
    "add_rows": lambda J, x: x.at[np.array([0, 3])].add(2.0, out_sharding=J.P("x")),
    "mul_rows": lambda J, x: x.at[np.array([0, 3])].multiply(2.0, out_sharding=J.P()),
    "normal": lambda J, x: J.random.normal(J.random.key(0), (8, 4), out_sharding=J.P("x")),
    "uniform": lambda J, x: J.random.uniform(J.random.key(1), (8, 4), out_sharding=J.P("x", "y")),
    "randint": lambda J, x: J.random.randint(
        J.random.key(2), (8,), 0, 9, out_sharding=J.P(("x", "y"))
    ),
    "bits": lambda J, x: J.random.bits(J.random.key(3), (8,), out_sharding=J.P("x")) >> 9,
    "bernoulli": lambda J, x: J.random.bernoulli(J.random.key(4), 0.5, (8,), out_sharding=J.P("x")),
    "reshard": lambda J, x: J.sharding.reshard(x, J.P("y", "x")),
    "reshard_whole": lambda J, x: J.sharding.reshard(x, J.P()),
    "reshard_tree": lambda J, x: J.sharding.reshard(
        {"a": x, "b": [x.T]}, {"a": J.P("y"), "b": J.P("x")}
    ),
    "reshard_named": lambda J, x: J.sharding.reshard(x, J.NamedSharding(J.egrid, J.P("y"))),
    "reshard_joined": lambda J, x: J.sharding.reshard(x, J.P(("x", "y"))),
    "constraint_same": lambda J, x: J.lax.with_sharding_constraint(x, J.P("x", "y")),
    "auto_axes": lambda J, x: J.sharding.auto_axes(lambda x: x @ x.T, out_sharding=J.P("x"))(x),
    "auto_axes_call": lambda J, x: J.sharding.auto_axes(lambda x: x[::-1] + x)(
        x, out_sharding=J.P("x")
    ),
    "auto_y": lambda J, x: J.sharding.auto_axes(
        lambda x: x.sum(1), axes="y", out_sharding=J.P("x")
    )(x),
    "auto_sort": lambda J, x: J.sharding.auto_axes(
        lambda x: J.jnp.sort(x, 0), out_sharding=J.P(None, "y")
    )(x),
    "auto_tree": lambda J, x: J.sharding.auto_axes(
        lambda x, y: {"a": x + y, "b": y[0]}, out_sharding={"a": J.P("x"), "b": J.P()}
    )(x, x),
    "device_put": lambda J, x: J.device_put(x, J.P("y")),
    "device_put_named": lambda J, x: J.device_put(x, J.NamedSharding(J.egrid, J.P(None, "x"))),
    "out_shardings": lambda J, x: J.jit(lambda x: x * 2, out_shardings=J.P("y"))(x),
    "in_shardings": lambda J, x: J.jit(lambda x: x * 2, in_shardings=J.P("x", "y"))(x),
    "convolved": lambda J, x: J.lax.conv_general_dilated(
        x.reshape(4, 2, 4, out_sharding=J.P("x")),
        J.jnp.ones((4, 2, 3)),
        (1,),
        "SAME",
        dimension_numbers=("NCH", "OIH", "NCH"),
        out_sharding=J.P("x", "y"),
    ),
    "reduce_sum": lambda J, x: J.lax.reduce_sum(x, (1,), out_sharding=J.P("y")),
    "more_repeat": lambda J, x: J.jnp.repeat(x, 2, axis=0, out_sharding=J.P("x")),
    "more_bincount": lambda J, x: J.jnp.bincount(
        J.jnp.arange(8) % 3, length=8, out_sharding=J.P("x")
    ),
    "more_segments": lambda J, x: J.ops.segment_sum(
        x, np.arange(8) % 4, 4, out_sharding=J.P("x", "y")
    ),
    "more_rng_bits": lambda J, x: (
        J.lax.rng_bit_generator(J.jnp.arange(4, dtype=J.jnp.uint32), (8,), out_sharding=J.P("x"))[1]
        >> 8
    ),
    "more_attention": lambda J, x: J.nn.dot_product_attention(
        *[J.jnp.ones((8, 2, 2, 4), out_sharding=J.P("x"))] * 3
    ),
}
for _name, _function in SAID.items():
    _said(_name, _function)

# --- gradients, batches, loops --------------------------------------------------------------------

LOSSES = {
    "squares": lambda J, x: (x**2).sum(),
    "tanh_mean": lambda J, x: J.jnp.tanh(x).mean(),
    "gram": lambda J, x: (J.jnp.dot(x, x.T, out_sharding=J.P("x")) ** 2).sum(),
    "columns": lambda J, x: (x.sum(0) ** 3).sum(),
    "rows": lambda J, x: (x.sum(1, keepdims=True) * x).sum(),
    "softmax": lambda J, x: (J.nn.softmax(x, 1)[:, 0] ** 2).sum(),
    "logsumexp": lambda J, x: J.nn.logsumexp(x, 1).sum(),
    "maximum": lambda J, x: J.jnp.maximum(x, 0.3).sum(),
    "max": lambda J, x: x.max(1).sum(),
    "turned": lambda J, x: (x.T * X.T).sum(),
    "reshaped": lambda J, x: (x.reshape(4, 2, 4) ** 2).sum(1).max(),
    "joined": lambda J, x: (J.jnp.concatenate([x, 2 * x]) ** 2).sum(),
    "stacked": lambda J, x: (J.jnp.stack([x, x**2]) ** 2).sum(),
    "padded": lambda J, x: (J.jnp.pad(x, ((0, 0), (2, 2)), constant_values=2.0) ** 2).sum(),
    "sliced": lambda J, x: (x[:, 1] ** 2).sum(),
    "where": lambda J, x: J.jnp.where(x > 0, x**2, 3 * x).sum(),
    "moved": lambda J, x: (J.sharding.reshard(x, J.P("y")) ** 2).sum(),
    "einsum": lambda J, x: J.jnp.einsum("ij,kj->ik", x, x, out_sharding=J.P("x")).sum(),
    "weights": lambda J, x: (J.nn.relu(x @ J.jnp.ones((4, 6))) ** 2).sum(),
    "layer_norm": lambda J, x: (
        ((x - x.mean(1, keepdims=True)) / J.jnp.sqrt(x.var(1, keepdims=True) + 1)) ** 3
    ).sum(),
    "checkpoint": lambda J, x: J.checkpoint(lambda y: J.jnp.sin(y).sum())(x),
    "scanned": lambda J, x: J.lax.scan(lambda c, _: (c * 1.1 + x, None), x, None, length=3)[
        0
    ].sum(),
    "branches": lambda J, x: J.lax.cond(True, lambda x: x**2, lambda x: x * 3, x).sum(),
    "auto": lambda J, x: J.sharding.auto_axes(lambda x: x @ x.T, out_sharding=J.P("x"))(x).sum(),
}
for _name, _function in LOSSES.items():
    _under(f"grad/{_name}", lambda J, x, f=_function: J.grad(lambda x: f(J, x))(x), [X], LAYOUTS)
for _name in "squares gram softmax where".split():
    _under(
        f"eager_grad/{_name}",
        lambda J, x, f=LOSSES[_name]: J.value_and_grad(lambda x: f(J, x))(x),
        [X],
        LAYOUTS,
        jitted=False,
    )
_under("hessian", lambda J, x: J.hessian(lambda r: (r**3).sum())(x[0:1].sum(0)), [X], LAYOUTS)
_under("jvp", lambda J, x: J.jvp(lambda x: J.jnp.sin(x).sum(0), (x,), (x,)), [X], LAYOUTS)
_under("vjp", lambda J, x: J.vjp(lambda x: x.T * 2, x)[1](x.T), [X], LAYOUTS)

MAPPED = {
    "double": lambda J, x: J.vmap(lambda r: r * 2)(x),
    "sum": lambda J, x: J.vmap(lambda r: r.sum())(x),
    "columns": lambda J, x: J.vmap(lambda r: J.jnp.cumsum(r), in_axes=1, out_axes=1)(x),
    "weights": lambda J, x: J.vmap(lambda r: r @ J.jnp.ones((4, 3)))(x),
    "closed": lambda J, x: J.vmap(lambda r: r + J.jnp.arange(4.0))(x),
    "pair": lambda J, x: J.vmap(lambda r, s: r * s)(x, x),
    "pair_whole": lambda J, x: J.vmap(lambda r, s: r * s)(x, J.jnp.ones((8, 4))),
    "shared": lambda J, x: J.vmap(lambda r, s: r * s, in_axes=(0, None))(x, 2.0),
    "sort": lambda J, x: J.vmap(lambda r: J.jnp.sort(r))(x),
    "grad": lambda J, x: J.vmap(J.grad(lambda r: (r**3).sum()))(x),
    "spmd": lambda J, x: J.vmap(lambda r: r * 2, spmd_axis_name="x")(x),
    "where": lambda J, x: J.vmap(lambda r: J.jnp.where(r > 0, r, 0.0))(x),
    "index": lambda J, x: J.vmap(lambda r: r[1])(x),
    "concatenate": lambda J, x: J.vmap(lambda r: J.jnp.concatenate([r, r]))(x),
    "out_axes": lambda J, x: J.vmap(lambda r: r * 2, out_axes=1)(x),
}
for _name, _function in MAPPED.items():
    _under(f"vmap/{_name}", _function, [X], LAYOUTS)

LOOPS = {
    "fori": lambda J, x: J.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
    "while": lambda J, x: J.lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x),
    "scan_carry": lambda J, x: J.lax.scan(lambda c, _: (c + 1, c.sum()), x, None, length=3),
    "scan_xs": lambda J, x: J.lax.scan(lambda c, r: (c + r.sum(), r * 2), 0.0, x),
    "scan_changes": lambda J, x: J.lax.scan(
        lambda c, _: (c + x, None), J.jnp.zeros((8, 4)), None, length=2
    )[0],
    "cond": lambda J, x: J.lax.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, x),
    "cond_differs": lambda J, x: J.lax.cond(
        x.sum() > 0, lambda x: x + 1, lambda x: J.jnp.zeros((8, 4)), x
    ),
    "switch": lambda J, x: J.lax.switch(1, [lambda x: x, lambda x: -x], x),
    "map": lambda J, x: J.lax.map(lambda r: r * 2, x),
}
for _name, _function in LOOPS.items():
    _under(f"loops/{_name}", _function, [X], LAYOUTS)

# --- shard_map on explicit meshes -----------------------------------------------------------------


def _mapped(name, function):
    def run(J, jitted):
        with J.set_mesh(J.egrid):
            f = lambda x: function(J, x)
            return typed(J, (J.jit(f) if jitted else f)(put(J, X, "x", "y")))

    add(f"explicit/shard_map/{name}", lambda J: run(J, False))
    add(f"explicit/shard_map_in_jit/{name}", lambda J: run(J, True))


SHARD_MAPS = {
    "inferred": lambda J, x: J.shard_map(lambda p: p * 2, out_specs=J.P("x", "y"))(x),
    "given": lambda J, x: J.shard_map(
        lambda p: p * 2, in_specs=J.P("x", "y"), out_specs=J.P("x", "y")
    )(x),
    "sum": lambda J, x: J.shard_map(lambda p: J.lax.psum(p, "x"), out_specs=J.P(None, "y"))(x),
    "sum_all": lambda J, x: J.shard_map(lambda p: J.lax.psum(p, ("x", "y")), out_specs=J.P())(x),
    "wrong_specs": lambda J, x: J.shard_map(
        lambda p: p * 2, in_specs=J.P("y", "x"), out_specs=J.P("x", "y")
    )(x),
    "fewer": lambda J, x: J.shard_map(lambda p: p, in_specs=J.P("x"), out_specs=J.P("x"))(x),
    "whole_argument": lambda J, x: J.shard_map(lambda p: p, in_specs=J.P("x"), out_specs=J.P("x"))(
        J.jnp.ones((8, 4))
    ),
    "part": lambda J, x: J.shard_map(
        lambda p: p * 2, in_specs=J.P("x"), out_specs=J.P("x"), axis_names={"x"}
    )(x),
    "part_sum": lambda J, x: J.shard_map(
        lambda p: J.lax.psum(p, "x"), in_specs=J.P("x"), out_specs=J.P(), axis_names={"x"}
    )(x),
    "part_of_y": lambda J, x: J.shard_map(
        lambda p: p + 1, in_specs=J.P(None, "y"), out_specs=J.P(None, "y"), axis_names={"y"}
    )(x),
    "then_more": lambda J, x: J.shard_map(lambda p: p * 2, out_specs=J.P("x", "y"))(x).sum(0),
    "turned": lambda J, x: J.shard_map(lambda p: p.T, out_specs=J.P("y", "x"))(x),
    "gathered": lambda J, x: J.shard_map(
        lambda p: J.lax.all_gather(p, "x", tiled=True), out_specs=J.P("x", "y")
    )(x),
    "grad": lambda J, x: J.grad(
        lambda x: J.shard_map(lambda p: J.lax.psum((p**2).sum(), ("x", "y")), out_specs=J.P())(x)
    )(x),
    "differentiated": lambda J, x: J.grad(
        lambda x: J.jnp.where(
            x > 0,
            J.shard_map(J.jnp.sin, in_specs=J.P("x", "y"), out_specs=J.P("x", "y"))(x) * x,
            0.0,
        ).sum()
    )(x),
    "differentiated_part": lambda J, x: J.grad(
        lambda x: (
            J.shard_map(lambda p: J.lax.psum(p, "x"), out_specs=J.P(None, "y"))(x) ** 2
        ).sum()
    )(x),
    "pushed_forward": lambda J, x: J.jvp(
        lambda x: x + J.shard_map(lambda p: p**2, out_specs=J.P("x", "y"))(x), (x,), (x * 2,)
    ),
    "two": lambda J, x: J.shard_map(lambda p, q: p + q, out_specs=J.P("x", "y"))(x, x * 2),
    "mesh_given": lambda J, x: J.shard_map(
        lambda p: p, mesh=J.egrid, in_specs=J.P("x", "y"), out_specs=J.P("x", "y")
    )(x),
    "smap": lambda J, x: J.smap(lambda p: p * 2, in_axes=0, out_axes=0, axis_name="x")(x),
}
for _name, _function in SHARD_MAPS.items():
    _mapped(_name, _function)


def _types_inside(J):
    seen = []

    def f(p):
        seen.append(f"{J.typeof(p)} {J.sharding.get_abstract_mesh().axis_types}")
        return p

    with J.set_mesh(J.egrid):
        x = put(J, X, "x", "y")
        J.jit(J.shard_map(f, out_specs=J.P("x"), in_specs=J.P("x"), axis_names={"x"}))(x)
        J.jit(J.shard_map(f, out_specs=J.P("x", "y")))(x)
        J.jit(J.sharding.auto_axes(f, out_sharding=J.P("x")))(x)
        J.jit(J.sharding.auto_axes(f, axes="y", out_sharding=J.P("x")))(x)
        J.jit(J.sharding.explicit_axes(f, in_sharding=J.P("y")))(X)
        J.vmap(f)(x)
        J.jit(f)(x)
        J.grad(lambda x: f(x).sum())(x)
    return seen


add("explicit/types_inside", _types_inside)

# --- what is known of types and meshes ------------------------------------------------------------


def _told(name, function):
    add(f"explicit/told/{name}", function)


_told("typeof", lambda J: [str(J.typeof(put(J, X, *s))) for s in [*LAYOUTS.values(), ()]])
_told("repr", lambda J: [repr(J.typeof(put(J, X, *s))) for s in LAYOUTS.values()])
_told("spec", lambda J: [str(put(J, X, *s).aval.sharding.spec) for s in LAYOUTS.values()])
_told("aval_sharding", lambda J: [str(put(J, X, *s).aval.sharding) for s in LAYOUTS.values()])
_told("joined", lambda J: str(J.typeof(put(J, X, ("y", "x")))))
_told("cube", lambda J: str(J.typeof(put(J, CUBE, "x", None, "y"))))
_told("mixed", lambda J: _mixed(J))
_told("struct", lambda J: str(J.eval_shape(lambda x: x.T, put(J, X, "x", "y")).sharding))
_told("jaxpr", lambda J: str(J.make_jaxpr(lambda x: (x * 2).sum(0))(put(J, X, "x", "y"))))
_told("tangent", lambda J: str(J.typeof(put(J, X, "x")).to_tangent_aval()))
_told("weak", lambda J: str(J.typeof(put(J, np.float32(1)) * 2)))
_told("keys", lambda J: _keys(J))
_told("abstract_mesh", lambda J: str(J.egrid.abstract_mesh))
_told("axis_types", lambda J: str(J.egrid.axis_types))
_told("default_types", lambda J: str(J.make_mesh((4, 2), ("a", "b"))))


def _mixed(J):
    kinds = (J.sharding.AxisType.Explicit, J.sharding.AxisType.Auto)
    mesh = J.make_mesh((4, 2), ("x", "y"), axis_types=kinds)
    x = J.device_put(X, J.NamedSharding(mesh, J.P("x", "y")))
    return [str(J.typeof(x)), x, str(J.typeof(x * 2)), x * 2, x.sum(0), x.T]


def _keys(J):
    with J.set_mesh(J.egrid):
        keys = J.device_put(J.random.split(J.random.key(0), 8), J.P("x"))
        drawn = J.vmap(lambda k: J.random.normal(k, (3,)))(keys)
        return str(J.typeof(keys)), str(J.typeof(drawn)), drawn


def _current(J):
    seen = [str(J.sharding.get_abstract_mesh())]
    with J.set_mesh(J.egrid):
        seen.append(str(J.sharding.get_abstract_mesh()))
        seen.append(str(J.sharding.get_mesh()))
        with J.sharding.use_abstract_mesh(J.line.abstract_mesh):
            seen.append(str(J.sharding.get_abstract_mesh()))
        seen.append(str(J.sharding.get_abstract_mesh().axis_names))
        J.jit(lambda x: seen.append(str(J.sharding.get_abstract_mesh())))(X)
    seen.append(str(J.sharding.get_mesh().empty))
    return seen


_told("current", _current)


def _made_under_a_mesh(J):
    with J.set_mesh(J.egrid):
        made = [
            J.jnp.zeros(3),
            J.jnp.arange(3) + 1,
            J.jnp.asarray(X),
            J.jnp.ones((2, 2)) @ J.jnp.ones(2),
        ]
        made += [
            J.random.normal(J.random.key(0), (4,)),
            J.jit(lambda: J.jnp.ones(3))(),
            J.jnp.sin(X),
        ]
        return made, [x.committed for x in made]


_told("made_under_a_mesh", _made_under_a_mesh)


def _made_under_an_auto_mesh(J):
    with J.set_mesh(J.grid):
        made = [
            J.jnp.zeros(3),
            J.jnp.arange(3) + 1,
            J.jnp.asarray(X),
            J.jit(lambda: J.jnp.ones(3))(),
        ]
        made += [J.device_put(X, J.P("x")), J.lax.with_sharding_constraint(X, J.P("y"))]
        made += [J.jit(lambda x: x * 2, out_shardings=J.P("x"))(X)]
        return made, [x.committed for x in made], [str(J.typeof(x)) for x in made]


_told("made_under_an_auto_mesh", _made_under_an_auto_mesh)
