"""Random programs under random shardings: what devices compute together is what one computes.

``python -m tests.parallel.random_programs FIRST COUNT``, with eight devices, prints the seeds that
break it, and how often types refused a program.
"""

import random
import sys
import warnings

import numpy as np

import weft
import weft.numpy as jnp
from tests.compose.programs import generate
from tests.compose.test_random_programs import TOLERANCE, compare
from tests.parallel.law import MESHES, REFUSED, mesh_of
from weft import P
from weft.sharding import AxisType, NamedSharding


def some_spec(rng, shape, mesh):
    """A spec that divides some dimensions of a shape, each over axes that divide it."""
    left = list(mesh.axis_names)
    rng.shuffle(left)
    parts = []
    for n in shape:
        axes = []
        while left and rng.random() < 0.6 and n % mesh.shape[left[-1]] == 0:
            n //= mesh.shape[left[-1]]
            axes.append(left.pop())
        parts.append(tuple(axes))
    return P(*parts)


def placed(rng, x, mesh):
    return weft.device_put(jnp.asarray(x), NamedSharding(mesh, some_spec(rng, np.shape(x), mesh)))


def by_arguments(rng, fun, args, outs, mesh):
    """Arguments that are divided already."""
    return weft.jit(fun)(*[placed(rng, x, mesh) for x in args])


def by_shardings(rng, fun, args, outs, mesh):
    """Shardings of arguments and results that are said."""
    given = [NamedSharding(mesh, some_spec(rng, np.shape(x), mesh)) for x in args]
    wanted = [NamedSharding(mesh, some_spec(rng, np.shape(y), mesh)) for y in outs]
    found = weft.jit(fun, in_shardings=tuple(given), out_shardings=wanted)(*args)
    for y, sharding in zip(found, wanted, strict=True):
        assert y.sharding.is_equivalent_to(sharding, y.ndim), (y.sharding, sharding)
    return found


def by_types(rng, fun, args, outs, mesh):
    """Types that carry shardings; what they refuse is left to the compiler."""
    mesh = mesh.update(axis_types=(AxisType.Explicit,) * len(mesh.axis_names))
    with weft.set_mesh(mesh):
        given = [placed(rng, x, mesh) for x in args]
        try:
            found = weft.jit(fun)(*given)
        except REFUSED:
            refused.append(fun)
            wanted = [some_spec(rng, np.shape(y), mesh) for y in outs]
            found = weft.sharding.auto_axes(fun, out_sharding=wanted)(*given)
        for y in found:
            said = y.aval.sharding.spec
            assert y.sharding.is_equivalent_to(NamedSharding(mesh, said), y.ndim), (
                said,
                y.sharding,
            )
        return found


refused = []
WAYS = [by_arguments, by_shardings, by_types, by_types]


def check(seed):
    rng = random.Random(seed)
    shape, names = rng.choice(MESHES)
    mesh = mesh_of(shape, names)
    with weft.enable_x64(True):
        program, args, _ = generate(seed)
        fun = lambda *xs: program(False, *xs)
        want = weft.jit(fun)(*args)
        way = WAYS[seed % len(WAYS)]
        try:
            found = way(rng, fun, args, want, mesh)
            compare(found, want, f"{way.__name__} on {mesh.shape}", TOLERANCE)
        except Exception as error:
            text = str(error).strip().splitlines()[:2]
            return f"{seed} {way.__name__} {mesh.shape} {type(error).__name__} {text}"
    return None


def main():
    first, count = map(int, sys.argv[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        broken = [line for seed in range(first, first + count) if (line := check(seed))]
    print("\n".join(broken))
    print(f"{count} checked, {len(refused)} refused by types, {len(broken)} broken")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
