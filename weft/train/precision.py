"""Mixed precision: in which dtypes parameters are kept, a model computes, and results are given.

The dynamic scale of the loss, which float16 needs, is ``weft.train.DynamicScale``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from weft import numpy as jnp
from weft import tree_util

_SHORT = {
    "f16": "float16", "half": "float16", "bf16": "bfloat16", "f32": "float32", "full": "float32",
    "f64": "float64",
}  # fmt: skip
_FIELDS = {
    "p": "param_dtype", "params": "param_dtype", "param": "param_dtype", "c": "compute_dtype",
    "compute": "compute_dtype", "o": "output_dtype", "output": "output_dtype",
}  # fmt: skip


def cast_floating(tree: Any, dtype: Any) -> Any:
    """Return a tree whose floating-point arrays have another dtype; all else is as it was.

    Args:
        tree: any pytree.
        dtype: the dtype.

    Returns:
        A tree of the same structure.

    Example:
        >>> cast_floating({"x": jnp.ones(2), "n": jnp.arange(2)}, jnp.bfloat16)
        {'n': Array([0, 1], dtype=int32...), 'x': Array([1, 1], dtype=bfloat16)}
    """

    def cast(leaf: Any) -> Any:
        floating = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, dtype) if floating else leaf

    return tree_util.tree_map(cast, tree)


@dataclasses.dataclass(frozen=True)
class Policy:
    """The dtypes of a training, as in DeepMind's jmp.

    Args:
        param_dtype: what parameters and the optimiser's state are kept in.
        compute_dtype: what the model computes in.
        output_dtype: what it returns.

    Example:
        >>> policy = get_policy("params=float32,compute=bfloat16,output=float32")
        >>> policy.cast_to_compute({"w": jnp.ones(2)})["w"].dtype
        dtype(bfloat16)
        >>> policy.wrap(lambda w, x: w @ x)(jnp.ones((2, 2)), jnp.ones(2)).dtype
        dtype('float32')
    """

    param_dtype: Any = jnp.float32
    compute_dtype: Any = jnp.float32
    output_dtype: Any = jnp.float32

    def cast_to_param(self, tree: Any) -> Any:
        """Floating-point arrays in the dtype of parameters."""
        return cast_floating(tree, self.param_dtype)

    def cast_to_compute(self, tree: Any) -> Any:
        """Floating-point arrays in the dtype of the computation."""
        return cast_floating(tree, self.compute_dtype)

    def cast_to_output(self, tree: Any) -> Any:
        """Floating-point arrays in the dtype of results."""
        return cast_floating(tree, self.output_dtype)

    def wrap(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """A function that computes in the policy's dtypes.

        Gradients by its arguments have the arguments' own dtypes.

        Args:
            fun: a function of trees, such as a loss.
        """

        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = self.cast_to_compute((args, kwargs))
            return self.cast_to_output(fun(*args, **kwargs))

        return call


def get_policy(text: str) -> Policy:
    """Return the precision policy that a text names.

    Args:
        text: one dtype for everything, as ``"float32"``; ``"mixed_bfloat16"`` or
            ``"mixed_float16"``, which keep parameters and results in float32; or
            ``"params=...,compute=...,output=..."``.

    Returns:
        A ``Policy``.

    Example:
        >>> get_policy("mixed_bfloat16").compute_dtype
        dtype(bfloat16)
        >>> get_policy("p=f32,c=f16").output_dtype
        dtype('float16')
    """
    dtype = lambda name: jnp.dtype(_SHORT.get(name, name))
    if text.startswith("mixed_"):
        return Policy(dtype("f32"), dtype(text.removeprefix("mixed_")), dtype("f32"))
    if "=" not in text:
        return Policy(dtype(text), dtype(text), dtype(text))
    fields: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in _FIELDS:
            raise ValueError(f"{name!r} in the policy {text!r}: write params=, compute= or output=")
        fields[_FIELDS[name]] = dtype(value.strip())
    compute = fields.setdefault("compute_dtype", fields.get("param_dtype", dtype("f32")))
    return Policy(**{"param_dtype": dtype("f32"), "output_dtype": compute, **fields})
