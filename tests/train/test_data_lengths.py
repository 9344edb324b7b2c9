"""Padding, buckets and packing of sequences, and what they say about bad input."""

import json

import numpy as np
import pytest

from weft.train import data
from weft.train.data.lengths import first_fit


def sequences(count=200, longest=20, seed=0):
    draw = np.random.default_rng(seed)
    return [
        {
            "inputs": draw.integers(1, 99, draw.integers(1, longest)).astype(np.int32),
            "targets": draw.integers(1, 99, draw.integers(1, longest)).astype(np.int32),
            "number": number,
        }
        for number in range(count)
    ]


def test_pad():
    made = data.source(sequences()).pad({"inputs": 20, "targets": 24}, fill=-1)
    batch = made.batch(200)[0]
    assert batch["inputs"].shape == (200, 20) and batch["targets"].shape == (200, 24)
    for row, element in zip(batch["inputs"], sequences()):
        size = len(element["inputs"])
        assert (row[:size] == element["inputs"]).all() and (row[size:] == -1).all()
    assert data.source([[1, 2], [3]]).pad(3).batch(2)[0].tolist() == [[1, 2, 0], [3, 0, 0]]
    assert data.source([[1, 2, 3]]).pad(2, truncate=True)[0].tolist() == [1, 2]
    grid = data.source([np.ones((2, 3))]).pad(3)[0]
    assert grid.shape == (3, 3) and grid[2].sum() == 0


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda d: d.pad({"inputs": 5}), "column 'inputs' has .* more than 5.*truncate=True"),
        (lambda d: d.pad({"input": 99}), "a column 'input'; elements have 'inputs', 'targets'"),
        (lambda d: d.pad({"number": 9}), "'number' is a single number"),
        (lambda d: d.pack({"token": 99}), "a column 'token'; elements have 'inputs'"),
        (lambda d: d.pack({"inputs": 5}), "'inputs' has .* more than 5.*truncate=True"),
        (lambda d: d.pack({"number": 5}), "one axis in column 'number', which has 0"),
        (lambda d: d.bucket("inputs", [5], 4), "length .*the last boundary of bucket.* is 5"),
        (lambda d: d.bucket("token", [5], 4), "a column 'token'"),
        (lambda d: d.bucket("number", [5], 4), "single numbers"),
        (lambda d: d.map(lambda e: e["inputs"]).pack({"x": 99}), "elements are ndarray"),
    ],
)
def test_columns_that_are_missing_or_too_long(make, message):
    with pytest.raises(data.DataError, match=message):
        list(make(data.source(sequences())))


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda d: d.pack(5), "a length for each column"),
        (lambda d: d.pack({"inputs": 0}), "at least 1"),
        (lambda d: d.bucket("inputs", [5, 3], 4), "increasing boundaries"),
        (lambda d: d.bucket("inputs", [], 4), "increasing boundaries"),
        (lambda d: d.bucket("inputs", [3, 5], [4]), "2 boundaries and 1 sizes"),
        (lambda d: d.pad({"inputs": -1}), "at least 0"),
    ],
)
def test_arguments_that_are_wrong(make, error):
    with pytest.raises((TypeError, ValueError), match=error):
        make(data.source(sequences()))


def unpack(rows, name):
    """The sequences of packed rows."""
    found = []
    for row in rows:
        segments = row[f"{name}_segment_ids"]
        for segment in range(1, segments.max() + 1):
            place = np.flatnonzero(segments == segment)
            assert (np.diff(place) == 1).all()
            assert (row[f"{name}_positions"][place] == np.arange(len(place))).all()
            found.append(tuple(row[name][place].tolist()))
        padding = segments == 0
        assert not row[name][padding].any() and not row[f"{name}_positions"][padding].any()
    return found


@pytest.mark.parametrize("window", [7, 1024])
def test_packing_keeps_every_sequence_whole(window):
    given = sequences()
    rows = list(data.source(given).pack({"inputs": 32, "targets": 24}, window=window))
    assert rows[0]["inputs"].dtype == np.int32 and set(rows[0]) == {
        name + suffix
        for name in ("inputs", "targets")
        for suffix in ("", "_segment_ids", "_positions")
    }
    pairs = []
    for row in rows:
        pairs += zip(unpack([row], "inputs"), unpack([row], "targets"), strict=True)
    expected = [(tuple(e["inputs"].tolist()), tuple(e["targets"].tolist())) for e in given]
    assert sorted(pairs) == sorted(expected)
    used = np.mean([(row["inputs_segment_ids"] > 0).mean() for row in rows])
    assert used > (0.5 if window == 7 else 0.7)


def test_rows_that_seqio_packs():
    """Recorded from seqio 0.0.20, where it puts sequences into the same rows."""
    given = [(3, 2), (4, 1), (5, 5), (2, 2)]
    pairs = data.source(
        [{"inputs": np.arange(1, n + 1), "targets": np.arange(11, 11 + m)} for n, m in given]
    )
    first, second = list(pairs.pack({"inputs": 8, "targets": 8}))
    assert {name: values.tolist() for name, values in first.items()} == {
        "inputs": [1, 2, 3, 1, 2, 3, 4, 0],
        "inputs_positions": [0, 1, 2, 0, 1, 2, 3, 0],
        "targets": [11, 12, 11, 0, 0, 0, 0, 0],
        "targets_positions": [0, 1, 0, 0, 0, 0, 0, 0],
        "inputs_segment_ids": [1, 1, 1, 2, 2, 2, 2, 0],
        "targets_segment_ids": [1, 1, 2, 0, 0, 0, 0, 0],
    }
    assert second["inputs_segment_ids"].tolist() == [1, 1, 1, 1, 1, 2, 2, 0]
    assert second["targets"].tolist() == [11, 12, 13, 14, 15, 11, 12, 0]


def test_first_fit_is_what_a_simple_loop_does():
    draw = np.random.default_rng(1)
    for kinds, capacities in ((1, [30]), (2, [30, 12])):
        sizes = np.stack([draw.integers(0, c + 1, 300) for c in capacities])
        bins, starts, segments, count = first_fit(sizes, capacities)
        rooms, held = [], []
        for thing in range(300):
            need = sizes[:, thing]
            place = next((i for i, room in enumerate(rooms) if (room >= need).all()), len(rooms))
            if place == len(rooms):
                rooms.append(np.array(capacities))
                held.append(0)
            held[place] += 1
            assert bins[thing] == place and segments[thing] == held[place]
            assert (starts[:, thing] == np.array(capacities) - rooms[place]).all()
            rooms[place] = rooms[place] - need
        assert count == len(rooms) and kinds == len(sizes)


def test_packing_truncates_if_told():
    (row,) = data.source([{"x": [1, 2, 3, 4]}, {"x": [5]}]).pack({"x": 3}, truncate=True).take(1)
    assert row["x"].tolist() == [1, 2, 3]


def test_buckets():
    given = sequences(100)
    made = data.source(given).bucket(["inputs", "targets"], [8, 14, 20], [4, 3, 2])
    batches = list(made)
    seen = np.concatenate([batch["number"] for batch in batches])
    assert sorted(seen) == list(range(100))
    for batch in batches:
        length = batch["inputs"].shape[1]
        assert batch["targets"].shape == batch["inputs"].shape and length in (8, 14, 20)
        assert len(batch["number"]) <= {8: 4, 14: 3, 20: 2}[length]
        for row, number in zip(batch["inputs"], batch["number"]):
            size = len(given[number]["inputs"])
            assert (row[:size] == given[number]["inputs"]).all() and not row[size:].any()
    with pytest.raises(data.DataError, match=r"\['targets'\] .* bucket\(columns\)"):
        list(data.source(given).bucket("inputs", [20], 8))
    both = ["inputs", "targets"]
    whole = list(data.source(given).bucket(both, [10, 20], 8, drop_remainder=True).take(99))
    assert all(len(batch["number"]) == 8 for batch in whole)
    plain = list(data.source([[1], [1, 2], [3]]).bucket(None, [1, 2], 2))
    assert [batch.tolist() for batch in plain] == [[[1], [3]], [[1, 2]]]


def test_states_of_buckets_name_places_and_hold_no_data():
    rare = [{"x": np.ones(50 if n == 3 else 2), "n": n} for n in range(1000)]
    made = data.source(rare).shuffle(seed=1).bucket("x", [2, 50], 8)
    reader = iter(made)
    for _ in range(100):
        next(reader)
    state = json.dumps(reader.state())
    assert len(state) < 1000
    again = iter(made)
    again.restore(json.loads(state))
    for a, b in zip(reader, again, strict=True):
        assert (a["n"] == b["n"]).all()
