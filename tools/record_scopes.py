"""Record which cases JAX refuses under settings that forbid things (needs the ``oracle`` extra).

``python -m tests.oracle.scopes > failed.txt`` lists what fails in weft; then
``python tools/record_scopes.py failed.txt`` runs that on JAX, adds what JAX refuses as well to
``tests/oracle/data/refused.json``, and prints the rest, which is weft's to mend.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.oracle import harness, scopes


def main() -> int:
    failed: dict[str, set[str]] = {}
    for line in Path(sys.argv[1]).read_text().splitlines():
        scope, name = line.split()[:2]
        failed.setdefault(scope, set()).add(name)
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=2"
    harness.environment()
    runner, refused, left = harness.Runner("jax"), scopes.refused(), 0
    for scope, names in failed.items():
        found = set(refused.get(scope, ()))
        for case in scopes.cases(names):
            if scopes.run(runner, case, scope).error:
                found.add(case.id)
            else:
                print(f"JAX computes {case.id} under {scope}")
                left += 1
        refused[scope] = sorted(found)
    scopes.REFUSED.write_text(json.dumps(refused, indent=1) + "\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
