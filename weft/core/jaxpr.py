"""The typed program: variables, equations, Jaxprs, and their evaluation by binding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from weft.core.effects import Effects, no_effects
from weft.core.trace import state, typeof


class Var:
    """A variable of a program; its identity is its name, letters are given when printing.

    Args:
        aval: its type.

    Example:
        >>> import weft
        >>> weft.make_jaxpr(lambda x: x + 1)(1.0).jaxpr.invars[0].aval
        ShapedArray(float32[], weak_type=True)
    """

    __slots__ = ("aval", "__weakref__")

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short(short_dtypes=True)}"


class DropVar(Var):
    """A result of an equation that nobody reads.

    >>> import weft.numpy as jnp
    >>> from weft.extend.core import DropVar
    >>> DropVar(jnp.ones(2).aval).aval
    ShapedArray(float32[2])
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar written into a program.

    Args:
        val: the scalar.
        aval: its type. By default that of ``val``.

    Example:
        >>> import weft
        >>> weft.make_jaxpr(lambda x: x + 1.0)(1.0).jaxpr.eqns[0].invars[1].val
        1.0
    """

    __slots__ = ("val", "aval")

    def __init__(self, val: Any, aval: Any = None) -> None:
        self.val = val
        self.aval = typeof(val) if aval is None else aval

    def __repr__(self) -> str:
        return f"{np.asarray(self.val).item()}:{self.aval.str_short(short_dtypes=True)}"


Atom = Var | Literal


class JaxprEqn:
    """An equation of a program: one step.

    Args:
        invars: the operands, variables or literals.
        outvars: the variables of the results.
        primitive: the primitive.
        params: its parameters.
        effects: the effects of the step.
        source_info: the user's line.

    Example:
        >>> import weft
        >>> weft.make_jaxpr(lambda x: x + 1.0)(1.0).jaxpr.eqns[0].primitive
        add
    """

    __slots__ = ("invars", "outvars", "primitive", "params", "effects", "source_info")

    def __init__(
        self,
        invars: list[Atom],
        outvars: list[Var],
        primitive: Any,
        params: dict[str, Any],
        effects: Effects = no_effects,
        source_info: Any = None,
    ) -> None:
        self.invars = invars
        self.outvars = outvars
        self.primitive = primitive
        self.params = params
        self.effects = effects
        self.source_info = source_info

    def replace(self, **changes: Any) -> JaxprEqn:
        made = JaxprEqn(
            self.invars, self.outvars, self.primitive, self.params, self.effects, self.source_info
        )
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def __repr__(self) -> str:
        return _print(self)


class Jaxpr:
    """A program with its constants as variables.

    Args:
        constvars: the variables of the constants.
        invars: the variables of the arguments.
        outvars: the results, variables or literals.
        eqns: the equations, in order.
        effects: the effects of the program.
        debug_info: the names of the function and its arguments.

    Example:
        >>> import weft
        >>> weft.make_jaxpr(lambda x: x + 1.0)(1.0).jaxpr
        { lambda ; a:f32[]. let b:f32[] = add a 1.0:f32[] in (b,) }
    """

    __slots__ = (
        "constvars",
        "invars",
        "outvars",
        "eqns",
        "effects",
        "debug_info",
        "_values_by_cache",
        "__weakref__",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Effects = no_effects,
        debug_info: Any = None,
    ) -> None:
        self.constvars = list(constvars)
        self.invars = list(invars)
        self.outvars = list(outvars)
        self.eqns = list(eqns)
        self.effects = effects
        self.debug_info = debug_info
        self._values_by_cache: dict[Any, Any] = {}  # by ProgramCache

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> Jaxpr:
        names = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info")
        fields = {name: getattr(self, name) for name in names}
        return Jaxpr(**(fields | changes))

    def pretty_print(self, **settings: Any) -> str:
        return _print(self, **settings)

    def __repr__(self) -> str:
        return _print(self)


class ClosedJaxpr:
    """A program together with the values of its constants.

    Args:
        jaxpr: the program.
        consts: the values.

    Example:
        >>> import weft
        >>> weft.make_jaxpr(lambda x: x + 1.0)(1.0).consts
        []
    """

    __slots__ = ("jaxpr", "consts", "marks", "_values_by_cache", "__weakref__")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(
                f"a Jaxpr of {len(jaxpr.constvars)} constants was given {len(consts)} values"
            )
        self.jaxpr = jaxpr
        self.consts = list(consts)
        self.marks: frozenset[Any] = frozenset()
        self._values_by_cache: dict[Any, Any] = {}  # by ProgramCache

    @property
    def in_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.invars]

    @property
    def out_avals(self) -> list[Any]:
        return [v.aval for v in self.jaxpr.outvars]

    @property
    def constvars(self) -> list[Var]:
        return self.jaxpr.constvars

    @property
    def invars(self) -> list[Var]:
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        return self.jaxpr.outvars

    @property
    def literals(self) -> list[Any]:
        return self.consts

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self.jaxpr.eqns

    @property
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @property
    def debug_info(self) -> Any:
        return self.jaxpr.debug_info

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Any = None) -> ClosedJaxpr:
        copy = ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )
        copy.marks = self.marks
        return copy

    def map_jaxpr(self, f: Any) -> ClosedJaxpr:
        return self.replace(jaxpr=f(self.jaxpr))

    def pretty_print(self, **settings: Any) -> str:
        return _print(self, **settings)

    def __repr__(self) -> str:
        return _print(self)


def _print(thing: Any, **settings: Any) -> str:
    return printer(thing, **settings)


def _plain(thing: Any, **settings: Any) -> str:
    return f"<{type(thing).__name__}>"


printer: Any = _plain


def set_printer(function: Any) -> None:
    """Say how programs are printed: as ``core.printing`` does, once it is needed."""
    global printer
    printer = function


# --- looking at programs --------------------------------------------------------------------------


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yield the programs that an equation carries in its parameters.

    Args:
        params: the parameters.

    Returns:
        An iterator of ``Jaxpr``.

    Example:
        >>> import weft
        >>> eqn = weft.make_jaxpr(weft.jit(lambda x: x + 1.0))(1.0).jaxpr.eqns[0]
        >>> len(list(jaxprs_in_params(eqn.params)))
        1
    """
    for value in params.values():
        yield from _jaxprs_in(value)


def _jaxprs_in(value: Any) -> Iterator[Jaxpr]:
    if type(value) is ClosedJaxpr:
        yield value.jaxpr
    elif type(value) is Jaxpr:
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _jaxprs_in(item)


def with_programs(params: dict[str, Any], change: Callable[..., ClosedJaxpr]) -> dict[str, Any]:
    """Parameters with what a function makes of their programs in place of these."""

    def changed(value: Any) -> Any:
        if type(value) is ClosedJaxpr:
            return change(value)
        if type(value) is Jaxpr and not value.constvars:
            return change(ClosedJaxpr(value, ())).jaxpr
        return tuple([changed(item) for item in value]) if type(value) is tuple else value

    return {name: changed(value) for name, value in params.items()}


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Yield the programs that the equations of a program carry in their parameters.

    Args:
        jaxpr: the program.

    Returns:
        An iterator of ``Jaxpr``.

    Example:
        >>> import weft
        >>> len(list(subjaxprs(weft.make_jaxpr(weft.jit(lambda x: x + 1.0))(1.0).jaxpr)))
        1
    """
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def count_eqns(jaxpr: Jaxpr) -> int:
    """Equations of a program and of all programs inside it."""
    total, stack = 0, [jaxpr]
    while stack:
        current = stack.pop()
        total += len(current.eqns)
        stack.extend(subjaxprs(current))
    return total


def join_effects(effects: Iterable[Effects]) -> Effects:
    joined = no_effects
    for each in effects:
        if each and not each <= joined:
            joined = joined | each
    return joined


# --- evaluation by binding ------------------------------------------------------------------------


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Return the results of a program; its equations are bound one after the other.

    Args:
        jaxpr: the program.
        consts: the values of its constants.
        *args: its arguments.

    Returns:
        A list of results.

    Example:
        >>> import weft
        >>> closed = weft.make_jaxpr(lambda x: x + 1.0)(1.0)
        >>> float(eval_jaxpr(closed.jaxpr, closed.consts, 2.0)[0])
        3.0
    """
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    previous, strictly = state.source, state.loosely
    state.loosely = True  # what types say of shardings was checked when this was staged
    try:
        for eqn in jaxpr.eqns:
            values = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
            state.source = eqn.source_info
            primitive = eqn.primitive
            leading, params = primitive.get_bind_params(eqn.params)
            out = primitive.bind(*leading, *values, **params)
            if primitive.multiple_results:
                env.update(zip(eqn.outvars, out, strict=True))
            else:
                env[eqn.outvars[0]] = out
    finally:
        state.source, state.loosely = previous, strictly
    return [x.val if type(x) is Literal else env[x] for x in jaxpr.outvars]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Any:
    """Return a function of flat arguments that binds the program's equations.

    Args:
        closed: the program.

    Returns:
        A function that returns a list.

    Example:
        >>> import weft
        >>> float(jaxpr_as_fun(weft.make_jaxpr(lambda x: x + 1.0)(1.0))(2.0)[0])
        3.0
    """

    def fun(*args: Any) -> list[Any]:
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)

    return fun
