"""Public functions on concrete arrays: they learn, and nobody can tell but by the time."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.api.learning import PROGRAMS, VARIANTS, Learning


def learner(function):
    """What a public function calls inside of its boundary."""
    found = [c.cell_contents for c in function.__closure__ or ()]
    return next((x for x in found if isinstance(x, Learning)), None)


def entries(function):
    return len(learner(function)._entries[1]) if hasattr(learner(function), "_entries") else 0


@pytest.fixture(autouse=True)
def native():
    with weft.base.knobs.backend("native"):
        yield


CALLS = {
    "mean": lambda x: jnp.mean(x),
    "var": lambda x: jnp.var(x, axis=0, keepdims=True),
    "median": lambda x: jnp.median(x),
    "softmax": lambda x: weft.nn.softmax(x),
    "clip": lambda x: jnp.clip(x, -0.5, 1),
    "concatenate": lambda x: jnp.concatenate([x, x * 2]),
    "split": lambda x: jnp.split(x, 2),
    "allclose": lambda x: jnp.allclose(x, x),
    "norm": lambda x: jnp.linalg.norm(x),
    "roll": lambda x: jnp.roll(x, 2),
    "method": lambda x: x.cumsum(),
    "lax": lambda x: lax.reduce_max(x, (0,)),
    "ufunc": lambda x: jnp.add(x, 1.5),
    "power": lambda x: jnp.power(x, 3),
    "nested lists": lambda x: jnp.block([[x, x], [x, x]]),
    "linspace": lambda x: jnp.linspace(0.0, 1.0, 7),
    "iota": lambda x: lax.broadcasted_iota("int32", (2, 3), 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_the_same_bits(name):
    x = jnp.asarray(np.random.default_rng(0).standard_normal(50), jnp.float32)
    found = [weft.tree.leaves(CALLS[name](x)) for _ in range(4)]
    for later in found[1:]:
        for a, b in zip(found[0], later, strict=True):
            assert a.aval == b.aval
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    with weft.disable_jit():
        plain = weft.tree.leaves(CALLS[name](x))
    for a, b in zip(found[0], plain, strict=True):
        assert a.aval == b.aval
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)


def test_native_code_answers():
    weft.clear_caches()  # other tests may have called these with other arguments
    x = jnp.arange(12.0)
    for _ in range(6):
        jnp.ptp(x, axis=0)
    if weft.backends.llvm.calls.dispatch.supported():
        weft.backends.llvm.calls.dispatch.native()
        for _ in range(3):
            jnp.ptp(x, axis=0)
        assert entries(jnp.ptp) == 1
        for _ in range(6):
            lax.iota("int32", 17)
        assert entries(lax.iota) == 1


def test_programs_are_traced_as_they_are_written():
    x = jnp.arange(5.0)
    for _ in range(3):
        jnp.sum(x)
    text = str(weft.make_jaxpr(jnp.sum)(x))
    assert "reduce_sum" in text and "jit" not in text
    assert weft.grad(lambda x: jnp.sum(x * x))(x).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert weft.vmap(jnp.sum)(jnp.ones((3, 4))).tolist() == [4.0, 4.0, 4.0]


def test_what_depends_on_values_stays_so():
    for row in ([1, 0, 2, 0], [0, 0, 0, 1], [1, 1, 1, 1]):
        x = jnp.array(row)
        (found,) = jnp.nonzero(x)
        assert found.tolist() == np.nonzero(row)[0].tolist()
        assert jnp.unique(x).tolist() == np.unique(row).tolist()


def test_what_is_no_array_stays_so():
    x = jnp.arange(6.0)
    for _ in range(3):
        assert jnp.shape(x) == (6,) and type(jnp.ndim(x)) is int
        assert jnp.iscomplexobj(x) is False
        assert jnp.real(x) is x


def test_powers_look_at_their_exponent():
    x, two = jnp.arange(1.0, 4.0), jnp.asarray(2)
    for _ in range(3):
        assert str(weft.make_jaxpr(lambda x: jnp.power(x, 2))(x)).count("integer_pow") == 1
        np.testing.assert_array_equal(jnp.power(x, two), np.array([1.0, 4.0, 9.0]))


def test_errors_are_those_of_the_function():
    x = jnp.arange(6.0)
    for _ in range(3):
        jnp.reshape(x, (2, 3))
        with pytest.raises(TypeError, match="reshape"):
            jnp.reshape(x, (2, 4))
        with pytest.raises(ValueError):
            jnp.sum(x, axis=1)


def test_settings_that_never_come_back_cost_no_programs():
    x = jnp.arange(100.0)
    for _ in range(2):
        for shift in range(VARIANTS + 5):
            assert jnp.roll(x, shift)[0] == (100 - shift) % 100
    assert max(learner(jnp.roll)._variants.values()) <= VARIANTS


def test_many_types_cost_no_more_than_some_programs():
    for n in range(1, PROGRAMS + 8):
        assert jnp.sum(jnp.ones(n, jnp.int32)) == n
    assert len(learner(jnp.sum)._variants) <= PROGRAMS


def test_the_interpreter_learns_nothing():
    weft.clear_caches()
    with weft.base.knobs.backend("reference"):
        for _ in range(3):
            jnp.var(jnp.arange(4.0))
    assert not learner(jnp.var)._seen


def test_settings_of_weft_are_told_apart():
    x = np.arange(4.0)
    for _ in range(3):
        assert jnp.mean(x).dtype == jnp.float32
        with weft.enable_x64(True):
            assert jnp.mean(x).dtype == jnp.float64


def test_numpy_arrays_are_read_anew():
    x = np.zeros(4, np.float32)
    first = jnp.flip(x)
    x[0] = 5
    assert first.tolist() == [0.0] * 4
    for k in range(4):
        x[0] = k
        assert jnp.flip(x).tolist() == [0.0, 0.0, 0.0, k]


def test_keys_and_their_numbers():
    key = weft.random.key(3)
    found = [weft.random.normal(key, (4,)).tolist() for _ in range(4)]
    assert found == [found[0]] * 4


def test_which_argument_a_setting_is_matters():
    x = jnp.arange(4.0)
    for _ in range(3):
        assert jnp.subtract(2, x).tolist() == [2.0, 1.0, 0.0, -1.0]
        assert jnp.subtract(x, 2).tolist() == [-2.0, -1.0, 0.0, 1.0]
