"""Integers that wrap, divisors of zero and indices: every operation that can do so is looked at."""

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from tests.samples import all_samples
from weft import lax
from weft.core.registry import lookup

# Operations on integers whose result always fits, or whose bits are meant to drop out.
FITS = """
abs and argmax argmin axis_index broadcast_in_dim clamp clz concatenate copy copy_p cummax cummin
dynamic_slice dynamic_update_slice eq eq_to gather ge gt iota le le_to lt lt_to
lu_pivots_to_permutation max min mulhi name ne not optimization_barrier or pad partition
population_count reduce_and reduce_max reduce_min reduce_or reduce_window_max reduce_window_min
reduce_xor rem reshape reshard rev scatter scatter-max scatter-min select_n shift_left
shift_right_arithmetic shift_right_logical sharding_constraint sign slice sort split squeeze stack
stage stop_gradient tile top_k transpose unstack xor device_put dim_as_value from_edtype to_edtype
""".split()
# What moves elements between devices or references; what it becomes is looked at there.
MOVES = """
addupdate all_gather all_to_all empty_ref free_ref freeze get new_ref parts_to_shared pbroadcast
pcast pmax pmin ppermute pshared pvary ragged_all_to_all shared_to_parts swap dce_sink
""".split()
# Sums over devices, which documentation names as not looked at.
OVER_DEVICES = ["parts_to_sum", "psum", "reduce_scatter", "sum_to_parts"]


def test_every_operation_on_integers_is_looked_at_or_never_wraps():
    names = {s.prim for s in all_samples() if "int32" in s.dtypes}
    known = {*FITS, *MOVES, *OVER_DEVICES} - {"abs"}
    missing = sorted(n for n in names - known if not lookup(n).overflows)
    assert not missing
    assert not sorted(n for n in known & names if lookup(n).overflows)


M = np.full((2, 3), 70000, np.int32)
I = np.array([0, 0, 1], np.int32)
LEAST = np.int32(-(2**31))
WRAPS = {
    "add": lambda m: m + 2147483000,
    "sub": lambda m: -m - 2147483000,
    "mul": lambda m: m * m,
    "square": jnp.square,
    "integer_pow": lambda m: m**3,
    "reduce_sum": lambda m: jnp.sum(m * 30000, 1),
    "reduce_prod": lambda m: jnp.prod(m, 1),
    "cumsum": lambda m: jnp.cumsum(m * 30000, 1),
    "cumprod": lambda m: jnp.cumprod(m, 1),
    "neg": lambda m: -(m - 70000 + LEAST),
    "abs": lambda m: abs(m - 70000 + LEAST),
    "div": lambda m: lax.div(m - 70000 + LEAST, m // -70000),
    "convert_element_type": lambda m: m.astype(jnp.int16),
    "dot_general": lambda m: m @ m.T,
    "conv_general_dilated": lambda m: lax.conv(m[None, None], m[None, None], (1, 1), "VALID"),
    "reduce_window_sum": lambda m: lax.reduce_window(
        m * 20000, 0, lax.add, (1, 2), (1, 1), "VALID"
    ),
    "scatter-add": lambda m: jnp.full(3, 2**31 - 5).at[I].add(m[0]),
    "scatter-sub": lambda m: jnp.full(3, -(2**31) + 5).at[I].subtract(m[0]),
    "scatter-mul": lambda m: m[0].at[I].multiply(m[1]),
}
ZEROS = {
    "div": [lambda m: m // (m - 70000), lambda m: lax.div(m, m - 70000)],
    "rem": [
        lambda m: m % (m - 70000),
        lambda m: jnp.divmod(m, m - 70000)[1],
        lambda m: jnp.fmod(m, m - 70000),
        lambda m: lax.rem(m, m - 70000),
        lambda m: jnp.remainder(m * 1.0, m - 70000.0),
    ],
}


@pytest.mark.parametrize("name", WRAPS)
def test_wrapping_is_found(name):
    function = WRAPS[name]
    for wrapped, x in ((jax.jit(function), M), (jax.jit(jax.vmap(function)), M[None])):
        with jax.checks(), pytest.raises(OverflowError, match=f"{name} overflowed int(32|16)"):
            wrapped(x)
    with jax.checks(), pytest.raises(OverflowError, match="overflowed"):
        function(jnp.asarray(M))


@pytest.mark.parametrize("name", ZEROS)
def test_divisors_of_zero_are_found(name):
    for function in ZEROS[name]:
        for wrapped, x in ((jax.jit(function), M), (jax.jit(jax.vmap(function)), M[None])):
            with jax.checks(), pytest.raises(ZeroDivisionError, match="divided by zero at"):
                wrapped(x)
        with jax.checks(), pytest.raises(ZeroDivisionError):
            function(jnp.asarray(M))
        jax.jit(function)(M)
    guarded = jax.jit(lambda m, d: jnp.where(d == 0, 0, m % d))
    with jax.checks():
        assert guarded(M, M - 70000).tolist() == [[0] * 3] * 2


def test_references():
    x = np.arange(1, 5, dtype=np.float32)

    def reads(x, i):
        r = jax.new_ref(x)
        return r[i] * 2

    def reads_several(x, i):
        r = jax.new_ref(x)
        return r[jnp.stack([i, i])]

    def writes(x, i):
        r = jax.new_ref(x)
        r[i] = 2.0
        return jax.freeze(r)

    def writes_several(x, i):
        r = jax.new_ref(x)
        r[jnp.stack([i, i])] = jnp.ones(2)
        return jax.freeze(r)

    def adds(x, i):
        r = jax.new_ref(x)
        jax.ref.addupdate(r, i, 1.0)
        return jax.freeze(r)

    def slices(x, i):
        r = jax.new_ref(x)
        return r[jax.ds(i, 2)]

    def in_a_loop(x, i):
        r = jax.new_ref(x)

        def step(k, total):
            return total + r[i + k]

        return jax.lax.fori_loop(0, 2, step, 0.0)

    for function in (reads, reads_several, writes, writes_several, adds, slices, in_a_loop):
        want = jax.jit(function)(x, 2)
        jax.jit(function)(x, 7)  # unchecked code first: its index is moved inside
        f = jax.jit(function)
        for wrapped, xs, at in ((f, x, 7), (jax.jit(jax.vmap(function)), x[None], I[:1] + 7)):
            with jax.checks(), pytest.raises(IndexError, match="got index 7"):
                wrapped(xs, at)
        with jax.checks():
            np.testing.assert_array_equal(f(x, 2), want)
        np.testing.assert_array_equal(f(x, 7), jax.jit(lambda *a, g=function: g(*a))(x, 7))
        with jax.checks(), pytest.raises(IndexError, match="got index 7"):
            function(jnp.asarray(x), jnp.asarray(7))


def test_nans_in_references():
    def g(r, i):
        r[i] = jnp.log(r[i])

    r = jax.new_ref(jnp.arange(4.0) - 1)
    with jax.checks(), pytest.raises(FloatingPointError, match=r"log made nan: log\(-1\)"):
        jax.jit(g)(r, 0)
    assert r[0] == -1  # the call that failed wrote nothing
    with jax.checks():
        jax.jit(g)(r, 2)
    assert r[2] == 0


def test_loops_and_branches_outside_of_jit():
    """Small ones are run by NumPy where nothing is checked."""
    x, i, one = jnp.arange(4.0), jnp.asarray(7), jnp.asarray(1)
    mistakes = {
        IndexError: lambda k: x[i + k],
        ZeroDivisionError: lambda k: (one // (k - k)) * 1.0,
        OverflowError: lambda k: (2147483647 * one + k + 1) * 1.0,
    }
    for error, wrong in mistakes.items():
        for function in (
            lambda w: lax.fori_loop(0, 2, lambda k, t: t + w(k), 0.0),
            lambda w: lax.cond(one > 0, lambda k: w(k), lambda k: 0.0, one),
            lambda w: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, w(s[0])), (0, 0.0)),
        ):
            function(wrong)
            with jax.checks(), pytest.raises(error):
                function(wrong)


def test_programs_that_stop_are_explained():
    with jax.checks():
        told = str(jax.explain(jax.jit(lambda x: jnp.log(x) @ x), quiet=True)(np.eye(3)))
    assert "stop_if" in told
    assert "stops the program if a check has failed" in told
