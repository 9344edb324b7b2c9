"""Checks on samples of every primitive: silent on clean operands, and with a name on bad ones."""

import contextlib

import numpy as np
import pytest

import weft as jax
from tests.laws import checks as laws
from tests.laws.test_laws import one_of_each_kind
from tests.samples import all_samples
from weft.core.registry import lookup
from weft.errors import CheckError, NaNCheckError
from weft.experimental import checkify

SAMPLES = [s for s in all_samples() if s.axis is None and not s.prim.startswith("random")]
# Operands that mathematical functions have no values for, or infinite ones.
SPECIAL = np.array([-3.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, -np.inf])
# Samples whose operands hold NaNs and divisors of zero, beside which others are made.
BAD = ("_edges", "_extremes", "_by_zero")


def has_nan(tree):
    found = [np.asarray(x) for x in jax.tree.leaves(tree) if laws.is_inexact(x)]
    return any(np.isnan(x.astype(np.complex128)).any() for x in found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_checks_are_silent_unless_a_result_is_bad(sample):
    for dtype in one_of_each_kind(sample.dtypes):
        with laws.precision(dtype):
            args = sample.operands(dtype, np.random.default_rng(laws.seed_of(sample)))
            want = jax.jit(sample.function(dtype))(*args)
            function = jax.jit(sample.function(dtype))
            with jax.checks(nan=True, division=True):
                if sample.name.endswith(BAD):
                    with contextlib.suppress(CheckError):
                        function(*args)
                    continue
                if has_nan(want):
                    with pytest.raises(CheckError, match=r"made nan|divided by zero"):
                        function(*args)
                    continue
                got = function(*args)
            for mine, plain in zip(laws.arrays(got), laws.arrays(want), strict=True):
                laws.assert_same_bits(np.asarray(mine), np.asarray(plain))


@pytest.mark.parametrize("sample", [s for s in SAMPLES if "int32" in s.dtypes], ids=repr)
def test_no_sample_overflows(sample):
    """All samples of integers hold small ones, but for those of extremes."""
    args = sample.operands("int32", np.random.default_rng(laws.seed_of(sample)))
    with jax.checks(overflow=True):
        jax.jit(sample.function("int32"))(*args)


def indexes(sample):
    """Whether a sample has indices; where their mode says what they mean, nothing is checked.

    ``checkify`` does not look at ``scatter-sub``, as JAX's, nor at references.
    """
    has_indices = sample.prim.startswith(("gather", "scatter", "dynamic"))
    meant = "clip" in sample.name or "wrap" in sample.name
    return has_indices and not meant and sample.prim != "scatter-sub"


@pytest.mark.parametrize("sample", [s for s in SAMPLES if indexes(s)], ids=repr)
def test_indices_are_refused_where_checkify_refuses_them(sample):
    dtype = sample.dtypes[0]
    with laws.precision(dtype):
        args = sample.operands(dtype, np.random.default_rng(laws.seed_of(sample)))
        checked = checkify.checkify(sample.function(dtype), errors=checkify.index_checks)
        outside = checked(*args)[0].get() is not None
        function = jax.jit(sample.function(dtype))
        with jax.checks(index=True):
            if not outside:
                function(*args)
                return
            with pytest.raises(IndexError, match="got index"):
                function(*args)


def is_function_of_numbers(sample):
    primitive = lookup(sample.prim)
    return primitive.form == "map" and "float32" in sample.dtypes and sample.args


@pytest.mark.parametrize("sample", [s for s in SAMPLES if is_function_of_numbers(s)], ids=repr)
def test_functions_of_numbers_are_named(sample):
    """Where the reference makes a NaN, the error names the primitive, the element and operands."""
    rng = np.random.default_rng(laws.seed_of(sample))
    args = [
        rng.choice(SPECIAL, np.shape(x)).astype(x.dtype) if x.dtype == np.float32 else x
        for x in sample.operands("float32", rng)
    ]
    want = jax.jit(sample.function("float32"))(*args)
    function = jax.jit(sample.function("float32"))
    with jax.checks(nan=True):
        if not has_nan(want):
            function(*args)
            return
        with pytest.raises(NaNCheckError) as error:
            function(*args)
    assert "made nan" in str(error.value)
    assert str(error.value).startswith(f"{sample.prim} made nan") or sample.fun is not None
    # alone, the same operation says the same
    with jax.checks(nan=True), pytest.raises(NaNCheckError, match="made nan"):
        sample.function("float32")(*args)
