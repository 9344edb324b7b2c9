"""Operations that users name themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from weft.api.jit import jit
from weft.base.errors import UnexpectedTracerError
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.control.composite import composite_p
from weft.core.trace import Tracer
from weft.tree.functions import tree_flatten, tree_unflatten

P = ParamSpec("P")
R = TypeVar("R")


def composite(decomposition: Callable[P, R], name: str, version: int = 0) -> Callable[P, R]:
    """Return ``decomposition`` as one named operation, which programs show and tools can find.

    Args:
        decomposition: Function that computes the operation. Its positional arguments are operands,
            its keyword arguments static attributes.
        name: Name of the operation, such as "my_namespace.my_op".
        version: Version number of the operation, recorded in exported programs.

    Returns:
        Function with the arguments of ``decomposition``.

    The operation has no derivative of its own: give it one with ``weft.custom_jvp``.

    Example:
        >>> import weft
        >>> from weft import lax
        >>> square = lax.composite(lambda x: x * x, name="my.square")
        >>> weft.make_jaxpr(square)(3.0).eqns[0].params["name"]
        'my.square'
        >>> float(square(3.0))
        9.0
    """

    @wraps(decomposition)
    @api_boundary
    def composed(*args: Any, **kwargs: Any) -> Any:
        attributes = tuple(
            (key, tuple(leaves), tree)
            for key, (leaves, tree) in ((k, tree_flatten(v)) for k, v in kwargs.items())
        )
        for key, values, _ in attributes:
            _refuse_tracers(name, f"the attribute {key}", values)
        leaves, staged = jit(functools.partial(decomposition, **kwargs))._stage(args, {})
        _refuse_tracers(name, "a value that it closes over", staged.hoisted)
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


def _refuse_tracers(name: str, what: str, values: Sequence[Any]) -> None:
    """Raise if what belongs to an operation is not known while it is traced."""
    for value in values:
        if isinstance(value, Tracer):
            raise UnexpectedTracerError(
                f"lax.composite {name!r} has a traced array of type {value.aval.str_short()} as"
                f" {what}; pass it as a positional argument"
            )
