"""Loss scaling for training in half precision."""

from typing import Any, NamedTuple, Self

import weft
from weft import lax, tree_util
from weft import numpy as jnp
from weft.linen import struct


class DynamicScaleResult(NamedTuple):
    """The next scale, whether all gradients are finite, the loss (and aux), and the gradients."""

    dynamic_scale: Any
    finite: Any
    aux: Any
    grad: Any


class DynamicScale(struct.PyTreeNode):
    """A factor of the loss that grows while gradients are finite, and shrinks when they are not.

    Reference: Micikevicius et al., Mixed Precision Training, 2018.

    Args:
        growth_factor: the factor by which the scale grows.
        backoff_factor: the factor by which it shrinks.
        growth_interval: how many finite steps in a row let it grow.
        fin_steps: how many finite steps in a row there were.
        scale: the scale at the start.
        minimum_scale: the smallest scale; None for no bound.

    Example:
        >>> scale = DynamicScale(scale=4.0)
        >>> result = scale.value_and_grad(lambda x: x**2)(jnp.array(3.0))
        >>> float(result.grad), float(result.aux), bool(result.finite)
        (6.0, 9.0, True)
    """

    growth_factor: float = struct.field(pytree_node=False, default=2.0)
    backoff_factor: float = struct.field(pytree_node=False, default=0.5)
    growth_interval: int = struct.field(pytree_node=False, default=2000)
    fin_steps: Any = 0
    scale: Any = 65536.0
    minimum_scale: float | None = struct.field(
        pytree_node=False, default=float(jnp.finfo(jnp.float32).tiny)
    )

    def value_and_grad(self, fun, argnums=0, has_aux: bool = False, axis_name=None):
        """As ``weft.value_and_grad``, of the scaled loss; returns a DynamicScaleResult."""
        by = lambda scaled: weft.value_and_grad(scaled, argnums, has_aux)
        return scaled_gradients(self, fun, by, has_aux, axis_name)

    def next_scale(self, finite: Any) -> Self:
        """The scale of the next step, after one whose gradients were finite or not."""
        grow = jnp.asarray(self.fin_steps == self.growth_interval)
        most = jnp.finfo(jnp.float32).max
        larger = jnp.minimum(self.scale * self.growth_factor, most)
        kept = jnp.where(grow & finite, larger, self.scale)
        smaller = self.scale * self.backoff_factor
        if self.minimum_scale is not None:
            smaller = jnp.maximum(smaller, self.minimum_scale)
        steps = jnp.where(grow | ~finite, 0, self.fin_steps + 1)
        return self.replace(fin_steps=steps, scale=jnp.where(finite, kept, smaller))


def scaled_gradients(scale, fun, by, has_aux: bool = False, axis_name=None):
    """A function that returns the DynamicScaleResult of a loss, differentiated in some way.

    Args:
        scale: a ``DynamicScale``.
        fun: the loss.
        by: takes the scaled loss and gives a function that returns its value and gradient, as
            ``weft.value_and_grad`` does.
        has_aux: whether the loss returns a pair.
        axis_name: of ``pmap``, over whose devices gradients are averaged.

    Example:
        >>> import weft
        >>> run = scaled_gradients(DynamicScale(scale=4.0), lambda x: x**2, weft.value_and_grad)
        >>> float(run(3.0).grad)
        6.0
    """

    def scaled(*args):
        out = fun(*args)
        return (scale.scale * out[0], out[1]) if has_aux else scale.scale * out

    differentiate = by(scaled)

    def call(*args):
        out, grad = differentiate(*args)
        out = (out[0] / scale.scale, out[1]) if has_aux else out / scale.scale
        unscale = lambda g: jnp.asarray(g, jnp.float32) / scale.scale
        grad = tree_util.tree_map(unscale, grad)
        if axis_name is not None:
            grad = lax.pmean(grad, axis_name)
        finite = jnp.array(True)
        for leaf in tree_util.tree_leaves(grad):
            finite &= jnp.all(lax.is_finite(leaf))
        return DynamicScaleResult(scale.next_scale(finite), finite, out, grad)

    return call
