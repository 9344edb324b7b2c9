"""How much of JAX's public interface weft has, held against tests/data/api_jax.txt.

Run `python tools/api_coverage.py` for a table by module and what differs or is missing, with the
reason for every name that is left out; `--module numpy` shows one module.
"""

import argparse
import ast
import enum
import importlib
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
LIST = ROOT / "tests" / "data" / "api_jax.txt"
HEADING = re.compile(r"## (.+) \(\d+\)")
PRIMITIVES = "primitives named in jax.lax"

PARALLEL = "comes with parallel execution over several devices"
OTHER_HARDWARE = "serves hardware or a compiler that weft does not have"
INTERNAL = "part of how JAX is made: nothing in weft stands behind the name"

# Why a name of the list is not in weft: "module.name" or "module.*", and the reason.
LEFT_OUT = {
    "experimental.EArray": INTERNAL,
    "experimental.sparse.SparseTracer": "sparsify evaluates staged programs and has no tracer",
    "experimental.profiler.*": OTHER_HARDWARE,
    **dict.fromkeys(
        "profiler.register_subprocess profiler.start_server profiler.stop_server".split(),
        "traces are taken by the program itself: profiler.trace",
    ),
}

WIDER = "takes one argument more, as the function of that name does"
OWN_CLASS = "instances come from functions, and are made of what weft has"

# Where a signature differs from the list on purpose, and why.
OTHER_SIGNATURE = {
    "remat": WIDER,
    **dict.fromkeys("Array.argsort Array.dot Array.std Array.var".split(), WIDER),
    **dict.fromkeys("Array numpy.ndarray Shard export.Exported stages.Compiled".split(), OWN_CLASS),
    **dict.fromkeys("stages.Lowered stages.Traced".split(), OWN_CLASS),
    **dict.fromkeys(
        "Array.__format__ Array.__getitem__ Array.__setitem__".split(),
        "called by the operator, by position",
    ),
    "lax.random_gamma_grad": "names its two arguments",
    "transfer_guard": "a call without a value says which there are",
}


@dataclass
class Module:
    """What became of the names of one module."""

    name: str
    equal: list[str] = field(default_factory=list)
    differing: dict[str, tuple[str, str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def present(self) -> int:
        return len(self.equal) + len(self.differing)

    @property
    def total(self) -> int:
        return self.present + len(self.missing)


def read_list(path: Path = LIST) -> dict[str, dict[str, str]]:
    """For every module of the list, its names, each with what stands behind it."""
    modules: dict[str, dict[str, str]] = {}
    names: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if heading := HEADING.match(line):
            names = modules.setdefault(heading[1], {})
        elif PRIMITIVES in modules and line:
            names.update(dict.fromkeys(line.split(", "), ""))
        elif modules and (parts := re.match(r"(\w+)(.*)", line)):
            names[parts[1]] = parts[2].strip()
    return modules


def holder(module: str) -> Any:
    """What should have the names that the list gives under this heading, or None."""
    import weft.numpy as jnp

    if module == PRIMITIVES:
        return importlib.import_module("weft.lax")
    if module == "jax.Array":
        return type(jnp.ones(3))
    if module == "jax.Array.at[]":
        return jnp.ones(3).at[0]
    name = "weft" + module.removeprefix("jax")
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        if importlib.util.find_spec(".".join(parts[:count])) is None:
            return None
    return importlib.import_module(name)


Parameters = list[tuple[str, str, str | None]]
OPAQUE = [("args", "VAR_POSITIONAL", None), ("kwargs", "VAR_KEYWORD", None)]


def listed_parameters(text: str) -> Parameters | None:
    """The parameters that a signature in the list names; None where it says nothing."""
    if not text.startswith("("):
        return None
    arguments = ast.parse(f"def f{text}: pass").body[0].args  # type: ignore[attr-defined]
    found: Parameters = []
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for i, (item, default) in enumerate(zip(positional, defaults, strict=True)):
        kind = "POSITIONAL_ONLY" if i < len(arguments.posonlyargs) else "POSITIONAL_OR_KEYWORD"
        found.append((item.arg, kind, default and ast.unparse(default)))
    if arguments.vararg:
        found.append((arguments.vararg.arg, "VAR_POSITIONAL", None))
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((item.arg, "KEYWORD_ONLY", default and ast.unparse(default)))
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "VAR_KEYWORD", None))
    return None if found == OPAQUE else found


def actual_parameters(value: Any) -> Parameters | None:
    if isinstance(value, (enum.EnumMeta, types.GenericAlias)):
        return None  # Python's own, others in each version
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    return [
        (item.name, item.kind.name, None if item.default is empty else repr(item.default))
        for item in signature.parameters.values()
    ]


def same_default(listed: str | None, actual: str | None) -> bool:
    if listed is None or actual is None:
        return listed is actual
    if listed == "...":
        return True
    try:
        return bool(ast.literal_eval(listed) == ast.literal_eval(actual))
    except (ValueError, SyntaxError):
        return True  # an object's text: that there is a default is what can be held


def same(listed: Parameters, actual: Parameters) -> bool:
    """Whether the same calls fit both signatures; keyword-only parameters have no order."""
    if len(listed) != len(actual):
        return False
    listed, actual = (sorted(given, key=_place) for given in (listed, actual))
    for (name, kind, default), (our_name, our_kind, our_default) in zip(listed, actual):
        by_place_only = kind in ("POSITIONAL_ONLY", "VAR_POSITIONAL", "VAR_KEYWORD")
        if kind != our_kind or (name != our_name and not by_place_only):
            return False
        if not same_default(default, our_default):
            return False
    return True


def _place(parameter: tuple[str, str, str | None]) -> str:
    return parameter[0] if parameter[1] == "KEYWORD_ONLY" else ""


def show(parameters: Parameters) -> str:
    marks = {
        "VAR_POSITIONAL": "*",
        "VAR_KEYWORD": "**",
        "KEYWORD_ONLY": "~",
        "POSITIONAL_ONLY": "|",
    }
    return ", ".join(
        marks.get(kind, "") + name + (f"={default}" if default is not None else "")
        for name, kind, default in parameters
    )


def compare(name: str, names: dict[str, str]) -> Module:
    """The names of one heading of the list against weft's."""
    found = Module(name)
    home = holder(name)
    for item, text in names.items():
        if home is None or not hasattr(home, item):
            found.missing.append(item)
            continue
        listed = listed_parameters(text)
        actual = None if listed is None else actual_parameters(getattr(home, item))
        if listed and name.startswith("jax.Array"):
            # the array itself is given by its place
            listed = listed[1:]
            actual = actual[1:] if actual and inspect.isclass(home) else actual
        if listed is None or actual is None or same(listed, actual):
            found.equal.append(item)
        else:
            found.differing[item] = show(listed), show(actual)
    return found


def coverage(path: Path = LIST) -> list[Module]:
    """Every module of the list, compared."""
    return [compare(name, names) for name, names in read_list(path).items()]


def _keys(module: str, name: str) -> tuple[str, str]:
    bare = "lax" if module == PRIMITIVES else module.removeprefix("jax").removeprefix(".")
    return f"{bare}.{name}".removeprefix("."), f"{bare}.*".removeprefix(".")


def reason(table: dict[str, str], module: str, name: str) -> str | None:
    """The reason that is written for a name, or None."""
    own, shared = _keys(module, name)
    return table.get(own) or table.get(shared)


def without_reason(modules: list[Module]) -> list[str]:
    """Missing names for which no reason is written."""
    return [
        f"{module.name}.{name}"
        for module in modules
        for name in module.missing
        if reason(LEFT_OUT, module.name, name) is None
    ]


def unexplained(modules: list[Module]) -> list[str]:
    """Names with another signature for which no reason is written."""
    return [
        f"{module.name}.{name}: listed ({listed}), weft ({actual})"
        for module in modules
        for name, (listed, actual) in module.differing.items()
        if reason(OTHER_SIGNATURE, module.name, name) is None
    ]


def outdated(modules: list[Module]) -> list[str]:
    """Reasons for names that are there, or whose signature is the listed one."""
    used = set()
    for module in modules:
        for table, names in ((LEFT_OUT, module.missing), (OTHER_SIGNATURE, module.differing)):
            used |= {(id(table), key) for name in names for key in _keys(module.name, name)}
    return [
        key
        for table in (LEFT_OUT, OTHER_SIGNATURE)
        for key in table
        if (id(table), key) not in used
    ]


def summary(modules: list[Module]) -> Iterator[str]:
    yield f"{'module':36} {'listed':>6} {'present':>7} {'equal':>6}"
    for module in modules:
        yield f"{module.name:36} {module.total:6} {module.present:7} {len(module.equal):6}"
    total, present = (sum(getattr(m, key) for m in modules) for key in ("total", "present"))
    equal = sum(len(module.equal) for module in modules)
    yield f"{'all':36} {total:6} {present:7} {equal:6}   {present / total:.2%} present"


def details(modules: list[Module]) -> Iterator[str]:
    for module in modules:
        for name, (listed, actual) in module.differing.items():
            why = reason(OTHER_SIGNATURE, module.name, name)
            yield (
                f"{module.name}.{name}: {why}"
                if why
                else (f"{module.name}.{name}\n    listed ({listed})\n    weft   ({actual})")
            )
        for name in module.missing:
            why = reason(LEFT_OUT, module.name, name) or "NO REASON WRITTEN"
            yield f"{module.name}.{name} missing: {why}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", help="only this module, as in `numpy.fft`")
    options = parser.parse_args()
    modules = coverage()
    if options.module:
        modules = [module for module in modules if module.name == f"jax.{options.module}"]
    print("\n".join([*summary(modules), "", *details(modules)]))


if __name__ == "__main__":
    main()
