"""Every recorded answer of JAX, in chunks; ``run.py --case ID`` looks at one alone."""

import pytest

from weft.base import knobs

from . import harness
from .table import FAMILIES, Case

CHUNK = 100
LIMIT = 6_000
# Of so many cases one is run by the reference backend, and one natively, eagerly and compiled; all
# of them in the full tier. The first of each chunk differ, so that the two samples do.
INTERPRETED = 8
NATIVE = 32


def chunks() -> list[tuple[str, int, int]]:
    """Family, chunk and number of chunks; sized by the record, so that nothing is generated."""
    out = []
    for name in harness.families():
        count = max(1, -(-len(harness.Record(name).meta) // CHUNK))
        out.extend((name, part, count) for part in range(count))
    return out


@pytest.fixture(scope="session")
def checker() -> harness.Checker:
    return harness.Checker("weft")


@pytest.fixture(scope="session")
def tables() -> dict[str, list[Case]]:
    return {}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "part", "count"), chunks())
def test_the_reference_backend_agrees(checker, tables, name: str, part: int, count: int) -> None:
    with knobs.scope(backend="reference"):
        check(checker, of_family(tables, name)[part::count][part % INTERPRETED :: INTERPRETED])


@pytest.mark.parametrize(("name", "part", "count"), chunks())
def test_native_code_agrees(checker, tables, name: str, part: int, count: int) -> None:
    check(checker, of_family(tables, name)[part::count][part % NATIVE :: NATIVE])


@pytest.mark.full
@pytest.mark.parametrize(("name", "part", "count"), chunks())
def test_the_reference_backend_agrees_everywhere(checker, tables, name, part, count) -> None:
    with knobs.scope(backend="reference"):
        check(checker, of_family(tables, name)[part::count])


@pytest.mark.full
@pytest.mark.parametrize(("name", "part", "count"), chunks())
def test_native_code_agrees_everywhere(checker, tables, name, part, count) -> None:
    check(checker, of_family(tables, name)[part::count])


def of_family(tables: dict[str, list[Case]], name: str) -> list[Case]:
    if name not in tables:
        tables[name] = FAMILIES[name].cases()
    return tables[name]


def check(checker: harness.Checker, cases: list[Case]) -> None:
    failures = [f for case in cases for f in checker.check(case)]
    if failures:
        failed = len({f.case.id for f in failures})
        absent = sorted({f.missing for f in failures if f.missing})
        shown = "\n".join(str(f) for f in failures if not f.missing)
        text = f"{failed} of {len(cases)} cases disagree\n{shown[:LIMIT]}"
        pytest.fail(text + f"\nmissing public names: {absent}" * bool(absent), pytrace=False)


def test_there_are_enough_cases() -> None:
    """Cases that JAX leaves open do not count; nearly all are run eagerly and compiled."""
    total = compiled = 0
    for name in harness.families():
        for entry in harness.Record(name).meta.values():
            total += entry["value"].get("error") != harness.OPEN
            compiled += "jit" in entry
    assert total >= 20_000
    assert compiled >= 15_000


def test_records_are_small() -> None:
    size = sum(path.stat().st_size for path in harness.DATA.glob("*.npz"))
    assert size <= 12 * 2**20


def test_every_family_has_a_record_and_no_record_is_orphaned() -> None:
    assert {p.stem for p in harness.DATA.glob("*.npz")} == set(harness.families())
