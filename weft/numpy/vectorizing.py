"""Functions of small arrays applied over larger ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from weft import lax
from weft.api.batching import vmap
from weft.api.jit import jit
from weft.base import knobs
from weft.base.functional import wraps
from weft.core.array import Array
from weft.division import varying
from weft.lax.shape import canonical_axis
from weft.numpy.creation import asarray
from weft.numpy.manipulation import concatenate, expand_dims, squeeze
from weft.numpy.promotion import check_arraylike, ensure_array, report_rank_promotion
from weft.numpy.reductions import argmax, cumsum

_NAME = r"\w+"
_ARGUMENT = rf"\((?:{_NAME}(?:,{_NAME})*)?\)"
_ARGUMENTS = rf"{_ARGUMENT}(?:,{_ARGUMENT})*"

CoreDims = tuple[str, ...]


def _parse_signature(signature: str) -> tuple[list[CoreDims], list[CoreDims]]:
    """The core dimensions of arguments and results, by name."""
    if not re.fullmatch(rf"{_ARGUMENTS}->{_ARGUMENTS}", signature):
        raise ValueError(f"not a valid signature: {signature}; write for example '(n,m),(m)->(n)'")
    sides = []
    for side in signature.split("->"):
        sides.append([tuple(re.findall(_NAME, part)) for part in re.findall(_ARGUMENT, side)])
    return sides[0], sides[1]


class _Sizes:
    """The sizes that the names of core dimensions stand for in one call."""

    def __init__(self, context: str) -> None:
        self.known: dict[str, int] = {}
        self.context = context

    def copy(self) -> _Sizes:
        other = _Sizes(self.context)
        other.known = dict(self.known)
        return other

    def learn(self, names: CoreDims, sizes: tuple[int, ...]) -> None:
        for name, n in zip(names, sizes, strict=True):
            if self.known.setdefault(name, n) != n:
                raise ValueError(
                    f"core dimension {name!r} has sizes {self.known[name]} and {n} {self.context}"
                )


def _bind_static(
    function: Callable[..., Any], static: Collection[int | str], args: Any, kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
    """The function with some arguments fixed, and the other arguments."""
    if not static:
        return function, list(args), kwargs
    fixed = {i: x for i, x in enumerate(args) if i in static}
    fixed_names = {k: v for k, v in kwargs.items() if k in static}

    def bound(*rest: Any, **named: Any) -> Any:
        remaining = iter(rest)
        count = len(rest) + len(fixed)
        full = [fixed[i] if i in fixed else next(remaining) for i in range(count)]
        return function(*full, **named, **fixed_names)

    moving = [x for i, x in enumerate(args) if i not in fixed]
    return bound, moving, {k: v for k, v in kwargs.items() if k not in fixed_names}


def _checking(function: Callable[..., Any], sizes: _Sizes, outputs: list[CoreDims]) -> Any:
    """The function with the shapes of its results held against the signature."""

    @wraps(function)
    def checked(*args: Any) -> Any:
        out = function(*args)
        if len(outputs) > 1 and not isinstance(out, tuple):
            raise TypeError(f"{len(outputs)} results need a tuple, got {out!r} {sizes.context}")
        results = out if isinstance(out, tuple) else (out,)
        if len(results) != len(outputs):
            raise TypeError(f"expected {len(outputs)} results, got {len(results)} {sizes.context}")
        found = sizes.copy()
        for x, names in zip(results, outputs, strict=True):
            if np.ndim(x) != len(names):
                raise ValueError(
                    f"a result of shape {np.shape(x)} does not fit core dimensions {names}"
                    f" {sizes.context}"
                )
            found.learn(names, np.shape(x))
        return out

    return checked


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Return a function that maps over all leading axes of its arguments, which broadcast.

    Args:
        pyfunc: Function of scalars, or of arrays with the core dimensions of ``signature``. It is
            mapped with ``vmap``, so it must be traceable.
        excluded: Positions and names of arguments that are passed on as they are.
        signature: Core dimensions in NumPy's notation, such as "(m,n),(n)->(m)"; by default all
            arguments are scalars.

    Returns:
        Function of arrays. It can be used under ``jit``, ``grad`` and ``vmap``.

    Differs from NumPy: the function is compiled code for whole arrays, not a Python loop.

    Example:
        >>> import weft.numpy as jnp
        >>> mean = jnp.vectorize(lambda x: x.mean(), signature="(n)->()")
        >>> mean(jnp.ones((2, 3))).shape
        (2,)
    """
    for item in excluded:
        if not isinstance(item, (str, int)):
            raise TypeError(f"excluded takes positions or names of arguments, got {excluded!r}")
        if isinstance(item, int) and item < 0:
            raise ValueError(f"vectorize cannot exclude negative positions, got {excluded!r}")

    @wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _call_vectorized(pyfunc, excluded, signature, args, kwargs)

    return wrapped


def _call_vectorized(
    pyfunc: Any, excluded: Any, signature: str | None, args: Any, kwargs: dict[str, Any]
) -> Any:
    context = f"on vectorized function with {excluded=} and {signature=}"
    function, moving, named = _bind_static(pyfunc, excluded, args, kwargs)
    if named:
        inner = function
        function = lambda *a: inner(*a, **named)
    inputs: list[CoreDims] = [()] * len(moving)
    outputs = None
    if signature is not None:
        inputs, outputs = _parse_signature(signature)
    nothing = {i for i, x in enumerate(moving) if x is None}
    if nothing:
        if any(inputs[i] for i in nothing):
            raise ValueError(f"None cannot be given at positions {nothing} of {signature=}")
        function, moving, _ = _bind_static(function, nothing, moving, {})
        inputs = [names for i, names in enumerate(inputs) if i not in nothing]
    if len(moving) != len(inputs):
        raise TypeError(f"expected {len(inputs)} positional arguments, got {len(moving)} {context}")
    arrays = [asarray(x) for x in moving]
    return _map_leading(function, arrays, inputs, outputs, _Sizes(context), signature)


def _map_leading(
    function: Any,
    arrays: list[Any],
    inputs: list[CoreDims],
    outputs: list[CoreDims] | None,
    sizes: _Sizes,
    signature: str | None,
) -> Any:
    """Apply over all dimensions in front of the core ones; those of size 1 are not mapped."""
    leading = []
    for x, names in zip(arrays, inputs, strict=True):
        if x.ndim < len(names):
            raise ValueError(
                f"an argument of shape {x.shape} has too few dimensions for core dimensions"
                f" {names} {sizes.context}"
            )
        lead = x.ndim - len(names)
        sizes.learn(names, x.shape[lead:])
        leading.append(x.shape[:lead])
    common = lax.broadcast_shapes(*leading)
    if knobs.thread.numpy_rank_promotion != "allow":
        if len({len(s) for s, x in zip(leading, arrays, strict=True) if x.ndim}) > 1:
            report_rank_promotion(f"vectorize with {signature=}", [x.shape for x in arrays])
    if outputs is not None:
        function = _checking(function, sizes, outputs)
    squeezed = []
    for x, lead in zip(arrays, leading, strict=True):
        squeezed.append(squeeze(x, tuple(i for i, n in enumerate(lead) if n == 1)))
    padded = [(1,) * (len(common) - len(s)) + s for s in leading]
    unmapped = []
    for axis in reversed(range(len(common))):
        in_axes = tuple(None if s[axis] == 1 else 0 for s in padded)
        if all(a is None for a in in_axes):
            unmapped.append(axis)
        else:
            function = vmap(function, in_axes)
    out = function(*squeezed)
    if not unmapped:
        return out
    if isinstance(out, tuple):
        return tuple(expand_dims(x, tuple(unmapped)) for x in out)
    return expand_dims(out, tuple(unmapped))


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Array:
    """Return a function's results for all one-dimensional slices along an axis.

    Args:
        func1d: Function of a vector that returns an array; mapped with ``vmap``.
        axis: Axis along which slices are taken.
        arr: Array of at least one dimension.
        *args: Further arguments of ``func1d``.
        **kwargs: Further arguments of ``func1d`` by name.

    Returns:
        Array with ``axis`` replaced by the axes of the function's result.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.apply_along_axis(jnp.sum, 1, jnp.ones((2, 3)))
        Array([3., 3.], dtype=float32)
    """
    check_arraylike("apply_along_axis", arr)
    ndim = np.ndim(arr)
    place = canonical_axis(axis, ndim)

    def function(x: Any) -> Any:
        return func1d(x, *args, **kwargs)

    for i in range(1, ndim - place):
        function = vmap(function, in_axes=i, out_axes=-1)
    for _ in range(place):
        function = vmap(function, in_axes=0, out_axes=0)
    return function(arr)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """Return an array reduced by a function along several axes, one after the other.

    Args:
        func: Function of an array and an axis, such as ``sum``.
        a: Array of any shape.
        axes: Sequence of axes.

    Returns:
        Array with as many dimensions as ``a``; reduced axes have size 1.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), [0, 1]).shape
        (1, 1)
    """
    x = ensure_array("apply_over_axes", a)
    for axis in axes:
        out = func(x, axis)
        if out.ndim == x.ndim - 1:
            out = expand_dims(out, axis)
        elif out.ndim != x.ndim:
            raise ValueError(
                f"apply_over_axes needs a function that keeps or removes one axis; it made shape"
                f" {out.shape} of {x.shape}"
            )
        x = out
    return x


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """Return the values of one of several functions, chosen by conditions.

    Args:
        x: Array at which the functions are evaluated.
        condlist: Boolean arrays with the shape of ``x``, the last that holds counts, or a boolean.
        funclist: Functions of a scalar or constants, one for each condition, and optionally one
            more where no condition holds (0 by default).
        *args: Further arguments of the functions.
        **kw: Further arguments of the functions by name.

    Returns:
        Array with the shape and dtype of ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> x = jnp.array([-2.0, 3.0])
        >>> jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: 2 * v])
        Array([2., 6.], dtype=float32)
    """
    x = ensure_array("piecewise", x)
    conditions, functions = len(condlist), list(funclist)
    if len(functions) == conditions:
        functions.insert(0, 0)
    elif len(functions) == conditions + 1:
        functions.insert(0, functions.pop())
    else:
        raise ValueError(
            f"piecewise with {conditions} conditions takes {conditions} or {conditions + 1}"
            f" functions, got {len(functions)}"
        )
    constants = {i: f for i, f in enumerate(functions) if not callable(f)}
    callables = tuple(f if callable(f) else None for f in functions)
    masks = asarray(condlist, dtype=bool)
    return _piecewise(x, masks, constants, callables, args, kw)


@jit(static_argnames="functions")
def _piecewise(x: Any, masks: Any, constants: Any, functions: Any, args: Any, kw: Any) -> Array:
    """Jitted, so that functions that come again are not traced again."""

    def branch(i: int, function: Any) -> Any:
        if function is None:
            return lambda v: varying.like(asarray(constants[i], dtype=v.dtype), v)
        return lambda v: varying.like(function(v, *args, **kw).astype(v.dtype), v)

    none = lax.full((1, *masks.shape[1:]), False, np.bool_)
    chosen = argmax(cumsum(concatenate([none, masks], 0), 0), 0)
    branches = [branch(i, f) for i, f in enumerate(functions)]
    return vectorize(lax.switch, excluded=(1,))(chosen, branches, x)
