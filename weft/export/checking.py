"""What a program from outside must satisfy before anything of it runs.

Each equation is evaluated abstractly on the types of its operands, and must give the types that
its variables have; parameters hold what their primitive takes; programs inside parameters fit the
operands that they are run on.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.avals import ShapedArray, same_type
from weft.core.dims.dim import Dim
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from weft.core.primitive import Primitive
from weft.prims.random import PRNGImpl
from weft.runtime.array import ArrayImpl

# The parameters that hold numbers other than integers, and those that hold text.
_NUMBERS = frozenset(["alpha", "beta", "fill_value", "recall_target", "scale"])
_TEXTS = frozenset(["branches_platforms", "name", "orders", "platforms", "version"])
_INTEGER_BITS = 64
# The rules that are given all parameters.
_RULES = ("ref", "jvp", "transpose", "batch", "decompose", "lower")


def check_equation(eqn: JaxprEqn) -> None:
    """Raise unless an equation has the parameters and the types that its primitive says."""
    primitive, params = eqn.primitive, eqn.params
    if _arity(primitive) not in (None, len(eqn.invars)):
        raise ValueError(f"{primitive} has {len(eqn.invars)} operands")
    _check_names(primitive, params)
    for name, value in params.items():
        _check_parameter(name, value)
    avals = [x.aval for x in eqn.invars]
    if primitive.takes_refs or any(True for _ in jaxprs_in_params(params)):
        _check_carrier(primitive, params)
        primitive.verify(avals, params)
    if primitive.name == "unstack":  # its results could fill all memory before they are counted
        if avals[0].shape[params["axis"]] != len(eqn.outvars):
            raise ValueError(f"unstack of {avals[0]} has {len(eqn.outvars)} results")
    if primitive.name == "dim_as_value":
        _check_dim(eqn)
        return
    result, effects = primitive.abstract_eval(*avals, **params)
    if effects:
        raise ValueError(f"{primitive} has side effects, which exported functions can't have")
    results = result if primitive.multiple_results else [result]
    for var, aval in zip(eqn.outvars, results, strict=True):
        if type(aval) is not ShapedArray or not same_type(var.aval, aval):
            raise ValueError(f"{primitive} gives {aval}, but the program says {var.aval}")


def _check_dim(eqn: JaxprEqn) -> None:
    """Raise unless a symbolic dimension is taken as a whole number, of either width."""
    (result,) = eqn.outvars
    good = result.aval.shape == () and result.aval.dtype in (np.int32, np.int64)
    if type(eqn.params["dim"]) is not Dim or not good:
        raise ValueError(f"dim_as_value gives {result.aval} for {eqn.params['dim']!r}")


def check_program(jaxpr: Jaxpr) -> None:
    """Raise unless all equations of a program, and of those it carries, are typed."""
    for eqn in jaxpr.eqns:
        for inner in jaxprs_in_params(eqn.params):
            check_program(inner)
        check_equation(eqn)


def check_literal(literal: Literal) -> None:
    """Raise unless a literal is a number of its type."""
    value, aval = literal.val, literal.aval
    if type(value) in (bool, int, float, complex):
        if isinstance(aval.dtype, dtypes.ExtendedDType) or aval.dtype == dtypes.float0:
            raise ValueError(f"{value!r} is a literal of type {aval}")
        np.asarray(value, aval.dtype)  # raises where it does not fit
    elif not isinstance(value, (np.ndarray, np.generic)) or value.dtype != aval.dtype:
        raise ValueError(f"{value!r} is a literal of type {aval}")
    if np.shape(value) != aval.shape:
        raise ValueError(f"a literal of shape {np.shape(value)} has type {aval}")


def check_constant(value: Any, aval: ShapedArray) -> None:
    """Raise unless an array is of a variable's type."""
    if isinstance(value, ArrayImpl):
        good = same_type(value.aval, aval)
    else:
        good = isinstance(value, (np.ndarray, np.generic))
        good = good and (value.shape, value.dtype) == (aval.shape, storage_dtype(aval.dtype))
    if not good:
        raise ValueError(f"a constant of type {aval} has another value")


# --- parameters -----------------------------------------------------------------------------------


@lru_cache(512)
def _arity(primitive: Primitive) -> int | None:
    """The operands that a primitive takes, or None if there may be any number."""
    for rule in (primitive.shape, primitive.lower, primitive.ref):
        if isinstance(rule, np.ufunc):
            return rule.nin
        given = inspect.signature(rule).parameters.values() if callable(rule) else ()
        if given and not any(p.kind is p.VAR_POSITIONAL for p in given):
            count = sum(p.kind is not p.KEYWORD_ONLY and p.kind is not p.VAR_KEYWORD for p in given)
            return count - (rule == primitive.lower)  # which takes a builder too
    return len(primitive.differentials) if primitive.elementwise else None


@lru_cache(512)
def _parameters(primitive: Primitive) -> tuple[frozenset[str], frozenset[str] | None]:
    """The parameters that rules of a primitive need, and all that it takes, or None."""
    needed: set[str] = set()
    taken: set[str] = set()
    rest = False
    for rule in (primitive.shape, *(getattr(primitive, name) for name in _RULES)):
        parameters = inspect.signature(rule).parameters.values() if callable(rule) else ()
        named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        needed.update(p.name for p in named if p.default is p.empty)
        if rule == primitive.shape:
            taken.update(p.name for p in named)
            rest = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return frozenset(needed), None if rest else frozenset(taken)


def _check_names(primitive: Primitive, params: dict[str, Any]) -> None:
    needed, taken = _parameters(primitive)
    if not needed <= params.keys():
        raise ValueError(f"{primitive} has no parameter {', '.join(needed - params.keys())}")
    if taken is not None and not params.keys() <= taken:
        raise ValueError(f"{primitive} does not take {', '.join(params.keys() - taken)}")


def _check_parameter(name: str, value: Any) -> None:
    kind = type(value)
    if kind is tuple:
        for item in value:
            _check_parameter(name, item)
    elif kind is int:
        if value.bit_length() >= _INTEGER_BITS:
            raise ValueError(f"{name} is {value}, which does not fit into 64 bits")
    elif kind is Dim:
        pass  # checked as a number once it is one
    elif kind in (float, complex):
        if name not in _NUMBERS:
            raise ValueError(f"{name} is {value}, but must be an integer")
    elif kind is str:
        if name not in _TEXTS:
            raise ValueError(f"{name} is the text {value!r}")
    elif isinstance(value, tuple) and not isinstance(value, PRNGImpl):  # a record
        for field in value:
            _check_parameter(name, field)
    elif kind in (list, set, dict):
        raise ValueError(f"{name} is a {kind.__name__}")


def _check_carrier(primitive: Primitive, params: dict[str, Any]) -> None:
    if primitive.callee(params) is not None:
        raise ValueError(f"{primitive} is a call, which exported functions can't contain")
    if type(primitive).verify is Primitive.verify:
        raise ValueError(f"{primitive} carries a program that is not written")
