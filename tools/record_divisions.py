"""Record the types that JAX gives to tests/laws/divided_cases.py: run it with JAX, from the root.

It writes tests/laws/data/divisions.json: cases, each with the spec of its result, or the class of
the error that JAX raises.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
COUNT = 600


def main() -> None:
    """Write the record."""
    import jax

    from tests.laws.divided_cases import RECORD, answer, drawn

    # an AssertionError is a fault of JAX's, and no answer
    rows = [[*case, answer(jax, case)] for case in drawn(0, COUNT)]
    rows = [row for row in rows if row[-1] != "AssertionError"]
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    refused = sum(isinstance(row[-1], str) for row in rows)
    print(f"{len(rows)} cases, {refused} of them errors, {RECORD.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
