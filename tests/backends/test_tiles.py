"""Tiles of contractions: products, convolutions and windows choose them by one rule."""

import random

import numpy as np
import pytest

from tests.backends.tasks import run_tasks
from weft.backends.cpu.routines.contractions import (
    contraction,
    conv,
    conv_moves,
    conv_text,
    decisions,
    tiles,
    window,
)
from weft.backends.cpu.routines.contractions.conv_text import (
    Axis,
    Contraction,
    Dim,
    contraction_module,
)
from weft.backends.cpu.routines.contractions.tiles import Forms, Role
from weft.backends.cpu.routines.products import dot, product
from weft.backends.llvm.tasks import Lowered, Place
from weft.kernel.program import Type
from weft.prims.conv import ConvDimensionNumbers

F32 = np.dtype(np.float32)
# Lanes of float32, vector registers, and whether an FMA takes a lane as a factor.
MACHINES = {"neon": (4, 32, True), "avx2": (8, 16, False), "avx512": (16, 32, False)}
LAST = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    lanes, registers, lanewise = MACHINES[request.param]
    for module in (tiles, decisions, product):
        monkeypatch.setattr(module, "registers", lambda: registers)
        monkeypatch.setattr(module, "has_by_element_fma", lambda: lanewise)
    monkeypatch.setattr(contraction, "vector_bits", lambda: 32 * lanes)
    return request.param, lanes, registers


def lower_product(rows, depth, columns, along=0):
    shapes = (rows, depth), (columns, depth) if along else (depth, columns), (rows, columns)
    left, right, out = (Type(shape, F32) for shape in shapes)
    params = {"dimension_numbers": (((1,), (along,)), ((), ())), "precision": None}
    return dot.lower_dot([left, right], [out], params)


def lower_convolution(images, space, channels, outputs):
    left, right = (images, space, space, channels), (3, 1, channels, outputs)
    params = {
        "window_strides": (1, 1), "padding": ((1, 1), (0, 0)), "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1), "dimension_numbers": LAST, "feature_group_count": 1,
        "batch_group_count": 1,
    }  # fmt: skip
    out = Type((images, space, space, outputs), F32)
    return conv.convolution([Type(left, F32), Type(right, F32)], [out], params)


def test_products_and_convolutions_have_one_rule(monkeypatch):
    """With other costs both have other tiles, and the same ones."""
    found = []
    contract = contraction.Plan.contract

    def noted(plan, given, *rest, **more):
        found.append((plan.name, [d.size for d in given.box], len(given.pieces)))
        return contract(plan, given, *rest, **more)

    monkeypatch.setattr(contraction.Plan, "contract", noted)
    for points, vectors in ((4, 1), (4, 2)):

        def tile(self, count, width, box, most, wanted=(points, vectors)):
            return (float((np.prod([n for _, n in box]), count) != wanted), 1.0)

        monkeypatch.setattr(tiles._Cost, "tile", tile)
        found.clear()
        lower_product(64, 64, 256)
        lower_convolution(2, 8, 64, 256)
        assert [*found] == [("product", [points], vectors), ("conv", [points], vectors)]


def test_windows_have_it_too(monkeypatch):
    monkeypatch.setattr(window, "vector_bits", lambda: 128)
    last = window.Line(0, 1, 36, 0, 1, 1, 0, 1, 1, 36, 1, 1)
    for vectors in (1, 3, 4):
        cost = lambda self, count, width, box, most, wanted=vectors: (float(count != wanted), 1.0)
        monkeypatch.setattr(tiles._Cost, "tile", cost)
        (_, _, pieces), *_ = window.row_of(last, 36, 4, 9)
        assert pieces == tuple((4 * i, 4) for i in range(vectors))


def some_roles(choice):
    n, o, k, c, t = (choice.choice([1, 2, 3, 7, 16, 33, 128]) for _ in range(5))
    return [
        Role("n", n, "n", o * c, 0, o * k), Role("o", o, "s", c, 0, k),
        Role("k", k, "", 0, 1, 1), Role("c", c, "c", 1, k, 0), Role("t", t, "s", c, c * k, 0),
    ]  # fmt: skip


def test_costs_that_are_not_counted_in_full_are_no_best_ones(machine, monkeypatch):
    lanes, cost, choice, skipped = machine[1], tiles._Cost.tile, random.Random(1), []

    def noted(self, vectors, width, box, most):
        found, whole = (cost(self, vectors, width, box, limit) for limit in (most, np.inf))
        assert found == whole or (found is None and whole[0] > most)
        skipped.append(found is None)
        return found

    monkeypatch.setattr(tiles._Cost, "tile", noted)
    for _ in range(40):
        tiles.choose(some_roles(choice), choice.choice("ok"), lanes, 4, None)
        forms = Forms("o", (12, 8, 6, 4, 2), nearly=1.1)
        tiles.choose(some_roles(choice), "k", lanes, 4, forms)
    assert any(skipped)


def test_registers_hold_what_a_tile_needs(machine):
    _, lanes, registers = machine
    choice = random.Random(0)
    for _ in range(200):
        placed = some_roles(choice)
        forms = choice.choice([None, Forms("o", (12, 8, 6, 4, 2), (1, 2, 3, 4, 6, 8))])
        tile = tiles.choose(placed, "k", lanes, 4, forms)
        vectors, points = len(tile.pieces(lanes)), int(np.prod([size for _, size in tile.box]))
        assert points == 1 or (points + 1) * vectors < registers
        assert forms is None or [r.name for r, _ in tile.box] in ([], ["o"])


def test_of_nearly_the_best_the_largest(machine):
    _, lanes, _ = machine
    placed = [
        Role("o", 96, "s", 64, 0, 256),
        Role("k", 256, "", 0, 1, 1),
        Role("c", 64, "c", 1, 256, 0),
    ]
    forms = Forms("o", (6, 4, 2))
    best = tiles.choose(placed, "k", lanes, 4, forms)
    for slack in (1.1, 4.0):
        tile = tiles.choose(placed, "k", lanes, 4, forms._replace(nearly=slack))
        assert best.cost <= tile.cost <= slack * best.cost
        area = lambda tile: tile.width * np.prod([n for _, n in tile.box])
        assert area(tile) >= area(best)


# Rows, depth and columns of products, and the rows and vectors of their tiles on these machines.
PRODUCTS = {
    (1024, 1024, 1024): ((8, 2), (6, 2), (6, 4)),
    (256, 256, 256): ((4, 4), (6, 2), (6, 4)),
    (128, 512, 10): ((4, 3), (6, 2), (12, 2)),
    (8, 64, 64): ((8, 2), (4, 2), (8, 2)),
}


@pytest.mark.parametrize("shape", PRODUCTS)
def test_tiles_of_products(shape, machine):
    name, lanes, _ = machine
    rows, depth, columns = shape
    dims = Dim(rows, depth, 0, columns), Dim(columns, 0, 1, 1), Dim(depth, 1, columns, 0)
    problem = product.Problem((), *dims)
    shared = decisions.Shared("rows", 4, False)
    tile = decisions.decide(problem.roles(), "columns", lanes, 4, shared).tiling
    found = [n for _, n in tile.box], len(tile.pieces(min(lanes, decisions.below(columns))))
    assert ((found[0] or [1])[0], found[1]) == PRODUCTS[shape][[*MACHINES].index(name)]


def split_of(rows, columns, depth, dims=("rows", "columns", "depth"), shared=None):
    roles = [
        Role(dims[0], rows, dims[0], depth, 0, columns), Role(dims[1], columns, "", 0, 1, 1),
        Role(dims[2], depth, dims[2], 1, columns, 0),
    ]  # fmt: skip
    return decisions.decide(roles, dims[1], 4, 4, shared).tiling.split


def test_sums_are_split_by_one_rule(machine):
    """Whatever dimensions are called: for threads, and for what is read again; into equal parts."""
    shared = decisions.Shared("rows", 4, False)
    for shape in ((16, 16, 8192), (32, 32, 99999), (256, 256, 1 << 16), (1, 1, 1 << 20)):
        found = split_of(*shape, shared=shared)
        assert found.count > 1 and found.count * found.size == shape[2]
    for shape in ((16, 16, 512), (512, 512, 1024), (4096, 64, 2048), (64, 64, 65537), (1, 1, 9999)):
        assert split_of(*shape, shared=shared) is None
    for shape in ((64, 64, 1 << 16), (16, 16, 8192), (512, 512, 1024)):
        split = split_of(*shape, dims=("o", "k", "c"))
        assert (split is None) == (split_of(*shape, shared=shared) is None)


# A layer of 64 to 64 features, images of 32²: forward, and the gradient of its weights.
FORWARD = [
    Role("n", 16, "n", 73984, 0, 65536), Role("o0", 32, "s0", 2176, 0, 2048),
    Role("o1", 32, "s1", 64, 0, 64), Role("k", 64, "", 0, 1, 1), Role("c", 64, "c", 1, 64, 0),
    Role("t0", 3, "s0", 2176, 12288, 0), Role("t1", 3, "s1", 64, 4096, 0),
]  # fmt: skip
WEIGHTS = [
    Role("n", 64, "n", 1, 0, 64), Role("o0", 3, "s0", 2176, 0, 12288),
    Role("o1", 3, "s1", 64, 0, 4096), Role("k", 64, "", 0, 1, 1),
    Role("c", 16, "c", 73984, 65536, 0), Role("t0", 32, "s0", 2176, 2048, 0),
    Role("t1", 32, "s1", 64, 64, 0),
]  # fmt: skip
LAYER = {
    "neon": ((4, {"o1": 4}), (2, {"o1": 3, "n": 4})),
    "avx2": ((2, {"o1": 4}), (2, {"n": 4})),
    "avx512": ((2, {"o1": 8}), (2, {"n": 4, "o1": 3})),
}


def test_tiles_of_a_layer(machine):
    name, lanes, _ = machine
    for roles, wanted in zip((FORWARD, WEIGHTS), LAYER[name], strict=True):
        tile = tiles.choose(roles, "k", lanes, 4)
        found = {r.name: n for r, n in tile.box}
        assert (len(tile.pieces(lanes)), found) == wanted


def test_points_side_by_side_are_read_by_vectors(monkeypatch):
    """Also where other points of a tile begin between multiples of a vector's lanes."""
    monkeypatch.setattr(conv_text, "has_by_element_fma", lambda: True)
    one = Axis(1, 1, 1, 0, 0, 0)
    plan = Contraction(
        F32, F32, (one, one), (Dim(2, 5, 0, 100), Dim(4, 1, 0, 10)), Dim(4, 0, 1, 1), ((0, 4),),
        (Dim(63, 20, 4),), 0, 0, 0, 32,
    )  # fmt: skip
    text = str(contraction_module(plan, "conv"))
    steps = text.count("call <4 x float> @llvm.fmuladd") // 8
    assert steps and text.count("load <4 x float>") == 3 * steps


@pytest.mark.parametrize(("rows", "columns"), [(10, 3001), (3001, 10), (301, 299)])
def test_transposes_have_items_for_all_threads(rows, columns):
    """Blocks of the longer side, whose last squares overlap."""
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    dims = [conv_moves.Copied(columns, 1, rows), conv_moves.Copied(rows, columns, 1)]
    for careless in (False, True):
        places = Place("in", 0), Place("out", 0)
        task = conv_moves.copy_task(places, dims, (F32, F32), 4, careless=careless)
        assert task.extent == -(-max(rows, columns) // conv_moves.BLOCK) > 1
        (out,) = run_tasks(Lowered([task]), [x], [Type((columns, rows), F32)])
        assert out.tobytes() == np.ascontiguousarray(x.T).tobytes()


def test_panels_of_few_rows_have_items_for_all_threads():
    rows, columns, tile = 197, 131, 6
    x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
    roles = Role("k", columns, "", 0, 1, 1), Role("c", rows, "c", 1, columns, 0)
    found = contraction.packed(roles, "right", "k", tile)
    task = conv_moves.copy_task(
        (Place("in", 0), Place("out", 0)), found.dims, (F32, F32), 4, careless=True
    )
    assert task.extent == -(-rows // conv_moves.PANEL_ROWS[1])
    (out,) = run_tasks(Lowered([task]), [x], [Type((found.size,), F32)])
    starts = [min(i, columns - tile) for i in range(0, columns, tile)]
    assert out.tobytes() == np.stack([x[:, i : i + tile] for i in starts]).tobytes()


SHAPES = [(196, 2048, 512), (1000, 700, 300), (3000, 64, 64), (256, 256, 256), (512, 256, 64)]


@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_have_units_for_many_threads(shape, along, machine):
    """Units of few rows do not transpose a panel each: it is packed before."""
    *copies, task = lower_product(*shape, along).tasks
    assert task.extent >= 8
    packs = "pack" in task.module.names
    assert not (packs and copies)
    few = machine[0] == "avx512" and along and shape == (512, 256, 64)
    assert not (packs and (few or machine[0] == "neon"))


def test_rows_of_several_axes_read_an_operand(machine):
    """It is packed where all of them are many, though those of each axis are few."""
    _, lanes, _ = machine
    for outer, packed in ((1, False), (7, True)):
        roles = [
            Role("b0", outer, "b0", 1024, 0, 2048), Role("rows", 28, "rows", 7168, 0, 14336),
            Role("columns", 2048, "", 0, 1, 1), Role("depth", 1024, "depth", 1, 2048, 0),
        ]  # fmt: skip
        shared = decisions.Shared("rows", 4, False)
        found = decisions.decide(roles, "columns", lanes, 4, shared).packed[1]
        assert found == (packed or machine[0] == "neon")


def test_few_depths_are_not_prefetched(monkeypatch):
    """Most of what follows them is behind the operand, where there may be no memory."""
    monkeypatch.setattr(product, "has_by_element_fma", lambda: True)
    found = [
        "prefetch" in str(lower_product(6, depth, 512).tasks[-1].module) for depth in (40, 256)
    ]
    assert found == [False, True]
