"""Partitions as native tasks against the reference, to the bit: every dtype, ranks at the ends and
inside, payloads, and rows that are hard to split."""

import numpy as np
import pytest

from tests.backends.test_sort import FLOATS, INTEGERS, check, hard_rows, positions, sample
from weft.backends.cpu.routines.sorting import packing, sort
from weft.prims.sort import partition_p, sort_p


def split(ins, kth):
    check(partition_p, sort.partition, ins, kth=kth)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
def test_every_dtype(dtype):
    for shape in [(1,), (5,), (300,), (700, 7), (3, 5000), (2, 40000)]:
        n = shape[-1]
        x = sample(shape, dtype)
        for kth in sorted({0, n // 3, n // 2, n - 1}):
            split([x], kth)
        split([x, positions(shape, len(shape) - 1)], n // 2)


@pytest.mark.parametrize("dtype", ["int8", "float16", "complex64", "int64"])
def test_payloads(dtype):
    for n in (17, 70001):
        split([sample((n,), "float32"), sample((n,), dtype)], n // 4)


@pytest.mark.parametrize("n", [300, 5000, 70001])
def test_rows_that_are_hard_to_split(n):
    for x in hard_rows(n):
        for kth in (0, n // 2, n - 2):
            split([x.astype("int32")], kth)
            split([x.astype("float64")], kth)


def test_samples_that_mislead():
    """All numbers at equal distances are small, of which there are few."""
    n, samples = 1 << 17, 4096
    x = np.random.default_rng(0).integers(1 << 20, 1 << 30, n).astype(np.int32)
    x[:: n // samples] = np.arange(samples)
    for kth in (samples // 2, n // 2, n - 1):
        split([x], kth)
        split([x.astype("float64")], kth)


def test_pivots_by_the_range_of_keys(monkeypatch):
    monkeypatch.setattr(packing, "DEPTH", 1)
    monkeypatch.setattr(sort, "quick_module", sort.quick_module.__wrapped__)
    for x in hard_rows(9000):
        split([x.astype("int32")], 4000)


@pytest.mark.parametrize("bits", [128, 256])
def test_narrower_vectors(bits, monkeypatch):
    monkeypatch.setattr(sort, "vector_bits", lambda: bits)
    for dtype in ("float32", "int64", "uint8"):
        for n in (5, 3000, 20000):
            split([sample((n,), dtype), positions((n,), 0)], n // 3)
    for x in hard_rows(33000):
        kept = {"dimension": 0, "is_stable": True, "num_keys": 1}
        check(sort_p, sort.sort, [x.astype("float32")], **kept)
        check(sort_p, sort.sort, [x.astype("int64"), positions(x.shape, 0)], **kept)
