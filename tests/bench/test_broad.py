"""Generated programs: the same for the same seed, of all kinds, and compared as they should be."""

import math
import types

import numpy as np
import pytest

import weft
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


def test_the_table_is_published(tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"# Figures\n\n{run.BEGIN}\nold\n{run.END}\n\nmore\n")
    for _ in range(2):
        run.publish("| a |\n|---|\n| b |\n\n3 programs: fast", 7, page)
    lines = page.read_text().splitlines()
    assert "old" not in lines and lines[0] == "# Figures" and lines[-1] == "more"
    assert lines.count("| b |") == 1 and any("--seed 7`: 3 programs: fast." in x for x in lines)
    page.write_text("nothing")
    with pytest.raises(ValueError, match="no lines"):
        run.publish("| a |", 7, page)
    assert run.BEGIN in run.PAGE.read_text()


def test_there_are_programs_of_all_kinds():
    assert len([*run.cases(0, 1)]) >= 250


def test_figures_of_jax_are_read_again(monkeypatch, tmp_path, capsys):
    asked = []
    row = {"name": "a", "seed": [0], "dtype": "float32", "shapes": "3", "first": 1.0}
    row |= {"seconds": 1.0, "values": [[np.pi, np.pi]]}
    monkeypatch.setattr(run, "measured", lambda name, options: asked.append(name) or [row])
    options = types.SimpleNamespace(
        list=False, json=tmp_path / "figures.json", rows=None, publish=False
    )
    run.compare(options)
    run.compare(options)
    assert asked == ["jax", "weft", "weft"]
    assert "geometric mean 1.000" in capsys.readouterr().out
