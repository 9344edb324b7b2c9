"""Law 7, for every primitive's samples: what devices do together is what one does alone.

Run with eight devices; prints the samples that break it, one line each, and how many were checked.
Each sample is checked on one mesh in each of three ways, with the argument ``all`` on every mesh.
"""

import sys
import warnings

import numpy as np

import weft
import weft.numpy as jnp
from tests.laws import checks
from tests.samples import all_samples
from weft import P
from weft.core.registry import lookup
from weft.core.sharding import ShardingTypeError
from weft.sharding import AxisType, Mesh, NamedSharding

MESHES = [((1,), "x"), ((2,), "x"), ((4,), "x"), ((8,), "x"), ((2, 2), "xy"), ((4, 2), "xy")]
# Primitives whose samples the law does not hold for, and why.
EXCEPT = {
    "io_callback": "has an order, which devices side by side do not",
    "debug_print": "prints once for each device",
    "shard_map": "has a mesh of its own",
    "reshard": "has a mesh of its own",
}


def mesh_of(shape, names):
    devices = np.array(weft.devices()[: int(np.prod(shape))]).reshape(shape)
    return Mesh(devices, tuple(names))


def check_shard_map(sample, dtype, mesh, whole=checks.arrays):
    """Every device runs the sample on operands of its own; ``whole`` gives results as NumPy's."""
    rng = checks.seed_of(sample)
    draws = [sample.operands(dtype, rng) for _ in range(mesh.size)]
    free = range(len(draws[0])) if sample.mapped is None else sample.mapped
    fun = sample.function(dtype)

    def one(*parts):
        given = [x[0] if i in free else x for i, x in enumerate(parts)]
        return weft.tree_util.tree_map(lambda y: jnp.asarray(y)[None], fun(*given))

    spec = P(tuple(mesh.axis_names))
    specs = tuple(spec if i in free else P() for i in range(len(draws[0])))
    args = [
        np.stack([d[i] for d in draws]) if i in free else draws[0][i] for i in range(len(draws[0]))
    ]
    # branches of samples return constants, whose types say that all devices share them
    checked = sample.prim != "cond"
    mapped = weft.shard_map(one, mesh=mesh, in_specs=specs, out_specs=spec, check_vma=checked)
    got = whole(weft.jit(mapped)(*args))
    members = [[d[i] if i in free else draws[0][i] for i in range(len(d))] for d in draws]
    singles = [checks.arrays(fun(*m)) for m in members]
    for k, result in enumerate(got):
        want = np.stack([s[k] for s in singles])
        checks.assert_close(result, want, sample.tol, f"result {k} on {mesh.shape}")


def check_placed(sample, dtype, mesh):
    """Operands that are divided over a mesh give the results of whole ones."""
    rng = checks.seed_of(sample)
    args = sample.operands(dtype, rng)
    fun = weft.jit(sample.function(dtype))
    want = checks.arrays(fun(*args))
    found = fun(*[weft.device_put(jnp.asarray(x), place(x, mesh)) for x in args])
    for k, (result, alone) in enumerate(zip(checks.arrays(found), want, strict=True)):
        checks.assert_close(result, alone, sample.tol, f"result {k} of placed operands")
    for leaf in weft.tree_util.tree_leaves(found):
        if getattr(leaf, "size", 0) and len(leaf.devices()) != mesh.size and args:
            raise AssertionError(f"a result is on {leaf.devices()}")


# How types refuse a program: operations that are not clear, loops and branches whose types differ,
# and arrays that are taken apart along a divided dimension.
REFUSED = (ShardingTypeError, TypeError, ValueError)


def check_types(sample, dtype, mesh):
    """Operands whose types carry shardings give the results of whole ones, or are refused; left to
    the compiler they are not."""
    rng = checks.seed_of(sample)
    args = sample.operands(dtype, rng)
    fun = sample.function(dtype)
    want = checks.arrays(weft.jit(fun)(*args))
    explicit = mesh.update(axis_types=(AxisType.Explicit,) * len(mesh.axis_names))
    with weft.set_mesh(explicit):
        given = [weft.device_put(jnp.asarray(x), place(x, explicit)) for x in args]
        try:
            found = weft.jit(fun)(*given)
        except REFUSED:
            found = weft.jit(weft.sharding.auto_axes(fun, out_sharding=P()))(*given)
    for k, (result, alone) in enumerate(zip(checks.arrays(found), want, strict=True)):
        checks.assert_close(result, alone, sample.tol, f"result {k} of typed operands")
    for leaf in weft.tree_util.tree_leaves(found):
        spec = getattr(weft.typeof(leaf), "divided", None)
        spec = P() if spec is None else spec.spec
        if hasattr(leaf, "sharding") and args and leaf.size:
            there = NamedSharding(explicit, spec)
            if not leaf.sharding.is_equivalent_to(there, leaf.ndim):
                raise AssertionError(f"{weft.typeof(leaf)} is divided as {leaf.sharding}")


def place(x, mesh):
    """A sharding that divides every dimension that an axis of the mesh divides."""
    left, parts = list(mesh.axis_names), []
    for n in np.shape(x):
        fit = next((a for a in left if n % mesh.shape[a] == 0), None)
        left = [a for a in left if a != fit]
        parts.append(fit)
    return NamedSharding(mesh, P(*parts))


def main():
    count, broken = 0, []
    meshes = [mesh_of(*m) for m in MESHES]
    for number, sample in enumerate(all_samples()):
        if sample.axis is not None or sample.prim in EXCEPT or not sample.args:
            continue
        holes = lookup(sample.prim).holes
        dtype = sample.dtypes[0]
        for k, how in enumerate((check_shard_map, check_placed, check_types)):
            if how is check_shard_map and ("batch" in holes or sample.mapped == ()):
                continue
            one = meshes[(number + k) % len(meshes)]
            for mesh in meshes if "all" in sys.argv else [one]:
                count += 1
                try:
                    with checks.precision(dtype), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        how(sample, dtype, mesh)
                except Exception as error:
                    text = str(error).strip().splitlines()
                    told = f"{type(error).__name__} {text[:1]}"
                    broken.append(f"{how.__name__} {sample} {mesh.shape} {told}")
    print("\n".join(broken))
    print(f"{count} checked, {len(broken)} broken")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
