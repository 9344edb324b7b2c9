"""Functions of single matrices and vectors over stacks of them, whose axes broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.api.batching import vmap
from weft.lax.shape import broadcast_shapes
from weft.prims.linalg.matrix import broadcast_stack


def over_stacks(fun: Callable[..., Any], ranks: Sequence[int]) -> Callable[..., Any]:
    """``fun`` of arguments of these ranks, for arguments that have more axes in front.

    An argument without a stack is shared, not repeated.
    """

    def mapped(*args: Any) -> Any:
        shapes = [np.shape(x) for x in args]
        depths = [len(s) - rank for s, rank in zip(shapes, ranks, strict=True)]
        stack = broadcast_shapes(*(s[:d] for s, d in zip(shapes, depths, strict=True)))
        call = fun
        for level in range(1, len(stack) + 1):
            call = vmap(call, tuple(0 if depth >= level else None for depth in depths))
        return call(
            *(
                broadcast_stack(x, stack[len(stack) - depth :], rank)
                for x, depth, rank in zip(args, depths, ranks, strict=True)
            )
        )

    return mapped
