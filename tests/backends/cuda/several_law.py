"""Law 7 on several GPUs that are the host: what they compute together is what one does alone.

``python -m tests.backends.cuda.several_law STEP FIRST`` with four CPU devices, for which GPUs
stand: every STEP-th sample from FIRST on, mapped and divided, and the functions of ``mpi_cases``.
Messages go through the NCCL of ``fake_nccl.py``. It prints what breaks the law, and which calls
were made.
"""

import collections
import sys
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.cuda import fake_nccl, host_device
from tests.backends.cuda.divided_arrays import run_on_host
from tests.laws import checks
from tests.parallel import law, mpi_cases
from tests.parallel.mpi_law import MORE
from tests.samples import all_samples
from weft.backends.cuda import program
from weft.backends.cuda.several import Executable
from weft.compiler.plan import Unplannable
from weft.core.registry import lookup
from weft.division.programs.devices import programs_of_devices
from weft.sharding import Mesh

DEVICES = 4


class Target(program.Cuda):
    """All operations stay, and the host computes them."""

    def keeps(self, eqn):
        return True

    def compile(self, closed, donated=()):
        made = super().compile(closed, donated)
        made.capturable = False
        return made


def on_gpus(fun, args, mesh, given=None):
    """The results of a function whose arguments are divided over GPUs."""
    avals = [weft.ShapeDtypeStruct(np.shape(x), x.dtype) for x in args]
    _, tree = weft.tree.flatten(weft.eval_shape(fun, *avals))
    closed = weft.make_jaxpr(fun)(*args)
    programs = programs_of_devices(closed, mesh, given or [None] * len(args))
    run = Executable(*programs, range(mesh.size), Target())
    for _ in range(2):
        found = run_on_host(run, args)
    return weft.tree.unflatten(tree, found)


def check_case(name):
    """A case of ``mpi_cases``, each of its mapped functions on GPUs."""

    def mapped(mesh, function, *args, ins, outs, **options):
        ins = ins if isinstance(ins, tuple) and not isinstance(ins, weft.P) else (ins,) * len(args)
        f = weft.jit(weft.shard_map(function, mesh=mesh, in_specs=ins, out_specs=outs, **options))
        want = f(*[mpi_cases.on(mesh, x, s) for x, s in zip(args, ins, strict=True)])
        got = on_gpus(f, [np.asarray(x) for x in args], mesh)
        for a, b in zip(weft.tree.leaves(got), weft.tree.leaves(want), strict=True):
            narrow = np.dtype(b.dtype).itemsize < 4
            wide = np.complex128 if b.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                np.asarray(a).astype(wide),
                np.asarray(b).astype(wide),
                rtol=2e-2 if narrow else 1e-5,
                atol=1e-4,
            )
        return [want]

    original, mpi_cases.mapped = mpi_cases.mapped, mapped
    try:
        mpi_cases.CASES[name]()
    finally:
        mpi_cases.mapped = original


def check_mapped(sample, dtype, mesh):
    """Every GPU runs a sample on operands of its own."""
    original, seen = weft.jit, []

    def caught(fun):
        weft.jit = original  # samples have functions of their own
        return lambda *args: seen.append(1) or on_gpus(fun, args, mesh)

    weft.jit = caught
    try:
        law.check_shard_map(sample, dtype, mesh)
    finally:
        weft.jit = original
    assert seen


def check_placed(sample, dtype, mesh):
    """Operands that are divided over GPUs give the results of whole ones."""
    args = sample.operands(dtype, checks.seed_of(sample))
    fun = sample.function(dtype)
    want = checks.arrays(weft.jit(fun)(*args))
    given = [law.place(x, mesh) for x in args]
    found = on_gpus(fun, [np.asarray(jnp.asarray(x)) for x in args], mesh, given)
    for k, (result, alone) in enumerate(zip(checks.arrays(found), want, strict=True)):
        checks.assert_close(result, alone, max(sample.tol, 64.0), f"result {k} of placed operands")


def main(step, first):
    count, broken = 0, []
    devices = np.array(weft.devices()[:DEVICES])
    meshes = [
        Mesh(devices, ("x",)),
        Mesh(devices.reshape(2, 2), ("x", "y")),
        Mesh(devices[[2, 0, 3, 1]].reshape(2, 2), ("x", "y")),
    ]

    def run(what, check, *args):
        nonlocal count
        count += 1
        try:
            check(*args)
        except Unplannable:
            pass
        except Exception as error:
            text = str(error).strip().splitlines()
            broken.append(f"{check.__name__} {what} {type(error).__name__} {text[:3]}")

    with pytest.MonkeyPatch.context() as patch, fake_nccl.installed(patch) as fake:
        host_device.install(patch, count=DEVICES, apart=True)
        for name in mpi_cases.CASES:
            run(name, check_case, name)
        for number, sample in list(enumerate(all_samples()))[first::step]:
            if sample.axis is not None or sample.prim in MORE or not sample.args:
                continue
            dtype, mesh = sample.dtypes[0], meshes[number % len(meshes)]
            if "batch" in lookup(sample.prim).holes:
                continue
            with checks.precision(dtype):
                if sample.mapped != ():
                    run(sample, check_mapped, sample, dtype, mesh)
                run(sample, check_placed, sample, dtype, mesh)
    print("\n".join(broken))
    calls = collections.Counter(name for _, _, name, _ in fake.calls)
    print(f"{count} checked, {len(broken)} broken; {dict(sorted(calls.items()))}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]), int(sys.argv[2]))
