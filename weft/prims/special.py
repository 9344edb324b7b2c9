"""Special functions as primitives: error, gamma, zeta, Bessel and incomplete functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.lazy import Late
from weft.core.trace import typeof
from weft.prims.arithmetic import abs_, add, div, integer_pow, mul, neg, sign, square, sub
from weft.prims.families import (
    FLOAT,
    Elementwise,
    broadcast_shapes,
    broadcast_to,
    computed,
    const,
    converted,
    kernel_series,
)
from weft.prims.selection import gt, select_n
from weft.prims.transcendental import exp, log, log1p_p

# loaded when special functions are computed by NumPy
references = Late("weft.prims.special_reference")


class Special(Elementwise):
    """An elementwise function of real numbers, computed in float64 and rounded."""

    accepts = FLOAT
    holes = {"transpose": "not linear"}
    costly, function_ops = True, 96

    def ref(self, x: np.ndarray) -> np.ndarray:
        return references.in_double(references.by_kernel(self.lower))(x)


def _bell(g: Any, x: Any) -> Any:
    return mul(g, exp(neg(square(x))))


class Erf(Special):
    """The error function."""

    name, function_ops = "erf", 24
    lower = computed("erf")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(const(x, 2 / math.sqrt(math.pi)), _bell(g, x))


class Erfc(Special):
    """The complement of the error function."""

    name, function_ops = "erfc", 24
    lower = computed("erfc")

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(const(x, -2 / math.sqrt(math.pi)), _bell(g, x))


class ErfInv(Special):
    """The inverse of the error function."""

    name = "erf_inv"
    has_poles = True
    lower = computed("erf_inv")

    def ref(self, x: np.ndarray) -> np.ndarray:
        work = np.float64 if x.dtype == np.float64 else np.float32
        return references.in_double(references.by_kernel(self.lower), work)(x)

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(const(x, math.sqrt(math.pi) / 2), mul(g, exp(square(out))))


class Lgamma(Special):
    """The logarithm of the absolute value of the gamma function."""

    name = "lgamma"
    has_poles = True
    lower = computed("lgamma")

    def ref(self, x: np.ndarray) -> np.ndarray:
        return references.lgamma(x)

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, digamma(x))


class Digamma(Special):
    """The derivative of lgamma."""

    name = "digamma"
    has_poles = True
    lower = computed("digamma")

    def ref(self, x: np.ndarray) -> np.ndarray:
        return references.digamma(x)

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, polygamma(const(x, 1), x))


class Incomplete(Special):
    """A function that is computed by series: native code takes operands of one shape, of float32
    or float64."""

    elementwise = True

    def ref(self, *operands: np.ndarray) -> np.ndarray:
        return references.stub(self.name)(*operands)

    def expands(self, avals: Any, params: Any) -> bool:
        narrow = avals[0].dtype.itemsize < 4
        return narrow or any(a.shape != avals[0].shape for a in avals)

    def decompose(self, *xs: Any) -> Any:
        shape = broadcast_shapes(self.name, [np.shape(x) for x in xs])
        dtype = typeof(xs[0]).dtype
        operands = [broadcast_to(x, shape) for x in xs]
        if dtype.itemsize >= 4:
            return self.bind(*operands)
        single = np.dtype(np.float32)
        return converted(self.bind(*(converted(x, single) for x in operands)), dtype)


class FusedIfNarrow(Incomplete):
    """A function that kernels compute, but for float64, where their series are too short."""

    def fuses(self, params: Any, ins: Any) -> bool:
        return ins[0].dtype.itemsize < 8

    def expands(self, avals: Any, params: Any) -> bool:
        return avals[0].dtype.itemsize == 8 and any(a.shape != avals[0].shape for a in avals)


class Polygamma(FusedIfNarrow):
    """Derivative of order m of digamma, at x."""

    name = "polygamma"
    kernels = "special.polygamma"

    def lower(self, k: Any, m: Any, x: Any) -> Any:
        return kernel_series.polygamma(k, m, x)

    def d0(self, g: Any, out: Any, m: Any, x: Any) -> Any:
        raise ValueError(
            "polygamma has no derivative with respect to its order m: wrap m in "
            "lax.stop_gradient, or differentiate with respect to x only"
        )

    def d1(self, g: Any, out: Any, m: Any, x: Any) -> Any:
        return mul(g, polygamma(add(m, const(m, 1)), x))


class Zeta(FusedIfNarrow):
    """The Hurwitz zeta function: the sum of (q + k)^-x over k >= 0."""

    name = "zeta"
    kernels = "special.zeta"

    def lower(self, k: Any, x: Any, q: Any) -> Any:
        return kernel_series.zeta(k, x, q)

    def d0(self, g: Any, out: Any, x: Any, q: Any) -> Any:
        raise NotImplementedError(
            "zeta has no derivative with respect to its exponent: wrap it in lax.stop_gradient, "
            "or differentiate with respect to q only"
        )

    def d1(self, g: Any, out: Any, x: Any, q: Any) -> Any:
        return mul(g, mul(neg(x), self.bind(add(x, const(x, 1)), q)))


def _gamma_density(g: Any, a: Any, x: Any) -> Any:
    """g times the density of Gamma(a, 1) at x, which is the derivative of igamma by x."""
    one = broadcast_to(const(a, 1), np.shape(a))
    exponent = add(neg(x), mul(sub(a, one), log(x)))
    return mul(g, exp(sub(exponent, lgamma(a))))


class Igamma(Incomplete):
    """The regularized lower incomplete gamma function."""

    name = "igamma"
    kernels = "special.igamma"

    def d0(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        return mul(g, igamma_grad_a_p.bind(a, x))

    def d1(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        return _gamma_density(g, a, x)


class Igammac(Incomplete):
    """The regularized upper incomplete gamma function."""

    name = "igammac"
    kernels = "special.igammac"

    def d0(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        return neg(mul(g, igamma_grad_a_p.bind(a, x)))

    def d1(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        return neg(_gamma_density(g, a, x))


class IgammaGradA(Incomplete):
    """The derivative of igamma by its first operand."""

    name = "igamma_grad_a"
    kernels = "special.igamma_grad_a"

    def d0(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        raise NotImplementedError(
            "igamma has no second derivative with respect to its first operand: wrap it in "
            "lax.stop_gradient"
        )

    def d1(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        return mul(_gamma_density(g, a, x), sub(log(x), digamma(a)))


class RandomGammaGrad(Incomplete):
    """The derivative by a of a sample x of Gamma(a, 1), its quantile held fixed."""

    name = "random_gamma_grad"
    kernels = "special.random_gamma_grad"

    def d0(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        raise NotImplementedError(
            "samples of a gamma distribution have no second derivative with respect to its shape: "
            "wrap it in"
            " lax.stop_gradient"
        )

    def d1(self, g: Any, out: Any, a: Any, x: Any) -> Any:
        # out = -F_a / f; with f_a / f = log x - digamma(a) and f_x / f = (a - 1) / x - 1:
        growth = sub(div(sub(a, const(a, 1)), x), const(x, 1))
        return mul(g, neg(add(sub(log(x), digamma(a)), mul(out, growth))))


class RegularizedIncompleteBeta(Incomplete):
    """The regularized incomplete beta function I_x(a, b)."""

    name = "regularized_incomplete_beta"
    kernels = "special.regularized_incomplete_beta"

    def d0(self, g: Any, out: Any, a: Any, b: Any, x: Any) -> Any:
        raise ValueError(
            "betainc has no derivative with respect to a and b: wrap them in lax.stop_gradient, "
            "or differentiate with respect to x only"
        )

    d1 = d0

    def d2(self, g: Any, out: Any, a: Any, b: Any, x: Any) -> Any:
        log_beta = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
        right = mul(sub(b, const(b, 1)), log1p_p.bind(neg(x), accuracy=None))
        left = mul(sub(a, const(a, 1)), log(x))
        return mul(exp(sub(add(right, left), log_beta)), g)


class BesselI0e(Special):
    """The modified Bessel function of order 0, times exp(-|x|)."""

    name = "bessel_i0e"

    def lower(self, k: Any, x: Any) -> Any:
        return kernel_series.bessel(k, x, False)

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        return mul(g, sub(bessel_i1e_p.bind(x), mul(sign(x), out)))


class BesselI1e(Special):
    """The modified Bessel function of order 1, times exp(-|x|)."""

    name = "bessel_i1e"

    def lower(self, k: Any, x: Any) -> Any:
        return kernel_series.bessel(k, x, True)

    def d0(self, g: Any, out: Any, x: Any) -> Any:
        # At 0 the slope is 1/2, but its formula 0/0.
        shape = np.shape(x)
        eps = float(dtypes.finfo(typeof(x).dtype).eps)
        away = gt(abs_(x), const(x, eps))
        safe = select_n(away, broadcast_to(const(x, eps), shape), x)
        slope = sub(bessel_i0e_p.bind(safe), mul(out, add(sign(safe), integer_pow(safe, -1))))
        return mul(g, select_n(away, broadcast_to(const(x, 0.5), shape), slope))


erf_p, erfc_p, erf_inv_p = Erf(), Erfc(), ErfInv()
lgamma_p, digamma_p, polygamma_p, zeta_p = Lgamma(), Digamma(), Polygamma(), Zeta()
igamma_p, igammac_p, igamma_grad_a_p = Igamma(), Igammac(), IgammaGradA()
random_gamma_grad_p = RandomGammaGrad()
regularized_incomplete_beta_p = RegularizedIncompleteBeta()
bessel_i0e_p, bessel_i1e_p = BesselI0e(), BesselI1e()

lgamma, digamma, polygamma = lgamma_p.bind, digamma_p.bind, polygamma_p.bind
