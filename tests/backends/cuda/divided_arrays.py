"""Programs of several GPUs on whole arrays of the host."""

import numpy as np

from weft.backends.cuda.program import get, put
from weft.core.interpret import storage_dtype
from weft.division.mesh_layout import Layout


def run_on_host(run, args):
    """Results for whole arrays: divided, computed, and put together again."""
    arrays = [np.asarray(x) for x in args]
    layouts = [Layout([*run.ins, *run.outs][0].mesh, i) for i in range(len(run.parts))]

    def task(layout, part, program):
        def compute():
            rows = []
            for x, sharding, aval in zip(arrays, run.ins, program.in_avals, strict=True):
                (key,) = layout.parts(sharding, x.shape)
                rows.append(put(np.asarray(x[slices(key)], storage_dtype(aval.dtype))))
            results = part.run_on_device(rows)
            return [get(y, a) for y, a in zip(results, part.out_avals, strict=True)]

        return compute

    found = run.team.run([task(*each) for each in zip(layouts, run.parts, run.programs)])
    return [whole(s, layouts, [row[k] for row in found]) for k, s in enumerate(run.outs)]


def whole(sharding, layouts, rows):
    """An array put together from its parts."""
    sizes, shape = dict(sharding.mesh.shape), list(rows[0].shape)
    for i, names in enumerate(sharding.spec):
        for name in names if isinstance(names, tuple) else () if names is None else (names,):
            shape[i] *= sizes[name]
    made = np.empty(shape, rows[0].dtype)
    for layout, row in zip(layouts, rows, strict=True):
        (key,) = layout.parts(sharding, shape)
        made[slices(key)] = row
    return made


def slices(key):
    return tuple(slice(*ends) for ends in key)
