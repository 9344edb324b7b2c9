"""Checkpoints of any pytree: atomic, checksummed, written while the training goes on.

``CheckpointManager`` has those of a training; ``save`` and ``restore`` are for single ones.
"""

from weft.train.checkpoint.errors import CheckpointError as CheckpointError
from weft.train.checkpoint.files import restore as restore
from weft.train.checkpoint.files import save as save
from weft.train.checkpoint.manager import CheckpointManager as CheckpointManager
from weft.train.checkpoint.policy import Keep as Keep
from weft.train.checkpoint.safetensors import load_file as load_safetensors
from weft.train.checkpoint.safetensors import save_file as save_safetensors
from weft.train.checkpoint.sources import read_manifest as read_manifest
