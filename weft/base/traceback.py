"""Tracebacks that show the user's code: weft's own frames are taken out where it is entered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar, cast

from weft.base import knobs
from weft.base.annotations import copy_annotations, signature_of
from weft.base.errors import locate
from weft.base.functional import take_names
from weft.base.source import is_hidden, is_internal
from weft.base.surplus import advise

F = TypeVar("F", bound=Callable[..., Any])


def api_boundary(fun: F) -> F:
    """Return a public function from which errors show the user's code only.

    `WEFT_TRACEBACK=full`, or the option `jax_traceback_filtering` set to `off`, shows all.
    KeyboardInterrupt and the like pass untouched.

    Args:
        fun: the function.

    Returns:
        A function of the same arguments.

    Example:
        >>> api_boundary(len)([1, 2])
        2
    """

    def wrapped(*args, **kwargs):  # type: ignore[no-untyped-def]
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            advise(error, fun)
            locate(error)
            shorten(error)
            # A bare raise keeps the traceback as it is now: this frame is not added again.
            raise

    return named_as(fun, wrapped)


def named_as(fun: F, wrapped: Any) -> F:
    """A wrapper under the name and with the documentation of what it wraps."""
    # What functools.wraps does, in a fifth of the time: hundreds are wrapped when weft is imported.
    if type(fun) is FunctionType:
        wrapped.__module__ = fun.__module__
        wrapped.__name__ = fun.__name__
        wrapped.__qualname__ = fun.__qualname__
        wrapped.__doc__ = fun.__doc__
        copy_annotations(fun, wrapped)
        if fun.__dict__:
            wrapped.__dict__.update(fun.__dict__)
        wrapped.__wrapped__ = fun  # type: ignore[attr-defined]
    else:
        take_names(wrapped, fun)
    # for those who do not follow __wrapped__, as inspect.getfullargspec
    wrapped.__signature__ = LateSignature(fun)
    return cast(F, wrapped)


class LateSignature(inspect.Signature):
    """The signature of a function, read when it is looked at.

    >>> LateSignature(lambda x, n=1: x)
    <Signature (x, n=1)>
    """

    __slots__ = ("_fun",)

    def __init__(self, fun: Any) -> None:
        self._fun = fun

    def __getattr__(self, name: str) -> Any:
        if name not in ("_parameters", "_return_annotation"):
            raise AttributeError(name)
        found = self._read()
        for slot in ("_parameters", "_return_annotation"):
            setattr(self, slot, getattr(found, slot))
        return getattr(found, name)

    def _read(self) -> inspect.Signature:
        return signature_of(self._fun)

    def replace(self, **changes: Any) -> Any:
        return self._read().replace(**changes)

    def __reduce__(self) -> Any:
        return self._read().__reduce__()

    def __repr__(self) -> str:
        return f"<Signature {self}>"


def expose(*modules: ModuleType) -> None:
    """Give the functions of public modules their boundary and the name they are imported by."""
    for module in modules:
        namespace = vars(module)
        for name, function in list(namespace.items()):
            if type(function) is FunctionType and not name.startswith("_"):
                namespace[name] = bounded(function, module.__name__)


def bounded(function: FunctionType, module: str) -> Any:
    """One function behind a boundary, unless it is behind one already; aliases stay the same."""
    if "__wrapped__" in function.__dict__ and function.__globals__ is globals():
        return function
    if not function.__module__.startswith("weft"):
        return function
    wrapped = _boundaries.get(function)
    if wrapped is None:
        wrapped = _boundaries[function] = _wrapped(function)
        wrapped.__module__ = module
    return wrapped


def alias(function: FunctionType, module: str, name: str) -> Any:
    """A public function under another of its names; its documentation names the first one."""
    inner = vars(function)["__wrapped__"] if function.__globals__ is globals() else function
    wrapped = _wrapped(inner)
    wrapped.__module__, wrapped.__name__, wrapped.__qualname__ = module, name, name
    wrapped.__doc__ = f"Alias of :func:`{module}.{function.__name__}`.\n\n    {function.__doc__}"
    return wrapped


def _wrapped(fun: FunctionType) -> Any:
    """A function behind a boundary, called as another where nothing is being traced."""
    inside, state, idle = _eager(fun), _state, _idle
    converts = fun.__module__.startswith("weft.numpy.")
    if inside is None:
        if not converts:
            return api_boundary(fun)
        inside = fun

    def wrapped(*args, **kwargs):  # type: ignore[no-untyped-def]
        try:
            if state.trace is idle:
                return inside(*args, **kwargs)
            return fun(*args, **kwargs)
        except Exception as error:
            given = _converted(args, kwargs) if converts else None
            if given is None:
                advise(error, fun)
                locate(error)
                shorten(error)
                raise
        return wrapped(*given[0], **given[1])

    return named_as(fun, wrapped)


def _converted(args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]] | None:
    """Arguments with arrays for the objects that stand for one; None if there are none.

    Asked only when a call has failed, so that others pay nothing for it.
    """
    values = [_array_of(x) for x in (*args, *kwargs.values())]
    if all(x is y for x, y in zip(values, (*args, *kwargs.values()), strict=True)):
        return None
    return values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True))


def _array_of(x: Any) -> Any:
    """What an object with ``__jax_array__`` stands for, in a list or tuple too; else itself."""
    if type(x) in (list, tuple):
        items = [_array_of(item) for item in x]
        return x if all(a is b for a, b in zip(items, x, strict=True)) else type(x)(items)
    method = getattr(type(x), "__jax_array__", None)
    # a symbolic dimension may be meant as a size
    return x if method is None or getattr(x, "is_size", False) else method(x)


def eager_form(fun: Callable[..., Any]) -> Any:
    """What a function is called as while nothing is being traced; None where that is itself."""
    home = getattr(fun, "__module__", None)
    return _eager(fun) if isinstance(home, str) and hasattr(fun, "__name__") else None


def set_eager(eager: Callable[[Any], Any], state: Any, idle: Any) -> None:
    """Say what public functions are called as while the trace of ``state`` is ``idle``.

    ``eager`` gives what is to be called, or None where it is the function itself.
    """
    global _eager, _state, _idle
    _eager, _state, _idle = eager, state, idle


def _nothing(function: Any) -> None:
    return None


_eager: Callable[[Any], Any] = _nothing
_state: Any = None
_idle: Any = None
_boundaries: dict[FunctionType, Any] = {}


def shorten(error: BaseException) -> None:
    """Take weft's frames out of an error and the errors it came from, unless all are wanted."""
    mode = knobs.thread.traceback_filtering
    if mode == "off" or knobs.thread.traceback == "full":
        return
    if mode == "tracebackhide":
        _mark_hidden(error.__traceback__)
        return
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        e = pending.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        e.__traceback__ = filtered(e.__traceback__)
        pending += [e.__cause__, e.__context__]


def filtered(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without weft's frames; the same object where it has none."""
    entries: list[TracebackType] = []
    found = hidden = False
    while tb is not None:
        hidden = is_hidden(tb.tb_frame.f_code.co_filename, hidden)
        if hidden:
            found = True
        else:
            entries.append(tb)
        tb = tb.tb_next
    if not found:
        return entries[0] if entries else None
    out: TracebackType | None = None
    for entry in reversed(entries):
        out = TracebackType(out, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return out


def _mark_hidden(tb: TracebackType | None) -> None:
    """Mark weft's frames for printers that honour `__tracebackhide__`."""
    while tb is not None:
        if is_internal(tb.tb_frame.f_code.co_filename):
            tb.tb_frame.f_locals["__tracebackhide__"] = True
        tb = tb.tb_next
