"""What finds threads that don't come together to what they do together: texts of both kinds, and
the kernels of generated programs."""

import pytest

from tests.backends.cuda.convergence import Kernel
from tests.backends.cuda.test_own_loops import kernel_of
from tests.compiler.test_own_loops import CASES, MOVES, SHARED, floats, lengths, until
from weft.backends.cuda import ptx
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.backends.llvm.code import Effort
from weft.base import knobs

HEAD = """\
.visible .entry kernel(
  .param .u64 kernel_param_0
)
{
  .reg .pred %p<9>;
  ld.param.b64 %rd1, [kernel_param_0];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
"""
# Lines, and the bits by which threads differ that come to the last word, or don't.
TEXTS = {
    "all": ("bar.sync 0;", None),
    "some of a warp": ("setp.lt.u32 %p1, %r1, 7; @%p1 bra L1; shfl.sync.bfly.b32 %r3, %r1, 1;", 1),
    "some of a block": ("setp.lt.u32 %p1, %r1, 64; @%p1 bra L1; bar.sync 0;", 32),
    "whole warps": (
        "setp.lt.u32 %p1, %r1, 64; @%p1 bra L1; shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;",
        None,
    ),
    "whole blocks": ("setp.lt.u32 %p1, %r2, 7; @%p1 bra L1; bar.sync 0;", None),
    "numbers of all blocks": (
        (
            "mad.lo.s32 %r3, %r2, 64, %r1; setp.gt.u32 %p1, %r3, 95; @%p1 bra L1;"
            " vote.sync.ballot.b32 %r4, %p1, -1;"
        ),
        None,
    ),
    "what each has read": (
        (
            "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.b32 %r3, [%rd3];"
            " setp.eq.s32 %p1, %r3, 0; @%p1 bra L1; bar.warp.sync -1;"
        ),
        1,
    ),
    "what all have read": (
        "ld.global.b32 %r3, [%rd1]; setp.eq.s32 %p1, %r3, 0; @%p1 bra L1; bar.warp.sync -1;",
        None,
    ),
    "a loop that threads leave one by one": (
        (
            "mov.b32 %r3, 0; L0: shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1; add.s32 %r3, %r3, 1;"
            " setp.lt.u32 %p1, %r3, %r1; @%p1 bra L0;"
        ),
        1,
    ),
    "after such a loop": (
        (
            "mov.b32 %r3, 0; L0: add.s32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L0;"
            " bar.sync 0;"
        ),
        None,
    ),
    "sums of a warp": (
        "".join(
            f"shfl.sync.bfly.b32 %r{i + 10}, %r{i}, {1 << i - 1}, 31, -1;"
            f" add.s32 %r{i + 1}, %r{i + 10}, %r{i};"
            for i in range(1, 6)
        )
        + "setp.lt.u32 %p1, %r6, 7; @%p1 bra L1; bar.warp.sync -1;",
        None,
    ),
    "sums of half a warp": (
        "".join(
            f"shfl.sync.bfly.b32 %r{i + 10}, %r{i}, {1 << i - 1}, 31, -1;"
            f" add.s32 %r{i + 1}, %r{i + 10}, %r{i};"
            for i in range(1, 5)
        )
        + "setp.lt.u32 %p1, %r5, 7; @%p1 bra L1; bar.warp.sync -1;",
        16,
    ),
    "the same by two ways": (
        (
            "mov.b32 %r3, 1; setp.lt.u32 %p1, %r1, 7; mov.b32 %r4, %r3; @%p1 bra L0;"
            " mov.b32 %r4, %r3; L0: setp.eq.s32 %p2, %r4, 0; @%p2 bra L1; bar.sync 0;"
        ),
        None,
    ),
    "something else by each way": (
        (
            "mov.b32 %r3, 1; setp.lt.u32 %p1, %r1, 7; mov.b32 %r4, %r2; @%p1 bra L0;"
            " mov.b32 %r4, %r3; L0: setp.eq.s32 %p2, %r4, 0; @%p2 bra L1; bar.sync 0;"
        ),
        1,
    ),
    "what isn't the same for both": (
        (
            "shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1; sub.s32 %r4, %r3, %r1; and.b32 %r5, %r4, 1;"
            " setp.lt.u32 %p1, %r4, 7; @%p1 bra L1; bar.warp.sync -1;"
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    text, bit = TEXTS[name]
    lines = text.replace(";", ";\n  ").replace("L0:", "\nL0:\n")
    found = Kernel(f"{HEAD}  {lines}\nL1:\n  ret;\n}}\n").apart()
    if bit is None:
        assert not found
    else:
        assert len(found) == 1 and bit in found[0][1]


def check(kernel):
    """At both levels of optimisation, which leave different branches."""
    (part,) = schedule(kernel).parts
    module = render(part)
    for effort in (Effort.OPTIMISE, Effort.SOON):
        assert not Kernel(ptx.assemble(module.with_effort(effort))).apart()


@pytest.mark.parametrize("name", SHARED)
def test_warps_that_share_rows(name):
    for length in (33, 64, 150):
        check(kernel_of(SHARED[name], lengths(7), floats(7, length)))


@pytest.mark.parametrize("name", MOVES)
def test_elements_of_other_threads(name):
    check(kernel_of(until(lambda x: (MOVES[name](x),)), lengths(3), floats(3, 50)))


@pytest.mark.parametrize("name", [name for name in CASES if name != "sorting"])
def test_threads_that_take_the_next_elements(name):
    fun, shape = CASES[name]
    with knobs.scope(gpu_refill=1):
        check(kernel_of(fun, lengths(70), floats(70, *shape)))
