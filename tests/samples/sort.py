"""Samples of sorting: keys and payloads, and the largest elements."""

from tests.samples import Sample

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "uint8", "bool")
FLOATS = ("float32", "float64", "bfloat16")


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


def few(shape):
    """Few distinct values, so that there are ties."""
    return lambda rng: rng.integers(0, 3, shape)


SAMPLES = [
    Sample(
        name=f"sort_{label}",
        prim="sort",
        args=args,
        params={"dimension": dimension, "is_stable": True, "num_keys": keys},
        dtypes=(*DTYPES, "complex64"),
    )
    for label, args, dimension, keys in (
        ("line", [normal((7,))], 0, 1),
        ("first", [normal((5, 3))], 0, 1),
        ("last", [normal((3, 5))], 1, 1),
        ("payload", [normal((5, 3)), normal((5, 3))], 0, 1),
        ("two_keys", [normal((3, 8)), normal((3, 8)), normal((3, 8))], 1, 2),
        ("empty", [normal((0, 3))], 0, 1),
    )
]
SAMPLES += [
    Sample(
        name="sort_ties",
        prim="sort",
        args=[few((8,)), few((8,)), few((8,))],
        params={"dimension": 0, "is_stable": True, "num_keys": 2},
        dtypes=("int32", "uint8"),
    )
]
SAMPLES += [
    Sample(
        name=f"partition_{label}",
        prim="partition",
        args=args,
        params={"kth": kth},
        dtypes=DTYPES,
    )
    for label, args, kth in (
        ("line", [normal((7,))], 3),
        ("rows", [normal((3, 5))], 4),
        ("payload", [normal((3, 5)), normal((3, 5))], 0),
        ("empty", [normal((0, 3))], 1),
    )
]
SAMPLES += [
    Sample(
        name="partition_ties",
        prim="partition",
        args=[few((20,)), few((20,))],
        params={"kth": 11},
        dtypes=("int32", "uint8"),
    )
]
SAMPLES += [
    Sample(
        name=f"top_k_{label}",
        prim="top_k",
        args=[normal(shape)],
        params={"k": k, "axis": axis},
        dtypes=DTYPES,
    )
    for label, shape, k, axis in (
        ("line", (7,), 3, 0),
        ("first", (5, 3), 2, 0),
        ("last", (3, 5), 5, 1),
        ("nothing", (3, 5), 0, 1),
    )
]
SAMPLES += [
    Sample(
        name=f"approx_top_k_{'max' if is_max else 'min'}_{dimension}",
        prim="approx_top_k",
        args=[normal((4, 6))],
        params={
            "k": 2,
            "reduction_dimension": dimension,
            "recall_target": 0.95,
            "is_max_k": is_max,
            "reduction_input_size_override": -1,
            "aggregate_to_topk": True,
        },
        dtypes=FLOATS,
    )
    for is_max in (True, False)
    for dimension in (0, 1, -1)
]
