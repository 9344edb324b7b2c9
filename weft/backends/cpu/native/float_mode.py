"""The floating-point mode of a thread: whether it takes denormal numbers for zeros.

Native programs run with denormal numbers flushed, arguments and results alike, and give the
caller's mode back wherever Python runs: kept, they make additions and products up to a hundred
times slower on many processors. Here is the mode as LLVM text for stubs, and as functions for
Python, which starts kernels itself until the native walker is loaded. float16 has a mode of its
own on Arm and none on x86, so its denormal numbers are always kept.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from weft.backends.cpu.native.processor import architecture
from weft.base.functional import lru

# The bits that flush results and take arguments for zeros: of MXCSR, and of FPCR.
_FLUSH = {"x86_64": 0x8040, "aarch64": 1 << 24}
# C's fenv_t: its words of 32 bits, and which of them has those bits.
_WORDS = {"x86_64": (8, 7), "aarch64": (2, 0)}

_READ = {
    "x86_64": "declare void @llvm.x86.sse.stmxcsr(ptr)",
    "aarch64": "declare i64 @llvm.aarch64.get.fpcr()",
}
_WRITE = {
    "x86_64": "declare void @llvm.x86.sse.ldmxcsr(ptr)",
    "aarch64": "declare void @llvm.aarch64.set.fpcr(i64)",
}


def flush_bits() -> int:
    """The bits of a thread's mode by which denormal numbers are flushed; 0 if none are known."""
    return _FLUSH.get(architecture(), 0)


def declarations(machine: str) -> str:
    """What the lines below declare on an architecture."""
    return f"{_READ[machine]}\n{_WRITE[machine]}"


def read_lines(name: str, place: str) -> list[str]:
    """LLVM text for a value, the mode as 64 bits; ``place`` is memory for 32 of them."""
    if architecture() == "aarch64":
        return [f"{name} = call i64 @llvm.aarch64.get.fpcr()"]
    return [
        f"call void @llvm.x86.sse.stmxcsr(ptr {place})",
        f"{name}.low = load i32, ptr {place}",
        f"{name} = zext i32 {name}.low to i64",
    ]


def write_lines(value: str, name: str, place: str) -> list[str]:
    """LLVM text that sets the mode; ``name`` is for a value in between, ``place`` as above."""
    if architecture() == "aarch64":
        return [f"call void @llvm.aarch64.set.fpcr(i64 {value})"]
    return [
        f"{name} = trunc i64 {value} to i32",
        f"store i32 {name}, ptr {place}",
        f"call void @llvm.x86.sse.ldmxcsr(ptr {place})",
    ]


@lru(1)
def _functions() -> tuple[Any, Any, Any, int] | None:
    """C's functions that read and set a thread's mode, their argument, and its word to change."""
    if sys.platform != "linux" or architecture() not in _WORDS:
        return None
    count, word = _WORDS[architecture()]
    for library in (None, "libm.so.6"):
        try:
            found = ctypes.PyDLL(library)
            return found.fegetenv, found.fesetenv, ctypes.c_uint32 * count, word
        except (OSError, AttributeError):
            continue
    return None


class Flushing:
    """A scope in which this thread flushes denormal numbers, if ``wanted``."""

    __slots__ = ("_saved", "_wanted")

    def __init__(self, wanted: bool = True) -> None:
        self._wanted = wanted
        self._saved: Any = None

    def __enter__(self) -> None:
        known = _functions() if self._wanted else None
        if known is not None:
            read, write, kind, word = known
            saved, changed = kind(), kind()
            read(saved)
            changed[:] = saved[:]
            changed[word] |= flush_bits()
            self._saved = saved
            write(changed)

    def __exit__(self, *_: Any) -> None:
        known = _functions() if self._saved is not None else None
        if known is not None:
            known[1](self._saved)


def mode() -> int:
    """The bits of this thread's mode, where they are known."""
    known = _functions()
    if known is None:
        return 0
    read, _, kind, word = known
    found = kind()
    read(found)
    return found[word]
