"""Donated arguments: their memory becomes that of results, and nobody else ever sees it change."""

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.base import knobs
from weft.runtime import memory
from weft.runtime.array import box
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


# --- calls that native code answers ---------------------------------------------------------------


native = pytest.mark.parametrize("way", ["native"], indirect=True)


def learnt(fun, *examples, **options):
    """A compiled function that native code answers for, and a count of its answers since."""
    function = weft.jit(fun, **options)
    for make in (examples,) * 3:
        function(*[x() for x in make])
    before = ways.hits(function)
    assert before > 0
    return function, lambda: ways.hits(function) - before


def by_blocks():
    return fresh()


def by_numpy():
    return jnp.asarray(np.arange(1, SIZE + 1, dtype=np.float32))


def by_python():
    values = memory.empty((SIZE,), np.dtype(np.float32))
    values[...] = np.arange(1, SIZE + 1)
    return box(values, fresh().aval)


@pytest.mark.parametrize("make", [by_blocks, by_numpy, by_python])
@native
def test_native_code_takes_memory(make):
    function, answers = learnt(lambda x: x + 1, by_blocks, donate_argnums=0)
    x = make()
    assert alone(x)
    before, went = place(x), weakref.ref(x)
    for k in range(4):
        given = x
        x = function(given)
        assert place(x) == before and given.is_deleted()
        assert np.array_equal(x, expected() + k + 1)
        with pytest.raises(RuntimeError, match=r"array has been deleted: float32\[5000\]"):
            np.asarray(given)
        with pytest.raises(ValueError, match=r"the argument x of <lambda>.* has been deleted"):
            function(given)
    assert answers() == 4
    del given
    assert went() is None


@native
def test_native_code_takes_trees():
    def step(state, rate, *, scale):
        moved = {k: v - rate * scale for k, v in state["weights"].items()}
        return {"weights": moved, "count": state["count"] + 1}, rate

    def state():
        return {"weights": {f"w{i}": fresh(size=3 + i) for i in range(40)}, "count": jnp.array(0)}

    function = weft.jit(step, donate_argnames="state", static_argnames="scale")
    for _ in range(3):
        function(state(), 0.5, scale=2)
    before = ways.hits(function)
    assert before > 0
    now = state()
    for k in range(3):
        given, places = now, weft.tree.map(place, now)
        now, rate = function(given, 0.5, scale=2)
        assert weft.tree.map(place, now) == places
        assert all(x.is_deleted() for x in weft.tree.leaves(given)) and rate == 0.5
        assert now["count"] == k + 1
        assert np.array_equal(now["weights"]["w5"], expected(8) - k - 1)
    assert ways.hits(function) == before + 3


@pytest.mark.parametrize("name", exports(None))
@pytest.mark.parametrize("make", [by_blocks, by_numpy, by_python])
@native
def test_native_code_leaves_what_others_see(name, make):
    function, answers = learnt(lambda x: x + 1, by_blocks, donate_argnums=0)
    x = make()
    seen = exports(x)[name]()
    want = np.array(seen() if callable(seen) else seen)
    got = function(x)
    assert answers() == 0 and x.is_deleted() and np.array_equal(got, expected() + 1)
    assert np.array_equal(np.asarray(seen() if callable(seen) else seen), want)
    assert np.array_equal(function(got), expected() + 2) and answers() == 1


@native
def test_native_code_leaves_memory_of_others():
    function, answers = learnt(lambda x: x + 1, by_blocks, donate_argnums=0)
    theirs = np.arange(SIZE, dtype=np.float32)
    fixed = theirs.copy()
    fixed.flags.writeable = False
    for x in (jnp.from_dlpack(theirs), theirs, fixed, box(fixed, fresh().aval)):
        for _ in range(3):
            given = x if type(x) is np.ndarray else box(x._value, x.aval)
            assert np.array_equal(function(given), np.arange(SIZE) + 1)
            assert np.array_equal(theirs, np.arange(SIZE)) and np.array_equal(fixed, theirs)
    assert answers() == 0


@native
@pytest.mark.filterwarnings("ignore:.*donated.*")
def test_an_array_passed_twice_to_native_code():
    both, answers = learnt(lambda x, y: (x + 1, y + 2), fresh, fresh, donate_argnums=(0, 1))
    first, others = learnt(lambda x, y: x + y, fresh, fresh, donate_argnums=0)
    unused, rest = learnt(lambda x, y: jnp.sum(x + y), fresh, fresh, donate_argnums=1)
    x = fresh()
    unused(x, x)  # no result has use for the memory of y, so that it is not given up
    assert not x.is_deleted() and rest() == 1
    for function in (both, first):
        x = fresh()
        with pytest.raises(weft.errors.JaxRuntimeError, match=r"as x and as y, of which . is dona"):
            function(x, x)
        assert not x.is_deleted() and np.array_equal(x, expected())
        twin = weft.jit(lambda v: v)(x)
        function(x, twin)
        assert x.is_deleted() and twin.is_deleted() == (function is not first)
    assert answers() == others() == 0


@native
def test_memory_of_which_no_result_is_made():
    function, answers = learnt(
        lambda x, y: (jnp.sum(y), x + 1, x * 2), fresh, fresh, donate_argnums=(0, 1)
    )
    x, y = fresh(), fresh()
    total, one, two = function(x, y)
    assert x.is_deleted() and y.is_deleted() and answers() == 1
    assert np.array_equal(one, expected() + 1) and np.array_equal(two, expected() * 2)
    assert total == expected().sum()


@native
@pytest.mark.filterwarnings("ignore:.*donated.*")
def test_a_callback_fails_after_arrays_were_given_up():
    fails, deleted = [], []

    def look(v):
        deleted.append((x.is_deleted(), y.is_deleted()))
        if fails:
            raise ValueError("no")
        return v

    def fun(x, y):
        return weft.pure_callback(look, weft.ShapeDtypeStruct((), "float32"), y[0]) + x

    x = y = fresh()
    function, answers = learnt(fun, fresh, lambda: fresh(size=10), donate_argnums=(0, 1))
    x, y = fresh(), fresh(size=10)
    before = place(x)
    assert place(function(x, y)) == before and x.is_deleted() and not y.is_deleted()
    assert deleted[-1] == (True, False)
    x, y = fresh(), fresh(size=10)
    fails.append(True)
    with pytest.raises(Exception, match="no"):
        function(x, y)
    assert answers() == 2 and x.is_deleted() and np.array_equal(y, expected(10))


@native
def test_a_view_that_tells_when_it_goes():
    """To drop the view of one array may run code that looks at another one, or deletes it."""
    function, answers = learnt(lambda x, y: (x + 1, y + 1), fresh, fresh, donate_argnums=(0, 1))
    found = []
    x, y = fresh(), fresh()
    teller = weakref.ref(x._value, lambda _: found.append(np.asarray(y)))
    assert np.array_equal(function(x, y)[1], expected() + 1)
    assert teller() is None and np.array_equal(found[0], expected())
    x, y = fresh(), fresh()
    same, _ = learnt(lambda v: v, fresh)
    teller = weakref.ref(x._value, lambda _: (found.append(same(y)), y.delete()))
    with pytest.raises(ValueError, match="the argument y of <lambda>"):
        function(x, y)
    assert answers() == 0 and teller() is None and np.array_equal(x, expected())
    assert np.array_equal(found[1], expected())


@native
def test_counts_of_references():
    function, answers = learnt(lambda x, y: (x + 1, y), fresh, fresh, donate_argnums=(0, 1))
    make = weft.jit(lambda n: lax.iota("float32", SIZE) + n)
    things = (fresh().aval, type(fresh()._owner), None)

    def rounds(count):
        for _ in range(count):
            function(make(1), make(2))
            x = make(3)
            seen = np.asarray(x)
            function(x, make(4))
            del seen
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    before = rounds(10)
    after = rounds(500)
    assert answers() == 510
    assert all(abs(m - n) < 250 for m, n in zip(before, after, strict=True)), (before, after)


SHORT_OF_MEMORY = """
import resource
import weft
from weft import numpy as jnp
from weft.backends.llvm.calls import dispatch, entries
from weft.runtime import memory
walks = dispatch.native()
fun = lambda x, y, n: (x + y[0], jnp.broadcast_to(n, (1 << 26,)))
function = weft.jit(fun, donate_argnums=(0, 1))
ref = weft.new_ref(jnp.ones(5))
def write(ref, n):
    ref[...] = 2 * ref[...]
    return jnp.broadcast_to(n, (1 << 26,))
writing = weft.jit(write)
for _ in range(3):
    function(jnp.zeros(9), jnp.zeros(3), 1.0), writing(ref, 1.0)
before = entries.hits(function) + entries.hits(writing)
walks.cache_clear(), memory.release_all()
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + (100 << 20), -1))
x, y = jnp.zeros(9), jnp.zeros(3)
try:
    function(x, y, 1.0)
except MemoryError as error:
    print(x.is_deleted(), y.is_deleted(), "bytes" in str(error))
try:
    writing(ref, 1.0)
except MemoryError as error:
    print(ref[...].tolist())
print(entries.hits(function) + entries.hits(writing) - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
@native
def test_no_memory_for_other_results():
    made = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], capture_output=True, text=True)
    want = ["True False True", str([8.0] * 5), "2"]
    assert made.stdout.splitlines() == want, made.stderr


LARGE = """
import resource
import weft
from weft import numpy as jnp
function = weft.jit(lambda x: x * 0.5 + 1, donate_argnums=0)
x = jnp.zeros(25_000_000)
for _ in range(3):
    x = function(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(20):
    x = function(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks for memory as Linux counts")
@native
def test_updates_of_a_large_array_take_no_more_memory():
    made = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert int(made.stdout) < 10_000  # kilobytes


# --- references -----------------------------------------------------------------------------------


def held(ref):
    """Where the value of a reference lies."""
    return ref.unsafe_buffer_pointer()


def test_references_are_written_where_they_are():
    @weft.jit
    def put(ref, i):
        ref[i] += 1.0

    ref = weft.new_ref(fresh())
    closing = weft.jit(lambda: ref.__setitem__(..., ref[...] * 2))
    want, before = expected(), held(ref)
    for k in range(5):
        put(ref, k)
        want[k] += 1
        assert held(ref) == before and np.array_equal(ref[...], want)
    for _ in range(4):
        closing()
        want *= 2
        assert held(ref) == before and np.array_equal(ref[...], want)
    ahead = put.lower(ref, 3).compile()
    ahead(ref, 3)
    want[3] += 1
    assert held(ref) == before and np.array_equal(ref[...], want)


def test_values_of_references_that_others_have():
    @weft.jit
    def bump_ref(ref):
        ref[...] += 1

    for make in (by_blocks, by_numpy, by_python):
        x = make()
        ref = weft.new_ref(x)
        seen = []
        for k in range(4):
            bump_ref(ref)
            seen.append((ref[...], np.asarray(ref[...]), weft.jit(lambda v: v)(ref[...]))[k % 3])
            assert np.array_equal(ref[...], expected() + k + 1)
        assert np.array_equal(x, expected())
        for k, value in enumerate(seen):
            assert np.array_equal(value, expected() + k + 1)


def test_results_that_are_values_of_references():
    @weft.jit
    def swap(ref, other):
        old = ref[...]
        ref[...] = other[...] + 1
        other[...] = old
        return old, ref[...]

    one, two = weft.new_ref(fresh()), weft.new_ref(fresh())
    a, b = expected(), expected()
    for _ in range(4):
        a, b, old = b + 1, a, a
        got = swap(one, two)
        assert np.array_equal(got[0], old) and np.array_equal(got[1], a)
        assert np.array_equal(one[...], a) and np.array_equal(two[...], b)


def test_donated_arrays_beside_references():
    @weft.jit(donate_argnums=1)
    def move(ref, x):
        ref[...] += 1
        return x * 2

    ref = weft.new_ref(fresh())
    want = expected()
    for _ in range(4):
        x = fresh()
        before, other = held(ref), place(x)
        y = move(ref, x)
        want += 1
        assert {held(ref), place(y)} == {before, other} and x.is_deleted()
        assert np.array_equal(ref[...], want) and np.array_equal(y, expected() * 2)


def test_references_keep_their_values_when_a_call_fails():
    fails = []

    def look(v):
        if fails:
            raise ValueError("no")
        return v

    @weft.jit
    def fun(ref):
        ref[...] += 1
        ref[...] += weft.pure_callback(look, weft.ShapeDtypeStruct((), "float32"), ref[0])

    ref = weft.new_ref(fresh(size=10))
    for _ in range(4):
        fun(ref)
    want = np.array(ref[...])
    fails.append(True)
    for _ in range(2):
        with pytest.raises(Exception, match="no"):
            fun(ref)
        assert np.array_equal(ref[...], want)


def test_references_in_loops():
    @weft.jit
    def rounds(ref):
        def step(i, _):
            ref[...] = ref[...] * 0.5 + i

        lax.fori_loop(0, 20, step, None)

    ref, want = weft.new_ref(fresh()), expected()
    for _ in range(4):
        rounds(ref)
        for i in range(20):
            want = want * np.float32(0.5) + np.float32(i)
        assert np.array_equal(ref[...], want)


def test_one_reference_twice_where_nobody_checks():
    @weft.jit
    def both(one, two):
        one[...] += 1
        two[...] += 10

    with knobs.scope(mutable_array_checks=False):
        ref = weft.new_ref(fresh(size=10))
        for _ in range(4):
            both(ref, ref)
    assert np.array_equal(ref[...], expected(10) + 40)


@native
def test_native_code_writes_references():
    def fun(refs, x, *, factor):
        refs["a"][...] = refs["a"][...] * factor + refs["c"][0]
        refs["b"][2] += x
        closed[...] += 1
        return refs["a"][1], x * 2

    closed = weft.new_ref(fresh(size=7))
    function = weft.jit(fun, static_argnames="factor")
    refs = {"a": weft.new_ref(fresh()), "b": weft.new_ref(by_numpy()), "c": weft.new_ref(fresh())}
    a, b, before = expected(), expected(), 0
    for k in range(10):
        places = [held(ref) for ref in (*refs.values(), closed)]
        got, twice = function(refs, 2.0, factor=3)
        a, b[2] = a * 3 + 1, b[2] + 2
        assert got == a[1] and twice == 4
        assert np.array_equal(refs["a"][...], a) and np.array_equal(refs["b"][...], b)
        assert np.array_equal(refs["c"][...], expected())
        assert np.array_equal(closed[...], expected(7) + k + 1)
        if k == 5:
            before = ways.hits(function)
        if k > 5:
            assert [held(ref) for ref in (*refs.values(), closed)] == places
    assert ways.hits(function) == before + 4


def learnt_on_references(fun, *makes):
    """As ``learnt``, with references to new values."""
    return learnt(fun, *[lambda make=make: weft.new_ref(make()) for make in makes])


def bump_both(one, two):
    one[...] += 1
    two[...] += 10


@native
def test_references_that_native_code_leaves_to_python():
    function, answers = learnt_on_references(bump_both, fresh, fresh)
    one, two = weft.new_ref(fresh()), weft.new_ref(fresh())
    with pytest.raises(ValueError, match="one mutable reference was passed in two places"):
        function(one, one)
    assert np.array_equal(one[...], expected())
    for k, see in enumerate((lambda r: r.value, lambda r: r[...], lambda r: np.asarray(r[...]))):
        seen = see(one)
        function(one, two)
        assert np.array_equal(seen, expected() + k)
    twin = weft.new_ref(one[...])
    function(one, two)
    assert np.array_equal(twin[...], expected() + 3)
    both = weft.new_ref(twin[...])
    function(both, twin)
    assert np.array_equal(both[...], expected() + 4)
    assert np.array_equal(twin[...], expected() + 13)
    assert answers() == 0
    function(one, two)
    assert answers() == 1 and np.array_equal(one[...], expected() + 5)
    weft.free_ref(one)
    with pytest.raises(ValueError, match="used after free_ref"):
        function(one, two)
    assert np.array_equal(two[...], expected() + 50)


@native
def test_a_reference_that_is_read_twice():
    function, answers = learnt_on_references(lambda one, two: one[...] + two[...], fresh, fresh)
    one, two = weft.new_ref(fresh()), weft.new_ref(fresh())
    assert np.array_equal(function(one, two), 2 * expected()) and answers() == 1
    with pytest.raises(ValueError, match="one mutable reference was passed in two places"):
        function(one, one)


@native
def test_a_view_that_writes_to_a_reference_when_it_goes():
    function, answers = learnt_on_references(bump_both, fresh, fresh)
    one, two, found = weft.new_ref(fresh()), weft.new_ref(fresh()), []

    def told(_):
        found.append(two.value)
        two[...] = fresh()

    teller = weakref.ref(one.value._value, told)
    function(one, two)
    assert answers() == 0 and teller() is None and np.array_equal(found[0], expected())


@native
def test_references_to_other_types():
    function, answers = learnt_on_references(bump_both, fresh, fresh)
    for dtype, size in (("int32", SIZE), ("float32", 8), ("float32", SIZE)):
        one, two = (weft.new_ref(fresh(dtype, size)) for _ in range(2))
        function(one, two)
        assert one.dtype == dtype and np.array_equal(two[...], expected(size) + 10)
    assert answers() == 1


@native
def test_counts_of_references_to_references():
    function, answers = learnt_on_references(bump_both, fresh, fresh)
    one, two = weft.new_ref(fresh()), weft.new_ref(fresh())
    function(one, two)
    things = (one, two, one.aval, one[...].aval, type(one[...]._owner), None)

    def rounds(count):
        for _ in range(count):
            function(one, two)
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    before = rounds(10)
    went = weakref.ref(one.value)
    after = rounds(500)
    assert answers() == 511 and went() is None and one.holds_alone()
    assert all(abs(m - n) < 250 for m, n in zip(before, after, strict=True)), (before, after)
    assert before[:2] == after[:2]
