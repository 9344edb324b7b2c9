"""Random numbers from explicit keys: the same key gives the same numbers, everywhere."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from weft.base import lazy as _lazy

if _TYPE_CHECKING:
    from weft.random.counts import binomial as binomial
    from weft.random.counts import geometric as geometric
    from weft.random.counts import multinomial as multinomial
    from weft.random.counts import poisson as poisson
    from weft.random.distributions import bernoulli as bernoulli
    from weft.random.distributions import bits as bits
    from weft.random.distributions import cauchy as cauchy
    from weft.random.distributions import exponential as exponential
    from weft.random.distributions import laplace as laplace
    from weft.random.distributions import logistic as logistic
    from weft.random.distributions import lognormal as lognormal
    from weft.random.distributions import normal as normal
    from weft.random.distributions import pareto as pareto
    from weft.random.distributions import rademacher as rademacher
    from weft.random.distributions import rayleigh as rayleigh
    from weft.random.distributions import triangular as triangular
    from weft.random.distributions import truncated_normal as truncated_normal
    from weft.random.distributions import uniform as uniform
    from weft.random.distributions import weibull_min as weibull_min
    from weft.random.gammas import beta as beta
    from weft.random.gammas import chisquare as chisquare
    from weft.random.gammas import double_sided_maxwell as double_sided_maxwell
    from weft.random.gammas import f as f
    from weft.random.gammas import gamma as gamma
    from weft.random.gammas import generalized_normal as generalized_normal
    from weft.random.gammas import loggamma as loggamma
    from weft.random.gammas import maxwell as maxwell
    from weft.random.gammas import random_gamma_p as random_gamma_p
    from weft.random.gammas import t as t
    from weft.random.gammas import wald as wald
    from weft.random.keys import PRNGKey as PRNGKey
    from weft.random.keys import clone as clone
    from weft.random.keys import fold_in as fold_in
    from weft.random.keys import key as key
    from weft.random.keys import key_data as key_data
    from weft.random.keys import key_dtype as key_dtype
    from weft.random.keys import key_impl as key_impl
    from weft.random.keys import split as split
    from weft.random.keys import wrap_key_data as wrap_key_data
    from weft.random.selection import categorical as categorical
    from weft.random.selection import choice as choice
    from weft.random.selection import gumbel as gumbel
    from weft.random.selection import permutation as permutation
    from weft.random.selection import randint as randint
    from weft.random.vectors import ball as ball
    from weft.random.vectors import dirichlet as dirichlet
    from weft.random.vectors import multivariate_normal as multivariate_normal
    from weft.random.vectors import orthogonal as orthogonal
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (),
        {
            "weft.random.counts": "binomial geometric multinomial poisson",
            "weft.random.distributions": (
                "bernoulli bits cauchy exponential laplace logistic lognormal normal pareto "
                "rademacher rayleigh triangular truncated_normal uniform weibull_min"
            ),
            "weft.random.gammas": (
                "beta chisquare double_sided_maxwell f gamma generalized_normal loggamma maxwell "
                "random_gamma_p t wald"
            ),
            "weft.random.keys": (
                "PRNGKey clone fold_in key key_data key_dtype key_impl split wrap_key_data"
            ),
            "weft.random.selection": "categorical choice gumbel permutation randint",
            "weft.random.vectors": "ball dirichlet multivariate_normal orthogonal",
        },
    )
