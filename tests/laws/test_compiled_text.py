"""Law 8, every pass leaves a program that verifies; and what is told of it can always be told."""

import pytest

import weft
from tests.laws.checks import seed_of
from tests.samples import WIDE, all_samples
from weft.backends.cpu.assembly_text import all_seen, codes_of, stages, whole_text
from weft.backends.cpu.story import Story, costs
from weft.backends.cpu.target import Cpu
from weft.base import knobs
from weft.compiler.plan import Unplannable
from weft.compiler.watch import Watch

# those of mapped axes have no program of their own
SAMPLES = [s for s in all_samples() if s.axis is None]


def planned(sample):
    dtype = sample.dtypes[0]
    args = sample.operands(dtype, seed_of(sample))
    with weft.enable_x64(dtype in WIDE):
        watch = Watch(weft.make_jaxpr(sample.function(dtype))(*args))
        with knobs.verify(2):
            return watch, Cpu(watch).assemble(watch.closed)


@pytest.mark.parametrize("prim", sorted({s.prim for s in SAMPLES}))
def test_programs_verify_and_are_told(prim):
    for sample in (s for s in SAMPLES if s.prim == prim):
        try:
            watch, program = planned(sample)
        except Unplannable:
            continue
        story = Story(watch, program)
        assert story.moved >= 0 and all(c >= 0 for c in costs(watch, program).values())
        assert str(story).startswith(story.summary())
        told = {s.name: s.text for s in stages(program, watch)}
        kernels = [text for name, text in told.items() if name.startswith("scheduled-")]
        assert whole_text(program, watch) == "\n\n".join([told["program"], *kernels])
        seen = [code for s in all_seen(watch.steps) for code in codes_of(s.nodes)]
        assert set(seen) <= set(range(len(program.codes)))
