"""Finds modules of the names ``jax`` and ``jaxlib``: weft's own, or aliases that the table makes.

Where weft has a module of the same path and the table adds nothing, that very module is given:
``jax.numpy is weft.numpy``. Otherwise an ``Alias`` shows the names of the table, then those of
weft's modules, then placeholders for what weft does not have.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from weft.as_jax.absent import ABSENT, placeholder
from weft.as_jax.homes import HOMES
from weft.as_jax.table import TABLE

ROOTS = ("jax", "jaxlib")
# Rooms of weft that are no modules of JAX.
HIDDEN = frozenset(
    "api as_jax backends base compiler control core kernel moving prims runtime state transforms"
    " linen optim train".split()
)

# Modules that something is said of, and those that have such modules below them.
MODULES = frozenset({*TABLE, *HOMES, *ABSENT})
PACKAGES = frozenset(name[:i] for name in MODULES for i, c in enumerate(name) if c == ".")


def load(where: str) -> Any:
    """The object at ``module:name``, or the module."""
    module, _, name = where.partition(":")
    value: Any = importlib.import_module(module)
    for part in name.split(".") if name else ():
        value = getattr(value, part)
    return value


class Alias(ModuleType):
    """A module of JAX's name: what the table says, then what weft's modules have.

    ``_module`` is weft's module of the same path, ``_homes`` names modules that have the public
    functions which JAX defines in this one.
    """

    _names: dict[str, Any]
    _module: ModuleType | None
    _homes: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            where = self._names[name]
            value = self.__dict__[name] = load(where)
            return value
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if self._module is not None:
            try:
                return self._of_weft(name)
            except AttributeError:
                pass
        if name != "__all__" and exists(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        if not name.startswith("_"):
            for home in map(importlib.import_module, self._homes):
                try:
                    return getattr(home, name)
                except AttributeError:
                    pass
        if name in ABSENT.get(self.__name__, ()):
            value = self.__dict__[name] = placeholder(self.__name__, name)
            return value
        raise AttributeError(
            f"weft, under the name {self.__name__}, has no {name!r}", name=name, obj=self
        )

    def _of_weft(self, name: str) -> Any:
        value = getattr(self._module, name)
        assert self._module is not None
        if isinstance(value, ModuleType) and value.__name__ == f"{self._module.__name__}.{name}":
            return importlib.import_module(f"{self.__name__}.{name}")
        return value  # not kept: what it is may change, as after a reload

    def __dir__(self) -> list[str]:
        own = [] if self._module is None else dir(self._module)
        for home in map(importlib.import_module, self._homes):
            own += [name for name in dir(home) if not name.startswith("_")]
        absent = ABSENT.get(self.__name__, ())
        return sorted({*self.__dict__, *self._names, *own, *absent})


def weft_module(name: str) -> ModuleType | None:
    """The module of weft with the same path, or None."""
    if name == "jax":
        return sys.modules["weft"]
    if not name.startswith("jax.") or name.startswith("jax._src"):
        return None
    if (name in TABLE and TABLE[name].replaces) or name.split(".")[1] in HIDDEN:
        return None
    path = "weft" + name[3:]
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not (path == error.name or path.startswith(error.name + ".")):
            raise
    # a namespace that is an attribute of its parent, under another name there
    parent, _, last = path.rpartition(".")
    try:
        value = getattr(importlib.import_module(parent), last, None)
    except ModuleNotFoundError:
        return None
    return value if isinstance(value, ModuleType) else None


def exists(name: str) -> bool:
    """Whether there is a module of this name."""
    return name in MODULES or _is_package(name) or weft_module(name) is not None


def _is_package(name: str) -> bool:
    return name in PACKAGES


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives weft's modules for the names of JAX's."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in ROOTS:
            return None
        if not exists(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        names = TABLE[spec.name].names if spec.name in TABLE else {}
        alias = Alias(spec.name)
        alias.__dict__.update(
            _names=names, _module=weft_module(spec.name), _homes=HOMES.get(spec.name, ())
        )
        alias.__doc__ = getattr(alias._module, "__doc__", None)
        return alias

    def exec_module(self, module: ModuleType) -> None:
        assert isinstance(module, Alias)
        name = module.__name__
        if module._module is not None and name not in MODULES and not _is_package(name):
            # the import system returns what lies here when this is done
            sys.modules[name] = module._module
