"""Nothing is kept with programs but by the typed caches of ``weft.core.caches``."""

import ast
from pathlib import Path

import weft
from weft.core import caches

ROOT = Path(weft.__file__).parent


def test_only_caches_read_what_is_kept_with_a_program():
    """Whoever keeps something has a cache of its own: there is no dictionary for everybody."""
    found = []
    for path in ROOT.rglob("*.py"):
        if path == Path(caches.__file__):
            continue
        text = path.read_text(encoding="utf-8")
        if "_values_by_cache" not in text and "_memo" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in ("_values_by_cache", "_memo"):
                if path != ROOT / "core" / "jaxpr.py" or not isinstance(node.ctx, ast.Store):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found, "use ProgramCache or per_program of weft.core.caches: " + ", ".join(found)
