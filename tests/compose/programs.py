"""Random well-typed programs of float64 arrays.

A program is grown by running it on a sample of its inputs: each step picks operands among the
values so far, and parameters that fit their shapes. A step is a function of ``plain`` and of its
operands; where ``plain`` is true, loops, branches and calls are Python's own, so that a program
can be compared with itself. Values stay of order one, and away from singular points.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
from weft import lax
from weft import numpy as jnp
from weft.api.remat import checkpoint
from weft.control.custom_jvp import custom_jvp
from weft.control.custom_vjp import custom_vjp

MAX_RANK, MAX_SIZE, MAX_VALUE = 3, 24, 5.0

Make = Callable[["Growth"], Any]


class Step(NamedTuple):
    """One operation: its name, its function, and which values it reads."""

    name: str
    fun: Callable[..., Any]
    reads: tuple[int, ...]


class Program:
    """Steps over some inputs; its results are the last values that were grown."""

    def __init__(self, steps: list[Step], n_inputs: int, outputs: list[int]) -> None:
        self.steps = steps
        self.n_inputs = n_inputs
        self.outputs = outputs

    def __call__(self, plain: bool, *args: Any) -> list[Any]:
        values = list(args)
        for step in self.steps:
            values.append(step.fun(plain, *(values[i] for i in step.reads)))
        return [values[i] for i in self.outputs]

    def __repr__(self) -> str:
        lines = [
            f"  v{self.n_inputs + k} = {s.name}({', '.join(f'v{i}' for i in s.reads)})"
            for k, s in enumerate(self.steps)
        ]
        names = ", ".join(f"v{i}" for i in range(self.n_inputs))
        outs = ", ".join(f"v{i}" for i in self.outputs)
        return "\n".join([f"program({names}):", *lines, f"  return {outs}"])


class Growth:
    """A program while it grows: its values on the sample, and the source of chance."""

    def __init__(self, rng: random.Random, args: Any, traits: set[str], depth: int) -> None:
        self.rng = rng
        self.values = [jnp.asarray(x) for x in args]
        self.n_inputs = len(args)
        self.steps: list[Step] = []
        self.traits = traits
        self.depth = depth

    def pick(self, accept: Callable[[Any], bool] = lambda x: True) -> int | None:
        """A value that is accepted, preferring recent ones."""
        fitting = [i for i, x in enumerate(self.values) if accept(x)]
        if not fitting:
            return None
        return max(self.rng.choice(fitting), self.rng.choice(fitting))

    def add(self, name: str, fun: Callable[..., Any], *reads: int) -> None:
        value = fun(False, *(self.values[i] for i in reads))
        large = np.abs(np.asarray(value)).max(initial=0.0) > MAX_VALUE
        if large or value.size > MAX_SIZE or value.ndim > MAX_RANK:
            return
        self.steps.append(Step(name, fun, reads))
        self.values.append(value)

    def grow(self, count: int) -> None:
        while len(self.steps) < count:
            before = len(self.steps)
            table = OPERATIONS if self.depth < 2 and self.rng.random() < 0.3 else FLAT
            self.rng.choice(table)(self)
            if len(self.steps) == before:
                # An operation that found nothing to work on: a simple one always does.
                unary(self)

    def finish(self, count: int = 1) -> Program:
        last = range(len(self.values))[-count:]
        return Program(self.steps, self.n_inputs, list(last))


def block(g: Growth, args: Any, count: int) -> Program:
    """A smaller program inside another."""
    inner = Growth(g.rng, args, g.traits, g.depth + 1)
    inner.grow(count)
    return inner.finish()


def fit(x: Any, shape: tuple[int, ...]) -> Any:
    """``x`` at another shape: itself, or its mean everywhere."""
    if np.shape(x) == shape:
        return x
    return jnp.broadcast_to(jnp.mean(x), shape)


def generate(seed: int, n_steps: int | None = None) -> tuple[Program, list[np.ndarray], set[str]]:
    """The program of a seed, a sample of its inputs, and what is special about it."""
    rng = random.Random(seed)
    values = np.random.default_rng(seed)
    shapes = [
        tuple(rng.choice((1, 2, 3)) for _ in range(rng.choice((0, 1, 1, 2))))
        for _ in range(rng.choice((1, 2, 2)))
    ]
    args = [values.standard_normal(shape) for shape in shapes]
    traits: set[str] = set()
    growth = Growth(rng, args, traits, 0)
    growth.grow(n_steps or rng.choice((2, 3, 4, 6)))
    return growth.finish(rng.choice((1, 1, 2))), args, traits


# --- elementwise ----------------------------------------------------------------------------------


def where(which: Any, x: Any, y: Any) -> Any:
    return lax.select(*jnp.broadcast_arrays(which, x, y))


UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lax.sin,
    "cos": lax.cos,
    "tanh": lax.tanh,
    "logistic": lax.logistic,
    "neg": lax.neg,
    "abs": lax.abs,
    "erf": lax.erf,
    "atan": lax.atan,
    "exp_tanh": lambda x: lax.exp(lax.tanh(x)),
    "log1p_square": lambda x: lax.log1p(lax.square(x)),
    "sqrt_square": lambda x: lax.sqrt(1.5 + x * x),
    "rsqrt_square": lambda x: lax.rsqrt(1.5 + x * x),
    "cube": lambda x: lax.integer_pow(lax.sin(x), 3),
    "inverse": lambda x: lax.integer_pow(1.5 + x * x, -1),
    "half": lambda x: 0.5 * x,
    "softplus": lambda x: jnp.logaddexp(x, 0.0),
    "rounded": lambda x: x + 0.1 * lax.convert_element_type(jnp.floor(x), np.int32),
    "sign": lambda x: x * lax.sign(x + 0.3),
    "clamp": lambda x: lax.clamp(-0.9, x, 1.1),
    "stopped": lambda x: x * 0.5 + lax.stop_gradient(lax.cos(x)) * 0.1,
    "complex": lambda x: lax.real(lax.exp(lax.complex(lax.tanh(x), x))),
    "spectrum": lambda x: lax.abs(jnp.fft.rfft(1.5 + jnp.reshape(x, -1))[0]) * 0.1 + x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "div": lambda x, y: x / (1.5 + y * y),
    "atan2": lambda x, y: jnp.arctan2(x, 1.5 + y * y),
    "pow": lambda x, y: jnp.power(1.5 + jnp.sin(x), jnp.tanh(y)),
    "where": lambda x, y: where(x > y, x * y, y - x),
    "select": lambda x, y: where(jnp.abs(x) < 0.7, jnp.sin(y), x),
    "hypot": lambda x, y: jnp.sqrt(x * x + y * y + 0.5),
    "logaddexp": jnp.logaddexp,
    "swish": lambda x, y: x * lax.logistic(y),
}


def unary(g: Growth) -> None:
    name = g.rng.choice(list(UNARY))
    fun = UNARY[name]
    if name == "stopped":
        g.traits.add(name)
    g.add(name, lambda plain, x: fun(x), g.pick())


def binary(g: Growth) -> None:
    name = g.rng.choice(list(BINARY))
    fun = BINARY[name]
    left = g.pick()
    right = g.pick(lambda y: broadcasts(g.values[left].shape, y.shape))
    if right is not None:
        g.add(name, lambda plain, x, y: fun(x, y), left, right)


def broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(left[::-1], right[::-1], strict=False))


# --- movement -------------------------------------------------------------------------------------


def factors(g: Growth, size: int) -> tuple[int, ...]:
    """A shape of that many elements."""
    shape = []
    while size > 1 and len(shape) < MAX_RANK - 1:
        n = g.rng.choice([n for n in range(1, size + 1) if size % n == 0])
        shape.append(n)
        size //= n
    return (*shape, size)


def reshape(g: Growth) -> None:
    i = g.pick()
    shape = factors(g, g.values[i].size)
    g.add(f"reshape{shape}", lambda plain, x: jnp.reshape(x, shape), i)


def transpose(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 1)
    if i is not None:
        order = tuple(g.rng.sample(range(g.values[i].ndim), g.values[i].ndim))
        g.add(f"transpose{order}", lambda plain, x: lax.transpose(x, order), i)


def broadcast(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim < MAX_RANK)
    if i is not None:
        n = g.rng.choice((1, 2, 3))
        shape = g.values[i].shape
        place = g.rng.randint(0, len(shape))
        wide = (*shape[:place], n, *shape[place:])
        dims = tuple(d for d in range(len(wide)) if d != place)
        g.add(f"broadcast{wide}", lambda plain, x: lax.broadcast_in_dim(x, wide, dims), i)


def slice_(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        shape = g.values[i].shape
        starts = [g.rng.randrange(n) for n in shape]
        limits = [g.rng.randint(s + 1, n) for s, n in zip(starts, shape)]
        steps = [g.rng.choice((1, 1, 2)) for _ in shape]
        g.add("slice", lambda plain, x: lax.slice(x, starts, limits, steps), i)


def pad(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        low = [-1 if n > 2 else 0 for n in g.values[i].shape]
        config = [(g.rng.randint(k, 1), g.rng.randint(0, 1), g.rng.randint(0, 1)) for k in low]
        g.add("pad", lambda plain, x: lax.pad(x, jnp.asarray(0.25, x.dtype), config), i)


def concatenate(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        axis = g.rng.randrange(g.values[i].ndim)
        rest = lambda x: (*x.shape[:axis], *x.shape[axis + 1 :])
        ndim, others = g.values[i].ndim, rest(g.values[i])
        j = g.pick(lambda x: x.ndim == ndim and rest(x) == others)
        g.add("concatenate", lambda plain, x, y: lax.concatenate([x, y], axis), i, j)


def reverse(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        axis = g.rng.randrange(g.values[i].ndim)
        g.add("rev", lambda plain, x: lax.rev(x, (axis,)), i)


# --- reductions, sums, sorts ----------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": jnp.sum,
    "max": jnp.max,
    "min": jnp.min,
    "mean": jnp.mean,
    "prod": lambda x, axis: jnp.prod(1.2 + 0.3 * jnp.sin(x), axis),
    "logsumexp": lambda x, axis: jnp.log(jnp.sum(jnp.exp(jnp.tanh(x)), axis)),
    "var": lambda x, axis: jnp.mean(jnp.square(x - jnp.mean(x, axis, keepdims=True)), axis),
}
ALONG: dict[str, Callable[..., Any]] = {
    "cumsum": lambda x, axis: lax.cumsum(x, axis, reverse=True),
    "cumprod": lambda x, axis: lax.cumprod(1.2 + 0.3 * jnp.sin(x), axis),
    "cummax": lax.cummax,
    "cumlogsumexp": lambda x, axis: lax.cumlogsumexp(jnp.tanh(x), axis),
    "sort": lambda x, axis: lax.sort(x, dimension=axis),
    "sort_pair": lambda x, axis: lax.sort((x, jnp.sin(x)), dimension=axis, num_keys=1)[1],
    "softmax": lambda x, axis: jnp.exp(x) / jnp.sum(jnp.exp(x), axis, keepdims=True),
}


def reduction(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        name = g.rng.choice(list(REDUCTIONS))
        axis = g.rng.choice((None, *range(g.values[i].ndim)))
        fun = REDUCTIONS[name]
        g.add(f"{name}{axis}", lambda plain, x: fun(x, axis=axis), i)


def along(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        name = g.rng.choice(list(ALONG))
        axis = g.rng.randrange(g.values[i].ndim)
        fun = ALONG[name]
        bounded = lambda plain, x: fun(jnp.tanh(x) if name == "softmax" else x, axis)
        g.add(f"{name}{axis}", bounded, i)


# --- indexing and products ------------------------------------------------------------------------


def some_index(x: Any, n: int) -> Any:
    """An index that depends on data, but not on small changes of it."""
    return jnp.argmax(jnp.reshape(x, -1)) % n


def dynamic_slice(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        axis = g.rng.randrange(g.values[i].ndim)
        n = g.values[i].shape[axis]
        size = g.rng.randint(1, n)
        take = lambda plain, x: lax.dynamic_slice_in_dim(x, some_index(x, n), size, axis)
        g.add("dynamic_slice", take, i)


def dynamic_update(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        n = g.values[i].shape[0]

        def update(plain: bool, x: Any) -> Any:
            row = lax.dynamic_slice_in_dim(jnp.sin(x), 0, 1, 0)
            return lax.dynamic_update_slice_in_dim(x, row, some_index(x, n), 0)

        g.add("dynamic_update_slice", update, i)


def gather(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        n = g.values[i].shape[0]
        indices = np.array([g.rng.randint(-1, n) for _ in range(g.rng.choice((1, 2, 3)))], np.int32)
        take = lambda plain, x: jnp.take(x, indices, axis=0, mode="clip")
        g.add("gather", take, i)


def scatter(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is not None:
        n = g.values[i].shape[0]
        indices = np.array([g.rng.randint(-1, n) for _ in range(2)], np.int32)
        put = lambda plain, x: jnp.asarray(x).at[indices].add(jnp.cos(x[:1]), mode="drop")
        g.add("scatter_add", put, i)


def dot(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is None:
        return
    a = g.rng.randrange(g.values[i].ndim)
    n = g.values[i].shape[a]
    j = g.pick(lambda y: n in y.shape)
    b = g.rng.choice([d for d, m in enumerate(g.values[j].shape) if m == n])
    numbers = (((a,), (b,)), ((), ()))
    g.add("dot", lambda plain, x, y: lax.dot_general(x, y, numbers), i, j)


def solve(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim == 2)
    if i is not None:
        n = g.values[i].shape[0]

        def apply(plain: bool, x: Any) -> Any:
            half = jnp.tanh(x)
            gram = jnp.matmul(half, lax.transpose(half, (1, 0)))
            factor = lax.linalg.cholesky(gram + 1.5 * np.eye(n))
            return lax.linalg.triangular_solve(factor, x, left_side=True, lower=True)

        g.add("cholesky_solve", apply, i)


WINDOWS: dict[str, Callable[..., Any]] = {
    "pool": lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), ((0, 1),)),
    "smooth": lambda x: 0.5 * lax.reduce_window(x, 0.0, lax.add, (2,), (2,), ((1, 1),)),
    "conv": lambda x: lax.conv_general_dilated(
        x[None, None], jnp.sin(x)[None, None, :1] * np.array([0.5, 0.3]), (1,), ((1, 1),)
    )[0, 0],
}


def window(g: Growth) -> None:
    i = g.pick()
    name = g.rng.choice(list(WINDOWS))
    fun = WINDOWS[name]
    g.add(name, lambda plain, x: fun(jnp.asarray(jnp.reshape(x, -1))), i)


# --- control --------------------------------------------------------------------------------------


def cond(g: Growth) -> None:
    i, j = g.pick(), g.pick()
    shape = g.values[i].shape
    branches = [block(g, (g.values[i], g.values[j]), g.rng.choice((1, 2))) for _ in range(2)]

    def apply(plain: bool, x: Any, y: Any) -> Any:
        cases = [lambda x, y, b=b: fit(b(plain, x, y)[0], shape) for b in branches]
        which = jnp.sum(x) > 0.1
        if plain:
            return cases[0](x, y) if which else cases[1](x, y)
        return lax.cond(which, *cases, x, y)

    g.add("cond", apply, i, j)


def scan(g: Growth) -> None:
    i, j = g.pick(), g.pick(lambda x: x.ndim > 0)
    if j is None:
        return
    shape = g.values[i].shape
    body = block(g, (g.values[i], g.values[j][0]), g.rng.choice((1, 2)))
    backwards = g.rng.random() < 0.3

    def apply(plain: bool, c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            out = body(plain, c, x)[0]
            return jnp.tanh(0.5 * c + fit(out, shape)), jnp.mean(out)

        if plain:
            rows = range(len(xs))
            means = []
            for k in reversed(rows) if backwards else rows:
                c, mean = step(c, xs[k])
                means.append(mean)
            return c + sum(m * m for m in means)
        c, means = lax.scan(step, c, xs, reverse=backwards)
        return c + jnp.sum(means * means)

    g.add("scan", apply, i, j)


def switch(g: Growth) -> None:
    i = g.pick()
    shape = g.values[i].shape
    branches = [block(g, (g.values[i],), 1) for _ in range(3)]

    def apply(plain: bool, x: Any) -> Any:
        cases = [lambda x, b=b: fit(b(plain, x)[0], shape) for b in branches]
        index = some_index(x, 3)
        return cases[int(index)](x) if plain else lax.switch(index, cases, x)

    g.add("switch", apply, i)


def mapped(g: Growth) -> None:
    i = g.pick(lambda x: x.ndim > 0)
    if i is None:
        return
    body = block(g, (g.values[i][0],), 1)
    over = g.rng.choice((lax.map, lambda f, xs: weft.vmap(f)(xs)))

    def apply(plain: bool, xs: Any) -> Any:
        row = lambda x: body(plain, x)[0]
        return jnp.stack([row(x) for x in xs]) if plain else over(row, xs)

    g.add("map", apply, i)


def prefixes(g: Growth) -> None:
    """An associative scan of affine maps."""
    i = g.pick(lambda x: x.ndim > 0)
    if i is None:
        return

    def compose(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    def apply(plain: bool, x: Any) -> Any:
        pairs = (jnp.tanh(x), jnp.cos(x))
        if not plain:
            return lax.associative_scan(compose, pairs)[1]
        rows, total = [], None
        for k in range(len(x)):
            row = (pairs[0][k], pairs[1][k])
            total = row if total is None else compose(total, row)
            rows.append(total[1])
        return jnp.stack(rows)

    g.add("associative_scan", apply, i)


def fori(g: Growth) -> None:
    i = g.pick()
    shape = g.values[i].shape
    body = block(g, (g.values[i],), 1)
    count = g.rng.choice((0, 1, 3))

    def apply(plain: bool, c: Any) -> Any:
        step = lambda k, c: jnp.sin(c * (1 + 0.1 * k) + fit(body(plain, c)[0], shape))
        if plain:
            for k in range(count):
                c = step(k, c)
            return c
        return lax.fori_loop(0, count, step, c)

    g.add(f"fori{count}", apply, i)


def while_(g: Growth) -> None:
    if "reverse only" in g.traits:
        return
    g.traits.add("forward only")
    i = g.pick()
    shape = g.values[i].shape
    body = block(g, (g.values[i],), 1)

    def apply(plain: bool, x: Any) -> Any:
        step = lambda c: (c[0] * 1.7 + 0.3, jnp.cos(c[1] + fit(body(plain, c[1])[0], shape)))
        state = (jnp.sum(jnp.abs(x)) + 0.1, x)
        more = lambda c: c[0] < 3.0
        if plain:
            while more(state):
                state = step(state)
        else:
            state = lax.while_loop(more, step, state)
        return state[1]

    g.add("while", apply, i)


def call(g: Growth) -> None:
    """A nested jit or checkpoint, sometimes over a closed-over value."""
    i, j = g.pick(), g.pick()
    body = block(g, (g.values[i], g.values[j]), g.rng.choice((1, 2)))
    wrap = g.rng.choice((weft.jit, checkpoint))
    closes_over = g.rng.random() < 0.4

    def apply(plain: bool, x: Any, y: Any) -> Any:
        if plain:
            return body(plain, x, y)[0]
        if closes_over:
            return wrap(lambda x: body(plain, x, y)[0])(x)
        return wrap(lambda x, y: body(plain, x, y)[0])(x, y)

    g.add(wrap.__name__, apply, i, j)


def with_jvp_rule(g: Growth) -> None:
    i = g.pick()

    @custom_jvp
    def ruled(x: Any) -> Any:
        return jnp.sin(x) * x

    ruled.defjvps(lambda t, out, x: t * (jnp.cos(x) * x + jnp.sin(x)))
    g.add("custom_jvp", lambda plain, x: jnp.sin(x) * x if plain else ruled(x), i)


def with_vjp_rule(g: Growth) -> None:
    if "forward only" in g.traits:
        return
    g.traits.add("reverse only")
    i = g.pick()

    @custom_vjp
    def ruled(x: Any) -> Any:
        return jnp.sin(x) * x

    forward = lambda x: (jnp.sin(x) * x, x)
    ruled.defvjp(forward, lambda x, ct: (ct * (jnp.cos(x) * x + jnp.sin(x)),))
    g.add("custom_vjp", lambda plain, x: jnp.sin(x) * x if plain else ruled(x), i)


FLAT: list[Make] = [unary, unary, unary, binary, binary, binary, binary, reshape, transpose]
FLAT += [broadcast, slice_, pad, concatenate, reverse, reduction, reduction, along, along]
FLAT += [dynamic_slice, dynamic_update, gather, scatter, dot, dot, solve, window, window]
OPERATIONS: list[Make] = [
    cond,
    switch,
    scan,
    scan,
    fori,
    while_,
    mapped,
    prefixes,
    call,
    call,
    call,
]
OPERATIONS += [with_jvp_rule, with_vjp_rule]
