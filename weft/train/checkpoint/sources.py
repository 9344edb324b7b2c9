"""Where restored leaves come from: a checkpoint of weft, or values that are in memory already."""

import os
import zlib
from typing import IO, Any, Protocol

import numpy as np

from weft.train.checkpoint import leaves, manifest, safetensors, structure
from weft.train.checkpoint.errors import CheckpointError
from weft.train.checkpoint.manifest import Leaf, Manifest, Part

Index = tuple[slice, ...]


class Source(Protocol):
    """Leaves by name, the description of the tree that they make, and a way to read each."""

    where: str
    tree: Any
    leaves: dict[str, Leaf]

    def read(self, name: str, index: Index | None = None) -> np.ndarray:
        """The array of a leaf, or the part of it that an index selects."""

    def scalar(self, name: str) -> Any:
        """The Python scalar of a leaf."""

    def close(self) -> None:
        """Close the files."""


class Memory:
    """Leaves of plain containers in memory, which files of other formats are read into."""

    def __init__(self, tree: Any, where: str) -> None:
        self.where = where
        self.tree, self._values = structure.plain_tree(tree, where)
        self.leaves = {n: leaves.take(n, value)[0] for n, value in self._values.items()}

    def read(self, name: str, index: Index | None = None) -> np.ndarray:
        array = np.asarray(self._values[name])
        return array if index is None else array[index]

    def scalar(self, name: str) -> Any:
        return self._values[name]

    def close(self) -> None:
        self._values = {}


class Folder:
    """A checkpoint that weft wrote; every part that is read is held to its checksum."""

    def __init__(self, path: str) -> None:
        self.where = path
        self.manifest = read_manifest(path)
        self.tree, self.leaves = self.manifest.tree, self.manifest.leaves
        self._files: dict[str, tuple[IO[bytes], safetensors.Header]] = {}
        self._last: tuple[Part, np.ndarray] | None = None
        try:
            for name in self.manifest.files:
                self._open(name)
            for name, leaf in self.leaves.items():
                self._check(name, leaf)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str) -> None:
        path = os.path.join(self.where, name)
        file = safetensors.open_plain(path)
        size, wanted = self.manifest.files[name]
        try:
            found = os.fstat(file.fileno()).st_size
            if found != size:
                raise CheckpointError(f"{path}: has {found} bytes; the manifest says {size}")
            header = safetensors.read_header(file, path)
            if header.checksum != wanted:
                raise CheckpointError(f"{path}: its header is damaged: the checksum does not fit")
        except BaseException:
            file.close()
            raise
        self._files[name] = file, header

    def _check(self, name: str, leaf: Leaf) -> None:
        dtype = manifest.KNOWN_DTYPES.get(leaf.dtype)
        for part in leaf.parts:
            entry = self._files[part.file][1].entries.get(part.tensor)
            assert dtype is not None
            plain = dtype in safetensors.NAMES
            shape = part.shape if plain else (*part.shape, dtype.itemsize)
            stored = dtype if plain else np.dtype(np.uint8)
            if entry is None or entry.shape != shape or entry.dtype != stored:
                raise CheckpointError(
                    f"{self.where}: {part.file} does not hold {name!r:.120} as {leaf.dtype}"
                    f"{list(part.shape)}"
                )

    def _part(self, name: str, part: Part) -> np.ndarray:
        if self._last is not None and self._last[0] is part:
            return self._last[1]
        file, header = self._files[part.file]
        path = os.path.join(self.where, part.file)
        data = safetensors.read_entry(file, header.entries[part.tensor], path)
        if zlib.crc32(data.reshape(-1).view(np.uint8).data) != part.crc32:
            raise CheckpointError(f"{path}: {name!r:.120} is damaged: its checksum does not fit")
        dtype = manifest.KNOWN_DTYPES[self.leaves[name].dtype]
        array = data if data.dtype == dtype else data.reshape(-1).view(dtype).reshape(part.shape)
        self._last = part, array
        return array

    def read(self, name: str, index: Index | None = None) -> np.ndarray:
        leaf = self.leaves[name]
        if index is None:
            if len(leaf.parts) == 1:
                return self._part(name, leaf.parts[0])
            index = (slice(None),) * len(leaf.shape)
        bounds = [s.indices(n)[:2] for s, n in zip(index, leaf.shape, strict=True)]
        dtype = manifest.KNOWN_DTYPES[leaf.dtype]
        made = np.empty([max(b - a, 0) for a, b in bounds], dtype)
        for part in leaf.parts:
            common = [
                (max(a, at), min(b, at + size))
                for (a, b), at, size in zip(bounds, part.start, part.shape)
            ]
            if all(a < b for a, b in common):
                to = tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(common, bounds))
                of = tuple(slice(a - at, b - at) for (a, b), at in zip(common, part.start))
                made[to] = self._part(name, part)[of]
        return made

    def scalar(self, name: str) -> Any:
        return leaves.scalar_value(self.leaves[name], f"{self.where}, {name!r:.120}")

    def close(self) -> None:
        self._last = None
        for file, _ in self._files.values():
            file.close()
        self._files = {}


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of a checkpoint, which says what is in it without reading any array.

    Args:
        path: the folder of the checkpoint.

    Returns:
        Its step, metrics, metadata, leaves and files.

    Example:
        >>> import tempfile
        >>> from weft.train import checkpoint
        >>> path = checkpoint.save(tempfile.mkdtemp() + "/first", {"w": np.ones(3)}, step=7)
        >>> found = read_manifest(path)
        >>> found.step, found.leaves["w"].shape
        (7, (3,))
    """
    file_path = os.path.join(os.fspath(path), manifest.FILE)
    with safetensors.open_plain(file_path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > manifest.MAX_BYTES:
            raise CheckpointError(f"{file_path}: {size} bytes are too many for a manifest")
        return manifest.decode(file.read(), file_path)
