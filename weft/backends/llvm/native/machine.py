"""Machine code: LLVM text compiled to objects, objects loaded, addresses of functions.

One module holds one kernel. Equal texts compile once: objects are kept in memory up to a limit of
bytes, and on disk. LLVM is loaded at the first text that neither knows.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from weft.backends.llvm.code import Module
from weft.backends.llvm.native import loader
from weft.backends.llvm.native.compiling import Batch, compile_now
from weft.backends.llvm.native.processor import compiler_version, description, has_matrices
from weft.backends.llvm.native.together import was_joint
from weft.base import disk
from weft.base.disk import digest
from weft.base.forks import across_forks
from weft.base.functional import lru, register_cache
from weft.base.knobs import thread
from weft.base.lazy import Late, load

# loaded where stubs are translated
stub = Late("weft.backends.llvm.text.stub")

# The name of every kernel's function in its object: a kernel's own name would tell equal ones
# apart.
SYMBOL = "kernel"
FORMAT = "3"
MAX_CODE_BYTES = 64 << 20
_GROUPS = ("attributes #0 = { nounwind }",)


class Address(int):
    """The address of a function; its code stays loaded while this object (not a copy) lives."""

    region: Any
    key: bytes  # of its object

    def __new__(cls, region: Any, key: bytes) -> Address:
        self = super().__new__(cls, region.symbols[SYMBOL])
        self.region = region
        self.key = key
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

    def put(self, key: bytes, region: Any) -> Any:
        with self.lock:
            self.alive[key] = region
            self._keep(key, region)
        return region

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


_loaded = Loaded(MAX_CODE_BYTES)
across_forks(_loaded.lock)
register_cache(_loaded)
# A child made in the middle of a compile would find LLVM's locks held for ever.
_compiling = across_forks(threading.RLock())


def key_of(what: str) -> bytes:
    """What an object depends on: its text, the compiler, the processor and how we load it."""
    return digest(setting() + what.encode())


@lru(1)
def setting() -> bytes:
    """What all objects depend on."""
    # plans and code that others made may use what a process has to ask for
    words = [FORMAT, compiler_version(), *description(), str(has_matrices())]
    return "\n".join([*words, ""]).encode()


def load_keyed(what: str, module: Callable[[], Module]) -> Any:
    """Code of a module that is made only if no cache knows it by ``what``."""
    key = key_of(what)
    found = _loaded.get(key)
    if found is not None:
        return found
    blob = disk.load(key)
    if blob is None:
        blob = compile_now(module())
        disk.save_later(lambda: (key, blob))
    return _loaded.put(key, loader.load(blob))


def load_stubs(modules: Sequence[str], names: Mapping[str, Any], **care: bool) -> Any:
    """Code of the stubs of some modules, which are read only if no cache knows it.

    ``names`` and ``care`` are as for ``translate``.
    """
    what = "\n".join([*map(_source, modules), repr(sorted(names.items())), *care])

    def module() -> Module:
        stubs = [f for name in modules for f in stub.stubs_of(load(name))]
        return stub.translate(stubs, names, **care)

    return load_keyed(what, module)


def _source(name: str) -> str:
    """The text of a module."""
    spec = find_spec(name)
    assert spec is not None and spec.loader is not None
    return spec.loader.get_source(name)  # type: ignore[attr-defined]  # all that read files have it


def _load_all(modules: Mapping[bytes, Module], batch: Batch) -> dict[bytes, Any]:
    """Code of modules by key; what is missing is compiled, if it was not begun in ``batch``."""
    found = {key: _loaded.get(key) for key in modules}
    if None not in found.values():
        return found
    with _compiling, batch as made:
        missing = {}
        for key, module in modules.items():
            found[key] = found[key] or _loaded.get(key)
            if found[key] is None:
                missing[key] = module
                made.add(key, module)
        objects = made.finish()
        if thread.compilation_cache_check_contents:
            _compare(missing, objects, made.new)
        for key in missing:
            found[key] = _loaded.put(key, loader.load(objects[key]))
    for key in made.new.intersection(missing):
        disk.save_later(partial(_entry, key, objects[key]))
    return found


def _entry(key: bytes, blob: bytes) -> tuple[bytes, bytes]:
    return key, blob


def _compare(missing: dict[bytes, Module], objects: dict[bytes, Any], new: set[bytes]) -> None:
    """Compile what came from the disk as well, and say where the two differ."""
    for key, module in missing.items():
        if key not in new and not _same(objects[key], compile_now(module)):
            raise RuntimeError(f"the disk cache holds other code than LLVM makes of\n{module}")


def _same(found: bytes, made: bytes) -> bool:
    """Whether an object is what its module gives alone; constants of others may be in it too."""
    return found == made or (was_joint(found) and loader.code(found) == loader.code(made))


class Ahead(Batch):
    """Kernels compiled while the program that they belong to is still being planned."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[Module, str], tuple[bytes, Module]] = {}

    def begin(self, module: Module, name: str, early: bool = False) -> None:
        """A kernel that will be needed."""
        key, module = self.keyed(module, name)
        if _loaded.get(key) is None:
            self.add(key, module, early)

    def keyed(self, module: Module, name: str) -> tuple[bytes, Module]:
        """A kernel's key, and its module with the name that all of them have."""
        found = self.known.get((module, name))
        if found is None:
            general = _general(module, name)
            found = self.known[module, name] = key_of(str(general)), general
        return found


def _general(module: Module, name: str) -> Module:
    """A kernel's module with the name that all of them have."""
    return module.renamed({name: SYMBOL}).replaced(groups=module.groups or _GROUPS)


def compile_many(
    kernels: Iterable[tuple[Module, str]], ahead: Ahead | None = None
) -> list[Address]:
    """The addresses of functions given as (module, name); new ones compile side by side."""
    ahead = ahead or Ahead()
    pairs = [ahead.keyed(module, name) for module, name in kernels]
    regions = _load_all(dict(pairs), ahead)
    return [Address(regions[key], key) for key, _ in pairs]


def load_known(keys: Sequence[bytes]) -> list[Address] | None:
    """The addresses of functions whose objects are kept under these keys; None if one is not."""
    found = {key: _loaded.get(key) for key in keys}
    missing = [key for key, region in found.items() if region is None]
    objects = disk.load_many(missing)
    if None in objects:
        return None
    with _compiling:
        for key, blob in zip(missing, objects, strict=True):
            if blob is not None:
                found[key] = _loaded.get(key) or _loaded.put(key, loader.load(blob))
    return [Address(found[key], key) for key in keys]


def origins(kernels: Iterable[tuple[Module, str]]) -> list[str]:
    """Where the code of each function would come from now: ``memory``, ``disk`` or ``LLVM``."""
    keys = [key_of(str(_general(module, name))) for module, name in kernels]
    return [
        "memory" if _loaded.get(key) else "disk" if disk.load(key) is not None else "LLVM"
        for key in keys
    ]


def compile_one(module: Module, name: str) -> Address:
    """The address of a module's function.

    >>> from weft.backends.llvm.code import RANGE, Function
    >>> one, two = (Module([Function(name, RANGE, ("  ret void",))]) for name in ("one", "two"))
    >>> compile_one(one, "one") == compile_one(two, "two")
    True
    """
    return compile_many([(module, name)])[0]
