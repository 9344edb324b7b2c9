"""Functions and initialisers of neural networks: ``weft.nn``."""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.nn import initializers as initializers
    from weft.nn.attention import dot_product_attention as dot_product_attention
    from weft.nn.functions import *
    from weft.nn.scaled import *
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
