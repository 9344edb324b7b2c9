"""Arrays in tensorstore's formats: every process writes and reads the parts that it has.

tensorstore is no dependency of weft: it is imported when the first array is written or read.
Without it, arrays are files of the format zarr, which weft writes and reads itself.
"""

from __future__ import annotations

import abc
import asyncio
import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.api.placement import device_put
from weft.core.array import Array
from weft.core.layout import Format
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.sharding import Sharding
from weft.dtypes import canonicalize_dtype
from weft.experimental.array_serialization import zarr
from weft.experimental.multihost_utils import sync_global_devices
from weft.numpy.creation import asarray
from weft.sharding import make_array_from_callback

__all__ = [
    "AsyncManager", "GlobalAsyncCheckpointManager", "GlobalAsyncCheckpointManagerBase",
    "async_deserialize", "async_serialize", "get_tensorstore_spec", "is_remote_storage",
    "run_deserialization", "run_serialization",
]  # fmt: skip

_REMOTE = ("gcs", "s3")


def _tensorstore() -> Any:
    try:
        return importlib.import_module("tensorstore")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "weft.experimental.array_serialization writes arrays with tensorstore, which is not"
            " installed: pip install tensorstore",
            name="tensorstore",
        ) from error


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    *,
    ocdbt: bool = False,
    process_idx: int | None = None,
    arr: Any = None,
    driver: str = "zarr",
) -> dict[str, Any]:
    """Return where and how an array is stored, in tensorstore's terms.

    Args:
        ckpt_path: the folder of the array; ``gs://`` and ``s3://`` addresses are remote.
        ocdbt: use tensorstore's database format.
        process_idx: the number of the process, for a folder of its own.
        arr: the array, to add its shape, dtype and chunks.
        driver: the format: ``'zarr'`` or ``'zarr3'``.

    Returns:
        A dictionary.

    Example:
        >>> get_tensorstore_spec("/data/weights")["kvstore"]
        {'driver': 'file', 'path': '/data/weights'}
    """
    path = os.fspath(ckpt_path)
    if not path.startswith(("gs://", "s3://")) and not os.path.isabs(path):
        raise ValueError(f"arrays are written to absolute paths, got {path!r}")
    spec: dict[str, Any] = {"driver": driver}
    if ocdbt:
        base, name = os.path.split(path)
        place = base if path.startswith(("gs://", "s3://")) else f"file://{base}"
        spec["kvstore"] = {"driver": "ocdbt", "base": place, "path": name}
    elif path.startswith("gs://"):
        bucket, _, rest = path.removeprefix("gs://").partition("/")
        spec["kvstore"] = {"driver": "gcs", "bucket": bucket, "path": rest}
    elif path.startswith("s3://"):
        bucket, _, rest = path.removeprefix("s3://").partition("/")
        spec["kvstore"] = {"driver": "s3", "bucket": bucket, "path": rest}
    else:
        spec["kvstore"] = {"driver": "file", "path": path}
    if arr is not None:
        spec["metadata"] = {"shape": list(arr.shape), "chunks": _chunks(arr)}
        spec["dtype"] = np.dtype(arr.dtype).name
    return spec


def is_remote_storage(tspec: Any) -> bool:
    """Return whether a place is not on this machine.

    Args:
        tspec: a specification, or a path.

    Returns:
        True or False.

    Example:
        >>> is_remote_storage(get_tensorstore_spec("gs://bucket/weights"))
        True
    """
    if isinstance(tspec, str):
        return tspec.startswith(("gs://", "s3://"))
    return (
        any(is_remote_storage(tspec[key]) for key in ("base", "kvstore") if key in tspec)
        or tspec.get("driver") in _REMOTE
    )


def _chunks(array: Any) -> list[int]:
    """The shape of the parts that an array is written in: those of its devices."""
    sharding = getattr(array, "sharding", None)
    shape = array.shape if sharding is None else sharding.shard_shape(tuple(array.shape))
    return [max(1, n) for n in shape]


def _folder(spec: Any) -> str | None:
    """Where an array is that weft writes and reads itself; None where tensorstore has to."""
    store = spec.get("kvstore", {})
    plain = spec.get("driver") == "zarr" and store.get("driver") == "file"
    if not plain or importlib.util.find_spec("tensorstore") is not None:
        return None
    return store["path"]


def _parts(array: Any) -> list[tuple[Any, np.ndarray]]:
    """The parts that this process is to write: of those that several have, one has the first."""
    if not isinstance(array, Array):
        value = np.asarray(array)
        return [((slice(None),) * value.ndim, value)]
    return [(s.index, np.asarray(s.data)) for s in array.addressable_shards if s.replica_id == 0]


async def async_serialize(
    arr_inp: Any, tensorstore_spec: Any, commit_future: Any = None, **_: Any
) -> None:
    """Write an array; of an array over several processes each writes its own parts.

    Of an array over several processes each writes its own parts.

    Args:
        arr_inp: the array.
        tensorstore_spec: where and how the array is stored, from ``get_tensorstore_spec``.
        commit_future: a list that gets what says when the array is on disk.

    Example:
        >>> import asyncio, tempfile, weft.numpy as jnp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(async_serialize(jnp.ones(2), get_tensorstore_spec(folder + "/x")))
    """
    if not isinstance(arr_inp, Array):
        arr_inp = np.asarray(arr_inp)
    folder = _folder(tensorstore_spec)
    if folder is not None:
        zarr.begin(folder, arr_inp.shape, arr_inp.dtype, _chunks(arr_inp))
        for index, value in _parts(arr_inp):
            zarr.write(folder, index, arr_inp.shape, value)
        return
    ts = _tensorstore()
    spec = dict(tensorstore_spec)
    if "dtype" not in spec:
        spec["dtype"] = np.dtype(arr_inp.dtype).name
    if "metadata" not in spec:
        spec["metadata"] = {"shape": list(arr_inp.shape), "chunks": _chunks(arr_inp)}
    store = await ts.open(ts.Spec(spec), create=True, open=True)
    for index, value in _parts(arr_inp):
        written = store[index].write(value)
        if commit_future is None:
            await written.commit
        else:
            await written.copy
            commit_future.append(written.commit)


async def async_deserialize(
    in_type: Any,
    tensorstore_spec: Any,
    global_shape: Sequence[int] | None = None,
    dtype: Any = None,
    **_: Any,
) -> Array:
    """Return an array read from files; on a mesh of several processes each reads its own parts.

    On a mesh of several processes each reads its own parts.

    Args:
        in_type: the sharding of the array.
        tensorstore_spec: where and how the array is stored, from ``get_tensorstore_spec``.
        global_shape: the shape of the result: the array is cut or filled up to it. By default as
            stored.
        dtype: the dtype of the result. By default as stored.

    Returns:
        The array.

    Example:
        >>> import asyncio, tempfile, weft.numpy as jnp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     spec = get_tensorstore_spec(folder + "/x")
        ...     run_serialization([jnp.ones(2)], [spec])
        ...     asyncio.run(async_deserialize(jnp.ones(2).sharding, spec))
        Array([1., 1.], dtype=float32)
    """
    folder = _folder(tensorstore_spec)
    store: Any
    if folder is not None:
        store = zarr.Stored(folder)
        read = store.read
    else:
        ts = _tensorstore()
        store = await ts.open(ts.Spec(tensorstore_spec), open=True)
        read = lambda index: np.asarray(store[tuple(index)].read().result())
    sharding = in_type.sharding if isinstance(in_type, (Format, ShapeDtypeStruct)) else in_type
    if isinstance(in_type, ShapeDtypeStruct):
        global_shape = in_type.shape if global_shape is None else global_shape
        dtype = in_type.dtype if dtype is None else dtype
    shape = tuple(store.shape if global_shape is None else global_shape)

    def part(index: Any) -> np.ndarray:
        """The elements of a range, zeros beyond those that are stored."""
        ranges = [s.indices(n)[:2] for s, n in zip(index, shape, strict=True)]
        there = [
            (min(a, n), min(b, n)) for (a, b), n in zip(ranges, tuple(store.shape), strict=True)
        ]
        found = read([slice(a, b) for a, b in there])
        pads = [(0, (b - a) - (d - c)) for (a, b), (c, d) in zip(ranges, there, strict=True)]
        return np.pad(found, pads) if any(after for _, after in pads) else found

    if isinstance(sharding, Sharding) and not sharding.is_fully_addressable:
        kind = None if dtype is None else canonicalize_dtype(dtype)
        cast = lambda index: part(index) if kind is None else part(index).astype(kind)
        return make_array_from_callback(shape, sharding, cast)
    whole = part((slice(None),) * len(shape))
    return device_put(asarray(whole, dtype), sharding)


def run_serialization(arrays: Sequence[Any], tensorstore_specs: Sequence[Any]) -> None:
    """Write arrays and wait until they are on disk.

    Args:
        arrays: the arrays.
        tensorstore_specs: where and how each is stored.

    Example:
        >>> import tempfile, weft.numpy as jnp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run_serialization([jnp.ones(2)], [get_tensorstore_spec(folder + "/x")])
    """

    async def write() -> None:
        pairs = zip(arrays, tensorstore_specs, strict=True)
        await asyncio.gather(*[async_serialize(x, spec) for x, spec in pairs])

    asyncio.run(write())
    _meet(arrays)


def _meet(arrays: Sequence[Any]) -> None:
    """Wait for the other processes, where they write parts too."""
    if any(isinstance(x, Array) and not x.is_fully_addressable for x in arrays):
        sync_global_devices("run_serialization")


def run_deserialization(
    shardings: Sequence[Any],
    tensorstore_specs: Sequence[Any],
    global_shapes: Sequence[Any] | None = None,
    dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = 32,
) -> list[Array]:
    """Return arrays read from files.

    Args:
        shardings: the sharding of each array.
        tensorstore_specs: where and how each is stored.
        global_shapes: the shape of each result. By default as stored.
        dtypes: the dtype of each result. By default as stored.
        concurrent_gb: accepted for JAX, no effect.

    Returns:
        The arrays.

    Example:
        >>> import tempfile, weft.numpy as jnp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     specs = [get_tensorstore_spec(folder + "/x")]
        ...     run_serialization([jnp.ones(2)], specs)
        ...     run_deserialization([jnp.ones(2).sharding], specs)
        [Array([1., 1.], dtype=float32)]
    """
    count = len(tensorstore_specs)

    async def read() -> list[Array]:
        given = zip(
            shardings,
            tensorstore_specs,
            global_shapes or [None] * count,
            dtypes or [None] * count,
            strict=True,
        )
        return list(await asyncio.gather(*[async_deserialize(*each) for each in given]))

    return asyncio.run(read())


class AsyncManager:
    """A thread that waits until what is being written is on disk.

    Args:
        timeout_secs: how long to wait for other processes.

    Example:
        >>> AsyncManager(timeout_secs=10).wait_until_finished()
    """

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout_secs = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def _begin(self, futures: Sequence[Any], done: Callable[[], Any]) -> None:
        def wait() -> None:
            try:
                for future in futures:
                    future.result()
                done()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=wait, daemon=False)
        try:
            self._thread.start()
        except RuntimeError:  # the system has no thread left: waited for here
            self._thread = None
            wait()

    def check_for_errors(self) -> None:
        """Raise what went wrong while writing."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait_until_finished(self) -> None:
        """Wait until everything is written; raise what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """The interface of what writes arrays while the program goes on.

    >>> issubclass(GlobalAsyncCheckpointManager, GlobalAsyncCheckpointManagerBase)
    True
    """

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise what went wrong while writing."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait until everything is written."""

    @abc.abstractmethod
    def serialize(self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Any) -> None:
        """Begin to write arrays."""

    @abc.abstractmethod
    def deserialize(self, shardings: Any, tensorstore_specs: Any) -> Any:
        """Read arrays."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """A writer of arrays to files while the program goes on.

    Args:
        timeout_secs: how long to wait for other processes.

    Example:
        >>> GlobalAsyncCheckpointManager().wait_until_finished()
    """

    def serialize(
        self, arrays: Any, tensorstore_specs: Any, *, on_commit_callback: Callable[[], Any]
    ) -> None:
        """Begin to write arrays; ``on_commit_callback()`` is called when they are on disk."""
        self.wait_until_finished()
        futures: list[Any] = []

        async def write() -> None:
            pairs = zip(arrays, tensorstore_specs, strict=True)
            await asyncio.gather(*[async_serialize(x, spec, futures) for x, spec in pairs])

        asyncio.run(write())
        _meet(arrays)
        self._begin(futures, on_commit_callback)

    def serialize_with_paths(
        self, arrays: Any, paths: Sequence[str], *, on_commit_callback: Callable[[], Any]
    ) -> None:
        """The same, to files of these paths."""
        specs = [get_tensorstore_spec(path) for path in paths]
        self.serialize(arrays, specs, on_commit_callback=on_commit_callback)

    def deserialize(
        self,
        shardings: Any,
        tensorstore_specs: Any,
        global_shapes: Any = None,
        dtypes: Any = None,
        concurrent_gb: int = 32,
    ) -> list[Array]:
        """Read arrays."""
        self.wait_until_finished()
        return run_deserialization(shardings, tensorstore_specs, global_shapes, dtypes)

    def deserialize_with_paths(
        self, shardings: Any, paths: Sequence[str], global_shapes: Any = None, dtypes: Any = None
    ) -> list[Array]:
        """The same, from files of these paths."""
        specs = [get_tensorstore_spec(path) for path in paths]
        return self.deserialize(shardings, specs, global_shapes, dtypes)
