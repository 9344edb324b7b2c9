"""Where each parameter of a model is in the files of Hugging Face's transformers.

In our paths and in their names, ``{i}`` and ``{j}`` are numbers of layers.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

Form = Callable[[np.ndarray], np.ndarray]


def same(array: np.ndarray) -> np.ndarray:
    """Stored as it is here."""
    return array


def turned(array: np.ndarray) -> np.ndarray:
    """Stored as (outputs, inputs)."""
    return array.T


def conv(array: np.ndarray) -> np.ndarray:
    """Stored as (outputs, inputs, height, width)."""
    return np.transpose(array, (2, 3, 1, 0))


def third(array: np.ndarray, which: int) -> np.ndarray:
    """One of queries, keys and values, which are stored side by side."""
    return np.split(array, 3, axis=-1)[which]


@dataclasses.dataclass(frozen=True)
class Table:
    """The names of a kind of model.

    ``rows`` has theirs and the form by ours; ``prefix`` may stand before all of theirs; names that
    match ``ignored`` are of no use here.
    """

    rows: Mapping[str, tuple[str, Form]]
    prefix: str = ""
    ignored: str = ""

    def find(self, ours: str) -> tuple[str, Form]:
        """Their name and the form of one of our parameters."""
        for pattern, (theirs, form) in self.rows.items():
            regex = pattern.replace("{i}", r"(?P<i>\d+)").replace("{j}", r"(?P<j>\d+)")
            if match := re.fullmatch(regex, ours):
                return theirs.format(**match.groupdict()), form
        raise ValueError(f"the table has no {ours}")


def _dense(ours: str, theirs: str, form: Form = turned) -> dict[str, tuple[str, Form]]:
    return {f"{ours}/kernel": (f"{theirs}.weight", form), f"{ours}/bias": (f"{theirs}.bias", same)}


def _norm(ours: str, theirs: str) -> dict[str, tuple[str, Form]]:
    return {f"{ours}/scale": (f"{theirs}.weight", same), f"{ours}/bias": (f"{theirs}.bias", same)}


def _t5() -> Table:
    rows: dict[str, tuple[str, Form]] = {"token_embedder/embedding": ("shared.weight", same)}
    rows["decoder/logits_dense/kernel"] = ("lm_head.weight", turned)
    parts = {"encoder": [("attention", "Self", "attention")]}
    parts["decoder"] = [
        ("self_attention", "Self", "self_attention"),
        ("encoder_decoder_attention", "EncDec", "cross_attention"),
    ]
    for side, attentions in parts.items():
        rows[f"{side}/{side}_norm/scale"] = (f"{side}.final_layer_norm.weight", same)
        rows[f"{side}/token_embedder/embedding"] = (f"{side}.embed_tokens.weight", same)
        first = f"{side}.block.0.layer.0.SelfAttention"
        bias = f"{first}.relative_attention_bias.weight"
        rows[f"{side}/relpos_bias/rel_embedding"] = (bias, turned)
        ours, theirs = f"{side}/layers_{{i}}", f"{side}.block.{{i}}.layer"
        for n, (name, other, norm) in enumerate(attentions):
            rows[f"{ours}/pre_{norm}_layer_norm/scale"] = (f"{theirs}.{n}.layer_norm.weight", same)
            for part in ("query", "key", "value", "out"):
                letter = "o" if part == "out" else part[0]
                weight = f"{theirs}.{n}.{other}Attention.{letter}.weight"
                rows[f"{ours}/{name}/{part}/kernel"] = (weight, turned)
        n = len(attentions)
        rows[f"{ours}/pre_mlp_layer_norm/scale"] = (f"{theirs}.{n}.layer_norm.weight", same)
        for part in ("wi", "wi_0", "wi_1", "wo"):
            weight = f"{theirs}.{n}.DenseReluDense.{part}.weight"
            rows[f"{ours}/mlp/{part}/kernel"] = (weight, turned)
    ignored = r"(en|de)coder\.embed_tokens\.weight|lm_head\.weight"
    # Old files have relative positions of this attention, which never had an effect.
    ignored += r"|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    return Table(rows, "", ignored)


def _gpt2() -> Table:
    rows: dict[str, tuple[str, Form]] = {
        "tokens/embedding": ("wte.weight", same),
        "places/embedding": ("wpe.weight", same),
        "logits/kernel": ("lm_head.weight", turned),
        **_norm("norm", "ln_f"),
    }
    ours, theirs = "layers_{i}", "h.{i}"
    for n, part in enumerate(("query", "key", "value")):
        for leaf, name in (("kernel", "weight"), ("bias", "bias")):
            form = partial(third, which=n)
            rows[f"{ours}/attention/{part}/{leaf}"] = (f"{theirs}.attn.c_attn.{name}", form)
    rows |= _dense(f"{ours}/attention/out", f"{theirs}.attn.c_proj", same)
    rows |= _dense(f"{ours}/mlp/up", f"{theirs}.mlp.c_fc", same)
    rows |= _dense(f"{ours}/mlp/down", f"{theirs}.mlp.c_proj", same)
    rows |= _norm(f"{ours}/norm_1", f"{theirs}.ln_1") | _norm(f"{ours}/norm_2", f"{theirs}.ln_2")
    return Table(rows, "transformer.", r"h\.\d+\.attn\.(masked_)?bias|lm_head\.weight")


def _llama() -> Table:
    rows: dict[str, tuple[str, Form]] = {
        "tokens/embedding": ("embed_tokens.weight", same),
        "logits/kernel": ("lm_head.weight", turned),
        **_norm("norm", "norm"),
    }
    ours, theirs = "layers_{i}", "layers.{i}"
    for part in ("query", "key", "value", "out"):
        letter = "o" if part == "out" else part[0]
        rows |= _dense(f"{ours}/attention/{part}", f"{theirs}.self_attn.{letter}_proj")
    # What linen.FFN activates is ``up``, and what theirs activates is ``gate_proj``.
    for part, other in (("up", "gate"), ("gate", "up"), ("down", "down")):
        rows |= _dense(f"{ours}/mlp/{part}", f"{theirs}.mlp.{other}_proj")
    rows |= _norm(f"{ours}/norm_1", f"{theirs}.input_layernorm")
    rows |= _norm(f"{ours}/norm_2", f"{theirs}.post_attention_layernorm")
    return Table(rows, "model.", r"lm_head\.weight|.*rotary_emb\.inv_freq")


def _bert() -> Table:
    embeddings, head = "embeddings", "cls.predictions"
    rows: dict[str, tuple[str, Form]] = {
        "tokens/embedding": (f"{embeddings}.word_embeddings.weight", same),
        "places/embedding": (f"{embeddings}.position_embeddings.weight", same),
        "token_types/embedding": (f"{embeddings}.token_type_embeddings.weight", same),
        "masked_lm_bias": (f"{head}.bias", same),
        **_norm("norm", f"{embeddings}.LayerNorm"),
        **_dense("pooler", "pooler.dense"),
        **_dense("masked_lm", f"{head}.transform.dense"),
        **_norm("masked_lm_norm", f"{head}.transform.LayerNorm"),
    }
    ours, theirs = "layers_{i}", "encoder.layer.{i}"
    for part in ("query", "key", "value"):
        rows |= _dense(f"{ours}/attention/{part}", f"{theirs}.attention.self.{part}")
    rows |= _dense(f"{ours}/attention/out", f"{theirs}.attention.output.dense")
    rows |= _norm(f"{ours}/norm_1", f"{theirs}.attention.output.LayerNorm")
    rows |= _dense(f"{ours}/mlp/up", f"{theirs}.intermediate.dense")
    rows |= _dense(f"{ours}/mlp/down", f"{theirs}.output.dense")
    rows |= _norm(f"{ours}/norm_2", f"{theirs}.output.LayerNorm")
    ignored = r"embeddings\.position_ids|cls\.seq_relationship\..*|cls\.predictions\.decoder\..*"
    return Table(rows, "bert.", ignored)


def _vit() -> Table:
    rows: dict[str, tuple[str, Form]] = {
        "token": ("embeddings.cls_token", same),
        "positions": ("embeddings.position_embeddings", same),
        **_dense("embed", "embeddings.patch_embeddings.projection", conv),
        **_norm("norm", "layernorm"),
        **_dense("head", "classifier"),
    }
    ours, theirs = "layers_{i}", "encoder.layer.{i}"
    for part in ("query", "key", "value"):
        rows |= _dense(f"{ours}/attention/{part}", f"{theirs}.attention.attention.{part}")
    rows |= _dense(f"{ours}/attention/out", f"{theirs}.attention.output.dense")
    rows |= _dense(f"{ours}/mlp/up", f"{theirs}.intermediate.dense")
    rows |= _dense(f"{ours}/mlp/down", f"{theirs}.output.dense")
    rows |= _norm(f"{ours}/norm_1", f"{theirs}.layernorm_before")
    rows |= _norm(f"{ours}/norm_2", f"{theirs}.layernorm_after")
    return Table(rows, "vit.", r"pooler\..*")


def _resnet() -> Table:
    rows: dict[str, tuple[str, Form]] = _dense("head", "classifier.1")
    block, layers = "stage_{i}_block_{j}", "encoder.stages.{i}.layers.{j}"
    places = {"stem": "embedder.embedder", f"{block}/shortcut": f"{layers}.shortcut"}
    pairs = [(f"{ours}_conv", f"{ours}_norm", theirs) for ours, theirs in places.items()]
    for n in range(3):
        names = f"{block}/conv_{n + 1}", f"{block}/norm_{n + 1}"
        pairs.append((*names, f"{layers}.layer.{n}"))
    for kernel, norm, theirs in pairs:
        rows[f"{kernel}/kernel"] = (f"{theirs}.convolution.weight", conv)
        rows |= _norm(norm, f"{theirs}.normalization")
        for ours, other in (("mean", "running_mean"), ("var", "running_var")):
            rows[f"{norm}/{ours}"] = (f"{theirs}.normalization.{other}", same)
    return Table(rows, "resnet.", r".*\.num_batches_tracked")


TABLES = {
    "t5": _t5(),
    "gpt2": _gpt2(),
    "llama": _llama(),
    "bert": _bert(),
    "vit": _vit(),
    "resnet": _resnet(),
}
