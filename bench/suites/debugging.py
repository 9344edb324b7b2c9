"""What finding mistakes costs: training steps with it on and off, next to JAX's nearest thing."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from bench.rows import Program, Row, same
from bench.suites import models

ROWS: list[Row] = []


# --- calls: verify_rate, no_recompiles, no_transfers, explain_recompiles --------------------------


def _small_call(scope: Any) -> Any:
    """Calls of a small compiled function in a scope."""

    def setup(jax: Any) -> Any:
        f = jax.jit(lambda x, y: x * y + 1)
        x = jax.numpy.ones(8)
        for _ in range(20):
            f(x, x)

        def run() -> Any:
            with scope(jax):
                for _ in range(CALLS):
                    y = f(x, x)
            return y

        return run

    return setup


CALLS = 1000
# weft's scope, JAX's nearest one, and what weft may take of JAX's time.
SCOPES = {
    "off": (lambda jax: nullcontext(), lambda jax: nullcontext(), 0.2),
    "no_recompiles": (lambda jax: jax.no_recompiles(), lambda jax: jax.no_tracing(True), 0.2),
    "no_transfers": (
        lambda jax: jax.no_transfers(),
        lambda jax: jax.transfer_guard("disallow"),
        1.0,
    ),
    "explain_recompiles": (
        lambda jax: jax.explain_recompiles(),
        lambda jax: jax.explain_cache_misses(True),
        1.0,
    ),
    "log_recompiles": (
        lambda jax: _knob(jax, "log_recompiles", True),
        lambda jax: _knob(jax, "jax_log_compiles", True),
        0.2,
    ),
    "verify_rate 0.001": (
        lambda jax: _knob(jax, "verify_rate", 0.001),
        lambda jax: nullcontext(),
        1.0,
    ),
}


@contextmanager
def _knob(jax: Any, name: str, value: Any) -> Any:
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _verified(jax: Any) -> Any:
    """A layer and its loss, verified in all ways but other schedules, which compile."""
    jnp = jax.numpy

    def loss(w: Any, x: Any) -> Any:
        return jnp.mean(jnp.tanh(x @ w) ** 2)

    w, x = jnp.ones((16, 4)) * 0.1, jnp.ones((8, 16))
    if hasattr(jax, "verify"):
        check = jax.verify(loss, schedules=False)
        return lambda: check(w, x).check().ok
    from jax.test_util import check_grads

    return lambda: check_grads(loss, (w, x), order=1)


ROWS += [
    Row(
        f"calls, {name}",
        "a call on 8 elements in a scope that watches it",
        {"weft": _small_call(ours), "jax": _small_call(theirs)},
        per=CALLS,
        ratio=ratio,
    )
    for name, (ours, theirs, ratio) in SCOPES.items()
]
ROWS += [
    Row(
        "verify",
        "a layer run in other ways, in float64, and differentiated; JAX: check_grads",
        same(_verified),
        unit="ms",
        ratio=3.0,
    )
]


# --- training steps: gradients that where does not poison -----------------------------------------


def _mlp(jax: Any) -> tuple[Any, Any]:
    return models.sgd(jax, models.mlp_loss(jax)), models.mlp_arguments()


def _language(jax: Any) -> tuple[Any, Any]:
    return models.adam(jax, models.language_loss(jax)), models.language_arguments(2)


def _distances(jax: Any) -> tuple[Any, Any]:
    """Steps on distances between points, each its own neighbour at distance zero."""
    jnp = jax.numpy

    def loss(points: Any) -> Any:
        squares = jnp.sum((points[:, None] - points[None]) ** 2, -1)
        distances = jnp.where(squares > 0, jnp.sqrt(squares), 0.0)
        return jnp.mean((distances - 1.0) ** 2)

    return models.sgd(jax, loss), (models.weights()(512, 3),)


STEPS = {"MLP": _mlp, "transformer of 2": _language, "distances": _distances}


def _where(step: Any, safe: bool) -> Any:
    def setup(jax: Any) -> Program:
        function, args = step(jax)
        scope = getattr(jax, "safe_where_gradients", None)

        def run(*args: Any) -> Any:
            with nullcontext() if scope is None else scope(safe):
                return function(*args)

        return Program(run, args)

    return setup


ROWS += [
    Row(
        f"where gradients {'on' if safe else 'off'}: {name}",
        "a training step whose branches that where did not take contribute zero"
        if safe
        else "the same step with JAX's gradients",
        same(_where(step, safe)),
        unit="ms",
        ratio=1.0,
        limit=60.0,
    )
    for name, step in STEPS.items()
    for safe in (False, True)
]


# --- training steps: errors inside compiled code --------------------------------------------------


def _checked(step: Any, scope: Any) -> Any:
    def setup(jax: Any) -> Program:
        function, args = step(jax)
        function = jax.jit(function)

        def run(*args: Any) -> Any:
            with scope(jax):  # around the call: it says what is compiled, and what is run
                return function(*args)

        return Program(run, args, compiled=False)

    return setup


def _checkified(step: Any) -> Any:
    def setup(jax: Any) -> Program:
        from jax.experimental import checkify

        function, args = step(jax)
        # its index checks raise IndexError while they trace the gather of a cross-entropy
        errors = checkify.float_checks
        checked = jax.jit(checkify.checkify(function, errors=errors))

        def run(*args: Any) -> Any:
            error, out = checked(*args)
            error.throw()
            return out

        return Program(run, args, compiled=False)

    return setup


_off = lambda jax: nullcontext()
# weft's scope, and JAX's nearest thing.
CHECKS: dict[str, tuple[Any, Any]] = {
    "off": (_off, lambda step: _checked(step, _off)),
    "nan": (
        lambda jax: jax.checks(nan=True),
        lambda step: _checked(step, lambda jax: jax.debug_nans(True)),
    ),
    "all": (lambda jax: jax.checks(), _checkified),
}
ROWS += [
    Row(
        f"checks {kind}: {name}",
        "a training step; JAX: debug_nans for nan, checkify of floats for all",
        {"weft": _checked(step, ours), "jax": theirs(step)},
        unit="ms",
        ratio=1.0,
        limit=60.0,
    )
    # JAX's gradient of distances is NaN, which its checks refuse
    for name, step in (("MLP", _mlp), ("transformer of 2", _language))
    for kind, (ours, theirs) in CHECKS.items()
]


def _wide_mlp(jax: Any) -> tuple[Any, Any]:
    return models.sgd(jax, models.mlp_loss(jax)), models.mlp_arguments(8192)


def _residual(jax: Any) -> tuple[Any, Any]:
    return models.sgd(jax, models.resnet_loss(jax)), models.resnet_arguments()


# Steps that follow each other in one scope: a device that is asked once at its end may run on.
FOLLOWING = 10


def _followed(step: Any, scope: Any) -> Any:
    def setup(jax: Any) -> Program:
        function, args = step(jax)
        function = jax.jit(function)

        def run(*args: Any) -> Any:
            with scope(jax):
                for _ in range(FOLLOWING):
                    found = function(*args)
            return found

        return Program(run, args, compiled=False)

    return setup


def checked_steps(more: dict[str, Any] | None = None, **settings: Any) -> list[Row]:
    """Rows of training steps that follow each other, with checks and without."""
    steps = {"MLP": _mlp, "MLP of 8,192": _wide_mlp, "transformer of 2": _language}
    steps |= {"ResNet-18": _residual, **(more or {})}
    return [
        Row(
            f"checks {kind}: {name}, steps in a row",
            f"one of {FOLLOWING} training steps in a scope; JAX: the same, debug_nans for nan",
            {"weft": _followed(step, ours), "jax": _followed(step, theirs)},
            per=FOLLOWING,
            unit="ms",
            ratio=1.0,
            limit=60.0,
            **settings,
        )
        for name, step in steps.items()
        for kind, ours, theirs in (
            ("off", _off, _off),
            ("nan", CHECKS["nan"][0], lambda jax: jax.debug_nans(True)),
            ("all", CHECKS["all"][0], _off),
        )
    ]


# --- batched loops with elements of different lengths, and the same bits everywhere ---------------


def _lengths(size: int, skewed: bool) -> Any:
    """Rounds of each element: at random, or for all the mean of these."""
    found = np.minimum(np.random.default_rng(0).geometric(0.1, size), 1000)
    found[size // 2] = 100
    return (found if skewed else np.full(size, round(found.mean()))).astype(np.int32)


def _numbers_loop(size: int, skewed: bool) -> Any:
    """A loop of single numbers, mapped."""

    def setup(jax: Any) -> Program:
        def one(n: Any) -> Any:
            step = lambda s: (jax.numpy.sin(s[0]) * 1.01 + 0.1, s[1] - 1)
            return jax.lax.while_loop(lambda s: s[1] > 0, step, (np.float32(0.5), n))[0]

        return Program(jax.jit(jax.vmap(one)), (jax.numpy.asarray(_lengths(size, skewed)),))

    return setup


def _rows_loop(size: int, skewed: bool) -> Any:
    """A loop of small arrays, mapped."""

    def setup(jax: Any) -> Program:
        jnp = jax.numpy

        def one(n: Any, x: Any) -> Any:
            step = lambda s: (jnp.tanh(s[0]) * 0.9 + 0.1 / (1 + jnp.sum(s[0] ** 2)), s[1] - 1)
            return jax.lax.while_loop(lambda s: s[1] > 0, step, (x, n))[0]

        x = jnp.ones((size, 64), np.float32)
        return Program(jax.jit(jax.vmap(one)), (jnp.asarray(_lengths(size, skewed)), x))

    return setup


def _matrices_loop(size: int, skewed: bool) -> Any:
    """A loop of small matrices, mapped, until their rounds are done or they hardly change."""

    def setup(jax: Any) -> Program:
        jnp = jax.numpy

        def one(n: Any, a: Any) -> Any:
            step = lambda s: (jnp.tanh(a @ s[0]) * 0.9 + 0.1 * a, s[1] - 1)
            goes = lambda s: (s[1] > 0) & (jnp.sum(s[0] ** 2) > 1e-12)
            return jax.lax.while_loop(goes, step, (a, n))[0]

        a = np.random.default_rng(1).standard_normal((size, 6, 6)).astype(np.float32)
        return Program(
            jax.jit(jax.vmap(one)), (jnp.asarray(_lengths(size, skewed)), jnp.asarray(a))
        )

    return setup


def _solutions_loop(size: int, skewed: bool) -> Any:
    """A loop of small linear systems, mapped."""

    def setup(jax: Any) -> Program:
        jnp = jax.numpy

        def one(n: Any, a: Any, x: Any) -> Any:
            step = lambda s: (jnp.linalg.solve(a, s[0]) + 0.5, s[1] - 1)
            return jax.lax.while_loop(lambda s: s[1] > 0, step, (x, n))[0]

        rng = np.random.default_rng(1)
        a = rng.standard_normal((size, 5, 5)).astype(np.float32) / 5 + 2 * np.eye(5, dtype="f4")
        x = rng.standard_normal((size, 5)).astype(np.float32)
        return Program(
            jax.jit(jax.vmap(one)), tuple(map(jnp.asarray, (_lengths(size, skewed), a, x)))
        )

    return setup


def _branches(jax: Any) -> Program:
    """A costly branch that one element in ten takes."""
    jnp = jax.numpy

    def one(i: Any, x: Any) -> Any:
        loop = lambda x: jax.lax.fori_loop(0, 50, lambda _, v: jnp.sin(v) * 1.1, x)
        return jax.lax.cond(i == 0, loop, lambda x: x * 2, x)

    return Program(jax.jit(jax.vmap(one)), (jnp.arange(2000) % 10, jnp.ones((2000, 64))))


def _reproducible(step: Any, on: bool) -> Any:
    def setup(jax: Any) -> Program:
        function, args = step(jax)
        function = jax.jit(function)

        def run(*args: Any) -> Any:
            with _knob(jax, "reproducible", on) if on else nullcontext():
                return function(*args)

        return Program(run, args, compiled=False)

    return setup


def batched(sizes: dict[str, tuple[int, ...]], **settings: Any) -> list[Row]:
    """Rows of batched loops, with so many elements of different lengths and of one length."""
    loops = {
        "numbers": _numbers_loop,
        "rows": _rows_loop,
        "matrices": _matrices_loop,
        "solutions": _solutions_loop,
    }
    return [
        Row(
            f"batched while of {what}, {size} {'skewed' if skewed else 'equal'}",
            "elements of different lengths"
            if skewed
            else "the same work in elements of one length",
            same(loops[what](size, skewed)),
            unit="ms",
            limit=30.0,
            **settings,
        )
        for what, counts in sizes.items()
        for size in counts
        for skewed in (False, True)
    ]


BATCHED = {
    "numbers": (8, 1000, 1000000),
    "rows": (8, 64, 2000, 5000),
    "matrices": (8, 2000),
    "solutions": (8, 500),
}
ROWS += batched(BATCHED, ratio=1.0)
ROWS += [
    Row(
        "batched cond",
        "a costly branch for a tenth",
        same(_branches),
        unit="ms",
        ratio=1.0,
        limit=30.0,
    )
]
ROWS += [
    Row(
        f"reproducible {'on' if on else 'off'}: {name}",
        "a training step with the same bits everywhere" if on else "the same step as usual",
        # JAX promises no such bits: beside the price stands its step as usual
        {"weft": _reproducible(step, on), "jax": _reproducible(step, False)},
        unit="ms",
        ratio=3.0 if on else 1.0,
        limit=60.0,
    )
    for name, step in STEPS.items()
    if name != "distances"
    for on in (False, True)
]
