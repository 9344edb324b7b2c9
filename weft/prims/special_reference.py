"""References of the special functions: what kernels compute, run by NumPy and Python.

Everything is computed in float64 and rounded once to the operands' dtype. In float64 the error is
a few ULP, except near the zeros of lgamma and digamma on the negative axis (there the absolute
error is a few ULP of the terms that cancel) and deep in the tails of the incomplete functions,
whose relative error grows like the logarithm of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.kernel import math, math_complex, math_plane
from weft.kernel import special_functions as stubs
from weft.kernel.build import Builder
from weft.kernel.evaluate import evaluate
from weft.kernel.kernel import Affine
from weft.kernel.nodes import F64, Parts
from weft.kernel.special_coefficients import coefficients, names_for
from weft.kernel.straight import static_names

Array = np.ndarray


def in_double(fun: Callable[..., Array], work: Any = np.float64) -> Callable[..., Array]:
    """Makes `fun`, written for float64 arrays of one shape, work for every float dtype."""

    def wrapper(*operands: Array) -> Array:
        dtype = np.asarray(operands[0]).dtype
        arrays = np.broadcast_arrays(*(np.asarray(x).astype(work) for x in operands))
        with np.errstate(all="ignore"):
            return np.asarray(fun(*arrays)).astype(dtype, copy=False)

    return wrapper


def by_kernel(lower: Callable[..., Any]) -> Callable[..., Array]:
    """A function of arrays of one dtype, from what it is of values of a kernel."""

    def compute(*operands: Array) -> Array:
        k = Builder()
        values = [k.load(i, x.dtype, Affine()) for i, x in enumerate(operands)]
        return evaluate([lower(k, *values)], lambda load: operands[load[0]])[0]

    return compute


def on_plane(name: str) -> Callable[[Array], Array]:
    """A function of complex arrays, from the one of this name that kernels compute."""

    def compute(z: Array) -> Array:
        parts = [np.asarray(part, np.float64) for part in (z.real, z.imag)]
        k = Builder()
        values = tuple(k.load(i, F64, Affine()) for i in range(2))
        lower = getattr(math_complex if name in ("sign", "square") else math_plane, name)
        found = lower(k, Parts(np.dtype(np.complex128), values)).parts
        out = np.empty(z.shape, np.complex128)
        with np.errstate(all="ignore"):
            out.real, out.imag = evaluate(found, lambda load: parts[load[0]])
            return out.astype(z.dtype)

    return compute


# --- stubs ----------------------------------------------------------------------------------------


class _Kind:
    """A kind of machine value as Python has it: numbers, and memory that is a list."""

    def __init__(self, number: type) -> None:
        self.number = number

    def __call__(self, value: Any) -> Any:
        return self.number(value)

    def __getitem__(self, place: tuple[list[Any], int]) -> Any:
        return self.number(place[0][place[1]])

    def __setitem__(self, place: tuple[list[Any], int], value: Any) -> None:
        place[0][place[1]] = value


@lru(16)
def stub(name: str) -> Callable[..., Array]:
    """One of the functions of series as a function of arrays."""
    names: dict[str, Any] = dict(vars(stubs))
    for each, value in vars(stubs).items():
        if type(value) is FunctionType:
            names[each] = FunctionType(value.__code__, names)
    names |= {word: getattr(np, word) for word in "exp expm1 log log1p power sqrt floor".split()}
    names |= {"f64": _Kind(np.float64), "i64": _Kind(int), "stack": lambda size: [0.0]}
    names |= {"erfc": in_double(by_kernel(math.erfc)), "digamma": digamma}
    given = names_for(name, F64)
    for each in names.values():
        if type(each) is FunctionType and each.__globals__ is names:
            each.__kwdefaults__ = {
                word: given[word] for word in static_names(each) if word in given
            }
    table = np.array(coefficients(F64)[1], np.int64).view(np.float64).tolist()
    first = () if names[name].__code__.co_varnames[0] != "table" else (table,)

    def compute(*operands: Array) -> Array:
        rows = zip(*(x.flat for x in operands), strict=True)
        found = [names[name](*first, *row) for row in rows]
        return np.array(found, np.float64).reshape(operands[0].shape)

    return in_double(compute)


# --- the gamma function ---------------------------------------------------------------------------


def _piecewise(pieces: Sequence[tuple[Array, Callable[..., Array]]], x: Array) -> Array:
    """Evaluates on each element the function of the first condition that holds there, else NaN."""
    out = np.full(x.shape, np.nan)
    free = np.ones(x.shape, bool)
    for condition, fun in pieces:
        chosen = condition & free
        free &= ~chosen
        if chosen.any():
            out[chosen] = fun(x[chosen])
    return out


def _lgamma_reflected(x: Array) -> Array:
    # sin(pi x), up to its sign, without the loss of a rounded multiple of pi
    sine = np.sin(np.pi * (x - np.rint(x)))
    value = np.log(np.pi / np.abs(x * sine)) - lgamma(-x)
    return np.where(sine == 0.0, np.inf, value)


@in_double
def lgamma(x: Array) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    return _piecewise(
        [
            (x == -np.inf, np.abs),
            (np.abs(x) < 0.5, lambda v: stub("lgamma_near_one")(v) - np.log(np.abs(v))),
            (x < 0.0, _lgamma_reflected),
            (x >= 0.5, stub("lgamma_positive")),
        ],
        x,
    )


def _digamma_reflected(x: Array) -> Array:
    rest = x - np.rint(x)
    value = digamma(1.0 - x) - np.pi / np.tan(np.pi * rest)
    return np.where(rest == 0.0, np.nan, value)


@in_double
def digamma(x: Array) -> Array:
    """The derivative of lgamma; NaN at the poles."""
    return _piecewise([(x < 0.0, _digamma_reflected), (x > 0.0, stub("digamma_positive"))], x)
