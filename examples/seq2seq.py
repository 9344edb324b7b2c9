"""An LSTM encoder and decoder that learns to add, as flax's seq2seq example does.

Data: sums of two numbers of up to two digits as text, ``"35+82" → "117"``; the question is read
backwards, which helps (Sutskever et al. 2014). Target: 99 % of held-out sums right to the last
digit, after 5,000 different sums: the figure of Keras's example "addition_rnn" for LSTMs of 128
units.
"""

import numpy as np
from outcome import finish, options

import weft
from weft import linen as nn
from weft import numpy as jnp
from weft import optim, train

LETTERS = " 0123456789+="
QUESTION, ANSWER = 5, 4  # letters of a question, and of an answer with its end
START = LETTERS.index("=")


def encoded(texts, length):
    return np.array([[LETTERS.index(c) for c in text.ljust(length)] for text in texts], np.int32)


def sums(seed, numbers, train_size, test_size):
    """Questions and answers as tokens, each sum once: for training, and held out."""
    order = np.random.default_rng(seed).permutation(numbers**2)[: train_size + test_size]
    pairs = [divmod(int(number), numbers) for number in order]
    questions = encoded([f"{a}+{b}"[::-1] for a, b in pairs], QUESTION)
    answers = encoded([str(a + b) for a, b in pairs], ANSWER)
    return (questions[:train_size], answers[:train_size]), (
        questions[train_size:],
        answers[train_size:],
    )


class Seq2Seq(nn.Module):
    """An LSTM reads the question; another, started from its state, writes the answer."""

    width: int = 128

    @nn.compact
    def __call__(self, question, answer):
        """Logits of every letter of the answer, given those before it."""
        one_hot = lambda tokens: nn.one_hot(tokens, len(LETTERS))
        encoder = nn.RNN(nn.OptimizedLSTMCell(self.width), return_carry=True, name="encoder")
        carry, _ = encoder(one_hot(question))
        before = jnp.concatenate([jnp.full_like(answer[:, :1], START), answer[:, :-1]], 1)
        decoder = nn.RNN(nn.OptimizedLSTMCell(self.width), name="decoder")
        return nn.Dense(len(LETTERS))(decoder(one_hot(before), initial_carry=carry))


network = Seq2Seq()


def loss(params, batch):
    logits = network.apply({"params": params}, *batch)
    return optim.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()


def create_state(seed, steps):
    question, answer = jnp.zeros((1, QUESTION), int), jnp.zeros((1, ANSWER), int)
    params = network.init(weft.random.key(seed), question, answer)["params"]
    tx = optim.adam(optim.cosine_decay_schedule(4e-3, steps))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


@weft.jit
def answers(params, questions):
    """The answers, letter by letter: each is the likeliest after those before it."""

    def write(position, written):
        logits = network.apply({"params": params}, questions, written)
        return written.at[:, position].set(logits[:, position].argmax(-1).astype(written.dtype))

    empty = jnp.zeros((len(questions), ANSWER), questions.dtype)
    return weft.lax.fori_loop(0, ANSWER, write, empty)


def main():
    chosen = options(__doc__, steps=1600, batch=128)
    steps, every = (250, 250) if chosen.short else (chosen.steps, 50)
    data, test = sums(chosen.seed, *((30, 800, 100) if chosen.short else (100, 5000, 1000)))
    state, step = create_state(chosen.seed, steps), train.make_step(loss)
    rng = np.random.default_rng(chosen.seed)
    digit_share = whole_share = 0.0
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            rows = rng.integers(len(data[0]), size=32 if chosen.short else chosen.batch)
            state, outputs = step(state, (data[0][rows], data[1][rows]))
            if number % every == 0:
                right = np.asarray(answers(state.params, test[0])) == test[1]
                digit_share, whole_share = right.mean(), right.all(1).mean()
                scalars = {"loss": outputs["loss"], "right": whole_share, "letters": digit_share}
                writer.write_scalars(number, scalars)
    for question, answer in zip(test[0][:3], np.asarray(answers(state.params, test[0][:3]))):
        text = lambda tokens: "".join(LETTERS[token] for token in tokens).strip()
        print(text(question)[::-1], "=", text(answer))
    guess = np.mean([np.bincount(place).max() / len(place) for place in test[1].T])
    finish(
        chosen,
        "letters of held-out sums right" if chosen.short else "held-out sums right",
        digit_share if chosen.short else whole_share,
        0.99,
        "LSTMs of 128 units in Keras's example addition_rnn",
        short=0.65,
        beside={"letters right if every place has its commonest letter": guess},
        curve="right",
    )


if __name__ == "__main__":
    main()
