"""Compares weft's compiler for GPUs with XLA, a PJRT plugin, in a given time, on one GPU.

    python tools/plugin_round.py --seconds 240 --out FOLDER

Random programs, samples with their gradients, and training steps run on both and are compared
(`tools/plugin_check.py`); then the rows of `python -m bench pjrt` are timed: calls and training
steps first. A summary is printed, and `summary.json` and the figures of all rows are in the folder.
JAX is not imported: its plugin for CUDA is all that must be installed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.peers import plugin  # noqa: E402
from tools.plugin_check import TOGETHER, compared  # noqa: E402

# How much of the time checks, calls and steps, and all other rows get.
SHARES = (0.38, 0.38, 0.19)
FIRST = ("operation outside of jit", "dispatch", "GPT step", "ResNet-50 step")
OTHERS = ("MLP step", "chain", "softmax", "layer norm", "cumsum", "gelu", "sort", "decode", "scan",
          "while", "normal", "attention")  # fmt: skip


def limited(name, command, seconds, out):
    """Run a command for a time; its log is kept, and what it has written so far counts."""
    found = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONPATH": found}
    begin = time.perf_counter()
    with (out / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    print(f"== {name}: {time.perf_counter() - begin:.0f} s, ended with {process.returncode}")


def check(platforms, seconds, out):
    """Programs on both platforms: how many agree, by kind, and those that do not."""
    parts = max(min((os.cpu_count() or 2) // 2 - 1, 7), 1)
    tool = str(ROOT / "tools" / "plugin_check.py")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, tool, "both", folder, *platforms, "--parts", str(parts)]
        # to import and start takes a while, and so does the comparison at the end
        limited("check", [*command, "--seconds", f"{0.8 * seconds:.0f}"], seconds, out)
        counts, apart = compared(Path(folder), *platforms)
    for kind, found in counts.items():
        total = sum(found.values())
        each = f" of {TOGETHER} each" if kind == "random" else ""
        print(f"{kind}: {total} programs{each}: {found}")
    for name, text in apart.items():
        print(f"  {name}: {text}")
    return {"counts": counts, "apart": apart}


def rows(name, chosen, seconds, out):
    """Rows of the table, as far as the time goes."""
    path = out / f"{name}.json"
    command = [sys.executable, "-m", "bench", "pjrt", "--quick", "--json", str(path)]
    command += ["--limit", f"{seconds / 2:.0f}"]
    limited(name, [*command, *[f"--rows={row}" for row in chosen]], seconds, out)
    return json.loads(path.read_text()) if path.exists() else {}


def told(found):
    """A line for each row of a record."""
    for row in found.get("rows", ()):
        parts = [f"{name} {figure:.4g} {row['unit']}" for name, figure in row["figures"].items()]
        parts += [f"ratio {row['ratio']:.3g}"] if row["ratio"] is not None else []
        said = {**row["failed"], **row["wrong"]}
        yield ", ".join([f"{row['name']}: {parts[0] if parts else 'no figures'}", *parts[1:],
                         *[f"{name}: {text}" for name, text in said.items()]])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT"))
    parser.add_argument("--platforms", nargs=2, default=[plugin(), "cuda"])
    given = parser.parse_args()
    if given.platforms[0] is None:
        sys.exit("no PJRT plugin for CUDA is installed: pip install jax-cuda13-plugin")
    out = Path(given.out or tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("WEFT_BENCH_PLUGIN", given.platforms[0])
    checking, first, others = (share * given.seconds for share in SHARES)
    found = {"platforms": given.platforms, "check": check(given.platforms, checking, out)}
    summary = out / "summary.json"
    summary.write_text(json.dumps(found, indent=1))
    for name, chosen, seconds in (("steps", FIRST, first), ("rows", OTHERS, others)):
        found[name] = rows(name, chosen, seconds, out)
        print("\n".join(told(found[name])), flush=True)
        summary.write_text(json.dumps(found, indent=1))
    print(f"in {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


if __name__ == "__main__":
    main()
