"""What traces tell of GPUs: kernels by name with the user's lines, by CUPTI or by events."""

import ctypes
import itertools
import time

import numpy as np
import pytest

import weft
from tests.backends.cuda.host_device import install
from weft import numpy as jnp
from weft.backends.cuda import commands as c
from weft.backends.cuda import cupti, driver, libraries, profile, program
from weft.backends.cuda.routines.base import ROUTINES
from weft.backends.cuda.routines.table import HOST
from weft.backends.cuda.story import story
from weft.base import events
from weft.core.registry import primitives
from weft.profiler import ProfileData


class Target(program.Cuda):
    def keeps(self, eqn):
        return True


def model(x):
    y = jnp.exp(x) + 1  # line of the first kernel
    return jnp.sort(y, axis=0) * 2  # line of the last


@pytest.fixture
def run(monkeypatch):
    install(monkeypatch)
    monkeypatch.setattr(profile, "programs", set())
    monkeypatch.setattr(driver, "synchronize", lambda: None)
    monkeypatch.setattr(driver, "synchronize_all", lambda: None)
    clock = itertools.count()
    monkeypatch.setattr(driver, "timed_event", lambda: [0])
    monkeypatch.setattr(driver, "destroy_event", lambda event: None)
    monkeypatch.setattr(driver, "record", lambda event, stream: event.__setitem__(0, next(clock)))
    monkeypatch.setattr(driver, "elapsed", lambda a, b: float(b[0] - a[0]))
    monkeypatch.setattr(profile, "announce", lambda: None)
    monkeypatch.setattr(events, "devices", [profile.Tracer()])
    made = Target().compile(weft.make_jaxpr(model)(np.ones((4, 5), np.float32)))
    made.capturable = False
    return made


def lines():
    first = model.__code__.co_firstlineno
    return f"test_profile.py:{first + 1} (model)", f"test_profile.py:{first + 2} (model)"


def test_commands_know_the_users_lines(run):
    kinds = [(type(x).__name__, x) for x in run.commands]
    assert [k for k, _ in kinds] == ["Launched", "OnHost", "Launched"]
    first, last = (profile.lines_of(kinds[i][1].lines) for i in (0, 2))
    assert (first, last) == ([lines()[0]], [lines()[1]])
    assert kinds[0][1].function.name == "exp_add"
    assert kinds[2][1].function.name == "mul"


def traced(folder, run):
    with weft.profiler.trace(folder):
        run([np.ones((4, 5), np.float32)])
    (path,) = folder.rglob("*.trace.json.gz")
    plane = ProfileData.from_file(path).find_plane_with_name("/device:GPU:0")
    return plane.lines


def test_events_where_there_is_no_cupti(run, tmp_path, monkeypatch):
    monkeypatch.setattr(libraries, "has", lambda name: False)
    (line,) = traced(tmp_path, run)
    found = [(e.name, dict(e.stats).get("lines")) for e in line.events]
    first, last = lines()
    assert found == [("exp_add", first), ("sort", last), ("mul", last)]
    assert all(e.duration_ns == 1e6 for e in line.events)
    assert profile.timed is None


class FakeCupti:
    """Gives records of three kernels, a copy and a fill when it is flushed."""

    def __init__(self, names):
        self.on, self.names = set(), names
        self.kept = []

    def cuptiActivityRegisterCallbacks(self, request, complete):
        self.request, self.complete = request, complete
        return 0

    def cuptiGetTimestamp(self, out):
        out._obj.value = 1000
        return 0

    def cuptiActivityEnable(self, kind):
        self.on.add(kind)
        return 0

    def cuptiActivityDisable(self, kind):
        self.on.remove(kind)
        return 0

    def cuptiActivityFlushAll(self, flag):
        if not self.on:
            return 0
        buffer, size, most = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        self.request(buffer, size, most)
        self.records = []
        at = buffer.value
        assert at % 8 == 0 and size.value > 1000
        for i, name in enumerate(self.names):
            kernel = cupti._Kernel.from_address(at)
            kernel.kind, kernel.start, kernel.end = 10, 2000 + 100 * i, 2050 + 100 * i
            kernel.device, kernel.registers, kernel.static, kernel.dynamic, kernel.stream = (
                0,
                40,
                16,
                32,
                7,
            )
            kernel.grid[:], kernel.block[:] = [3, 2, 1], [64, 2, 1]
            self.kept.append(name.encode())
            kernel.name = self.kept[-1]
            self.records.append(at)
            at += 200
        for kind in (1, 2):
            transfer = cupti._Transfer.from_address(at)
            transfer.kind, transfer.direction, transfer.bytes = kind, 8, 4096
            transfer.start, transfer.end, transfer.stream = 3000, 3100, 7
            self.records.append(at)
            at += 100
        self.waiting = iter(self.records)
        self.complete(None, 0, buffer.value, size.value, at - buffer.value)
        return 0

    def cuptiActivityGetNextRecord(self, buffer, valid, record):
        found = next(self.waiting, None)
        if found is None:
            return 1
        record._obj.value = found
        return 0


def test_records_of_cupti(run, tmp_path, monkeypatch):
    library = FakeCupti(["exp_add", "their_sort_kernel", "mul"])
    monkeypatch.setattr(libraries, "has", lambda name: True)
    monkeypatch.setattr(libraries, "library", lambda name: library)
    # the sort as a library's call, whose kernel has a name of its own
    (sort,) = [x for x in run.commands if isinstance(x, c.OnHost)]
    call = c.Called(None, (), "sortLibrary", True, (sort.eqn.source_info,))
    told = type("Program", (), {"commands": [run.commands[0], call, run.commands[2]]})()
    monkeypatch.setattr(profile, "programs", [told])
    profile.recorder.cache_clear()
    begin = time.perf_counter_ns()
    try:
        (line,) = traced(tmp_path, run)
    finally:
        profile.recorder.cache_clear()
    assert not library.on and line.name == "stream 7"
    first, last = lines()
    stats = [dict(e.stats) for e in line.events]
    assert [e.name for e in line.events][:3] == ["exp_add", "their_sort_kernel", "mul"]
    assert [s.get("lines") for s in stats[:3]] == [first, last, last]
    assert stats[1]["call"] == "sortLibrary" and "call" not in stats[0]
    assert stats[0]["blocks"] == "3 x 2 x 1" and stats[0]["threads"] == 128
    assert stats[0]["registers"] == 40 and stats[0]["shared"] == 48
    assert abs(line.events[0].duration_ns - 50) < 1e-6
    names = sorted(e.name for e in line.events[3:])
    assert names == ["copy device to device", "fill"] and stats[3]["bytes"] == 4096
    # CUPTI's clock said 1000 when the trace began
    assert 0 <= line.events[0].start_ns < time.perf_counter_ns() - begin + 2000


def test_kernels_of_a_library_that_begins_a_program(monkeypatch):
    """Those after the last kernel of ours belong to the next run."""
    info = weft.make_jaxpr(model)(np.ones((4, 5), np.float32)).eqns[0].source_info
    own = type("Function", (), {"name": "own"})()
    commands = [
        c.Called(None, (), "product", True, (info,)),
        c.Launched(own, 1, 1, (), (), "own", (info,)),
    ]
    monkeypatch.setattr(profile, "programs", [type("Program", (), {"commands": commands})()])
    names = ["theirs", "theirs too", "own"] * 2
    given = [cupti.Activity("kernel", name, i, i + 1, 7, {}) for i, name in enumerate(names)]
    given.append(given[1]._replace(device=1))  # another GPU, whose stream has the same number
    found = profile.Table().told(given)
    assert [a.details.get("call") for a in found] == ["product", "product", None] * 2 + ["product"]
    assert all(a.details["lines"] for a in found)


def test_each_gpu_has_a_track(run, tmp_path, monkeypatch):
    made = [cupti.Activity("kernel", f"k{n}", n, n + 1, 7, {}, n) for n in range(2)]
    recorder = type("Recorder", (), {"start": lambda self: None, "stop": lambda self: made})()
    monkeypatch.setattr(profile, "recorder", lambda: recorder)
    monkeypatch.setattr(libraries, "has", lambda name: True)
    with weft.profiler.trace(tmp_path):
        pass
    (path,) = tmp_path.rglob("*.trace.json.gz")
    data = ProfileData.from_file(path)
    for n in range(2):
        (line,) = data.find_plane_with_name(f"/device:GPU:{n}").lines
        assert [e.name for e in line.events] == [f"k{n}"]


def test_devices_that_come_during_a_trace(monkeypatch):
    told = []

    class Device:
        def start(self):
            told.append("start")

        def stop(self):
            told.append("stop")
            return [("late", [])]

    monkeypatch.setattr(events, "devices", [])
    events.add_device(Device())
    assert not told
    events.start_devices()
    events.add_device(Device())
    assert events.stop_devices() == [("late", [])] * 2
    assert told == ["start", "start", "stop", "stop"] and events.stop_devices() == []


def test_explain_tells_lines_and_bandwidth(run):
    text = story(run, [0.001] * len(run.commands), 4e12)
    first, last = lines()
    assert f"[{first}]" in text and f"[{last}]" in text
    assert "TB/s" in text and "sort on the host" in text


def test_what_the_host_computes_is_listed():
    """Operations that only libraries do have a routine, or are on the short list; the list has
    nothing that isn't."""
    assert len(HOST) <= 10
    for name, primitive in primitives.items():
        if primitive.library:
            assert name in ROUTINES or name in HOST, name
    partly = {"qr", "eig"}
    assert {name for name in HOST if name in ROUTINES} == partly


def test_a_warning_names_what_the_host_computes(monkeypatch):
    install(monkeypatch)
    warned = []
    monkeypatch.setattr(c, "warn_of", warned.append)
    x = np.eye(3, dtype=np.float32)

    def callbacks(x):
        weft.debug.print("{}", x[0, 0])
        return weft.pure_callback(lambda y: y, x, x)

    Target().compile(weft.make_jaxpr(callbacks)(x))
    Target().compile(weft.make_jaxpr(weft.lax.linalg.schur)(x))
    assert warned == ["schur"]  # callbacks are the host's by what they are


def test_explain_says_which_kernels_are_slow(run):
    """Those that take more than four times what their bytes or operations take at least."""
    first = run.commands[0]
    assert run.operations[id(first)] > 4 * 5
    fast, slow = (story(run, [ms] * 3, 4e12).splitlines()[1] for ms in (0.01, 1.0))
    assert "took 10.0 us" in fast and "SLOW" not in fast
    assert "took 1000.0 us" in slow and "SLOW" in slow and "operations allow" in slow
    # as many operations as take a millisecond
    run.operations[id(first)] = int(132 * 128 * 1.7e9 * 1e-3)
    assert "SLOW" not in story(run, [1.0] * 3, 4e12).splitlines()[1]
