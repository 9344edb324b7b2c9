"""Donated arguments: their memory becomes that of results, and nobody else ever sees it change."""

import threading
import weakref

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.runtime.donation import alone

SIZE = 5000


@pytest.fixture(params=ways.WAYS, autouse=True)
def way(request, monkeypatch):
    ways.take(request.param, monkeypatch)
    return request.param


def fresh(dtype="float32", size=SIZE):
    """An array that a compiled function has made."""
    return weft.jit(lambda: lax.iota(dtype, size) + jnp.ones((), dtype))()


def expected(size=SIZE):
    return np.arange(size, dtype=np.float32) + 1


def place(x):
    return x.unsafe_buffer_pointer()


bump = weft.jit(lambda x: x + 1, donate_argnums=0)


def test_results_have_the_memory_of_donated_arguments():
    for _ in range(4):
        x = fresh()
        before = place(x)
        y = bump(x)
        assert place(y) == before and x.is_deleted()
        assert np.array_equal(y, expected() + 1)
        z = bump(bump(y))
        assert place(z) == before and y.is_deleted()
        assert np.array_equal(z, expected() + 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32", "bool", "complex64"])
def test_dtypes(dtype):
    turn = weft.jit(lambda x: jnp.where(x == 1, x, x), donate_argnums=0)
    for _ in range(3):
        x = jnp.asarray(np.arange(300) % 7).astype(dtype)
        want, before = np.array(x), place(x)
        y = turn(x)
        assert place(y) == before and x.is_deleted()
        assert np.array_equal(np.asarray(y), want) and y.dtype == want.dtype


def test_other_types_of_the_same_size():
    other = weft.jit(lambda x: (x * 2).astype("int32").reshape(50, 100), donate_argnums=0)
    for _ in range(3):
        x = fresh()
        before = place(x)
        y = other(x)
        assert place(y) == before and y.shape == (50, 100) and y.dtype == "int32"
        assert np.array_equal(y.reshape(-1), expected() * 2)


def test_updates_in_place():
    put = weft.jit(lambda x, i: x.at[i].set(-1.0), donate_argnums=0)
    add = weft.jit(lambda x, i: x.at[i].add(jnp.ones(3)), donate_argnums=0)
    rounds = weft.jit(lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2, x), donate_argnums=0)
    for _ in range(3):
        x = fresh()
        before = place(x)
        y = put(x, 7)
        assert place(y) == before and y[7] == -1 and np.array_equal(y[8:], expected()[8:])
        y = add(y, jnp.array([1, 3, 1]))
        assert np.array_equal(y[:5], [1, 4, 3, 5, 5])
        before = place(y)
        y = rounds(y)
        assert place(y) == before and np.array_equal(y[8:], expected()[8:] * 32)


def test_a_step_of_training():
    def step(w, x, y):
        return w - 0.01 * weft.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)

    donating, plain = weft.jit(step, donate_argnums=0), weft.jit(step)
    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.standard_normal(s, np.float32)) for s in ((70, 120), (70, 110)))
    w = jnp.zeros((120, 110)) + 0
    other = jnp.array(w)
    before = place(w)
    for _ in range(5):
        w, other = donating(w, x, y), plain(other, x, y)
    assert place(w) == before
    assert np.array_equal(w, other)


# --- memory that others can see -------------------------------------------------------------------


def exports(x):
    """Ways to see the memory of an array."""
    return {
        "view": lambda: np.asarray(x),
        "part of a view": lambda: np.asarray(x)[10:20],
        "buffer": lambda: memoryview(x),
        "dlpack": lambda: np.from_dlpack(x),
        "another array": lambda: weft.jit(lambda v: v)(x),
        "constant": lambda: weft.jit(lambda: x * 2),
    }


@pytest.mark.parametrize("name", exports(None))
@pytest.mark.parametrize("size", [3, SIZE])
def test_memory_that_others_see_is_not_written(name, size):
    for _ in range(4):
        x = fresh(size=size)
        seen = exports(x)[name]()
        want = np.array(seen() if callable(seen) else seen)
        got = bump(x)
        assert np.array_equal(got, expected(size) + 1)
        del x
        assert np.array_equal(np.asarray(seen() if callable(seen) else seen), want)


def test_a_view_that_is_gone_is_no_hindrance():
    for _ in range(3):
        x = fresh()
        before = place(x)
        np.asarray(x).sum()
        float(x[0])
        assert alone(x)
        assert place(bump(x)) == before


def test_memory_of_others():
    """Memory that was taken from elsewhere is not ours to write to."""
    theirs = np.arange(SIZE, dtype=np.float32)
    for x in (jnp.from_dlpack(theirs), theirs, jnp.asarray(theirs)):
        assert np.array_equal(bump(x), np.arange(SIZE) + 1)
        assert np.array_equal(theirs, np.arange(SIZE))


def test_one_array_as_several_arguments():
    add = weft.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))
    x = fresh()
    with pytest.raises(weft.errors.JaxRuntimeError, match="donated"):
        add(x, x)
    assert not x.is_deleted() and np.array_equal(x, expected())
    twin = weft.jit(lambda v: v)(x)
    one, two = add(x, twin)
    assert np.array_equal(one, expected() + 1) and np.array_equal(two, expected() + 2)


def test_uses_after_donation_raise():
    x = fresh()
    name, reference = x, weakref.ref(x)
    bump(x)
    for use in (lambda: name + 1, lambda: np.asarray(name), lambda: bump(name)):
        with pytest.raises((RuntimeError, ValueError), match=r"deleted|donated"):
            use()
    assert reference() is name


def test_a_call_that_fails():
    def fail(v):
        raise ValueError("no")

    def fun(x):
        y = x + 1
        return weft.pure_callback(fail, weft.ShapeDtypeStruct(y.shape, y.dtype), y)

    function = weft.jit(fun, donate_argnums=0)
    for _ in range(2):
        x = fresh()
        with pytest.raises(Exception, match="no"):
            function(x)
        assert x.is_deleted() or np.array_equal(x, expected())


def test_calls_from_several_threads():
    """One thread reads an array while another donates it: either sees it whole, or is refused."""
    total = weft.jit(lambda x: jnp.sum(jnp.sin(x) ** 2 + jnp.cos(x) ** 2))
    found = []

    def read(x):
        try:
            found.append(float(total(x)))
        except (RuntimeError, ValueError):
            found.append(float(SIZE * 20))

    for _ in range(10):
        x = jnp.zeros(SIZE * 20) + 0
        thread = threading.Thread(target=read, args=(x,))
        thread.start()
        bump(x)
        thread.join()
    assert np.allclose(found, SIZE * 20)


def test_compiled_ahead():
    compiled = weft.jit(lambda x: x * 2, donate_argnums=0).lower(fresh()).compile()
    assert compiled.memory_analysis().alias_size_in_bytes == 4 * SIZE
    x = fresh()
    before = place(x)
    y = compiled(x)
    assert place(y) == before and x.is_deleted() and np.array_equal(y, expected() * 2)


def test_transformed_functions_keep_their_arguments():
    square = weft.jit(lambda x: jnp.sum(x * x), donate_argnums=0)
    x = fresh(size=100)
    assert np.array_equal(weft.grad(square)(x), 2 * expected(100))
    assert np.array_equal(weft.vmap(bump)(x.reshape(10, 10)).reshape(-1), expected(100) + 1)
    assert np.array_equal(x, expected(100))
