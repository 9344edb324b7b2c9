"""The floating-point mode of a thread: whether it takes denormal numbers for zeros.

Native programs run with denormal numbers flushed, arguments and results alike, and give the
caller's mode back wherever Python runs: kept, they make additions and products up to a hundred
times slower on many processors. Here is the mode as words of stubs, and as functions for
Python, which starts kernels itself until the native walker is loaded. float16 has a mode of its
own on Arm and none on x86, so its denormal numbers are always kept.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from weft.backends.llvm.native.processor import architecture
from weft.backends.llvm.words import defined
from weft.base.functional import lru
from weft.kernel.kinds import External, i64, void

# The bits that flush results and take arguments for zeros: of MXCSR, and of FPCR.
_FLUSH = {"x86_64": 0x8040, "aarch64": 1 << 24}
# C's fenv_t: its words of 32 bits, and which of them has those bits.
_WORDS = {"x86_64": (8, 7), "aarch64": (2, 0)}
# LLVM's functions that read and write the mode, and the text of those that stubs have.
_READ = {
    "x86_64": (
        "void @llvm.x86.sse.stmxcsr(ptr)",
        "%p = alloca i32",
        "call void @llvm.x86.sse.stmxcsr(ptr %p)",
        "%w = load i32, ptr %p",
        "%x = zext i32 %w to i64",
        "ret i64 %x",
    ),
    "aarch64": (
        "i64 @llvm.aarch64.get.fpcr()",
        "%x = call i64 @llvm.aarch64.get.fpcr()",
        "ret i64 %x",
    ),
}
_WRITE = {
    "x86_64": (
        "void @llvm.x86.sse.ldmxcsr(ptr)",
        "%p = alloca i32",
        "%w = trunc i64 %0 to i32",
        "store i32 %w, ptr %p",
        "call void @llvm.x86.sse.ldmxcsr(ptr %p)",
        "ret void",
    ),
    "aarch64": (
        "void @llvm.aarch64.set.fpcr(i64)",
        "call void @llvm.aarch64.set.fpcr(i64 %0)",
        "ret void",
    ),
}


def flush_bits() -> int:
    """The bits of a thread's mode by which denormal numbers are flushed; 0 if none are known."""
    return _FLUSH.get(architecture(), 0)


def words() -> dict[str, External]:
    """The functions of stubs that read and set the mode, which is 64 bits."""
    (reader, *read), (writer, *write) = _READ[architecture()], _WRITE[architecture()]
    return {
        "float_mode": defined(i64, "float_mode", (), *read, declared=reader),
        "set_float_mode": defined(void, "set_float_mode", (i64,), *write, declared=writer),
    }


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
