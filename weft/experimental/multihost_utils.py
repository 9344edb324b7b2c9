"""Agreement between processes: values gathered, sent from one to all, compared, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.core import processes
from weft.core.array import Array
from weft.core.sharding import Mesh, NamedSharding, PartitionSpec
from weft.runtime.spanning import gathered, part_of_process
from weft.sharding import make_array_from_process_local_data
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
    "host_local_array_to_global_array", "live_devices", "process_allgather",
    "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip


def _of_all(x: Any, name: str) -> np.ndarray:
    """What all processes have, a row for each."""
    value = np.ascontiguousarray(x).reshape(np.shape(x))
    if processes.count == 1:
        return value[None]
    with processes.transport.at(name, f"{name} of {value.dtype}{list(value.shape)}"):
        return processes.transport.all_gather(value, tuple(range(processes.count)))


def _spans(x: Any) -> bool:
    return isinstance(x, Array) and not x.is_fully_addressable


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Return a tree of arrays as one process has it, as NumPy arrays.

    Args:
        in_tree: a tree of arrays.
        is_source: whether this process is the one. By default the first is.

    Returns:
        A tree of NumPy arrays, the same in all processes.

    Example:
        >>> broadcast_one_to_all({"step": 3})
        {'step': array(3)}
    """
    source = processes.index == 0 if is_source is None else is_source
    sources = np.flatnonzero(_of_all(np.array(source), "broadcast_one_to_all"))
    if len(sources) != 1:
        raise ValueError(
            f"broadcast_one_to_all sends the value of one process, but {len(sources)} of"
            f" {processes.count} claim to be the source"
        )
    name = "broadcast_one_to_all"
    return tree_map(lambda x: _of_all(np.asarray(x), name)[int(sources[0]), ...], in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Return the arrays of all processes, stacked along a new axis or joined.

    Arrays over several processes are returned whole, as with ``tiled``.

    Args:
        in_tree: a tree of arrays.
        tiled: join along the first axis, not along a new one.

    Returns:
        A tree of NumPy arrays, the same in all processes.

    Example:
        >>> process_allgather(np.ones(2))
        array([[1., 1.]])
    """

    def gather(x: Any) -> np.ndarray:
        if _spans(x):
            if not tiled:
                raise ValueError(
                    f"process_allgather gathers {x.aval.str_short()}, an array over several"
                    " processes, along its own axes; write process_allgather(x, tiled=True)"
                )
            return gathered(x)
        value = np.asarray(x)
        rows = _of_all(value, "process_allgather")
        return rows.reshape(-1, *value.shape[1:]) if tiled and value.ndim else rows

    return tree_map(gather, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes get here, with the same name.

    Args:
        name: the name of the place.

    Example:
        >>> sync_global_devices("start")
    """
    if processes.count > 1:
        with processes.transport.at(f"sync_global_devices({name!r})", "sync_global_devices"):
            names = processes.transport.share(name.encode())
        wrong = [i for i, other in enumerate(names) if other != names[0]]
        if wrong:
            raise AssertionError(
                f"process {wrong[0]} reached sync_global_devices({names[wrong[0]].decode()!r}),"
                f" process 0 to sync_global_devices({names[0].decode()!r})"
            )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have the same arrays.

    Args:
        in_tree: a tree of arrays.
        fail_message: what the error says first.

    Example:
        >>> assert_equal({"step": 3})
    """
    for x in tree_flatten(in_tree)[0]:
        value = np.asarray(x)
        kind = repr((value.shape, value.dtype.str)).encode()
        kinds = [kind] if processes.count == 1 else processes.transport.share(kind)
        rows = _of_all(value, "assert_equal") if len(set(kinds)) == 1 else None
        if rows is None or any(row.tobytes() != rows[0].tobytes() for row in rows):
            raise AssertionError(
                f"{fail_message or 'assert_equal'}: processes have different values; process"
                f" {processes.index} has {value}"
            )


def reached_preemption_sync_point(step_id: int) -> bool:
    """Return whether all processes should save now because one will be stopped; always False here.

    Args:
        step_id: the number of the step.

    Returns:
        False.

    Example:
        >>> reached_preemption_sync_point(3)
        False
    """
    return False


@contextmanager
def live_devices(devices: Any) -> Iterator[list[Any]]:
    """Return a context manager that gives those of some devices whose processes live.

    Args:
        devices: the devices.

    Returns:
        A context manager of a list: all devices, since the job ends with the first process.

    Example:
        >>> import weft
        >>> with live_devices(weft.devices()) as alive:
        ...     len(alive) == len(weft.devices())
        True
    """
    sync_global_devices("live_devices")
    yield list(devices)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Return arrays over all processes, made of the parts that each process has.

    Args:
        local_inputs: the arrays of this process.
        global_mesh: the mesh over all processes.
        pspecs: how the arrays are divided: ``PartitionSpec`` for each, or a prefix of the tree.

    Returns:
        A tree of arrays over the mesh.

    Example:
        >>> import weft
        >>> mesh = weft.make_mesh((1,), "x")
        >>> host_local_array_to_global_array(np.ones(2, np.float32), mesh, weft.P("x"))
        Array([1., 1.], dtype=float32)
    """

    def made(x: Any, spec: Any) -> Any:
        if _spans(x):
            return x
        sharding = NamedSharding(global_mesh, PartitionSpec() if spec is None else spec)
        return make_array_from_process_local_data(sharding, np.asarray(x))

    return _by_spec(made, local_inputs, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Return the parts that this process has of arrays over all processes.

    Args:
        global_inputs: arrays over the mesh.
        global_mesh: the mesh over all processes.
        pspecs: how the arrays are divided: ``PartitionSpec`` for each, or a prefix of the tree.

    Returns:
        A tree of arrays on this process's part of the mesh.

    Example:
        >>> import weft
        >>> mesh = weft.make_mesh((1,), "x")
        >>> global_array_to_host_local_array(np.ones(2, np.float32), mesh, weft.P("x"))
        array([1., 1.], dtype=float32)
    """

    if processes.count == 1:
        return global_inputs

    def part(x: Any, spec: Any) -> Any:
        if not _spans(x):
            return x
        sharding = NamedSharding(global_mesh, PartitionSpec() if spec is None else spec)
        own = global_mesh.local_mesh
        return _local_part(x, sharding, own)

    return _by_spec(part, global_inputs, pspecs)


def _local_part(x: Any, sharding: NamedSharding, own: Mesh) -> Any:
    """What the devices of this process have, as one array on them."""
    if not x.sharding.is_equivalent_to(sharding, x.ndim):
        raise ValueError(
            f"global_array_to_host_local_array got an array sharded as {x.sharding.spec}, and the"
            f" spec {sharding.spec}; move it first with device_put"
        )
    value = part_of_process(x)
    return make_array_from_process_local_data(NamedSharding(own, sharding.spec), value)


def _by_spec(function: Any, inputs: Any, pspecs: Any) -> Any:
    leaves, tree = tree_flatten(inputs)
    is_spec = lambda x: x is None or isinstance(x, PartitionSpec)
    specs = broadcast_prefix(pspecs, inputs, is_leaf=is_spec)
    found = [function(x, spec) for x, spec in zip(leaves, specs, strict=True)]
    return tree_unflatten(tree, found)
