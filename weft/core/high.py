"""Values of types that libraries define (hijax): what they are made of at the ends of programs.

Programs have arrays only. A value of a library's own type is taken apart where a function is staged
or a loop is entered, and put together again inside: ``flatten`` does both, as the structure of what
it took apart rebuilds the value. Differentiation sees the values whole.
"""

from __future__ import annotations

from typing import Any

from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, subjaxprs
from weft.core.primitive import Primitive
from weft.core.staging import stage
from weft.core.trace import Tracer, typeof
from weft.tree.functions import tree_flatten, tree_unflatten
from weft.tree.registry import register_pytree_node

# Classes of values with types of their own; ``register_hitype`` adds to them.
classes: set[type] = set()


class Parts:
    """A value as the arrays it is made of; a tree node that is the value again when rebuilt."""

    __slots__ = ("aval", "state", "arrays")

    def __init__(self, aval: Any, state: Any, arrays: Any) -> None:
        self.aval, self.state, self.arrays = aval, state, arrays


def _rebuilt(aux: Any, arrays: Any) -> Any:
    aval, state = aux
    return aval.new_from_loval(state, *arrays) if aval.has_qdd else aval.raise_val(*arrays)


register_pytree_node(Parts, lambda p: (tuple(p.arrays), (p.aval, p.state)), _rebuilt)


class Lowered(Primitive):
    """An array that a library's operation was replaced by, whose own derivative is gone with it."""

    def __init__(self) -> None:
        self.name = "lowered"  # not entered among weft's own primitives
        self.differentials = ()

    def shape(self, x: Any, *, name: str) -> Any:
        return x

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        return args[0]

    def ref(self, x: Any, *, name: str) -> Any:  # type: ignore[override]
        return x

    def program(self, avals: Any, params: dict[str, Any]) -> ClosedJaxpr:
        return stage(lambda x: [x], avals)

    def jvp(self, primals: Any, tangents: Any, *, name: str) -> Any:
        raise NotImplementedError(
            f"{name} is inside a loop or a branch, where its own derivative is not known; use it "
            "outside of them, or write it as a VJPHiPrimitive on arrays"
        )

    def batch(self, axis: Any, args: Any, dims: Any, *, name: str) -> Any:
        return self.bind(args[0], name=name), dims[0]


lowered_p = Lowered()


@per_program
def has_lowered(closed: ClosedJaxpr) -> bool:
    """Whether a program has something in it that a library's operation was replaced by."""
    return _has_lowered(closed.jaxpr)


def _has_lowered(jaxpr: Any) -> bool:
    if any(eqn.primitive is lowered_p for eqn in jaxpr.eqns):
        return True
    return any(map(_has_lowered, subjaxprs(jaxpr)))


def is_high(x: Any) -> bool:
    """Whether a leaf has a type that a library defines."""
    return type(x) in classes or (isinstance(x, Tracer) and x.aval.is_high)


def is_mutable(x: Any) -> bool:
    """Whether a leaf has such a type, and changes."""
    return is_high(x) and typeof(x).has_qdd


def flatten(tree: Any, results: bool = False) -> tuple[list[Any], Any]:
    """Leaves and structure of a tree, with values of libraries' types taken apart.

    Mutable ones are taken apart among ``results`` only: who is given one must see its changes.
    """
    leaves, structure = tree_flatten(tree)
    if not classes or not any(map(is_high, leaves)):
        return leaves, structure
    parts = [take_apart(x, results) if is_high(x) else x for x in leaves]
    return tree_flatten(tree_unflatten(structure, parts))


def take_apart(x: Any, mutable: bool = False) -> Parts:
    """A value as its arrays; raises TypeError where there is no way to do so."""
    aval = typeof(x)
    if isinstance(x, Tracer):
        raise TypeError(
            f"a value of type {aval.str_short()} is being differentiated, so it cannot go into a"
            " loop, a branch or vmap; convert it to arrays first"
        )
    if not aval.has_qdd:
        return Parts(aval, None, aval.lower_val(x))
    if not mutable:
        raise TypeError(
            f"a mutable value of type {aval.str_short()} can only be an argument of jit; pass its "
            "contents to other functions"
        )
    state = x.cur_qdd()
    return Parts(aval, state, aval.read_loval(state, x))
