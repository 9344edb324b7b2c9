"""Native functions written in Python: what they compute, and what is refused."""

import ctypes
import itertools

import numpy as np
import pytest

import weft
from weft.backends.llvm.code import Effort
from weft.backends.llvm.native import processor
from weft.backends.llvm.native.machine import load_keyed
from weft.backends.llvm.text.stub import StubError, called_stubs, translate
from weft.kernel.kinds import (
    External,
    any_lane,
    bits,
    clock,
    f32,
    f64,
    fabs,
    fma,
    i8,
    i32,
    i64,
    invoke,
    kind_of,
    ptr,
    root,
    select,
    shuffle,
    stack,
    static,
    truth,
    u8,
    u32,
    u64,
    unrolled,
    values,
    void,
)

_C = {
    i64: ctypes.c_int64,
    i32: ctypes.c_int32,
    u32: ctypes.c_uint32,
    u64: ctypes.c_uint64,
    u8: ctypes.c_uint8,
    i8: ctypes.c_int8,
    f32: ctypes.c_float,
    f64: ctypes.c_double,
    ptr: ctypes.c_void_p,
    void: None,
}
NUMBER = 7
K = V = WHOLE = u32  # stubs are given other kinds


def native(*stubs, result=i64, given=(i64,), **options):
    """The last of some stubs as a Python function."""
    name = stubs[-1].__name__
    made = translate(stubs, **options)
    region = load_keyed(str(made), lambda: made)
    kind = ctypes.CFUNCTYPE(_C[result], *(_C[k] for k in given))
    call = kind(region.symbols[name])
    call.region = region
    return call


def test_arithmetic_and_loops():
    def collatz(n: i64) -> i64:
        """How many steps lead to one."""
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n //= 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    assert [native(collatz)(n) for n in (1, 6, 27)] == [0, 8, 111]


def test_division_is_the_machines():
    def quotient(a: i64, b: i64) -> i64:
        return a // b * 100 + a % b

    call = native(quotient, given=(i64, i64))
    assert call(7, 2) == 301 and call(-7, 2) == -301


def test_break_continue_and_ranges():
    def odd_sum(n: i64) -> i64:
        total = 0
        for i in range(n, 0, -1):
            if i % 2 == 0:
                continue
            if i > 100:
                break
            total += i
        return total

    def table(n: i64) -> i64:
        total = 0
        for i in range(2, n):
            for j in range(NUMBER):
                total += i * j
        return total

    assert native(odd_sum)(10) == 25 and native(odd_sum)(201) == 0
    assert native(table)(5) == sum(i * j for i in range(2, 5) for j in range(7))


def test_conditions_look_no_further_than_they_must():
    def first_large(p: ptr, n: i64, least: i64) -> i64:
        i = 0
        while i < n and i64[p, i] < least:
            i += 1
        return i if i < n or n == 0 else -1

    data = np.array([1, 5, 9])
    call = native(first_large, given=(ptr, i64, i64))
    assert [call(data.ctypes.data, 3, k) for k in (0, 6, 10)] == [0, 2, -1]


def test_memory_of_every_kind():
    def swap_ends(p: ptr, n: i64) -> void:
        x = K[p, 0]
        K[p, 0] = K[p, n - 1]
        K[p, n - 1] = x

    for code in "bhiqBHIQfd":
        data = np.arange(1, 6).astype(code)
        names = {"K": kind_of(data.dtype)}
        call = native(swap_ends, result=void, given=(ptr, i64), names=names)
        call(data.ctypes.data, 5)
        assert data.tolist() == [5, 2, 3, 4, 1]


def test_pointers_move_by_bytes():
    def third(p: ptr) -> i32:
        q = p + 8
        return i32[q, 0] if q else 0

    data = np.array([3, 4, 5], np.int32)
    assert native(third, result=i32, given=(ptr,))(data.ctypes.data) == 5


def test_kinds_are_converted():
    def through(x: f64) -> i64:
        a = i64(u8(i64(x)))
        b = i64(i8(i64(x)))
        c = i64(f32(x))
        return a * 1_000_000 + b * 1000 + c

    assert native(through, given=(f64,))(200.75) == 200 * 1_000_000 - 56 * 1000 + 200

    def pattern(x: f32) -> u32:
        return bits(u32, x) ^ 1

    assert native(pattern, result=u32, given=(f32,))(1.0) == 0x3F800001


def test_signs_decide_comparisons_shifts_and_extremes():
    def signed(a: i64, b: i64) -> i64:
        return max(a, b) * 10 + (1 if a < b else 0) + (a >> 1)

    def unsigned(a: u64, b: u64) -> u64:
        return min(a, b) * 10 + (u64(1) if a < b else 0) + (~a >> 1)

    assert native(signed, given=(i64, i64))(-4, 3) == 30 + 1 - 2
    call = native(unsigned, result=u64, given=(u64, u64))
    assert call(2**64 - 1, 3) == 30


def test_stubs_call_each_other_and_private_ones_vanish():
    def square(x: i64) -> i64:
        return x * x

    def sum_of_squares(x: i64, y: i64) -> i64:
        return square(x) + square(y)

    assert native(square, sum_of_squares, given=(i64, i64))(3, 4) == 25
    call = native(square, sum_of_squares, given=(i64, i64), private=["square"])
    assert call(3, 4) == 25
    both = translate([square, sum_of_squares], private=["square"])
    assert both.function("square").internal
    other = translate([square, sum_of_squares], outside=["square"])
    assert other.declared == {"square": "declare i64 @square(i64)"} and len(other.functions) == 1


def applied(f: ptr, *given: i64) -> values:
    """Straight code that calls a function with as many numbers as it is given."""
    return invoke(i64, f, *[i64(x) for x in given])


def test_functions_at_addresses_and_outside():
    def apply(f: ptr, x: i64) -> i64:
        return invoke(i64, f, x, 1) + 1

    def apply_all(f: ptr, x: i64) -> i64:
        return applied(f, x, 1) + 1

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    def minus(x, y):
        return x - y

    address = ctypes.cast(minus, ctypes.c_void_p).value
    assert native(apply, given=(ptr, i64))(address, 10) == 10
    assert native(apply_all, given=(ptr, i64))(address, 10) == 10

    def outside(x: f64) -> f64:
        return cos(x)  # noqa: F821

    made = translate([outside], {"cos": External(f64, (f64,))})
    assert made.declared["cos"] == "declare double @cos(double)"


def test_memory_on_the_stack_and_time():
    def reversed_sum(n: i64) -> i64:
        memory = stack(800)
        for i in range(n):
            i64[memory, i] = i
        total = 0
        for i in range(n - 1, -1, -1):
            total = total * 2 + i64[memory, i]
        return total

    assert native(reversed_sum)(4) == ((3 * 2 + 2) * 2 + 1) * 2

    def later(n: i64) -> i64:
        return clock()

    call = native(later)
    assert call(0) < call(0)


@pytest.mark.parametrize("level", [0, 2])
def test_the_clock_of_other_machines(level, monkeypatch):
    """It is read there, too: a clock that stands still would never let anybody see signals."""
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(processor, "architecture", lambda: "aarch64")

    def later(n: i64) -> i64:
        return clock()

    module = llvm.parse_assembly(str(translate([later])))
    machine = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine(opt=level)
    assert "CNTVCT_EL0" in machine.emit_assembly(module)


def test_plain_loops_compute_the_same():
    def total(p: ptr, n: i64) -> i64:
        sum_ = 0
        i = 0
        while i < n:
            sum_ += i64[p, i]
            i += 1
        for i in range(n):
            sum_ += i64[p, i]
        return sum_

    data = np.arange(100)
    for plain in (False, True):
        call = native(total, given=(ptr, i64), plain=plain)
        assert call(data.ctypes.data, 100) == 2 * data.sum()
    assert translate([total], plain=True).effort is Effort.INLINE


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_loops_whose_length_is_known(turns):
    def total(n: i64, *, TURNS: static) -> i64:
        found = 0
        for i in range(TURNS):
            for j in range(3, 3 + TURNS, 2):
                if i + j == n:
                    continue
                if i == 5:
                    break
                found += 10 * i + j
        return found

    def meant(n):
        pairs = [(i, j) for i in range(turns) for j in range(3, 3 + turns, 2)]
        return sum(10 * i + j for i, j in pairs if i + j != n and i != 5)

    for n in (0, 3, 6):
        assert native(total, names={"TURNS": turns})(n) == meant(n)
    text = str(translate([total], names={"TURNS": turns}))
    assert ("icmp slt" in text) == (turns > 1)
    assert ("mul" in text) == (turns > 0)


def test_vectors():
    """Numbers stand for all lanes, and comparisons choose in each of them."""

    def clipped(at: ptr, count: i64, *, LANES: static) -> i64:
        held = stack(count * 4)
        found = i64(0)
        for i in unrolled(count):
            x = V[at, i]
            V[at, i] = fma(x, V(i64(2)), 1.0) if fabs(x) < 2.0 else -root(fabs(x))
            WHOLE[held, 0] = (~bits(WHOLE, x)) ^ -1
            if any_lane(V[held, 0] != x):
                return -1
            found += i64(f32[held, LANES - 1])
        return found

    for lanes in (4, 8):
        names = {"V": f32.of(lanes), "WHOLE": u32.of(lanes), "LANES": lanes}
        call = native(clipped, given=(ptr, i64), names=names)
        x = np.linspace(-9, 9, 3 * lanes, dtype=np.float32)
        want = np.where(np.abs(x) < 2, x * 2 + 1, -np.sqrt(np.abs(x)))
        got = x.copy()
        assert call(got.ctypes.data, 3) == x[lanes - 1 :: lanes].astype(int).sum()
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert f32.of(1) is f32 and f32.of(4) is f32.of(4)


def test_kinds_of_vectors_stay_when_caches_are_cleared():
    before = f32.of(4)
    weft.clear_caches()
    assert f32.of(4) is before


def test_names_are_numbers_and_kinds():
    def scaled(x: K, *, SCALE: static) -> K:
        if SCALE == 0:
            return x
        return x * SCALE

    assert native(scaled, names={"K": i64, "SCALE": 3})(5) == 15
    assert native(scaled, names={"K": i64, "SCALE": 0})(5) == 5


def refused(stub, words, **options):
    with pytest.raises(StubError, match=words):
        translate([stub], **options)


def test_static_parameters_are_not_assigned():
    def wrong(n: i64, *, SCALE: static) -> i64:
        if n > 0:
            SCALE = n
        return SCALE

    refused(wrong, "wrong: SCALE is static and is not assigned", names={"SCALE": 3})


def test_static_parameters_are_all_given():
    """Also those of what a stub calls, and of straight code."""

    def scaled(x: i64, *, SCALE: static, LANES: static) -> i64:
        return x * SCALE + LANES

    refused(scaled, "scaled is not given SCALE, LANES")
    refused(scaled, "scaled is not given LANES", names={"SCALE": 3})
    names = {"SCALE": 3, "LANES": 1}
    assert native(scaled, names=names)(5) == 16
    refused(scaled, "scaled is not given SCALE", names={"SCALES": 3, "LANES": 1})

    def calls(n: i64) -> i64:
        return total_of(n, n)

    refused(calls, "total_of is not given SCALE")
    assert native(calls, names={"SCALE": 3})(5) == 25
    assert native(calls, names=names)(5) == 25  # families of stubs share one table


def total_of(x: values, y: values, *, SCALE: static) -> values:
    return x * SCALE + doubled(y)


def doubled(x: values, *, SCALE: static) -> values:
    return x * (SCALE - 1)


def test_mistakes_are_told():
    def mixed(x: i64, y: f64) -> i64:
        return x + y

    def unknown(x: i64) -> i64:
        return x + what  # noqa: F821

    def endless(x: i64) -> i64:
        while x < 3:
            x += 1

    def dead(x: i64) -> i64:
        return x
        x += 1

    def halved(x: i64) -> i64:
        return x / 2

    def unannotated(x: "i64") -> i64:
        return x

    def other(x: i64) -> i64:
        with x:
            return x

    refused(mixed, "f64 where i64 belongs")
    refused(unknown, "what has no value")
    refused(endless, "without a result")
    refused(dead, "nothing leads here")
    refused(halved, "no such operation of i64")
    refused(unannotated, "annotated with kinds")
    refused(other, "no such statement")


def test_a_stub_is_not_run_by_python():
    for call in (lambda: i64[0, 0], lambda: u32(1), lambda: stack(8), clock, lambda: truth(1)):
        with pytest.raises(TypeError, match="not run by Python"):
            call()


def test_what_given_numbers_rule_out_is_left_out():
    def unwanted(x: i64) -> i64:
        return x + 1

    def chosen(x: i64, *, CHOICE: static) -> i64:
        if CHOICE == 1:
            return unwanted(x)
        if not CHOICE or x > 5:
            x = x * 3
        if CHOICE < 1:
            return x
        return x - 1

    build = lambda n: native(
        unwanted, chosen, given=(i64,), private=["unwanted"], names={"CHOICE": n}
    )
    assert [build(n)(7) for n in range(3)] == [21, 8, 20]
    text = str(translate([unwanted, chosen], {"CHOICE": 0}, ["unwanted"]))
    assert "unwanted" not in text and "sub i64" not in text


def test_stubs_of_single_values_are_called_with_vectors():
    def clipped(x: K) -> K:
        return min(x, K(NUMBER))

    def both(at: ptr, count: i64) -> i64:
        V[at, 0] = clipped(V[at, 0])
        return i64(clipped(K(count)))

    names = {"K": i64, "V": i64.of(4)}
    call = native(clipped, both, given=(ptr, i64), private=["clipped"], names=names)
    x = np.array([5, 6, 7, 8])
    assert call(x.ctypes.data, 9) == NUMBER
    assert x.tolist() == [5, 6, 7, 7]


def test_written_numbers_are_computed_with_at_once():
    def written(x: i64, *, CHOICE: static) -> i64:
        return x + i64(CHOICE**2 - 7 // 2)

    call = native(written, given=(i64,), names={"CHOICE": 5})
    assert call(1) == 1 + 22


def test_lists_are_values_in_registers():
    def sorted_by(p: ptr, *, PAIRS: static) -> i64:
        rows = [i64[p, i] for i in unrolled(4)]
        for a, b in PAIRS:
            rows[a], rows[b] = min(rows[a], rows[b]), max(rows[a], rows[b])
        total = 0
        for x in rows:
            total = 10 * total + x
        return total

    pairs = [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    call = native(sorted_by, given=(ptr,), names={"PAIRS": pairs})
    for order in itertools.permutations([1, 2, 3, 4]):
        assert call(np.array(order).ctypes.data) == 1234


def test_names_of_given_numbers_and_of_variables_change_places():
    def both(n: i64, *, PAIRS: static) -> i64:
        total = 0
        for i in range(n):
            total += i
        for i in PAIRS:
            if i == 7:
                total += 1000 * i
        for i in range(n):
            total += i
        return total

    assert native(both, names={"PAIRS": [7, 8]})(3) == 7006


def test_shuffles_and_arrays():
    def picked(p: ptr, k: i64, *, ORDER: static, TABLE: static) -> u32:
        x = WHOLE[p, 0]
        WHOLE[p, 0] = shuffle(x, x + WHOLE[TABLE, 0], ORDER)
        return u32[TABLE, k]

    table = np.array([100, 200, 300, 400], np.uint32)
    names = {"WHOLE": u32.of(4), "ORDER": [3, 4, 0, 7], "TABLE": table}
    call = native(picked, result=u32, given=(ptr, i64), names=names)
    x = np.arange(4, dtype=np.uint32)
    assert call(x.ctypes.data, 2) == 300
    assert x.tolist() == [3, 100, 0, 403]


# --- straight code --------------------------------------------------------------------------------


def rotated(re: values, im: values, turns: int) -> values:
    """Values turned so many quarters to the left."""
    for _ in range(turns):
        re, im = [-x for x in im], re
    return re, im


def weighted(xs: values, by: f64) -> values:
    """A sum with growing weights, in one value."""
    total = xs[0] * 0.0
    for k, x in enumerate(xs):
        total = fma(x, total * 0.0 + k, total)
    return total * by


def shifted(p: ptr, step: i64) -> values:
    """Two numbers, moved by as many places."""
    f64[p, step], f64[p + 8, step] = f64[p, 0] * 2.0, f64[p, 1] + f64(step)


def test_straight_code_is_written_where_it_is_called():
    def both(p: ptr, n: i64) -> f64:
        re = [f64[p, k] for k in unrolled(2)]
        im = [f64[p, k + 2] for k in unrolled(2)]
        if n > 1:
            re, im = rotated(re, im, 1)
        else:
            re, im = rotated(re, im, 2)
        for _ in range(n):
            re, im = rotated(re, im, 3)
            re[0] = re[0] + 1.0
        shifted(p, i64(2))
        f64[p, 4], f64[p, 5] = im[0], im[1]
        return weighted(re, 0.5)

    def wanted(x, n):
        re, im = x[:2].copy(), x[2:4].copy()
        for _ in range(1 if n > 1 else 2):
            re, im = -im, re
        for _ in range(n):
            for _ in range(3):
                re, im = -im, re
            re[0] += 1.0
        return [0.5 * re[1], *im]

    call = native(both, result=f64, given=(ptr, i64))
    for n in range(4):
        x = np.arange(1.0, 7.0)
        want = wanted(x.copy(), n)
        assert [call(x.ctypes.data, n), *x[4:]] == want
        assert x[2:4].tolist() == [2.0, 4.0]
    assert "call" not in str(translate([both])).replace("call double @llvm.fmuladd", "")


def chosen(x: f64, y: f64, k: i64) -> values:
    """The larger of two values over one that is not k, and whether that is a number."""
    below = select(y != f64(k), y, 1.0)
    return select(x > y, x, y) / below, select(y == y, k, 0)


def test_straight_code_chooses():
    def both(p: ptr, k: i64) -> void:
        f64[p, 2], i64[p, 3] = chosen(f64[p, 0], f64[p, 1], k)

    call = native(both, result=void, given=(ptr, i64))
    for x, y, want in [(6.0, 4.0, 1.5), (6.0, 3.0, 6.0), (1.0, 8.0, 1.0), (2.0, np.nan, np.nan)]:
        p = np.array([x, y, 0.0, 0.0])
        call(p.ctypes.data, 3)
        np.testing.assert_array_equal(p[2], want)
        assert p[3:].view(np.int64) == (0 if np.isnan(y) else 3)


def halved(x: f64, k: i64) -> f64:
    for _ in range(k):
        x = x * 0.5
    return x


def halves(x: f64, k: i64) -> values:
    return halved(x, k) + halved(x, 1)


def test_straight_code_calls_stubs():
    def both(x: f64, k: i64) -> f64:
        return halves(x, k)

    stubs = called_stubs([both])
    assert {f.__name__ for f in stubs} == {"both", "halved"}
    call = native(halved, both, result=f64, given=(f64, i64), private=["halved"])
    assert call(8.0, 3) == 5.0


def mixed_up(x: f64, k: i64) -> values:
    return x + k


def test_values_of_straight_code_have_kinds():
    def wrong(x: f64, k: i64) -> f64:
        return mixed_up(x, k)

    with pytest.raises(TypeError, match="i64 where f64 belongs"):
        translate([wrong])
