"""PTX from modules of LLVM code; several threads may ask for some at a time."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from weft.backends.llvm.code import Effort, Function, Memory, Module, Verbatim
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
WAIT = (
    '  call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()',
    '  call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"()',
)

# Blocks of kernels that may begin before the one before them has ended: they all find room beside
# it.
MOST_EARLY_BLOCKS = 1 << 10

# Elements below which loops of long code stay as they are (`Effort.INLINE`): the passes that it
# needs take half the time of all, and the driver's assembler does the rest.
BRIEF_ELEMENTS = 1 << 22
# Operations, characters and elements of long code for little work, which would take longer to be
# made well than it will ever run (`Effort.BRIEF`): the instructions are those that are written, and
# the driver's assembler does little more than place them. Arrays of more elements are read several
# at a time, which takes more passes.
QUICK_OPERATIONS, QUICK_TEXT, QUICK_ELEMENTS = 1 << 25, 1 << 13, 1 << 17
# Characters up to which the instructions of code whose loops stay are those that are written; of
# longer code, there are so many that the driver's assembler takes longer than LLVM would have.
BRIEF_TEXT = 1 << 16

TOGETHER = "barrier.cluster.arrive.aligned"

# Characters of code that is made twice, quickly at first (`Effort.SOON`): shorter code is made with
# care in no time, and of longer code the driver's assembler takes longer than LLVM would have. That
# is sooner so where a launch says how much memory is shared: matrices of loops, which are written
# out, and of which LLVM leaves a quarter.
SOON_TEXT, SOON_DYNAMIC_TEXT = range(1 << 11, 1 << 19), range(1 << 11, 1 << 17)
# Code of more characters has a second text for first calls, with loops over the elements of a
# thread, if that is at most this share of its length: writing a text takes time, too.
COMPACT_TEXT, COMPACT_SHARE = 5 << 10, 0.9
# Threads of a block that fits even if each of them has the most registers.
MAX_UNBOUNDED_THREADS = 256
# What instructions are called that all threads of a warp have to come to together.
ALIGNED = ".aligned"

_ENTRY = re.compile(r"(\.entry [^{]*)\{")

NAME = "kernel"  # of a kernel's function
# Denormal numbers of float32 are flushed, as on the CPU; those of float64 GPUs always keep.
FLUSH = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'

_lock = threading.Lock()


def group(number: int, *more: str) -> str:
    """Attributes that functions have by number."""
    return f"attributes #{number} = {{ {' '.join([FLUSH, 'convergent', *more])} }}"


def shared_memory(name: str, count: int, kind: str = "i8") -> Memory:
    """Memory that the threads of a block share, for so many values; of none, a launch says how many
    bytes it has."""
    # LLVM joins loads of it, and takes for granted an alignment that it doesn't declare
    what = f"internal addrspace(3) global [{count} x {kind}] undef, align 16"
    if not count:
        what = f"external addrspace(3) global [0 x {kind}], align 128"
    return Memory(name, what, constant=False)


def shared_address(name: str) -> str:
    """Where shared memory is, as a plain pointer."""
    return f"addrspacecast (ptr addrspace(3) @{name} to ptr)"


def room(word: str, size: int) -> Module:
    """Shared memory, and the function of that name that gives its address."""
    line = f"  ret ptr {shared_address(f'room_{word}')}"
    return Module([giving(word, (line,))], memory=[shared_memory(f"room_{word}", size)])


def giving(word: str, lines: tuple[str, ...]) -> Function:
    """A function that gives the address of shared memory."""
    return Function(word, (), lines, "ptr", ("alwaysinline",), internal=True)


class GpuModule(Module):
    """The module of a kernel.

    ``early`` says that it may begin before the one before it has ended: then nothing that it reads
    is constant. ``cluster`` is how many blocks are a cluster, which LLVM has no word for.
    """

    __slots__ = ("cluster", "compact", "early")
    FIELDS = (*Module.FIELDS, "early", "cluster")

    def __init__(
        self,
        functions: Iterable[Function],
        declared: Mapping[str, str] | None = None,
        memory: Iterable[Memory] = (),
        effort: Effort = Effort.OPTIMISE,
        groups: Sequence[str] = (),
        metadata: Sequence[str] = (),
        parts: Sequence[Module] = (),
        early: bool = False,
        cluster: int = 0,
    ) -> None:
        super().__init__(functions, declared, memory, effort, groups, metadata, parts)
        self.early, self.cluster = early, cluster
        # writes a shorter text that gives the same bits, for first calls
        self.compact: Callable[[], GpuModule] | None = None

    def notes(self) -> list[str]:
        early = ["may begin early"] if self.early else []
        cluster = [f"blocks of a cluster: {self.cluster}"] if self.cluster else []
        return [*super().notes(), *early, *cluster]

    @property
    def waits(self) -> bool:
        """Whether it waits for the end of the kernel before it."""
        return any(line in WAIT for f in self.functions for line in f.lines)

    def without_waiting(self) -> GpuModule:
        """The same for GPUs whose kernels never begin early."""
        return self.mapped(lambda f: f._replace(lines=tuple([x for x in f.lines if x not in WAIT])))


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


def bounded(module: GpuModule, threads: int) -> GpuModule:
    """The module, with a bound on registers that lets a block of this many threads run.

    Without a bound, the assembler may give a thread 255 of the 65,536 registers. Modules that say
    how many blocks are resident have a bound already.
    """
    if threads <= MAX_UNBOUNDED_THREADS or len(module.groups) != 1:
        return module
    return module.replaced(groups=[group(0, "nounwind", f'"nvvm.maxntid"="{threads}"')])


def is_little(operations: int, elements: int) -> bool:
    """Whether so many operations, on arrays of so many elements at most, take less time than it
    takes to make long code for them well."""
    return operations <= QUICK_OPERATIONS and elements <= QUICK_ELEMENTS


def quickly(module: GpuModule, operations: int, elements: int) -> GpuModule:
    """A module for so many operations, on arrays of so many elements at most, to be made quickly
    where that takes less time in all."""
    long = is_little(operations, elements) and len(str(module)) > QUICK_TEXT
    return module.with_effort(Effort.BRIEF) if long else module


def soon(module: GpuModule, dynamic: int = 0) -> GpuModule | None:
    """A module that does the same to the bit, for the first calls of a program; None where it would
    not be made sooner. ``dynamic`` are the bytes of shared memory that launches ask for."""
    text = str(module)
    compact = module.compact if len(text) >= COMPACT_TEXT else None
    if module.effort is Effort.BRIEF and compact is None:
        return None
    if module.effort not in (Effort.OPTIMISE, Effort.BRIEF):
        return None
    # threads that have to come to a barrier together do so in code that is made with care
    if len(text) not in (SOON_DYNAMIC_TEXT if dynamic else SOON_TEXT):
        return None
    if TOGETHER in text or (dynamic and ALIGNED in text):
        return None
    if compact is not None:
        shorter = compact()
        if len(str(shorter)) <= COMPACT_SHARE * len(text):
            return shorter.with_effort(Effort.SOON)
    return None if module.effort is Effort.BRIEF else module.with_effort(Effort.SOON)


def level_of(module: GpuModule) -> int:
    """LLVM's level of optimisation for the instructions of a module."""
    brief = module.effort is Effort.INLINE and len(str(module)) <= BRIEF_TEXT
    return 0 if brief or module.effort.is_quick else _LEVEL


def assemble(module: GpuModule, architecture: int = 90) -> str:
    """The PTX of a module."""
    if architecture < HOPPER:
        module = module.without_waiting()
    with _lock:
        library, head = _llvm(), _head(architecture)
        level = level_of(module)
        spare = library.spare.setdefault((architecture, level), [])
        machine = spare.pop() if spare else library.machine_of(architecture, level)
    try:
        whole = Verbatim(f"{head}{module}", module.effort)
        made = with_room(lambda whole: library.compile(whole, machine).decode(), whole)
        if module.early:  # what the kernel before this one writes isn't constant while this runs
            made = made.replace("ld.global.nc.", "ld.global.")
        if module.cluster:
            told = f".explicitcluster\n.reqnctapercluster {module.cluster}, 1, 1\n"
            made = _ENTRY.sub(rf"\g<1>{told}{{", made, count=1)
        # an instruction that is written out, which LLVM doesn't know to be of the next version
        return made.replace(".version 8.0\n", ".version 8.1\n") if ".v4.f32 [" in made else made
    finally:
        spare.append(machine)
