"""Reads a Python program: which names of JAX and of libraries it uses, on which lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from weft.base.syntax import parse

# Libraries that weft has modules for, and JAX itself.
ROOTS = frozenset(["jax", "jaxlib", "flax", "optax", "dm_pix", "clu"])


class Use(NamedTuple):
    """A dotted name and the line it stands on; how it is used: an import, a name or an option."""

    line: int
    name: str
    kind: str = "name"


class Reader(ast.NodeVisitor):
    """Follows the names that imports bind."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}  # a local name, and the dotted one it stands for
        self.uses: list[Use] = []
        self.libraries: list[Use] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._imported(node.lineno, alias.name)
            if alias.asname is not None:
                self.bound[alias.asname] = alias.name
            else:
                root = alias.name.partition(".")[0]
                self.bound[root] = root

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            return
        for alias in node.names:
            if alias.name == "*":
                self._imported(node.lineno, node.module)
                continue
            name = f"{node.module}.{alias.name}"
            self._imported(node.lineno, name)
            self.bound[alias.asname or alias.name] = name

    def _imported(self, line: int, name: str) -> None:
        root = name.partition(".")[0]
        if root in ROOTS:
            self.uses.append(Use(line, name, "import"))
        if root not in ("jax", "jaxlib"):
            self.libraries.append(Use(line, name, "import"))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self.dotted(node)
        if name is None:
            self.generic_visit(node)
        elif name.partition(".")[0] in ROOTS:
            self.uses.append(Use(node.lineno, name))

    def visit_Call(self, node: ast.Call) -> None:
        called = self.dotted(node.func) or ""
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if called in ("jax.config.update", "jax.config.read"):
                self.uses.append(Use(node.lineno, first.value, "option"))
            elif called in ("os.environ.get", "os.getenv", "os.putenv", "os.environ.setdefault"):
                self.uses.append(Use(node.lineno, first.value, "variable"))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.dotted(node.value) == "os.environ" and isinstance(node.slice, ast.Constant):
            if isinstance(node.slice.value, str):
                self.uses.append(Use(node.lineno, node.slice.value, "variable"))
        self.generic_visit(node)

    def dotted(self, node: ast.AST) -> str | None:
        """The dotted name that an expression is, in terms of what was imported."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.bound:
            return None
        return ".".join([self.bound[node.id], *reversed(parts)])


def read(source: str, filename: str = "<program>") -> Reader:
    """What a program uses.

    >>> found = read("import jax.numpy as jnp\\nx = jnp.sin(1.0)")
    >>> [(use.line, use.name) for use in found.uses]
    [(1, 'jax.numpy'), (2, 'jax.numpy.sin')]
    """
    reader = Reader()
    try:
        reader.visit(parse(source))
    except SyntaxError as error:
        error.filename = filename
        raise
    return reader


def imports(source: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements of a program, last first, so that one may be replaced by its place."""
    found = [n for n in ast.walk(parse(source)) if isinstance(n, (ast.Import, ast.ImportFrom))]
    yield from sorted(found, key=lambda n: (n.lineno, n.col_offset), reverse=True)
