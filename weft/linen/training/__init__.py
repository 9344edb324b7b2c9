"""Training tools: the counterpart of ``flax.training``."""

from weft.linen.training import checkpoints as checkpoints
from weft.linen.training import common_utils as common_utils
from weft.linen.training import dynamic_scale as dynamic_scale
from weft.linen.training import early_stopping as early_stopping
from weft.linen.training import lr_schedule as lr_schedule
from weft.linen.training import train_state as train_state
