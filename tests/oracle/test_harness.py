"""The comparison itself: what counts as a difference and what does not."""

import numpy as np
import pytest

from .harness import Leaf, Outcome, compare, compare_floats, differing, missing, second
from .table import EXACT, FAMILIES, Rng, Tol, family


def leaf(array: np.ndarray, weak: bool = False) -> Leaf:
    return Leaf(array.dtype.name, array.shape, weak, array)


def outcome(*arrays: np.ndarray) -> Outcome:
    return Outcome("(" + ",".join("*" * len(arrays)) + ")", tuple(leaf(a) for a in arrays))


def test_floats_within_their_units_agree() -> None:
    x = np.array([1.0, -3.0], np.float32)
    assert compare_floats(x, np.nextafter(x, np.float32(9)), Tol(1)) == ""
    assert "ulp" in compare_floats(x, x * np.float32(1 + 1e-5), Tol(4))


def test_exact_means_bits() -> None:
    x = np.array([1.0], np.float32)
    assert compare_floats(x, np.nextafter(x, np.float32(2)), EXACT)
    assert compare_floats(np.array([0.0]), np.array([-0.0]), EXACT)
    assert compare_floats(np.array([0.0]), np.array([-0.0]), Tol(1)) == ""


def test_nan_and_infinity_must_match() -> None:
    x = np.array([np.nan, np.inf, 1.0])
    assert compare_floats(x, x.copy(), EXACT) == ""
    assert compare_floats(x, np.array([0.0, np.inf, 1.0]), Tol(1e9))
    assert compare_floats(x, np.array([np.nan, -np.inf, 1.0]), Tol(1e9))


def test_scale_takes_the_largest_entry() -> None:
    want, got = np.array([1e-9, 100.0]), np.array([2e-9, 100.0])
    assert compare_floats(want, got, Tol(4))
    assert compare_floats(want, got, Tol(1e5, True)) == ""


def test_dtype_shape_and_weak_type_are_compared() -> None:
    want = outcome(np.zeros(2, np.float32))
    assert "dtype" in compare(want, outcome(np.zeros(2, np.float64)), EXACT)
    assert "shape" in compare(want, outcome(np.zeros(3, np.float32)), EXACT)
    weak = Outcome("(*)", (leaf(np.zeros(2, np.float32), weak=True),))
    assert "weak" in compare(want, weak, EXACT)
    assert "structure" in compare(want, outcome(), EXACT)


def test_an_error_must_have_the_recorded_class() -> None:
    want = Outcome(error="ValueError")
    assert compare(want, Outcome(error="Mine", classes=("Mine", "ValueError")), EXACT) == ""
    assert "want ValueError" in compare(
        want, Outcome(error="TypeError", classes=("TypeError",)), EXACT
    )
    assert "returned" in compare(want, outcome(np.zeros(1)), EXACT)


def test_a_missing_name_is_never_an_expected_error() -> None:
    text = "module 'weft.lax' has no attribute 'nope'"
    got = Outcome(error="AttributeError", classes=("AttributeError",), message=text)
    assert missing(got) == "lax.nope"
    assert compare(Outcome(error="AttributeError"), got, EXACT)


def test_texts_show_the_lines_that_differ() -> None:
    assert "-b" in differing("a\nb\nc", "a\nx\nc") and "+x" in differing("a\nb\nc", "a\nx\nc")


def test_arrays_are_the_same_on_every_machine() -> None:
    assert Rng("seed").f((2,)).tolist() == [1.3267630338668823, -0.2505519688129425]
    assert Rng("seed").i((4,)).tolist() == Rng("seed").i((4,)).tolist()
    assert second(np.array([1.0, 2.0])).tolist() == [0.75, 1.5]


def test_a_family_is_declared_once() -> None:
    name = next(iter(FAMILIES))
    with pytest.raises(ValueError, match=name):
        family(name)(lambda add: None)
