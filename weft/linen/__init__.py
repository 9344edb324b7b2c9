"""Layers and networks: ``weft.linen``, with the interface of ``flax.linen``.

``weft.linen.struct``, ``core``, ``serialization`` and the like are flax's modules of these names.
"""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.linen import activation as activation
    from weft.linen import attention as attention
    from weft.linen import combinators as combinators
    from weft.linen import conv as conv
    from weft.linen import core as core
    from weft.linen import dtypes as dtypes
    from weft.linen import errors as errors
    from weft.linen import fp8_ops as fp8_ops
    from weft.linen import initializers as initializers
    from weft.linen import jax_utils as jax_utils
    from weft.linen import linear as linear
    from weft.linen import meta as meta
    from weft.linen import module as module
    from weft.linen import normalization as normalization
    from weft.linen import partitioning as partitioning
    from weft.linen import pooling as pooling
    from weft.linen import recurrent as recurrent
    from weft.linen import serialization as serialization
    from weft.linen import spmd as spmd
    from weft.linen import stochastic as stochastic
    from weft.linen import struct as struct
    from weft.linen import summary as summary
    from weft.linen import training as training
    from weft.linen import transforms as transforms
    from weft.linen import traverse_util as traverse_util
    from weft.linen.activation import *
    from weft.linen.attention import *
    from weft.linen.blocks import *
    from weft.linen.checks import check_variables as check_variables
    from weft.linen.combinators import *
    from weft.linen.context import *
    from weft.linen.conv import *
    from weft.linen.core import FrozenDict as FrozenDict
    from weft.linen.filters import DenyList as DenyList
    from weft.linen.fp8_ops import *
    from weft.linen.initializers import *
    from weft.linen.lift import In as In
    from weft.linen.lift import Out as Out
    from weft.linen.lift import broadcast as broadcast
    from weft.linen.linear import *
    from weft.linen.lora import *
    from weft.linen.meta import *
    from weft.linen.module import *
    from weft.linen.normalization import BatchNorm as BatchNorm
    from weft.linen.normalization import GroupNorm as GroupNorm
    from weft.linen.normalization import InstanceNorm as InstanceNorm
    from weft.linen.normalization import LayerNorm as LayerNorm
    from weft.linen.normalization import RMSNorm as RMSNorm
    from weft.linen.pooling import *
    from weft.linen.recurrent import *
    from weft.linen.scope import Variable as Variable
    from weft.linen.spmd import *
    from weft.linen.stochastic import *
    from weft.linen.summary import tabulate as tabulate
    from weft.linen.transforms import *
    from weft.linen.weights import *
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (
            "activation attention combinators conv core dtypes errors fp8_ops initializers "
            "jax_utils linear meta module normalization partitioning pooling recurrent "
            "serialization spmd stochastic struct summary training transforms traverse_util"
        ).split(),
        {
            "weft.linen.activation": (
                "PReLU celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu "
                "log_sigmoid log_softmax logsumexp normalize one_hot relu relu6 selu sigmoid silu "
                "soft_sign softmax softplus standardize swish tanh"
            ),
            "weft.linen.attention": (
                "MultiHeadAttention MultiHeadDotProductAttention SelfAttention combine_masks "
                "dot_product_attention dot_product_attention_weights make_attention_mask "
                "make_causal_mask"
            ),
            "weft.linen.blocks": (
                "FFN GroupedQueryAttention MoE RotaryEmbedding TransformerBlock "
                "apply_rotary_embedding"
            ),
            "weft.linen.checks": "check_variables",
            "weft.linen.combinators": "BatchApply Sequential",
            "weft.linen.context": (
                "disable_named_call enable_named_call intercept_methods override_named_call"
            ),
            "weft.linen.conv": "Conv ConvLocal ConvTranspose",
            "weft.linen.core": "FrozenDict",
            "weft.linen.filters": "DenyList",
            "weft.linen.fp8_ops": (
                "Fp8DirectDotGeneralOp Fp8DotGeneral Fp8DotGeneralOp Fp8Einsum NANOOFp8DotGeneralOp"
            ),
            "weft.linen.initializers": "ones ones_init zeros zeros_init",
            "weft.linen.lift": "In Out broadcast",
            "weft.linen.linear": "Dense DenseGeneral Einsum Embed",
            "weft.linen.lora": "LoRA LoRADense merge_lora",
            "weft.linen.meta": (
                "PARTITION_NAME Partitioned get_partition_spec get_sharding unbox with_partitioning"
            ),
            "weft.linen.module": (
                "Module apply compact compact_name_scope init init_with_output merge_param nowrap "
                "share_scope"
            ),
            "weft.linen.normalization": "BatchNorm GroupNorm InstanceNorm LayerNorm RMSNorm",
            "weft.linen.pooling": "avg_pool max_pool min_pool pool",
            "weft.linen.recurrent": (
                "Bidirectional ConvLSTMCell GRUCell LSTMCell MGUCell OptimizedLSTMCell RNN "
                "RNNCellBase SimpleCell"
            ),
            "weft.linen.scope": "Variable",
            "weft.linen.spmd": (
                "LogicallyPartitioned get_logical_axis_rules logical_axis_rules logical_to_mesh "
                "logical_to_mesh_axes logical_to_mesh_sharding set_logical_axis_rules "
                "with_logical_constraint with_logical_partitioning"
            ),
            "weft.linen.stochastic": "Dropout StochasticDepth",
            "weft.linen.summary": "tabulate",
            "weft.linen.transforms": (
                "add_metadata_axis checkpoint cond custom_vjp fold_rngs grad jit jvp map_variables "
                "named_call remat remat_scan scan switch value_and_grad vjp vmap while_loop"
            ),
            "weft.linen.weights": "SpectralNorm WeightNorm",
        },
        public=False,
    )
