"""Records are named tuples in all that is visible."""

import copy
import inspect
import pickle
from typing import NamedTuple

import pytest

from weft import tree
from weft.base.record import Record


class Ours(Record):
    """Two numbers."""

    x: int
    y: int = 5

    def total(self) -> int:
        return self.x + self.y


class Theirs(NamedTuple):
    """Two numbers."""

    x: int
    y: int = 5

    def total(self) -> int:
        return self.x + self.y


class Derived(Ours):
    """A subclass that has more to say."""

    def __new__(cls, x):
        return super().__new__(cls, x, 2 * x)

    def total(self) -> int:
        return super().total() + 1


class Empty(Record):
    """No fields."""


@pytest.mark.parametrize("use", [
    lambda p: tuple(p(1, 2)),
    lambda p: (p(1).y, p(x=3, y=4).x, p(1)[0], len(p(1)), p(1, 2).total()),
    lambda p: repr(p(1, "a")).replace("Ours", "Theirs"),
    lambda p: (p(1) == p(1), p(1) == (1, 5), hash(p(1)), p(1) < p(2)),
    lambda p: tuple(p(1)._replace(y=7)),
    lambda p: (p._fields, p._field_defaults, p(1)._asdict(), tuple(p._make([1, 2]))),
    lambda p: (p.__match_args__, p.__doc__, p.__annotations__),
    lambda p: str(inspect.signature(p)),
    lambda p: (isinstance(p(1), tuple), type(p(1)) is p, hasattr(p(1), "__dict__")),
    lambda p: type(pickle.loads(pickle.dumps(p(1, 2)))) is p and tuple(copy.deepcopy(p(1, 2))),
    lambda p: tuple(tree.map(lambda v: v + 1, p(1, 2))),
    lambda p: [str(k) for k, _ in tree.leaves_with_path(p(1, 2))],
])  # fmt: skip
def test_records_do_what_named_tuples_do(use) -> None:
    assert use(Ours) == use(Theirs)


@pytest.mark.parametrize("use", [
    lambda p: p(),
    lambda p: p(1, 2, 3),
    lambda p: p(1, z=2),
    lambda p: setattr(p(1), "x", 2),
    lambda p: p(1)._replace(z=2),
    lambda p: p._make([1, 2, 3]),
])  # fmt: skip
def test_records_refuse_what_named_tuples_refuse(use) -> None:
    errors = []
    for kind in (Ours, Theirs):
        with pytest.raises((TypeError, AttributeError, ValueError)) as caught:
            use(kind)
        errors.append(caught.type)
    assert errors[0] is errors[1]


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(TypeError, match=r"Ours.__new__\(\) missing 1 required .*: 'x'"):
        Ours()


def test_records_can_be_derived_from_and_be_empty() -> None:
    assert Derived(2)._replace(x=3) == (3, 4)
    assert Derived(2) == (2, 4) and Derived(2).total() == 7 and Derived(2).y == 4
    assert Empty() == () and repr(Empty()) == "Empty()"


def test_defaults_come_last() -> None:
    with pytest.raises(TypeError, match="without a default"):
        type(Record)("Wrong", (Record,), {"__annotations__": {"a": int, "b": int}, "a": 1})
