"""How the state of a training is divided over a mesh: replicated, fully sharded, or by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft import P, tree_util
from weft.sharding import Mesh, NamedSharding
from weft.train.checkpoint.structure import name_of

Rules = str | Sequence[tuple[str, Any]] | Callable[[str, tuple[int, ...]], Any]


def default_mesh() -> Mesh:
    """A mesh of all devices along one axis, ``"data"``.

    >>> default_mesh().axis_names
    ('data',)
    """
    return Mesh(np.array(weft.devices()), ("data",))


def batch_axis(mesh: Mesh) -> str:
    """The axis that divides batches: ``"data"`` if the mesh has it, else its first."""
    return "data" if "data" in mesh.axis_names else mesh.axis_names[0]


def _divisor(mesh: Mesh, entry: Any) -> int:
    names = entry if isinstance(entry, tuple) else (entry,)
    return int(np.prod([mesh.shape[name] for name in names if name is not None], dtype=int))


def _fully_sharded(shape: tuple[int, ...], axis: str, size: int) -> Any:
    """Divide the largest dimension that can be; the last of equal ones."""
    best = max(
        (d for d, n in enumerate(shape) if n and n % size == 0),
        key=lambda d: (shape[d], d),
        default=None,
    )
    if best is None or size == 1:
        return P()
    return P(*(axis if d == best else None for d in range(best + 1)))


def partition_spec(name: str, shape: tuple[int, ...], mesh: Mesh, rules: Rules) -> Any:
    """Return the partition spec of a leaf.

    Args:
        name: the leaf's name, such as ``params/Dense_0/kernel``.
        shape: its shape.
        mesh: the mesh.
        rules: ``"data"`` gives every device a copy. ``"fsdp"`` divides the largest dimension that
            can be divided, over the axis ``"fsdp"`` or else that of batches. Pairs of a regular
            expression and a spec: the first that is found in the name decides, and without one
            every device has a copy. Or a function of name and shape that returns a spec.

    Returns:
        A ``PartitionSpec``.

    Example:
        >>> partition_spec("params/w", (8, 4), default_mesh(), [("w$", P(None, "data"))])
        P(None, 'data')
    """
    if rules == "data":
        return P()
    if rules == "fsdp":
        axis = "fsdp" if "fsdp" in mesh.axis_names else batch_axis(mesh)
        return _fully_sharded(shape, axis, mesh.shape[axis])
    if isinstance(rules, str):
        raise ValueError(f"sharding={rules!r}: write 'data', 'fsdp', rules, or a function")
    if callable(rules):
        spec = rules(name, shape)
    else:
        spec = next((spec for pattern, spec in rules if re.search(pattern, name)), P())
    return _checked(name, shape, mesh, P() if spec is None else spec)


def _checked(name: str, shape: tuple[int, ...], mesh: Mesh, spec: Any) -> Any:
    if not shape:  # counters of optimisers have the names of what they count
        return P()
    if len(spec) > len(shape):
        raise ValueError(f"{name!r} has the shape {shape}, but its rule is {spec}")
    for size, entry in zip(shape, spec):
        if entry is not None and size % _divisor(mesh, entry):
            raise ValueError(
                f"{name!r} has the shape {shape}: {size} cannot be sharded over {entry!r}, which"
                f" has {_divisor(mesh, entry)} devices"
            )
    return spec


def state_shardings(state: Any, mesh: Mesh, rules: Rules = "data") -> Any:
    """Return the shardings of all arrays of a state.

    Args:
        state: a tree of arrays, such as a ``TrainState``.
        mesh: the mesh.
        rules: as for ``partition_spec``.

    Returns:
        A tree of ``NamedSharding``, like ``state``.

    Example:
        >>> import weft.numpy as jnp
        >>> state_shardings({"w": jnp.ones((8, 4))}, default_mesh(), "data")["w"].spec
        P()
    """

    def one(path: Any, leaf: Any) -> NamedSharding:
        spec = partition_spec(name_of(path), tuple(np.shape(leaf)), mesh, rules)
        return NamedSharding(mesh, spec)

    return tree_util.tree_map_with_path(one, state)
