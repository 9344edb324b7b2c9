"""Printing, logging and calling Python from within staged programs."""

from __future__ import annotations

import functools
import string
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.base import source
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.control.callbacks import (
    debug_callback_p,
    debug_effect,
    debug_print_p,
    merge_static,
    ordered_debug_effect,
)
from weft.core.trace import typeof
from weft.tree.functions import tree_flatten


def _split_static(args: Any, kwargs: Any) -> tuple[Any, list[Any], tuple[Any, ...]]:
    """The tree of arguments, its arrays, and pairs (position, value) for what is no array."""
    leaves, in_tree = tree_flatten((args, kwargs))
    dynamic, static = [], []
    for i, leaf in enumerate(leaves):
        try:
            typeof(leaf)
            dynamic.append(leaf)
        except TypeError:
            static.append((i, leaf))
    return in_tree, dynamic, tuple(static)


@api_boundary
def callback(
    callback: Callable[..., None] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function with the values that a staged program has here.

    Under ``vmap`` the function is called for each element, under ``grad`` with the primal values.

    Args:
        callback: the function; its result is ignored. Without it, ``callback(ordered=True)``
            returns a function that takes it.
        *args: the values to pass.
        ordered: keep the order of the program.
        partitioned: on several devices, call once for each with its part, not once with the whole.
        **kwargs: the values to pass by keyword.

    Returns:
        None, or a function that takes the callback and the values.

    Example:
        >>> import weft
        >>> seen = []
        >>> weft.jit(lambda x: weft.debug.callback(lambda v: seen.append(int(v)), x))(5)
        >>> seen
        [5]
    """

    def call(function: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        if not callable(function):
            raise TypeError(
                "debug.callback takes a function as its first argument, got"
                f" {function!r} of type {type(function).__name__}"
            )
        in_tree, dynamic, static = _split_static(args, kwargs)

        @wraps(function)
        def flat(*values: Any) -> None:
            given, keywords = merge_static(in_tree, values, static)
            function(*given, **keywords)

        effect = ordered_debug_effect if ordered else debug_effect
        debug_callback_p.bind(*dynamic, callback=flat, effect=effect, partitioned=partitioned)

    if callback is not None:
        return call(callback, *args, **kwargs)
    if args or kwargs:
        raise TypeError(
            "debug.callback without a function takes only its options; got the arguments"
            f" {args} {kwargs}"
        )
    return call


class _FormatChecker(string.Formatter):
    """Goes through a format without formatting, to find arguments that it does not use."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [x for i, x in enumerate(args) if i not in used_args]
        if unused:
            raise ValueError(f"debug.print got positional arguments it does not print: {unused}")
        names = [k for k in kwargs if k not in used_args]
        if names:
            raise ValueError(
                f"debug.print got keyword arguments it does not print: {names}. The format must"
                ' not be an f-string: write debug.print("x = {x}", x=x) instead of'
                ' debug.print(f"x = {x}", x=x)'
            )


_checker = _FormatChecker()


@api_boundary
def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values when a staged program computes them.

    Args:
        fmt: the format, as for ``str.format``. Without it, ``print(ordered=True)`` returns a
            function that takes it.
        *args: the values to pass.
        ordered: keep the order of the program.
        partitioned: on several devices, call once for each with its part, not once with the whole.
        skip_format_check: don't check the format against the values.
        **kwargs: the values that the format names.

    Returns:
        None, or a function that takes the format and the values.

    Example:
        >>> import weft
        >>> f = weft.jit(lambda x: weft.debug.print("x = {x}, next {}", x + 1, x=x))
        >>> f(3)
        x = 3, next 4
    """

    def show(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fmt, str):
            raise TypeError(
                f"debug.print takes a format string first, got {type(fmt).__name__}; write"
                ' debug.print("{}", x)'
            )
        if not skip_format_check:
            _checker.format(fmt, *args, **kwargs)
        in_tree, dynamic, static = _split_static(args, kwargs)
        first = next(iter(string.Formatter().parse(fmt)), ("", None))
        debug_print_p.bind(
            *dynamic,
            fmt=fmt,
            ordered=ordered,
            partitioned=partitioned,
            in_tree=in_tree,
            static_args=static,
            np_printoptions=tuple(np.get_printoptions().items()),
            has_placeholders=first[1] is not None,
            logging_record=_logger() if _use_logging else None,
        )

    if fmt is not None:
        return show(fmt, *args, **kwargs)
    if args or kwargs:
        raise TypeError(
            "debug.print without a format takes only its options; got the arguments"
            f" {args} {kwargs}"
        )
    return show


log = functools.partial(print, _use_logging=True)


class _Logger:
    """Logs messages under the user's line."""

    def __init__(self, here: Any) -> None:
        self.here = here

    def __call__(self, message: str) -> None:
        import logging

        logger = logging.getLogger("weft.debug")
        if logger.isEnabledFor(logging.INFO):
            file = self.here.file or "(unknown file)"
            line = self.here.line() if self.here.code is not None else 0
            record = logger.makeRecord(logger.name, logging.INFO, file, line, message, (), None)
            logger.handle(record)

    def __repr__(self) -> str:
        return f"<log at {source.summarize(self.here)}>"


def _logger() -> _Logger:
    return _Logger(source.current())
