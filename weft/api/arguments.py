"""Handling of user functions and arguments: static arguments, trees, names for messages."""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base import knobs
from weft.base.annotations import signature_of
from weft.base.polynomials import Polynomial
from weft.core.array import Array
from weft.core.debug_info import DebugInfo, hollow
from weft.core.trace import typeof
from weft.tree.functions import tree_flatten, tree_leaves, tree_leaves_with_path, tree_unflatten
from weft.tree.keys import keystr
from weft.tree.registry import flatten_one_level_with_keys, kind_of

# Characters of an argument that an error still shows as they are.
_MAX_REPR = 60


def check_callable(fun: Any) -> None:
    """Raise TypeError unless ``fun`` can be called and is no generator function."""
    if isinstance(fun, staticmethod):
        raise TypeError("expected a function, got a staticmethod; write @staticmethod outside")
    if not callable(fun):
        raise TypeError(f"expected a callable, got {fun!r} of type {type(fun).__name__}")
    if inspect.isgeneratorfunction(fun):
        raise TypeError(f"expected a function, got the generator function {fun.__name__}")


def signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return signature_of(fun)
    except (ValueError, TypeError):
        return None


def as_tuple(x: Any) -> tuple[Any, ...]:
    """None, one item or a sequence of items, as a tuple."""
    if x is None:
        return ()
    if isinstance(x, (int, str)):
        return (x,)
    return tuple(x)


def resolve_names(
    fun: Callable[..., Any], argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of marked arguments, each completed from the other by the signature."""
    nums, names = as_tuple(argnums), as_tuple(argnames)
    if argnums is None and argnames is None:
        return (), ()
    sig = signature(fun)
    if sig is None:
        return tuple(nums), tuple(names)
    positional = [
        p.name
        for p in sig.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if argnums is not None and argnames is None:
        names = tuple(positional[n] for n in nums if -len(positional) <= n < len(positional))
    elif argnames is not None and argnums is None:
        nums = tuple(positional.index(n) for n in names if n in positional)
    return tuple(nums), tuple(names)


def normalize_positions(nums: Sequence[int], count: int) -> tuple[int, ...]:
    """Non-negative positions among ``count`` arguments; those out of range are left out."""
    fixed = (n + count if n < 0 else n for n in nums)
    return tuple(sorted({n for n in fixed if 0 <= n < count}))


class Hashed:
    """A static argument: compared by equality and type, hashed by its own hash."""

    __slots__ = ("value", "_hash")

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        try:
            self._hash = hash(value)
        except TypeError as error:
            raise ValueError(
                f"static argument {name} must be hashable, got {value!r} of type"
                f" {type(value).__name__} ({error}); pass a tuple instead of a list, a frozen"
                " dataclass instead of a plain one, or do not mark the argument as static"
            ) from None

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is not Hashed or type(other.value) is not type(self.value):
            return False
        try:
            return bool(other.value == self.value)
        except Exception as error:
            raise ValueError(
                f"static arguments must be comparable, but comparing two of type"
                f" {type(self.value).__name__} raised {type(error).__name__}: {error}"
            ) from error


def checked_positions(what: str, name: str, given: Any) -> int | tuple[int, ...]:
    """Positions of arguments as an int or a tuple of ints; TypeError for anything else."""
    try:
        if isinstance(given, (tuple, list)):
            return tuple(map(operator.index, given))
        return operator.index(given)
    except TypeError:
        pass
    raise TypeError(
        f"{what} takes {name} as an int or a tuple of ints, got {second_call(what, given)}"
    )


def second_call(what: str, given: Any) -> str:
    """What was passed as an option, and advice if it is an argument of the function.

    >>> second_call("grad", np.ones((2, 3)))
    'an array of shape (2, 3); to pass it to the function, write grad(f)(x)'
    """
    if isinstance(given, (Array, np.ndarray)):
        shown = f"an array of shape {given.shape}"
    elif isinstance(given, (dict, list, tuple, float)):
        shown = f"a {type(given).__name__}" if len(repr(given)) > _MAX_REPR else repr(given)
    else:
        return repr(given)
    return f"{shown}; to pass it to the function, write {what}(f)(x)"


def split_argnums(
    fun: Callable[..., Any], argnums: int | Sequence[int], args: Sequence[Any], what: str
) -> tuple[Callable[..., Any], list[Any], list[int]]:
    """A function of the chosen arguments alone, those arguments, and their positions."""
    nums = [argnums] if isinstance(argnums, int) else list(argnums)
    count = len(args)
    positions = []
    for n in nums:
        position = n + count if n < 0 else n
        if not 0 <= position < count:
            raise TypeError(
                f"{what} was asked for argnums={argnums}, but the call has {count} positional"
                " arguments"
            )
        positions.append(position)
    fixed = list(args)

    def of_chosen(*chosen: Any, **kwargs: Any) -> Any:
        full = list(fixed)
        for p, x in zip(positions, chosen, strict=True):
            full[p] = x
        return fun(*full, **kwargs)

    return of_chosen, [args[p] for p in positions], positions


def debug_info(what: str, fun: Callable[..., Any], args: Any, kwargs: Any) -> DebugInfo:
    """Names of a function and its arguments, worked out only if a message wants them."""
    structure = tree_flatten((args, kwargs))[1]

    known = hollow(fun)

    def names() -> tuple[str, ...]:
        dummies = tree_unflatten(structure, range(structure.num_leaves))
        return argument_names(known, *dummies)

    return DebugInfo(what, fun, names)


def argument_names(fun: Callable[..., Any], args: Any, kwargs: Any) -> tuple[str, ...]:
    """Return the names of all leaves among the arguments: ``params['w'][0]``.

    Args:
        fun: the function.
        args: its arguments.
        kwargs: its keyword arguments.

    Returns:
        A tuple of names.

    Example:
        >>> argument_names(lambda x, y: x, (1.0, {"w": 2.0}), {})
        ('x', "y['w']")
    """
    names: list[str] = []
    for name, value in bound_arguments(fun, args, kwargs).items():
        names.extend(f"{name}{keystr(path)}" for path, _ in tree_leaves_with_path(value))
    return tuple(names)


def bound_arguments(fun: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by the names of their parameters."""
    sig = signature(fun)
    bound: dict[str, Any] = {}
    if sig is not None:
        try:
            bound = dict(sig.bind_partial(*args, **kwargs).arguments)
        except TypeError:
            bound = {}
    return bound or {f"args[{i}]": x for i, x in enumerate(args)} | dict(kwargs)


def chosen_names(fun: Any, args: Sequence[Any], positions: Sequence[int]) -> list[str]:
    """The names of the leaves of the arguments at ``positions``."""
    names: list[str] = []
    for p in positions:
        names.extend(argument_names(fun, [x if i == p else None for i, x in enumerate(args)], {}))
    return names


def check_array_leaves(
    leaves: Sequence[Any],
    fun: Any,
    names: Callable[[], Any],
    what: str,
    given: Callable[[], Any],
    which: Any = None,
) -> None:
    """Raise naming the first argument that is not an array, of those at ``which``.

    ``given`` returns positional and keyword arguments, ``what`` names the transformation.
    """
    for i, x in enumerate(leaves):
        if which is not None and not which[i]:
            continue
        try:
            typeof(x)
        except TypeError:
            known = names()
            where = known[i] if known and i < len(known) else f"argument {i}"
            raise TypeError(
                f"argument {where} of {getattr(fun, '__name__', fun)} is {_short(x)} of type"
                f" {type(x).__name__}, which is not an array; {_remedy(x, i, given(), what)}"
            ) from None


def _short(x: Any) -> str:
    """One line that shows a value."""
    line, *more = repr(x).splitlines() or [""]
    return line if not more and len(line) <= _MAX_REPR else f"{line[:_MAX_REPR]}…"


# How a function of a transformation is given a Python value.
_VALUES = {
    "jit": "mark it with static_argnums or static_argnames, if it is a value to specialise on",
    "vmap": "pass it as it is, with in_axes=None, or close over it",
}
_APART = {
    "jit": "pass it as an argument that static_argnames names",
    "vmap": "pass it with in_axes=None",
}


def _remedy(x: Any, index: int, given: Any, what: str) -> str:
    """What to write instead of a leaf of arguments that is not an array."""
    if isinstance(x, (np.ndarray, np.generic)):
        return (
            f"its dtype is {x.dtype}: convert it to numbers, as with x.astype(float), or give each"
            " text a number"
        )
    if _holds_arrays(x):
        name = type(x).__name__
        return f"register the dataclass {name}, as with @weft.tree_util.register_dataclass"
    holder, depth = _holder(x, index, given)
    kind = None if holder is None or depth < 2 else kind_of(type(holder))
    if kind is None:
        return _VALUES.get(what, "close over it: it has no gradient")
    name = type(holder).__name__
    if kind.tag == "dataclass":
        said = "name it in meta_fields of register_dataclass"
        if hasattr(holder, "_flax_dataclass"):
            said = "declare it as struct.field(pytree_node=False)"
        elif dataclasses.is_dataclass(holder):
            said = f"declare it as dataclasses.field(metadata=dict(static=True)), or {said}"
        return f"make the field of {name} static: {said}"
    if kind.tag == "custom" and type(holder).__module__ != "collections":
        return f"return it in the auxiliary data of {name}, which its flatten function gives"
    apart = _APART.get(what, "close over it")
    return f"take it out of the {name}: {apart}, or keep it in a static field of a dataclass"


def _holds_arrays(x: Any) -> bool:
    """Whether a value is a dataclass with arrays in it."""
    if not dataclasses.is_dataclass(x) or isinstance(x, type):
        return False
    values = [getattr(x, field.name, None) for field in dataclasses.fields(x)]
    return any(isinstance(v, (Array, np.ndarray)) for v in tree_leaves(values))


def _holder(x: Any, index: int, given: Any) -> tuple[Any, int]:
    """The container that holds a leaf of arguments, and how deep it lies in these."""
    leaves = tree_leaves_with_path(given)
    if index >= len(leaves) or leaves[index][1] is not x:
        return None, 0
    path = leaves[index][0]
    for key in path[:-1]:
        given = dict(flatten_one_level_with_keys(given)[0])[key]
    return given, len(path) - 1


def check_results(outs: Sequence[Any], fun: Any, what: str) -> None:
    """Raise TypeError if a function under a transformation returned something not an array."""
    for x in outs:
        try:
            if typeof(x).is_ref:
                raise returned_reference(x, DebugInfo(what, fun).func_src_info, what)
        except TypeError:
            name = DebugInfo(what, fun).func_src_info
            raise TypeError(
                f"function {name}, traced for {what}, returned {x!r} of type"
                f" {type(x).__name__}; functions under transformations return arrays, numbers and"
                " containers of them"
            ) from None


def returned_reference(x: Any, function: str, what: str) -> ValueError:
    """The error for a function that returns a mutable reference."""
    return ValueError(
        f"function {function}, traced for {what}, returned a mutable reference of type"
        f" {typeof(x).str_short()}; references cannot be returned: return what it holds, ref[...]"
    )


def check_references(
    leaves: Sequence[Any], consts: Sequence[Any], fun: Any, what: str, names: Callable[[], Any]
) -> None:
    """Raise ValueError if a mutable reference is passed twice, or passed and closed over."""
    if not knobs.thread.mutable_array_checks:
        return
    first: dict[int, int] = {}
    for i, x in enumerate(leaves):
        aval = getattr(x, "aval", None)
        if aval is None or not aval.is_ref:
            continue
        label = f"{aval.str_short()} to {DebugInfo(what, fun).func_src_info}, for {what}"
        j = first.setdefault(id(x), i)
        if j != i:
            raise ValueError(
                f"one mutable reference was passed twice, as {names()[j]} and as {names()[i]}, of"
                f" type {label}; a write through one would not be visible through the other; pass "
                "it once"
            )
        if any(x is c for c in consts):
            raise ValueError(
                f"one mutable reference was both closed over and passed as {names()[i]}, of type"
                f" {label}; do one or the other"
            )


def as_arrays(args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The arguments with arrays for objects that say which one they are; None if there are none.

    They take the way of arrays, so that products and sums of them have the same bits.
    """
    changed = False

    def converted(x: Any) -> Any:
        nonlocal changed
        if type(x) in (list, tuple):
            return type(x)([converted(y) for y in x])
        if isinstance(x, (Array, np.ndarray)) or isinstance(x, type):
            return x
        method = getattr(x, "__jax_array__", None)
        if method is None or isinstance(x, Polynomial):
            return x
        changed = True
        return method()

    given = [converted(x) for x in args], {k: converted(x) for k, x in kwargs.items()}
    return given if changed else None
