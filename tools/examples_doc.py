"""Runs the examples in full and writes docs/examples.md: each one's number, target, time and curve.

python tools/examples_doc.py                   all of them, one after the other
python tools/examples_doc.py vae ppo           only these; the others keep what is recorded
python tools/examples_doc.py --page            none: writes the page again
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

import curve  # noqa: E402

from bench.machine import commit  # noqa: E402
from weft.train import writers  # noqa: E402

FOLDER = ROOT / "docs" / "examples"
RECORD = FOLDER / "results.json"
NAMES = (
    "digits_mlp digits_cnn resnet vit seq2seq tagging graph language_model t5 vae diffusion ppo"
    " neural_ode gaussian_process hmc sharded_transformer sweep"
).split()
HEAD = """# Examples

Each example is one file to copy and change: a plain loop with `weft.linen`, `weft.optim` and
`weft.train`. It prints its target, a number from the literature or the result of a classical method
that it computes itself, and says whether it reached it. All examples run offline on two cores.
`--short` runs the version that the tests run. `--out FOLDER` sets the folder for metrics,
checkpoints and pictures.

```sh
pip install --no-deps scikit-learn scikit-image   # for their data; neither is imported
python examples/digits_mlp.py
```

| example | figure | reached | target | CPU seconds | recorded at |
|---|---|---|---|---|---|
"""
TAIL = """
CPU seconds count all threads and processes, including compilation, on an aarch64 machine with two
cores. `python tools/examples_doc.py` runs all examples and writes this page.
"""


def run(name, out):
    """One example in full; its record."""
    script = ROOT / "examples" / f"{name}.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script), "--out", str(out)], env=environment)
    if done.returncode not in (0, 1) or not (out / "result.json").exists():
        raise SystemExit(f"{name} failed")
    return collect(name, out)


def collect(name, out):
    """What a run left behind, with its pictures in docs/examples."""
    record = json.loads((out / "result.json").read_text(encoding="utf-8"))
    if record["short"]:
        raise SystemExit(f"{name}: {out} is of a short version")
    points = curve.points_of(writers.read_json_lines(out / "metrics.jsonl"), record["curve"])
    curve.write(FOLDER / f"{name}.svg", points, record["curve"].replace("_", " "))
    record["pictures"] = sorted(path.name for path in out.glob("*.png"))
    for picture in record["pictures"]:
        shutil.copyfile(out / picture, FOLDER / f"{name}_{picture}")
    record["recorded"] = f"{commit()}, {time.strftime('%Y-%m-%d', time.gmtime())}"
    return record


def documentation(name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(text))


def number(value):
    return f"{value:.4g}".replace("-", "−")


def page(records):
    """The text of docs/examples.md."""
    lines, sections = [], []
    for name in (name for name in NAMES if name in records):
        r = records[name]
        sign, link = "≥" if r["least"] else "≤", f"[{name}](../examples/{name}.py)"
        target = f"{sign} {number(r['target'])}: {r['source']}"
        value = number(r["value"]) if r["reached"] else f"{number(r['value'])}, missed"
        lines.append(
            f"| {link} | {r['measure']} | {value} | {target} | {r['processor_seconds']:.0f}"
            f" | {r['recorded']} |"
        )
        beside = "; ".join(f"{what}: {number(value)}" for what, value in r["beside"].items())
        body = f"\n## {name}\n\n{documentation(name)}\n"
        body += f"\nBeside it: {beside}.\n" if beside else ""
        pictures = [f"{name}.svg", *(f"{name}_{picture}" for picture in r["pictures"])]
        body += "\n" + "\n".join(f"![{name}](examples/{picture})" for picture in pictures) + "\n"
        sections.append(body)
    return HEAD + "\n".join(lines) + "\n" + TAIL + "".join(sections)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", help=" ".join(NAMES))
    parser.add_argument("--runs", type=Path, help="take runs that are there: FOLDER/NAME")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    chosen = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    records = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name in [] if chosen.page else chosen.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            taken = chosen.runs and collect(name, chosen.runs / name)
            records[name] = taken or run(name, Path(folder))
        text = json.dumps(records, indent=1, ensure_ascii=False, sort_keys=True)
        RECORD.write_text(text + "\n", encoding="utf-8")
        records = json.loads(text)  # in the order in which it is kept
    (ROOT / "docs" / "examples.md").write_text(page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
