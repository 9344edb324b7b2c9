"""Record JAX's answers to tests/parallel/mesh_programs.py and mesh_refusals.py, with JAX installed.

With arguments, it records only the cases of these names. It shows eight devices to JAX, and
writes tests/parallel/data/meshes.json and refusals.json. Of errors only the classes are kept.
"""

import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
REFUSALS = ROOT / "tests" / "parallel" / "data" / "refusals.json"
RECORD = ROOT / "tests" / "parallel" / "data" / "meshes.json"


def main() -> None:
    """Write the record, and say which cases raised."""
    import jax

    from tests.parallel import mesh_refusals
    from tests.parallel.mesh_programs import CASES, answers

    chosen = tuple(sys.argv[1:])
    kept = json.loads(RECORD.read_text()) if chosen and RECORD.exists() else {}
    found = answers(jax, chosen)
    for name, answer in found.items():
        if isinstance(answer, dict) and "error" in answer:
            print(f"{name}: {answer['error']}: {answer.pop('text').partition(chr(10))[0][:100]}")
    found = {name: answer for name, answer in (kept | found).items() if name in CASES}
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in found.items()]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} answers, {RECORD.stat().st_size:,} bytes")
    refusals = {name: kind for name, (kind, _) in mesh_refusals.answers(jax).items()}
    REFUSALS.write_text(json.dumps(refusals, indent=0) + "\n")


if __name__ == "__main__":
    main()
