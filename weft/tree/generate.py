"""Python code written for one structure, to flatten and to rebuild trees of it quickly.

A generated flattener checks every container on the way and gives None where the tree differs, so
it may be tried on any object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from weft.tree.nodes import LEAF, Node

# Compiling costs about 10 us a node, and larger trees spend their time elsewhere.
MAX_GENERATED = 4096
# Python's parser refuses deep nesting; deeper parts become statements of their own.
_MAX_DEPTH = 12
# A dictionary display with more items than this is built in pieces; filling a copy is faster.
_MAX_DISPLAY = 15
_PLAIN_KEYS = (str, int)

Open = Callable[[Any, list[Any], Node, bool], bool]


def _compile(name: str, lines: list[str], names: dict[str, Any]) -> Any:
    exec(compile("\n".join(lines), f"<weft {name} of a pytree>", "exec"), names)
    return names[name]


class _FlattenWriter:
    """Collects the statements of a flattener; ``visit`` returns the leaf expressions."""

    def __init__(self, open_node: Open) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"open_node": open_node, "chain": chain}
        self.dicts: list[str] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def constant(self, value: Any) -> str:
        name = f"C{len(self.names)}"
        self.names[name] = value
        return name

    def require(self, condition: str) -> None:
        self.lines.append(f"        if not ({condition}): return None")

    def visit(self, node: Node, var: str) -> list[str]:
        tag = node.kind.tag
        if node is LEAF:
            return [var]
        if tag == "none":
            self.require(f"{var} is None")
            return []
        if tag in ("tuple", "list", "namedtuple"):
            return self.sequence(node, var)
        if tag == "dict" and all(type(key) is str for key in node.aux):
            return self.dictionary(node, var)
        found = self.fresh()
        self.lines.append(f"        {found} = []")
        self.require(f"open_node({var}, {found}, {self.constant(node)}, full)")
        return [f"*{found}"]

    def sequence(self, node: Node, var: str) -> list[str]:
        n = len(node.children)
        cls = node.kind.tag if node.kind.tag != "namedtuple" else self.constant(node.kind.type)
        self.require(f"type({var}) is {cls} and len({var}) == {n}")
        if node.flat:
            return [f"*{var}"]
        children = [self.fresh() for _ in range(n)]
        self.lines.append(f"        {', '.join(children)}, = {var}")
        return self.visit_all(node, children)

    def dictionary(self, node: Node, var: str) -> list[str]:
        n = len(node.aux)
        self.require(f"type({var}) is dict and len({var}) == {n}")
        self.dicts.append(var)
        if n > 3:
            got = f"{self.constant(itemgetter(*node.aux))}({var})"
            if node.flat:
                return [f"*{got}"]
            children = [self.fresh() for _ in range(n)]
            self.lines.append(f"        {', '.join(children)}, = {got}")
        else:
            children = [self.fresh() for _ in range(n)]
            for child, key in zip(children, node.aux):
                self.lines.append(f"        {child} = {var}[{key!r}]")
        return self.visit_all(node, children)

    def visit_all(self, node: Node, children: list[str]) -> list[str]:
        leaves: list[str] = []
        for child, var in zip(node.children, children):
            leaves += self.visit(child, var)
        return leaves


def flattener(node: Node, leaf_types: set[type], open_node: Open) -> Any:
    """A function ``(tree, full)`` giving the leaves of a tree of this structure, else None.

    With ``full`` the leaves must be leaves; without, anything may stand in their place (a prefix).
    ``open_node(obj, leaves, node, full)`` treats the containers that need more than a type check.
    """
    writer = _FlattenWriter(open_node)
    leaves = writer.visit(node, "v0")
    writer.names["leaf_types"] = leaf_types
    writer.names["only_str"] = {str}
    body = [
        "def flatten(v0, full):",
        "    try:",
        *writer.lines,
        f"        leaves = [{', '.join(leaves)}]",
        "    except KeyError:",
        "        return None",
        "    if full:",
        "        if not set(map(type, leaves)) <= leaf_types: return None",
    ]
    if writer.dicts:
        # A subclass of str (an enumeration, say) equals its text but is another key.
        keys = f"chain({', '.join(writer.dicts)})" if len(writer.dicts) > 1 else writer.dicts[0]
        body.append(f"        if not set(map(type, {keys})) <= only_str: return None")
    body.append("    return leaves")
    return _compile("flatten", body, writer.names)


class _UnflattenWriter:
    """Builds the expression that makes a tree; ``visit`` returns (text, depth)."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.leaves = 0
        self.temporaries = 0

    def constant(self, value: Any) -> str:
        name = f"C{len(self.names)}"
        self.names[name] = value
        return name

    def key(self, key: Any) -> str:
        return repr(key) if type(key) in _PLAIN_KEYS else self.constant(key)

    def visit(self, node: Node) -> tuple[str, int]:
        if node is LEAF:
            self.leaves += 1
            return f"x{self.leaves - 1}", 0
        parts = [self.visit(child) for child in node.children]
        texts = [text for text, _ in parts]
        depth = 1 + max([depth for _, depth in parts], default=0)
        if node.kind.tag == "dict" and len(texts) > _MAX_DISPLAY:
            return self.wide_dict(node, texts), 0
        text = self.container(node, texts)
        return (text, depth) if depth < _MAX_DEPTH else (self.assign(text), 0)

    def assign(self, text: str) -> str:
        self.temporaries += 1
        name = f"t{self.temporaries}"
        self.lines.append(f"    {name} = {text}")
        return name

    def wide_dict(self, node: Node, parts: list[str]) -> str:
        name = self.assign(f"{self.constant(dict.fromkeys(node.aux))}.copy()")
        for key, part in zip(node.aux, parts):
            self.lines.append(f"    {name}[{self.key(key)}] = {part}")
        return name

    def container(self, node: Node, parts: list[str]) -> str:
        tag = node.kind.tag
        inside = ", ".join(parts)
        if tag == "none":
            return "None"
        if tag == "list":
            return f"[{inside}]"
        if tag == "dict":
            items = ", ".join(f"{self.key(k)}: {part}" for k, part in zip(node.aux, parts))
            return f"{{{items}}}"
        if tag == "namedtuple":
            return f"{self.constant(node.kind.type)}({inside})"
        children = f"({inside},)" if parts else "()"
        if tag == "tuple":
            return children
        return f"{self.constant(node.kind.build)}({self.constant(node.aux)}, {children})"


def unflattener(node: Node) -> Callable[[Sequence[Any]], Any]:
    """A function from the right number of leaves to the tree of this structure."""
    writer = _UnflattenWriter()
    text, _ = writer.visit(node)
    body = ["def unflatten(leaves):"]
    if writer.leaves:
        names = ", ".join([f"x{i}" for i in range(writer.leaves)])
        body.append(f"    {names}, = leaves")
    body += writer.lines
    body.append(f"    return {text}")
    return _compile("unflatten", body, writer.names)
