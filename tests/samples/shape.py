"""Samples of movement: broadcasting, reshaping, permuting, joining, splitting, padding."""

import numpy as np

from tests.samples import ANY, Sample, normal

MOVED = (*ANY, "float8_e4m3fn", "int4", "uint4")
ALL = ((0,),)


def single(prim, label, size, /, **params):
    return Sample(f"{prim}_{label}", prim, [normal(*size)], params, MOVED, linear=ALL)


BROADCASTS = {
    "scalar": ((), (2, 3), ()),
    "rows": ((3,), (2, 3), (1,)),
    "columns": ((2,), (2, 3), (0,)),
    "stretched": ((2, 1), (2, 3), (0, 1)),
    "middle": ((2, 3), (2, 4, 3), (0, 2)),
    "same": ((2, 3), (2, 3), (0, 1)),
    "empty": ((1,), (0, 3), (0,)),
}
SAMPLES = [
    single("broadcast_in_dim", k, x, shape=shape, broadcast_dimensions=dims, sharding=None)
    for k, (x, shape, dims) in BROADCASTS.items()
]
RESHAPES = {
    "flat": ((2, 3), (6,), None),
    "split": ((6,), (3, 2), None),
    "turned": ((2, 3, 4), (4, 6), (2, 0, 1)),
    "scalar": ((1, 1), (), None),
    "empty": ((0, 3), (3, 0, 2), None),
}
SAMPLES += [
    single("reshape", k, x, new_sizes=new, dimensions=dims, sharding=None)
    for k, (x, new, dims) in RESHAPES.items()
]
SAMPLES += [
    single("squeeze", "one", (2, 1, 3), dimensions=(1,)),
    single("squeeze", "two", (1, 2, 1), dimensions=(0, 2)),
    single("squeeze", "none", (2, 3), dimensions=()),
    single("transpose", "matrix", (2, 3), permutation=(1, 0)),
    single("transpose", "cube", (2, 3, 4), permutation=(2, 0, 1)),
    single("transpose", "scalar", (), permutation=()),
    single("rev", "one", (2, 3), dimensions=(1,)),
    single("rev", "two", (2, 3, 2), dimensions=(0, 2)),
    single("tile", "line", (3,), reps=(2,)),
    single("tile", "matrix", (2, 3), reps=(2, 3)),
    single("tile", "same", (2, 3), reps=(1, 1)),
    single("split", "even", (4, 3), sizes=(2, 2), axis=0),
    single("split", "uneven", (2, 6), sizes=(1, 0, 3, 2), axis=1),
    single("unstack", "first", (3, 2), axis=0),
    single("unstack", "last", (2, 2), axis=1),
]
JOINS = {
    "first": (((2, 3), (1, 3)), 0),
    "last": (((2, 1), (2, 3), (2, 2)), 1),
    "one": (((2, 3),), 1),
    "empty": (((2, 0), (2, 3)), 1),
}
SAMPLES += [
    Sample(
        name=f"concatenate_{k}",
        prim="concatenate",
        args=[normal(*s) for s in shapes],
        params={"dimension": dimension},
        dtypes=MOVED,
        linear=(tuple(range(len(shapes))), (0,)),
    )
    for k, (shapes, dimension) in JOINS.items()
]
SAMPLES += [
    Sample(
        name=f"stack_{axis}",
        prim="stack",
        args=[normal(2, 3), normal(2, 3)],
        params={"axis": axis},
        dtypes=MOVED,
        linear=((0, 1), (1,)),
    )
    for axis in (0, 1, 2)
]
PADS = {
    "around": ((3,), ((1, 2, 0),)),
    "inside": ((3, 2), ((0, 0, 1), (1, 0, 2))),
    "negative": ((4, 3), ((-1, 2, 0), (0, -1, 0))),
    "cut_inside": ((4,), ((-2, -1, 1),)),
    "all_gone": ((2,), ((-1, -1, 0),)),
    "empty": ((0, 2), ((1, 1, 1), (0, 1, 0))),
}
SAMPLES += [
    Sample(
        name=f"pad_{k}",
        prim="pad",
        args=[normal(*shape), normal()],
        params={"padding_config": config},
        dtypes=MOVED,
        linear=((0, 1), (0,), (1,)),
    )
    for k, (shape, config) in PADS.items()
]
SAMPLES += [
    Sample(
        name=f"iota_{dtype}",
        prim="iota",
        args=[],
        params={"dtype": np.dtype(dtype), "shape": (2, 3), "dimension": 1, "sharding": None},
        dtypes=(dtype,),
    )
    for dtype in ("int32", "uint8", "float32", "bfloat16", "complex64", "int64", "float64")
]
SAMPLES.append(
    Sample(
        name="dim_as_value",
        prim="dim_as_value",
        args=[],
        params={"dim": 7},
        dtypes=("int32",),
    )
)
SAMPLES += [
    Sample(
        name=f"empty_{dtype}",
        prim="empty",
        args=[],
        params={"shape": (2, 3), "dtype": np.dtype(dtype), "out_sharding": None},
        dtypes=(dtype,),
    )
    for dtype in ("float32", "int8", "bool", "bfloat16")
]
SAMPLES += [
    Sample(
        name="optimization_barrier",
        prim="optimization_barrier",
        args=[normal(2, 3), normal(3)],
        dtypes=MOVED,
        linear=((0, 1),),
    )
]
