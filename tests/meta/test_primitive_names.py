"""What the compiler and the runtime know of single primitives stands in the primitives.

A comparison with a name is knowledge of one primitive in a room that serves all of them. An
attribute of the class (``contracts``, ``relocates``, ...) says the same where the primitive is.
"""

import ast
from pathlib import Path

import weft

ROOT = Path(weft.__file__).parent
# Comparisons that are left: passes over loops, sums and transforms.
MAX_COMPARISONS = 9


def comparisons(tree):
    """Comparisons with the name of a primitive."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            names = [x for x in sides if isinstance(x, ast.Attribute) and x.attr == "name"]
            if any(ast.unparse(x.value).rpartition(".")[2] == "primitive" for x in names):
                yield node


def test_few_comparisons_with_names_of_primitives():
    found = []
    for room in ("compiler", "runtime"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in comparisons(ast.parse(path.read_text(encoding="utf-8"))):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert len(found) <= MAX_COMPARISONS, "\n".join(found)
