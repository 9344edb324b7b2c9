"""What ``vjp`` returns: a linear function with its residuals, which users may see and replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.base.traceback import api_boundary
from weft.core.array import Array
from weft.tree.functions import tree_leaves
from weft.tree.partial import Partial
from weft.tree.registry import register_pytree_node


class NotNeeded:
    """Stands for an argument of which the pullback needs no value."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is NotNeeded

    def __hash__(self) -> int:
        return hash(NotNeeded)

    def __repr__(self) -> str:
        return "NotNeeded()"


register_pytree_node(NotNeeded, lambda _: ((), None), lambda _, __: NotNeeded())


class Pullback:
    """Called with a cotangent of the output, it gives those of the inputs.

    ``args_res`` has for each argument its value (containers as tuples), or ``NotNeeded()``;
    ``opaque_residuals`` what else was kept of the forward pass. Both may be replaced.

    >>> import weft
    >>> y, pull = weft.vjp(lambda x, y: x * y, weft.numpy.float32(3), weft.numpy.float32(4))
    >>> pull.args_res
    [Array(3., dtype=float32), Array(4., dtype=float32)]
    >>> pull.args_res[0] = weft.numpy.float32(7)
    >>> float(pull(1.0)[1])
    7.0
    """

    def __init__(self, fun: Any, args_res: Any, opaque_residuals: Any) -> None:
        self.fun = fun
        self.args_res = args_res
        self.opaque_residuals = opaque_residuals

    @classmethod
    def of(cls, fun: Any, leaves: Sequence[Any], residuals: Sequence[Any]) -> Pullback:
        """A pullback at a point; residuals that are arguments are known as such."""
        number = {id(x): i for i, x in enumerate(leaves) if isinstance(x, Array)}
        fun.sources = [number.get(id(r)) for r in residuals]
        needed = {i for i in fun.sources if i is not None}
        shown = [x if i in needed else NotNeeded() for i, x in enumerate(leaves)]
        args_res, start = [], 0
        for child in fun.in_tree.children():
            stop = start + child.num_leaves
            args_res.append(child.walk(lambda children, _: children, None, shown[start:stop]))
            start = stop
        opaque = [r for r, i in zip(residuals, fun.sources, strict=True) if i is None]
        return cls(fun, args_res, opaque)

    in_tree = property(lambda self: self.fun.in_tree)
    out_tree = property(lambda self: self.fun.out_tree)
    jaxpr = property(lambda self: self.fun.jaxpr)

    def _residuals(self) -> list[Any]:
        given = tree_leaves(self.args_res, is_leaf=_is_slot)
        opaque = iter(self.opaque_residuals)
        found = []
        for i in self.fun.sources:
            value = next(opaque, None) if i is None else given[i] if i < len(given) else None
            if value is None or type(value) is NotNeeded:
                what = "an entry of opaque_residuals" if i is None else f"argument {i} in args_res"
                raise ValueError(
                    f"the pullback of {self.fun.name} needs {what}, which was removed or "
                    "replaced; restore the value before calling it"
                )
            found.append(value)
        return found

    @api_boundary
    def __call__(self, *cotangents: Any) -> tuple[Any, ...]:
        return self.fun(self._residuals(), *cotangents)

    def with_refs(self, *maybe_ct_refs: Any) -> Callable[..., Any]:
        """The same, with cotangents added to references.

        For every input give a reference, ``weft.ad.GradValue()`` for a cotangent as a value, or
        ``weft.ad.DontWant()``.
        """
        return Partial(self.fun.into, maybe_ct_refs, self._residuals())

    def __repr__(self) -> str:
        return f"Pullback({self.fun.name}, {self.args_res}, {self.opaque_residuals})"


def _is_slot(x: Any) -> bool:
    return x is None or type(x) is NotNeeded


register_pytree_node(
    Pullback,
    lambda pull: ((pull.args_res, pull.opaque_residuals), pull.fun),
    lambda fun, children: Pullback(fun, *children),
)
