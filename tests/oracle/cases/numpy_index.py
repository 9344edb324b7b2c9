"""Indexing of arrays: basic, advanced, boolean, ``.at`` updates in every mode."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, VALUE, Adder, Tol, family, is_inexact

X = np.s_
I1 = np.array([0, 2, 1])
NEG = np.array([-1, 0, -3])
I2 = np.array([[0, 1], [2, 0]])
OUT = np.array([0, 9, -9])
B3 = np.array([True, False, True])
B34 = np.array([[True, False, True, False], [False, True, True, True], [True, True, False, False]])

# label: (shape, index)
BASIC: dict[str, tuple[tuple[int, ...], Any]] = {
    "int": ((5,), X[2]),
    "negative": ((5,), X[-1]),
    "slice": ((6,), X[1:4]),
    "slice_open": ((6,), X[2:]),
    "step": ((7,), X[::2]),
    "step_from": ((7,), X[1:6:3]),
    "reverse": ((6,), X[::-1]),
    "reverse_step": ((7,), X[5:0:-2]),
    "beyond": ((4,), X[2:99]),
    "empty": ((4,), X[3:1]),
    "ellipsis": ((2, 3, 4), X[..., 1]),
    "ellipsis_both": ((2, 3, 4), X[0, ..., 1]),
    "newaxis": ((3, 4), X[:, None]),
    "newaxis_end": ((3,), X[..., None]),
    "ints": ((3, 4), X[1, 2]),
    "mixed": ((3, 4, 5), X[1, :, 2:4]),
    "mixed_step": ((4, 5), X[::2, ::-1]),
    "full": ((3, 4), X[:]),
    "all_dots": ((3, 4), X[...]),
    "rank0": ((), X[()]),
    "rank0_none": ((), X[None]),
    "negative_slice": ((6,), X[-4:-1]),
    "tuple_partial": ((3, 4, 5), X[0]),
    "numpy_int": ((3, 4), X[np.int32(1)]),
}
ADVANCED: dict[str, tuple[tuple[int, ...], Any]] = {
    "vector": ((4,), X[I1]),
    "negative": ((4,), X[NEG]),
    "matrix": ((4, 2), X[I2]),
    "second": ((2, 4), X[:, I1]),
    "two": ((3, 4), X[I1, I1]),
    "two_broadcast": ((3, 4), X[I1[:, None], I1]),
    "with_int": ((3, 4), X[I1, 2]),
    "int_first": ((3, 4), X[1, I1]),
    "split_by_slice": ((3, 4, 3), X[I1, :, I1]),
    "split_int": ((3, 4, 3), X[0, :, I1]),
    "slice_then": ((3, 4, 3), X[1:, I1]),
    "ellipsis": ((3, 4, 3), X[..., I1]),
    "newaxis": ((3, 4), X[None, I1]),
    "newaxis_between": ((3, 4), X[I1, None, I1]),
    "out_of_bounds": ((4,), X[OUT]),
    "step_and_vector": ((6, 4), X[::2, I1]),
    "list": ((4,), X[np.array([1, 3])]),
    "empty_index": ((4, 2), X[np.zeros(0, np.int32)]),
    "u8": ((4,), X[np.array([1, 3], np.uint8)]),
    "three": ((3, 3, 3), X[I1, I1, I1]),
    "adjacent_later": ((2, 3, 3), X[:, I1, I1]),
    "scalar_array": ((4, 3), X[np.array(1)]),
}
BOOLEAN: dict[str, tuple[tuple[int, ...], Any]] = {
    "vector": ((3,), X[B3]),
    "rows": ((3, 4), X[B3]),
    "columns": ((4, 3), X[:, B3]),
    "matrix": ((3, 4), X[B34]),
    "matrix_of_3d": ((3, 4, 2), X[B34]),
    "with_slice": ((3, 4), X[B3, 1:]),
    "with_int": ((3, 4), X[B3, 1]),
    "with_vector": ((3, 4), X[B3, np.array([0, 3])]),
    "true": ((3,), X[True]),
    "false": ((3,), X[False]),
    "none_true": ((3,), X[np.zeros(3, bool)]),
}


def getter(index: Any) -> Any:
    return lambda J, x: x[index]


@family("index_get")
def get(add: Adder) -> None:
    """Reading by every kind of index, static and traced."""
    for kind, table in (("basic", BASIC), ("advanced", ADVANCED), ("boolean", BOOLEAN)):
        for label, (shape, index) in table.items():
            for d in ("f32", "i32", "c64", "bool", "bf16"):
                if d in ("bool", "bf16", "c64") and kind == "boolean":
                    continue
                key = f"{kind}/{label}/{d}"
                x = add.rng(key).any(shape, d)
                modes = ALL if is_inexact(x.dtype) else BATCH
                add(key, getter(index), [x], modes=modes)
    traced(add)


def traced(add: Adder) -> None:
    """Indices that are arrays of the library, batched as well; modes of ``.at[].get``."""
    x = add.rng("traced").f((4, 5))
    i, j = np.array([0, 3, -1], np.int32), np.array([4, 0, 2], np.int32)
    table: dict[str, tuple[Any, list[Any]]] = {
        "vector": (lambda J, x, i: x[i], [x, i]),
        "two": (lambda J, x, i, j: x[i, j], [x, i, j]),
        "column": (lambda J, x, i: x[:, i], [x, i]),
        "scalar": (lambda J, x, i: x[i], [x, np.asarray(2, np.int32)]),
        "scalar_column": (lambda J, x, i: x[:, i], [x, np.asarray(-1, np.int32)]),
        "scalars": (
            lambda J, x, i, k: x[i, k],
            [x, np.asarray(1, np.int32), np.asarray(9, np.int32)],
        ),
        "scalar_slice": (lambda J, x, i: x[i, 1:3], [x, np.asarray(1, np.int32)]),
        "outer": (lambda J, x, i, j: x[i[:, None], j], [x, i, j]),
        "int_and_vector": (lambda J, x, i: x[1, i], [x, i]),
        "u8": (lambda J, x, i: x[i], [x, np.array([1, 3], np.uint8)]),
        "i8": (lambda J, x, i: x[i], [x, np.array([1, -1], np.int8)]),
    }
    for label, (fn, args) in table.items():
        add(f"traced/{label}", fn, args, modes=ALL, each=True)
    for mode in ("clip", "fill", "promise_in_bounds", "wrap", None, "drop"):
        for label, index in (("vector", np.array([0, 3, 7, -1, -9], np.int32)), ("inside", i)):
            if label == "vector" and mode == "promise_in_bounds":
                continue
            fn = lambda J, x, i, mode=mode: x.at[i].get(mode=mode)
            add(f"at_get/{mode}/{label}", fn, [x, index], modes=ALL, error="maybe")
    fn = lambda J, x, i: x.at[i].get(mode="fill", fill_value=-7.0)
    add("at_get/fill_value", fn, [x, np.array([0, 9], np.int32)], modes=ALL)
    fn = lambda J, x, i: x.at[i].get(mode="fill", wrap_negative_indices=False)
    add("at_get/no_wrap", fn, [x, np.array([0, -1], np.int32)], modes=ALL)
    mask = lambda J, x, m: x[m]
    add("boolean/traced", mask, [x, add.rng("mask").i((4, 5), "bool")], modes=VALUE)
    add("boolean/traced_rows", mask, [x, np.array([True, False, True, False])], modes=VALUE)


UPDATES = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")


def setter(method: str, index: Any, **kwargs: Any) -> Any:
    return lambda J, x, v: getattr(x.at[index], method)(v, **kwargs)


@family("index_update", Tol(4, True))
def update(add: Adder) -> None:
    """The updates of ``.at`` at every kind of index, values broadcast or full."""
    picks = {
        "int": ((5,), X[2], ()),
        "slice": ((6,), X[1:4], (3,)),
        "slice_scalar": ((6,), X[1:4], ()),
        "step": ((6,), X[::2], (3,)),
        "reverse": ((4,), X[::-1], (4,)),
        "row": ((3, 4), X[1], (4,)),
        "column": ((3, 4), X[:, -1], (3,)),
        "block": ((3, 4), X[1:, :2], (2, 2)),
        "block_row": ((3, 4), X[1:, :2], (2,)),
        "vector": ((4,), X[I1], (3,)),
        "repeated": ((4,), X[np.array([0, 0, 2])], (3,)),
        "rows": ((4, 3), X[I1], (3, 3)),
        "points": ((3, 4), X[I1, I1], (3,)),
        "split": ((3, 2, 3), X[I1, :, I1], (3, 2)),
        "mask": ((3,), X[B3], ()),
        "mask_matrix": ((3, 4), X[B34], ()),
        "all": ((2, 3), X[...], ()),
        "empty": ((4,), X[2:2], ()),
        "newaxis": ((3,), X[None], (1, 3)),
    }
    for label, (shape, index, value) in picks.items():
        for method in UPDATES:
            for d in ("f32", "i32"):
                if method == "divide" and d == "i32":
                    continue
                key = f"{method}/{label}/{d}"
                rng = add.rng(key)
                x, v = rng.any(shape, d, 0.5, 2), rng.any(value, d, 0.5, 2)
                if method == "power":
                    v = np.abs(v).astype(v.dtype)
                smooth = method in ("add", "subtract") or (
                    method in ("set", "multiply") and label != "repeated"
                )
                modes = ALL if d == "f32" and smooth else BATCH
                add(key, setter(method, index), [x, v], modes=modes)
    modes_and_types(add)


def modes_and_types(add: Adder) -> None:
    """Out-of-bounds rules, dtype conversions of the value, apply, traced indices."""
    x, v = add.rng("modes").f((4,)), add.rng("modes v").f((4,))
    i = np.array([0, 9, -1, -9], np.int32)
    for mode in ("drop", "clip", "fill", "wrap", None, "promise_in_bounds"):
        for method in ("set", "add", "multiply", "min"):
            at = np.array([0, 3, 1, 2], np.int32) if mode == "promise_in_bounds" else i
            fn = lambda J, x, i, v, mode=mode, m=method: getattr(x.at[i], m)(v, mode=mode)
            modes = ALL if method == "add" else BATCH
            add(f"mode/{mode}/{method}", fn, [x, at, v], modes=modes, error="maybe")
    for target in ("f32", "i32", "bf16", "u8", "c64", "f16"):
        for source in ("f32", "i32", "bool", "bf16"):
            a, b = add.rng(target).any((4,), target), add.rng(source).any((2,), source)
            for method in ("set", "add"):
                fn = setter(method, X[1:3])
                add(f"types/{method}/{target}/{source}", fn, [a, b], error="maybe")
    for label, value in (("int", 2), ("float", 2.5), ("bool", True)):
        for d in ("f32", "i32", "bf16", "u8"):
            a = add.rng("scalar" + d).any((4,), d)
            fn = lambda J, a, value=value: a.at[1].set(value)
            add(f"scalar/{label}/{d}", fn, [a])
    add("apply", lambda J, x: x.at[1:3].apply(J.jnp.sin), [x], modes=BATCH)
    fn = lambda J, x, i, v: x.at[i].add(v, unique_indices=True, indices_are_sorted=True)
    add("flags", fn, [x, np.array([0, 1, 2, 3], np.int32), v], modes=ALL, each=True)
    square = add.rng("square").f((3, 4))
    points = [
        np.array([0, 2], np.int32),
        np.array([1, 3], np.int32),
        np.array([5.0, 6.0], np.float32),
    ]
    for method in ("set", "add", "multiply", "max"):
        fn = lambda J, x, i, j, v, m=method: getattr(x.at[i, j], m)(v)
        add(f"traced/{method}", fn, [square, *points], modes=ALL, each=True)
        fn = lambda J, x, i, v, m=method: getattr(x.at[i], m)(v)
        args = [square, np.asarray(1, np.int32), np.ones(4, np.float32)]
        add(f"traced_row/{method}", fn, args, modes=ALL, each=True)
    fn = lambda J, x, v: J.jnp.put_along_axis(x, J.jnp.array([[1], [2], [0]]), v, 1, inplace=False)
    add("put_along_axis", fn, [square, np.ones((3, 1), np.float32)], modes=ALL)
    for name, num in (
        ("segment_sum", 3),
        ("segment_max", 3),
        ("segment_min", 3),
        ("segment_prod", 4),
    ):
        ids = np.array([0, 2, 0, 1], np.int32)
        fn = lambda J, x, i, name=name, num=num: getattr(J.ops, name)(x, i, num_segments=num)
        add(f"ops/{name}", fn, [add.rng(name).distinct((4, 2)), ids], modes=BATCH)
