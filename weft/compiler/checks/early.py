"""Loops that end where a check in them fails.

What a loop has computed until then is not the program's result, so the failure must be a mistake:
no NaN may come from outside. Such a failure has a negative number.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.base.checking import Kinds
from weft.compiler.checks import predicates
from weft.compiler.checks.flow import is_closed
from weft.compiler.checks.sites import is_inexact
from weft.core.interpret import constant_value, has_data, literal_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params

# Elements of a loop's constants up to which they are looked at, if the loop carries fewer.
MAX_ELEMENTS = 1 << 16


def clean(kinds: Kinds, params: dict[str, Any], values: list[Any]) -> Any:
    """Whether no value that a ``while`` loop gets is bad: a boolean of the program that is being
    written, or None where that isn't known or costs too much."""
    if not (kinds.nan or kinds.inf):
        return np.bool_(True)
    programs = (params["cond_jaxpr"], params["body_jaxpr"])
    if any(_gives(kinds, closed) for closed in programs):
        return None
    first = params["cond_nconsts"] + params["body_nconsts"]
    inexact = [predicates.is_inexact_value(x) for x in values]
    sizes = [prod(np.shape(x)) if i else 0 for x, i in zip(values, inexact, strict=True)]
    if sum(sizes[:first]) > max(MAX_ELEMENTS, sum(sizes[first:])):
        return None
    failed: Any = None
    for x in [x for x, i in zip(values, inexact, strict=True) if i]:
        one = predicates.any_of(predicates.bad(x, kinds))
        failed = one if failed is None else predicates.either(failed, one)
    return np.bool_(True) if failed is None else predicates.negated(failed)


def _gives(kinds: Kinds, closed: ClosedJaxpr) -> bool:
    """Whether a program has bad numbers written into it, or gets them from Python."""
    for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        if is_inexact(v.aval):
            if not has_data(v.aval) or prod(v.aval.shape) > MAX_ELEMENTS:
                return True
            if kinds.is_bad(constant_value(c, v.aval)).any():
                return True
    return _writes(kinds, closed.jaxpr)


def _writes(kinds: Kinds, jaxpr: Jaxpr) -> bool:
    for x in [*jaxpr.outvars, *(x for eqn in jaxpr.eqns for x in eqn.invars)]:
        if type(x) is Literal and is_inexact(x.aval) and kinds.is_bad(literal_value(x)).any():
            return True
    for eqn in jaxpr.eqns:
        if is_closed(eqn) and any(is_inexact(v.aval) for v in eqn.outvars):
            return True
        if any(_gives(kinds, p) for p in eqn.params.values() if type(p) is ClosedJaxpr):
            return True
        if any(_writes(kinds, inner) for inner in jaxprs_in_params(eqn.params)):
            return True
    return False


def marked(clean: Any, failure: tuple[Any, ...]) -> tuple[Any, ...]:
    """A failure whose number is negative if its loop began clean."""
    if clean is None:
        return failure
    number = predicates.least(failure[0], predicates.minus(failure[0]))
    if clean is not True and not isinstance(clean, np.bool_):
        number = predicates.chosen(clean, (number,), failure[:1])[0]
    return (number, *failure[1:])
