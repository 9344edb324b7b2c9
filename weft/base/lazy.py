"""Modules that are imported when they are first used, so that importing weft stays cheap.

Which of weft's own may be is listed in tools/check_layers.py; docs/decisions/0006 says why.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

from weft.base.forks import across_forks
from weft.base.traceback import bounded

# A child forked in the middle of an import could never import that module.
_importing = across_forks(threading.RLock())


def _load(module: str) -> Any:
    with _importing:
        return import_module(module)


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
        value = self.__dict__[name] = getattr(_load(self._module), name)
        return value

    def __repr__(self) -> str:
        return f"<late {self._module}>"


def members(
    package: str, modules: Sequence[str], names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package with parts that are imported on sight.

    ``modules`` are modules of the package; ``names`` has the names, one after the other, that come
    from a module anywhere.
    """
    homes = {name: home for home, listed in (names or {}).items() for name in listed.split()}

    def find(name: str) -> Any:
        if name in modules:
            return _load(f"{package}.{name}")
        if name in homes:
            value = getattr(_load(homes[name]), name)
            if type(value) is FunctionType:
                value = bounded(value, package)
            vars(sys.modules[package])[name] = value
            return value
        if name == "__all__":  # asked for by ``from package import *``, which is to find these too
            return [public for public in listing() if not public.startswith("_")]
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *homes})

    return find, listing
