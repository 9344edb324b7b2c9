"""Staging: running a function once on tracers and writing down what it binds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base import errors, knobs, source
from weft.base.lazy import Late
from weft.base.polynomials import Polynomial
from weft.base.source import NO_NAMES
from weft.base.spaces import MemorySpace
from weft.core import debug_info as debug
from weft.core import sharding as meshes
from weft.core.avals import ShapedArray
from weft.core.effects import Effects, no_effects
from weft.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    jaxprs_in_params,
)
from weft.core.registry import lookup
from weft.core.sharding import NamedSharding
from weft.core.trace import Trace, Tracer, check_leaks, escaped_tracer_error, state, typeof
from weft.division import varying

# needed where types carry shardings
explicit = Late("weft.division.explicit")
# needed where every program is checked
verify = Late("weft.core.verify")

literal_types: set[type] = {bool, int, float, complex}


class StagingTracer(Tracer):
    """A value of the program being written: it is a variable of it.

    Args:
        trace: the trace that it belongs to.
        var: the variable.

    Example:
        >>> import weft
        >>> seen = []
        >>> _ = weft.make_jaxpr(lambda x: seen.append(isinstance(x, StagingTracer)))(1.0)
        >>> seen
        [True]
    """

    __slots__ = ("_var",)
    display = "JitTracer"

    def __init__(self, trace: StagingTrace, var: Atom) -> None:
        self._trace = trace
        self._var = var
        self.aval = var.aval

    def _origin_msg(self) -> str:
        return self._trace.origin_message(self._var)

    def _value_or(self, error: Callable[[], Exception]) -> Any:
        values = self._trace.values
        found = None if values is None else values.same(self._trace, self._var)
        if found is None:
            raise error()
        return found

    def __repr__(self) -> str:
        trace = self._trace
        found = trace.values.text(trace, self._var) if trace.values and trace.alive else None
        return super().__repr__() if found is None else found


class StagingTrace(Trace):
    """Writes every primitive bound while it is current into a program."""

    __slots__ = (
        "eqns",
        "invars",
        "const_vars",
        "constvars",
        "consts",
        "copies",
        "effects",
        "renamed",
        "debug_info",
        "values",
    )

    def __init__(self, debug_info: Any = None) -> None:
        self.alive = True
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        self.const_vars: dict[int, Var] = {}
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        # arrays made of the caller's NumPy data, and that data, by its identity and their dtype
        self.copies: dict[tuple[int, Any], tuple[np.ndarray, Any]] = {}
        self.effects: Effects = no_effects
        # the last place that was seen from inside of some names, these, and the place there
        self.renamed: tuple[Any, Any, Any] = (None, None, None)
        self.debug_info = debug_info or debug.unknown
        # who knows values while they are traced, see parallel.values
        self.values: Any = None

    def new_arg(self, aval: Any) -> StagingTracer:
        var = Var(aval)
        self.invars.append(var)
        if aval.is_ref:
            self.effects = self.effects | aval.effects
        return StagingTracer(self, var)

    def atom(self, x: Any) -> Atom:
        """The variable or literal that stands for ``x`` in this program."""
        kind = type(x)
        if kind is StagingTracer and x._trace is self:
            return x._var
        if kind in literal_types or isinstance(x, np.generic):
            return Literal(x, typeof(x))
        if kind is np.ndarray and not x.ndim:
            return Literal(x[()], typeof(x))
        if isinstance(x, Polynomial):
            return self.emit(lookup("dim_as_value"), (), {"dim": x})._var
        return self.constant(x)

    def constant(self, x: Any) -> Var:
        var = self.const_vars.get(id(x))
        if var is None:
            if isinstance(x, Tracer) and not x._trace.alive:
                raise escaped_tracer_error(x)
            aval = typeof(x)
            if self.copies and type(x) is np.ndarray:
                copy = self.copy_of(x, aval.dtype)
                if copy is not None:
                    return self.constant(copy)
            var = Var(aval)
            self.const_vars[id(x)] = var
            self.constvars.append(var)
            self.consts.append(x)
        return var

    def copy_of(self, data: np.ndarray, dtype: Any) -> Any:
        """The array that was made of NumPy data before, unless the data has changed since."""
        found = self.copies.get((id(data), dtype))
        if found is None:
            return None
        value = found[1]._value
        same = data.astype(value.dtype, copy=False).tobytes() == value.tobytes()
        return found[1] if same else None

    def note_copy(self, data: np.ndarray, array: Any) -> None:
        """Let an array stand for the NumPy data that it was made of."""
        self.copies[id(data), array.dtype] = data, array
        var = self.const_vars.get(id(data))
        if var is not None and var.aval == array.aval:
            self.const_vars[id(array)] = var
            self.consts[self.constvars.index(var)] = array

    def lift(self, x: Any) -> StagingTracer:
        """``x`` as a tracer of this trace."""
        if type(x) is StagingTracer and x._trace is self:
            return x
        return StagingTracer(self, self.constant(x))

    def literal(self, value: Any, aval: Any) -> StagingTracer:
        """A tracer that stands for a scalar written into the program."""
        return StagingTracer(self, Literal(value, aval))

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        if primitive.stage is not None:
            return primitive.stage(self, args, params)
        return self.emit(primitive, args, params)

    def emit(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        """Write one equation and return tracers for its results."""
        if not self.alive:
            raise RuntimeError("this trace has ended")
        atoms: list[Atom] = []
        avals: list[Any] = []
        for x in args:
            atom = x._var if type(x) is StagingTracer and x._trace is self else self.atom(x)
            atoms.append(atom)
            avals.append(atom.aval)
            if atom.aval.is_ref and not primitive.takes_refs:
                raise errors.reference_given(primitive, atom.aval)
        try:
            result = primitive.shape(*avals, **params)
        except Exception as error:
            errors.locate(error, state.source)
            raise
        if meshes.explicit_ones:
            try:
                result = explicit.results(primitive, avals, params, result)
            except Exception as error:
                errors.locate(error, state.source)
                raise
        if meshes.named_ones:
            result = _labelled(primitive, avals, params, result)
        if varying.scopes and state.manual:
            result = varying.vary(primitive, avals, params, result)
        rule = primitive.eqn_effects
        effects = primitive.effects if rule is None else rule(avals, params)
        if effects:
            self.effects = self.effects | effects
        info, names = state.source, state.name_stack
        if info is None:
            info = source.current(names, 3)
        elif names:
            if self.renamed[0] is not info or self.renamed[1] is not names:
                inside = info.replace(name_stack=info.name_stack.inside(names))
                self.renamed = info, names, inside
            info = self.renamed[2]
        if source.has_notes and knobs.thread.xla_metadata:
            info = info.with_notes(knobs.thread.xla_metadata)
        if primitive.multiple_results:
            outvars = [Var(aval) for aval in result]
            self.eqns.append(JaxprEqn(atoms, outvars, primitive, params, effects, info))
            return [StagingTracer(self, var) for var in outvars]
        var = Var(result)
        self.eqns.append(JaxprEqn(atoms, [var], primitive, params, effects, info))
        return StagingTracer(self, var)

    def to_jaxpr(self, outs: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        """The program that returns ``outs``, and the values of its constants."""
        outvars = [self.atom(x) for x in outs]
        used = used_vars(self.eqns, outvars)
        drop_unread(self.eqns, used)
        kept = [i for i, v in enumerate(self.constvars) if v in used]
        constvars = [self.constvars[i] for i in kept]
        consts = [self.consts[i] for i in kept]
        jaxpr = Jaxpr(constvars, self.invars, outvars, self.eqns, self.effects, self.debug_info)
        return jaxpr, consts

    def origin_message(self, var: Atom) -> str:
        """Where a variable's value comes from, in the user's words."""
        info = self.debug_info
        verb = "is being" if self.alive else "was"
        where = f"\nThe function that {verb} traced for {info.traced_for} is {info.func_src_info}."
        if isinstance(var, Literal):
            return where
        if var in self.invars:
            return where + f"\nThe value is {self._name_arg(self.invars.index(var))}."
        producers = {v: eqn for eqn in self.eqns for v in eqn.outvars}
        eqn = producers.get(var)
        if eqn is None:
            return where
        line = source.summarize(eqn.source_info)
        names = [self._name_arg(i) for i in self._arguments_behind(var, producers)]
        message = where + f"\nThe value was computed by {eqn.primitive} at {line}"
        return message + (f", from {', '.join(names)}." if names else ".")

    def _name_arg(self, i: int) -> str:
        names = self.debug_info.names()
        if names is not None and i < len(names):
            return f"the argument {names[i]}"
        return f"argument {i} of the traced function"

    def _arguments_behind(self, var: Var, producers: dict[Var, JaxprEqn]) -> list[int]:
        positions = {v: i for i, v in enumerate(self.invars)}
        seen: set[Atom] = set()
        found: set[int] = set()
        stack: list[Atom] = [var]
        while stack:
            v = stack.pop()
            if isinstance(v, Literal) or v in seen:
                continue
            seen.add(v)
            if v in positions:
                found.add(positions[v])
            elif v in producers:
                stack.extend(producers[v].invars)
        return sorted(found)


def _labelled(primitive: Any, avals: Any, params: dict[str, Any], result: Any) -> Any:
    """The types of an equation's results, with the mesh and the memory that they name."""
    mesh = _mesh_of_results(primitive, avals, params)
    host: Any = any(type(a) is ShapedArray and a.in_host for a in avals)
    if primitive.name == "device_put":
        host = [_is_host(place, a) for place, a in zip(params["devices"], avals, strict=True)]
    if not primitive.multiple_results:
        return _named(result, mesh, host)
    if mesh is None and any(True for _ in jaxprs_in_params(params)):  # which name their own
        return result
    each = host if isinstance(host, list) else [host] * len(result)
    return [_named(a, mesh, h) for a, h in zip(result, each, strict=True)]


def _named(aval: Any, mesh: Any, host: Any) -> Any:
    return aval.on_mesh(mesh).in_space(host) if type(aval) is ShapedArray else aval


def _is_host(place: Any, aval: Any) -> bool:
    """Whether an array is in the host's memory once it is moved to a place."""
    if isinstance(place, MemorySpace):
        return place is MemorySpace.Host
    kind = getattr(place, "memory_kind", None)
    return aval.in_host if kind is None else kind != "device"


def _mesh_of_results(primitive: Any, avals: Any, params: dict[str, Any]) -> Any:
    """The mesh that results name; none where one is set, which all types then mean."""
    current = knobs.thread.mesh
    if current is not None and not current[1].empty:
        return None
    if primitive.name == "shard_map":
        return params["mesh"].abstract_mesh
    if primitive.shardings is not None:
        found = next((s for s in primitive.shardings(params) if s is not None), None)
        if isinstance(found, NamedSharding):
            return found.mesh.abstract_mesh
    for a in avals:
        if type(a) is ShapedArray:
            mesh = a.named if a.divided is None else a.divided.mesh
            if mesh is not None:
                return mesh
    return None


def used_vars(eqns: Sequence[JaxprEqn], outvars: Sequence[Atom]) -> set[Any]:
    """The variables that are read by the equations or returned."""
    used: set[Any] = {x for x in outvars if type(x) is not Literal}
    for eqn in eqns:
        for x in eqn.invars:
            if type(x) is not Literal:
                used.add(x)
    return used


def drop_unread(eqns: list[JaxprEqn], used: set[Any]) -> None:
    """Replace results that nobody reads by ``DropVar``."""
    for eqn in eqns:
        for i, v in enumerate(eqn.outvars):
            if v not in used:
                eqn.outvars[i] = DropVar(v.aval)


def check_tracing(fun: Any, what: str) -> None:
    """Raise RuntimeError if a user's function is about to be traced under ``no_tracing``."""
    if knobs.thread.no_tracing:
        name = getattr(fun, "__name__", fun)
        raise RuntimeError(
            f"{name} would be traced for {what}, which no_tracing forbids; call it with arguments"
            " of these types before entering the scope"
        )


def stage(
    fun: Callable[..., Sequence[Any]], in_avals: Sequence[Any], debug_info: Any = None
) -> ClosedJaxpr:
    """Return the program of a function of flat arguments that returns a flat sequence.

    Args:
        fun: the function.
        in_avals: the types of its arguments.
        debug_info: the names of the function and its arguments.

    Returns:
        A ``ClosedJaxpr``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> stage(lambda x: [jnp.sin(x)], [weft.typeof(1.0)])
        { lambda ; a:f32[]. let b:f32[] = sin a in (b,) }
    """
    trace = StagingTrace(debug_info)
    args = [trace.new_arg(aval) for aval in in_avals]
    before = state.trace, state.source, state.name_stack
    state.trace, state.source, state.name_stack = trace, None, NO_NAMES
    try:
        outs = fun(*args)
        jaxpr, consts = trace.to_jaxpr(outs)
    finally:
        state.trace, state.source, state.name_stack = before
        trace.alive = False
    if knobs.thread.check_tracer_leaks and debug_info is not None:
        del args, outs
        check_leaks(trace)
    if knobs.thread.enable_checks:
        verify.check_jaxpr(jaxpr)
    return ClosedJaxpr(jaxpr, consts)
