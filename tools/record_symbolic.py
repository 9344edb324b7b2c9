"""Record what JAX answers on symbolic shapes (needs the ``oracle`` extra).

``python tools/record_symbolic.py`` writes ``tests/export/symbolic_answers.json``: dimension
arithmetic and comparisons, shapes read from text, types of results of functions, exports and their
calls. The tests ask weft the same.
"""

import json
import os
import sys
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    from tests.export import symbolic_cases as cases

    jax = cases.Asked("jax")
    dimensions = [*cases.DIMENSIONS, *cases.random_dimensions(300, seed=0)]
    found = {
        "dimensions": [[known, text, jax.dimension(known, text)] for known, text in dimensions],
        "shapes": [[text, jax.shape(text)] for text in cases.SHAPES],
        "functions": {
            name: jax.result_types(text, types) for name, text, types in cases.all_functions()
        },
        "exports": [jax.exported(*case) for case in cases.EXPORTS],
    }
    # An assertion of JAX's own is no answer.
    found["dimensions"] = [x for x in found["dimensions"] if x[2] != "raises AssertionError"]
    lines = [f" {json.dumps(name)}: {_lines(value)}" for name, value in found.items()]
    path = ROOT / "tests/export/symbolic_answers.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    counts = ", ".join(f"{len(value)} {name}" for name, value in found.items())
    print(f"{path.relative_to(ROOT)}: {counts}")


def _lines(value: object) -> str:
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
        return "{\n  " + ",\n  ".join(parts) + "\n }"
    assert isinstance(value, list)
    return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"


if __name__ == "__main__":
    main()
