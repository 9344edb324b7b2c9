"""The tables of `tools/ecosystem.py`, made of outcomes that are written here."""

import json
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import ecosystem
    import ecosystem_shipped

    yield ecosystem, ecosystem_shipped
    for name in ("ecosystem", "ecosystem_shipped"):
        sys.modules.pop(name, None)


def record(folder, side, name, **tests):
    place = folder / side
    place.mkdir(exist_ok=True)
    messages = {test: "why" for test, end in tests.items() if end == "failed"}
    (place / f"{name}.json").write_text(json.dumps({"tests": tests, "messages": messages}))


def test_shares_are_of_what_passes_on_jax(tools, tmp_path, monkeypatch):
    shipped = tools[1]
    record(
        tmp_path, "weft", "jmp.a_test", one="passed", two="failed", three="failed", four="failed"
    )
    record(tmp_path, "jax", "jmp.a_test", one="passed", two="failed", three="passed", four="passed")
    record(tmp_path, "weft", "jmp.b_test", five="passed", six="skipped")  # not run on JAX
    monkeypatch.setitem(shipped.EXCUSED, "jmp", {"a_test::f*": "counts HLO"})
    row = shipped.figures("jmp", tmp_path)
    assert (row["jax"], row["both"], row["assumed"]) == (3, 2, 1)
    assert row["missed"] == {"jmp.a_test::three": "why"}
    assert row["excused"] == {"jmp.a_test::four": "counts HLO"}
    text = shipped.table(["jmp"], tmp_path)
    assert "| jmp | 3 | 2 | 66.7 % | 100 % | 1 | 1 |" in text
    assert "- jmp.a_test::three: why" in text


def test_programs_are_compared_and_timed(tools):
    times = {"first": 1.0, "second": 0.5, "steady": 0.1}
    slower = {part: 2 * seconds for part, seconds in times.items()}
    good = {"library": "flax_nnx", "program": "a", "weft": times, "jax": slower, "difference": 1e-7}
    wrong = {**good, "program": "b", "difference": 0.5}
    failed = {"library": "flax_nnx", "program": "c", "weft": {"error": "No: it"}, "jax": times}
    text = tools[0].markdown([good, wrong, failed])
    assert text.startswith("3 programs; 2 run on both, 1 agree within 0.0002, 1 fail on weft alone")
    assert "| flax.nnx with optax | 3 | 1 | 5e-01 | 0.50 | 0.50 |" in text
    assert "| flax_nnx | b | **5e-01** | 1.00 | 2.00 | 100.00 | 200.00 |" in text
    assert "| flax_nnx | c | weft: No: it | | | | |" in text
