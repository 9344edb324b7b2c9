"""Statistics: distributions, each a module of functions, and what describes samples."""

import sys as _sys
from inspect import ismodule as _is_module

from weft.base.traceback import expose as _expose
from weft.scipy.kernel_density import gaussian_kde as gaussian_kde
from weft.scipy.sample_statistics import mode as mode
from weft.scipy.sample_statistics import rankdata as rankdata
from weft.scipy.sample_statistics import sem as sem
from weft.scipy.stats import bernoulli as bernoulli
from weft.scipy.stats import beta as beta
from weft.scipy.stats import betabinom as betabinom
from weft.scipy.stats import binom as binom
from weft.scipy.stats import cauchy as cauchy
from weft.scipy.stats import chi2 as chi2
from weft.scipy.stats import dirichlet as dirichlet
from weft.scipy.stats import expon as expon
from weft.scipy.stats import gamma as gamma
from weft.scipy.stats import gennorm as gennorm
from weft.scipy.stats import geom as geom
from weft.scipy.stats import gumbel_l as gumbel_l
from weft.scipy.stats import gumbel_r as gumbel_r
from weft.scipy.stats import laplace as laplace
from weft.scipy.stats import logistic as logistic
from weft.scipy.stats import multinomial as multinomial
from weft.scipy.stats import multivariate_normal as multivariate_normal
from weft.scipy.stats import nbinom as nbinom
from weft.scipy.stats import norm as norm
from weft.scipy.stats import pareto as pareto
from weft.scipy.stats import poisson as poisson
from weft.scipy.stats import t as t
from weft.scipy.stats import truncnorm as truncnorm
from weft.scipy.stats import uniform as uniform
from weft.scipy.stats import vonmises as vonmises
from weft.scipy.stats import wrapcauchy as wrapcauchy

_public = {name: value for name, value in globals().items() if not name.startswith("_")}
_expose(_sys.modules[__name__], *filter(_is_module, _public.values()))
