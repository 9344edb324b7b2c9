"""A transformer trained on eight devices: batches over four of them, weights over two.

The devices are eight parts of the CPU; on eight GPUs or eight processes the program is the same.
One argument divides the step: rules that say along which axis of the mesh each weight lies. Data:
the help texts that come with Python, letter by letter. Target: the losses are those of one device
to 0.001, and held-out text takes fewer bits than pairs of letters, counted, need.
"""

import os

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")  # before weft is imported

import numpy as np
from language_model import n_gram_bits, text
from outcome import finish, options

import weft
from weft import P, optim, train
from weft import linen as nn
from weft import numpy as jnp

LENGTH, WORDS = 32, 128
# Products of two weights: the first is divided by columns, the second by rows.
RULES = [
    ("(query|key|value)/kernel", P(None, "model", None)),
    ("out/kernel", P("model", None, None)),
    ("up/kernel", P(None, "model")),
    ("down/kernel", P("model", None)),
]


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        width = x.shape[-1]
        x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x), mask=mask)
        h = nn.gelu(nn.Dense(4 * width, name="up")(nn.LayerNorm()(x)))
        return x + nn.Dense(width, name="down")(h)


class Transformer(nn.Module):
    width: int = 64
    layers: int = 2

    @nn.compact
    def __call__(self, tokens):
        length = tokens.shape[1]
        x = nn.Embed(WORDS, self.width)(tokens)
        x = x + self.param("position", nn.initializers.normal(0.02), (length, self.width))
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.layers):
            x = Block()(x, mask)
        return nn.Dense(WORDS)(nn.LayerNorm()(x))


network = Transformer()


def loss(params, tokens):
    """Mean negative log-likelihood, in nats a letter."""
    logits = network.apply({"params": params}, tokens[:, :-1])
    return optim.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.zeros((1, LENGTH), int))["params"]
    tx = optim.adam(optim.warmup_cosine_decay_schedule(0.0, 5e-3, steps // 10, steps))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


def main():
    chosen = options(__doc__, steps=350, batch=32)
    steps = 10 if chosen.short else chosen.steps
    tokens = text()
    learned, held_out = np.split(tokens, [len(tokens) * 9 // 10])
    if chosen.short:
        learned, held_out = learned[:30_000], held_out[:2000]
    mesh = weft.make_mesh((4, 2), ("data", "model"), 2 * (weft.sharding.AxisType.Auto,))
    step = train.make_step(loss, mesh=mesh, sharding=RULES)
    state = step.place(create_state(chosen.seed, steps))
    kernel = state.params["Block_0"]["up"]["kernel"]
    part = kernel.addressable_shards[0].data
    print(f"a weight of shape {kernel.shape} has parts of shape {part.shape}")
    alone, alone_state = train.make_step(loss), create_state(chosen.seed, steps)
    rng, apart, compared = np.random.default_rng(chosen.seed), 0.0, 5
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            starts = rng.integers(len(learned) - LENGTH, size=chosen.batch)
            batch = learned[starts[:, None] + np.arange(LENGTH + 1)]
            state, outputs = step(state, batch)
            if number <= compared:
                alone_state, single = alone(alone_state, batch)
                apart = max(apart, abs(float(single["loss"]) - float(outputs["loss"])))
            if number % 10 == 0:
                writer.write_scalars(number, {"loss": outputs["loss"]})
    # The state is divided; a checkpoint of it can be restored on one device, or on any mesh.
    with train.CheckpointManager(chosen.out / "checkpoints", keep=1) as manager:
        manager.save(steps, state)
        whole = manager.restore(target=create_state(chosen.seed, steps))
    rows = held_out[: len(held_out) // (LENGTH + 1) * (LENGTH + 1)].reshape(-1, LENGTH + 1)[:512]
    bits = float(weft.jit(loss)(whole.params, rows)) / np.log(2)
    assert apart <= 1e-3, f"losses of eight devices and of one are {apart} apart"
    finish(
        chosen,
        "bits per character",
        bits,
        n_gram_bits(learned, held_out, 2),
        "pairs of letters, counted",
        short=6.5,
        least=False,
        beside={f"largest difference from one device in {compared} steps": apart},
        curve="loss",
    )


if __name__ == "__main__":
    main()
