"""Random keys that are used twice, looked for while ``debug_key_reuse`` is on.

A key is used by drawing bits from it and by splitting it. Every array of keys has a mask of the
keys that were used; views of a mask follow the operations that only move keys. Programs are walked
with the masks of their arguments before they run. Operations that say nothing here, such as an
index known only at run time, are taken to give new keys: what is reported is a reuse, but not every
reuse is reported.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import source
from weft.base.errors import KeyReuseError, located
from weft.base.record import Record
from weft.base.source import SourceInfo
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from weft.core.trace import state

_USING = ("random_bits", "random_split", "random_gamma", "random_poisson", "random_binomial")
_SAME = ("copy", "copy_p", "stop_gradient", "device_put", "optimization_barrier", "name")


class At(Record):
    """A line of the user's, and whether it is in the program that is walked."""

    line: SourceInfo
    own: bool


def is_keys(aval: Any) -> bool:
    """Whether a type is that of random keys."""
    return isinstance(getattr(aval, "dtype", None), dtypes.ExtendedDType) and dtypes.issubdtype(
        aval.dtype, dtypes.prng_key
    )


class _Masks:
    """The masks of arrays in memory, as long as these live."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], np.ndarray]] = {}

    def of(self, x: Any) -> np.ndarray:
        """The mask of an array; all new if it was not seen before."""
        found = self._held.get(id(x))
        if found is None or found[0]() is not x:
            mask = np.zeros(x.shape, bool)
            self.keep(x, mask)
            return mask
        return found[1]

    def keep(self, x: Any, mask: np.ndarray) -> None:
        ident = id(x)
        drop = lambda ref: self._held.get(ident, (None,))[0] is ref and self._held.pop(ident)
        self._held[ident] = (weakref.ref(x, drop), mask)


_masks = _Masks()


def before(primitive: Any, avals: Sequence[Any], args: Sequence[Any], params: Any) -> list[Any]:
    """Check an operation on arrays, and give the masks of its results; None where there is none."""
    given = [
        _masks.of(x) if is_keys(a) and hasattr(x, "aval") else _fresh(a)
        for x, a in zip(args, avals, strict=True)
    ]
    return _apply(primitive, given, params, At(state.source or source.current(), True))


def after(results: Sequence[Any], masks: Sequence[Any]) -> None:
    """Note the masks of arrays that an operation gave."""
    for x, mask in zip(results, masks, strict=False):
        if mask is not None and is_keys(getattr(x, "aval", None)):
            _masks.keep(x, mask)


def _fresh(aval: Any) -> np.ndarray | None:
    return np.zeros(aval.shape, bool) if is_keys(aval) else None


def _use(primitive: Any, mask: np.ndarray, at: At) -> None:
    """Use keys at a line of the user's."""
    if mask.any():
        which = f"{int(mask.sum())} of {mask.size} keys" if mask.ndim else "a key"
        raise KeyReuseError(
            located(
                f"{primitive} was given {which} used before: drawing twice from a key gives the"
                " same numbers",
                "Make new keys with random.split or random.fold_in, or use random.clone if you "
                "want the same numbers.",
                at.line,
            )
        )
    if mask.flags.writeable:
        mask[...] = True


def _apply(primitive: Any, masks: list[Any], params: Any, at: At) -> list[Any]:
    """The masks of the results of an operation at a line; [] says that all of them are new."""
    name = primitive.name
    first = masks[0] if masks else None
    if name in _USING and first is not None:
        _use(primitive, first, at)
        return []
    if name == "cond":
        return _branches(params["branches"], masks[1:], at)
    if name == "scan":
        counts = params["num_consts"], params["num_carry"]
        return _loop(params["jaxpr"], masks, *counts, at)
    if name == "while":
        skipped = params["cond_nconsts"]
        return _loop(params["body_jaxpr"], masks[skipped:], params["body_nconsts"], None, at)
    called = primitive.callee(params)
    if called is None and isinstance(params.get("jaxpr"), (Jaxpr, ClosedJaxpr)):
        called = params["jaxpr"]
    if called is not None:
        return _walk(called, masks, at)
    return [] if first is None else _moved(primitive, first, params)


def _moved(primitive: Any, mask: np.ndarray, params: Any) -> list[Any]:
    """The mask of keys that were moved, a view of the one they came from where there is one."""
    name = primitive.name
    if name in _SAME:
        return [mask]
    if name == "squeeze":
        return [np.squeeze(mask, tuple(params["dimensions"]))]
    if name == "reshape" and params["dimensions"] is None:
        return [mask.reshape(params["new_sizes"])]
    if name == "transpose":
        return [mask.transpose(params["permutation"])]
    if name == "slice":
        strides = params["strides"] or (1,) * mask.ndim
        bounds = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        return [mask[tuple(slice(*each) for each in bounds)]]
    return []


def _walk(program: Jaxpr | ClosedJaxpr, masks: Sequence[Any], at: At) -> list[Any]:
    """The masks of the results of a program that is called at a line."""
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    env: dict[Any, Any] = dict(zip(jaxpr.invars, masks, strict=True))
    if isinstance(program, ClosedJaxpr):
        # keys that the function closes over are used by every call
        for v, x in zip(jaxpr.constvars, program.consts, strict=True):
            if is_keys(v.aval) and hasattr(x, "aval"):
                env[v] = _masks.of(x)
    own = _is_users(jaxpr, at.own)
    for eqn in jaxpr.eqns:
        given = [None if type(x) is Literal else env.get(x) for x in eqn.invars]
        known = own and eqn.source_info is not None and eqn.source_info.code is not None
        outs = _apply(eqn.primitive, given, eqn.params, At(eqn.source_info, own) if known else at)
        for i, v in enumerate(eqn.outvars):
            found = outs[i] if i < len(outs) else None
            env[v] = _fresh(v.aval) if found is None else found
    return [None if type(x) is Literal else env.get(x) for x in jaxpr.outvars]


def _is_users(jaxpr: Jaxpr, around: bool) -> bool:
    """Whether a program is of the user's function, or within one. One of ours serves many lines,
    and knows the first of them only."""
    info = jaxpr.debug_info
    if info is None or info.function is None:
        return around
    code = getattr(inspect.unwrap(info.function), "__code__", None)
    return around if code is None else not source.is_internal(code.co_filename)


def _branches(branches: Sequence[ClosedJaxpr], masks: list[Any], at: At) -> list[Any]:
    """All branches on copies; what one of them uses is used."""
    copies = [[None if m is None else m.copy() for m in masks] for _ in branches]
    results = [_walk(b, own, at) for b, own in zip(branches, copies, strict=True)]
    for own in copies:
        for mask, copy in zip(masks, own, strict=True):
            if mask is not None and mask.flags.writeable:
                mask |= copy
    return [
        None if any(m is None for m in each) else np.logical_or.reduce(each)
        for each in zip(*results, strict=True)
    ]


def _loop(
    closed: ClosedJaxpr, masks: list[Any], n_consts: int, n_carry: int | None, at: At
) -> list[Any]:
    """The body twice: what is used in every round is used again in the second."""
    n_carry = len(masks) - n_consts if n_carry is None else n_carry
    consts, carry = masks[:n_consts], masks[n_consts : n_consts + n_carry]
    avals = closed.in_avals[n_consts + n_carry :]
    outs: list[Any] = []
    rows: list[Any] = []
    for _ in range(2):
        rows = [_fresh(a) for a in avals]
        outs = _walk(closed, [*consts, *carry, *rows], at)
        carry = outs[:n_carry]
    for mask, row in zip(masks[n_consts + n_carry :], rows, strict=True):
        if mask is not None and row.any():
            _use("scan", mask, at)
    return [*carry, *[None] * (len(outs) - n_carry)]
