"""The identity of a staged program: equal for programs whose plans are interchangeable.

It holds everything that planning looks at: equations, types, parameters, literals, which constants
are the same object, and the knobs. It leaves out what an array holds and what a user's function
does. A program that could depend on more has no identity.
"""

from __future__ import annotations

import enum
import os
import sys
from types import FunctionType
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.disk import digest
from weft.base.functional import lru
from weft.base.lazy import BEGAN
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal
from weft.core.primitive import Primitive

FORMAT = "1"
# Values that are written as they are.
_PLAIN = frozenset([type(None), bool, int, float, complex, str, bytes])
# Where primitives are whose rules are weft's own.
_ROOMS = ("weft.prims.", "weft.control.", "weft.compiler.checks.")
# Calls of users' functions: all that a plan says of them is when Python is asked.
_CALLBACKS = "weft.control.callbacks"


class Unknown(Exception):
    """A program with something in it that this file cannot tell from others of its kind."""


class Identity:
    """A program walked once, in an order that another process follows too."""

    def __init__(self, closed: ClosedJaxpr, donated: tuple[bool, ...], general: bool) -> None:
        self.types: dict[int, int] = {}
        self.told: dict[Any, int] = {}  # types by what is written of them
        self.programs: dict[Any, int] = {}
        self.rows: list[Any] = []
        self.consts: list[tuple[Any, Any]] = []  # with their types
        self.const_numbers: dict[int, int] = {}
        self.eqns: list[JaxprEqn] = []  # all that Python may have to run
        self.infos: list[Any] = []  # the users' lines of all equations
        self.names: dict[int, str] = {}
        self.calls_users = False  # whether it may depend on what a user's function does
        self._key: bytes | None = None
        self._program(closed.jaxpr, closed.consts)
        context = [self._value(v) for v in knobs.context_key().values]
        self.context = (FORMAT, donated, general, context)

    def text(self) -> str:
        """All that planning looks at, as text."""
        return repr((*self.context, list(self.told), self.rows))

    def key(self, target: bytes) -> bytes | None:
        """The name of the program's plan for a target on disk; None where plans are not kept."""
        if self._key is None:
            stamp = source_stamp()
            if stamp is None:
                return None
            self._key = digest(target + stamp + self.text().encode("utf-8", "surrogatepass"))
        return self._key

    def _program(self, jaxpr: Jaxpr, consts: Any) -> int:
        """The number of a program, written where it is first met."""
        key = (id(jaxpr), *map(id, consts))
        found = self.programs.get(key)
        if found is not None:
            return found
        numbers: dict[Any, int] = {}
        kind, literal = self._type, self._literal
        rows: list[Any] = []
        for variables in (jaxpr.constvars, jaxpr.invars):
            for v in variables:
                numbers[v] = len(numbers)
            rows.append([kind(v.aval) for v in variables])
        pairs = zip(consts, jaxpr.constvars, strict=True)
        rows.append([self._const(c, v.aval) for c, v in pairs])
        for eqn in jaxpr.eqns:
            ins = [literal(x) if type(x) is Literal else numbers[x] for x in eqn.invars]
            outs = []
            for v in eqn.outvars:
                if type(v) is DropVar:
                    outs.append(-1 - kind(v.aval))
                else:
                    numbers[v] = len(numbers)
                    outs.append(kind(v.aval))
            rows.append((self._operation(eqn), ins, outs))
            self.infos.append(eqn.source_info)
        rows.append([literal(x) if type(x) is Literal else numbers[x] for x in jaxpr.outvars])
        self.programs[key] = len(self.programs)
        self.rows.append(rows)
        return self.programs[key]

    def _operation(self, eqn: JaxprEqn) -> Any:
        primitive, params = eqn.primitive, eqn.params
        name = self.names.get(id(primitive))
        if name is None:
            name = self.names[id(primitive)] = _name(primitive)
        callee = primitive.program([x.aval for x in eqn.invars], params)
        if callee is not None:  # nothing but what it calls is left of it
            return self._program(callee.jaxpr, callee.consts)
        if primitive.form is None:
            self.eqns.append(eqn)
            self.calls_users |= bool(eqn.effects)
            if type(primitive).__module__ == _CALLBACKS:
                self.calls_users = True
                return (name, sorted(map(repr, eqn.effects)))
            if eqn.effects:
                return (name, self._params(primitive, params), sorted(map(repr, eqn.effects)))
        return (name, self._params(primitive, params)) if params else name

    def _params(self, primitive: Any, params: dict[str, Any]) -> list[Any]:
        told: list[Any] = []
        for key, value in params.items():
            kind = type(value)
            if kind is tuple:
                if not _PLAIN.issuperset(map(type, value)):
                    value = self._value(value)
            elif kind not in _PLAIN:
                value = None if key in primitive.unplanned else self._value(value)
            told += (key, value)
        return told

    def _value(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is tuple or kind is list:
            return (kind.__name__, [self._value(v) for v in value])
        if isinstance(value, (np.dtype, dtypes.ExtendedDType)):
            return self._dtype(value)
        if isinstance(value, np.generic):
            return (value.dtype.name, value.tobytes())
        if kind is ClosedJaxpr:
            return ("program", self._program(value.jaxpr, value.consts))
        if kind is Jaxpr:
            return ("program", self._program(value, ()))
        if kind is dict:
            return ("dict", [(self._value(k), self._value(v)) for k, v in value.items()])
        if isinstance(value, Primitive):
            return ("primitive", _name(value))
        named = value if isinstance(value, (type, FunctionType)) else kind
        # a function that exec made in a bare namespace has no module
        if not (getattr(named, "__module__", None) or "").startswith("weft."):
            raise Unknown(kind)
        if isinstance(value, enum.Enum):
            return (kind.__qualname__, value.name)
        if isinstance(value, tuple):  # a record
            return (kind.__qualname__, [self._value(v) for v in value])
        if isinstance(value, (type, FunctionType)) and "<" not in value.__qualname__:
            return (value.__module__, value.__qualname__)
        if kind is ShapedArray:
            return ("type", self._type(value))
        raise Unknown(kind)

    def _dtype(self, dtype: Any) -> Any:
        if isinstance(dtype, np.dtype):
            if dtype.names or dtype.subdtype:
                raise Unknown(dtype)
            return dtype.name
        return (dtype.name, self._value(getattr(dtype, "_impl", dtype)))

    def _type(self, aval: Any) -> int:
        number = self.types.get(id(aval))
        if number is None:
            if type(aval) is not ShapedArray:
                raise Unknown(aval)
            told = repr((aval.shape, self._dtype(aval.dtype), aval.weak_type))
            number = self.types[id(aval)] = self.told.setdefault(told, len(self.told))
        return number

    def _literal(self, x: Literal) -> Any:
        value = x.val
        if isinstance(value, (np.generic, np.ndarray)):
            value = (value.dtype.name, value.tobytes())
        elif type(value) not in _PLAIN:
            raise Unknown(value)
        return (value, self._type(x.aval))

    def _const(self, value: Any, aval: Any) -> int:
        number = self.const_numbers.get(id(value))
        if number is None:
            number = self.const_numbers[id(value)] = len(self.consts)
            self.consts.append((value, aval))
        return number


def _name(primitive: Any) -> str:
    if not type(primitive).__module__.startswith(_ROOMS):
        raise Unknown(primitive)
    return f"{type(primitive).__qualname__} {primitive.name}"


def identify(
    closed: ClosedJaxpr, donated: tuple[bool, ...] = (), general: bool = False
) -> Identity | None:
    """The identity of a program; None where it has none."""
    try:
        return Identity(closed, donated, general)
    except (Unknown, KeyError, RecursionError):
        return None


# Rooms whose files decide what becomes of a program.
_SOURCES = "base dtypes core kernel prims transforms control compiler backends runtime"


@lru(1)
def source_stamp() -> bytes | None:
    """Which weft this is: its files with their sizes and times, as Python knows its byte code.

    None where they are not in a folder, or were changed while this process had them loaded.
    """
    root = os.path.abspath(os.path.join(__file__, *[os.pardir] * 2))
    found = [sys.version, np.__version__, root]
    folders = [os.path.join(root, room) for room in _SOURCES.split()]
    try:
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        status = entry.stat()
                        if status.st_mtime >= BEGAN:
                            return None
                        found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
                    elif "." not in entry.name and not entry.name.startswith("__"):
                        folders.append(entry.path)
    except OSError:
        return None
    return digest("\n".join(sorted(found)).encode("utf-8", "surrogatepass"))
