"""Agreement between processes. There is one process, so each of these is quickly done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.core.sharding import NamedSharding, PartitionSpec
from weft.runtime.devices import process_count
from weft.sharding import make_array_from_process_local_data
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
    "host_local_array_to_global_array", "live_devices", "process_allgather",
    "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip


def _alone() -> None:
    if process_count() != 1:
        raise RuntimeError("weft.experimental.multihost_utils is for one process")


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """A tree of arrays as the first process has it, as NumPy arrays.

    >>> broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    _alone()
    return tree_map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """A tree of arrays of all processes, stacked along a new axis, or joined if ``tiled``.

    >>> process_allgather(np.ones(2))
    array([[1., 1.]])
    """
    _alone()

    def gather(x: Any) -> np.ndarray:
        value = np.asarray(x)
        return value if tiled and value.ndim else value[None]

    return tree_map(gather, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes have come here."""
    _alone()


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise AssertionError unless all processes have the same arrays."""
    _alone()


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether all processes are to save now because one will be stopped."""
    _alone()
    return False


@contextmanager
def live_devices(devices: Any) -> Iterator[list[Any]]:
    """Those of some devices whose processes live: all."""
    _alone()
    yield list(devices)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Arrays over all processes, of the parts that this process has.

    >>> import weft
    >>> mesh = weft.make_mesh((1,), "x")
    >>> host_local_array_to_global_array(np.ones(2, np.float32), mesh, weft.P("x"))
    Array([1., 1.], dtype=float32)
    """
    _alone()
    leaves, tree = tree_flatten(local_inputs)
    is_spec = lambda x: x is None or isinstance(x, PartitionSpec)
    specs = broadcast_prefix(pspecs, local_inputs, is_leaf=is_spec)
    return tree_unflatten(
        tree,
        [
            make_array_from_process_local_data(
                NamedSharding(global_mesh, PartitionSpec() if spec is None else spec), np.asarray(x)
            )
            for x, spec in zip(leaves, specs, strict=True)
        ],
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """The parts that this process has of arrays over all processes: the arrays themselves."""
    _alone()
    return global_inputs
