"""Traces and memory profiles: what is written, and that it can be read."""

import gzip
import json
import threading
from pathlib import Path

import pytest

import weft
import weft.numpy as jnp
from weft import profiler


def read(folder: Path) -> list[dict]:
    (path,) = folder.rglob("*.trace.json.gz")
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def names(folder: Path) -> list[str]:
    return [row["name"] for row in read(folder) if row["ph"] == "X"]


def test_what_is_traced_compiled_and_called_is_seen(tmp_path: Path) -> None:
    @weft.jit
    def double_all(x):
        return x * 2

    with profiler.trace(tmp_path):
        for _ in range(3):
            double_all(jnp.ones(7))
    found = names(tmp_path)
    assert found.count("trace double_all") == 1
    assert found.count("compile double_all") == (1 if weft.config.weft_backend == "native" else 0)
    assert found.count("call double_all") == 3


def test_calls_that_native_code_answered_are_seen_again(tmp_path: Path) -> None:
    f = weft.jit(lambda x: x + 1)
    x = jnp.ones(5)
    for _ in range(30):
        f(x)
    with profiler.trace(tmp_path):
        f(x), f(x)
    assert names(tmp_path) == ["call <lambda>"] * 2
    for _ in range(30):
        f(x)
    assert f.cache_info()["misses"] == 1
    assert f.cache_info()["hits"] == 61


def test_spans_nest_and_carry_details(tmp_path: Path) -> None:
    def work():
        with profiler.TraceAnnotation("inner", rows=3):
            pass

    with profiler.trace(tmp_path, create_perfetto_trace=True):
        with profiler.StepTraceAnnotation("step", step_num=7):
            profiler.annotate_function(work, "labelled")()
        thread = threading.Thread(target=work, name="loader")
        thread.start()
        thread.join()
    rows = {row["name"]: row for row in reversed(read(tmp_path)) if row["ph"] == "X"}
    outer, inner = rows["step"], rows["inner"]
    assert outer["args"]["step_num"] == 7 and inner["args"] == {"rows": 3}
    assert outer["ts"] <= rows["labelled"]["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    labels = [row["args"]["name"] for row in read(tmp_path) if row["name"] == "thread_name"]
    assert "loader" in labels and len(labels) == 2
    assert len(list(tmp_path.rglob("perfetto_trace.json.gz"))) == 1


def test_levels_leave_out_what_they_should(tmp_path: Path) -> None:
    options = profiler.ProfileOptions()
    options.host_tracer_level = 1
    with profiler.trace(tmp_path, profiler_options=options):
        weft.jit(lambda x: x - 1)(jnp.ones(3))
        with profiler.TraceAnnotation("mine"):
            assert profiler.TraceAnnotation.is_enabled()
    assert names(tmp_path) == ["mine"]
    assert not profiler.TraceAnnotation.is_enabled()


def test_one_trace_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="start_trace"):
        profiler.stop_trace()
    profiler.start_trace(tmp_path)
    with pytest.raises(RuntimeError, match="already"):
        profiler.start_trace(tmp_path)
    profiler.stop_trace()


def test_traces_are_read_back(tmp_path: Path) -> None:
    with profiler.trace(tmp_path), profiler.TraceAnnotation("mine", n=1):
        pass
    (path,) = tmp_path.rglob("*.trace.json.gz")
    data = profiler.ProfileData.from_file(path)
    plane = data.find_plane_with_name("/host:CPU")
    (event,) = plane.lines[0].events
    assert event.name == "mine" and dict(event.stats) == {"n": 1}
    assert event.end_ns == event.start_ns + event.duration_ns
    assert data.find_plane_with_name("/device:TPU:0") is None


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data: bytes) -> list[tuple[int, object]]:
    """The fields of a protocol buffer of numbers and byte strings."""
    at, found = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value
        found.append((tag >> 3, value))
    return found


def test_memory_profile_counts_live_arrays(tmp_path: Path) -> None:
    keep = [jnp.zeros((17, 19)) for _ in range(3)]
    path = tmp_path / "memory.prof"
    profiler.save_device_memory_profile(path)
    profile = fields(gzip.decompress(path.read_bytes()))
    texts = [value for number, value in profile if number == 6]
    assert texts[0] == b"" and {b"count", b"bytes"} <= set(texts)
    functions = {dict(fields(v))[1]: texts[dict(fields(v))[2]] for n, v in profile if n == 5}
    (label,) = (i for i, name in functions.items() if name == b"float32[17,19]")
    samples = [dict(fields(value)) for number, value in profile if number == 2]
    (values,) = (s[2] for s in samples if s[1] == bytes([label]))
    count, after = varint(values, 0)
    assert (count, varint(values, after)[0]) == (3, 3 * 17 * 19 * 4)
    del keep
