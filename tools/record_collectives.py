"""Count the collectives of JAX's programs: run it with JAX installed, from the root.

It shows eight devices to JAX, compiles the programs of tests/parallel/collectives.py, and writes
tests/parallel/data/collectives.json.
"""

import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
RECORD = ROOT / "tests" / "parallel" / "data" / "collectives.json"


def main() -> None:
    """Write the record."""
    import jax

    from tests.parallel.collectives import PROGRAMS, compiled, counts_in_text

    found = {name: counts_in_text(compiled(jax, name).as_text()) for name in PROGRAMS}
    lines = [f"{json.dumps(name)}: {count}" for name, count in found.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} programs, {sum(found.values())} collectives")


if __name__ == "__main__":
    main()
