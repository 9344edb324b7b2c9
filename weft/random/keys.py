"""Making, splitting and taking apart random keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import knobs
from weft.base.source import warn
from weft.core.array import Array, Natural, Whole
from weft.core.dims.dim import whole
from weft.core.trace import typeof
from weft.numpy.creation import asarray
from weft.prims import random as prims
from weft.prims.random import KeyTy, PRNGImpl, generators, is_key, key_type

_HOW = "make a key with weft.random.key(seed)"


class PRNGSpec:
    """What ``key_impl`` gives for a generator that has no name."""

    __slots__ = ("_impl",)

    def __init__(self, impl: PRNGImpl) -> None:
        self._impl = impl

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"

    def __str__(self) -> str:
        return str(self._impl)

    def __hash__(self) -> int:
        return hash(self._impl)

    def __eq__(self, other: object) -> bool:
        return type(other) is PRNGSpec and self._impl == other._impl


def default_prng_impl() -> PRNGImpl:
    """The generator of keys that name none."""
    return generators[knobs.thread.default_prng_impl]


def resolve_prng_impl(spec: Any) -> PRNGImpl:
    """The generator that a name, a dtype of keys or a ``key_impl`` stands for."""
    if spec is None:
        return default_prng_impl()
    if isinstance(spec, PRNGImpl):
        return spec
    if isinstance(spec, (PRNGSpec, KeyTy)):
        return spec._impl
    if not isinstance(spec, str):
        raise TypeError(
            f"a generator of random keys is named by a string or a dtype, got {spec!r} of type"
            f" {type(spec).__name__}"
        )
    if spec not in generators:
        names = ", ".join(map(repr, generators))
        raise ValueError(f"there is no random generator {spec!r}; choose one of {names}")
    return generators[spec]


# --- checks ---------------------------------------------------------------------------------------

_RAW = (Array, np.ndarray, np.generic, bool, int, float, complex, str)


def check_key(name: str, key: Any, batched: bool = False) -> tuple[Any, bool]:
    """``key`` as a typed key, and whether it was given as raw words."""
    if isinstance(key, Array) and is_key(key.dtype):
        typed, raw = key, False
    elif isinstance(key, _RAW) or hasattr(key, "__jax_array__"):
        typed, raw = _wrap_raw(name, key), True
    else:
        raise TypeError(
            f"{name} takes a random key, got {key!r} of type {type(key).__name__}; {_HOW}"
        )
    if not batched and np.shape(typed):
        raise ValueError(
            f"{name} takes a single key, got an array of keys of shape {np.shape(typed)}; use"
            " weft.vmap for several"
        )
    return typed, raw


def _wrap_raw(name: str, key: Any) -> Any:
    if hasattr(key, "__jax_array__"):
        key = key.__jax_array__()
    if not hasattr(key, "shape"):
        raise TypeError(f"{name} takes a random key, got {key!r}; {_HOW}")
    wrapped = prims.random_wrap_p.bind(key, impl=default_prng_impl())
    _complain_of_raw(name)
    return wrapped


def _complain_of_raw(name: str) -> None:
    mode = knobs.thread.legacy_prng_key
    message = f"{name} was given a raw uint32 array as its key; {_HOW}"
    if mode == "error":
        raise ValueError(f"{message}, or set legacy_prng_key='allow'")
    if mode == "warn":
        warn(f"{message}, or set legacy_prng_key='allow'", UserWarning)
    elif knobs.thread.enable_custom_prng:
        warn(message, FutureWarning)


def as_given(keys: Any, raw: bool) -> Any:
    """Typed keys, or their words for a caller that gave words."""
    if raw and not knobs.thread.enable_custom_prng:
        return prims.random_unwrap_p.bind(keys)
    return keys


# --- making keys ----------------------------------------------------------------------------------


def _from_seed(name: str, seed: Any, spec: Any) -> Any:
    impl = resolve_prng_impl(spec)
    if is_key(getattr(seed, "dtype", None)):
        raise TypeError(f"{name} takes an integer seed, got a random key; use it as it is")
    if np.ndim(seed):
        raise TypeError(
            f"{name} takes a scalar seed, got an array of shape {np.shape(seed)}; use weft.vmap"
            " for several"
        )
    # Through int64, so that Python integers of more than 32 bits are cut, not refused.
    if isinstance(seed, int):
        seeds = np.int64(seed).astype(dtypes.default_int_dtype())
    else:
        seeds = asarray(seed)
    if knobs.thread.random_seed_offset:
        seeds = seeds + knobs.thread.random_seed_offset
    return prims.random_seed_p.bind(seeds, impl=impl)


def key(seed: Whole, *, impl: Any = None, dtype: Any = None) -> Array:
    """Return a random key made from an integer seed.

    Args:
        seed: an integer. Equal seeds give equal keys.
        impl: the name of the generator: ``'threefry2x32'`` (the default), ``'rbg'``,
            ``'unsafe_rbg'``, ``'threefry4x32'``, ``'philox2x32'`` or ``'philox4x32'``.
        dtype: the dtype of the key, as ``key_dtype`` gives it: another way to name the generator.

    Returns:
        A scalar array of dtype ``key<...>``.

    Example:
        >>> import weft
        >>> weft.random.key(42)
        Array((), dtype=key<fry>) overlaying:
        [ 0 42]
    """
    return _from_seed("key", seed, _one_of("key", impl, dtype))


def _one_of(name: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise ValueError(f"{name} takes impl or dtype, not both: {impl!r} and {dtype!r}")
    return dtype if impl is None else impl


def PRNGKey(seed: Whole, *, impl: Any = None) -> Array:
    """Return a random key in its older form, an array of words; prefer ``key``.

    Args:
        seed: an integer. Equal seeds give equal keys.
        impl: the name of the generator; ``key`` lists them.

    Returns:
        A uint32 array, of shape (2,) for the default generator.

    Example:
        >>> import weft
        >>> weft.random.PRNGKey(42)
        Array([ 0, 42], dtype=uint32)
    """
    return as_given(_from_seed("PRNGKey", seed, impl), True)


def split(key: Any, num: Any = 2) -> Array:
    """Return several new keys, independent of each other and of the one they come from.

    Args:
        key: the key to split. Don't use it again.
        num: how many keys, or the shape of the array of keys.

    Returns:
        An array of keys of shape ``(num,)``, or ``num`` if that is a shape. A key in the older form
        gives an array of words, with one more dimension.

    Example:
        >>> import weft
        >>> weft.random.split(weft.random.key(0), 3).shape
        (3,)
    """
    typed, raw = check_key("split", key)
    return as_given(split_key(typed, num), raw)


def split_key(key: Any, num: Any = 2) -> Any:
    """New typed keys of a typed key."""
    shape = tuple(num) if isinstance(num, Sequence) else (num,)
    shape = tuple([whole(n) for n in shape])
    if any(n < 0 for n in shape):
        raise ValueError(f"split cannot make a negative number of keys: {num}")
    return prims.random_split_p.bind(key, shape=shape, **prims.layout())


def fold_in(key: Any, data: Natural) -> Array:
    """Return a new key derived from a key and an integer.

    Args:
        key: a random key, from ``weft.random.key``. Use each key once; ``split`` makes more.
        data: the integer, such as the number of the training step.

    Returns:
        A key of the same form as ``key``. Different integers give independent keys.

    Example:
        >>> import weft
        >>> k = weft.random.key(0)
        >>> weft.random.fold_in(k, 1) == weft.random.fold_in(k, 2)
        Array(False, dtype=bool)
    """
    typed, raw = check_key("fold_in", key)
    if np.ndim(data):
        raise TypeError(
            f"fold_in takes a scalar, got an array of shape {np.shape(data)}; use weft.vmap for"
            " several"
        )
    folded = prims.random_fold_in_p.bind(typed, asarray(data, np.uint32))
    return as_given(folded, raw)


def clone(key: Any) -> Array:
    """Return the same key, which may be used once more where the reuse of keys is checked.

    Args:
        key: the key to copy.

    Returns:
        A key equal to ``key``, counted as not yet used.

    Example:
        >>> import weft
        >>> k = weft.random.key(0)
        >>> weft.random.clone(k) == k
        Array(True, dtype=bool)
    """
    return prims.random_clone_p.bind(key)


# --- taking keys apart ----------------------------------------------------------------------------


def key_data(keys: Any) -> Array:
    """Return the words that keys are made of.

    Args:
        keys: a key or an array of keys.

    Returns:
        A uint32 array with one more dimension than ``keys``.

    Example:
        >>> import weft
        >>> weft.random.key_data(weft.random.key(7))
        Array([0, 7], dtype=uint32)
    """
    typed, _ = check_key("key_data", keys, batched=True)
    return prims.random_unwrap_p.bind(typed)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """Return the keys that given words stand for; the inverse of ``key_data``.

    Args:
        key_bits_array: a uint32 array; its last dimension holds the words of each key.
        impl: the name of the generator; ``key`` lists them.
        dtype: the dtype of the keys, as ``key_dtype`` gives it: another way to name the generator.

    Returns:
        An array of keys with one dimension fewer than ``key_bits_array``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.random.wrap_key_data(jnp.array([0, 7], jnp.uint32)) == weft.random.key(7)
        Array(True, dtype=bool)
    """
    generator = resolve_prng_impl(_one_of("wrap_key_data", impl, dtype))
    if not hasattr(key_bits_array, "shape") or not hasattr(key_bits_array, "dtype"):
        raise TypeError(
            f"wrap_key_data takes an array of words, got {key_bits_array!r} of type"
            f" {type(key_bits_array).__name__}"
        )
    return prims.random_wrap_p.bind(key_bits_array, impl=generator)


def key_impl(keys: Any) -> str | PRNGSpec:
    """Return the generator of keys: its name, or an object that ``impl=`` accepts.

    Args:
        keys: a key or an array of keys.

    Returns:
        A string for the generators that weft names, else an object that stands for the generator.

    Example:
        >>> import weft
        >>> weft.random.key_impl(weft.random.key(0))
        'threefry2x32'
    """
    typed, _ = check_key("key_impl", keys, batched=True)
    impl = typeof(typed).dtype._impl
    return impl.name if impl.name in generators else PRNGSpec(impl)


def key_dtype(impl_spec: Any = None) -> dtypes.ExtendedDType:
    """Return the dtype of the keys of a generator.

    Args:
        impl_spec: the generator's name; the default generator if it is None.

    Returns:
        The dtype, which can be passed to ``key``, ``wrap_key_data`` and ``ShapeDtypeStruct``.

    Example:
        >>> import weft
        >>> weft.random.key_dtype()
        key<fry>
    """
    return key_type(resolve_prng_impl(impl_spec))
