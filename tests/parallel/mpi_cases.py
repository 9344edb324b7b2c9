"""Programs for a mesh of four devices, run by one process or by several under mpiexec.

``python mpi_cases.py FILE`` runs all of them and has the first process write the results.
"""

import sys

import numpy as np

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.experimental import multihost_utils
from weft.sharding import Mesh, NamedSharding

CASES = {}
DEVICES = 4


def case(function):
    CASES[function.__name__] = function
    return function


def line():
    return Mesh(np.array(weft.devices()[:DEVICES]), ("i",))


def grid():
    return Mesh(np.array(weft.devices()[:DEVICES]).reshape(2, 2), ("a", "b"))


def turned():
    """A mesh whose rows are devices of different processes, and not in order."""
    return Mesh(np.array(weft.devices()[:DEVICES])[[2, 0, 3, 1]].reshape(2, 2), ("a", "b"))


def data(*shape, dtype=np.float32, seed=0):
    made = np.random.RandomState(seed).standard_normal(shape) * 4
    return made.astype(dtype)


def on(mesh, x, spec):
    return weft.device_put(x, NamedSharding(mesh, spec))


def mapped(mesh, function, *args, ins, outs, **options):
    """The results of a mapped function, eager and compiled, which must be the same."""
    ins = ins if isinstance(ins, tuple) and not isinstance(ins, P) else (ins,) * len(args)
    given = [on(mesh, x, s) for x, s in zip(args, ins, strict=True)]
    f = weft.shard_map(function, mesh=mesh, in_specs=ins, out_specs=outs, **options)
    jitted = weft.jit(f)
    first = jitted(*given)
    for _ in range(3):
        again = jitted(*given)
    return [f(*given), first, again]


# --- collectives ----------------------------------------------------------------------------------


@case
def sums():
    found = []
    for dtype in (np.float32, np.int32, np.float16, jnp.bfloat16, np.complex64, np.uint8):
        x = data(8, 6, dtype=dtype)
        found += mapped(line(), lambda x: lax.psum(x, "i"), x, ins=P("i"), outs=P())
    return found


@case
def large_sums():
    x = data(4, 50_001)
    f = lambda x: (lax.psum(x, "i"), lax.pmean(x, "i"), lax.pmax(x, "i"), lax.pmin(x, "i"))
    return mapped(line(), f, x, ins=P("i"), outs=P())


@case
def sums_over_axes_of_a_grid():
    found = []
    for mesh in (grid(), turned()):
        x = data(4, 6)
        for names, outs in (("a", P("b")), ("b", P("a")), (("a", "b"), P()), (("b", "a"), P())):
            f = lambda x, names=names: lax.psum(x, names)
            found += mapped(mesh, f, x, ins=P(("a", "b")), outs=outs, check_vma=False)
    return found


@case
def gathers():
    found = []
    for mesh, name in ((line(), "i"), (turned(), ("b", "a")), (grid(), ("a", "b"))):
        for tiled in (False, True):
            for axis in (0, 1):
                f = lambda x, n=name, t=tiled, a=axis: lax.all_gather(x, n, axis=a, tiled=t)
                x = data(4, 6)
                ins = P(("a", "b")) if mesh.devices.ndim == 2 else P("i")
                found += mapped(mesh, f, x, ins=ins, outs=P(), check_vma=False)
    return found


@case
def gathers_of_one_axis():
    f = lambda x: lax.all_gather(x, "b", tiled=True) * (1 + lax.axis_index("a"))
    found = mapped(turned(), f, data(8, 3), ins=P(("a", "b")), outs=P("a"), check_vma=False)
    return found + mapped(grid(), f, data(8, 3), ins=P(("a", "b")), outs=P("a"), check_vma=False)


@case
def exchanges():
    found = []
    for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        f = lambda x, s=split, c=concat: lax.all_to_all(x, "i", s, c, tiled=True)
        found += mapped(line(), f, data(16, 8), ins=P("i"), outs=P("i"))
        g = lambda x, s=split, c=concat: lax.all_to_all(x, "b", s, c, tiled=True)
        found += mapped(turned(), g, data(16, 8), ins=P(("a", "b")), outs=P(("a", "b")))
    f = lambda x: lax.all_to_all(x, "i", 0, 1)
    return found + mapped(line(), f, data(16, 8), ins=P("i"), outs=P("i"))


@case
def scattered_sums():
    f = lambda x: lax.psum_scatter(x, "i", tiled=True)
    g = lambda x: lax.psum_scatter(x, "b", scatter_dimension=1, tiled=True)
    found = mapped(line(), f, data(16, 8), ins=P("i"), outs=P("i"))
    return found + mapped(turned(), g, data(8, 8), ins=P(("a", "b")), outs=P(("a", "b")))


@case
def permutations():
    ring = [(i, (i + 1) % 4) for i in range(4)]
    some = [(0, 3), (2, 1)]
    f = lambda x: (lax.ppermute(x, "i", ring), lax.ppermute(x, "i", some))
    g = lambda x: (lax.ppermute(x, "a", [(0, 1), (1, 0)]), lax.pshuffle(x, "b", [1, 0]))
    found = mapped(line(), f, data(8, 3), ins=P("i"), outs=P("i"))
    return found + mapped(turned(), g, data(8, 3), ins=P(("a", "b")), outs=P(("a", "b")))


@case
def broadcasts_and_positions():
    f = lambda x: lax.pbroadcast(x, "i", 2) + lax.axis_index("i")
    g = lambda x: x * 0 + lax.axis_index("a") * 10 + lax.axis_index("b")
    found = mapped(line(), f, data(8, 3), ins=P("i"), outs=P("i"), check_vma=False)
    return found + mapped(turned(), g, data(8, 3), ins=P(("a", "b")), outs=P(("a", "b")))


@case
def ragged_exchanges():
    def f(x):
        i = lax.axis_index("i")
        one = jnp.ones(4, jnp.int32)
        starts, targets = jnp.arange(4, dtype=jnp.int32), jnp.full(4, i, jnp.int32)
        return lax.ragged_all_to_all(x, jnp.zeros_like(x), starts, one, targets, one, axis_name="i")

    return mapped(line(), f, data(16, 3), ins=P("i"), outs=P("i"), check_vma=False)


# --- programs -------------------------------------------------------------------------------------


@case
def loops_and_branches():
    def f(x, w):
        def step(carry, row):
            carry = lax.psum(carry * row, "i") / 4 + jnp.sin(row)
            return carry, lax.pmax(carry, "i")

        carry, rows = lax.scan(step, w, x)
        times = lax.while_loop(
            lambda s: s[0] < 3,
            lambda s: (s[0] + 1, lax.ppermute(s[1], "i", [(0, 1), (1, 0)])),
            (0, carry),
        )[1]
        return carry, rows, times, lax.cond(rows[0, 0] > 0, jnp.sin, jnp.cos, carry)

    outs = (P("i"), P(None, "i"), P("i"), P("i"))
    args = data(5, 12), data(12, seed=1)
    return mapped(line(), f, *args, ins=(P(None, "i"), P("i")), outs=outs, check_vma=False)


@case
def gradients_by_shared_weights():
    def step(w, b, x, y):
        def loss(w, b):
            return ((jnp.tanh(x @ w) + b - y) ** 2).mean()

        value, grads = weft.value_and_grad(loss, argnums=(0, 1))(w, b)
        return lax.pmean(value, "i"), grads

    args = data(6, 3), data(3, seed=1), data(16, 6, seed=2), data(16, 3, seed=3)
    return mapped(line(), step, *args, ins=(P(), P(), P("i"), P("i")), outs=(P(), P()))


@case
def product_on_a_grid():
    f = lambda a, b: lax.psum(a @ b, "b")
    args = data(8, 6), data(6, 5, seed=1)
    return mapped(grid(), f, *args, ins=(P("a", "b"), P("b")), outs=P("a"))


@case
def parts_of_the_mesh_by_hand():
    f = lambda x: lax.psum(x, "a")
    return mapped(grid(), f, data(4, 6), ins=P("a"), outs=P(), axis_names={"a"})


@case
def mapped_elements():
    # each process gives the elements of its own devices, and gets theirs
    n = weft.local_device_count()
    begin = n * weft.process_index()
    x = data(4, 5)[begin : begin + n]
    f = weft.pmap(lambda x: x / lax.psum(jnp.abs(x), "i"), axis_name="i")
    g = weft.pmap(lambda x, y: (x + y, lax.pmean(x, "i")), axis_name="i", in_axes=(0, None))
    h = weft.pmap(lambda x: lax.pmax(x, "i"), axis_name="i", out_axes=None)
    made = [f(x), f(x), *g(x, data(5, seed=1)), *g(x, np.float32(2))]
    joined = [multihost_utils.process_allgather(np.asarray(y), tiled=True) for y in made]
    return [*map(jnp.asarray, joined), h(x)]


@case
def chains_of_mapped_functions():
    mesh = line()
    f = weft.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    g = weft.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    x = on(mesh, data(8, 3), P("i"))
    return [weft.jit(lambda x: g(f(x) + 1))(x), g(f(x)), x * 2 + x]


@case
def moves_between_shardings():
    found, x = [], data(8, 12)
    specs = [P(), P("a"), P("b"), P("a", "b"), P(("a", "b")), P(None, ("b", "a"))]
    for mesh in (grid(), turned()):
        for first in specs:
            for second in specs:
                y = on(mesh, x, first)
                moved = weft.device_put(y, NamedSharding(mesh, second))
                assert moved.sharding.spec == second
                found.append(moved)
    return found


@case
def types_that_carry_shardings():
    mesh = weft.make_mesh((2, 2), ("a", "b"), devices=weft.devices()[:DEVICES])
    with weft.set_mesh(mesh):
        x, w = on(mesh, data(8, 4), P("a", "b")), on(mesh, data(4, 6, seed=1), P("b"))
        assert str(weft.typeof(x)) == "float32[8@a,4@b]"
        product = weft.jit(lambda x, w: jnp.einsum("ij,jk->ik", x, w, out_sharding=P("a")))(x, w)
        slope = weft.jit(weft.grad(lambda w: jnp.sum(jnp.tanh(x) * 2 + w[:, 0])))(w)
        moved = weft.reshard(x, P(None, "a"))
        found = [product, slope, moved, jnp.tanh(x).sum(0)]
        types = [str(weft.typeof(y)) for y in found]
    assert types == ["float32[8@a,6]", "float32[4@b,6]", "float32[8,4@a]", "float32[4@b]"]
    return found


@case
def random_programs():
    """Small programs of random operations and collectives."""
    found = []
    for seed in range(40):
        draw = np.random.RandomState(seed)
        mesh = [line, grid, turned][draw.randint(3)]()
        names = mesh.axis_names

        def program(x, draw=draw, names=names):
            values = [x, jnp.cos(x)]
            for _ in range(draw.randint(2, 6)):
                v = values[draw.randint(len(values))]
                name = names[draw.randint(len(names))]
                size = lax.axis_size(name)
                kind = draw.randint(8)
                if kind == 0:
                    v = lax.psum(v, name) / 4
                elif kind == 1:
                    v = lax.pmax(v, names)
                elif kind == 2:
                    shift = draw.randint(size)
                    v = lax.ppermute(v, name, [(i, (i + shift) % size) for i in range(size)])
                elif kind == 3:
                    v = lax.all_gather(v, name).mean(0)
                elif kind == 4:
                    v = lax.all_to_all(v, name, 0, 0, tiled=True)
                elif kind == 5:
                    v = jnp.tile(lax.psum_scatter(v, name, tiled=True), (size, 1)) / 4
                elif kind == 6:
                    v = v * (1 + lax.axis_index(name))
                else:
                    v = jnp.sin(v) + values[draw.randint(len(values))]
                values.append(v)
            return sum(values[1:], values[0])

        spec = P(tuple(names))
        f = weft.shard_map(program, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        found.append(weft.jit(f)(on(mesh, data(16, 5, seed=seed), spec)))
    return found


# --- running --------------------------------------------------------------------------------------


def values(tree):
    """Arrays as NumPy arrays of all their elements."""
    gather = lambda x: multihost_utils.process_allgather(x, tiled=True)
    leaves = weft.tree_util.tree_leaves(tree)
    return [np.asarray(x if x.is_fully_addressable else gather(x)) for x in leaves]


def main(path):
    several = weft.distributed.is_initialized()
    found = {}
    for name, function in CASES.items():
        for i, value in enumerate(values(function())):
            found[f"{name}-{i}"] = value.astype(np.float32) if value.dtype.kind == "V" else value
    if not several or weft.process_index() == 0:
        wide = {k: v.astype(np.complex128 if v.dtype.kind == "c" else np.float64)
                for k, v in found.items()}  # fmt: skip
        np.savez(path, **wide)
    print(f"process {weft.process_index()} of {weft.process_count()}: {len(found)} results")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        weft.distributed.initialize()
    main(sys.argv[1])
