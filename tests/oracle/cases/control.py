"""Control flow: loops, branches, scans, implicit solvers, with derivatives and batching."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, VALUE, Adder, Tol, dtype, family


@family("control_flow", Tol(32, True))
def control(add: Adder) -> None:
    """cond, switch, while_loop, fori_loop, scan, map, associative_scan in their forms."""
    for d in ("f32", "f64"):
        x = np.array([0.5, -1.0, 2.0], dtype(d))
        m = np.linspace(-1, 1, 12).reshape(4, 3).astype(dtype(d))
        for name, (fn, modes) in {**BRANCHES, **LOOPS}.items():
            add(f"{name}/{d}", fn, [x], modes=modes)
        for name, (fn, modes) in SCANS.items():
            add(f"{name}/{d}", fn, [x, m], modes=modes, each=True)
    predicates(add)


def _nested_cond(J: Any, x: Any) -> Any:
    def inner(v: Any) -> Any:
        return J.lax.cond(v[1] > 0, lambda u: u * 3, lambda u: u - 1, v)

    return J.lax.cond(x[0] > 0, inner, lambda v: v, x)


BRANCHES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "cond": (lambda J, x: J.lax.cond(x[0] > 0, J.lax.sin, J.lax.cos, x), ALL),
    "cond/false": (lambda J, x: J.lax.cond(x[1] > 0, lambda v: v * 2, lambda v: v**2, x), ALL),
    "cond/static": (lambda J, x: J.lax.cond(True, lambda v: v * 2, lambda v: v**2, x), ALL),
    "cond/int": (lambda J, x: J.lax.cond(3, lambda v: v * 2, lambda v: v**2, x), ALL),
    "cond/closure": (lambda J, x: J.lax.cond(x[0] > 0, lambda: x * 2, lambda: x * 3), ALL),
    "cond/tree": (
        lambda J, x: J.lax.cond(
            x[0] > 0,
            lambda p: {"a": p[0], "b": (p[1],)},
            lambda p: {"a": p[1], "b": (p[0],)},
            (x, x * 2),
        ),
        ALL,
    ),
    "cond/nested": (_nested_cond, ALL),
    "cond/two": (lambda J, x: J.lax.cond(x[0] > 0, J.lax.add, J.lax.mul, x, x[::-1]), ALL),
    "cond/operand": (
        lambda J, x: J.lax.cond(x[0] > 0, lambda _: x, lambda _: -x, operand=None),
        ALL,
    ),
    "cond/mixed_use": (
        lambda J, x: J.lax.cond(x[0] > 0, lambda a, b: a, lambda a, b: b * 2, x, x + 1),
        ALL,
    ),
    "switch/0": (lambda J, x: J.lax.switch(0, [J.jnp.sin, J.jnp.cos, J.jnp.exp], x), ALL),
    "switch/traced": (
        lambda J, x: J.lax.switch(J.jnp.argmax(x), [J.jnp.sin, J.jnp.cos, J.jnp.exp], x),
        ALL,
    ),
    "switch/clamp": (lambda J, x: J.lax.switch(9, [J.jnp.sin, J.jnp.cos], x), ALL),
    "switch/clamp_low": (lambda J, x: J.lax.switch(-5, [J.jnp.sin, J.jnp.cos], x), ALL),
    "switch/one": (lambda J, x: J.lax.switch(0, [J.jnp.sin], x), ALL),
    "platform": (
        lambda J, x: J.lax.platform_dependent(x, cpu=lambda v: v * 2, default=lambda v: v * 3),
        VALUE,
    ),
    "platform/default": (
        lambda J, x: J.lax.platform_dependent(x, tpu=lambda v: v * 2, default=lambda v: v * 3),
        VALUE,
    ),
}


LOOPS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "while": (
        lambda J, x: J.lax.while_loop(lambda v: v[0] < 10, lambda v: v * 2 + 1, x),
        ("value", "jit", "jvp", "vmap"),
    ),
    "while/tree": (
        lambda J, x: J.lax.while_loop(
            lambda s: s["i"] < 3,
            lambda s: {"i": s["i"] + 1, "v": J.jnp.sin(s["v"])},
            {"i": 0, "v": x},
        ),
        ("value", "jit", "jvp", "vmap"),
    ),
    "while/never": (
        lambda J, x: J.lax.while_loop(lambda v: False, lambda v: v * 2, x),
        ("value", "jit", "jvp", "vmap"),
    ),
    "while/closure": (
        lambda J, x: J.lax.while_loop(
            lambda s: s[0] < x[2] * 3, lambda s: (s[0] + 1, s[1] * x), (0.0, x)
        )[1],
        ("value", "jit", "jvp", "vmap"),
    ),
    "while/weak": (lambda J, x: J.lax.while_loop(lambda c: c < 5, lambda c: c + 1, 0), ("value",)),
    "fori": (lambda J, x: J.lax.fori_loop(0, 4, lambda i, v: J.jnp.sin(v) * i + x, x), ALL),
    "fori/empty": (lambda J, x: J.lax.fori_loop(3, 3, lambda i, v: v * 0, x), ALL),
    "fori/backwards": (lambda J, x: J.lax.fori_loop(5, 2, lambda i, v: v * 0, x), ALL),
    "fori/index": (
        lambda J, x: J.lax.fori_loop(0, 3, lambda i, v: v.at[i].add(i + v[i] ** 2), x),
        ALL,
    ),
    "fori/dynamic": (
        lambda J, x: J.lax.fori_loop(0, J.jnp.argmax(x) + 1, lambda i, v: v * 2 + i, x),
        ("value", "jit", "jvp", "vmap"),
    ),
    "fori/unroll": (
        lambda J, x: J.lax.fori_loop(0, 5, lambda i, v: v + J.jnp.sin(v), x, unroll=2),
        ALL,
    ),
    "fori/tuple": (
        lambda J, x: J.lax.fori_loop(0, 3, lambda i, s: (s[1], s[0] + s[1]), (x, x * 2)),
        ALL,
    ),
    "fori/nested": (
        lambda J, x: J.lax.fori_loop(
            0, 2, lambda i, v: J.lax.fori_loop(0, 2, lambda j, u: u * x + i * j, v), x
        ),
        ALL,
    ),
    "map": (lambda J, x: J.lax.map(lambda v: J.jnp.sin(v) ** 2, x), ALL),
    "map/batch": (lambda J, x: J.lax.map(lambda v: J.jnp.sin(v) ** 2, x, batch_size=2), ALL),
    "map/tree": (lambda J, x: J.lax.map(lambda p: {"o": p[0] * p[1]}, (x, x + 1)), ALL),
    "associative": (lambda J, x: J.lax.associative_scan(J.lax.add, x), ALL),
    "associative/mul": (lambda J, x: J.lax.associative_scan(J.lax.mul, x), ALL),
    "associative/reverse": (lambda J, x: J.lax.associative_scan(J.lax.add, x, reverse=True), ALL),
    "associative/max": (lambda J, x: J.lax.associative_scan(J.lax.max, x), ALL),
    "associative/pair": (
        lambda J, x: J.lax.associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x * 2)
        ),
        ALL,
    ),
    "custom_root": (
        lambda J, x: J.lax.custom_root(
            lambda y: y**3 + y - x,
            x,
            lambda f, y0: J.lax.fori_loop(0, 30, lambda i, y: y - f(y) / (3 * y**2 + 1), y0),
            lambda g, b: b / g(J.jnp.ones_like(b)),
        ),
        ALL,
    ),
    "linear_solve": (
        lambda J, x: J.lax.custom_linear_solve(
            lambda v: (2 + x**2) * v, x, lambda mv, b: b / (2 + x**2), symmetric=True
        ),
        ALL,
    ),
    "linear_solve/transpose": (
        lambda J, x: J.lax.custom_linear_solve(
            lambda v: _matrix(J, x) @ v,
            x,
            lambda mv, b: J.jnp.linalg.solve(_matrix(J, x), b),
            lambda mv, b: J.jnp.linalg.solve(_matrix(J, x).T, b),
        ),
        ALL,
    ),
}


def _matrix(J: Any, x: Any) -> Any:
    return 3 * J.jnp.eye(3, dtype=x.dtype) + J.jnp.outer(x, J.jnp.cos(x)) / 4


def _rnn(J: Any, x: Any, m: Any) -> Any:
    def step(h: Any, v: Any) -> Any:
        h = J.jnp.tanh(h * v + x)
        return h, (h.sum(), h * 2)

    return J.lax.scan(step, x, m)


def _nested_scan(J: Any, x: Any, m: Any) -> Any:
    def outer(c: Any, row: Any) -> Any:
        c, ys = J.lax.scan(lambda a, v: (a + v * x[0], a * v), c, row)
        return c, ys.sum()

    return J.lax.scan(outer, x[0], m)


def _scan_cond(J: Any, x: Any, m: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = J.lax.cond(v[0] > 0, lambda a: a * v, lambda a: J.jnp.sin(a), c)
        return c, c.sum()

    return J.lax.scan(step, x, m)


SCANS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "scan": (_rnn, ALL),
    "scan/nested": (_nested_scan, ALL),
    "scan/cond": (_scan_cond, ALL),
    "scan/reverse": (lambda J, x, m: J.lax.scan(lambda c, v: (c * v, c), x, m, reverse=True), ALL),
    "scan/unroll": (lambda J, x, m: J.lax.scan(lambda c, v: (c * v, c), x, m, unroll=2), ALL),
    "scan/unroll_all": (
        lambda J, x, m: J.lax.scan(lambda c, v: (c * v, c), x, m, unroll=True),
        ALL,
    ),
    "scan/unroll3": (lambda J, x, m: J.lax.scan(lambda c, v: (c + v, c * v), x, m, unroll=3), DIFF),
    "scan/length": (
        lambda J, x, m: J.lax.scan(lambda c, _: (c + J.jnp.sin(c), c), x, None, length=3),
        ALL,
    ),
    "scan/none": (lambda J, x, m: J.lax.scan(lambda c, v: (c + v, None), x, m), ALL),
    "scan/empty": (lambda J, x, m: J.lax.scan(lambda c, v: (c + v, c), x, m[:0]), ALL),
    "scan/tree": (
        lambda J, x, m: J.lax.scan(
            lambda c, v: ({"a": c["a"] + v[0], "n": c["n"] + 1}, [v[1] * c["a"]]),
            {"a": x, "n": 0},
            (m, m * 2),
        ),
        ALL,
    ),
    "scan/int_carry": (lambda J, x, m: J.lax.scan(lambda i, v: (i + 1, v * i), 0, m), ALL),
    "scan/closure": (lambda J, x, m: J.lax.scan(lambda c, v: (c + (x * v).sum(), v), 0.0, m), ALL),
    "scan/xs_only": (lambda J, x, m: J.lax.scan(lambda _, v: (None, J.jnp.exp(v)), None, m), ALL),
    "scan/weak": (lambda J, x, m: J.lax.scan(lambda c, v: (c + 1, c), 0, m), ("value", "jit")),
    "scan/checkpoint": (
        lambda J, x, m: J.lax.scan(J.checkpoint(lambda c, v: (J.jnp.sin(c * v), c)), x, m),
        ALL,
    ),
    "scan/matrix": (
        lambda J, x, m: J.lax.scan(lambda c, v: (J.jnp.outer(v, v) @ c, c.sum()), x, m),
        ALL,
    ),
    "associative/axis": (lambda J, x, m: J.lax.associative_scan(J.lax.add, m, axis=1), BATCH),
    "map/matrix": (lambda J, x, m: J.lax.map(lambda r: r * x, m), ALL),
}


def predicates(add: Adder) -> None:
    """Batched predicates and counts, integer carries, dtypes of loops."""
    flags = np.array(True)
    x = np.array([1.0, 2.0], np.float32)
    fn = lambda J, p, x: J.lax.cond(p, J.lax.sin, J.lax.cos, x)
    add("cond/predicate", fn, [flags, x], modes=ALL, each=True)
    i = np.asarray(1, np.int32)
    fn = lambda J, i, x: J.lax.switch(i, [J.lax.sin, J.lax.cos, J.lax.tanh], x)
    add("switch/index", fn, [i, x], modes=ALL, each=True)
    fn = lambda J, n, x: J.lax.fori_loop(0, n, lambda k, v: v * 2, x)
    add("fori/count", fn, [i, x], modes=("value", "jit", "jvp", "vmap"), each=True)
    fn = lambda J, n, x: J.lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + x), (0, x)
    )
    add("while/count", fn, [i, x], modes=("value", "jit", "vmap"), each=True)
    for d in ("i8", "u8", "i32", "bool", "bf16", "c64"):
        v = add.rng(d).any((3,), d)
        fn = lambda J, v: J.lax.scan(lambda c, a: (c, (a, c)), v[0], v)
        add(f"scan/dtype/{d}", fn, [v], modes=BATCH)
        fn = lambda J, v: J.lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1]), (0, v))
        add(f"while/dtype/{d}", fn, [v], modes=BATCH)
        fn = lambda J, v: J.lax.cond(True, lambda a: a, lambda a: a[::-1], v)
        add(f"cond/dtype/{d}", fn, [v], modes=BATCH)
    key = lambda J: J.lax.scan(
        lambda k, _: (J.random.split(k)[0], J.random.bits(k)), J.random.key(0), None, length=3
    )[1]
    add("scan/key", key)
    add(
        "fori/key",
        lambda J: J.lax.fori_loop(0, 3, lambda i, k: J.random.fold_in(k, i), J.random.key(0)),
    )
    add(
        "map/key",
        lambda J: J.lax.map(lambda k: J.random.uniform(k), J.random.split(J.random.key(1), 3)),
    )
    add(
        "cond/key",
        lambda J: J.lax.cond(True, lambda k: J.random.split(k)[0], lambda k: k, J.random.key(2)),
    )
