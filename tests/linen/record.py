"""Make the recorded answers of flax anew: ``python -m tests.linen.record [family]``.

Needs jax and flax; what it writes is replayed by ``test_against_flax.py``.
"""

import json
import os
import sys

from tests.linen import harness
from tests.linen.fp8_cases import FAMILIES

# Each case is compiled once, for numbers only.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


def main(chosen: list[str]) -> None:
    for name, cases in FAMILIES.items():
        if chosen and name not in chosen:
            continue
        results = {}
        for dtype in ("float32", "float64"):
            J = harness.library("flax", dtype)
            for case in cases:
                result = harness.run(case, J, jit=not name.startswith("wrong"))
                results[f"{case.name}/{dtype}"] = result
                if "error" in result and not name.startswith("wrong"):
                    print(f"  {case.name}/{dtype}: {result['error']}: {result['text'][:200]}")
        harness.save(name, results)
        size = (harness.DATA / f"{name}.npz").stat().st_size
        print(f"{name}: {len(results)} cases, {size // 1024} kB")
    names = json.dumps(harness.flax_names(), indent=0)
    (harness.DATA / "names.json").write_text(names + "\n")
    J = harness.library("flax")
    for name, tree in harness.stored_trees().items():
        (harness.DATA / f"{name}.msgpack").write_bytes(J.serialization.to_bytes(tree))


if __name__ == "__main__":
    main(sys.argv[1:])
