"""Samples of every primitive: operands and parameters on which the laws are checked."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tools import rules
from weft import dtypes
from weft.core.registry import lookup

FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTS = ("int32", "int64", "int16", "int8")
UINTS = ("uint32", "uint64", "uint16", "uint8")
INTEGERS = (*INTS, *UINTS)
NUMBERS = (*FLOATS, *COMPLEX, *INTEGERS)
BITS = ("bool", *INTEGERS)
ANY = (*NUMBERS, "bool")
ORDERED = (*FLOATS, *INTEGERS, "bool")
WIDE = ("float64", "complex128", "int64", "uint64")

Operand = Callable[[np.random.Generator], Any]


@dataclass
class Sample:
    """One call of a primitive: how its operands are made, its parameters, what it supports.

    Operands made in float64 or int64 are given the sample's dtype; those made in another dtype
    (indices, predicates, keys) keep it. ``fun``, where given, is called in the place of the
    primitive's ``bind``; its program must hold the primitive. ``params`` may be a function of the
    dtype. ``wrt`` are the operands that derivatives are taken by (all that are floating),
    ``linear`` sets of operands in which the primitive is linear while the others are held fixed.
    ``axis`` is the name and size of a mapped axis around the call: operands then have a leading
    axis of that size. ``mapped`` are the operands that a batch may map (all), ``reverse`` says
    whether there is a reverse mode. ``tol`` is in units of the dtype's rounding error, ``order``
    the number of derivatives that exist, ``notes`` the reason for what is unusual.
    """

    name: str
    prim: str
    args: list[Operand]
    params: Any = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32",)
    differentiable: bool = True
    tol: float = 4.0
    order: int = 2
    notes: str = ""
    fun: Callable[..., Any] | None = None
    wrt: tuple[int, ...] | None = None
    linear: tuple[tuple[int, ...], ...] = ()
    axis: tuple[str, int] | None = None
    mapped: tuple[int, ...] | None = None
    reverse: bool = True

    def __repr__(self) -> str:
        return self.name

    def function(self, dtype: str) -> Callable[..., Any]:
        """The call as a function of the operands."""
        if self.fun is not None:
            return self.fun
        primitive = lookup(self.prim)
        params = self.params(np.dtype(dtype)) if callable(self.params) else self.params
        return lambda *args: primitive.bind(*args, **params)

    def operands(self, dtype: str, rng: np.random.Generator) -> list[np.ndarray]:
        """Operands of the call, drawn anew."""
        return [to_dtype(make(rng), dtype, make, rng) for make in self.args]


def to_dtype(x: Any, dtype: str, make: Operand, rng: np.random.Generator) -> np.ndarray:
    """Values drawn as float64 or int64, in the sample's dtype: spread over small integers,
    halved into booleans, with an imaginary part of their own."""
    x = np.asarray(x)
    if x.dtype not in (np.float64, np.int64):
        return x
    target = np.dtype(dtype)
    if x.dtype == np.int64:
        return x.astype(target)
    if dtypes.issubdtype(target, np.complexfloating):
        return np.asarray(x + 1j * make(rng)).astype(target)
    if target == np.bool_:
        return np.asarray(x > 0)
    if dtypes.issubdtype(target, np.integer):
        whole = np.asarray(np.round(3 * x))
        if dtypes.issubdtype(target, np.unsignedinteger):
            whole = np.asarray(np.abs(whole))
        return whole.astype(np.int64).astype(target)
    return x.astype(target)


def normal(*shape: int) -> Operand:
    """Normally distributed values."""
    return lambda rng: rng.standard_normal(shape)


def between(low: float, high: float, *shape: int) -> Operand:
    """Values spread evenly over an interval."""
    return lambda rng: rng.uniform(low, high, shape)


def away(least: float, *shape: int) -> Operand:
    """Values of both signs, not closer to zero than ``least``."""

    def make(rng: np.random.Generator) -> np.ndarray:
        x = rng.standard_normal(shape)
        return x + np.copysign(least, x)

    return make


def whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Operand:
    """Integers; with a dtype of their own they keep it whatever the sample's."""
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def fixed(value: Any, dtype: Any = None) -> Operand:
    return lambda rng: np.array(value, dtype)


def all_samples() -> list[Sample]:
    """The samples of every file here."""
    rules.load()
    found = []
    for module in pkgutil.iter_modules(__path__, __name__ + "."):
        found += getattr(importlib.import_module(module.name), "SAMPLES", [])
    return found
