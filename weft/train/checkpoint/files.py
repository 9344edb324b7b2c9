"""``save`` and ``restore`` of one checkpoint, by the path of its folder."""

import os
import time
from typing import Any

import weft
from weft.train.checkpoint import flax_files, manifest, orbax_files, restoring, sources, writing
from weft.train.checkpoint.errors import CheckpointError


def save(
    path: str | os.PathLike[str],
    tree: Any,
    *,
    step: int = 0,
    metrics: dict[str, float] | None = None,
    metadata: Any = None,
) -> str:
    """Write a tree to a new folder, which is there as a whole or not at all.

    For checkpoints of many steps, of several processes, or while the program goes on, use
    ``CheckpointManager``.

    Args:
        path: the folder; it must not exist yet.
        tree: any pytree of arrays, random keys and Python scalars.
        step: the training step, kept in the manifest.
        metrics: numbers by name, kept in the manifest.
        metadata: anything that JSON can hold, kept in the manifest.

    Returns:
        The path of the folder.

    Example:
        >>> import tempfile, weft.numpy as jnp
        >>> path = save(tempfile.mkdtemp() + "/model", {"w": jnp.arange(3.0), "name": "mine"})
        >>> restore(path)
        {'name': 'mine', 'w': Array([0., 1., 2.], dtype=float32)}
    """
    final = os.path.abspath(os.fspath(path))
    folder, name = os.path.split(final)
    if weft.process_count() > 1:
        raise CheckpointError("save works in one process; with several, use a CheckpointManager")
    if os.path.lexists(final):
        raise CheckpointError(f"{final} already exists; choose another name or remove it")
    os.makedirs(folder, exist_ok=True)
    taken = writing.snapshot(tree, copy=False)
    temporary = os.path.join(folder, writing.temporary_name(name, "saving"))
    os.mkdir(temporary)
    try:
        parts, files = writing.write_blocks(temporary, 0, taken)
        record = manifest.Manifest(
            step, taken.tree, writing.with_parts(taken, parts), files, dict(metrics or {}),
            metadata, time.time(),
        )  # fmt: skip
        writing.commit(temporary, final, record)
    except BaseException:
        if os.path.isdir(temporary):
            writing.discard(temporary)
        raise
    return final


def open_source(path: str) -> sources.Source:
    """What a path holds, by the first format that it looks like."""
    if os.path.isfile(os.path.join(path, manifest.FILE)):
        return sources.Folder(path)
    if os.path.isdir(path):
        return orbax_files.read(path)
    if not os.path.exists(path):
        raise CheckpointError(f"there is no checkpoint {path}")
    return flax_files.read(path)


def restore(
    path: str | os.PathLike[str],
    target: Any = None,
    *,
    at: str = "",
    dtype: restoring.DTypes = None,
    sharding: restoring.Shardings = None,
    names: restoring.Names | None = None,
    partial: bool = False,
) -> Any:
    """Read a checkpoint, into a tree like ``target`` or as it was saved.

    Reads what ``save`` and ``CheckpointManager`` wrote, safetensors files, flax's MessagePack
    files, and what Orbax writes but for zarr of version 3. Nothing that is read can run code.

    Args:
        path: a folder or a file.
        target: a tree of arrays, ``ShapeDtypeStruct`` or scalars, which say the shape and dtype of
            every leaf, and on which devices it goes. Without it, dictionaries, lists and tuples
            are restored as such and other nodes as dictionaries.
        at: without a target, only the part of the tree at this name, as ``"params"``.
        dtype: the dtype of all floating-point leaves, or a function of a leaf's name and dtype.
        sharding: where arrays go: a sharding for all, or a function of a leaf's name and shape.
        names: under which name a leaf of the target is stored: a mapping of names or prefixes of
            names, or a function. None as the stored name keeps the target's value.
        partial: restore the leaves that both have. Others keep the target's value.

    Returns:
        The tree.

    Raises:
        CheckpointError: there is none, it is damaged, or it does not fit the target.

    Example:
        >>> import tempfile, weft, weft.numpy as jnp
        >>> path = save(tempfile.mkdtemp() + "/model", {"params": {"w": jnp.ones(2)}, "step": 3})
        >>> restore(path, at="params", dtype=jnp.bfloat16)
        {'w': Array([1, 1], dtype=bfloat16)}
        >>> target = {"weights": weft.ShapeDtypeStruct((2,), jnp.float32)}
        >>> restore(path, target, names={"weights": "params/w"}, partial=True)
        {'weights': Array([1., 1.], dtype=float32)}
    """
    source = open_source(os.fspath(path))
    try:
        restorer = restoring.Restorer(source, dtype, sharding)
        if target is None:
            if names is not None or partial:
                raise CheckpointError("names= and partial= need a target; at= selects a part")
            return restoring.without_target(restorer, at)
        if at:
            raise CheckpointError("at= is for restoring without a target; give names= instead")
        return restoring.into_target(restorer, target, names, partial)
    finally:
        source.close()
