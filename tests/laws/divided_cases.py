"""Reshapes, gathers and scatters of many shapes, divided over meshes in many ways.

A case is data: the primitive, the mesh, the shapes and specs of its operands, and its parameters.
``tools/record_divisions.py`` writes cases with the types that JAX gives them.
"""

import json
import random
from math import prod
from pathlib import Path

RECORD = Path(__file__).parent / "data" / "divisions.json"
MESHES = [((2, 2), ("x", "y")), ((4, 2), ("x", "y")), ((2, 2, 2), ("x", "y", "z"))]
SCATTERS = {"scatter": "scatter", "scatter-add": "scatter_add", "scatter-max": "scatter_max"}


def drawn_spec(draw, shape, mesh, chance):
    """Axes of a mesh for some of the dimensions that they divide."""
    sizes = dict(zip(mesh[1], mesh[0], strict=True))
    names = draw.sample(list(sizes), len(sizes))
    spec = []
    for n in shape:
        axes = []
        while names and draw.random() < chance and n % sizes[names[-1]] == 0:
            n //= sizes[names[-1]]
            axes.append(names.pop())
        spec.append(axes)
    return spec


def cut(draw, n, count):
    """Numbers whose product is ``n``."""
    found = [1] * count
    for prime in (2, 3):
        while n % prime == 0:
            found[draw.randrange(count)] *= prime
            n //= prime
    return found


def drawn_reshape(draw):
    mesh = draw.choice(MESHES)
    shape = [draw.choice([1, 2, 4, 4, 6, 8, 8, 12]) for _ in range(draw.choice([1, 2, 2, 3, 4]))]
    new, at = list(shape), draw.randrange(len(shape))
    kind = draw.choice(["join", "join", "cut", "cut", "one", "both"])
    if kind == "one":
        new.insert(at, 1)
    elif kind == "cut":
        new[at : at + 1] = cut(draw, new[at], draw.choice([2, 3]))
    else:
        run = new[at : at + draw.choice([2, 3])]
        new[at : at + len(run)] = [prod(run)] if kind == "join" else cut(draw, prod(run), 2)
    return "reshape", mesh, [shape], [drawn_spec(draw, shape, mesh, 0.6)], {"new": new}


def drawn_window(draw):
    """The shapes and dimension numbers of a gather: operand, indices, result."""
    mesh, rank = draw.choice(MESHES), draw.choice([1, 2, 2, 3, 3])
    shape = [draw.choice([2, 4, 4, 8, 8]) for _ in range(rank)]
    order = draw.sample(range(rank), rank)
    batch = sorted(order[: draw.choice([0, 0, 1]) if rank > 1 else 0])
    rest = order[len(batch) :]
    indexed = rest[: draw.choice([1, 1, 2])]
    collapsed = sorted(d for d in indexed if draw.random() < 0.7)
    rows = [draw.choice([1, 2, 4, 8]) for _ in range(len(batch) + draw.choice([0, 1, 1, 2]))]
    pairs = sorted(draw.sample(range(len(rows)), len(batch)))
    for d, k in zip(batch, pairs, strict=True):
        rows[k] = shape[d]
    sizes = []
    for d, n in enumerate(shape):
        whole = draw.random() < (0.5 if d in indexed else 0.8)
        sizes.append(1 if d in batch or d in collapsed else n if whole else n // 2)
    kept = [d for d in range(rank) if d not in batch and d not in collapsed]
    offsets = sorted(draw.sample(range(len(kept) + len(rows)), len(kept)))
    left, inside = iter(rows), iter([sizes[d] for d in kept])
    out = [next(inside if d in offsets else left) for d in range(len(kept) + len(rows))]
    numbers = [offsets, collapsed, indexed, batch, pairs]
    return mesh, [shape, [*rows, len(indexed)], out], {"numbers": numbers, "sizes": sizes}


def drawn_index(draw, name):
    mesh, shapes, params = drawn_window(draw)
    offsets, collapsed, _, batch, pairs = params["numbers"]
    chance = draw.choice([0.15, 0.3, 0.5])
    specs = [drawn_spec(draw, shape, mesh, chance) for shape in shapes]
    rows = [d for d in range(len(shapes[2])) if d not in offsets]
    kept = [d for d in range(len(shapes[0])) if d not in batch and d not in collapsed]
    if draw.random() < 0.6:  # operands that go together
        for d, k in zip(batch, pairs, strict=True):
            specs[1][k] = specs[2][rows[k]] = specs[0][d]
        for at, d in zip(offsets, kept, strict=True):
            specs[2][at] = specs[0][d] if shapes[2][at] == shapes[0][d] else []
    if draw.random() < 0.6:  # and what has to be whole
        specs[1] = [axes if k in pairs else [] for k, axes in enumerate(specs[1])]
        for k, d in enumerate(rows):
            specs[2][d] = specs[2][d] if k in pairs else []
    count = 2 if name == "gather" else 3
    return name, mesh, shapes[:count], specs[:count], params


def fits(case):
    """Whether each operand can be divided so: an axis once, and parts of one size."""
    _, mesh, shapes, specs, _ = case
    sizes = dict(zip(mesh[1], mesh[0], strict=True))
    for shape, spec in zip(shapes, specs, strict=True):
        names = [name for axes in spec for name in axes]
        whole = all(n % prod(sizes[a] for a in axes) == 0 for n, axes in zip(shape, spec))
        if len(set(names)) != len(names) or not whole:
            return False
    return True


def drawn(seed, count):
    """Cases at random; the same for the same seed."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        name = draw.choice(["reshape", "gather", *SCATTERS])
        case = drawn_reshape(draw) if name == "reshape" else drawn_index(draw, name)
        if fits(case):
            found.append(case)
    return found


def recorded():
    """The cases of the record, each with JAX's answer: a spec, or the name of an error."""
    return [(tuple(case[:5]), case[5]) for case in json.loads(RECORD.read_text())]


def function(lax, case, mode="clip"):
    """The call of a case, with the functions of a library."""
    name, _, _, _, params = case
    if name == "reshape":
        return lambda x: lax.reshape(x, tuple(params["new"]))
    numbers = [tuple(part) for part in params["numbers"]]
    if name == "gather":
        dims, sizes = lax.GatherDimensionNumbers(*numbers), tuple(params["sizes"])
        return lambda x, at: lax.gather(x, at, dims, sizes, mode=mode)
    dims, scatter = lax.ScatterDimensionNumbers(*numbers), getattr(lax, SCATTERS[name])
    return lambda x, at, y: scatter(x, at, y, dims, mode=mode)


def answer(library, case):
    """The spec of the result where operands have types with shardings, or the error's class."""
    _, (sizes, names), shapes, specs, _ = case
    places = library.sharding
    kinds = (places.AxisType.Explicit,) * len(sizes)
    mesh = places.AbstractMesh(tuple(sizes), tuple(names), axis_types=kinds)
    given = []
    for i, (shape, spec) in enumerate(zip(shapes, specs, strict=True)):
        parts = places.PartitionSpec(*[tuple(axes) or None for axes in spec])
        dtype = "int32" if i == 1 else "float32"
        sharding = places.NamedSharding(mesh, parts)
        given.append(library.ShapeDtypeStruct(tuple(shape), dtype, sharding=sharding))
    try:
        found = library.eval_shape(function(library.lax, case), *given)
    except Exception as error:
        return type(error).__name__
    spec = [*found.sharding.spec, *[None] * len(found.shape)][: len(found.shape)]
    return [[axes] if isinstance(axes, str) else list(axes or ()) for axes in spec]
