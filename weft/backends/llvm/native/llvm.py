"""LLVM itself, by the functions that llvmlite's library exports.

llvmlite's own Python modules take ten times as long to import as the library takes to load, and
let one thread compile at a time; of what they offer, little is needed here.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterable
from typing import Any

from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.native import processor
from weft.backends.llvm.native.processor import is_arm
from weft.base.functional import lru
from weft.base.lazy import folder_of

_LIGHT_PASSES = ("SROA", "NewGVN", "SimplifyCFG")
# As fast, where loops are to stay as they are, as what all of LLVM's passes make, in half the time.
_INLINE_PASSES = ("AlwaysInliner", "GlobalDCE", *_LIGHT_PASSES)
# Functions made one, and what goes round in a loop in registers. NewGVN, which would make nothing
# faster here, does not come to an end for some loops inside of loops, and LLVM ends the process.
_LOOP_PASSES = (*_INLINE_PASSES[:2], "SROA", "InstCombine", "LoopRotate", "SimplifyCFG")
# Functions made one, and variables in registers: what the driver's assembler does not do itself.
_SOON_PASSES = (*_INLINE_PASSES[:2], "SROA", "SimplifyCFG")
_PASSES = {
    Effort.LIGHT: _LIGHT_PASSES,
    Effort.INLINE: _INLINE_PASSES,
    Effort.BRIEF: _INLINE_PASSES,
    Effort.LOOP: _LOOP_PASSES,
    Effort.SOON: _SOON_PASSES,
}
# Functions that take long: other threads run meanwhile. To let them run for less than it takes
# to come to terms with them would cost more than it gives.
_SLOW_FUNCTIONS = frozenset(
    "CreateTargetMachine ParseAssembly RunNewModulePassManager TargetMachineEmitToMemory"
    " VerifyModule".split()
)

# Whether LLVM's scheduler tracks register pressure, which on Arm, in hundreds of register classes,
# takes a quarter of the time of a module. LLVM ends the process at an option that it does not know,
# so versions that may have lost this one are not given it.
_PRESSURE, _LAST_VERSION = "-misched-regpressure={}", 22
# Vectors of several registers, and how often a text may name them and spill nothing without that.
_LONG_VECTORS, _MAX_LONG_VECTORS = ("<8 x ", "<16 x ", "<32 x "), 40

_POINTER, _TEXT, _NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
# Results and parameters of the functions used.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "GetVersionInfo": (ctypes.c_uint,),
    "SetCommandLine": (None, _TEXT, _TEXT),
    "InitializeNativeTarget": (_NUMBER,),
    "InitializeNativeAsmPrinter": (_NUMBER,),
    "GetDefaultTargetTriple": (None, _POINTER),
    "GetHostCPUName": (None, _POINTER),
    "GetHostCPUFeatures": (_NUMBER, _POINTER),
    "GetTargetFromTriple": (_POINTER, _TEXT, _POINTER),
    "CreateTargetMachine": (
        _POINTER,
        _POINTER,
        *(_TEXT, _TEXT, _TEXT),  # triple, processor, features
        *(_NUMBER, _TEXT, _TEXT),  # level, relocations, code model
        *(_NUMBER, _NUMBER, _TEXT),  # printing, loaded by LLVM, ABI
    ),
    "DisposeTargetMachine": (None, _POINTER),
    "CreateTargetMachineData": (_POINTER, _POINTER),
    "CopyStringRepOfTargetData": (None, _POINTER, _POINTER),
    "DisposeTargetData": (None, _POINTER),
    "ContextCreate": (_POINTER,),
    "ContextDispose": (None, _POINTER),
    "ParseAssembly": (_POINTER, _POINTER, _TEXT, _POINTER),
    "VerifyModule": (ctypes.c_bool, _POINTER, _POINTER),
    "DisposeModule": (None, _POINTER),
    "DisposeString": (None, _POINTER),
    "TargetMachineEmitToMemory": (_POINTER, _POINTER, _POINTER, _NUMBER, _POINTER),
    "GetBufferStart": (_POINTER, _POINTER),
    "GetBufferSize": (ctypes.c_size_t, _POINTER),
    "DisposeMemoryBuffer": (None, _POINTER),
    "CreatePipelineTuningOptions": (_POINTER,),
    "DisposePipelineTuningOptions": (None, _POINTER),
    "CreatePassBuilder": (_POINTER, _POINTER, _POINTER),
    "DisposePassBuilder": (None, _POINTER),
    "buildPerModuleDefaultPipeline": (_POINTER, _POINTER, _NUMBER),
    "CreateNewModulePassManager": (_POINTER,),
    "RunNewModulePassManager": (None, _POINTER, _POINTER, _POINTER),
    "DisposeNewModulePassManger": (None, _POINTER),
    **{f"module_Add{name}Pass": (None, _POINTER) for name in {*_INLINE_PASSES, *_LOOP_PASSES}},
}


def is_crowded(module: Module) -> bool:
    """Whether LLVM's scheduler has to track register pressure, or the code would spill."""
    return not is_arm() or module.counts(_LONG_VECTORS) > _MAX_LONG_VECTORS


@lru(1)
def path() -> str:
    """Where llvmlite's library lies."""
    found = os.path.join(folder_of("llvmlite") or "", "binding", "libllvmlite.so")
    if os.path.exists(found):
        return found
    from llvmlite.binding import ffi  # inside an archive: it knows how to get it out

    return ffi.lib._name


class Llvm:
    """LLVM, started for this machine; each thread that compiles needs a machine of its own."""

    # What is made of a text.
    ASSEMBLY, OBJECT = 0, 1
    output = OBJECT

    def __init__(self) -> None:
        place = path()
        self.c, self.long = ctypes.PyDLL(place), ctypes.CDLL(place)
        for name, (result, *parameters) in _FUNCTIONS.items():
            library = self.long if name in _SLOW_FUNCTIONS else self.c
            function = getattr(library, f"LLVMPY_{name}", None)
            if function is None:
                raise ImportError(
                    "weft compiles with llvmlite 0.45 or newer, and the one installed has no"
                    f" {name}; update it with: pip install -U 'llvmlite>=0.45'"
                )
            function.restype, function.argtypes = result, parameters
        self.c.LLVMPY_InitializeNativeTarget()
        self.c.LLVMPY_InitializeNativeAsmPrinter()
        self.triple = self._said(self.c.LLVMPY_GetDefaultTargetTriple)
        self.cpu = self._said(self.c.LLVMPY_GetHostCPUName)
        if is_arm():
            # The generic model schedules for an in-order processor, which interleaves independent
            # chains. Models of out-of-order ones leave that to a reorder buffer that is too short
            # for our long bodies.
            self.cpu = "generic"
        features = self._said(self.c.LLVMPY_GetHostCPUFeatures).split(",")
        self.features = ",".join(sorted(filter(None, features), key=lambda word: word[1:]))
        if processor.elsewhere is not None:
            self._for(processor.elsewhere)
        error = _POINTER()
        self.target = self.c.LLVMPY_GetTargetFromTriple(self.triple.encode(), ctypes.byref(error))
        if not self.target:
            raise RuntimeError(self._taken(error))

    def _for(self, other: processor.Processor) -> None:
        """Make code for another machine than this one."""
        for part in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
            getattr(self.c, f"LLVMPY_InitializeAll{part}")()
        self.triple, self.cpu, self.features = other.triple, other.cpu, other.features

    def _taken(self, place: ctypes.c_void_p) -> str:
        """A text that LLVM has made, which is ours to free."""
        if not place.value:
            return ""
        text = ctypes.string_at(place.value).decode(errors="replace")
        self.c.LLVMPY_DisposeString(place)
        return text

    def _said(self, function: Any) -> str:
        place = _POINTER()
        function(ctypes.byref(place))
        return self._taken(place)

    def machine(self, level: int = 2) -> int:
        """A target machine, which makes code at a level of care from 0 to 3."""
        words = [x.encode() for x in (self.triple, self.cpu, self.features)]
        made = self.long.LLVMPY_CreateTargetMachine(
            self.target, *words, level, b"pic", b"small", 0, 0, b""
        )
        if not made:
            raise RuntimeError(f"LLVM does not know the machine {self.triple} {self.cpu}")
        return made

    def layout(self, machine: int) -> str:
        """How a machine lays out data, as modules say it."""
        data = self.c.LLVMPY_CreateTargetMachineData(machine)
        try:
            return self._said(functools.partial(self.c.LLVMPY_CopyStringRepOfTargetData, data))
        finally:
            self.c.LLVMPY_DisposeTargetData(data)

    def track_pressure(self, whether: bool) -> None:
        """Set whether LLVM's scheduler tracks register pressure, in all threads."""
        if self.c.LLVMPY_GetVersionInfo() >> 16 <= _LAST_VERSION:
            self.c.LLVMPY_SetCommandLine(b"weft", _PRESSURE.format(str(whether).lower()).encode())

    def compile(self, code: Module, machine: int) -> bytes:
        """The object of a module, made with a target machine that nobody else uses meanwhile."""
        text = str(code)
        # A context keeps every constant it has seen: one for each module keeps memory flat.
        context = self.c.LLVMPY_ContextCreate()
        try:
            error = _POINTER()
            module = self.long.LLVMPY_ParseAssembly(context, text.encode(), ctypes.byref(error))
            try:
                if error.value or not module:
                    raise self._refused(self._taken(error), text)
                return self._object(module, text, code.effort, machine)
            finally:
                if module:
                    self.c.LLVMPY_DisposeModule(module)
        finally:
            self.c.LLVMPY_ContextDispose(context)

    def _object(self, module: int, text: str, effort: Effort, machine: int) -> bytes:
        error = _POINTER()
        if self.long.LLVMPY_VerifyModule(module, ctypes.byref(error)):
            raise self._refused(self._taken(error), text)
        self._taken(error)
        self.optimise(module, effort, machine)
        return self.emitted(module, machine, text)

    def optimise(self, module: int, effort: Effort, machine: int) -> None:
        """Run the passes that a module asks for."""
        if effort not in (Effort.KERNEL, Effort.QUICK):
            self._optimise(module, machine, _PASSES.get(effort))

    def emitted(self, module: int, machine: int, text: str = "") -> bytes:
        """The object of a module as it is."""
        error = _POINTER()
        buffer = self.long.LLVMPY_TargetMachineEmitToMemory(
            machine, module, self.output, ctypes.byref(error)
        )
        if not buffer:
            raise self._refused(self._taken(error), text)
        try:
            return ctypes.string_at(
                self.c.LLVMPY_GetBufferStart(buffer), self.c.LLVMPY_GetBufferSize(buffer)
            )
        finally:
            self.c.LLVMPY_DisposeMemoryBuffer(buffer)

    def _optimise(self, module: int, machine: int, names: Iterable[str] | None) -> None:
        """Variables into registers and the like, for text that was not written with care.

        By the passes of these names, or by all that LLVM has.
        """
        options = self.c.LLVMPY_CreatePipelineTuningOptions()
        builder = self.c.LLVMPY_CreatePassBuilder(machine, options)
        if names is not None:
            passes = self.c.LLVMPY_CreateNewModulePassManager()
            for name in names:
                getattr(self.c, f"LLVMPY_module_Add{name}Pass")(passes)
        else:
            passes = self.c.LLVMPY_buildPerModuleDefaultPipeline(builder, 2)
        try:
            self.long.LLVMPY_RunNewModulePassManager(passes, module, builder)
        finally:
            self.c.LLVMPY_DisposeNewModulePassManger(passes)
            self.c.LLVMPY_DisposePassBuilder(builder)
            self.c.LLVMPY_DisposePipelineTuningOptions(options)

    @staticmethod
    def _refused(error: str, text: str) -> RuntimeError:
        head = "\n".join(text.splitlines()[:40])
        return RuntimeError(f"internal error: LLVM refused a kernel: {error}\n{head}")
