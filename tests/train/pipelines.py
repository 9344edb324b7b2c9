"""Random data pipelines for tests: the same for a seed, over sources of every kind."""

import json
import random

import numpy as np

from weft.train import data


def square(x):
    return {**x, "y": x["x"] * x["x"]}


def noisy(x, rng):
    return {**x, "noise": rng.integers(1 << 30)}


def doubled(rows):
    return {**rows, "double": rows["x"] * 2}


def is_odd(x):
    return bool(x["x"] % 2)


def third(rows):
    return np.asarray(rows["x"]) % 3 != 0


class Numbers:
    """A source with random access, as torch and grain have them."""

    def __init__(self, start, stop):
        self.numbers = range(start, stop)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return {"x": self.numbers[index]}


class Counting:
    """A stream that begins again whenever it is iterated."""

    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __iter__(self):
        return ({"x": x} for x in range(self.start, self.stop))


def source(draw: random.Random, folder, start: int):
    count = draw.choice([1, 5, 23, 40])
    numbers = range(start, start + count)
    kind = draw.choice(["arrays", "indexable", "stream", "jsonl", "csv"])
    if kind == "arrays":
        return data.arrays({"x": np.asarray(numbers)})
    if kind == "indexable":
        return data.source(Numbers(start, start + count))
    if kind == "stream":
        return data.source(Counting(start, start + count))
    path = folder / f"{kind}-{start}-{count}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"x": x}) + "\n" for x in numbers))
        return data.jsonl(path)
    path.write_text("x\n" + "".join(f"{x}\n" for x in numbers))
    return data.csv(path, types=int)


def elements(draw: random.Random, folder, start: int = 0, depth: int = 2):
    """A data set of elements, of one source or of several."""
    if depth and draw.random() < 0.3:
        parts = [elements(draw, folder, start + 1000 * (i + 1), depth - 1) for i in range(2)]
        if draw.random() < 0.3:
            return data.concatenate(parts)
        return data.mix(parts, [draw.choice([1, 2, 0.3]) for _ in parts], stop=draw.choice(STOPS))
    made = source(draw, folder, start)
    for _ in range(draw.randrange(4)):
        made = step(draw, made)
    return made


STOPS = ["first", "all"]


def step(draw: random.Random, made):
    kind = draw.randrange(8)
    if kind == 0:
        return made.map(square)
    if kind == 1:
        return made.map(noisy, seed=draw.randrange(99))
    if kind == 2:
        return made.filter(is_odd) if draw.random() < 0.5 else made.filter(third, batched=True)
    if kind == 3:
        try:
            return made.shuffle(draw.randrange(99))
        except TypeError:  # a stream
            return made.shuffle(draw.randrange(99), window=draw.choice([1, 4, 10]))
    if kind == 4:
        return made.shard(draw.randrange(2), 2)
    if kind == 5:
        return made.take(draw.choice([0, 3, 17])) if draw.random() < 0.5 else made.skip(2)
    if kind == 6:
        return made.map(doubled, batched=True)
    return made.repeat(draw.choice([1, 2]))


def sequence(element):
    return {"tokens": np.arange(element["x"] % 7) + element["x"], "x": element["x"]}


def pipeline(seed: int, folder):
    """A data set for a seed; elements, sequences or batches."""
    draw = random.Random(seed)
    made = elements(draw, folder)
    if draw.random() < 0.4:
        made = made.map(sequence)
        kind = draw.randrange(3)
        if kind == 0:
            made = made.bucket("tokens", [2, 5, 8], [draw.choice([1, 3]), 2, 4])
        elif kind == 1:
            made = made.pack({"tokens": 8}, window=draw.choice([3, 16]))
            made = made.batch(draw.choice([1, 4]), **draw.choice(REMAINDERS))
        else:
            made = made.pad({"tokens": 9}, fill=-1).batch(4)
        if draw.random() < 0.2:
            made = made.repeat(2)
    elif draw.random() < 0.7:
        columns = made.map(lambda element: {"x": element["x"]})
        made = columns.batch(draw.choice([1, 3, 8]), **draw.choice(REMAINDERS))
        if draw.random() < 0.3:
            made = made.map(noisy, seed=1)
    return made


REMAINDERS = [{}, {"drop_remainder": True}, {"pad_remainder": True}]
