"""The tools run from a clone as `python tools/NAME.py`, wherever one stands and whatever weft is
installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = sorted(path.name for path in (ROOT / "tools").glob("*.py"))
WITH_HELP = [name for name in TOOLS if "argparse" in (ROOT / "tools" / name).read_text("utf-8")]
# Loads a tool as `python tools/NAME.py` does, but for what it does as a command. What only its
# author has installed may be missing; our own modules may not, and are those of this clone.
LOADED = """
import runpy, sys
tool, root = sys.argv[1:]
sys.path[0] = root + "/tools"
try:
    runpy.run_path(tool, run_name="loaded")
except ModuleNotFoundError as error:
    assert error.name.split(".")[0] not in ("bench", "tests", "tools", "weft"), error
for name in ("bench", "tests", "tools", "weft"):
    module = sys.modules.get(name)
    if module is not None:
        assert [*module.__path__][0] == root + "/" + name, module.__path__
"""


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "WEFT_"))}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=known, capture_output=True, text=True
    )


@pytest.mark.parametrize("tool", [name for name in TOOLS if name not in WITH_HELP])
def test_tool_finds_its_modules(tool: str, tmp_path: Path) -> None:
    done = run(["-c", LOADED, str(ROOT / "tools" / tool), str(ROOT)], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tool", WITH_HELP)
def test_tool_gives_help(tool: str, tmp_path: Path) -> None:
    done = run([str(ROOT / "tools" / tool), "--help"], tmp_path)
    if "No module named" in done.stderr:  # of what is installed where the tool is used
        assert not any(f"named '{name}" in done.stderr for name in ("bench", "tests", "tools"))
        assert "named 'weft" not in done.stderr
    else:
        assert done.returncode == 0 and done.stdout.startswith("usage:"), done.stderr


def test_reference_is_written_without_a_path(tmp_path: Path) -> None:
    done = run([str(ROOT / "tools" / "api_docs.py"), str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "weft.numpy.md").read_text("utf-8").startswith("<!-- Written by tools/")
