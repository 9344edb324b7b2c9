"""Sequence tagging: what kind of token does each letter of a line of Python belong to?

Data: lines of the standard library, tagged by ``tokenize``. Letters say little by themselves: a
quote begins or ends a string, an ``e`` is in a keyword, a name, a number or a comment. The network
is a bidirectional LSTM. The baseline is the classical tagger: a hidden Markov model with counted
probabilities, decoded by Viterbi's algorithm. Target: at most a quarter of its errors.
"""

import io
import keyword
import sysconfig
import tokenize
from pathlib import Path

import numpy as np
from outcome import finish, options

import weft
from weft import lax, optim, train
from weft import linen as nn
from weft import numpy as jnp

TAGS = ("space", "name", "keyword", "number", "string", "comment", "operator")
FILES = (
    "argparse ast calendar csv difflib fractions heapq inspect pathlib random shutil typing".split()
)
LENGTH, LETTERS = 64, 128


def tag_of(token):
    if token.type == tokenize.NAME:
        return "keyword" if keyword.iskeyword(token.string) else "name"
    kinds = {tokenize.NUMBER: "number", tokenize.STRING: "string", tokenize.COMMENT: "comment"}
    if "STRING_" in tokenize.tok_name[token.type]:  # parts of f-strings, from Python 3.12 on
        return "string"
    return kinds.get(token.type, "operator" if token.type == tokenize.OP else None)


def tagged_lines(path, length):
    """Pairs of a line and the tags of its letters; lines of tokens that span lines are left out."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tags = [[0] * len(line) for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (row, start), (last, end) = token.start, token.end
        if last > row:
            for number in range(row, min(last, len(lines)) + 1):
                tags[number - 1] = None
        elif tag_of(token) and tags[row - 1] is not None:
            tags[row - 1][start:end] = [TAGS.index(tag_of(token))] * (end - start)
    for line, row in zip(lines, tags):
        if row and line.isascii() and line.strip() and len(line.strip()) <= length:
            skip = len(line) - len(line.lstrip())
            yield line[skip:].rstrip(), row[skip : len(line.rstrip())]


def dataset(files, length):
    """Letters and tags, padded with -1 tags; the last files are held out."""
    found = sysconfig.get_path("stdlib")
    paths = [Path(found, f"{name}.py") for name in files]
    paths = [path if path.exists() else path.with_suffix("") / "__init__.py" for path in paths]
    held_out = max(1, len(paths) // 6)
    for part in (paths[:-held_out], paths[-held_out:]):
        pairs = [pair for path in part for pair in tagged_lines(path, length)]
        letters = np.zeros((len(pairs), length), np.int32)
        tags = np.full((len(pairs), length), -1, np.int32)
        for row, (line, kinds) in enumerate(pairs):
            letters[row, : len(line)] = list(line.encode())
            tags[row, : len(line)] = kinds
        yield letters, tags


class Tagger(nn.Module):
    width: int = 64

    @nn.compact
    def __call__(self, letters):
        lengths = (letters > 0).sum(-1)
        x = nn.Embed(LETTERS, 32)(letters)
        cells = (nn.RNN(nn.OptimizedLSTMCell(self.width)) for _ in range(2))
        x = nn.Bidirectional(*cells)(x, seq_lengths=lengths)
        return nn.Dense(len(TAGS))(nn.relu(nn.Dense(64)(x)))


network = Tagger()


def loss(params, batch):
    letters, tags = batch
    logits = network.apply({"params": params}, letters)
    value = optim.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(tags, 0))
    return (value * (tags >= 0)).sum() / (tags >= 0).sum()


def create_state(seed, steps):
    params = network.init(weft.random.key(seed), jnp.zeros((1, LENGTH), int))["params"]
    tx = optim.adam(optim.cosine_decay_schedule(5e-3, steps))
    return train.TrainState.create(apply_fn=network.apply, params=params, tx=tx)


@weft.jit
def viterbi(first, transitions, emissions, letters):
    """The likeliest tags of a line, from logarithms of a hidden Markov model's probabilities."""

    def forward(scores, letter):
        paths = scores[:, None] + transitions
        return paths.max(0) + emissions[:, letter], paths.argmax(0)

    scores, came_from = lax.scan(forward, first + emissions[:, letters[0]], letters[1:])
    back = lambda tag, sources: (sources[tag], sources[tag])
    last = scores.argmax()
    _, tags = lax.scan(back, last, came_from, reverse=True)
    return jnp.append(tags, last)


def hidden_markov_model(letters, tags):
    """Logarithms of counted probabilities, with one added to each count."""
    here = tags >= 0
    count = lambda shape, *where: np.add.at(table := np.ones(shape), where, 1) or table
    kinds = len(TAGS)
    pairs = here[:, 1:]
    first = count(kinds, tags[:, 0])
    moves = count((kinds, kinds), tags[:, :-1][pairs], tags[:, 1:][pairs])
    shown = count((kinds, LETTERS), tags[here], letters[here])
    return [np.log(x / x.sum(-1, keepdims=True)).astype(np.float32) for x in (first, moves, shown)]


def error(found, tags):
    return 1 - (np.asarray(found) == tags)[tags >= 0].mean()


def main():
    chosen = options(__doc__, steps=300, batch=64)
    steps, size = (100, 32) if chosen.short else (chosen.steps, chosen.batch)
    data, test = dataset(*((("calendar", "heapq"), 24) if chosen.short else (FILES, LENGTH)))
    if chosen.short:
        test = tuple(x[:100] for x in test)
    model = hidden_markov_model(*data)
    # An impossible letter costs nothing behind the end of a line: all tags are equal there.
    model[2][:, 0] = 0
    known = error(weft.vmap(viterbi, (None, None, None, 0))(*model, test[0]), test[1])
    state, step = create_state(chosen.seed, steps), train.make_step(loss)
    tagged = weft.jit(lambda params, x: network.apply({"params": params}, x).argmax(-1))
    rng = np.random.default_rng(chosen.seed)
    with train.writers.create_default_writer(chosen.out, total_steps=steps) as writer:
        for number in range(1, steps + 1):
            rows = rng.integers(len(data[0]), size=size)
            state, outputs = step(state, (data[0][rows], data[1][rows]))
            if number % 50 == 0 or number == steps:
                wrong = error(tagged(state.params, test[0]), test[1])
                writer.write_scalars(number, {"loss": outputs["loss"], "test_error": wrong})
    finish(
        chosen,
        "share of wrong tags",
        wrong,
        known / 4,
        "a quarter of the errors of a hidden Markov model",
        short=1.25 * known,
        least=False,
        beside={"errors of a hidden Markov model": known},
        curve="test_error",
    )


if __name__ == "__main__":
    main()
