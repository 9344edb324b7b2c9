"""Boxes of arrays that are set or added to: chosen by position in the kernel that computes them."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.host_device import install, install_client
from tests.backends.cuda.test_program import compiled
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.passes.boxes import boxes
from weft.base import knobs

F32 = np.dtype(np.float32)


def stencil(u):
    inner = u[1:-1, 1:-1]
    near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return u.at[1:-1, 1:-1].set(inner + 0.1 * (near - 4 * inner))


def walls(u):
    return (u * 2).at[0].set(0).at[:, -1].set(1).at[3, 4].add(5)


def several(u):
    for i in range(7):
        u = (u + 1).at[i].set(0.5).at[:, i].add(u[:, 0])
    return u


CASES = {
    "set": stencil,
    "added": lambda u: u.at[1:-1].add(0.1 * (u[:-2] + u[2:])),
    "slice": lambda u: lax.dynamic_update_slice(u, u[1:, 1:] * 2, (0, 1)),
    "clamped": lambda u: lax.dynamic_update_slice(u + 1, u[2:, 2:] * 2, (7, -3)),
    "walls": walls,
    "reflecting": lambda u: (v := stencil(u)).at[0].set(v[1]),
    "several": several,
    "whole": lambda u: u.at[:].set(u[::-1]),
    "outside": lambda u: (u * 2).at[20].set(0).at[-20].add(1),
    "many places": lambda u: (u * 2).at[np.array([0, 2, 2])].add(u[:3]),
    "integers": lambda u: (u * 9).astype("int32").at[2:, 2:].set(3),
    "zeros": lambda u: (-jnp.abs(u) * 0).at[2].add(u[1]),
    "shifted": lambda u: u.at[1:].add(u[:-1]) + u,
}


def same(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    if want.dtype == F32:
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.fixture
def x():
    return np.random.default_rng(5).normal(size=(9, 11)).astype(F32)


@pytest.mark.parametrize("name", CASES)
def test_choices_give_what_updates_give(name, x, monkeypatch):
    install(monkeypatch)
    closed = weft.make_jaxpr(CASES[name])(x)
    with knobs.scope(backend="reference"):
        want = np.asarray(CASES[name](jnp.asarray(x)))
    (got,) = compiled(CASES[name], x)([x])
    same(got, want)
    made = boxes(closed)
    with knobs.scope(backend="reference"):
        (got,) = weft.core.eval_jaxpr(made.jaxpr, made.consts, x)
    same(np.asarray(got), want)


def test_boxes_of_keys(monkeypatch):
    install_client(monkeypatch)
    keys = weft.random.split(weft.random.key(0), 8)

    def drawn(keys):
        keys = keys.at[1:7].set(keys[:6])
        return lax.fori_loop(0, 2, lambda i, k: k.at[2:8].set(k[1:7]), keys)

    with weft.default_device(weft.devices("cuda")[0]):
        got = weft.random.key_data(weft.jit(drawn)(keys))
    data = np.asarray(weft.random.key_data(keys))
    np.testing.assert_array_equal(got, data[[0, 0, 0, 0, 1, 2, 3, 4]])


@pytest.mark.parametrize("trips", [1, 2, 5])
def test_loops_with_boundaries(trips, x, monkeypatch):
    install(monkeypatch)

    def fun(u):
        step = lambda u, _: (walls(stencil(u)), u[2, 2])
        return lax.scan(step, u, None, length=trips)

    with knobs.scope(backend="reference"):
        want = [np.asarray(v) for v in fun(jnp.asarray(x))]
    for got, other in zip(compiled(fun, x)([x]), want, strict=True):
        same(got, other)


def kernels(fun, shape=(1024, 1024)):
    return len(planned.planned(fun, weft.ShapeDtypeStruct(shape, F32)).commands)


def test_they_are_one_kernel(monkeypatch):
    planned.install(monkeypatch)
    assert kernels(stencil) == 1
    assert kernels(lambda u: (u * 2).at[0].set(0).at[:, -1].set(1)) == 1


def names(fun, shape=(9, 11)):
    made = boxes(weft.make_jaxpr(fun)(weft.ShapeDtypeStruct(shape, F32)))
    return [eqn.primitive.name for eqn in made.eqns]


def test_small_boxes_of_arrays_are_set_in_place():
    """The rest of the array isn't read: it may be a large cache."""
    assert "select_n" not in names(lambda u: u.at[0].set(0))
    assert "select_n" not in names(lambda u: u.at[0].set(u[1]))
    assert "select_n" not in names(lambda u: u.at[1:-1].add(3))
    assert names(lambda u: (u * 2).at[:4].set(1)).count("select_n") == 1


def in_rounds(u):
    step = lambda u, _: (stencil(u), None)
    return (lax.scan(step, u, None, length=4)[0] ** 2).sum()


def test_gradients_of_loops(x, monkeypatch):
    """The places of boxes are made outside of a loop that is taken gradients of."""
    install(monkeypatch)
    with knobs.scope(backend="reference"):
        want = np.asarray(weft.grad(in_rounds)(jnp.asarray(x)))
    (got,) = compiled(weft.grad(in_rounds), x)([x])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_rounds_of_gradients_are_one_kernel(monkeypatch):
    planned.install(monkeypatch)
    x = weft.ShapeDtypeStruct((1024, 1024), F32)
    made = planned.planned(weft.grad(in_rounds), x)
    loops = [c for c in made.commands if isinstance(c, commands.LoopedFor)]
    assert loops
    assert all(len([c for c in loop.body if type(c) is commands.Launched]) == 1 for loop in loops)
