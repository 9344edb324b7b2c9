"""The page of benchmarks is what the records of the history come to, and nothing else."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import machine, publish
from bench.__main__ import SUITES

FILES = sorted(publish.HISTORY.glob("*.json"))
ABOUT = {"date": "2026-01-02", "commit": "abc1234", "command": "python -m bench compiled"}
ABOUT |= {"machine": {"processor": "Chip 5", "cores": 4}, "versions": {"jax": "0.10.2"}}


def saved(*rows):
    return {**ABOUT, "rows": list(rows)}


def row(name, ratio, **more):
    figures = {"weft": ratio, "jax": 1.0}
    return {"suite": "compiled", "name": name, "unit": "us", "ratio": ratio, **more,
            "figures": figures}  # fmt: skip


def test_the_page_is_what_the_command_writes():
    assert publish.PAGE.read_text(encoding="utf-8") == publish.page(), (
        "run `python -m bench --publish`"
    )


def test_the_readme_has_the_figures_of_the_history():
    text = publish.README.read_text(encoding="utf-8")
    assert text == publish.with_figures(text), "run `python -m bench --publish`"
    with pytest.raises(ValueError, match="no lines"):
        publish.with_figures("# weft")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_records_say_what_they_are_of(path):
    record = json.loads(path.read_text())
    assert record["suite"] in publish.TITLES
    for run in record["runs"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
        assert run["commit"] and run["command"].startswith(
            ("python -m b", "python tools/release.py")
        )
        assert publish.file_of(record["suite"], run["machine"]) == path
        for found in run["rows"]:
            assert found["name"] and ("ratio" in found or "figures" in found or "note" in found)
    assert record["runs"] == sorted(record["runs"], key=lambda run: run["date"])


def test_every_suite_has_a_title():
    assert set(SUITES) <= set(publish.TITLES)


def test_worst_rows_come_first_and_the_newest_run_counts(tmp_path):
    publish.record(saved(row("old", 9.0)), tmp_path)
    rows = [row("good", 0.5), row("bad", 2.0), row("broken", None, failed={"weft": "no"})]
    (path,) = publish.record(saved(*rows), tmp_path)
    assert path.name == "compiled-chip-5-4-cores.json"
    text = publish.page(tmp_path)
    assert "old" not in text
    assert text.index("| broken") < text.index("| bad") < text.index("| good")
    summary = next(line for line in text.splitlines() if line.startswith("| [Compiled"))
    assert summary.endswith("| Chip 5, 4 cores | 2026-01-02 | abc1234 | 3 | 1 | 1 | 2 |")
    assert "2026-01-02, commit abc1234, jax 0.10.2." in text
    assert len(json.loads(path.read_text())["runs"]) == 2


def test_long_tables_are_cut_and_say_so(tmp_path):
    publish.record(saved(*(row(f"r{n}", n + 1.0) for n in range(60))), tmp_path)
    text = publish.page(tmp_path)
    assert "| r59 |" in text and "| r9 |" not in text
    assert "The worst 50 of 60 rows" in text


def test_a_gpu_is_named_only_where_it_ran(tmp_path):
    here = {**ABOUT["machine"], "gpu": "G 1"}
    rows = [row("a", 1.0), row("b", 1.0) | {"suite": "cuda"}]
    paths = publish.record({**saved(*rows), "machine": here}, tmp_path)
    assert [path.name for path in paths] == ["compiled-chip-5-4-cores.json", "cuda-g-1.json"]


def test_this_machine_has_a_name_and_a_commit(monkeypatch):
    about = machine.about("python -m bench")
    assert about["machine"]["processor"] and about["machine"]["cores"] >= 1
    assert about["commit"] and about["versions"]["numpy"]
    monkeypatch.setenv("WEFT_BENCH_COMMIT", "abc1234")
    machine.commit.cache_clear()
    assert machine.commit() == "abc1234"
    machine.commit.cache_clear()


def test_parts_of_a_suite_are_not_published():
    command = [sys.executable, "-m", "bench", "compiled", "--rows", "sort", "--publish"]
    root = Path(publish.__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 2 and "whole suites" in done.stderr
