"""Shape and data movement of ``lax``: broadcast, reshape, pad, slice, concatenate and friends."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, VALUE, Adder, Tol, call, dtype, family, is_inexact
from ..table import shape_name as sn

FEW = ("f32", "i32", "bool", "c64", "bf16")


def modes_of(x: np.ndarray) -> tuple[str, ...]:
    return ALL if is_inexact(x.dtype) else BATCH


@family("lax_shape")
def shape(add: Adder) -> None:
    """One operand, one result: the same elements in another order or shape."""
    table: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = []

    def row(name: str, shape: tuple[int, ...], *tail: Any, **kwargs: Any) -> None:
        table.append((name, shape, tail, kwargs))

    for s, new in (((6,), (2, 3)), ((2, 3), (6,)), ((2, 3), (3, 2)), ((), (1, 1)), ((1, 1), ())):
        row("reshape", s, new)
    row("reshape", (2, 3, 4), (4, 6))
    row("reshape", (2, 3), (6,), (1, 0))
    row("reshape", (0, 3), (3, 0))
    for s, p in (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (0, 2, 1)), ((4,), (0,))):
        row("transpose", s, p)
    row("transpose", (2, 3, 1, 2), (3, 1, 0, 2))
    for s, dims in (((4,), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 3, 2), (0, 2))):
        row("rev", s, dims)
    row("rev", (3,), ())
    for s, dims in (((1, 3), (0,)), ((3, 1, 1), (1, 2)), ((1, 3, 1), (-1,)), ((2, 3), ())):
        row("squeeze", s, dims)
    for s, dims in (((3,), (0,)), ((3,), (1,)), ((2, 3), (0, 2)), ((2, 3), (-1,)), ((), (0, 1))):
        row("expand_dims", s, dims)
    for s, sizes in (((3,), (2,)), ((), (2, 3)), ((2, 1), (3,)), ((2,), ())):
        row("broadcast", s, sizes)
    for s, new, dims in (
        ((3,), (2, 3), (1,)),
        ((3,), (3, 2), (0,)),
        ((1,), (3,), (0,)),
        ((), (2, 2), ()),
        ((2, 1), (2, 4, 3), (0, 2)),
        ((2, 3), (2, 3), (0, 1)),
        ((1, 3), (5, 4, 3), (1, 2)),
    ):
        row("broadcast_in_dim", s, new, dims)
    row("broadcast_to_rank", (3,), 3)
    for s, a, b in (((2, 3, 4), 0, 2), ((2, 3, 4), 1, 3), ((2, 3, 4), 1, None), ((2, 3), -2, None)):
        row("collapse", s, a, b)
    for s, reps in (((3,), (2,)), ((2, 3), (2, 1)), ((2, 3), (1, 3))):
        row("tile", s, reps)
    for s, start, limit, strides in (
        ((6,), (1,), (5,), None),
        ((6,), (1,), (6,), (2,)),
        ((4, 5), (0, 1), (3, 5), (2, 3)),
        ((4, 5), (4, 2), (4, 5), None),
        ((2, 3, 4), (0, 1, 2), (2, 2, 4), (1, 1, 1)),
        ((7,), (0,), (7,), (3,)),
    ):
        row("slice", s, start, limit, strides)
    for s, args in (((6,), (1, 5, 2, 0)), ((2, 5), (-3, None, 1, 1)), ((2, 5), (0, -1, 1, -1))):
        row("slice_in_dim", s, *args)
    for s, i, axis, keep in (((4,), 1, 0, True), ((3, 4), -1, 1, False), ((3, 4), 2, 0, True)):
        row("index_in_dim", s, i, axis, keep)
    for s, config in (
        ((3,), ((1, 2, 0),)),
        ((3,), ((1, 1, 2),)),
        ((5,), ((-1, -2, 0),)),
        ((5,), ((-1, 2, 1),)),
        ((2, 3), ((1, 0, 1), (0, 2, 2))),
        ((4,), ((-2, 3, 2),)),
        ((1,), ((0, 0, 3),)),
        ((4,), ((-1, -1, 1),)),
    ):
        row("pad", s, config)
    row("split", (6,), (2, 4), 0)
    row("split", (2, 5), (1, 3, 1), 1)
    row("unstack", (3, 2))
    row("unstack", (2, 3), 1)
    row("full_like", (2, 3), 2)
    row("stop_gradient", (2,))
    row("optimization_barrier", (2,))
    row("stage", (2,))
    for n, (name, s, tail, kwargs) in enumerate(table):
        for d in FEW if name not in ("full_like",) else ("f32", "i32"):
            key = f"{name}/{sn(s)}/{n}/{d}"
            x = add.rng(key).any(s, d)
            if name == "pad":
                fill = add.rng(key + "fill").any((), d)
                fn = call("lax.pad", *tail)
                add(key, fn, [x, fill], modes=modes_of(x), each=True)
            else:
                add(key, call(f"lax.{name}", *tail, **kwargs), [x], modes=modes_of(x))


@family("lax_creation")
def creation(add: Adder) -> None:
    """iota, full and constants with their dtypes and weak types."""
    for d in ("i32", "u8", "f32", "bf16", "f16", "i8", "f64", "i64", "c64"):
        t = dtype(d)
        wide = "64" in d and d != "c64"
        add(f"iota/{d}", lambda J, t=t: J.lax.iota(t, 5), x64=wide)
        add(f"iota/{d}/0", lambda J, t=t: J.lax.iota(t, 0), x64=wide)
        for dim in (0, 1, 2):
            fn = lambda J, t=t, dim=dim: J.lax.broadcasted_iota(t, (2, 3, 2), dim)
            add(f"broadcasted_iota/{d}/{dim}", fn, x64=wide)
        add(f"full/{d}", lambda J, t=t: J.lax.full((2, 2), 3, t), x64=wide)
        add(f"empty/{d}", lambda J, t=t: J.lax.empty((2, 0), t), x64=wide)
    for value, label in ((1, "int"), (1.5, "float"), (True, "bool"), (1j, "complex")):
        for x64 in (False, True):
            tag = f"{label}/{'x64' if x64 else 'x32'}"
            add(f"full_weak/{tag}", lambda J, v=value: J.lax.full((2,), v), x64=x64)
            add(f"asarray_weak/{tag}", lambda J, v=value: J.jnp.asarray(v), x64=x64)
            add(f"array_weak/{tag}", lambda J, v=value: J.jnp.array(v), x64=x64)
            add(f"array_list/{tag}", lambda J, v=value: J.jnp.array([v, v]), x64=x64)
            add(f"full_jnp/{tag}", lambda J, v=value: J.jnp.full((2,), v), x64=x64)
    add("iota_int", lambda J: J.lax.iota(int, 3))
    add("iota_float", lambda J: J.lax.iota(float, 3))
    add("shapes", lambda J: J.lax.broadcast_shapes((2, 1), (1, 3), (3,)))
    add("shapes/scalar", lambda J: J.lax.broadcast_shapes((), (2,)))
    add("dtype_of", lambda J: [str(J.lax.dtype(v)) for v in (1, 1.0, True, np.int8(3))])


@family("lax_join")
def join(add: Adder) -> None:
    """concatenate, stack, dynamic slices and their updates."""
    for d in FEW:
        rng = add.rng(d)
        groups = {
            "1d": ([(2,), (3,), (1,)], 0),
            "2d0": ([(1, 3), (2, 3)], 0),
            "2d1": ([(2, 1), (2, 2), (2, 1)], 1),
            "3d": ([(2, 1, 2), (2, 3, 2)], 1),
            "one": ([(3,)], 0),
            "empty": ([(0, 2), (2, 2)], 0),
        }
        for label, (shapes, axis) in groups.items():
            xs = [rng.any(s, d) for s in shapes]
            fn = lambda J, *xs, axis=axis: J.lax.concatenate(xs, axis)
            add(f"concatenate/{label}/{d}", fn, xs, modes=modes_of(xs[0]), each=True)
        for axis in (0, 1, -1):
            xs = [rng.any((2, 3), d) for _ in range(3)]
            fn = lambda J, *xs, axis=axis: J.lax.stack(xs, axis)
            add(f"stack/{axis}/{d}", fn, xs, modes=modes_of(xs[0]), each=True)
        dynamic(add, d)


def dynamic(add: Adder, d: str) -> None:
    """Slices at run-time positions: inside, over the end, negative."""
    rng = add.rng("dynamic" + d)
    x = rng.any((5, 4), d)
    modes = modes_of(x)
    for i, j in ((0, 0), (2, 1), (4, 3), (9, 9), (-1, -2), (-9, 0)):
        starts = [np.asarray(i, np.int32), np.asarray(j, np.int32)]

        def take(J: Any, x: Any, i: Any, j: Any) -> Any:
            return J.lax.dynamic_slice(x, (i, j), (2, 3))

        def put(J: Any, x: Any, u: Any, i: Any, j: Any) -> Any:
            return J.lax.dynamic_update_slice(x, u, (i, j))

        add(f"dynamic_slice/{i},{j}/{d}", take, [x, *starts], modes=modes, each=True)
        u = rng.any((2, 3), d)
        add(f"dynamic_update_slice/{i},{j}/{d}", put, [x, u, *starts], modes=modes, each=True)
    for i in (0, 3, -1, 7):
        at = np.asarray(i, np.int32)
        for axis in (0, 1):
            fn = call("lax.dynamic_index_in_dim", axis, False)
            add(f"dynamic_index/{i}/{axis}/{d}", fn, [x, at], modes=modes)
            fn = call("lax.dynamic_slice_in_dim", 2, axis)
            add(f"dynamic_slice_in_dim/{i}/{axis}/{d}", fn, [x, at], modes=modes)
            u = rng.any((4,) if axis == 0 else (5,), d)
            fn = call("lax.dynamic_update_index_in_dim", axis)
            add(f"dynamic_update_index/{i}/{axis}/{d}", fn, [x, u, at], modes=modes)
    for kind in ("i8", "u8", "i64", "u32"):
        at = np.asarray(3, dtype(kind))
        fn = call("lax.dynamic_slice_in_dim", 2, 0)
        add(f"dynamic_slice/index_{kind}/{d}", fn, [x, at], modes=VALUE)


@family("lax_array_methods")
def methods(add: Adder) -> None:
    """Methods and properties of arrays that move data or describe it."""
    table: dict[str, tuple[tuple[int, ...], Any]] = {
        "T": ((2, 3), lambda J, x: x.T),
        "mT": ((2, 3, 4), lambda J, x: x.mT),
        "flatten": ((2, 3), lambda J, x: x.flatten()),
        "ravel": ((2, 3), lambda J, x: x.ravel()),
        "reshape": ((2, 3), lambda J, x: x.reshape(3, -1)),
        "reshape_tuple": ((2, 3), lambda J, x: x.reshape((6,))),
        "reshape_F": ((2, 3), lambda J, x: x.reshape(3, 2, order="F")),
        "transpose": ((2, 3, 4), lambda J, x: x.transpose(1, 0, 2)),
        "transpose_default": ((2, 3, 4), lambda J, x: x.transpose()),
        "swapaxes": ((2, 3, 4), lambda J, x: x.swapaxes(0, -1)),
        "squeeze": ((1, 3, 1), lambda J, x: x.squeeze()),
        "squeeze_axis": ((1, 3, 1), lambda J, x: x.squeeze(0)),
        "repeat": ((2, 3), lambda J, x: x.repeat(2, axis=1)),
        "diagonal": ((3, 4), lambda J, x: x.diagonal(1)),
        "trace": ((3, 3), lambda J, x: x.trace()),
        "astype": ((3,), lambda J, x: x.astype("complex64")),
        "real": ((3,), lambda J, x: x.real),
        "imag": ((3,), lambda J, x: x.imag),
        "conj": ((3,), lambda J, x: x.conj()),
        "copy": ((3,), lambda J, x: x.copy()),
        "iterate": ((3, 2), lambda J, x: list(x)),
        "properties": ((2, 3), lambda J, x: [x.ndim, x.size, x.shape, len(x), x.dtype, x.itemsize]),
        "nbytes": ((2, 3), lambda J, x: x.nbytes),
        "take": ((5,), lambda J, x: x.take(J.jnp.array([0, 3, 1]))),
        "round": ((3,), lambda J, x: x.round(1)),
        "tolist": ((2, 2), lambda J, x: str(x.tolist())),
        "item": ((1,), lambda J, x: x.item()),
        "searchsorted": ((3,), lambda J, x: J.jnp.sort(x).searchsorted(x)),
        "view": ((4,), lambda J, x: x.view("int32")),
        "compress": ((4,), lambda J, x: x.compress(np.array([True, False, True, False]))),
        "choose": ((2,), lambda J, x: J.jnp.array([0, 1]).choose([x, x + 1])),
        "clip": ((5,), lambda J, x: x.clip(-1, 1)),
        "ptp": ((5,), lambda J, x: x.ptp()),
        "contains": ((3,), lambda J, x: bool((x == x[0]).any())),
        "bool": ((), lambda J, x: [bool(x), float(x), int(x), complex(x)]),
        "index": ((), lambda J, x: [10, 20, 30][J.jnp.asarray(1)]),
        "repr": ((3,), lambda J, x: repr(J.jnp.round(x * 4) / 4)),
        "repr_2d": ((2, 2), lambda J, x: repr(J.jnp.round(x * 4) / 4)),
        "str": ((3,), lambda J, x: str(J.jnp.round(x * 4) / 4)),
        "format": ((), lambda J, x: f"{J.jnp.round(x * 4) / 4:.2f}"),
        "repr_int": ((2,), lambda J, x: repr(J.jnp.arange(3))),
        "repr_weak": ((2,), lambda J, x: repr(J.jnp.asarray(1.0))),
        "repr_bool": ((2,), lambda J, x: repr(J.jnp.array([True, False]))),
        "repr_empty": ((2,), lambda J, x: repr(J.jnp.zeros((0, 3)))),
        "repr_bf16": ((2,), lambda J, x: repr(J.jnp.ones(2, "bfloat16"))),
        "repr_large": ((2,), lambda J, x: repr(J.jnp.arange(2000))),
        "repr_complex": ((2,), lambda J, x: repr(J.jnp.array([1 + 2j]))),
    }
    plain = ("tolist", "item", "bool", "index", "compress", "properties")
    for name, (s, fn) in table.items():
        x = add.rng(name).f(s, "f32")
        modes = ("value",) if name in plain or name.startswith(("repr", "str", "format")) else ALL
        # JAX multiplies by 0.1 where the definition divides by 10.
        add(name, fn, [x], modes=modes, tol=Tol(1) if name == "round" else None)
