"""Activation functions: those of ``weft.nn``, and PReLU, which learns its slope."""

from typing import Any

import weft
from weft import numpy as jnp
from weft.linen.module import Module, compact
from weft.nn import celu as celu
from weft.nn import elu as elu
from weft.nn import gelu as gelu
from weft.nn import glu as glu
from weft.nn import hard_sigmoid as hard_sigmoid
from weft.nn import hard_silu as hard_silu
from weft.nn import hard_swish as hard_swish
from weft.nn import hard_tanh as hard_tanh
from weft.nn import leaky_relu as leaky_relu
from weft.nn import log_sigmoid as log_sigmoid
from weft.nn import log_softmax as log_softmax
from weft.nn import logsumexp as logsumexp
from weft.nn import one_hot as one_hot
from weft.nn import relu as relu
from weft.nn import relu6 as relu6
from weft.nn import selu as selu
from weft.nn import sigmoid as sigmoid
from weft.nn import silu as silu
from weft.nn import soft_sign as soft_sign
from weft.nn import softmax as softmax
from weft.nn import softplus as softplus
from weft.nn import standardize as standardize
from weft.nn import swish as swish
from weft.nn import tanh as tanh

normalize = standardize


class PReLU(Module):
    """A layer that returns ``x`` where it is positive, and elsewhere ``x`` times a learnt slope.

    Args:
        param_dtype: the dtype of the parameters.
        negative_slope_init: the slope at the start.

    Example:
        >>> import weft
        >>> PReLU().init_with_output(weft.random.key(0), jnp.array([-2.0, 3.0]))[0]
        Array([-0.02,  3.  ], dtype=float32)
    """

    param_dtype: Any = jnp.float32
    negative_slope_init: float = 0.01

    @compact
    def __call__(self, inputs: Any) -> weft.Array:
        """Scale what is negative."""
        start = lambda _key: jnp.asarray(self.negative_slope_init, self.param_dtype)
        slope = jnp.asarray(self.param("negative_slope", start), inputs.dtype)
        return jnp.where(inputs >= 0, inputs, slope * inputs)
