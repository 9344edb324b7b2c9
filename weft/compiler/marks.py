"""Whether something holds anywhere in an array, noted by the kernels that compute the array.

A reduction by "or" to one boolean needs no tree: the boolean begins as false, and every element for
which the condition holds makes it true. So the kernel that has the elements at hand marks it, and
no other kernel reads the array. The same goes for "and", which begins as true. Which element comes
first makes no difference to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from weft.base.sizes import plain
from weft.compiler.checks.stop import stop_if_p
from weft.core.jaxpr import Jaxpr, JaxprEqn, Literal
from weft.kernel.build import Builder
from weft.kernel.kernel import Affine, Buffer, Kernel, Store
from weft.kernel.nodes import BOOL

# Elements from which on one block isn't enough for a reduction, so that it would take two kernels;
# and reductions from which on it is worth a kernel that begins all of them.
MIN_ELEMENTS, MIN_MARKS = 1 << 14, 3
# Booleans that a kernel begins: it has a parameter for each.
MAX_BEGUN = 128
_COMBINES = frozenset(["or", "and"])


def marks_of(
    jaxpr: Jaxpr, fuses: Callable[[JaxprEqn], bool], checks: bool = False
) -> dict[Any, bool]:
    """The results that are marked, each with what it begins as; with ``checks``, only those that
    stop the program."""
    found: dict[Any, bool] = {}
    large = False
    stops = {e.invars[0] for e in jaxpr.eqns if e.primitive is stop_if_p} if checks else set()
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        if primitive.form != "reduce" or not fuses(eqn):
            continue
        (x,), (out,) = eqn.invars, eqn.outvars
        op, axes = primitive.reduction(**eqn.params)
        if op not in _COMBINES or out.aval.dtype != BOOL or type(x) is Literal:
            continue
        count = plain(prod(x.aval.shape))
        if out.aval.shape or len(axes) != len(x.aval.shape) or count < 2:
            continue
        if checks and out not in stops:
            continue
        found[out] = op == "and"
        large = large or count > MIN_ELEMENTS
    return found if large or len(found) >= MIN_MARKS else {}


def feeding(jaxpr: Jaxpr, marks: Mapping[Any, bool], users: Mapping[Any, Any]) -> set[int]:
    """The equations, by id, of which nothing but marks is made."""
    found: set[int] = set()
    results = {x for x in jaxpr.outvars if type(x) is not Literal}
    for eqn in reversed(jaxpr.eqns):
        outs = eqn.outvars
        if all(v in marks for v in outs):
            found.add(id(eqn))
        elif outs and not any(v in results for v in outs):
            after = [user for v in outs for user in users.get(v, ())]
            if after and all(id(user) in found for user in after):
                found.add(id(eqn))
    return found


def beginnings(marks: Mapping[Any, bool]) -> list[tuple[Kernel, list[Any]]]:
    """Kernels that give marks what they begin as, with their variables."""
    found: list[tuple[Kernel, list[Any]]] = []
    every = list(marks)
    for start in range(0, len(every), MAX_BEGUN):
        variables = every[start : start + MAX_BEGUN]
        k = Builder()
        body = [Store(i, Affine(), k.const(marks[v], BOOL)) for i, v in enumerate(variables)]
        buffers = [Buffer(BOOL, 1, "out") for _ in variables]
        found.append((Kernel("k", buffers, None, body), variables))
    return found


def unmarked(roots: Sequence[Any], marks: Mapping[Any, bool]) -> int:
    """How many of some roots are arrays that are written."""
    return sum(out not in marks for out in roots) if marks else len(roots)
