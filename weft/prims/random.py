"""Random keys: their dtype, the generators behind it, and the primitives that work on keys.

An array of keys is held as opaque elements whose NumPy field is named after the generator, so
that movement works on keys as on numbers and a reference sees which generator it is given.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.record import Record
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front, batch_in_place
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.division.factors import Factors, labelled, leading
from weft.prims import bit_generator, threefry
from weft.prims.counter_hashes import philox2, philox4, threefry4
from weft.prims.families import (
    align_batched,
    broadcast_in_dim,
    broadcast_shapes,
    converted,
    element,
    element_rule,
    kernel_random,
)
from weft.prims.threefry import UINT32


class PRNGImpl(Record):
    """A generator: the shape of a key's words and functions of NumPy arrays of keys.

    ``seed(ints)``, ``split(words, shape)``, ``random_bits(words, bit_width, shape)`` and
    ``fold_in(words, ints)`` take any number of keys, whose words are the last dimensions.
    """

    key_shape: tuple[int, ...]
    seed: Callable[..., np.ndarray]
    split: Callable[..., np.ndarray]
    random_bits: Callable[..., np.ndarray]
    fold_in: Callable[..., np.ndarray]
    name: str = "<unnamed>"
    tag: str = "?"

    def __hash__(self) -> int:
        return hash(self.tag)

    def __str__(self) -> str:
        return self.tag


generators: dict[str, PRNGImpl] = {}
_by_storage: dict[np.dtype, PRNGImpl] = {}


def register_generator(impl: PRNGImpl) -> None:
    """Let a generator be named by ``impl=`` and the knob ``default_prng_impl``."""
    if impl.name in generators:
        raise ValueError(f"a generator named {impl.name!r} already exists")
    generators[impl.name] = impl


class KeyTy(dtypes.ExtendedDType):
    """The dtype of random keys of one generator; made by ``key_type``."""

    def __init__(self, impl: PRNGImpl, storage: np.dtype) -> None:
        self._impl = impl
        self._storage = storage
        self._hash = hash((KeyTy, impl))

    @property
    def type(self) -> type:
        return dtypes.prng_key

    @property
    def name(self) -> str:
        return f"key<{self._impl.tag}>"

    @property
    def physical_shape(self) -> tuple[int, ...]:
        return self._impl.key_shape

    @property
    def physical_dtype(self) -> np.dtype:
        return UINT32

    @property
    def storage(self) -> np.dtype:
        return self._storage

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is KeyTy and self._impl == other._impl)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return _key_type_by_name, (self._impl.name,)


def _key_type_by_name(name: str) -> KeyTy:
    return key_type(generators[name])


@functools.lru_cache(256)
def key_type(impl: PRNGImpl) -> KeyTy:
    """The dtype of keys of a generator."""
    field = impl.tag
    while True:
        storage = np.dtype([(field, UINT32, impl.key_shape)])
        if _by_storage.setdefault(storage, impl) == impl:
            return KeyTy(impl, storage)
        field += "_"


def words_of(keys: np.ndarray) -> np.ndarray:
    """The words of stored keys: ``uint32[..., *key_shape]``."""
    names = keys.dtype.names
    assert names is not None
    return keys[names[0]]


def keys_of(words: np.ndarray, impl: PRNGImpl) -> np.ndarray:
    """Stored keys of given words."""
    storage = key_type(impl).storage
    ndim = words.ndim - len(impl.key_shape)
    flat = np.ascontiguousarray(words, UINT32).reshape(*words.shape[:ndim], prod(impl.key_shape))
    return flat.view(storage).reshape(words.shape[:ndim])


def impl_of(keys: np.ndarray) -> PRNGImpl:
    """The generator of stored keys."""
    return _by_storage[keys.dtype]


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of random keys."""
    return type(dtype) is KeyTy


class OnKeys(Primitive):
    """A primitive on keys; the batch dimension of its operand stays where it is."""

    holes = {"transpose": "random keys have no gradient"}

    def _check(self, aval: Any) -> None:
        if not is_key(aval.dtype):
            raise TypeError(
                f"{self.name} takes an array of random keys, got {aval.str_short()}; make keys"
                " with weft.random.key"
            )

    batch = batch_in_place


def layout() -> dict[str, Any]:
    """The parameter of what is drawn now: none where bits depend on their positions alone."""
    return {} if knobs.thread.threefry_partitionable else {"partitionable": False}


def _laid_out(partitionable: bool) -> Any:
    """A scope in which generators lay bits out as a primitive's parameter says."""
    if knobs.thread.threefry_partitionable == partitionable:
        return contextlib.nullcontext()
    return knobs.threefry_partitionable(partitionable)


def is_partitionable(params: dict[str, Any]) -> bool:
    """Whether bits were asked for that depend on their positions alone."""
    return params.get("partitionable", True)


class RandomSeed(OnKeys):
    """Keys made from integers."""

    name, form = "random_seed", "map"

    def lower_parts(self, k: Any, number: Any, *, impl: PRNGImpl) -> Any:
        return kernel_random.seed(k, number, key_type(impl))

    def shape(self, seeds: Any, *, impl: PRNGImpl) -> ShapedArray:
        if not dtypes.issubdtype(seeds.dtype, np.integer):
            raise TypeError(f"a random key is made from an integer seed, got {seeds.str_short()}")
        return ShapedArray(seeds.shape, key_type(impl))

    @staticmethod
    def ref(seeds: np.ndarray, *, impl: PRNGImpl) -> np.ndarray:
        return keys_of(impl.seed(seeds), impl)


class RandomSplit(OnKeys):
    """Several new keys for each key."""

    name, form, costly = "random_split", "element", True
    element = element_rule(kernel_random, "split")

    def fuses(self, params: Any, ins: Any) -> bool:
        return is_partitionable(params)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return leading(avals, outs, [0], [len(params["shape"])])

    def shape(
        self, keys: Any, *, shape: tuple[int, ...], partitionable: bool = True
    ) -> ShapedArray:
        self._check(keys)
        return ShapedArray((*keys.shape, *shape), keys.dtype)

    @staticmethod
    def ref(keys: np.ndarray, *, shape: tuple[int, ...], partitionable: bool = True) -> np.ndarray:
        impl = impl_of(keys)
        with _laid_out(partitionable):
            return keys_of(impl.split(words_of(keys), shape), impl)


class RandomFoldIn(OnKeys):
    """New keys of keys and integers."""

    name, form, costly = "random_fold_in", "map", True

    def lower_parts(self, k: Any, key: Any, data: Any) -> Any:
        return kernel_random.fold_in(k, key, data)

    def shape(self, keys: Any, data: Any) -> ShapedArray:
        self._check(keys)
        return ShapedArray(broadcast_shapes(self.name, [keys.shape, data.shape]), keys.dtype)

    @staticmethod
    def ref(keys: np.ndarray, data: np.ndarray) -> np.ndarray:
        impl = impl_of(keys)
        return keys_of(impl.fold_in(words_of(keys), data), impl)

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        aligned, dim = align_batched(axis, args, dims)
        return self.bind(*aligned), dim


class RandomBits(OnKeys):
    """An array of random integers for each key."""

    name, form, costly = "random_bits", "element", True
    element = element_rule(kernel_random, "random_bits")

    def fuses(self, params: Any, ins: Any) -> bool:
        return is_partitionable(params)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        by_position = (
            avals[0].dtype._impl is threefry_impl
            and is_partitionable(params)
            and prod(params["shape"]) <= 1 << 32
        )
        rank = len(outs[0].shape)
        if by_position:
            return labelled([range(len(avals[0].shape))], [range(rank)], avals, outs)
        return leading(avals, outs, [0], [len(params["shape"])])

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """The bits at a device's positions in the whole array: the same as one device makes."""
        (keys,) = args
        first = len(np.shape(keys))
        dims = part.factors.outs[0][first:]
        if all(part.count(labels) == 1 for labels in dims):
            return self.bind(keys, **{**params, "shape": tuple(part.outs[0][first:])})
        low = threefry.positions(part, dims, params["shape"], part.outs[0][first:])
        shape = tuple(part.outs[0])
        low = broadcast_in_dim(low, shape, tuple(range(first, len(shape))))
        high = broadcast_in_dim(np.uint32(0), shape)
        words = random_unwrap_p.bind(keys)
        parts = []
        for i in range(2):
            word = element(words, first, i)
            parts.append(broadcast_in_dim(word, shape, tuple(range(first))))
        high, low = threefry.threefry2x32_p.bind(*parts, high, low)
        width = params["bit_width"]
        dtype = np.dtype(f"uint{width}")
        if width == 64:
            high, low = (converted(x, dtype) for x in (high, low))
            by = broadcast_in_dim(np.uint64(32), shape)
            return lookup("or").bind(lookup("shift_left").bind(high, by), low)
        return converted(lookup("xor").bind(high, low), dtype)

    def shape(
        self, keys: Any, *, bit_width: int, shape: tuple[int, ...], partitionable: bool = True
    ) -> ShapedArray:
        self._check(keys)
        if bit_width not in (8, 16, 32, 64):
            raise TypeError(f"bit_width must be 8, 16, 32 or 64, not {bit_width}")
        return ShapedArray((*keys.shape, *shape), np.dtype(f"uint{bit_width}"))

    @staticmethod
    def ref(
        keys: np.ndarray, *, bit_width: int, shape: tuple[int, ...], partitionable: bool = True
    ) -> np.ndarray:
        with _laid_out(partitionable):
            return impl_of(keys).random_bits(words_of(keys), bit_width, shape)


class RandomWrap(OnKeys):
    """Keys of given words."""

    name, form, view = "random_wrap", "element", True
    element = element_rule(kernel_random, "wrap")

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return leading(avals, outs, [len(params["impl"].key_shape)], [0])

    def shape(self, words: Any, *, impl: PRNGImpl) -> ShapedArray:
        check_words(words, impl)
        return ShapedArray(words.shape[: len(words.shape) - len(impl.key_shape)], key_type(impl))

    @staticmethod
    def ref(words: np.ndarray, *, impl: PRNGImpl) -> np.ndarray:
        return keys_of(words, impl)

    def batch(self, axis: AxisData, args: Any, dims: Any, *, impl: Any) -> tuple[Any, int]:
        return self.bind(at_front(args[0], dims[0], axis.size), impl=impl), 0


class RandomUnwrap(OnKeys):
    """The words of keys."""

    name, form, view = "random_unwrap", "element", True
    element = element_rule(kernel_random, "unwrap")

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return leading(avals, outs, [0], [len(avals[0].dtype.physical_shape)])

    def shape(self, keys: Any) -> ShapedArray:
        self._check(keys)
        return ShapedArray((*keys.shape, *keys.dtype.physical_shape), UINT32)

    @staticmethod
    def ref(keys: np.ndarray) -> np.ndarray:
        return words_of(keys)


class RandomClone(OnKeys):
    """The same keys, of which a check for reuse thinks as new ones."""

    name, form = "random_clone", "map"

    def lower_parts(self, k: Any, keys: Any) -> Any:
        return keys

    def shape(self, keys: Any) -> ShapedArray:
        return keys

    @staticmethod
    def ref(keys: np.ndarray) -> np.ndarray:
        return keys


def check_words(words: Any, impl: PRNGImpl) -> None:
    """Raise TypeError unless an abstract value is that of the words of keys."""
    ndim = len(impl.key_shape)
    if words.dtype == UINT32 and words.shape[-ndim:] == impl.key_shape:
        return
    wanted = ", ".join(map(str, impl.key_shape))
    raise TypeError(
        f"the words of a {impl.name} key are uint32 with shape (..., {wanted}), got"
        f" {words.str_short()}; make a key with weft.random.key(seed)"
    )


random_seed_p, random_split_p, random_fold_in_p = RandomSeed(), RandomSplit(), RandomFoldIn()
random_bits_p, random_clone_p = RandomBits(), RandomClone()
random_wrap_p, random_unwrap_p = RandomWrap(), RandomUnwrap()


def _of_module(module: Any, key_shape: tuple[int, ...], name: str, tag: str) -> PRNGImpl:
    functions = module.seed, module.split, module.random_bits, module.fold_in
    return PRNGImpl(key_shape, *functions, name=name, tag=tag)


threefry_impl = _of_module(threefry, (2,), "threefry2x32", "fry")
rbg_impl = _of_module(bit_generator, (4,), "rbg", "rbg")
unsafe_rbg_impl = rbg_impl._replace(
    split=bit_generator.unsafe_split,
    fold_in=bit_generator.unsafe_fold_in,
    name="unsafe_rbg",
    tag="urbg",
)
for _impl in (
    threefry_impl,
    rbg_impl,
    unsafe_rbg_impl,
    _of_module(threefry4, (4,), "threefry4x32", "fry4"),
    _of_module(philox2, (1,), "philox2x32", "phx2"),
    _of_module(philox4, (2,), "philox4x32", "phx4"),
):
    register_generator(_impl)
