"""Pipelines as bytes for worker processes.

Functions and classes that another process cannot import (lambdas, local functions, those of
``__main__``) are sent by value, so that a script needs no guard and a notebook works. Data of
arrays is kept apart from the rest.
"""

import importlib
import io
import marshal
import pickle
import sys
import types
from typing import Any


def dumps(value: Any) -> tuple[bytes, list[memoryview]]:
    """An object as bytes, and the data of its arrays."""
    buffers: list[memoryview] = []
    file = io.BytesIO()

    def keep(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALL:
            return True
        buffers.append(raw)
        return False

    _Pickler(file, protocol=5, buffer_callback=keep).dump(value)
    return file.getvalue(), buffers


_SMALL = 1024  # bytes: below, data stays with the rest


class _Pickler(pickle.Pickler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._globals: dict[int, dict] = {}

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.FunctionType) and not _is_importable(value):
            return self._function(value)
        if isinstance(value, type) and not _is_importable(value):
            return self._class(value)
        return NotImplemented

    def _function(self, function: types.FunctionType) -> Any:
        known = function.__globals__
        # functions of a module go on to share its globals, of which only what they use is sent
        shared = self._globals.setdefault(id(known), {"__name__": known.get("__name__", "")})
        used = {name: known[name] for name in _names(function.__code__) if name in known}
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        state = {
            "globals": used,
            "cells": cells,
            "fields": {
                "__defaults__": function.__defaults__,
                "__kwdefaults__": function.__kwdefaults__,
                "__dict__": dict(function.__dict__),
                "__doc__": function.__doc__,
                "__qualname__": function.__qualname__,
                "__module__": function.__module__,
            },
        }
        code = marshal.dumps(function.__code__)
        made = (code, shared, function.__name__, len(cells))
        return _make_function, made, state, None, None, _fill_function

    def _class(self, kind: type) -> Any:
        left_out = {"__dict__", "__weakref__", *_slots(kind)}
        fields = {k: v for k, v in vars(kind).items() if k not in left_out}
        first = {k: fields.pop(k) for k in ("__slots__", "__module__") if k in fields}
        made = (type(kind), kind.__name__, kind.__bases__, first)
        return _make_class, made, fields, None, None, _fill_class


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_importable(value: Any) -> bool:
    module = sys.modules.get(value.__module__ or "")
    if module is None or not _is_found(value.__module__.partition(".")[0]):
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _is_found(package: str) -> bool:
    """Whether another process can import a package by its name."""
    if package == "__main__":
        return False
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return any(find(package, None) is not None for find in finders if find is not None)


def _names(code: types.CodeType) -> set[str]:
    """Names of globals that code, or code inside of it, may use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _contents(cell: Any) -> tuple:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not filled yet
        return ()


def _make_function(code: bytes, shared: dict, name: str, cells: int) -> types.FunctionType:
    shared.setdefault("__builtins__", __builtins__)
    closure = tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), shared, name, None, closure)


def _fill_function(function: types.FunctionType, state: dict) -> None:
    function.__globals__.update(state["globals"])
    for name, value in state["fields"].items():
        setattr(function, name, value)
    for cell, contents in zip(function.__closure__ or (), state["cells"]):
        if contents:
            cell.cell_contents = contents[0]


def _make_class(meta: type, name: str, bases: tuple, first: dict) -> type:
    return meta(name, bases, first)


def _fill_class(kind: type, fields: dict) -> None:
    for name, value in fields.items():
        setattr(kind, name, value)
