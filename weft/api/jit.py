"""The public face of compilation: ``jit``, its cache, and the stages of one call."""

from __future__ import annotations

import contextlib
import functools
import operator
import time
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, Unpack, overload

import numpy as np

from weft import dtypes
from weft.api import misses
from weft.api.arguments import (
    Hashed,
    argument_names,
    as_arrays,
    as_tuple,
    check_array_leaves,
    check_callable,
    check_references,
    normalize_positions,
    resolve_names,
    signature,
)
from weft.api.compiler_options import check_options, options_items, refuse_nested_options
from weft.api.reports import check_captured, dump_program, explain_miss, report_trace
from weft.api.staging import mark_lines, stage_call
from weft.base import errors, events, knobs, logs, observing, progress, source
from weft.base.annotations import signature_of
from weft.base.functional import (
    WeakMembers,
    name_of,
    register_cache,
    take_names,
    weakref_lru_cache,
    wraps,
)
from weft.base.lazy import Late
from weft.base.traceback import api_boundary
from weft.control.jit import jit_p
from weft.core.avals import labels_of
from weft.core.high import classes as high_classes
from weft.core.high import flatten, has_lowered
from weft.core.jaxpr import ClosedJaxpr
from weft.core.shape_dtype import abstractify
from weft.core.sharding import UNSPECIFIED
from weft.core.trace import Tracer, eval_trace, is_tracing, state, typeof
from weft.runtime import guards
from weft.runtime.client import host, host_named
from weft.runtime.code import is_shape_generic
from weft.runtime.evaluate import call_donating, remember
from weft.runtime.function import NativeFunction
from weft.runtime.patterns import CallPattern
from weft.tree.functions import tree_unflatten

if TYPE_CHECKING:
    from weft.api.function_types import JitOptions

# loaded where arguments are donated or written to, and ahead of calls
stages = Late("weft.api.stages")
# loaded with values of libraries' types
high = Late("weft.api.high")
# loaded where something is said of where arguments and results are
shardings = Late("weft.api.shardings")

# Entries of one function's cache; a function called with more distinct types starts anew.
CACHE_LIMIT = 4096
# How often native entries are made for a staged call: more than the ways arguments are given.
TRIES = 8
# Places of arguments that are remembered for a staged call, to say why it is compiled again.
MAX_PLACES = 8


# the result of a call of which some are verified; filled by ``weft/__init__.py``
sampled: Callable[[Any, Any, Any], Any]


def set_sampler(call: Callable[[Any, Any, Any], Any]) -> None:
    """Say how calls are made while some of them are verified."""
    global sampled
    sampled = call


class Staged:
    """A staged call: program, hoisted tracers, parameters of the equation, trees of both ends."""

    __slots__ = (
        "closed",
        "hoisted",
        "params",
        "in_tree",
        "out_tree",
        "tries",
        "refs",
        "writing",
        "lent",
        "warned",
        "said",
        "void",
        "places",
    )

    def __init__(
        self, closed: ClosedJaxpr, hoisted: Any, params: Any, in_tree: Any, out_tree: Any
    ) -> None:
        self.tries = TRIES
        self.in_tree = in_tree
        self.closed = closed
        self.hoisted = hoisted
        self.params = params
        self.out_tree = out_tree
        # whether it is given references, and then, once it is called, what it writes
        self.refs = any(aval.is_ref for aval in closed.in_avals)
        self.writing: Any = None
        # parameters of a call that donates, less what is donated in vain
        self.lent: Any = None
        # whether it has been said that memory is donated in vain
        self.warned = False
        # the shardings that were given for the results, None without any
        self.said: Any = None
        # where its arguments have been, of calls that somebody looked at and of the first one
        self.places: list[Any] = []
        # where results without numbers are, which are NumPy arrays
        kinds = [getattr(aval, "dtype", None) for aval in closed.out_avals]
        self.void = [i for i, kind in enumerate(kinds) if kind == dtypes.float0]

    def again(self) -> Staged:
        """The same for another jit of the function, which makes native entries of its own."""
        same = Staged(self.closed, self.hoisted, self.params, self.in_tree, self.out_tree)
        same.warned, same.places = self.warned, self.places
        return same


@weakref_lru_cache
def _staged_of(fun: Callable[..., Any], options: Any) -> dict[Any, Staged]:
    """What is staged of a function while it lives, for whoever jits it again."""
    return {}


def hoist_tracers(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """The program with tracers and references among its constants as leading inputs, and these."""
    jaxpr = closed.jaxpr
    given = zip(closed.consts, jaxpr.constvars, strict=True)
    traced = [isinstance(c, Tracer) or v.aval.is_ref for c, v in given]
    if not any(traced):
        return closed, []
    hoisted_vars = [v for v, t in zip(jaxpr.constvars, traced, strict=True) if t]
    hoisted = [c for c, t in zip(closed.consts, traced, strict=True) if t]
    kept = [i for i, t in enumerate(traced) if not t]
    smaller = jaxpr.replace(
        constvars=[jaxpr.constvars[i] for i in kept],
        invars=[*hoisted_vars, *jaxpr.invars],
        debug_info=None,
    )
    return ClosedJaxpr(smaller, [closed.consts[i] for i in kept]), hoisted


class _Signature:
    """The signature of the function inside; the class itself has that of its constructor."""

    def __get__(self, compiled: Any, owner: Any) -> Any:
        if compiled is None:
            raise AttributeError("__signature__")
        return signature_of(compiled._fun)


class JitFunction(NativeFunction):
    """A function that is staged once for each type of its arguments; ``jit`` makes it.

    Args:
        fun: the function.
        options: the options of ``jit``.

    Example:
        >>> import weft
        >>> type(weft.jit(lambda x: x + 1)).__name__
        'PjitFunction'
    """

    __signature__ = _Signature()

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        take_names(self, fun, updated=())
        _keep_attributes(self, fun)
        self._fun = fun
        self._options = options
        nums, names = options["static_argnums"], options["static_argnames"]
        self._static_nums, self._static_names = resolve_names(fun, nums, names)
        donate = options["donate_argnums"], options["donate_argnames"]
        self._donate_nums, self._donate_names = resolve_names(fun, *donate)
        both = {*self._static_names} & {*self._donate_names}
        if both or {*self._static_nums} & {*self._donate_nums}:
            raise ValueError(
                f"jit got arguments that are both static and donated: {', '.join(sorted(both))};"
                " only arrays can be donated"
            )
        self._compiler_options = options_items(options["compiler_options"])
        # whether it says where arguments and results are
        self._placed = options["device"] is not None or options["backend"] is not None
        self._placed |= any(
            s is not UNSPECIFIED and shardings.is_given(s)
            for s in (options["in_shardings"], options["out_shardings"])
        )
        if self._placed or options["backend"] is not None:
            shardings.check_options(options)
        self._own = _is_ours(fun)
        self._marks = self._static_nums, self._static_names, self._donate_nums, self._donate_names
        self._cache: dict[Any, Staged] = {}
        self._hits = self._misses = 0
        self._opened: Any = None  # the same of opened arguments, see ``weft.api.high``
        _functions.add(self)

    # --- calling ----------------------------------------------------------------------------------

    @api_boundary
    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        if knobs.thread.disable_jit:
            return self._fun(*args, **kwargs)
        if observing.begins():
            return guards.observed(self, self._title, args, kwargs)
        if knobs.thread.verify_rate and knobs.thread.context_key.plain is not None:
            return sampled(self, args, kwargs)
        if high_classes:
            if high.is_differentiated((args, kwargs)):
                return self._fun(*args, **kwargs)  # part of a program that is being made
            if high.has_mutable((args, kwargs)):
                return self._call_opened(args, kwargs)
        if self._placed:
            self._check_places(args, kwargs)
            device = shardings.device_of(self._options)
            if device is not None and state.trace is eval_trace:
                args, kwargs = shardings.moved((args, kwargs), device)
        began = events.begin()
        try:
            leaves, staged = self._stage(args, kwargs)
        except (TypeError, ValueError):
            given = as_arrays(args, kwargs) if self._own else None
            if given is None:
                raise
            return self._slow(*given[0], **given[1])
        if high_classes and state.trace is not eval_trace and has_lowered(staged.closed):
            return self._fun(*args, **kwargs)  # whose operations may be differentiated
        guarded = guards.is_on() and state.trace is eval_trace
        if guarded:
            guards.from_host(leaves, self._name)
        if not staged.places or observing.thread.call is not None:
            self._note_places(staged, leaves, args, kwargs)
        donates = any(staged.params["donated_invars"]) and state.trace is eval_trace
        if self._compiler_options:
            check_options(self._compiler_options)
        if donates:
            stages.warn_unusable(staged)
            self._check_donated(staged, leaves, args, kwargs)
            self._check_deleted(leaves, args, kwargs)
        try:
            if staged.refs and state.trace is eval_trace:
                outs = stages.call_writing(staged, [*staged.hoisted, *leaves])
            elif donates:
                outs = call_donating(jit_p, [*staged.hoisted, *leaves], stages.lent(staged))
            else:
                outs = jit_p.bind(*staged.hoisted, *leaves, **staged.params)
        except RuntimeError:
            if not donates:
                self._check_deleted(leaves, args, kwargs, RuntimeError)
            raise
        if donates:
            stages.delete_donated(staged, leaves, outs)
        if began or guarded:
            pass  # native code would answer the next call and tell nobody
        elif (
            staged.tries
            and not staged.void
            and (staged.refs or not staged.hoisted)
            and not is_tracing()
        ):
            self._remember(staged, args, kwargs, leaves)
        if began and not is_tracing():
            events.end(began, "call", self._name)
        if staged.void and state.trace is eval_trace:
            voids = {i: np.zeros(outs[i].shape, dtypes.float0) for i in staged.void}
            outs = [voids.get(i, x) for i, x in enumerate(outs)]
        return tree_unflatten(staged.out_tree, outs)

    __call__ = _slow

    def _note_places(self, staged: Staged, leaves: Any, args: Any, kwargs: Any) -> None:
        """Remember where arguments are, and say why the program is compiled if it is."""
        places, seen, call = misses.places_of(leaves), staged.places, observing.thread.call
        if call is not None and call.owner is self:
            before, names = [*seen], functools.partial(self._names, args, kwargs)
            call.why = lambda: misses.moved(places, before, names)
        if places not in seen and len(seen) < MAX_PLACES:
            seen.append(places)

    def _call_opened(self, args: Any, kwargs: Any) -> Any:
        """Call with mutable values of libraries' types among the arguments."""
        if self._opened is None:
            self._opened = JitFunction(high.opening(self._fun), self._options)
        positions = normalize_positions(self._static_nums, len(args))
        return high.call(self._opened, args, kwargs, (set(positions), self._static_names))

    def _check_places(self, args: Any, kwargs: Any) -> None:
        """Raise ValueError unless the arguments are where the shardings of this function say."""
        dynamic, keywords, _ = self._split_static(args, kwargs)
        shardings.check_backend(self._options["backend"])
        shardings.check_arguments(self._options["in_shardings"], dynamic, keywords)

    def _remember(self, staged: Staged, args: Any, kwargs: Any, leaves: Any) -> None:
        """Let native code answer calls like this one."""
        static = set(normalize_positions(self._static_nums, len(args)))
        positional = [(i in static, x) for i, x in enumerate(args)]
        named = [(k, (k in self._static_names, kwargs[k])) for k in sorted(kwargs)]
        call = (positional, named)
        # the tree as it was: a callback may have changed the containers meanwhile
        tree = staged.in_tree
        params, written = staged.lent or staged.params, ()
        if staged.refs:
            written, params = staged.writing
        closed, donated, out_tree = params["jaxpr"], params["donated_invars"], staged.out_tree
        hoisted = staged.hoisted if staged.refs else ()
        rest = (closed, out_tree, donated, hoisted, written)
        staged.tries -= remember(CallPattern(self, call, tree, leaves, *rest))

    def _check_donated(self, staged: Staged, leaves: Any, args: Any, kwargs: Any) -> None:
        """Raise if an array that is donated is passed a second time."""
        donated = stages.lent(staged)["donated_invars"][len(staged.hoisted) :]
        first: dict[int, int] = {}
        for i, x in enumerate(leaves):
            j = first.setdefault(id(x), i)
            if j != i and (donated[i] or donated[j]) and hasattr(x, "is_deleted"):
                names = self._names(args, kwargs)
                raise errors.JaxRuntimeError(
                    f"{self._name} got one array as {names[j]} and as {names[i]}, of which"
                    f" {names[i] if donated[i] else names[j]} is donated; pass a copy of it"
                )

    def _check_deleted(self, leaves: Any, args: Any, kwargs: Any, kind: Any = ValueError) -> None:
        for i, x in enumerate(leaves):
            if getattr(x, "is_deleted", bool)():
                raise kind(
                    f"the argument {self._names(args, kwargs)[i]} of {self._name},"
                    f" {typeof(x).str_short()}, has been deleted: it was donated to an earlier call"
                    " (donate_argnums) or freed with delete(); use the result of that call, or pass"
                    " a copy"
                ) from None

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self._fun!r}>"
        except Exception:  # a function object's own repr may fail
            return f"<PjitFunction of a {type(self._fun).__name__}>"

    @property
    def _name(self) -> str:
        return name_of(self._fun)

    @property
    def _title(self) -> str:
        """The name, with the line that defines it if the function is the user's."""
        found = self.__dict__.get("_titled")
        if found is None:
            found = misses.title(self._fun, _is_of_package(self._fun))
            self.__dict__["_titled"] = found
        return found

    def _names(self, args: Any, kwargs: Any) -> tuple[str, ...]:
        """The names of the leaves of the dynamic arguments, in the user's words."""
        return argument_names(self._fun, *self._without_static(args, kwargs))

    def _without_static(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Arguments with None, which has no leaves, for the static ones."""
        static = set(normalize_positions(self._static_nums, len(args)))
        given = [None if i in static else x for i, x in enumerate(args)]
        return given, {k: None if k in self._static_names else x for k, x in kwargs.items()}

    def _split_static(self, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
        """Dynamic arguments, dynamic keywords, and the key of the static ones."""
        positions = set(normalize_positions(self._static_nums, len(args)))
        dynamic = tuple(x for i, x in enumerate(args) if i not in positions)
        static = tuple((i, Hashed(args[i], f"{i}")) for i in sorted(positions))
        keywords: Any = kwargs
        static_kw: tuple[Any, ...] = ()
        if self._static_names and kwargs:
            keywords = {k: v for k, v in kwargs.items() if k not in self._static_names}
            static_kw = tuple(
                (k, Hashed(v, repr(k)))
                for k, v in sorted(kwargs.items())
                if k in self._static_names
            )
        return dynamic, keywords, (static, static_kw)

    def _stage(self, args: Any, kwargs: Any, abstract: Any = typeof) -> tuple[list[Any], Staged]:
        if self._static_nums or self._static_names:
            dynamic, keywords, static = self._split_static(args, kwargs)
        else:
            dynamic, keywords, static = args, kwargs, None
        leaves, in_tree = flatten((dynamic, keywords))
        try:
            avals = tuple([abstract(x) for x in leaves])
        except TypeError:
            names = functools.partial(self._names, args, kwargs)
            given = functools.partial(self._without_static, args, kwargs)
            check_array_leaves(leaves, self._fun, names, "jit", given)
            raise
        named = labels_of(avals)
        key = (in_tree, avals, static, knobs.context_key(), state.axis_env, named)
        staged = self._cache.get(key)
        if staged is not None:
            self._hits += 1
            return leaves, staged
        shared = self._shared()
        if shared is not None and key in shared:
            self._hits += 1
            staged = self._cache[key] = shared[key].again()
            return leaves, staged
        self._misses += 1
        if abstract is typeof and state.trace is eval_trace:
            host().prepare()
        names = functools.partial(self._names, args, kwargs)
        if knobs.thread.explain_cache_misses and not _is_of_package(self._fun):
            explain_miss(self._fun, key, list(shared or self._cache), names)
        started, began = time.perf_counter(), events.begin_making()
        seen = self._observed_trace(key, shared, names)
        with seen, progress.making("tracing", self._name):
            staged = self._trace(args, kwargs, dynamic, keywords, static, in_tree, avals)
        events.end_making(began, "trace", self._name)
        level = logs.level_of(knobs.thread.log_compiles)
        if level:
            report_trace(level, self._fun, key, names, time.perf_counter() - started)
        if not _is_of_package(self._fun):
            check_captured(self._fun, staged.closed)
            if knobs.thread.dump_ir_to:
                dump_program(self._name, staged.closed)
        if not any(isinstance(x, Tracer) for x in staged.hoisted):
            if len(self._cache) >= CACHE_LIMIT:
                self.clear_cache()
            self._cache[key] = staged
            if shared is not None:
                shared[key] = staged
        return leaves, staged

    def _traced_again(self, args: Any, kwargs: Any) -> Any:
        """The program of a call, traced though it is known."""
        dynamic, keywords, static = args, kwargs, None
        if self._static_nums or self._static_names:
            dynamic, keywords, static = self._split_static(args, kwargs)
        leaves, in_tree = flatten((dynamic, keywords))
        avals = tuple([typeof(x) for x in leaves])
        return self._trace(args, kwargs, dynamic, keywords, static, in_tree, avals).closed

    def _observed_trace(self, key: Any, shared: Any, names: Any) -> Any:
        """A scope in which the function is traced: those who listen are told, and may refuse it."""
        if not observing.is_on():
            misses.note(self._fun, key)
            return contextlib.nullcontext()
        why, first = misses.reasons(self._fun, key, list(shared or self._cache), names)
        misses.note(self._fun, key)
        return observing.making("traced", self._title, lambda: why, first)

    def _shared(self) -> dict[Any, Staged] | None:
        """What all jits of this function with these options have staged."""
        if type(self._fun) is not FunctionType or knobs.thread.check_tracer_leaks:
            return None
        if self._placed:
            return None
        options = self._options
        rest = options["keep_unused"], options["inline"], repr(options["compiler_options"])
        return _staged_of(self._fun, (self._marks, rest))

    def _trace(
        self,
        args: Any,
        kwargs: Any,
        dynamic: Any,
        keywords: Any,
        static: Any,
        in_tree: Any,
        avals: Any,
    ) -> Staged:
        fun = self._fun if static is None else _with_static(self._fun, len(args), static)
        if self._placed:
            fun = shardings.placing(fun, self._options)
        given, named = self._without_static(args, kwargs)
        closed, out_tree = stage_call(fun, given, named, avals, in_tree, "jit")
        if _is_of_package(self._fun):
            mark_lines(closed.jaxpr, source.current())
        closed, hoisted = hoist_tracers(closed)
        refuse_nested_options(closed.jaxpr)
        if self._own:
            host().generalise(closed)
        if any(a.is_ref for a in closed.in_avals):
            leaves = flatten((dynamic, keywords))[0]
            names = functools.partial(self._names, args, kwargs)
            check_references(leaves, hoisted, self._fun, "jit", names)
        donated = (False,) * len(hoisted) + self._donated(args, dynamic, keywords, static)
        n_in, n_out = len(closed.in_avals), len(closed.out_avals)
        params = {
            "jaxpr": closed,
            "in_shardings": (UNSPECIFIED,) * n_in,
            "out_shardings": (UNSPECIFIED,) * n_out,
            "in_layouts": (None,) * n_in,
            "out_layouts": (None,) * n_out,
            "donated_invars": donated,
            "ctx_mesh": None,
            "name": self._name,
            "keep_unused": self._options["keep_unused"],
            "inline": self._options["inline"],
            "compiler_options_kvs": self._compiler_options,
        }
        staged = Staged(closed, hoisted, params, in_tree, out_tree)
        said = self._options["out_shardings"]
        if self._placed and shardings.is_given(said):
            results = tree_unflatten(out_tree, closed.out_avals)
            staged.said = shardings.spread_shardings(said, results, "out_shardings of jit")
        return staged

    def _donated(self, args: Any, dynamic: Any, keywords: Any, static: Any) -> tuple[bool, ...]:
        if not (self._donate_nums or self._donate_names):
            return (False,) * flatten((dynamic, keywords))[1].num_leaves
        donate = set(normalize_positions(self._donate_nums, len(args)))
        fixed = {i for i, _ in static[0]} if static else set()
        flags: list[bool] = []
        for i, x in enumerate(args):
            if i not in fixed:
                flags.extend([i in donate] * flatten(x)[1].num_leaves)
        for name, x in sorted(keywords.items()):
            flags.extend([name in self._donate_names] * flatten(x)[1].num_leaves)
        return tuple(flags)

    # --- stages -----------------------------------------------------------------------------------

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Stage the function on arguments of these types, without running it."""
        _, staged = self._stage(args, kwargs, abstractify)
        dynamic, keywords, _ = self._split_static(args, kwargs)
        return stages.Traced(self._fun, staged, (dynamic, keywords), staged.in_tree)

    @api_boundary
    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Stage and lower the function for arguments of these types."""
        shardings.check_described((args, kwargs))
        return self.trace(*args, **kwargs).lower()

    @api_boundary
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the results."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forget everything staged so far."""
        self._cache.clear()
        shared = self._shared()
        if shared is not None:
            shared.clear()
        if hasattr(self, "_entries"):
            del self._entries

    def forget_entries(self) -> None:
        """Let calls come by Python again until native code has learnt them anew."""
        if hasattr(self, "_entries"):
            self._hits += host_named("native").hits(self)
            del self._entries
        for staged in self._cache.values():
            staged.tries = TRIES

    def _cache_size(self) -> int:
        return len(self._cache)

    def cache_info(self) -> dict[str, int]:
        """Hits, misses and entries of this function's cache, and how many of these run
        shape-generic code."""
        hits = self._hits + host_named("native").hits(self)
        served = sum(is_shape_generic(staged.closed) for staged in self._cache.values())
        found = {"hits": hits, "misses": self._misses, "entries": len(self._cache)}
        return {**found, "shape_generic": served}


# Libraries tell compiled functions by the name of their type.
JitFunction.__name__ = JitFunction.__qualname__ = "PjitFunction"


def _keep_attributes(compiled: JitFunction, fun: Any) -> None:
    """Give a compiled function the attributes that users set on the function."""
    attributes = getattr(fun, "__dict__", None)
    if attributes and not isinstance(fun, type):
        own = {k: v for k, v in attributes.items() if not hasattr(JitFunction, k)}
        compiled.__dict__.update(own, __wrapped__=fun)


def _with_static(fun: Callable[..., Any], count: int, static: Any) -> Callable[..., Any]:
    """``fun`` with its static arguments put back in their places."""
    fixed = {i: h.value for i, h in static[0]}
    named = {k: h.value for k, h in static[1]}

    @wraps(fun, updated=())
    def with_static(*dynamic: Any, **keywords: Any) -> Any:
        rest = iter(dynamic)
        full = [fixed[i] if i in fixed else next(rest) for i in range(count)]
        return fun(*full, **keywords, **named)

    return with_static


_functions = WeakMembers()


def forget_entries() -> None:
    """Let the calls of all functions come by Python again."""
    for function in _functions:
        function.forget_entries()


class _AllCaches:
    """All functions' caches as one, for ``weft.clear_caches``."""

    def cache_clear(self) -> None:
        for function in _functions:
            function.clear_cache()


_all_caches = _AllCaches()
register_cache(_all_caches)


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Jitted(Protocol[P, R]):
    """What ``jit`` returns, as type checkers see it."""

    __name__: str
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R]: ...
    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def clear_cache(self) -> None: ...


@overload
def jit(fun: Callable[P, R], /, **options: Unpack[JitOptions]) -> Jitted[P, R]: ...
@overload
def jit(
    fun: None = None, /, **options: Unpack[JitOptions]
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(  # type: ignore[misc]
    fun: Any = None,
    /,
    *,
    in_shardings: Any = UNSPECIFIED,
    out_shardings: Any = UNSPECIFIED,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Return a compiled version of a function, traced at its first call for each type of arguments.

    Args:
        fun: Function of arrays and trees of arrays without side effects. Left out, ``jit`` returns
            a decorator: ``@jit(static_argnums=0)``.
        in_shardings: Sharding of each argument, a prefix of the tree of arguments; by default that
            of the arrays given.
        out_shardings: Sharding of each result, a prefix of the tree of results; by default the
            compiler chooses.
        static_argnums: Positions of arguments that are compile-time constants. They must be
            hashable; a new value compiles again.
        static_argnames: Names of such arguments. Positions and names are found from each other.
        donate_argnums: Positions of arguments whose memory may be reused for results. Don't use
            these arrays afterwards.
        donate_argnames: Names of such arguments.
        keep_unused: If false, arguments that the function doesn't use are dropped from the compiled
            program.
        device: Device to run on. Prefer to place the arguments with ``device_put``.
        backend: Platform to run on, such as "cpu"; by default that of the arguments.
        inline: If true, a caller that is traced takes in the equations instead of a call.
        compiler_options: Options for XLA, checked and without effect here.

    Returns:
        Function with the arguments of ``fun``. It has ``lower``, ``trace``, ``eval_shape`` and
        ``clear_cache``.

    Example:
        >>> import weft
        >>> square = weft.jit(lambda x: x * x)
        >>> float(square(3.0))
        9.0
    """
    options = {
        "in_shardings": in_shardings,
        "out_shardings": out_shardings,
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "keep_unused": keep_unused,
        "device": device,
        "backend": backend,
        "inline": inline,
        "compiler_options": compiler_options,
    }
    if fun is None:
        return lambda f: jit(f, **options)
    return compiled(fun, options)


def compiled(fun: Any, options: dict[str, Any], kind: Any = JitFunction) -> JitFunction:
    """A function that is staged and compiled as its options say."""
    check_callable(fun)
    _check_marks(fun, options)
    host().prepare(wholly=True, own=_is_of_package(fun))
    return kind(fun, options)


# Rooms whose functions are called by users with arrays of all shapes.
_ROOMS = ("weft.numpy", "weft.lax", "weft.nn", "weft.random", "weft.scipy", "weft.image")


def _is_ours(fun: Any) -> bool:
    """Whether a function is one of weft's own that is defined here as compiled."""
    return _home(fun).startswith(_ROOMS)


def _is_of_package(fun: Any) -> bool:
    """Whether a function is defined anywhere in weft: users cannot do much about its traces."""
    return _home(fun).partition(".")[0] == __name__.partition(".")[0]


def _home(fun: Any) -> str:
    return getattr(fun, "__globals__", {}).get("__name__") or ""


def _check_marks(fun: Any, options: dict[str, Any]) -> None:
    """Raise ValueError where marked arguments are not among the parameters of a function."""
    marks = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")
    if all(options[mark] is None for mark in marks):
        return
    sig = signature(fun)
    if sig is None:
        return
    params = sig.parameters.values()
    _check_names(fun, sig, {k: options[k] for k in ("static_argnames", "donate_argnames")})
    positional = [p for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind == p.VAR_POSITIONAL for p in params):
        return
    for what in ("static_argnums", "donate_argnums"):
        for n in as_tuple(options[what]):
            if not -len(positional) <= operator.index(n) < len(positional):
                raise ValueError(
                    f"jit got {what}={options[what]}, but {getattr(fun, '__name__', fun)}{sig} has"
                    f" {len(positional)} positional parameters"
                )


def _check_names(fun: Any, sig: Any, marked: dict[str, Any]) -> None:
    params = sig.parameters.values()
    by_position = {p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    named = {p.name for p in params if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    open_ended = any(p.kind == p.VAR_KEYWORD for p in params)
    for what, names in marked.items():
        if not all(isinstance(name, str) for name in as_tuple(names)):
            raise TypeError(f"{what} takes names of parameters, got {names!r}")
        for name in as_tuple(names):
            if name in by_position:
                raise ValueError(
                    f"{what}={name!r} of {getattr(fun, '__name__', fun)}{sig} is given by position"
                    f" only; write {what.replace('names', 'nums')}"
                )
            if not open_ended and name not in named:
                raise ValueError(
                    f"{what}={name!r} is not a parameter of {getattr(fun, '__name__', fun)}{sig}"
                )
