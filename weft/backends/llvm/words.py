"""Functions that are written as lines of LLVM, for stubs to call."""

from __future__ import annotations

from weft.backends.llvm.code import Function, Module, Parameter
from weft.kernel.kinds import External, Kind


def defined(
    result: Kind, name: str, parameters: tuple[Kind, ...], *lines: str, declared: str = ""
) -> External:
    """A function by its lines, where parameters are ``%0`` and so on, and what it declares."""
    given = tuple([Parameter(kind.llvm) for kind in parameters])
    attributes = ("nounwind", "alwaysinline")
    function = Function(name, given, lines, result.llvm, attributes, internal=True)
    used = {declared: f"declare {declared}"} if declared else {}
    return External(result, parameters, Module([function], used))
