"""``pmap``: a function run by several devices, each on one element of a mapped axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from weft.api.arguments import as_tuple, normalize_positions
from weft.api.jit import JitFunction, Jitted, jit
from weft.api.placement import device_put
from weft.base.functional import take_names, wraps
from weft.base.traceback import api_boundary
from weft.core import processes
from weft.core.sharding import IndivisibleError, Mesh, NamedSharding, PartitionSpec
from weft.core.trace import eval_trace, state
from weft.lax.shape import reshape
from weft.parallel.shard_map import Later, shard_map
from weft.runtime.array import ArrayImpl, from_numpy
from weft.runtime.devices import devices as all_devices
from weft.runtime.devices import local_devices
from weft.runtime.spanning import of_process, part_of_process
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_leaves, tree_map, tree_unflatten

P = ParamSpec("P")
R = TypeVar("R")

# The name of an axis that was given none; JAX's, since shardings show it.
UNNAMED = "_internal_pmap_axis_name"
# Types of arguments that one function remembers.
KNOWN = 256


class PmapFunction:
    """A function that devices run side by side; compiled for each number of them."""

    def __init__(self, fun: Callable[..., Any], options: dict[str, Any]) -> None:
        take_names(self, fun, updated=())
        self._fun = fun
        self._options = options
        name = options["axis_name"]
        self._name = UNNAMED if name is None else name
        self._static = as_tuple(options["static_broadcasted_argnums"])
        self._compiled: dict[Any, JitFunction] = {}
        self._known: dict[Any, JitFunction] = {}  # by the types of arguments that are arrays

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            try:
                found = self._known.get(tuple([x._type for x in args]))
            except AttributeError:
                found = None
            if found is not None:
                return found(*args)
        return self._call(args, kwargs)

    @api_boundary
    def _call(self, args: Any, kwargs: Any) -> Any:
        if processes.count > 1 and state.trace is eval_trace:
            return self._call_across(args, kwargs)
        found = self._prepared(args, kwargs)
        if state.trace is eval_trace:
            given = self._at_devices(args, kwargs)
            if given is not None:
                return found(*given[0], **given[1])
        if not kwargs and not self._static and all(type(x) is ArrayImpl for x in args):
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[tuple([x._type for x in args])] = found
        return found(*args, **kwargs)

    def _at_devices(self, args: Any, kwargs: Any) -> Any:
        """Arguments that are committed to other devices than this function's, moved to those; None
        if all are there."""
        leaves = [x for x in tree_leaves((args, kwargs)) if type(x) is ArrayImpl and x.committed]
        if not leaves:
            return None
        static = set(normalize_positions(self._static, len(args)))
        axes = self._axes(args, kwargs, static)
        devices = self._devices()[: self._size(args, kwargs, static, axes)]
        if all(x.sharding._device_assignment == tuple(devices) for x in leaves):
            return None
        mesh = Mesh(np.array(devices, dtype=object), (self._name,))
        dynamic = [x for i, x in enumerate(args) if i not in static]
        leaves, tree = tree_flatten((dynamic, kwargs))
        placed = [
            device_put(x, NamedSharding(mesh, _spec(a, x.ndim, self._name)))
            if type(x) is ArrayImpl
            else x
            for x, a in zip(leaves, axes, strict=True)
        ]
        given, named = tree_unflatten(tree, placed)
        rest = iter(given)
        return [x if i in static else next(rest) for i, x in enumerate(args)], named

    def _call_across(self, args: Any, kwargs: Any) -> Any:
        """A call by several processes: each gives and gets the elements of its own devices."""
        static = set(normalize_positions(self._static, len(args)))
        axes = self._axes(args, kwargs, static)
        devices = self._devices_across(self._own_size(args, kwargs, static, axes))
        key = (tuple(devices), len(args))
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(devices, static, len(args))
        mesh = Mesh(np.array(devices, dtype=object), (self._name,))
        dynamic = [x for i, x in enumerate(args) if i not in static]
        leaves, tree = tree_flatten((dynamic, kwargs))
        placed = [
            x
            if _is_spanning(x)
            else of_process(np.asarray(x), NamedSharding(mesh, _spec(a, np.ndim(x), self._name)))
            for x, a in zip(leaves, axes, strict=True)
        ]
        given, named = tree_unflatten(tree, placed)
        rest = iter(given)
        outs = found(*[x if i in static else next(rest) for i, x in enumerate(args)], **named)
        return tree_map(lambda y: self._own_part(y, mesh), outs)

    def _own_size(self, args: Any, kwargs: Any, static: set[int], axes: list[Any]) -> int:
        """How many elements this process gives."""
        leaves = tree_flatten(([x for i, x in enumerate(args) if i not in static], kwargs))[0]
        given = zip(leaves, axes, strict=True)
        shapes = [(np.shape(x), a, _is_spanning(x)) for x, a in given if a is not None]
        sizes = {s[a] // (processes.count if spans else 1) for s, a, spans in shapes}
        if not sizes and self._options["axis_size"] is not None:
            sizes = {self._options["axis_size"] // processes.count}
        own = len(local_devices()) if self._options["devices"] is None else sum(
            d.process_index == processes.index for d in self._options["devices"]
        )  # fmt: skip
        if len(sizes) != 1 or max(sizes) > own:
            raise IndivisibleError(
                f"pmap over several processes takes one element for each of the {own} devices of"
                f" this one, got arguments with {sorted(sizes)} along their mapped axes"
            )
        return sizes.pop()

    def _devices_across(self, size: int) -> list[Any]:
        if self._options["devices"] is not None:
            return list(self._options["devices"])
        return [d for i in range(processes.count) for d in local_devices(i)[:size]]

    def _own_part(self, y: Any, mesh: Mesh) -> Any:
        value = y._value if y.is_fully_replicated else part_of_process(y)
        sharding = NamedSharding(mesh.local_mesh, y.sharding.spec)
        return device_put(from_numpy(value, y.dtype), sharding)

    @api_boundary
    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Stage and lower the function for arguments of these types."""
        return self._prepared(args, kwargs).lower(*args, **kwargs)

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Stage the function on arguments of these types, without running it."""
        return self._prepared(args, kwargs).trace(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget everything compiled so far."""
        self._compiled.clear()
        self._known.clear()

    def _prepared(self, args: Any, kwargs: Any) -> JitFunction:
        """The compiled function for as many devices as the arguments have elements."""
        static = set(normalize_positions(self._static, len(args)))
        axes = self._axes(args, kwargs, static)
        size = self._size(args, kwargs, static, axes)
        key = (size, len(args))
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(self._devices()[:size], static, len(args))
        return found

    def _axes(self, args: Any, kwargs: Any, static: set[int]) -> list[Any]:
        """The mapped axis of each leaf of the arguments; the first of those given by name."""
        in_axes = self._options["in_axes"]
        if any(n >= len(args) or n < -len(args) for n in self._static):
            raise ValueError(
                f"pmap got static_broadcasted_argnums={self._static}, and is called with"
                f" {len(args)} arguments"
            )
        dynamic = [i for i in range(len(args)) if i not in static]
        given = tuple([args[i] for i in dynamic])
        for axis in tree_leaves(in_axes):
            if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
                raise TypeError(
                    f"pmap takes positions or None as in_axes, got {axis!r} of type"
                    f" {type(axis).__name__}"
                )
        if isinstance(in_axes, list):
            raise ValueError(f"in_axes of pmap is a tuple, one for each argument; got {in_axes}")
        if isinstance(in_axes, tuple):
            if len(in_axes) != len(args):
                raise ValueError(
                    f"pmap got in_axes for {len(in_axes)} arguments, and is called with {len(args)}"
                )
            in_axes = tuple([in_axes[i] for i in dynamic])
        try:
            found = broadcast_prefix(in_axes, given, is_leaf=lambda a: a is None)
        except ValueError as error:
            raise ValueError(f"in_axes of pmap do not fit the arguments: {error}") from None
        return found + [0] * tree_flatten(kwargs)[1].num_leaves

    def _size(self, args: Any, kwargs: Any, static: set[int], axes: list[Any]) -> int:
        given = [x for i, x in enumerate(args) if i not in static]
        leaves = tree_flatten((given, kwargs))[0]
        wanted = self._options["axis_size"]
        if wanted is not None and not isinstance(wanted, (int, np.integer)):
            raise ValueError(f"pmap takes an integer as axis_size, got {wanted!r}")
        sizes = set() if wanted is None else {wanted}
        for leaf, axis in zip(leaves, axes, strict=True):
            if axis is None:
                continue
            shape = np.shape(leaf)
            if not -len(shape) <= axis < len(shape):
                raise ValueError(
                    f"pmap maps axis {axis} of an argument of shape {shape}, which has {len(shape)}"
                    f" dimensions; use in_axes=None for arguments that all devices share"
                )
            sizes.add(shape[axis])
        if not sizes:
            raise ValueError("pmap needs a mapped argument or axis_size: in_axes are all None")
        if len(sizes) > 1:
            raise IndivisibleError(
                f"pmap got arguments whose mapped axes have different sizes {sorted(sizes)}; they"
                " must all have one element for each device"
            )
        (size,) = sizes
        if size == 0:
            raise ValueError("pmap got a mapped axis of size 0; it needs one element per device")
        available = len(self._devices())
        if self._options["devices"] is not None and size != available:
            raise ValueError(
                f"pmap was given {available} devices and a mapped axis of size {size}; they must be"
                " equal"
            )
        if size > available:
            raise IndivisibleError(
                f"pmap got a mapped axis of size {size}, which needs {size} devices, but there "
                f"are {available}; WEFT_NUM_CPU_DEVICES sets the number of CPU devices, and vmap "
                "needs only one"
            )
        return int(size)

    def _devices(self) -> Any:
        chosen = self._options["devices"]
        return all_devices(self._options["backend"]) if chosen is None else list(chosen)

    def _compile(self, devices: list[Any], static: set[int], count: int) -> Any:
        mesh = Mesh(np.array(devices, dtype=object), (self._name,))
        fun, name, out_axes = self._fun, self._name, self._options["out_axes"]

        @wraps(fun, updated=())
        def spread(*args: Any, **kwargs: Any) -> Any:
            dynamic = [x for i, x in enumerate(args) if i not in static]
            leaves, tree = tree_flatten((dynamic, kwargs))
            axes = self._axes(args, kwargs, static)
            trees: list[Any] = []
            specs = [_spec(a, np.ndim(x), name) for a, x in zip(axes, leaves, strict=True)]
            places: list[Any] = []

            def one(*parts: Any) -> list[Any]:
                rows = [_without(x, a) for x, a in zip(parts, axes, strict=True)]
                given, named = tree_unflatten(tree, rows)
                rest = iter(given)
                full = [x if i in static else next(rest) for i, x in enumerate(args)]
                outs, out_tree = tree_flatten(fun(*full, **named))
                trees.append(out_tree)
                places[:] = _out_axes(out_axes, out_tree)
                return [_with(y, a) for y, a in zip(outs, places, strict=True)]

            # how the results are divided is known once the function has been staged
            late = Later(lambda: [_spec(a, None, name) for a in places])
            divided = shard_map(
                one, mesh=mesh, in_specs=tuple(specs), out_specs=late, check_vma=False
            )
            outs = divided(*leaves)
            return tree_unflatten(trees[-1], outs)

        positions = tuple(sorted(static))
        donate = tuple(n for n in as_tuple(self._options["donate_argnums"]) if n < count)
        return jit(spread, static_argnums=positions or None, donate_argnums=donate or None)


def _is_spanning(x: Any) -> bool:
    return type(x) is ArrayImpl and x._type.placement.spans


def _spec(axis: int | None, ndim: int | None, name: Any) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    at = axis % ndim if ndim else axis
    return PartitionSpec(*[None] * at, name)


def _without(x: Any, axis: int | None) -> Any:
    """The one element of a device along the mapped axis."""
    return x if axis is None else reshape(x, _cut(np.shape(x), axis))


def _cut(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    at = axis % len(shape)
    return shape[:at] + shape[at + 1 :]


def _with(y: Any, axis: int | None) -> Any:
    if axis is None:
        return y
    shape = list(np.shape(y))
    shape.insert(axis, 1)
    return reshape(y, tuple(shape))


def _out_axes(out_axes: Any, tree: Any) -> list[Any]:
    example = tree_unflatten(tree, [0] * tree.num_leaves)
    try:
        found = broadcast_prefix(out_axes, example, is_leaf=lambda a: a is None)
    except ValueError as error:
        raise ValueError(f"out_axes of pmap do not fit the results: {error}") from None
    return found


def pmap(
    fun: Callable[P, R],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: Any = (),
    devices: Any = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: Any = (),
) -> Jitted[P, R]:
    """Return a function that runs on several devices at once, each on one element of a mapped axis.

    Args:
        fun: Function of arrays and trees of arrays; it is written for one device.
        axis_name: Name of the axis, for collectives such as ``lax.psum``.
        in_axes: Axis of each argument to map over, as for ``vmap``.
        out_axes: Where the mapped axis is in each result, as for ``vmap``.
        static_broadcasted_argnums: Positions of arguments that are compile-time constants, the same
            on all devices.
        devices: Sequence of devices to use; by default the first ones there are.
        backend: Platform to run on, such as "cpu".
        axis_size: Size of the mapped axis; needed only if no argument is mapped.
        donate_argnums: Positions of arguments whose memory may be reused for results.

    Returns:
        Function with the arguments of ``fun``, with one more axis, of at most as many elements as
        there are devices. New programs should use ``jit`` with shardings, or ``shard_map``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.pmap(lambda x: x / weft.lax.psum(x, 'i'), axis_name='i')(jnp.array([4.0]))
        Array([1.], dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"pmap takes a function, got {fun!r}")
    options = {
        "axis_name": axis_name,
        "in_axes": in_axes,
        "out_axes": out_axes,
        "static_broadcasted_argnums": static_broadcasted_argnums,
        "devices": devices,
        "backend": backend,
        "axis_size": axis_size,
        "donate_argnums": donate_argnums,
    }
    mapped: Any = PmapFunction(fun, options)
    return mapped
