"""The program of one device: what it moves, and that all devices give together what one gives."""

import json
from pathlib import Path

import pytest

from tests.parallel.test_parallel import run

MOVES = """
import numpy as np, weft, weft.numpy as jnp
from weft import P, lax
from weft.division.programs.partition import partition
from weft.sharding import Mesh, NamedSharding
line = Mesh(np.array(weft.devices()), ("x",))
grid = Mesh(np.array(weft.devices()).reshape(4, 2), ("x", "y"))
def moves(f, shapes, ins, outs=None, mesh=line, check=True):
    args = [np.random.default_rng(i).standard_normal(s).astype("f") for i, s in enumerate(shapes)]
    made = partition(weft.make_jaxpr(f)(*args), mesh, ins, outs)
    found = weft.jit(made.bind)(*args)
    for a, b in zip(found, weft.tree.leaves(weft.jit(f)(*args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    print(*[(m.kind, m.axes, m.bytes * m.times) for m in made.moves], made.out_specs)
M = (8, 16)
"""
X, WHOLE, MINOR = "(('x',), ())", "((), ())", "((), ('x',))"

CASES = {
    # elementwise operations and products of divided rows move nothing
    "rows": (
        f"moves(lambda a, b: jnp.tanh(a @ b), [M, (16, 4)], [{X}, {WHOLE}])",
        "((('x',), ()),)",
    ),
    # the sum over a divided dimension: what two operands divide is summed once
    "contraction": (
        f"moves(lambda a, b: a @ b, [M, (16, 4)], [{MINOR}, {X}])",
        "('all-reduce', ('x',), 224) (((), ()),)",
    ),
    # ... and scattered where the result is wanted so
    "scattered": (
        f"moves(lambda a, b: a @ b, [M, (16, 4)], [{MINOR}, {X}], [{X}])",
        "('reduce-scatter', ('x',), 112) ((('x',), ()),)",
    ),
    # a constraint after an elementwise operation is propagated back to the product
    "backwards": (
        (
            "moves(lambda a, b: lax.with_sharding_constraint(jnp.tanh(a @ b * 2),"
            f" NamedSharding(line, P('x'))), [M, (16, 4)], [{MINOR}, {X}])"
        ),
        "('reduce-scatter', ('x',), 112) ((('x',), ()),)",
    ),
    # from rows to columns by an all-to-all
    "exchange": (
        f"moves(lambda a: jnp.sin(a), [(8, 16)], [{X}], [{MINOR}])",
        "('all-to-all', ('x',), 56) (((), ('x',)),)",
    ),
    # a sort along a divided dimension divides the other one
    "sort": (
        f"moves(lambda a: jnp.sort(a, 0), [(16, 16)], [{X}])",
        "('all-to-all', ('x',), 112) (((), ('x',)),)",
    ),
    # what all have is cut without moving anything
    "cut": (f"moves(lambda a: a + 1, [M], [{WHOLE}], [{X}])", "((('x',), ()),)"),
    # a convolution moves the edges of its parts
    "halo": (
        (
            "moves(lambda a, k: lax.conv_general_dilated(a, k, (1, 1), 'SAME'), [(1, 2, 16, 8),"
            " (2, 2, 3, 3)], [((), (), ('x',), ()), ((), (), (), ())])"
        ),
        "('permute', ('x',), 64) ('permute', ('x',), 64) (((), (), ('x',), ()),)",
    ),
    # partial sums along a divided axis move one element of each row
    "cumsum": (
        f"moves(lambda a: jnp.cumsum(a, 0), [(16, 4)], [{X}])",
        "('all-gather', ('x',), 112) ((('x',), ()),)",
    ),
    # random bits are made where they are wanted
    "draws": (
        f"moves(lambda a: a + weft.random.normal(weft.random.key(0), a.shape), [M], [{X}])",
        "((('x',), ()),)",
    ),
    # a lookup in a table that is divided by rows: the rows that a device has, and a sum
    "lookup": (
        f"moves(lambda t, i: t[i.astype(int)], [(16, 4), (3,)], [{X}, ((),)])",
        "('all-reduce', ('x',), 84) (((), ()),)",
    ),
    # gradients of a data-parallel layer: one sum for the weights
    "gradients": (
        f"moves(weft.grad(lambda w, a: jnp.tanh(a @ w).sum()), [(16, 4), M], [{WHOLE}, {X}])",
        "('all-reduce', ('x',), 448) (((), ()),)",
    ),
    # ... which is scattered where weights are divided (ZeRO), after they were gathered
    "fully_sharded": (
        (
            "moves(lambda w, a: w - weft.grad(lambda w: jnp.tanh(a @ w).sum())(w),"
            f" [(16, 4), (64, 16)], [{X}, {X}])"
        ),
        "('all-gather', ('x',), 224) ('reduce-scatter', ('x',), 224) ((('x',), ()),)",
    ),
    # a loop keeps its carry divided, and sums in every round
    "loop": (
        (
            "moves(lambda c, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), c, None, 3)[0],"
            f" [(8, 16), (16, 16)], [{X}, {WHOLE}])"
        ),
        "((('x',), ()),)",
    ),
    # what no round changes is gathered once, before the loop
    "loop_invariant": (
        (
            "moves(lambda c, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), c, None, 3)[0],"
            f" [(64, 16), (16, 16)], [{X}, {X}])"
        ),
        "('all-gather', ('x',), 896) ((('x',), ()),)",
    ),
    "two_axes": (
        "moves(lambda a, b: a @ b, [M, (16, 4)], [(('x',), ('y',)), (('y',), ())], None, grid)",
        "('all-reduce', ('y',), 32) ((('x',), ()),)",
    ),
}


@pytest.fixture(scope="module")
def told():
    code = MOVES + "\n".join(call for call, _ in CASES.values())
    return dict(zip(CASES, run("-c", code).splitlines(), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_what_is_moved(told, name):
    assert told[name] == CASES[name][1]


def test_samples_of_every_primitive():
    assert ", 0 broken" in run("-m", "tests.parallel.partition_law")


@pytest.mark.parametrize("first", [0])
def test_random_programs(first):
    assert ", 0 broken" in run("-m", "tests.parallel.partition_programs", str(first), "100")


@pytest.mark.full
@pytest.mark.parametrize("first", range(100, 1_000, 100))
def test_many_random_programs(first):
    assert ", 0 broken" in run("-m", "tests.parallel.partition_programs", str(first), "100")


JAX = json.loads((Path(__file__).parent / "data" / "collectives.json").read_text())


@pytest.fixture(scope="module")
def collectives():
    return json.loads(run("-m", "tests.parallel.collectives"))


@pytest.mark.parametrize("name", JAX)
def test_no_more_collectives_than_jax(collectives, name):
    assert len(collectives[name]) <= JAX[name], collectives[name]


TELLING = """
import numpy as np, weft, weft.numpy as jnp
from weft import P
from weft.sharding import NamedSharding
mesh = weft.sharding.Mesh(np.array(weft.devices()), ("x",))
def f(a, b):
    return jnp.tanh(a @ b)
place = lambda *spec: NamedSharding(mesh, P(*spec))
a = weft.device_put(jnp.ones((8, 16)), place(None, "x"))
b = weft.device_put(jnp.ones((16, 4)), place("x"))
compiled = weft.jit(f).lower(a, b).compile()
(move,) = compiled.moves
assert (move.kind, move.axes, move.bytes, move.times) == ("all-reduce", ("x",), 224, 1), move
assert move.line.endswith("(f)") and move.primitive == "dot_general"
told = weft.explain(f, quiet=True)(a, b)
assert told.moves == compiled.moves
line = "all-reduce of f32[8,4] over x: 224 bytes, for dot_general — "
assert line in str(told) and line in compiled.as_text()
assert "over 8 devices (x=8): 1 collective, 224 bytes to each device" in str(told)
# what no rule divides is listed with its reason, and what a user wrote too
def g(a):
    def body(c, row):
        return weft.lax.psum(c, "x") * row, None
    local = lambda a: weft.lax.scan(body, a[0] * 0, jnp.ones((3, 16)))[0]
    summed = weft.shard_map(local, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return summed(a), weft.lax.reshape(a, (16, 8), dimensions=(1, 0))
moves = weft.explain(g, quiet=True)(weft.device_put(jnp.ones((8, 16)), place("x"))).moves
print([(m.kind, m.times, m.why) for m in moves])
"""


def test_what_is_moved_is_told():
    assert run("-c", TELLING) == (
        "[('all-reduce', 3, 'written by hand'), ('all-gather', 1, 'no rule divides reshape')]\n"
    )
