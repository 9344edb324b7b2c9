"""What this machine's processor is: told without LLVM, so that cached code loads without it."""

from __future__ import annotations

import contextlib
import os
import sys

from weft.base.functional import lru
from weft.base.lazy import folder_of
from weft.base.record import Record

_FIELDS = frozenset(
    "vendor_id|cpu family|model|model name|flags|Features|CPU implementer|CPU architecture"
    "|CPU variant|CPU part".split("|")
)


class Processor(Record):
    """A processor that code is made for on another machine."""

    architecture: str
    bits: int  # of a vector register
    cpu: str
    features: str = ""
    system: str = "linux-gnu"

    @property
    def triple(self) -> str:
        """What LLVM calls such a machine."""
        return f"{self.architecture}-unknown-{self.system}"


# By the names that users give. The Arm one schedules as an in-order processor, as on this machine.
PROCESSORS = {
    "aarch64": Processor("aarch64", 128, "generic"),
    "x86-64": Processor("x86_64", 128, "x86-64"),
    "x86-64-v3": Processor("x86_64", 256, "x86-64-v3"),
    "x86-64-v4": Processor("x86_64", 512, "x86-64-v4"),
    "wasm32": Processor(
        "wasm32", 128, "generic", "+simd128,+bulk-memory,+nontrapping-fptoint", "unknown"
    ),
}
# Set for a process that makes code for one of them, and runs none.
ELSEWHERE = "WEFT_EXPORT_PROCESSOR"
elsewhere = PROCESSORS.get(os.environ.get(ELSEWHERE, ""))


def architecture() -> str:
    """The machine's architecture, as its system names it."""
    if elsewhere is not None:
        return elsewhere.architecture
    if hasattr(os, "uname"):
        return os.uname().machine
    return os.environ.get("PROCESSOR_ARCHITECTURE", "")


def is_arm() -> bool:
    """Whether this is a 64-bit Arm processor."""
    return architecture() in ("aarch64", "arm64")


def counter() -> tuple[str, list[str], str, int]:
    """A number that grows as time goes by: what it declares, with metadata, the call, and by how
    much the number grows in some hundredths of a second at most."""
    if is_arm():
        # Programs may not count cycles there, and what LLVM's other functions for that do depends
        # on its version. The clock is slower than the processor, by a factor that differs between
        # machines.
        name = "i64 @llvm.read_volatile_register.i64"
        metadata = ['!0 = !{!"CNTVCT_EL0"}']
        return f"declare {name}(metadata)", metadata, f"call {name}(metadata !0)", 1 << 20
    name = "i64 @llvm.readcyclecounter()"
    return f"declare {name}", [], f"call {name}", 1 << 26


@lru(1)
def description() -> tuple[str, ...]:
    """What decides which code the processor runs: its architecture, model and features."""
    if elsewhere is not None:
        return (elsewhere.triple, elsewhere.cpu)
    found = {f"{sys.platform} {architecture()}"}
    try:
        # The first processors are enough; a machine of many takes long to list them all.
        with open("/proc/cpuinfo") as file:
            lines = file.read(65536).split("\n")[:-1]
    except OSError:
        lines = [f"model:{os.environ.get('PROCESSOR_IDENTIFIER', '')}"]
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in _FIELDS:
            found.add(f"{name.strip()}={value.strip()}")
    return tuple(sorted(found))


@lru(1)
def compiler_version() -> str:
    """Which build of LLVM's library lies here."""
    built = []
    folder = folder_of("llvmlite")
    if folder is not None:
        with contextlib.suppress(OSError), os.scandir(os.path.join(folder, "binding")) as entries:
            for entry in entries:
                if entry.name.startswith(("libllvmlite", "llvmlite")):
                    built.append(f"{entry.name} {entry.stat().st_size} {entry.stat().st_mtime_ns}")
    if not built:  # inside an archive: the version has to do
        import llvmlite

        built.append(llvmlite.__version__)
    return " ".join(sorted(built))


def _flags() -> set[str]:
    return {word for line in description() if "=" in line for word in line.split("=")[1].split()}


# Of Linux on x86-64: the number of a call, what it is asked for, and for which registers.
_ARCH_PRCTL, _ASK_FOR, _MATRICES = 158, 0x1023, 18


@lru(1)
def has_matrices() -> bool:
    """Whether this process may use registers of matrices of bfloat16, which it asks for here."""
    if not {"amx_tile", "amx_bf16"} <= _flags() or vector_bits() != 512:
        return False
    if sys.platform != "linux" or architecture() != "x86_64":
        return False
    import ctypes

    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ASK_FOR, _MATRICES) == 0


@lru(1)
def vector_bits() -> int:
    """The width of the machine's vector registers.

    >>> vector_bits() in (128, 256, 512)
    True
    """
    if elsewhere is not None:
        return elsewhere.bits
    flags = _flags()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return 512
    return 256 if "avx2" in flags else 128


def registers() -> int:
    """How many vector registers the machine has."""
    return 32 if vector_bits() == 512 or is_arm() else 16


def has_by_element_fma() -> bool:
    """Whether an FMA takes one lane of a vector as a factor for all lanes, as Arm's FMLA does.

    A broadcast then needs no instruction of its own: one load brings as many factors as a vector
    has lanes.
    """
    return is_arm()


def has_ieee_minimum() -> bool:
    """Whether IEEE 754's minimum (NaN if either is, -0 below 0) is a single instruction."""
    return is_arm()


def has_wide_tiles() -> bool:
    """Whether rows of a register tile are longer than a cache line.

    An epilogue that runs on narrower ones touches each line of its arrays several times, for a few
    elements: on an Arm with vectors of 128 bits it takes three times as long as a pass of its own.
    """
    return vector_bits() > 128
