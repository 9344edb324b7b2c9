"""The seam: every sample of every primitive, planned as a Program and run by NumPy, is what its
reference says."""

import numpy as np
import pytest

import weft
from tests.laws.checks import assert_close, seed_of
from tests.samples import WIDE, all_samples
from weft import dtypes, lax
from weft import numpy as jnp
from weft.backends.cpu.calls import native
from weft.backends.reference.program import Executable, Reference
from weft.base import knobs
from weft.compiler.plan import Unplannable
from weft.core.interpret import run, storage_dtype

SAMPLES = [s for s in all_samples() if s.axis is None]


def leaves_of(args):
    found = []
    for x in weft.tree.leaves(args):
        found.append(x._value if isinstance(x, weft.Array) else np.asarray(x))
    return found


def check_samples(target, prim, most=None):
    """Every sample of a primitive, compiled for a target, gives what its reference says."""
    for sample in [s for s in SAMPLES if s.prim == prim][:most]:
        for dtype in sample.dtypes:
            args = sample.operands(dtype, seed_of(sample))
            with weft.enable_x64(dtype in WIDE):
                closed = weft.make_jaxpr(sample.function(dtype))(*args)
                leaves = [
                    np.asarray(x, storage_dtype(a.dtype))
                    for x, a in zip(leaves_of(args), closed.in_avals, strict=True)
                ]
                try:
                    got = target.compile(closed)(leaves)
                except Unplannable:
                    continue
                consts = [getattr(c, "_value", c) for c in closed.consts]
                with np.errstate(all="ignore"):
                    want = run(closed.jaxpr, consts, leaves)
                for a, b in zip(got, want, strict=True):
                    if dtypes.issubdtype(np.asarray(b).dtype, np.generic):
                        assert_close(a, b, 4 * max(sample.tol, 4.0), f"{sample} of {dtype}")
                    else:
                        assert a.tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("prim", sorted({s.prim for s in SAMPLES}))
def test_programs_run_by_numpy_are_right(prim):
    check_samples(Reference(), prim)


def rnn(w, xs):
    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h.sum()

    return lax.scan(step, jnp.zeros(4), xs)


PROGRAMS = {
    "softmax": lambda w, xs: weft.nn.softmax(xs @ w),
    "scan": rnn,
    "gradient": weft.grad(lambda w, xs: jnp.sum(rnn(w, xs)[1] ** 2)),
    "while": lambda w, xs: lax.while_loop(lambda c: jnp.sum(c) < 50, lambda c: c * 1.5 + 1, w),
    "branches": lambda w, xs: lax.switch(jnp.argmax(xs[0]), [jnp.sin, jnp.cos, jnp.abs], w),
    "sorted": lambda w, xs: jnp.sort(xs[:4], axis=0).cumsum(1) + jnp.linalg.inv(w + 2),
    "update": lambda w, xs: w.at[1].set(3.0).at[0, 1:3].add(xs[0, :2]),
    "draws": lambda w, xs: weft.random.normal(weft.random.key(3), (4, 4)) * w,
    "batched": weft.vmap(lambda w, xs: jnp.cumsum(xs * w[0]), in_axes=(None, 0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_knob_chooses_it(name, monkeypatch):
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s).astype(np.float32) for s in ((4, 4), (6, 4))]
    want = weft.tree.leaves(weft.jit(PROGRAMS[name])(*args))
    runs = []
    call = Executable.__call__
    monkeypatch.setattr(Executable, "__call__", lambda *xs: runs.append(1) or call(*xs))
    with knobs.scope(backend="reference"):
        got = weft.tree.leaves(weft.jit(lambda *xs: PROGRAMS[name](*xs))(*args))
    assert runs
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_machines_without_native_code_have_it(monkeypatch):
    runs = []
    call = Executable.__call__
    monkeypatch.setattr(Executable, "__call__", lambda *xs: runs.append(1) or call(*xs))
    monkeypatch.setattr(native, "supported", lambda: False)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = weft.jit(lambda x: (weft.nn.softmax(x), x))(x)
    assert runs
    np.testing.assert_allclose(
        got[0],
        np.exp(x - x.max(1, keepdims=True))
        / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
        rtol=1e-5,
    )
    np.testing.assert_array_equal(got[1], x)


def test_the_older_word_for_the_knob():
    with knobs.scope(backend="interpret"):
        assert knobs.backend.value == "reference"
