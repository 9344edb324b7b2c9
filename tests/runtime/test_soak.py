"""Many compiled calls: memory stays flat, and references are given back."""

import gc
import os
import sys

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp

COUNT, FULL_COUNT = 100_000, 1_000_000


@pytest.fixture(autouse=True)
def by_native(monkeypatch):
    ways.take("native", monkeypatch)


def resident() -> int:
    """Bytes of memory that the process has now."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def calls():
    """Functions of several kinds, each with its arguments."""
    x, y = jnp.arange(10.0), np.arange(10, dtype=np.float32)
    large = jnp.ones(5000)
    tree = {"a": [x, (x, None)], "b": {"c": 1.0, "d": y}}
    keys = weft.random.key(0)
    return [
        (weft.jit(lambda a, b: a + b), (x, x), {}),
        (weft.jit(lambda a, b: (a, b, a * b, 3.0)), (x, y), {}),
        (weft.jit(lambda t, k=1: (weft.tree.map(lambda v: v + k, t), t)), (tree,), {"k": 2}),
        (weft.jit(lambda a: jnp.sort(a)[::-1] @ a), (large,), {}),
        (weft.jit(lambda a: lax.fori_loop(0, 3, lambda i, c: c * a, a)), (x,), {}),
        (weft.jit(lambda k, n: weft.random.split(k)[n]), (keys, 1), {}),
        (weft.jit(lambda a, s: a * s, static_argnums=1), (x, 5), {}),
        (lambda a, b: (a + b, a[1], a[2:4], -a, a < 2, a * 2.0), (x, x), {}),
    ]


def soak(count):
    work = calls()
    per_round = len(work) + 5
    for _ in range(2000):
        for function, args, kwargs in work:
            function(*args, **kwargs)
    before = resident()
    blocks = sys.getallocatedblocks()
    for _ in range(count // per_round):
        for function, args, kwargs in work:
            function(*args, **kwargs)
    grown = resident() - before
    assert grown < 1 << 20, f"{grown:,} bytes more after {count} calls"
    # the allocator of small objects may keep a few more for its own reasons
    assert sys.getallocatedblocks() - blocks < 500


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory as Linux tells it")
def test_memory_stays_flat():
    soak(COUNT)


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory as Linux tells it")
def test_memory_stays_flat_for_a_million_calls():
    soak(FULL_COUNT)


def test_failing_calls_keep_nothing():
    def back(x):
        raise ValueError("no")

    shape = weft.ShapeDtypeStruct((5000,), np.float32)
    failing = weft.jit(lambda x: (x * 2, weft.pure_callback(back, shape, x * 3)))
    adding = weft.jit(lambda x: x + 1)
    x = jnp.ones(5000)
    for _ in range(3):
        adding(1)

    def once():
        with pytest.raises(weft.errors.JaxRuntimeError):
            failing(x)
        with pytest.raises(OverflowError):
            adding(2**40)

    for _ in range(200):
        once()
    gc.collect()
    references, before = sys.getrefcount(x._owner), sys.getallocatedblocks()
    for _ in range(3000):
        once()
    gc.collect()
    grown = sys.getrefcount(x._owner) - references
    assert grown == 0
    assert sys.getallocatedblocks() - before < 1500  # one object for each would be 3000


def test_references_are_given_back():
    x, y = jnp.arange(10.0), np.arange(10, dtype=np.float32)
    number, text, key = 12345.678, "static text", "name"
    tree = {key: [x, (x, None, number)], "other": y}
    functions = [
        lambda: add(x, x),
        lambda: every(tree, text, named=x),
        lambda: x + x,
        lambda: x[2],
        lambda: loop(x, 3),
    ]
    add = weft.jit(lambda a, b: (a, a + b, None, 1.0))
    every = weft.jit(lambda t, s, named: (t, {"n": named}), static_argnums=1)
    loop = weft.jit(lambda a, n: lax.fori_loop(0, n, lambda i, c: c + a, a))
    for function in functions:
        for _ in range(4):
            function()
    watched = {
        "aval": x.aval,
        "None": None,
        "False": False,
        "True": True,
        "array type": type(x),
        "block type": type(add(x, x)[1]._owner),
        "tuple": tuple,
        "dict": dict,
        "owner": x._owner,
        "numpy": y,
        "dtype": y.dtype,
        "number": number,
        "text": text,
        "key": key,
        "entries": add._entries,
        "function": add,
    }
    for function in functions:
        gc.collect()
        before = {name: sys.getrefcount(thing) for name, thing in watched.items()}
        for _ in range(10_000):
            function()
        gc.collect()
        after = {name: sys.getrefcount(thing) for name, thing in watched.items()}
        grown = {name: after[name] - before[name] for name in watched}
        assert all(abs(n) < 50 for n in grown.values()), grown
