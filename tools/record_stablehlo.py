"""Records StableHLO modules that JAX writes, with arguments and results, for `tests/mlir`.

    python tools/record_stablehlo.py       needs the extra `oracle`; writes tests/mlir/data

A record is JSON, compressed: the text of each module, and its arrays as hexadecimal bytes.
"""

import json
import lzma
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

RECORD = ROOT / "tests" / "mlir" / "data" / "jax_modules.json.xz"


def held(x):
    import numpy as np

    x = np.asarray(x)
    return [x.dtype.name, list(x.shape), np.ascontiguousarray(x).tobytes().hex()]


def recorded(name, text, args, outs):
    import jax

    outs = [held(x) for x in jax.tree.leaves(outs)]
    return {"name": name, "text": text, "ins": [held(x) for x in args], "outs": outs}


def lowered(cases):
    """Records of functions with their arguments; those that JAX refuses are named and left out."""
    import jax

    for name, fun, args in cases:
        jitted = jax.jit(fun, keep_unused=True)
        try:
            yield recorded(name, jitted.lower(*args).as_text(), args, jitted(*args))
        except Exception as error:
            print(f"LEFT OUT {name}: {str(error)[:200]}", file=sys.stderr)


def all_records():
    import jax
    import numpy as np

    from tests.mlir import jax_cases as cases

    yield from lowered([*cases.plain_cases(), *cases.sharded_cases()])
    with jax.enable_x64(True):
        yield from lowered(cases.wide_cases())
    for name, fun, shapes, dtype in cases.symbolic_cases():
        made = jax.export.export(jax.jit(fun))(*cases.symbolic_specs(shapes, dtype))
        for sizes in ({"b": 3, "c": 5, "h": 4}, {"b": 6, "c": 1, "h": 7}):
            draw = np.random.default_rng(1)
            whole = [[sizes.get(n.strip()) or int(n) for n in s.split(",")] for s in shapes]
            args = [draw.standard_normal(shape).astype(dtype) for shape in whole]
            yield recorded(f"{name} {sizes['b']}", made.mlir_module(), args, made.call(*args))


def main():
    import re

    found = []
    for one in all_records():
        # where operations come from is no part of what is compared
        text = re.sub(r" ?loc\((?:#loc\d*|unknown|\"[^\"]*\")\)", "", one["text"])
        one["text"] = re.sub(r"^#loc.*\n", "", text, flags=re.M)
        found.append(one)
        print(one["name"], flush=True)
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_bytes(lzma.compress(json.dumps(found).encode(), preset=9))
    print(len(found), "modules", RECORD.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
