"""Products with one-hot arrays as gathers and scatters: the results stay."""

import random
from collections import Counter
from functools import partial

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from weft import numpy as jnp
from weft.backends.cpu.target import Cpu
from weft.backends.cuda.passes.target import COSTS
from weft.base import knobs
from weft.compiler.passes import one_hot as passes
from weft.compiler.passes.one_hot import one_hot
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import eval_jaxpr
from weft.core.verify import check_jaxpr

LETTERS = "abcd"


@pytest.fixture
def always(monkeypatch):
    """Have every form that an array can be computed by used, and functions of small arrays."""
    monkeypatch.setattr(passes, "MIN_ELEMENTS", 1)
    opened = passes._Forms._opened
    monkeypatch.setattr(passes._Forms, "best", lambda self, form, aval: opened(self, form) or form)


def names(closed):
    return [eqn.primitive.name for eqn in closed.jaxpr.eqns]


def outcome(function, *args):
    """A program before and after the pass, and its results of both."""
    before = simplify(weft.make_jaxpr(function)(*args))
    after = one_hot(before, COSTS, ordered=bool(knobs.thread.deterministic_ops))
    check_jaxpr(after)
    results = [eval_jaxpr(c.jaxpr, c.consts, *map(jnp.asarray, args)) for c in (before, after)]
    return before, after, results


def agrees(function, *args, rtol=2e-5):
    before, after, (expected, found) = outcome(function, *args)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        a, b = (np.asarray(x, np.float64) for x in (a, b))
        scale = max(1.0, np.abs(b).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)
    return before, after


def subset(r, letters, least=0):
    found = [a for a in letters if r.random() < 0.5]
    while len(found) < least:
        found.append(r.choice([a for a in letters if a not in found]))
    r.shuffle(found)
    return "".join(found)


def mask(r, values, sizes, hot):
    """A one-hot array with its axes, made of indices of which some are none, and their array."""
    axes = subset(r, LETTERS, 1)[:2]
    dtype = r.choice(["int32", "int32", "int8", "uint8", "float32"])
    low = 0 if dtype == "uint8" else -2
    at = values.integers(low, sizes[hot] + 2, [sizes[a] for a in axes]).astype(dtype)
    if dtype == "float32" and r.random() < 0.5:
        at = at + 0.5 * (values.random(at.shape) < 0.2).astype("f")
    place = r.randint(0, len(axes))
    dtype = r.choice(["float32", "float32", "bfloat16"])

    def make(at):
        equal = at[..., None] == jnp.arange(sizes[hot], dtype=at.dtype)
        return jnp.moveaxis(equal.astype(dtype), -1, place)

    return make, axes[:place] + hot + axes[place:], at


def function_of(r, m):
    """A function of a mask that is zero where that is."""
    return r.choice([
        lambda m: m, lambda m: m, lambda m: (m > 0.1).astype("float32"), lambda m: m * 2.5,
        lambda m: -m, lambda m: (m * m).astype("float32"), lambda m: m.astype("float32"),
        lambda m: jnp.where(m != 0, m, 0),
    ])(m)  # fmt: skip


def product(seed):
    """A product of one or two masks with another array."""
    r, values = random.Random(seed), np.random.default_rng(seed)
    sizes = {a: r.choice([1, 2, 3, 5]) for a in LETTERS} | {"h": 9, "g": r.choice([8, 13])}
    make, axes, at = mask(r, values, sizes, "h")
    weights = subset(r, axes)
    args = [values.normal(size=[sizes[a] for a in weights]).astype("f")]
    masks = [(make, axes, at)]
    if r.random() < 0.6:
        masks.append(mask(r, values, sizes, "g"))
    both = "".join(dict.fromkeys("".join(m[1] for m in masks)))
    kept = "".join(a for a in both if a in "hg" or r.random() < 0.6)
    other = subset(r, LETTERS + kept, 1)
    args.append(values.normal(size=[sizes[a] for a in dict.fromkeys(other)]).astype("f"))
    other = "".join(dict.fromkeys(other))
    out = subset(r, list(dict.fromkeys(kept + other)))
    seed = r.random()

    def program(weights_of, dense, *indices):
        inner = random.Random(seed)
        parts = [make(at) for (make, _, _), at in zip(masks, indices, strict=True)]
        m = jnp.einsum(f"{axes},{weights}->{axes}", parts[0], weights_of)
        m = function_of(inner, m)
        if len(parts) > 1:
            m = jnp.einsum(f"{axes},{masks[1][1]}->{kept}", m, parts[1])
            spec = kept
        else:
            spec = axes
        m = function_of(inner, m)
        keep = "".join(a for a in out if a in spec + other)
        return jnp.einsum(f"{spec},{other}->{keep}", m, dense)

    return program, [*args, *(at for _, _, at in masks)]


def test_generated_products(always):
    changed = Counter()
    for seed in range(100):
        program, args = product(seed)
        if seed % 2:
            whole = lambda *xs, program=program: jnp.sum(jnp.cos(program(*xs).astype("f")))
            program = weft.grad(whole, (0, 1))
        before, after = agrees(program, *args, rtol=2e-2)
        changed.update(set(names(after)) - set(names(before)))
    assert changed["gather"] > 20 and changed["scatter-add"] > 10


VALUES = np.random.default_rng(0)
TABLE = VALUES.normal(size=(5000, 64)).astype("f")
AT = VALUES.integers(0, 5000, 700).astype("i")


def embedding(table, at):
    return weft.nn.one_hot(at, 5000) @ table


def test_an_embedding_is_a_gather():
    before, after = agrees(embedding, TABLE, AT)
    assert "dot_general" in names(before)
    assert "gather" in names(after) and "dot_general" not in names(after)


def test_its_gradient_is_a_scatter():
    g = VALUES.normal(size=(700, 64)).astype("f")
    _, after = agrees(lambda t, at, g: weft.vjp(lambda t: embedding(t, at), t)[1](g), TABLE, AT, g)
    assert "scatter-add" in names(after) and "dot_general" not in names(after)


def test_few_rows_that_are_added_stay_a_product():
    x = VALUES.normal(size=(6, 8)).astype("f")
    before, after = agrees(lambda x, at: weft.nn.one_hot(at, 10).T @ x, x, AT[:6] % 10)
    assert names(before) == names(after)


def test_rows_that_are_not_picked_do_not_count():
    table = jnp.asarray(TABLE).at[7].set(np.inf)
    at = np.where(AT == 7, 8, AT)
    at[:3] = -1, 5000, 6000
    _, after, (_, (found,)) = outcome(embedding, table, at)
    assert "gather" in names(after)
    np.testing.assert_array_equal(found[:3], 0)
    np.testing.assert_array_equal(found[3:], table[at[3:]])


def test_precision_stays(always):
    w = VALUES.normal(size=(12, 4)).astype("f")
    x = VALUES.normal(size=(2, 12)).astype("f")

    def program(x, w, at):
        with weft.default_matmul_precision("highest"):
            return jnp.einsum("tk,tkh,kf->hf", x, weft.nn.one_hot(at, 9), w)

    _, after = agrees(program, x, w, AT[:24].reshape(2, 12) % 9)
    for eqn in after.jaxpr.eqns:
        assert eqn.primitive.name != "dot_general" or eqn.params["precision"] is not None


def experts(tokens, count, room, x, router, w):
    gates = weft.nn.softmax(x @ router, -1)
    best, which = weft.lax.top_k(gates, 2)
    hot = weft.nn.one_hot(which, count)
    place = jnp.cumsum(hot.reshape(-1, count), 0).reshape(hot.shape) * hot
    slots = weft.nn.one_hot(place.sum(-1).astype(int) - 1, room)
    combine = jnp.einsum("tk,tke,tkc->tec", best, hot, slots)
    inside = jnp.einsum("tec,td->ecd", (combine > 0).astype(x.dtype), x)
    out = weft.nn.gelu(jnp.einsum("ecd,edf->ecf", inside, w))
    return jnp.einsum("tec,ecf->tf", combine, out)


def mixture(tokens, count, room, gradient):
    """A mixture of experts, or its gradient."""
    forward = partial(experts, tokens, count, room)
    backward = weft.grad(lambda *xs: jnp.sum(forward(*xs) ** 2), (0, 1, 2))
    return backward if gradient else forward


def arguments(tokens, count, width):
    shapes = [(tokens, width), (width, count), (count, width, width)]
    return [VALUES.normal(size=s).astype("f") for s in shapes]


@pytest.mark.parametrize("gradient", [False, True])
def test_masks_of_experts_are_not_made(monkeypatch, gradient):
    tokens, count, room = 2048, 8, 512
    function = mixture(tokens, count, room, gradient)
    args = arguments(tokens, count, 64)
    before = simplify(weft.make_jaxpr(function)(*args))
    largest = max(
        np.prod(v.aval.shape) for e in one_hot(before, COSTS).jaxpr.eqns for v in e.outvars
    )
    assert largest < tokens * count * room / 8
    planned.install(monkeypatch)
    assert planned.planned(function, *args).arena < 10 << 20


@pytest.mark.parametrize("width", [16, 33])
def test_experts_compute_the_same(always, width):
    function = partial(experts, 40, 8, 9)
    args = arguments(40, 8, width)
    before, after = agrees(function, *args)
    assert names(after).count("dot_general") < names(before).count("dot_general")
    agrees(weft.grad(lambda *xs: jnp.sum(jnp.cos(function(*xs))), (0, 1, 2)), *args, rtol=1e-4)


@pytest.mark.parametrize("gradient", [False, True])
def test_cpus(gradient):
    tokens, count, room = 300, 8, 75
    function = mixture(tokens, count, room, gradient)
    args = arguments(tokens, count, 32)
    closed = weft.make_jaxpr(function)(*args)
    dense = simplify(closed)
    assert names(Cpu().simplify(closed)).count("dot_general") < names(dense).count("dot_general")
    found = weft.jit(function)(*args)
    expected = eval_jaxpr(dense.jaxpr, dense.consts, *map(jnp.asarray, args))
    for a, b in zip(weft.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())
    with knobs.scope(reproducible=True):
        assert names(Cpu().simplify(closed)).count("scatter-add") <= gradient


def test_deterministic_results_have_no_such_scatter(always):
    with knobs.scope(deterministic_ops=True):
        g = VALUES.normal(size=(700, 64)).astype("f")
        _, after = agrees(
            lambda t, at, g: weft.vjp(lambda t: embedding(t, at), t)[1](g), TABLE, AT, g
        )
    assert "scatter-add" not in names(after)
