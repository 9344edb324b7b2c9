"""The table of mistakes in docs/debugging.md: each row is run, and says what the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

import weft as jax
import weft.numpy as jnp
from weft import lax

PAGE = Path(__file__).parents[2] / "docs" / "debugging.md"


def told(function, *args):
    """The error of a call with checks."""
    with jax.checks(), pytest.raises(jax.errors.CheckError) as caught:
        jax.jit(function)(*args)
    bases = " ".join(c.__name__ for c in type(caught.value).__mro__)
    return f"{bases} {caught.value}"


def gradient(function, *args, **options):
    return str(np.asarray(jax.grad(lambda *x: jnp.sum(function(*x)), **options)(*args)))


MASK = jnp.array([[True, True], [False, False]])
ROWS = jnp.where(MASK, 0.0, -jnp.inf)


def logs():
    def step(c, i):
        return jnp.log(c) * 3 - i / 8, c

    return told(lambda x: lax.scan(step, x, jnp.arange(20.0)), 5.0)


def endless():
    return told(lambda x: lax.while_loop(lambda x: ~(x > 9), step, x), jnp.float32(0.37))


def step(x):
    return jnp.sqrt(x) - 0.5


def softmax(scores):
    return jnp.where(MASK, jax.nn.softmax(scores, -1), 0.0) * jnp.array([1.0, 2.0])


def attend(scores, values):
    p = jax.nn.softmax(jnp.where(MASK, scores, -jnp.inf), axis=-1)
    return jnp.where(MASK.any(1, keepdims=True), p @ values, 0.0)


def norms(v):
    return jnp.where(jnp.any(v != 0, -1), jnp.linalg.norm(v, axis=-1), 0.0)


def variance(x):
    squares = jnp.mean(x * x)
    mean = jnp.mean(x)
    return squares - mean * mean


def loss_of_digits(function, *args):
    worst = jax.verify(function)(*args).operations[0]
    return f"{worst.name} loses {worst.digits:.1f} digits: condition {worst.condition:.1e}"


def wrong_sign():
    wrong = jax.custom_jvp(jnp.sin)
    wrong.defjvp(lambda x, t: (jnp.sin(x[0]), -jnp.cos(x[0]) * t[0]))
    (failure,) = jax.verify(wrong)(1.0).failures
    return f'"{failure.name}" failed'


def smaller_batch():
    f = jax.jit(lambda batch: batch["x"].sum())
    f({"x": jnp.ones((8, 3))})
    with jax.no_recompiles(), pytest.raises(jax.errors.RecompileError) as caught:
        f({"x": jnp.ones((5, 3))})
    return str(caught.value)


def redefined():
    with jax.explain_recompiles() as report:
        for rate in (0.1, 0.2):
            jax.jit(lambda w: w * rate)(jnp.ones(3))  # noqa: B023
    return str(report)


class Cfg:
    def __repr__(self):
        return "Cfg()"


def without_eq():
    f = jax.jit(lambda x, mode: x, static_argnames="mode")
    with jax.explain_recompiles() as report:
        f(1.0, mode=Cfg())
        f(1.0, mode=Cfg())
    return str(report)


# By the beginning of a row: what runs, and what its result has in it.
CASES = {
    "a NaN in an iteration": (logs, "log made nan: log(-0.11", "iteration 10 of the loop"),
    "`x[12]`": (
        lambda: told(lambda x, i: x[i], jnp.arange(10.0), 12),
        "IndexError",
        "dynamic_slice got index 12 for axis 0 of size 10",
    ),
    "`8 // 0`": (
        lambda: told(lambda x, d: x // d, jnp.array([8, 8]), jnp.array([2, 0])),
        "ZeroDivisionError",
        "div divided by zero at [1]: 8 // 0",
    ),
    "`8 % 0`": (
        lambda: told(lambda x, d: x % d, jnp.array([8, 8]), jnp.array([2, 0])),
        "ZeroDivisionError",
        "rem divided by zero at [1]: 8 % 0",
    ),
    "a `while_loop` whose": (endless, "sqrt made nan: sqrt(-0.170946)", "iteration 2 of the loop"),
    "70000 * 70000": (
        lambda: told(lambda x: x * x, jnp.array([70000], jnp.int32)),
        "OverflowError",
        "mul overflowed int32 at [0]: 70000 * 70000",
    ),
    "`grad` of `where(x > 0": (
        lambda: gradient(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0), 0.0),
        "0.0",
    ),
    "`grad` of a norm": (
        lambda: gradient(norms, jnp.array([[0.0, 0.0], [3.0, 4.0]])),
        "[0.  0. ]",
    ),
    "`grad` of a softmax": (lambda: gradient(softmax, ROWS), "[ 0.    0.  ]"),
    "`grad` of attention": (
        lambda: gradient(attend, jnp.zeros((2, 2)), jnp.ones((2, 3)), argnums=1),
        "[[0.5 0.5 0.5]\n [0.5 0.5 0.5]]",
    ),
    "the variance": (
        lambda: loss_of_digits(
            variance, np.random.default_rng(0).normal(1000, 1, 500).astype(np.float32)
        ),
        "sub loses 5.9 digits: condition 9.4e+05",
    ),
    "`log(1 + x)`": (
        lambda: loss_of_digits(lambda x: jnp.log(1 + x), jnp.float32(1e-5)),
        "log loses 4.1 digits",
    ),
    "a wrong sign": (wrong_sign, '"jvp against finite differences" failed'),
    "the last batch": (smaller_batch, "batch['x']: shape (8, 3) → (5, 3)"),
    "`jit` of a lambda": (redefined, "a new function object", "variable rate: 0.1 → 0.2"),
    "a static argument": (
        without_eq,
        "mode: static value Cfg() → Cfg() (equal in print; define __eq__ and __hash__)",
    ),
}


def cells():
    text = PAGE.read_text(encoding="utf-8").split("| what goes wrong |")[1].split("\n\n")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return {line[2:].split(" | ")[0]: line.split(" | ")[2].strip(" |") for line in lines}


def test_every_row_is_run():
    rows = cells()
    assert len(rows) == len(CASES) >= 10
    for case in CASES:
        assert sum(row.startswith(case) for row in rows) == 1, case


@pytest.mark.parametrize("case", CASES)
def test_the_row_says_what_happens(case):
    run, *parts = CASES[case]
    (page,) = [cell for row, cell in cells().items() if row.startswith(case)]
    plain = re.sub("[`…]", "", page)
    got = run()
    for part in parts:
        assert part in got, got
    found = re.findall(r"\d+\.?\d*", got)
    for number in re.findall(r"\d+\.\d+|\d{2,}", plain):
        same = [n for n in found if n.startswith(number) or float(n) == float(number)]
        assert same, (number, got)
