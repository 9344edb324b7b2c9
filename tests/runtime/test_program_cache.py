"""Planned programs on disk: what is found gives the same results as what was planned, what could
differ is planned, and what is not sound is not used."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.backends.cpu import target
from weft.backends.llvm.native import machine
from weft.base import disk, knobs, later
from weft.compiler import identity
from weft.extend import core
from weft.runtime import compiling

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no disk cache here")


@pytest.fixture
def room(tmp_path: Path, monkeypatch):
    """An empty cache, as a process sees it whose source has not been changed since it began."""
    stamp = identity.source_stamp
    stamp.cache_clear()
    monkeypatch.setattr(identity, "BEGAN", float("inf"))
    with knobs.cache(str(tmp_path)), knobs.cache_programs(True):
        yield tmp_path / disk.FOLDER
    stamp.cache_clear()


@pytest.fixture
def plans(room, monkeypatch):
    """Grows by one for every program that is planned."""
    planned = []
    program = target.Planner.program
    monkeypatch.setattr(
        target.Planner, "program", lambda self, *given: planned.append(1) or program(self, *given)
    )
    return planned


def again(fun, *args):
    """The leaves of a function's results, traced anew."""
    found = [np.asarray(x) for x in weft.tree.leaves(weft.jit(lambda *xs: fun(*xs))(*args))]
    later.settle()
    return found


def same(one, two):
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


X = np.linspace(-2, 2, 30, dtype=np.float32).reshape(5, 6)
KEY = np.array([1, 2], np.uint32)

PROGRAMS = {
    "elementwise": (lambda x: jnp.tanh(x) * 3 + 1, X),
    "reduction": (lambda x: (jnp.sum(x), x - x.max(1, keepdims=True)), X),
    "product": (lambda x: (x @ x.T) @ x, X),
    "gradient": (weft.grad(lambda x: jnp.sum(jnp.sin(x @ x.T) ** 2)), X),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), X),
    "long loop": (lambda x: lax.fori_loop(0, 9, lambda i, c: jnp.cos(c @ c.T) @ c, x), X),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, -c[1]), (0, x)), X),
    "cond": (lambda x: lax.cond(x[0, 0] < 0, jnp.sin, jnp.cos, x), X),
    "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x], x), 1, X),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(-x)), X),
    "fft": (lambda x: jnp.fft.rfft(x), X),
    "complex": (lambda x: jnp.abs((x + 1j) * (x - 2j)), X),
    "factors": (lambda x: jnp.linalg.svd(x), X),
    "keys": (lambda k: weft.random.normal(weft.random.wrap_key_data(k), (7,)), KEY),
    "gather": (lambda x: x[jnp.argsort(x[:, 0])].at[2].add(1.0), X),
    "checkpoint": (weft.grad(lambda x: weft.checkpoint(jnp.sin)(x).sum()), X),
    "calls": (lambda x: weft.jit(jnp.sin)(x) + weft.nn.relu(weft.jit(jnp.sin)(x)), X),
    "nothing": (lambda x: (x, x, 3.0, jnp.zeros((0, 2))), X),
    "constants": (lambda x: (x + np.arange(6, dtype=np.float32), np.float32(2)), X),
    "narrow": (lambda x: x.astype(jnp.bfloat16) * 2 + jnp.float16(1), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_found_is_what_was_planned(name, plans):
    fun, *args = PROGRAMS[name]
    first = again(fun, *args)
    begun = len(plans)
    assert begun
    same(again(fun, *args), first)
    assert len(plans) == begun


DIFFERENT = {
    "literals": (lambda x: x * 2, lambda x: x * 3),
    "zeros": (lambda x: x * 0.0, lambda x: x * -0.0),
    "parameters": (lambda x: jnp.sum(x, 0), lambda x: jnp.sum(x, 1)),
    "primitives": (jnp.sin, jnp.cos),
    "operands": (lambda x: x - x[:1], lambda x: x[:1] - x),
    "results": (lambda x: (jnp.sin(x), x), lambda x: (x, jnp.sin(x))),
    "inner programs": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c + 1, x),
        lambda x: lax.fori_loop(0, 3, lambda i, c: c - 1, x),
    ),
    "dtypes": (lambda x: x.astype(jnp.int32), lambda x: x.astype(jnp.int16)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_that_differ_have_plans_of_their_own(name, plans):
    for _ in range(2):
        for fun in DIFFERENT[name]:
            with knobs.cache_programs(False):
                want = again(fun, X)
            same(again(fun, X), want)
    key = [identity.identify(weft.make_jaxpr(fun)(X)).key(b"") for fun in DIFFERENT[name]]
    assert key[0] != key[1]


def test_types_and_knobs_are_part_of_a_program(room):
    def key(x):
        return identity.identify(weft.make_jaxpr(lambda x: x + x)(x)).key(b"")

    keys = [key(x) for x in (X, X[:3], X.astype(np.int32), 1.0, np.float32(1))]
    with weft.default_matmul_precision("highest"):
        keys.append(key(X))
    assert len(set(keys)) == len(keys)
    assert key(X) == keys[0]


def test_constants_belong_to_their_program(plans):
    """Arrays that functions close over are not in the plan, nor whether they are equal."""

    def closing(a, b):
        return lambda x: lax.fori_loop(0, 2, lambda i, c: c * a + b, x)

    three, four = (np.full(6, n, np.float32) for n in (3, 4))
    for a, b in [(three, three.copy()), (three, four), (four, three)]:
        want = (X * a + b) * a + b
        np.testing.assert_allclose(again(closing(a, b), X)[0], want, rtol=1e-6)
    assert len(plans) == 1
    np.testing.assert_allclose(again(closing(three, three), X)[0], (X * 3 + 3) * 3 + 3, rtol=1e-6)
    assert len(plans) == 2  # one array in two places is another program


def test_contents_of_arrays_are_not_written(room):
    secret = np.frombuffer(b"contents of an array", np.uint8)
    program = weft.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c ^ secret, x))
    program(np.zeros(20, np.uint8))
    later.settle()
    entries = [path.read_bytes() for path in room.iterdir()]
    assert entries and not any(b"contents of" in entry for entry in entries)


def test_functions_of_users_are_called_not_kept(plans):
    called = []

    def asking(note):
        def ask(x):
            called.append(note)
            return np.asarray(x) + np.float32(len(note))

        shape = weft.ShapeDtypeStruct(X.shape, X.dtype)
        return lambda x: jnp.sin(weft.pure_callback(ask, shape, jnp.cos(x)))

    for note in ("a", "bb", "ccc"):
        np.testing.assert_allclose(
            again(asking(note), X)[0], np.sin(np.cos(X) + len(note)), rtol=1e-5, atol=1e-6
        )
    assert called == ["a", "bb", "ccc"]
    assert len(plans) == 1


def test_effects_happen_once_a_call(plans, capfd):
    def telling(x):
        weft.debug.print("at {}", x[0, 0])
        return x + 1

    for _ in range(2):
        again(telling, X)
    weft.effects_barrier()
    assert capfd.readouterr().out == "at -2.0\n" * 2
    assert len(plans) == 1


def test_primitives_of_users_are_planned_anew(room):
    assert identity.identify(weft.make_jaxpr(lambda x: x + 1)(X)) is not None

    own = core.Primitive("own")
    own.def_abstract_eval(lambda x: x)
    assert identity.identify(weft.make_jaxpr(lambda x: own.bind(x))(X)) is None


# --- bad conditions -------------------------------------------------------------------------------


def entry_of(fun, *args):
    return identity.identify(weft.make_jaxpr(fun)(*args)).key(machine.setting()).hex()


def test_damaged_and_foreign_entries_are_planned_again(room, plans):
    fun, x = PROGRAMS["reduction"]
    want = again(fun, x)
    path = room / entry_of(fun, x)
    whole = path.read_bytes()
    head = disk._HEAD
    key = bytes.fromhex(path.name)
    middle = len(whole) // 2
    bad = [b"", whole[:40], whole[:-1], whole[:middle] + b"\xff" + whole[middle + 1 :]]
    # whole, but not what this weft writes
    bad += [disk.seal(key, payload) for payload in (b"", b"N", b"i\0", whole[head:-9], b"{0")]
    for n, data in enumerate(bad):
        path.write_bytes(data)
        same(again(fun, x), want)
        assert len(plans) == n + 2
        assert path.read_bytes() == whole


def test_another_version_of_the_source_plans_anew(plans, monkeypatch):
    fun, x = PROGRAMS["reduction"]
    want = again(fun, x)
    for stamp in (b"another", b"a third"):
        monkeypatch.setattr(identity, "source_stamp", lambda stamp=stamp: stamp)
        same(again(fun, x), want)
    assert len(plans) == 3
    monkeypatch.setattr(identity, "source_stamp", lambda: None)
    same(again(fun, x), want)
    assert len(plans) == 4


def test_source_changed_while_the_process_runs_is_noticed(room, monkeypatch):
    assert identity.source_stamp()
    identity.source_stamp.cache_clear()
    monkeypatch.setattr(identity, "BEGAN", 0.0)
    assert identity.source_stamp() is None


def test_plans_whose_code_is_gone_are_made_again(room, plans):
    fun, x = PROGRAMS["gradient"]
    want = again(fun, x)
    kept = room / entry_of(fun, x)
    for path in room.iterdir():
        if path != kept:
            path.unlink()
    machine._loaded.cache_clear()
    weft.clear_caches()
    same(again(fun, x), want)
    assert 1 <= len(plans) <= 2


def test_the_limit_of_bytes_holds_for_plans(room, plans):
    fun, x = PROGRAMS["elementwise"]
    want = again(fun, x)
    handle = os.open(room, os.O_RDONLY)
    disk.trim(handle, 0)
    os.close(handle)
    assert not list(room.iterdir())
    same(again(fun, x), want)
    assert len(plans) == 2


def test_off_is_off(tmp_path, plans):
    fun, x = PROGRAMS["elementwise"]
    for setting in (knobs.cache("off"), knobs.cache_programs(False), knobs.verify(1)):
        before = len(plans)
        with setting:
            again(fun, x)
            assert compiling._identity(weft.make_jaxpr(fun)(x), (), False) is None
            again(fun, x)
        assert len(plans) == before + 2


TWO = """
import weft, weft.numpy as jnp
from weft.backends.cpu import target
planned = []
class Planner(target.Planner):
    def program(self, *args):
        planned.append(args)
        return super().program(*args)
target.Planner = Planner
f = weft.jit(lambda x: jnp.tanh(x) * 3 + jnp.sum(x * x))
print(f(jnp.arange(5.0)).tolist(), weft.lax.fori_loop(0, 1000, lambda i, c: c * 0.5 + 1, 0.0))
print(bool(planned))
"""


def test_processes_share_what_they_planned(tmp_path):
    given = {**os.environ, "WEFT_CACHE": str(tmp_path), "WEFT_CACHE_PROGRAMS": "on"}
    command = [sys.executable, "-c", TWO]

    def run():
        return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True)

    work = [run() for _ in range(3)]
    printed = [process.communicate(timeout=600)[0].splitlines() for process in work]
    another = run().communicate(timeout=600)[0].splitlines()
    assert {lines[0] for lines in printed} == {another[0]}
    assert not [p for p in (tmp_path / disk.FOLDER).iterdir() if p.name.startswith(".")]
    # nobody plans what is known, if nobody has changed the source a moment ago
    assert another[1] == "False" or identity.source_stamp() is None


def test_a_function_without_a_module(tmp_path):
    made = {}
    exec("def larger(x, y):\n    return lax.max(x, y)", {"lax": weft.lax}, made)
    assert made["larger"].__module__ is None or made["larger"].__module__ == "builtins"
    made["larger"].__module__ = None
    with knobs.cache(str(tmp_path)), knobs.scope(cache_programs="on"):
        found = weft.jit(lambda x: weft.lax.reduce(x, -np.inf, made["larger"], (0,)))(
            np.arange(5, dtype=np.float32)
        )
    assert float(found) == 4.0
