"""Compiles many programs for machines that are not here, and compares their FLOPs with ours.

`python tools/ahead_programs.py write FOLDER` writes modules of StableHLO with our count of their
operations; `python tools/ahead_programs.py compile FOLDER v5e:2x2 ...` compiles them with a plugin,
where it can be loaded (libtpu: x86-64), and prints a line for each.
"""

import json
import re
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def write(folder, samples):
    """Write modules, and what we count of them."""
    import weft
    from tools.plugin_check import convolutions, recurrent, sampled, transformer
    from tools.stablehlo_programs import programs
    from weft.sharding import AbstractMesh, NamedSharding
    from weft.sharding import PartitionSpec as P

    steps = [transformer(), transformer(256, 4, 8, 128), convolutions(), recurrent()]
    groups = [(name, fun, args) for name, (fun, *args) in programs().items()]
    cases = [*steps, *groups, *sampled(samples)]
    mesh = AbstractMesh((2, 2), ("data", "model"))

    def divided(x, rows):
        spec = P("data") if rows and x.ndim and x.shape[0] % 2 == 0 else P()
        if not rows and x.ndim == 2 and x.shape[1] % 2 == 0:
            spec = P(None, "model")
        return weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))

    for name, fun, (params, data) in steps:
        put = lambda rows: lambda x: divided(x, rows)
        given = (weft.tree.map(put(False), params), weft.tree.map(put(True), data))
        cases.append((f"{name} over 4", fun, given))
    told = {}
    for number, (name, fun, args) in enumerate(cases):
        lowered = weft.jit(fun).lower(*args)
        try:
            text = lowered.as_text("stablehlo")
        except NotImplementedError:
            continue
        (folder / f"{number}.mlir").write_text(text)
        told[str(number)] = {"name": name, "flops": lowered.cost_analysis()["flops"]}
    (folder / "programs.json").write_text(json.dumps(told))
    print(f"{len(told)} programs")


def compile_all(folder, platform, machines):
    """Compile what was written; how many failed."""
    from weft.backends.pjrt.program import compile_ahead, device_options
    from weft.backends.pjrt.topology import Topology

    told = json.loads((folder / "programs.json").read_text())
    failed = 0
    for machine in machines:
        there = Topology(platform, machine, {})
        ids = [d.id for d in there.devices]
        print(f"{machine}: {len(ids)} devices, {there.devices[0].device_kind}", flush=True)
        for number, row in told.items():
            text = (folder / f"{number}.mlir").read_text()
            parts = int((re.search(r"mhlo.num_partitions = (\d+)", text) or [0, 1])[1])
            began = time.perf_counter()
            try:
                code = compile_ahead(
                    there.api, there.handle, text, device_options(ids[:parts], parts > 1)
                )
                costs, memory = code.costs(), code.memory()
            except RuntimeError as error:
                failed += 1
                print(f"  {row['name']}: {str(error)[:300]}", flush=True)
                continue
            flops, ours = costs.get("flops", 0.0) * parts, row["flops"]
            ratio = flops / ours if ours else float("nan")
            print(
                f"  {row['name']}: {time.perf_counter() - began:.1f} s, {flops:.4g} FLOPs, ours"
                f" {ours:.4g}, ratio {ratio:.3f}, expected"
                f" {costs.get('optimal_seconds', 0) * 1e6:.1f} us, code"
                f" {memory['generated_code_size_in_bytes']}, on {parts}",
                flush=True,
            )
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    task, where, *rest = sys.argv[1:]
    place = Path(where)
    place.mkdir(exist_ok=True)
    if task == "write":
        write(place, int(rest[0]) if rest else 100)
    else:
        sys.exit(compile_all(place, "tpu", rest))
