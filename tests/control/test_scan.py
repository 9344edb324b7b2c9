"""scan, map, associative_scan and fori_loop with static bounds, under every transformation."""

import numpy as np
import pytest

import weft
import weft.debug
import weft.numpy as jnp
from weft import errors, lax
from weft.compiler.expand import _staged
from weft.core.jaxpr import ClosedJaxpr
from weft.core.verify import check_jaxpr
from weft.transforms.dce import dce_jaxpr

RNG = np.random.default_rng(0)
XS = RNG.normal(size=(4, 3)).astype(np.float32)
W = (RNG.normal(size=(3, 3)) / 2).astype(np.float32)
H = RNG.normal(size=3).astype(np.float32)


def rnn(w, h, xs, **options):
    def step(h, x):
        h = jnp.tanh(w @ h + x)
        return h, h * 2

    return lax.scan(step, h, xs, **options)


def rnn_unrolled(w, h, xs):
    ys = []
    for x in xs:
        h = jnp.tanh(w @ h + x)
        ys.append(h * 2)
    return h, jnp.stack(ys)


@pytest.mark.parametrize("unroll", [1, 2, 3, 0, True, False])
@pytest.mark.parametrize("reverse", [False, True])
def test_values(unroll, reverse):
    order = XS[::-1] if reverse else XS
    h, ys = rnn_unrolled(W, H, order)
    got_h, got_ys = rnn(W, H, XS, unroll=unroll, reverse=reverse)
    np.testing.assert_allclose(got_h, h, rtol=1e-6)
    np.testing.assert_allclose(got_ys, ys[::-1] if reverse else ys, rtol=1e-6)


def test_trees_lengths_and_nothing_to_stack():
    carry, ys = lax.scan(
        lambda c, x: ({"a": c["a"] + x["u"], "b": c["b"]}, (x["v"], None)),
        {"a": 0.0, "b": 2.0},
        {"u": np.arange(3.0), "v": np.arange(6).reshape(3, 2)},
    )
    assert carry == {"a": 3.0, "b": 2.0} and ys[1] is None
    np.testing.assert_array_equal(ys[0], np.arange(6).reshape(3, 2))
    assert lax.scan(lambda c, _: (c + 1, None), 0, None, length=5) == (5, None)
    carry, ys = lax.scan(lambda c, x: (c + x, x * 2), 0.0, np.zeros((0,), np.float32))
    assert carry == 0 and ys.shape == (0,)


def test_weak_start_takes_the_type_of_the_body():
    carry, ys = lax.scan(lambda c, x: (c + x, c), 1, np.arange(3, dtype=np.float32))
    assert carry.dtype == ys.dtype == np.float32


def test_program():
    program = weft.make_jaxpr(
        lambda x: lax.scan(lambda c, a: (lax.add(lax.mul(c, x[0]), a), c), 0.0, x)
    )(H)
    check_jaxpr(program)
    text = str(program)
    assert "length=3\n      num_carry=1\n      num_consts=1\n      reverse=False" in text
    fixed = weft.make_jaxpr(lambda x: lax.scan(lambda s, a: (s, a), 1.0, x))(H)
    assert (
        str(fixed)
        == """\
{ lambda ; a:f32[3]. let
    scan[
      jaxpr={ lambda ; b:f32[] c:f32[]. let  in () }
      length=3
      num_carry=0
      num_consts=1
      reverse=False
      unroll=1
    ] 1.0:f32[] a
  in (1.0:f32[], a) }"""
    )


def test_program_of_the_gradient():
    c = jnp.float32(2)

    def f(x):
        return lax.scan(lambda s, a: (lax.mul(lax.mul(s, lax.sin(a)), c), s), 1.0, x)[0]

    program = weft.make_jaxpr(weft.grad(f))(H)
    check_jaxpr(program)
    forward, backward = program.eqns
    assert forward.params["num_carry"] == 1 and len(forward.outvars) == 5
    assert backward.params["reverse"] and backward.params["num_consts"] == 1
    body = backward.params["jaxpr"]
    assert [e.primitive.name for e in body.eqns] == ["mul", "mul", "mul", "mul"]


def test_invariant_residuals_are_not_stacked():
    f = lambda w: lax.scan(lambda h, _: (jnp.sin(w) @ h, None), H, None, length=7)[0].sum()
    program = weft.make_jaxpr(weft.grad(f))(W)
    check_jaxpr(program)
    loops = [e for e in program.eqns if e.primitive.name == "scan"]
    assert [v.aval.shape for v in loops[0].outvars] == [(3,), (7, 3)]
    assert "sin" not in str(loops[0].params["jaxpr"])


def test_scanned_arrays_are_residuals_themselves():
    f = lambda xs: lax.scan(lambda h, x: (h * x, None), H, xs)[0].sum()
    program = weft.make_jaxpr(weft.grad(f))(XS)
    loops = [e for e in program.eqns if e.primitive.name == "scan"]
    assert program.jaxpr.invars[0] in loops[1].invars
    assert len(loops[0].outvars) == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients(reverse):
    def loss(run, w, h, xs):
        h, ys = run(w, h, xs)
        return h.sum() + (ys * ys).sum()

    def plain(w, h, xs):
        return rnn_unrolled(w, h, xs[::-1] if reverse else xs)

    scanned = lambda *args: rnn(*args, reverse=reverse)
    got = weft.grad(lambda *a: loss(scanned, *a), argnums=(0, 1, 2))(W, H, XS)
    expected = weft.grad(lambda *a: loss(plain, *a), argnums=(0, 1, 2))(W, H, XS)
    jitted = weft.jit(weft.grad(lambda *a: loss(scanned, *a), argnums=(0, 1, 2)))(W, H, XS)
    for a, b, c in zip(got, expected, jitted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(c, b, rtol=2e-5, atol=1e-6)


def test_forward_over_reverse_and_back():
    f = lambda w: rnn(w, H, XS)[1].sum()
    g = lambda w: rnn_unrolled(w, H, XS)[1].sum()
    got = weft.jvp(weft.grad(f), (W,), (W,))[1]
    expected = weft.jvp(weft.grad(g), (W,), (W,))[1]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    twice = weft.grad(lambda w: (weft.grad(f)(w) * W).sum())(W)
    np.testing.assert_allclose(twice, expected, rtol=1e-4, atol=1e-5)


def test_tangent_that_enters_the_carry_late():
    def f(x):
        body = lambda c, a: ((c[0] + 1, c[2], a * x, c[3]), c[1])
        return lax.scan(body, (0, 0.0, 1.0, 5), H)

    primals, tangents = weft.jvp(f, (2.0,), (1.0,))
    np.testing.assert_allclose(primals[1], [0.0, 1.0, H[0] * 2], rtol=1e-6)
    np.testing.assert_allclose(tangents[1], [0.0, 0.0, H[0]], rtol=1e-6)
    assert tangents[0][0].dtype == weft.float0
    g = lambda x: f(x)[1].sum() + f(x)[0][1]
    assert weft.grad(g)(2.0) == pytest.approx(H[0] + H[1], rel=1e-6)


def test_batches():
    ws = np.stack([W, W.T])
    for axes in [(0, None, None), (None, None, 1), (0, None, 2), (None, 0, None)]:
        w = ws if axes[0] == 0 else W
        h = np.stack([H, -H]) if axes[1] == 0 else H
        xs = XS
        if axes[2] is not None:
            xs = np.stack([XS, 2 * XS], axes[2])
        carry, ys = weft.vmap(rnn, in_axes=axes)(w, h, xs)
        for i in range(2):
            pick = [a if d is None else np.take(a, i, d) for a, d in zip((w, h, xs), axes)]
            one, ones = rnn(*pick)
            np.testing.assert_allclose(carry[i], one, rtol=1e-5)
            np.testing.assert_allclose(ys[i], ones, rtol=1e-5)


def test_batch_of_gradients():
    f = lambda h: rnn(W, h, XS)[1].sum()
    hs = np.stack([H, 2 * H, -H])
    got = weft.vmap(weft.grad(f))(hs)
    np.testing.assert_allclose(got, [weft.grad(f)(h) for h in hs], rtol=1e-5)


def test_loops_in_loops():
    def f(x):
        def outer(c, a):
            inner = lax.fori_loop(0, 3, lambda i, s: s * a + i, c)
            return lax.cond(a > 0, lambda: inner, lambda: jnp.sin(inner)), inner

        return lax.scan(outer, 1.0, x)[0]

    def plain(x):
        c = 1.0
        for a in x:
            for i in range(3):
                c = c * a + i
            c = c if a > 0 else jnp.sin(c)
        return c

    x = np.array([0.3, -0.7, 0.9], np.float32)
    assert f(x) == pytest.approx(float(plain(x)), rel=1e-5)
    np.testing.assert_allclose(weft.jit(weft.grad(f))(x), weft.jacfwd(f)(x), rtol=1e-5)


def test_transpose_of_a_loop_with_a_counter():
    f = lambda x: lax.fori_loop(0, 3, lambda i, s: s * (i + 1.0), x)
    (got,) = weft.linear_transpose(f, H)(H)
    np.testing.assert_allclose(got, 6 * H)


def test_fori_with_static_bounds():
    assert lax.fori_loop(2, 5, lambda i, s: s + i, 0) == 9
    assert lax.fori_loop(5, 2, lambda i, s: s + i, 0) == 0
    assert weft.grad(lambda x: lax.fori_loop(0, 3, lambda i, s: s * x, 1.0))(2.0) == 12.0
    got = weft.make_jaxpr(lambda x: lax.fori_loop(0, 5, lambda i, s: s * x, x, unroll=2))(1.0)
    assert got.eqns[0].params["unroll"] == 2


def test_unused_outputs_are_pruned():
    program = weft.make_jaxpr(
        lambda x: lax.scan(lambda c, a: ((c[0] * a, c[1] + 1), (c[0], c[1])), (1.0, 0), x)
    )(H)
    smaller, used = dce_jaxpr(program.jaxpr, [False, True, False, False])
    check_jaxpr(smaller)
    assert smaller.eqns[0].params["num_carry"] == 1 and used == [False]


def test_custom_rules_inside():
    @weft.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvps(lambda t, y, x: 2 * t * jnp.cos(x))
    loop = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
    expected = 4 * np.cos(1.0) * np.cos(np.sin(1.0))
    assert weft.grad(loop)(1.0) == pytest.approx(expected, rel=1e-6)


def test_effects_happen_in_every_step():
    seen = []

    def body(c, x):
        weft.debug.callback(lambda: seen.append("step"))
        return c * jnp.sin(x), c

    weft.jit(weft.grad(lambda x: lax.scan(body, 1.0, x)[0]))(H)
    assert seen == ["step"] * 3


def test_collectives_inside():
    total = lambda x: lax.scan(lambda c, _: (c + lax.psum(x, "i"), None), 0.0, None, length=2)[0]
    np.testing.assert_allclose(weft.vmap(total, axis_name="i")(H), np.full(3, 2 * H.sum()), 1e-5)


def test_remat_inside():
    step = lambda c, a: (jnp.sin(c * a), None)
    plain = weft.grad(lambda x: lax.scan(step, 1.0, x)[0])(H)
    saved = weft.grad(lambda x: lax.scan(weft.checkpoint(step), 1.0, x)[0])(H)
    np.testing.assert_allclose(saved, plain, rtol=1e-6)


def test_without_jit_it_is_python():
    with weft.disable_jit():
        carry, ys = lax.scan(lambda c, x: (c + float(x), c), 0.0, np.arange(3.0), reverse=True)
    assert carry == 3.0
    np.testing.assert_allclose(ys, [3.0, 2.0, 0.0])


def test_map():
    np.testing.assert_allclose(lax.map(jnp.sin, XS), np.sin(XS), rtol=1e-6)
    for size in (0, 1, 3, 4, 9):
        got = lax.map(lambda x: {"s": x.sum(), "x": x}, XS, batch_size=size)
        np.testing.assert_allclose(got["s"], XS.sum(1), rtol=1e-5)
        np.testing.assert_array_equal(got["x"], XS)
    got = weft.grad(lambda x: lax.map(lambda r: (r * r).sum(), x, batch_size=3).sum())(XS)
    np.testing.assert_allclose(got, 2 * XS)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n, reverse):
    x = RNG.normal(size=(2, n)).astype(np.float32)
    got = lax.associative_scan(jnp.add, x, reverse=reverse, axis=1)
    turned = x[:, ::-1] if reverse else x
    expected = np.cumsum(turned, 1)
    np.testing.assert_allclose(got, expected[:, ::-1] if reverse else expected, rtol=2e-5)


def test_associative_scan_of_trees():
    a, b = RNG.normal(size=(2, 9)).astype(np.float32)
    step = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
    _, got = lax.associative_scan(step, (a, b))
    value, expected = np.float32(0), []
    for i in range(9):
        value = a[i] * value + b[i]
        expected.append(value)
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    flags = np.array([False, True, False])
    np.testing.assert_array_equal(lax.associative_scan(jnp.logical_or, flags), [False, True, True])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.scan(3, 0, H), TypeError, "takes a function"),
        (lambda: lax.scan(lambda c, x: c, 0.0, H), TypeError, r"pair \(carry, y\)"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0), ValueError, "no length"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, 2.0), ValueError, "no leading axis"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, H, length=2), ValueError, r"length=2.*\[3\]"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, (H, XS)), ValueError, r"\[3, 4\]"),
        (lambda: lax.scan(lambda c, x: (c, "a"), 0.0, H), TypeError, r"'a'.*output\[1\]"),
        (lambda: lax.scan(lambda c, x: (c[None], x), H, H), TypeError, r"float32\[1,3\]"),
        (lambda: lax.scan(lambda c, x: (c, x), 0.0, H, unroll=-1), ValueError, "got -1"),
        (lambda: lax.associative_scan(1, H), TypeError, "takes a function"),
        (lambda: lax.associative_scan(jnp.add, (H, XS)), ValueError, r"\(4, 3\)"),
        (lambda: lax.associative_scan(jnp.add, H, axis=1), ValueError, "out of bounds"),
        (lambda: lax.map(1, H), TypeError, "takes a function"),
    ],
)
def test_user_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_length_must_be_known():
    with pytest.raises(errors.ConcretizationTypeError, match="length"):
        weft.jit(lambda n: lax.scan(lambda c, x: (c, x), 0.0, None, length=n))(3)


def test_carry_errors_name_the_component():
    def body(state, x):
        return (state[0], {"k": state[1]["k"].astype(jnp.int32)}), x

    with pytest.raises(TypeError) as caught:
        lax.scan(body, (1.0, {"k": H}), H)
    text = str(caught.value)
    assert "state[1]['k']" in text and "float32[3]" in text and "int32[3]" in text
    assert "body at" in text and "test_scan.py" in text
    with pytest.raises(TypeError, match="tree structure"):
        lax.scan(lambda c, x: ((c, c), x), 1.0, H)


def _counted(x, n):
    return (x + 1.5 * n, n + 1), None


UNROLLED = {
    "one array": (lambda x: (jnp.roll(x, 1) * 2, None), (XS,)),
    "pair": (lambda s: ((s[0] + s[1], s[0] - 0.5), None), ((XS, XS + 1),)),
    "counter": (lambda s: _counted(*s), ((XS, np.float32(0)),)),
    "closure": (lambda x: (jnp.where(x > XS, x, W @ H), None), (XS,)),
    "half": (lambda x: (x * jnp.float16(3), None), (XS.astype(np.float16),)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", UNROLLED)
def test_steps_by_renaming_are_those_that_staging_gives(name, reverse):
    step, init = UNROLLED[name]
    fun = lambda *init: lax.scan(lambda s, _: step(s), *init, None, length=5, reverse=reverse)[0]
    closed = weft.make_jaxpr(fun)(*init)
    (eqn,) = [e for e in closed.jaxpr.eqns if e.primitive.name == "scan"]
    avals = tuple([x.aval for x in eqn.invars])
    found = eqn.primitive.unrolled(avals, eqn.params)
    staged = _staged(eqn.primitive, eqn.primitive.decompose, avals, tuple(eqn.params.items()))
    check_jaxpr(ClosedJaxpr(found, ()))
    assert str(found) == str(staged)


def test_steps_that_read_rows_are_staged():
    closed = weft.make_jaxpr(lambda w, h, xs: rnn(w, h, xs))(W, H, XS)
    (eqn,) = [e for e in closed.jaxpr.eqns if e.primitive.name == "scan"]
    assert eqn.primitive.unrolled(tuple([x.aval for x in eqn.invars]), eqn.params) is None
