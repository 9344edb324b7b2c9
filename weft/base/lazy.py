"""Modules that are imported when they are first used, so that importing weft stays cheap.

Which of weft's own may be is listed in tools/check_layers.py; docs/decisions/0006 says why.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from time import time
from types import FunctionType
from typing import Any

from weft.base.forks import Stay, across_forks
from weft.base.traceback import alias, bounded

# When weft began to be loaded: a file that was changed later may be loaded as it was before.
BEGAN = time()

# A child forked in the middle of an import could never import that module. No lock is held: two
# threads may each need what the other is loading, which only Python's own locks can sort out.
_importing = across_forks(Stay())


def load(module: str) -> Any:
    """Import a module by its name."""
    collects = gc.isenabled()
    try:
        gc.disable()  # modules are made of objects that stay
        with _importing:
            return import_module(module)
    finally:
        if collects:
            gc.enable()


def is_loading() -> bool:
    """Whether some thread imports a module."""
    return _importing.count() > 0


def folder_of(package: str) -> str | None:
    """Where a package lies, without importing it; None where it is in no folder."""
    return next(iter(folders_of(package)), None)


def folders_of(package: str) -> list[str]:
    """Where the parts of a package lie: a namespace may have several."""
    for finder in sys.meta_path:
        spec = finder.find_spec(package, None)
        if spec is not None:
            found = [os.path.dirname(spec.origin or "")]
            if spec.origin is None:
                found = list(spec.submodule_search_locations or ())
            return [folder for folder in found if os.path.isdir(folder)]
    return []


class Late:
    """Stands for a module, which is imported when one of its names is first read.

    >>> text = Late("weft.base.text")
    >>> str(text.text("loaded by now"))
    'loaded by now'
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        # kept, so that reading the name again costs no more than reading it from a module
        value = self.__dict__[name] = getattr(load(self._module), name)
        return value

    def __repr__(self) -> str:
        return f"<late {self._module}>"


def members(
    package: str,
    modules: Sequence[str],
    names: Mapping[str, str] | None = None,
    public: bool = True,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package with parts that are imported on sight.

    ``modules`` are modules of the package; ``names`` has the names, one after the other, that come
    from a module anywhere. Functions of a public package end tracebacks for its users.
    """
    homes = {name: home for home, listed in (names or {}).items() for name in listed.split()}

    def find(name: str) -> Any:
        if name in modules:
            return load(f"{package}.{name}")
        if name in homes:
            value = getattr(load(homes[name]), name)
            if public and type(value) is FunctionType:
                # as in JAX, where NumPy's aliases are functions of their own and others are not
                other = value.__name__ != name and value.__name__ in homes
                other = other and package == "weft.numpy"
                value = alias(value, package, name) if other else bounded(value, package)
            vars(sys.modules[package])[name] = value
            return value
        if name == "__all__":  # asked for by ``from package import *``, which is to find these too
            return [public for public in listing() if not public.startswith("_")]
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *homes})

    return find, listing


def opener(path: str) -> Callable[[], Any]:
    """What loads a library while other threads run; Python's own way makes them wait."""
    import ctypes  # which not all who import this need

    try:
        opened = ctypes.CDLL(None).dlopen
    except (AttributeError, OSError):
        return lambda: None
    opened.restype, opened.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_int]
    place = os.fsencode(path)
    return lambda: opened(place, os.RTLD_NOW)
