"""NumPy's functions on arrays of weft, under NumPy's names."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from weft.base import lazy as _lazy
from weft.numpy import averages as _averages
from weft.numpy import contraction as _contraction
from weft.numpy import operators as _operators

__array_api_version__ = "2024.12"

if _TYPE_CHECKING:
    from weft.numpy import fft as fft
    from weft.numpy import linalg as linalg
    from weft.numpy.averages import average as average
    from weft.numpy.averages import mean as mean
    from weft.numpy.averages import std as std
    from weft.numpy.averages import var as var
    from weft.numpy.broadcasting import broadcast_arrays as broadcast_arrays
    from weft.numpy.broadcasting import broadcast_shapes as broadcast_shapes
    from weft.numpy.broadcasting import broadcast_to as broadcast_to
    from weft.numpy.broadcasting import where as where
    from weft.numpy.calculus import convolve as convolve
    from weft.numpy.calculus import correlate as correlate
    from weft.numpy.calculus import diff as diff
    from weft.numpy.calculus import ediff1d as ediff1d
    from weft.numpy.calculus import gradient as gradient
    from weft.numpy.calculus import interp as interp
    from weft.numpy.calculus import trapezoid as trapezoid
    from weft.numpy.calculus import unwrap as unwrap
    from weft.numpy.contraction import dot as dot
    from weft.numpy.contraction import inner as inner
    from weft.numpy.contraction import matmul as matmul
    from weft.numpy.contraction import matvec as matvec
    from weft.numpy.contraction import outer as outer
    from weft.numpy.contraction import tensordot as tensordot
    from weft.numpy.contraction import vdot as vdot
    from weft.numpy.contraction import vecdot as vecdot
    from weft.numpy.contraction import vecmat as vecmat
    from weft.numpy.creation import arange as arange
    from weft.numpy.creation import array as array
    from weft.numpy.creation import asarray as asarray
    from weft.numpy.creation import astype as astype
    from weft.numpy.creation import copy as copy
    from weft.numpy.creation import empty as empty
    from weft.numpy.creation import empty_like as empty_like
    from weft.numpy.creation import from_dlpack as from_dlpack
    from weft.numpy.creation import frombuffer as frombuffer
    from weft.numpy.creation import fromfile as fromfile
    from weft.numpy.creation import fromfunction as fromfunction
    from weft.numpy.creation import fromiter as fromiter
    from weft.numpy.creation import fromstring as fromstring
    from weft.numpy.creation import full as full
    from weft.numpy.creation import full_like as full_like
    from weft.numpy.creation import load as load
    from weft.numpy.creation import ones as ones
    from weft.numpy.creation import ones_like as ones_like
    from weft.numpy.creation import save as save
    from weft.numpy.creation import savez as savez
    from weft.numpy.creation import zeros as zeros
    from weft.numpy.creation import zeros_like as zeros_like
    from weft.numpy.einstein import einsum as einsum
    from weft.numpy.einstein import einsum_path as einsum_path
    from weft.numpy.index_functions import choose as choose
    from weft.numpy.index_functions import compress as compress
    from weft.numpy.index_functions import extract as extract
    from weft.numpy.index_functions import place as place
    from weft.numpy.index_functions import put as put
    from weft.numpy.index_functions import put_along_axis as put_along_axis
    from weft.numpy.index_functions import select as select
    from weft.numpy.index_functions import take as take
    from weft.numpy.index_functions import take_along_axis as take_along_axis
    from weft.numpy.manipulation import append as append
    from weft.numpy.manipulation import array_split as array_split
    from weft.numpy.manipulation import atleast_1d as atleast_1d
    from weft.numpy.manipulation import atleast_2d as atleast_2d
    from weft.numpy.manipulation import atleast_3d as atleast_3d
    from weft.numpy.manipulation import block as block
    from weft.numpy.manipulation import column_stack as column_stack
    from weft.numpy.manipulation import concat as concat
    from weft.numpy.manipulation import concatenate as concatenate
    from weft.numpy.manipulation import dsplit as dsplit
    from weft.numpy.manipulation import dstack as dstack
    from weft.numpy.manipulation import expand_dims as expand_dims
    from weft.numpy.manipulation import flip as flip
    from weft.numpy.manipulation import fliplr as fliplr
    from weft.numpy.manipulation import flipud as flipud
    from weft.numpy.manipulation import hsplit as hsplit
    from weft.numpy.manipulation import hstack as hstack
    from weft.numpy.manipulation import matrix_transpose as matrix_transpose
    from weft.numpy.manipulation import moveaxis as moveaxis
    from weft.numpy.manipulation import ndim as ndim
    from weft.numpy.manipulation import permute_dims as permute_dims
    from weft.numpy.manipulation import ravel as ravel
    from weft.numpy.manipulation import reshape as reshape
    from weft.numpy.manipulation import resize as resize
    from weft.numpy.manipulation import rollaxis as rollaxis
    from weft.numpy.manipulation import rot90 as rot90
    from weft.numpy.manipulation import shape as shape
    from weft.numpy.manipulation import size as size
    from weft.numpy.manipulation import split as split
    from weft.numpy.manipulation import squeeze as squeeze
    from weft.numpy.manipulation import stack as stack
    from weft.numpy.manipulation import swapaxes as swapaxes
    from weft.numpy.manipulation import tile as tile
    from weft.numpy.manipulation import transpose as transpose
    from weft.numpy.manipulation import unstack as unstack
    from weft.numpy.manipulation import vsplit as vsplit
    from weft.numpy.manipulation import vstack as vstack
    from weft.numpy.matrices import cross as cross
    from weft.numpy.matrices import diag as diag
    from weft.numpy.matrices import diag_indices as diag_indices
    from weft.numpy.matrices import diag_indices_from as diag_indices_from
    from weft.numpy.matrices import diagflat as diagflat
    from weft.numpy.matrices import diagonal as diagonal
    from weft.numpy.matrices import eye as eye
    from weft.numpy.matrices import fill_diagonal as fill_diagonal
    from weft.numpy.matrices import identity as identity
    from weft.numpy.matrices import kron as kron
    from weft.numpy.matrices import mask_indices as mask_indices
    from weft.numpy.matrices import trace as trace
    from weft.numpy.matrices import tri as tri
    from weft.numpy.matrices import tril as tril
    from weft.numpy.matrices import tril_indices as tril_indices
    from weft.numpy.matrices import tril_indices_from as tril_indices_from
    from weft.numpy.matrices import triu as triu
    from weft.numpy.matrices import triu_indices as triu_indices
    from weft.numpy.matrices import triu_indices_from as triu_indices_from
    from weft.numpy.matrices import vander as vander
    from weft.numpy.namespace_info import __array_namespace_info__ as __array_namespace_info__
    from weft.numpy.nan_reductions import nanargmax as nanargmax
    from weft.numpy.nan_reductions import nanargmin as nanargmin
    from weft.numpy.nan_reductions import nancumprod as nancumprod
    from weft.numpy.nan_reductions import nancumsum as nancumsum
    from weft.numpy.nan_reductions import nanmax as nanmax
    from weft.numpy.nan_reductions import nanmean as nanmean
    from weft.numpy.nan_reductions import nanmin as nanmin
    from weft.numpy.nan_reductions import nanprod as nanprod
    from weft.numpy.nan_reductions import nanstd as nanstd
    from weft.numpy.nan_reductions import nansum as nansum
    from weft.numpy.nan_reductions import nanvar as nanvar
    from weft.numpy.padding import pad as pad
    from weft.numpy.parts import angle as angle
    from weft.numpy.parts import conj as conj
    from weft.numpy.parts import conjugate as conjugate
    from weft.numpy.parts import deg2rad as deg2rad
    from weft.numpy.parts import degrees as degrees
    from weft.numpy.parts import frexp as frexp
    from weft.numpy.parts import imag as imag
    from weft.numpy.parts import iscomplex as iscomplex
    from weft.numpy.parts import isfinite as isfinite
    from weft.numpy.parts import isinf as isinf
    from weft.numpy.parts import isnan as isnan
    from weft.numpy.parts import isneginf as isneginf
    from weft.numpy.parts import isposinf as isposinf
    from weft.numpy.parts import isreal as isreal
    from weft.numpy.parts import nan_to_num as nan_to_num
    from weft.numpy.parts import rad2deg as rad2deg
    from weft.numpy.parts import radians as radians
    from weft.numpy.parts import real as real
    from weft.numpy.parts import signbit as signbit
    from weft.numpy.parts import spacing as spacing
    from weft.numpy.polynomials import poly as poly
    from weft.numpy.polynomials import polyadd as polyadd
    from weft.numpy.polynomials import polyder as polyder
    from weft.numpy.polynomials import polydiv as polydiv
    from weft.numpy.polynomials import polyfit as polyfit
    from weft.numpy.polynomials import polyint as polyint
    from weft.numpy.polynomials import polymul as polymul
    from weft.numpy.polynomials import polysub as polysub
    from weft.numpy.polynomials import polyval as polyval
    from weft.numpy.polynomials import roots as roots
    from weft.numpy.positions import argwhere as argwhere
    from weft.numpy.positions import flatnonzero as flatnonzero
    from weft.numpy.positions import ix_ as ix_
    from weft.numpy.positions import nonzero as nonzero
    from weft.numpy.positions import ravel_multi_index as ravel_multi_index
    from weft.numpy.positions import unravel_index as unravel_index
    from weft.numpy.ranges import c_ as c_
    from weft.numpy.ranges import geomspace as geomspace
    from weft.numpy.ranges import index_exp as index_exp
    from weft.numpy.ranges import indices as indices
    from weft.numpy.ranges import linspace as linspace
    from weft.numpy.ranges import logspace as logspace
    from weft.numpy.ranges import meshgrid as meshgrid
    from weft.numpy.ranges import mgrid as mgrid
    from weft.numpy.ranges import ogrid as ogrid
    from weft.numpy.ranges import r_ as r_
    from weft.numpy.ranges import s_ as s_
    from weft.numpy.rearranging import delete as delete
    from weft.numpy.rearranging import insert as insert
    from weft.numpy.rearranging import packbits as packbits
    from weft.numpy.rearranging import repeat as repeat
    from weft.numpy.rearranging import roll as roll
    from weft.numpy.rearranging import trim_zeros as trim_zeros
    from weft.numpy.rearranging import unpackbits as unpackbits
    from weft.numpy.reductions import all as all
    from weft.numpy.reductions import allclose as allclose
    from weft.numpy.reductions import amax as amax
    from weft.numpy.reductions import amin as amin
    from weft.numpy.reductions import any as any
    from weft.numpy.reductions import argmax as argmax
    from weft.numpy.reductions import argmin as argmin
    from weft.numpy.reductions import array_equal as array_equal
    from weft.numpy.reductions import array_equiv as array_equiv
    from weft.numpy.reductions import clip as clip
    from weft.numpy.reductions import count_nonzero as count_nonzero
    from weft.numpy.reductions import cumprod as cumprod
    from weft.numpy.reductions import cumsum as cumsum
    from weft.numpy.reductions import cumulative_prod as cumulative_prod
    from weft.numpy.reductions import cumulative_sum as cumulative_sum
    from weft.numpy.reductions import max as max
    from weft.numpy.reductions import min as min
    from weft.numpy.reductions import prod as prod
    from weft.numpy.reductions import ptp as ptp
    from weft.numpy.reductions import sum as sum
    from weft.numpy.sets import intersect1d as intersect1d
    from weft.numpy.sets import isin as isin
    from weft.numpy.sets import setdiff1d as setdiff1d
    from weft.numpy.sets import setxor1d as setxor1d
    from weft.numpy.sets import union1d as union1d
    from weft.numpy.sets import unique as unique
    from weft.numpy.sets import unique_all as unique_all
    from weft.numpy.sets import unique_counts as unique_counts
    from weft.numpy.sets import unique_inverse as unique_inverse
    from weft.numpy.sets import unique_values as unique_values
    from weft.numpy.sorting import argpartition as argpartition
    from weft.numpy.sorting import argsort as argsort
    from weft.numpy.sorting import digitize as digitize
    from weft.numpy.sorting import lexsort as lexsort
    from weft.numpy.sorting import partition as partition
    from weft.numpy.sorting import searchsorted as searchsorted
    from weft.numpy.sorting import sort as sort
    from weft.numpy.sorting import sort_complex as sort_complex
    from weft.numpy.statistics import bincount as bincount
    from weft.numpy.statistics import corrcoef as corrcoef
    from weft.numpy.statistics import cov as cov
    from weft.numpy.statistics import histogram as histogram
    from weft.numpy.statistics import histogram2d as histogram2d
    from weft.numpy.statistics import histogram_bin_edges as histogram_bin_edges
    from weft.numpy.statistics import histogramdd as histogramdd
    from weft.numpy.statistics import median as median
    from weft.numpy.statistics import nanmedian as nanmedian
    from weft.numpy.statistics import nanpercentile as nanpercentile
    from weft.numpy.statistics import nanquantile as nanquantile
    from weft.numpy.statistics import percentile as percentile
    from weft.numpy.statistics import quantile as quantile
    from weft.numpy.types import ComplexWarning as ComplexWarning
    from weft.numpy.types import array_repr as array_repr
    from weft.numpy.types import array_str as array_str
    from weft.numpy.types import bfloat16 as bfloat16
    from weft.numpy.types import bool as bool
    from weft.numpy.types import bool_ as bool_
    from weft.numpy.types import can_cast as can_cast
    from weft.numpy.types import cdouble as cdouble
    from weft.numpy.types import character as character
    from weft.numpy.types import complex64 as complex64
    from weft.numpy.types import complex128 as complex128
    from weft.numpy.types import complex_ as complex_
    from weft.numpy.types import complexfloating as complexfloating
    from weft.numpy.types import csingle as csingle
    from weft.numpy.types import double as double
    from weft.numpy.types import dtype as dtype
    from weft.numpy.types import e as e
    from weft.numpy.types import euler_gamma as euler_gamma
    from weft.numpy.types import finfo as finfo
    from weft.numpy.types import flexible as flexible
    from weft.numpy.types import float4_e2m1fn as float4_e2m1fn
    from weft.numpy.types import float6_e2m3fn as float6_e2m3fn
    from weft.numpy.types import float6_e3m2fn as float6_e3m2fn
    from weft.numpy.types import float8_e3m4 as float8_e3m4
    from weft.numpy.types import float8_e4m3 as float8_e4m3
    from weft.numpy.types import float8_e4m3b11fnuz as float8_e4m3b11fnuz
    from weft.numpy.types import float8_e4m3fn as float8_e4m3fn
    from weft.numpy.types import float8_e4m3fnuz as float8_e4m3fnuz
    from weft.numpy.types import float8_e5m2 as float8_e5m2
    from weft.numpy.types import float8_e5m2fnuz as float8_e5m2fnuz
    from weft.numpy.types import float8_e8m0fnu as float8_e8m0fnu
    from weft.numpy.types import float16 as float16
    from weft.numpy.types import float32 as float32
    from weft.numpy.types import float64 as float64
    from weft.numpy.types import float_ as float_
    from weft.numpy.types import floating as floating
    from weft.numpy.types import generic as generic
    from weft.numpy.types import get_printoptions as get_printoptions
    from weft.numpy.types import iinfo as iinfo
    from weft.numpy.types import inexact as inexact
    from weft.numpy.types import inf as inf
    from weft.numpy.types import int1 as int1
    from weft.numpy.types import int2 as int2
    from weft.numpy.types import int4 as int4
    from weft.numpy.types import int8 as int8
    from weft.numpy.types import int16 as int16
    from weft.numpy.types import int32 as int32
    from weft.numpy.types import int64 as int64
    from weft.numpy.types import int_ as int_
    from weft.numpy.types import integer as integer
    from weft.numpy.types import iscomplexobj as iscomplexobj
    from weft.numpy.types import isdtype as isdtype
    from weft.numpy.types import isrealobj as isrealobj
    from weft.numpy.types import isscalar as isscalar
    from weft.numpy.types import issubdtype as issubdtype
    from weft.numpy.types import iterable as iterable
    from weft.numpy.types import nan as nan
    from weft.numpy.types import ndarray as ndarray
    from weft.numpy.types import newaxis as newaxis
    from weft.numpy.types import number as number
    from weft.numpy.types import object_ as object_
    from weft.numpy.types import pi as pi
    from weft.numpy.types import printoptions as printoptions
    from weft.numpy.types import promote_types as promote_types
    from weft.numpy.types import result_type as result_type
    from weft.numpy.types import set_printoptions as set_printoptions
    from weft.numpy.types import signedinteger as signedinteger
    from weft.numpy.types import single as single
    from weft.numpy.types import uint as uint
    from weft.numpy.types import uint1 as uint1
    from weft.numpy.types import uint2 as uint2
    from weft.numpy.types import uint4 as uint4
    from weft.numpy.types import uint8 as uint8
    from weft.numpy.types import uint16 as uint16
    from weft.numpy.types import uint32 as uint32
    from weft.numpy.types import uint64 as uint64
    from weft.numpy.types import unsignedinteger as unsignedinteger
    from weft.numpy.ufunc_class import frompyfunc as frompyfunc
    from weft.numpy.ufunc_class import ufunc as ufunc
    from weft.numpy.ufunc_objects import add as add
    from weft.numpy.ufunc_objects import bitwise_and as bitwise_and
    from weft.numpy.ufunc_objects import bitwise_or as bitwise_or
    from weft.numpy.ufunc_objects import bitwise_xor as bitwise_xor
    from weft.numpy.ufunc_objects import logaddexp as logaddexp
    from weft.numpy.ufunc_objects import logaddexp2 as logaddexp2
    from weft.numpy.ufunc_objects import logical_and as logical_and
    from weft.numpy.ufunc_objects import logical_or as logical_or
    from weft.numpy.ufunc_objects import logical_xor as logical_xor
    from weft.numpy.ufunc_objects import maximum as maximum
    from weft.numpy.ufunc_objects import minimum as minimum
    from weft.numpy.ufunc_objects import multiply as multiply
    from weft.numpy.ufunc_objects import negative as negative
    from weft.numpy.ufunc_objects import subtract as subtract
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
    from weft.numpy.unary import abs as abs
    from weft.numpy.unary import absolute as absolute
    from weft.numpy.unary import acos as acos
    from weft.numpy.unary import acosh as acosh
    from weft.numpy.unary import arccos as arccos
    from weft.numpy.unary import arccosh as arccosh
    from weft.numpy.unary import arcsin as arcsin
    from weft.numpy.unary import arcsinh as arcsinh
    from weft.numpy.unary import arctan as arctan
    from weft.numpy.unary import arctanh as arctanh
    from weft.numpy.unary import around as around
    from weft.numpy.unary import asin as asin
    from weft.numpy.unary import asinh as asinh
    from weft.numpy.unary import atan as atan
    from weft.numpy.unary import atanh as atanh
    from weft.numpy.unary import bitwise_count as bitwise_count
    from weft.numpy.unary import bitwise_invert as bitwise_invert
    from weft.numpy.unary import bitwise_not as bitwise_not
    from weft.numpy.unary import cbrt as cbrt
    from weft.numpy.unary import ceil as ceil
    from weft.numpy.unary import cos as cos
    from weft.numpy.unary import cosh as cosh
    from weft.numpy.unary import exp as exp
    from weft.numpy.unary import exp2 as exp2
    from weft.numpy.unary import expm1 as expm1
    from weft.numpy.unary import fabs as fabs
    from weft.numpy.unary import floor as floor
    from weft.numpy.unary import i0 as i0
    from weft.numpy.unary import invert as invert
    from weft.numpy.unary import log as log
    from weft.numpy.unary import log1p as log1p
    from weft.numpy.unary import log2 as log2
    from weft.numpy.unary import log10 as log10
    from weft.numpy.unary import logical_not as logical_not
    from weft.numpy.unary import modf as modf
    from weft.numpy.unary import positive as positive
    from weft.numpy.unary import reciprocal as reciprocal
    from weft.numpy.unary import rint as rint
    from weft.numpy.unary import round as round
    from weft.numpy.unary import sign as sign
    from weft.numpy.unary import sin as sin
    from weft.numpy.unary import sinc as sinc
    from weft.numpy.unary import sinh as sinh
    from weft.numpy.unary import sqrt as sqrt
    from weft.numpy.unary import square as square
    from weft.numpy.unary import tan as tan
    from weft.numpy.unary import tanh as tanh
    from weft.numpy.unary import trunc as trunc
    from weft.numpy.vectorizing import apply_along_axis as apply_along_axis
    from weft.numpy.vectorizing import apply_over_axes as apply_over_axes
    from weft.numpy.vectorizing import piecewise as piecewise
    from weft.numpy.vectorizing import vectorize as vectorize
    from weft.numpy.windows import bartlett as bartlett
    from weft.numpy.windows import blackman as blackman
    from weft.numpy.windows import hamming as hamming
    from weft.numpy.windows import hanning as hanning
    from weft.numpy.windows import kaiser as kaiser
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
