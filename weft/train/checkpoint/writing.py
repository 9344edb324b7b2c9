"""A checkpoint written as a folder that appears whole or not at all.

All files are written into a folder of another name, synced, and the folder is renamed. Of several
processes each writes a file of its own; the first waits for the others and renames.
"""

import dataclasses
import hashlib
import json
import os
import platform
import re
import secrets
import time
from typing import Any

from weft.train.checkpoint import leaves, manifest, plain_json, safetensors, structure
from weft.train.checkpoint.errors import CheckpointError
from weft.train.checkpoint.leaves import Block
from weft.train.checkpoint.manifest import Leaf, Manifest, Part

# Temporary names: of which folder, what for, on which machine, by which process, and a random part.
_TEMPORARY = re.compile(r"\.(.+)\.(saving|removing)-([0-9a-f]{8})-([0-9]+)-[0-9a-f]{16}")
_OWN_FILE = re.compile(r"process_[0-9]{5}\.(safetensors|json)(\.part)?|manifest\.json")
_ABANDONED_AFTER = 7 * 24 * 3600.0  # seconds, of folders that another machine began
_POLL = 0.01


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A tree as it was at one moment: its shape, its leaves, and what this process writes."""

    tree: Any
    leaves: dict[str, Leaf]
    blocks: dict[str, list[Block]]


def snapshot(tree: Any, first: bool = True, copy: bool = True) -> Snapshot:
    """Take a tree as it is now; later changes of it do not reach the snapshot.

    Args:
        tree: any pytree of arrays, keys and Python scalars.
        first: whether this process writes what all processes have.
        copy: whether NumPy arrays are copied; False if nothing changes them until all is written.

    >>> snapshot({"w": 1.5}).leaves
    {'w': Leaf(kind='float', dtype='', shape=(), impl='', parts=(), value='0x1.8000000000000p+0')}
    """
    found: dict[str, Leaf] = {}
    blocks: dict[str, list[Block]] = {}
    for name, value in structure.named_leaves(tree)[0].items():
        found[name], blocks[name] = leaves.take(name, value, first, copy)
    return Snapshot(structure.describe(tree), found, blocks)


def sync_folder(path: str) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_synced(path: str, *pieces: bytes) -> None:
    with open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def temporary_name(name: str, purpose: str, token: str | None = None) -> str:
    """A hidden name for a folder that is being written or removed."""
    return f".{name}.{purpose}-{_machine()}-{os.getpid()}-{token or secrets.token_hex(8)}"


def write_blocks(folder: str, process: int, taken: Snapshot) -> tuple[dict, dict]:
    """Write this process's file; returns the parts in it by leaf, and the file's own record."""
    name = f"process_{process:05}.safetensors"
    plan = []
    for leaf, blocks in taken.blocks.items():
        shape = taken.leaves[leaf].shape
        for block in blocks:
            whole = block.array.shape == shape
            tensor = leaf if whole else f"{leaf}@{','.join(map(str, block.start))}"
            plan.append((leaf, block, tensor, safetensors.as_stored(block.array)))
    entries = {tensor: (array.dtype, array.shape) for _, _, tensor, array in plan}
    if len(entries) != len(plan):
        raise CheckpointError("two leaves of the tree would have the same name in the file")
    if not plan:
        return {}, {}
    header = safetensors.encode_header(entries)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(header)
        checksums = safetensors.write_arrays(file, (array for *_, array in plan))
        file.flush()
        size = file.tell()
        os.fsync(file.fileno())
    parts: dict[str, list[Part]] = {}
    for (leaf, block, tensor, _), checksum in zip(plan, checksums):
        part = Part(name, tensor, block.start, block.array.shape, checksum)
        parts.setdefault(leaf, []).append(part)
    return parts, {name: (size, safetensors.checksum(header))}


def publish(folder: str, process: int, parts: dict, files: dict, error: str = "") -> None:
    """Tell the first process what this one has written, or that it could not."""
    listed = {name: [dataclasses.asdict(part) for part in some] for name, some in parts.items()}
    text = json.dumps({"parts": listed, "files": files, "error": error}).encode()
    path = os.path.join(folder, f"process_{process:05}.json")
    _write_synced(f"{path}.part", text)
    os.replace(f"{path}.part", path)


def collect(folder: str, count: int, parts: dict, files: dict, timeout: float) -> None:
    """Wait for what the other processes have written, and add it to ``parts`` and ``files``."""
    deadline = time.monotonic() + timeout
    for process in range(1, count):
        path = os.path.join(folder, f"process_{process:05}.json")
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                raise CheckpointError(
                    f"process {process} has not written its part of {folder} in {timeout:g} s."
                    " Can all processes access this folder?"
                )
            time.sleep(_POLL)
        with open(path, "rb") as file:
            found = plain_json.loads(file.read(), path)
        if found["error"]:
            raise CheckpointError(f"process {process} could not write: {found['error']}")
        for name, some in found["parts"].items():
            made = [
                Part(p["file"], p["tensor"], tuple(p["start"]), tuple(p["shape"]), p["crc32"])
                for p in some
            ]
            parts.setdefault(name, []).extend(made)
        files.update({name: tuple(record) for name, record in found["files"].items()})
        os.unlink(path)


def commit(temporary: str, final: str, record: Manifest) -> None:
    """Write the manifest and give the folder its name, which makes the checkpoint count."""
    data = manifest.encode(record)
    manifest.decode(data, final)  # what would not be read is not committed
    _write_synced(os.path.join(temporary, manifest.FILE), data)
    sync_folder(temporary)
    os.rename(temporary, final)
    sync_folder(os.path.dirname(final))


def with_parts(taken: Snapshot, parts: dict[str, list[Part]]) -> dict[str, Leaf]:
    """The leaves of a snapshot with the parts that processes have written."""
    return {
        name: dataclasses.replace(leaf, parts=tuple(parts.get(name, ())))
        for name, leaf in taken.leaves.items()
    }


def remove(path: str) -> bool:
    """Remove a checkpoint of weft; False, and nothing is touched, if other files are in it."""
    folder, name = os.path.split(path)
    if not all(_OWN_FILE.fullmatch(entry) for entry in os.listdir(path)):
        return False
    hidden = os.path.join(folder, temporary_name(name, "removing"))
    os.rename(path, hidden)
    sync_folder(folder)  # else a crash could bring back the name without the files
    _empty(hidden)
    return True


def _empty(path: str) -> None:
    for entry in os.listdir(path):
        if _OWN_FILE.fullmatch(entry):
            os.unlink(os.path.join(path, entry))
    if not os.listdir(path):
        os.rmdir(path)


def discard(path: str) -> None:
    """Remove a temporary folder after a failure; what is not ours in it stays."""
    _empty(path)


def _is_abandoned(path: str, machine: str, process: int) -> bool:
    if machine != _machine():
        return time.time() - os.stat(path).st_mtime > _ABANDONED_AFTER
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def clean(folder: str) -> None:
    """Remove what processes that were killed have left behind, and nothing else."""
    for name in os.listdir(folder):
        found = _TEMPORARY.fullmatch(name)
        path = os.path.join(folder, name)
        if found and os.path.isdir(path) and not os.path.islink(path):
            if _is_abandoned(path, found[3], int(found[4])):
                _empty(path)
