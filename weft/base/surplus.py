"""Advice for calls with too many positional arguments, which Python refuses without any."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from weft.base.annotations import signature_of

# Parameters that an error lists.
_MAX_NAMES = 6


def advise(error: BaseException, fun: Callable[..., Any]) -> None:
    """Complete the TypeError of a call of ``fun`` with too many positional arguments.

    Other errors stay as they are. Called where a call has failed already, so that others pay
    nothing for it.

    Args:
        error: What the call raised.
        fun: The function that was called.

    Example:
        >>> def add(x, y, *, where=None): ...
        >>> error = TypeError("add() takes 2 positional arguments but 3 were given")
        >>> advise(error, add)
        >>> print(error)
        add() takes 2 positional arguments but 3 were given; it takes where by keyword
    """
    if type(error) is not TypeError or len(error.args) != 1:
        return
    name = getattr(fun, "__qualname__", "")
    first, newline, rest = str(error.args[0]).partition("\n")
    if not re.match(re.escape(name) + r"\(\) takes .*positional arguments? but \d", first):
        return
    text = _advice(fun)
    if text and text not in first:
        error.args = (f"{first}; {text}{newline}{rest}",)


def _advice(fun: Any) -> str:
    signature = signature_of(fun)
    params = list(signature.parameters.values())
    first = next(iter(params), None)
    named = [p.name for p in params if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")]
    listed = named if len(named) <= _MAX_NAMES else [*named[:_MAX_NAMES], "others"]
    options = f"{', '.join(listed)} by keyword" if named else ""
    returns = str(signature.return_annotation)
    takes_function = first is not None and (
        first.name.startswith("fun") or "Callable" in str(first.annotation)
    )
    if takes_function and (fun.__name__ == "jit" or "Callable" in returns):
        text = f"write {fun.__name__}(f)(x), with the arguments of f in a second call"
        return f"{text}, and {options}" if options else text
    if options:
        return f"it takes {options}"
    positional = [p.name for p in params if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return f"its parameters are {', '.join(positional)}" if positional else "it takes none"
