"""From a model to a trained model: checkpoints, metrics, precision and steps, as plain functions.

Nothing here calls you: the loop stays your own. ``import weft.train`` loads a part of it when one
of its names is first looked at.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from weft.base import lazy as _lazy

if _TYPE_CHECKING:
    from weft.linen.jax_utils import pad_shard_unpad as pad_shard_unpad
    from weft.linen.jax_utils import prefetch_to_device as prefetch_to_device
    from weft.linen.training import common_utils as common_utils
    from weft.linen.training import lr_schedule as lr_schedule
    from weft.linen.training.dynamic_scale import DynamicScale as DynamicScale
    from weft.linen.training.early_stopping import EarlyStopping as EarlyStopping
    from weft.linen.training.train_state import TrainState as TrainState
    from weft.train import checkpoint as checkpoint
    from weft.train import metrics as metrics
    from weft.train import tfrecord as tfrecord
    from weft.train import writers as writers
    from weft.train.checkpoint.errors import CheckpointError as CheckpointError
    from weft.train.checkpoint.manager import CheckpointManager as CheckpointManager
    from weft.train.checkpoint.policy import Keep as Keep
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        ("checkpoint", "metrics", "tfrecord", "writers"),
        {
            "weft.linen.jax_utils": "pad_shard_unpad prefetch_to_device",
            "weft.linen.training": "common_utils lr_schedule",
            "weft.linen.training.dynamic_scale": "DynamicScale",
            "weft.linen.training.early_stopping": "EarlyStopping",
            "weft.linen.training.train_state": "TrainState",
            "weft.train.checkpoint.errors": "CheckpointError",
            "weft.train.checkpoint.manager": "CheckpointManager",
            "weft.train.checkpoint.policy": "Keep",
        },
        public=False,
    )
