"""dot_general and convolutions: dimension numbers, element types, groups and dilations."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, Adder, Tol, call, dtype, family, is_inexact

# label: lhs, rhs, ((contract lhs, contract rhs), (batch lhs, batch rhs))
DOTS: dict[str, tuple[Any, Any, Any]] = {
    "inner": ((4,), (4,), (((0,), (0,)), ((), ()))),
    "outer": ((3,), (4,), (((), ()), ((), ()))),
    "matvec": ((3, 4), (4,), (((1,), (0,)), ((), ()))),
    "vecmat": ((4,), (4, 3), (((0,), (0,)), ((), ()))),
    "matmul": ((3, 4), (4, 2), (((1,), (0,)), ((), ()))),
    "nt": ((3, 4), (2, 4), (((1,), (1,)), ((), ()))),
    "tn": ((4, 3), (4, 2), (((0,), (0,)), ((), ()))),
    "tt": ((4, 3), (2, 4), (((0,), (1,)), ((), ()))),
    "batch": ((2, 3, 4), (2, 4, 2), (((2,), (1,)), ((0,), (0,)))),
    "batch_swapped": ((3, 2, 4), (4, 2, 2), (((2,), (0,)), ((1,), (1,)))),
    "batch_last": ((3, 4, 2), (4, 3, 2), (((1,), (0,)), ((2,), (2,)))),
    "two_batch": ((2, 3, 4, 2), (3, 2, 2, 4), (((2, 3), (3, 2)), ((0, 1), (1, 0)))),
    "two_contract": ((2, 3, 4), (3, 4, 5), (((1, 2), (0, 1)), ((), ()))),
    "crossed": ((2, 3, 4), (4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
    "all": ((2, 3), (2, 3), (((0, 1), (0, 1)), ((), ()))),
    "batch_only": ((3,), (3,), (((), ()), ((0,), (0,)))),
    "free_both": ((2, 3, 4), (4, 5, 2), (((2,), (0,)), ((), ()))),
    "empty": ((3, 0), (0, 2), (((1,), (0,)), ((), ()))),
    "middle": ((2, 4, 3), (5, 4), (((1,), (1,)), ((), ()))),
}
MATRIX = (((1,), (0,)), ((), ()))


@family("lax_dot", Tol(8, True))
def dot(add: Adder) -> None:
    """dot_general over its dimension numbers, dtypes and preferred element types."""
    for label, (left, right, numbers) in DOTS.items():
        for d in ("f32", "f64", "i32", "c64", "bf16", "i8", "bool", "f16", "u8", "c128"):
            if d in ("f16", "u8", "c128", "bool") and label not in ("matmul", "batch", "nt"):
                continue
            key = f"{label}/{d}"
            rng = add.rng(key)
            x, y = rng.any(left, d), rng.any(right, d)
            modes = ALL if is_inexact(x.dtype) else BATCH
            fn = call("lax.dot_general", numbers)
            add(key, fn, [x, y], modes=modes, each=True, error="maybe")
    preferred(add)
    wrappers(add)


def preferred(add: Adder) -> None:
    """Accumulation and result types other than the operands'."""
    pairs = [("i8", "i32"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f64"), ("u8", "i32")]
    pairs += [("i8", "f32"), ("f32", "f32"), ("i16", "i32"), ("bf16", "bf16"), ("f32", "bf16")]
    for source, target in pairs:
        for label in ("matmul", "batch"):
            left, right, numbers = DOTS[label]
            key = f"preferred/{label}/{source}/{target}"
            rng = add.rng(key)
            x, y = rng.any(left, source), rng.any(right, source)
            fn = call("lax.dot_general", numbers, preferred_element_type=dtype(target))
            modes = ALL if is_inexact(x.dtype) else BATCH
            # Derivatives pass through the narrower of the two types.
            narrow = Tol(2.0**17, True) if (source, target) == ("f32", "bf16") else None
            wide = "64" in target
            add(key, fn, [x, y], modes=modes, x64=wide, tol=narrow, error="maybe")
    for left, right in (
        ("bf16", "f32"),
        ("i8", "i32"),
        ("f32", "i32"),
        ("i8", "u8"),
        ("f16", "bf16"),
    ):
        rng = add.rng(f"mixed{left}{right}")
        x, y = rng.any((3, 4), left), rng.any((4, 2), right)
        fn = call("lax.dot_general", MATRIX)
        add(f"mixed/{left}/{right}", fn, [x, y], modes=BATCH, error="maybe")
        fn = call("lax.dot_general", MATRIX, preferred_element_type=np.dtype(np.float32))
        add(f"mixed/{left}/{right}/f32", fn, [x, y], modes=BATCH, error="maybe")
    for precision in ("highest", "high", "default", "float32"):
        rng = add.rng(precision)
        x, y = rng.f((3, 4)), rng.f((4, 2))
        fn = call("lax.dot_general", MATRIX, precision=precision)
        add(f"precision/{precision}", fn, [x, y], modes=ALL)


def wrappers(add: Adder) -> None:
    """dot, batch_matmul and the ragged product."""
    for left, right in (((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3)), ((3, 4), (4, 2))):
        rng = add.rng(f"dot{left}{right}")
        for d in ("f32", "i32", "c64"):
            x, y = rng.any(left, d), rng.any(right, d)
            modes = ALL if d != "i32" else BATCH
            add(f"dot/{len(left)}x{len(right)}/{d}", call("lax.dot"), [x, y], modes=modes)
    rng = add.rng("batch_matmul")
    x, y = rng.f((2, 3, 4)), rng.f((2, 4, 2))
    add("batch_matmul", call("lax.batch_matmul"), [x, y], modes=ALL)
    x, y = rng.f((2, 2, 3, 4)), rng.f((2, 2, 4, 2))
    add("batch_matmul/4d", call("lax.batch_matmul"), [x, y], modes=ALL)
    sizes = np.array([2, 1, 3], np.int32)
    x, y = rng.f((6, 4)), rng.f((3, 4, 2))
    modes = ("value", "jit", "jvp", "vjp")
    add("ragged_dot", call("lax.ragged_dot"), [x, y, sizes], modes=modes)
    short = np.array([2, 1, 1], np.int32)
    add("ragged_dot/short", call("lax.ragged_dot"), [x, y, short], modes=modes)


# label: lhs, rhs, strides, padding, lhs_dilation, rhs_dilation, numbers, groups of features, batch
CONVS: dict[str, tuple[Any, ...]] = {
    "1d": ((2, 3, 6), (4, 3, 2), (1,), "VALID", None, None, None, 1, 1),
    "1d_same": ((2, 3, 6), (4, 3, 3), (2,), "SAME", None, None, None, 1, 1),
    "2d": ((1, 2, 5, 6), (3, 2, 2, 3), (1, 1), "VALID", None, None, None, 1, 1),
    "2d_same": ((2, 2, 5, 5), (3, 2, 3, 3), (1, 1), "SAME", None, None, None, 1, 1),
    "lower": ((1, 2, 5, 5), (3, 2, 2, 2), (2, 1), "SAME_LOWER", None, None, None, 1, 1),
    "nhwc": (
        (2, 5, 5, 2),
        (3, 3, 2, 4),
        (2, 2),
        "SAME",
        None,
        None,
        ("NHWC", "HWIO", "NHWC"),
        1,
        1,
    ),
    "mixed": (
        (2, 5, 2, 5),
        (4, 3, 2, 3),
        (1, 1),
        "SAME",
        None,
        None,
        ("NHCW", "OHIW", "WNCH"),
        1,
        1,
    ),
    "pads": ((1, 2, 5, 4), (3, 2, 2, 2), (1, 2), ((1, 2), (0, 1)), None, None, None, 1, 1),
    "negative": ((1, 1, 7), (1, 1, 3), (1,), ((-1, 2),), None, None, None, 1, 1),
    "lhs_dilation": (
        (1, 2, 3, 4),
        (3, 2, 3, 3),
        (1, 1),
        ((1, 1), (2, 0)),
        (2, 3),
        None,
        None,
        1,
        1,
    ),
    "rhs_dilation": ((1, 2, 7, 7), (3, 2, 2, 3), (1, 2), "VALID", None, (2, 2), None, 1, 1),
    "both_dilation": (
        (1, 2, 4, 4),
        (3, 2, 2, 2),
        (2, 1),
        ((2, 1), (1, 2)),
        (2, 2),
        (2, 3),
        None,
        1,
        1,
    ),
    "groups": ((2, 4, 5, 5), (6, 2, 3, 3), (1, 1), "SAME", None, None, None, 2, 1),
    "depthwise": ((1, 4, 5, 5), (4, 1, 3, 3), (2, 2), "VALID", None, None, None, 4, 1),
    "multiplier": (
        (1, 5, 5, 3),
        (3, 3, 1, 6),
        (1, 1),
        "SAME",
        None,
        None,
        ("NHWC", "HWIO", "NHWC"),
        3,
        1,
    ),
    "batch_groups": ((4, 2, 5, 5), (6, 2, 2, 2), (1, 1), "VALID", None, None, None, 1, 2),
    "batch_groups_dilated": ((4, 2, 4), (4, 2, 2), (1,), ((1, 1),), (2,), (2,), None, 1, 4),
    "3d": ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 1, 1), "VALID", None, None, None, 1, 1),
    "0d": ((3, 4), (5, 4), (), (), None, None, None, 1, 1),
    "big_stride": ((1, 1, 9), (1, 1, 2), (4,), "VALID", None, None, None, 1, 1),
    "one": ((1, 3, 4, 4), (2, 3, 1, 1), (1, 1), "VALID", None, None, None, 1, 1),
}


NHWC = ("NHWC", "HWIO", "NHWC")


def plain(shape: Any) -> tuple[int, ...]:
    """A shape of Python integers: JAX gives NumPy's at places."""
    return tuple(int(n) for n in shape)


def conv_fn(spec: tuple[Any, ...], **kwargs: Any) -> Any:
    strides, padding, lhs_dilation, rhs_dilation, numbers, features, batches = spec

    def fn(J: Any, x: Any, w: Any) -> Any:
        return J.lax.conv_general_dilated(
            x,
            w,
            strides,
            padding,
            lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation,
            dimension_numbers=numbers,
            feature_group_count=features,
            batch_group_count=batches,
            **kwargs,
        )

    return fn


@family("lax_conv", Tol(16, True))
def conv(add: Adder) -> None:
    """conv_general_dilated over layouts, paddings, dilations and groups, with both gradients."""
    for label, (left, right, *spec) in CONVS.items():
        for d in ("f32", "f64", "bf16", "c64", "i32"):
            if d in ("bf16", "c64", "i32") and label not in ("1d", "2d_same", "groups", "nhwc"):
                continue
            key = f"{label}/{d}"
            rng = add.rng(key)
            x, w = rng.any(left, d), rng.any(right, d)
            modes = ALL if is_inexact(x.dtype) else BATCH
            add(key, conv_fn(tuple(spec)), [x, w], modes=modes, each=d == "f32", error="maybe")
    for source, target in (("bf16", "f32"), ("i8", "i32"), ("f16", "f32")):
        left, right, *spec = CONVS["2d"]
        rng = add.rng(f"preferred{source}")
        x, w = rng.any(left, source), rng.any(right, source)
        fn = conv_fn(tuple(spec), preferred_element_type=dtype(target))
        add(f"preferred/{source}/{target}", fn, [x, w], modes=BATCH, error="maybe")
    conv_wrappers(add)


def conv_wrappers(add: Adder) -> None:
    """conv, conv_transpose, patches, local convolution and the shape functions."""
    rng = add.rng("wrappers")
    x, w = rng.f((1, 2, 6, 6)), rng.f((3, 2, 3, 3))
    for padding in ("SAME", "VALID"):
        add(f"conv/{padding}", call("lax.conv", (2, 2), padding), [x, w], modes=ALL)
    general = call("lax.conv_with_general_padding", (1, 1), ((1, 0), (0, 1)), (1, 1), (2, 1))
    add("conv_with_general_padding", general, [x, w], modes=ALL)
    x, w = rng.f((1, 4, 4, 2)), rng.f((3, 3, 2, 3))
    for padding in ("SAME", "VALID", ((1, 2), (2, 1))):
        for strides in ((1, 1), (2, 2), (2, 3)):
            for dilation in (None, (2, 1)):
                label = padding if isinstance(padding, str) else "pads"
                key = f"conv_transpose/{label}/{strides}/{dilation}"
                fn = call("lax.conv_transpose", strides, padding, rhs_dilation=dilation)
                add(key, fn, [x, w], modes=ALL)
    fn = call("lax.conv_transpose", (2, 2), "SAME", transpose_kernel=True)
    add("conv_transpose/kernel", fn, [rng.f((1, 4, 4, 3)), w], modes=ALL)
    x = rng.f((1, 2, 5, 5))
    for padding in ("SAME", "VALID"):
        fn = call("lax.conv_general_dilated_patches", (2, 3), (1, 2), padding)
        add(f"patches/{padding}", fn, [x], modes=ALL)
    x, w = rng.f((1, 2, 4, 4)), rng.f((3, 8, 3, 3))
    fn = call("lax.conv_general_dilated_local", (1, 1), "VALID", (2, 2))
    add("local", fn, [x, w], modes=ALL)
    add(
        "dimension_numbers",
        lambda J: [
            list(part)
            for part in J.lax.conv_dimension_numbers(
                (1, 5, 5, 2), (3, 3, 2, 4), ("NHWC", "HWIO", "NHWC")
            )
        ],
    )
    add(
        "shape_tuple",
        lambda J: plain(
            J.lax.conv_shape_tuple((1, 2, 8, 8), (4, 2, 3, 3), (2, 2), ((0, 0), (1, 1)))
        ),
    )
    add(
        "general_shape_tuple",
        lambda J: plain(
            J.lax.conv_general_shape_tuple((1, 8, 8, 2), (3, 3, 2, 4), (2, 1), "SAME", NHWC)
        ),
    )
    add(
        "transpose_shape_tuple",
        lambda J: plain(
            J.lax.conv_transpose_shape_tuple((1, 4, 4, 2), (3, 3, 2, 4), (2, 2), "SAME", NHWC)
        ),
    )
    add(
        "permutations",
        lambda J: [list(p) for p in J.lax.conv_general_permutations(("NHWC", "HWIO", "NCHW"))],
    )
