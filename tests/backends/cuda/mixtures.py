"""Generated programs that mix what the kernels of a GPU are made of: operations on elements,
reductions, questions (any, all), gathers and scatters, products, loops with carries in place."""

import random

import numpy as np

from weft import lax, nn
from weft import numpy as jnp
from weft.kernel.nodes import BF16

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 33, 37, 64, 65)
FLOATS = (np.float32, np.float32, np.float32, np.float64, np.float16, BF16)
OTHERS = (np.int32, np.int8, np.uint8, np.int64, np.bool_, np.complex64)


def values(r, shape, dtype):
    """An array of small numbers."""
    draw = np.random.default_rng(r.randrange(1 << 30))
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return draw.random(shape) < 0.5
    if dtype.kind in "iu":
        return draw.integers(0 if dtype.kind == "u" else -9, 9, shape).astype(dtype)
    if dtype.kind == "c":
        return (draw.normal(size=shape) + 1j * draw.normal(size=shape)).astype(dtype)
    return draw.normal(size=shape).astype(dtype)


def is_float(x):
    return jnp.issubdtype(x.dtype, jnp.floating)


def tame(x):
    """The same with numbers that stay small."""
    if x.dtype == bool:
        return x
    if is_float(x):
        return jnp.tanh(x) if x.dtype.itemsize > 2 else x * 0.25
    if x.dtype.kind == "c":
        return x / (1 + abs(x))
    return x % 11


class Mixture:
    """A program while it grows: what it has computed, and what it gives."""

    def __init__(self, seed, args):
        self.r, self.pool, self.outs = random.Random(seed), list(args), []

    def some(self, test=lambda x: True):
        found = [x for x in self.pool[-6:] if test(x)]
        return self.r.choice(found) if found else None

    def grow(self, count):
        steps = list(STEPS)
        for _ in range(count):
            made = self.r.choice(steps)(self)
            if made is not None:
                self.pool.append(made)
        picked = self.pool[-4:]
        return [*self.outs, *picked]


def elementwise(m):
    x = m.some()
    if x.dtype == bool:
        return ~x
    y = m.some(lambda y: y.dtype == x.dtype and y.shape[len(y.shape) - x.ndim :] == x.shape)
    y = x if y is None else y
    if x.dtype.kind == "c" or not is_float(x):
        return tame(x * 2 + y)
    ops = [lambda: jnp.sin(x) + y, lambda: jnp.where(x > 0.1, x, y * 0.5), lambda: x * y - 1]
    ops += [lambda: jnp.maximum(x, y), lambda: jnp.exp(tame(x)) - y]
    return m.r.choice(ops)().astype(x.dtype)


def convert(m):
    x = m.some()
    if x.dtype.kind == "c":
        return x.real
    if x.dtype == bool:
        return x.astype(m.r.choice([np.float32, np.int32, np.int8]))
    if is_float(x):
        return x.astype(m.r.choice(FLOATS))
    return x.astype(m.r.choice([np.float32, np.int32, np.uint8, BF16]))


def reduced(m):
    x = m.some(lambda x: x.ndim and x.size)
    if x is None:
        return None
    axes = tuple(m.r.sample(range(x.ndim), m.r.randint(1, x.ndim)))
    keep = m.r.random() < 0.6
    if x.dtype == bool:
        return m.r.choice([jnp.any, jnp.all])(x, axes, keepdims=keep)
    if x.dtype.kind == "c":
        return tame(jnp.sum(x, axes, keepdims=keep))
    op = m.r.choice([jnp.sum, jnp.max, jnp.min, jnp.sum])
    got = op(x, axes, keepdims=keep)
    got = (got * 0.1 if is_float(x) else got % 13).astype(x.dtype)
    return tame(x - got) if keep and m.r.random() < 0.7 else got


def picked(m):
    x = m.some(lambda x: x.ndim and x.size and is_float(x) and x.dtype.itemsize > 2)
    return None if x is None else jnp.argmax(jnp.sin(x * 3), m.r.randrange(x.ndim))


def asked(m):
    """A question about a whole array, which decides over another one."""
    x = m.some(lambda x: x.dtype.kind in "fiu" or x.dtype == BF16)
    if x is None:
        return None
    number = m.r.choice([100, -100, 0.0])
    found = m.r.choice([jnp.any, jnp.all])(x != number if m.r.random() < 0.3 else x > number)
    m.outs.append(found)
    y = m.some()
    if m.r.random() < 0.4:
        m.outs.append(jnp.any(x != x))
    return y if m.r.random() < 0.4 else jnp.where(found, y, jnp.zeros_like(y))


def rows(m):
    x = m.some(lambda x: x.ndim and x.size and x.dtype in (np.float32, np.float64))
    if x is None:
        return None
    if m.r.random() < 0.5:
        return nn.softmax(x * 2, m.r.randrange(-1, x.ndim))
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-2)


def moved(m):
    x = m.some(lambda x: x.ndim and x.size)
    if x is None:
        return None
    axis = m.r.randrange(x.ndim)
    n = x.shape[axis]
    kind = m.r.randrange(8)
    if kind == 0:
        return jnp.transpose(x, m.r.sample(range(x.ndim), x.ndim))
    if kind == 1:
        return jnp.flip(x, axis)
    if kind == 2:
        return jnp.roll(x, m.r.randint(-3, 3), axis)
    if kind == 3:
        return jnp.concatenate([x, jnp.flip(x, axis)], axis) if x.size < 3000 else None
    if kind == 4:
        return lax.slice_in_dim(x, n // 3, n, 1 + (n > 4), axis)
    if kind == 5:
        low = m.r.randint(0, 2)
        return lax.pad(x, jnp.zeros((), x.dtype), [(low, 1, 0)] * x.ndim) if x.size < 3000 else None
    if kind == 6:
        return x.reshape(-1) if m.r.random() < 0.5 else x[..., None]
    return jnp.expand_dims(jnp.take(x, n // 2, axis), 0)


def scanned(m):
    x = m.some(lambda x: x.ndim and x.size and x.dtype.kind in "fiu")
    if x is None:
        return None
    axis = m.r.randrange(x.ndim)
    op = m.r.choice([jnp.cumsum, lax.cummax, lax.cummin, jnp.sort])
    return tame(op(x, axis=axis).astype(x.dtype))


def indices(m, n, count, unique=False):
    """Places in an axis, from data, some of them outside of it."""
    base = jnp.arange(count) * (7 if n % 7 else 5) + m.r.randrange(9)
    if unique:
        return base % n
    more = m.some(lambda x: x.dtype == np.int32)
    return (base if more is None else base + abs(more.reshape(-1)[0]) % 3) % (n + 1)


def gathered(m):
    x = m.some(lambda x: x.ndim and x.size)
    if x is None:
        return None
    kind, n = m.r.randrange(3), x.shape[0]
    if kind == 0:
        return x[indices(m, n, m.r.choice([1, 3, 8]))]
    if kind == 1:
        at = m.some(lambda a: a.dtype == np.int32 and a.ndim == 0)
        at = jnp.int32(1) if at is None else at
        return lax.dynamic_slice_in_dim(x, at, max(1, n // 2), 0)
    return jnp.take(x, indices(m, x.shape[-1], 5), -1, mode=m.r.choice(["clip", "wrap"]))


def scattered(m):
    x = m.some(lambda x: x.ndim and x.size and x.dtype != bool and x.dtype.kind != "c")
    if x is None:
        return None
    count, n = m.r.choice([1, 3, 8]), x.shape[0]
    kind = m.r.randrange(4)
    if kind == 0:
        return tame(x.at[indices(m, n, count)].add(jnp.ones((), x.dtype)))
    if kind == 1:
        return x.at[indices(m, n, min(count, n), True)].multiply(2) if n % 7 and n % 5 else None
    if kind == 2:
        return x.at[indices(m, n, count)].max(jnp.ones((), x.dtype))
    at = m.some(lambda a: a.dtype == np.int32 and a.ndim == 0)
    return lax.dynamic_update_slice_in_dim(x, -x[: max(1, n // 3)], 1 if at is None else at, 0)


def product(m):
    x = m.some(lambda x: x.ndim > 1 and x.size and x.size < 4000 and is_float(x))
    if x is None:
        return None
    y = jnp.swapaxes(x, -1, -2)
    if m.r.random() < 0.5:
        y = y[..., : max(1, y.shape[-1] // 2)]
    return tame(jnp.matmul(x, y) / x.shape[-1]).astype(x.dtype)


def looped(m):
    """A loop of one of some kinds, whose carry is what has been computed."""
    x = m.some(lambda x: x.size and is_float(x))
    y = m.some(lambda y: y.size and (y.dtype != bool))
    if x is None or y is None:
        return None
    kind, n = m.r.randrange(7), m.r.randint(1, 5)
    if kind == 0:  # values that change places
        x, z = lax.fori_loop(0, n, lambda i, c: (c[1] * 0.5, tame(c[0] + c[1])), (x, x + 1))
        return x - z
    if kind == 1 and y.ndim:  # rows written in place
        body = lambda i, c: c.at[i % c.shape[0]].set(tame(c[(i + 1) % c.shape[0]] + c[0]))
        return lax.fori_loop(0, n, body, y)
    if kind == 2 and x.ndim:  # slices that are carried, and given

        def step(c, row):
            c = tame(c[::-1] * 0.5 + row) if c.ndim else tame(c + row)
            return c, (c * 2, row.sum() * 0.1)

        c, (a, b) = lax.scan(step, x[0], x, reverse=m.r.random() < 0.5)
        m.outs.append(b)
        return a if m.r.random() < 0.5 else c
    if kind == 3:  # a loop of unknown length
        more = lambda c: (c[0] < n) & ~jnp.any(c[1] > 1e6)
        return lax.while_loop(more, lambda c: (c[0] + 1, tame(c[1] - c[1].max() * 0.1)), (0, x))[1]
    if kind == 4:  # a loop in a loop, and a branch
        inner = lambda i, c: lax.fori_loop(0, 2, lambda j, d: tame(d * 0.5 + i + j), c)
        outer = lambda i, c: lax.cond(i % 2 == 0, lambda d: inner(i, d), lambda d: -d, c)
        return lax.fori_loop(0, n, outer, x)
    if kind == 5 and x.ndim:  # all read what all have written
        near = lambda i, c: (tame(jnp.roll(c[0], 1, -1) + c[1]), c[0], c[2] + c[0].sum())
        a, b, total = lax.fori_loop(0, n, near, (x, x * 2, x.sum() * 0))
        m.outs.append(tame(total))
        return a - b
    if x.ndim > 1 and x.size < 2000 and x.dtype in (np.float32, np.float64):
        w = jnp.matmul(jnp.swapaxes(x, -1, -2), x) / x.size
        return lax.fori_loop(0, n, lambda i, c: tame(jnp.matmul(c, w) + c.mean(0)), x)
    return None


STEPS = [elementwise] * 4 + [convert] * 2 + [reduced] * 4 + [asked] * 2 + [moved] * 4
STEPS += [gathered] * 2 + [scattered] * 2 + [product, rows, rows, picked, scanned] + [looped] * 3


def mixture(seed, empty=False):
    """A program, and its arguments."""
    r = random.Random(seed)
    ranks = [r.choice([1, 2, 2, 2, 3]) for _ in range(r.randint(2, 4))]
    args = []
    for i, rank in enumerate(ranks):
        shape = [r.choice(SIZES if rank < 3 else SIZES[:9]) for _ in range(rank)]
        if args and r.random() < 0.5:
            shape = list(args[0].shape)
        if empty and i == 1:
            shape[r.randrange(len(shape))] = 0
        dtype = r.choice(FLOATS) if i == 0 or r.random() < 0.6 else r.choice(OTHERS)
        args.append(values(r, shape, dtype))
    args.append(np.int32(r.randrange(5)))
    count = r.randint(4, 12)
    return lambda *xs: Mixture(seed, xs).grow(count), args


# --- batched loops --------------------------------------------------------------------------------

LENGTHS = (1, 2, 5, 23, 24, 31, 32, 33, 37, 50, 63, 64, 65, 97, 127, 150)
KINDS = (*FLOATS[2:], np.float32, np.int32, np.int8, np.uint8, np.bool_, np.complex64)


def number_of(m, x, k):
    """A number that a row gives."""
    if x.dtype == bool:
        return m.choice([jnp.any, jnp.all])(x).astype(np.float32)
    if x.dtype.kind == "c":
        return jnp.sum(x).real * 0.01
    total = m.randrange(6)
    if total == 0:
        found = jnp.sum(x.astype(np.float32) * 0.1)
    elif total == 1:
        found = jnp.max(x)
    elif total == 2:
        found = jnp.min(x) + jnp.any(x > 1)
    elif total == 3:
        found = x.reshape(-1)[(k * 5 + 1) % x.size]
    elif total == 4:
        found = jnp.mean(x.astype(np.float32)) + jnp.all(x < 100)
    else:
        found = lax.fori_loop(0, 2, lambda i, v: v * 0.5 + jnp.sum(x.astype(np.float32)) * 0.1, 1.0)
    return tame(found.astype(np.float32))


def row_of(m, x, y, s, k):
    """What becomes of a row."""
    number = s.astype(x.dtype) if x.dtype != bool else s > 0
    if x.dtype == bool:
        return m.choice([lambda: x ^ y, lambda: x & number, lambda: jnp.roll(x, 1, -1)])()
    n = x.shape[-1]
    kind = m.randrange(11)
    if kind == 0:
        return tame(x + number)
    if kind == 1:
        return tame(jnp.roll(x, m.randint(-3, 3), -1) + y)
    if kind == 2:
        return tame(x[..., ::-1] - y)
    if kind == 3:
        return jnp.where(s > 0, x, y)
    if kind == 4:
        return x.at[..., k % n].set(y[..., (k * 3 + 1) % n])
    if kind == 5:
        return lax.cond(k % 2 == 0, lambda: tame(x + y), lambda: x)
    if kind == 6 and is_float(x):
        return tame(x - jnp.max(x, -1, keepdims=True))
    if kind == 7 and x.dtype.kind != "c":
        return jnp.where(x > y, x, y)
    if kind == 8 and n > 1:
        return jnp.concatenate([x[..., 1:], y[..., :1]], -1)
    if kind == 9 and x.dtype in (np.float32, np.float64):
        return lax.fori_loop(0, k % 3, lambda i, v: v * 0.5 + jnp.sum(v) * number * 0.01, x)
    return tame(x * 2 + y)


def batch(seed):
    """A batched loop over rows of several types; the number of rounds differs between elements."""
    r = random.Random(seed)
    size, length = r.randint(1, 4), r.choice(LENGTHS)
    dtypes = [r.choice(KINDS) for _ in range(r.randint(1, 3))]
    deep = [r.choice([(), (), (2,)]) for _ in dtypes]
    rounds = np.array([r.choice([0, 1, 2, 3, 5]) for _ in range(size)], np.int32)
    shapes = [(size, *more, length) for more in deep]
    rows = [values(r, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    steps = r.randint(1, 4)

    def one(n, s, *rows):
        def step(state):
            m = random.Random(seed)
            k, s, *rows = state
            for _ in range(steps):
                i = m.randrange(len(rows))
                x = rows[i]
                others = [y for y in rows if (y.dtype, y.shape) == (x.dtype, x.shape)]
                rows[i] = row_of(m, x, m.choice(others), s, k).astype(x.dtype)
                s = tame(s * 0.5 + number_of(m, m.choice(rows), k)).astype(np.float32)
            return k - 1, s, *rows

        return lax.while_loop(lambda c: (c[0] > 0) & (c[1] < 1.5), step, (n, s, *rows))

    return one, [rounds, values(r, (size,), np.float32), *rows]
