"""Mutable references: read, written, passed to and closed over by compiled functions and loops."""

import copy
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import export, lax
from weft.experimental import checkify


def arange(*shape):
    return weft.new_ref(jnp.arange(float(np.prod(shape))).reshape(shape))


def held(ref):
    return np.asarray(ref[...]).tolist()


# --- outside of compiled functions ----------------------------------------------------------------


def test_a_reference_is_read_and_written():
    ref = arange(4)
    ref[0] = 5.0
    ref[1:3] = jnp.zeros(2)
    ref[...] += 1.0
    ref.at[2:][1] = 9.0
    ref.addupdate(jnp.float32(3.0), 0)
    assert held(ref) == [9.0, 1.0, 1.0, 9.0]
    assert weft.ref.swap(ref, 0, 2.0) == 9.0
    assert ref[0] == 2.0
    assert repr(ref) == "Ref([2., 1., 1., 9.], dtype=float32)"
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((4,), np.float32, 1, 4, 4)


def test_a_reference_does_not_share_with_the_array_it_was_made_of():
    x = jnp.zeros(2)
    y = np.zeros(2, np.float32)
    for start in (x, y):
        ref = weft.new_ref(start)
        before = ref[...]
        ref[0] = 1.0
        assert held(ref) == [1.0, 0.0]
        assert np.asarray(start).tolist() == np.asarray(before).tolist() == [0.0, 0.0]
    y[0] = 7.0
    assert held(ref) == [1.0, 0.0]


def test_what_a_reference_is():
    ref = arange(2)
    seen = []
    weft.make_jaxpr(lambda r: seen.append((isinstance(r, weft.Ref), r.shape, r.dtype)))(ref)
    assert isinstance(ref, weft.Ref) and not isinstance(ref, weft.Array)
    assert not isinstance(jnp.ones(2), weft.Ref)
    assert seen == [(True, (2,), np.float32)]
    assert str(weft.typeof(ref)) == "Ref{float32[2]}"
    assert weft.tree.leaves({"a": ref}) == [ref]
    assert ref == ref and ref != arange(2)
    assert [float(x) for x in ref] == [0.0, 1.0]
    again = pickle.loads(pickle.dumps(ref))
    copied = copy.deepcopy(ref)
    ref[0] = 9.0
    assert held(again) == held(copied) == [0.0, 1.0]


def test_weak_types_and_keys_are_kept():
    assert weft.new_ref(1.0)[...].weak_type
    ref = weft.new_ref(jnp.ones(2, jnp.bfloat16))
    ref[0] = 3.0
    assert ref[...].dtype == jnp.bfloat16
    keys = weft.new_ref(weft.random.key(0))
    keys[...] = weft.random.key(1)
    assert (weft.random.key_data(keys[...]) == weft.random.key_data(weft.random.key(1))).all()


def test_freeze_free_and_empty():
    ref = arange(2)
    assert weft.freeze(ref).tolist() == [0.0, 1.0]
    weft.ref.free_ref(ref)
    with pytest.raises(ValueError, match="after free_ref"):
        ref[0]
    empty = weft.empty_ref(weft.ShapeDtypeStruct((2,), "int32"))
    empty[...] = jnp.array([1, 2])
    assert held(empty) == [1, 2]

    def after_free(x):
        ref = weft.new_ref(x)
        weft.ref.free_ref(ref)
        return ref[...]

    with pytest.raises(ValueError, match="after free_ref"):
        weft.jit(after_free)(1.0)


# --- indices --------------------------------------------------------------------------------------

SHAPE = (3, 4, 5)
PAIR, ROWS = np.array([2, 0]), np.array([[0, 2], [1, 1]])
INDICES = [
    0,
    -1,
    (1, 2, 3),
    (slice(None), 2),
    (..., 1),
    (slice(1, 3), slice(None, None, 2), -1),
    PAIR,
    (slice(None), PAIR),
    (slice(1, None), ROWS, 3),
    (PAIR, slice(1, 3), PAIR),
    (1, slice(None), PAIR),
    (PAIR, PAIR[:, None]),
    (np.array([True, False, True]), 1),
    (slice(2, 2),),
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_are_numpys(index):
    x = np.arange(60, dtype=np.float32).reshape(SHAPE)
    ref = weft.new_ref(jnp.asarray(x))
    part = x[index]
    np.testing.assert_array_equal(ref[index], part)
    np.testing.assert_array_equal(weft.jit(lambda r: r[index])(ref), part)
    new = -np.arange(part.size, dtype=np.float32).reshape(part.shape)
    x[index] = new
    ref[index] = new
    np.testing.assert_array_equal(ref[...], x)
    np.add.at(x, index, new)
    weft.jit(lambda r, v: r.addupdate(v, index))(ref, new)
    np.testing.assert_array_equal(ref[...], x)


def test_computed_indices():
    ref = arange(5)
    read = weft.jit(lambda r, i: (r[i], r[weft.ds(i, 2)], r[weft.ds(i, 2, 2)]))
    for i in (0, 2, -2):
        one, two, strided = read(ref, i)
        k = i % 5
        assert (float(one), two.tolist()) == (k, [k, k + 1])
        assert strided.tolist() == [k, min(k + 2, 4)]
    assert float(read(ref, 10)[0]) == 4.0 and float(read(ref, -10)[0]) == 0.0
    weft.jit(lambda r, i: r.__setitem__(weft.ds(i, 2), jnp.array([8.0, 9.0])))(ref, 10)
    assert held(ref) == [0.0, 1.0, 2.0, 8.0, 9.0]
    ref[jnp.array([10, -1])] = jnp.array([5.0, 6.0])  # what is out of bounds is left out
    assert held(ref) == [0.0, 1.0, 2.0, 8.0, 6.0]


def test_ds_indexes_arrays():
    x = jnp.arange(10)
    assert x[weft.ds(3, 2)].tolist() == [3, 4]
    assert weft.jit(lambda i: x[weft.ds(i, 2)])(9).tolist() == [8, 9]
    assert weft.jit(lambda i: x[weft.ds(i, 3, 2)])(3).tolist() == [3, 5, 7]
    assert x.at[weft.ds(jnp.int32(1), 2)].set(0).tolist() == [0, 0, 0, 3, 4, 5, 6, 7, 8, 9]
    y = x.reshape(2, 5)
    picked = weft.jit(lambda y, i: y[jnp.array([1, 0]), weft.ds(i, 2)])(y, -2)
    assert picked.tolist() == [[8, 9], [3, 4]]
    assert weft.ds(None) == slice(None) and weft.ds(4).size == 4
    assert y[0, weft.ds(1, 2)].tolist() == [1, 2]
    with pytest.raises(TypeError, match="known while tracing"):
        weft.jit(lambda n: x[weft.ds(0, n)])(3)


@pytest.mark.parametrize(
    "error, match, use",
    [
        (ValueError, "out of bounds", lambda r: r[10]),
        (ValueError, "out of bounds", lambda r: r[weft.ds(3, 2)]),
        (ValueError, "step of 1 or more", lambda r: r[::-1]),
        (ValueError, "longer than the shape", lambda r: r[0, 0]),
        (TypeError, "cannot contain None", lambda r: r[None, 0]),
        (TypeError, "consists of integers", lambda r: r[0.5]),
        (TypeError, "consists of integers", lambda r: r[[0, 1]]),
        (IndexError, "one ellipsis", lambda r: r[..., ...]),
        (ValueError, "Convert it", lambda r: r.__setitem__(0, 1)),
        (ValueError, "Convert it", lambda r: r.__setitem__(0, 1j)),
        (ValueError, "not broadcast", lambda r: r.__setitem__(..., 1.0)),
        (ValueError, "not broadcast", lambda r: r.addupdate(jnp.ones(2))),
        (TypeError, "unsupported operand", lambda r: r + 1),
        (TypeError, r"read it with ref\[...\]", lambda r: jnp.asarray(r)),
        (TypeError, "Read it first", lambda r: lax.sin(r)),
        (TypeError, "Read it first", lambda r: weft.jit(lambda r: jnp.sin(r))(r)),
        (TypeError, "Read it first", lambda r: weft.jit(lambda r: r + 1.0)(r)),
        (TypeError, "takes an array", lambda r: weft.new_ref(r)),
        (TypeError, "takes an array or a number", lambda r: weft.new_ref([1])),
        (ValueError, "takes a mutable reference", lambda r: weft.ref.get(jnp.ones(2))),
    ],
)
def test_errors_say_what_to_write(error, match, use):
    with pytest.raises(error, match=match):
        use(arange(4))


# --- compiled functions ---------------------------------------------------------------------------


def test_passed_to_a_compiled_function():
    traced = []

    @weft.jit
    def step(ref, x):
        traced.append(None)
        ref[...] = ref[...] * 2 + x
        return ref[0]

    a, b = arange(3), arange(3)
    assert float(step(a, 1.0)) == 1.0
    assert float(step(b, 5.0)) == 5.0
    assert float(step(a, 1.0)) == 3.0
    assert held(a) == [3.0, 7.0, 11.0] and held(b) == [5.0, 7.0, 9.0]
    assert len(traced) == 1


def test_closed_over_by_compiled_functions():
    total = weft.new_ref(jnp.zeros(()))
    traced = []

    @weft.jit
    def inner(x):
        total[...] += x
        return total[...]

    @weft.jit
    def outer(x):
        traced.append(None)
        return inner(x) + inner(x)

    assert float(outer(1.0)) == 3.0
    assert float(outer(1.0)) == 7.0
    total[...] = jnp.float32(10.0)
    assert float(inner(1.0)) == 11.0
    assert len(traced) == 1


def test_made_inside():
    @weft.jit
    def sums(x):
        ref = weft.new_ref(jnp.zeros_like(x))
        for i in range(3):
            ref[i] = x[: i + 1].sum()
        return weft.freeze(ref)

    assert sums(jnp.ones(3)).tolist() == [1.0, 2.0, 3.0]


def test_stages_and_structs():
    ref = arange(3)
    lowered = weft.jit(lambda r: r.addupdate(jnp.ones(3))).lower(ref)
    compiled = lowered.compile()
    compiled(ref)
    assert held(ref) == [1.0, 2.0, 3.0]
    assert "kernel" in compiled.as_text() and "python" not in compiled.as_text()
    struct = weft.ShapeDtypeStruct((3,), jnp.float32, is_ref=True)
    assert "is_ref=True" in repr(struct)
    program = weft.make_jaxpr(lambda r: r[...])(struct)
    assert str(program) == "{ lambda ; a:Ref{f32[3]}. let b:f32[3] <- a[...] in (b,) }"


def test_programs_with_references_are_printed():
    def f(ref, i):
        ref[0] = ref[i] + 1.0
        ref.addupdate(1.0, -1)
        return weft.ref.swap(ref, slice(1, 3), jnp.zeros(2)), ref.at[1:][weft.ds(i, 1)]

    text = str(weft.make_jaxpr(f)(arange(4), 1))
    assert text.splitlines() == [
        "{ lambda ; a:Ref{f32[4]} b:i32[]. let",
        "    c:f32[] <- a[b]",
        "    d:f32[] = add c 1.0:f32[]",
        "    a[0] <- d",
        "    a[-1] += 1.0:f32[]",
        "    e:f32[2] = broadcast_in_dim 0.0:f32[]",
        "    f:f32[2], a[1:3] <- a[1:3], e",
        "    g:f32[1] <- a[1:][b:b+1]",
        "  in (f, g) }",
    ]


def test_exported_programs_have_none():
    ref = arange(2)
    for fun, args in ((lambda: ref[0], ()), (lambda r: r[0], (ref,))):
        with pytest.raises(ValueError, match="mutable reference"):
            export.export(weft.jit(fun))(*args)


def test_checks_see_through_references():
    ref = arange(2)

    def f(x):
        ref[0] = x
        checkify.check(x > 0.0, "too small")
        return lax.fori_loop(0, 2, lambda i, c: c + ref[i], 0.0)

    for call in (checkify.checkify(f), weft.jit(checkify.checkify(f))):
        error, out = call(-2.0)
        assert "too small" in error.get() and float(out) == -1.0


@pytest.mark.parametrize("disabled", [False, True])
def test_without_compilation(disabled):
    ref = arange(2)
    with weft.disable_jit(disabled):
        weft.jit(lambda r: r.__setitem__(0, 4.0))(ref)
    assert held(ref) == [4.0, 1.0]


def test_two_names_for_one_reference_are_refused():
    ref = arange(2)
    with pytest.raises(ValueError, match="twice, as a and as b"):
        weft.jit(lambda a, b: a[0] + b[0])(ref, ref)
    with pytest.raises(ValueError, match="closed over and passed as a"):
        weft.jit(lambda a: a[0] + ref[0])(ref)
    with pytest.raises(ValueError, match="twice, as a and as b"):
        weft.vmap(lambda a, b: a[...])(ref, ref)
    both = weft.jit(lambda a, b: a[0] + b[0])
    assert float(both(ref, arange(2))) == 0.0
    with pytest.raises(ValueError, match="two places of one call"):
        both(ref, ref)


@pytest.mark.parametrize(
    "use",
    [
        lambda r: weft.jit(lambda x: weft.new_ref(x))(1.0),
        lambda r: weft.jit(lambda r: r)(r),
        lambda r: weft.jit(lambda: r)(),
        lambda r: weft.make_jaxpr(lambda r: r)(r),
        lambda r: lax.scan(lambda c, x: (c, x), r, jnp.arange(2)),
        lambda r: lax.while_loop(lambda c: False, lambda c: c, r),
        lambda r: lax.fori_loop(0, 2, lambda i, c: c, r),
        lambda r: lax.cond(True, lambda r: r, lambda r: r, r),
        lambda r: weft.vmap(lambda r: r)(r),
    ],
)
def test_references_are_not_returned(use):
    with pytest.raises(ValueError, match=r"cannot (be|return or carry)"):
        use(arange(2))


# --- loops and branches ---------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["eager", "jit"])
def maybe_jit(request):
    return weft.jit if request.param else lambda f: f


def test_in_scan(maybe_jit):
    ref, read_only = arange(3), arange(3)

    def f(ref, x):
        def body(carry, i):
            ref[i] += carry + read_only[i]
            return carry + 1.0, ref[0]

        return lax.scan(body, x, jnp.arange(3))

    carry, seen = maybe_jit(f)(ref, 1.0)
    assert float(carry) == 4.0
    assert held(ref) == [1.0, 4.0, 7.0] and seen.tolist() == [1.0, 1.0, 1.0]
    assert held(read_only) == [0.0, 1.0, 2.0]


def test_scanned_over(maybe_jit):
    rows = arange(3, 2)

    def double(rows):
        def body(_, row):
            row[...] = 2.0 * row[...]
            return None, row[1]

        return lax.scan(body, None, rows, reverse=True)[1]

    assert maybe_jit(double)(rows).tolist() == [2.0, 6.0, 10.0]
    assert held(rows) == [[0.0, 2.0], [4.0, 6.0], [8.0, 10.0]]


def test_in_while_loops_read_by_the_predicate(maybe_jit):
    ref = weft.new_ref(jnp.array([10.0, 3.0]))

    def f(x):
        def body(c):
            ref[0] += 1.0
            return c + 1.0

        return lax.while_loop(lambda c: ref[0] + c < 50.0, body, x)

    assert float(maybe_jit(f)(1.0)) == 21.0
    assert held(ref) == [30.0, 3.0]
    with pytest.raises(NotImplementedError, match="write in the body"):
        lax.while_loop(lambda c: ref.__setitem__(0, c) is None, lambda c: c, 1.0)


def test_in_fori_loops_with_computed_bounds(maybe_jit):
    ref = arange(4)

    def f(n):
        lax.fori_loop(0, n, lambda i, _: ref.__setitem__(i, ref[i] * 10.0), None)

    maybe_jit(f)(jnp.int32(2))
    assert held(ref) == [0.0, 10.0, 2.0, 3.0]


def test_in_branches(maybe_jit):
    a, b = arange(2), arange(2)

    def f(p, b):
        def write(x):
            a[0] = x
            return x + b[1]

        def other(x):
            b[0] = -x
            return x

        return lax.cond(p, write, other, 5.0)

    call = maybe_jit(f)
    assert float(call(True, b)) == 6.0
    assert held(a) == [5.0, 1.0] and held(b) == [0.0, 1.0]
    assert float(call(False, b)) == 5.0
    assert held(a) == [5.0, 1.0] and held(b) == [-5.0, 1.0]
    picked = maybe_jit(lambda i: lax.switch(i, [lambda: a[0], lambda: a[1], lambda: b[0]]))
    assert [float(picked(i)) for i in range(3)] == [5.0, 1.0, -5.0]


def test_loops_inside_loops():
    ref = arange(2)

    @weft.jit
    def f():
        def row(i, _):
            def column(j, c):
                ref[0] += 1.0
                return lax.cond(j > i, lambda: c, lambda: c + ref[0])

            return lax.fori_loop(0, 2, column, _)

        return lax.fori_loop(0, 2, row, 0.0)

    assert float(f()) == 1.0 + 3.0 + 4.0
    assert held(ref) == [4.0, 1.0]


# --- against mutation in NumPy --------------------------------------------------------------------


def random_steps(rng, count):
    """Steps that act on a reference or on a NumPy array, of 4 rows of 3."""
    steps = []
    for _ in range(count):
        kind = rng.integers(5)
        i, j = int(rng.integers(-4, 4)), int(rng.integers(0, 3))
        rows = rng.integers(0, 4, 2)
        value = rng.integers(-5, 5, 3).astype(np.float32)
        index = [i, (i, j), (slice(1, 3), j), rows, (slice(None, None, 2), slice(0, 2))][kind]
        steps.append((index, value, bool(rng.integers(2))))
    return steps


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_are_mutation(seed):
    rng = np.random.default_rng(seed)
    steps = random_steps(rng, 12)
    start = rng.integers(-5, 5, (4, 3)).astype(np.float32)

    def program(ref, dot):
        seen = []
        for index, value, doubled in steps:
            part = ref[index]
            seen.append(part.sum())
            new = part + dot(value)
            ref[index] = new * 2.0 if doubled else new
        return sum(seen)

    want = start.copy()
    total = program(want, np.sum)
    for call in (lambda f: f, weft.jit):
        ref = weft.new_ref(start)
        got = call(lambda ref: program(ref, jnp.sum))(ref)
        np.testing.assert_array_equal(ref[...], want)
        assert float(got) == total


def test_what_a_reference_holds_is_its_own():
    """Arrays that went into it, or came out of it, are deleted and donated without it."""
    give = weft.jit(lambda x: x + 1, donate_argnums=0)

    def whole(ref):
        return weft.jit(lambda: ref[...])()

    x, y = jnp.arange(3.0), jnp.arange(3.0)
    ref, other = weft.new_ref(x), weft.new_ref(jnp.zeros(3))
    other[...] = y
    for array in (x, y):
        assert np.array_equal(give(array), [1, 2, 3]) and array.is_deleted()
    for read in (lambda r: r[...], lambda r: r[:], whole, weft.freeze):
        for r in (ref, other):
            read(r).delete()
            assert np.array_equal(give(read(r)), [1, 2, 3])
            assert np.array_equal(r[...], [0, 1, 2])
    with pytest.raises(RuntimeError, match="deleted"):
        weft.new_ref(x)
