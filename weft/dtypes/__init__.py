"""Dtypes and type promotion: ``weft.dtypes``.

The first block is public; the rest is what other rooms of weft use.
"""

from weft.dtypes.canonical import canonicalize_dtype as canonicalize_dtype
from weft.dtypes.canonical import scalar_type_of as scalar_type_of
from weft.dtypes.kinds import bfloat16 as bfloat16
from weft.dtypes.kinds import extended as extended
from weft.dtypes.kinds import finfo as finfo
from weft.dtypes.kinds import float0 as float0
from weft.dtypes.kinds import iinfo as iinfo
from weft.dtypes.kinds import issubdtype as issubdtype
from weft.dtypes.kinds import itemsize_bits as itemsize_bits
from weft.dtypes.kinds import prng_key as prng_key
from weft.dtypes.lattice import TypePromotionError as TypePromotionError
from weft.dtypes.promotion import result_type as result_type

# isort: split

from weft.dtypes.canonical import check_user_dtype as check_user_dtype
from weft.dtypes.canonical import coerce_to_array as coerce_to_array
from weft.dtypes.canonical import default_complex_dtype as default_complex_dtype
from weft.dtypes.canonical import default_float_dtype as default_float_dtype
from weft.dtypes.canonical import default_int_dtype as default_int_dtype
from weft.dtypes.canonical import default_types as default_types
from weft.dtypes.canonical import default_uint_dtype as default_uint_dtype
from weft.dtypes.canonical import dtype as dtype
from weft.dtypes.canonical import is_python_scalar as is_python_scalar
from weft.dtypes.canonical import python_scalar_dtypes as python_scalar_dtypes
from weft.dtypes.canonical import scalar_type_to_dtype as scalar_type_to_dtype
from weft.dtypes.canonical import to_complex_dtype as to_complex_dtype
from weft.dtypes.canonical import to_floating_dtype as to_floating_dtype
from weft.dtypes.canonical import to_inexact_dtype as to_inexact_dtype
from weft.dtypes.canonical import to_numeric_dtype as to_numeric_dtype
from weft.dtypes.kinds import AnyDType as AnyDType
from weft.dtypes.kinds import DType as DType
from weft.dtypes.kinds import DTypeLike as DTypeLike
from weft.dtypes.kinds import ExtendedDType as ExtendedDType
from weft.dtypes.kinds import SupportsDType as SupportsDType
from weft.dtypes.kinds import all_dtypes as all_dtypes
from weft.dtypes.kinds import bool_dtypes as bool_dtypes
from weft.dtypes.kinds import check_valid_dtype as check_valid_dtype
from weft.dtypes.kinds import complex_dtypes as complex_dtypes
from weft.dtypes.kinds import float4_e2m1fn as float4_e2m1fn
from weft.dtypes.kinds import float6_e2m3fn as float6_e2m3fn
from weft.dtypes.kinds import float6_e3m2fn as float6_e3m2fn
from weft.dtypes.kinds import float8_e3m4 as float8_e3m4
from weft.dtypes.kinds import float8_e4m3 as float8_e4m3
from weft.dtypes.kinds import float8_e4m3b11fnuz as float8_e4m3b11fnuz
from weft.dtypes.kinds import float8_e4m3fn as float8_e4m3fn
from weft.dtypes.kinds import float8_e4m3fnuz as float8_e4m3fnuz
from weft.dtypes.kinds import float8_e5m2 as float8_e5m2
from weft.dtypes.kinds import float8_e5m2fnuz as float8_e5m2fnuz
from weft.dtypes.kinds import float8_e8m0fnu as float8_e8m0fnu
from weft.dtypes.kinds import floating_dtypes as floating_dtypes
from weft.dtypes.kinds import int2 as int2
from weft.dtypes.kinds import int4 as int4
from weft.dtypes.kinds import integer_dtypes as integer_dtypes
from weft.dtypes.kinds import isdtype as isdtype
from weft.dtypes.kinds import numeric_dtypes as numeric_dtypes
from weft.dtypes.kinds import primal_to_tangent_dtype as primal_to_tangent_dtype
from weft.dtypes.kinds import short_name as short_name
from weft.dtypes.kinds import signed_dtypes as signed_dtypes
from weft.dtypes.kinds import supports_inf as supports_inf
from weft.dtypes.kinds import uint2 as uint2
from weft.dtypes.kinds import uint4 as uint4
from weft.dtypes.kinds import unsigned_dtypes as unsigned_dtypes
from weft.dtypes.lattice import LATTICE as LATTICE
from weft.dtypes.lattice import LATTICE_32_BIT as LATTICE_32_BIT
from weft.dtypes.lattice import LATTICE_STRICT as LATTICE_STRICT
from weft.dtypes.pairs import PrimalTangentDType as PrimalTangentDType
from weft.dtypes.promotion import dtype_and_weak_type as dtype_and_weak_type
from weft.dtypes.promotion import is_weakly_typed as is_weakly_typed
from weft.dtypes.promotion import is_weakly_typed_scalar as is_weakly_typed_scalar
from weft.dtypes.promotion import lattice_result_type as lattice_result_type
from weft.dtypes.promotion import promote_pair as promote_pair
from weft.dtypes.promotion import promote_types as promote_types
from weft.dtypes.promotion import safe_to_cast as safe_to_cast
