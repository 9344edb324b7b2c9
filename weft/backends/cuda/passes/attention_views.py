"""Results of attention used as they are, where only their axes were moved, and moved back."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cuda.passes.attention import MOVES
from weft.backends.cuda.passes.attention_layout import Groups, Labels
from weft.base.record import Record
from weft.compiler.passes.contract import Writer
from weft.compiler.passes.prune import prune
from weft.core.jaxpr import ClosedJaxpr, Literal

_MADE = ("attention", "attention_backward", "decode_attention")
_MOVES = MOVES | {"convert_element_type"}
_WIDE = np.dtype(np.float32)


class _View(Record):
    """A value that has the elements of a result: their labels in memory, and along its axes."""

    root: Any
    order: list[Any]
    groups: Groups


def straighten(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with attention's results, or reshapes of them, for moves that come to that.

    A conversion to float32 and back changes nothing either.
    """
    if not any(eqn.primitive.name in _MADE for eqn in closed.jaxpr.eqns):
        return closed
    labels = Labels()
    views: dict[Any, _View] = {}
    same: dict[Any, Any] = {}
    eqns: list[Any] = []
    for eqn in closed.jaxpr.eqns:
        if same:
            eqn = eqn.replace(invars=[_found(same, x) for x in eqn.invars])
        if eqn.primitive.name in _MADE:
            for v, groups in zip(eqn.outvars, _labelled(labels, eqn), strict=True):
                views[v] = _View(v, _flat(groups), groups)
        view = _moved(eqn, views, labels)
        if view is not None:
            out = eqn.outvars[0]
            views[out] = view
            if _flat(view.groups) == view.order and out.aval.dtype == view.root.aval.dtype:
                w = Writer(eqn)
                x = w.reshape(view.root, out.aval.shape)
                if x is view.root:
                    same[out] = x
                else:
                    eqns += w.done(x)
                continue
        eqns.append(eqn)
    outs = [_found(same, x) for x in closed.jaxpr.outvars]
    return prune(ClosedJaxpr(closed.jaxpr.replace(eqns=eqns, outvars=outs), closed.consts))


def _labelled(labels: Labels, eqn: Any) -> list[Groups]:
    """Labels for the axes of results: one each, and two for heads of which several share keys."""
    made: tuple[str, ...]
    if eqn.primitive.name == "decode_attention":
        shared, made = eqn.params["sizes"][2], ("bhd",)
    else:
        orders = eqn.params["orders"]
        shared = eqn.invars[1].aval.shape[orders[1].index("h")]
        made = (orders[0], "bht") if eqn.primitive.name == "attention" else orders[:3]
    found = []
    for v, order in zip(eqn.outvars, made, strict=True):
        groups = []
        for i, n in enumerate(v.aval.shape):
            few = shared if order[i] == "h" else n
            groups.append(labels.group((v, i), few) + labels.group((v, i, "more"), n // few))
        found.append(tuple(groups))
    return found


def _flat(groups: Groups) -> list[Any]:
    return [label for g in groups for label in g]


def _found(same: dict[Any, Any], x: Any) -> Any:
    return x if type(x) is Literal else same.get(x, x)


def _moved(eqn: Any, views: dict[Any, _View], labels: Labels) -> _View | None:
    """What an equation's result is, if it has just the elements of one of attention's."""
    if eqn.primitive.name not in _MOVES or type(eqn.invars[0]) is Literal:
        return None
    view = views.get(eqn.invars[0])
    if view is None or eqn.outvars[0].aval.dtype not in (view.root.aval.dtype, _WIDE):
        return None
    if eqn.params.get("dimensions") is not None:
        return None
    groups = labels.after(eqn, view.groups)
    return None if groups is None else view._replace(groups=groups)
