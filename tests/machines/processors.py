"""Processors other than the one the tests run on: kernels are planned and compiled for them here.

``pretend`` makes this process plan as if it ran on one of them. It must come before anything else
of weft is loaded, because modules ask once; so it is called in processes of their own, or by pytest
at its very start: ``WEFT_TEST_PROCESSOR=avx512 python -m pytest -p tests.machines.processors ...``
runs tests with the plans of another vector width, whose vectors LLVM splits for this processor.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Processor:
    """What plans ask for, and what LLVM is told to compile for."""

    architecture: str
    bits: int  # of a vector register
    cpu: str
    features: str = ""
    fma: bool = True  # else LLVM calls a function of the C library for each number
    matrices: bool = False

    @property
    def arm(self) -> bool:
        return self.architecture == "aarch64"

    @property
    def registers(self) -> int:
        return 32 if self.arm or self.bits == 512 else 16

    @property
    def triple(self) -> str:
        return f"{self.architecture}-unknown-linux-gnu"


PROCESSORS = {
    # as native/llvm.py has it: the generic model with the features of a Neoverse N1
    "neon": Processor("aarch64", 128, "generic", "+crc,+dotprod,+fullfp16,+lse,+rcpc,+rdm"),
    "sse2": Processor("x86_64", 128, "x86-64", fma=False),
    "avx2": Processor("x86_64", 256, "x86-64-v3"),
    "avx512": Processor("x86_64", 512, "skylake-avx512"),
    "amx": Processor("x86_64", 512, "sapphirerapids", matrices=True),
}


def pretend(name: str, plans_only: bool) -> Processor:
    """Plan for a processor; unless the code is to run here, also say that this is its machine."""
    from weft.backends.llvm.native import processor

    chosen = PROCESSORS[name]
    processor.vector_bits = lambda: chosen.bits
    processor.registers = lambda: chosen.registers
    processor.has_by_element_fma = lambda: chosen.arm
    processor.has_ieee_minimum = lambda: chosen.arm
    processor.has_matrices = lambda: chosen.matrices and plans_only
    if plans_only:
        processor.architecture = lambda: chosen.architecture
        processor.is_arm = lambda: chosen.arm
    return chosen


if os.environ.get("WEFT_TEST_PROCESSOR"):
    pretend(os.environ["WEFT_TEST_PROCESSOR"], plans_only=False)
