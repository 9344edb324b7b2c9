"""The promotion lattice: which dtype two dtypes meet in.

``LATTICE`` is the whole rule; the rest of the file reads it. Which dtype and weak type a value
has is left to ``promotion``.
"""

from __future__ import annotations

import functools
from typing import TypeAlias

from weft.dtypes import kinds
from weft.dtypes.kinds import DType

# A node is a dtype, or int, float or complex for values whose width is not decided yet.
Node: TypeAlias = DType | type

# Each dtype and those directly above it; a dtype that is not named on the left has none.
# int*, float* and complex* are the weak types: Python scalars, and what is made of them alone.
LATTICE: dict[str, str] = {
    "bool": "int*",
    "int*": "uint1 uint2 uint4 uint8 int1 int2 int4 int8",
    "uint8": "uint16 int16",
    "uint16": "uint32 int32",
    "uint32": "uint64 int64",
    "uint64": "float*",
    "int8": "int16",
    "int16": "int32",
    "int32": "int64",
    "int64": "float*",
    "float*": (
        "float4_e2m1fn float6_e2m3fn float6_e3m2fn "
        "float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz "
        "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu bfloat16 float16 complex*"
    ),
    "bfloat16": "float32",
    "float16": "float32",
    "float32": "float64 complex64",
    "float64": "complex128",
    "complex*": "complex64",
    "complex64": "complex128",
}

# Without 64-bit dtypes, unsigned and signed 32-bit integers meet in the signed ones.
LATTICE_32_BIT: dict[str, str] = {**LATTICE, "uint32": "uint64 int32"}

# In strict mode only weak types give way; two different dtypes do not meet.
LATTICE_STRICT: dict[str, str] = {
    "int*": "float* " + " ".join(dtype.name for dtype in kinds.integer_dtypes),
    "float*": "complex* " + " ".join(dtype.name for dtype in kinds.floating_dtypes),
    "complex*": " ".join(dtype.name for dtype in kinds.complex_dtypes),
}

WEAK_NODES: tuple[type, ...] = (int, float, complex)


class TypePromotionError(ValueError):
    """The error where dtypes have no common dtype that they may be converted to unasked.

    >>> import weft.numpy as jnp
    >>> from weft import dtypes
    >>> try:
    ...     jnp.promote_types("float8_e4m3fn", "float8_e5m2")
    ... except dtypes.TypePromotionError:
    ...     print("convert one of them")
    convert one of them
    """


def weak_node(dtype: DType) -> Node:
    """The node of a weakly typed value of this dtype; booleans are never weak."""
    if dtype in kinds.integer_dtypes:
        return int
    if dtype in kinds.floating_dtypes:
        return float
    return complex if dtype in kinds.complex_dtypes else dtype


@functools.cache
def upper_bounds(strict: bool, x64: bool) -> dict[Node, frozenset[Node]]:
    """For each node of a lattice, all nodes at or above it."""
    table = LATTICE_STRICT if strict else LATTICE if x64 else LATTICE_32_BIT
    nodes: dict[str, Node] = {f"{node.__name__}*": node for node in WEAK_NODES}
    nodes.update(kinds.dtype_by_name)

    @functools.cache
    def above(name: str) -> frozenset[Node]:
        higher = [above(one) for one in table.get(name, "").split() if one in nodes]
        return frozenset((nodes[name],)).union(*higher)

    return {node: above(name) for name, node in nodes.items()}


@functools.lru_cache(4096)
def least_upper_bound(nodes: frozenset[Node], strict: bool, x64: bool) -> Node:
    """The lowest node at or above all the given ones.

    >>> nodes = frozenset((kinds.dtype_by_name["int8"], kinds.dtype_by_name["uint8"]))
    >>> least_upper_bound(nodes, strict=False, x64=False)
    dtype('int16')
    """
    bounds = upper_bounds(strict, x64)
    for node in nodes:
        if node not in bounds:
            raise ValueError(f"dtype {node} does not take part in type promotion")
    common = frozenset.intersection(*(bounds[node] for node in nodes))
    for node in common:
        if common <= bounds[node]:
            return node
    raise TypePromotionError(_no_path_text(nodes, strict))


def _no_path_text(nodes: frozenset[Node], strict: bool) -> str:
    names = sorted(f"{n.__name__}*" if isinstance(n, type) else n.name for n in nodes)
    text = f"dtypes {', '.join(names)} have no common dtype"
    if strict:
        return (
            f"{text} under numpy_dtype_promotion='strict'; convert one of them, for example "
            "x.astype(y.dtype), or set numpy_dtype_promotion='standard'"
        )
    narrow = [n for n in nodes if not isinstance(n, type) and kinds.itemsize_bits(n) <= 8]
    small = [n for n in narrow if n in kinds.small_float_dtypes]
    target = "float32" if small else "int32"
    bits = {kinds.itemsize_bits(n) for n in small or narrow}
    kind = "floats" if small else "integers"
    return (
        f"{text}: {'- and '.join(map(str, sorted(bits)))}-bit {kind} are never promoted unasked; "
        f"convert explicitly, for example x.astype('{target}')"
    )
