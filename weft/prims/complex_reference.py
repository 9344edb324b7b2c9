"""References of functions of complex numbers where NumPy's own are not what JAX computes.

They are what kernels compute, run by NumPy in float64 and rounded once. The functions take real
operands too.
"""

from collections.abc import Callable

import numpy as np

from weft.base.lazy import Late

Array = np.ndarray
special = Late("weft.prims.special_reference")


def _real_sign(x: Array) -> Array:
    sign = np.sign(x)
    return np.copysign(sign, x) if x.dtype.kind == "f" else sign


def _real_logistic(x: Array) -> Array:
    with np.errstate(under="ignore"):
        power = np.exp(-np.abs(x))
        return np.where(x < 0, power, 1).astype(x.dtype) / (1 + power)


def _either(real: Callable[[Array], Array], name: str) -> Callable[[Array], Array]:
    """A function of real numbers, and of complex ones that a kernel computes by this name."""

    def reference(x: Array) -> Array:
        return special.on_plane(name)(x) if x.dtype.kind == "c" else real(x)

    return reference


asin, acos = _either(np.arcsin, "asin"), _either(np.arccos, "acos")
asinh, acosh = _either(np.arcsinh, "asinh"), _either(np.arccosh, "acosh")
atan, atanh = _either(np.arctan, "atan"), _either(np.arctanh, "atanh")
tan, tanh = _either(np.tan, "tan"), _either(np.tanh, "tanh")
sqrt, square = _either(np.sqrt, "sqrt"), _either(np.square, "square")
rsqrt = _either(lambda x: 1 / np.sqrt(x), "rsqrt")
sign, exp2 = _either(_real_sign, "sign"), _either(np.exp2, "exp2")
expm1, log1p = _either(np.expm1, "expm1"), _either(np.log1p, "log1p")
logistic = _either(_real_logistic, "logistic")
