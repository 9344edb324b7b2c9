"""Products of operands as they lie in memory: strides instead of copies, tried by NumPy."""

import ctypes
import pickle

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.emulation import run_routine
from weft import numpy as jnp
from weft.backends.cuda import commands
from weft.backends.cuda.passes import product_layout as layouts
from weft.backends.cuda.routines import products
from weft.backends.cuda.routines.base import Library
from weft.backends.cuda.schedule import flat
from weft.backends.reference.program import Reference
from weft.compiler.lower import fits
from weft.compiler.passes.collapse import collapse
from weft.compiler.plan import Planner
from weft.kernel.program import Launch, Op, Type

F32 = np.dtype(np.float32)


class Product:
    """What cuBLASLt does with a layout, by NumPy."""

    algorithm = 1

    def __init__(self, layout, dtype, out, compute):
        self.layout, self.dtype, self.out = layout, dtype, out

    def matrix(self, stored, address, dtype):
        batch, item = self.layout.batch, dtype.itemsize
        far = [(batch, stored.batch_stride), (stored.columns, stored.stride), (stored.rows, 1)]
        size = 1 + sum((n - 1) * stride for n, stride in far)
        memory = np.frombuffer((ctypes.c_char * (size * item)).from_address(address), dtype)
        shape, strides = (batch, stored.rows, stored.columns), (far[0][1], 1, stored.stride)
        return np.lib.stride_tricks.as_strided(memory, shape, [n * item for n in strides])

    def run(self, stream, first, second, result):
        a, b = (
            m.transpose(0, 2, 1) if stored.transposed else m
            for stored, m in (
                (self.layout.first, self.matrix(self.layout.first, first, self.dtype)),
                (self.layout.second, self.matrix(self.layout.second, second, self.dtype)),
            )
        )
        self.matrix(self.layout.result, result, self.out)[...] = a @ b


@pytest.fixture(autouse=True)
def by_numpy(monkeypatch):
    monkeypatch.setattr(products, "strided_product", Product)


def equation(subscripts, *shapes):
    """The product of an einsum, and the kernel after it, if there is one."""
    args = [weft.ShapeDtypeStruct(s, F32) for s in shapes]
    closed = weft.make_jaxpr(lambda x, y: jnp.einsum(subscripts, x, y))(*args)
    (product,) = [e for e in closed.jaxpr.eqns if e.primitive.name == "dot_general"]
    return closed, product


# Operands, and how many of them have to be transposed first.
PRODUCTS = [
    ("ibj,bjk->ibk", (16, 5, 8), (5, 8, 24), 0),
    ("bij,bkj->ikb", (5, 8, 16), (5, 24, 16), 0),
    ("jbi,kbj->bik", (8, 5, 16), (24, 5, 8), 0),
    ("bhij,bhjk->bhik", (2, 3, 8, 16), (2, 3, 16, 8), 0),
    ("bqhd,bkhd->bhqk", (1, 8, 3, 16), (1, 24, 3, 16), 0),
    ("bqhd,bkhd->bhqk", (2, 8, 3, 16), (2, 24, 3, 16), 2),
    ("byxc,yr->brxc", (3, 12, 5, 16), (12, 32), 0),
    ("brxc,xq->brqc", (3, 4, 12, 32), (12, 40), 0),
    ("aibj,jk->abik", (2, 32, 3, 8), (8, 32), 0),
    ("ikj,jml->ikml", (8, 4, 16), (16, 8, 4), 0),
    ("bij,bj->bi", (5, 8, 16), (5, 16), 0),
    ("ij,ij->", (8, 16), (8, 16), 0),
    ("ij,ik->jk", (16, 8), (16, 24), 0),
    ("iaj,kja->ik", (8, 2, 16), (24, 16, 2), 1),
]


@pytest.mark.parametrize("subscripts, left, right, copies", PRODUCTS)
def test_a_library_multiplies_operands_where_they_are(subscripts, left, right, copies):
    _, eqn = equation(subscripts, left, right)
    rng = np.random.default_rng(0)
    given = [rng.normal(size=x.aval.shape).astype(F32) for x in eqn.invars]
    types = [Type(x.shape, F32) for x in given]
    out = Type(eqn.outvars[0].aval.shape, F32)
    orders = products.analyse(*types, eqn.params["dimension_numbers"])[1:]
    routine = products.strided(types, out, eqn.params, orders)
    needed = [order for order in orders if order is not None]
    if routine is None:  # copies of all that has to be transposed are as good
        assert copies == len(needed)
        return
    assert sum(not isinstance(step, Library) for step in routine.steps) == copies
    found = np.empty(out.shape, F32)
    run_routine(routine, given, [found])
    numbers = eqn.params["dimension_numbers"]
    expected = weft.lax.dot_general(*given, numbers)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# Products whose result an einsum brings to another order, and whether the library writes that;
# None where it is the product's own.
ORDERED = [
    ("bij,bkj->ikb", (8, 16, 12), (8, 24, 12), False),  # no axis of a matrix is the last
    ("ibj,bjk->ibk", (16, 5, 8), (5, 8, 24), True),
    ("bij,bjk->ibk", (4, 16, 8), (4, 8, 24), True),
    ("bij,bjk->kbi", (4, 16, 8), (4, 8, 24), True),
    ("byxc,yr->brxc", (3, 12, 5, 16), (12, 32), True),
    ("brxc,xq->brqc", (3, 4, 12, 32), (12, 40), True),
    ("bqhd,bkhd->bhqk", (2, 8, 3, 16), (2, 24, 3, 16), None),
    ("bhqk,bkhd->bqhd", (1, 3, 8, 24), (1, 24, 3, 16), True),
]


@pytest.mark.parametrize("subscripts, left, right, fits", ORDERED)
def test_results_are_written_in_the_order_that_is_wanted(subscripts, left, right, fits):
    rng = np.random.default_rng(0)
    given = [rng.normal(size=shape).astype(F32) for shape in (left, right)]
    closed, _ = equation(subscripts, left, right)
    nodes = Planner(Reference()).program(closed).nodes
    *before, last = nodes
    assert isinstance(last, Launch) == (fits is not None)
    if fits is None:
        return
    (node,) = [n for n in before if isinstance(n, Op)]
    axes = layouts.turned(flat(collapse(last.kernel)))
    assert axes is not None
    offer = products.reordering(node.eqn, axes)
    assert (offer is not None) == fits
    if offer is None:
        return
    found = np.empty(closed.out_avals[0].shape, F32)
    order = [given[0], given[1]]
    if node.eqn.invars[0].aval.shape == right and left != right:
        order.reverse()
    run_routine(offer.routine(node), order, [found])
    np.testing.assert_allclose(found, np.einsum(subscripts, *given), rtol=1e-4, atol=1e-4)


def test_matrices_that_tensor_cores_could_not_read_are_copied():
    types = [Type((16, 5, 8), F32), Type((5, 8, 24), F32)]
    dims = (((2,), (1,)), ((1,), (0,)))
    assert products.layout_of(types, dims, (None, None)).is_aligned(4)
    odd = [Type((8, 3, 2, 8), F32), Type((3, 2, 8, 8), F32)]
    layout = products.layout_of(odd, (((3,), (2,)), ((1, 2), (0, 1))), (None, None))
    assert layout.is_aligned(4) and not layout._replace(
        first=layout.first._replace(stride=9)
    ).is_aligned(4)


@pytest.mark.parametrize("count", [1, 7])
def test_axes_that_follow_each_other_are_one(count):
    axes = [layouts.Axis(2, 12, 24, 6), layouts.Axis(3, 4, 8, 2), layouts.Axis(count, 1, 1, 1)]
    (found, *rest) = layouts._merged(axes[:2])
    assert not rest and found.extent == 6
    assert len(layouts._merged([axes[0], axes[2]])) == 2


# Products, and whether they are sums that fuse: of vectors, or of a tiny matrix and a long one.
SUMS = [
    ("kxy,kd->dxy", (9, 80, 80), (9, 2), True),
    ("ni,ij->nj", (5000, 3), (3, 3), True),
    ("bi,bi->b", (64, 300), (64, 300), True),
    ("ni,ij->nj", (5000, 16), (16, 16), False),
    ("ni,ij->nj", (100, 3), (3, 3), False),
    ("bni,bij->bnj", (4, 5000, 3), (4, 3, 3), False),
]


@pytest.mark.parametrize("subscripts, left, right, fuses", SUMS)
def test_products_of_tiny_matrices_are_sums(subscripts, left, right, fuses):
    _, eqn = equation(subscripts, left, right)
    assert fits("vectors.dot", [x.aval for x in eqn.invars], eqn.params) == fuses


@pytest.mark.parametrize(
    "subscripts, left, right, one",
    [("i,i->", (300,), (300,), True), ("ij,ji->", (9, 8), (8, 9), True)]
    + [("i,j->ij", (1,), (1,), False), ("bi,bi->b", (2, 9), (2, 9), False)],
)
def test_products_that_are_one_number(subscripts, left, right, one):
    _, eqn = equation(subscripts, left, right)
    assert fits("vectors.inner", [x.aval for x in eqn.invars], eqn.params) == one


def test_products_of_many_vectors_are_few_kernels(monkeypatch):
    """The squares of a gradient's leaves, of which a library would take one at a time."""
    planned.install(monkeypatch)
    xs = [weft.ShapeDtypeStruct((64, 64), F32)] * 20
    norm = lambda xs: sum(jnp.vdot(x, x) for x in xs)
    made = planned.planned(norm, xs)
    assert len(made.commands) <= 6
    assert all(isinstance(c, commands.Launched) for c in made.commands)


def test_products_of_vectors_in_loops_stay_products(monkeypatch):
    planned.install(monkeypatch)
    step = lambda _, x: x / (x @ x)
    made = planned.planned(lambda x: weft.lax.fori_loop(0, 9, step, x), np.ones(4000, F32))
    assert any(isinstance(c, commands.LoopKernel) for c in made.commands)


def test_nine_rolls_are_stacked_by_one_kernel():
    x = weft.ShapeDtypeStruct((9, 20, 20), F32)
    rolled = lambda f: jnp.stack([jnp.roll(f[k], k, 1) for k in range(9)])
    nodes = Planner(Reference()).program(weft.make_jaxpr(rolled)(x)).nodes
    assert all(isinstance(node, Launch) for node in nodes)


def test_a_product_takes_the_place_of_the_kernel_after_it():
    closed, _ = equation("bij,bjk->ibk", (4, 16, 8), (4, 8, 24))
    nodes = Planner(Reference()).program(closed).nodes
    kinds = lambda only: [type(n) for n in products.in_order(nodes, only, lambda a, b: a == b)]
    assert kinds(lambda slot, count: False) == [Op, Launch]
    assert kinds(lambda slot, count: count == 2) == [Op]
    (node,) = products.in_order(nodes, lambda slot, count: True, lambda a, b: a == b)
    assert node.outs == tuple(s for s in nodes[-1].slots if s not in nodes[0].outs)
    assert pickle.loads(pickle.dumps(node.offer)) == node.offer  # programs are kept on disk
