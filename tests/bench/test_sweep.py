"""The sweep over all functions: every one has a call, and calls say what they are meant to."""

import importlib
import types

import numpy as np
import pytest

from bench import sweep_table
from bench.libraries import Call, leaves
from bench.rows import Row
from bench.suites import sweep
from bench.suites.calls import CALLS, UNSWEPT
from bench.table import Result

ROWS = {row.name: row for row in sweep.ROWS}


@pytest.mark.parametrize("room", [room for room in CALLS if room != "scipy"])
def test_every_function_has_a_call_or_a_reason(room):
    module = importlib.import_module(f"weft.{room}")
    found = {text.partition("(")[0].partition(".")[0] for text, _, _ in sweep.split(CALLS[room])}
    left_out = set(UNSWEPT.get(room, "").split())
    assert not found & left_out
    assert all(hasattr(module, name) for name in found | left_out)
    public = {
        name
        for name in dir(module)
        if isinstance(value := getattr(module, name), types.FunctionType)
        if value.__module__ == module.__name__ and not name.startswith("_")
    }
    if room in ("numpy.linalg", "numpy.fft"):  # which hold what they are made of, too
        public &= set(dir(importlib.import_module(room)))
    assert public - found - left_out == set()


def test_letters_are_the_arrays_outside_of_inner_functions():
    assert sweep.letters("add(x,y)") == ["x", "y"]
    assert sweep.letters("piecewise(x,[x<0],[lambda p:-p])") == ["x"]
    assert sweep.letters("random(key,M.T)") == ["M", "key"]


def test_lines_name_what_numpy_runs_and_what_is_not_compiled():
    lines = "sin(x)  acos(u)|arccos(u)\nunique(i)!  real(c)|-"
    assert list(sweep.split(lines)) == [
        ("sin(x)", None, True),
        ("acos(u)", "arccos(u)", True),
        ("unique(i)", None, False),
        ("real(c)", "-", True),
    ]
    assert "numpy" in ROWS["numpy.acos(u-0.5) compiled"].setups
    assert "numpy" not in ROWS["lax.sin(x) compiled"].setups
    assert "numpy.unique(i) compiled" not in ROWS and "numpy.unique(i) eager" in ROWS


@pytest.mark.parametrize(
    "name",
    [
        "numpy.median(x)",
        "numpy.linalg.solve(A,k)",
        "numpy.fft.rfft(x)",
        "scipy.special.gammaln(p)",
        "scipy.stats.norm.logpdf(x)",
    ],
)
def test_small_calls_agree_with_numpy(name):
    import weft

    row = ROWS[f"{name} {sweep.FORMS[2]}"]
    room = next(r for r in reversed(CALLS) if name.startswith(f"{r}."))
    plain = Row("", "", {"numpy": sweep.setup(room, name[len(room) + 1 :], sweep.FORMS[2])})
    mine = leaves(Call("weft", weft, row).once())
    theirs = leaves(Call("numpy", np, plain).once())
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5)


def test_the_worst_come_first():
    def result(name, weft, jax):
        row = Row(f"numpy.{name}(x) compiled", "", {"weft": None, "jax": None}, brief=True)
        return Result("sweep", row, {"weft": [weft, weft], "jax": [jax, jax]})

    found = [result("a", 1.0, 1.0), result("b", 3.0, 1.0), result("c", 1.0, 2.0)]
    assert [ratio for ratio, _ in sweep_table.ratios(found, "compiled", "jax")] == [3.0, 1.0, 0.5]
    lines = sweep_table.sweep_text(found).splitlines()
    assert lines[0] == ("compiled against jax: 1 of 3 calls above 1.2 of its time, median 1.00")
    assert lines[1].endswith("numpy.b(x)")
