"""``weft.numpy`` conforms to the array API standard, but for exceptions that are named."""

from fnmatch import fnmatchcase

import numpy as np
import pytest

from tests.array_api import special, table
from tests.array_api.conformance import EXCEPTIONS, build, excuse, report
from tests.array_api.suite import Library, Suite, run

SHARE = 0.99


@pytest.fixture(scope="module")
def outcome(request) -> dict[int, tuple[int, dict[str, str]]]:
    return report(again=request.config.getoption("--full"))


def test_share_of_checks(outcome) -> None:
    total = sum(count for count, _ in outcome.values())
    failed = sum(len(errors) for _, errors in outcome.values())
    assert total > 5000
    assert (total - failed) / total >= SHARE


def test_only_named_exceptions_fail(outcome) -> None:
    for width, (_, failed) in outcome.items():
        unexpected = [name for name in failed if excuse(name) is None]
        told = "\n".join(f"{name}: {failed[name]}" for name in unexpected[:3])
        assert not unexpected, f"{len(unexpected)} checks fail with {width} bits, first {told}"


def test_every_exception_is_needed(outcome) -> None:
    failed = {name for _, errors in outcome.values() for name in errors}
    idle = [key for key in EXCEPTIONS if not any(fnmatchcase(name, key) for name in failed)]
    assert not idle


def test_a_fault_is_found() -> None:
    """A namespace that is wrong in one place fails there and only there."""

    class Wrong:
        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def floor(x):
            return np.where(x == 0, np.zeros_like(x), np.floor(x))  # loses the sign of -0

    suite = build()
    picked = Suite({name: check for name, check in suite.checks.items() if "/floor/" in name})
    dtypes = {name: np.dtype(name) for name in table.ALL}
    assert run(picked, Library(np, dtypes))[1] == {}
    assert set(run(picked, Library(Wrong(), dtypes))[1]) == {
        "special/floor/float32/-0",
        "special/floor/float64/-0",
    }


def test_rows_of_special_cases_can_be_read() -> None:
    for name, text in {**special.UNARY, **special.BINARY, **special.COMPLEX}.items():
        for row in special.rows(text):
            inputs = 2 if name in special.BINARY or name in special.COMPLEX else 1
            assert all(word in special.CLASSES for word in row[:inputs]), (name, row)


def test_promotion_table() -> None:
    assert table.promoted("int8", "uint8") == "int16"
    assert table.promoted("uint32", "int64") == "int64"
    assert table.promoted("int64", "uint64") is None
    assert table.promoted("float64", "complex64") == "complex128"
    assert table.promoted("bool", "int8") is table.promoted("int8", "float32") is None
