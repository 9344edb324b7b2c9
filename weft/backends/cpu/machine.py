"""Machine code: LLVM text compiled to objects, objects loaded, addresses of functions.

One module holds one kernel. Equal texts compile once: objects are kept in memory up to a limit of
bytes, and on disk. LLVM is loaded at the first text that neither knows.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.backends.cpu import disk, loader
from weft.backends.cpu.cores import threads
from weft.backends.cpu.llvm import QUICK, Llvm
from weft.backends.cpu.processor import compiler_version, description
from weft.backends.cpu.processor import vector_bits as vector_bits
from weft.base.functional import lru, register_cache
from weft.base.knobs import thread

# The name of every kernel's function in its object: a kernel's own name would tell equal ones
# apart.
SYMBOL = "kernel"
FORMAT = "1"
LIMIT = 64 << 20
_ATTRIBUTES = "attributes #0 = { nounwind }\n"


class Address(int):
    """The address of a function; its code stays loaded while this object (not a copy) lives."""

    region: Any

    def __new__(cls, address: int, region: Any) -> Address:
        self = super().__new__(cls, address)
        self.region = region
        return self


class Loaded:
    """Code by key: all that is in use, and the last used up to a limit of bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.lock = threading.RLock()
        self.recent: OrderedDict[bytes, Any] = OrderedDict()
        self.alive: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()

    def get(self, key: bytes) -> Any:
        with self.lock:
            region = self.alive.get(key)
            if region is not None:
                self._keep(key, region)
            return region

    def put(self, key: bytes, region: Any) -> None:
        with self.lock:
            self.alive[key] = region
            self._keep(key, region)

    def _keep(self, key: bytes, region: Any) -> None:
        if key in self.recent:
            self.recent.move_to_end(key)
            return
        self.recent[key] = region
        self.size += region.size
        while self.size > self.limit and len(self.recent) > 1:
            _, dropped = self.recent.popitem(last=False)
            self.size -= dropped.size

    def cache_clear(self) -> None:
        """Forget all code that nothing uses."""
        with self.lock:
            self.recent.clear()
            self.size = 0


_loaded = Loaded(LIMIT)
register_cache(_loaded)
_compiling = threading.RLock()


class _Engine:
    """Code loaded by LLVM itself, where our own loader does not know the machine."""

    def __init__(self, blob: bytes, names: Iterable[str]) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        target = llvm.Target.from_default_triple()
        made = target.create_target_machine(codemodel="jitdefault", jit=True)
        self.size = len(blob)
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), made)
        self.engine.add_object_file(llvm.ObjectFileRef.from_data(blob))
        self.engine.finalize_object()
        self.symbols = {name: self.engine.get_function_address(name) for name in names}


@lru(1)
def _llvm() -> Llvm:
    return Llvm(loader.supported())


# Target machines for the threads that compile together.
_machines: list[int] = []


def key_of(text: str) -> bytes:
    """What an object depends on: the text, the compiler, the processor and how we load it."""
    from hashlib import sha256  # it loads a library of its own, which an import need not pay for

    return sha256(_setting() + text.encode()).digest()


@lru(1)
def _setting() -> bytes:
    words = [FORMAT, compiler_version(), *description()]
    if not loader.supported():  # LLVM is needed anyway, and knows more than the system tells
        words += [_llvm().cpu, _llvm().features]
    return "\n".join([*words, ""]).encode()


def load_keyed(what: str, text: Callable[[], str], names: Iterable[str]) -> Any:
    """Code of a module whose text is made only if no cache knows it by ``what``."""
    key = key_of(what)
    found = _loaded.get(key)
    if found is not None:
        return found
    blob = disk.load(key)
    if blob is None:
        made, llvm = text(), _llvm()
        # with a machine of its own: others may compile at the same time
        machine = llvm.machine(0 if made.startswith(QUICK) else 2)
        blob = llvm.compile(made, machine)
        llvm.dispose(machine)
        disk.save(key, blob)
    found = loader.load(blob) if loader.supported() else _Engine(blob, names)
    _loaded.put(key, found)
    return found


def load_modules(texts: Sequence[str], names: Iterable[str] = (SYMBOL,)) -> list[Any]:
    """Code of each module, its functions by name in ``symbols``; what is missing is compiled."""
    keys = [key_of(text) for text in texts]
    found = {key: _loaded.get(key) for key in keys}
    if None not in found.values():
        return [found[key] for key in keys]
    with _compiling:
        missing = {}
        for key, text in zip(keys, texts, strict=True):
            found[key] = found[key] or _loaded.get(key)
            if found[key] is None:
                missing[key] = text
        objects = {key: disk.load(key) for key in missing}
        new = [key for key in missing if objects[key] is None]
        objects.update(zip(new, _compile_all([missing[key] for key in new]), strict=True))
        if thread.compilation_cache_check_contents:
            _compare(missing, objects, set(new))
        for key in missing:
            blob = objects[key]
            assert blob is not None
            found[key] = loader.load(blob) if loader.supported() else _Engine(blob, names)
            _loaded.put(key, found[key])
    for key in new:
        blob = objects[key]
        assert blob is not None
        disk.save(key, blob)
    return [found[key] for key in keys]


def _compare(missing: dict[bytes, str], objects: dict[bytes, Any], new: set[bytes]) -> None:
    """Compile what came from the disk as well, and say where the two differ."""
    old = [key for key in missing if key not in new]
    for key, blob in zip(old, _compile_all([missing[key] for key in old]), strict=True):
        if objects[key] != blob:
            raise RuntimeError(
                f"the disk cache holds other code than LLVM makes of\n{missing[key]}"
            )


def _compile_all(texts: list[str]) -> list[bytes]:
    """Objects of modules, made side by side on as many threads as may be used."""
    global _machines
    if not texts:
        return []
    llvm, machines = _llvm(), _machines
    results: list[Any] = [None] * len(texts)
    # Long ones first, so that none is begun last.
    queue = sorted(range(len(texts)), key=lambda i: len(texts[i]))

    def work(worker: int) -> None:
        while True:
            try:
                i = queue.pop()
            except IndexError:
                return
            try:
                results[i] = llvm.compile(texts[i], machines[worker])
            except BaseException as error:
                results[i] = error

    count = min(threads(), len(texts))
    while len(machines) < count:
        machines.append(llvm.machine())
    helpers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(1, count)]
    try:
        for helper in helpers:
            helper.start()
        work(0)
        for helper in helpers:
            helper.join()
    except BaseException:
        # An interrupt: the helpers finish what they are at, with machines that nobody else has.
        queue.clear()
        _machines = []
        raise
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _general(text: str, name: str) -> str:
    """A kernel's text under the name that all of them have."""
    text = text.replace(f"@{name}(", f"@{SYMBOL}(")
    return text if "\nattributes #0" in text else text + _ATTRIBUTES


def compile_many(kernels: Iterable[tuple[str, str]]) -> list[Address]:
    """The addresses of functions given as (LLVM text, name); new ones compile side by side."""
    regions = load_modules([_general(text, name) for text, name in kernels])
    return [Address(region.symbols[SYMBOL], region) for region in regions]


def origins(kernels: Iterable[tuple[str, str]]) -> list[str]:
    """Where the code of each function would come from now: ``memory``, ``disk`` or ``LLVM``."""
    keys = [key_of(_general(text, name)) for text, name in kernels]
    return [
        "memory" if _loaded.get(key) else "disk" if disk.load(key) is not None else "LLVM"
        for key in keys
    ]


def compile_text(text: str, name: str) -> Address:
    """The address of a function given as LLVM text in which it is called ``name``.

    >>> text = "define void @one(ptr %buffers, i64 %start, i64 %stop) {\\n  ret void\\n}\\n"
    >>> compile_text(text, "one") == compile_text(text.replace("one", "two"), "two")
    True
    """
    return compile_many([(text, name)])[0]


def function(address: int) -> Callable[[list[int], int, int], None]:
    """A kernel at an address as a Python function of buffer addresses, start and stop."""
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(int(address))

    def call(addresses: list[int], start: int, stop: int) -> None:
        native((ctypes.c_void_p * len(addresses))(*addresses), start, stop)

    call.address = address  # type: ignore[attr-defined]  # keeps the code loaded
    return call


def _before_fork() -> None:
    # A child made in the middle of a compile would find LLVM's locks held for ever.
    _compiling.acquire()
    _loaded.lock.acquire()


def _after_fork() -> None:
    _loaded.lock.release()
    _compiling.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
