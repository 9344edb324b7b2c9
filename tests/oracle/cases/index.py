"""gather and scatter of ``lax`` with explicit dimension numbers, all modes and variants."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, Adder, Tol, family, is_inexact

GATHER_MODES = ("clip", "fill", "promise_in_bounds", None)


# label: operand shape, indices shape, (offset, collapsed, start_map, operand_batch, indices_batch),
# slice sizes
GATHERS: dict[str, tuple[Any, Any, Any, Any]] = {
    "rows": ((5, 3), (4, 1), ((1,), (0,), (0,), (), ()), (1, 3)),
    "columns": ((3, 5), (4, 1), ((0,), (1,), (1,), (), ()), (3, 1)),
    "points": ((4, 5), (6, 2), ((), (0, 1), (0, 1), (), ()), (1, 1)),
    "points_swapped": ((4, 5), (6, 2), ((), (0, 1), (1, 0), (), ()), (1, 1)),
    "windows": ((6, 5), (3, 2), ((1, 2), (), (0, 1), (), ()), (2, 3)),
    "windows_1d": ((8,), (4, 1), ((1,), (), (0,), (), ()), (3,)),
    "scalar": ((6,), (1,), ((), (0,), (0,), (), ()), (1,)),
    "single_window": ((6, 4), (1,), ((0, 1), (), (0,), (), ()), (2, 4)),
    "grid": ((5, 3), (2, 2, 1), ((2,), (0,), (0,), (), ()), (1, 3)),
    "offset_first": ((5, 3), (4, 1), ((0,), (0,), (0,), (), ()), (1, 3)),
    "offset_mixed": ((4, 3, 5), (2, 1), ((0, 2), (0,), (0,), (), ()), (1, 2, 3)),
    "partial": ((4, 3, 5), (6, 2), ((1,), (0, 2), (0, 2), (), ()), (1, 3, 1)),
    "batched": ((3, 5), (3, 2, 1), ((), (1,), (1,), (0,), (0,)), (1, 1)),
    "batched_window": ((2, 6, 3), (2, 3, 1), ((2, 3), (), (1,), (0,), (0,)), (1, 2, 3)),
    "no_index": ((3, 2), (4, 0), ((1, 2), (), (), (), ()), (3, 2)),
    "empty": ((5, 3), (0, 1), ((1,), (0,), (0,), (), ()), (1, 3)),
    "middle": ((2, 5, 3), (4, 1), ((0, 2), (1,), (1,), (), ()), (2, 1, 3)),
}


def positions(rng: Any, shape: Any, high: int, outside: bool) -> np.ndarray:
    """Index values: within bounds, or also negative and past the end."""
    if outside:
        return rng.i(shape, "i32", -3, high + 3)
    return rng.i(shape, "i32", 0, max(high, 1))


def inside(operand: Any, numbers: Any, sizes: Any) -> int:
    """The largest start that keeps the window inside for every indexed dimension."""
    return min((operand[k] - sizes[k] + 1 for k in numbers[2]), default=1)


def gather_fn(numbers: Any, sizes: Any, mode: Any, **kwargs: Any) -> Any:
    offset, collapsed, start, operand_batch, indices_batch = numbers

    def fn(J: Any, x: Any, i: Any) -> Any:
        dims = J.lax.GatherDimensionNumbers(
            offset_dims=offset,
            collapsed_slice_dims=collapsed,
            start_index_map=start,
            operand_batching_dims=operand_batch,
            start_indices_batching_dims=indices_batch,
        )
        return J.lax.gather(x, i, dims, sizes, mode=mode, **kwargs)

    return fn


@family("lax_gather")
def gather(add: Adder) -> None:
    """Every dimension-number shape, all modes, indices in and out of bounds."""
    for label, (operand, indices, numbers, sizes) in GATHERS.items():
        high = inside(operand, numbers, sizes)
        for mode in GATHER_MODES:
            for outside in (False, True):
                if outside and mode == "promise_in_bounds":
                    continue
                for d in ("f32", "i32"):
                    key = f"{label}/{mode}/{'out' if outside else 'in'}/{d}"
                    rng = add.rng(key)
                    x = rng.any(operand, d)
                    i = positions(rng, indices, high, outside)
                    modes = ALL if d == "f32" else BATCH
                    add(key, gather_fn(numbers, sizes, mode), [x, i], modes=modes, each=d == "f32")
    operand, indices, numbers, sizes = GATHERS["points"]
    for d in ("f64", "c64", "bf16", "bool", "u8", "i8"):
        rng = add.rng("dtype" + d)
        x = rng.any(operand, d)
        i = positions(rng, indices, 5, True)
        modes = ALL if is_inexact(x.dtype) else BATCH
        add(f"dtype/{d}/fill", gather_fn(numbers, sizes, "fill"), [x, i], modes=modes)
        fn = gather_fn(numbers, sizes, "fill", fill_value=1)
        add(f"dtype/{d}/fill_value", fn, [x, i], modes=modes)
        add(f"dtype/{d}/clip", gather_fn(numbers, sizes, "clip"), [x, i], modes=modes)
    x = add.rng("index").f((4, 5))
    for d in ("i8", "i16", "i64", "u8", "u16", "u32"):
        i = add.rng("index" + d).i((6, 2), d, 0, 7)
        add(f"index_dtype/{d}/clip", gather_fn(numbers, sizes, "clip"), [x, i], modes=ALL)
        add(f"index_dtype/{d}/fill", gather_fn(numbers, sizes, "fill"), [x, i], modes=ALL)


# label: operand shape, indices shape, updates shape,
# (window dims, inserted, to operand, operand_batch, indices_batch)
SCATTERS: dict[str, tuple[Any, Any, Any, Any]] = {
    "rows": ((5, 3), (4, 1), (4, 3), ((1,), (0,), (0,), (), ())),
    "columns": ((3, 5), (4, 1), (3, 4), ((0,), (1,), (1,), (), ())),
    "points": ((4, 5), (6, 2), (6,), ((), (0, 1), (0, 1), (), ())),
    "points_swapped": ((4, 5), (6, 2), (6,), ((), (0, 1), (1, 0), (), ())),
    "windows": ((6, 5), (3, 2), (3, 2, 3), ((1, 2), (), (0, 1), (), ())),
    "windows_1d": ((8,), (4, 1), (4, 3), ((1,), (), (0,), (), ())),
    "scalar": ((6,), (1,), (), ((), (0,), (0,), (), ())),
    "grid": ((5, 3), (2, 2, 1), (2, 2, 3), ((2,), (0,), (0,), (), ())),
    "partial": ((4, 3, 5), (6, 2), (6, 3), ((1,), (0, 2), (0, 2), (), ())),
    "batched": ((3, 5), (3, 2, 1), (3, 2), ((), (1,), (1,), (0,), (0,))),
    "empty": ((5, 3), (0, 1), (0, 3), ((1,), (0,), (0,), (), ())),
    "narrow": ((5, 4), (3, 1), (3, 2), ((1,), (0,), (0,), (), ())),
}
VARIANTS = ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")


def scatter_fn(variant: str, numbers: Any, mode: Any, **kwargs: Any) -> Any:
    window, inserted, to_operand, operand_batch, indices_batch = numbers

    def fn(J: Any, x: Any, i: Any, u: Any) -> Any:
        dims = J.lax.ScatterDimensionNumbers(
            update_window_dims=window,
            inserted_window_dims=inserted,
            scatter_dims_to_operand_dims=to_operand,
            operand_batching_dims=operand_batch,
            scatter_indices_batching_dims=indices_batch,
        )
        return getattr(J.lax, variant)(x, i, u, dims, mode=mode, **kwargs)

    return fn


def window_room(operand: Any, updates: Any, numbers: Any) -> int:
    """The largest start that keeps every update window inside the operand."""
    window, inserted, to_operand, operand_batch, _ = numbers
    kept = [k for k in range(len(operand)) if k not in (*inserted, *operand_batch)]
    sizes = [1] * len(operand)
    for k, w in zip(kept, window, strict=True):
        sizes[k] = updates[w]
    return min((operand[k] - sizes[k] + 1 for k in to_operand), default=1)


@family("lax_scatter", Tol(4, True))
def scatter(add: Adder) -> None:
    """All variants over the dimension-number shapes and modes, repeated indices included."""
    for label, (operand, indices, updates, numbers) in SCATTERS.items():
        high = window_room(operand, updates, numbers)
        for variant in VARIANTS:
            for mode in ("clip", "drop", "promise_in_bounds"):
                d = "f32"
                key = f"{variant}/{label}/{mode}/{d}"
                rng = add.rng(key)
                x, u = rng.f(operand, d), rng.f(updates, d)
                outside = mode != "promise_in_bounds"
                i = positions(rng, indices, high, outside)
                modes = BATCH if variant == "scatter_mul" else ALL
                if variant == "scatter" or variant in ("scatter_min", "scatter_max"):
                    modes = BATCH
                unique = variant in ("scatter", "scatter_mul") and label == "rows"
                each = variant == "scatter_add" or mode == "drop"
                add(key, scatter_fn(variant, numbers, mode), [x, i, u], modes=modes, each=each)
                if unique:
                    i = np.array([[0], [3], [1], [4]], np.int32)
                    fn = scatter_fn(variant, numbers, mode, unique_indices=True)
                    add(key + "/unique", fn, [x, i, u], modes=ALL, each=True)
    dtypes(add)
    extra(add)


def dtypes(add: Adder) -> None:
    """Integer, boolean, complex and narrow operands; index dtypes."""
    operand, indices, updates, numbers = SCATTERS["points"]
    for variant in VARIANTS:
        for d in ("i32", "u8", "f64", "c64", "bf16", "bool", "i64"):
            complex_order = d == "c64" and variant in ("scatter_min", "scatter_max")
            if complex_order or (d == "bool" and variant != "scatter"):
                continue
            key = f"dtype/{variant}/{d}"
            rng = add.rng(key)
            x, u = rng.any(operand, d), rng.any(updates, d)
            i = positions(rng, indices, 5, True)
            for mode in ("clip", "drop"):
                modes = ALL if is_inexact(x.dtype) and "add" in variant else BATCH
                fn = scatter_fn(variant, numbers, mode)
                add(f"{key}/{mode}", fn, [x, i, u], modes=modes, error="maybe")
    rng = add.rng("index")
    x, u = rng.f(operand), rng.f(updates)
    for d in ("i8", "i64", "u8", "u32"):
        i = rng.i(indices, d, 0, 7)
        for mode in ("clip", "drop"):
            fn = scatter_fn("scatter_add", numbers, mode)
            add(f"index_dtype/{d}/{mode}", fn, [x, i, u], modes=ALL)


def extra(add: Adder) -> None:
    """Derivatives of overwriting scatters, scatter_apply, index_take."""
    operand, _, updates, numbers = SCATTERS["rows"]
    rng = add.rng("extra")
    x, u = rng.distinct(operand), rng.distinct(updates) + np.float32(0.05)
    unique = np.array([[0], [3], [1], [4]], np.int32)
    repeated = np.array([[0], [3], [0], [4]], np.int32)
    for variant in VARIANTS:
        fn = scatter_fn(variant, numbers, "clip", unique_indices=True)
        add(f"derivative/{variant}", fn, [x, unique, u], modes=ALL, error="maybe")
    fn = scatter_fn("scatter", numbers, "clip")
    add("derivative/scatter/repeated", fn, [x, repeated, u], modes=ALL)

    def apply(J: Any, x: Any, i: Any) -> Any:
        dims = J.lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return J.lax.scatter_apply(x, i, J.lax.sin, dims, update_shape=(4, 3))

    add("scatter_apply", apply, [x, unique], modes=BATCH)

    def take(J: Any, x: Any, i: Any, j: Any) -> Any:
        return J.lax.index_take(x, (i, j), (0, 1))

    i, j = np.array([0, 2, 4], np.int32), np.array([1, 0, 2], np.int32)
    add("index_take", take, [x, i, j], modes=ALL)
