"""Writes programs as modules: one operation a line, in the generic form that any reader takes.

What an equation becomes, the rules say (``rules.py``): a rule is a function of the emitter, the
equation and the names of its operands, and gives the names of its results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.base.errors import InconclusiveDimensionOperation
from weft.core.dims.dim import is_constant_shape
from weft.core.interpret import constant_value, literal_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from weft.core.staging import stage
from weft.stablehlo import symbolic
from weft.stablehlo.types import Unlowered, array, dense, physical, tensor, type_of

Rule = Callable[..., list[str]]
rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the primitives of these names."""

    def register(function: Rule) -> Rule:
        for name in names:
            rules[name] = function
        return function

    return register


class Typed(str):
    """The name of a value, with its shape and dtype."""

    __slots__ = ("shape", "dtype")
    shape: tuple[int, ...]
    dtype: Any

    @property
    def type(self) -> str:
        return tensor(self.shape, self.dtype)


def typed(name: str, shape: Any, dtype: Any) -> Typed:
    value = Typed(name)
    value.shape, value.dtype = tuple(shape), np.dtype(dtype)
    return value


class Emitter:
    """The module being written."""

    def __init__(self, located: bool = False) -> None:
        self.located = located  # whether operations say where they come from
        self.scope: tuple[str, ...] = ()  # the names around the equation being written
        self.place = ""  # where it comes from
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.known: dict[int, tuple[str, Any]] = {}  # functions by the programs they are made of
        self.names: dict[str, int] = {}
        self.count = 0
        self.dims: list[str] = []  # the named dimensions of the module
        self.sizes: dict[str, Typed] = {}  # their values in the function being written
        self.notes: tuple[tuple[str, Any], ...] = ()  # on the equation being written
        self.partitions: Any = None  # of a program over several devices
        self.of_arguments: Sequence[str] = ()  # attributes of the main function's arguments
        self.of_results: Sequence[str] = ()  # and of its results
        self.expanding: list[Any] = []  # operations and their types, whose decompositions these are

    # --- operations -------------------------------------------------------------------------------

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def op(
        self,
        name: str,
        operands: Sequence[Any],
        results: Sequence[tuple[Any, Any]],
        attributes: str = "",
        regions: Sequence[str] = (),
        noted: str = "",
    ) -> list[Typed]:
        """One operation; ``results`` are the shapes and dtypes of what it gives, ``noted`` has
        attributes that are not its own."""
        base = self.fresh()
        many = len(results) > 1
        outs = [typed(f"{base}#{i}" if many else base, *result) for i, result in enumerate(results)]
        inside = f" ({', '.join(regions)})" if regions else ""
        given = f" <{{{attributes}}}>" if attributes else ""
        types = ", ".join(x.type for x in operands)
        gives = ", ".join(out.type for out in outs)
        gives = gives if len(outs) == 1 else f"({gives})"
        left = f"{base}:{len(outs)} = " if many else f"{base} = " if outs else ""
        full = name if "." in name else f"stablehlo.{name}"
        noted = f" {{{noted}}}" if noted else ""
        if self.notes and name != "constant":
            noted = _notes(self.notes, noted[2:-1])
        text = f'{left}"{full}"({", ".join(operands)}){given}{inside}{noted} : ({types}) -> {gives}'
        self.lines.append(text + self.place)
        return outs

    @contextmanager
    def within(self, *names: str) -> Iterator[None]:
        """Write operations below more names, in loops and branches."""
        outer, self.scope = self.scope, (*self.scope, *names)
        try:
            yield
        finally:
            self.scope = outer

    def note(self, value: Typed, notes: Any) -> None:
        """Put notes on the operation that gives a value, if it is one of this function."""
        base = value.partition("#")[0]
        for i, line in enumerate(self.lines):
            if line.startswith((f"{base} = ", f"{base}:")):
                head, colon, types = line.rpartition(" : (")
                given = {}
                if head.endswith("}}") and NOTES in head:  # those of a scope
                    head, _, text = head.rpartition(f" {{{NOTES}")
                    given = dict(re.findall(r'(\w+) = ("(?:[^"\\]|\\.)*")', text))
                listed = _listed({**given, **_quoted(notes)})
                self.lines[i] = f"{head} {{{NOTES}{listed}}}}}{colon}{types}"

    def one(self, name: str, operands: Any, shape: Any, dtype: Any, attributes: str = "") -> Typed:
        """One operation with one result."""
        if name in symbolic.DYNAMIC and not is_constant_shape(shape):
            name, operands = symbolic.DYNAMIC[name], [*operands, symbolic.sizes(self, shape)]
        return self.op(name, operands, [(shape, dtype)], attributes)[0]

    def constant(self, value: Any) -> Typed:
        value = np.asarray(value)
        text = f"value = {dense(value)} : {tensor(value.shape, value.dtype)}"
        return self.one("constant", [], value.shape, value.dtype, text)

    def broadcast(self, x: Typed, shape: Any, dims: Any = ()) -> Typed:
        """An array repeated to a shape; ``dims`` are where its own dimensions go."""
        if x.shape == tuple(shape):
            return x
        attributes = f"broadcast_dimensions = {array(dims)}"
        return self.one("broadcast_in_dim", [x], shape, x.dtype, attributes)

    def block(
        self,
        avals: Sequence[tuple[Any, Any]],
        body: Callable[..., Sequence[Typed]],
        end: str = "stablehlo.return",
    ) -> str:
        """A region of one block: ``body`` is given its arguments and gives what it returns."""
        args = [typed(self.fresh().replace("%", "%in"), *aval) for aval in avals]
        outer, self.lines = self.lines, []
        outs = body(*args)
        self.lines.append(f'"{end}"({", ".join(outs)}) : ({", ".join(x.type for x in outs)}) -> ()')
        inner, self.lines = self.lines, outer
        head = f"^bb0({', '.join(f'{x}: {x.type}' for x in args)}):\n  " if args else ""
        return "{\n  " + head + "\n  ".join("\n".join(inner).split("\n")) + "\n}"

    # --- programs ---------------------------------------------------------------------------------

    def program(self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Typed]:
        """The results of a program whose equations are written here."""
        env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
        for v, c in zip(jaxpr.constvars, consts, strict=True):
            env[v] = c if isinstance(c, Typed) else self.constant(_memory(c, v.aval))
        for eqn in jaxpr.eqns:
            outs = self.equation(eqn, [self.read(env, x) for x in eqn.invars])
            env.update(zip(eqn.outvars, outs, strict=True))
        return [self.read(env, x) for x in jaxpr.outvars]

    def read(self, env: dict[Any, Any], x: Any) -> Typed:
        return self.constant(literal_value(x)) if type(x) is Literal else env[x]

    def equation(self, eqn: JaxprEqn, ins: list[Typed]) -> list[Any]:
        """The results of an equation."""
        outer, place = self.notes, self.place
        self.notes = getattr(eqn.source_info, "notes", ()) or self.notes
        if self.located:
            self.place = _place(self.scope, eqn)
        try:
            return self._equation(eqn, ins)
        finally:
            self.notes, self.place = outer, place

    def _equation(self, eqn: JaxprEqn, ins: list[Typed]) -> list[Any]:
        primitive, params = eqn.primitive, eqn.params
        found = rules.get(primitive.name)
        if found is not None:
            return list(found(self, eqn, ins))
        avals = [x.aval for x in eqn.invars]
        called = primitive.program(avals, params)
        if called is not None:
            return self.call(called, ins, params.get("name") or primitive.name)
        kind = (primitive.name, tuple(avals))
        if primitive.decompose is not None and kind not in self.expanding:
            self.expanding.append(kind)
            try:
                return self.staged(
                    lambda *xs: _as_list(primitive, primitive.decompose(*xs, **params)), avals, ins
                )
            finally:
                self.expanding.pop()
        raise Unlowered(f"the program holds {primitive}, which weft can't write as StableHLO")

    def staged(self, fun: Callable[..., Any], avals: Any, ins: Sequence[Typed]) -> list[Typed]:
        """The results of a function of other primitives."""
        closed = stage(fun, avals)
        return self.program(closed.jaxpr, closed.consts, ins)

    def call(self, closed: ClosedJaxpr, ins: Sequence[Typed], name: str) -> list[Typed]:
        """A call of a program, which becomes a function of its own, written once."""
        found = self.known.get(id(closed))
        if found is None:
            label = self.unique(name)
            self.known[id(closed)] = found = (label, closed)  # held, so that its id stays its own
            self.function(label, closed, "private")
        results = [physical(aval) for aval in closed.out_avals]
        given = [*[self.sizes[name] for name in self.dims], *ins]
        return self.op("func.call", given, results, f"callee = @{found[0]}")

    def unique(self, name: str) -> str:
        name = re.sub(r"\W", "_", name) or "f"
        found, number = name, self.names.get(name, 0)
        while found in self.names:  # a function of the user's may have the name with a number
            found = f"{name}_{number}"
            number += 1
        self.names[name] = max(number, 1)
        self.names.setdefault(found, 1)
        return found

    def function(self, label: str, closed: ClosedJaxpr, visibility: str, scope: str = "") -> None:
        outer, self.lines, sizes = self.lines, [], self.sizes
        around, place = self.scope, self.place
        self.scope, self.place = (scope,) if scope else (), ""
        count = len(self.dims)
        self.sizes = {name: typed(f"%arg{i}", (), symbolic.INT) for i, name in enumerate(self.dims)}
        args = [typed(f"%arg{i}", *physical(a)) for i, a in enumerate(closed.in_avals, count)]
        outs = self.program(closed.jaxpr, closed.consts, args)
        types = [x.type for x in outs]
        gives = ", ".join(types)
        named = [
            f'{x}: {x.type} {{jax.global_constant = "{name}"}}' for name, x in self.sizes.items()
        ]
        whole = visibility == "public"
        takes = _noted([f"{x}: {x.type}" for x in args], self.of_arguments if whole else ())
        told = ", ".join(_noted(types, self.of_results if whole else ()))
        head = f"func.func {visibility} @{label}({', '.join([*named, *takes])}) -> ({told}) {{"
        back = f"return {', '.join(outs)} : {gives}" if outs else "return"
        body = "\n    ".join("\n".join([*self.lines, back]).split("\n"))
        self.functions.append(f"  {head}\n    {body}\n  }}")
        self.lines, self.sizes = outer, sizes
        self.scope, self.place = around, place


def _noted(texts: list[str], attributes: Sequence[str]) -> list[str]:
    """Arguments or results with attributes; those without any as they are."""
    if not attributes:
        return texts
    found = zip(texts, attributes, strict=True)
    return [f"{text} {{{noted}}}" if noted else text for text, noted in found]


NOTES = "mhlo.frontend_attributes = {"


def _notes(notes: Any, others: str = "") -> str:
    """Notes as an attribute of an operation, after others."""
    before = f"{others}, " if others else ""
    return f" {{{before}{NOTES}{_listed(_quoted(notes))}}}}}"


def _listed(quoted: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(quoted.items()))


def _quoted(notes: Any) -> dict[str, str]:
    text = lambda v: str(v).lower() if isinstance(v, bool) else str(v)
    quote = lambda v: text(v).replace("\\", "\\\\").replace('"', '\\"')
    return {name: f'"{quote(value)}"' for name, value in notes}


def _as_list(primitive: Any, out: Any) -> list[Any]:
    if out is None:
        raise Unlowered(f"the program holds {primitive}, which weft can't write as StableHLO")
    return list(out) if primitive.multiple_results else [out]


def _memory(const: Any, aval: Any) -> np.ndarray:
    """The memory of a constant; keys as words."""
    value = constant_value(const, aval)
    shape, dtype = physical(aval)
    if value.dtype.names is not None:
        value = value[value.dtype.names[0]]
    return np.asarray(value).reshape(shape).astype(dtype, copy=False)


def _place(scope: tuple[str, ...], eqn: JaxprEqn) -> str:
    """Where an operation comes from: names of scopes and transformations, and the line."""
    info, name = eqn.source_info, eqn.primitive.name
    if name == "jit":
        name = f"jit({eqn.params['name']})"
    around = str(info.name_stack) if info is not None and info.name_stack else ""
    label = _escaped("/".join([*scope, *([around] if around else []), name]))
    if info is None or info.code is None:
        return f' loc("{label}")'
    return f' loc("{label}"("{_escaped(info.file)}":{info.line()}:1))'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def module_text(
    closed: ClosedJaxpr,
    name: str,
    debug_info: bool = False,
    of_arguments: Sequence[str] = (),
    of_results: Sequence[str] = (),
    partitions: Any = None,
) -> str:
    """A program as a module of StableHLO; with ``debug_info``, operations say where they are from.

    Dimensions of symbolic shapes are ``?``, and their values are the first arguments. Arguments and
    results may have attributes, such as shardings over several ``partitions`` (``sharded.py``).

    Raises ``NotImplementedError`` for a program that calls back to Python, or holds an operation
    that has no form there.
    """
    for aval in [*closed.in_avals, *closed.out_avals]:
        type_of(aval)
    emitter = Emitter(debug_info)
    emitter.of_arguments, emitter.of_results = of_arguments, of_results
    emitter.partitions = partitions
    emitter.dims = symbolic.names_in(closed.in_avals)
    emitter.unique("main")
    try:
        emitter.function("main", closed, "public", f"jit({name})")
    except InconclusiveDimensionOperation as error:
        raise Unlowered(f"a rule of StableHLO needs a number: {error}") from None
    *others, main = emitter.functions
    label = re.sub(r"\W", "_", name)
    told = ""
    if partitions is not None:
        counts = f"mhlo.num_partitions = {partitions.count} : i32, mhlo.num_replicas = 1 : i32"
        told = f" attributes {{{counts}}}"
    head = f"module @jit_{label}{told} {{"
    meshes = partitions.declared() if partitions is not None else []
    return "\n".join([head, *meshes, main, *others, "}"]) + "\n"
