"""Results with the plans for processors of other vector widths, computed on this one: LLVM splits
or joins the vectors. `./weft-test --processors` runs more of the tests so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.backends.llvm.native.processor import has_by_element_fma, vector_bits

ROOT = Path(__file__).resolve().parents[2]
TESTS = ["tests/backends/test_dot.py"]
OWN = {128: "neon" if has_by_element_fma() else "sse2", 256: "avx2", 512: "avx512"}[vector_bits()]


@pytest.mark.parametrize("name", [n for n in ("neon", "avx2", "avx512") if n != OWN])
def test_results_with_the_plans_of_another_processor(name: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.machines.processors"]
    given = {**os.environ, "WEFT_TEST_PROCESSOR": name, "WEFT_CACHE": "off"}
    given["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), given.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", *options, *TESTS]
    done = subprocess.run(command, capture_output=True, text=True, env=given, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
