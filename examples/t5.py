"""T5 (Raffel et al. 2020), configured by a gin file, reads the names of Unicode's characters.

Text to text: ``"LATIN SMALL LETTER A WITH ACUTE" → "Ll"``, the character's general category. Data:
the names inside Python's ``unicodedata``, below U+3000, a tenth held out. The model reads and
writes bytes, as ByT5 does; ``t5.gin`` beside this file has its sizes. Baseline: naive Bayes on the
words of a name. Target: at most its errors.
"""

import collections
import math
import unicodedata
from pathlib import Path

import gin
import numpy as np
from outcome import finish, options

import weft
from weft import numpy as jnp
from weft import optim, train
from weft.linen.architectures.t5 import T5, T5Config

LONGEST, ANSWER, FIRST = 40, 3, 3  # letters of a name, of an answer with its end, the first byte
gin.external_configurable(T5Config)


def names():
    """Pairs of a name and a category, in a random order that is always the same."""
    found = [(unicodedata.name(chr(n), ""), unicodedata.category(chr(n))) for n in range(0x3000)]
    found = [pair for pair in found if 0 < len(pair[0]) < LONGEST]
    return [found[i] for i in np.random.default_rng(0).permutation(len(found))]


def encoded(texts, length):
    """Bytes from 3 on; 1 ends a text, and 0 is behind it."""
    tokens = np.zeros((len(texts), length), np.int32)
    for row, text in zip(tokens, texts):
        row[: len(text) + 1] = [*(byte + FIRST for byte in text.encode()), 1]
    return tokens


@gin.configurable
def optimiser(steps, rate, warmup):
    schedule = optim.warmup_cosine_decay_schedule(0.0, rate, min(warmup, steps // 4), steps)
    return optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(schedule, weight_decay=1e-2))


def loss_of(model):
    def loss(params, batch):
        names, answers = batch
        before = jnp.pad(answers, ((0, 0), (1, 0)))[:, :-1]
        logits = model.apply({"params": params}, names, before, answers)
        value = optim.softmax_cross_entropy_with_integer_labels(logits, answers)
        return (value * (answers > 0)).sum() / (answers > 0).sum()

    return loss


def create_state(model, seed, steps):
    shapes = jnp.ones((1, LONGEST), int), jnp.ones((1, ANSWER), int)
    params = model.init(weft.random.key(seed), *shapes)["params"]
    return train.TrainState.create(apply_fn=model.apply, params=params, tx=optimiser(steps))


@gin.configurable
def train_t5(chosen, data, test, config, steps, batch):
    """The share of wrong answers, after training with the sizes that gin gives."""
    model = T5(config)
    state, step = create_state(model, chosen.seed, steps), train.make_step(loss_of(model))
    # ``generate`` writes token by token, each after those before it.
    write = weft.jit(lambda params, x: model.generate({"params": params}, x, max_length=ANSWER))
    rng = np.random.default_rng(chosen.seed)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            rows = rng.integers(len(data[0]), size=batch)
            state, outputs = step(state, (data[0][rows], data[1][rows]))
            if number % 100 == 0 or number == steps:
                written = np.asarray(write(state.params, test[0]))[:, : ANSWER - 1]
                wrong = (written != test[1][:, : ANSWER - 1]).any(1).mean()
                writer.write_scalars(number, {"loss": outputs["loss"], "test_error": wrong})
    return wrong


def naive_bayes(data, test):
    """The share of wrong categories, from counts of words in the names of each category."""
    words, totals = collections.defaultdict(collections.Counter), collections.Counter()
    for name, category in data:
        words[category].update(set(name.split()))
        totals[category] += 1

    def score(name, category):
        seen, total = words[category], totals[category]
        shares = (math.log((seen[word] + 0.1) / (total + 1)) for word in set(name.split()))
        return math.log(total) + sum(shares)

    found = [max(totals, key=lambda category: score(name, category)) for name, _ in test]
    return np.mean([one != category for one, (_, category) in zip(found, test)])


def main():
    chosen = options(__doc__)
    short = ["train_t5.steps = 60", "train_t5.batch = 32", "T5Config.encoder_layers = 1"]
    file = Path(__file__).with_suffix(".gin")
    gin.parse_config_files_and_bindings([str(file)], short if chosen.short else [])
    pairs = names()
    test, data = pairs[: len(pairs) // 10], pairs[len(pairs) // 10 :]
    if chosen.short:
        test = test[:100]
    known = naive_bayes(data, test)
    arrays = [
        (encoded([name for name, _ in part], LONGEST), encoded([kind for _, kind in part], ANSWER))
        for part in (data, test)
    ]
    wrong = train_t5(chosen, *arrays)
    commonest = collections.Counter(kind for _, kind in test).most_common(1)[0][1] / len(test)
    (chosen.out / "config.gin").write_text(gin.operative_config_str(), encoding="utf-8")
    finish(
        chosen,
        "share of wrong categories",
        wrong,
        known,
        "naive Bayes on words, computed beside it",
        short=1 - commonest,
        least=False,
        beside={"errors of the commonest category": 1 - commonest},
        curve="test_error",
    )


if __name__ == "__main__":
    main()
