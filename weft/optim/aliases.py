"""Other names of the same things."""

from weft.optim.base import EmptyState
from weft.optim.transforms.combining import PartitionState, partition
from weft.optim.tree_utils import arithmetic

MultiTransformState = PartitionState
multi_transform = partition
bias_correction = arithmetic.tree_bias_correction
update_infinity_moment = arithmetic.tree_update_infinity_moment
update_moment = arithmetic.tree_update_moment
update_moment_per_elem_norm = arithmetic.tree_update_moment_per_elem_norm
AdaptiveGradClipState = EmptyState
AddDecayedWeightsState = EmptyState
ClipByGlobalNormState = EmptyState
ClipState = EmptyState
ScaleByTrustRatioState = EmptyState
ScaleState = EmptyState
