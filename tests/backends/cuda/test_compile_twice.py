"""Kernels that are compiled quickly for the first calls, and again in the background."""

import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device, planned
from tests.backends.cuda.test_columns import run_text
from tests.backends.cuda.test_rows import f32
from tests.backends.cuda.test_seams import kernels_of
from weft import lax, nn, random
from weft import numpy as jnp
from weft.backends.cuda import assemble, commands, driver, groups, ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.routines.base import ROUTINES
from weft.backends.cuda.routines.device import DEFINITIONS
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.backends.llvm.code import Effort
from weft.base import background, knobs
from weft.kernel.nodes import F32
from weft.kernel.program import Type

GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")


def much(x):
    for _ in range(2):
        x = jnp.sin(x) * jnp.exp(x) + jnp.log1p(x * x)
    return x


def module_of(fun, *args):
    (kernel,) = kernels_of(fun, *args)
    (part,) = schedule(kernel).parts
    return render(part)


def test_long_code_is_made_quickly_at_first():
    long = module_of(much, f32(10**7)).replaced()  # without a shorter text
    quick = ptx.soon(long)
    assert quick.effort is Effort.SOON and ptx.level_of(quick) == 0
    assert [f.lines for f in quick.functions] == [f.lines for f in long.functions]
    assert ptx.soon(module_of(lambda x: x * 2, f32(10**7))) is None  # no sooner
    assert ptx.soon(quick) is None
    assert ".entry" in ptx.assemble(quick)


def test_the_longest_code_is_made_once():
    """Of more of it, the driver's assembler takes longer than LLVM would have."""
    module = module_of(much, f32(10**7))
    padded = lambda n: module.replaced(declared={"f": f"declare void @{'f' * n}()"})
    scan = ROUTINES["cumsum"]([Type((8, 530_959), F32)] * 1, [Type((8, 530_959), F32)],
                              {"axis": 1, "reverse": False})  # fmt: skip
    for long in (padded(100_000), scan.steps[-1].module):
        assert len(str(long)) > 1 << 16 and ptx.soon(long).effort is Effort.SOON
    assert ptx.soon(padded(1 << 19)) is None


def test_clusters_and_code_without_passes_are_made_once():
    """Unless threads come to the barriers of a cluster one by one."""
    long = module_of(much, f32(10**7))
    for word, once in (("cluster_arrive", True), ("cluster_meet", False)):
        clusters = long.replaced(cluster=2).joined(DEFINITIONS[word])
        assert (ptx.soon(clusters) is None) == once
    assert ptx.soon(long.with_effort(Effort.BRIEF)) is None


class _Device:
    number, architecture = 12345, 90

    def use(self):
        pass


@pytest.fixture
def made(monkeypatch):
    """The modules that a GPU that is not there had compiled, with the driver's level."""
    found = []
    monkeypatch.setattr(driver, "device", lambda number=None: _Device())
    monkeypatch.setattr(driver, "library", lambda: SimpleNamespace(cuLaunchKernel=None))
    assembled = lambda module, architecture: module.effort
    monkeypatch.setattr(ptx, "assemble", assembled)
    monkeypatch.setattr(
        driver, "link", lambda text, path=None, level=4: found.append((text, level)) or b"code"
    )
    known = {}
    monkeypatch.setattr(assemble.disk, "load", known.get)
    monkeypatch.setattr(assemble.disk, "save", known.__setitem__)
    monkeypatch.setattr(driver.Function, "_load", lambda self, code: setattr(self, "function", 1))
    monkeypatch.setattr(assemble, "load", driver.per_device(8)(assemble.load.__wrapped__))
    return found


def test_a_kernel_is_compiled_again_when_it_is_to_be_better(made):
    long = module_of(much, f32(10**7))
    kernel = assemble.load(long)
    kernel.ready()
    assert made == [(Effort.SOON, 1)] and kernel.better is not None
    assert assemble.improve([kernel])
    assert made == [(Effort.SOON, 1), (Effort.OPTIMISE, 4)] and kernel.better is None
    assert assemble.improve([kernel]) and len(made) == 2


def test_kernels_with_dynamic_shared_memory_are_compiled_again(made):
    """Recurrent layers, whose matrices are there, once waited for the better code."""
    long = module_of(much, f32(10**7))
    kernel = assemble.load(long, 4096)
    kernel.ready()
    assert made == [(Effort.SOON, 1)] and kernel.dynamic == 4096
    assert assemble.improve([kernel]) and made[1:] == [(Effort.OPTIMISE, 4)]


def test_matrix_instructions_of_a_warp_group_are_made_with_care(made):
    """Threads come to them together, which code that is made quickly doesn't promise."""
    (function,) = [f for f in module_of(much, f32(10**7)).functions if f.name == ptx.NAME]
    line = '  call void asm sideeffect "wgmma.fence.sync.aligned;", ""()'
    long = module_of(much, f32(10**7)).replaced(functions=[function.beginning([line])])
    assert ptx.soon(long, 4096) is None
    assert ptx.soon(module_of(much, f32(10**7)), 4096).effort is Effort.SOON
    padded = lambda n: long.replaced(declared={"f": f"declare void @{'f' * n}()"})
    assert ptx.soon(padded(1 << 17), 4096) is None


def test_better_code_is_kept_on_the_disk(made):
    long = module_of(much, f32(10**7))
    load = assemble.load.__wrapped__
    load(long).ready()
    again = load(long)  # as a process does that ended before there was better code
    assert len(made) == 1 and again.better is not None
    assemble.improve([again])
    assert load(long).better is None and len(made) == 2


def test_the_background_compiles_once(made):
    long = module_of(much, f32(10**7))
    background.in_background(lambda: assemble.load(long).ready())
    background.settle()
    assert made == [(Effort.OPTIMISE, 4)]


def test_a_knob_turns_it_off(made):
    long = module_of(much, f32(10**7))
    before = knobs.gpu_compile_twice.value
    weft.config.update("weft_gpu_compile_twice", False)
    try:
        assemble.load(long).ready()
    finally:
        weft.config.update("weft_gpu_compile_twice", before)
    assert made == [(Effort.OPTIMISE, 4)]


class Improving:
    """Kernels of a host that are made quickly: what is launched, and whether it was better."""

    def __init__(self, monkeypatch):
        self.launched, self.may_go_on = [], threading.Event()
        load = assemble.load

        def quick(*given):
            kernel = load(*given)
            kernel.better = lambda: b""
            before = kernel.launch

            def launch(*told):
                self.launched.append(kernel.better is None)
                before(*told)

            def improve():
                assert self.may_go_on.wait(20)
                kernel.better = None
                kernel.handle += 1000

            kernel.launch, kernel.improve = launch, improve
            return kernel

        monkeypatch.setattr(assemble, "load", quick)


def test_calls_go_on_with_better_kernels(monkeypatch):
    gpu = host_device.install_client(monkeypatch)
    state = Improving(monkeypatch)
    x = weft.device_put(np.arange(6, dtype=np.float32), gpu)
    run = weft.jit(lambda x: jnp.sum(jnp.exp(jnp.cumsum(x))))
    want = float(run(x))
    assert [float(run(x)) for _ in range(3)] == [want] * 3
    assert state.launched and not any(state.launched)
    state.may_go_on.set()
    background.settle()
    del state.launched[:]
    assert [float(run(x)) for _ in range(3)] == [want] * 3
    assert state.launched and all(state.launched)


def test_native_calls_launch_better_kernels(monkeypatch):
    from weft.backends.cuda.calls import fast

    gpu = host_device.install_client(monkeypatch)
    state = Improving(monkeypatch)
    x = weft.device_put(np.arange(6, dtype=np.float32), gpu)
    run, tables = weft.jit(lambda x: jnp.exp(x) * 2), []
    real = fast.DeviceCall
    monkeypatch.setattr(
        fast, "DeviceCall", lambda *given: tables.append(real(*given)) or tables[-1]
    )
    for _ in range(12):
        run(x)
    state.may_go_on.set()
    background.settle()
    assert tables
    for table in tables:
        handles = [c.function.handle for c in table._kernels()]
        assert table.launches[1] == handles[0]


@pytest.mark.parametrize("fun", [random.normal, random.bits])
def test_turned_bits_are_one_instruction(fun):
    """A kernel of random numbers took LLVM a fifth of a second."""
    shape = (1000, 1000)
    key = weft.ShapeDtypeStruct((2,), np.uint32)
    module = module_of(lambda k: fun(random.wrap_key_data(k), shape), key)
    text = str(module)
    vector = text.count("store")
    assert len(re.findall(r"shf\.l\.wrap", text)) == 20 * max(vector, 1)
    assert not re.search(r"shl i32 [^\n]*, (?:13|15|26|17|29)\n", text)


def test_turned_bits_are_the_same(monkeypatch):
    monkeypatch.setattr(schedules, "THREADS", 32)
    fun = lambda k: random.bits(random.wrap_key_data(k), (70,))
    (kernel,) = kernels_of(fun, weft.ShapeDtypeStruct((2,), np.uint32))
    (part,) = schedule(kernel).parts
    outside = [i for i, b in enumerate(kernel.buffers) if b.role != "row"]
    made = groups.Joined((groups.accesses(part, tuple(outside)).piece(outside),), 0, True)
    data = np.array([3, 5], np.uint32)
    out = np.zeros(70, np.uint32)
    run_text(made, [data, out] if kernel.buffers[0].role == "in" else [out, data], render(part))
    np.testing.assert_array_equal(out, random.bits(random.wrap_key_data(data), (70,)))


@GPU
def test_first_calls_have_the_bits_of_later_ones():
    x = weft.device_put(np.random.default_rng(0).normal(size=10**6).astype(np.float32))

    def programs(x):
        key = random.key(3)
        rows = x.reshape(1000, 1000)
        return (
            much(x),
            jnp.sort(x),
            jnp.cumsum(x),
            weft.nn.softmax(rows),
            rows * random.bernoulli(key, 0.9, rows.shape),
            weft.nn.logsumexp(rows[:, :997], 1),
        )

    run = weft.jit(programs)
    first = [np.asarray(y) for y in run(x)]
    run(x)
    background.settle()
    for _ in range(3):
        for a, b in zip(first, run(x), strict=True):
            np.testing.assert_array_equal(a, b)


# --- bounds that the assembler gets ---------------------------------------------------------------


def depthwise(x, w):
    kept = {"padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    return lax.conv_general_dilated(x, w, (1, 1), feature_group_count=w.shape[-1], **kept)


BLOCKS = {
    "depthwise": (weft.grad(lambda *a: depthwise(*a).sum(), 1), (1, 128, 128, 256), (5, 5, 1, 256)),
    "strips": (lambda x: jnp.cumsum(x, 1), (8, 1000, 4096)),
    "rows": (lambda x: nn.softmax(x, -1), (64, 50_000)),
    "one row": (lambda x: x / jnp.sqrt((x * x).sum()), (1 << 14,)),
    "sort": (lambda x: jnp.sort(x, 1), (9, 4000)),
    "columns": (lambda x: (x * x).sum(0), (300_000, 24)),
    "extremes": (weft.grad(lambda x: lax.cummax(x, axis=1).sum()), (5, 50_000)),
    "factors": (lambda x: jnp.linalg.qr(x)[1], (400, 32, 32)),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_code_of_large_blocks_has_registers_for_all_threads(name, monkeypatch):
    """A thread may have 255 of a block's 65,536, and code that is made quickly may take them."""
    planned.install(monkeypatch)
    made = {}

    def load(module, dynamic=0, label=""):
        function = SimpleNamespace(name=label, dynamic=dynamic, waits=True, handle=1)
        made[id(function)] = module, function
        return function

    monkeypatch.setattr(assemble, "load", load)
    fun, *shapes = BLOCKS[name]
    program = planned.planned(fun, *[weft.ShapeDtypeStruct(s, jnp.float32) for s in shapes])
    launches = [c for c in commands.leaves(program.commands) if isinstance(c, commands.Launched)]
    assert launches
    for c in launches:
        if c.threads > ptx.MAX_UNBOUNDED_THREADS:
            text = ptx.assemble(made[id(c.function)][0])
            assert int(re.search(r"\.maxntid (\d+)", text)[1]) >= c.threads
