"""Helpers for training on all local devices: the counterpart of ``flax.jax_utils``."""

import collections
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import weft
from weft import lax, sharding, tree_util
from weft import numpy as jnp
from weft.linen.known import Unknown, compute_known


def _over_devices(devices, axis_name):
    devices = weft.local_devices() if devices is None else devices
    mesh = sharding.Mesh(np.array(devices), (axis_name,))
    return len(devices), sharding.NamedSharding(mesh, sharding.PartitionSpec(axis_name))


def replicate(tree, devices=None, axis_name="_device_put_sharded"):
    """Copies of all arrays, one a device, along a new first axis."""
    count, where = _over_devices(devices, axis_name)
    copies = lambda x: weft.device_put(jnp.stack([jnp.asarray(x)] * count), where)
    return tree_util.tree_map(copies, tree)


def unreplicate(tree):
    """The first of the copies that ``replicate`` made."""
    return tree_util.tree_map(lambda x: x if jnp.ndim(x) == 0 else x[0], tree)


def pmean(xs, axis_name):
    """The mean over devices: ``lax.pmean``."""
    return lax.pmean(xs, axis_name)


def prefetch_to_device(
    iterator: Any, size: int, devices: Any = None, axis_name: Any = "_device_put_sharded"
) -> Iterator[Any]:
    """Yield batches of an iterator, of which some are on the devices ahead of their use.

    Arrays have the devices as their first axis.

    Args:
        iterator: the iterator of batches, trees of arrays.
        size: how many batches are on the devices ahead of their use.
        devices: the devices; all local ones by default.
        axis_name: accepted for flax, no effect.

    Returns:
        An iterator of batches on the devices.

    Example:
        >>> import numpy as np
        >>> [batch.shape for batch in prefetch_to_device(iter([np.ones((1, 2))]), 1)]
        [(1, 2)]
    """
    _, where = _over_devices(devices, axis_name)
    put = lambda x: weft.device_put(jnp.asarray(x), where)
    ahead: collections.deque = collections.deque()
    source = iter(iterator)
    while True:
        for batch in itertools.islice(source, max(size, 1) - len(ahead)):
            ahead.append(tree_util.tree_map(put, batch))
        if not ahead:
            return
        yield ahead.popleft()


def partial_eval_by_shape(fn, input_spec, *args, **kwargs):
    """What ``fn(*inputs, *args)`` returns, for inputs of which shape and dtype are given.

    A spec is a shape, or a pair of shape and dtype. Results that depend on the inputs are
    returned as ShapeDtypeStructs.
    """

    def parse(spec):
        spec = tuple(spec)
        if len(spec) == 2 and isinstance(spec[0], Iterable):
            return weft.ShapeDtypeStruct(tuple(spec[0]), spec[1])
        return weft.ShapeDtypeStruct(spec, jnp.float32)

    inputs = [parse(spec) for spec in input_spec]
    run = lambda _, given: fn(*given, *args, **kwargs)
    types = weft.eval_shape(lambda *given: run(None, given), *inputs)
    leaves, tree = tree_util.tree_flatten(types)
    pick = lambda i: lambda out: tree_util.tree_leaves(out)[i]
    made = []
    for i, leaf in enumerate(leaves):
        try:
            made.append(compute_known(run, None, inputs, keep=pick(i)))
        except Unknown:
            made.append(leaf)
    return tree_util.tree_unflatten(tree, made)


def scan_in_dim(body_fn, init, xs, axis=(0,), unroll=(1,), keepdims: bool = False):
    """``lax.scan`` over one axis or several, the first of them outermost."""
    axis = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    unroll = tuple(unroll) if isinstance(unroll, Iterable) else (unroll,)
    unroll = (1,) * (len(axis) - len(unroll)) + unroll
    front = tuple(range(len(axis)))
    to_front = lambda x: jnp.moveaxis(x, axis, front)
    back = lambda x: jnp.moveaxis(x, front, axis)
    grow = lambda x: back(jnp.reshape(x, (1,) * len(axis) + x.shape))
    shrink = lambda y: jnp.reshape(to_front(y), to_front(y).shape[len(axis) :])

    def step(carry, x):
        x = tree_util.tree_map(grow, x) if keepdims else x
        carry, y = body_fn(carry, x)
        return carry, (tree_util.tree_map(shrink, y) if keepdims else y)

    for rolled in reversed(unroll):
        step = functools.partial(_scan_step, step, rolled)
    carry, ys = step(init, tree_util.tree_map(to_front, xs))
    return carry, tree_util.tree_map(back, ys)


def _scan_step(step, unroll, carry, xs):
    return lax.scan(step, carry, xs, unroll=unroll)


def pad_shard_unpad(
    wrapped: Callable[..., Any],
    static_argnums: Any = (0,),
    static_argnames: Any = (),
    static_return: bool = False,
) -> Callable[..., Any]:
    """Return a function of batches of any size, from one of batches that are split over devices.

    Batches are padded to a multiple of the devices, reshaped to (devices, ...), and results cut
    back. ``min_device_batch`` at the call pads further, so that fewer sizes are compiled.

    Args:
        wrapped: the function of batches split over devices, such as a ``pmap``.
        static_argnums: the positions of arguments that are not batches.
        static_argnames: the names of arguments that are not batches.
        static_return: whether results are not batches.

    Returns:
        A function of the same arguments.

    Example:
        >>> import numpy as np, weft
        >>> double = pad_shard_unpad(weft.pmap(lambda x: 2 * x), static_argnums=())
        >>> double(np.ones(3, np.float32)).shape
        (3,)
    """

    def call(*args, min_device_batch: int | None = None, **kwargs):
        devices = weft.local_device_count()
        positional = [a for i, a in enumerate(args) if i not in static_argnums]
        named = [v for k, v in kwargs.items() if k not in static_argnames]
        sizes = {np.shape(x)[0] for x in tree_util.tree_leaves((positional, named))}
        if len(sizes) != 1:
            raise AssertionError(f"the arguments have batches of different sizes: {sorted(sizes)}")
        size = sizes.pop()
        share = max(-(-size // devices), min_device_batch or 0)

        def pad(x):
            x = np.asarray(x)
            missing = np.zeros((share * devices - size, *x.shape[1:]), x.dtype)
            return np.concatenate([x, missing]).reshape(devices, share, *x.shape[1:])

        def unpad(x):
            x = np.asarray(weft.device_get(x))
            return x.reshape(-1, *x.shape[2:])[:size]

        padded = lambda fixed, x: x if fixed else tree_util.tree_map(pad, x)
        args = [padded(i in static_argnums, a) for i, a in enumerate(args)]
        kwargs = {k: padded(k in static_argnames, v) for k, v in kwargs.items()}
        out = wrapped(*args, **kwargs)
        return out if static_return else tree_util.tree_map(unpad, out)

    return call
