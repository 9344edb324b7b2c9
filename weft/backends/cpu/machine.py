"""Machine code: LLVM text compiled to objects, objects loaded, addresses of functions.

LLVM is imported at the first compile. One module holds one kernel; objects are kept by the hash
of their text, so equal kernels compile once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_lock = threading.Lock()
_state: dict[str, Any] = {}
_functions: dict[str, int] = {}


def _start() -> dict[str, Any]:
    """LLVM's native target, a target machine and an engine that holds loaded objects."""
    if not _state:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple()
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()

        def machine() -> Any:
            return target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)

        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
        _state.update(llvm=llvm, machine=machine(), engine=engine, cpu=cpu, features=features)
    return _state


def vector_bits() -> int:
    """The width of the machine's vector registers."""
    features = _start()["features"]
    names = {f[1:] for f in features.split(",") if f.startswith("+")}
    if "avx512f" in names:
        return 512
    return 256 if "avx2" in names else 128


def compile_text(text: str, name: str) -> int:
    """The address of a function given as LLVM text; ``@NAME`` in it stands for the symbol."""
    import hashlib

    key = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        found = _functions.get(key)
        if found is not None:
            return found
        state = _start()
        symbol = f"weft_{key[:24]}"
        llvm = state["llvm"]
        module = llvm.parse_assembly(text.replace(f"@{name}(", f"@{symbol}("))
        module.verify()
        blob = state["machine"].emit_object(module)
        state["engine"].add_object_file(llvm.ObjectFileRef.from_data(blob))
        state["engine"].finalize_object()
        address = state["engine"].get_function_address(symbol)
        _functions[key] = address
        return address


def function(address: int) -> Callable[[list[int], int, int], None]:
    """A kernel at an address as a Python function of buffer addresses, start and stop."""
    import ctypes

    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)

    def call(addresses: list[int], start: int, stop: int) -> None:
        native((ctypes.c_void_p * len(addresses))(*addresses), start, stop)

    return call
