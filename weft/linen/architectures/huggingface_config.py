"""Configurations of Hugging Face's transformers as ours, or an error that names what differs."""

from collections.abc import Mapping
from typing import Any

from weft.linen.architectures.bert import BERTConfig
from weft.linen.architectures.config import Config
from weft.linen.architectures.gpt import GPTConfig
from weft.linen.architectures.resnet import ResNetConfig
from weft.linen.architectures.t5_config import T5Config
from weft.linen.architectures.vit import ViTConfig


def _need(config: Mapping[str, Any], **allowed: Any) -> None:
    """Fail where an option has a value that our model does not compute."""
    for name, values in allowed.items():
        if name in config and config[name] not in values:
            known = " or ".join(repr(value) for value in values)
            raise ValueError(f"config.json has {name}={config[name]!r}; supported is {known}")


def _t5(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    known = ("relu", "gated-gelu", "gated-silu")
    _need(config, feed_forward_proj=known)
    kind = config.get("feed_forward_proj", "relu")
    tied = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    layers = config.get("num_layers", 6)
    return T5Config(
        vocab_size=config.get("vocab_size", 32128),
        features=config.get("d_model", 512),
        num_heads=config.get("num_heads", 8),
        head_dim=config.get("d_kv", 64),
        hidden=config.get("d_ff", 2048),
        encoder_layers=layers,
        decoder_layers=config.get("num_decoder_layers") or layers,
        gated=kind.startswith("gated-"),
        activation=kind.removeprefix("gated-"),
        tie_logits=tied,
        position_buckets=config.get("relative_attention_num_buckets", 32),
        max_distance=config.get("relative_attention_max_distance", 128),
        epsilon=config.get("layer_norm_epsilon", 1e-6),
    )


def _gpt2(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    _need(
        config,
        activation_function=("gelu_new", "gelu_pytorch_tanh"),
        scale_attn_weights=(True,),
        scale_attn_by_inverse_layer_idx=(False,),
        add_cross_attention=(False,),
    )
    features = config.get("n_embd", 768)
    return GPTConfig.named(
        "gpt2",
        vocab_size=config.get("vocab_size", 50257),
        max_length=config.get("n_positions", 1024),
        features=features,
        hidden=config.get("n_inner") or 4 * features,
        num_layers=config.get("n_layer", 12),
        num_heads=config.get("n_head", 12),
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        tie_logits=config.get("tie_word_embeddings", True),
    )


def _llama(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    _need(
        config,
        hidden_act=("silu",),
        attention_bias=(False,),
        mlp_bias=(False,),
        rope_scaling=(None,),
    )
    rope = config.get("rope_parameters") or {}
    _need(rope, rope_type=("default",))
    heads = config.get("num_attention_heads", 32)
    return GPTConfig(
        vocab_size=config.get("vocab_size", 32000),
        max_length=config.get("max_position_embeddings", 2048),
        features=config.get("hidden_size", 4096),
        hidden=config.get("intermediate_size", 11008),
        num_layers=config.get("num_hidden_layers", 32),
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim"),
        rotary_base=rope.get("rope_theta", config.get("rope_theta", 10000.0)),
        epsilon=config.get("rms_norm_eps", 1e-6),
        tie_logits=config.get("tie_word_embeddings", False),
    )


def _bert(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    _need(
        config,
        hidden_act=("gelu",),
        position_embedding_type=("absolute",),
        is_decoder=(False,),
        add_cross_attention=(False,),
    )
    return BERTConfig(
        vocab_size=config.get("vocab_size", 30522),
        max_length=config.get("max_position_embeddings", 512),
        token_types=config.get("type_vocab_size", 2),
        features=config.get("hidden_size", 768),
        hidden=config.get("intermediate_size", 3072),
        num_layers=config.get("num_hidden_layers", 12),
        num_heads=config.get("num_attention_heads", 12),
        epsilon=config.get("layer_norm_eps", 1e-12),
        pooler="pooler.dense.weight" in tensors,
        masked_lm="cls.predictions.bias" in tensors,
    )


def _vit(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    _need(config, hidden_act=("gelu",), qkv_bias=(True,), num_channels=(3,))
    if "classifier.bias" not in tensors:
        raise ValueError("there is no 'classifier.bias': save a model for image classification")
    return ViTConfig(
        image_size=config.get("image_size", 224),
        patch_size=config.get("patch_size", 16),
        features=config.get("hidden_size", 768),
        hidden=config.get("intermediate_size", 3072),
        num_layers=config.get("num_hidden_layers", 12),
        num_heads=config.get("num_attention_heads", 12),
        num_classes=len(tensors["classifier.bias"]),
        epsilon=config.get("layer_norm_eps", 1e-12),
    )


def _resnet(config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    _need(
        config,
        hidden_act=("relu",),
        downsample_in_bottleneck=(False,),
        downsample_in_first_stage=(False,),
        layer_type=("basic", "bottleneck"),
        num_channels=(3,),
    )
    bottleneck = config.get("layer_type", "bottleneck") == "bottleneck"
    widths = config.get("hidden_sizes", [256, 512, 1024, 2048])
    widths = tuple(width // 4 if bottleneck else width for width in widths)
    _need(config, embedding_size=(widths[0],))
    if "classifier.1.bias" not in tensors:
        raise ValueError("there is no 'classifier.1.bias': save a model for image classification")
    return ResNetConfig(
        depths=tuple(config.get("depths", (3, 4, 6, 3))),
        features=widths,
        bottleneck=bottleneck,
        num_classes=len(tensors["classifier.1.bias"]),
    )


_READERS = {
    "t5": _t5,
    "gpt2": _gpt2,
    "llama": _llama,
    "bert": _bert,
    "vit": _vit,
    "resnet": _resnet,
}


def config_of(kind: str, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Config:
    """Our configuration for what ``config.json`` has, and for the arrays that there are.

    >>> config_of("gpt2", {"n_embd": 64, "n_head": 4}, {}).features
    64
    """
    return _READERS[kind](config, tensors)
