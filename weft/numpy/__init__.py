"""NumPy's functions under NumPy's names, on arrays that can be differentiated and compiled.

What differs from NumPy, as in JAX:

- Arrays are immutable. Write ``x.at[i].set(y)`` instead of ``x[i] = y``; ``out=`` must be None.
- Without ``enable_x64``, floats and integers have at most 32 bits. Python scalars are weak: they
  take the dtype of the array they are combined with.
- Functions take arrays and scalars. Lists raise TypeError: wrap them in ``jnp.array``.
- Indices out of bounds raise no error: reading clips them, updates leave them out.
- Under ``jit``, shapes must not depend on values. Functions such as ``nonzero`` and ``unique`` take
  a static ``size`` for that.

>>> import weft.numpy as jnp
>>> jnp.arange(3).at[0].set(7)
Array([7, 1, 2], dtype=int32)
"""

import typing as _typing

from weft.base import lazy as _lazy
from weft.numpy import averages as _averages
from weft.numpy import contraction as _contraction
from weft.numpy import operators as _operators

__array_api_version__ = "2024.12"

if _typing.TYPE_CHECKING:
    # first, since files below import others of the same names
    from weft.numpy.creation import full as full
    from weft.numpy.reductions import prod as prod
    from weft.numpy.ufunc_objects import *

    # isort: split
    from weft.numpy import fft as fft
    from weft.numpy import linalg as linalg
    from weft.numpy.averages import *
    from weft.numpy.broadcasting import *
    from weft.numpy.calculus import *
    from weft.numpy.contraction import *
    from weft.numpy.creation import *
    from weft.numpy.einstein import einsum as einsum
    from weft.numpy.einstein import einsum_path as einsum_path
    from weft.numpy.index_functions import *
    from weft.numpy.manipulation import *
    from weft.numpy.matrices import *
    from weft.numpy.namespace_info import __array_namespace_info__ as __array_namespace_info__
    from weft.numpy.nan_reductions import *
    from weft.numpy.padding import pad as pad
    from weft.numpy.parts import *
    from weft.numpy.polynomials import *
    from weft.numpy.positions import argwhere as argwhere
    from weft.numpy.positions import flatnonzero as flatnonzero
    from weft.numpy.positions import ix_ as ix_
    from weft.numpy.positions import nonzero as nonzero
    from weft.numpy.positions import ravel_multi_index as ravel_multi_index
    from weft.numpy.positions import unravel_index as unravel_index
    from weft.numpy.ranges import *
    from weft.numpy.rearranging import *
    from weft.numpy.reductions import *
    from weft.numpy.sets import *
    from weft.numpy.sorting import *
    from weft.numpy.statistics import *
    from weft.numpy.types import *
    from weft.numpy.ufunc_class import frompyfunc as frompyfunc
    from weft.numpy.ufunc_class import ufunc as ufunc
    from weft.numpy.ufuncs import arctan2 as arctan2
    from weft.numpy.ufuncs import atan2 as atan2
    from weft.numpy.ufuncs import bitwise_left_shift as bitwise_left_shift
    from weft.numpy.ufuncs import bitwise_right_shift as bitwise_right_shift
    from weft.numpy.ufuncs import copysign as copysign
    from weft.numpy.ufuncs import divide as divide
    from weft.numpy.ufuncs import divmod as divmod
    from weft.numpy.ufuncs import equal as equal
    from weft.numpy.ufuncs import float_power as float_power
    from weft.numpy.ufuncs import floor_divide as floor_divide
    from weft.numpy.ufuncs import fmax as fmax
    from weft.numpy.ufuncs import fmin as fmin
    from weft.numpy.ufuncs import fmod as fmod
    from weft.numpy.ufuncs import gcd as gcd
    from weft.numpy.ufuncs import greater as greater
    from weft.numpy.ufuncs import greater_equal as greater_equal
    from weft.numpy.ufuncs import heaviside as heaviside
    from weft.numpy.ufuncs import hypot as hypot
    from weft.numpy.ufuncs import isclose as isclose
    from weft.numpy.ufuncs import lcm as lcm
    from weft.numpy.ufuncs import ldexp as ldexp
    from weft.numpy.ufuncs import left_shift as left_shift
    from weft.numpy.ufuncs import less as less
    from weft.numpy.ufuncs import less_equal as less_equal
    from weft.numpy.ufuncs import mod as mod
    from weft.numpy.ufuncs import nextafter as nextafter
    from weft.numpy.ufuncs import not_equal as not_equal
    from weft.numpy.ufuncs import pow as pow
    from weft.numpy.ufuncs import power as power
    from weft.numpy.ufuncs import remainder as remainder
    from weft.numpy.ufuncs import right_shift as right_shift
    from weft.numpy.ufuncs import true_divide as true_divide
    from weft.numpy.unary import *
    from weft.numpy.vectorizing import *
    from weft.numpy.windows import *
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        ("fft", "linalg"),
        {
            "weft.numpy.averages": "average mean std var",
            "weft.numpy.broadcasting": "broadcast_arrays broadcast_shapes broadcast_to where",
            "weft.numpy.calculus": (
                "convolve correlate diff ediff1d gradient interp trapezoid unwrap"
            ),
            "weft.numpy.contraction": "dot inner matmul matvec outer tensordot vdot vecdot vecmat",
            "weft.numpy.creation": (
                "arange array asarray astype copy empty empty_like from_dlpack frombuffer "
                "fromfile fromfunction fromiter fromstring full full_like load ones ones_like "
                "save savez zeros zeros_like"
            ),
            "weft.numpy.einstein": "einsum einsum_path",
            "weft.numpy.index_functions": (
                "choose compress extract place put put_along_axis select take take_along_axis"
            ),
            "weft.numpy.manipulation": (
                "append array_split atleast_1d atleast_2d atleast_3d block column_stack concat "
                "concatenate dsplit dstack expand_dims flip fliplr flipud hsplit hstack "
                "matrix_transpose moveaxis ndim permute_dims ravel reshape resize rollaxis rot90 "
                "shape size split squeeze stack swapaxes tile transpose unstack vsplit vstack"
            ),
            "weft.numpy.matrices": (
                "cross diag diag_indices diag_indices_from diagflat diagonal eye fill_diagonal "
                "identity kron mask_indices trace tri tril tril_indices tril_indices_from triu "
                "triu_indices triu_indices_from vander"
            ),
            "weft.numpy.namespace_info": "__array_namespace_info__",
            "weft.numpy.nan_reductions": (
                "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd "
                "nansum nanvar"
            ),
            "weft.numpy.padding": "pad",
            "weft.numpy.parts": (
                "angle conj conjugate deg2rad degrees frexp imag iscomplex isfinite isinf isnan "
                "isneginf isposinf isreal nan_to_num rad2deg radians real signbit spacing"
            ),
            "weft.numpy.polynomials": (
                "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots"
            ),
            "weft.numpy.positions": (
                "argwhere flatnonzero ix_ nonzero ravel_multi_index unravel_index"
            ),
            "weft.numpy.ranges": (
                "c_ geomspace index_exp indices linspace logspace meshgrid mgrid ogrid r_ s_"
            ),
            "weft.numpy.rearranging": "delete insert packbits repeat roll trim_zeros unpackbits",
            "weft.numpy.reductions": (
                "all allclose amax amin any argmax argmin array_equal array_equiv clip "
                "count_nonzero cumprod cumsum cumulative_prod cumulative_sum max min prod ptp sum"
            ),
            "weft.numpy.sets": (
                "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts "
                "unique_inverse unique_values"
            ),
            "weft.numpy.sorting": (
                "argpartition argsort digitize lexsort partition searchsorted sort sort_complex"
            ),
            "weft.numpy.statistics": (
                "bincount corrcoef cov histogram histogram2d histogram_bin_edges histogramdd "
                "median nanmedian nanpercentile nanquantile percentile quantile"
            ),
            "weft.numpy.types": (
                "ComplexWarning array_repr array_str bfloat16 bool bool_ can_cast cdouble "
                "character complex64 complex128 complex_ complexfloating csingle double dtype e "
                "euler_gamma finfo flexible float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 "
                "float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
                "float8_e5m2fnuz float8_e8m0fnu float16 float32 float64 float_ floating generic "
                "get_printoptions iinfo inexact inf int1 int2 int4 int8 int16 int32 int64 int_ "
                "integer iscomplexobj isdtype isrealobj isscalar issubdtype iterable nan ndarray "
                "newaxis number object_ pi printoptions promote_types result_type "
                "set_printoptions signedinteger single uint uint1 uint2 uint4 uint8 uint16 uint32 "
                "uint64 unsignedinteger"
            ),
            "weft.numpy.ufunc_class": "frompyfunc ufunc",
            "weft.numpy.ufunc_objects": (
                "add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and "
                "logical_or logical_xor maximum minimum multiply negative subtract"
            ),
            "weft.numpy.ufuncs": (
                "arctan2 atan2 bitwise_left_shift bitwise_right_shift copysign divide divmod "
                "equal float_power floor_divide fmax fmin fmod gcd greater greater_equal "
                "heaviside hypot isclose lcm ldexp left_shift less less_equal mod nextafter "
                "not_equal pow power remainder right_shift true_divide"
            ),
            "weft.numpy.unary": (
                "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctanh around "
                "asin asinh atan atanh bitwise_count bitwise_invert bitwise_not cbrt ceil cos "
                "cosh exp exp2 expm1 fabs floor i0 invert log log1p log2 log10 logical_not modf "
                "positive reciprocal rint round sign sin sinc sinh sqrt square tan tanh trunc"
            ),
            "weft.numpy.vectorizing": "apply_along_axis apply_over_axes piecewise vectorize",
            "weft.numpy.windows": "bartlett blackman hamming hanning kaiser",
        },
    )
