"""Initialisers of parameters: those of ``weft.nn.initializers``, and makers of zeros and ones."""

from weft.nn.initializers import Initializer as Initializer
from weft.nn.initializers import constant as constant
from weft.nn.initializers import delta_orthogonal as delta_orthogonal
from weft.nn.initializers import glorot_normal as glorot_normal
from weft.nn.initializers import glorot_uniform as glorot_uniform
from weft.nn.initializers import he_normal as he_normal
from weft.nn.initializers import he_uniform as he_uniform
from weft.nn.initializers import kaiming_normal as kaiming_normal
from weft.nn.initializers import kaiming_uniform as kaiming_uniform
from weft.nn.initializers import lecun_normal as lecun_normal
from weft.nn.initializers import lecun_uniform as lecun_uniform
from weft.nn.initializers import normal as normal
from weft.nn.initializers import ones as ones
from weft.nn.initializers import orthogonal as orthogonal
from weft.nn.initializers import truncated_normal as truncated_normal
from weft.nn.initializers import uniform as uniform
from weft.nn.initializers import variance_scaling as variance_scaling
from weft.nn.initializers import xavier_normal as xavier_normal
from weft.nn.initializers import xavier_uniform as xavier_uniform
from weft.nn.initializers import zeros as zeros


def zeros_init() -> Initializer:
    """Return an initialiser of zeros.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> nn.initializers.zeros_init()(weft.random.key(0), (2,))
        Array([0., 0.], dtype=float32)
    """
    return zeros


def ones_init() -> Initializer:
    """Return an initialiser of ones.

    Returns:
        A function of key, shape and dtype.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> nn.initializers.ones_init()(weft.random.key(0), (2,))
        Array([1., 1.], dtype=float32)
    """
    return ones
