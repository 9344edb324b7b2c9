"""PTX from LLVM text."""

from __future__ import annotations

import threading
from typing import Any

from weft.base.functional import lru

TRIPLE = "nvptx64-nvidia-cuda"
# The layout of NVPTX for 64-bit addresses, as LLVM's target says it.
HEAD = f'target triple = "{TRIPLE}"\n'

_lock = threading.Lock()


@lru(8)
def _machine(architecture: int) -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    cpu, features = f"sm_{architecture}", "+ptx80"
    return target.create_target_machine(cpu=cpu, features=features, opt=3)


def version() -> str:
    """The version of LLVM, which the text of PTX depends on."""
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info))


def assemble(text: str, architecture: int = 90) -> str:
    """The PTX of an LLVM module."""
    import llvmlite.binding as llvm

    with _lock:
        machine = _machine(architecture)
        module = llvm.parse_assembly(HEAD + text)
        module.data_layout = str(machine.target_data)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return machine.emit_assembly(module)
