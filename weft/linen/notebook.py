"""Modules in notebooks: a tree of fields, submodules and variables that folds."""

import math
from collections.abc import Mapping
from html import escape

from weft import numpy as jnp
from weft import tree_util
from weft.linen.describe import short

_STYLE = "font-family: monospace; font-size: 90%; line-height: 1.4"
_UNITS = ("B", "kB", "MB", "GB")


def html(module, holds) -> str:
    """A module as HTML: unfolded at the top, its submodules folded.

    ``holds`` is the class of modules.
    """
    variables = {}
    if module.scope is not None:
        dir(module)  # which runs setup
        variables = module.variables
    name = type(module).__name__ if module.name is None else _titled(module.name, module)
    return f'<div style="{_STYLE}">{_tree(name, module, variables, holds, True)}</div>'


def _tree(title, module, variables, holds, unfolded=False) -> str:
    """One submodule: its fields, then its own variables, then what is below."""
    rows = []
    children = _children(module, holds)
    if module is not None:
        rows += [_line(text) for text in _fields(module, holds)]
    below = {name: {} for name in children}
    for collection, values in variables.items():
        if not isinstance(values, Mapping):
            continue
        for name, value in values.items():
            if isinstance(value, Mapping) and (name in children or collection != "intermediates"):
                below.setdefault(name, {})[collection] = value
            else:
                rows.append(_line(f"{name}: {_typed(value)} <i>{escape(collection)}</i>", False))
    for name, inner in below.items():
        child = children.get(name)
        rows.append(_tree(_titled(name, child), child, inner, holds))
    total = _total(variables)
    head = escape(title) + (f" <span style='opacity: 0.6'>{total}</span>" if total else "")
    if not rows:
        return f"<div>{head}</div>"
    inside = f'<div style="margin-left: 1.5em">{"".join(rows)}</div>'
    mark = " open" if unfolded else ""
    return f"<details{mark}><summary>{head}</summary>{inside}</details>"


def _fields(module, holds) -> list[str]:
    """The fields of a module; what they hold beside modules has a line of its own."""
    lines = []
    for name in module._fields:
        value = module.__dict__.get(name)
        if not module.__dataclass_fields__[name].repr:
            continue
        if not _modules_in(name, value, holds):
            lines.append(f"{name} = {short(value)}")
        elif not isinstance(value, holds):
            others = [(k, v) for k, v in _items(value) if not isinstance(v, holds)]
            lines += [f"{name}_{key} = {short(v)}" for key, v in others]
    return lines


def _items(value):
    """The items of a field that holds several values, with their keys."""
    if isinstance(value, (list, tuple)):
        return enumerate(value)
    return value.items() if isinstance(value, Mapping) else ()


def _children(module, holds) -> dict:
    """Submodules by name: those that fields hold, and those that were made so far."""
    if module is None:
        return {}
    found = {}
    for name in module._fields:
        found.update(_modules_in(name, module.__dict__.get(name), holds))
    made = module._state.children.items()
    found.update({name: child for name, child in made if isinstance(child, holds)})
    return found


def _modules_in(name, value, holds) -> dict:
    """The modules in a field, by the names that they get."""
    if isinstance(value, holds):
        return {value.name or name: value}
    return {f"{name}_{key}": v for key, v in _items(value) if isinstance(v, holds)}


def _titled(name, module) -> str:
    return name if module is None else f"{name}: {type(module).__name__}"


def _line(text, plain=True) -> str:
    return f"<div>{escape(text) if plain else text}</div>"


def _typed(value) -> str:
    """The types of a variable's arrays: one, or a few in a tree."""
    leaves = tree_util.tree_leaves(value)
    shown = ", ".join(_type_of(leaf) for leaf in leaves[:4])
    return escape(shown + (f", … {len(leaves)} arrays" if len(leaves) > 4 else ""))


def _type_of(leaf) -> str:
    if not hasattr(leaf, "shape"):
        return type(leaf).__name__
    return f"{leaf.dtype}[{','.join(str(n) for n in leaf.shape)}]"


def _total(variables) -> str:
    """How many parameters a part of the tree has, and their bytes."""
    leaves = [x for x in tree_util.tree_leaves(variables.get("params", {})) if hasattr(x, "shape")]
    if not leaves:
        return ""
    count = sum(math.prod(x.shape) for x in leaves)
    size = sum(math.prod(x.shape) * jnp.dtype(x.dtype).itemsize for x in leaves)
    step = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    return f"{count:,} parameters, {size / 1000**step:.3g} {_UNITS[step]}"
