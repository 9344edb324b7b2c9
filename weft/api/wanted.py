"""What becomes of each cotangent of a pullback: a value, a sum in a reference, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.ad import Zero, instantiate_array
from weft.core.trace import typeof
from weft.tree.functions import tree_flatten, tree_unflatten
from weft.tree.registry import register_static


class _Mark:
    """A mark without content: all of a kind are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@register_static
class GradRef(_Mark):
    """Stands in a result where the cotangent was added to a reference.

    >>> from weft import ad
    >>> ad.GradRef()
    GradRef()
    """

    __slots__ = ()


@register_static
class GradValue(_Mark):
    """Asks for a cotangent as a value.

    >>> from weft import ad
    >>> ad.GradValue()
    GradValue()
    """

    __slots__ = ()


@register_static
class DontWant(_Mark):
    """Asks for no cotangent.

    >>> from weft import ad
    >>> ad.DontWant()
    DontWant()
    """

    __slots__ = ()


@register_static
class DidntWant(_Mark):
    """Stands in a result where no cotangent was asked for.

    >>> from weft import ad
    >>> ad.DidntWant()
    DidntWant()
    """

    __slots__ = ()


_WANTS = (GradValue, DontWant)


def _is_want(x: Any) -> bool:
    return type(x) in _WANTS


def pull_into(linear: Any, in_tree: Any, wants: Sequence[Any], cotangents: list[Any]) -> Any:
    """Pull cotangents back and put each where it is wanted."""
    asked, tree = tree_flatten(tuple(wants), is_leaf=_is_want)
    if tree != in_tree:
        raise ValueError(
            "with_refs takes a reference, weft.ad.GradValue() or weft.ad.DontWant() for every "
            f"input of the function: expected the structure {in_tree}, got {tree}"
        )
    for want, aval in zip(asked, linear.in_avals, strict=True):
        _check(want, aval)
    last = [
        Zero(aval.inner_aval) if type(want) is DontWant else want[...]
        for want, aval in zip(asked, linear.in_avals, strict=True)
        if aval.is_ref
    ]
    unwanted = [type(want) is DontWant for want in asked]
    found = linear.pull(cotangents, last, unwanted)
    pairs = zip(asked, linear.in_avals, found, strict=True)
    return tree_unflatten(in_tree, [_put(*each) for each in pairs])


def _check(want: Any, aval: Any) -> None:
    if type(want) is DontWant or (type(want) is GradValue and not aval.is_ref):
        return
    if not (hasattr(want, "aval") and want.aval.is_ref):
        raise ValueError(
            f"with_refs got {want!r} for an input of type {aval.str_short()}; give a reference"
            + ("" if aval.is_ref else ", weft.ad.GradValue()")
            + " or weft.ad.DontWant()"
        )
    if want.aval.shape != aval.shape or want.aval.dtype != aval.dtype:
        raise ValueError(
            f"with_refs got a reference of type {want.aval.str_short()} for the cotangent of an"
            f" input of type {aval.str_short()}"
        )


def _put(want: Any, aval: Any, ct: Any) -> Any:
    if type(want) is DontWant:
        return DidntWant()
    if type(want) is GradValue:
        return instantiate_array(ct)
    if aval.is_ref:  # it held the cotangent of what the reference had at the end
        want[...] = instantiate_array(ct)
    elif type(ct) is not Zero:
        typeof(want).addupdate(want, ct, ())
    return GradRef()
