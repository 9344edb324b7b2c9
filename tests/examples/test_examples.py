"""Every example in its short version, in a process of its own: it has to reach its (lower) target,
and what it leaves has to be there."""

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from weft.train import writers

ROOT = Path(__file__).parents[2]
SHARED = {"curve", "data", "demo", "outcome"}
NAMES = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem not in SHARED)
PICTURES = {"vae": ["drawn.png", "real.png"], "diffusion": ["drawn.png"]}
NEEDS = {
    "demo": "sklearn",
    "digits_cnn": "sklearn",
    "digits_mlp": "sklearn",
    "diffusion": "sklearn",
    "gaussian_process": "sklearn",
    "resnet": "skimage",
    "sweep": "sklearn",
    "t5": "gin",
    "vae": "sklearn",
    "vit": "sklearn",
}


def start(name, *options):
    """Run an example to its end."""
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{name} needs {NEEDS[name]}, which is not installed")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.mark.parametrize("name", NAMES)
def test_short_version_reaches_its_target(name, tmp_path):
    done = start(name, "--short", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result["reached"] and result["short"]
    assert f"{result['measure']} {result['value']:.4g}; target" in done.stdout
    lines = writers.read_json_lines(tmp_path / "metrics.jsonl")
    assert any(result["curve"] in line.get("values", ()) for line in lines)
    for picture in PICTURES.get(name, ()):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_the_demo_leaves_a_checkpoint_metrics_and_a_curve(tmp_path):
    done = start("demo", "--epochs", "3", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    share = float(re.search(r"test accuracy (.*)%", done.stdout).group(1))
    *_, last = writers.read_json_lines(tmp_path / "metrics.jsonl")
    assert share > 85 and last["values"]["test_accuracy"] == pytest.approx(share / 100, abs=1e-3)
    assert (tmp_path / "loss.svg").read_text(encoding="utf-8").startswith("<svg")
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1
    assert "66/66" in done.stderr  # the progress bar


def test_a_missed_target_is_said_and_exits_with_1(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'examples'); sys.argv = ['x', '--out', sys.argv[1]]\n"
        "from outcome import finish, options\n"
        "finish(options('Text.'), 'error', 0.5, 0.4, 'a table', least=False)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "error 0.5; target ≤ 0.4 (a table): NOT REACHED" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_one_readable_file(name):
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert "Target:" in text.split('"""')[1]


def test_a_curve_is_drawn_as_svg():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        curve = importlib.import_module("curve")
    finally:
        sys.path.pop(0)
    drawn = ElementTree.fromstring(curve.svg([(1, 0.5), (2, 0.25)], "a < b", target=0.1))
    lines = [e.get("points").split() for e in drawn if e.tag.endswith("polyline")]
    (left, down), (right, lower) = (map(float, place.split(",")) for place in lines[1])
    assert left < right and down < lower and len(lines) == 2
    assert any(e.text == "a < b" for e in drawn)
    with pytest.raises(ValueError, match="nothing to draw"):
        curve.svg([(1, float("nan"))], "loss")


def test_the_page_has_every_example_with_its_target_reached():
    path = ROOT / "tools" / "examples_doc.py"
    spec = importlib.util.spec_from_file_location("examples_doc", path)
    tool = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        spec.loader.exec_module(tool)
    finally:
        sys.path[:] = before
    records = json.loads(tool.RECORD.read_text(encoding="utf-8"))
    assert sorted(records) == NAMES == sorted(tool.NAMES)
    missed = [name for name, record in records.items() if not record["reached"] or record["short"]]
    assert not missed
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert text == tool.page(records), "run python tools/examples_doc.py --page"
    for picture in re.findall(r"\]\((examples/[^)]*)\)", text):
        assert (ROOT / "docs" / picture).exists(), picture
