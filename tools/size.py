"""How large weft is: code lines by room against the budgets, and what is longer than it should be.

A code line holds at least one token that is neither a comment nor part of a docstring.
Run `python tools/size.py` for the report.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

BUDGETS = {
    "core": 4_500,
    "kernel": 5_000,
    "prims": 12_000,
    "transforms": 1_500,
    "control": 6_000,
    "compiler": 6_000,
    "backends/cpu": 15_000,
    "backends/llvm": 4_800,
    "backends/reference": 400,
    "runtime": 2_500,
    "api": 4_000,
    "numpy": 10_000,
    "linen": 6_000,
    "optim": 6_000,
}
FILE_SOFT, FILE_HARD = 600, 1_000
# Files in one folder of a backend.
MOST_FILES = 25
FUNCTION_SOFT = 80
TOKENS_SOFT = 11

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
# Fields of statements that hold others.
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Size:
    """The size of one file."""

    path: str
    room: str
    code: int
    tokens: int
    long_functions: list[str]


def definitions(tree: ast.Module) -> list[Any]:
    """The module, and its classes and functions, at any depth."""
    found, nodes = [], [tree]
    while nodes:
        node: Any = nodes.pop()
        if isinstance(node, DOCUMENTED):
            found.append(node)
        for field in BLOCKS:
            nodes += getattr(node, field, ())
    return found


def docstring_lines(defined: list[Any]) -> set[int]:
    lines: set[int] = set()
    for node in defined:
        if ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def measure(path: Path, root: Path = ROOT) -> Size:
    """Count the code lines and tokens of one file."""
    source = path.read_text(encoding="utf-8")
    defined = definitions(ast.parse(source))
    skipped = docstring_lines(defined)
    code: set[int] = set()
    tokens = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in LAYOUT or token.start[0] in skipped:
            continue
        code.update(range(token.start[0], token.end[0] + 1))
        tokens += 1
    long_functions = [
        f"{node.name} ({lines} lines)"
        for node in defined
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := len(code & set(range(node.lineno, (node.end_lineno or 0) + 1))))
        > FUNCTION_SOFT
    ]
    room = room_of(path, root)
    return Size(str(path.relative_to(root)), room, len(code), tokens, long_functions)


def room_of(path: Path, root: Path = ROOT) -> str:
    parts = path.relative_to(root / "weft").parts
    if parts[0] == "backends" and len(parts) > 2:
        return f"backends/{parts[1]}"
    return parts[0].removesuffix(".py")


def files(root: Path = ROOT) -> list[Path]:
    """Every file of the package."""
    return sorted((root / "weft").rglob("*.py"))


def measure_all(root: Path = ROOT) -> list[Size]:
    """The size of every file of the package."""
    return [measure(path, root) for path in files(root)]


def too_long(root: Path = ROOT) -> list[str]:
    """The files beyond the hard limit."""
    long = [p for p in files(root) if p.read_bytes().count(b"\n") > FILE_HARD]
    sizes = [measure(path, root) for path in long]
    return [f"{size.path}: {size.code} code lines" for size in sizes if size.code > FILE_HARD]


def too_many(root: Path = ROOT) -> list[str]:
    """The folders of backends with more files than one looks through."""
    inside = [p for p in files(root) if room_of(p, root).startswith("backends")]
    folders = Counter(str(p.parent.relative_to(root)) for p in inside)
    return [f"{folder}: {n} files" for folder, n in folders.items() if n > MOST_FILES]


def report(sizes: list[Size]) -> str:
    """The table by room, then what deserves a second look."""
    lines = [f"{'room':<24}{'files':>6}{'code':>8}{'budget':>8}{'tokens/line':>13}"]
    for room in sorted({size.room for size in sizes}):
        lines.append(row(room, [size for size in sizes if size.room == room], BUDGETS.get(room)))
    lines.append(row("all", sizes, None))
    for size in sizes:
        if size.code > FILE_SOFT:
            lines.append(f"long file: {size.path} ({size.code} code lines)")
        if size.code > 20 and size.tokens > TOKENS_SOFT * size.code:
            lines.append(f"dense file: {size.path} ({size.tokens / size.code:.1f} tokens a line)")
        lines += [f"long function: {size.path}: {name}" for name in size.long_functions]
    return "\n".join(lines)


def row(name: str, sizes: list[Size], budget: int | None) -> str:
    code = sum(size.code for size in sizes)
    tokens = sum(size.tokens for size in sizes) / max(code, 1)
    over = "  over budget" if budget and code > budget else ""
    return f"{name:<24}{len(sizes):>6}{code:>8,}{budget or '':>8}{tokens:>13.1f}{over}"


if __name__ == "__main__":
    print(report(measure_all()))
    sys.exit(bool(too_long() or too_many()))
