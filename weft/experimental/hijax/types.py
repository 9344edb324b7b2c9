"""Types that libraries define, and the classes of their values."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from weft.core import high
from weft.core.avals import AbstractValue
from weft.core.effects import Effect
from weft.core.trace import aval_handlers
from weft.transforms.jvp import JVPTracer


class aval_property:
    """A property that traced values of a type have: ``fget`` takes the value."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget


class aval_method:
    """A method that traced values of a type have: ``fun`` takes the value first."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


class _DefinedType(AbstractValue):
    """What types of libraries have in common."""

    is_high = True

    def attribute(self, tracer: Any, name: str) -> Any:
        """An attribute of a traced value: one that its type declares for it, or its type's."""
        found = getattr(self, name)
        if isinstance(found, aval_property):
            return found.fget(tracer)
        return MethodType(found.fun, tracer) if isinstance(found, aval_method) else found

    def getitem(self, tracer: Any, index: Any) -> Any:
        """``tracer[index]``."""
        return self._operator("_getitem")(tracer, index)

    def setitem(self, tracer: Any, index: Any, value: Any) -> None:
        """``tracer[index] = value``."""
        self._operator("_setitem")(tracer, index, value)

    def _operator(self, name: str) -> Any:
        found = getattr(self, name, None)
        if found is None:
            raise TypeError(f"values of type {self.str_short()} have no items")
        return found

    def _undefined(self, name: str) -> TypeError:
        return TypeError(f"the type {type(self).__name__} needs a method {name}, which it lacks")

    def to_tangent_aval(self) -> AbstractValue:
        """The type of tangents."""
        raise self._undefined("to_tangent_aval")

    def to_ct_aval(self) -> AbstractValue:
        """The type of cotangents."""
        return self.to_tangent_aval()

    def to_cotangent_aval(self) -> AbstractValue:
        return self.to_ct_aval()

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        return type(self).__name__


class HiType(_DefinedType):
    """A type whose values are made of arrays and do not change.

    A subclass defines ``__eq__`` and ``__hash__``, ``lo_ty``, ``lower_val`` and ``raise_val``; for
    derivatives also ``to_tangent_aval``, and ``vspace_zero`` and ``vspace_add`` if its values are
    tangents.
    """

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that a value is made of."""
        raise self._undefined("lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value is made of."""
        raise self._undefined("lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value made of some arrays."""
        raise self._undefined("raise_val")

    def vspace_zero(self) -> Any:
        """The tangent zero."""
        raise self._undefined("vspace_zero")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two tangents."""
        raise self._undefined("vspace_add")


class MutableHiType(_DefinedType):
    """A type whose values hold arrays and change, along with a state that says which types.

    The state is a value's ``cur_qdd()``. A subclass defines ``__eq__`` and ``__hash__``,
    ``lo_ty_qdd``, ``new_from_loval``, ``read_loval`` and ``update_from_loval``.
    """

    has_qdd = True

    def lo_ty_qdd(self, state: Any, /) -> list[AbstractValue]:
        """The types of the arrays that a value of a state holds."""
        raise self._undefined("lo_ty_qdd")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        """A new value of a state that holds some arrays."""
        raise self._undefined("new_from_loval")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        """The arrays that a value holds."""
        raise self._undefined("read_loval")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        """Let a value hold other arrays."""
        raise self._undefined("update_from_loval")


class AvalQDD:
    """A type of values that change, and the state of one."""

    __slots__ = ("aval", "qdd")

    def __init__(self, aval: AbstractValue, qdd: Any) -> None:
        self.aval, self.qdd = aval, qdd

    def __repr__(self) -> str:
        return f"AvalQDD(aval={self.aval!r}, qdd={self.qdd!r})"


class AvalMutableQDD:
    """A type of values that change, and the state of one as something to ``update``."""

    __slots__ = ("aval", "mutable_qdd")

    def __init__(self, aval: AbstractValue, mutable_qdd: Any) -> None:
        self.aval, self.mutable_qdd = aval, mutable_qdd

    def __repr__(self) -> str:
        return f"AvalMutableQDD(aval={self.aval!r}, mutable_qdd={self.mutable_qdd!r})"


def cur_qdd(x: Any) -> Any:
    """Return the state of a value that changes, as its type describes it.

    Args:
        x: the value.

    Returns:
        The state.
    """
    while isinstance(x, JVPTracer):
        x = x.primal
    return x.cur_qdd()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Say that values of a class have a type of their own, which ``typeof_fn`` gives.

    >>> import weft, weft.numpy as jnp
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> class PairType(HiType):
    ...     __hash__ = lambda self: hash(PairType)
    ...     __eq__ = lambda self, other: isinstance(other, PairType)
    ...     lower_val = lambda self, pair: [pair.a, pair.b]
    ...     raise_val = lambda self, a, b: Pair(a, b)
    >>> register_hitype(Pair, lambda pair: PairType())
    >>> swapped = weft.jit(lambda pair: Pair(pair.b, pair.a))(Pair(1, jnp.ones(2)))
    >>> swapped.a
    Array([1., 1.], dtype=float32)
    """
    aval_handlers[val_cls] = typeof_fn
    high.classes.add(val_cls)


class EffectTypes:
    """Kinds of effects that are allowed somewhere."""

    def __init__(self) -> None:
        self._kinds: set[type[Effect]] = set()

    def add_type(self, effect_type: type[Effect]) -> None:
        """Allow a kind of effects."""
        self._kinds.add(effect_type)

    def contains(self, effect: Effect) -> bool:
        """Whether an effect is allowed."""
        return isinstance(effect, tuple(self._kinds))


control_flow_allowed_effects = EffectTypes()
