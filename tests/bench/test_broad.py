"""Generated programs: the same for the same seed, of all kinds, and compared as they should be."""

import json
import math
import types

import numpy as np
import pytest

import weft
from bench import publish
from bench.broad import run
from bench.broad.drawing import KINDS, PROGRAMS, Draw


class Small(Draw):
    """The same programs with few elements."""

    def pick(self, *choices):
        found = super().pick(*choices)
        return min(choices) if all(type(c) is int for c in choices) else found

    def near(self, low, high):
        super().near(low, high)
        return low if low < 300 else 30

    def rows(self, most=0):
        return 5, 7


def test_a_seed_gives_the_same_programs():
    first, again, other = ([*run.cases(seed, 2)] for seed in (0, 0, 1))
    assert first == again != other
    assert len({tuple(key) for _, key, _ in first}) == len(first) >= 250


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_sizes_are_of_their_kind(kind):
    draw = Draw([0], False)
    draw.kind = kind
    for _ in range(20):
        rows, length = draw.rows()
        assert 1 <= rows * length <= 1 << 25
        assert kind != "short rows" or (length < 20 and rows >= 1 << 16)
        assert kind != "long rows" or rows < 10


@pytest.mark.parametrize("name", [*PROGRAMS][::6])
def test_programs_run(name, monkeypatch):
    monkeypatch.setattr(run, "Draw", Small)
    fun, args, _ = run.made(weft, name, [0, 0, 0], PROGRAMS[name][1])
    values = run._summary(weft.jit(fun)(*args), weft.tree.leaves)
    assert values and all(math.isfinite(x) for pair in values for x in pair)


def test_the_table_puts_the_slowest_first():
    row = lambda name, seconds, value=1.0: {
        "name": name, "seed": [len(name)], "dtype": "float32", "shapes": "3", "seconds": seconds,
        "first": 1.0, "values": [[value, 1.0]],
    }  # fmt: skip
    ours = [row("a", 1.0), row("bb", 3.0), row("ccc", 1.0, 2.0)]
    ours.append({"name": "dddd", "seed": [4], "error": "it broke"})
    theirs = [row("a", 2.0), row("bb", 1.0), row("ccc", 4.0)]
    lines = run.table(ours, theirs).splitlines()[2:]
    assert [line.split()[1] for line in lines[:4]] == ["dddd", "bb", "a", "ccc"]
    assert "it broke" in lines[0] and "DIFFERS" in lines[3] and "DIFFERS" not in lines[2]
    assert "3 programs: geometric mean 0.721" in lines[-1] and "1 slower" in lines[-1]
    few = run.table(ours, theirs, 2).splitlines()
    assert few[2:4] == lines[:2] and few[-1] == lines[-1] and len(few) == 6


def test_programs_are_rows_of_the_history(tmp_path):
    row = {"name": "a", "seed": [0], "dtype": "float32", "shapes": "3", "first": 2.0}
    row |= {"seconds": 3e-6, "values": [[1.0, 1.0]]}
    other = row | {"seconds": 1e-6, "first": 4.0, "values": [[9.0, 9.0]]}
    failed = {"name": "b", "seed": [1], "error": "it broke"}
    rows = run.rows_of([row, failed], [other])
    saved = {"date": "2026-01-01", "commit": "abc", "command": "c", "versions": {}, "rows": rows}
    (path,) = publish.record({**saved, "machine": {"gpu": "G 1", "processor": "p"}}, tmp_path)
    assert path.name == "cuda-broad-g-1.json"
    kept = json.loads(path.read_text())["runs"][0]["rows"]
    assert kept[0] == {"name": "a 3 float32", "unit": "us", "figures": {"weft": 3.0, "jax": 1.0},
                       "ratio": 3.0, "first": 0.5, "note": "DIFFERS"}  # fmt: skip
    assert "weft failed: it broke" in kept[1]["note"] and "ratio" not in kept[1]


def test_there_are_programs_of_all_kinds():
    assert len([*run.cases(0, 1)]) >= 250


def test_figures_of_jax_are_read_again(monkeypatch, tmp_path, capsys):
    asked = []
    row = {"name": "a", "seed": [0], "dtype": "float32", "shapes": "3", "first": 1.0}
    row |= {"seconds": 1.0, "values": [[np.pi, np.pi]]}
    monkeypatch.setattr(run, "measured", lambda name, options: asked.append(name) or [row])
    options = types.SimpleNamespace(
        list=False, json=tmp_path / "figures.json", rows=None, publish=False, record=None
    )
    run.compare(options, "python -m bench cuda --broad")
    run.compare(options, "python -m bench cuda --broad")
    assert asked == ["jax", "weft", "weft"]
    assert "geometric mean 1.000" in capsys.readouterr().out
