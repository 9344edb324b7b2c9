"""Record JAX's answers to tests/parallel/cases.py: run it with JAX installed, from the root.

With arguments, only cases whose names begin with one of them are recorded anew.

It shows eight devices to JAX, and writes tests/parallel/data/answers.json. Texts of errors are not
kept, only their classes.
"""

import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RECORD = ROOT / "tests" / "parallel" / "data" / "answers.json"


def main() -> None:
    """Write the record, and say which cases raised."""
    import jax

    from tests.parallel.cases import answers

    chosen = tuple(sys.argv[1:])
    kept = json.loads(RECORD.read_text()) if chosen else {}
    found = answers(jax, chosen)
    for name, answer in found.items():
        if isinstance(answer, dict) and "error" in answer:
            text = answer.pop("text").partition("\n")[0][:100]
            if not name.startswith("wrong/"):
                print(f"{name}: {answer['error']}: {text}")
    found = kept | found
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in found.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} answers, {RECORD.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
