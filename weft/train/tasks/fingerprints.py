"""Checksums of functions and configurations, by which a cache knows that it is out of date."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.train.vocabularies import Vocabulary

_SIMPLE = (bool, int, float, str, type(None))


def fingerprint(value: Any) -> str:
    """Return a checksum of a configuration: of values, and of the code of functions.

    The code of functions that a function calls counts too, if they are in the same package.

    Args:
        value: numbers, texts, arrays, functions, vocabularies, or objects and containers of them.

    Returns:
        The checksum as text.

    Example:
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
        True
        >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
        False
    """
    text = json.dumps(describe(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def describe(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """What a checksum is of, as JSON can hold it.

    Args:
        value: anything.
        seen: what is being described, so that cycles end.
    """
    if isinstance(value, _SIMPLE):
        return value if not isinstance(value, float) else value.hex()
    if id(value) in seen:
        return "cycle"
    seen = (*seen, id(value))
    if isinstance(value, bytes):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if isinstance(value, (np.ndarray, np.generic)):
        return _array(np.asarray(value), seen)
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [describe(one, seen) for one in value]]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted(json.dumps(describe(one, seen)) for one in value)]
    if isinstance(value, Mapping):
        return ["map", [[describe(k, seen), describe(v, seen)] for k, v in value.items()]]
    if isinstance(value, Vocabulary):
        return ["vocabulary", value.fingerprint()]
    if isinstance(value, functools.partial):
        parts = (value.func, value.args, dict(sorted(value.keywords.items())))
        return ["partial", [describe(one, seen) for one in parts]]
    if isinstance(value, types.FunctionType):
        return _function(value, seen)
    if isinstance(value, types.MethodType):
        return ["method", describe(value.__func__, seen), describe(value.__self__, seen)]
    if isinstance(value, (type, types.BuiltinFunctionType, types.ModuleType, np.dtype)):
        return [
            "name",
            str(getattr(value, "__module__", "")),
            getattr(value, "__name__", str(value)),
        ]
    return _object(value, seen)


def _array(value: np.ndarray, seen: tuple[int, ...]) -> Any:
    if value.dtype == object:
        return ["objects", list(value.shape), [describe(one, seen) for one in value.ravel()]]
    checksum = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    return ["array", str(value.dtype), list(value.shape), checksum]


def _object(value: Any, seen: tuple[int, ...]) -> Any:
    cls = type(value)
    called = cls.__dict__.get("__call__")
    code = _function(called, seen) if isinstance(called, types.FunctionType) else None
    if dataclasses.is_dataclass(value):
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        held = getattr(value, "__dict__", {})
    return ["object", cls.__module__, cls.__qualname__, code, describe(dict(held), seen)]


def _function(function: types.FunctionType, seen: tuple[int, ...]) -> Any:
    code = function.__code__
    held = [_contents(cell) for cell in function.__closure__ or ()]
    defaults = [function.__defaults__, function.__kwdefaults__]
    package = function.__module__.split(".")[0] if function.__module__ else ""
    used = {}
    for name in sorted(_names(code)):
        found = function.__globals__.get(name, _names)
        if isinstance(found, types.FunctionType) and found is not _names:
            if (found.__module__ or "").split(".")[0] == package:
                used[name] = describe(found, seen)
        elif isinstance(found, _SIMPLE) or isinstance(found, Vocabulary):
            used[name] = describe(found, seen)
    parts = [describe(one, seen) for one in (held, defaults)]
    return ["function", function.__qualname__, _code(code), *parts, used]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return "unbound"


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return [_constant(one) for one in value]
    if isinstance(value, frozenset):  # whose order is another one in every process
        return sorted(json.dumps(_constant(one)) for one in value)
    return repr(value)


def _code(code: types.CodeType) -> Any:
    constants = [_constant(one) for one in code.co_consts]
    names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars)]
    return [hashlib.sha256(code.co_code).hexdigest(), constants, names]
