"""Where arrays are: device_put, device_get, waiting for results, scopes of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.functional import wraps
from weft.base.lazy import Late
from weft.base.source import NameStack
from weft.base.spaces import MemorySpace
from weft.base.traceback import api_boundary
from weft.core import processes
from weft.core import sharding as meshes
from weft.core.array import Array, ArrayData, ArrayLike
from weft.core.avals import ShapedArray
from weft.core.layout import AutoLayout, Format
from weft.core.registry import lookup
from weft.core.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding
from weft.core.trace import FoldingTrace, Tracer, eval_trace, loosely, state, typeof
from weft.runtime import guards, site
from weft.runtime.array import ArrayImpl, as_placed, box, from_numpy, put
from weft.runtime.devices import Device
from weft.runtime.places import Placement, default_placement, on_device, placement
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_leaves, tree_map, tree_unflatten

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# loaded when arrays are divided over processes
hashlib = Late("hashlib")
across = Late("weft.runtime.spanning")

# loaded when programs are divided over several devices with memory of their own
apart = Late("weft.division.programs.devices")
site.set_divider(lambda *args: apart.programs_of_devices(*args))

# loaded when types leave sums to be made
unmade = Late("weft.division.programs.unmade_sums")
site.set_sums(lambda closed: unmade.has_sums(closed), lambda closed: unmade.stored(closed))

# needed where types carry shardings
explicit = Late("weft.division.explicit")
divisions = Late("weft.division.rules")


@overload
def device_put(
    x: ArrayData, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Array: ...
@overload
def device_put(
    x: T, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> T: ...
@api_boundary
def device_put(
    x: Any,
    device: Any = None,
    *,
    src: Any = None,
    donate: Any = False,
    may_alias: Any = None,
) -> Any:
    """Return a tree of arrays placed on a device or divided by a sharding.

    Args:
        x: Array, number or tree of them.
        device: Device, sharding, layout format or partition spec for all, or a tree of them that is
            a prefix of ``x``; None is the default device, without committing to it.
        src: Where the arrays are, for traced values; found from the arrays by default.
        donate: If true (or for a prefix of the tree), the memory of ``x`` may be reused: don't use
            it afterwards.
        may_alias: If false, the result never shares memory with ``x``.

    Returns:
        Tree of arrays like ``x``, committed to ``device``.

    Example:
        >>> import weft
        >>> weft.device_put([1.0, 2.0])
        [Array(1., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True)]
    """
    now = state.trace is eval_trace and not _watched()
    if guards.looks():
        _guard(x, device)
    if now and device is None and donate is False and may_alias is None:
        if type(x) is ArrayImpl:
            return _there(x)
        if type(x) is np.ndarray and x.dtype.kind in "biufc":
            return from_numpy(x)
    leaves, tree = tree_flatten(x)
    places = _spread("device", device, x, len(leaves))
    for place in places:
        _check_place(place)
    gives = _spread("donate", donate, x, len(leaves))
    aliases = _spread("may_alias", may_alias, x, len(leaves))
    if any(g and a for g, a in zip(gives, aliases, strict=True)):
        raise ValueError("device_put cannot both donate an array and alias it; choose one of them")
    plain = [type(typeof(leaf)) is ShapedArray for leaf in leaves]
    if now and all(plain):
        given = zip(leaves, places, gives, aliases, strict=True)
        return tree_unflatten(tree, [_put(*one) for one in given])
    places = [
        NamedSharding(current_mesh(), p) if isinstance(p, PartitionSpec) else p for p in places
    ]
    for leaf, place in zip(leaves, places, strict=True):
        if isinstance(place, NamedSharding) and not isinstance(place.mesh, AbstractMesh):
            check_fits(place, np.shape(leaf), "device_put")
    put = lookup("device_put")
    outs = put.bind(
        *leaves,
        devices=tuple(places),
        srcs=tuple(_source(leaf) if src is None else src for leaf in leaves),
        copy_semantics=("reuse",) * len(leaves),
    )
    found = zip(leaves, outs, places, strict=True)
    placed = [y._at(where_to(x, p)) if type(y) is ArrayImpl else y for x, y, p in found]
    return tree_unflatten(tree, placed)


def _there(x: ArrayImpl) -> ArrayImpl:
    """An array, unless it has been deleted."""
    return x._refuse() if x.is_deleted() else x.block_until_ready()


def _guard(x: Any, device: Any) -> None:
    """Raise where a transfer guard forbids explicit copies."""
    if state.trace is not eval_trace:
        return
    leaves = tree_leaves(x)
    guards.from_host(leaves, "device_put", explicit=True)
    for leaf in leaves:
        if device is not None and type(leaf) is ArrayImpl:
            guards.between_devices(leaf, where_to(leaf, device).sharding, "device_put", True)


def _source(x: Any) -> Any:
    """The sharding to which the cotangent of an array that is moved goes back."""
    while hasattr(x, "primal"):
        x = x.primal
    return x.sharding if type(x) is ArrayImpl and x.committed else None


def _spread(name: str, value: Any, x: Any, count: int) -> list[Any]:
    """What is said of a whole tree, or of parts of it, for each of its leaves."""
    if not isinstance(value, (tuple, list, dict)):
        return [value] * count
    try:
        return broadcast_prefix(value, x, is_leaf=lambda v: v is None)
    except ValueError as error:
        raise ValueError(f"the {name} of device_put does not fit its argument: {error}") from None


def _check_place(place: Any) -> None:
    if place is None or isinstance(place, (Device, Sharding, Format, PartitionSpec, MemorySpace)):
        return
    error = ValueError if isinstance(place, Hashable) else TypeError
    raise error(
        "device_put takes a device, a sharding, a format, a memory space or None, got"
        f" {place!r} of type {type(place).__name__}; write device_put(x, weft.devices()[0])"
    )


def _put(x: Any, place: Any, donate: bool, may_alias: bool | None) -> ArrayImpl:
    """An array at a place, over the same memory unless that is refused."""
    if processes.count > 1:
        where = where_to(x, place)
        if where.spans or (type(x) is ArrayImpl and x._type.placement.spans):
            return _put_across(x, where, may_alias)
    if meshes.sums_left and (_is_sum(where_to(x, place).sharding) or _is_sum(x)):
        where = where_to(x, place).sharding
        return as_placed(resharded(x, where), placement(where, True))
    if type(x) is not ArrayImpl:
        aval, where = typeof(x), where_to(x, place)
        if not where.memory.is_host:
            return put(np.asarray(x, aval.dtype), aval, where)
        out = box(np.array(x, aval.dtype), aval)
    elif may_alias is False:
        out = x.__copy__()
    else:
        where = where_to(_there(x), place)
        stays = place is None or isinstance(place, Sharding)
        if stays and not donate and where is x._type.placement:
            return x
        return x._at(where)
    return out._at(where_to(x, place))


def _is_sum(x: Any) -> bool:
    """Whether an array, or one of a sharding, is a sum that is left to be made."""
    sharding = getattr(x, "sharding", x)
    return isinstance(sharding, NamedSharding) and bool(sharding.spec.unreduced)


def _put_across(x: Any, where: Placement, may_alias: bool | None) -> ArrayImpl:
    """An array over several processes; what is a value of this one is the same in all of them."""
    if where.spans and where.sharding.num_devices == 1:
        raise ValueError(
            f"device_put to {where.sharding}, a device of another process; each process puts"
            " arrays on its own devices, or all of them on a mesh of all"
        )
    if where.spans:
        if type(x) is ArrayImpl and where is x._type.placement:
            return x.__copy__() if may_alias is False else x
        if not (type(x) is ArrayImpl and x._type.placement.spans):
            _check_same(x)
        return across.put(x, where)
    assert type(x) is ArrayImpl
    return box(across.gathered(x), x.aval, where)


def _check_same(x: Any) -> None:
    """Raise AssertionError unless all processes give ``device_put`` the same value."""
    value = np.ascontiguousarray(x._value if type(x) is ArrayImpl else np.asarray(x))
    mark = hashlib.sha256(repr((value.shape, value.dtype)).encode() + value.tobytes()).digest()
    marks = processes.transport.share(mark)
    different = [i for i, other in enumerate(marks) if other != marks[0]]
    if different:
        raise AssertionError(
            "device_put to a sharding over several processes takes the same value in all of "
            f"them, but process {different[0]} has a different value from process 0; for parts "
            "that differ use"
            " weft.make_array_from_process_local_data"
        )


def where_to(x: Any, place: Any) -> Placement:
    """The placement of an array that is put at a place; ValueError where it does not fit there."""
    here = x._type.placement if type(x) is ArrayImpl else default_placement()
    if isinstance(place, Format):
        if isinstance(place.layout, AutoLayout):
            raise ValueError(f"device_put needs a layout, which {place} leaves to the compiler")
        place = place.sharding_for(np.shape(x), "device_put")
    if place is None:
        return here
    if isinstance(place, Device):
        return on_device(place)
    if isinstance(place, PartitionSpec):
        place = NamedSharding(current_mesh(), place)
    if isinstance(place, Sharding):
        spec = getattr(place, "spec", ())
        if PartitionSpec.UNCONSTRAINED in spec:
            raise ValueError(
                f"device_put got {spec}, which leaves a dimension unconstrained; name mesh axes, "
                "or write None to replicate the dimension"
            )
        check_fits(place, np.shape(x), "device_put")
        return placement(place, True)
    kind = "pinned_host" if place.name == "Host" else "device"  # a memory space
    return placement(here.sharding.with_memory_kind(kind), True)


def current_mesh() -> Mesh:
    """The mesh that ``set_mesh`` has made the current one."""
    current = knobs.thread.mesh
    if current is None or current[0] is None:
        raise ValueError(
            "a PartitionSpec needs a mesh, and none is set; write"
            " NamedSharding(mesh, spec), or set one with weft.set_mesh(mesh)"
        )
    return current[0]


def context_mesh() -> Any:
    """The mesh that is set, with devices if they are known; None without any."""
    current = knobs.thread.mesh
    if current is None or current[1].empty:
        return None
    concrete, abstract = current
    if concrete is None or concrete.axis_names != abstract.axis_names:
        return abstract
    if concrete.axis_types == abstract.axis_types:
        return concrete
    return concrete.update(axis_types=abstract.axis_types)


def of_rank(sharding: Any, ndim: int) -> Any:
    """A sharding without the dimensions that its spec leaves whole behind those of an array."""
    spec = getattr(sharding, "spec", ())
    if len(spec) <= ndim or any(part is not None for part in spec[ndim:]):
        return sharding
    return sharding.with_parts(spec[:ndim])


def result_sharding(sharding: Any, name: str, same_mesh: bool = True) -> NamedSharding | None:
    """The sharding that is said of a function's result; only explicit axes can be named."""
    if sharding is None:
        return None
    if not isinstance(sharding, (NamedSharding, PartitionSpec)):
        raise TypeError(
            f"{name} takes a NamedSharding or a PartitionSpec as out_sharding, got {sharding!r} of"
            f" type {type(sharding).__name__}"
        )
    mesh = context_mesh()
    if isinstance(sharding, PartitionSpec):
        if mesh is None:
            raise ValueError(
                f"{name} got {sharding}, which needs a mesh, and none is set;"
                " write NamedSharding(mesh, spec), or set one with weft.set_mesh(mesh)"
            )
        sharding = NamedSharding(mesh, sharding)
    elif sharding.mesh.empty:
        return None
    elif same_mesh and mesh is not None and sharding.mesh.explicit_axes:
        if sharding.mesh.abstract_mesh != mesh.abstract_mesh:
            raise ValueError(
                f"{name} got a sharding over {sharding.mesh.abstract_mesh}, and the mesh that is"
                f" set is {mesh.abstract_mesh}; use that, or set the other with weft.set_mesh"
            )
    for axis in sharding.spec.names():
        if axis not in sharding.mesh.explicit_axes:
            kind = dict(zip(sharding.mesh.axis_names, sharding.mesh.axis_types, strict=True))[axis]
            raise ValueError(
                f"{name} got {sharding.spec}, and {axis!r} is an axis of type {kind}: only "
                "Explicit axes are part of types; use lax.with_sharding_constraint, or make the "
                "mesh"
                " with axis_types=AxisType.Explicit"
            )
    return sharding


def divided_alike(name: str, *xs: Any) -> list[Any]:
    """Arrays of one shape, all divided over explicit axes as those of them are that are divided."""
    avals = [typeof(x) for x in xs]
    whole = max((a.shape for a in avals), key=len)
    given = [a for a in avals if a.shape == whole and getattr(a, "divided", None) is not None]
    if not given:
        return list(xs)
    spec = divisions.merged(name, [explicit.spec_of(a) for a in given], given)
    wanted = explicit.with_spec(given[0], spec, given[0].divided.mesh)
    return [
        explicit.moved(x, a.update(sharding=wanted.divided)) if a.shape == whole else x
        for x, a in zip(xs, avals, strict=True)
    ]


def divided_as(out_sharding: Any, compute: Callable[[], Any], name: str) -> Any:
    """A result that is divided as is said, however the operands of its computation are."""
    where = result_sharding(out_sharding, name)
    with loosely(frozenset() if where is None else where.spec.unreduced):
        found = compute()
    return found if where is None else summed_as(found, where, name)


def summed_as(x: Any, where: NamedSharding, name: str) -> Any:
    """A result that is divided as is said, and whose sums are made unless it is said that they are
    left to be made: then they must be."""
    wanted = where.spec.unreduced
    if wanted and explicit.sums_in([typeof(x)]) != wanted:
        raise meshes.ShardingTypeError(
            f"{name} was given out_sharding={where.spec}: the unreduced axes must be those that "
            "shard the summed dimensions of both operands"
        )
    return resharded(x, where)


def resharded(x: Any, sharding: NamedSharding) -> Any:
    """``x`` divided over explicit axes as a sharding says."""
    aval = typeof(x)
    try:
        sharding.shard_shape(tuple(np.shape(x)))
    except ValueError as error:
        raise ValueError(f"reshard cannot divide {aval.str_short()}: {error}") from None
    if sharding.mesh.explicit_axes:
        whole = (None,) * (np.ndim(x) - len(sharding.spec))
        sharding = sharding.with_spec(meshes.in_types(sharding.spec, sharding.mesh) + whole)
    return lookup("reshard").bind(x, dst_sharding=sharding)


def check_fits(sharding: Sharding, shape: tuple[int, ...], name: str) -> None:
    """Raise ValueError unless an array of a shape can be divided as a sharding says."""
    if isinstance(getattr(sharding, "mesh", None), AbstractMesh):
        raise ValueError(
            f"{name} needs devices, and the mesh of {sharding} names none; use a Mesh instead of"
            " an AbstractMesh"
        )
    try:
        sharding.shard_shape(tuple(shape))
    except ValueError as error:
        raise type(error)(
            f"{name} cannot divide an array of shape {tuple(shape)}: {error}"
        ) from None


def _watched() -> bool:
    """Whether whatever is computed is looked at."""
    thread = knobs.thread
    return thread.debug_nans or thread.debug_infs


@overload
def device_get(x: ArrayLike) -> np.ndarray: ...
@overload
def device_get(x: Any) -> Any: ...
@api_boundary
def device_get(x: Any) -> Any:
    """Return a tree of arrays as NumPy arrays.

    Args:
        x: Array or tree of arrays, on any device.

    Returns:
        Tree like ``x`` with NumPy arrays, read-only where they share memory. Traced arrays stay as
        they are.

    Example:
        >>> import weft
        >>> weft.device_get(weft.numpy.ones(2))
        array([1., 1.], dtype=float32)
    """

    def get(leaf: Any) -> Any:
        if isinstance(leaf, Tracer):
            return leaf
        if isinstance(leaf, Array):
            extended = dtypes.issubdtype(leaf.dtype, dtypes.extended)
            return leaf if extended else np.asarray(leaf)
        return leaf if not hasattr(leaf, "__array__") else np.asarray(leaf)

    with guards.getting():
        return get(x) if type(x) is ArrayImpl else tree_map(get, x)


def block_until_ready(x: T) -> T:
    """Return a tree of arrays once all of it is computed.

    Args:
        x: Array or tree; leaves that aren't arrays are passed on.

    Returns:
        ``x`` itself.

    Use it in benchmarks: calls on GPUs return before their results are there.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.block_until_ready(jnp.ones(2))
        Array([1., 1.], dtype=float32)
    """
    waited: set[Any] = set()  # for clients, each once: a tree may have thousands of leaves
    for leaf in tree_leaves(x):
        if type(leaf) is ArrayImpl and leaf._owner is not None:
            client = leaf._type.placement.client
            if client not in waited:
                client.wait()
                waited.add(client)
        elif hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


def copy_to_host_async(x: T) -> T:
    """Return a tree of arrays and start copying it to the host.

    Args:
        x: Array or tree; other leaves are asked if they have a method of this name.

    Returns:
        ``x`` itself. Arrays on the CPU are there already.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.copy_to_host_async(jnp.ones(2))
        Array([1., 1.], dtype=float32)
    """
    for leaf in tree_leaves(x):
        if hasattr(leaf, "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


def effects_barrier() -> None:
    """Wait until all side effects have happened: CPU calls are synchronous."""


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Return a context manager in which operations on known values run at once, while tracing too.

    Returns:
        Context manager. Operations on traced values are traced as usual.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> @weft.jit
        ... def f(x):
        ...     with weft.ensure_compile_time_eval():
        ...         n = int(jnp.arange(4).shape[0])
        ...     return x * n
        >>> float(f(2.0))
        8.0
    """
    previous = state.trace
    if previous is not eval_trace:
        state.trace = FoldingTrace(previous)
    try:
        yield
    finally:
        state.trace = previous


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Return a context manager that gives the operations traced in it a name.

    Args:
        name: Name, shown in programs, error messages and profiles; scopes nest.

    Returns:
        Context manager, also usable as a decorator.

    Example:
        >>> import weft
        >>> @weft.jit
        ... def f(x):
        ...     with weft.named_scope("double"):
        ...         return 2 * x
        >>> float(f(3.0))
        6.0
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope takes a string, got {name!r}")
    previous = state.name_stack
    state.name_stack = NameStack((*previous, name))
    try:
        yield
    finally:
        state.name_stack = previous


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """Return ``fun`` with its operations traced under a name.

    Args:
        fun: Function to wrap.
        name: Name, shown in programs, error messages and profiles; by default that of ``fun``.

    Returns:
        Function with the arguments of ``fun``.

    Example:
        >>> import weft
        >>> float(weft.named_call(lambda x: 2 * x, name="double")(3.0))
        6.0
    """
    label = name or fun.__name__

    @wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(label):
            return fun(*args, **kwargs)

    return named


def disable_jit(disable: bool = True) -> knobs.Setting:
    """Return a context manager in which jitted functions and loops run as ordinary Python.

    Args:
        disable: False switches ``jit`` on again inside of another scope.

    Returns:
        Context manager. Use it to debug with ``print`` and ``pdb``.

    Example:
        >>> import weft
        >>> with weft.disable_jit():
        ...     y = weft.jit(lambda x: x if x > 0 else -x)(-2.0)
        >>> float(y)
        2.0
    """
    return knobs.disable_jit(disable)
