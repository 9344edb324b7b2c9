"""What a metric is, and collections of them: CLU's interface, on ``weft.linen.struct``.

A metric is a pytree of sums. It is made from what a model returns, merged over steps, reduced over
devices, and computed at the end; all but the last run in ``jit``, ``scan`` and ``pmap``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import lax, tree_util
from weft import numpy as jnp
from weft.linen import jax_utils, struct

M = TypeVar("M", bound="Metric")


def merge_along_first_axis(value: Any) -> Any:
    """Merge what a stacked metric or collection holds along the first axis of its arrays."""
    leaves, tree = tree_util.tree_flatten(value)
    if not leaves:
        return value
    first = tree_util.tree_unflatten(tree, [leaf[0] for leaf in leaves])
    rest = tree_util.tree_unflatten(tree, [leaf[1:] for leaf in leaves])
    if leaves[0].shape[0] == 1:
        return first
    return lax.scan(lambda total, one: (total.merge(one), None), first, rest)[0]


class Metric:
    """The base of metrics: subclasses are made with ``weft.linen.struct.dataclass``.

    They have ``from_model_output``, ``merge``, ``compute`` and ``empty``.

    >>> from weft.train import metrics
    >>> one = metrics.Average.from_model_output(jnp.array([1.0, 2.0]))
    >>> two = metrics.Average.from_model_output(jnp.array([6.0]))
    >>> float(one.merge(two).compute())
    3.0
    """

    @classmethod
    def from_model_output(cls: type[M], *args: Any, **kwargs: Any) -> M:
        """A metric of one batch."""
        raise TypeError(f"{cls.__name__} must define from_model_output")

    @classmethod
    def empty(cls: type[M]) -> M:
        """A metric of no batch, which changes nothing when it is merged."""
        raise TypeError(f"{cls.__name__} must define empty()")

    def merge(self: M, other: M) -> M:
        """The metric of both batches."""
        raise TypeError(f"{type(self).__name__} must define merge")

    def compute(self) -> Any:
        """The value of the metric."""
        raise TypeError(f"{type(self).__name__} must define compute")

    def reduce(self: M) -> M:
        """One metric, from one whose arrays have a first axis of devices or steps.

        >>> from weft.train import metrics
        >>> stacked = metrics.Average(total=jnp.array([1.0, 5.0]), count=jnp.array([1.0, 2.0]))
        >>> float(stacked.reduce().compute())
        2.0
        """
        return merge_along_first_axis(self)

    @classmethod
    def from_fun(cls: type[M], fun: Callable[..., Any]) -> type[M]:
        """A metric of what a function makes of the model's outputs.

        Args:
            fun: takes the outputs by name; returns an array, or a dictionary of the arguments of
                ``from_model_output``.

        Example:
            >>> from weft.train import metrics
            >>> Error = metrics.Average.from_fun(lambda y, z, **_: abs(y - z))
            >>> float(Error.from_model_output(y=jnp.array([1.0, 3.0]), z=jnp.zeros(2)).compute())
            2.0
        """

        @struct.dataclass
        class FromFun(cls):  # type: ignore[valid-type,misc]
            @classmethod
            def from_model_output(cls, **outputs: Any) -> Any:
                made = fun(**outputs)
                if isinstance(made, Mapping):
                    return super().from_model_output(**made)
                return super().from_model_output(made, mask=outputs.get("mask"))

        return _renamed(FromFun, f"{cls.__name__}FromFun")

    @classmethod
    def from_output(cls: type[M], name: str) -> type[M]:
        """A metric of one of the model's outputs.

        A ``mask`` among the outputs applies if it has as many rows as the output.

        Args:
            name: the name of the output.

        Example:
            >>> from weft.train import metrics
            >>> Loss = metrics.Average.from_output("loss")
            >>> float(Loss.from_model_output(loss=jnp.array([1.0, 3.0]), logits=None).compute())
            2.0
        """

        @struct.dataclass
        class FromOutput(cls):  # type: ignore[valid-type,misc]
            @classmethod
            def from_model_output(cls, **outputs: Any) -> Any:
                value, mask = jnp.asarray(outputs[name]), outputs.get("mask")
                if mask is not None and value.shape[:1] != jnp.shape(mask)[:1]:
                    mask = None
                return super().from_model_output(value, mask=mask)

        return _renamed(FromOutput, f"{cls.__name__}FromOutput")


def _renamed(cls: type, name: str) -> type:
    cls.__name__ = cls.__qualname__ = name
    return cls


@struct.dataclass
class CollectingMetric(Metric):
    """Keeps outputs of all batches, joined along their first axis: for what needs all of them.

    Merging makes arrays longer, so it runs outside ``jit``.

    Args:
        values: the outputs by name, one array for each batch.

    Example:
        >>> Kept = CollectingMetric.from_outputs(("labels",))
        >>> parts = [Kept.from_model_output(labels=jnp.array(x)) for x in ([1, 2], [3])]
        >>> parts[0].merge(parts[1]).compute()
        {'labels': array([1, 2, 3], dtype=int32)}
    """

    values: dict[str, tuple[Any, ...]]

    @classmethod
    def empty(cls) -> CollectingMetric:
        """Nothing kept."""
        return cls(values={})

    @classmethod
    def from_model_output(cls, **outputs: Any) -> CollectingMetric:
        """Keep these outputs."""
        return cls(values={name: (jnp.asarray(value),) for name, value in outputs.items()})

    @classmethod
    def from_outputs(cls, names: Sequence[str]) -> type[CollectingMetric]:
        """A metric that keeps only these outputs.

        Args:
            names: the names of the outputs.
        """

        @struct.dataclass
        class FromOutputs(cls):  # type: ignore[valid-type,misc]
            @classmethod
            def from_model_output(cls, **outputs: Any) -> Any:
                return cls(values={name: (jnp.asarray(outputs[name]),) for name in names})

        return _renamed(FromOutputs, f"{cls.__name__}FromOutputs")

    def merge(self, other: CollectingMetric) -> CollectingMetric:
        """Both, one after the other."""
        if not self.values or not other.values:
            return self if self.values else other
        pairs = {name: (*kept, *other.values[name]) for name, kept in self.values.items()}
        return type(self)(values=pairs)

    def reduce(self) -> CollectingMetric:
        """Join the first two axes of every array."""
        join = lambda x: x.reshape(-1, *x.shape[2:])
        return tree_util.tree_map(join, self)

    def compute(self) -> dict[str, np.ndarray]:
        """NumPy arrays of all batches by name."""
        return {
            name: np.concatenate([np.atleast_1d(np.asarray(x)) for x in kept])
            for name, kept in self.values.items()
        }


class Collection:
    """Several metrics under names, which are made, merged and computed together.

    Subclass it, with metrics as annotations and ``weft.linen.struct.dataclass`` above, or use
    ``Collection.create``.

    >>> from weft.train import metrics
    >>> Metrics = Collection.create(loss=metrics.Average.from_output("loss"),
    ...                             accuracy=metrics.Accuracy)
    >>> state = Metrics.empty()
    >>> for step in range(2):
    ...     logits, labels = jnp.array([[0.0, 1.0], [2.0, 0.0]]), jnp.array([1, step])
    ...     outputs = {"loss": jnp.array(4.0 * step), "logits": logits, "labels": labels}
    ...     state = state.merge(Metrics.single_from_model_output(**outputs))
    >>> {name: float(value) for name, value in state.compute().items()}
    {'loss': 2.0, 'accuracy': 0.75}
    """

    @classmethod
    def create(cls, **metrics: type[Metric]) -> type[Collection]:
        """A collection of these metrics.

        Args:
            **metrics: classes of metrics by name.
        """
        body = {"__annotations__": dict(metrics), "__module__": __name__}
        return struct.dataclass(type("_InlineCollection", (Collection,), body))

    @classmethod
    def create_collection(cls, **metrics: Metric) -> Collection:
        """An instance with these metrics.

        Args:
            **metrics: metrics by name.
        """
        return cls.create(**{name: type(value) for name, value in metrics.items()})(**metrics)

    @classmethod
    def _types(cls) -> dict[str, type[Metric]]:
        if not dataclasses.is_dataclass(cls):
            raise TypeError(f"{cls.__name__} needs @struct.dataclass above it")
        found: dict[str, type[Metric]] = {}
        for field in dataclasses.fields(cls):
            if not isinstance(field.type, type):
                raise TypeError(
                    f"{cls.__name__}.{field.name} is annotated with {field.type!r}, not a metric "
                    "class; remove `from __future__ import annotations` in this file"
                )
            found[field.name] = field.type
        return found

    @classmethod
    def empty(cls) -> Any:
        """The collection of no batch."""
        return cls(**{name: kind.empty() for name, kind in cls._types().items()})

    @classmethod
    def single_from_model_output(cls, **outputs: Any) -> Any:
        """The collection of one batch, on one device or under ``jit`` of sharded arrays.

        Args:
            **outputs: what the model returned, by the names that the metrics take.
        """
        made = {name: kind.from_model_output(**outputs) for name, kind in cls._types().items()}
        return cls(**made)

    @classmethod
    def gather_from_model_output(cls, axis_name: str = "batch", **outputs: Any) -> Any:
        """The collection of the batches of all devices, inside ``pmap`` or ``shard_map``.

        Args:
            axis_name: the mapped axis.
            **outputs: what the model returned on this device.
        """
        gathered = lax.all_gather(cls.single_from_model_output(**outputs), axis_name=axis_name)
        return gathered.reduce()

    def _each(self, use: Callable[..., Any], *others: Any) -> Any:
        names = type(self)._types()
        return {name: use(*(getattr(one, name) for one in (self, *others))) for name in names}

    def merge(self, other: Any) -> Any:
        """The collection of both."""
        return type(self)(**self._each(lambda one, two: one.merge(two), other))

    def reduce(self) -> Any:
        """One collection, from one whose arrays have a first axis of devices or steps."""
        return type(self)(**self._each(lambda one: one.reduce()))

    def compute(self) -> dict[str, Any]:
        """The values of all metrics by name."""
        return self._each(lambda one: one.compute())

    def unreplicate(self) -> Any:
        """The first of the equal copies that ``pmap`` returns."""
        return jax_utils.unreplicate(self)


def broadcast_mask(mask: Any, values: Any) -> Any:
    """A mask as booleans of the shape of the values; its axes are the first ones of theirs."""
    if mask is None:
        return jnp.ones(values.shape, bool)
    mask = jnp.asarray(mask)
    if mask.shape != values.shape[: mask.ndim]:
        raise ValueError(f"a mask of shape {mask.shape} does not fit values of {values.shape}")
    grown = mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))
    return jnp.broadcast_to(grown.astype(bool), values.shape)


def over_steps(merge_all: Sequence[Any]) -> Any:
    """Return the metric or collection of many, merged from the first to the last.

    Args:
        merge_all: the metrics or collections of the steps.

    Returns:
        A metric or collection of the same kind.

    Example:
        >>> from weft.train import metrics
        >>> parts = [metrics.Average.from_model_output(jnp.array([x])) for x in (1.0, 2.0, 6.0)]
        >>> float(over_steps(parts).compute())
        3.0
    """
    return functools.reduce(lambda one, two: one.merge(two), merge_all)
