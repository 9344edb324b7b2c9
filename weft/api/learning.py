"""Public functions on concrete arrays by one native program, instead of operation by operation.

While something is traced, and for arguments whose values decide what is done, a function is the
Python that it is written in. On concrete arrays it is staged as a whole for the types that it is
given, at the latest when they come for the second time; native code answers from then on. What
would be rounded in another order natively is never run in another way first, so that the same call
gives the same bits every time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from weft.api.arguments import as_arrays
from weft.api.jit import JitFunction, Staged
from weft.api.making import Making
from weft.base import checking, events, knobs, observing
from weft.base.functional import WeakMembers, name_of, register_cache, wraps
from weft.base.lazy import Late
from weft.base.source import refusing_warnings
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.high import flatten
from weft.core.interpret import forbidden
from weft.core.jaxpr import ClosedJaxpr, count_eqns, jaxpr_as_fun
from weft.core.registry import lookup
from weft.core.sharding import UNSPECIFIED, PartitionSpec
from weft.core.staging import stage
from weft.core.trace import eval_trace, state, typeof
from weft.dtypes import canonicalize_dtype
from weft.runtime import evaluate, guards, policy, site
from weft.runtime.array import ArrayImpl
from weft.runtime.client import host
from weft.runtime.function import NativeFunction
from weft.runtime.patterns import CallPattern
from weft.tree.functions import tree_leaves, tree_unflatten

# loaded with the first function that learns
shapes = Late("weft.runtime.shapes")

# Types that one function remembers having met; past it, it starts anew.
SEEN = 1024
# Programs that one function may have, and those for the same arrays with other settings.
PROGRAMS, VARIANTS = 96, 12
# Items of a list that may be a setting, or that one array is made of if they are arrays.
FEW = 32

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
_ARRAYS = (ArrayImpl, np.ndarray, np.generic)
_SETTINGS = (bool, int, str, type(None), type, np.dtype)
# Numbers that change nothing: added, multiplied by, or of which the larger or smaller is taken.
_NEUTRAL = (0, 1, np.inf, -np.inf)


class Unknown(Exception):
    """A call that native code does not take."""


class Learning(NativeFunction):
    """A public function that learns to be native."""

    __slots__ = (
        "_fun",
        "_alone",
        "_exact",
        "_loose",
        "_reading",
        "_seen",
        "_variants",
        "_staged",
        "_named",
        "_converts",
        "__weakref__",
    )

    def __init__(self, fun: Callable[..., Any]) -> None:
        name, home = fun.__name__, fun.__module__
        self._fun = fun
        marks = getattr(fun, "__annotations__", {})
        kinds = list(marks.values())
        numbers = home in _SCALAR and "Exponent" not in kinds
        self._reading = Reading(
            known="Neutral" in kinds,
            numbers=numbers,
            span=_SPANS["Natural" if "Natural" in kinds else "Whole"],
            whole=[x for place in enumerate(marks) if marks[place[1]] in _SPANS for x in place],
            filling=marks.get("fill_value") == "Setting",
        )
        self._alone = home in _MAKERS or name in _COUNTERS
        # of a model, which need not have values, only the shape and dtype are asked for
        self._converts = fun.__module__.startswith(_OPEN) and not name.endswith("_like")
        self._exact = "Exact" in kinds
        self._loose = numbers or self._exact or "Number" in kinds
        self._forget()
        _functions.add(self)

    def _forget(self) -> None:
        # of each call that has come: None where it is Python's, else its program
        self._seen: dict[Any, Program | Sized | None] = {}
        self._variants: dict[Any, int] = {}
        self._staged: dict[Any, JitFunction] = {}
        self._named = shapes.Kinds()

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        thread = knobs.thread
        if thread.no_tracing:  # else a refusal to trace would be remembered
            return self._fun(*args, **kwargs)
        if observing.begins():
            return guards.observed(self, name_of(self._fun), args, kwargs)
        if knobs.thread.context_key.plain is not None:
            return guards.natively(self, args, kwargs)
        if state.trace is not eval_trace or state.axis_env:
            return self._fun(*args, **kwargs)
        if (thread.debug_nans or thread.debug_infs) and not thread.disable_jit:
            return self._checked(args, kwargs)
        if not host().learns:
            return self._fun(*args, **kwargs)
        if thread.disable_jit or thread.debug_key_reuse or events.begin():
            return self._fun(*args, **kwargs)
        try:
            call = Call(args, kwargs, self._reading)
            if not (self._alone or call.leaves):
                raise Unknown
        except Unknown:
            given = as_arrays(args, kwargs) if self._converts else None
            if given is not None:
                return self(*given[0], **given[1])
            return self._fun(*args, **kwargs)
        if thread.transfer_guard_host_to_device not in (None, "allow"):
            guards.from_host(call.leaves, self._fun.__name__)
            return self._fun(*args, **kwargs)
        types = (knobs.context_key(), tuple(call.types))
        if self._loose and self._variants.get(types, 0) >= VARIANTS:
            # numbers that change all the time
            call = call.with_operands(self._exact) or call
            types = (knobs.context_key(), tuple(call.types))
        # which arguments the settings are tells f(2, x) from f(x, 2)
        key = (types, tuple(call.settings), call.positions, call.names)
        if key in self._seen:
            known = self._seen[key]
            if isinstance(known, Sized):
                return self._again(call, known, key, types)
            program = known
        elif observing.holds():
            return self._fun(*args, **kwargs)
        else:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            sized = self._sized(call)
            if sized is not None:
                self._seen[key] = sized
                return sized(call.leaves)
            program = self._seen[key] = self._program(call, types)
            if program is not None and program.is_quick and checking.asked() is None:
                # the code of a program is known once it has run on arrays of other sizes
                short = program.length < policy.MIN_PLANNED_OPERATIONS
                if short or not any(_has_run(p) for p in self._seen.values()):
                    return self._fun(*args, **kwargs)
        if program is None:
            return self._fun(*args, **kwargs)
        staged = program.staged
        closed = staged.closed
        if program.given is not None:
            return self._same(call, program, key)
        if not program.has_run:
            if program.is_quick and checking.asked() is None:
                if observing.holds() or not policy.account.allows():
                    return self._fun(*args, **kwargs)
                if not evaluate.compile_eagerly(closed):
                    return self._fun(*args, **kwargs)
            program.has_run = True
        outs = evaluate.call_program(closed, call.leaves)
        if staged.tries:
            tree, out_tree = staged.in_tree, staged.out_tree
            found = CallPattern(self, call.recipe(), tree, call.expected(), closed, out_tree)
            staged.tries -= evaluate.remember(found)
        return tree_unflatten(staged.out_tree, outs)

    def _sized(self, call: Call) -> Sized | None:
        """The program of a call by one in named sizes, if there is one that serves it."""
        thread = knobs.thread
        if not thread.shape_generic or evaluate.is_restricted():
            return None

        def trace(avals: list[Any]) -> tuple[ClosedJaxpr, Any]:
            function = self._function(call)
            args, kwargs = call.hashable()
            dynamic, keywords, static = function._split_static(args, kwargs)
            tree = flatten((dynamic, keywords))[1]
            with refusing_warnings():
                staged = function._trace(args, kwargs, dynamic, keywords, static, tree, avals)
            jaxpr = staged.closed.jaxpr
            if not _is_plain(staged) or any(v in jaxpr.invars for v in jaxpr.outvars):
                raise Unknown
            return staged.closed, (staged.in_tree, staged.out_tree)

        # which leaves are in which tuples and lists tells f([x, y]) from f([x], y)
        nested = tuple([kind if type(kind) is tuple else None for kind in call.types])
        structure = (nested, *call.settings, call.positions, call.names)
        served = self._named.find(call.leaves, structure, trace)
        return None if served is None else Sized(*served)

    def _again(self, call: Call, sized: Sized, key: Any, types: Any) -> Any:
        """The result of a call that comes again."""
        if sized.instance.elements() <= policy.FEW_ELEMENTS:
            avals = [typeof(x) for x in call.leaves]
            given = (call.recipe(), sized.in_tree, call.expected())
            host().remember_instance(
                CallPattern(self, *given, None, sized.out_tree), avals, sized.instance
            )
            return sized(call.leaves)
        # code for large arrays is worth making
        program = self._seen[key] = self._program(call, types)
        return self._slow(*call.args, **call.kwargs) if program else sized(call.leaves)

    def _checked(self, args: Any, kwargs: Any) -> Any:
        """The result of a call under ``debug_nans``, which looks at results of functions as wholes.

        Only where they hold what is forbidden is every operation looked at, to name the one.
        """
        # operations of functions that are given are the user's
        if not any(callable(x) for x in (*args, *kwargs.values())):
            with knobs.scope(debug_nans=False, debug_infs=False):
                result = self(*args, **kwargs)
            leaves = [x._value for x in tree_leaves(result) if type(x) is ArrayImpl]
            if not forbidden(leaves):
                return result
        return self._fun(*args, **kwargs)

    def _same(self, call: Call, program: Program, key: Any) -> Any:
        """The result of a call that gives one of its arguments back."""
        result = self._fun(*call.args, **call.kwargs)
        staged, number = program.staged, program.given
        if type(result) is not ArrayImpl or result is not call.leaves[number]:
            self._seen[key] = None
        elif staged.tries:
            given = (call.recipe(), staged.in_tree, call.expected(), staged.closed)
            staged.tries -= evaluate.remember(CallPattern(self, *given, given=number))
        return result

    def _program(self, call: Call, types: Any) -> Program | None:
        """The program of calls like this one; None if there is none, or if there are too many."""
        count = self._variants.get(types, 0)
        if count >= VARIANTS or len(self._variants) >= PROGRAMS:
            return None
        function = self._function(call)
        try:
            with refusing_warnings():
                _, staged = function._stage(*call.hashable())
        except Exception:
            # the values decide, the call is wrong, or there is a warning: Python says which
            return None
        if not _is_plain(staged):
            return None
        self._variants[types] = count + 1
        if any(_is_wide(x) for x in call.leaves):
            closed = staged_reading(jaxpr_as_fun(staged.closed), call.leaves)
            rest = (staged.hoisted, staged.params, staged.in_tree, staged.out_tree)
            staged = Staged(closed, *rest)
        host().generalise(staged.closed)
        return Program(staged, site.are_away(call.leaves))

    def _function(self, call: Call) -> JitFunction:
        """The function, to be staged with the settings of a call."""
        static = call.positions, call.names
        found = self._staged.get(static)
        if found is None:
            options = {**_OPTIONS, "static_argnums": call.positions, "static_argnames": call.names}
            found = self._staged[static] = JitFunction(_checked(self._fun), options)
        return found


def _has_run(program: Program | Sized | None) -> bool:
    """Whether the program of a call, if it has one for its sizes, has been called."""
    return isinstance(program, Program) and program.has_run


def _is_plain(staged: Staged) -> bool:
    """Whether a program is one of arrays alone."""
    avals = staged.closed.in_avals + staged.closed.out_avals
    plain = not staged.hoisted and not staged.closed.effects
    return plain and all(type(a) is ShapedArray for a in avals)


def staged_reading(fun: Callable[..., Any], args: Any) -> Any:
    """The program of a function; arrays of NumPy's are read as they are and converted by it."""
    arrays = [type(x) is np.ndarray for x in args]
    avals = [
        ShapedArray(x.shape, x.dtype) if is_array else typeof(x)
        for x, is_array in zip(args, arrays, strict=True)
    ]
    convert = lookup("convert_element_type")

    def converted(x: Any) -> Any:
        dtype = canonicalize_dtype(x.dtype)
        if dtype == x.dtype:
            return x
        return convert.bind(x, new_dtype=dtype, weak_type=False, sharding=None)

    def read(*given: Any) -> Any:
        return fun(*[converted(x) if a else x for x, a in zip(given, arrays, strict=True)])

    return stage(read, avals)


def _is_wide(x: Any) -> bool:
    """Whether an array of NumPy's has another dtype than the one that is made of it."""
    return type(x) is np.ndarray and x.dtype.isbuiltin and canonicalize_dtype(x.dtype) != x.dtype


class Sized:
    """A program in named sizes, for those of a call."""

    __slots__ = ("instance", "in_tree", "out_tree")

    def __init__(self, instance: Any, trees: Any) -> None:
        self.instance = instance
        self.in_tree, self.out_tree = trees

    def __call__(self, leaves: list[Any]) -> Any:
        return tree_unflatten(self.out_tree, host().call_instance(self.instance, leaves))


class Program:
    """What a call of some types was staged as.

    ``is_quick`` tells whether it may be run operation by operation, ``given`` is the number of the
    argument that it gives back.
    """

    __slots__ = ("staged", "is_quick", "length", "has_run", "given")

    def __init__(self, staged: Staged, away: bool = False) -> None:
        self.staged = staged
        closed = staged.closed
        # elsewhere than on the host, several operations are several programs
        self.is_quick = not away and policy.runs_by_operations(closed)
        self.length = count_eqns(closed.jaxpr) if self.is_quick else 0
        self.has_run = False
        jaxpr = closed.jaxpr
        self.given: Any = None
        if len(jaxpr.outvars) == 1 and jaxpr.outvars[0] in jaxpr.invars:
            self.given = jaxpr.invars.index(jaxpr.outvars[0])


class Reading(NamedTuple):
    """How a function's arguments are read."""

    known: bool  # some numbers are settings, as these values decide what is done
    numbers: bool  # whole numbers are operands where there are no arrays
    span: range  # whole numbers that are operands by the places and names of their arguments
    whole: list[int | str]
    filling: bool  # ``fill_value`` is part of the program


class Call:
    """The arguments of a call: leaves, their types, and what is no array and no number."""

    __slots__ = (
        "args",
        "kwargs",
        "reading",
        "whole",
        "leaves",
        "types",
        "settings",
        "positions",
        "names",
    )

    def __init__(self, args: Any, kwargs: Any, reading: Reading, whole: bool = False) -> None:
        self.args, self.kwargs = args, kwargs
        self.reading = reading
        self.leaves: list[Any] = []
        self.types: list[Any] = []
        self.settings: list[Any] = []
        # whether whole numbers are operands now
        self.whole = whole or (reading.numbers and not any(isinstance(x, _ARRAYS) for x in args))
        if reading.whole:
            positions = [i for i, x in enumerate(args) if self.argument(i, x)]
        else:
            positions = [i for i, x in enumerate(args) if self.setting(x)]
        self.positions = tuple(positions)
        self.whole = False
        self.names: tuple[str, ...] = ()
        if kwargs:
            named = sorted(kwargs)
            self.names = tuple([k for k in named if self.argument(k, kwargs[k])])
            self.settings.append(tuple(named))

    def argument(self, place: int | str, x: Any) -> bool:
        """Note an argument at a place, or by a name; whether it is a setting."""
        if place == "fill_value" and self.reading.filling:
            return self.fixed(x)
        if place not in self.reading.whole:
            return self.setting(x)
        self.whole = True
        if type(x) in (tuple, list) and any(type(y) is int for y in x):
            found = self.container(x)
        else:
            found = self.setting(x)
        self.whole = False
        return found

    def fixed(self, x: Any) -> bool:
        """Note a number that is a setting."""
        if type(x) not in (int, float, bool, type(None)) or (x == 0 and str(x)[0] == "-"):
            raise Unknown  # minus zero is another setting than zero, which it equals
        self.settings.append((type(x), x))
        return True

    def container(self, x: Any) -> bool:
        """Note the items of a tuple or list, which are arrays and numbers."""
        self.types.append((type(x), len(x)))
        if any(self.setting(y) for y in x):
            raise Unknown
        return False

    def setting(self, x: Any) -> bool:
        """Note an argument; whether it is a setting, and not arrays and numbers."""
        kind = type(x)
        if self.reading.known and getattr(x, "shape", None) == ():
            if not isinstance(x, np.generic):
                raise Unknown  # its value decides
            self.settings.append((kind, x))
            return True
        if kind is ArrayImpl:
            self.types.append(x._type)
        elif kind is float and not (self.reading.known and x in _NEUTRAL):
            self.types.append(float)
        elif kind is int and self.whole:
            if x not in self.reading.span:
                raise Unknown
            self.types.append(int)
        elif kind is np.ndarray or isinstance(x, np.generic):
            self.types.append((np.ndarray, x.shape, x.dtype))
        elif kind in (tuple, list) and _holds_arrays(x):
            return self.container(x)
        elif (
            kind in _SETTINGS
            or kind is float
            or isinstance(x, (np.dtype, type, enum.Enum))
            or _is_ours(x)
        ):
            self.settings.append((kind, x))
            return True
        elif kind is PartitionSpec and (x.unreduced or x.reduced):
            raise Unknown  # native code compares it as a tuple
        elif isinstance(x, tuple) or (kind is list and len(x) <= FEW):
            whole, self.whole = self.whole, False
            if not all(self.setting(y) for y in x):
                raise Unknown
            self.whole = whole
            self.settings.append((kind, len(x)))
            return True
        else:
            raise Unknown
        self.leaves.append(x)
        return False

    def with_operands(self, exact: bool) -> Call | None:
        """The call with its whole numbers as operands, if that makes no difference.

        Unless ``exact``, they are the same beside some arrays only.
        """
        if all(type(self.args[i]) is not int for i in self.positions):
            return None
        if not exact and any(getattr(a, "dtype", None) not in _WIDE for a in self.types):
            return None
        try:
            return Call(self.args, self.kwargs, self.reading, True)
        except Unknown:
            return None

    def expected(self) -> list[Any]:
        """The leaves as native code is told of them: whole numbers are any that are operands."""
        return [self.reading.span if type(x) is int else x for x in self.leaves]

    def hashable(self) -> tuple[Any, Any]:
        """The arguments with settings that can be looked up."""
        args = [
            Listed(x) if type(x) is list and i in self.positions else x
            for i, x in enumerate(self.args)
        ]
        named = self.kwargs.items()
        return args, {k: Listed(x) if type(x) is list and k in self.names else x for k, x in named}

    def recipe(self) -> Any:
        """The arguments as native code is told of them: each with whether it is a setting."""
        positional = [(i in self.positions, x) for i, x in enumerate(self.args)]
        named = [(k, (k in self.names, self.kwargs[k])) for k in sorted(self.kwargs)]
        return positional, named


class Listed(tuple[Any, ...]):
    """A list of settings, which is no tuple of the same ones."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is Listed and tuple.__eq__(self, other)

    def __hash__(self) -> int:
        return tuple.__hash__((Listed, *self))


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
    """``fun``, to be staged: what gives no arrays, or several it was given, is no program."""

    @wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> Any:
        args = tuple([list(x) if type(x) is Listed else x for x in args])
        kwargs = {k: list(x) if type(x) is Listed else x for k, x in kwargs.items()}
        result = fun(*args, **kwargs)
        given = [id(x) for x in tree_leaves((args, kwargs))]
        found = tree_leaves(result)
        same = all(id(x) in given for x in found) and not isinstance(result, Array)
        if same or not all(isinstance(x, Array) for x in found):
            raise Unknown
        return result

    return checked


_functions = WeakMembers()


class _AllCaches:
    """What all functions have learnt, for ``weft.clear_caches``."""

    def cache_clear(self) -> None:
        for function in _functions:
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


class Taking:
    """A function that makes an array of anything: it learns where that is an array, or a few."""

    __slots__ = ("_fun", "_learning")

    def __init__(self, fun: Callable[..., Any]) -> None:
        self._fun = fun
        self._learning = Learning(fun)

    def take(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call."""
        if args:
            first = args[0]
            kind = type(first)
            if kind is ArrayImpl:
                return self._learning(*args, **kwargs)
            if (kind is list or kind is tuple) and len(first) <= FEW:
                if ArrayImpl in map(type, first):
                    return self._learning(*args, **kwargs)
        return self._fun(*args, **kwargs)


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
# Those of them that take objects in the place of arrays.
_OPEN = ("weft.numpy", "weft.nn", "weft.scipy", "weft.image")
_MODULES = frozenset(
    """
    weft.numpy.promotion weft.numpy.types
    weft.nn.initializers weft.lax.parallel weft.lax.control_flow weft.lax.loops weft.lax.composites
    weft.lax.transfer weft.scipy.optimize weft.scipy.sparse.linalg
    """.split()
)
_FUNCTIONS = frozenset(
    """
    fromfunction frombuffer fromstring fromfile fromiter from_dlpack load save savez array_repr
    array_str shape ndim size iterable broadcast_shapes einsum_path
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
# Whole numbers that are operands by how an argument is marked: one of 32 bits would be another
# number, or not be.
_SPANS = {"Whole": range(-(1 << 31), 1 << 31), "Natural": range(1 << 31)}
# dtypes beside which a whole number of 32 bits is the same as an operand.
_WIDE = frozenset(np.dtype(c) for c in "?fdilq")
# Modules of functions of numbers, be they arrays or not.
_SCALAR = frozenset(["weft.numpy.unary", "weft.numpy.ufuncs", "weft.numpy.parts"])
_OF_NUMBERS = frozenset(["zeros", "ones", "empty", "full", "arange"])
_OF_ANYTHING = frozenset(["array", "asarray"])


def learning(fun: Callable[..., Any]) -> Callable[..., Any] | None:
    """``fun`` as one that learns, where it is a function of arrays."""
    home, name = fun.__module__, fun.__name__
    if not home.startswith(_ROOMS) or home in _MODULES or name in _FUNCTIONS:
        return None
    if name in _OF_NUMBERS:
        return Making(fun).make
    if name in _OF_ANYTHING:
        return Taking(fun).take
    marks = getattr(fun, "__annotations__", {})
    return Power(fun) if "Exponent" in marks.values() else Learning(fun)
