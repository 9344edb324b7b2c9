"""Traces and memory profiles: what is written, and that it can be read."""

import gzip
import json
import sys
import threading
from pathlib import Path

import pytest

import weft
import weft.numpy as jnp
from weft import lax, profiler


def read(folder: Path) -> list[dict]:
    (path,) = folder.rglob("*.trace.json.gz")
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def rows(folder: Path, *kinds: str) -> list[dict]:
    found = [row for row in read(folder) if row["ph"] == "X"]
    return [row for row in found if not kinds or row["cat"] in kinds]


def names(folder: Path, *kinds: str) -> list[str]:
    return [row["name"] for row in rows(folder, *kinds)]


native = pytest.mark.skipif(
    weft.config.weft_backend != "native", reason="kernels are of the native backend"
)


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
    assert names(tmp_path, "trace", "compile", "call") == ["call <lambda>"] * 2
    for _ in range(30):
        f(x)
    assert f.cache_info()["misses"] == 1
    assert f.cache_info()["hits"] == 61


def here() -> int:
    return sys._getframe(1).f_lineno


@native
def test_kernels_say_the_scopes_and_transformations_around_them(tmp_path: Path) -> None:
    def loss(w, x):
        with weft.named_scope("layer"):
            y = jnp.tanh(x @ w)
        with weft.named_scope("error"):
            return jnp.sum(jnp.sin(y))

    step = weft.jit(weft.grad(loss))
    x = jnp.ones((64, 64))
    with profiler.trace(tmp_path):
        step(x, x)
    products = [row for row in rows(tmp_path, "kernel") if "dot_general" in row["name"]]
    scopes = {row["args"]["scopes"] for row in products}
    assert scopes == {"jvp(layer)", "transpose(jvp(layer))"}
    others = [row["args"].get("scopes", "") for row in rows(tmp_path, "kernel")]
    assert any("transpose(jvp(error))" in text for text in others)


@native
def test_kernels_have_names_lines_and_threads(tmp_path: Path) -> None:
    @weft.jit
    def step(w, x):
        line.append(here() + 1)
        y = jnp.tanh(x @ w)
        return y / y.sum()

    line: list[int] = []
    x = jnp.ones((64, 64))
    want = step(x, x)
    with profiler.trace(tmp_path):
        got = step(x, x)
        thread = threading.Thread(target=step, args=(x, x), name="worker")
        thread.start()
        thread.join()
    assert got.tolist() == want.tolist()
    kernels = rows(tmp_path, "kernel")
    where = f"test_profiler.py:{line[0]} (step)"
    product = [row for row in kernels if "dot_general" in row["name"]]
    assert product and all(where in row["args"]["lines"] for row in product)
    assert all(row["args"]["function"] == "step" for row in kernels)
    assert any("tanh" in row["name"] for row in kernels)
    # of both threads, each within the call that ran it
    calls = rows(tmp_path, "call")
    labels = {row["tid"]: row["args"]["name"] for row in read(tmp_path) if row["ph"] == "M"}
    assert [labels[row["tid"]] for row in calls] == ["MainThread", "worker"]
    for call in calls:
        begin, end = call["ts"], call["ts"] + call["dur"]
        assert any(begin <= k["ts"] and k["ts"] + k["dur"] <= end for k in kernels)


@native
def test_pieces_that_the_pool_took_are_in_its_threads(tmp_path: Path) -> None:
    f, x = weft.jit(lambda x: jnp.sin(jnp.exp(jnp.sin(x)))), jnp.ones(1 << 20)
    with weft.num_threads(2), profiler.trace(tmp_path):
        for _ in range(30):
            f(x)
    labels = {row["tid"]: row["args"]["name"] for row in read(tmp_path) if row["ph"] == "M"}
    found = {labels[row["tid"]] for row in rows(tmp_path, "kernel")}
    assert any(name.startswith("weft-pool") for name in found), found
    pieces = [row["args"].get("pieces", 1) for row in rows(tmp_path, "kernel")]
    assert sum(pieces) % 30 == 0 and len(pieces) < sum(pieces)


@native
def test_loops_branches_and_calls_of_python_are_seen(tmp_path: Path) -> None:
    def body(c, x):
        c = lax.cond(x[0, 0] > 0, lambda c: jnp.sort(c, axis=0), lambda c: c, c)
        return c @ x, jnp.linalg.cholesky(c @ c.T + 100 * jnp.eye(64)).sum()

    @weft.jit
    def f(x, xs):
        weft.debug.callback(seen.append, x[0, 0])
        return lax.scan(body, x, xs)

    seen: list = []
    with profiler.trace(tmp_path):
        f(jnp.ones((64, 64)), jnp.ones((3, 64, 64)))
    assert len(seen) == 1
    found = " ".join(names(tmp_path, "kernel"))
    assert "callback" in found and ("cholesky" in found or "scan" in found)


@native
def test_operations_outside_of_jit_are_seen(tmp_path: Path) -> None:
    x = jnp.ones(1 << 16)
    with profiler.trace(tmp_path):
        line = here() + 1
        jnp.sin(x)
    (row,) = rows(tmp_path, "operation")
    assert row["name"] == "operation sin"
    assert row["args"]["lines"].startswith(f"test_profiler.py:{line} ")
    (kernel,) = [k for k in rows(tmp_path, "kernel") if "sin" in k["name"]][:1]
    assert row["ts"] <= kernel["ts"] and "lines" not in kernel["args"]


@native
def test_donated_arguments_are_taken_under_a_trace_too(tmp_path: Path) -> None:
    f = weft.jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    with profiler.trace(tmp_path):
        for _ in range(2):
            x, y = jnp.arange(5000.0), jnp.ones(5000)
            a, b = f(x, y)
            assert x.is_deleted() and not y.is_deleted()
            assert a[3] == 4 and b[0] == 2
    assert names(tmp_path, "kernel")


@native
def test_a_full_log_says_what_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("weft.backends.cpu.calls.traces.MAX_ROWS", 3)
    f, x = weft.jit(lambda x: x * 3), jnp.ones(11)
    with profiler.trace(tmp_path):
        for _ in range(8):
            f(x)
    found = rows(tmp_path, "kernel")
    assert len(found) == 4
    assert found[-1]["name"] == "kernels not noted" and found[-1]["args"]["lost"] == 5


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
