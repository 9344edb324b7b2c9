"""Special functions: ``weft.scipy.special``."""

import sys as _sys
from typing import Any

from weft.base.traceback import expose as _expose
from weft.core.array import Array
from weft.numpy import exponentials
from weft.numpy.exponentials import logsumexp as logsumexp
from weft.scipy.special_bessel import bessel_jn as bessel_jn
from weft.scipy.special_bessel import i0 as i0
from weft.scipy.special_bessel import i0e as i0e
from weft.scipy.special_bessel import i1 as i1
from weft.scipy.special_bessel import i1e as i1e
from weft.scipy.special_bessel import sph_harm_y as sph_harm_y
from weft.scipy.special_error import boxcox as boxcox
from weft.scipy.special_error import boxcox1p as boxcox1p
from weft.scipy.special_error import dawsn as dawsn
from weft.scipy.special_error import entr as entr
from weft.scipy.special_error import erf as erf
from weft.scipy.special_error import erfc as erfc
from weft.scipy.special_error import erfcx as erfcx
from weft.scipy.special_error import erfinv as erfinv
from weft.scipy.special_error import expit as expit
from weft.scipy.special_error import kl_div as kl_div
from weft.scipy.special_error import log_ndtr as log_ndtr
from weft.scipy.special_error import logit as logit
from weft.scipy.special_error import ndtr as ndtr
from weft.scipy.special_error import ndtri as ndtri
from weft.scipy.special_error import owens_t as owens_t
from weft.scipy.special_error import rel_entr as rel_entr
from weft.scipy.special_error import wofz as wofz
from weft.scipy.special_error import xlog1py as xlog1py
from weft.scipy.special_error import xlogy as xlogy
from weft.scipy.special_gamma import bernoulli as bernoulli
from weft.scipy.special_gamma import beta as beta
from weft.scipy.special_gamma import betainc as betainc
from weft.scipy.special_gamma import betaln as betaln
from weft.scipy.special_gamma import comb as comb
from weft.scipy.special_gamma import digamma as digamma
from weft.scipy.special_gamma import factorial as factorial
from weft.scipy.special_gamma import gamma as gamma
from weft.scipy.special_gamma import gammainc as gammainc
from weft.scipy.special_gamma import gammaincc as gammaincc
from weft.scipy.special_gamma import gammaln as gammaln
from weft.scipy.special_gamma import gammasgn as gammasgn
from weft.scipy.special_gamma import loggamma as loggamma
from weft.scipy.special_gamma import multigammaln as multigammaln
from weft.scipy.special_gamma import poch as poch
from weft.scipy.special_gamma import polygamma as polygamma
from weft.scipy.special_gamma import zeta as zeta
from weft.scipy.special_hyper import hyp1f1 as hyp1f1
from weft.scipy.special_hyper import hyp2f1 as hyp2f1
from weft.scipy.special_integrals import exp1 as exp1
from weft.scipy.special_integrals import expi as expi
from weft.scipy.special_integrals import expn as expn
from weft.scipy.special_integrals import fresnel as fresnel
from weft.scipy.special_integrals import sici as sici
from weft.scipy.special_integrals import spence as spence


def softmax(x: Any, /, *, axis: exponentials.Axis = None) -> Array:
    """Return exp(x), scaled to sum to 1 over an axis, or over all.

    Args:
        x: an array, or what ``jnp.asarray`` accepts.
        axis: the axis or axes over which the exponentials sum to 1. By default all.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.special import softmax
        >>> softmax(jnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)
    """
    return exponentials.softmax(x, axis=axis)


def log_softmax(x: Any, /, *, axis: exponentials.Axis = None) -> Array:
    """Return the logarithm of softmax, without underflow.

    Args:
        x: an array, or what ``jnp.asarray`` accepts.
        axis: the axis or axes over which the exponentials sum to 1. By default all.

    Returns:
        A float array of the shape of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.special import log_softmax
        >>> log_softmax(jnp.array([0.0, 1000.0]))
        Array([-1000.,     0.], dtype=float32)
    """
    return exponentials.log_softmax(x, axis=axis)


_expose(_sys.modules[__name__])
