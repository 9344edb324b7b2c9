"""Records what JAX's `Exported.serialize` and its portable artifacts hold, for the tests.

    python tools/record_exports.py         needs the extra `oracle`; writes tests/export/data

Records are JSON, compressed: bytes and arrays are hexadecimal.
"""

import json
import lzma
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.record_stablehlo import held  # noqa: E402

DATA = ROOT / "tests" / "export" / "data"


def artifact(module):
    """A module's portable artifact, without the places in source files."""
    from jax._src.lib import _jax
    from jaxlib.mlir.dialects import stablehlo
    from jaxlib.mlir.passmanager import PassManager

    version = stablehlo.get_version_from_compatibility_requirement(
        stablehlo.StablehloCompatibilityRequirement.WEEK_4
    )
    with module.context:
        PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        return _jax.mlir.serialize_portable_artifact(module, version, True).hex()


def artifacts():
    """The modules of tests/mlir by name, in StableHLO's binary form."""
    import jax

    from tests.mlir import jax_cases as cases

    found = {}

    def lowered(some):
        for name, fun, args in some:
            module = jax.jit(fun, keep_unused=True).lower(*args).compiler_ir("stablehlo")
            found[name] = artifact(module)

    lowered([*cases.plain_cases(), *cases.sharded_cases()])
    with jax.enable_x64(True):
        lowered(cases.wide_cases())
    for name, fun, shapes, dtype in cases.symbolic_cases():
        made = jax.export.export(jax.jit(fun))(*cases.symbolic_specs(shapes, dtype))
        found |= {f"{name} {size}": made.mlir_module_serialized.hex() for size in (3, 6)}
    return found


def exports():
    """Exported functions with the results of calls, and of derivatives."""
    import jax
    import numpy as np

    from tests.export import jax_export_cases as cases

    for name, (make, calls, order) in cases.cases().items():
        made, results = make(), []
        for args in calls:
            outs = made.call(*args) if made.nr_devices == 1 else over(name, made, args)
            leaves = [held(x) for x in jax.tree.leaves(args)]
            row = {"ins": leaves, "outs": [held(x) for x in jax.tree.leaves(outs)]}
            if order:
                moving = [a for a in jax.tree.leaves(outs) if np.issubdtype(a.dtype, np.floating)]
                flat = jax.tree.leaves(args)
                cts = [np.ones_like(a) for a in moving]
                found = made.vjp().call(*flat, *cts)
                found = [a for a in found if a.dtype != jax.dtypes.float0]
                row["cotangents"] = [held(a) for a in found]
            results.append(row)
        blob = bytes(made.serialize(vjp_order=order)).hex()
        yield {"name": name, "blob": blob, "calls": results, "devices": made.nr_devices}
    for name, make in cases.key_cases().items():
        made, key = make(), jax.random.key(7)
        keys, bits = made.call(key)
        data = [held(jax.random.key_data(k)) for k in (key, keys)]
        calls = [{"ins": data[:1], "outs": [data[1], held(bits)]}]
        yield {"name": name, "blob": bytes(made.serialize()).hex(), "calls": calls, "devices": 1}


def over(name, made, args):
    """The results of a function over several devices."""
    import jax

    from tests.export import jax_export_cases as cases

    mesh = cases.mesh(*((2, 2) if name == "sharded" else (made.nr_devices,)))
    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.jit(made.call)(*jax.device_put(args, replicated))


def write(name, value):
    path = DATA / name
    path.write_bytes(lzma.compress(json.dumps(value).encode(), preset=9))
    print(path.name, len(value), path.stat().st_size, "bytes")


def main():
    import jax

    # places in source files are without their folders
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    DATA.mkdir(exist_ok=True)
    write("jax_exports.json.xz", list(exports()))
    write("jax_artifacts.json.xz", artifacts())


if __name__ == "__main__":
    main()
