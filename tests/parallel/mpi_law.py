"""Law 7 over processes: what they do together is what each does alone.

Run under mpiexec with four devices in all: ``python -m tests.parallel.mpi_law STEP FIRST`` takes
every STEP-th sample of a primitive from FIRST on, and as many random programs. Every process
computes the expected results itself; the first prints what breaks the law.
"""

import sys
import warnings

import numpy as np

import weft
import weft.numpy as jnp
from tests.laws import checks
from tests.parallel import partition_programs
from tests.parallel.law import EXCEPT, check_shard_map, place
from tests.samples import all_samples
from weft import P
from weft.core.registry import lookup
from weft.experimental import multihost_utils
from weft.sharding import Mesh, NamedSharding

PROGRAMS = 500
# Beyond those of one process.
MORE = {
    **EXCEPT,
    "rng_uniform": "draws from a state",
    "rng_bit_generator": "draws for all devices of a process at once, as under vmap",
    "inspect_sharding": "shows another one",
    "mesh_collective": "has a mesh of its own",
}


def meshes():
    devices = np.array(weft.devices())
    return [
        Mesh(devices, ("x",)),
        Mesh(devices.reshape(2, 2), ("x", "y")),
        Mesh(devices[[2, 0, 3, 1]].reshape(2, 2), ("x", "y")),
    ]


def whole(tree):
    """Results with all their elements."""
    leaves = weft.tree_util.tree_leaves(tree)
    gather = lambda x: multihost_utils.process_allgather(x, tiled=True)
    return [checks.arrays(gather(x) if not x.is_fully_addressable else x)[0] for x in leaves]


def check_placed(sample, dtype, mesh):
    """Operands that are divided over a mesh give the results of whole ones."""
    args = sample.operands(dtype, checks.seed_of(sample))
    fun = weft.jit(sample.function(dtype))
    want = checks.arrays(fun(*args))
    found = whole(fun(*[weft.device_put(jnp.asarray(x), place(x, mesh)) for x in args]))
    for k, (result, alone) in enumerate(zip(found, want, strict=True)):
        checks.assert_close(result, alone, max(sample.tol, 64.0), f"result {k} of placed operands")


def check_program(seed, mesh):
    """A random program on arrays that are divided at random."""
    names = mesh.axis_names
    alone = Mesh(np.array(weft.local_devices()[:1]).reshape((1,) * len(names)), names)
    fun, args, _, _, _ = partition_programs.grow(seed, alone)
    want = checks.arrays(weft.jit(fun)(*args))
    fun, args, _, ins, _ = partition_programs.grow(seed, mesh)
    given = [
        weft.device_put(x, NamedSharding(mesh, P(*spec))) for x, spec in zip(args, ins, strict=True)
    ]
    for result, expected in zip(whole(weft.jit(fun)(*given)), want, strict=True):
        scale = max(1.0, float(np.abs(expected).max())) if np.isfinite(expected).all() else 1.0
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-4 * scale)


def main(step, first):
    count, broken = 0, []
    every = meshes()

    def run(what, check, *args):
        nonlocal count
        count += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(*args)
        except Exception as error:
            if "process" in str(error) and isinstance(error, RuntimeError):
                raise
            text = str(error).strip().splitlines()
            broken.append(f"{check.__name__} {what} {type(error).__name__} {text[:2]}")

    for number, sample in list(enumerate(all_samples()))[first::step]:
        if sample.axis is not None or sample.prim in MORE or not sample.args:
            continue
        dtype = sample.dtypes[0]
        mesh = every[number % len(every)]
        with checks.precision(dtype):
            # the devices of one process are mapped
            if "batch" in lookup(sample.prim).holes:
                continue
            if sample.mapped != ():
                run(sample, check_shard_map, sample, dtype, mesh, whole)
            run(sample, check_placed, sample, dtype, mesh)
    for seed in range(first, PROGRAMS, step):
        run(seed, check_program, seed, every[seed % len(every)])
    if weft.process_index() == 0:
        print("\n".join(broken))
        print(f"{count} checked, {len(broken)} broken", flush=True)


if __name__ == "__main__":
    weft.distributed.initialize()
    main(int(sys.argv[1]), int(sys.argv[2]))
