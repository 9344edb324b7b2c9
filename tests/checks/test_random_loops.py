"""Random loops with logarithms, roots and choices: a NaN in a result is never missed, and a loop
whose rounds make none raises nothing."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

X = np.float32([-1, 0.25, 3])
ROUNDS = 4
SEEDS = [seed if seed < 40 else pytest.param(seed, marks=pytest.mark.full)
         for seed in range(300)]  # fmt: skip


def drawn(seed):
    """A body as a list of operations on the carry, an argument, and earlier values."""
    rng = np.random.default_rng(seed)
    names = ["log", "sqrt", "add", "mul", "where", "where of the round"]
    chances = [0.2, 0.15, 0.2, 0.1, 0.25, 0.1]
    eqns = [
        (str(rng.choice(names, p=chances)), *rng.integers(0, 4 + j, 2), rng.integers(0, 3))
        for j in range(rng.integers(3, 7))
    ]
    outs, row = rng.integers(0, 4 + len(eqns), 3), rng.integers(0, 4 + len(eqns))
    way = str(rng.choice(["scan", "fori_loop", "while_loop", "nested", "vmap"]))
    return eqns, outs, row, way, rng.integers(0, 3), bool(rng.integers(0, 2))


def body_of(program, x, np, made):
    """One round; ``made`` gets each value that it computes."""
    eqns, outs, row, *_ = program
    masks = [x > 0, x < 2, x > -9]
    compute = {
        "log": lambda a, b, m, i: np.log(a),
        "sqrt": lambda a, b, m, i: np.sqrt(a - 0.5),
        "add": lambda a, b, m, i: a * 0.5 + b,
        "mul": lambda a, b, m, i: a * b * 0.3,
        "where": lambda a, b, m, i: np.where(masks[m], a, b),
        "where of the round": lambda a, b, m, i: np.where(i > m, a, b),
    }

    def body(carry, i):
        values = [*carry, x * 1.0]
        for name, a, b, m in eqns:
            values.append(compute[name](values[a], values[b], m, i))
            made.append(values[-1])
        return tuple(values[k] for k in outs), values[row]

    return body


def expected(program, x):
    """The results by NumPy, and whether any value of any round is NaN."""
    *_, way, place, guard = program
    made, rows, carry = [], [], (x, x * 0 + 1, x * 0 + 0.5)
    body = body_of(program, x, np, made)
    with np.errstate(all="ignore"):
        for i in range(ROUNDS):
            carry, row = body(carry, i)
            rows.append(row)
    results = [carry[place], *(rows if way not in ("fori_loop", "while_loop") else [])]
    results = [np.where(x > 0, r, 0.0) for r in results] if guard else results
    return results, any(np.isnan(v).any() for v in made)


def compiled(program, x):
    *_, way, place, guard = program
    body, carry = body_of(program, x, jnp, []), (x, x * 0 + 1, x * 0 + 0.5)
    rows = ()
    if way == "fori_loop":
        carry = lax.fori_loop(0, ROUNDS, lambda i, c: body(c, i)[0], carry)
    elif way == "while_loop":
        step = lambda s: (s[0] + 1, body(s[1], s[0])[0])
        carry = lax.while_loop(lambda s: s[0] < ROUNDS, step, (0, carry))[1]
    elif way == "nested":
        numbers = jnp.arange(ROUNDS).reshape(2, -1)
        carry, rows = lax.scan(lambda c, i: lax.scan(body, c, i), carry, numbers)
        rows = rows.reshape(ROUNDS, -1)
    else:
        carry, rows = lax.scan(body, carry, jnp.arange(ROUNDS))
    results = [carry[place], *rows]
    return [jnp.where(x > 0, r, 0.0) for r in results] if guard else results


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed):
    program = drawn(seed)
    results, in_a_round = expected(program, X)
    bad = any(np.isnan(r).any() for r in results)
    if program[3] == "vmap":
        one = lambda v: [r[0] for r in compiled(program, v[None])]
        f = weft.jit(weft.vmap(one))
    else:
        f = weft.jit(lambda x: compiled(program, x))
    error = None
    with weft.checks(nan=True):
        try:
            f(X)
        except FloatingPointError as found:
            error = str(found)
    assert error is not None or not bad
    assert error is None or in_a_round
    assert error is None or "not available" not in error, error
