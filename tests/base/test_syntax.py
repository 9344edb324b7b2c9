"""Parsing where Python's own count of nesting goes wrong, as it does between threads."""

import ast
import re
from pathlib import Path

import pytest

import weft
from weft.base import syntax

FAULT = "AST constructor recursion depth mismatch (before=45, after=31)"


def failing(times):
    left = [times]

    def parse(text):
        if left[0]:
            left[0] -= 1
            raise SystemError(FAULT)
        return ast.Module([ast.Pass()], [])

    return parse


def test_a_fault_of_python_is_tried_again(monkeypatch):
    monkeypatch.setattr(syntax, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(syntax.ast, "parse", failing(syntax.TRIES - 1))
    assert isinstance(syntax.parse("pass").body[0], ast.Pass)
    monkeypatch.setattr(syntax.ast, "parse", failing(syntax.TRIES))
    with pytest.raises(SystemError, match="depth mismatch"):
        syntax.parse("pass")


def test_errors_of_a_text_are_its_own():
    with pytest.raises(SyntaxError):
        syntax.parse("1 +")


def test_all_of_weft_parses_here():
    package = Path(weft.__file__).parent
    assert [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"\bast\.parse\(", path.read_text()) and path.name != "syntax.py"
    ] == []
