"""GPT, a decoder that writes text: with rotary positions and grouped queries, or as GPT-2 is.

References: Radford et al., Language Models Are Unsupervised Multitask Learners, 2019; Su et al.,
RoFormer, 2021; Ainslie et al., GQA, 2023; Touvron et al., Llama 2, 2023.
"""

import dataclasses
from typing import Any, ClassVar

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft.linen.architectures.config import Config, run_layers
from weft.linen.architectures.decoding import beam_search, sample


def _gpt2(features: int, num_layers: int, num_heads: int) -> dict[str, Any]:
    return {
        "features": features,
        "hidden": 4 * features,
        "num_layers": num_layers,
        "num_heads": num_heads,
        "positions": "learned",
        "norm": "layer",
        "gated": False,
        "activation": "gelu",
        "use_bias": True,
        "tie_logits": True,
    }


def _llama(features: int, num_layers: int, heads: tuple[int, int], hidden: int, **more) -> dict:
    sizes = {"features": features, "hidden": hidden, "num_layers": num_layers}
    return {**sizes, "num_heads": heads[0], "num_kv_heads": heads[1], "epsilon": 1e-5, **more}


@dataclasses.dataclass(frozen=True)
class GPTConfig(Config):
    """The sizes of a GPT; by default with rotary positions, RMS norm and a gated SiLU.

    ``num_kv_heads`` heads of keys and values are shared by ``num_heads`` heads of queries; None
    gives each its own. ``head_dim=None`` is features / num_heads.

    >>> GPTConfig.named("gpt2-medium").num_layers
    24
    """

    vocab_size: int = 50257
    max_length: int = 1024
    features: int = 768
    hidden: int = 2048
    num_layers: int = 12
    num_heads: int = 12
    num_kv_heads: int | None = None
    head_dim: int | None = None
    positions: str = "rotary"
    rotary_base: float = 10000.0
    norm: str = "rms"
    epsilon: float = 1e-5
    gated: bool = True
    activation: str = "silu"
    use_bias: bool = False
    tie_logits: bool = False
    dropout_rate: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: Any = jnp.float32

    sizes: ClassVar = {
        "gpt2": _gpt2(768, 12, 12),
        "gpt2-medium": _gpt2(1024, 24, 16),
        "gpt2-large": _gpt2(1280, 36, 20),
        "gpt2-xl": _gpt2(1600, 48, 25),
        "tinyllama-1.1b": _llama(2048, 22, (32, 4), 5632, vocab_size=32000, max_length=2048),
        "llama-2-7b": _llama(4096, 32, (32, 32), 11008, vocab_size=32000, max_length=4096),
        "llama-3-8b": _llama(
            4096, 32, (32, 8), 14336, vocab_size=128256, max_length=8192, rotary_base=500000.0
        ),
    }


def _norm(config: GPTConfig, name: str) -> nn.Module:
    kinds = {"rms": nn.RMSNorm, "layer": nn.LayerNorm}
    if config.norm not in kinds:
        raise ValueError(f"norm={config.norm!r} is neither 'rms' nor 'layer'")
    return kinds[config.norm](config.epsilon, config.dtype, name=name)


class Layer(nn.Module):
    """Attention and the feed-forward part, each normalised before and added to its input."""

    config: GPTConfig
    decode: bool = False

    @nn.compact
    def __call__(self, x, mask=None, positions=None, deterministic: bool = True):
        """One layer over (batch, length, features)."""
        c = self.config
        drop = nn.Dropout(c.dropout_rate, deterministic=deterministic)
        init = nn.initializers.normal(0.02)
        shared = {"use_bias": c.use_bias, "dtype": c.dtype, "kernel_init": init}
        attention = nn.GroupedQueryAttention(
            c.num_heads,
            c.num_kv_heads or c.num_heads,
            head_dim=c.head_dim,
            rotary=c.positions == "rotary",
            rotary_base=c.rotary_base,
            causal=True,
            decode=self.decode,
            name="attention",
            **shared,
        )
        x = x + drop(attention(_norm(c, "norm_1")(x), mask, positions))
        mlp = nn.FFN(
            c.hidden, activation=getattr(nn, c.activation), gated=c.gated, name="mlp", **shared
        )
        return x + drop(mlp(_norm(c, "norm_2")(x), deterministic))


class GPT(nn.Module):
    """Tokens to logits of the tokens that follow.

    >>> config = GPTConfig(vocab_size=20, max_length=8, features=8, hidden=16, num_layers=2,
    ...                    num_heads=4, num_kv_heads=2)
    >>> model, tokens = GPT(config), jnp.array([[3, 4, 5]])
    >>> variables = model.init(weft.random.key(0), tokens)
    >>> model.apply(variables, tokens).shape
    (1, 3, 20)
    >>> model.generate(variables, tokens, max_length=6).shape
    (1, 6)
    """

    config: GPTConfig

    @nn.compact
    def __call__(
        self,
        tokens,
        positions=None,
        segment_ids=None,
        *,
        decode: bool = False,
        deterministic: bool = True,
    ):
        """The logits of the next tokens.

        Args:
            tokens: (batch, length) integers.
            positions: (batch, length) integers, for packed texts; by default 0, 1, 2, ...
            segment_ids: (batch, length), the numbers of texts packed into one row.
            decode: take one token a call and keep keys and values in the collection 'cache'. The
                call that makes it, with ``mutable=["cache"]``, has tokens of full length.
            deterministic: no dropout.

        Returns:
            Logits (batch, length, vocab_size), in float32.
        """
        c = self.config
        init = nn.initializers.normal(0.02)
        embed = nn.Embed(c.vocab_size, c.features, c.dtype, embedding_init=init, name="tokens")
        x = embed(tokens)
        if c.positions == "learned":
            positions = self._positions(tokens, decode) if positions is None else positions
            table = nn.Embed(c.max_length, c.features, c.dtype, embedding_init=init, name="places")
            x = x + table(positions)
        elif c.positions != "rotary":
            raise ValueError(f"positions={c.positions!r} is neither 'rotary' nor 'learned'")
        x = nn.Dropout(c.dropout_rate)(x, deterministic)
        mask = None
        if segment_ids is not None:
            mask = nn.make_attention_mask(segment_ids, segment_ids, jnp.equal)
        turns = positions if c.positions == "rotary" else None
        x = run_layers(
            lambda name: Layer(c, decode, name=name),
            c.num_layers,
            lambda layer, x: layer(x, mask, turns, deterministic),
            x,
            scan=c.scan_layers,
            remat=c.remat,
        )
        x = _norm(c, "norm")(x).astype(jnp.float32)
        if c.tie_logits:
            return x @ embed.embedding.T
        return nn.Dense(c.vocab_size, use_bias=False, kernel_init=init, name="logits")(x)

    def _positions(self, tokens, decode: bool):
        """0, 1, 2, ... or, when decoding, the next one."""
        length = tokens.shape[1]
        if not decode and length > self.config.max_length:
            raise ValueError(f"{length} tokens are more than max_length={self.config.max_length}")
        if not decode:
            return jnp.arange(length)[None]
        started = self.has_variable("cache", "position")
        position = self.variable("cache", "position", lambda: jnp.zeros((), jnp.int32))
        now = position.value
        position.value = now + 1 if started else now
        return now[None, None]

    @nn.nowrap
    def generate(
        self,
        variables: Any,
        prompt: Any,
        *,
        max_length: int,
        beams: int = 1,
        length_penalty: float = 0.6,
        eos_id: int | None = None,
        **sampling: Any,
    ):
        """Continue texts with the most likely next tokens, with drawn ones, or by a beam search.

        Args:
            variables: what ``init`` gave.
            prompt: (batch, length) integers; one token each for a beam search.
            max_length: how many tokens a text has at most, with its prompt.
            beams: from 2 up, how many candidates a beam search keeps.
            length_penalty: of the beam search.
            eos_id: the token that ends a text; a beam search needs one.
            sampling: ``prompt_lengths``, ``key``, ``temperature``, ``top_k`` and ``top_p`` of
                ``decoding.sample``.

        Returns:
            Tokens (batch, max_length), with zeros after the end.
        """
        if self.config.positions == "learned" and max_length > self.config.max_length:
            raise ValueError(
                f"{max_length} tokens are more than {self.config.max_length} positions"
            )
        params = {"params": variables["params"]}
        prompt = jnp.asarray(prompt)
        apply = lambda state, tokens: self.apply(state, tokens, decode=True, mutable=["cache"])

        def step(tokens, cache):
            logits, updates = apply({**params, "cache": cache}, tokens)
            return logits[:, -1], updates["cache"]

        whole = jnp.zeros((prompt.shape[0] * beams, max_length), prompt.dtype)
        shapes = weft.eval_shape(lambda: apply(params, whole))[1]["cache"]
        cache = weft.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        if beams == 1:
            options = {"max_length": max_length, "eos_id": eos_id}
            return sample(step, cache, prompt, **options, **sampling)
        if eos_id is None or prompt.shape[1] != 1:
            raise ValueError("a beam search needs eos_id and prompts of one token")
        axis = int(self.config.scan_layers)
        options = {"max_length": max_length, "length_penalty": length_penalty, "cache_axis": axis}
        return beam_search(step, cache, prompt, beams=beams, eos_id=eos_id, **options)[0][:, 0]
