"""Type promotion against tables recorded from JAX 0.10.2."""

import itertools
import types
import warnings

import numpy as np
import pytest

from weft import dtypes
from weft.base import knobs
from weft.dtypes.lattice import least_upper_bound, upper_bounds

# In these tables columns follow the rows' order; a name that ends in * is weakly typed, and . marks
# pairs without a common dtype. The rows are: bool, then unsigned, signed, floating, complex.
NAMES = "b1 u4 u8 u16 u32 u64 i4 i8 i16 i32 i64 f8 bf f16 f32 f64 c64 c128".split()
FULL = (
    "bool uint4 uint8 uint16 uint32 uint64 int4 int8 int16 int32 int64 float8_e4m3fn bfloat16 "
    "float16 float32 float64 complex64 complex128"
).split()
DTYPES = {
    short: np.dtype(getattr(dtypes, full, full)) for short, full in zip(NAMES, FULL, strict=True)
}
WIDE = ("u64", "i64", "f64", "c128")
SHORT = {dtype: short for short, dtype in DTYPES.items()}

STRONG = """
b1   u4 u8   u16  u32  u64  i4 i8   i16  i32  i64  f8 bf   f16  f32  f64  c64  c128
u4   u4 .    .    .    .    .  .    .    .    .    .  .    .    .    .    .    .
u8   .  u8   u16  u32  u64  .  i16  i16  i32  i64  f8 bf   f16  f32  f64  c64  c128
u16  .  u16  u16  u32  u64  .  i32  i32  i32  i64  f8 bf   f16  f32  f64  c64  c128
u32  .  u32  u32  u32  u64  .  i64  i64  i64  i64  f8 bf   f16  f32  f64  c64  c128
u64  .  u64  u64  u64  u64  .  f64* f64* f64* f64* f8 bf   f16  f32  f64  c64  c128
i4   .  .    .    .    .    i4 .    .    .    .    .  .    .    .    .    .    .
i8   .  i16  i32  i64  f64* .  i8   i16  i32  i64  f8 bf   f16  f32  f64  c64  c128
i16  .  i16  i32  i64  f64* .  i16  i16  i32  i64  f8 bf   f16  f32  f64  c64  c128
i32  .  i32  i32  i64  f64* .  i32  i32  i32  i64  f8 bf   f16  f32  f64  c64  c128
i64  .  i64  i64  i64  f64* .  i64  i64  i64  i64  f8 bf   f16  f32  f64  c64  c128
f8   .  f8   f8   f8   f8   .  f8   f8   f8   f8   f8 .    .    .    .    .    .
bf   .  bf   bf   bf   bf   .  bf   bf   bf   bf   .  bf   f32  f32  f64  c64  c128
f16  .  f16  f16  f16  f16  .  f16  f16  f16  f16  .  f32  f16  f32  f64  c64  c128
f32  .  f32  f32  f32  f32  .  f32  f32  f32  f32  .  f32  f32  f32  f64  c64  c128
f64  .  f64  f64  f64  f64  .  f64  f64  f64  f64  .  f64  f64  f64  f64  c128 c128
c64  .  c64  c64  c64  c64  .  c64  c64  c64  c64  .  c64  c64  c64  c128 c64  c128
c128 .  c128 c128 c128 c128 .  c128 c128 c128 c128 .  c128 c128 c128 c128 c128 c128
"""

SCALARS = """
b1    i64*  f64*  c128*
u4    u4    .     .
u8    u8    f64*  c128*
u16   u16   f64*  c128*
u32   u32   f64*  c128*
u64   u64   f64*  c128*
i4    i4    .     .
i8    i8    f64*  c128*
i16   i16   f64*  c128*
i32   i32   f64*  c128*
i64   i64   f64*  c128*
f8    f8    f8    .
bf    bf    bf    c64
f16   f16   f16   c64
f32   f32   f32   c64
f64   f64   f64   c128
c64   c64   c64   c64
c128  c128  c128  c128
b1    i64*  f64*  c128*
i64*  .     .     .
i64*  i64*  f64*  c128*
i64*  i64*  f64*  c128*
i64*  i64*  f64*  c128*
i64*  f64*  f64*  c128*
i64*  .     .     .
i64*  i64*  f64*  c128*
i64*  i64*  f64*  c128*
i64*  i64*  f64*  c128*
i64*  i64*  f64*  c128*
f64*  f8*   .     .
f64*  bf*   f64*  c128*
f64*  f16*  f64*  c128*
f64*  f32*  f64*  c128*
f64*  f64*  f64*  c128*
c128* c64*  c128* c128*
c128* c128* c128* c128*
"""

STRONG_32 = """
b1  u4 u8  u16 u32 i4 i8  i16 i32 f8 bf  f16 f32 c64
u4  u4 .   .   .   .  .   .   .   .  .   .   .   .
u8  .  u8  u16 u32 .  i16 i16 i32 f8 bf  f16 f32 c64
u16 .  u16 u16 u32 .  i32 i32 i32 f8 bf  f16 f32 c64
u32 .  u32 u32 u32 .  i32 i32 i32 f8 bf  f16 f32 c64
i4  .  .   .   .   i4 .   .   .   .  .   .   .   .
i8  .  i16 i32 i32 .  i8  i16 i32 f8 bf  f16 f32 c64
i16 .  i16 i32 i32 .  i16 i16 i32 f8 bf  f16 f32 c64
i32 .  i32 i32 i32 .  i32 i32 i32 f8 bf  f16 f32 c64
f8  .  f8  f8  f8  .  f8  f8  f8  f8 .   .   .   .
bf  .  bf  bf  bf  .  bf  bf  bf  .  bf  f32 f32 c64
f16 .  f16 f16 f16 .  f16 f16 f16 .  f32 f16 f32 c64
f32 .  f32 f32 f32 .  f32 f32 f32 .  f32 f32 f32 c64
c64 .  c64 c64 c64 .  c64 c64 c64 .  c64 c64 c64 c64
"""

SCALARS_32 = """
b1   i32* f32* c64*
u4   u4   .    .
u8   u8   f32* c64*
u16  u16  f32* c64*
u32  u32  f32* c64*
i4   i4   .    .
i8   i8   f32* c64*
i16  i16  f32* c64*
i32  i32  f32* c64*
f8   f8   f8   .
bf   bf   bf   c64
f16  f16  f16  c64
f32  f32  f32  c64
c64  c64  c64  c64
b1   i32* f32* c64*
i32* .    .    .
i32* i32* f32* c64*
i32* i32* f32* c64*
i32* i32* f32* c64*
i32* .    .    .
i32* i32* f32* c64*
i32* i32* f32* c64*
i32* i32* f32* c64*
f32* f8*  .    .
f32* bf*  f32* c64*
f32* f16* f32* c64*
f32* f32* f32* c64*
c64* c64* c64* c64*
"""


class Value:
    """Stands for an array or tracer: a dtype, and a weak type in the abstract value."""

    def __init__(self, dtype, weak_type):
        self.dtype = np.dtype(dtype)
        self.weak_type = weak_type
        self.aval = types.SimpleNamespace(dtype=self.dtype, weak_type=weak_type)
        self.shape = ()


def shown(*operands):
    try:
        dtype, weak = dtypes.lattice_result_type(*operands)
    except dtypes.TypePromotionError:
        return "."
    return SHORT[dtype] + "*" * weak


def rows(table):
    return [line.split() for line in table.strip().splitlines()]


@pytest.mark.parametrize("x64, table", [(True, STRONG), (False, STRONG_32)])
def test_two_strong_dtypes(x64, table):
    """All pairs of arrays meet where JAX's do."""
    names = [n for n in NAMES if x64 or n not in WIDE]
    with knobs.enable_x64(x64):
        for name, row in zip(names, rows(table), strict=True):
            got = [shown(Value(DTYPES[name], False), Value(DTYPES[o], False)) for o in names]
            assert got == row, name


@pytest.mark.parametrize("x64, table", [(True, SCALARS), (False, SCALARS_32)])
def test_a_dtype_and_python_scalars(x64, table):
    """Columns are True, 1, 1.0, 1j; rows are strong dtypes, then weak ones."""
    names = [n for n in NAMES if x64 or n not in WIDE]
    cases = itertools.product((False, True), names)
    with knobs.enable_x64(x64):
        for (weak, name), row in zip(cases, rows(table), strict=True):
            value = Value(DTYPES[name], weak)
            assert [shown(value, s) for s in (True, 1, 1.0, 1j)] == row, (name, weak)
            assert [shown(s, value) for s in (True, 1, 1.0, 1j)] == row, (name, weak)


def test_two_weak_values_keep_widths():
    """Among weak values widths count as among strong ones, and the result is weak."""
    with knobs.enable_x64(True):
        for name, row in zip(NAMES, rows(STRONG), strict=True):
            got = [shown(Value(DTYPES[name], True), Value(DTYPES[o], True)) for o in NAMES]
            weak = [one if one in (".", "b1") else one.rstrip("*") + "*" for one in row]
            assert got == weak, name


def test_more_than_two_operands_are_joined_at_once():
    """Folding pairs would give another answer here: weak values count only once."""
    weak16, weak32 = Value("float16", True), Value("float32", True)
    assert shown(weak16, weak32) == "f32*"
    assert shown(weak16, weak32, Value("bfloat16", False)) == "bf"
    assert shown(Value("int8", False), Value("uint8", False), 1.0) == "f32*"
    assert shown(Value("float32", False), Value("float32", False), 1, 2.0) == "f32"
    assert shown(Value("int4", False), Value("int4", False), 3) == "i4"
    assert shown(1, 2, 3) == "i32*"


def test_strict_mode():
    """Only weak types give way; everything else must be converted by hand."""
    with knobs.numpy_dtype_promotion("strict"):
        assert shown(Value("float16", False), 1.0) == "f16"
        assert shown(Value("float16", False), 1) == "f16"
        assert shown(Value("int8", False), 1) == "i8"
        assert shown(1, 1.0, 1j) == "c64*"
        assert shown(Value("float16", True), Value("float16", True)) == "f32*"
        for one, other in (("int32", "float32"), ("int8", "int16"), ("bool", "int32")):
            with pytest.raises(dtypes.TypePromotionError, match=rf"{one}.*strict.*astype"):
                dtypes.result_type(one, other)
        with pytest.raises(dtypes.TypePromotionError, match=r"int8, float\*|float\*, int8"):
            dtypes.result_type("int8", 1.0)


def test_errors_say_what_to_write():
    """Narrow dtypes do not meet others; the text names them and a way out."""
    with pytest.raises(dtypes.TypePromotionError, match=r"8-bit floats .*astype\('float32'\)"):
        dtypes.result_type(dtypes.float8_e4m3fn, "float32")
    with pytest.raises(dtypes.TypePromotionError, match="4- and 8-bit floats"):
        dtypes.result_type(dtypes.float8_e4m3fn, dtypes.float4_e2m1fn)
    with pytest.raises(dtypes.TypePromotionError, match=r"4-bit integers .*astype\('int32'\)"):
        dtypes.result_type(dtypes.int4, "int32")
    with pytest.raises(ValueError, match="does not take part"):
        dtypes.result_type(Value(dtypes.float0, False), 1.0)
    with pytest.raises(ValueError, match="at least one"):
        dtypes.result_type()
    assert issubclass(dtypes.TypePromotionError, ValueError)


def test_result_type_of_weak_values_is_the_default():
    """``lattice_result_type`` keeps the width, ``result_type`` gives the default of the kind."""
    weak = Value("int8", True)
    assert dtypes.lattice_result_type(weak) == (np.dtype("int8"), True)
    assert dtypes.result_type(weak, return_weak_type_flag=True) == (np.dtype("int32"), True)
    assert dtypes.result_type(Value("uint8", True)) == np.dtype("uint32")
    assert dtypes.result_type(Value("bfloat16", True)) == np.dtype("float32")
    assert dtypes.result_type(Value("bool", True), return_weak_type_flag=True)[1] is False
    assert dtypes.result_type(None) == np.dtype("float32")


def test_64_bit_values_without_x64():
    """Equal dtypes pass; a promoted 64-bit result is narrowed, and warns each time."""
    wide, narrow = Value("int64", False), Value("int32", False)
    assert shown(wide, wide) == "i64"
    assert shown(wide, Value("float32", False)) == "f32"
    for _ in range(2):
        with pytest.warns(UserWarning, match="int64 in type promotion is narrowed to int32"):
            assert shown(wide, narrow) == "i32"
    assert dtypes.result_type(np.ones(2), np.ones(2, np.float16)) == np.dtype("float32")


def test_dtypes_and_scalar_types_as_operands():
    """Types are as good as values; Python's own are weak."""
    assert dtypes.result_type(int, "uint8") == np.dtype("uint8")
    assert dtypes.result_type(np.int8, np.dtype("uint8")) == np.dtype("int16")
    assert dtypes.lattice_result_type(float) == (np.dtype("float32"), True)
    assert dtypes.promote_types("int32", "uint32") == np.dtype("int32")
    assert dtypes.promote_types(int, bool) == np.dtype("int64")
    with knobs.enable_x64(True):
        assert dtypes.promote_types("int32", "uint32") == np.dtype("int64")


def test_only_arrays_can_be_weak():
    """Descriptions with a weak type but no abstract value count as strong, as in JAX."""
    description = types.SimpleNamespace(dtype=np.dtype("float32"), weak_type=True)
    assert not dtypes.is_weakly_typed(description)
    assert dtypes.result_type("float16", description) == np.dtype("float32")
    assert dtypes.is_weakly_typed(Value("float32", True))
    assert dtypes.is_weakly_typed(1) and not dtypes.is_weakly_typed(True)
    assert dtypes.is_weakly_typed_scalar(True)
    assert not dtypes.is_weakly_typed_scalar(np.ones(2))


def test_the_lattice_is_one():
    """Joining is commutative and associative over all nodes, and gives an upper bound."""
    for strict, x64 in itertools.product((False, True), (False, True)):
        bounds = upper_bounds(strict, x64)

        def join(*nodes, strict=strict, x64=x64):
            try:
                return least_upper_bound(frozenset(nodes), strict, x64)
            except dtypes.TypePromotionError:
                return None

        for a, b in itertools.combinations(bounds, 2):
            both = join(a, b)
            assert both is None or both in bounds[a] & bounds[b]
            for c in ("float16", "uint32", "int4"):
                node = DTYPES[SHORT[np.dtype(getattr(dtypes, c, c))]]
                other = join(b, node)
                if both is not None and other is not None:
                    assert join(both, node) == join(a, other) == join(a, b, node)


def test_safe_to_cast():
    """A cast is safe where promotion would do it unasked."""
    assert dtypes.safe_to_cast("int16", "float32")
    assert not dtypes.safe_to_cast("float32", "int16")
    assert dtypes.safe_to_cast(1.0, "float16")
    assert not dtypes.safe_to_cast(1j, "float32")


def test_no_warning_on_ordinary_promotion():
    """Values of 64 bits from NumPy are narrowed silently; only explicit dtypes warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dtypes.dtype(np.float64(3)) == np.dtype("float32")
        assert dtypes.result_type(np.ones(2), 1) == np.dtype("float32")
