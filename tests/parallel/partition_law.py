"""The program of one device, run by all, gives what one gives, for every primitive's samples.

Run with eight devices; prints the samples that break it, one line each, and how many were checked.
``--full`` tries more shardings of each; ``--whole`` lists the primitives that no rule divides.
"""

import itertools
import sys
import warnings

import numpy as np

import weft
from tests.laws import checks
from tests.laws.divided_cases import drawn, function
from tests.parallel.law import MESHES, mesh_of
from tests.samples import all_samples
from weft.division.factors import fitting
from weft.division.programs.partition import partition

# Primitives whose samples the law does not hold for, and why.
EXCEPT = {
    "io_callback": "has an order, which devices side by side do not",
    "debug_print": "prints once for each device",
    "shard_map": "has a mesh of its own",
    "rng_uniform": "draws from a state",
}


def specs(shapes, mesh, turn):
    """A spec for each argument: axes of the mesh on dimensions that they divide, by turns."""
    found = []
    for i, shape in enumerate(shapes):
        left = list(mesh.axis_names)
        spec = [()] * len(shape)
        dims = list(range(len(shape)))
        k = turn % len(dims) if dims else 0
        for d in dims[k:] + dims[:k]:
            axis = next((a for a in left if shape[d] % mesh.shape[a] == 0), None)
            if axis is not None and (turn + i) % 4 != 3:
                spec[d] = (axis,)
                left.remove(axis)
        if turn % 3 == 2 and len(left) == 1 and len(mesh.axis_names) == 2:
            spec = [(*s, left[0]) if s else s for s in spec]
            spec = list(fitting(tuple(spec), shape, dict(mesh.shape)))
        found.append(tuple(spec))
    return found


def check(sample, dtype, mesh, turn):
    rng = checks.seed_of(sample)
    args = sample.operands(dtype, rng)
    fun = sample.function(dtype)
    closed = weft.make_jaxpr(fun)(*args)
    want = checks.arrays(weft.jit(fun)(*args))
    given = specs([np.shape(x) for x in args], mesh, turn)
    made = partition(closed, mesh, given)
    found = checks.arrays(weft.jit(made.bind)(*args))
    tol = max(sample.tol, 64.0)
    for k, (result, alone) in enumerate(zip(found, want, strict=True)):
        checks.assert_close(result, alone, tol, f"result {k} on {mesh.shape} of {given}")
    return made


def check_drawn(case, mesh):
    """A reshape, gather or scatter whose operands are divided as it says."""
    name, _, shapes, specs, _ = case
    draw = np.random.default_rng(len(str(case)))
    args = [draw.integers(-9, 9, shape).astype(np.float32) for shape in shapes]
    if len(args) > 1:
        args[1] = draw.integers(-1, max(shapes[0]) + 1, shapes[1]).astype(np.int32)
    if name == "scatter":  # updates of one place in any order give the same
        args[2] = np.ones_like(args[2])
    given = [tuple(map(tuple, s)) for s in specs]
    for mode in ("clip", "fill") if len(args) > 1 else ("clip",):
        fun = function(weft.lax, case, mode)
        made = partition(weft.make_jaxpr(fun)(*args), mesh, given)
        found, want = weft.jit(made.bind)(*args)[0], weft.jit(fun)(*args)
        np.testing.assert_array_equal(found, want, str(case))


def main():
    count, broken, undivided = 0, [], set()
    meshes = [mesh_of(*m) for m in MESHES[1:]]
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")]
    for number, sample in enumerate(all_samples()):
        if sample.axis is not None or sample.prim in EXCEPT or not sample.args:
            continue
        if chosen and not any(c in sample.name for c in chosen):
            continue
        dtype = sample.dtypes[0]
        every = itertools.product(meshes, range(4)) if chosen else None
        turns = range(4) if "--full" in sys.argv else [number % 3]
        pairs = every or [(meshes[(number + t) % len(meshes)], t) for t in turns]
        for mesh, turn in pairs:
            count += 1
            try:
                with checks.precision(dtype), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = check(sample, dtype, mesh, turn)
                    undivided |= {m.primitive for m in made.moves if m.why.startswith("no rule")}
            except Exception as error:
                if "--raise" in sys.argv:
                    raise
                text = str(error).strip().splitlines()
                broken.append(f"{sample} {mesh.shape} {turn} {type(error).__name__} {text[:1]}")
    for case in [] if chosen else drawn(2, 300 if "--full" in sys.argv else 60):
        count += 1
        try:
            check_drawn(case, mesh_of(case[1][0], "".join(case[1][1])))
        except Exception as error:
            broken.append(f"{case} {type(error).__name__} {str(error).strip().splitlines()[:1]}")
    print("\n".join(broken))
    if "--whole" in sys.argv:
        print("no rule divides:", *sorted(undivided))
    print(f"{count} checked, {len(broken)} broken")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
