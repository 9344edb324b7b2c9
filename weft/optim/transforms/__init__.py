"""Transformations of gradients that combine with any optimiser: ``weft.optim.transforms``."""

from weft.optim.transforms.accumulation import EmaState as EmaState
from weft.optim.transforms.accumulation import MultiSteps as MultiSteps
from weft.optim.transforms.accumulation import MultiStepsState as MultiStepsState
from weft.optim.transforms.accumulation import ShouldSkipUpdateFunction as ShouldSkipUpdateFunction
from weft.optim.transforms.accumulation import TraceState as TraceState
from weft.optim.transforms.accumulation import ema as ema
from weft.optim.transforms.accumulation import skip_large_updates as skip_large_updates
from weft.optim.transforms.accumulation import skip_not_finite as skip_not_finite
from weft.optim.transforms.accumulation import trace as trace
from weft.optim.transforms.adding import AddNoiseState as AddNoiseState
from weft.optim.transforms.adding import add_decayed_weights as add_decayed_weights
from weft.optim.transforms.adding import add_noise as add_noise
from weft.optim.transforms.clipping import adaptive_grad_clip as adaptive_grad_clip
from weft.optim.transforms.clipping import clip as clip
from weft.optim.transforms.clipping import clip_by_block_rms as clip_by_block_rms
from weft.optim.transforms.clipping import clip_by_global_norm as clip_by_global_norm
from weft.optim.transforms.clipping import (
    per_example_global_norm_clip as per_example_global_norm_clip,
)
from weft.optim.transforms.clipping import (
    per_example_layer_norm_clip as per_example_layer_norm_clip,
)
from weft.optim.transforms.clipping import unitwise_clip as unitwise_clip
from weft.optim.transforms.clipping import unitwise_norm as unitwise_norm
from weft.optim.transforms.combining import PartitionState as PartitionState
from weft.optim.transforms.combining import chain as chain
from weft.optim.transforms.combining import freeze as freeze
from weft.optim.transforms.combining import named_chain as named_chain
from weft.optim.transforms.combining import partition as partition
from weft.optim.transforms.combining import selective_transform as selective_transform
from weft.optim.transforms.conditionality import ApplyIfFiniteState as ApplyIfFiniteState
from weft.optim.transforms.conditionality import ConditionallyMaskState as ConditionallyMaskState
from weft.optim.transforms.conditionality import (
    ConditionallyTransformState as ConditionallyTransformState,
)
from weft.optim.transforms.conditionality import ConditionFn as ConditionFn
from weft.optim.transforms.conditionality import apply_if_finite as apply_if_finite
from weft.optim.transforms.conditionality import conditionally_mask as conditionally_mask
from weft.optim.transforms.conditionality import conditionally_transform as conditionally_transform
from weft.optim.transforms.constraining import NonNegativeParamsState as NonNegativeParamsState
from weft.optim.transforms.constraining import ZeroNansState as ZeroNansState
from weft.optim.transforms.constraining import flatten as flatten
from weft.optim.transforms.constraining import keep_params_nonnegative as keep_params_nonnegative
from weft.optim.transforms.constraining import zero_nans as zero_nans
from weft.optim.transforms.masking import MaskedNode as MaskedNode
from weft.optim.transforms.masking import MaskedState as MaskedState
from weft.optim.transforms.masking import masked as masked
from weft.optim.transforms.monitoring import MonitorState as MonitorState
from weft.optim.transforms.monitoring import SnapshotState as SnapshotState
from weft.optim.transforms.monitoring import measure_with_ema as measure_with_ema
from weft.optim.transforms.monitoring import monitor as monitor
from weft.optim.transforms.monitoring import snapshot as snapshot
