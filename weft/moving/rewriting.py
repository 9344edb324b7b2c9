"""Changes the imports of a program from JAX, flax.linen and optax to weft."""

from __future__ import annotations

import ast

from weft.moving.names import Status, look_up
from weft.moving.reading import ROOTS, imports

_FINE = (Status.SAME, Status.DIFFERENT)


def rewritten(source: str) -> str:
    """Return a program whose imports name weft where weft has what they import.

    Args:
        source: The program's text.

    Returns:
        The text with changed imports. Imports of what weft does not have stay as they are.

    Example:
        >>> print(rewritten("import jax\\nimport jax.numpy as jnp\\nfrom jax import lax as l"))
        import weft as jax
        import weft.numpy as jnp
        from weft import lax as l
    """
    lines = source.splitlines(keepends=True)
    for node in imports(source):
        made = _of_modules(node) if isinstance(node, ast.Import) else _of_names(node)
        if made is None:
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head = lines[first].encode()[: node.col_offset].decode()
        tail = lines[last].encode()[node.end_col_offset :].decode()
        lines[first : last + 1] = [head + made + tail]
    return "".join(lines)


def _of_modules(node: ast.Import) -> str | None:
    """``import a.b as c``, or None where it stays as it is."""
    parts, changed = [], False
    for alias in node.names:
        found = look_up(alias.name) if alias.name.partition(".")[0] in ROOTS else None
        root = alias.name.partition(".")[0]
        bound = alias.asname or root
        if found is None or found.status not in _FINE:
            parts.append(alias.name + (f" as {alias.asname}" if alias.asname else ""))
            continue
        if alias.asname is None and "." in alias.name:
            # it binds the first name only, whose parts are found when they are asked for
            found = look_up(root) if root == "jax" else None
            if found is None:
                return None
        changed = True
        parts.append(f"{found.where} as {bound}")
    return f"import {', '.join(dict.fromkeys(parts))}" if changed else None


def _of_names(node: ast.ImportFrom) -> str | None:
    """``from a import b, c``, or None where it stays as it is."""
    if node.level or node.module is None or node.module.partition(".")[0] not in ROOTS:
        return None
    homes, names = [], []
    for alias in node.names:
        name = node.module if alias.name == "*" else f"{node.module}.{alias.name}"
        found = look_up(name)
        if found.status not in _FINE:
            return None
        home, _, last = found.where.rpartition(".")
        homes.append(found.where if alias.name == "*" else home)
        bound = alias.asname or alias.name
        same = alias.name == "*" or last == bound
        names.append(bound if same else f"{last} as {bound}")
    if len(set(homes)) > 1:
        return None
    text = f"from {homes[0]} import {', '.join(names)}"
    if len(text) + node.col_offset <= 100:
        return text
    inner = "".join(f"{' ' * node.col_offset}    {name},\n" for name in names)
    return f"from {homes[0]} import (\n{inner}{' ' * node.col_offset})"
