"""Helpers of training loops over several devices."""

import weft
from weft import lax, random, tree_util
from weft import numpy as jnp


def shard(xs):
    """Split the first axis of every array over the local devices."""
    count = weft.local_device_count()
    return tree_util.tree_map(lambda x: x.reshape((count, -1, *x.shape[1:])), xs)


def shard_prng_key(prng_key):
    """A key for every local device."""
    return random.split(prng_key, num=weft.local_device_count())


def stack_forest(forest):
    """One tree of stacked arrays from a list of equal trees.

    >>> stack_forest([{"a": jnp.ones(2)}, {"a": jnp.zeros(2)}])["a"].shape
    (2, 2)
    """
    return tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *forest)


def get_metrics(device_metrics):
    """Metrics of all steps, stacked, from a list of trees with a first axis of devices."""
    first = tree_util.tree_map(lambda x: x[0], device_metrics)
    return stack_forest(weft.device_get(first))


def onehot(labels, num_classes: int, on_value=1.0, off_value=0.0):
    """Labels as vectors, with one value at the label and another elsewhere.

    >>> onehot(jnp.array([1]), 3)
    Array([[0., 1., 0.]], dtype=float32)
    """
    hits = labels[..., None] == jnp.arange(num_classes).reshape((1,) * labels.ndim + (-1,))
    on, off = (jnp.full(hits.shape, value) for value in (on_value, off_value))
    return lax.select(hits, on, off).astype(jnp.float32)
