"""Denormal numbers: flushed in programs however they run, and the caller's mode kept for Python."""

import ctypes
import signal
import threading
import time

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.modules import module
from weft import lax
from weft.backends.cpu.calls import first, first_runs
from weft.backends.llvm.calls.dispatch import native, supported
from weft.backends.llvm.native import float_mode, loader, pool
from weft.backends.llvm.native.compiling import compile_now
from weft.backends.llvm.native.float_mode import Flushing, flush_bits
from weft.backends.llvm.native.machine import compile_one
from weft.base import knobs
from weft.core.interpret import flushed

pytestmark = pytest.mark.skipif(not supported(), reason="no native programs on this machine")

TYPES = ["float32", "float64", "bfloat16"]


@pytest.fixture
def loaded():
    native(wait=True)


def edges(dtype):
    """Pairs of denormal numbers, their neighbours and others."""
    info = jnp.finfo(dtype)
    least, tiny = float(info.smallest_subnormal), float(info.tiny)
    some = [
        least,
        -least,
        tiny / 2,
        -tiny / 2,
        tiny,
        -tiny,
        1.5 * tiny,
        0.0,
        -0.0,
        1.0,
        -2.0,
        np.inf,
    ]
    x = np.array(some, dtype)
    return np.repeat(x, len(x)), np.tile(x, len(x))


def is_flushing():
    read, _, kind, word = float_mode._functions()
    found = kind()
    read(found)
    return found[word] & flush_bits() != 0


def bits(tree):
    return [np.asarray(x).tobytes() for x in weft.tree.leaves(tree)]


# --- what is flushed ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 1 << 18])
def test_products_and_sums(loaded, count):
    x = jnp.full(count, 2e-38, np.float32)
    half, sum_of = weft.jit(lambda x: x * 0.5), weft.jit(lambda x: x + 1e-40)
    y = np.full(count, 1e-40, np.float32)
    for _ in range(3):  # by Python's walker or by native code, with and without the pool
        assert not np.any(half(x))
        np.testing.assert_array_equal(sum_of(x), x)
        assert not np.any(x * 0.5)
        assert not np.any(jnp.asarray(y) * 4.0)
    with knobs.denormals("keep"):
        for _ in range(3):
            np.testing.assert_array_equal(half(x), np.full(count, np.float32(2e-38) / 2))
            np.testing.assert_array_equal(jnp.asarray(y) * 4.0, y * 4)
    assert not np.any(half(x))


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_a_state_that_decays(backend):
    w = jnp.eye(16) * 0.5

    @weft.jit
    def run(h):
        return lax.scan(lambda h, _: (jnp.tanh(h @ w), None), h, None, length=40)[0]

    h = jnp.full((8, 16), 2.0**-100)
    with knobs.backend(backend):
        assert not np.any(run(h))
        with knobs.denormals("keep"):
            np.testing.assert_array_equal(run(h), np.full((8, 16), 2.0**-140, np.float32))


EXACT = {
    **{name: getattr(lax, name) for name in "neg abs sign floor ceil round sqrt square".split()},
    **{name: getattr(lax, name) for name in "add sub mul div rem max min nextafter".split()},
    **{name: getattr(lax, name) for name in "eq ne lt le gt ge".split()},
    "cube": lambda x: lax.integer_pow(x, 3),
    "inverse": lambda x: lax.integer_pow(x, -1),
    "same": lambda x: lax.integer_pow(x, 1),
    "clamp": lambda x, y: lax.clamp(-lax.abs(y), x, lax.abs(y)),
    "select": lambda x, y: lax.select(x > y, x, y),
    "copysign": jnp.copysign,
    "signbit": jnp.signbit,
    "truth": lambda x: x.astype(bool),
    "half": lambda x: x.astype(np.float16),
    "brain": lambda x: x.astype(ml_dtypes.bfloat16),
    "single": lambda x: x.astype(np.float32),
    "double": lambda x: x.astype(np.float64),
    "complex": lambda x: lax.complex(*(v.astype(np.float32) for v in (x, -x))),
    "extremum": lambda x: jnp.max(x.reshape(12, 12)[:, :9], 1),
}


@pytest.mark.parametrize("dtype", [*TYPES, "float16"])
def test_every_way_gives_the_same_bits(loaded, dtype):
    """Operations that NumPy computes for small arrays at first, and native code afterwards."""
    with weft.enable_x64():
        x, y = edges(dtype)
        for name, function in EXACT.items():
            unary = {"truth", "half", "brain", "single", "double", "complex", "extremum"}
            unary |= {"neg", "abs", "sign", "floor", "ceil", "round", "sqrt", "square", "signbit"}
            args = (x,) if name in unary | {"cube", "inverse", "same"} else (x, y)
            if name == "inverse":
                args = (x[x != 0],)
            args = [jnp.asarray(a) for a in args]
            with knobs.backend("reference"):
                want = bits_but_nan(function(*args))
            for _ in range(3):
                assert bits_but_nan(function(*args)) == want, name
            if name in ("select", "extremum"):
                # by instructions that flush on one machine and not on the other
                small = ml_dtypes.finfo(dtype).tiny
                got, known = (np.asarray(f(*args)) for f in (weft.jit(function), function))
                got, known = (np.where(np.abs(v) < small, 0, v) for v in (got, known))
                np.testing.assert_array_equal(got, known)
                continue
            assert bits_but_nan(weft.jit(function)(*args)) == want, name


def bits_but_nan(x):
    x = np.asarray(x)
    return (np.where(x == x, x, np.ones((), x.dtype))).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_arithmetic_takes_them_for_zeros(dtype):
    with weft.enable_x64():
        x, y = edges(dtype)
        zeroed = [flushed(v) for v in (x, y)]
        with np.errstate(all="ignore"):
            for function, plain in ((lax.add, np.add), (lax.mul, np.multiply)):
                want = flushed(plain(*zeroed))
                assert bits_but_nan(weft.jit(function)(x, y)) == bits_but_nan(want)
        np.testing.assert_array_equal(weft.jit(lax.gt)(x, y), zeroed[0] > zeroed[1])
        np.testing.assert_array_equal(weft.jit(lax.sign)(x), np.sign(zeroed[0]))
        positive = np.abs(x)
        got = np.asarray(weft.jit(jnp.log)(positive))
        assert np.all(np.isneginf(got[flushed(positive) == 0]))


@pytest.mark.parametrize("dtype", TYPES)
def test_bits_are_kept_by_what_moves_them(dtype):
    with weft.enable_x64():
        x, y = edges(dtype)
        moves = [
            (lambda x, y: x.reshape(12, 12).T, x.reshape(12, 12).T),
            (lambda x, y: -x, -x),
            (lambda x, y: abs(x), np.abs(x)),
            (jnp.copysign, np.copysign(x, y)),
            (lax.nextafter, np.nextafter(x, y)),
            (lambda x, y: x[3::5], x[3::5]),
            (lambda x, y: jnp.concatenate([y, x]), np.concatenate([y, x])),
            (lambda x, y: jnp.where(jnp.signbit(x), x, y), np.where(np.signbit(x), x, y)),
            (lambda x, y: x.at[1:3].set(y[7]), np.concatenate([x[:1], y[[7, 7]], x[3:]])),
        ]
        for function, want in moves:
            got = np.asarray(weft.jit(function)(x, y))
            assert bits_but_nan(got) == bits_but_nan(want.astype(got.dtype))
        ordered = np.asarray(jnp.sort(x))
        np.testing.assert_array_equal(ordered, np.sort(x.astype(np.float64)).astype(x.dtype))


def test_half_precision_has_no_mode():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    np.testing.assert_array_equal(weft.jit(lambda x: x * np.float16(2))(every / 4), every / 4 * 2)
    np.testing.assert_array_equal(
        weft.jit(lambda x: x.astype(np.float32))(every), every.astype(np.float32)
    )
    wide = every.astype(np.float32)
    np.testing.assert_array_equal(weft.jit(lambda x: x.astype(np.float16))(wide), every)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_of_denormal_numbers(dtype):
    info = np.finfo(dtype)
    x = np.array(
        [info.smallest_subnormal, -3 * info.smallest_subnormal, info.tiny / 2, 0, 8], dtype
    )
    with weft.enable_x64():
        for function in (jnp.frexp, weft.jit(jnp.frexp)):
            mantissa, exponent = function(x)
            np.testing.assert_array_equal(mantissa, np.frexp(x)[0])
            np.testing.assert_array_equal(exponent, np.frexp(x)[1])
        up = weft.jit(lambda x: jnp.ldexp(x, info.nmant + 9))(x)
        np.testing.assert_array_equal(up, np.ldexp(x, info.nmant + 9))
        assert not np.any(weft.jit(lambda x: jnp.ldexp(x, info.minexp - 9))(np.abs(x)))


@pytest.mark.parametrize("repeats", [1, 1000])
@pytest.mark.parametrize("dtype", [*TYPES, "float16"])
def test_positions_are_those_of_a_comparison(dtype, repeats):
    with weft.enable_x64():
        x = np.tile(edges(dtype)[0], repeats)
        for mode in ("flush", "keep"):
            with knobs.denormals(mode):
                (found,) = jnp.nonzero(jnp.asarray(x))
                np.testing.assert_array_equal(found, np.nonzero(jnp.asarray(x) != 0)[0])


def test_thread_counts_do_not_matter(loaded):
    x, y = edges(np.float32)
    x, y = np.tile(x, 2000), np.tile(y, 2000)
    program = weft.jit(lambda x, y: (x * y, x + y, jnp.tanh(x) - y, jnp.maximum(x, y)))
    found = []
    for count in (1, 2, 4):
        with knobs.num_threads(count):
            program(x, y)
            found.append(bits(program(x, y)))
    assert found[0] == found[1] == found[2]


# --- the mode of the caller -----------------------------------------------------------------------


def test_a_scope_of_the_mode():
    assert flush_bits() != 0
    assert not is_flushing()
    with Flushing():
        assert is_flushing()
        with Flushing(False):
            assert is_flushing()
    assert not is_flushing()


@pytest.mark.parametrize("calls", [1, 20])
def test_python_never_sees_the_mode(loaded, calls):
    seen = []

    def note(x):
        seen.append(is_flushing())
        return np.float32(2e-38) * x  # NumPy's own arithmetic keeps denormal numbers

    @weft.jit
    def program(x):
        weft.debug.callback(note, x)
        y = weft.pure_callback(note, x, x * 1.0)
        return lax.fori_loop(0, 3, lambda i, y: y * 0.5 + weft.pure_callback(note, x, y), y)

    for _ in range(calls):
        program(np.float32(0.25))
        weft.effects_barrier()
        assert not is_flushing()
    assert len(seen) == 5 * calls
    assert not any(seen)


def test_errors_give_the_mode_back(loaded):
    def fail(x):
        raise ValueError("wrong")

    program = weft.jit(lambda x: weft.pure_callback(fail, x, x * 2) * 0.5)
    for _ in range(20):
        with pytest.raises(weft.errors.JaxRuntimeError, match="wrong"):
            program(np.float32(1))
        assert not is_flushing()


def test_signals_in_a_loop_see_the_callers_mode(loaded):
    spin = weft.jit(lambda x: lax.while_loop(lambda x: x > 0, lambda x: x * 1.0000001, x))
    seen = []

    def stop(*_):
        seen.append(is_flushing())
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            spin(jnp.ones((), np.float32))
            time.sleep(60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert seen == [False]
    assert not is_flushing()


def test_a_mode_of_the_callers_own_stays(loaded):
    program = weft.jit(lambda x: x * 0.5)
    with Flushing():
        for _ in range(20):
            program(np.float32(1))
            assert is_flushing()
        with knobs.denormals("keep"):  # of programs: what their caller has set is the caller's
            program(np.float32(1))
            assert is_flushing()
    assert not is_flushing()


def test_threads_have_modes_of_their_own(loaded):
    program, x = weft.jit(lambda x: x * 0.5), np.full(1 << 16, 2e-38, np.float32)
    wrong = []

    def work(mode):
        with knobs.denormals(mode):
            for _ in range(50):
                if np.any(program(x)) != (mode == "keep") or is_flushing():
                    wrong.append(mode)

    threads = [threading.Thread(target=work, args=(mode,)) for mode in ("flush", "keep") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_pool_takes_the_callers_mode(monkeypatch):
    """Kernels started by Python, with the pool and without."""
    monkeypatch.setattr(first_runs, "_WORTH_S", 1e-12)
    text = """
define void @scaled(ptr %buffers, i64 %start, i64 %stop) {
entry:
  %data = load ptr, ptr %buffers
  br label %loop
loop:
  %i = phi i64 [ %start, %entry ], [ %next, %loop ]
  %at = getelementptr float, ptr %data, i64 %i
  %x = load float, ptr %at
  %y = fmul float %x, 0.5
  store float %y, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
    code = compile_one(module(text), "scaled")
    share = first_runs.Sharer(loader.load(compile_now(first.SHARE)))
    for run in (pool.run, first_runs.run, share):
        for flushes in (True, False):
            x = np.full(1 << 16, 2e-38, np.float32)
            where = (ctypes.c_void_p * 1)(x.ctypes.data)
            with knobs.num_threads(3):
                run(code, where, 0, x.size, 1 << 10, flushes)
            assert np.any(x) == (not flushes)
            assert np.all(x == x[0])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_texts_of_other_machines_verify(machine, monkeypatch):
    monkeypatch.setattr(float_mode, "architecture", lambda: machine)
    for word in float_mode.words().values():
        llvm.parse_assembly(str(word.definition)).verify()
