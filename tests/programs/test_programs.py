"""Programs as users write them give what JAX gave when they were recorded."""

import json

import numpy as np
import pytest

import weft
from tests.programs.programs import PROGRAMS
from tests.programs.record import PATH, summary

with open(PATH, encoding="utf-8") as _file:
    RECORDED = json.load(_file)


def agree(got, expected):
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one[:2] == other[:2]
        np.testing.assert_allclose(one[2], other[2], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    agree(summary(weft, PROGRAMS[name](weft)), RECORDED[name])


@pytest.mark.parametrize("name", ["meta_learning", "clusters", "custom_rules", "named_axes"])
def test_program_without_jit(name):
    with weft.disable_jit():
        agree(summary(weft, PROGRAMS[name](weft)), RECORDED[name])


@pytest.mark.parametrize("name", ["recurrent_network", "attention", "chains"])
def test_program_with_checks(name):
    with weft.checking_leaks(), weft.debug_nans(True), weft.enable_checks(True):
        agree(summary(weft, PROGRAMS[name](weft)), RECORDED[name])
