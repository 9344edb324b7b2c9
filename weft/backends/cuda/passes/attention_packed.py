"""Attention on the parts of one array: neither its parts nor those of its gradient are made.

Where one product makes queries, keys and values, which are then split along the rows, kernels read
them where they are, and write the gradient that the parts would be joined to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.base.record import Record
from weft.compiler.passes.contract import users_of
from weft.compiler.passes.prune import prune
from weft.core.jaxpr import ClosedJaxpr, Literal
from weft.core.registry import lookup

_ORDER = "bthd"


class _Found(Record):
    """Attention whose operands are the results of a split, in their order."""

    forward: Any
    backward: Any  # or None
    split: Any
    joined: Any  # the equation that joins gradients, or None


class _Uses:
    """Who makes and who reads the values of a program."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.made = {v: eqn for eqn in closed.jaxpr.eqns for v in eqn.outvars}
        self.readers = users_of(closed.jaxpr)
        self.results = {x for x in closed.jaxpr.outvars if type(x) is not Literal}

    def source(self, x: Any) -> Any:
        """What a value is a reshape of."""
        while (eqn := self.made.get(x)) is not None and eqn.primitive.name == "reshape":
            x = eqn.invars[0]
        return x

    def ends(self, x: Any) -> Iterator[Any]:
        """The equations that read a value or reshapes of it; None for a result of the program."""
        if x in self.results:
            yield None
        for eqn in self.readers.get(x, ()):
            if eqn.primitive.name == "reshape":
                yield from self.ends(eqn.outvars[0])
            else:
                yield eqn


def pack(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with attention on parts of one array as one operation on that."""
    uses = _Uses(closed)
    new: dict[int, list[Any]] = {}
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive.name == "attention":
            found = _found(eqn, uses)
            if found is not None:
                new |= _written(found)
    if not new:
        return closed
    eqns = [e for eqn in closed.jaxpr.eqns for e in new.get(id(eqn), [eqn])]
    return prune(ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts))


def _found(forward: Any, uses: _Uses) -> _Found | None:
    if any(order != _ORDER for order in forward.params["orders"]):
        return None
    parts = [uses.source(x) for x in forward.invars]
    split = uses.made.get(parts[0])
    if split is None or split.primitive.name != "split" or list(split.outvars) != parts:
        return None
    if split.invars[0].aval.ndim != 3 or split.params["axis"] != 2:
        return None
    batch, rows, _ = split.invars[0].aval.shape
    if any(x.aval.shape[:2] != (batch, rows) for x in forward.invars):
        return None
    readers = [eqn for part in parts for eqn in uses.ends(part) if eqn is not forward]
    if not readers:
        return _Found(forward, None, split, None)
    backward = readers[0]
    if any(eqn is not backward for eqn in readers) or backward is None:
        return None
    if backward.primitive.name != "attention_backward" or backward.params["orders"][3] != _ORDER:
        return None
    if backward.invars[:3] != forward.invars or backward.invars[3] is not forward.outvars[0]:
        return None
    joined = {id(eqn): eqn for v in backward.outvars for eqn in uses.ends(v)}
    (only, *others) = joined.values() or [None]
    if others or only is None or only.primitive.name != "concatenate":
        return None
    if only.params["dimension"] != 2 or only.outvars[0].aval.shape != split.invars[0].aval.shape:
        return None
    if [uses.source(x) for x in only.invars] != list(backward.outvars):
        return None
    return _Found(forward, backward, split, only)


def _written(found: _Found) -> dict[int, list[Any]]:
    """The equations that stand for others, by id."""
    forward, backward, x = found.forward, found.backward, found.split.invars[0]
    many, few = (forward.invars[i].aval.shape for i in (0, 1))
    params = {
        "heads": (many[2], few[2]),
        "depth": many[3],
        "scale": forward.params["scale"],
        "causal": forward.params["causal"],
    }
    packed = forward.replace(invars=[x], primitive=lookup("packed_attention"), params=params)
    new = {id(forward): [packed]}
    if backward is not None:
        made = backward.replace(
            invars=[x, *backward.invars[3:]],
            outvars=found.joined.outvars,
            primitive=lookup("packed_attention_backward"),
            params=params,
        )
        new |= {id(backward): [made], id(found.joined): []}
    return new
