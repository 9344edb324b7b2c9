"""Sizes written in named dimensions."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from weft.base import sizes
from weft.base.errors import InconclusiveDimensionOperation
from weft.base.polynomials import Polynomial
from weft.base.sizes import recording, size_named
from weft.core.dims.dim import Dim, Scope, named


def test_arithmetic_is_that_of_numbers():
    scope: dict[str, int] = {}
    n, m = size_named("n", scope), size_named("m", scope)
    made = [n, m, n + m, n - 3, 2 * n * m + 5, 7 - n, n * n - m, -n, 4 * n + 8, n * m]
    draw = np.random.default_rng(0)
    actions = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
    for a, b in itertools.product([*made, 3, 12, -4], repeat=2):
        if type(a) is int and type(b) is int:
            continue
        for act in actions:
            scope.update(n=7, m=4)  # what a quotient is written as does not depend on it
            found = act(a, b)
            for _ in range(5):
                values = {"n": int(draw.integers(2, 40)), "m": int(draw.integers(2, 40))}
                x, y = sizes.at(a, values), sizes.at(b, values)
                if y == 0 and act in (operator.floordiv, operator.mod):
                    continue
                try:
                    assert sizes.at(found, values) == act(x, y), (a, act, b, values)
                except ZeroDivisionError:
                    pass  # a divisor inside of a divisor


def two(make):
    """Two dimensions, with values for the call at hand or symbolic ones."""
    scope = {"n": 5, "m": 9} if make is size_named else Scope()
    return make("n", scope), make("m", scope)


@pytest.mark.parametrize("make", [size_named, named])
def test_one_form_for_equal_sizes(make):
    n, m = two(make)
    assert repr(n * (m + 1) - n) == repr(n * m) and hash(n + m) == hash(m + n)
    assert (6 * n + 4) // 2 == 3 * n + 2 and (n * m + 3 * m) // m == n + 3
    assert (n + 1) * 4 % 4 == 0 and (4 * n + 3) % 4 == 3
    assert type(n - n) is int and type(n + 1 - n) is int
    assert n >= 1 and n != 0 and n + 1 > n and repr(2 * n - 1) == "2*n - 1"
    assert isinstance(n * 2, Polynomial) and repr(n * n * m + 3) == "m*n^2 + 3"


def test_quotients_of_polynomials():
    n, m = two(size_named)
    assert repr((4 * n + m) // 4) == "floordiv(m, 4) + n" and repr((4 * n + m) % 4) == "mod(m, 4)"
    assert (n * n + 2 * n + 1) // (n + 1) == n + 1 and (n * n + 2 * n + 1) % (n + 1) == 0
    n, m = two(named)  # as it is written
    assert repr((4 * n + m) // 4) == "floordiv(4*n + m, 4)"


def test_bounds_decide():
    scope = {"n": 5, "m": 9}
    n, m = size_named("n", scope), size_named("m", scope)
    with recording() as guards:
        assert n > 0 and n * m >= 4 and n + m > 3 and not n == -1 and n * 4 > n * 4 - 1
        assert -(-n // 8) >= 1 and n % 4 >= 0 and n % 4 < 4
    assert not guards
    with recording() as guards:
        assert m > n
    assert [str(g) for g in guards] == ["n - m < 0"]


def test_guards_record_what_was_assumed():
    n = size_named("n", {"n": 12})
    with recording() as guards:
        assert n > 10 and not n == 7 and n % 4 == 0
        assert list(range(n))[-1] == 11 and n.bit_length() == 4
    for value, holds in ((12, True), (13, False), (16, False), (7, False)):
        assert all(g.is_met({"n": value}) for g in guards) is holds
    assert any(g.pins() for g in guards)
    with recording() as guards:
        assert n.bit_length() == 4
    assert [all(g.is_met({"n": v}) for g in guards) for v in (7, 8, 15, 16)] == [0, 1, 1, 0]


def test_plain_numbers_ask_for_the_value():
    n = size_named("n", {"n": 3})
    assert np.zeros((n, 2)).shape == (3, 2) and f"{n}" == "3" and [1, 2, 3, 4][n] == 4
    with sizes.writing(lambda size: f"<{size!r}>"):
        assert f"{n + 1}" == "<n + 1>"
    assert sizes.plain(n * 2) == 6 and sizes.at_most(n, 8) == 8 and sizes.at_most(5, 8) == 5


def test_dimensions_without_values():
    n, _ = two(named)
    for ask in (lambda: n > 5, lambda: n >= 4, lambda: int(n), lambda: n % 2 < 1):
        with pytest.raises(InconclusiveDimensionOperation, match="n"):
            ask()
    assert not n == 4 and not n % 2 == 0 and type(n * 2) is Dim


def test_all_at_once():
    n, m = two(size_named)
    some = [n + 1, n * m - 2, (n + 3) // m, (n * m) % 7]
    compute = sizes.evaluator(some, ["n", "m"])
    for x, y in itertools.product((2, 5, 9), (3, 4)):
        assert compute(x, y) == [size.at({"n": x, "m": y}) for size in some]
