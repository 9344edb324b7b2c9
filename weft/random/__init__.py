"""Random numbers from explicit keys: the same key gives the same numbers, everywhere."""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.random.counts import *
    from weft.random.distributions import *
    from weft.random.gammas import *
    from weft.random.keys import *
    from weft.random.selection import *
    from weft.random.vectors import *
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
