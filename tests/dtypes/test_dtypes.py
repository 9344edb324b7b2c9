"""Dtypes, canonical forms, families and extended dtypes."""

import dataclasses
import types
import warnings

import ml_dtypes
import numpy as np
import pytest

from weft import dtypes
from weft.base import knobs


@dataclasses.dataclass(frozen=True)
class KeyDType(dtypes.ExtendedDType):
    """A random key's dtype as the random room will define it."""

    tag: str = "fry"
    type = dtypes.prng_key
    name = property(lambda self: f"key<{self.tag}>")
    physical_shape = (2,)
    physical_dtype = np.dtype("uint32")

    def __str__(self):
        return self.name


KEY = KeyDType()


def array_of(dtype, weak_type=False):
    aval = types.SimpleNamespace(dtype=dtype, weak_type=weak_type)
    return types.SimpleNamespace(dtype=dtype, weak_type=weak_type, aval=aval)


@pytest.mark.parametrize("wide, narrow", [
    ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"), ("complex128", "complex64"),
])  # fmt: skip
def test_canonicalize_narrows_unless_x64(wide, narrow):
    for form in (np.dtype(wide), wide, np.dtype(wide).type):
        assert dtypes.canonicalize_dtype(form) == np.dtype(narrow)
        with knobs.enable_x64(True):
            assert dtypes.canonicalize_dtype(form) == np.dtype(wide)
    assert dtypes.canonicalize_dtype(narrow) == np.dtype(narrow)


def test_canonicalize_python_types_and_none():
    assert dtypes.canonicalize_dtype(float) == np.dtype("float32")
    assert dtypes.canonicalize_dtype(int) == np.dtype("int32")
    assert dtypes.canonicalize_dtype(bool) == np.dtype("bool")
    assert dtypes.canonicalize_dtype(None) == np.dtype("float32")


def test_canonicalize_keeps_every_other_dtype():
    for dtype in dtypes.all_dtypes:
        with knobs.enable_x64(True):
            assert dtypes.canonicalize_dtype(dtype) == dtype


def test_canonicalize_errors():
    with pytest.raises(TypeError):
        dtypes.canonicalize_dtype("float33")
    with pytest.raises(TypeError):
        dtypes.canonicalize_dtype(np.ones(2))
    with pytest.raises(ValueError, match="extended dtype key<fry>"):
        dtypes.canonicalize_dtype(KEY)
    assert dtypes.canonicalize_dtype(KEY, allow_extended_dtype=True) is KEY


def test_defaults_follow_x64():
    assert [f().name for f in dtypes.default_types.values()] == [
        "bool", "int32", "uint32", "float32", "complex64",
    ]  # fmt: skip
    with knobs.enable_x64(True):
        assert [f().name for f in dtypes.python_scalar_dtypes.values()] == [
            "bool", "int64", "float64", "complex128",
        ]  # fmt: skip


def test_user_dtype():
    assert dtypes.check_user_dtype(dtypes.bfloat16) == np.dtype(dtypes.bfloat16)
    assert dtypes.check_user_dtype(float, "zeros") == np.dtype("float32")
    assert dtypes.check_user_dtype(KEY, "zeros") is KEY
    with pytest.raises(ValueError, match="zeros"):
        dtypes.check_user_dtype(None, "zeros")
    with pytest.raises(TypeError, match="zeros got dtype 'O'"):
        dtypes.check_user_dtype("O", "zeros")
    with pytest.raises(TypeError, match="native byte order"):
        dtypes.check_user_dtype(">f4")
    with pytest.raises(ValueError, match=r"write dtype=x\.dtype"):
        dtypes.check_user_dtype(array_of(np.dtype("float32")))


def test_explicit_64_bits_warn_at_the_users_line():
    with pytest.warns(UserWarning, match="requested dtype float64 in zeros is narrowed") as seen:
        assert dtypes.check_user_dtype("float64", "zeros") == np.dtype("float32")
    assert seen[0].filename == __file__
    assert "jax_enable_x64" in str(seen[0].message)
    with pytest.warns(UserWarning, match="int64") as seen:
        assert dtypes.dtype(np.int64) == np.dtype("int32")
    assert seen[0].filename == __file__


def test_explicit_64_bits_by_knob():
    with knobs.explicit_x64_dtypes("error"), pytest.raises(ValueError, match="float64"):
        dtypes.check_user_dtype("float64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with knobs.explicit_x64_dtypes("allow"):
            assert dtypes.check_user_dtype("float64") == np.dtype("float64")
        with knobs.enable_x64(True):
            assert dtypes.check_user_dtype("float64") == np.dtype("float64")


def test_dtype_of_values():
    assert dtypes.dtype(1) == np.dtype("int32")
    assert dtypes.dtype(2**40) == np.dtype("int32")
    assert dtypes.dtype(np.float64(1)) == np.dtype("float32")
    assert dtypes.dtype(np.ones(2), canonicalize=False) == np.dtype("float64")
    assert dtypes.dtype(1.0, canonicalize=False) == np.dtype("float64")
    assert dtypes.dtype(array_of(np.dtype("float64"))) == np.dtype("float64")
    assert dtypes.dtype(array_of(KEY)) is KEY
    assert dtypes.dtype(types.SimpleNamespace(dtype=np.dtype("float64"))) == np.dtype("float32")


@pytest.mark.parametrize("value", [[1, 2], object(), np.array("a"), object, np.dtype(">f4")])
def test_values_without_a_dtype(value):
    with pytest.raises(TypeError):
        dtypes.dtype(value)


def test_dtype_of_none():
    with pytest.raises(ValueError):
        dtypes.dtype(None)


def test_scalar_types():
    assert dtypes.scalar_type_of(np.ones(2, dtypes.bfloat16)) is float
    assert dtypes.scalar_type_of(dtypes.int4) is int
    assert dtypes.scalar_type_of(True) is bool
    assert dtypes.scalar_type_of("complex64") is complex
    assert dtypes.is_python_scalar(1j) and not dtypes.is_python_scalar(np.float64(1))
    with pytest.raises(TypeError):
        dtypes.scalar_type_of(dtypes.float0)


def test_python_ints_must_fit():
    assert dtypes.scalar_type_to_dtype(int, 2**31 - 1) == np.dtype("int32")
    with pytest.raises(OverflowError, match="2147483648 does not fit into int32"):
        dtypes.scalar_type_to_dtype(int, 2**31)
    with pytest.raises(OverflowError):
        dtypes.coerce_to_array(-(2**31) - 1)
    with knobs.enable_x64(True):
        assert dtypes.scalar_type_to_dtype(int, 2**31) == np.dtype("int64")
    assert dtypes.coerce_to_array(1.5).dtype == np.dtype("float32")
    assert dtypes.coerce_to_array(np.ones(2)).dtype == np.dtype("float64")


FAMILIES = {
    np.bool_: ("bool",),
    np.signedinteger: ("int1", "int2", "int4", "int8", "int64"),
    np.unsignedinteger: ("uint1", "uint2", "uint4", "uint8", "uint64"),
    np.floating: ("float4_e2m1fn", "float6_e2m3fn", "float8_e5m2", "bfloat16", "float16"),
    np.complexfloating: ("complex64", "complex128"),
}


def test_issubdtype():
    for family, names in FAMILIES.items():
        for name in names:
            dtype = np.dtype(getattr(ml_dtypes, name, name))
            for other in FAMILIES:
                assert dtypes.issubdtype(dtype, other) == (other is family), (name, other)
            assert dtypes.issubdtype(dtype, np.number) == (family is not np.bool_)
            assert dtypes.issubdtype(dtype, np.generic)
            assert dtypes.issubdtype(dtype, dtype.type)
            assert not dtypes.issubdtype(dtype, dtypes.extended)
    assert dtypes.issubdtype(np.ones(2).dtype, float)
    assert not dtypes.issubdtype(np.floating, float)


def test_issubdtype_of_extended_dtypes():
    assert dtypes.issubdtype(KEY, dtypes.prng_key)
    assert dtypes.issubdtype(KEY, dtypes.extended)
    assert dtypes.issubdtype(KEY, np.generic)
    assert dtypes.issubdtype(dtypes.prng_key, dtypes.extended)
    assert dtypes.issubdtype(KEY, KeyDType()) and not dtypes.issubdtype(KEY, KeyDType("rbg"))
    assert not dtypes.issubdtype(KEY, np.number)
    assert not dtypes.issubdtype(np.float32, KEY)


def test_isdtype():
    assert dtypes.isdtype("int4", "signed integer") is True
    assert dtypes.isdtype(np.float32, ("integral", "bool")) is False
    assert dtypes.isdtype(np.float32, ("integral", "float32"))
    with pytest.raises(ValueError, match="'real floating'"):
        dtypes.isdtype("float32", ("float32", "floaty"))
    with pytest.raises(TypeError):
        dtypes.isdtype("float32", 3)


def test_bits_and_limits():
    bits = {"int2": 2, "uint4": 4, "bool": 8, "float8_e5m2": 8, "float6_e2m3fn": 6,
            "float4_e2m1fn": 4, "bfloat16": 16, "complex128": 128}  # fmt: skip
    for name, expected in bits.items():
        assert dtypes.itemsize_bits(getattr(ml_dtypes, name, name)) == expected
    for wrong in (None, KEY, "O"):
        with pytest.raises(ValueError):
            dtypes.itemsize_bits(wrong)
    assert dtypes.iinfo("int4").max == 7
    assert dtypes.finfo(dtypes.bfloat16).bits == 16


def test_supports_inf_is_what_ml_dtypes_does():
    for dtype in dtypes.floating_dtypes:
        with np.errstate(invalid="ignore"):
            held = bool(np.isinf(np.array(np.inf).astype(dtype).astype(np.float64)))
        assert dtypes.supports_inf(dtype) == held, dtype


def test_conversions_between_families():
    assert dtypes.to_numeric_dtype(bool) == np.dtype("int32")
    assert dtypes.to_numeric_dtype("uint8") == np.dtype("uint8")
    assert dtypes.to_inexact_dtype("int8") == np.dtype("float32")
    assert dtypes.to_inexact_dtype("int64") == np.dtype("float64")
    assert dtypes.to_inexact_dtype(dtypes.int2) == np.dtype("float32")
    assert dtypes.to_inexact_dtype(dtypes.bfloat16) == np.dtype(dtypes.bfloat16)
    assert dtypes.to_floating_dtype("complex128") == np.dtype("float64")
    assert dtypes.to_floating_dtype("bool") == np.dtype("float32")
    assert dtypes.to_complex_dtype("float16") == np.dtype("complex64")
    assert dtypes.to_complex_dtype("int64") == np.dtype("complex128")


SHORT_NAMES = {
    "bool": "bool", "int4": "i4", "int32": "i32", "uint8": "u8", "float32": "f32",
    "bfloat16": "bf16", "float8_e4m3fn": "f8_e4m3fn", "float4_e2m1fn": "f4_e2m1fn",
    "complex64": "c64",
}  # fmt: skip


def test_short_names():
    for name, short in SHORT_NAMES.items():
        assert dtypes.short_name(np.dtype(getattr(ml_dtypes, name, name))) == short
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.short_name(KEY) == "key<fry>"


def test_tangent_dtypes():
    assert dtypes.primal_to_tangent_dtype(np.dtype("int32")) == dtypes.float0
    assert dtypes.primal_to_tangent_dtype(np.dtype("bool")) == dtypes.float0
    assert dtypes.primal_to_tangent_dtype(KEY) == dtypes.float0
    for name in ("float8_e5m2", "bfloat16", "complex64"):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        assert dtypes.primal_to_tangent_dtype(dtype) == dtype


def test_extended_dtypes():
    with pytest.raises(TypeError):
        dtypes.ExtendedDType()
    with pytest.raises(TypeError):
        dtypes.prng_key()
    assert KEY.itemsize == 8
    assert dtypes.lattice_result_type(array_of(KEY), array_of(KeyDType())) == (KEY, False)
    with pytest.raises(ValueError, match="key<fry> does not take part"):
        dtypes.result_type(array_of(KEY), 1.0)
    dtypes.check_valid_dtype(KEY)
    dtypes.check_valid_dtype(dtypes.float0)
    with pytest.raises(TypeError, match="datetime64"):
        dtypes.check_valid_dtype(np.dtype("datetime64[D]"))


def test_float0_is_numpys():
    assert dtypes.float0 == np.dtype([("float0", np.void, 0)])
    assert dtypes.float0.itemsize == 0
