"""A transformer that learns to write Python's documentation, letter by letter.

Data: the help texts that come with Python (``pydoc_data.topics``), the last tenth held out. The
figure is bits per character of the held-out text. Baselines: xz, which compresses the held-out
text after it has seen the rest, and n-grams of up to four letters, interpolated by Witten and
Bell's method (1991). Target: fewer bits than the n-grams need.
"""

import collections
import lzma
import math
import pydoc_data.topics as topics

import numpy as np
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train

LENGTH, WORDS = 96, 128


def text():
    """Help texts as bytes, topic after topic."""
    whole = "\n".join(topics.topics[name] for name in sorted(topics.topics))
    return np.frombuffer(whole.encode("ascii", "replace"), np.uint8).astype(np.int32)


class Block(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        width = x.shape[-1]
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
        h = nn.gelu(nn.Dense(4 * width)(nn.LayerNorm()(x)))
        return x + nn.Dense(width)(h)


class Transformer(nn.Module):
    width: int = 128
    layers: int = 2
    heads: int = 4

    @nn.compact
    def __call__(self, tokens):
        length = tokens.shape[1]
        x = nn.Embed(WORDS, self.width)(tokens)
        # The last letters directly, too: what a letter is likely to be depends on them most.
        for back in (1, 2):
            shifted = jnp.pad(tokens, ((0, 0), (back, 0)))[:, :length]
            x = x + nn.Embed(WORDS, self.width)(shifted)
        x = x + self.param("position", nn.initializers.normal(0.02), (LENGTH, self.width))[:length]
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.layers):
            x = Block(self.heads)(x, mask)
        return nn.Dense(WORDS)(nn.LayerNorm()(x))


network = Transformer()


def loss(params, tokens):
    """Mean negative log-likelihood, in nats a letter."""
    logits = network.apply({"params": params}, tokens[:, :-1])
    return optim.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.zeros((1, LENGTH), int))["params"]
    rate = optim.warmup_cosine_decay_schedule(0.0, 4e-3, min(50, steps // 4), steps)
    tx = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(rate, weight_decay=1e-2))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


def bits_per_character(evaluate, params, tokens, length, batch=32):
    """Of every letter of a text but those that begin its pieces."""
    pieces = len(tokens) // (batch * (length + 1))
    rows = tokens[: pieces * batch * (length + 1)].reshape(pieces, batch, length + 1)
    return np.mean([evaluate(params, part) for part in rows]) / math.log(2)


def n_gram_bits(learned, tokens, order=4):
    """Bits per character of n-grams: each order falls back on the one below it."""
    counts = [collections.defaultdict(collections.Counter) for _ in range(order)]
    learned, tokens = bytes(learned.tolist()), bytes(tokens.tolist())
    for at in range(order, len(learned)):
        for n in range(order):
            counts[n][learned[at - n : at]][learned[at]] += 1
    totals = [{context: seen.total() for context, seen in table.items()} for table in counts]
    bits = 0.0
    for at in range(order, len(tokens)):
        share = 1 / WORDS
        for n in range(order):
            context = tokens[at - n : at]
            if context not in counts[n]:
                break
            seen, total = counts[n][context], totals[n][context]
            share = (seen[tokens[at]] + len(seen) * share) / (total + len(seen))
        bits -= math.log2(share)
    return bits / (len(tokens) - order)


def xz_bits(learned, tokens):
    size = lambda x: len(lzma.compress(bytes(x.tolist()), preset=9 | lzma.PRESET_EXTREME))
    return 8 * (size(np.concatenate([learned, tokens])) - size(learned)) / len(tokens)


def main():
    chosen = options(__doc__, steps=700, batch=16)
    steps, length = (30, 32) if chosen.short else (chosen.steps, LENGTH)
    tokens = text()
    learned, held_out = np.split(tokens, [len(tokens) * 9 // 10])
    if chosen.short:
        learned, held_out = learned[:60_000], held_out[:3000]
    beside = {
        "bits of n-grams of up to four letters": n_gram_bits(learned, held_out),
        "bits of n-grams of two letters": n_gram_bits(learned, held_out, 2),
        "bits of single letters": n_gram_bits(learned, held_out, 1),
        "bits of xz": xz_bits(learned, held_out),
    }
    state, step, evaluate = create_state(chosen.seed, steps), train.make_step(loss), weft.jit(loss)
    manager = train.CheckpointManager(chosen.out / "checkpoints", keep=1)
    rng = np.random.default_rng(chosen.seed)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            starts = rng.integers(len(learned) - length, size=chosen.batch)
            state, outputs = step(state, learned[starts[:, None] + np.arange(length + 1)])
            if number % 10 == 0:
                writer.write_scalars(number, {"loss": outputs["loss"]})
            if number % 100 == 0 or number == steps:
                bits = bits_per_character(evaluate, state.params, held_out, length)
                writer.write_scalars(number, {"test_bits": bits})
    manager.save(steps, state)
    manager.close()
    finish(
        chosen,
        "bits per character",
        bits,
        beside["bits of n-grams of up to four letters"],
        "n-grams of up to four letters, computed beside it",
        short=beside["bits of single letters"],
        least=False,
        beside=beside,
        curve="test_bits",
    )


if __name__ == "__main__":
    main()
