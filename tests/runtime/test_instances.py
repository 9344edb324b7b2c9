"""Functions outside of `jit` on new shapes: programs in named sizes that are filled in."""

import gc
import sys
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.api.learning import Learning
from weft.backends.cpu.calls import instances
from weft.backends.llvm.calls import dispatch
from weft.backends.llvm.native import compiling
from weft.base import background, knobs
from weft.runtime import shapes

pytestmark = pytest.mark.skipif(not dispatch.supported(), reason="runs by the interpreter here")


def arrays(n, m):
    random = np.random.default_rng(n * 1000 + m)
    x = jnp.asarray(random.standard_normal((n, m)).astype(np.float32))
    return x, jnp.asarray(random.standard_normal((m, 5)).astype(np.float32))


CALLS = {
    "add": lambda x, y: x + x,
    "scale": lambda x, y: x * 2.5,
    "shift": lambda x, y: x + 3,
    "tanh": lambda x, y: jnp.tanh(x),
    "sum": lambda x, y: x.sum(0),
    "dot": lambda x, y: x @ y,
    "transpose": lambda x, y: jnp.transpose(x),
    "cumsum": lambda x, y: jnp.cumsum(x, 0),
    "softmax": lambda x, y: weft.nn.softmax(x),
    "concatenate": lambda x, y: jnp.concatenate([x, x], 1),
    "where": lambda x, y: jnp.where(x > 0, x, -x),
    "maximum": lambda x, y: jnp.maximum(x, 0.5),
    "argmax": lambda x, y: jnp.argmax(x, 1),
    "tensordot": lambda x, y: jnp.tensordot(x, y, 1),
    "einsum": lambda x, y: jnp.einsum("ij,jk->ki", x, y),
    "logsumexp": lambda x, y: weft.nn.logsumexp(x, axis=1),
    "mean": lambda x, y: x.mean(1),
    "var": lambda x, y: jnp.var(x, 0),
    "ravel": lambda x, y: jnp.ravel(x),
    "slice": lambda x, y: x[1:, :-2],
    "row": lambda x, y: x[0],
    "set": lambda x, y: x.at[1].set(2.0),
    "diff": lambda x, y: jnp.diff(x),
    "median": lambda x, y: jnp.median(x, 0),
}
SIX = ("add", "tanh", "sum", "dot", "transpose", "cumsum")
FIRST = [(20, 33), (21, 35), (23, 38), (26, 42), (30, 47), (35, 53)]
NEW = [(40, 60), (41, 67), (52, 66), (64, 99)]


def learn(call):
    """Have a call come on some shapes, and wait for what is made of that."""
    dispatch.native()
    for n, m in FIRST:
        call(*arrays(n, m))
        background.settle()


def bits(result):
    return [np.asarray(x).tobytes() for x in weft.tree.leaves(result)]


@pytest.fixture
def served(monkeypatch):
    """How many calls programs in named sizes have taken."""
    found = []
    find = shapes.Named.find

    def noted(self, dims):
        program = find(self, dims)
        found.append(program is not None)
        return program

    monkeypatch.setattr(shapes.Named, "find", noted)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_new_shape_has_the_bits_that_it_has_without_names(name, served):
    call = CALLS[name]
    learn(call)
    del served[:]
    found = [bits(call(*arrays(*shape))) for shape in NEW]
    assert any(served)
    with knobs.scope(shape_generic=False):
        assert found == [bits(call(*arrays(*shape))) for shape in NEW]
    assert found == [bits(call(*arrays(*shape))) for shape in NEW]  # by native code, by now


@pytest.mark.parametrize("name", SIX)
def test_a_new_shape_takes_few_steps_and_no_compiler(name, monkeypatch):
    call = CALLS[name]
    learn(call)
    call(*arrays(70, 71))
    given = arrays(72, 75)
    monkeypatch.setattr(compiling, "compile_parts", lambda texts: pytest.fail("LLVM was called"))
    calls = []
    gc.disable()  # what is freed meanwhile may have finalizers
    sys.setprofile(lambda frame, event, arg: calls.append(event) if event == "call" else None)
    try:
        call(*given)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert len(calls) <= 60


def test_equal_dimensions_are_one_until_they_differ(served):
    def call(x):
        return jnp.sinh(x)

    dispatch.native()
    for n in (20, 21, 22, 23):
        call(jnp.ones((n, n)))
        background.settle()
    del served[:]
    call(jnp.ones((30, 30)))
    call(jnp.ones((31, 37)))
    assert served == [True, False]
    for n in (24, 25, 26):
        call(jnp.ones((n, n + 5)))
        background.settle()
    del served[:]
    for shape in ((40, 41), (40, 40)):
        assert np.array_equal(
            call(jnp.ones(shape)), np.asarray(call(jnp.ones((1, 1)))) * np.ones(shape)
        )
    assert all(served[:1])


def test_arguments_in_lists_are_told_apart(served):
    @Learning
    def joined(x, y=None):
        return x[0] - x[1] if y is None else x[0] + y

    dispatch.native()
    for n in (20, 21, 22, 23):
        joined([jnp.ones(n), jnp.ones(n)])
        background.settle()
    x = jnp.arange(30.0)
    assert np.array_equal(joined([x, x]), np.zeros(30)) and served[-1]
    assert np.array_equal(joined([x], x), 2 * np.arange(30.0))


def test_large_arrays_get_code_of_their_own():
    def call(x):
        return jnp.cosh(x)

    learn(lambda x, y: call(x))
    big = jnp.ones((300, 301))
    first = call(big)
    assert bits(first) == bits(call(big)) == bits(call(big))


def test_what_is_deleted_is_told_of():
    learn(lambda x, y: jnp.exp2(x))
    x, _ = arrays(80, 81)
    jnp.exp2(x)
    jnp.exp2(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.exp2(x)


def test_memory_that_is_not_there_is_told_of(monkeypatch):
    learn(lambda x, y: jnp.expm1(x))
    made = []
    init = instances.Instance.__init__

    def noted(self, *args):
        init(self, *args)
        made.append(self)

    monkeypatch.setattr(instances.Instance, "__init__", noted)
    jnp.expm1(arrays(82, 83)[0])
    with pytest.raises(MemoryError, match=r"no memory for 27,224 bytes of results"):
        made[-1](-1, 0)


def test_threads_fill_in_their_own():
    learn(lambda x, y: jnp.arctan(x))
    wrong = []

    def work(first):
        for n in range(first, first + 40):
            x, _ = arrays(n, n + 3)
            if not np.allclose(jnp.arctan(x), np.arctan(np.asarray(x)), atol=1e-6):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(k * 50 + 100,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_knob_turns_it_off(served):
    with knobs.scope(shape_generic=False):
        learn(lambda x, y: jnp.arcsinh(x))
    assert not served
