"""Generated programs through the passes that rewrite programs for GPUs: the results stay."""

import random

import numpy as np
import pytest

import weft
from weft import numpy as jnp
from weft.backends.cuda.passes.factors import factors
from weft.backends.cuda.passes.fresh import fresh
from weft.backends.cuda.passes.orders import orders
from weft.compiler import nearer, refine, unroll
from weft.compiler.fuse import fusible
from weft.compiler.pipeline import simplify
from weft.core.jaxpr import ClosedJaxpr, eval_jaxpr
from weft.core.verify import check_jaxpr


def on_regions(change):
    return lambda closed: ClosedJaxpr(change(closed.jaxpr, fusible), closed.consts)


PASSES = {
    "factors": factors,
    "orders": orders,
    "fresh": fresh,
    "unroll": on_regions(unroll.unroll),
    "refine": on_regions(refine.refine),
    "nearer": on_regions(nearer.nearer),
}


def factoring(r, size):
    """A shape with this many elements."""
    found = []
    while size > 1:
        found.append(r.choice([n for n in (2, 3, 4, 6, 8) if size % n == 0]))
        size //= found[-1]
    r.shuffle(found)
    if len(found) > 1 and r.random() < 0.6:
        found[:2] = [found[0] * found[1]]
    if r.random() < 0.2:
        found.insert(r.randint(0, len(found)), 1)
    return tuple(found)


def step(r, y, v):
    """A random operation on an array, and what it gives besides."""
    kind, axis = r.randrange(9), r.randrange(y.ndim)
    spread = [-1 if i == axis else 1 for i in range(y.ndim)]
    if kind < 3:
        return jnp.reshape(y, factoring(r, y.size)), []
    if kind == 3:
        return jnp.sin(y) + 1, []
    if kind == 4:
        return y * jnp.reshape(jnp.resize(v, y.shape[axis]), spread), []
    if kind == 5:
        axes = tuple(r.sample(range(y.ndim), r.randint(1, y.ndim)))
        return y - r.choice([jnp.mean, jnp.max, jnp.sum])(y, axes, keepdims=True) * 0.1, []
    if kind == 6:
        return jnp.where(y > 0.3, y, v[0]), [jnp.sum(y, axis)]
    if kind == 7:
        return jnp.transpose(y, r.sample(range(y.ndim), y.ndim)), []
    return (y.astype("bfloat16") * 2).astype("float32"), [y]


def chain(seed):
    """Reshapes, reductions and operations on elements, one after the other."""
    count, size = random.Random(seed).randint(4, 14), random.Random(seed).choice([48, 96, 144])

    def program(x, v):
        r, y, outs = random.Random(seed), x, []
        for _ in range(count):
            y, more = step(r, y, v)
            outs += more
        return [*outs, y]

    values = np.random.default_rng(seed)
    shape = factoring(random.Random(seed), size)
    return program, [values.normal(size=s).astype("f") for s in (shape, 5)]


def product(seed):
    """A product of two arrays with axes in any order, scaled."""
    r, values = random.Random(seed), np.random.default_rng(seed)
    sizes = {c: r.choice([2, 3, 4, 8, 16]) for c in "abcdefg"}
    left, right = r.sample("abcdefg", r.randint(2, 5)), r.sample("abcdefg", r.randint(2, 4))
    out = [c for c in sizes if c in {*left, *right} and (r.random() < 0.5 or c not in left)]
    r.shuffle(out)
    spec = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    args = [values.normal(size=[sizes[c] for c in x]).astype("f") for x in (left, right)]
    return lambda x, y: [jnp.einsum(spec, 2.5 * x, y)], args


def gradient(program):
    return weft.grad(lambda *xs: sum(jnp.sum(jnp.cos(out)) for out in program(*xs)), (0, 1))


@pytest.mark.parametrize("make", [chain, product])
def test_results_stay(make, monkeypatch):
    monkeypatch.setattr(refine, "MIN_REFINED", 1)
    monkeypatch.setattr(unroll, "MIN_SUMS", 1)
    changed = set()
    for seed in range(40):
        program, args = make(seed)
        closed = simplify(weft.make_jaxpr(gradient(program) if seed % 2 else program)(*args))
        expected = eval_jaxpr(closed.jaxpr, closed.consts, *args)
        for name, run in PASSES.items():
            after = run(closed)
            if after.jaxpr is closed.jaxpr:
                continue
            changed.add(name)
            check_jaxpr(after)
            found = eval_jaxpr(after.jaxpr, after.consts, *args)
            for a, b in zip(found, expected, strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype, (seed, name)
                atol = 1e-4 * max(1.0, np.abs(b).max(initial=0))
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=atol, err_msg=f"{seed} {name}")
    assert changed >= ({"refine"} if make is chain else {"orders", "factors"})
