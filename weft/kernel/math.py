"""The mathematics of kernels, each function written once on the builder for float32 and float64.

``exp(k, x)`` adds the operations of e**x to the builder ``k`` and gives the value. Narrower floats
are computed in float32 and rounded by the caller. Everything is branch-free and right for denormal
numbers, where the mode keeps them; accuracy is measured in tests/kernel/test_math.py and listed in
docs/mathematics.md.
"""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.kernel.math_circular import cos as cos
    from weft.kernel.math_circular import sin as sin
    from weft.kernel.math_circular import tan as tan
    from weft.kernel.math_error import erf as erf
    from weft.kernel.math_error import erf_inv as erf_inv
    from weft.kernel.math_error import erfc as erfc
    from weft.kernel.math_exponential import cosh as cosh
    from weft.kernel.math_exponential import exp as exp
    from weft.kernel.math_exponential import exp2 as exp2
    from weft.kernel.math_exponential import expm1 as expm1
    from weft.kernel.math_exponential import logistic as logistic
    from weft.kernel.math_exponential import sinh as sinh
    from weft.kernel.math_exponential import tanh as tanh
    from weft.kernel.math_gamma import digamma as digamma
    from weft.kernel.math_gamma import lgamma as lgamma
    from weft.kernel.math_inverse import acos as acos
    from weft.kernel.math_inverse import asin as asin
    from weft.kernel.math_inverse import atan as atan
    from weft.kernel.math_inverse import atan2 as atan2
    from weft.kernel.math_logarithm import acosh as acosh
    from weft.kernel.math_logarithm import asinh as asinh
    from weft.kernel.math_logarithm import atanh as atanh
    from weft.kernel.math_logarithm import log as log
    from weft.kernel.math_logarithm import log1p as log1p
    from weft.kernel.math_logarithm import log2 as log2
    from weft.kernel.math_power import cbrt as cbrt
    from weft.kernel.math_power import hypot as hypot
    from weft.kernel.math_power import integer_pow as integer_pow
    from weft.kernel.math_power import pow as pow
    from weft.kernel.math_power import rsqrt as rsqrt
    from weft.kernel.math_rounding import nextafter as nextafter
    from weft.kernel.math_rounding import rem as rem
    from weft.kernel.math_rounding import round_away as round_away
    from weft.kernel.math_rounding import round_even as round_even
    from weft.kernel.math_rounding import sign as sign
else:  # each file is loaded when one of its functions is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (),
        {
            "weft.kernel.math_circular": "cos sin tan",
            "weft.kernel.math_error": "erf erf_inv erfc",
            "weft.kernel.math_exponential": "cosh exp exp2 expm1 logistic sinh tanh",
            "weft.kernel.math_gamma": "digamma lgamma",
            "weft.kernel.math_inverse": "acos asin atan atan2",
            "weft.kernel.math_logarithm": "acosh asinh atanh log log1p log2",
            "weft.kernel.math_power": "cbrt hypot integer_pow pow rsqrt",
            "weft.kernel.math_rounding": "nextafter rem round_away round_even sign",
        },
        public=False,
    )
