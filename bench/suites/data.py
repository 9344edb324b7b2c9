"""Data pipelines of ``weft.train.data`` against torch's ``DataLoader`` and grain.

A call reads a number of batches. All three have the same source and the same transformations,
written as each library's documents do; where a row says "batched", weft's function takes a batch.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from typing import Any

import numpy as np

from bench.rows import Row

PEERS = ("DataLoader", "grain")
WORKERS = 2


class Rows:
    """A source with random access: rows of arrays as dictionaries, or what a function returns."""

    def __init__(self, columns: Any, function: Any = None) -> None:
        self.columns, self.function = columns, function

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: Any) -> Any:
        row = {name: column[index] for name, column in self.columns.items()}
        return row if self.function is None else self.function(row)


class Lines:
    """Lines of a file by their offsets, as a user of a library without such a source writes it."""

    def __init__(self, path: str, function: Any = None) -> None:
        self.path, self.function, self.file = path, function, None
        with open(path, "rb") as file:
            sizes = [len(line) for line in file]
        self.starts = np.cumsum([0, *sizes])

    def __getstate__(self) -> dict:
        return {**self.__dict__, "file": None}

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: Any) -> Any:
        if self.file is None:
            self.file = open(self.path, "rb")
        start, stop = self.starts[index : index + 2].tolist()
        value = json.loads(os.pread(self.file.fileno(), stop - start, start))
        return value if self.function is None else self.function(value)


def take(batches: Any, count: int) -> Any:
    """Read batches, and return something of the last."""
    for _ in range(count):
        batch = next(batches)
    return batch


def endless(loader: Any) -> Any:
    while True:
        yield from loader


def torch_loader(dataset: Any, size: int, workers: int) -> Any:
    loading = importlib.import_module("torch.utils.data")
    more = {"persistent_workers": True, "prefetch_factor": 2} if workers else {}
    loader = loading.DataLoader(
        dataset, batch_size=size, shuffle=True, drop_last=True, num_workers=workers, **more
    )
    return endless(loader)


def grain_loader(dataset: Any, functions: Any, size: int, workers: int) -> Any:
    grain = importlib.import_module("grain")
    made = grain.MapDataset.source(dataset).seed(0).shuffle().repeat()
    for function, random in functions:
        made = made.random_map(function) if random else made.map(function)
    made = made.batch(size, drop_remainder=True)
    reading = grain.ReadOptions(num_threads=0 if not workers else 16)
    made = made.to_iter_dataset(reading)
    if workers:
        made = made.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return iter(made)


def weft_data() -> Any:
    return importlib.import_module("weft.train.data")


# --- arrays in memory


MEAN, SCALE = np.float32(0.5), np.float32(2.0)


def points() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.random((50_000, 64), np.float32)
    return {"x": x, "label": draw.integers(0, 10, 50_000)}


def normalise(row: Any) -> Any:
    return {"x": (row["x"] - MEAN) * SCALE, "label": row["label"]}


def arrays(library: str, size: int, count: int) -> Any:
    def setup(module: Any) -> Any:
        if library == "weft":
            made = weft_data().arrays(points()).shuffle(seed=0).repeat()
            batches = iter(made.map(normalise, batched=True).batch(size))
        elif library == "grain":
            batches = grain_loader(Rows(points()), [(normalise, False)], size, 0)
        else:
            batches = torch_loader(Rows(points(), normalise), size, 0)
        return lambda: take(batches, count)

    return setup


# --- images with random crops and flips, in workers


def pictures() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.integers(0, 256, (4_000, 64, 64, 3), np.uint8)
    return {"x": x, "label": draw.integers(0, 10, 4_000)}


CROP, PIXEL = 56, np.float32(1 / 255)


def augment(row: Any, rng: Any) -> Any:
    top, left, flip = rng.integers(0, 9), rng.integers(0, 9), rng.random() < 0.5
    x = row["x"][top : top + CROP, left : left + CROP]
    x = x[:, ::-1] if flip else x
    return {"x": x * PIXEL - MEAN, "label": row["label"]}


def augment_batch(batch: Any, rng: Any) -> Any:
    """The same for a whole batch."""
    count = len(batch["x"])
    corners = rng.integers(0, 9, (count, 2)).tolist()
    crops = np.empty((count, CROP, CROP, 3), np.uint8)
    for crop, image, (top, left) in zip(crops, batch["x"], corners):
        crop[...] = image[top : top + CROP, left : left + CROP]
    flips = np.flatnonzero(rng.random(count) < 0.5)
    crops[flips] = crops[flips].take(np.arange(CROP)[::-1], 2)
    made = crops * PIXEL
    made -= MEAN
    return {"x": made, "label": batch["label"]}


READY = np.ones((CROP, CROP, 3), np.float32)


def give(row: Any, rng: Any) -> Any:
    """What the function returns, without its work: what is left is the library's."""
    return {"x": READY, "label": row["label"]}


class Unseeded:
    """A function as torch takes it, which leaves random numbers to the function."""

    def __init__(self, function: Any) -> None:
        self.function, self.generator = function, None

    def __call__(self, row: Any) -> Any:
        if self.generator is None:
            self.generator = np.random.default_rng(os.getpid())
        return self.function(row, self.generator)


def images(library: str, function: Any, size: int = 64, count: int = 60) -> Any:
    batched = function is augment_batch
    plain = augment if batched else function

    def setup(module: Any) -> Any:
        if library == "weft":
            made = weft_data().arrays(pictures()).shuffle(seed=0).repeat()
            if batched:
                made = made.batch(size).map(function, seed=1)
            else:
                made = made.map(function, seed=1).batch(size)
            batches = made.iterator(workers=WORKERS)
        elif library == "grain":
            batches = grain_loader(Rows(pictures()), [(plain, True)], size, WORKERS)
        else:
            batches = torch_loader(Rows(pictures(), Unseeded(plain)), size, WORKERS)
        return lambda: take(batches, count)

    return setup


# --- JSON lines


def lines_file() -> str:
    """A file of 20,000 lines, the same for all libraries; the system removes it some day."""
    path = os.path.join(tempfile.gettempdir(), f"weft-bench-{os.getuid()}.jsonl")
    if not os.path.exists(path):
        draw = np.random.default_rng(0)
        with open(f"{path}.{os.getpid()}", "w") as file:
            for number in range(20_000):
                tokens = draw.integers(0, 30_000, draw.integers(5, 32)).tolist()
                text = " ".join(f"word{token}" for token in tokens[:10])
                file.write(json.dumps({"id": number, "text": text, "tokens": tokens}) + "\n")
        os.replace(file.name, path)
    return path


def padded(row: Any) -> Any:
    tokens = np.zeros(32, np.int32)
    tokens[: len(row["tokens"])] = row["tokens"]
    return {"id": row["id"], "tokens": tokens}


def json_lines(library: str, size: int, count: int, workers: int) -> Any:
    def setup(module: Any) -> Any:
        if library == "weft":
            made = weft_data().jsonl(lines_file()).shuffle(seed=0).repeat().map(padded).batch(size)
            batches = made.iterator(workers=workers)
        elif library == "grain":
            batches = grain_loader(Lines(lines_file()), [(padded, False)], size, workers)
        else:
            batches = torch_loader(Lines(lines_file(), padded), size, workers)
        return lambda: take(batches, count)

    return setup


# --- packing


def sentences() -> list[dict[str, np.ndarray]]:
    draw = np.random.default_rng(0)
    sizes = np.minimum(draw.geometric(1 / 120, 20_000), 512)
    return [{"tokens": draw.integers(1, 30_000, size).astype(np.int32)} for size in sizes]


LENGTH = 512


def torch_packed(rows: Any, bins: int = 64) -> Any:
    """Packing as users of torch write it: the first of some rows that has room."""
    loading = importlib.import_module("torch.utils.data")

    class Packed(loading.IterableDataset):
        def __iter__(self) -> Any:
            opened: list[list[np.ndarray]] = []
            room: list[int] = []
            while True:
                for index in np.random.default_rng(0).permutation(len(rows)):
                    tokens = rows[index]["tokens"]
                    place = next((i for i, r in enumerate(room) if r >= len(tokens)), None)
                    if place is None and len(opened) == bins:
                        yield from map(pack_row, opened)
                        opened, room = [], []
                    if place is None:
                        opened.append([])
                        room.append(LENGTH)
                        place = len(opened) - 1
                    opened[place].append(tokens)
                    room[place] -= len(tokens)

    return Packed()


def pack_row(parts: list[np.ndarray]) -> dict[str, np.ndarray]:
    row = {
        name: np.zeros(LENGTH, np.int32)
        for name in ("tokens", "tokens_segment_ids", "tokens_positions")
    }
    start = 0
    for number, part in enumerate(parts):
        end = start + len(part)
        row["tokens"][start:end] = part
        row["tokens_segment_ids"][start:end] = number + 1
        row["tokens_positions"][start:end] = np.arange(len(part))
        start = end
    return row


def packing(library: str, size: int, count: int) -> Any:
    def setup(module: Any) -> Any:
        rows = sentences()
        if library == "weft":
            made = weft_data().source(rows).shuffle(seed=0).repeat()
            batches = iter(made.pack({"tokens": LENGTH}).batch(size))
        elif library == "grain":
            grain = importlib.import_module("grain")
            made = grain.MapDataset.source(rows).seed(0).shuffle().repeat()
            made = made.to_iter_dataset(grain.ReadOptions(num_threads=0))
            made = grain.experimental.FirstFitPackIterDataset(
                made, length_struct={"tokens": LENGTH}, num_packing_bins=64
            )
            batches = iter(made.batch(size))
        else:
            loading = importlib.import_module("torch.utils.data")
            batches = iter(loading.DataLoader(torch_packed(rows), batch_size=size))
        return lambda: take(batches, count)

    return setup


PROGRAMS = {
    "arrays, batches of 128": (
        "rows of 64 floats in memory, shuffled and normalised; 100 batches",
        lambda library: arrays(library, 128, 100),
    ),
    "arrays, batches of 8": (
        "the same in small batches; 100 batches",
        lambda library: arrays(library, 8, 100),
    ),
    "images, 2 workers": (
        "64×64 images cropped and flipped at random, one by one; 60 batches of 64",
        lambda library: images(library, augment),
    ),
    "images, 2 workers, without the function": (
        "the same with a function that gives an image that is ready",
        lambda library: images(library, give),
    ),
    "images, 2 workers, batched": (
        "the same; weft's function takes a batch",
        lambda library: images(library, augment_batch),
    ),
    "JSON lines": (
        "lines at random, parsed and padded; 20 batches of 64",
        lambda library: json_lines(library, 64, 20, 0),
    ),
    "JSON lines, 2 workers": (
        "the same by workers; 50 batches of 64",
        lambda library: json_lines(library, 64, 50, WORKERS),
    ),
    "packing": (
        "sequences into rows of 512 with segment ids and positions; 10 batches of 32",
        lambda library: packing(library, 32, 10),
    ),
}

ROWS = [
    Row(
        f"{name}: {peer}",
        about,
        {"weft": make("weft"), peer: make(peer)},
        unit="ms",
        clock="wall",
        ratio=target[0] if target else 0.5,
        limit=40.0,
    )
    for name, (about, make, *target) in PROGRAMS.items()
    for peer in PEERS
]
