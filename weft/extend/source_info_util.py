"""Lines of the user's code, and the names that traced code is put under."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.base import source as _source
from weft.core.trace import state

__all__ = [
    "current", "current_name_stack", "extend_name_stack", "register_exclusion",
    "reset_name_stack", "summarize", "user_context", "warn",
]  # fmt: skip


def register_exclusion(path: str) -> None:
    """Leave the files below a folder, or one file, out of tracebacks and reported lines.

    Args:
        path: the folder or file.

    Example:
        >>> register_exclusion("/no/such/folder")
    """
    _source.register_exclusion(os.path.join(path, "") if os.path.isdir(path) else path)


def current() -> Any:
    """Return the line of the user's code that runs now.

    Returns:
        An object for ``summarize``.

    Example:
        >>> isinstance(summarize(current()), str)
        True
    """
    return _source.current()


def summarize(source_info: Any, num_frames: int = 1) -> str:
    """Return a line of the user's code as text.

    Args:
        source_info: the line, as ``current`` returns it.
        num_frames: accepted for JAX, no effect.

    Returns:
        The text.

    Example:
        >>> isinstance(summarize(current()), str)
        True
    """
    return _source.summarize(source_info)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's code that runs now, whatever lies between.

    Args:
        message: the message.
        category: the class of the warning.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     warn("this is old", DeprecationWarning)
        >>> caught[0].category.__name__, str(caught[0].message)
        ('DeprecationWarning', 'this is old')
    """
    _source.warn(message, category)


def current_name_stack() -> tuple[str, ...]:
    """Return the names that are put on what is traced now.

    Returns:
        A tuple of names.

    Example:
        >>> import weft
        >>> with weft.named_scope("layer"):
        ...     current_name_stack()
        ('layer',)
    """
    return state.name_stack


@contextmanager
def extend_name_stack(name: str) -> Iterator[tuple[str, ...]]:
    """Return a context manager that puts one more name on what is traced in the block.

    Args:
        name: the name.

    Returns:
        A context manager of the names.

    Example:
        >>> with extend_name_stack("layer") as names:
        ...     names
        ('layer',)
    """
    previous = state.name_stack
    state.name_stack = _source.NameStack((*previous, name))
    try:
        yield state.name_stack
    finally:
        state.name_stack = previous


@contextmanager
def reset_name_stack() -> Iterator[None]:
    """Return a context manager that puts no names on what is traced in the block.

    Returns:
        A context manager.

    Example:
        >>> with reset_name_stack():
        ...     current_name_stack()
        ()
    """
    previous = state.name_stack
    state.name_stack = _source.NO_NAMES
    try:
        yield
    finally:
        state.name_stack = previous


@contextmanager
def user_context(traceback: Any, *, name_stack: Any = None) -> Iterator[None]:
    """Return a context manager under which what is traced has a given line.

    Programs that run the equations of a Jaxpr one by one keep their lines with it.

    Args:
        traceback: the line, as ``eqn.source_info.traceback`` of an equation gives it; None for
            the line that runs.
        name_stack: the names to put on what is traced; None leaves them.

    Returns:
        A context manager.

    Example:
        >>> import weft
        >>> (eqn,) = weft.make_jaxpr(lambda x: x + 1.0)(1.0).eqns
        >>> with user_context(eqn.source_info.traceback):
        ...     _ = eqn.primitive.bind(2.0, 3.0)
    """
    previous, names = state.source, state.name_stack
    state.source = traceback
    if name_stack is not None:
        state.name_stack = _source.NameStack(name_stack)
    try:
        yield
    finally:
        state.source, state.name_stack = previous, names
