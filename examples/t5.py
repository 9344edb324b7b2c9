"""T5 (Raffel et al. 2020), configured by a gin file, reads the names of Unicode's characters.

Text to text: ``"LATIN SMALL LETTER A WITH ACUTE" → "Ll"``, the character's general category. Data:
the names inside Python's ``unicodedata``, below U+3000, a tenth held out, as a task of
``weft.train.tasks``: bytes as ByT5 reads and writes them, and the share of right answers as its
metric. ``t5.gin`` beside this file has the sizes of model, task and training. Baseline: naive Bayes
on the words of a name. Target: at most its errors.
"""

import collections
import functools
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
from weft.train import tasks
from weft.train.vocabularies import ByteVocabulary

gin.external_configurable(T5Config)
gin.external_configurable(ByteVocabulary)
gin.external_configurable(tasks.EncDecFeatureConverter)
gin.external_configurable(tasks.Evaluator)


def names(longest):
    """Names and categories, in a random order that is always the same."""
    found = [(unicodedata.name(chr(n), ""), unicodedata.category(chr(n))) for n in range(0x3000)]
    found = [pair for pair in found if 0 < len(pair[0]) < longest]
    order = np.random.default_rng(0).permutation(len(found))
    return [{"inputs": found[i][0], "targets": found[i][1]} for i in order]


@gin.configurable
def categories(vocabulary, lengths, held_out=0.1, most=None):
    """The task: names in, categories out, judged by how many are right."""
    pairs = names(lengths["inputs"])
    count = int(len(pairs) * held_out)
    return tasks.Task(
        "categories",
        source={"train": pairs[count:], "validation": pairs[:count][:most]},
        output_features={name: tasks.Feature(vocabulary) for name in ("inputs", "targets")},
        preprocessors=[tasks.preprocessors.tokenize, tasks.preprocessors.append_eos],
        metric_fns=[tasks.metrics.accuracy],
    )


@gin.configurable
def optimiser(steps, rate, warmup):
    schedule = optim.warmup_cosine_decay_schedule(0.0, rate, min(warmup, steps // 4), steps)
    return optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(schedule, weight_decay=1e-2))


def loss_of(model):
    """A function of parameters and of what the feature converter makes."""

    def loss(params, batch):
        targets, weights = batch["decoder_target_tokens"], batch["decoder_loss_weights"]
        given = batch["encoder_input_tokens"], batch["decoder_input_tokens"], targets
        logits = model.apply({"params": params}, *given)
        value = optim.softmax_cross_entropy_with_integer_labels(logits, targets)
        return (value * weights).sum() / weights.sum()

    return loss


def create_state(model, lengths, seed, steps):
    shapes = (jnp.ones((1, lengths[name]), int) for name in ("inputs", "targets"))
    params = model.init(weft.random.key(seed), *shapes)["params"]
    return train.TrainState.create(apply_fn=model.apply, params=params, tx=optimiser(steps))


@gin.configurable
def train_t5(chosen, task, config, converter, evaluator, lengths, steps, batch):
    """The share of wrong answers, after training with the sizes that gin gives."""
    model = T5(config)
    state = create_state(model, lengths, chosen.seed, steps)
    step = train.make_step(loss_of(model))

    @weft.jit
    def write(params, batch):
        """Answers, token by token."""
        inputs = batch["encoder_input_tokens"]
        return model.generate({"params": params}, inputs, max_length=lengths["targets"])

    evaluate = evaluator(task, converter, sequence_length=lengths).evaluate
    elements = task.get_dataset(lengths, seed=chosen.seed, num_epochs=None)
    batches = iter(converter(elements, lengths).batch(batch))
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            state, outputs = step(state, next(batches))
            if number % 100 == 0 or number == steps:
                found = evaluate(functools.partial(write, state.params))
                wrong = 1 - found[task.name]["accuracy"]
                writer.write_scalars(number, {"loss": outputs["loss"], "test_error": wrong})
    return wrong


def naive_bayes(data, test):
    """The share of wrong categories, from counts of words in the names of each category."""
    words, totals = collections.defaultdict(collections.Counter), collections.Counter()
    for pair in data:
        words[pair["targets"]].update(set(pair["inputs"].split()))
        totals[pair["targets"]] += 1

    def score(name, category):
        seen, total = words[category], totals[category]
        shares = (math.log((seen[word] + 0.1) / (total + 1)) for word in set(name.split()))
        return math.log(total) + sum(shares)

    best = lambda name: max(totals, key=lambda category: score(name, category))
    return np.mean([best(pair["inputs"]) != pair["targets"] for pair in test])


def main():
    chosen = options(__doc__)
    short = ["train_t5.steps = 60", "train_t5.batch = 32", "T5Config.encoder_layers = 1"]
    short += ["categories.most = 100"]
    file = Path(__file__).with_suffix(".gin")
    gin.parse_config_files_and_bindings([str(file)], short if chosen.short else [])
    task = categories()
    data, test = (list(task.source.dataset(split)) for split in ("train", "validation"))
    wrong = train_t5(chosen, task)
    commonest = collections.Counter(pair["targets"] for pair in test).most_common(1)[0][1]
    (chosen.out / "config.gin").write_text(gin.operative_config_str(), encoding="utf-8")
    finish(
        chosen,
        "share of wrong categories",
        wrong,
        naive_bayes(data, test),
        "naive Bayes on words, computed beside it",
        short=1 - commonest / len(test),
        least=False,
        beside={"errors of the commonest category": 1 - commonest / len(test)},
        curve="test_error",
    )


if __name__ == "__main__":
    main()
