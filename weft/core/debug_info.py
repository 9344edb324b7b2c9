"""What is known of a traced function for the sake of messages: its name, arguments and results."""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

from weft.base.functional import name_of
from weft.base.source import display_name


def hollow(function: Any) -> Any:
    """A function's code and name without what it closes over, so that messages keep no arrays."""
    if type(function) is not FunctionType:
        return function
    inner = function
    while type(wrapped := inner.__dict__.get("__wrapped__")) is FunctionType:
        inner = wrapped
    code = inner.__code__
    cells = tuple([CellType() for _ in code.co_freevars])
    return FunctionType(code, {}, function.__name__, None, cells)


class DebugInfo:
    """The names of a function under a transformation, for messages only.

    Args:
        traced_for: the name of the transformation.
        function: the function, or its name.
        arg_names: the names of its arguments.
        result_paths: the paths of its results.

    Example:
        >>> from weft.extend.core import DebugInfo
        >>> DebugInfo("jit").traced_for
        'jit'
    """

    __slots__ = ("traced_for", "function", "arg_names", "result_paths")

    def __init__(
        self,
        traced_for: str,
        function: Any = None,
        arg_names: Any = None,
        result_paths: Any = None,
    ) -> None:
        self.traced_for = traced_for
        self.function = hollow(function)
        self.arg_names = arg_names
        self.result_paths = result_paths

    @property
    def func_name(self) -> str:
        return name_of(self.function)

    @property
    def func_src_info(self) -> str:
        function = self.function
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        code = getattr(function, "__code__", None)
        if code is None:
            return self.func_name
        return f"{self.func_name} at {display_name(code.co_filename)}:{code.co_firstlineno}"

    def names(self) -> tuple[str, ...] | None:
        """The argument names, a tuple or a function that computes one."""
        if callable(self.arg_names):
            self.arg_names = self.arg_names()
        return self.arg_names

    def __repr__(self) -> str:
        return f"DebugInfo({self.traced_for} {self.func_src_info})"


unknown = DebugInfo("unknown")
