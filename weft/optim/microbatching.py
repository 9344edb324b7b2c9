"""Batches in parts, so that they fit into memory: ``weft.optim.microbatching``."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft
import weft.lax as lax
import weft.numpy as jnp

IndividualOutputs = namedtuple("Aux", ["values", "metrics", "aux"])


@dataclass(frozen=True)
class Accumulator:
    """How the results of parts become one: start, add, finish; and reduce within a part."""

    init: Callable
    update: Callable
    finalize: Callable
    aggregate: Callable


class AccumulationType(enum.Enum):
    """The accumulators that are there."""

    MEAN = enum.auto()
    SUM = enum.auto()
    RUNNING_MEAN = enum.auto()
    CONCAT = enum.auto()


def _zeros(x):
    return jnp.zeros(x.shape, x.dtype)


def _float_zeros(x):
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ValueError(f"microbatch: averaging needs floats, got {x.dtype}; use SUM or CONCAT")
    return _zeros(x)


def _running(carry, value, index):
    share = index / (index + 1)
    return (carry * share + value * (1 - share)).astype(carry.dtype)


def _leafwise(init, update, finalize, aggregate):
    """An accumulator of trees from functions of leaves."""
    return Accumulator(
        lambda value: weft.tree.map(init, value),
        lambda carry, value, index: weft.tree.map(lambda c, v: update(c, v, index), carry, value),
        lambda carry: weft.tree.map(finalize, carry),
        lambda values: weft.tree.map(aggregate, values),
    )


def _of_type(kind, parts):
    """The accumulator of a kind, for a number of parts."""
    if isinstance(kind, Accumulator):
        return kind
    if kind is AccumulationType.SUM:
        return _leafwise(_zeros, lambda c, v, i: c + v, lambda c: c, lambda x: jnp.sum(x, 0))
    if kind is AccumulationType.MEAN:
        return _leafwise(
            _float_zeros, lambda c, v, i: c + v, lambda c: c / parts, lambda x: jnp.mean(x, 0)
        )
    if kind is AccumulationType.RUNNING_MEAN:
        return _leafwise(_float_zeros, _running, lambda c: c, lambda x: jnp.mean(x, 0))
    if kind is AccumulationType.CONCAT:
        return _leafwise(
            lambda x: jnp.zeros((parts, *x.shape), x.dtype),
            lambda c, v, i: c.at[i].set(v),
            lambda c: jnp.swapaxes(c, 0, 1).reshape(-1, *c.shape[2:]),
            lambda x: x,
        )
    raise ValueError(
        "microbatch: an accumulator must be an Accumulator or an AccumulationType, such as "
        f"AccumulationType.MEAN; got {kind!r}"
    )


def _compose(kinds, parts):
    """One accumulator from a tree of them, a prefix of the results."""
    each = weft.tree.map(lambda kind: _of_type(kind, parts), kinds)
    return Accumulator(
        lambda values: weft.tree.map(lambda a, v: a.init(v), each, values),
        lambda carry, values, index: weft.tree.map(
            lambda a, c, v: a.update(c, v, index), each, carry, values
        ),
        lambda carry: weft.tree.map(lambda a, c: a.finalize(c), each, carry),
        lambda values: weft.tree.map(lambda a, v: a.aggregate(v), each, values),
    )


def reshape_batch_axis(tree, microbatch_size, axis=0):
    """The batch axis as two: parts, and examples of a part; neighbours go to different parts.

    >>> import weft.numpy as jnp, weft.optim as optim
    >>> optim.microbatching.reshape_batch_axis(jnp.arange(6), 3)
    Array([[0, 2, 4],
           [1, 3, 5]], dtype=int32)
    """

    def split(x):
        shape = (*x.shape[:axis], microbatch_size, -1, *x.shape[axis + 1 :])
        return jnp.swapaxes(jnp.reshape(x, shape), axis, axis + 1)

    return weft.tree.map(split, tree)


def microbatch(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    microbatch_size: int | None,
    accumulator: Any = AccumulationType.SUM,
    *,
    argnames: str | Sequence[str] = (),
    in_axes: int | Sequence[int] = 0,
    num_real_microbatches: int | None = None,
) -> Callable[..., Any]:
    """Return a function that calls ``fun`` on parts of its batch and accumulates the results.

    Args:
        fun: the function.
        argnums: the positions of the arguments that are batches.
        microbatch_size: how many examples a part has; None returns ``fun`` itself.
        accumulator: how to combine results: an ``AccumulationType`` (sum, mean, running mean or
            concatenation), an ``Accumulator``, or a tree of them.
        argnames: the names of the keyword arguments that are batches.
        in_axes: the batch axis, one for all batches or one for each.
        num_real_microbatches: use only this many parts, the first ones. By default all.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft.numpy as jnp, weft.optim as optim
        >>> total = optim.microbatch(lambda x: jnp.sum(x**2), argnums=0, microbatch_size=2)
        >>> float(total(jnp.arange(6.0)))
        55.0
    """
    if microbatch_size is None:
        return fun
    argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    argnames = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    places = argnums + argnames
    axes = (in_axes,) * len(places) if isinstance(in_axes, int) else tuple(in_axes)

    def microbatched(*args, **kwargs):
        given = {**dict(enumerate(args)), **kwargs}
        parts = _parts([given[place] for place in places], axes, microbatch_size)
        split = {
            place: reshape_batch_axis(given[place], microbatch_size, axis)
            for place, axis in zip(places, axes, strict=True)
        }

        def call(index):
            chosen = dict(given)
            for place, axis in zip(places, axes, strict=True):
                chosen[place] = weft.tree.map(
                    lambda x, axis=axis: jnp.take(x, index, axis=axis), split[place]
                )
            return fun(
                *(chosen[i] for i in range(len(args))), **{name: chosen[name] for name in kwargs}
            )

        together = _compose(accumulator, parts)
        first = together.init(weft.eval_shape(call, jnp.asarray(0)))
        rounds = parts if num_real_microbatches is None else num_real_microbatches
        total = lax.fori_loop(0, rounds, lambda i, carry: together.update(carry, call(i), i), first)
        return together.finalize(total)

    return microbatched


def _parts(batches, axes, microbatch_size):
    """How many parts there are; batches must be of one size."""
    sizes = [
        x.shape[axis]
        for batch, axis in zip(batches, axes, strict=True)
        for x in weft.tree.leaves(batch)
    ]
    if len(set(sizes)) > 1:
        raise ValueError(f"microbatch: the batches have different sizes, {sizes}")
    if not sizes or sizes[0] % microbatch_size:
        raise ValueError(
            f"microbatch: the batch size, {sizes[0] if sizes else 0}, must be a multiple of "
            f"microbatch_size={microbatch_size}"
        )
    return sizes[0] // microbatch_size


def micro_vmap(
    fun,
    in_axes=0,
    out_axes=0,
    *,
    microbatch_size=None,
    vmap_fn=weft.vmap,
    accumulator=AccumulationType.CONCAT,
    num_real_microbatches=None,
):
    """`weft.vmap` over parts of the batch at a time."""
    in_axes = (in_axes,) if isinstance(in_axes, int) else tuple(in_axes)

    def over_part(*args, kwargs):
        values = vmap_fn(fun, in_axes, 0)(*args, **kwargs)
        return _compose(accumulator, weft.tree.leaves(values)[0].shape[0]).aggregate(values)

    over_batch = microbatch(
        over_part,
        argnums=tuple(i for i, axis in enumerate(in_axes) if axis is not None),
        microbatch_size=microbatch_size,
        accumulator=accumulator,
        argnames="kwargs",
        in_axes=(*(axis for axis in in_axes if axis is not None), 0),
        num_real_microbatches=num_real_microbatches,
    )

    def wrapped(*args, **kwargs):
        values = over_batch(*args, kwargs=kwargs)
        if out_axes == 0:
            return values
        return weft.tree.map(
            lambda axis, below: weft.tree.map(lambda x: jnp.moveaxis(x, 0, axis), below),
            out_axes,
            values,
        )

    return wrapped


def _same(grads):
    return grads


def _nothing(grads):
    return None


def micro_grad(
    fun,
    has_aux=False,
    argnums=0,
    *,
    batch_argnums=1,
    keep_batch_dim=True,
    microbatch_size=None,
    accumulator=AccumulationType.SUM,
    transform_fn=_same,
    metrics_fn=_nothing,
    num_real_microbatches=None,
):
    """Gradients of single examples, each transformed, then accumulated; with what each gave.

    Returns the accumulated `transform_fn(gradient)` and, for every example, the value, the
    `metrics_fn(gradient)` and the auxiliary output. With `keep_batch_dim` the function sees batches
    of one example.
    """
    batch_argnums = (batch_argnums,) if isinstance(batch_argnums, int) else tuple(batch_argnums)

    def with_aux(*args, **kwargs):
        return fun(*args, **kwargs) if has_aux else (fun(*args, **kwargs), None)

    value_and_grad = weft.value_and_grad(with_aux, argnums, has_aux=True)

    def of_example(*args, **kwargs):
        (value, aux), grad = value_and_grad(*args, **kwargs)
        return transform_fn(grad), IndividualOutputs(value, metrics_fn(grad), aux)

    over_batch = micro_vmap(
        of_example,
        [0 if i in batch_argnums else None for i in range(max(batch_argnums) + 1)],
        microbatch_size=microbatch_size,
        accumulator=(accumulator, AccumulationType.CONCAT),
        num_real_microbatches=num_real_microbatches,
    )

    def wrapped(*args, **kwargs):
        if keep_batch_dim:
            args = [
                weft.tree.map(lambda x: jnp.expand_dims(x, 1), arg) if i in batch_argnums else arg
                for i, arg in enumerate(args)
            ]
        return over_batch(*args, **kwargs)

    return wrapped
