"""Programs as text: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.

Objects are known by their class names and attributes alone, so that anything shaped like a
Jaxpr prints. A primitive may say how it is shown by a method `pp_params(params)`, which gives the
parameters to show in order, or `pp_eqn(eqn, context, settings)`, which gives the whole document.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.base import knobs, source
from weft.base.record import Record
from weft.base.text import (
    Doc,
    brk,
    concat,
    group,
    join,
    keyword,
    nest,
    nil,
    text,
    type_annotation,
)

Params = dict[str, Any]

# Programs inside others with more equations than this are printed on their own, before.
_INLINE_EQNS = 10


class Settings(Record):
    """What to show."""

    print_shapes: bool = True
    source_info: bool = False
    name_stack: bool = False
    custom_pp_eqn_rules: bool = True
    print_effects: bool = False


def letters(n: int) -> str:
    """The n-th variable name: a to z, then ba, bb, ...

    >>> letters(0), letters(25), letters(26), letters(676)
    ('a', 'z', 'ba', 'baa')
    """
    name = ""
    while not name or n:
        n, digit = divmod(n, 26)
        name = chr(ord("a") + digit) + name
    return name


class Context:
    """Names given so far, unique over nested programs; programs that are printed apart."""

    def __init__(self, names: dict[Any, str] | None = None):
        self.names: dict[Any, str] = dict(names or {})
        self.shared: dict[int, str] = {}
        self._taken: set[str] = set()
        self._next = 0

    def share(self, jaxpr: Any, name: str) -> None:
        """Print this program apart, under a name that no variable may have then."""
        self.shared[id(jaxpr)] = name
        self._taken.add(name)

    def name(self, var: Any) -> str:
        """The name of a variable, chosen at its first mention."""
        if type(var).__name__ == "DropVar":
            return "_"
        known = self.names.get(var)
        while known is None:
            fresh = letters(self._next)
            self._next += 1
            if fresh not in self._taken:
                known = self.names[var] = fresh
        return known

    def same_names(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        """Give variables of an inner program the names of those they stand for."""
        if len(inner) != len(outer):
            return  # an ill-formed program is printed too, so that it can be looked at
        used: set[Any] = set()
        for var, like in zip(inner, outer, strict=True):
            if _is_literal(var) or _is_literal(like) or like in used or var in self.names:
                continue
            used.add(like)
            self.names[var] = self.name(like)


def _is_literal(atom: Any) -> bool:
    return type(atom).__name__ == "Literal"


def _is_program(value: Any) -> bool:
    return type(value).__name__ in ("Jaxpr", "ClosedJaxpr")


def _open(value: Any) -> Any:
    """The Jaxpr of a Jaxpr or a ClosedJaxpr."""
    return value.jaxpr if type(value).__name__ == "ClosedJaxpr" else value


def _inner_programs(params: Params) -> Iterator[Any]:
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if _is_program(item):
                yield _open(item)


# ---------------------------------------------------------------------------- parts


def pp_aval(aval: Any) -> str:
    """A type as text, like `f32[3]`."""
    return aval.str_short(short_dtypes=True)


def pp_atom(atom: Any, context: Context) -> str:
    """A variable's name, or a literal with its type."""
    if not _is_literal(atom):
        return context.name(atom)
    value = str(np.asarray(atom.val).item()) if np.shape(atom.val) == () else "[...]"
    if getattr(atom.aval, "dtype", None) is None:
        return value
    return f"{value}:{pp_aval(atom.aval)}"


def pp_vars(
    atoms: Iterable[Any], context: Context, *, separator: str = "", types: bool = False
) -> Doc:
    """Variables in a row, with their types where wanted."""
    docs = []
    for atom in atoms:
        doc = text(pp_atom(atom, context))
        if types:
            doc = doc + type_annotation(text(":" + pp_aval(atom.aval)))
        docs.append(doc)
    return nest(2, group(join(text(separator) + group(brk()), docs)))


_ADDRESS = re.compile(r" at 0x([0-9a-fA-F]+)")


def _pp_value(value: Any, context: Context, settings: Settings) -> Doc:
    if _is_program(value):
        return pp_jaxpr(_open(value), context, settings)
    if type(value) is tuple and all(map(_is_program, value)):
        inner = join(brk(), [pp_jaxpr(_open(each), context, settings) for each in value])
        return _bracketed("(", inner, ")")
    if isinstance(value, frozenset):
        return text(f"frozenset({{{', '.join(map(repr, sorted(value)))}}})")
    # Addresses would make every run's text different.
    return text(_ADDRESS.sub(lambda m: " at 0x" + "X" * len(m.group(1)), str(value)))


def _bracketed(left: str, inner: Doc, right: str) -> Doc:
    opened = nest(2, concat([text(left), brk(""), inner]))
    return group(concat([opened, brk(""), text(right)]))


def pp_params(params: Params, context: Context, settings: Settings) -> Doc:
    """Parameters in brackets, in the order given; nothing for none."""
    if not params:
        return nil()
    docs = [text(f"{k}=") + _pp_value(v, context, settings) for k, v in params.items()]
    return _bracketed("[", join(brk(), docs), "]")


# ---------------------------------------------------------------------------- equations


def _without(params: Params, *names: str) -> Params:
    return {k: v for k, v in sorted(params.items()) if k not in names}


def _show_mul(params: Params) -> Params:
    return {k: v for k, v in _without(params).items() if k != "out_dtype" or v is not None}


def _show_convert(params: Params) -> Params:
    return _without(params, "sharding")


def _show_dot_general(params: Params) -> Params:
    shown = {k: v for k, v in _without(params, "out_sharding").items() if v is not None}
    contract, batch = params["dimension_numbers"]
    shown["dimension_numbers"] = (tuple(map(list, contract)), tuple(map(list, batch)))
    return shown


def _show_broadcast(params: Params) -> Params:
    shown = _without(params, "shape", "sharding")
    if not shown["broadcast_dimensions"]:
        del shown["broadcast_dimensions"]
    return shown


def _unspecified(shardings: Iterable[Any]) -> bool:
    return all(type(s).__name__ == "UnspecifiedValue" or s is None for s in shardings)


# Parameters of `jit` that go unsaid, each with the test for its ordinary value.
_JIT_ORDINARY: dict[str, Callable[[Any], bool]] = {
    "donated_invars": lambda v: not any(v),
    "in_shardings": _unspecified,
    "out_shardings": _unspecified,
    "in_layouts": lambda v: all(layout is None for layout in v),
    "out_layouts": lambda v: all(layout is None for layout in v),
    "keep_unused": lambda v: not v,
    "ctx_mesh": lambda v: v is None or v.empty,
    "compiler_options_kvs": lambda v: not v,
}


def _show_jit(params: Params) -> Params:
    shown = {"name": params["name"]}
    for name, value in _without(params, "name", "inline").items():
        ordinary = _JIT_ORDINARY.get(name)
        if ordinary is None or not ordinary(value):
            shown[name] = value
    return shown


def _function_name(value: Any) -> Any:
    info = getattr(value, "debug_info", None)
    return getattr(value, "__name__", value) if info is None else info.func_name


def _show_custom(params: Params, functions: dict[str, str], hidden: tuple[str, ...]) -> Params:
    shown = _without(params, *hidden, *functions)
    if not shown.get("num_consts"):
        shown.pop("num_consts", None)
    for key, label in functions.items():
        if key in params:
            shown[label] = _function_name(params[key])
    name = {"name": _function_name(_open(params["call_jaxpr"]))}
    return name | dict(sorted(shown.items()))


def _show_custom_jvp(params: Params) -> Params:
    return _show_custom(params, {"jvp_jaxpr_fun": "jvp"}, ())


def _show_custom_vjp(params: Params) -> Params:
    return _show_custom(params, {"fwd_jaxpr_thunk": "fwd", "bwd": "bwd"}, ("out_trees",))


def _show_custom_lin(params: Params) -> Params:
    shown = _without(params, "out_avals", "bwd")
    shown["bwd"] = _function_name(params["bwd"])
    return dict(sorted(shown.items()))


def _show_check(params: Params) -> Params:
    return _without(params, "err_tree")


def _show_reshard(params: Params) -> Params:
    return {}


_shown_params: dict[str, Callable[[Params], Params]] = {
    "mul": _show_mul,
    "convert_element_type": _show_convert,
    "dot_general": _show_dot_general,
    "broadcast_in_dim": _show_broadcast,
    "jit": _show_jit,
    "custom_jvp_call": _show_custom_jvp,
    "custom_vjp_call": _show_custom_vjp,
    "custom_lin": _show_custom_lin,
    "check": _show_check,
    "reshard": _show_reshard,
}


def _params_to_show(eqn: Any, settings: Settings) -> Params:
    if settings.custom_pp_eqn_rules:
        show = getattr(eqn.primitive, "pp_params", None) or _shown_params.get(eqn.primitive.name)
        if show is not None:
            return show(eqn.params)
        if eqn.params.get("accuracy", 0) is None:
            return _without(eqn.params, "accuracy")
    return dict(sorted(eqn.params.items()))


def pp_eqn(eqn: Any, context: Context, settings: Settings) -> Doc:
    """One equation: `b:f32[3] = sin a`."""
    if settings.custom_pp_eqn_rules:
        own = getattr(eqn.primitive, "pp_eqn", None)
        if own is not None:
            return own(eqn, context, settings)
        if eqn.primitive.name == "jit":
            inner = _open(eqn.params["jaxpr"])
            if id(inner) not in context.shared:
                context.same_names(inner.invars, eqn.invars)
                context.same_names(inner.outvars, eqn.outvars)
    info = eqn.source_info
    where = source.summarize(info) if settings.source_info else None
    scope = f"[{_name_stack(info)}]" if settings.name_stack else None
    results = pp_vars(eqn.outvars, context, types=settings.print_shapes)
    rest = [
        text(eqn.primitive.name, scope),
        pp_params(_params_to_show(eqn, settings), context, settings),
        text(" "),
        pp_vars(eqn.invars, context),
    ]
    if not eqn.outvars:
        return concat(rest)
    return concat([results, text(" = ", where), *rest])


def _name_stack(info: Any) -> str:
    return str(source.NameStack(getattr(info, "name_stack", ())))


def pp_eqns(eqns: Iterable[Any], context: Context, settings: Settings) -> Doc:
    """Equations, a line each unless they fit on one."""
    return join(brk("; "), [pp_eqn(eqn, context, settings) for eqn in eqns])


# ---------------------------------------------------------------------------- programs


def _pp_program(jaxpr: Any, context: Context, settings: Settings) -> Doc:
    # Names are given in the order of mention, so the parts are made in the order of the text.
    types = settings.print_shapes
    constvars = pp_vars(jaxpr.constvars, context, types=types)
    invars = pp_vars(jaxpr.invars, context, types=types)
    eqns = pp_eqns(jaxpr.eqns, context, settings)
    outvars = pp_vars(jaxpr.outvars, context, separator=",")
    close = ")" if len(jaxpr.outvars) != 1 else ",)"
    body = [
        text("{ "),
        keyword(text("lambda ")),
        constvars,
        text("; "),
        invars,
        text(". "),
        keyword(text("let")),
        nest(2, brk() + eqns),
        brk(),
        keyword(text("in ")),
        text("("),
        outvars,
        text(close),
    ]
    if settings.print_effects:
        body.append(text(f" : {{ {', '.join(map(str, jaxpr.effects))} }}"))
    return group(nest(2, concat(body)) + text(" }"))


def pp_jaxpr(jaxpr: Any, context: Context, settings: Settings) -> Doc:
    """A program, or its name where it is printed apart."""
    name = context.shared.get(id(jaxpr))
    return _pp_program(jaxpr, context, settings) if name is None else text(name)


def _unread(jaxpr: Any) -> dict[Any, str]:
    """Results that nobody reads, all called `_`."""
    names: dict[Any, str] = {}
    used = {v for v in jaxpr.outvars if not _is_literal(v)}
    for eqn in reversed(jaxpr.eqns):
        names.update((v, "_") for v in eqn.outvars if v not in used)
        used.update(v for v in eqn.invars if not _is_literal(v))
    return names


def _printed_apart(top: Any) -> list[tuple[str, Any]]:
    """The inner programs used several times, or long, each with a name of its own."""
    uses: dict[int, int] = {}
    names: dict[int, str] = {}
    found: list[Any] = []
    queue = deque([top])
    while queue:
        jaxpr = queue.popleft()
        seen = uses[id(jaxpr)] = uses.get(id(jaxpr), 0) + 1
        if seen == 1:
            found.append(jaxpr)
        elif seen > 2:
            continue  # what is inside is known to be used twice already
        for eqn in jaxpr.eqns:
            name = eqn.params.get("name")
            for inner in _inner_programs(eqn.params):
                queue.append(inner)
                if name is not None:
                    names.setdefault(id(inner), name.strip("<>"))
    counts: dict[str, int] = {}
    apart: list[tuple[str, Any]] = []
    for jaxpr in found:
        long = jaxpr is not top and len(jaxpr.eqns) > _INLINE_EQNS
        if long or uses[id(jaxpr)] > 1:
            name = names.get(id(jaxpr), "jaxpr")
            count = counts.get(name, 0)
            counts[name] = count + 1
            if count:
                name += str(count)
                counts[name] = counts.get(name, 0) + 1
            apart.append((name, jaxpr))
    return apart


def pp_toplevel(jaxpr: Any, settings: Settings) -> Doc:
    """A whole program, with the programs it shares before it."""
    context = Context(_unread(jaxpr))
    apart = _printed_apart(jaxpr)
    for name, shared in apart:
        context.share(shared, name)
    docs: list[Doc] = []
    for name, shared in apart:
        body = _pp_program(shared, context, settings)
        docs += [text(f"let {name} = "), body, text(" in"), brk()]
    docs.append(pp_jaxpr(jaxpr, context, settings))
    return concat(docs)


def _on_terminal() -> bool:
    return bool(knobs.pprint_use_color.value) and sys.stdout is not None and sys.stdout.isatty()


def jaxpr_to_text(
    thing: Any,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    name_stack: bool = False,
    custom_pp_eqn_rules: bool = True,
    print_effects: bool = False,
    width: int = 80,
    use_color: bool | None = None,
    annotation_prefix: str = " # ",
) -> str:
    """The text of a Jaxpr, a ClosedJaxpr or an equation."""
    settings = Settings(print_shapes, source_info, name_stack, custom_pp_eqn_rules, print_effects)
    if _is_program(thing):
        doc = pp_toplevel(_open(thing), settings)
    else:
        doc = pp_eqn(thing, Context(), settings)
    color = _on_terminal() if use_color is None else use_color
    text_ = doc.format(width, use_color=color, annotation_prefix=annotation_prefix)
    return text_ if _is_program(thing) else text_.rstrip()
