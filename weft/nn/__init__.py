"""Functions and initialisers of neural networks: ``weft.nn``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from weft.base import lazy as _lazy

if _TYPE_CHECKING:
    from weft.nn import initializers as initializers
    from weft.nn.attention import dot_product_attention as dot_product_attention
    from weft.nn.functions import celu as celu
    from weft.nn.functions import elu as elu
    from weft.nn.functions import gelu as gelu
    from weft.nn.functions import glu as glu
    from weft.nn.functions import hard_sigmoid as hard_sigmoid
    from weft.nn.functions import hard_silu as hard_silu
    from weft.nn.functions import hard_swish as hard_swish
    from weft.nn.functions import hard_tanh as hard_tanh
    from weft.nn.functions import identity as identity
    from weft.nn.functions import leaky_relu as leaky_relu
    from weft.nn.functions import log1mexp as log1mexp
    from weft.nn.functions import log_sigmoid as log_sigmoid
    from weft.nn.functions import logmeanexp as logmeanexp
    from weft.nn.functions import mish as mish
    from weft.nn.functions import one_hot as one_hot
    from weft.nn.functions import relu as relu
    from weft.nn.functions import relu6 as relu6
    from weft.nn.functions import selu as selu
    from weft.nn.functions import sigmoid as sigmoid
    from weft.nn.functions import silu as silu
    from weft.nn.functions import soft_sign as soft_sign
    from weft.nn.functions import softplus as softplus
    from weft.nn.functions import sparse_plus as sparse_plus
    from weft.nn.functions import sparse_sigmoid as sparse_sigmoid
    from weft.nn.functions import squareplus as squareplus
    from weft.nn.functions import standardize as standardize
    from weft.nn.functions import swish as swish
    from weft.nn.scaled import get_scaled_dot_general_config as get_scaled_dot_general_config
    from weft.nn.scaled import scaled_dot_general as scaled_dot_general
    from weft.nn.scaled import scaled_matmul as scaled_matmul
    from weft.numpy import tanh as tanh
    from weft.numpy.exponentials import log_softmax as log_softmax
    from weft.numpy.exponentials import logsumexp as logsumexp
    from weft.numpy.exponentials import softmax as softmax
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        ("initializers",),
        {
            "weft.nn.attention": "dot_product_attention",
            "weft.nn.functions": (
                "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity "
                "leaky_relu log1mexp log_sigmoid logmeanexp mish one_hot relu relu6 selu sigmoid "
                "silu soft_sign softplus sparse_plus sparse_sigmoid squareplus standardize swish"
            ),
            "weft.nn.scaled": ("get_scaled_dot_general_config scaled_dot_general scaled_matmul"),
            "weft.numpy": "tanh",
            "weft.numpy.exponentials": "log_softmax logsumexp softmax",
        },
    )
