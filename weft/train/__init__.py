"""From a model to a trained model: checkpoints, metrics, precision and steps, as plain functions.

Nothing here calls you: the loop stays your own. ``import weft.train`` loads a part of it when one
of its names is first looked at.
"""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.linen.jax_utils import pad_shard_unpad as pad_shard_unpad
    from weft.linen.jax_utils import prefetch_to_device as prefetch_to_device
    from weft.linen.training import common_utils as common_utils
    from weft.linen.training import lr_schedule as lr_schedule
    from weft.linen.training.dynamic_scale import DynamicScale as DynamicScale
    from weft.linen.training.early_stopping import EarlyStopping as EarlyStopping
    from weft.linen.training.train_state import TrainState as TrainState
    from weft.train import checkpoint as checkpoint
    from weft.train import data as data
    from weft.train import launch as launch
    from weft.train import metrics as metrics
    from weft.train import report as report
    from weft.train import tasks as tasks
    from weft.train import tfrecord as tfrecord
    from weft.train import vocabularies as vocabularies
    from weft.train import writers as writers
    from weft.train.averaging import EMA as EMA
    from weft.train.checkpoint.errors import CheckpointError as CheckpointError
    from weft.train.checkpoint.manager import CheckpointManager as CheckpointManager
    from weft.train.checkpoint.policy import Keep as Keep
    from weft.train.gradients import accumulated_value_and_grad as accumulated_value_and_grad
    from weft.train.gradients import remat as remat
    from weft.train.gradients import split_batch as split_batch
    from weft.train.huggingface import load_huggingface as load_huggingface
    from weft.train.lr_finder import LearningRates as LearningRates
    from weft.train.lr_finder import find_learning_rate as find_learning_rate
    from weft.train.nan_watch import NanWatch as NanWatch
    from weft.train.nan_watch import NonFiniteError as NonFiniteError
    from weft.train.nan_watch import non_finite as non_finite
    from weft.train.precision import Policy as Policy
    from weft.train.precision import cast_floating as cast_floating
    from weft.train.precision import get_policy as get_policy
    from weft.train.sharding_rules import partition_spec as partition_spec
    from weft.train.sharding_rules import state_shardings as state_shardings
    from weft.train.steps import Step as Step
    from weft.train.steps import make_step as make_step
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (
            "checkpoint",
            "data",
            "launch",
            "metrics",
            "report",
            "tasks",
            "tfrecord",
            "vocabularies",
            "writers",
        ),
        {
            "weft.linen.jax_utils": "pad_shard_unpad prefetch_to_device",
            "weft.linen.training": "common_utils lr_schedule",
            "weft.linen.training.dynamic_scale": "DynamicScale",
            "weft.linen.training.early_stopping": "EarlyStopping",
            "weft.linen.training.train_state": "TrainState",
            "weft.train.checkpoint.errors": "CheckpointError",
            "weft.train.checkpoint.manager": "CheckpointManager",
            "weft.train.checkpoint.policy": "Keep",
            "weft.train.averaging": "EMA",
            "weft.train.gradients": "accumulated_value_and_grad remat split_batch",
            "weft.train.huggingface": "load_huggingface",
            "weft.train.lr_finder": "LearningRates find_learning_rate",
            "weft.train.nan_watch": "NanWatch NonFiniteError non_finite",
            "weft.train.precision": "Policy cast_floating get_policy",
            "weft.train.sharding_rules": "partition_spec state_shardings",
            "weft.train.steps": "Step make_step",
        },
        public=False,
    )
