"""Weights in the layout of Hugging Face's transformers, as variables of the models here.

A table gives the name of every parameter in their files, and how it is stored there. Their files
are read by ``weft.train.load_huggingface``; this file takes arrays by name.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.bert import BERT
from weft.linen.architectures.config import Config, stack_layers
from weft.linen.architectures.gpt import GPT
from weft.linen.architectures.huggingface_config import config_of
from weft.linen.architectures.huggingface_tables import TABLES, Table
from weft.linen.architectures.resnet import ResNet
from weft.linen.architectures.t5 import T5
from weft.linen.architectures.vit import ViT

MODELS: dict[str, Callable[[Any], nn.Module]] = {
    "t5": T5,
    "gpt2": GPT,
    "llama": GPT,
    "bert": BERT,
    "vit": ViT,
    "resnet": ResNet,
}
ALIASES = {"mt5": "t5", "byt5": "t5"}


class Pretrained(NamedTuple):
    """A model and its variables, ready for ``model.apply(variables, ...)``.

    Args:
        model: the module.
        variables: its variables, by collection.

    Example:
        >>> from weft import linen as nn
        >>> Pretrained(nn.Dense(2), {"params": {}})._fields
        ('model', 'variables')
    """

    model: nn.Module
    variables: dict[str, Any]


def from_huggingface(
    tensors: Mapping[str, Any],
    config: Mapping[str, Any] | Config,
    kind: str | None = None,
    **changes: Any,
) -> Pretrained:
    """A model and its variables from arrays under the names that transformers gives them.

    Args:
        tensors: arrays by name.
        config: what their ``config.json`` has, or a configuration of ours.
        kind: 't5', 'gpt2', 'llama', 'bert', 'vit' or 'resnet'; by default ``model_type`` of
            ``config``.
        changes: fields of the configuration with other values, such as ``dtype`` or
            ``scan_layers``.

    Returns:
        The model and its variables, in float32.

    Raises:
        ValueError: arrays are missing, left over or have other shapes than the configuration says,
            or the configuration asks for something that the model does not have.

    >>> tensors = {"wte.weight": np.ones((5, 4)), "wpe.weight": np.ones((3, 4)),
    ...            "ln_f.weight": np.ones(4), "ln_f.bias": np.zeros(4)}
    >>> config = {"model_type": "gpt2", "n_embd": 4, "n_head": 2, "n_layer": 0, "n_positions": 3,
    ...           "vocab_size": 5}
    >>> model, variables = from_huggingface(tensors, config)
    >>> variables["params"]["places"]["embedding"].shape
    (3, 4)
    """
    if kind is None:
        kind = config.get("model_type") if isinstance(config, Mapping) else None
    kind = ALIASES.get(str(kind), str(kind))
    if kind not in MODELS:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(MODELS)}")
    tensors = _plain_names(kind, tensors)
    own = config if isinstance(config, Config) else config_of(kind, config, tensors)
    own = own.replace(**changes)
    scan = getattr(own, "scan_layers", False)
    plain = MODELS[kind](own.replace(scan_layers=False) if scan else own)
    shapes = weft.eval_shape(lambda: plain.init(weft.random.key(0), *_inputs(kind, own)))
    variables, used = {}, set()
    for name, collection in shapes.items():
        variables[name] = _fill(collection, (), TABLES[kind], tensors, used)
    ignored = re.compile(TABLES[kind].ignored)
    left = sorted(name for name in tensors if name not in used and not ignored.fullmatch(name))
    if left:
        raise ValueError(
            f"{len(left)} arrays are not part of this {kind} model: {', '.join(left[:5])}"
            f"{', ...' if len(left) > 5 else ''}"
        )
    if scan:
        variables["params"] = stack_layers(variables["params"])
    return Pretrained(MODELS[kind](own), variables)


def _plain_names(kind: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Names without the model's own in front, and in the form of today."""
    prefix = TABLES[kind].prefix
    names = {}
    for name, value in tensors.items():
        plain = name.removeprefix(prefix) if prefix else name
        plain = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", plain)
        names[re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", plain)] = value
    if kind == "t5" and "shared.weight" in names:  # T5 1.1 may be saved with tied logits
        names.setdefault("lm_head.weight", names["shared.weight"])
    return names


def _inputs(kind: str, config: Any) -> tuple[Any, ...]:
    if kind in ("vit", "resnet"):
        size = getattr(config, "image_size", 32)
        return (jnp.zeros((1, size, size, 3)),)
    tokens = jnp.zeros((1, 1), jnp.int32)
    return (tokens, tokens) if kind == "t5" else (tokens,)


def _fill(shapes: Any, path: tuple[str, ...], table: Table, tensors: Mapping, used: set) -> Any:
    """The arrays of a tree of shapes, each found by its path."""
    if isinstance(shapes, Mapping):
        return {k: _fill(v, (*path, k), table, tensors, used) for k, v in shapes.items()}
    ours = "/".join(path)
    source, form = table.find(ours)
    if source not in tensors:
        raise ValueError(f"{source!r} is missing; {ours} is read from it")
    used.add(source)
    value = form(np.asarray(tensors[source]))
    if not _is_regrouped(value.shape, shapes.shape):
        raise ValueError(
            f"{source!r} has the shape {np.shape(tensors[source])}, which does not fit "
            f"{ours} of {shapes.shape}"
        )
    return jnp.asarray(value.reshape(shapes.shape).astype(np.float32))


def _is_regrouped(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether the target has the same axes, some of them split into heads."""
    rest = list(target)
    for size in shape:
        product = rest.pop(0) if rest else 0
        while rest and 0 < product < size:
            product *= rest.pop(0)
        if product != size:
            return False
    return all(size == 1 for size in rest)
