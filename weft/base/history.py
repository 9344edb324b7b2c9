"""Which functions were traced, by their code: how a function that is made again is known."""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from weft.base.forks import across_forks
from weft.base.functional import name_of

# Functions whose traces are remembered, by their code, and traces of each.
MAX_FUNCTIONS, MAX_TRACES = 512, 8
LONG_TEXT = 80
# What names of values are, by the mark behind them.
_KINDS = {"=": "default value of", ":": "argument of functools.partial", ".": "attribute"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class Traced:
    """A trace of a function that may be gone by now: its types, and what it closed over."""

    __slots__ = ("function", "inner", "key", "closed_over")

    def __init__(self, fun: Any, inner: Any, key: Any) -> None:
        self.function, self.inner, self.key = _reference(fun), _reference(inner), key
        self.closed_over = _closed_over(inner) | _bound(fun)
        if isinstance(fun, types.MethodType):
            self.closed_over |= _attributes(fun.__self__)


def _reference(x: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: None


_traces: OrderedDict[Any, deque[Traced]] = OrderedDict()
_lock = across_forks(threading.Lock())


def note(fun: Any, key: Any) -> None:
    """Remember that a function was traced."""
    codes, inner = _codes(fun)
    if not codes:
        return
    made = Traced(fun, inner, key)
    with _lock:
        _traces.setdefault(codes, deque(maxlen=MAX_TRACES)).append(made)
        _traces.move_to_end(codes)
        if len(_traces) > MAX_FUNCTIONS:
            _traces.popitem(last=False)


def _codes(fun: Any) -> tuple[tuple[Any, ...], Any]:
    """The code of a function and of those that it wraps, and the innermost of them."""
    codes: list[Any] = []
    for _ in range(16):
        if isinstance(fun, functools.partial):
            codes.append(functools.partial)
            fun = fun.func
            continue
        fun = getattr(fun, "__func__", fun)
        code = getattr(fun, "__code__", None)
        codes.append(type(fun) if code is None else code)
        wrapped = getattr(fun, "__wrapped__", None)
        if wrapped is None or not callable(wrapped):
            break
        fun = wrapped
    return tuple(codes), fun


def _closed_over(fun: Any) -> dict[str, str]:
    """What a function closes over, globals that it reads if they are plain values, and its default
    values, in a few words each."""
    code = getattr(fun, "__code__", None)
    if type(code) is not types.CodeType:
        return _attributes(fun)
    found = {}
    for name, cell in zip(code.co_freevars, getattr(fun, "__closure__", None) or (), strict=False):
        try:
            found[name] = brief(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    globals_ = getattr(fun, "__globals__", {})
    for name in code.co_names:
        if type(globals_.get(name, ...)) in _PLAIN:
            found[name] = brief(globals_[name])
    values = getattr(fun, "__defaults__", None) or ()
    names = code.co_varnames[: code.co_argcount]
    found |= {f"{n}=": brief(v) for n, v in zip(names[len(names) - len(values) :], values)}
    return found


def _attributes(x: Any) -> dict[str, str]:
    """What an object holds whose method is called, in a few words each."""
    try:
        held = dict(vars(x))
    except Exception:  # it has no attributes of its own, or answers badly
        return {}
    return {f"{name}.": brief(value) for name, value in held.items() if name != "__wrapped__"}


def _bound(fun: Any) -> dict[str, str]:
    """What functools.partial gives a function, in a few words each."""
    found: dict[str, str] = {}
    while isinstance(fun, functools.partial):
        code = getattr(fun.func, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if type(code) is types.CodeType else ()
        for i, value in enumerate(fun.args):
            found[f"{names[i] if i < len(names) else i}:"] = brief(value)
        found |= {f"{name}:": brief(value) for name, value in fun.keywords.items()}
        fun = fun.func
    return found


def brief(value: Any) -> str:
    """A value in a few words, without asking it for more than its type if it may be large."""
    if type(value) in _PLAIN or (type(value) is tuple and all(type(v) in _PLAIN for v in value)):
        text = repr(value)
        return text if len(text) <= LONG_TEXT else f"{text[:LONG_TEXT]}…"
    # asked of the type: an object may answer for names that it lacks, by importing modules, say
    if hasattr(type(value), "shape") and hasattr(type(value), "dtype"):
        try:
            return f"an array of type {value.dtype}[{','.join(map(str, value.shape))}]"
        except Exception:  # the user's class may do anything here
            return f"an object of type {type(value).__name__}"
    if isinstance(value, types.FunctionType):
        return f"function {name_of(value)}"
    return f"an object of type {type(value).__name__}"


def known(fun: Any) -> list[Traced]:
    """The last traces of functions with the code of this one, oldest first."""
    with _lock:
        return list(_traces.get(_codes(fun)[0], ()))


def new_object(fun: Any, last: Traced, advice: str = "define it once") -> list[str]:
    """What to say of a function that was made again by the same code."""
    name, inner = name_of(fun), _codes(fun)[1]
    method = isinstance(fun, types.MethodType)
    if method:
        said = (
            f"the bound method {name} is another object each time it is read; call jit of it once"
        )
    elif not hasattr(inner, "__name__"):
        said = f"an object of type {type(inner).__name__} is made for each call; make it once"
    elif inner is not fun and last.inner() is inner:
        made = "functools.partial" if isinstance(fun, functools.partial) else "a transformation"
        said = f"{made} of {name} is made for each call; make it once"
    else:
        said = f"{name} is defined again for each call; {advice}"
    found = [f"a new function object: {said}, outside of the loop"]
    held = _attributes(fun.__self__) if method else {}
    before, now = last.closed_over, _closed_over(inner) | _bound(fun) | held
    for variable in now:
        old, new = before.get(variable), now[variable]
        if old is not None and old != new:
            kind = _KINDS.get(variable[-1], "variable")
            found.append(f"{kind} {variable.rstrip('=:.')}: {old} → {new}")
    return found
