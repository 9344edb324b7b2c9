"""Operations that users name themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.api.jit import jit
from weft.base.traceback import api_boundary
from weft.control.composite import composite_p
from weft.tree.functions import tree_flatten, tree_unflatten


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """``decomposition`` as one operation with a name, which programs show and tools can find.

    Positional arguments are its operands, keywords are constants that belong to it. Unlike in JAX
    it can be differentiated and batched: as its decomposition is.

    >>> import weft
    >>> from weft import lax
    >>> square = lax.composite(lambda x: x * x, name="my.square")
    >>> weft.make_jaxpr(square)(3.0).eqns[0].params["name"]
    'my.square'
    >>> float(weft.grad(square)(3.0))
    6.0
    """

    @functools.wraps(decomposition)
    @api_boundary
    def composed(*args: Any, **kwargs: Any) -> Any:
        attributes = tuple(
            (key, tuple(leaves), tree)
            for key, (leaves, tree) in ((k, tree_flatten(v)) for k, v in kwargs.items())
        )
        leaves, staged = jit(functools.partial(decomposition, **kwargs))._stage(args, {})
        outs = composite_p.bind(
            *staged.hoisted,
            *leaves,
            name=name,
            attributes=attributes,
            version=version,
            jaxpr=staged.closed,
        )
        return tree_unflatten(staged.out_tree, outs)

    return composed
