"""A Jaxpr as plain text with nested jits opened up, written over the public Jaxpr attributes.

Libraries wrap their own functions in jits as they see fit; what is computed must be the same. The
text keeps the order of equations, drops those nobody uses, and numbers the variables.
"""

from typing import Any

import numpy as np

CALLS = ("jit", "pjit", "closed_call", "core_call")


class Flattener:
    """Collects equations of one Jaxpr, with the jits inside it inlined."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[Any], str, list[Any], bool]] = []
        self.env: dict[int, Any] = {}
        self.kept: list[Any] = []

    def read(self, atom: Any) -> Any:
        if hasattr(atom, "val"):
            return f"{np.asarray(atom.val).item()}:{short(atom.aval)}"
        return self.env.get(id(atom), atom)

    def walk(self, jaxpr: Any) -> list[Any]:
        """Add the equations of an open Jaxpr whose inputs are already bound."""
        for eqn in jaxpr.eqns:
            # Variables are told apart by identity: keep them alive so that none is reused.
            self.kept.append(eqn)
            ins = [self.read(v) for v in eqn.invars]
            if eqn.primitive.name in CALLS:
                inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
                for out, value in zip(eqn.outvars, self.inline(inner, ins), strict=True):
                    self.env[id(out)] = value
                continue
            text = eqn.primitive.name + params_text(eqn.params)
            self.rows.append((list(eqn.outvars), text, ins, bool(eqn.effects)))
        return [self.read(v) for v in jaxpr.outvars]

    def inline(self, closed: Any, ins: list[Any]) -> list[Any]:
        jaxpr = getattr(closed, "jaxpr", closed)
        saved = dict(self.env)
        for var, const in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
            self.env[id(var)] = f"const:{getattr(const, 'shape', ())}"
        for var, value in zip(jaxpr.invars, ins, strict=True):
            self.env[id(var)] = value
        outs = self.walk(jaxpr)
        for var in (*jaxpr.invars, *jaxpr.constvars):
            self.env.pop(id(var), None)
        # The same Jaxpr object may be called again: its variables must get fresh rows then.
        return self.renamed(jaxpr, outs, saved)

    def renamed(self, jaxpr: Any, outs: list[Any], saved: dict[int, Any]) -> list[Any]:
        fresh: dict[int, Any] = {}
        mine = {id(v) for eqn in jaxpr.eqns for v in eqn.outvars}

        def swap(value: Any) -> Any:
            if isinstance(value, str) or id(value) not in mine:
                return value
            return fresh.setdefault(id(value), Alias(value))

        self.rows = [
            ([swap(o) for o in out], text, [swap(i) for i in ins], effects)
            for out, text, ins, effects in self.rows
        ]
        outs = [swap(o) for o in outs]
        self.env = saved
        return outs


class Alias:
    """A variable of an inlined Jaxpr, new for each call."""

    def __init__(self, var: Any):
        self.aval = var.aval


def params_text(params: dict[str, Any]) -> str:
    shown = {k: v for k, v in params.items() if v is not None and not is_function(v)}
    parts = [f"{k}={value_text(shown[k])}" for k in sorted(shown)]
    return f"[{' '.join(parts)}]" if parts else ""


def is_function(value: Any) -> bool:
    """Rules carried along as functions have no text that two libraries could share."""
    plain = isinstance(value, type) or hasattr(value, "jaxpr")
    return type(value).__name__ == "WrappedFun" or (callable(value) and not plain)


def value_text(value: Any) -> str:
    if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
        return flat_text(value)
    if isinstance(value, (tuple, list)) and not any(is_function(v) for v in value):
        return "(" + ",".join(value_text(v) for v in value) + ")"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{value_text(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool | np.bool_):
        return str(int(value))
    return str(value)


def flat_text(closed: Any) -> str:
    """The program as text: one line per equation."""
    jaxpr = getattr(closed, "jaxpr", closed)
    flat = Flattener()
    outs = flat.walk(jaxpr)
    needed = {id(o) for o in outs if not isinstance(o, str)}
    live = []
    for out, text, ins, effects in reversed(flat.rows):
        if effects or any(id(o) in needed for o in out):
            live.append((out, text, ins))
            needed.update(id(i) for i in ins if not isinstance(i, str))
    live.reverse()
    names: dict[int, str] = {}

    def name(atom: Any, define: bool = False) -> str:
        if isinstance(atom, str):
            return atom
        known = id(atom) in names
        label = names.setdefault(id(atom), f"v{len(names)}")
        return f"{label}:{short(atom.aval)}" if define or not known else label

    lines = ["in " + " ".join(name(v, True) for v in (*jaxpr.constvars, *jaxpr.invars))]
    for out, text, ins in live:
        operands = " ".join(name(i) for i in ins)
        results = " ".join(name(o, True) if id(o) in needed else "_" for o in out)
        lines.append(f"{results} = {text} {operands}")
    lines.append("out " + " ".join(name(o) for o in outs))
    return "\n".join(lines)


def short(aval: Any) -> str:
    return aval.str_short(short_dtypes=True)
