"""Machine code: equal texts compile once, unused code goes, what LLVM refuses is an error."""

import ctypes
import gc
import os
import struct
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from tests.backends.modules import module
from tests.backends.tasks import function
from weft.backends.llvm.code import Module
from weft.backends.llvm.native import loader, machine
from weft.base import knobs
from weft.base.functional import clear_all_caches


def kernel(body: str, name: str = "k", before: str = "") -> Module:
    """A kernel that does something with its first two buffers."""
    return module(f"""{before}
define void @{name}(ptr %buffers, i64 %start, i64 %stop) #0 {{
  %x = load ptr, ptr %buffers
  %second = getelementptr ptr, ptr %buffers, i64 1
  %y = load ptr, ptr %second
{body}
  ret void
}}
""")


def add(number: float, name: str = "k") -> Module:
    return kernel(
        f"  %v = load double, ptr %x\n  %w = fadd double %v, {number!r}\n  store double %w, ptr %y",
        name,
    )


def call(address: machine.Address, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    function(address)([x.ctypes.data, y.ctypes.data], 0, 1)
    return y


@pytest.fixture(autouse=True)
def no_disk():
    with knobs.cache("off"):
        yield


def test_names_do_not_tell_kernels_apart() -> None:
    a, b = machine.compile_one(add(1.5), "k"), machine.compile_one(add(1.5, "other"), "other")
    assert a == b
    assert a.region is b.region


def test_many_at_once_give_what_each_gives() -> None:
    numbers = [float(i) + 0.25 for i in range(12)]
    with knobs.num_threads(3):
        addresses = machine.compile_many([(add(n), "k") for n in [*numbers, numbers[0]]])
    assert addresses[0] == addresses[-1]
    x, y = np.ones(1), np.zeros(1)
    assert [call(a, x, y)[0] for a in addresses[:-1]] == [n + 1 for n in numbers]


def test_several_python_threads_compile() -> None:
    found: list[int] = []
    work = [
        threading.Thread(target=lambda: found.append(machine.compile_one(add(77.5), "k")))
        for _ in range(4)
    ]
    for t in work:
        t.start()
    for t in work:
        t.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_constants_and_library_functions_are_reached() -> None:
    body = """
  %v = load <4 x float>, ptr %x
  %w = fadd <4 x float> %v, <float 1.0, float 2.0, float 3.0, float 4.0>
  %m = frem <4 x float> %w, splat (float 2.5)
  store <4 x float> %m, ptr %y
  call void @llvm.memset.p0.i64(ptr %x, i8 0, i64 %stop, i1 false)"""
    declare = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    expected = np.fmod(x + np.float32([1, 2, 3, 4]), np.float32(2.5))
    address = machine.compile_one(kernel(body, before=declare), "k")
    function(address)([x.ctypes.data, y.ctypes.data], 0, 16)
    assert (y == expected).all()
    assert not x.any()


def test_what_cannot_be_compiled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="LLVM refused"):
        machine.compile_one(kernel("  %v = nonsense i64 1"), "k")
    with pytest.raises(RuntimeError, match="LLVM refused"):
        machine.compile_one(kernel("  br label %late\nlate:\n  %u = add i64 %u, 1"), "k")


@pytest.mark.skipif(not loader.supported(), reason="loaded by LLVM here")
def test_an_unknown_function_is_an_error() -> None:
    text = kernel("  call void @no_such_function()", before="declare void @no_such_function()")
    with pytest.raises(RuntimeError, match="no_such_function"):
        machine.compile_one(text, "k")


def test_code_lives_as_long_as_its_address() -> None:
    address = machine.compile_one(add(3.75), "k")
    watch = weakref.ref(address.region)
    clear_all_caches()
    assert watch() is not None
    assert call(address, np.ones(1), np.zeros(1))[0] == 4.75
    assert machine.compile_one(add(3.75), "k") == address
    clear_all_caches()
    call_it = function(address)
    del address
    gc.collect()
    assert watch() is not None
    del call_it
    gc.collect()
    assert watch() is None


def test_memory_is_bounded() -> None:
    class Code:
        size = 100

    kept = machine.Loaded(350)
    for i in range(10):
        kept.put(bytes([i]), Code())
        kept.get(b"\0")
    gc.collect()
    assert kept.size == 300
    assert list(kept.recent) == [b"\x08", b"\x09", b"\0"]
    assert kept.get(b"\1") is None
    kept.cache_clear()
    assert kept.size == 0 and kept.get(b"\0") is None


SCRIPT = """
import sys
from weft.backends.llvm.code import RANGE, Function, Module
from weft.backends.llvm.native import machine
lines = "  store i64 %start, ptr %buffers", "  ret void"
text = Module([Function("k", RANGE, lines)])
import ctypes
out = (ctypes.c_int64 * 1)()
ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
    machine.compile_one(text, "k"))(out, 42, 0)
assert out[0] == 42
print("libllvmlite" in open("/proc/self/maps").read())
"""


@pytest.mark.skipif(not loader.supported(), reason="loaded by LLVM here")
def test_a_second_process_needs_no_llvm(tmp_path: Path) -> None:
    environment = {**os.environ, "WEFT_CACHE": str(tmp_path)}

    def run() -> str:
        command = [sys.executable, "-c", SCRIPT]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=600
        ).stdout.strip()

    assert run() == "True"
    assert run() == "False"
    (entry,) = (tmp_path / "kernels").iterdir()
    entry.write_bytes(entry.read_bytes()[:-7])
    assert run() == "True"
    assert run() == "False"


def test_objects_of_aarch64_are_relocated(monkeypatch: pytest.MonkeyPatch) -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = """
declare double @fmod(double, double)
define <2 x double> @f(<2 x double> %x) nounwind {
  %y = fadd <2 x double> %x, <double 1.5, double 2.25>
  ret <2 x double> %y
}
define double @g(double %x) nounwind {
  %y = call double @fmod(double %x, double 2.0)
  %z = fadd double %y, %x
  ret double %z
}
"""
    target = llvm.Target.from_triple("aarch64-linux-gnu")
    made = target.create_target_machine(opt=2, reloc="pic", codemodel="small")
    blob = made.emit_object(llvm.parse_assembly(text))
    monkeypatch.setattr(loader, "architecture", lambda: "aarch64")
    region = loader.load(blob)
    code = struct.unpack("<6I", ctypes.string_at(region.symbols["f"], 24))
    place = next(i for i, word in enumerate(code) if word & 0x9F000000 == 0x90000000)  # adrp
    pages = (code[place] >> 5 & 0x7FFFF) << 2 | code[place] >> 29 & 3
    low = (code[place + 1] >> 10 & 0xFFF) << 4  # ldr of 16 bytes
    at = (region.symbols["f"] >> 12) + pages
    assert struct.unpack("<2d", ctypes.string_at((at << 12) + low, 16)) == (1.5, 2.25)
    calls = struct.unpack("<12I", ctypes.string_at(region.symbols["g"], 48))
    place = next(i for i, word in enumerate(calls) if word >> 26 == 0x25)  # bl
    jump = region.symbols["g"] + 4 * place + 4 * (calls[place] & 0x3FFFFFF)
    first, second, there = struct.unpack("<2IQ", ctypes.string_at(jump, 16))
    assert (first, second, there) == (0x58000050, 0xD61F0200, loader.external("fmod"))
