"""What is known when a stub is translated stands in its signature, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import weft

ROOT = Path(weft.__file__).parent
FILES = sorted([*ROOT.glob("backends/**/*.py"), *ROOT.glob("kernel/*.py")])


def placeholders(tree: ast.Module) -> list[str]:
    """Names that a module gives a value only so that its stubs can be written: several at once have
    the same 0, or a stub reads one that is 0, None or nothing."""
    found, read = [], set()
    for f in tree.body:
        if isinstance(f, ast.FunctionDef) and isinstance(f.returns, ast.Name):
            read |= {node.id for node in ast.walk(f) if isinstance(node, ast.Name)}
    for node in tree.body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        value = getattr(node, "value", None)
        empty = isinstance(value, ast.Constant) and not value.value and value.value is not False
        if empty or (isinstance(value, ast.Tuple) and not value.elts):
            names = [t.id for t in targets if isinstance(t, ast.Name)]
            names = [name for name in names if not name.startswith("_")]  # what a module keeps
            found += [name for name in names if name in read or len(names) > 1]
    return found


def test_placeholders_are_found():
    text = "A = B = 0\nC: Any = ()\nD = 0\nE = 7\ndef f(x: i64) -> i64:\n    return x + C + E\n"
    assert placeholders(ast.parse(text)) == ["A", "B", "C"]
    assert not placeholders(ast.parse("def f(x: i64, *, C: static) -> i64:\n    return x + C\n"))


def test_modules_have_no_placeholders():
    found = {str(path): placeholders(ast.parse(path.read_text())) for path in FILES}
    assert not {path: names for path, names in found.items() if names}
