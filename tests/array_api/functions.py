"""Checks of names, signatures, elementwise functions, operators, promotion and special cases."""

import inspect
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.array_api import special, table
from tests.array_api.suite import SHAPES, Library, Suite, compare, sample, tolerance

PAIRS = (((), ()), ((3,), (3,)), ((2, 1, 3), (4, 1)), ((0,), (1,)), ((), (2, 3)))


def find(xp: Any, name: str) -> Any:
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


def check_signature(line: str, owner: Callable[[Library], Any], library: Library) -> None:
    """All parameters of the standard can be passed the way it says."""
    name, _, rest = line.partition("(")
    scope: dict[str, Any] = {}
    exec(f"def f({rest}: pass", scope)
    function = find(owner(library), name)
    assert callable(function)
    try:
        have = inspect.signature(function)
    except ValueError:
        return  # built into the interpreter: its behaviour is checked, not its signature
    want = inspect.signature(scope["f"]).parameters.values()
    by_position = [p for p in want if p.kind <= p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    by_name = [p for p in want if p.kind == p.KEYWORD_ONLY]
    have.bind(*by_position, **{p.name: p for p in by_name})
    only = [p for p in by_position if p.kind == p.POSITIONAL_ONLY]
    have.bind(*only, **{p.name: p for p in [*by_position[len(only) :], *by_name]})
    have.bind(*(p for p in by_position if p.default is p.empty))


def add_names(suite: Suite) -> None:
    for line in table.SIGNATURES:
        name = line.partition("(")[0]
        suite.add(f"signature/{name}", partial(check_signature, line, lambda lib: lib.xp))
    for line in table.METHOD_SIGNATURES:
        name = line.partition("(")[0]
        suite.add(
            f"signature/array.{name}", partial(check_signature, line, lambda lib: lib.xp.ones(1))
        )
    for name, value in table.CONSTANTS.items():
        suite.add(f"constant/{name}", partial(check_constant, name, value))
    suite.add("constant/nan", lambda lib: np.testing.assert_equal(lib.xp.nan, np.nan))
    for name in table.ALL:
        suite.add(f"dtype/{name}", partial(check_dtype, name))
    for name in (*table.ATTRIBUTES, *table.METHODS):
        suite.add(f"attribute/{name}", lambda lib, name=name: getattr(lib.xp.ones((1, 1)), name))


def check_constant(name: str, value: Any, library: Library) -> None:
    assert getattr(library.xp, name) == value


def check_dtype(name: str, library: Library) -> None:
    dtype = library.dtypes[name]
    assert getattr(library.xp, name) == dtype and library.xp.zeros(2, dtype=dtype).dtype == dtype
    assert dtype != library.dtypes["bool" if name != "bool" else "float32"]


# --- elementwise ----------------------------------------------------------------------------------


def unary(name: str, dtype: str, library: Library, method: str | None = None) -> None:
    _, low, high = table.UNARY[name]
    for shape in SHAPES:
        x = sample(dtype, shape, low, high)
        want = getattr(np, name)(x)
        if name == "sign" and dtype in table.COMPLEX:
            want = (x / np.abs(x)).astype(dtype)
        array = library.array(x)
        got = getattr(array, method)() if method else getattr(library.xp, name)(array)
        rtol = tolerance(dtype, name not in table.ROUNDED or dtype in table.COMPLEX)
        compare(library, got, want, rtol)


def binary(name: str, dtype: str, library: Library, call: Callable[..., Any] | None = None) -> None:
    _, low, high = table.BINARY[name]
    for left, right in PAIRS:
        x, y = sample(dtype, left, low, high), sample(dtype, right, low, high)
        want = getattr(np, name)(x, y)
        got = (call or getattr(library.xp, name))(library.array(x), library.array(y))
        rtol = tolerance(dtype, name not in table.ROUNDED or dtype in table.COMPLEX)
        compare(library, got, want, rtol)


def python_scalar(dtype: str) -> Any:
    return {"b": True, "i": 2, "u": 2, "f": 2.5, "c": 2.5 + 1j}[np.dtype(dtype).kind]


def with_scalar(
    name: str, dtype: str, library: Library, call: Callable[..., Any] | None = None
) -> None:
    """A Python scalar of the kind of the array beside it leaves the dtype as it is."""
    _, low, high = table.BINARY[name]
    x, scalar = sample(dtype, (3,), low, high), python_scalar(dtype)
    rtol = tolerance(dtype)
    own = call or getattr(library.xp, name)
    numpys = getattr(np, name)
    compare(library, own(library.array(x), scalar), numpys(x, np.asarray(scalar, dtype)), rtol)
    compare(library, own(scalar, library.array(x)), numpys(np.asarray(scalar, dtype), x), rtol)


def in_place(name: str, dtype: str, library: Library) -> None:
    """``x op= y`` keeps the dtype and shape of x."""
    function = table.OPERATORS[f"__{name}__"]
    _, low, high = table.BINARY[function]
    x, y = sample(dtype, (2, 3), low, high), sample(dtype, (3,), low, high)
    want = getattr(np, function)(x, y)
    got = getattr(operator, f"i{name}")(library.array(x), library.array(y))
    rtol = tolerance(dtype, function not in table.ROUNDED or dtype in table.COMPLEX)
    compare(library, got, want, rtol)


def python_operator(name: str) -> Callable[..., Any]:
    plain = name.strip("_")
    return getattr(operator, f"{plain}_" if plain in ("and", "or") else plain)


def add_elementwise(suite: Suite) -> None:
    for name, (kind, *_) in table.UNARY.items():
        for dtype in table.KINDS[kind]:
            suite.add(f"elementwise/{name}/{dtype}", partial(unary, name, dtype))
    for name, (kind, *_) in table.BINARY.items():
        for dtype in table.KINDS[kind]:
            suite.add(f"elementwise/{name}/{dtype}", partial(binary, name, dtype))
            if name != "nextafter":
                suite.add(f"scalar/{name}/{dtype}", partial(with_scalar, name, dtype))
    for method, name in table.UNARY_OPERATORS.items():
        for dtype in table.KINDS[table.UNARY[name][0]]:
            suite.add(f"operator/{method}/{dtype}", partial(unary, name, dtype, method=method))
    for method, name in table.OPERATORS.items():
        call = python_operator(method)
        for dtype in table.KINDS[table.BINARY[name][0]]:
            suite.add(f"operator/{method}/{dtype}", partial(binary, name, dtype, call=call))
            suite.add(
                f"operator with scalar/{method}/{dtype}",
                partial(with_scalar, name, dtype, call=call),
            )
            if method not in table.COMPARISONS:
                plain = method.strip("_")
                suite.add(f"in place/{plain}/{dtype}", partial(in_place, plain, dtype))


# --- promotion ------------------------------------------------------------------------------------


def promotion(first: str, second: str, want: str, library: Library) -> None:
    if want not in library.dtypes:
        return
    xp, dtype = library.xp, library.dtypes[want]
    x, y = library.array(sample(first, (3,), 0, 3)), library.array(sample(second, (3,), 0, 3))
    assert xp.result_type(library.dtypes[first], library.dtypes[second]) == dtype
    assert xp.result_type(x, library.dtypes[second]) == dtype
    assert xp.result_type(x, y, x) == dtype
    functions = ["equal", "multiply", "where"]
    if first == "bool":
        functions = ["equal", "logical_and", "bitwise_or"]
    for name in functions:
        function = getattr(xp, name)
        got = function(xp.asarray([True, False, True]), x, y) if name == "where" else function(x, y)
        assert got.dtype == (library.dtypes["bool"] if name == "equal" else dtype), name
    assert xp.concat([x, y]).dtype == dtype
    if first != "bool":
        assert (x + y).dtype == dtype and (x + y[0]).dtype == dtype


def add_promotion(suite: Suite) -> None:
    for first in table.ALL:
        for second in table.ALL:
            want = table.promoted(first, second)
            if want is not None:
                name = f"promotion/{first}/{second}"
                suite.add(name, partial(promotion, first, second, want))


# --- special cases --------------------------------------------------------------------------------


def real_case(name: str, row: list[str], dtype: str, call: Any, library: Library) -> None:
    *classes, word = row
    cases = special.samples(*classes)
    columns = [library.array(np.array(column, dtype)) for column in zip(*cases, strict=True)]
    got = np.asarray((call or getattr(library.xp, name))(*columns))
    for case, value in zip(cases, got.tolist(), strict=True):
        assert special.agrees(word, case, value, 8 * tolerance(dtype, False)), (
            f"{name}{case} is {value}, not {word}"
        )


def complex_case(name: str, row: list[str], dtype: str, library: Library) -> None:
    first, second, *words = row
    cases = special.samples(first, second)
    x = np.array([complex(a, b) for a, b in cases], dtype)
    got = np.asarray(getattr(library.xp, name)(library.array(x)))
    for case, value in zip(cases, got.tolist(), strict=True):
        parts = (value,) if len(words) == 1 else (value.real, value.imag)
        for word, part in zip(words, parts, strict=True):
            assert special.agrees(word, case, part, 8 * tolerance(dtype, False)), (
                f"{name}({case[0]}, {case[1]}) is {value}, not {' '.join(words)}"
            )


def conjugate_case(name: str, row: list[str], dtype: str, library: Library) -> None:
    """f(conj(x)) = conj(f(x)), where the row says which sign the imaginary part has."""
    first, second, *words = row
    x = np.array([complex(a, b) for a, b in special.samples(first, second)], dtype)
    function = getattr(library.xp, name)
    got = np.asarray(function(library.array(np.conj(x))))
    want = np.conj(np.asarray(function(library.array(x))))
    for part, word in (("real", words[0]), ("imag", words[1])):
        mine, theirs = getattr(got, part), getattr(want, part)
        if "~" in word:
            mine, theirs = np.abs(mine), np.abs(theirs)
        np.testing.assert_array_equal(mine, theirs)
        finite = ~np.isnan(mine)
        np.testing.assert_array_equal(np.signbit(mine[finite]), np.signbit(theirs[finite]))


def add_special(suite: Suite) -> None:
    methods = {function: method for method, function in table.OPERATORS.items()}
    for dtype in table.FLOATS:
        for name, text in (special.UNARY | special.BINARY).items():
            for row in special.rows(text):
                label = f"{dtype}/{' '.join(row[:-1])}"
                suite.add(f"special/{name}/{label}", partial(real_case, name, row, dtype, None))
                if name in methods:
                    call = python_operator(methods[name])
                    suite.add(
                        f"special/{methods[name]}/{label}",
                        partial(real_case, name, row, dtype, call),
                    )
    for dtype in table.COMPLEX:
        for name, text in (special.COMPLEX | special.COMPLEX_TRUTH).items():
            for row in special.rows(text):
                label = f"{name}/{dtype}/{' '.join(row[:2])}"
                suite.add(f"special/{label}", partial(complex_case, name, row, dtype))
                if name in special.CONJUGATE:
                    suite.add(f"conjugate/{label}", partial(conjugate_case, name, row, dtype))
