"""Laws of data pipelines: a restored iterator goes on as one that was never interrupted."""

import json

import numpy as np
import pytest

from tests.train.pipelines import pipeline
from weft.train import data


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        return all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
    return np.array_equal(a, b)


@pytest.mark.parametrize("seed", range(150))
def test_the_rest_after_a_restore_is_the_rest_of_an_unbroken_run(seed, tmp_path):
    made = pipeline(seed, tmp_path)
    unbroken = iter(made)
    elements, states = [], [unbroken.state()]
    for element in unbroken:
        elements.append(element)
        states.append(unbroken.state())
        assert len(elements) < 2000
    again = pipeline(seed, tmp_path)  # as another process would build it
    cuts = range(len(states)) if len(states) < 8 else [0, 1, 2, len(states) // 2, len(states) - 1]
    reader = iter(again)
    for cut in cuts:
        reader.restore(json.loads(json.dumps(states[cut])))
        assert reader.state() == states[cut]
        rest = list(reader)
        assert len(rest) == len(elements) - cut
        assert all(map(same, rest, elements[cut:])), f"cut at {cut} of {made}"


@pytest.mark.parametrize("seed", range(40))
def test_shards_are_disjoint_and_complete(seed, tmp_path):
    made = pipeline(seed, tmp_path).map(lambda element: repr(element))
    whole = sorted(made)
    for count in (2, 3):
        parts = [list(made.shard(index, count)) for index in range(count)]
        assert sorted(element for part in parts for element in part) == whole


def test_a_state_is_not_restored_into_another_pipeline():
    state = iter(data.source(range(9)).shuffle(seed=1).batch(2)).state()
    with pytest.raises(data.DataError, match=r"different pipeline(.|\n)*shuffle\(seed=1\)"):
        iter(data.source(range(9)).shuffle(seed=2).batch(2)).restore(state)
    with pytest.raises(data.DataError, match="changed since"):
        iter(data.source(range(8)).shuffle(seed=1).batch(2)).restore(state)
    for wrong in (None, {}, {**state, "format": "9"}, {**state, "position": "{"}):
        with pytest.raises(data.DataError):
            iter(data.source(range(9)).shuffle(seed=1).batch(2)).restore(wrong)


@pytest.mark.parametrize("change", ["append", "edit"])
def test_a_file_that_changed_is_noticed(tmp_path, change):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {i}\n" for i in range(100)))
    reader = iter(data.text(path).shuffle(seed=0))
    next(reader)
    state = reader.state()
    same_file = iter(data.text(path).shuffle(seed=0))
    same_file.restore(state)
    assert next(same_file) == next(reader)
    if change == "append":
        path.write_text(path.read_text() + "line 100\n")
    else:
        path.write_text(path.read_text().replace("line 50", "LINE 50"))
    with pytest.raises(data.DataError, match=r"lines\.txt changed since"):
        iter(data.text(path).shuffle(seed=0)).restore(state)


def test_arrays_that_changed_are_noticed():
    x = np.arange(1000.0)
    state = iter(data.arrays({"x": x})).state()
    iter(data.arrays({"x": x.copy()})).restore(state)
    x[500] = -1
    with pytest.raises(data.DataError, match="changed since"):
        iter(data.arrays({"x": x})).restore(state)
