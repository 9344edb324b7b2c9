"""Generated code is a value until LLVM gets it: nothing searches or edits its text.

In the rooms that write code, regular expressions and ``str.replace`` are listed here, with what
they are for; anything else is done by the methods of `weft/backends/llvm/code.py`.
"""

import ast
from pathlib import Path

import pytest

from weft.base.syntax import parse

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("backends/llvm", "backends/cpu", "backends/cuda", "kernel", "compiler")

# By file: how many calls there are, and why none of them is about code that weft has written.
ALLOWED = {
    "backends/llvm/native/together.py": (2, "names of sections in objects, which LLVM has made"),
    "backends/cpu/calls/tell.py": (2, "names of files that a program is told in"),
    "backends/cuda/messages.py": (1, "the reason of a warning, without the number of a process"),
    "backends/cuda/passes/attention.py": (3, "letters that stand for axes"),
    "backends/cuda/ptx.py": (3, "PTX that LLVM has written, where it has no word for something"),
    "backends/cuda/routines/solver.py": (1, "names of functions of NVIDIA's libraries"),
}


def edits(source: str) -> list[str]:
    """The calls of regular expressions, and of ``replace`` as strings have it, of a source."""
    tree = parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            found.append("from re import")
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of = node.func.value
        by_pattern = isinstance(of, ast.Name) and of.id == "re"
        if by_pattern or (node.func.attr == "replace" and len(node.args) > 1):
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_text_of_code_is_searched_or_edited(room: str) -> None:
    found = {}
    for path in sorted((ROOT / "weft" / room).rglob("*.py")):
        name = path.relative_to(ROOT / "weft").as_posix()
        calls = edits(path.read_text(encoding="utf-8"))
        if len(calls) != ALLOWED.get(name, (0, ""))[0]:
            found[name] = calls
    assert not found, "write a method of weft.backends.llvm.code, or give the reason in ALLOWED"


@pytest.mark.parametrize("source", [
    "import re\nx = re.sub('a', 'b', text)", "text.replace('@f(', '@g(')", "from re import sub",
])  # fmt: skip
def test_edits_are_found(source: str) -> None:
    assert edits(source)


def test_changes_of_programs_are_no_edits() -> None:
    assert not edits("jaxpr.replace(eqns=eqns)\nx = module.replaced(functions=())")


def test_efforts_are_no_comments() -> None:
    """No file but that of modules writes what LLVM is to do into text."""
    words = ('"; quick', '"; loop', '"; optimise', '"; brief', '"; light', '"; inline')
    for room in ROOMS[:3]:
        for path in (ROOT / "weft" / room).rglob("*.py"):
            assert not any(word in path.read_text(encoding="utf-8") for word in words), path
