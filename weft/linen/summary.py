"""Tables of a module's submodules: shapes, variables, and what calls cost."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

import weft
from weft import numpy as jnp
from weft import tree_util
from weft.linen.context import context
from weft.linen.core import unfreeze
from weft.linen.meta import Partitioned, is_axis_metadata
from weft.linen.module import ALL_BUT_INTERMEDIATES


@dataclasses.dataclass
class Row:
    """One call of a submodule: where it is, what went in and out, and its own variables."""

    path: tuple[str, ...]
    module_copy: Any
    method: str
    inputs: Any
    outputs: Any
    module_variables: dict
    counted_variables: dict
    flops: int = -1
    vjp_flops: int = -1
    bytes: int = -1
    seconds: float = -1.0


class _Record:
    """The calls of modules while a table is made, in the order in which they began."""

    def __init__(self):
        self.rows: list[_Call] = []

    def begin(self, module):
        call = _Call(module.path)
        self.rows.append(call)
        return call


class _Call:
    def __init__(self, path):
        self.path, self.module, self.method = path, None, ""

    def end(self, module, method, args, kwargs, out):
        self.module, self.method = module.clone(), method
        self.mutable = module.scope.mutable
        self.rngs = {name: rng.rng for name, rng in module.scope.rngs.items()}
        self.args, self.kwargs, self.out = tree_util.tree_map(
            _type_of, (args, kwargs, out), is_leaf=lambda x: x is None
        )


def _type_of(x):
    """The shape and dtype of an array; other values as they are."""
    if isinstance(x, weft.Array) or hasattr(x, "__array__"):
        return weft.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x))
    return _Value(x)


class _Value:
    """A value that is no array: an option such as ``deterministic=True``."""

    def __init__(self, value):
        self.value = value


@contextmanager
def _recording():
    record = _Record()
    context.records.append(record)
    try:
        yield record
    finally:
        context.records.pop()


def _at(path, variables) -> dict:
    """The variables below a path, by collection."""
    found = {}
    for col, values in variables.items():
        for name in path:
            values = values.get(name) if isinstance(values, Mapping) else None
            if values is None:
                break
        if isinstance(values, Mapping):
            found[col] = dict(values)
    return found


def _own(path, variables, paths) -> dict:
    """The variables of one module, without those of submodules that have a row of their own."""
    found = _at(path, variables)
    return {
        col: {name: value for name, value in values.items() if (*path, name) not in paths}
        for col, values in found.items()
    }


def module_table(module, rngs, args, kwargs, depth=None, show_repeated=False, costs=()):
    """The rows of a table, without computing anything but what ``costs`` asks for."""
    with _recording() as record:
        variables = weft.eval_shape(lambda: module.init(rngs, *args, **kwargs))
    variables = unfreeze(variables)
    calls = [call for call in record.rows if call.module is not None]
    paths = {call.path for call in calls}
    rows, seen = [], set()
    for call in calls:
        own = _own(call.path, variables, paths)
        counted = own
        if call.path in seen:
            if not show_repeated:
                continue
            own, counted = {}, {}
        elif depth is not None and len(call.path) > depth:
            continue
        elif depth is not None and len(call.path) == depth:
            counted = _at(call.path, variables)
        seen.add(call.path)
        inputs = _inputs(call)
        row = Row(call.path, call.module, call.method, inputs, call.out, own, counted)
        rows.append(dataclasses.replace(row, **_costs(call, costs)))
    return rows, list(variables)


def _inputs(call):
    if call.kwargs:
        return (*call.args, call.kwargs) if call.args else call.kwargs
    return call.args[0] if len(call.args) == 1 else call.args


def _costs(call, wanted) -> dict:
    """What a call costs by itself: operations, bytes, seconds."""
    if not wanted:
        return {}
    leaves, tree = tree_util.tree_flatten((call.args, call.kwargs))
    types = [leaf for leaf in leaves if isinstance(leaf, weft.ShapeDtypeStruct)]

    def arguments(arrays):
        rest = iter(arrays)
        plain = lambda x: x.value if isinstance(x, _Value) else next(rest)
        return tree_util.tree_unflatten(tree, [plain(leaf) for leaf in leaves])

    method = call.method if hasattr(type(call.module), call.method) else None
    if method is None:
        return {}
    options = {"method": method, "mutable": call.mutable}

    def init(rngs, arrays):
        args, kwargs = arguments(arrays)
        return call.module.init(rngs, *args, **options, **kwargs)

    def apply(variables, rngs, arrays):
        args, kwargs = arguments(arrays)
        return call.module.apply(variables, *args, rngs=rngs, **options, **kwargs)

    def gradient(variables, rngs, arrays):
        out, back = weft.vjp(lambda v, a: apply(v, rngs, a), variables, arrays)
        return back(tree_util.tree_map(_ones, out))

    variables = weft.eval_shape(init, call.rngs, types)
    found = {}
    if "flops" in wanted:
        cost = weft.jit(apply).lower(variables, call.rngs, types).cost_analysis()
        found["flops"] = int(cost.get("flops", 0))
        found["bytes"] = int(cost.get("bytes accessed", 0))
    if "vjp_flops" in wanted:
        cost = weft.jit(gradient).lower(variables, call.rngs, types).cost_analysis()
        found["vjp_flops"] = int(cost.get("flops", 0))
    if "time" in wanted:
        zeros = lambda x: jnp.zeros(x.shape, x.dtype)
        given = tree_util.tree_map(zeros, (variables, types))
        found["seconds"] = _seconds(weft.jit(apply), given[0], call.rngs, given[1])
    return found


def _ones(x):
    inexact = jnp.issubdtype(x.dtype, jnp.inexact)
    return jnp.ones_like(x) if inexact else jnp.zeros(x.shape, weft.float0)


def _seconds(fn, *args) -> float:
    """The fastest of a few calls after the first."""
    weft.block_until_ready(fn(*args))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        weft.block_until_ready(fn(*args))
        best = min(best, time.perf_counter() - start)
    return best


# text


def _size(tree) -> tuple[int, int]:
    leaves = [x for x in tree_util.tree_leaves(tree) if hasattr(x, "size")]
    return sum(x.size for x in leaves), sum(x.size * x.dtype.itemsize for x in leaves)


def _amount(number: float, units: str, base: float = 1000.0) -> str:
    names = units.split()
    while number > base and len(names) > 1:
        number, names = number / base, names[1:]
    return f"{number:,.1f} {names[0]}" if number % 1 else f"{number:,.0f} {names[0]}"


def _count(tree) -> str:
    size, space = _size(tree)
    return f"{size:,} ({_amount(space, 'B KB MB GB')})" if size else ""


def _shape(x) -> str:
    if isinstance(x, Partitioned):
        return f"{_shape(x.value)} P({', '.join(map(str, x.names))})"
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return repr(x.value) if isinstance(x, _Value) else repr(x)


def _lines(value, margin: str = "") -> list[str]:
    """A tree of shapes, one a line."""
    if isinstance(value, Mapping):
        out = []
        for key, inner in value.items():
            below = _lines(inner, margin + "  ")
            nested = isinstance(inner, (Mapping, tuple, list)) and not is_axis_metadata(inner)
            text = [f"{margin}{key}:", *below] if nested else [f"{margin}{key}: {below[0].strip()}"]
            out += text
        return out
    if isinstance(value, (tuple, list)):
        items = [_lines(item) or [""] for item in value]
        dashed = [f"{'  ' if i else '- '}{line}" for item in items for i, line in enumerate(item)]
        return [margin + line for line in dashed]
    return [margin + _shape(value)]


def _box(header, rows, footer, title: str, caption: str) -> str:
    """A table of cells with several lines each."""
    cells = [[[text] for text in header], *rows, [[text] for text in footer]]
    widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(header))]
    bar = lambda ends, line="─": ends[0] + ends[1].join(line * (w + 2) for w in widths) + ends[2]
    out = [title.center(sum(widths) + 3 * len(widths) + 1).rstrip(), bar("┏┳┓", "━")]
    for number, row in enumerate(cells):
        if number:
            out.append(bar("├┼┤") if number > 1 else bar("┡╇┩", "━"))
        side = "│" if number else "┃"
        last = number == len(cells) - 1
        for at in range(max(map(len, row))):
            line = [cell[at] if at < len(cell) else "" for cell in row]
            padded = [
                t.rjust(w) if last and t == "Total" else t.ljust(w) for t, w in zip(line, widths)
            ]
            out.append(f"{side} " + f" {side} ".join(padded) + f" {side}")
    out += [bar("└┴┘"), "", caption.center(len(out[1])).rstrip()]
    return "\n".join(out)


def _cell(row: Row, column: str, collections) -> list[str]:
    if column == "path":
        return ["/".join(row.path)]
    if column == "module":
        plain = row.method in ("__call__", "<lambda>")
        return [type(row.module_copy).__name__ + ("" if plain else f" ({row.method})")]
    if column in ("inputs", "outputs"):
        return _lines(getattr(row, column)) or [""]
    if column in ("flops", "vjp_flops", "bytes"):
        number = getattr(row, column)
        return [f"{number:,}" if number >= 0 else ""]
    if column == "time":
        return [_amount(row.seconds * 1e6, "µs ms s") if row.seconds >= 0 else ""]
    own = row.module_variables.get(column, {})
    total = _count(row.counted_variables.get(column, {}))
    return [*_lines(own), *([""] if own and total else []), total]


def tabulate(
    module: Any,
    rngs: Any,
    depth: int | None = None,
    show_repeated: bool = False,
    mutable: Any = ALL_BUT_INTERMEDIATES,
    console_kwargs: Any = None,
    table_kwargs: Any = None,
    column_kwargs: Any = None,
    compute_flops: bool = False,
    compute_vjp_flops: bool = False,
    compute_time: bool = False,
    **kwargs: Any,
) -> Callable[..., str]:
    """Return a function of a module's arguments that returns a table of its submodules as text.

    Args:
        module: the module.
        rngs: a key, or a dictionary of the keys of random streams.
        depth: how many levels of submodules to show; all by default.
        show_repeated: show a submodule again for each call.
        mutable: the collections that the module may write.
        console_kwargs: accepted for flax, no effect.
        table_kwargs: accepted for flax, no effect.
        column_kwargs: accepted for flax, no effect.
        compute_flops: add columns of operations and of bytes moved.
        compute_vjp_flops: add a column of the operations of the backward pass.
        compute_time: add a column of how long each submodule runs, compiled.
        **kwargs: further keyword arguments of the module.

    Returns:
        A function from the arguments of the module to the table.

    Example:
        >>> import weft
        >>> from weft import linen as nn
        >>> print(nn.Dense(4).tabulate(weft.random.key(0), jnp.ones((1, 3))))
                                     Dense Summary
        ┏━━━━━━┳━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━┓
        ┃ path ┃ module ┃ inputs       ┃ outputs      ┃ params               ┃
        ┡━━━━━━╇━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━┩
        │      │ Dense  │ float32[1,3] │ float32[1,4] │ bias: float32[4]     │
        │      │        │              │              │ kernel: float32[3,4] │
        │      │        │              │              │                      │
        │      │        │              │              │ 16 (64 B)            │
        ├──────┼────────┼──────────────┼──────────────┼──────────────────────┤
        │      │        │              │        Total │ 16 (64 B)            │
        └──────┴────────┴──────────────┴──────────────┴──────────────────────┘
        <BLANKLINE>
                             Total Parameters: 16 (64 B)
    """

    def table(*args, **call):
        extra = [name for name, on in _cost_columns if on]
        settings = {**kwargs, **call}
        if mutable != ALL_BUT_INTERMEDIATES:
            settings["mutable"] = mutable
        rows, collections = module_table(
            module, rngs, args, settings, depth, show_repeated, costs=extra
        )
        shown = [c for name in extra for c in ((name, "bytes") if name == "flops" else (name,))]
        columns = ["path", "module", "inputs", "outputs", *shown, *collections]
        totals = {col: [r.counted_variables.get(col, {}) for r in rows] for col in collections}
        body = [[_cell(row, column, collections) for column in columns] for row in rows]
        before = len(columns) - len(collections)
        footer = [*[""] * (before - 1), "Total", *(_count(totals[col]) for col in collections)]
        title = f"{type(module).__name__} Summary"
        caption = f"Total Parameters: {_count(list(totals.values()))}"
        return _box(columns, body, footer, title, caption)

    _cost_columns = [
        ("flops", compute_flops),
        ("vjp_flops", compute_vjp_flops),
        ("time", compute_time),
    ]
    return table
