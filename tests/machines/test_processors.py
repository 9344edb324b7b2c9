"""Kernels compiled for processors that may not be at hand: LLVM and the loader take them, inner
loops keep to rules, and cost no more than is recorded in `costs.json`.

Write that record anew, once the new costs are meant, by `python -m tests.machines.test_processors`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machines.assembly import loops
from tests.machines.processors import PROCESSORS

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("costs.json")
# Versions of LLVM differ a little.
TOLERANCE = 1.1


def compiled_for(name: str, *options: str) -> dict:
    command = [sys.executable, "-m", "tests.machines.compile_for", name, *options]
    given = {**os.environ, "WEFT_CACHE": "off"}
    given["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), given.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, env=given, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    if "missing" in found:
        pytest.skip(f"this build of LLVM compiles for no {found['missing']}")
    return found


def check(name: str, *options: str) -> None:
    found, recorded = compiled_for(name, *options), json.loads(RECORD.read_text())[name]
    assert found["wrong"] == []
    assert found["kernels"] > 100 and found["costs"].keys() == recorded.keys()
    slower = {
        loop: (cost, recorded[loop])
        for loop, cost in found["costs"].items()
        if cost > TOLERANCE * recorded[loop]
    }
    assert not slower, f"cycles, and those recorded: {slower}; {__doc__}"


# Vectors of the narrowest and of the widest kind; --full has them all.
@pytest.mark.parametrize("name", ["neon", "avx512"])
def test_kernels_for_a_processor(name: str) -> None:
    check(name)


@pytest.mark.full
@pytest.mark.parametrize("name", PROCESSORS)
def test_kernels_of_all_samples_for_a_processor(name: str) -> None:
    check(name, "--full")


ARM = """
.LBB0_1:
	ldr	q0, [x1], #16
	ldr	q1, [x0, #32]  // a comment
	fmla	v2.4s, v1.4s, v0.s[0]
{extra}
	fmla	v3.4s, v1.4s, v0.s[1]
	subs	x2, x2, #1
	b.ne	.LBB0_1
	ret
"""
X86 = """
.LBB0_1:                # =>This Inner Loop Header: Depth=1
	vbroadcastss	(%rax), %zmm0
	vfmadd231ps	(%rcx), %zmm0, %zmm1
{extra}
	decq	%rdx
	jne	.LBB0_1
	vzeroupper
	retq
"""


@pytest.mark.parametrize(("processor", "text", "extra", "said"), [
    ("neon", ARM, "", []),
    ("neon", ARM, "\tfmla\tv4.4s, v1.4s, v0.4s", ["an FMA that is not by element"]),
    ("neon", ARM, "\tstr\tq2, [sp, #16]", ["a spill", "the stack in a tile"]),
    ("neon", ARM, "\tldr\tq2, [sp, #16]", ["the stack in a tile"]),
    ("neon", ARM, "\tldr\tq2, [sp, x3]", []),
    ("neon", ARM, "\tmov\tv5.16b, v2.16b", ["a copy of a register"]),
    ("neon", ARM, "\tfmadd\ts1, s2, s3, s4", ["a single number in a vector loop"]),
    ("avx512", X86, "", []),
    ("avx512", X86, "\tvmovups\t%zmm1, 64(%rsp)", ["a spill", "the stack in a tile"]),
    ("avx512", X86, "\tvmovups\t64(%rbp), %zmm1", ["the stack in a tile"]),
    ("avx512", X86, "\tvmovups\t(%rbp), %zmm1\n\taddq\t$64, %rbp", []),
    ("avx512", X86, "\tvaddss\t%xmm1, %xmm2, %xmm3", ["a single number in a vector loop"]),
])  # fmt: skip
def test_rules_see_what_they_are_for(processor, text, extra, said) -> None:
    (loop,) = loops(text.format(extra=extra), PROCESSORS[processor])
    assert [fault.split(":")[0] for fault in loop.faults(tile=True)] == said


def test_costs_are_those_of_the_busiest_unit() -> None:
    (arm,) = loops(ARM.format(extra=""), PROCESSORS["neon"])
    assert (arm.cycles, arm.cost()) == (6 / 4, 6 / 4)
    (arm,) = loops(ARM.format(extra="\tfdiv\tv0.4s, v1.4s, v2.4s"), PROCESSORS["neon"])
    assert arm.cycles == 7
    (x86,) = loops(X86.format(extra="\tvmovups\t%zmm1, (%rsi)"), PROCESSORS["avx512"])
    assert (x86.stored, x86.cycles, x86.cost()) == (64, 1.5, 1.5 / 16)


if __name__ == "__main__":
    costs = {name: compiled_for(name)["costs"] for name in PROCESSORS}
    RECORD.write_text(json.dumps(costs, indent=1) + "\n")
