"""What ``weft.train`` passes on from flax's tools, and that ``import weft`` does not load it."""

import subprocess
import sys

from weft import linen, train


def test_flax_tools_are_the_same_objects():
    tools = linen.training
    assert train.TrainState is tools.train_state.TrainState
    assert train.DynamicScale is tools.dynamic_scale.DynamicScale
    assert train.EarlyStopping is tools.early_stopping.EarlyStopping
    assert train.lr_schedule is tools.lr_schedule and train.common_utils is tools.common_utils
    assert train.prefetch_to_device is linen.jax_utils.prefetch_to_device
    assert train.pad_shard_unpad is linen.jax_utils.pad_shard_unpad


def test_weft_does_not_load_it():
    code = "import sys, weft; assert not hasattr(weft, 'train'); print('weft.train' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
