"""Models that Hugging Face's transformers has saved, from their folders of safetensors files."""

import os
from typing import Any

import numpy as np

from weft.linen.architectures.huggingface import Pretrained, from_huggingface
from weft.train.checkpoint import plain_json
from weft.train.checkpoint.errors import CheckpointError
from weft.train.checkpoint.safetensors import load_file, open_plain


def load_huggingface(
    folder: str | os.PathLike[str], kind: str | None = None, **changes: Any
) -> Pretrained:
    """A model and its variables from a folder that ``save_pretrained`` of transformers has made.

    Args:
        folder: has ``config.json`` and ``model.safetensors``, or several files and their index.
        kind: 't5', 'gpt2', 'llama', 'bert', 'vit' or 'resnet'; by default as ``config.json`` says.
        changes: fields of the configuration with other values, such as ``dtype``.

    Returns:
        The model, of ``weft.linen.architectures``, and its variables, in float32.

    Raises:
        CheckpointError: files are missing, damaged or not safetensors.
        ValueError: the arrays or the configuration do not fit the model.

    Example:
        >>> import json, tempfile
        >>> from weft.train.checkpoint import save_safetensors
        >>> folder = tempfile.mkdtemp()
        >>> with open(os.path.join(folder, "config.json"), "w") as file:
        ...     json.dump({"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 0,
        ...                "n_positions": 3, "vocab_size": 5}, file)
        >>> tensors = {"wte.weight": np.ones((5, 4)), "wpe.weight": np.ones((3, 4)),
        ...            "ln_f.weight": np.ones(4), "ln_f.bias": np.zeros(4)}
        >>> save_safetensors(tensors, os.path.join(folder, "model.safetensors"))
        >>> model, variables = load_huggingface(folder)
        >>> model.apply(variables, np.array([[1, 2, 3]])).shape
        (1, 3, 5)
    """
    folder = os.fspath(folder)
    config = _read_json(os.path.join(folder, "config.json"))
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        table = _read_json(index).get("weight_map")
        if not isinstance(table, dict) or not all(map(_is_plain, table.values())):
            raise CheckpointError(f"{index}: weight_map must name a file in the folder")
        names = sorted(set(table.values()))
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        tensors |= load_file(os.path.join(folder, name))
    return from_huggingface(tensors, config, kind, **changes)


def _is_plain(name: Any) -> bool:
    return (
        isinstance(name, str) and name == os.path.basename(name) and name.endswith(".safetensors")
    )


def _read_json(path: str) -> dict[str, Any]:
    with open_plain(path) as file:
        value = plain_json.loads(file.read(), path)
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: is not a JSON object")
    return value
