"""Random programs under random shardings: the program of one device gives what one device gives.

``python -m tests.parallel.partition_programs FIRST COUNT`` with eight devices prints the seeds that
break it.
"""

import sys
import warnings

import numpy as np

import weft
import weft.numpy as jnp
from tests.parallel.law import MESHES, mesh_of
from weft import P, lax
from weft.division.programs.partition import partition
from weft.sharding import NamedSharding

N = 8


def _scan(x, y):
    carry, rows = lax.scan(lambda c, row: (jnp.tanh(c @ y * 0.1 + row), c.sum(0)), x, x * 0.5)
    return carry + rows


def _while(x, y):
    keep = lambda c: (c[0] < 3) & (jnp.abs(c[1]).max() < 1e4)
    return lax.while_loop(keep, lambda c: (c[0] + 1, jnp.tanh(c[1] @ y * 0.1) + 1), (0, x))[1]


def _cond(x, y):
    return lax.cond(x.sum() > y.sum(), lambda a, b: a @ b * 0.1, lambda a, b: a - b.T, x, y)


def _conv(x, y):
    image = x.reshape(1, 1, N, N)
    kernel = y[:3, :3].reshape(1, 1, 3, 3)
    return lax.conv_general_dilated(image, kernel, (1, 1), "SAME").reshape(N, N) * 0.1


def _random(x, y):
    return x + weft.random.normal(weft.random.key(3), x.shape) * y


def _indexed(x, y):
    places = jnp.argsort(y[0])
    return x[places] + x.at[places, 2].add(1.0)


MIXES = [
    lambda x, y: x + y,
    lambda x, y: x * y - x,
    lambda x, y: jnp.where(x > y, x, y),
    lambda x, y: x @ y * 0.1,
    lambda x, y: jnp.einsum("ij,kj->ki", x, y) * 0.1,
    lambda x, y: x + y.sum(0),
    lambda x, y: x - y.max(1, keepdims=True),
    lambda x, y: x + jnp.argmax(y, 0),
    lambda x, y: x * (y.mean() + 1),
    _scan,
    _while,
    _cond,
    _conv,
    _random,
    _indexed,
]
MOVES = [
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: x.reshape(2, 4, N).transpose(1, 0, 2).reshape(N, N),
    lambda x: x.reshape(N * N).reshape(N, N),
    lambda x: jnp.concatenate([x[4:], x[:4]]),
    lambda x: jnp.cumsum(x, 0) * 0.2,
    lambda x: jnp.sort(x, 1),
    lambda x: weft.nn.softmax(x),
    lambda x: jnp.fft.fft(x).real * 0.2,
    lambda x: jnp.roll(x, 1, 1),
    lambda x: jnp.tanh(x),
    lambda x: weft.nn.standardize(x, axis=1),
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 1), (1, 1), "SAME"),
    lambda x: jnp.repeat(x[:, :4], 2, 1),
    lambda x: jnp.linalg.qr(x.reshape(2, 4, N) + jnp.eye(4, N) * 30)[1].reshape(N, N) * 0.1,
    lambda x: weft.checkpoint(lambda v: jnp.sin(v) * v)(x),
]


def spec(rng, names):
    """A random spec of a matrix."""
    parts = [[], []]
    for name in rng.permutation(list(names)):
        place = rng.integers(4)
        if place < 2:
            parts[place].append(str(name))
    return tuple(tuple(p) for p in parts)


def grow(seed, mesh=None):
    """A random program of two matrices, its mesh, and specs."""
    rng = np.random.default_rng(seed)
    if mesh is None:
        mesh = mesh_of(*MESHES[1 + seed % (len(MESHES) - 1)])
    steps = []
    for _ in range(int(rng.integers(2, 8))):
        steps.append((rng.integers(3), rng.integers(1 << 30, size=3), spec(rng, mesh.axis_names)))

    def fun(x, y):
        values = [x, y]
        for kind, (a, b, c), where in steps:
            u, v = values[-1 - a % min(4, len(values))], values[-1 - b % min(4, len(values))]
            if kind == 0:
                mix = MIXES[c % len(MIXES)]
                made = (_scan if mix is _while and seed % 3 == 2 else mix)(u, v)
            elif kind == 1:
                made = MOVES[c % len(MOVES)](u)
            else:
                sharding = NamedSharding(mesh, P(*where))
                made = lax.with_sharding_constraint(MIXES[c % 9](u, v), sharding)
            values.append(made)
        return values[-1], sum(v.sum() for v in values[-3:])

    chosen = fun
    if seed % 3 == 2:
        chosen = weft.grad(lambda x, y: fun(x, y)[0].sum() + fun(x, y)[1], (0, 1))
    ins = [spec(rng, mesh.axis_names) for _ in range(2)]
    outs = [spec(rng, mesh.axis_names), ()] if seed % 2 and seed % 3 < 2 else None
    if seed % 3 == 2 and seed % 2:
        outs = [spec(rng, mesh.axis_names), None]
    args = [rng.standard_normal((N, N)) for _ in range(2)]
    return chosen, args, mesh, ins, outs


def check(seed):
    fun, args, mesh, ins, outs = grow(seed)
    closed = weft.make_jaxpr(fun)(*args)
    want = weft.jit(fun)(*args)
    made = partition(closed, mesh, ins, outs)
    for result, expected in zip(weft.jit(made.bind)(*args), want, strict=True):
        expected = np.asarray(expected)
        scale = max(1.0, float(np.abs(expected).max())) if np.isfinite(expected).all() else 1.0
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-8 * scale)
    return made


def main():
    first, count = (int(a) for a in sys.argv[1:3])
    broken = []
    for seed in range(first, first + count):
        try:
            # in 64 bits, so that rounding is no excuse
            with warnings.catch_warnings(), weft.enable_x64(True):
                warnings.simplefilter("ignore")
                check(seed)
        except Exception as error:
            if "--raise" in sys.argv:
                raise
            text = str(error).strip().splitlines()
            broken.append(f"{seed} {type(error).__name__} {text[:3]}")
    print("\n".join(broken))
    print(f"{count} checked, {len(broken)} broken")


if __name__ == "__main__":
    main()
