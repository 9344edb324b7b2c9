"""Primitives that call back into Python while a program runs.

Callbacks are given concrete arrays. ``pure_callback`` may be called any number of times;
``io_callback`` and the debugging callbacks have effects, which keep their equations alive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base.errors import JaxRuntimeError
from weft.control.one_by_one import one_by_one
from weft.core import hooks
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front, broadcast_axis
from weft.core.effects import Effect, Effects, OrderedEffect
from weft.core.primitive import Primitive
from weft.core.trace import typeof
from weft.prims.families import element
from weft.transforms.vmap import batched
from weft.tree.functions import tree_leaves, tree_unflatten

# --- effects --------------------------------------------------------------------------------------


class IOEffect(Effect):
    """Input or output, in any order."""

    def __repr__(self) -> str:
        return "IO"


class OrderedIOEffect(OrderedEffect):
    """Input or output, in the order of the program."""

    def __repr__(self) -> str:
        return "OrderedIO"


class DebugEffect(Effect):
    """Something shown while debugging, in any order; shown again where a value is recomputed.

    >>> import weft
    >>> weft.make_jaxpr(lambda x: weft.debug.print("{}", x))(1.0).effects
    frozenset({Debug})
    """

    repeatable = True

    def __repr__(self) -> str:
        return "Debug"


class OrderedDebugEffect(OrderedEffect):
    """Something shown while debugging, in the order of the program.

    >>> import weft
    >>> weft.make_jaxpr(lambda x: weft.debug.print("{}", x, ordered=True))(1.0).effects
    frozenset({OrderedDebug})
    """

    repeatable = True

    def __repr__(self) -> str:
        return "OrderedDebug"


io_effect, ordered_io_effect = IOEffect(), OrderedIOEffect()
debug_effect, ordered_debug_effect = DebugEffect(), OrderedDebugEffect()


# --- calling --------------------------------------------------------------------------------------


class _FlatCallback:
    """A user's function over flat arguments; equal for the same function and argument tree."""

    __slots__ = ("callback_func", "in_tree")

    def __init__(self, callback_func: Callable[..., Any], in_tree: Any) -> None:
        self.callback_func = callback_func
        self.in_tree = in_tree

    def __call__(self, *flat: Any) -> list[Any]:
        args, kwargs = tree_unflatten(self.in_tree, flat)
        return tree_leaves(self.callback_func(*args, **kwargs))

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is _FlatCallback
            and other.callback_func == self.callback_func
            and other.in_tree == self.in_tree
        )

    def __hash__(self) -> int:
        return hash((self.callback_func, self.in_tree))

    def __repr__(self) -> str:
        return f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"


FlatCallback = _FlatCallback


def arrays(values: Sequence[Any]) -> list[Any]:
    """NumPy values as the arrays that users' functions are given."""
    out = []
    for value in values:
        # the bytes of keys have no array of their own here
        plain = isinstance(value, np.ndarray) and type(value.dtype) is not np.dtypes.VoidDType
        out.append(hooks.box(value, typeof(value)) if plain else value)
    return out


def call_user(what: str, callback: Any, values: Sequence[Any]) -> Any:
    """Run a user's function; an error in it ends the program with its message."""
    try:
        return callback(*arrays(values))
    except Exception as error:
        fun = getattr(callback, "callback_func", callback)
        name = getattr(fun, "__name__", repr(fun))
        raise JaxRuntimeError(
            f"{what} of {name} failed: {type(error).__name__}: {error}"
        ) from error


def checked_results(what: str, results: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """A callback's results as NumPy arrays of the promised types."""
    if len(results) != len(avals):
        raise JaxRuntimeError(
            f"{what} promised {len(avals)} results by result_shape_dtypes, but the function"
            f" returned {len(results)}"
        )
    out = []
    for i, (result, aval) in enumerate(zip(results, avals, strict=True)):
        value = np.asarray(result)
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        if value.dtype != aval.dtype:
            narrow = dtypes.canonicalize_dtype(value.dtype)
            if narrow != aval.dtype:
                raise JaxRuntimeError(
                    f"{what} promised dtype {aval.dtype.name} for result {i} by"
                    f" result_shape_dtypes, but the function returned {narrow.name}"
                )
            value = value.astype(aval.dtype)
        if value.shape != aval.shape:
            raise JaxRuntimeError(
                f"{what} promised shape {aval.shape} for result {i} by result_shape_dtypes, but"
                f" the function returned shape {value.shape}"
            )
        out.append(np.array(value))
    return out


# --- pure and impure callbacks --------------------------------------------------------------------


class PythonCall(Primitive):
    """A call of a Python function for its results."""

    multiple_results = True
    holes = {
        "jvp": "what Python code computes has no known derivative",
        "transpose": "what Python code computes is not known to be linear",
    }

    def shape(self, *avals: Any, result_avals: Any, **params: Any) -> list[Any]:
        return list(result_avals)

    def ref(self, *args: Any, callback: Any, result_avals: Any, **params: Any) -> list[Any]:
        results = call_user(self.name, callback, args)
        return checked_results(self.name, results, result_avals)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        raise ValueError(f"{self} cannot be transposed; give it a rule with custom_vjp")


class PureCallback(PythonCall):
    """A call of a Python function that has no effects."""

    name = "pure_callback"
    host = "it calls a Python function"

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise ValueError(
            "pure_callback has no JVP rule: the derivative of the Python function is unknown; "
            "give it one with custom_jvp or custom_vjp"
        )

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        callback: Any,
        result_avals: Any,
        sharding: Any,
        vmap_method: str | None,
    ) -> tuple[list[Any], list[int | None]]:
        params: dict[str, Any] = {
            "callback": callback,
            "sharding": sharding,
            "vmap_method": vmap_method,
        }
        if axis.spread or vmap_method in ("sequential", "sequential_unrolled"):
            unroll = axis.size if vmap_method == "sequential_unrolled" else 1
            params["result_avals"] = result_avals
            return one_by_one(self, axis, args, dims, params, max(unroll, 1))
        if vmap_method is None:
            raise NotImplementedError(
                "pure_callback needs a vmap_method under vmap: vmap_method='sequential',"
                " 'sequential_unrolled', 'expand_dims', 'broadcast_all' or 'legacy_vectorized'"
            )
        size = {"expand_dims": 1, "broadcast_all": axis.size}.get(vmap_method)
        moved = [
            at_front(x, d, axis.size)
            if d is not None
            else x
            if size is None
            else broadcast_axis(x, size, 0)
            for x, d in zip(args, dims, strict=True)
        ]
        params["result_avals"] = tuple(batched(a, axis.size, 0) for a in result_avals)
        return self.bind(*moved, **params), [0] * len(result_avals)


class IOCallback(PythonCall):
    """A call of a Python function for its effects, once for each time the program says so."""

    name = "io_callback"

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return frozenset({ordered_io_effect if params["ordered"] else io_effect})

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise ValueError(
            "io_callback has no JVP rule; wrap its operands in lax.stop_gradient, or give it a"
            " rule with custom_jvp"
        )

    def batch(
        self, axis: AxisData, args: Any, dims: Any, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        if params["ordered"] and not axis.spread:
            raise ValueError(
                "vmap cannot map an ordered io_callback: a batch has no order; use"
                " ordered=False, or lax.map instead of vmap"
            )
        return one_by_one(self, axis, args, dims, params, 1)


# --- debugging ------------------------------------------------------------------------------------


class Debugging(Primitive):
    """A call for the sake of debugging: it sees values, and changes nothing."""

    multiple_results = True

    def shape(self, *avals: Any, **params: Any) -> list[Any]:
        return []

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals, **params), []

    def transpose(self, cts: Any, *args: Any, **params: Any) -> list[Any]:
        return [None] * len(args)

    def batch(
        self, axis: AxisData, args: Any, dims: Any, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        for i in range(axis.size):
            rows = zip(args, dims, strict=True)
            self.bind(*(x if d is None else element(x, d, i, 1) for x, d in rows), **params)
        return [], []


class DebugCallback(Debugging):
    """A call of a Python function whose result is not used."""

    name = "debug_callback"

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return frozenset({params["effect"]})

    def evaluate(self, args: Any, params: dict[str, Any]) -> list[Any]:
        # Nothing is staged: the user's own error is the one to see.
        params["callback"](*args)
        return []

    @staticmethod
    def ref(*args: Any, callback: Any, seen: Any = (), **params: Any) -> list[Any]:
        for values in by_parts(args, seen):
            call_user("debug.callback", callback, values)
        return []


class DebugPrint(Debugging):
    """Prints or logs a formatted message."""

    name = "debug_print"

    def eqn_effects(self, avals: Any, params: Any) -> Effects:
        return frozenset({ordered_debug_effect if params["ordered"] else debug_effect})

    def evaluate(self, args: Any, params: dict[str, Any]) -> list[Any]:
        show_message(args, params)
        return []

    @staticmethod
    def ref(*args: Any, seen: Any = (), **params: Any) -> list[Any]:
        for values in by_parts(args, seen):
            call_user("debug.print", lambda *given: show_message(given, params), values)
        return []


def by_parts(args: Sequence[Any], seen: Sequence[Any]) -> list[Sequence[Any]]:
    """Values as each device has them, where it is known how they are divided; else all at once."""
    if not seen:
        return [args]
    places = [s.devices_indices_map(np.shape(x)) for s, x in zip(seen, args, strict=True)]
    return [
        [x[where[device]] for x, where in zip(args, places, strict=True)]
        for device in seen[0]._device_assignment
    ]


def merge_static(in_tree: Any, dynamic: Sequence[Any], static: Any) -> Any:
    """Arguments put together from those that are arrays and those that are not."""
    fixed = dict(static)
    given = iter(dynamic)
    count = len(fixed) + len(dynamic)
    return tree_unflatten(in_tree, [fixed[i] if i in fixed else next(given) for i in range(count)])


def show_message(values: Sequence[Any], params: dict[str, Any]) -> None:
    args, kwargs = merge_static(params["in_tree"], values, params["static_args"])
    fmt = params["fmt"]
    if params["has_placeholders"]:
        with np.printoptions(**dict(params["np_printoptions"])):
            message = fmt.format(*args, **kwargs)
    else:
        message = " ".join((fmt, *map(str, args)))
    if params["logging_record"] is None:
        sys.stdout.write(message + "\n")
    else:
        params["logging_record"](message)


class InspectSharding(Primitive):
    """Shows a Python function how an array is laid out over devices."""

    name, observes = "inspect_sharding", True
    multiple_results = True
    effects = frozenset({debug_effect})
    holes = {"transpose": "no results"}

    def shape(self, aval: Any, **params: Any) -> list[Any]:
        return []

    def evaluate(self, args: Any, params: dict[str, Any]) -> list[Any]:
        (x,) = args
        sharded = hasattr(x, "sharding")
        params["callback"](x.sharding if sharded else arrays([np.asarray(x)])[0].sharding)
        return []

    @staticmethod
    def ref(x: Any, *, callback: Any, seen: Any = ()) -> list[Any]:
        told = lambda array: callback(seen[0] if seen else array.sharding)
        call_user("inspect_array_sharding", told, [x])
        return []

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        return self.bind(*primals, **params), []

    def batch(
        self, axis: AxisData, args: Any, dims: Any, **params: Any
    ) -> tuple[list[Any], list[int | None]]:
        self.bind(*args, **params)
        return [], []


pure_callback_p, io_callback_p = PureCallback(), IOCallback()
debug_callback_p, debug_print_p = DebugCallback(), DebugPrint()
inspect_sharding_p = InspectSharding()
