"""PTX from LLVM text; several threads may ask for some at a time."""

from __future__ import annotations

import ctypes
import re
import threading

from weft.backends.llvm.code import Effort, Verbatim
from weft.backends.llvm.native.llvm import Llvm
from weft.base.functional import lru
from weft.base.stacks import with_room

TRIPLE = "nvptx64-nvidia-cuda"
FEATURES = "+ptx80"
_LEVEL = 3
_POINTER = ctypes.c_void_p
_INITIALISERS = ("AllTargetInfos", "AllTargets", "AllTargetMCs", "AllAsmPrinters")

# The first GPUs whose kernels may begin before the one before them has ended.
HOPPER = 90
# A kernel waits for the end of the one before it, whose memory it may read, and lets the next one
# begin to be launched.
WAIT = """\
  call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()
  call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"()
"""

# Blocks of kernels that may begin before the one before them has ended: they all find room beside
# it. A comment of a module says it.
MOST_EARLY_BLOCKS = 1 << 10
EARLY = "; may begin early"

# A long text for few elements, whose loops stay as they are: the passes that it needs take half the
# time of all, and the driver's assembler does the rest. A comment of a module says it.
BRIEF, BRIEF_ELEMENTS = "; loops stay as they are\n", 1 << 22
# A long text for little work, which would take longer to be made well than it will ever run: the
# instructions are those of the text, and the driver's assembler does little more than place them.
# Arrays of more elements are read several at a time, which takes more passes.
QUICK, QUICK_OPERATIONS, QUICK_TEXT = "; made quickly\n", 1 << 25, 1 << 13
QUICK_ELEMENTS = 1 << 17
# Characters up to which the instructions of a brief text are those of the text; of longer ones,
# there are so many that the driver's assembler takes longer than LLVM would have.
BRIEF_TEXT = 1 << 16

# How many blocks are a cluster, which LLVM has no word for: a comment of a module says it.
CLUSTER = "; blocks of a cluster: {}"
_CLUSTER = re.compile(CLUSTER.format(r"(\d+)"))
_ENTRY = re.compile(r"(\.entry [^{]*)\{")

_lock = threading.Lock()


class _Ptx(Llvm):
    """LLVM, started for GPUs."""

    output = Llvm.ASSEMBLY

    def __init__(self) -> None:
        super().__init__()
        for name in _INITIALISERS:
            function = getattr(self.c, f"LLVMPY_Initialize{name}")
            function.restype, function.argtypes = None, []
            function()
        error = _POINTER()
        self.target = self.c.LLVMPY_GetTargetFromTriple(TRIPLE.encode(), ctypes.byref(error))
        if not self.target:
            raise RuntimeError(self._taken(error))
        # machines that no thread uses at the moment, by architecture and level
        self.spare: dict[tuple[int, int], list[int]] = {}

    def machine_of(self, architecture: int, level: int = _LEVEL) -> int:
        words = [x.encode() for x in (TRIPLE, f"sm_{architecture}", FEATURES)]
        made = self.long.LLVMPY_CreateTargetMachine(
            self.target, *words, level, b"default", b"default", 0, 0, b""
        )
        if not made:
            raise RuntimeError(f"LLVM does not know the GPU sm_{architecture}")
        return made

    def layout(self, machine: int) -> str:
        """How types lie in memory, as LLVM writes it."""
        make, write = self.c.LLVMPY_CreateTargetMachineData, self.c.LLVMPY_CopyStringRepOfTargetData
        make.restype, make.argtypes = _POINTER, [_POINTER]
        write.restype, write.argtypes = None, [_POINTER, _POINTER]
        data, text = make(machine), _POINTER()
        write(data, ctypes.byref(text))
        self.c.LLVMPY_DisposeTargetData.argtypes = [_POINTER]
        self.c.LLVMPY_DisposeTargetData(data)
        return self._taken(text)


@lru(1)
def _llvm() -> _Ptx:
    return _Ptx()


@lru(8)
def _head(architecture: int) -> str:
    library = _llvm()
    machine = library.machine_of(architecture)
    library.spare.setdefault((architecture, _LEVEL), []).append(machine)
    layout = library.layout(machine)
    return f'target triple = "{TRIPLE}"\ntarget datalayout = "{layout}"\n'


@lru(1)
def version() -> str:
    """The version of LLVM, which the text of PTX depends on."""
    from llvmlite import __version__

    return __version__


def quickly(text: str, operations: int, elements: int) -> str:
    """A text for so many operations, on arrays of so many elements at most, to be made quickly
    where that takes less time in all."""
    few = operations <= QUICK_OPERATIONS and elements <= QUICK_ELEMENTS
    return QUICK + text if few and len(text) > QUICK_TEXT else text


def level_of(text: str) -> int:
    """LLVM's level of optimisation for the instructions of a text."""
    brief = text.startswith(BRIEF) and len(text) <= BRIEF_TEXT
    return 0 if brief or text.startswith(QUICK) else _LEVEL


def assemble(text: str, architecture: int = 90) -> str:
    """The PTX of an LLVM module."""
    text = text if architecture >= HOPPER else text.replace(WAIT, "")
    with _lock:
        library, head = _llvm(), _head(architecture)
        brief = text.startswith((BRIEF, QUICK))
        effort = Effort.INLINE if brief else Effort.OPTIMISE
        level = level_of(text)
        spare = library.spare.setdefault((architecture, level), [])
        machine = spare.pop() if spare else library.machine_of(architecture, level)
    try:
        whole = Verbatim(head + text, effort)
        made = with_room(lambda whole: library.compile(whole, machine).decode(), whole)
        if EARLY in text:  # what the kernel before this one writes isn't constant while this runs
            made = made.replace("ld.global.nc.", "ld.global.")
        cluster = _CLUSTER.search(text)
        if cluster is not None:
            told = f".explicitcluster\n.reqnctapercluster {cluster[1]}, 1, 1\n"
            made = _ENTRY.sub(rf"\g<1>{told}{{", made, count=1)
        # an instruction that is written out, which LLVM doesn't know to be of the next version
        return made.replace(".version 8.0\n", ".version 8.1\n") if ".v4.f32 [" in made else made
    finally:
        spare.append(machine)
