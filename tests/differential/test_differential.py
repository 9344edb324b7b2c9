"""Every public function of ``weft.numpy`` and ``weft.scipy`` agrees with NumPy's or SciPy's."""

from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.differential.coverage import UNCOVERED, all_cases, public_functions, sampled, used
from tests.differential.harness import Case, Table, check, doubled, groups

CASES = all_cases()
# How many cases of each function every run has; --full runs them all.
FEW = 1
MODULES = sorted({case.module for case in CASES})


def faults(cases: list[Case]) -> list[str]:
    return [
        f"{case.id} {how}: {wrong}" for group in groups(cases) for case, how, wrong in check(group)
    ]


@pytest.mark.parametrize("module", MODULES)
def test_some_cases_of_every_function(module: str) -> None:
    wrong = faults([case for case in sampled(CASES, FEW) if case.module == module])
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.full
@pytest.mark.parametrize("module", MODULES)
def test_all_cases(module: str) -> None:
    wrong = faults([case for case in CASES if case.module == module])
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.full
@pytest.mark.parametrize("module", MODULES)
def test_all_cases_in_64_bits(module: str) -> None:
    with weft.enable_x64(True):
        wrong = faults(doubled([case for case in CASES if case.module == module]))
    assert not wrong, "\n".join(wrong[:5])


def test_every_public_function_has_a_case() -> None:
    covered = {f"{case.module}.{name}" for case in CASES for name in used(case)}
    missing = [name for name in public_functions() if name not in covered | UNCOVERED.keys()]
    assert not missing
    idle = [name for name in UNCOVERED if name in covered or name not in public_functions()]
    assert not idle


def test_names_of_cases_are_unique() -> None:
    assert len({case.id for case in CASES}) == len(CASES) > 4000


def of(call, *arrays: np.ndarray, **how) -> Case:
    table = Table("numpy")
    table.add("sin", call, *(x.shape for x in arrays), **how)
    return replace(table.cases[0], arrays=arrays)


def test_faults_are_found() -> None:
    """Wrong values, shapes, dtypes and errors of weft's are all told, in both ways of running."""
    x = np.array([0.5, 1.0, 2.0], np.float32)

    def only_ours(change):
        return lambda m, v: change(m, v) if m.__name__ == "weft.numpy" else m.sin(v)

    told = {
        "ULP": only_ours(lambda m, v: m.sin(v) * (1 + 8e-7)),
        "shape": only_ours(lambda m, v: m.sin(v)[:2]),
        "dtype": only_ours(lambda m, v: m.sin(v).astype("float16")),
        "NaN": only_ours(lambda m, v: m.sin(v) + m.nan),
        "raised": only_ours(lambda m, v: m.no_such_function(v)),
    }
    for word, call in told.items():
        found = list(check([of(call, x, ulp=2)]))
        assert [how for _, how, _ in found] == ["eager", "compiled"], word
        assert all(word in wrong for *_, wrong in found), found
    assert not list(check([of(lambda m, v: m.sin(v), x, ulp=2)]))


def test_one_ulp_is_seen() -> None:
    x = np.array([0.5, 1.0, 2.0], np.float32)

    def off(m, v):
        return np.nextafter(np.asarray(v), np.float32(9)) if m.__name__ == "weft.numpy" else v

    assert list(check([replace(of(off, x), jit=False)]))
    assert not list(check([replace(of(off, x, ulp=1.5), jit=False)]))
