"""Small programs with drawn parts: control flow, references, callbacks, sparse arrays, exports,
collectives, shardings, layers and optimisers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

PLAIN = ("call", "jit", "vmap", "grad", "jvp", "jit grad", "vmap grad", "grad checkpoint")
ONCE = ("call",)


@dataclass
class Program:
    """How the parts of a program are drawn, and what it does with them."""

    draw: Callable[[Any], list[Any]]
    run: Callable[..., Any]
    nestings: tuple[str, ...] = PLAIN


PROGRAMS: dict[str, Program] = {}


def program(draw: Callable[[Any], list[Any]], nestings: tuple[str, ...] = PLAIN) -> Any:
    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[run.__name__] = Program(draw, run, nestings)
        return run

    return register


def floats(d: Any, *shape: int) -> Any:
    return d.array(shape or None, d.pick("float32", "float32", "bfloat16", "float16"))


UNARY = "sin exp tanh abs sqrt square negative sort cumsum sum max flip".split()
unary = lambda d: d.pick(*UNARY)


# --- control flow ---------------------------------------------------------------------------------


@program(lambda d: [floats(d, 3, 2), unary(d), unary(d), d.pick(True, False), d.pick(1, 2)])
def scanned(J, x, f, g, reverse, unroll):
    body = lambda c, row: (getattr(J.jnp, f)(c) * 0.5, getattr(J.jnp, g)(row) + c.sum())
    return J.lax.scan(body, x[0], x, reverse=reverse, unroll=unroll)


@program(lambda d: [floats(d), d.pick(0, 1, 3), unary(d)])
def looped(J, x, n, f):
    return J.lax.fori_loop(0, n, lambda i, c: (getattr(J.jnp, f)(c) + 0 * c).astype(c.dtype), x)


@program(lambda d: [floats(d), d.pick(1.0, 10.0)], ("call", "jit", "vmap", "jvp"))
def while_looped(J, x, limit):
    start = (x, 0)
    return J.lax.while_loop(
        lambda c: (J.jnp.abs(c[0]).sum() < limit) & (c[1] < 5),
        lambda c: ((c[0] * 2).astype(c[0].dtype), c[1] + 1),
        start,
    )


@program(
    lambda d: [d.array(None, d.pick("bool", "int32", "float32")), floats(d), unary(d), unary(d)]
)
def branched(J, p, x, f, g):
    pick = lambda name: lambda y: getattr(J.jnp, name)(y)
    return J.lax.cond(p, pick(f), pick(g), x)


@program(lambda d: [d.pick(0, 1, 2, 5, -1), floats(d), unary(d), unary(d)])
def switched(J, i, x, f, g):
    return J.lax.switch(i, [lambda y: y, getattr(J.jnp, f), getattr(J.jnp, g)], x)


@program(
    lambda d: [
        floats(d, d.pick(1, 4, 5), 2),
        d.pick("add", "multiply", "maximum"),
        d.pick(0, 1, -1),
        d.pick(True, False),
    ]
)
def associative(J, x, f, axis, reverse):
    return J.lax.associative_scan(getattr(J.jnp, f), x, axis=axis, reverse=reverse)


@program(
    lambda d: [
        floats(d, 4, 3),
        d.pick("add", "max", "min", "mul"),
        d.pick("VALID", "SAME"),
        d.pick([1, 1], [2, 2], [1, 3]),
        d.pick([1, 1], [2, 1]),
    ]
)
def windowed(J, x, f, padding, window, strides):
    start = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}[f]
    init = np.asarray(start, x.dtype)
    return J.lax.reduce_window(x, init, getattr(J.lax, f), tuple(window), tuple(strides), padding)


@program(
    lambda d: [
        floats(d, 1, 5, 5, 4),
        floats(d, 3, 3, d.pick(2, 4), 4),
        d.pick("SAME", "VALID"),
        d.pick([1, 1], [2, 1]),
        d.pick([1, 1], [2, 2]),
        d.pick(1, 2),
    ]
)
def convolved(J, x, w, padding, strides, dilation, groups):
    return J.lax.conv_general_dilated(
        x,
        w,
        tuple(strides),
        padding,
        rhs_dilation=tuple(dilation),
        feature_group_count=groups,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


@program(
    lambda d: [
        floats(d, 2, 3, 4),
        floats(d, 2, 4, 3),
        d.pick([[2], [1]], [[1, 2], [2, 1]]),
        d.pick([[0], [0]], [[], []]),
        d.pick(None, "float32", "int32"),
    ]
)
def contracted(J, a, b, contract, batch, preferred):
    return J.lax.dot_general(a, b, (contract, batch), preferred_element_type=preferred)


@program(
    lambda d: [
        floats(d, 5),
        d.array([3], "int32", "index"),
        d.array([3], "float32"),
        d.pick("clip", "drop", "fill", "promise_in_bounds"),
    ]
)
def scattered(J, x, i, v, mode):
    dims = J.lax.ScatterDimensionNumbers((), (0,), (0,))
    return J.lax.scatter_add(x, i[:, None], v.astype(x.dtype), dims, mode=mode)


# --- references, callbacks, rules of one's own ----------------------------------------------------


@program(lambda d: [floats(d, 4), d.pick(0, 1, -1), d.scalar()], ("call", "jit", "grad", "jvp"))
def referenced(J, x, i, v):
    ref = J.new_ref(x)
    ref[i] += v
    ref[1:3] = ref[1:3] * 2
    return ref[...]


@program(
    lambda d: [
        floats(d),
        d.pick(None, "sequential", "expand_dims", "broadcast_all", "legacy_vectorized"),
    ],
    ("call", "jit", "vmap", "grad"),
)
def called_back(J, x, method):
    shape = J.ShapeDtypeStruct(x.shape, x.dtype)
    function = lambda y: np.asarray(y) * np.asarray(2, y.dtype)
    return J.pure_callback(function, shape, x, vmap_method=method)


@program(
    lambda d: [
        floats(d),
        unary(d),
        d.pick("everything_saveable", "nothing_saveable", "dots_saveable"),
    ],
    ("grad", "jit grad", "vmap grad"),
)
def rematerialised(J, x, f, policy):
    policy = getattr(J.checkpoint_policies, policy)
    return J.checkpoint(lambda y: J.jnp.sin(getattr(J.jnp, f)(y)), policy=policy)(x)


@program(lambda d: [floats(d)])
def own_rule(J, x):
    @J.custom_vjp
    def f(y):
        return J.jnp.sin(y)

    f.defvjp(lambda y: (J.jnp.sin(y), y), lambda y, g: (g * 3,))
    return f(x) * 2


# --- meshes ---------------------------------------------------------------------------------------


def spec(d: Any) -> Any:
    return d.pick([None], ["x"], ["y"], [None, "x"], ["x", "y"], [["x", "y"]], [])


def parted(J: Any, entries: Any) -> Any:
    return J.P(*[tuple(e) if isinstance(e, list) else e for e in entries])


def put(J: Any, x: Any, kind: str, entries: Any) -> tuple[Any, Any]:
    kinds = (getattr(J.sharding.AxisType, kind),) * 2
    mesh = J.make_mesh((2, 2), ("x", "y"), axis_types=kinds)
    return mesh, J.device_put(x, J.NamedSharding(mesh, parted(J, entries)))


def placed(x: Any) -> list[Any]:
    return [x, str(getattr(x.sharding, "spec", x.sharding.__class__.__name__))]


MESHES = ("Auto", "Explicit")


@program(
    lambda d: [
        d.array((4, 8)),
        d.pick(*MESHES),
        spec(d),
        d.pick(
            "sin",
            "sum",
            "cumsum",
            "sort",
            "transpose",
            "ravel",
            "argmax",
            "mean",
            "flip",
            "std",
            "round",
            "prod",
        ),
        d.pick(None, 0, 1),
        d.pick(True, False),
    ],
    ONCE,
)
def sharded(J, x, kind, entries, f, axis, jitted):
    mesh, x = put(J, x, kind, entries)
    options = {} if axis is None or f in ("sin", "transpose", "ravel", "round") else {"axis": axis}
    fun = lambda y: getattr(J.jnp, f)(y, **options)
    with J.set_mesh(mesh):
        return placed((J.jit(fun) if jitted else fun)(x))


@program(
    lambda d: [
        d.array((4, 8), "float32"),
        d.array((8, 4), "float32"),
        d.pick(*MESHES),
        spec(d),
        spec(d),
        d.pick("matmul", "add transposed", "outer", "dot"),
    ],
    ONCE,
)
def sharded_pair(J, x, y, kind, one, two, f):
    mesh, x = put(J, x, kind, one)
    _, y = put(J, y, kind, two)
    with J.set_mesh(mesh):
        if f == "add transposed":
            return placed(x + y.T)
        return placed(getattr(J.jnp, f)(x, y))


@program(
    lambda d: [
        d.array((4, 8), "float32"),
        spec(d),
        spec(d),
        d.pick("psum", "pmax", "none", "all_gather", "axis_index", "ppermute", "psum_scatter"),
        d.pick("x", "y"),
        d.pick(True, False),
    ],
    ONCE,
)
def mapped(J, x, given, wanted, f, axis, check):
    mesh = J.make_mesh((2, 2), ("x", "y"), axis_types=(J.sharding.AxisType.Auto,) * 2)

    def body(y):
        if f == "none":
            return y * 2
        if f == "axis_index":
            return y + J.lax.axis_index(axis)
        if f == "ppermute":
            return J.lax.ppermute(y, axis, [(0, 1), (1, 0)])
        return getattr(J.lax, f)(y, axis)

    fun = J.shard_map(
        body, mesh=mesh, in_specs=parted(J, given), out_specs=parted(J, wanted), check_vma=check
    )
    return placed(fun(x))


@program(lambda d: [d.array((4, 8)), d.pick(*MESHES), spec(d), spec(d)], ONCE)
def moved(J, x, kind, one, two):
    mesh, x = put(J, x, kind, one)
    with J.set_mesh(mesh):
        change = J.reshard if kind == "Explicit" else J.lax.with_sharding_constraint
        return placed(change(x, parted(J, two)))


# --- sparse, exports ------------------------------------------------------------------------------


@program(
    lambda d: [
        d.array((3, 4), d.pick("float32", "int32")),
        d.pick(0, 1),
        d.pick(0, 1),
        d.pick(
            "todense",
            "sum_duplicates",
            "sort_indices",
            "T",
            "sum",
            "mul",
            "matmul",
            "slice",
            "reshape",
            "abs",
            "update",
        ),
    ],
    ONCE,
)
def sparse(J, x, batch, dense, f):
    sparse = J.experimental_sparse
    x = J.jnp.where(x > 0, x, 0)
    m = sparse.BCOO.fromdense(x, n_batch=batch, n_dense=dense)
    if f == "sum":
        return sparse.sparsify(lambda a: a.sum(0))(m).todense()
    if f == "mul":
        return (m * x).todense()
    if f == "matmul":
        return m @ x.T
    if f == "slice":
        return sparse.sparsify(lambda a: a[1:, :2])(m).todense()
    if f == "reshape":
        return m.reshape(4, 3).todense()
    if f == "abs":
        return sparse.sparsify(J.jnp.abs)(m).todense()
    if f == "T":
        return m.T.todense()
    if f == "update":
        return m.sum_duplicates(nse=8).todense()
    return getattr(m, f)() if f == "todense" else getattr(m, f)().todense()


SYMBOLIC = {
    "sum": lambda J, x: J.jnp.sum(x, 0),
    "reshape": lambda J, x: x.reshape(-1),
    "concatenate": lambda J, x: J.jnp.concatenate([x, x]),
    "slice": lambda J, x: x[1:],
    "step": lambda J, x: x[::2],
    "arange": lambda J, x: J.jnp.arange(x.shape[0]),
    "mean": lambda J, x: J.jnp.mean(x),
    "pad": lambda J, x: J.jnp.pad(x, ((0, x.shape[0]), (0, 0))),
    "tile": lambda J, x: J.jnp.tile(x, (2, 1)),
    "broadcast": lambda J, x: J.jnp.broadcast_to(x, (3, *x.shape)),
    "matmul": lambda J, x: x @ x.T,
    "eye": lambda J, x: J.jnp.eye(x.shape[0]),
    "take": lambda J, x: J.jnp.take(x, J.jnp.array([0]), axis=0),
    "roll": lambda J, x: J.jnp.roll(x, 1, 0),
    "stack": lambda J, x: J.jnp.stack([x, x], 1),
    "cumsum": lambda J, x: J.jnp.cumsum(x, 0),
    "repeat": lambda J, x: J.jnp.repeat(x, 2, axis=0),
    "split": lambda J, x: J.jnp.split(x, 2, axis=1),
    "sort": lambda J, x: J.jnp.sort(x, 0),
    "linspace": lambda J, x: J.jnp.linspace(0.0, 1.0, x.shape[0]),
    "negative step": lambda J, x: x[::-1],
    "half": lambda J, x: x[: x.shape[0] // 2],
}


@program(
    lambda d: [
        d.pick(*sorted(SYMBOLIC)),
        d.pick("b, 4", "b, c", "2*b, 4", "b+1, 2"),
        d.pick(True, False),
    ],
    ONCE,
)
def exported(J, name, dims, called):
    export = J.export
    shape = export.symbolic_shape(dims)
    given = J.ShapeDtypeStruct(shape, np.float32)
    made = export.export(J.jit(lambda x: SYMBOLIC[name](J, x)))(given)
    if not called:
        return [str(tuple(a.shape)) for a in made.out_avals]
    sizes = {"b, 4": (3, 4), "b, c": (3, 4), "2*b, 4": (6, 4), "b+1, 2": (3, 2)}[dims]
    return made.call(np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes))


# --- layers and optimisers ------------------------------------------------------------------------

LAYERS = {
    "Dense": lambda nn, d: nn.Dense(d["n"], use_bias=d["flag"]),
    "Conv": lambda nn, d: nn.Conv(
        d["n"], (d["k"],), strides=d["s"], padding=d["pad"], use_bias=d["flag"]
    ),
    "ConvTranspose": lambda nn, d: nn.ConvTranspose(d["n"], (d["k"],), padding=d["pad"]),
    "LayerNorm": lambda nn, d: nn.LayerNorm(use_bias=d["flag"], use_scale=d["other"]),
    "RMSNorm": lambda nn, d: nn.RMSNorm(use_scale=d["flag"]),
    "GroupNorm": lambda nn, d: nn.GroupNorm(num_groups=d["s"]),
    "BatchNorm": lambda nn, d: nn.BatchNorm(use_running_average=d["flag"]),
    "Embed": lambda nn, d: nn.Embed(8, d["n"]),
    "DenseGeneral": lambda nn, d: nn.DenseGeneral((d["n"], 2), axis=-1),
    "SelfAttention": lambda nn, d: nn.SelfAttention(num_heads=2, use_bias=d["flag"]),
    "MultiHeadDotProductAttention": lambda nn, d: nn.MultiHeadDotProductAttention(
        num_heads=2, qkv_features=4, use_bias=d["flag"]
    ),
    "LSTM": lambda nn, d: nn.RNN(nn.LSTMCell(d["n"]), reverse=d["flag"]),
    "GRU": lambda nn, d: nn.RNN(nn.GRUCell(d["n"]), return_carry=d["flag"]),
    "SimpleCell": lambda nn, d: nn.RNN(nn.SimpleCell(d["n"])),
    "PReLU": lambda nn, d: nn.PReLU(),
    "Einsum": lambda nn, d: nn.Einsum((4, d["n"]), "...i,ij->...j", use_bias=d["flag"]),
    "WeightNorm": lambda nn, d: nn.WeightNorm(nn.Dense(d["n"])),
    "SpectralNorm": lambda nn, d: nn.SpectralNorm(nn.Dense(d["n"])),
    "Dropout": lambda nn, d: nn.Dropout(0.5, deterministic=d["flag"]),
}


@program(
    lambda d: [
        d.pick(*sorted(LAYERS)),
        d.pick(1, 2, 4),
        d.pick(1, 2, 3),
        d.pick(1, 2),
        d.pick("SAME", "VALID", "CIRCULAR", "CAUSAL"),
        d.pick(True, False),
        d.pick(True, False),
        d.array((2, 5, 4), "float32"),
    ],
    ONCE,
)
def layer(J, name, n, k, s, pad, flag, other, x):
    d = {"n": n, "k": k, "s": s, "pad": pad, "flag": flag, "other": other}
    module = LAYERS[name](J.linen, d)
    x = J.jnp.abs(x * 4).astype("int32") % 8 if name == "Embed" else x
    options = {"update_stats": other} if name == "SpectralNorm" else {}
    keys = {"params": J.random.key(0), "dropout": J.random.key(1)}
    out, variables = module.init_with_output(keys, x, **options)
    return [out, J.tree.leaves(variables)]


OPTIMISERS = (
    "sgd adam adamw adagrad rmsprop lamb lars lion adabelief yogi radam novograd amsgrad adamax"
    " adafactor noisy_sgd fromage sm3 nadam nadamw rprop adadelta adan sign_sgd"
).split()


@program(
    lambda d: [
        d.pick(*OPTIMISERS),
        d.pick(0.1, 0.01),
        d.pick(1, 3),
        floats(d, 3, 2),
        d.pick(True, False),
    ],
    ONCE,
)
def optimised(J, name, rate, steps, x, decay):
    optim = J.optim
    maker = getattr(optim, name)
    options = (
        {"weight_decay": 0.01} if decay and name in ("adamw", "lamb", "lion", "nadamw") else {}
    )
    if name == "noisy_sgd":
        options["key"] = J.random.key(0)
    tx = maker(rate, **options)
    params = {"w": x, "b": J.jnp.zeros(2, x.dtype)}
    state = tx.init(params)
    for _ in range(steps):
        grads = J.tree.map(lambda p: (p * 0.5 + 0.1).astype(p.dtype), params)
        updates, state = tx.update(grads, state, params)
        params = optim.apply_updates(params, updates)
    return params


SCHEDULES = {
    "cosine_decay_schedule": (0.1, 20),
    "exponential_decay": (0.1, 5, 0.9),
    "linear_schedule": (0.0, 1.0, 10),
    "polynomial_schedule": (1.0, 0.1, 2, 10),
    "piecewise_constant_schedule": (1.0,),
    "warmup_cosine_decay_schedule": (0.0, 1.0, 5, 20),
    "warmup_constant_schedule": (0.0, 1.0, 5),
    "constant_schedule": (0.3,),
}


@program(lambda d: [d.pick(*sorted(SCHEDULES)), d.pick(0, 1, 4, 7, 30)], ("call", "jit", "vmap"))
def schedule(J, name, step):
    return J.optim.__getattribute__(name)(*SCHEDULES[name])(J.jnp.asarray(step))
