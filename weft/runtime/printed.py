"""Arrays as text and, for notebooks, as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from weft import dtypes

if TYPE_CHECKING:
    from weft.runtime.array import ArrayImpl

_CAPTION = "font-size: 85%; opacity: 0.7"


def full(x: ArrayImpl) -> str:
    """What ``repr`` says of an array: elements and dtype."""
    if isinstance(x.aval.dtype, dtypes.ExtendedDType):
        return _extended(x)
    weak = ", weak_type=True" if x.aval.weak_type else ""
    suffix = f", dtype={x.aval.dtype.name}{weak})"
    if x._is_sum:
        return f"Array(shape={x.shape}{suffix[:-1]}, sharding={x.sharding})"
    if not _is_complete(x):
        return f"Array(shape={x.shape}{suffix}"
    if x.size == 0:
        return f"Array([], shape={x.shape}{suffix}"
    text = np.array2string(x._value, prefix="Array(", suffix=suffix, separator=", ")
    last = len(text) - text.rfind("\n") - 1 + (6 if "\n" not in text else 0)
    too_long = last + len(suffix) + 1 > np.get_printoptions()["linewidth"]
    gap = "\n      " if too_long else " "
    return f"Array({text},{gap}{suffix[2:]}"


def short(x: ArrayImpl) -> str:
    """What ``str`` says of an array: its elements."""
    if x._is_sum or not _is_complete(x):
        return full(x)
    if isinstance(x.aval.dtype, dtypes.ExtendedDType):
        return _extended(x)
    return str(x._value)


def html(x: ArrayImpl) -> str:
    """An array for notebooks: what ``str`` says, and a line with dtype, shape and place."""
    weak = " (weak type)" if x.aval.weak_type else ""
    caption = [f"{x.aval.dtype}{weak}", f"shape {x.shape}"]
    if x.is_deleted():
        text = "deleted, or donated to a computation"
    else:
        text = short(x)
        caption.append(_place(x))
    told = escape(" · ".join(caption))
    return f'<div><pre>{escape(text)}</pre><div style="{_CAPTION}">{told}</div></div>'


def _place(x: ArrayImpl) -> str:
    found = sorted(x.devices(), key=lambda device: device.id)
    if len(found) == 1:
        return str(found[0])
    spec = getattr(x.sharding, "spec", None)
    return f"{len(found)} devices" + ("" if spec is None else f", {spec}")


def _is_complete(x: ArrayImpl) -> bool:
    """Whether this process has all the elements."""
    return x.is_fully_replicated or not x._type.placement.spans


def _extended(x: ArrayImpl) -> str:
    return f"Array({x.shape}, dtype={x.aval.dtype}) overlaying:\n{elements(x)}"


def elements(x: ArrayImpl) -> np.ndarray:
    """Elements of an extended dtype as the small arrays that they are."""
    dtype = x.aval.dtype
    flat = np.frombuffer(x._value.tobytes(), dtype.physical_dtype)
    return flat.reshape(*x.shape, *dtype.physical_shape)
