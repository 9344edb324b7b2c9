"""Leaves of a source put into a tree: by name, in the dtype and on the devices it asks for."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import weft
from weft import dtypes, random, tree_util
from weft import numpy as jnp
from weft.sharding import Sharding
from weft.train.checkpoint import leaves, manifest, structure
from weft.train.checkpoint.errors import CheckpointError
from weft.train.checkpoint.manifest import Leaf
from weft.train.checkpoint.sources import Source

Names = Mapping[str, str | None] | Callable[[str], str | None]
DTypes = Any  # a dtype of all floating-point leaves, or a function of name and dtype
Shardings = Sharding | Callable[[str, tuple[int, ...]], Sharding | None] | None
_LISTED = 8


def _listing(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
    return ", ".join(map(repr, ordered[:_LISTED])) + more


def stored_name(name: str, names: Names | None) -> str | None:
    """Where a leaf of the target is stored; the longest prefix that a mapping has decides.

    >>> stored_name("encoder/w", {"encoder": "model/enc"}), stored_name("head/b", {"head": None})
    ('model/enc/w', None)
    """
    if names is None:
        return name
    if callable(names):
        return names(name)
    parts = name.split("/")
    for count in range(len(parts), 0, -1):
        prefix = "/".join(parts[:count])
        if prefix in names:
            found = names[prefix]
            return None if found is None else "/".join([found, *parts[count:]])
    return name


def _rank(dtype: Any) -> int:
    """Booleans, integers, floating-point and complex numbers, in the order they convert."""
    kinds = (jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating)
    return next(i for i, kind in enumerate(kinds) if dtypes.issubdtype(dtype, kind))


def _cast(array: np.ndarray, dtype: Any, name: str) -> np.ndarray:
    if array.dtype == dtype:
        return array
    if _rank(array.dtype) > _rank(dtype):
        raise CheckpointError(f"{name!r} is stored as {array.dtype}, the target is {dtype}")
    with np.errstate(all="ignore"):  # overflow to infinity is what a narrower dtype means
        made = array.astype(dtype)
    if _rank(dtype) == 1 and not np.array_equal(made.astype(array.dtype), array):
        raise CheckpointError(f"{name!r} has values that do not fit {dtype}")
    return made


class Restorer:
    """Makes leaves of a source into leaves for a target, with the caller's wishes."""

    def __init__(self, source: Source, dtype: DTypes, sharding: Shardings) -> None:
        self.source, self.dtype, self.sharding = source, dtype, sharding

    def _wanted_dtype(self, name: str, dtype: np.dtype) -> np.dtype:
        if self.dtype is None:
            return dtype
        if callable(self.dtype) and not isinstance(self.dtype, type):
            scalar_type = getattr(self.dtype, "dtype", None)  # jnp.float32 and the like
            return np.dtype(self.dtype(name, dtype) if scalar_type is None else scalar_type)
        return np.dtype(self.dtype) if dtypes.issubdtype(dtype, jnp.floating) else dtype

    def _wanted_sharding(self, name: str, shape: tuple[int, ...], like: Any) -> Any:
        if callable(self.sharding):
            return self.sharding(name, shape)
        if self.sharding is not None:
            return self.sharding
        if not getattr(like, "committed", True):  # an array that is not bound to a device
            return None
        return getattr(like, "sharding", None)

    def _place(self, name: str, stored: str, dtype: np.dtype, sharding: Any) -> weft.Array:
        """An array of weft, of which this process reads what it needs."""
        if dtypes.canonicalize_dtype(dtype) != dtype:
            raise CheckpointError(
                f"{name!r} is stored as {dtype}, but 64-bit types are off: turn them on"
                " (weft.config.update('jax_enable_x64', True)) or pass dtype="
            )
        if sharding is not None and not sharding.is_fully_addressable:
            shape = self.source.leaves[stored].shape
            part = lambda index: _cast(self.source.read(stored, index), dtype, name)
            return weft.make_array_from_callback(shape, sharding, part)
        array = _cast(self.source.read(stored), dtype, name)
        return jnp.asarray(array) if sharding is None else weft.device_put(array, sharding)

    def _key(self, name: str, stored: str, leaf: Leaf, like: Any) -> weft.Array:
        if like is not None and not leaves.is_key(like):
            raise CheckpointError(f"{name!r} is stored as random keys, the target is not")
        data = jnp.asarray(self.source.read(stored))
        try:
            keys = random.wrap_key_data(data, impl=leaf.impl)
        except (TypeError, ValueError, KeyError) as error:
            raise CheckpointError(f"{name!r} has no keys of {leaf.impl!r:.40}: {error}") from None
        if like is not None and keys.dtype != like.dtype:
            raise CheckpointError(f"{name!r} is stored as {keys.dtype}, the target is {like.dtype}")
        self._check_shape(name, keys.shape, like)
        sharding = self._wanted_sharding(name, keys.shape, like)
        return keys if sharding is None else weft.device_put(keys, sharding)

    def _check_shape(self, name: str, shape: tuple[int, ...], like: Any) -> None:
        if like is not None and tuple(np.shape(like)) != tuple(shape):
            raise CheckpointError(
                f"{name!r} is stored with shape {tuple(shape)}, the target has {np.shape(like)}"
            )

    def leaf(self, name: str, stored: str, like: Any = None) -> Any:
        """The value of a stored leaf; ``like`` is the target's, None where there is no target."""
        leaf = self.source.leaves[stored]
        if not leaf.is_array:
            return self._from_scalar(name, self.source.scalar(stored), like)
        if leaf.kind == "key":
            return self._key(name, stored, leaf, like)
        if like is not None and (leaves.is_key(like) or isinstance(like, (str, bytes))):
            raise CheckpointError(f"{name!r} is stored as an array, the target is {like!r:.80}")
        self._check_shape(name, leaf.shape, like)
        dtype = manifest.KNOWN_DTYPES[leaf.dtype]
        if like is not None and hasattr(like, "dtype"):
            dtype = np.dtype(like.dtype)
        dtype = self._wanted_dtype(name, dtype)
        on_host = isinstance(like, (np.ndarray, np.generic)) or (
            leaf.kind == "numpy" and not hasattr(like, "sharding") and self.sharding is None
        )
        if on_host:
            array = _cast(self.source.read(stored), dtype, name)
            return array if isinstance(like, np.ndarray) or array.ndim else array[()]
        sharding = self._wanted_sharding(name, leaf.shape, like)
        return self._place(name, stored, dtype, sharding)

    def _from_scalar(self, name: str, value: Any, like: Any) -> Any:
        if like is None or type(like) is type(value):
            return value
        if isinstance(value, (str, bytes)) or isinstance(like, (str, bytes)) or leaves.is_key(like):
            raise CheckpointError(
                f"{name!r} is stored as {value!r:.80}, the target is {like!r:.80}"
            )
        if not hasattr(like, "dtype"):
            return value
        self._check_shape(name, (), like)
        array = _cast(np.asarray(value), np.dtype(like.dtype), name)
        if isinstance(like, (np.ndarray, np.generic)):
            return array if isinstance(like, np.ndarray) else array[()]
        sharding = self._wanted_sharding(name, (), like)
        return jnp.asarray(array) if sharding is None else weft.device_put(array, sharding)


def into_target(restorer: Restorer, target: Any, names: Names | None, partial: bool) -> Any:
    """A tree like the target, with the leaves of the source that it names."""
    source = restorer.source
    wanted, treedef = structure.named_leaves(target)
    places = {name: stored_name(name, names) for name in wanted}
    missing = {name for name, at in places.items() if at is not None and at not in source.leaves}
    unused = set(source.leaves) - {at for at in places.values() if at is not None}
    if not partial and (missing or unused):
        lacks = [f"lacks {_listing(missing)}"] if missing else []
        more = [f"has {_listing(unused)}, which the target lacks"] if unused else []
        raise CheckpointError(
            f"{source.where} {' and '.join(lacks + more)}. Pass partial=True to restore the "
            "leaves that both have, or names= to map leaves to stored names"
        )
    made = []
    for name, like in wanted.items():
        at = places[name]
        if at is None or name in missing:
            if isinstance(like, weft.ShapeDtypeStruct):
                raise CheckpointError(
                    f"{source.where} lacks {name!r}, and the target has no value for it"
                )
            made.append(like)
        else:
            made.append(restorer.leaf(name, at, like))
    return tree_util.tree_unflatten(treedef, made)


def without_target(restorer: Restorer, at: str) -> Any:
    """The tree as it was saved, or the part of it at a name; other nodes are dictionaries."""
    source = restorer.source
    try:
        node = structure.below(source.tree, at)
    except KeyError:
        raise CheckpointError(f"{source.where} has nothing at {at!r}") from None
    names: set[str] = set()
    _collect(node, names)
    return structure.build(node, {name: restorer.leaf(name, name) for name in sorted(names)})


def _collect(node: Any, names: set[str]) -> None:
    if type(node) is str:
        names.add(node)
    elif node is not None:
        for item in node["items"]:
            _collect(item[1] if node["kind"] in ("dict", "node") else item, names)
