"""The reference pages docs/api/*.md, made from docstrings: `python tools/api_docs.py [FOLDER]`.

Every public module of `tools/public_names.py` gets a page with the name, signature and docstring
of what it exports. The pages are not committed; equal sources give equal pages.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from textwrap import dedent
from types import GenericAlias, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.public_names import collect
from weft.core.primitive import Primitive
from weft.numpy import ufunc

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "api"

HEAD = "<!-- Written by tools/api_docs.py; change the docstrings instead. -->\n\n"
ADDRESS = re.compile(r"<(?:[^<>]|<locals>)* at 0x[0-9a-fA-F]+>")
EXAMPLE = re.compile(r"(?m)^( *)>>> (?:.*\S.*\n?)+")
SECTION = re.compile(r"(?m)^(Args|Returns|Yields|Raises|Examples?):\n((?: .*\n|\n(?= ))*)")
UNDERLINED = re.compile(r"(?m)^([A-Z][\w ]*)\n-{3,}$")  # a heading in NumPy's own docstrings
ARGUMENT = re.compile(r"(?m)^(\*{0,2}\w+): ")


# --- what is known of one name ------------------------------------------------------------------


def docstring(value: Any) -> str:
    """The docstring of a value; a class does not inherit one, an instance has that of its class."""
    if isinstance(value, type):
        return inspect.cleandoc(value.__dict__.get("__doc__") or "")
    if isinstance(value, GenericAlias):
        return ""
    return inspect.getdoc(value) or ""


def signature(value: Any) -> str:
    """The parameters and their defaults, without annotations; empty where there are none."""
    if isinstance(value, GenericAlias):
        return ""
    if isinstance(value, ufunc):
        section = docstring(value).partition("Args:\n")[2].partition("\n\n")[0]
        operands = ARGUMENT.findall(dedent(section))
        return f"({', '.join(operands[: value.nin])}, /)"
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parts, names = [], list(found.parameters.values())
    for position, parameter in enumerate(names):
        before = names[position - 1].kind if position else None
        if before == parameter.POSITIONAL_ONLY != parameter.kind:
            parts.append("/")
        starred = before in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        if parameter.kind == parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        parts.append(one_parameter(parameter))
    if names and names[-1].kind == inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return f"({', '.join(parts)})"


def one_parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind == parameter.VAR_POSITIONAL:
        return "*" + parameter.name
    if parameter.kind == parameter.VAR_KEYWORD:
        return "**" + parameter.name
    if parameter.default is parameter.empty:
        return parameter.name
    return f"{parameter.name}={default(parameter.default)}"


def default(value: Any) -> str:
    """A default as a reader would write it; `...` for what only marks that nothing was given."""
    if type(value) is object:
        return "..."
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(default, value)))}}}"
    return ADDRESS.sub("...", repr(value))


def methods(cls: type) -> Iterator[tuple[str, str]]:
    """The public methods and properties that a class adds, each with the line that says what."""
    for name in sorted(vars(cls)):
        getattr(cls, name, None)  # methods of arrays are found when they are looked at
        member = vars(cls)[name]
        function = member.fget if isinstance(member, property) else member
        line = first_line(getattr(function, "__doc__", None))
        if name in getattr(cls, "__dataclass_fields__", ()):
            continue  # a default that is a function
        if not name.startswith("_") and line and hasattr(function, "__name__"):
            called = "" if isinstance(member, property) else "()"
            yield name + called, line


# --- pages --------------------------------------------------------------------------------------


def first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def fenced(text: str) -> str:
    """A docstring as Markdown: its sections under a heading, its examples in fences."""
    text = UNDERLINED.sub(r"**\1**\n", text)
    text = SECTION.sub(lambda found: section(*found.groups()), text + "\n")
    found = EXAMPLE.sub(lambda found: f"```python\n{dedent(found[0]).rstrip()}\n```\n", text)
    return found.rstrip()


def section(header: str, body: str) -> str:
    """A section of a docstring as Markdown; arguments are a list."""
    body = dedent(body)
    if header == "Args":
        body = ARGUMENT.sub(r"- `\1`: ", re.sub(r"(?m)^ +", "  ", body))
    return f"**{header}**\n\n{body}"


def entry(module: str, name: str, value: Any, names: list[str]) -> str:
    """The part of a page about one function or class."""
    original = getattr(value, "__name__", name)
    head = f"## `{name}`\n\n"
    exported = getattr(sys.modules[module], original, None) if original in names else None
    if original != name and exported is value:
        return f"{head}The same as `{original}`.\n"
    lines = [f"{head}`{module}.{name}{signature(value)}`\n"]
    if text := docstring(value):
        lines.append(fenced(text) + "\n")
    if isinstance(value, type) and (listed := list(methods(value))):
        lines.append("\n".join(f"- `{method}`: {line}" for method, line in listed) + "\n")
    return "\n".join(lines)


def row(name: str, value: Any) -> str:
    """A line about a name that is not called: a constant, a type alias, a primitive."""
    kind = type(value)
    if isinstance(value, ModuleType):
        text = first_line(value.__doc__)
    elif isinstance(value, Primitive):
        text = f"primitive: {first_line(kind.__doc__)}" if kind.__doc__ else "primitive"
    elif isinstance(value, (int, float)):
        text = f"`{value!r}`"
    elif kind.__module__.startswith("weft"):
        text = first_line(kind.__doc__)
    else:
        text = f"of type `{kind.__name__}`"
    return f"- `{name}`: {text}"


def is_entry(value: Any) -> bool:
    plain = isinstance(value, (ModuleType, Primitive, GenericAlias))
    return callable(value) and not plain


def page(module: str, names: list[str]) -> str:
    """The page of a module."""
    held = importlib.import_module(module)
    values = {name: getattr(held, name) for name in names}
    parts = [f"{HEAD}# {module}\n\n{fenced(inspect.cleandoc(held.__doc__ or ''))}\n"]
    rest = [row(name, value) for name, value in values.items() if not is_entry(value)]
    if rest:
        parts.append("## Modules, constants and primitives\n\n" + "\n".join(rest) + "\n")
    called = ((name, value) for name, value in values.items() if is_entry(value))
    parts += [entry(module, name, value, names) for name, value in called]
    return "\n".join(parts)


def index(modules: dict[str, list[str]]) -> str:
    """The page that lists all pages."""
    rows = ["| module | names | what it holds |", "|---|---|---|"]
    for module, names in modules.items():
        line = first_line(importlib.import_module(module).__doc__)
        rows.append(f"| [{module}]({module}.md) | {len(names)} | {line} |")
    return f"{HEAD}# Reference\n\n" + "\n".join(rows) + "\n"


def render() -> dict[str, str]:
    """All pages, by file name."""
    modules = collect()
    pages = {f"{module}.md": page(module, names) for module, names in modules.items()}
    return {"README.md": index(modules), **pages}


def undocumented() -> list[str]:
    """Public functions and classes without a docstring of their own, as `module.name`."""
    found = []
    for module, names in collect().items():
        held = importlib.import_module(module)
        values = [(name, getattr(held, name)) for name in names]
        found += [f"{module}.{k}" for k, v in values if is_entry(v) and not docstring(v)]
    return found


def write(folder: Path) -> None:
    """Write all pages into a folder, and remove the pages there of modules that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = render()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    for path in folder.glob("weft*.md"):
        if path.name not in pages:
            path.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    write(parser.parse_args().folder)
