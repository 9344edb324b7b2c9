"""Symbolic shapes: dimensions, comparisons, types of results and errors as JAX has them, recorded
by ``tools/record_symbolic.py``."""

import json
from pathlib import Path

import pytest

from . import symbolic_cases as cases

ANSWERS = json.loads((Path(__file__).parent / "symbolic_answers.json").read_text())

# What weft does otherwise, and why.
OTHERS = {
    "float(a)": "raises InconclusiveDimensionOperation",  # which says more than TypeError
    "+a": "a",
    # text that tokenize refuses before JAX looks at it
    "export.symbolic_shape('floordiv(b, 2')": "raises ValueError",
    "export.symbolic_shape('(b, h')": "raises ValueError",
    "export.symbolic_shape('b, 4', like=(3,))": "raises ValueError",
    # found when the scope is made, not at the first comparison
    "export.symbolic_shape('b', constraints=['b >= 2', 'b <= 1'])": "raises ValueError",
    # the sizes are those of a constraint that JAX does not use there
    "lambda x: x.reshape(2, -1)": "float32[2,floordiv(b, 2)]",
    "indices": "int32[2,b,h]",
    "cond by size": "float32[b]",
    "pinv": "float32[3,b]",
    "lambda x: x[x.shape[0] // 2]": "float32[h]",
    "convolve": "raises InconclusiveDimensionOperation",  # which of both is longer
    "reshape to another": "raises TypeError",  # JAX lets it through, and fails when it runs
}


@pytest.fixture(scope="module")
def weft():
    return cases.Asked("weft")


def test_there_are_enough_cases():
    assert sum(map(len, ANSWERS.values())) > 800


def test_dimensions_are_what_jax_says(weft):
    wrong = []
    for known, text, expected in ANSWERS["dimensions"]:
        found = weft.dimension(known, text)
        if found != OTHERS.get(text, expected):
            wrong.append(f"{text} with {known}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)


def test_shapes_read_from_text_are_what_jax_says(weft):
    wrong = []
    for text, expected in ANSWERS["shapes"]:
        found = weft.shape(text)
        if found != OTHERS.get(text, expected):
            wrong.append(f"{text}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)


def test_printed_dimensions_can_be_read_again(weft):
    for known, text, expected in ANSWERS["dimensions"]:
        if expected.startswith("raises") or known or not set(expected) & set("abc"):
            continue
        if weft.dimension(known, f"export.is_symbolic_dim({text})") != "True":
            continue
        again = f"export.symbolic_shape({expected!r}, scope=a.scope)[0] == ({text})"
        assert weft.dimension(known, again) == "True", expected


@pytest.mark.parametrize("part", range(4))
def test_types_of_results_are_what_jax_says(weft, part):
    wrong = []
    for name, text, types in cases.CASES[part::4]:
        found, expected = weft.result_types(text, types), ANSWERS["functions"][name]
        if found != OTHERS.get(name, expected):
            wrong.append(f"{name}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("number", range(len(cases.EXPORTS)))
def test_exports_and_calls_are_what_jax_says(weft, number):
    case, expected = cases.EXPORTS[number], ANSWERS["exports"][number]
    found = weft.exported(*case)
    if case[0] in OTHERS and len(found) > 1:
        assert OTHERS[case[0]] in found[0]
    else:
        assert found == expected
