"""Shardings of a jitted function's arguments and results: what is given, checked and put there."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from weft.api.placement import check_fits, context_mesh, current_mesh, device_put
from weft.base import knobs
from weft.base.functional import wraps
from weft.core.jaxpr import ClosedJaxpr
from weft.core.layout import Format
from weft.core.registry import lookup
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    UnspecifiedValue,
    as_given,
)
from weft.core.trace import is_tracing, typeof
from weft.division.specs import spec_of
from weft.runtime import guards
from weft.runtime.array import ArrayImpl
from weft.runtime.devices import devices, platform_of
from weft.runtime.places import default_placement
from weft.runtime.site import says_where
from weft.runtime.spread import divided
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten


def check_options(options: dict[str, Any]) -> None:
    """Raise unless the options of jit that say where it runs can hold together."""
    device, backend = options["device"], options["backend"]
    if device is not None and backend is not None:
        raise ValueError(
            f"jit got device={device!r} and backend={backend!r}; give only one of them: a device "
            "belongs to a backend"
        )
    if isinstance(device, (list, tuple)):
        raise ValueError(f"jit runs on one device, got device={device!r}; use in_shardings instead")
    if backend is not None:
        devices(backend)  # RuntimeError where it isn't known
    for name in ("in_shardings", "out_shardings"):
        given = options[name]
        if (device is not None or backend is not None) and is_given(given):
            raise ValueError(
                f"jit got {name} beside {'backend' if device is None else 'device'}; use only one "
                "of them to say where arguments and results are"
            )
        for leaf in tree_flatten(given, is_leaf=_is_leaf)[0]:
            _check_leaf(leaf, f"{name} of jit")


def _check_leaf(sharding: Any, what: str) -> None:
    if sharding is not None and not _is_leaf(sharding) and type(sharding).__name__ != "Format":
        raise TypeError(
            f"{what} takes shardings, partition specs or None, got {sharding!r}; write"
            " NamedSharding(mesh, P('x'))"
        )
    spec = sharding if isinstance(sharding, PartitionSpec) else getattr(sharding, "spec", ())
    if spec is not None and PartitionSpec.UNCONSTRAINED in spec:
        raise ValueError(
            f"{what} got {spec}, which leaves a dimension unconstrained; only "
            "lax.with_sharding_constraint takes that: name mesh axes, or write None to replicate "
            "the dimension"
        )


def check_described(tree: Any) -> None:
    """Raise where a description of an array has a sharding that does not fit its shape."""
    for x in tree_flatten(tree)[0]:
        if isinstance(x, ShapeDtypeStruct) and isinstance(x.sharding, Sharding):
            x.sharding.shard_shape(tuple(x.shape))


def is_given(shardings: Any) -> bool:
    """Whether anything is said of where values are."""
    leaves, _ = tree_flatten(shardings, is_leaf=_is_leaf)
    leaves = [x.sharding if isinstance(x, Format) else x for x in leaves]
    return any(x is not None and not isinstance(x, UnspecifiedValue) for x in leaves)


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec, UnspecifiedValue, Format))


def spread_shardings(
    shardings: Any, tree: Any, what: str, entered: bool = False
) -> list[Sharding | None]:
    """The sharding of each leaf of a tree, of which shardings are a prefix."""
    try:
        found = broadcast_prefix(shardings, tree, is_leaf=_is_leaf)
    except ValueError as error:
        raise ValueError(f"the shardings of {what} do not fit: {error}") from None
    if any(isinstance(s, Format) for s in found):
        leaves = tree_flatten(tree)[0]
        found = [_place_of(s, x, what) for s, x in zip(found, leaves, strict=True)]
    return [_full(s, what, entered) for s in found]


def _place_of(given: Any, x: Any, what: str) -> Any:
    return given.sharding_for(np.shape(x), what) if isinstance(given, Format) else given


def _full(sharding: Any, what: str, entered: bool) -> Sharding | None:
    if sharding is None or isinstance(sharding, (Sharding, UnspecifiedValue)):
        return sharding if isinstance(sharding, Sharding) else None
    if not isinstance(sharding, PartitionSpec):
        raise TypeError(
            f"{what} takes shardings, partition specs or None, got {sharding!r}; write"
            " NamedSharding(mesh, P('x'))"
        )
    mesh = knobs.thread.entered_mesh if entered and knobs.thread.mesh is None else None
    if entered and mesh is None and is_tracing():
        mesh = context_mesh()  # its devices may be those of the program's arguments
    try:
        mesh = mesh or current_mesh()
    except ValueError as error:
        raise RuntimeError(f"{what}: {error}") from None
    return NamedSharding(mesh, sharding)


def _of_arguments(shardings: Any, args: tuple[Any, ...], kwargs: Any) -> list[Sharding | None]:
    """The sharding of each leaf of a function's arguments."""
    if not is_given(shardings):
        return [None] * tree_flatten(args)[1].num_leaves
    if kwargs:
        raise ValueError(
            "a function with in_shardings takes its arguments by position, got"
            f" {', '.join(kwargs)} by name"
        )
    if isinstance(shardings, list):
        shardings = tuple(shardings)
    if isinstance(shardings, tuple) and not _is_leaf(shardings) and len(shardings) != len(args):
        raise ValueError(
            f"in_shardings of jit has entries for {len(shardings)} arguments, but the call has"
            f" {len(args)}; give one sharding for all, or a tuple with one for each"
        )
    return spread_shardings(shardings, tuple(args), "in_shardings of jit")


def said_of_arguments(shardings: Any, args: Any, kwargs: Any) -> list[Sharding | None]:
    """What ``in_shardings`` says of each leaf of a function's arguments."""
    if not is_given(shardings):
        return [None] * len(tree_flatten((args, kwargs))[0])
    return _of_arguments(shardings, tuple(args), kwargs)


def check_arguments(shardings: Any, args: Any, kwargs: Any) -> None:
    """Raise ValueError where an argument does not fit its sharding, or is committed to another."""
    wanted = _of_arguments(shardings, tuple(args), kwargs)
    for i, (x, sharding) in enumerate(zip(tree_flatten(tuple(args))[0], wanted, strict=True)):
        if sharding is None:
            continue
        check_fits(sharding, np.shape(x), f"in_shardings of jit, leaf {i}:")
        if type(x) is not ArrayImpl or not x.committed:
            continue
        if not sharding.is_equivalent_to(x.sharding, x.ndim):
            raise ValueError(
                f"in_shardings of jit say {sharding} for leaf {i} of the arguments,"
                f" {x.aval.str_short()}, which is committed to {x.sharding}; move it first with"
                " device_put, or leave that sharding out (None)"
            )


def moved(tree: Any, to: Any) -> Any:
    """A tree with its arrays at a device or sharding, if they are committed to other devices."""
    where = to if isinstance(to, Sharding) else SingleDeviceSharding(to)

    def move(x: Any) -> Any:
        if type(x) is not ArrayImpl:
            return x
        guards.between_devices(x, where, "jit(device=...)")
        there = not x.committed or x.sharding._device_assignment == where._device_assignment
        return x if there else device_put(x, where)

    return tree_map(move, tree)


# The backend that the function being traced was given, by thread and task.
_backend: ContextVar[str | None] = ContextVar("backend", default=None)


def check_backend(backend: str | None) -> None:
    """Raise ValueError for a compiled function inside of one that is for another backend."""
    outer = _backend.get()
    if outer and backend and platform_of(outer) != platform_of(backend):
        raise ValueError(
            f"jit with backend={backend!r} is called inside jit with backend={outer!r}: leave"
            " the inner one out"
        )


def device_of(options: dict[str, Any]) -> Any:
    """The device that the options of jit name, or the first of the backend that they do."""
    backend = options["backend"]
    return options["device"] if backend is None else devices(backend)[0]


def placing(fun: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """A function whose arguments and results are constrained to the shardings of its options."""
    device, backend = device_of(options), options["backend"]
    here = None if device is None else SingleDeviceSharding(device)

    @wraps(fun, updated=())
    def placed(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten(args)
        wanted = _of_arguments(options["in_shardings"], args, kwargs)
        given = [_constrained(x, s or here, "in") for x, s in zip(leaves, wanted, strict=True)]
        outside = _backend.set(backend or _backend.get())
        try:
            result = fun(*tree_unflatten(tree, given), **kwargs)
        finally:
            _backend.reset(outside)
        outs, out_tree = tree_flatten(result)
        shardings = options["out_shardings"]
        if is_given(shardings):
            wanted = spread_shardings(shardings, result, "out_shardings of jit")
        else:
            wanted = [here] * len(outs)
        found = [_constrained(y, as_given(s), "out") for y, s in zip(outs, wanted, strict=True)]
        return tree_unflatten(out_tree, found)

    return placed


def _constrained(x: Any, sharding: Sharding | None, what: str) -> Any:
    if sharding is None or not hasattr(typeof(x), "shape"):
        return x
    if isinstance(getattr(sharding, "mesh", None), AbstractMesh):
        sharding.shard_shape(tuple(np.shape(x)))
        return x  # to be traced and lowered; a call says that devices are missing
    check_fits(sharding, np.shape(x), f"{what}_shardings of jit:")
    if isinstance(sharding, NamedSharding) and sharding.mesh.explicit_axes:
        x = lookup("reshard").bind(x, dst_sharding=sharding)
        if not sharding.mesh.auto_axes:
            return x
    return lookup("sharding_constraint").bind(x, sharding=sharding)


def of_inputs(program: ClosedJaxpr, leaves: list[Any]) -> list[Sharding]:
    """Where a program takes its arguments: as it says, else where they are, else whole."""
    said: dict[Any, Sharding] = {}
    for eqn in program.eqns:
        if eqn.primitive.name == "sharding_constraint":
            said.setdefault(eqn.invars[0], eqn.params["sharding"])
        elif eqn.primitive.name == "reshard" and isinstance(eqn.params["dst_sharding"].mesh, Mesh):
            said.setdefault(eqn.invars[0], eqn.params["dst_sharding"])
    given = [said.get(v) or _own(x) for v, x in zip(program.jaxpr.invars, leaves, strict=True)]
    return [_whole(program, given) if s is None else s for s in given]


def assigned(args: Any, given: tuple[Any, ...] | None, name: str) -> Any:
    """Descriptions of arguments, those over a mesh without devices over a mesh of these."""
    if given is not None and not isinstance(given, tuple):
        raise TypeError(
            f"device_assignment is a tuple of devices, got {given!r} of type"
            f" {type(given).__name__}; write tuple(weft.devices()[:2])"
        )

    def with_devices(x: Any) -> Any:
        where = x.sharding if isinstance(x, ShapeDtypeStruct) else None
        if not isinstance(where, NamedSharding) or not isinstance(where.mesh, AbstractMesh):
            return x
        if given is None:
            raise RuntimeError(
                f"{name} was lowered for {where.mesh}, which has no devices; name the devices "
                "that run it:"
                " compile(device_assignment=tuple(weft.devices()[:2]))"
            )
        mesh = where.mesh
        if mesh.size != len(given):
            raise ValueError(
                f"{name} was lowered for {mesh}, of {mesh.size} devices, and device_assignment has"
                f" {len(given)}"
            )
        grid = np.array(given).reshape(mesh.axis_sizes)
        concrete = Mesh(grid, mesh.axis_names, axis_types=mesh.axis_types)
        return x.update(sharding=NamedSharding(concrete, where.spec))

    leaves, tree = tree_flatten(args)
    return tree_unflatten(tree, [with_devices(x) for x in leaves])


def _own(x: Any) -> Sharding | None:
    """The sharding that an array is committed to, or that a description of one has."""
    free = type(x) is ArrayImpl and not x.committed
    found = None if free else getattr(x, "sharding", None)
    return found if isinstance(found, Sharding) else None


def _whole(program: ClosedJaxpr, given: list[Any]) -> Sharding:
    """Where a program has what it says nothing of."""
    where = says_where(program)
    known = [s for s in given if s is not None] + ([] if where is None else [where.sharding])
    if not known:
        return default_placement().sharding
    named = isinstance(known[0], NamedSharding)
    return NamedSharding(known[0].mesh, PartitionSpec()) if named else known[0]


def of_outputs(program: ClosedJaxpr, given: list[Sharding]) -> list[Sharding]:
    """Where the results of a program are, from where its arguments are."""
    count = len(program.out_avals)
    meshes = [s.mesh for s in given if isinstance(s, NamedSharding)]
    where = says_where(program)
    if where is not None and isinstance(where.sharding, NamedSharding):
        meshes.append(where.sharding.mesh)
    if not meshes:
        return [_whole(program, list(given))] * count
    mesh = max(meshes, key=lambda mesh: mesh.size)
    specs = [spec_of(s, mesh, len(a.shape)) for s, a in zip(given, program.in_avals, strict=True)]
    return [p.sharding for p in divided(program, tuple(specs), mesh, None)]


def put_where_compiled(wanted: list[Sharding], leaves: list[Any]) -> list[Any]:
    """Arguments at the places that were compiled for; ValueError for one committed to another."""
    found = []
    for i, (x, sharding) in enumerate(zip(leaves, wanted, strict=True)):
        if type(x) is not ArrayImpl or not x.committed:
            found.append(device_put(x, sharding) if isinstance(x, (ArrayImpl, np.ndarray)) else x)
            continue
        found.append(x)
        if not x.sharding.is_equivalent_to(sharding, x.ndim):
            raise ValueError(
                f"this executable was compiled for {sharding} of argument {i},"
                f" {x.aval.str_short()}, and it is committed to {x.sharding}; move it first with"
                " device_put, or call the jitted function itself"
            )
    return found
