"""The benchmark's own machinery: rows, comparison, verdicts, and processes that fail."""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from bench import compare, peers, table
from bench.__main__ import SUITES, measure
from bench.libraries import Call, find, leaves, tree_map
from bench.rows import Program, Row, beside_other, names, same

ROOT = Path(peers.__file__).resolve().parent.parent


@pytest.mark.parametrize("suite", SUITES)
def test_rows_have_names_of_their_own_and_two_libraries(suite):
    rows = importlib.import_module(names(suite)).ROWS
    assert rows
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert "weft" in row.setups
        assert {"jax", "alone", "DataLoader", "grain", "XLA"} & set(row.setups)
        assert row.ratio is not None or row.budget is not None


def test_every_kind_of_program_runs_in_weft():
    import weft

    for suite, name in [
        ("compiled", "call tree of 100"),
        ("compiled", "eager slice"),
        ("variants", "matmul 5000×(3×3)"),
        ("programs", "batched rotations"),
    ]:
        call = Call("weft", weft, find(suite, name))
        expected = call.program.function(*tree_map(np.asarray, call.args))
        for found, right in zip(leaves(call.once()), leaves(expected), strict=True):
            assert compare.difference(np.asarray(found), np.asarray(right)) < 1e-5
        assert all(seconds >= 0 for seconds in call.sample())


def test_dtypes_are_the_rows():
    import weft

    call = Call("weft", weft, find("variants", "2x+y bf16"))
    assert {str(x.dtype) for x in call.args} == {"bfloat16"}


def test_differences_are_seen():
    a = np.arange(4.0)
    assert compare.difference(a, a) == 0
    assert compare.difference(a + 0.3, a) == pytest.approx(0.1)
    assert compare.difference(a[:3], a) == np.inf
    odd = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert compare.difference(odd, odd) == 0
    assert compare.difference(-odd, odd) == np.inf
    assert compare.difference(np.zeros(2), np.array([0.0, np.nan])) == np.inf
    assert compare.difference(np.array([1, 2]), np.array([1, 2], np.int32)) == 0


def _result(mine, theirs, target, **more):
    row = Row("r", "", {"weft": None, "jax": None, "numpy": None}, ratio=target)
    best = {"weft": [mine, mine], "jax": [theirs, theirs]}
    return table.Result("compiled", row, best, **more)


def test_verdicts():
    assert table.verdict(_result(0.5, 1.0, 0.6)) == "ok"
    assert table.verdict(_result(0.9, 1.0, 0.6)) == "LOSS x1.50"
    assert "slow" in table.verdict(_result(0.5, 1.0, 0.6, wrong={"weft": "slow"}))
    bad, worse = _result(0.9, 1.0, 0.6), _result(9.0, 1.0, 0.6)
    assert table.losses([bad, _result(0.1, 1.0, 0.6), worse]) == [worse, bad]
    shown = table.text([bad], ["weft", "jax"])
    assert "900,000" in shown and "LOSS" in shown
    assert "0 of 2 rows" in table.summary([bad, worse])


class _Fails(peers.Peer):
    def start(self, devices=1, gpu=False):
        raise peers.Failure("no such thing")


def test_a_library_that_fails_does_not_stop_the_run(tmp_path):
    row = Row("r", "", same(lambda m: Program(lambda: 0, ())), ratio=1.0)
    options = argparse.Namespace(clock=None, limit=None, rounds=2, seconds=0.01)
    found = measure("compiled", row, {"weft": _Fails("weft", "")}, options, tmp_path)
    assert found.failed == {"weft": "no such thing"}
    assert table.verdict(found) == "FAILED (no such thing)"


def test_a_process_that_takes_too_long_is_ended_and_replaced():
    peer = peers.Peer("numpy", sys.executable)
    try:
        row = find("compiled", "eager slice")
        assert peer.time("compiled", row, 0.01, 60.0, None)[1] < 1
        first = peer.process.pid
        with pytest.raises(peers.Failure, match="over"):
            peer.time("compiled", find("compiled", "argsort 1M"), 30.0, 0.2, None)
        assert peer.process is None
        assert peer.time("compiled", row, 0.01, 60.0, None)[1] < 1
        assert peer.process.pid != first
    finally:
        peer.close()


def test_the_command(tmp_path):
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "compiled", "--rows", "eager a+b*", "--quick"]
    command += ["--only", "weft", "--only", "numpy", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "eager a+b, 10" in done.stdout
    (row,) = json.loads(file.read_text())["rows"]
    assert set(row["seconds"]) == {"weft", "numpy"} and not row["wrong"]


def test_another_version_is_measured_beside_this_one(tmp_path):
    """The other version is a package that answers as this one, and says that it was loaded."""
    other = tmp_path / "other"
    (other / "weft").mkdir(parents=True)
    text = f"""
import pathlib, sys
pathlib.Path({str(other)!r}, "loaded").write_text("")
sys.path.remove({str(other)!r})
del sys.modules["weft"]
import weft
"""
    (other / "weft" / "__init__.py").write_text(text)
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench", "compiled", "--rows", "eager a+b*", "--quick"]
    command += ["--beside", str(other), "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())["rows"]
    assert (other / "loaded").exists() and not row["failed"]
    seconds = [row["seconds"][library][row["clock"]] for library in ("weft", "weft.other")]
    assert row["ratio"] == pytest.approx(seconds[0] / seconds[1])
    assert row["target"] == 1.05 and set(row["seconds"]) == {"weft", "weft.other"}


def test_new_processes_import_the_other_version(tmp_path, monkeypatch):
    (tmp_path / "weft").mkdir()
    (tmp_path / "weft" / "__init__.py").write_text("")
    text = "import pathlib; pathlib.Path('loaded').write_text('')"
    (tmp_path / "weft" / "numpy.py").write_text(text)
    monkeypatch.setenv("WEFT_BENCH_OTHER", str(tmp_path))
    peer = peers.Peer("weft.other", sys.executable)
    row = beside_other(find("trace", "import"))
    assert peer.time("trace", row, 0.1, 60.0, None)[0] > 0
    assert (tmp_path / "loaded").exists()


def test_first_calls_are_timed_in_new_processes():
    peer = peers.Peer("weft", sys.executable)
    row = find("compile", "cold: call a+b, 10")
    cpu, wall = peers.first_call(peer, "compile", row, 60.0)
    assert cpu > 0 and wall > 0
    with tempfile.TemporaryDirectory() as folder:
        assert peers.environment(folder)["WEFT_CACHE"] == folder
