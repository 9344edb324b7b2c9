"""Random dimension numbers of gathers and scatters that fit together."""

from weft.prims.index_dims import GatherDimensionNumbers


def random_case(rng):
    """An operand shape, an indices shape, dimension numbers and slice sizes that fit together."""
    batched, others, free = rng.integers(0, 3), rng.integers(0, 4), rng.integers(0, 3)
    kinds = ["b"] * batched + list(rng.choice(["c", "w"], others))
    rng.shuffle(kinds)
    shape = tuple(int(n) for n in rng.integers(1, 5, len(kinds)))
    axes = {kind: tuple(d for d, k in enumerate(kinds) if k == kind) for kind in "bcw"}
    index_map = list(axes["c"]) + [d for d in axes["w"] if rng.random() < 0.6]
    rng.shuffle(index_map)
    sizes = tuple(
        1 if kind in "bc" else int(rng.integers(0 if rng.random() < 0.1 else 1, n + 1))
        for kind, n in zip(kinds, shape)
    )
    places = [int(p) for p in rng.permutation(batched + free)[:batched]]
    batch = [int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 4, batched + free)]
    for place, axis in zip(places, axes["b"]):
        batch[place] = shape[axis]
    rank = len(axes["w"]) + len(batch)
    offset = tuple(sorted(int(d) for d in rng.permutation(rank)[: len(axes["w"])]))
    numbers = GatherDimensionNumbers(
        offset, axes["c"], tuple(int(d) for d in index_map), axes["b"], tuple(places)
    )
    return shape, (*batch, len(index_map)), numbers, sizes
