"""Public functions say what they take and return: a summary, Args, Returns and an example.

The modules are listed in ``documented/*.txt``, one a line. A line ``- module.name: reason`` takes a
name out: the reason says why it has no arguments to describe.
"""

from __future__ import annotations

import ast
import doctest
import enum
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tools.api_docs import docstring, is_entry
from tools.public_names import names_of
from weft.base.knobs import Knob
from weft.numpy import ufunc
from weft.numpy.index_update import IndexUpdateRef
from weft.runtime.array import ArrayImpl

LISTS = sorted((Path(__file__).parent / "documented").glob("*.txt"))
LINES = [line.strip() for path in LISTS for line in path.read_text().splitlines() if line.strip()]
MODULES = [line for line in LINES if not line.startswith("-")]
EXCEPTIONS = dict(line[1:].strip().split(": ", 1) for line in LINES if line.startswith("-"))

HEADER = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$", re.MULTILINE)
ENTRY = re.compile(r"^ {2,4}\*{0,2}(\w+): \S", re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their header."""
    parts = HEADER.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(value: Any) -> tuple[list[str], bool]:
    """The names of what a callable takes, and whether it returns something."""
    if isinstance(value, ufunc):
        value = value._func
    found = inspect.signature(value)
    names = [name for name in found.parameters if name != "self" and not name.startswith("_")]
    returns = found.return_annotation not in (None, "None")
    return names, returns and not isinstance(value, type)


def inherited(value: Any) -> set[str]:
    """The arguments that the base classes of a class describe, such as a module's name."""
    bases = value.__mro__[1:-1] if isinstance(value, type) else ()
    texts = [sections(inspect.cleandoc(base.__doc__ or "")).get("Args", "") for base in bases]
    return {name for text in texts for name in ENTRY.findall(text)}


def problems(value: Any) -> list[str]:
    """What the docstring of a callable lacks."""
    text = docstring(value)
    summary, found = text.partition("\n")[0], sections(text)
    missing = [] if summary.endswith(".") and len(summary) > 10 else ["a summary line"]
    if ">>> " not in text:
        missing.append("an example")
    if isinstance(value, type) and issubclass(value, (enum.Enum, Exception)):
        return missing
    names, returns = parameters(value)
    described = ENTRY.findall(found.get("Args", ""))
    known = {*described, *inherited(value)}
    missing += [f"argument {name}" for name in names if name not in known]
    missing += [f"no argument is named {name}" for name in described if name not in names]
    if returns and not {"Returns", "Yields"} & found.keys():
        missing.append("Returns")
    return missing


def callables(module: str) -> Iterator[tuple[str, Any]]:
    """The public functions and classes of a module that weft defines."""
    held = importlib.import_module(module)
    for name in names_of(held):
        value = getattr(held, name)
        ours = str(getattr(value, "__module__", "weft")).startswith("weft")
        if is_entry(value) and ours:
            yield f"{module}.{name}", value


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_are_complete(module: str) -> None:
    found = {name: problems(value) for name, value in callables(module) if name not in EXCEPTIONS}
    assert found
    lacking = [f"{name}: {', '.join(missing)}" for name, missing in found.items() if missing]
    assert not lacking, "\n" + "\n".join(lacking)


@pytest.mark.parametrize("kind", [ArrayImpl, IndexUpdateRef, ufunc])
def test_docstrings_of_methods_are_complete(kind: type) -> None:
    members = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    members = {k: v for k, v in members.items() if not isinstance(v, types.MemberDescriptorType)}
    lacking = [
        f"{name}: {', '.join(missing)}"
        for name, member in members.items()
        if (missing := problems(member) if callable(member) else no_summary(member))
    ]
    assert len(members) > 8
    assert not lacking, "\n" + "\n".join(lacking)


def no_summary(member: Any) -> list[str]:
    return [] if (inspect.getdoc(member) or "").partition("\n")[0].endswith(".") else ["a summary"]


def test_editors_see_the_arguments_of_methods() -> None:
    tree = ast.parse((Path(weft.__file__).parent / "core" / "array_methods.pyi").read_text())
    functions = [f for c in tree.body if isinstance(c, ast.ClassDef) for f in c.body]
    methods = [f for f in functions if isinstance(f, ast.FunctionDef) and f.name[0] != "_"]
    assert len(methods) > 60
    for method in methods:
        given = method.args
        names = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)][1:]
        names += [given.vararg.arg] if given.vararg else []
        text = ast.get_docstring(method) or ""
        described = ENTRY.findall(sections(text).get("Args", ""))
        assert text.partition("\n")[0].endswith("."), method.name
        assert sorted(described) == sorted(names), method.name


def test_examples_of_knobs_run() -> None:
    knobs = [value for value in vars(weft).values() if isinstance(value, Knob)]
    assert knobs
    runner = doctest.DocTestRunner()
    for knob in knobs:
        example = doctest.DocTestParser().get_doctest(knob.__doc__, {}, knob.name, None, None)
        assert runner.run(example) == (0, 2), knob.name


def test_exceptions_are_needed() -> None:
    values = dict(pair for module in MODULES for pair in callables(module))
    needless = [name for name in EXCEPTIONS if name not in values or not problems(values[name])]
    assert not needless


def test_what_a_docstring_lacks_is_found() -> None:
    def half(x: float, scale: float = 2.0) -> float:
        """Return a fraction of a number.

        Args:
            x: The number.
            factor: There is none.

        >>> 1 / 2
        0.5
        """
        return x / scale

    assert problems(half) == ["argument scale", "no argument is named factor", "Returns"]
    assert problems(lambda: 0) == ["a summary line", "an example", "Returns"]
