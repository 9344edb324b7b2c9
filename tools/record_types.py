"""Record JAX's answers to tests/parallel/cases_types.py: run it with JAX, from the root.

It shows eight devices to JAX, and writes tests/parallel/data/types.json: for each line its answer,
or the class of its error behind an exclamation mark. With the argument ``new``, only lines that
have no answer yet are run.
"""

import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RECORD = ROOT / "tests" / "parallel" / "data" / "types.json"


def main() -> None:
    """Write the record."""
    import jax

    from tests.parallel.cases_types import LINES, answers

    known = json.loads(RECORD.read_text()) if "new" in sys.argv[1:] else {}
    known |= answers(jax, [line for line in LINES if line not in known])
    lines = [f"{json.dumps(line)}: {json.dumps(known[line])}" for line in LINES]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    refused = sum(isinstance(told, str) and told.startswith("!") for told in known.values())
    print(f"{len(lines)} answers, {refused} of them errors, {RECORD.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
