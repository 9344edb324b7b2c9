"""Samples of attention as the compiler finds it, and of its gradients."""

import numpy as np

from tests.samples import Sample

NARROW = ("bfloat16", "float16")


def normal(shape):
    return lambda rng: rng.standard_normal(shape)


def stats(shape):
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


SAMPLES = []
for label, order, heads, causal in (
    ("plain", "bhtd", 2, None),
    ("causal", "bthd", 2, 1),
    ("shared", "bhtd", 1, 0),
):
    sizes = {"b": 1, "h": 2, "t": 5, "d": 16}
    few = {**sizes, "h": heads, "t": 6}
    many, small = (tuple(s[c] for c in order) for s in (sizes, few))
    params = {"orders": (order,) * 3, "scale": 0.25, "causal": causal}
    common = {"dtypes": NARROW, "differentiable": False, "reverse": False, "tol": 16.0}
    common["notes"] = "found by the compiler in programs that are differentiated already"
    SAMPLES.append(
        Sample(
            name=f"attention_{label}",
            prim="attention",
            args=[normal(many), normal(small), normal(small)],
            params=params,
            **common,
        )
    )
    SAMPLES.append(
        Sample(
            name=f"attention_backward_{label}",
            prim="attention_backward",
            args=[
                *(normal(s) for s in (many, small, small, many)),
                stats((1, 2, 5)),
                normal(many),
            ],
            params={**params, "orders": (order,) * 4},
            **common,
        )
    )
for label, limit in (("all", None), ("lengths", [2, 9])):
    kept = (0, 8, 4, 16)
    params = {
        "sizes": (2, 4, 2, 6, 4),
        "places": ((4, 20, 4, 0), kept, kept),
        "scale": 0.5,
        "shift": None if limit is None else 0,
        "mean": True,
    }
    limits = [] if limit is None else [lambda rng, limit=limit: np.array(limit, np.int32)]
    SAMPLES.append(
        Sample(
            name=f"decode_attention_{label}",
            prim="decode_attention",
            args=[normal((2, 20)), *[normal((6, 2, 2, 4))] * 2, *limits],
            params=params,
            **common | {"dtypes": (*NARROW, "float32")},
        )
    )
for label, heads, causal in (("plain", (2, 2), None), ("shared", (4, 2), 0)):
    params = {"heads": heads, "depth": 16, "scale": 0.25, "causal": causal}
    common["notes"] = "found by the compiler in programs that are differentiated already"
    packed, many = (1, 5, 16 * sum((*heads, heads[1]))), (1, 5, heads[0], 16)
    for name, args in (
        ("packed_attention", [normal(packed)]),
        (
            "packed_attention_backward",
            [normal(packed), normal(many), stats((1, heads[0], 5)), normal(many)],
        ),
    ):
        SAMPLES.append(
            Sample(name=f"{name}_{label}", prim=name, args=args, params=params, **common)
        )
