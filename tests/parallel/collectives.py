"""Programs for eight devices whose collectives are counted, in weft and in JAX.

A program is ``(function of the library, shapes, specs of arguments, of results or None, mesh)``
and is jitted with these shardings. ``python -m tests.parallel.collectives`` prints weft's counts as
JSON; ``tools/record_collectives.py`` writes JAX's.
"""

import json
import re

import numpy as np

S = 16
M = (S, S)
WIDE = (S, 4 * S)
X, Y, NONE = ("x",), (None, "x"), ()
LINE, GRID = ((8,), ("x",)), ((4, 2), ("x", "y"))


def mlp(J):
    def loss(params, a):
        w, v = params
        return ((J.numpy.tanh(a @ w) @ v) ** 2).mean()

    return loss


def step(J):
    def update(w, v, a):
        dw, dv = J.grad(mlp(J))((w, v), a)
        return w - 0.1 * dw, v - 0.1 * dv

    return update


def attention(J):
    def f(x, q, k, v):
        a, b, c = x @ q, x @ k, x @ v
        scores = J.nn.softmax(J.numpy.einsum("bti,bsi->bts", a, b) / 4)
        return J.numpy.einsum("bts,bsi->bti", scores, c)

    return f


def scanned(J):
    def f(c, ws):
        return J.lax.scan(lambda c, w: (J.numpy.tanh(c @ w), c.sum()), c, ws)

    return f


def halo(J):
    return lambda x, k: J.lax.conv_general_dilated(x, k, (1, 1), "SAME")


PROGRAMS = {
    "elementwise": (lambda J: lambda x, y: x * y + 1, [M, M], [X, X], None, LINE),
    "elementwise_apart": (lambda J: lambda x, y: x * y + 1, [M, M], [X, Y], None, LINE),
    "elementwise_whole": (lambda J: lambda x, y: x * y + 1, [M, M], [X, NONE], None, LINE),
    "sum": (lambda J: lambda x: x.sum(), [M], [X], None, LINE),
    "sum_rows": (lambda J: lambda x: x.sum(1), [M], [X], None, LINE),
    "sum_columns": (lambda J: lambda x: x.sum(0), [M], [X], None, LINE),
    "sum_scattered": (lambda J: lambda x: x.sum(0), [M], [X], [X], LINE),
    "max": (lambda J: lambda x: x.max(0), [M], [X], None, LINE),
    "mean_var": (lambda J: lambda x: (x - x.mean(0)) / (1 + x.var(0)), [M], [X], None, LINE),
    "argmax": (lambda J: lambda x: J.numpy.argmax(x, 0), [M], [X], None, LINE),
    "softmax": (lambda J: lambda x: J.nn.softmax(x, 0), [M], [X], None, LINE),
    "softmax_rows": (lambda J: lambda x: J.nn.softmax(x, 1), [M], [X], None, LINE),
    "dot_rows": (lambda J: lambda x, y: x @ y, [M, M], [X, NONE], None, LINE),
    "dot_columns": (lambda J: lambda x, y: x @ y, [M, M], [NONE, Y], None, LINE),
    "dot_sum": (lambda J: lambda x, y: x @ y, [M, M], [Y, X], None, LINE),
    "dot_scattered": (lambda J: lambda x, y: x @ y, [M, M], [Y, X], [X], LINE),
    "dot_both": (lambda J: lambda x, y: x @ y, [M, M], [X, X], None, LINE),
    "dot_grid": (lambda J: lambda x, y: x @ y, [M, M], [("x", "y"), ("y",)], None, GRID),
    "dot_grid_out": (
        lambda J: lambda x, y: x @ y,
        [M, M],
        [("x", None), (None, "y")],
        [("x", "y")],
        GRID,
    ),
    "tensor_parallel": (
        lambda J: lambda a, w, v: J.numpy.tanh(a @ w) @ v,
        [M, WIDE, WIDE[::-1]],
        [NONE, Y, X],
        None,
        LINE,
    ),
    "tensor_parallel_grid": (
        lambda J: lambda a, w, v: J.numpy.tanh(a @ w) @ v,
        [M, WIDE, WIDE[::-1]],
        [("x",), (None, "y"), ("y",)],
        None,
        GRID,
    ),
    "data_parallel_step": (step, [WIDE, WIDE[::-1], M], [NONE, NONE, X], [NONE, NONE], LINE),
    "fully_sharded_step": (step, [WIDE, WIDE[::-1], M], [X, X, X], [X, X], LINE),
    "tensor_parallel_step": (step, [WIDE, WIDE[::-1], M], [Y, X, NONE], [Y, X], LINE),
    "attention_batch": (
        attention,
        [(8, S, S), M, M, M],
        [X, NONE, NONE, NONE],
        None,
        LINE,
    ),
    "transpose": (lambda J: lambda x: x.T, [M], [X], None, LINE),
    "transpose_back": (lambda J: lambda x: x.T, [M], [X], [X], LINE),
    "rows_to_columns": (lambda J: lambda x: x + 1, [M], [X], [Y], LINE),
    "gathered": (lambda J: lambda x: x + 1, [M], [X], [NONE], LINE),
    "cut": (lambda J: lambda x: x + 1, [M], [NONE], [X], LINE),
    "reshape": (lambda J: lambda x: x.reshape(8, 2, S), [M], [X], None, LINE),
    "flatten": (lambda J: lambda x: x.reshape(-1), [M], [X], None, LINE),
    "sort_rows": (lambda J: lambda x: J.numpy.sort(x, 1), [M], [X], None, LINE),
    "sort_columns": (lambda J: lambda x: J.numpy.sort(x, 0), [M], [X], None, LINE),
    "cumsum": (lambda J: lambda x: J.numpy.cumsum(x, 0), [M], [X], None, LINE),
    "cumsum_rows": (lambda J: lambda x: J.numpy.cumsum(x, 1), [M], [X], None, LINE),
    "reverse": (lambda J: lambda x: x[::-1], [M], [X], None, LINE),
    "concatenate": (
        lambda J: lambda x, y: J.numpy.concatenate([x, y], 1),
        [M, M],
        [X, X],
        None,
        LINE,
    ),
    "lookup": (lambda J: lambda t, i: t[i.astype(int)], [M, (S,)], [X, NONE], None, LINE),
    "lookup_rows": (lambda J: lambda t, i: t[i.astype(int)], [M, (S,)], [NONE, X], None, LINE),
    "lookup_columns": (lambda J: lambda t, i: t[i.astype(int)], [M, (S,)], [Y, NONE], None, LINE),
    "counted": (
        lambda J: lambda x, i: x.at[i.astype(int)].add(1.0),
        [M, (S,)],
        [Y, NONE],
        None,
        LINE,
    ),
    "normal": (
        lambda J: lambda x: x + J.random.normal(J.random.key(0), x.shape),
        [M],
        [X],
        None,
        LINE,
    ),
    "scan": (scanned, [M, (3, S, S)], [X, NONE], None, LINE),
    "conv_batch": (halo, [(8, 2, S, S), (2, 2, 3, 3)], [X, NONE], None, LINE),
    "conv_halo": (halo, [(1, 2, S, S), (2, 2, 3, 3)], [(None, None, "x"), NONE], None, LINE),
    "fft_batch": (lambda J: lambda x: J.numpy.fft.fft(x), [M], [X], None, LINE),
    "cholesky_batch": (
        lambda J: lambda x: J.numpy.linalg.cholesky(x + 40 * J.numpy.eye(4)),
        [(8, 4, 4)],
        [X],
        None,
        LINE,
    ),
}
OPERATIONS = "all-reduce all-gather reduce-scatter all-to-all collective-permute".split()


def compiled(library, name):
    """A program, compiled for its shardings."""
    make, shapes, ins, outs, (sizes, names) = PROGRAMS[name]
    devices = np.array(library.devices()[: int(np.prod(sizes))]).reshape(sizes)
    mesh = library.sharding.Mesh(devices, names)
    place = lambda spec: library.NamedSharding(mesh, library.P(*spec))
    options = {} if outs is None else {"out_shardings": [place(s) for s in outs]}
    if outs is not None:
        options["out_shardings"] = (
            options["out_shardings"][0] if len(outs) == 1 else tuple(options["out_shardings"])
        )
    rng = np.random.default_rng(0)
    args = [abs(rng.standard_normal(s)).astype(np.float32) for s in shapes]
    jitted = library.jit(make(library), in_shardings=tuple(map(place, ins)), **options)
    return jitted.lower(*args).compile()


def counts_in_text(text):
    """How many collectives the text of an XLA program has."""
    return sum(len(re.findall(rf" {op}(?:-start)?\(", text)) for op in OPERATIONS)


def main():
    import weft

    found = {}
    for name in PROGRAMS:
        moves = compiled(weft, name).moves
        found[name] = [m.kind for m in moves]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
