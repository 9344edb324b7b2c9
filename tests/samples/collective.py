"""Samples of collectives: what the members of a mapped axis say to each other."""

from functools import partial

import weft
import weft.numpy as jnp
from tests.samples import Sample, normal
from weft import P, lax
from weft.base import knobs
from weft.core.jaxpr import jaxpr_as_fun
from weft.core.registry import lookup
from weft.prims.collective import pcast_p, pshared_p, pvary_p
from weft.prims.processes import Site

AXIS = ("i", 3)
SITE = Site("a sample")
DTYPES = ("float32", "float64", "bfloat16", "complex64", "int32", "uint8")
REAL = ("float32", "float64", "int32")


def sample(prim, label, shape, fun, dtypes=DTYPES, linear=((0,),), **options):
    args = [normal(AXIS[1], *shape)]
    name = f"{prim}_{label}"
    return Sample(name, prim, args, fun=fun, dtypes=dtypes, axis=AXIS, linear=linear, **options)


def with_position(x):
    return x * lax.convert_element_type(lax.axis_index("i") + 1, lax.dtype(x))


SAMPLES = [
    sample("psum", "matrix", (2, 3), lambda x: lax.psum(x, "i")),
    sample("psum", "scalar", (), lambda x: lax.psum(x, "i")),
    sample("pmax", "matrix", (2, 3), lambda x: lax.pmax(x, "i"), REAL, ()),
    sample("pmin", "matrix", (2, 3), lambda x: lax.pmin(x, "i"), REAL, ()),
    sample("ppermute", "ring", (2,), lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])),
    sample("ppermute", "partial", (2,), lambda x: lax.ppermute(x, "i", [(0, 2), (1, 0)])),
    sample("pbroadcast", "one", (2, 3), lambda x: lax.pbroadcast(x, "i", 1)),
    sample("axis_index", "weight", (2, 3), with_position),
    sample("pvary", "matrix", (2, 3), lambda x: pvary_p.bind(x, axes=("i",))),
    sample("pshared", "matrix", (2, 3), lambda x: pshared_p.bind(x, axes=("i",), size=3)),
    sample(
        "pcast",
        "matrix",
        (2, 3),
        lambda x: pcast_p.bind(x, axes=("i",), source="varying", to="unreduced"),
    ),
]
SAMPLES += [
    sample("all_gather", f"axis_{axis}{'_tiled' if tiled else ''}", (2, 3),
           partial(lax.all_gather, axis_name="i", axis=axis, tiled=tiled))
    for axis in (0, 1)
    for tiled in (False, True)
]  # fmt: skip
SAMPLES += [
    sample("reduce_scatter", label, shape,
           partial(lax.psum_scatter, axis_name="i", scatter_dimension=axis, tiled=tiled))
    for label, shape, axis, tiled in (
        ("first", (3, 2), 0, False),
        ("last", (2, 3), 1, False),
        ("tiled", (2, 6), 1, True),
    )
]  # fmt: skip
SAMPLES += [
    sample("all_to_all", label, shape,
           partial(lax.all_to_all, axis_name="i", split_axis=a, concat_axis=b, tiled=tiled))
    for label, shape, a, b, tiled in (
        ("same", (3, 2), 0, 0, False),
        ("crossed", (3, 2), 0, 1, False),
        ("back", (2, 3), 1, 0, False),
        ("tiled", (6, 2), 0, 1, True),
        ("tiled_same", (6, 2), 0, 0, True),
    )
]  # fmt: skip


def exchanged(operand, output):
    """Every member sends its first row to the next and two more to itself."""
    here = lax.axis_index("i")
    ahead, rows = (here + 1) % 3, jnp.arange(3)
    sizes = jnp.where(rows == ahead, 1, jnp.where(rows == here, 2, 0))
    arriving = jnp.where(rows == (here + 2) % 3, 1, jnp.where(rows == here, 2, 0))
    begin, write = jnp.where(rows == here, 1, 0), jnp.where(rows == here, 0, 2)
    return lax.ragged_all_to_all(operand, output, begin, sizes, write, arriving, axis_name="i")


def half(send):
    """A transfer by halves is staged; on one device there is nobody to run it with."""

    def staged(x):
        weft.make_jaxpr(send, axis_env=[("i", 2)])(x)
        return x

    return staged


def received(x):
    return lax.precv(lax.create_token(x), x, "i", [(0, 1)])


SAMPLES += [
    Sample("ragged_all_to_all_rows", "ragged_all_to_all", [normal(3, 3, 2), normal(3, 4, 2)],
           fun=exchanged, dtypes=DTYPES, axis=AXIS, linear=((0, 1),)),
    Sample("psend_staged", "psend", [normal(2)], fun=half(lambda x: lax.psend(x, "i", [(0, 1)]))),
    Sample("precv_staged", "precv", [normal(2)], fun=half(received)),
]  # fmt: skip


def sent(primitive, **params):
    """What a process sends to itself."""
    return lambda x: lookup(primitive).bind(x, site=SITE, **params)


def of_one_process(x):
    """A program of a mesh, made for the one process that there is."""
    total = lambda x: lax.psum(x * 2, "i")
    mesh = weft.make_mesh((1,), "i", (weft.sharding.AxisType.Auto,))
    with knobs.mesh(None):  # another mesh may be set around it
        spread = weft.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P())
        mapped = weft.make_jaxpr(spread)(x)
    params = mapped.eqns[0].params
    return jaxpr_as_fun(mapped.eqns[0].primitive.per_process(params)[0])(x)[0]


def stopped(x):
    """Nothing has stopped the messages of one process."""
    lookup("process_fault").bind(jnp.int32(0), site=SITE, ranks=(0,))
    return x


LATE = "the compiler adds it after all transformations"
SAMPLES += [
    *(
        Sample(f"{name}_own", name, [normal(*shape)], fun=sent(name, **params),
               differentiable=False, mapped=(), notes=LATE)
        for name, shape, params in (
            ("process_all_gather", (2, 3), {"ranks": (0,), "sizes": (1, 2, 3)}),
            ("process_all_to_all", (1, 3), {"ranks": (0,), "own": True}),
            ("process_permute", (3, 2), {"ranks": (0,), "moves": ((0, 0, 0, 2), (0, 1, 0, 0))}),
        )
    ),
    Sample("process_fault_none", "process_fault", [normal(2)], fun=stopped),
    Sample("mesh_collective_of_one", "mesh_collective", [normal(2, 3)], fun=of_one_process),
]  # fmt: skip
