"""What belongs to several devices and processes, on the one device of the one process there is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.api.arguments import as_tuple
from weft.api.batching import vmap
from weft.api.jit import jit
from weft.core.sharding import PartitionSpec
from weft.runtime.devices import local_device_count, local_devices
from weft.tree.functions import tree_leaves, tree_map

__all__ = ["colocated_cpu_devices", "global_state", "initialize", "pmap", "shard_map", "shutdown"]


class _Processes:
    """The state of several processes: there is one."""

    client = service = preemption_sync_manager = coordinator_address = None
    process_id, num_processes = 0, 1


global_state = _Processes()


def initialize(*args: Any, **kwargs: Any) -> None:
    """Join other processes, of which there are none."""
    count = kwargs.get("num_processes", args[1] if len(args) > 1 else None)
    if count not in (None, 1):
        raise RuntimeError(f"weft runs in one process here, asked to join {count}")


def is_initialized() -> bool:
    """Whether other processes were joined."""
    return False


def shutdown() -> None:
    """Leave the other processes."""


def pmap(
    fun: Callable[..., Any],
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: Any = (),
    devices: Any = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: Any = (),
    global_arg_shapes: Any = None,
) -> Callable[..., Any]:
    """``fun`` compiled and run on every device: on one, over a mapped axis of size 1."""
    static = as_tuple(static_broadcasted_argnums)
    name = object() if axis_name is None else axis_name

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        places = [i for i in range(len(args)) if i not in static]

        def call(*dynamic: Any, **named: Any) -> Any:
            full = list(args)
            for i, x in zip(places, dynamic, strict=True):
                full[i] = x
            return fun(*full, **named)

        axes = in_axes
        if isinstance(in_axes, (tuple, list)):
            axes = tuple([in_axes[i] for i in places])
        mapped = vmap(call, axes, out_axes, axis_name=name, axis_size=axis_size)
        return mapped(*[args[i] for i in places], **kwargs)

    compiled = jit(run, static_argnums=static or None, donate_argnums=as_tuple(donate_argnums))

    @functools.wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if in_axes == 0:
            given = [x for i, x in enumerate(args) if i not in static]
            sizes = {x.shape[0] for x in tree_leaves((given, kwargs)) if getattr(x, "ndim", 0)}
            if sizes and max(sizes) > local_device_count():
                raise ValueError(
                    f"pmap was given a leading axis of size {max(sizes)}, which requires"
                    f" {max(sizes)} logical devices, but there are only {local_device_count()}"
                )
        return compiled(*args, **kwargs)

    checked.lower = compiled.lower  # type: ignore[attr-defined]
    return checked


def shard_map(
    f: Any = None,
    *,
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    axis_names: Any = (),
    check_vma: bool = True,
    **_: Any,
) -> Any:
    """``f`` on the part of its arguments that each device has: on one device, all of them."""
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    if mesh is None or mesh.size != 1:
        raise ValueError(
            "shard_map under the name jax takes a mesh of one device, as weft has one here; got"
            f" {mesh}"
        )
    for spec in tree_leaves((in_specs, out_specs), is_leaf=lambda s: isinstance(s, PartitionSpec)):
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"shard_map takes partition specs, got {spec!r}")

    @functools.wraps(f)
    def run(*args: Any) -> Any:
        inner: Any = lambda: f(*args)
        for axis in mesh.axis_names:
            inner = functools.partial(vmap, inner, in_axes=(), axis_name=axis, axis_size=1)()
        return tree_map(lambda x: x[(0,) * len(mesh.axis_names)], inner())

    return run


def _refuse_colocated(what: Any) -> Any:
    raise RuntimeError(
        "colocated Python runs functions on the hosts of remote devices; weft has none"
    )


colocated_python = colocated_python_class = _refuse_colocated


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices beside some devices: themselves."""
    return local_devices()
