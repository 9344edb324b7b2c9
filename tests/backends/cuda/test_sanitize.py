"""What compute-sanitizer says, as `tools/sanitize.py` reads it; and what it runs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.backends.cuda import sanitized
from tools import sanitize

ROOT = Path(__file__).resolve().parents[3]

MEMORY = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at packed_attention_0123abcd+0x4d0
=========     by thread (31,0,0) in block (3,0,0)
=========     Address 0x7f3c56be2600 is out of bounds
=========
========= Invalid __global__ read of size 16 bytes
=========     at packed_attention_0123abcd+0x4d0
=========     by thread (30,0,0) in block (3,0,0)
=========     Address 0x7f3c56be2610 is out of bounds
=========
========= Invalid __shared__ write of size 4 bytes
=========     at void cutlass_kernel<int>(int)+0x10
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 3 errors
"""
RACES = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sort_b6e9fb74+0x70
=========     and Read access at sort_b6e9fb74+0x180 [28 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
BARRIERS = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at cumsum_00ff00ff+0x90
=========     by thread (12,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
"""


def test_faults_are_counted_by_kernel():
    found = sanitize.findings(MEMORY)
    assert found["packed_attention_0123abcd", "Invalid __global__ read of size n bytes"] == 2
    text, ours = sanitize.report("memcheck", found)
    assert ours == 2 and "packed_attention_0123abcd" in text
    assert "(1 in kernels of libraries)" in text


@pytest.mark.parametrize("log, kernel", [(RACES, "sort_b6e9fb74"), (BARRIERS, "cumsum_00ff00ff")])
def test_races_and_barriers_name_their_kernel(log, kernel):
    ((name, _),) = sanitize.findings(log)
    assert name == kernel and sanitize.report("racecheck", sanitize.findings(log))[1] == 1


def test_a_log_without_faults():
    text, ours = sanitize.report(
        "initcheck", sanitize.findings("========= ERROR SUMMARY: 0 errors")
    )
    assert (text, ours) == ("initcheck: no faults", 0)


def test_what_is_run(capsys, monkeypatch):
    """Samples and programs run to their end, here on the CPU."""
    monkeypatch.setattr(sys, "argv", ["sanitized", "--samples", "3", "--programs", "4"])
    monkeypatch.setattr(sanitized.run, "Draw", sanitized.Few)
    sanitized.main()
    assert "ran 7 programs" in capsys.readouterr().out


def test_programs_of_libraries_are_known(monkeypatch):
    told = "1 commands\n  cublasLtMatmul  [a.py:1 (f)], took 3 us"
    monkeypatch.setattr(weft, "explain", lambda fun, quiet: lambda *args: told)
    names = ("cublas", "cufft")
    x = np.ones(8, np.float32)
    assert sanitized.uses_library(weft.numpy.negative, (x,), names)
    assert not sanitized.uses_library(weft.numpy.negative, (x,), names[1:])
    assert sanitized.uses_library(weft.numpy.fft.rfft, (x,), names[1:])
    told = "1 commands\n  add_sin: 1 blocks of 256  [a.py:1 (f)]"
    assert not sanitized.uses_library(weft.numpy.negative, (x,), names)


def test_without_the_sanitizer_it_is_skipped(tmp_path):
    code = "import sys; from tools import sanitize; sanitize.sanitizer = lambda: None;"
    code += "sys.argv = ['sanitize']; sys.exit(sanitize.main())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "skipped" in done.stdout
