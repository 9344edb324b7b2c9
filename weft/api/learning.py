"""Public functions on concrete arrays by one native program, instead of operation by operation.

While something is traced, and for arguments whose values decide what is done, a function is the
Python that it is written in. On concrete arrays it is staged as a whole for the types that it is
given, at the latest when they come for the second time; native code answers from then on. What
would be rounded in another order natively is never run in another way first, so that the same call
gives the same bits every time.
"""

from __future__ import annotations

import enum
import functools
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from weft.api.jit import JitFunction, Staged
from weft.base import events, knobs
from weft.base.functional import register_cache
from weft.base.source import refusing_warnings
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import UNSPECIFIED
from weft.core.trace import eval_trace, state
from weft.runtime import evaluate
from weft.runtime.array import ArrayImpl
from weft.runtime.exact import is_exact, programs_of
from weft.runtime.function import NativeFunction
from weft.tree.functions import tree_leaves, tree_unflatten

# Types that one function remembers having met; past it, it starts anew.
SEEN = 1024
# Programs that one function may have, and those for the same arrays with other settings.
PROGRAMS, VARIANTS = 96, 12
# Operations from which on a program is sooner planned, its code being known, than these are run one
# by one on arrays of a new size.
LONG = 40

_OPTIONS: dict[str, Any] = {
    "in_shardings": UNSPECIFIED,
    "out_shardings": UNSPECIFIED,
    "donate_argnums": None,
    "donate_argnames": None,
    "keep_unused": False,
    "device": None,
    "backend": None,
    "inline": False,
    "compiler_options": None,
}
_SETTINGS = (bool, int, str, type(None), type, np.dtype)


class Unknown(Exception):
    """A call that native code does not take."""


class Learning(NativeFunction):
    """A public function that learns to be native."""

    __slots__ = ("_fun", "_alone", "_known", "_seen", "_variants", "_staged", "__weakref__")

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        self._known = fun.__name__ in _LOOKING
        self._alone = fun.__module__ in _MAKERS or fun.__name__ in _COUNTERS
        self._forget()
        _functions.add(self)

    def _forget(self) -> None:
        # of each call that has come: None where it is Python's, else its program
        self._seen: dict[Any, Program | None] = {}
        self._variants: dict[Any, int] = {}
        self._staged: dict[Any, JitFunction] = {}

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        thread = knobs.thread
        if state.trace is not eval_trace or thread.backend != "native" or state.axis_env:
            return self._fun(*args, **kwargs)
        if thread.disable_jit or thread.debug_nans or thread.debug_infs or events.begin():
            return self._fun(*args, **kwargs)
        try:
            call = Call(args, kwargs, self._known)
            if not (self._alone or call.has_arrays):
                raise Unknown
        except Unknown:
            return self._fun(*args, **kwargs)
        types = (knobs.context_key(), tuple(call.types))
        # which arguments the settings are tells f(2, x) from f(x, 2)
        key = (types, tuple(call.settings), call.positions, call.names)
        if key in self._seen:
            program = self._seen[key]
        else:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            program = self._seen[key] = self._program(call, types)
            if program is not None and program.is_quick:
                # the code of a program is known once it has run on arrays of other sizes
                if program.length < LONG or not any(p and p.has_run for p in self._seen.values()):
                    return self._fun(*args, **kwargs)
        if program is None:
            return self._fun(*args, **kwargs)
        program.has_run = True
        staged = program.staged
        closed = staged.closed
        outs = evaluate.call_program(closed, call.leaves, closed.in_avals)
        if staged.tries:
            tree, out_tree = staged.in_tree, staged.out_tree
            recipe = call.recipe()
            staged.tries -= evaluate.remember(self, recipe, tree, call.leaves, closed, out_tree)
        return tree_unflatten(staged.out_tree, outs)

    def _program(self, call: Call, types: Any) -> Program | None:
        """The program of calls like this one; None if there is none, or if there are too many."""
        count = self._variants.get(types, 0)
        if count >= VARIANTS or len(self._variants) >= PROGRAMS:
            return None
        static = call.positions, call.names
        function = self._staged.get(static)
        if function is None:
            options = {**_OPTIONS, "static_argnums": call.positions, "static_argnames": call.names}
            function = self._staged[static] = JitFunction(_checked(self._fun), options)
        try:
            with refusing_warnings():
                _, staged = function._stage(call.args, call.kwargs)
        except Exception:
            # the values decide, the call is wrong, or there is a warning: Python says which
            return None
        avals = staged.closed.in_avals + staged.closed.out_avals
        if (
            staged.hoisted
            or staged.closed.effects
            or not all(type(a) is ShapedArray for a in avals)
        ):
            return None
        self._variants[types] = count + 1
        evaluate.generalise(staged.closed)
        return Program(staged)


class Program:
    """What a call of some types was staged as.

    ``is_quick`` tells whether it may be run operation by operation: its results have the same bits
    in whatever order it is computed, its arrays are small, and it is more than one operation that
    would become a program of its own.
    """

    __slots__ = ("staged", "is_quick", "length", "has_run")

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        closed = staged.closed
        many = sum([a.size for a in closed.in_avals + closed.out_avals]) >= evaluate.MANY
        costly = any(eqn.primitive.costly for eqn in closed.eqns)
        self.is_quick = not many and not costly and is_exact(closed)
        self.length = _length(closed) if self.is_quick else 0
        self.has_run = False


def _length(closed: ClosedJaxpr) -> int:
    """How many operations a program is made of."""
    inner = [x for eqn in closed.eqns for x in programs_of(eqn)]
    return len(closed.eqns) + sum([_length(x) for x in inner])


class Call:
    """The arguments of a call: leaves, their types, and what is no array and no number."""

    __slots__ = ("args", "kwargs", "known", "leaves", "types", "settings", "positions", "names")

    def __init__(self, args: Any, kwargs: Any, known: bool = False) -> None:
        self.args, self.kwargs = args, kwargs
        self.known = known  # whether 0 and 1 are settings, as these values decide what is done
        self.leaves: list[Any] = []
        self.types: list[Any] = []
        self.settings: list[Any] = []
        self.positions = tuple([i for i, x in enumerate(args) if self.setting(x)])
        self.names: tuple[str, ...] = ()
        if kwargs:
            named = sorted(kwargs)
            self.names = tuple([k for k in named if self.setting(kwargs[k])])
            self.settings.append(tuple(named))

    def setting(self, x: Any) -> bool:
        """Note an argument; whether it is a setting, and not arrays and numbers."""
        kind = type(x)
        if kind is ArrayImpl:
            self.types.append(x.aval)
        elif kind is float and not (self.known and x in (0, 1)):
            self.types.append(float)
        elif kind is np.ndarray or isinstance(x, np.generic):
            self.types.append((np.ndarray, x.shape, x.dtype))
        elif kind in (tuple, list) and _holds_arrays(x):
            self.types.append((kind, len(x)))
            if any(self.setting(y) for y in x):
                raise Unknown
            return False
        elif (
            kind in _SETTINGS
            or kind is float
            or isinstance(x, (np.dtype, type, enum.Enum))
            or _is_ours(x)
        ):
            self.settings.append((kind, x))
            return True
        elif isinstance(x, tuple):
            if not all(self.setting(y) for y in x):
                raise Unknown
            self.settings.append((kind, len(x)))
            return True
        else:
            raise Unknown
        self.leaves.append(x)
        return False

    @property
    def has_arrays(self) -> bool:
        return any(type(x) is ArrayImpl or type(x) is np.ndarray for x in self.leaves)

    def recipe(self) -> Any:
        """The arguments as native code is told of them: each with whether it is a setting."""
        positional = [(i in self.positions, x) for i, x in enumerate(self.args)]
        named = [(k, (k in self.names, self.kwargs[k])) for k in sorted(self.kwargs)]
        return positional, named


def _is_ours(x: Any) -> bool:
    """Whether an argument is a function of weft's own, which is the same at every call."""
    return type(x) is FunctionType and (x.__module__ or "").startswith("weft.")


def _holds_arrays(x: Any) -> bool:
    """Whether there are arrays in a tuple or list, or in such ones inside it."""
    for y in x:
        if isinstance(y, (ArrayImpl, np.ndarray)):
            return True
        if isinstance(y, (tuple, list)) and _holds_arrays(y):
            return True
    return False


def _checked(fun: Callable[..., Any]) -> Callable[..., Any]:
    """``fun``, to be staged: what gives no arrays, or those it was given, is no program."""

    @functools.wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> Any:
        result = fun(*args, **kwargs)
        given = [id(x) for x in tree_leaves((args, kwargs))]
        found = tree_leaves(result)
        if not all(isinstance(x, Array) for x in found) or all(id(x) in given for x in found):
            raise Unknown
        return result

    return checked


_functions: weakref.WeakSet[Learning] = weakref.WeakSet()


class _AllCaches:
    """What all functions have learnt, for ``weft.clear_caches``."""

    def cache_clear(self) -> None:
        for function in list(_functions):
            function._forget()
            if hasattr(function, "_entries"):
                del function._entries


_all_caches = _AllCaches()
register_cache(_all_caches)


class Power(Learning):
    """A power, which looks at the value of an exponent that is one integer."""

    __slots__ = ()

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not getattr(args[1], "shape", True):
            return self._fun(*args, **kwargs)
        return super()._slow(*args, **kwargs)


# Rooms whose functions learn; modules and functions of theirs that are given functions, that say
# what an array is like, or that make arrays of other data.
_ROOMS = (
    "weft.numpy",
    "weft.lax",
    "weft.nn",
    "weft.random",
    "weft.scipy",
    "weft.image",
    "weft.ops",
)
_MODULES = frozenset(
    """
    weft.numpy.promotion weft.numpy.types weft.random.keys
    weft.nn.initializers weft.lax.parallel weft.lax.control_flow weft.lax.loops weft.lax.composites
    weft.lax.transfer weft.scipy.optimize weft.scipy.sparse.linalg
    """.split()
)
_FUNCTIONS = frozenset(
    """
    array asarray copy zeros ones empty full empty_like arange fromfunction frombuffer fromstring
    fromfile fromiter from_dlpack load save savez array_repr array_str shape ndim size iterable
    broadcast_shapes einsum_path
    """.split()
)
# Modules whose functions make arrays of numbers alone, and that by many operations.
_MAKERS = frozenset(
    """
    weft.numpy.ranges weft.numpy.windows weft.numpy.matrices weft.numpy.fft
    weft.scipy.special_matrices
    """.split()
)
# Functions elsewhere that do.
_COUNTERS = frozenset(["iota", "broadcasted_iota"])
# Functions that look at a number: whether it is the one that changes nothing.
_LOOKING = frozenset(["reduce", "reduce_window"])
_POWERS = frozenset(["power", "pow", "float_power"])


def learning(fun: Callable[..., Any]) -> Learning | None:
    """``fun`` as one that learns, where it is a function of arrays."""
    home, name = fun.__module__, fun.__name__
    if not home.startswith(_ROOMS) or home in _MODULES or name in _FUNCTIONS:
        return None
    return Power(fun) if name in _POWERS else Learning(fun)
