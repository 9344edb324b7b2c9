"""The laws, on every sample of every primitive. A failing case is one sample under one law."""

import pytest

from tests.laws import checks
from tests.samples import all_samples
from weft.core.registry import lookup

SAMPLES = all_samples()


def holes(sample):
    return lookup(sample.prim).holes


def one_of_each_kind(names):
    """The first of the floating, complex, integer and boolean dtypes."""
    first = {}
    for name in names:
        kind = name.rstrip("0123456789").removeprefix("b").removeprefix("u").split("8")[0]
        first.setdefault(kind, name)
    return list(first.values())


def select(condition):
    return pytest.mark.parametrize("sample", [s for s in SAMPLES if condition(s)], ids=repr)


def differentiable(sample):
    return sample.differentiable and "jvp" not in holes(sample) and checks.double(sample)


@select(lambda s: True)
def test_shape_is_that_of_the_reference(sample):
    for dtype in sample.dtypes:
        with checks.precision(dtype):
            checks.check_shape(sample, dtype)


@select(differentiable)
def test_jvp_is_the_limit_of_differences(sample):
    for dtype in checks.double(sample):
        with checks.precision(dtype):
            checks.check_jvp(sample, dtype)


@select(lambda s: s.reverse and "jvp" not in holes(s) and checks.double(s))
def test_reverse_is_the_transpose_of_forward(sample):
    for dtype in checks.double(sample):
        with checks.precision(dtype):
            checks.check_reverse(sample, dtype)


@select(lambda s: s.linear or (lookup(s.prim).linear and s.wrt != ()))
def test_transpose_keeps_inner_products(sample):
    sets = sample.linear or [tuple(range(len(sample.args)))]
    for dtype in checks.double(sample):
        with checks.precision(dtype):
            for positions in sets:
                checks.check_transpose(sample, dtype, positions)


@pytest.mark.sampled(2)
@select(lambda s: s.args and s.mapped != () and "batch" not in holes(s))
def test_batch_is_a_stacked_loop(sample):
    for dtype in one_of_each_kind(sample.dtypes):
        with checks.precision(dtype):
            checks.check_batch(sample, dtype)


@pytest.mark.sampled(6)
@select(lambda s: True)
def test_jit_is_eager_and_traces_once(sample):
    for dtype in sample.dtypes:
        with checks.precision(dtype):
            checks.check_jit(sample, dtype)


@select(lambda s: True)
def test_programs_verify(sample):
    for dtype in one_of_each_kind(sample.dtypes):
        with checks.precision(dtype):
            checks.check_programs(sample, dtype)
