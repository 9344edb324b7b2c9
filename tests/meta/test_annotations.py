"""Public functions have types: every argument and every result is annotated."""

from __future__ import annotations

import enum
import inspect
from typing import Any

import pytest

from tests.meta.test_docstrings import EXCEPTIONS, MODULES, callables


def unannotated(value: Any) -> list[str]:
    """The arguments of a callable that have no type, and ``return`` where the result has none."""
    if isinstance(value, type) and issubclass(value, (enum.Enum, BaseException)):
        return []
    found = inspect.signature(value)
    lacking = [p.name for p in found.parameters.values() if p.annotation is p.empty]
    if not isinstance(value, type) and found.return_annotation is found.empty:
        lacking.append("return")
    return lacking


@pytest.mark.parametrize("module", MODULES)
def test_signatures_are_annotated(module: str) -> None:
    values = {name: value for name, value in callables(module) if name not in EXCEPTIONS}
    lacking = {name: unannotated(value) for name, value in values.items()}
    assert not {name: names for name, names in lacking.items() if names}


def test_what_is_not_annotated_is_found() -> None:
    def half(x: float, scale=2.0):
        return x / scale

    assert unannotated(half) == ["scale", "return"]
