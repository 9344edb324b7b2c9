"""Operations on values of types that libraries define, with rules given as methods."""

from __future__ import annotations

from typing import Any

from weft.core.high import flatten, lowered_p
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, state
from weft.transforms.vmap import BatchTrace
from weft.tree.functions import tree_unflatten


class HiPrimitive(Primitive):
    """An operation on values of libraries' types and arrays.

    A subclass defines ``to_lojax``, what it does to the arrays that its operands are made of;
    ``abstract_eval``, which returns types and effects; and for derivatives ``jvp`` and, where it is
    linear in an operand, ``transpose``. Programs have in its place what ``to_lojax`` does.
    """

    def __init__(self, name: str) -> None:
        self.name = name  # not entered among weft's own primitives
        self.differentials = ()

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether it is replaced by what ``to_lojax`` does: always."""
        return True

    def is_effectful(self, params: dict[str, Any]) -> bool:
        """Whether it has effects."""
        return False

    def _undefined(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"the primitive {self.name!r} needs a method {name}")

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        raise self._undefined("abstract_eval")

    def to_lojax(self, *args: Any, **params: Any) -> Any:
        """The results, by operations on arrays."""
        raise self._undefined("to_lojax")

    def impl(self, *args: Any, **params: Any) -> Any:
        return self.to_lojax(*args, **params)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        raise self._undefined("jvp")

    # --- the rules, as the interpreters ask for them ----------------------------------------------

    def bind(self, *args: Any, **params: Any) -> Any:
        # under vmap a value may hold arrays that are mapped, which the trace does not see
        if isinstance(state.trace, BatchTrace) and not any(map(state.trace.owns, args)):
            return self.to_lojax(*args, **params)
        return state.trace.process_primitive(self, args, params)

    def shape(self, *avals: Any, **params: Any) -> Any:
        return self.abstract_eval(*avals, **params)[0]

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        return self.impl(*args, **params)

    def stage(self, trace: Any, args: Any, params: dict[str, Any]) -> Any:
        for x in args:
            if isinstance(x, Tracer) and x.aval.is_high:
                raise TypeError(
                    f"{self.name} was given a traced {x.aval.str_short()}: only jit, cond, "
                    "while_loop, scan, grad, jvp, vjp and linearize accept values of such types; "
                    "convert it to arrays for anything else"
                )
        return self._marked(self.to_lojax(*args, **params))

    def _marked(self, results: Any) -> Any:
        """The results, of arrays that say that they are not to be differentiated by other rules."""
        leaves, tree = flatten(results, results=True)
        marked = [lowered_p.bind(x, name=self.name) for x in leaves]
        return tree_unflatten(tree, marked)

    def partial_eval(self, trace: Any, args: Any, params: dict[str, Any]) -> Any:
        return trace.emit(self, args, params)
