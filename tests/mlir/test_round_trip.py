"""What weft writes as StableHLO it reads again, and both run to the same bits.

One sample of each operation by default, every sample at every dtype with ``--full``.
"""

import re

import numpy as np
import pytest

import weft
from tests.export import symbolic_cases
from tests.export.test_symbolic_law import COMPUTED, SIZES, argument
from tests.laws import checks
from tests.samples import all_samples
from weft import dtypes, export
from weft.stablehlo.types import Unlowered

SAMPLES = all_samples()
# Operations that StableHLO has only as several others, which round more often, and the bound in
# units of the last place of the largest result.
NEAR = {
    "ragged_dot_general": 4,
    "reduce": 4,  # by a function that is a sum
    "tridiagonal_solve": 16,
}


def first_of_each():
    found = {}
    for sample in SAMPLES:
        found.setdefault(sample.prim, sample)
    return list(found.values())


def numbers(x):
    """The memory of an array; keys as words."""
    is_key = dtypes.issubdtype(weft.typeof(x).dtype, dtypes.prng_key)
    return np.asarray(weft.random.key_data(x) if is_key else x)


def difference(sample, dtype):
    """What differs after a round trip; None for a program that has no StableHLO."""
    args = sample.operands(dtype, checks.seed_of(sample))
    fun = checks.spread(sample, sample.function(dtype))
    jitted = weft.jit(fun, keep_unused=True)
    try:
        text = jitted.lower(*args).as_text("stablehlo")
    except (NotImplementedError, Unlowered):
        return None
    outs = [numbers(x) for x in weft.tree.leaves(jitted(*args))]
    found = export.from_stablehlo(text)(*[numbers(x) for x in weft.tree.leaves(args)])
    for i, (got, expected) in enumerate(zip(found, outs, strict=True)):
        got = np.asarray(got)
        if (got.dtype, got.shape) != (expected.dtype, expected.shape):
            return f"result {i} is {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
        if got.tobytes() != expected.tobytes() and not near(sample, got, expected):
            return f"result {i}: {got.reshape(-1)[:4]} instead of {expected.reshape(-1)[:4]}"
    return ""


def near(sample, got, expected):
    bound = NEAR.get(sample.prim)
    if bound is None:
        return bool(np.array_equal(got, expected, equal_nan=got.dtype.kind in "fc"))
    step = dtypes.finfo(expected.dtype).eps
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    got, expected = got.astype(wide), expected.astype(wide)
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    return np.allclose(got, expected, 0, bound * float(step) * largest, equal_nan=True)


def check(samples, dtypes_of):
    failures, done = [], 0
    for sample in samples:
        for dtype in dtypes_of(sample):
            with checks.precision(dtype):
                try:
                    found = difference(sample, dtype)
                except Exception as error:
                    found = f"{type(error).__name__}: {str(error)[:300]}"
            done += found is not None
            if found:
                failures.append(f"{sample} {dtype}: {found}")
    assert not failures, f"{len(failures)} of {done}:\n" + "\n".join(failures)
    return done


@pytest.mark.parametrize("part", range(4))
def test_one_sample_of_each_operation(part):
    assert check(first_of_each()[part::4], lambda sample: sample.dtypes[:1]) > 5


def symbolic(cases):
    """Functions of symbolic shapes at a size, after a round trip; how many have StableHLO."""
    asked, done = symbolic_cases.Asked("weft"), 0
    for name, source, types in cases:
        fun = weft.jit(asked.function(source))
        try:
            text = fun.lower(*asked.specs(types)).as_text("stablehlo")
        except NotImplementedError:
            continue
        draw, sizes = np.random.default_rng(0), SIZES[1]
        args = [argument(kind, sizes, draw) for kind in types]
        ins = [numbers(np.asarray(x) if np.isscalar(x) else x) for x in args]
        dims = re.findall(r'jax.global_constant = "(\w+)"', text.split("\n")[1])
        found = export.from_stablehlo(text)(*[np.int32(sizes[d]) for d in dims], *ins)
        outs = [numbers(x) for x in weft.tree.leaves(fun(*args))]
        for got, expected in zip(found, outs, strict=True):
            got = np.asarray(got)
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
            wide = got.astype(complex), expected.astype(complex)
            np.testing.assert_allclose(*wide, rtol=2e-4, atol=2e-4, err_msg=name)
        done += 1
    return done


SLICES = ("index of traced", "dynamic_slice of size", "scan of batches")


def test_symbolic_shapes():
    assert symbolic([*COMPUTED[::12], *[case for case in COMPUTED if case[0] in SLICES]]) > 15


@pytest.mark.full
def test_all_symbolic_shapes():
    assert symbolic(COMPUTED) > 300


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_all_samples(part):
    check(SAMPLES[part::8], lambda sample: sample.dtypes)
