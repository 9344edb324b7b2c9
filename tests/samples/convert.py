"""Samples of conversions and of what only places or orders values."""

from functools import partial

import numpy as np

import weft
from tests.samples import ANY, FLOATS, Sample, fixed, normal, whole
from weft import lax
from weft.core.sharding import UNSPECIFIED
from weft.experimental import primal_tangent_dtype

SMALL = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "uint2")
EVERY = (*ANY, *SMALL)
INEXACT = (*FLOATS, "complex64", "complex128")


def to(target, weak, dtype):
    return {"new_dtype": np.dtype(target), "weak_type": weak, "sharding": None}


def resharding(dtype):
    mesh = weft.make_mesh((1,), "x", (weft.sharding.AxisType.Auto,))
    return {"dst_sharding": weft.NamedSharding(mesh, weft.P("x"))}


def of_no_axes(dtype):
    mesh = weft.make_mesh((1,), "x", (weft.sharding.AxisType.Auto,))
    return {"axes": (), "mesh": mesh.abstract_mesh}


SAMPLES = [
    Sample(
        name=f"convert_element_type_to_{target}",
        prim="convert_element_type",
        args=[normal(2, 3)],
        params=partial(to, target, False),
        dtypes=EVERY,
        linear=((0,),) if target in ("float64", "complex128") else (),
        differentiable=target in ("float64", "complex128"),
        notes="differences drown where values are rounded",
    )
    for target in EVERY
]
SAMPLES += [
    Sample(
        name="convert_element_type_weak",
        prim="convert_element_type",
        args=[normal(2, 3)],
        params=partial(to, "float32", True),
        dtypes=("float32", "bfloat16", "int32"),
        differentiable=False,
        notes="differences drown where values are rounded",
    ),
    Sample(
        name="convert_element_type_out_of_range",
        prim="convert_element_type",
        args=[fixed([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.0, -0.9])],
        params=partial(to, "int32", False),
        dtypes=("float32", "bfloat16", "float64"),
    ),
]
SAMPLES += [
    Sample(
        name=f"bitcast_convert_type_{source}_to_{target}",
        prim="bitcast_convert_type",
        args=[whole(0, 100, 3, count) if source.startswith(("u", "i")) else normal(3, count)],
        params={"new_dtype": np.dtype(target)},
        dtypes=(source,),
        differentiable=False,
        notes="bits have no differences; the tangent is zero",
    )
    for source, target, count in (
        ("float32", "int32", 2),
        ("float32", "uint8", 2),
        ("uint8", "float32", 4),
        ("bfloat16", "uint16", 2),
        ("uint16", "float16", 2),
        ("int16", "int64", 4),
        ("float64", "uint32", 2),
        ("int8", "uint8", 2),
    )
]
SAMPLES += [
    Sample(
        name=f"reduce_precision_{exponent}_{mantissa}",
        prim="reduce_precision",
        args=[normal(2, 3)],
        params={"exponent_bits": exponent, "mantissa_bits": mantissa},
        dtypes=FLOATS,
        differentiable=False,
        wrt=(0,) if mantissa == 52 else (),
        notes="tangents are rounded like values, so the map is linear up to that rounding only",
    )
    for exponent, mantissa in ((5, 10), (8, 7), (4, 3), (8, 0), (11, 52))
]
SAMPLES += [
    Sample(name=f"{prim}_{len(shape)}", prim=prim, args=[normal(*shape)], dtypes=EVERY)
    for prim in ("copy", "copy_p", "stage")
    for shape in ((2, 3), ())
]
PLACES = {"devices": (None, None), "srcs": (None, None), "copy_semantics": (0, 0)}
SAMPLES += [
    Sample(
        name="device_put",
        prim="device_put",
        args=[normal(2, 3), normal(3)],
        params=PLACES,
        dtypes=ANY,
        linear=((0, 1),),
    ),
    Sample(
        name="sharding_constraint",
        prim="sharding_constraint",
        args=[normal(2, 3)],
        params={
            "sharding": UNSPECIFIED,
            "layout": None,
            "context_mesh": None,
            "unconstrained_dims": frozenset(),
        },
        dtypes=ANY,
        linear=((0,),),
    ),
    Sample(
        name="reshard",
        prim="reshard",
        args=[normal(2, 3)],
        params=resharding,
        dtypes=ANY,
        linear=((0,),),
    ),
    *[
        Sample(
            name=name,
            prim=name,
            args=[normal(2, 3)],
            params=of_no_axes,
            dtypes=ANY,
            linear=((0,),),
            notes="over mesh axes types are sums; tests/parallel has these",
        )
        for name in ("sum_to_parts", "parts_to_sum", "shared_to_parts", "parts_to_shared")
    ],
    Sample(
        name="name",
        prim="name",
        args=[normal(2, 3)],
        params={"name": "kept"},
        dtypes=ANY,
    ),
]


def ordered(x):
    lax.after_all(lax.create_token(), lax.create_token())
    return x + 1


def sunk(x):
    lax.dce_sink(x)
    return 2 * x


SAMPLES += [
    Sample(name="create_token", prim="create_token", args=[normal(3)], fun=ordered),
    Sample(name="after_all", prim="after_all", args=[normal(3)], fun=ordered),
    Sample(
        name="dce_sink",
        prim="dce_sink",
        args=[normal(3)],
        fun=sunk,
        dtypes=("float32", "float64", "int32"),
    ),
]


def by_platform(x):
    return lax.platform_dependent(x, cpu=lambda x: 2 * x, default=lambda x: weft.numpy.sin(x))


SAMPLES += [
    Sample(
        name="platform_index",
        prim="platform_index",
        args=[normal(3)],
        fun=by_platform,
        dtypes=("float32", "float64"),
    )
]


def relabelled(x):
    pair = primal_tangent_dtype(x.dtype, x.dtype)
    return lax.convert_element_type(lax.convert_element_type(x, pair), x.dtype)


SAMPLES += [
    Sample(
        name=name,
        prim=name,
        args=[normal(2, 3)],
        fun=relabelled,
        dtypes=EVERY,
        linear=((0,),),
    )
    for name in ("to_edtype", "from_edtype")
]
