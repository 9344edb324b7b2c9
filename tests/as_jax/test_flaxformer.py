"""The unmodified FlaxFormer with weft under the name jax: its own gin files, JAX's numbers.

Its source is not part of weft. `WEFT_FLAXFORMER` names a folder or an archive that has it; without
that, `../shared/data/flaxformer.tar.gz` beside the repository is looked at.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "tests" / "linen" / "architectures" / "data" / "t5_1_1_tiny.npz"
BESIDE = ROOT.parent / "shared" / "data" / "flaxformer.tar.gz"


def source() -> Path | None:
    """The folder or archive that has FlaxFormer, where there is one."""
    named = Path(os.environ.get("WEFT_FLAXFORMER", BESIDE))
    return named if named.exists() else None


def missing() -> list[str]:
    return [name for name in ("flax", "chex", "gin") if importlib.util.find_spec(name) is None]


def give(folder: Path) -> dict:
    script = Path(__file__).parent / "flaxformer_program.py"
    paths = os.pathsep.join([str(ROOT), str(folder)])
    done = subprocess.run(
        [sys.executable, "-m", "weft.as_jax", str(script), str(folder), str(RECORD)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(source() is None, reason="FlaxFormer's source is not here: WEFT_FLAXFORMER")
@pytest.mark.skipif(bool(missing()), reason=f"FlaxFormer needs {', '.join(missing())}")
def test_flaxformer_gives_the_loss_and_gradients_of_jax(tmp_path):
    folder = source()
    if folder.is_file():
        with tarfile.open(folder) as archive:
            archive.extractall(tmp_path, filter="data")
        folder = tmp_path
    given = give(folder)
    assert given["module"] == "weft.numpy" and given["same_names"]
    assert given["loss"] == pytest.approx(given["recorded_loss"], rel=1e-5)
    assert given["logits"] < 1e-5
    assert given["gradients"] < 1e-5
