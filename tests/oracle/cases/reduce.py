"""Reductions, windows, cumulative functions and sorting of ``lax``."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, EXACT, VALUE, Adder, Tol, call, dtype, family, is_inexact
from ..table import shape_name as sn

INT = ("i8", "i32", "u8", "u32", "i64")
AXES = [((4,), (0,)), ((2, 3), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 3, 4), (0, 2))]
AXES += [((2, 3), ()), ((0, 3), (0,)), ((2, 3, 2, 2), (1, 3)), ((), ())]


@family("lax_reduce", Tol(4, True))
def reduce(add: Adder) -> None:
    """Every reduction over axes and dtypes; ties are kept apart where derivatives are taken."""
    for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        dtypes = ("f32", "f64", "bf16", "f16", *INT)
        dtypes += ("c64", "c128") if name in ("reduce_sum", "reduce_prod") else ()
        for d in dtypes:
            for shape, axes in AXES:
                if d not in ("f32", "i32", "c64") and len(shape) != 2:
                    continue
                if name in ("reduce_max", "reduce_min") and 0 in shape and axes:
                    continue
                key = f"{name}/{d}/{sn(shape)}/{axes}"
                rng = add.rng(key)
                x = rng.distinct(shape, d) if "m" in name[-3:-1] or d[0] == "i" else None
                x = rng.any(shape, d, 0.5, 1.5) if x is None or name == "reduce_prod" else x
                modes = ALL if is_inexact(x.dtype) else BATCH
                tol = EXACT if name in ("reduce_max", "reduce_min") else None
                add(key, call(f"lax.{name}", axes), [x], modes=modes, tol=tol)
    for name in ("reduce_and", "reduce_or", "reduce_xor"):
        for d in ("bool", "i32", "u8"):
            for shape, axes in AXES:
                key = f"{name}/{d}/{sn(shape)}/{axes}"
                x = add.rng(key).i(shape, d, 0, 9)
                add(key, call(f"lax.{name}", axes), [x], modes=BATCH)
    ties = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], np.float32)
    for name in ("reduce_max", "reduce_min"):
        add(f"{name}/ties", call(f"lax.{name}", (1,)), [ties], modes=ALL)
    zeros = np.array([[1.0, 0.0, 3.0], [0.0, 0.0, 2.0]], np.float32)
    add("reduce_prod/zeros", call("lax.reduce_prod", (1,)), [zeros], modes=ALL)
    odd = np.array([[1.0, np.nan, 3.0], [np.inf, -np.inf, 2.0]], np.float32)
    for name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        add(f"{name}/nan", call(f"lax.{name}", (1,)), [odd])
    general(add)


def general(add: Adder) -> None:
    """reduce with a computation of the user's, one operand and several."""
    table = {
        "add": (0, lambda J, a, b: a + b),
        "mul": (1, lambda J, a, b: a * b),
        "max": (-9, lambda J, a, b: J.lax.max(a, b)),
        "left": (0, lambda J, a, b: J.lax.add(J.lax.mul(a, b), J.lax.add(a, b))),
    }
    for label, (init, op) in table.items():
        for d in ("f32", "i32"):
            x = add.rng(label + d).any((3, 4), d)
            start = x.dtype.type(init)

            def fn(J: Any, x: Any, op: Any = op, start: Any = start) -> Any:
                return J.lax.reduce(x, start, lambda a, b: op(J, a, b), (1,))

            modes = ("value", "jit", "vmap") if label == "left" else ALL
            add(f"reduce/{label}/{d}", fn, [x], modes=modes if d == "f32" else BATCH)

    def pair(J: Any, x: Any, y: Any) -> Any:
        def best(a: Any, b: Any) -> Any:
            keep = a[0] >= b[0]
            return J.lax.select(keep, a[0], b[0]), J.lax.select(keep, a[1], b[1])

        return J.lax.reduce((x, y), (np.float32(-np.inf), np.int32(0)), best, (1,))

    x = add.rng("pair").distinct((3, 4))
    y = np.arange(12, dtype=np.int32).reshape(3, 4)
    add("reduce/pair", pair, [x, y], modes=BATCH)


@family("lax_argreduce")
def argreduce(add: Adder) -> None:
    """argmax and argmin: ties, NaN, index dtypes."""
    for name in ("argmax", "argmin"):
        for d in ("f32", "f64", "bf16", *INT, "bool"):
            for shape, axis in (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 2), 1)):
                key = f"{name}/{d}/{sn(shape)}/{axis}"
                x = add.rng(key).any(shape, d)
                add(key, call(f"lax.{name}", axis, np.int32), [x], modes=BATCH)
        for index in ("i8", "u32", "i64"):
            x = add.rng(name).f((3, 4))
            fn = call(f"lax.{name}", 1, dtype(index))
            add(f"{name}/index/{index}", fn, [x], x64=index == "i64")
        x = np.array(
            [[1.0, np.nan, 3.0, np.nan], [2, 2, 1, 1], [np.inf, -np.inf, 0, np.inf]], np.float32
        )
        add(f"{name}/nan_ties", call(f"lax.{name}", 1, np.int32), [x], modes=BATCH)


@family("lax_cumulative", Tol(4, True))
def cumulative(add: Adder) -> None:
    """Cumulative functions along each axis, both directions."""
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        dtypes = ("f32", "f64", "bf16", "i32", "u8", "c64")
        for d in dtypes:
            if d in ("i32", "u8") and name == "cumlogsumexp":
                continue
            if d == "c64" and name not in ("cumsum", "cumprod"):
                continue
            for shape, axis in (((5,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 2), 1), ((1,), 0)):
                for reverse in (False, True):
                    key = f"{name}/{d}/{sn(shape)}/{axis}/{'rev' if reverse else 'fwd'}"
                    if d not in ("f32", "i32") and len(shape) != 2:
                        continue
                    rng = add.rng(key)
                    apart = "m" in name[3] and d[0] != "u"
                    x = rng.distinct(shape, d) if apart else rng.any(shape, d, 0.5, 1.5)
                    modes = ALL if is_inexact(x.dtype) else BATCH
                    tol = Tol(16, True) if name == "cumlogsumexp" else None
                    fn = call(f"lax.{name}", axis, reverse)
                    add(key, fn, [x], modes=modes, tol=tol)


WINDOWS = {
    "1d": ((7,), (3,), (1,), "VALID", None, None),
    "1d_stride": ((8,), (2,), (2,), "SAME", None, None),
    "2d": ((5, 6), (2, 3), (1, 1), "VALID", None, None),
    "2d_same": ((5, 6), (2, 3), (2, 2), "SAME", None, None),
    "2d_lower": ((5, 6), (2, 3), (2, 2), "SAME_LOWER", None, None),
    "padded": ((5, 4), (3, 2), (2, 1), ((1, 1), (0, 2)), None, None),
    "base": ((4, 3), (2, 2), (1, 1), "VALID", (2, 2), None),
    "dilated": ((6, 7), (2, 2), (1, 2), "VALID", None, (2, 3)),
    "both": ((4, 4), (2, 2), (1, 1), ((1, 0), (0, 1)), (2, 1), (1, 2)),
    "nhwc": ((1, 5, 5, 2), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", None, None),
    "cropped": ((6,), (2,), (1,), ((-1, -1),), None, None),
}


@family("lax_window", Tol(4, True))
def window(add: Adder) -> None:
    """reduce_window with the known computations and a general one."""
    inits = {"add": 0, "max": -np.inf, "min": np.inf, "mul": 1}
    for label, (shape, dims, strides, padding, base, dilation) in WINDOWS.items():
        for op, init in inits.items():
            for d in ("f32", "i32", "f64", "bf16"):
                if d in ("f64", "bf16") and label not in ("2d", "padded"):
                    continue
                key = f"{op}/{label}/{d}"
                rng = add.rng(key)
                x = rng.distinct(shape, d) if op in ("max", "min") else rng.any(shape, d, 0.5, 1.5)
                modes = ALL if d != "i32" else BATCH
                if op == "mul":
                    modes = BATCH
                fn = window_fn(op, init, x.dtype, (dims, strides, padding, base, dilation))
                add(key, fn, [x], modes=modes)

        def general(J: Any, x: Any, spec: Any = (dims, strides, padding, base, dilation)) -> Any:
            return J.lax.reduce_window(x, np.float32(0), lambda a, b: a + b + a * b, *spec)

        add(f"general/{label}", general, [add.rng(label).f(shape)], modes=VALUE)
    for shape, dims, strides, padding in (
        ((7, 6), (2, 3), (1, 2), "SAME"),
        ((5,), (2,), (1,), "VALID"),
    ):
        tail = (dims, strides, padding)
        fn = lambda J, tail=tail, shape=shape: [
            int(n)
            for n in J.lax.reduce_window_shape_tuple(
                shape, tail[0], tail[1], J.lax.padtype_to_pads(shape, *tail)
            )
        ]
        add(f"shape_tuple/{sn(shape)}", fn)


def window_fn(op: str, init: float, d: np.dtype, spec: Any) -> Any:
    if not is_inexact(d) and np.isinf(init):
        init = np.iinfo(d).max if init > 0 else np.iinfo(d).min

    def fn(J: Any, x: Any) -> Any:
        return J.lax.reduce_window(x, d.type(init), getattr(J.lax, op), *spec)

    return fn


@family("lax_sort")
def sort(add: Adder) -> None:
    """sort with one and more operands and keys, top_k, NaN and signed zeros."""
    for d in ("f32", "f64", "bf16", "f16", *INT, "bool", "c64"):
        for shape, axis in (((6,), 0), ((3, 4), 0), ((3, 4), -1), ((2, 3, 2), 1)):
            key = f"sort/{d}/{sn(shape)}/{axis}"
            x = add.rng(key).any(shape, d)
            modes = ALL if is_inexact(x.dtype) else BATCH
            add(key, call("lax.sort", axis), [x], modes=modes)
        x = add.rng("kv" + d).any((3, 4), d)
        y = np.arange(12, dtype=np.float32).reshape(3, 4)
        modes = ALL if is_inexact(x.dtype) else BATCH
        for axis in (0, 1):
            add(f"sort_key_val/{d}/{axis}", call("lax.sort_key_val", axis), [x, y], modes=modes)
    for keys in (1, 2, 3):
        for axis in (0, 1):
            rng = add.rng(f"multi{keys}{axis}")
            xs = [rng.i((4, 5), "i32", 0, 3), rng.f((4, 5)).round(), rng.i((4, 5), "u8", 0, 3)]

            def fn(J: Any, *xs: Any, axis: int = axis, keys: int = keys) -> Any:
                return J.lax.sort(xs, dimension=axis, num_keys=keys)

            add(f"multi/{keys}/{axis}", fn, xs, modes=ALL, each=True)
    odd = np.array([3.0, np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan, -1.0], np.float32)
    add("sort/nan", call("lax.sort"), [odd])
    add("sort_key_val/nan", call("lax.sort_key_val"), [odd, np.arange(8)])
    add("sort/empty", call("lax.sort"), [np.zeros((0, 3), np.float32)])
    for d in ("f32", "i32", "bf16", "u8", "f64"):
        for k in (1, 2, 4):
            x = add.rng(f"top{d}{k}").any((3, 6), d)
            modes = ALL if is_inexact(x.dtype) else BATCH
            add(f"top_k/{d}/{k}", call("lax.top_k", k), [x], modes=modes)
    x = add.rng("top").f((4, 3))
    add("top_k/axis", call("lax.top_k", 2, axis=0), [x], modes=ALL)
    add("top_k/nan", call("lax.top_k", 4), [odd])
    ties = np.array([2.0, 3.0, 3.0, 2.0, 1.0, 3.0], np.float32)
    add("top_k/ties", call("lax.top_k", 5), [ties])
    for name in ("approx_max_k", "approx_min_k"):
        add(name, call(f"lax.{name}", 2), [add.rng(name).distinct((3, 8))], modes=VALUE)
