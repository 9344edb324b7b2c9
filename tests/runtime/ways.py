"""Ways to run compiled functions, and how results are compared with those of the references."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.backends.cpu.calls import native
from weft.backends.llvm.calls import dispatch, entries
from weft.base import knobs
from weft.core import interpret
from weft.runtime.array import box
from weft.runtime.clients import to_numpy

WAYS = ("native", "walk")


def take(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs walked natively, or by Python as long as the test runs."""
    if not dispatch.supported():
        pytest.skip("no native programs here")
    assert dispatch.native() is not None
    if way == "walk":
        monkeypatch.setattr(native, "native", lambda wait=True, first=False: None)


def hits(function) -> int:
    return entries.hits(function)


def interpreted(fun, *args, **kwargs):
    """What the references of primitives make of a call, one equation at a time: no kernel, no
    plan."""
    leaves, tree = weft.tree.flatten((args, kwargs))

    def call(*xs):
        given, named = weft.tree.unflatten(tree, xs)
        return fun(*given, **named)

    with knobs.scope(backend="reference"), np.errstate(all="ignore"):
        closed, shape = weft.make_jaxpr(call, return_shape=True)(*leaves)
        given = [to_numpy(x, a) for x, a in zip(leaves, closed.in_avals, strict=True)]
        pairs = zip(closed.consts, closed.jaxpr.constvars, strict=True)
        consts = [interpret.constant_value(c, v.aval) for c, v in pairs]
        made = interpret.run(closed.jaxpr, consts, given)
    boxed = [box(np.array(v), a) for v, a in zip(made, closed.out_avals, strict=True)]
    return weft.tree.unflatten(weft.tree.structure(shape), boxed)


def same(got, want) -> None:
    """The same trees of the same types, dtypes, weak types and bits; NaN is NaN."""
    assert weft.tree.structure(got) == weft.tree.structure(want)
    same_containers(got, want)
    for x, y in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
        assert type(x) is type(y)
        assert weft.typeof(x) is weft.typeof(y)
        if weft.dtypes.issubdtype(x.dtype, weft.dtypes.prng_key):
            x, y = weft.random.key_data(x), weft.random.key_data(y)
        x, y = np.asarray(x), np.asarray(y)
        if weft.dtypes.issubdtype(x.dtype, np.inexact):
            assert np.array_equal(x != x, y != y)
            x, y = (np.where(v == v, v, np.zeros((), v.dtype)) for v in (x, y))
        assert x.tobytes() == y.tobytes(), f"{x} instead of {y}"


def same_containers(got, want) -> None:
    """The same classes, and the same order of keys."""
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = list(got.values()), list(want.values())
    if isinstance(want, (list, tuple)):
        for x, y in zip(got, want, strict=True):
            same_containers(x, y)
