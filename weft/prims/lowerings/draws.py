"""Draws by rejection: all elements attempt together until each has been accepted.

`random_draws` names the methods.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.kernel.counts import MOST, stirling_tail
from weft.prims.families import element, scalar
from weft.prims.lowerings.tools import (
    I32,
    bind,
    bits,
    convert,
    dtype_of,
    fill,
    like,
    repeat_while,
    spread,
    where,
)
from weft.prims.random import layout
from weft.prims.shape import reshape


def _child(keys: Any, count: int, number: int) -> Any:
    """One of the keys that keys are split into."""
    return element(bind("random_split", keys, shape=(count,), **layout()), np.ndim(keys), number)


def _uniform(keys: Any, dtype: Any, shape: tuple[int, ...] = ()) -> Any:
    """Numbers from 0 to 1, an array of them for each key."""
    info = dtypes.finfo(dtype)
    width, unsigned = 8 if info.nmant < 8 else info.bits, np.dtype(f"uint{info.bits}")
    count = (prod(shape),) if shape else ()
    raw = bind("random_bits", keys, bit_width=width, shape=count, **layout())
    raw = convert(reshape(raw, (*np.shape(keys), *shape)), unsigned)
    one = np.array(1.0, dtype)
    shifted = bind("shift_right_logical", raw, like(raw, width - info.nmant))
    filled = bind("or", shifted, like(raw, int(one.view(unsigned))))
    found = bits(filled, dtype)
    return bind("sub", found, like(found, 1))


def _by_key(draw: Callable[..., Any], keys: Any, *operands: Any) -> Any:
    """What is drawn for keys; one after the other, if their generator may draw for several from
    the first alone."""
    if dtype_of(keys).name == "key<fry>" or not np.ndim(keys):
        return draw(keys, *operands)
    rank, shape = np.ndim(keys), np.shape(operands[0])
    rows = [reshape(x, (prod(np.shape(keys)), *np.shape(x)[rank:])) for x in (keys, *operands)]
    step = stage(lambda *xs: [draw(*xs)], [typeof(x).update(shape=np.shape(x)[1:]) for x in rows])
    (drawn,) = bind(
        "scan", *rows, jaxpr=step, length=np.shape(rows[0])[0], reverse=False, num_consts=0,
        num_carry=0, unroll=1,
    )  # fmt: skip
    return reshape(drawn, shape)


def _log(x: Any) -> Any:
    return bind("log", x, accuracy=None)


def _any(x: Any) -> Any:
    axes = tuple(range(np.ndim(x)))
    return bind("reduce_or", x, axes=axes) if axes else x


def _not(x: Any) -> Any:
    return bind("not", x)


def _both(*tests: Any) -> Any:
    found, *others = tests
    for other in others:
        found = bind("and", found, other)
    return found


class _Numbers:
    """Arithmetic of arrays with numbers of one dtype."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, value: Any) -> Any:
        return scalar(self.dtype, np.dtype(self.dtype).type(value))

    def of(self, x: Any) -> Any:
        return x if hasattr(x, "shape") and not np.isscalar(x) else self(x)

    def add(self, x: Any, y: Any) -> Any:
        return bind("add", self.of(x), self.of(y))

    def sub(self, x: Any, y: Any) -> Any:
        return bind("sub", self.of(x), self.of(y))

    def mul(self, x: Any, y: Any) -> Any:
        return bind("mul", self.of(x), self.of(y))

    def div(self, x: Any, y: Any) -> Any:
        return bind("div", self.of(x), self.of(y))


# --- the gamma distribution -----------------------------------------------------------------------


def _normal(keys: Any, dtype: Any) -> Any:
    f = _Numbers(dtype)
    one = np.array(1.0, dtype)
    low = np.nextafter(-one, 0 * one)
    u = f.add(f.mul(_uniform(keys, dtype), (one - low)[()]), low[()])
    u = bind("max", spread(f(low[()]), np.shape(u), ()), u)
    return f.mul(np.sqrt(2), bind("erf_inv", u))


def _positive_roots(keys: Any, c: Any, going: Any) -> tuple[Any, Any]:
    """The first normal number x of each key with 1 + c x > 0, and that root."""
    f, shape = _Numbers(dtype_of(c)), np.shape(c)

    def test(c: Any, keys: Any, x: Any, root: Any, going: Any) -> Any:
        return _any(going)

    def step(c: Any, keys: Any, x: Any, root: Any, going: Any) -> list[Any]:
        drawn = _normal(_child(keys, 2, 1), f.dtype)
        found = f.add(1, f.mul(drawn, c))
        x, root = where(going, drawn, x), where(going, found, root)
        again = _both(going, bind("le", found, f(0)))
        return [where(again, _child(keys, 2, 0), keys), x, root, again]

    zeros, ones = fill(shape, f.dtype, 0), fill(shape, f.dtype, -1)
    _, x, root, _ = repeat_while(test, step, [keys, zeros, ones, going], [c])
    return x, root


def _cubes(keys: Any, c: Any, d: Any) -> Any:
    """The first accepted (1 + c x)**3 of each key."""
    f, shape = _Numbers(dtype_of(d)), np.shape(d)

    def test(c: Any, d: Any, keys: Any, v: Any, going: Any) -> Any:
        return _any(going)

    def step(c: Any, d: Any, keys: Any, v: Any, going: Any) -> list[Any]:
        x, root = _positive_roots(_child(keys, 3, 1), c, going)
        square, cube = f.mul(x, x), f.mul(f.mul(root, root), root)
        u = _uniform(_child(keys, 3, 2), f.dtype)
        slope = f.mul(d, f.add(f.sub(1, cube), _log(cube)))
        bound = f.sub(1, f.mul(0.0331, f.mul(square, square)))
        above = bind("ge", _log(u), f.add(f.mul(square, 0.5), slope))
        again = _both(going, bind("ge", u, bound), above)
        return [where(going, _child(keys, 3, 0), keys), where(going, cube, v), again]

    going = bind("eq", d, d)
    ones = fill(shape, f.dtype, 1)
    return repeat_while(test, step, [keys, ones, going], [c, d])[1]


def random_gamma(key: Any, a: Any, *, log_space: bool) -> Any:
    keys = bind("random_split", key, shape=(prod(np.shape(a)[np.ndim(key) :]),), **layout())
    draw = lambda keys, a: _gammas(keys, a, log_space)
    return _by_key(draw, reshape(keys, np.shape(a)), a)


def _gammas(keys: Any, a: Any, log_space: bool) -> Any:
    """A sample, or its logarithm, of Gamma(a, 1) for each key."""
    f, shape = _Numbers(dtype_of(a)), np.shape(a)
    if not prod(shape):
        return fill(shape, f.dtype, 0)
    large = bind("ge", a, f(1))
    d = f.sub(where(large, a, f.add(a, 1)), 1 / 3)
    c = f.div(1 / 3, bind("sqrt", d, accuracy=None))
    v = _cubes(_child(keys, 2, 0), c, d)
    u = _uniform(_child(keys, 2, 1), f.dtype)
    zeros, ones = fill(shape, f.dtype, 0), fill(shape, f.dtype, 1)
    if log_space:
        log_u = bind("log1p", bind("neg", u), accuracy=None)
        none = bind("or", large, bind("eq", log_u, f(0)))
        boost = where(none, zeros, f.mul(log_u, f.div(1, a)))
        return f.add(f.add(_log(d), _log(v)), boost)
    boost = where(large, ones, bind("pow", f.sub(1, u), f.div(1, a)))
    return f.mul(f.mul(d, v), boost)


# --- counts ---------------------------------------------------------------------------------------


class _Chain:
    """The keys that all elements of each key draw with, turn by turn."""

    def __init__(self, key: Any, like: Any) -> None:
        self.key, self.f = key, _Numbers(dtype_of(like))
        self.shape = np.shape(like)
        self.each = self.shape[np.ndim(key) :]

    def uniform(self, key: Any) -> Any:
        flat = _uniform(key, self.f.dtype, (prod(self.each),))
        return reshape(flat, self.shape)

    def wait(
        self, next_: int, amount: Callable[..., Any], goes: Callable[..., Any], given: list[Any]
    ) -> Any:
        """How many draws, added up, every element takes until it no longer goes on."""
        f = self.f

        def test(*values: Any) -> Any:
            return _both(_any(values[-2]), bind("lt", values[-1], np.int32(MOST)))

        def step(*values: Any) -> list[Any]:
            *given, key, count, total, going, turns = values
            drawn = amount(self.uniform(_child(key, 2, 1 - next_)), *given)
            count = where(going, f.add(count, 1), count)
            total = where(going, f.add(total, drawn), total)
            after = [_child(key, 2, next_), count, total, goes(total, *given)]
            return [*after, bind("add", turns, np.int32(1))]

        zeros = fill(self.shape, f.dtype, 0)
        carry = [self.key, zeros, zeros, goes(zeros, *given), fill((), I32, 0)]
        return f.sub(repeat_while(test, step, carry, given)[1], 1)

    def reject(self, attempt: Callable[..., Any], given: list[Any]) -> Any:
        """Attempts until all elements of a key have a number: the last that was accepted."""
        f, rank = self.f, len(self.shape)
        own = tuple(range(rank - len(self.each), rank))

        def test(*values: Any) -> Any:
            return _both(_any(_not(values[-2])), bind("lt", values[-1], np.int32(MOST)))

        def step(*values: Any) -> list[Any]:
            *given, key, found, done, turns = values
            left = _not(done)
            if own:
                left = bind("reduce_or", left, axes=own)
                left = spread(left, self.shape, range(rank - len(own)))
            draws = [self.uniform(_child(key, 3, i)) for i in (1, 2)]
            number, accepted = attempt(*draws, *given)
            accepted = _both(accepted, left)
            after = [_child(key, 3, 0), where(accepted, number, found), bind("or", done, accepted)]
            return [*after, bind("add", turns, np.int32(1))]

        nothing = fill(self.shape, np.dtype(np.bool_), False)
        carry = [self.key, fill(self.shape, f.dtype, -1), nothing, fill((), I32, 0)]
        return repeat_while(test, step, carry, given)[1]


def random_poisson(key: Any, lam: Any) -> Any:
    return _by_key(_poisson, key, lam)


def _poisson(key: Any, lam: Any) -> Any:
    chain = _Chain(key, lam)
    f, shape = chain.f, chain.shape
    if not prod(shape):
        return fill(shape, f.dtype, 0)
    small = bind("or", bind("ne", lam, lam), bind("lt", lam, f(10)))
    few = where(small, lam, fill(shape, f.dtype, 0))
    found = chain.wait(
        0, lambda u, lam: _log(u), lambda total, lam: bind("gt", total, bind("neg", lam)), [few]
    )
    many = where(small, fill(shape, f.dtype, 1e5), lam)

    def attempt(u: Any, v: Any, lam: Any) -> tuple[Any, Any]:
        b = f.add(0.931, f.mul(2.53, bind("sqrt", lam, accuracy=None)))
        a = f.add(-0.059, f.mul(0.02483, b))
        inverse = f.add(1.1239, f.div(1.1328, f.sub(b, 3.4)))
        bound = f.sub(0.9277, f.div(3.6224, f.sub(b, 2)))
        u = f.sub(u, 0.5)
        inner = f.sub(0.5, bind("abs", u))
        wide = f.mul(f.add(f.div(f.mul(2, a), inner), b), u)
        k = bind("floor", f.add(f.add(wide, lam), 0.43))
        s = _log(f.div(f.mul(v, inverse), f.add(f.div(a, f.mul(inner, inner)), b)))
        rest = f.sub(f.mul(k, _log(lam)), bind("lgamma", f.add(k, 1)))
        t = f.add(bind("neg", lam), rest)
        inside = _both(bind("ge", inner, f(0.07)), bind("le", v, bound))
        low = _both(bind("lt", inner, f(0.013)), bind("gt", v, inner))
        outside = bind("or", bind("lt", k, f(0)), low)
        return k, bind("or", inside, _both(_not(outside), bind("le", s, t)))

    found = where(small, found, chain.reject(attempt, [many]))
    return where(bind("eq", lam, f(0)), fill(shape, f.dtype, 0), found)


def _stirling_tail(f: _Numbers, k: Any) -> Any:
    """log(k!) less Stirling's approximation of it; beyond 9 that of 9."""
    *known, beyond = stirling_tail(np.dtype(f.dtype))
    found = fill(np.shape(k), f.dtype, beyond)
    whole = bind("floor", bind("max", k, f(0)))
    for i, value in enumerate(known):
        same = _both(bind("eq", whole, f(i)), bind("le", k, f(9)))
        found = where(same, fill(np.shape(k), f.dtype, value), found)
    return where(bind("ne", k, k), k, found)


def random_binomial(key: Any, n: Any, p: Any, few: Any) -> Any:
    return _by_key(_binomial, key, n, p, few)


def _binomial(key: Any, n: Any, p: Any, few: Any) -> Any:
    chain = _Chain(key, p)
    f, shape = chain.f, chain.shape
    if not prod(shape):
        return fill(shape, f.dtype, 0)
    trials = where(few, n, fill(shape, f.dtype, 0))

    def waited(u: Any, trials: Any, p: Any) -> Any:
        failure = bind("log1p", bind("neg", p), accuracy=None)
        return bind("ceil", f.div(_log(u), failure))

    found = chain.wait(1, waited, lambda spent, trials, p: bind("le", spent, trials), [trials, p])

    def attempt(u: Any, v: Any, n: Any, p: Any) -> tuple[Any, Any]:
        q = f.sub(1, p)
        deviation = bind("sqrt", f.mul(f.mul(n, p), q), accuracy=None)
        b = f.add(1.15, f.mul(2.53, deviation))
        a = f.add(f.add(-0.0873, f.mul(0.0248, b)), f.mul(0.01, p))
        bound = f.sub(0.92, f.div(4.2, b))
        r = f.div(p, q)
        alpha = f.mul(f.add(2.83, f.div(5.1, b)), deviation)
        m = bind("floor", f.mul(f.add(n, 1), p))
        u = f.sub(u, 0.5)
        inner = f.sub(0.5, bind("abs", u))
        wide = f.mul(f.add(f.div(f.mul(2, a), inner), b), u)
        k = bind("floor", f.add(wide, f.add(f.mul(n, p), 0.5)))
        s = _log(f.div(f.mul(v, alpha), f.add(f.div(a, f.mul(inner, inner)), b)))
        left, more = f.add(f.sub(n, m), 1), f.add(f.sub(n, k), 1)
        t = f.mul(f.add(m, 0.5), _log(f.div(f.add(m, 1), f.mul(r, left))))
        t = f.add(t, f.mul(f.add(n, 1), _log(f.div(left, more))))
        t = f.add(t, f.mul(f.add(k, 0.5), _log(f.div(f.mul(r, more), f.add(k, 1)))))
        t = f.add(f.add(t, _stirling_tail(f, m)), _stirling_tail(f, f.sub(n, m)))
        t = f.sub(f.sub(t, _stirling_tail(f, k)), _stirling_tail(f, f.sub(n, k)))
        inside = _both(bind("ge", inner, f(0.07)), bind("le", v, bound))
        outside = bind("or", bind("lt", k, f(0)), bind("gt", k, n))
        return k, bind("or", inside, _both(_not(outside), bind("le", s, t)))

    many = where(few, fill(shape, f.dtype, 1e4), n)
    chance = where(few, fill(shape, f.dtype, 0.5), p)
    return where(few, found, chain.reject(attempt, [many, chance]))
