"""Random programs under random stacks of transformations, against what these mean by definition.

A failure names its seed; run that program alone with
``python -m tests.compose.test_random_programs SEED``.
"""

import sys
import traceback

import numpy as np
import pytest

import weft
from tests.compose.programs import generate
from tests.compose.stacks import Stack
from weft.base import knobs
from weft.core.verify import check_jaxpr

COUNT, FULL_COUNT, CHUNK = 200, 50_000, 50
# Seeds beyond these that found a mistake.
FOUND = (679,)
# Both sides compute in float64, in another order: a few thousand rounding errors of the largest
# value on the way, which derivatives of second order magnify.
TOLERANCE = 1e-8
# The order in which a sum is taken may follow how its operand lies in memory.
JIT_TOLERANCE = 1e-12
# Central differences with this step: truncation 1e-12, rounding 1e-10, times higher derivatives.
STEP, DIFFERENCE_TOLERANCE = 1e-6, 1e-5


def compare(got, want, what, tolerance=TOLERANCE):
    assert len(got) == len(want), what
    for k, (a, b) in enumerate(zip(got, want)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{what}, result {k}: {a.dtype}{a.shape}"
        scale = 1 + np.abs(b).max(initial=0.0)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=what)


def check_program(program, args, traits, rng):
    """The program alone: eager, plain and jitted agree; derivatives are limits of differences."""
    fast = lambda *xs: program(False, *xs)
    plain = lambda *xs: program(True, *xs)
    values = fast(*args)
    compare(values, plain(*args), "plain Python")
    compare(weft.jit(fast)(*args), values, "jitted", JIT_TOLERANCE)
    directions = [rng.standard_normal(np.shape(x)) for x in args]
    slope = weft.jvp(plain, tuple(args), tuple(directions))[1]
    if "stopped" not in traits:
        ahead = plain(*(x + STEP * d for x, d in zip(args, directions)))
        behind = plain(*(x - STEP * d for x, d in zip(args, directions)))
        change = [(np.asarray(a) - np.asarray(b)) / (2 * STEP) for a, b in zip(ahead, behind)]
        compare(slope, change, "differences", DIFFERENCE_TOLERANCE)
    if "reverse only" not in traits:
        compare(weft.jvp(fast, tuple(args), tuple(directions))[1], slope, "forward mode")
    if "forward only" not in traits:
        weights = [rng.standard_normal(np.shape(y)) for y in values]
        back = weft.vjp(fast, *args)[1](weights)
        forward = sum(np.sum(np.asarray(t) * w) for t, w in zip(slope, weights))
        backward = sum(np.sum(np.asarray(g) * d) for g, d in zip(back, directions))
        compare([np.asarray(backward)], [np.asarray(forward)], "reverse mode")


def check_stack(program, stack):
    """The program under all layers: transformed, by definition, and as a program that verifies."""
    stack.grow(lambda *xs: program(True, *xs))
    fast = stack.build(lambda *xs: program(False, *xs), "fast")
    slow = stack.build(lambda *xs: program(True, *xs), "slow")
    args = stack.args
    want = slow(*args)
    compare(fast(*args), want, stack.names())
    compare(weft.jit(fast)(*args), want, f"jit of {stack.names()}")
    check_jaxpr(weft.make_jaxpr(fast)(*args))


def check_seed(seed):
    with weft.enable_x64(True):
        program, args, traits = generate(seed)
        stack = Stack(seed, args, traits)
        try:
            check_program(program, args, traits, np.random.default_rng(seed + 2))
            check_stack(program, stack)
        except Exception as error:
            raise AssertionError(
                f"seed {seed}, {stack.names()}\n{program}\n"
                f"python -m tests.compose.test_random_programs {seed}"
            ) from error


def check_range(first):
    # tests/backends does the same natively, for fewer programs: each takes a compile
    with knobs.scope(backend="reference"):
        for seed in range(first, first + CHUNK):
            check_seed(seed)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_programs(first):
    check_range(first)


@pytest.mark.parametrize("seed", FOUND)
def test_programs_that_found_something(seed):
    with knobs.scope(backend="reference"):
        check_seed(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(COUNT, FULL_COUNT, CHUNK))
def test_many_random_programs(first):
    check_range(first)


def main(seeds):
    failed = []
    for seed in seeds:
        try:
            check_seed(seed)
        except AssertionError as error:
            failed.append(seed)
            traceback.print_exception(error)
    print(f"{len(failed)} of {len(seeds)} failed: {failed}" if failed else "passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main([int(a) for a in sys.argv[1:]]))
