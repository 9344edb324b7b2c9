"""Conversions between dtypes: by value, by bits, by precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base.source import warn
from weft.core.ad import Zero
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, batch_in_place, moveaxis
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.trace import typeof
from weft.division.factors import Factors, elementwise, leading
from weft.prims.arithmetic import is_inexact, mul, real_dtype
from weft.prims.families import (
    BOOL,
    COMPLEX,
    EXTENDED,
    FLOAT,
    INT,
    INTEGER,
    broadcast_in_dim,
    const,
    kernel_complex,
    kernel_tiny,
    kind_of,
    positions_along,
)


def convert_values(x: np.ndarray, dtype: Any) -> np.ndarray:
    """The values of ``x`` in another dtype: floats truncate to integers, out of range saturates."""
    have, want = kind_of(x.dtype), kind_of(dtype)
    if have == COMPLEX and want != COMPLEX:
        x = x.real
        have = FLOAT
    if want == BOOL:
        return x != np.zeros((), x.dtype)
    if have & FLOAT and want & INTEGER:
        info = dtypes.iinfo(dtype)
        wide = x.astype(np.float64)
        low, high = float(info.min), float(info.max)
        inside = np.clip(np.nan_to_num(np.trunc(wide), nan=0.0), low, high)
        # float(2**63 - 1) is 2**63: the upper end is set by comparison, not by the cast
        top = inside >= high
        return np.where(top, info.max, np.where(top, 0, inside).astype(_storage(dtype))).astype(
            dtype
        )
    if have & (INTEGER | BOOL) and dtypes.itemsize_bits(dtype) < 8:
        return x.astype(np.int64).astype(dtype)
    if have & FLOAT and x.dtype.name.endswith("fnuz"):
        # their one NaN has the bits of a negative zero, but no sign
        return np.where(np.isnan(x), np.float32(np.nan), x.astype(np.float32)).astype(dtype)
    return x.astype(dtype)


def _storage(dtype: Any) -> Any:
    return np.uint64 if dtypes.issubdtype(dtype, np.unsignedinteger) else np.int64


# dtypes that are converted into each other by bits, denormal numbers too
_BY_BITS = {np.dtype(np.float32), np.dtype(dtypes.bfloat16)}


class ConvertElementType(Primitive):
    """The same values in another dtype."""

    name, form, converts = "convert_element_type", "map", True
    overflows = "cast"
    masks = "each"
    counts = "iu"
    arithmetic = True

    def lower(self, k: Any, x: Any, *, new_dtype: Any, **_: Any) -> Any:
        return kernel_tiny.convert(k, x, new_dtype)

    def flushes(self, values: Any, params: dict[str, Any]) -> bool:
        have, want = values[0].dtype, params["new_dtype"]
        if is_inexact(have) and is_inexact(want):
            have, want = real_dtype(have), real_dtype(want)
        return have != want and {have, want} != _BY_BITS

    def lower_parts(self, k: Any, x: Any, *, new_dtype: Any, **_: Any) -> Any:
        return kernel_complex.convert(k, x, new_dtype=new_dtype)

    def shape(self, x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any) -> ShapedArray:
        if kind_of(x.dtype) == EXTENDED or kind_of(new_dtype) == EXTENDED:
            raise ValueError(f"cannot convert an array of dtype {x.dtype} to {new_dtype}")
        return ShapedArray(x.shape, new_dtype, weak_type)

    @staticmethod
    def ref(x: np.ndarray, *, new_dtype: Any, weak_type: bool, sharding: Any) -> np.ndarray:
        return convert_values(x, new_dtype)

    def d0(
        self, g: Any, out: Any, x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any
    ) -> Any:
        have, want = typeof(x).dtype, new_dtype
        if is_inexact(have) and is_inexact(want):
            return self.bind(g, new_dtype=want, weak_type=weak_type, sharding=sharding)
        return Zero.from_primal(out)

    def transpose(self, ct: Any, x: Any, *, new_dtype: Any, weak_type: bool, sharding: Any) -> Any:
        aval = x.aval
        return [self.bind(ct, new_dtype=aval.dtype, weak_type=aval.weak_type, sharding=sharding)]

    batch = batch_in_place


def _repacked(x: np.ndarray, dtype: np.dtype, have: int, want: int) -> np.ndarray:
    """Elements of fewer bits than a byte, each of which has a byte, as others; the lowest first."""
    words = np.asarray(x, order="C").view(f"u{x.dtype.itemsize}")
    if have < 8:
        words = words & ((1 << have) - 1)
    if have > want:
        places = np.arange(have // want, dtype=words.dtype) * words.dtype.type(want)
        parts = (words[..., None] >> places) & words.dtype.type((1 << want) - 1)
    else:
        wide = words.astype(f"u{max(want // 8, 1)}")
        places = np.arange(want // have, dtype=wide.dtype) * wide.dtype.type(have)
        parts = np.bitwise_or.reduce(wide << places, axis=-1)
    if want >= 8:
        return parts.view(dtype)
    parts = parts.astype(np.uint8)
    if kind_of(dtype) != INT:
        return parts.view(dtype)
    half = 1 << (want - 1)  # the sign
    return ((parts.astype(np.int8) ^ half) - half).astype(dtype)


class BitcastConvertType(Primitive):
    """The same bits read as another dtype."""

    name, form, widens = "bitcast_convert_type", "map", False

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        if len(outs[0].shape) < len(avals[0].shape):
            divisions.check_whole(self.name, specs[0], avals[0], [len(specs[0]) - 1])
        return self.shard(specs, avals, outs, params)

    def lower(self, k: Any, x: Any, *, new_dtype: Any) -> Any:
        return k.bitcast(x, new_dtype)

    def fuses(self, params: Any, ins: Any) -> bool:
        return dtypes.itemsize_bits(params["new_dtype"]) == dtypes.itemsize_bits(ins[0].dtype)

    def expands(self, avals: Any, params: Any) -> bool:
        kinds = [avals[0].dtype, np.dtype(params["new_dtype"])]
        plain = all(k.kind in "iuf" or k.name == "bfloat16" for k in kinds)
        return plain and all(avals[0].shape) and not self.fuses(params, avals)

    def decompose(self, x: Any, *, new_dtype: Any) -> Any:
        """Wider and narrower integers by shifts, the lowest part first."""
        have, want = typeof(x).dtype.itemsize, np.dtype(new_dtype).itemsize
        wide, narrow = (np.dtype(f"u{n}") for n in (max(have, want), min(have, want)))
        bits = self.bind(x, new_dtype=np.dtype(f"u{have}"))
        count, shape = wide.itemsize // narrow.itemsize, np.shape(x)
        whole = (*shape, count) if have > want else shape
        if have > want:
            bits = broadcast_in_dim(bits, whole, tuple(range(len(shape))))
        else:
            bits = convert(bits, wide)
        place = positions_along(whole, len(whole) - 1, np.uint32)
        amount = convert(mul(place, const(place, 8 * narrow.itemsize)), wide)
        if have > want:
            parts = lookup("shift_right_logical").bind(bits, amount)
            return self.bind(convert(parts, narrow), new_dtype=new_dtype)
        moved = lookup("shift_left").bind(bits, amount)
        total = lookup("reduce_or").bind(moved, axes=(len(shape) - 1,))
        return self.bind(total, new_dtype=new_dtype)

    holes = {"transpose": "not linear"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        given, made = len(avals[0].shape), len(outs[0].shape)
        if given == made:
            return elementwise(avals, outs)
        return leading(avals, outs, [max(given - made, 0)], [max(made - given, 0)])

    def shape(self, x: Any, *, new_dtype: Any) -> ShapedArray:
        have, want = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
        shape = x.shape
        if have > want:
            shape = (*shape, have // want)
        elif have < want:
            if not shape or shape[-1] != want // have:
                raise ValueError(
                    f"bitcast_convert_type from {x.str_short()} to {new_dtype} needs a last"
                    f" dimension of size {want // have}, got shape {shape}"
                )
            shape = shape[:-1]
        if BOOL in (kind_of(x.dtype), kind_of(new_dtype)) and x.dtype != new_dtype:
            raise TypeError(
                "bitcast_convert_type cannot read bool as another dtype or back; use astype"
            )
        return ShapedArray(shape, new_dtype)

    @staticmethod
    def ref(x: np.ndarray, *, new_dtype: Any) -> np.ndarray:
        bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
        if min(bits) < 8 and bits[0] != bits[1]:
            return _repacked(x, np.dtype(new_dtype), *bits)
        have, want = x.dtype.itemsize, np.dtype(new_dtype).itemsize
        data = np.asarray(x, order="C")
        if have > want:
            return data.reshape(*x.shape, 1).view(new_dtype)
        if have < want:
            return data.view(new_dtype).reshape(x.shape[:-1])
        return data.view(new_dtype).reshape(x.shape)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        return out, Zero.from_primal(out)

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        (x,), (dim,) = args, dims
        if dim != 0:
            x = moveaxis(x, dim, 0)
        return self.bind(x, **params), 0


def round_precision(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Values rounded to a float format with these numbers of bits, kept in their own dtype."""
    info = dtypes.finfo(x.dtype)
    size = x.dtype.itemsize
    unsigned = np.dtype(f"u{size}")
    own_mantissa, own_exponent = info.nmant, info.nexp
    bits = np.asarray(x, order="C").view(unsigned).copy()
    one = unsigned.type(1)
    sign_mask = one << unsigned.type(size * 8 - 1)
    sign = bits & sign_mask
    if mantissa_bits < own_mantissa:
        drop = own_mantissa - mantissa_bits
        last = (bits >> unsigned.type(drop)) & one
        bits = bits + (((one << unsigned.type(drop - 1)) - one) + last)
        bits &= ~((one << unsigned.type(drop)) - one)
    if exponent_bits < own_exponent:
        infinity = ((one << unsigned.type(own_exponent)) - one) << unsigned.type(own_mantissa)
        exponent = bits & infinity
        bias = (1 << (own_exponent - 1)) - 1
        reduced = (1 << (exponent_bits - 1)) - 1
        top = unsigned.type((bias + reduced) << own_mantissa)
        bottom = unsigned.type((bias - reduced) << own_mantissa)
        bits = np.where(exponent > top, sign | infinity, bits)
        bits = np.where(exponent <= bottom, sign, bits)
    out = bits.astype(unsigned).view(x.dtype).reshape(x.shape)
    return np.where(np.isnan(x), x, out)


class ReducePrecision(Primitive):
    """Values rounded to a narrower float format, in the same dtype."""

    name, form, widens = "reduce_precision", "map", False
    masks = "each"
    linear = True

    def lower(self, k: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
        info, unsigned = dtypes.finfo(x.dtype), np.dtype(f"u{x.dtype.itemsize}")
        number = lambda n: k.const(n, unsigned)
        bits = k.bitcast(x, unsigned)
        sign = k.and_(bits, number(1 << (8 * unsigned.itemsize - 1)))
        drop = info.nmant - mantissa_bits
        if drop > 0:
            last = k.and_(k.lshr(bits, number(drop)), number(1))
            bits = k.add(bits, k.add(last, number((1 << (drop - 1)) - 1)))
            ones = (1 << 8 * unsigned.itemsize) - 1
            bits = k.and_(bits, number(ones ^ ((1 << drop) - 1)))
        if exponent_bits < info.nexp:
            infinity = number(((1 << info.nexp) - 1) << info.nmant)
            exponent = k.and_(bits, infinity)
            bias, reduced = (1 << (info.nexp - 1)) - 1, (1 << (exponent_bits - 1)) - 1
            above = k.gt(exponent, number((bias + reduced) << info.nmant))
            bits = k.select(above, k.or_(sign, infinity), bits)
            below = k.le(exponent, number((bias - reduced) << info.nmant))
            bits = k.select(below, sign, bits)
        return k.select(k.isnan(x), x, k.bitcast(bits, x.dtype))

    def shape(self, x: Any, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
        if kind_of(x.dtype) != FLOAT:
            raise TypeError(f"reduce_precision takes floating operands, got {x.str_short()}")
        if exponent_bits < 1 or mantissa_bits < 0:
            raise ValueError(
                "reduce_precision needs exponent_bits >= 1 and mantissa_bits >= 0, got"
                f" {exponent_bits} and {mantissa_bits}"
            )
        return x

    @staticmethod
    def ref(x: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
        return round_precision(x, exponent_bits, mantissa_bits)

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        return [self.bind(ct, **params)]

    batch = batch_in_place


class Copy(Primitive):
    """A copy: the same values in memory of their own."""

    name, form = "copy", "map"
    masks = "each"
    linear = True

    def lower(self, k: Any, x: Any) -> Any:
        return x

    lower_parts = lower

    def shape(self, x: Any) -> ShapedArray:
        return x

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        return x.copy()

    def transpose(self, ct: Any, x: Any) -> list[Any]:
        return [self.bind(ct)]

    batch = batch_in_place


class CopyP(Copy):
    """A copy that ``jnp.array`` makes of a traced value."""

    name = "copy_p"


convert_element_type_p = ConvertElementType()
bitcast_convert_type_p = BitcastConvertType()
reduce_precision_p = ReducePrecision()
copy_p = Copy()
copy_p_p = CopyP()


def warn_of_lost_parts(have: Any, dtype: Any) -> None:
    """A warning where complex numbers are to become real ones."""
    if kind_of(have) == COMPLEX != kind_of(dtype):
        warn(
            "casting complex values to real discards the imaginary part; use jnp.real first",
            np.exceptions.ComplexWarning,
        )


def convert(x: Any, dtype: Any, weak_type: bool = False) -> Any:
    """``x`` in another dtype; ``x`` itself if it has it already."""
    aval = typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type, sharding=None)
