"""Folders that Orbax wrote, as far as they can be read without tensorstore.

What can: trees of zarr arrays, in an OCDBT database, which is Orbax's default, or in a folder each
(``use_ocdbt=False``); and the older single file of MessagePack. What cannot: zarr of version 3, and
leaves of text.
"""

import os
from typing import Any

from weft.train.checkpoint import flax_files, ocdbt, plain_json, safetensors, sources, zarr
from weft.train.checkpoint.errors import CheckpointError

_METADATA, _OCDBT, _SINGLE = "_METADATA", ocdbt.MANIFEST, "checkpoint"
_EMPTY: dict[Any, Any] = {"None": None, "Dict": {}, "List": [], "Tuple": ()}
_SEQUENCE = 1  # the key_type of lists and tuples


def _read_file(path: str) -> bytes:
    with safetensors.open_plain(path) as file:
        return file.read()


def _item(path: str) -> str:
    """The folder of the tree: the path itself, or the one item of a step that has a tree."""
    marks = (_METADATA, _OCDBT, _SINGLE)
    here = lambda folder: any(os.path.exists(os.path.join(folder, mark)) for mark in marks)
    if here(path):
        return path
    items = [os.path.join(path, name) for name in sorted(os.listdir(path))]
    items = [item for item in items if os.path.isdir(item) and here(item)]
    default = os.path.join(path, "default")
    if default in items:
        return default
    if len(items) != 1:
        found = ", ".join(map(os.path.basename, items)) or "no tree"
        raise CheckpointError(f"{path}: is not a checkpoint; as a step of Orbax it has {found}")
    return items[0]


def _keys(entry: Any, where: str) -> list[tuple[str, bool]]:
    listed = entry.get("key_metadata") if type(entry) is dict else None
    if type(listed) is not list or not listed:
        raise CheckpointError(f"{where}: its tree has a leaf without keys")
    found = []
    for one in listed:
        key = one.get("key") if type(one) is dict else None
        if type(key) is not str or not key or "/" in key or "\0" in key:
            raise CheckpointError(f"{where}: its tree has the key {key!r:.80}")
        found.append((key, one.get("key_type") == _SEQUENCE))
    return found


def _insert(root: dict, keys: list[tuple[str, bool]], value: Any, where: str) -> None:
    node = root
    for key, _ in keys[:-1]:
        node = node.setdefault(key, {})
        if type(node) is not dict:
            raise CheckpointError(f"{where}: {key!r:.80} is a leaf and a node of its tree")
    if keys[-1][0] in node:
        raise CheckpointError(f"{where}: {keys[-1][0]!r:.80} appears twice")
    node[keys[-1][0]] = value


def read_tree(folder: str) -> dict[str, Any]:
    """The tree of a folder with zarr arrays; sequences are dictionaries with keys "0", "1", …"""
    metadata = plain_json.loads(_read_file(os.path.join(folder, _METADATA)), folder)
    listed = metadata.get("tree_metadata") if type(metadata) is dict else None
    if type(listed) is not dict:
        raise CheckpointError(f"{folder}: its {_METADATA} has no tree")
    if metadata.get("use_zarr3"):
        raise CheckpointError(
            f"{folder}: its arrays are zarr of version 3, which weft does not read; save with"
            " use_zarr3=False"
        )

    def in_folders(key: str) -> bytes | None:
        path = os.path.join(folder, key)
        return _read_file(path) if os.path.exists(path) else None

    is_database = os.path.exists(os.path.join(folder, _OCDBT))
    store = ocdbt.Database(folder).get if is_database else in_folders
    root: dict[str, Any] = {}
    for entry in listed.values():
        keys = _keys(entry, folder)
        value = entry.get("value_metadata", {})
        kind = value.get("value_type") if type(value) is dict else None
        name = ".".join(key for key, _ in keys)
        if name in (".", ".."):
            raise CheckpointError(f"{folder}: its tree has a leaf {name!r}")
        if kind in _EMPTY:
            _insert(root, keys, _EMPTY[kind], folder)
            continue
        if kind == "string":
            raise CheckpointError(f"{folder}: {name!r} is text, which weft does not read")
        array = zarr.read_array(store, name, folder)
        _insert(root, keys, array.item() if kind == "scalar" and not array.ndim else array, folder)
    return root


def read(path: str) -> sources.Source:
    """The leaves of a folder that Orbax wrote: one of a step, or of one item of it."""
    folder = _item(path)
    if os.path.exists(os.path.join(folder, _METADATA)):
        return sources.Memory(read_tree(folder), folder)
    return flax_files.read(os.path.join(folder, _SINGLE))
