"""One description says how a primitive is divided: types, propagation and partitioning agree.

``Primitive.factors`` says which dimensions of operands and results belong together, ``divided_as``
that types keep the division of an operand where devices exchange elements. For all samples, and for
mesh axes on every dimension of every operand: types with shardings are as described or refused,
propagation gives results no other axes than these, and partitioning keeps those of propagation.
So do reshapes, gathers and scatters of many shapes over several meshes, whose types are JAX's.
``tests/parallel/partition_law.py`` compares the values.
"""

import itertools
import warnings
from collections import defaultdict

import pytest

import weft
import weft.numpy as jnp
from tests.laws import checks
from tests.laws.divided_cases import answer, drawn, function, recorded
from tests.samples import all_samples
from weft import lax
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var, jaxprs_in_params
from weft.core.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    ShardingTypeError,
)
from weft.division.explicit import with_spec
from weft.division.programs.partition import partition
from weft.division.propagate import results

MESH = AbstractMesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
MAX_CASES, MAX_PARTITIONED = 40, 2

# Primitives whose types JAX divides in another way than results are computed, and why.
TYPES_OTHERWISE = {
    "concatenate": "where no mesh is set, only operands that are divided count",
    "dot_general": "batch dimensions are divided as those of the left operand",
    "select_and_gather_add": "where no mesh is set, only operands that are divided count",
}
JOINED = "joined dimensions keep the axes of all, also where devices exchange elements"
# Primitives whose types keep less or more than devices compute alone, and why.
PROPAGATED_OTHERWISE = {
    "clamp": "bounds do not count for types",
    "conv_general_dilated": "types keep positions and refuse kernels; devices exchange halos",
}


def equations(jaxpr, name):
    """The equations of one primitive, also inside of others."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == name:
            yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner, name)


def equation(sample):
    """The equation of a sample's primitive, where a description is what divides it."""
    dtype = sample.dtypes[0]
    with checks.precision(dtype), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = sample.operands(dtype, checks.seed_of(sample))
        closed = weft.make_jaxpr(sample.function(dtype))(*args)
    for eqn in equations(closed.jaxpr, sample.prim):
        primitive, avals = eqn.primitive, [x.aval for x in eqn.invars]
        if primitive.flow is not None or primitive.shardings is not None:
            return None  # as the programs inside, or as it prescribes
        if primitive.takes_refs or primitive.makes_ref:
            return None
        if primitive.program(avals, eqn.params) is not None or primitive.axis_names is not None:
            return None
        every = [*avals, *(v.aval for v in eqn.outvars)]
        return eqn if all(hasattr(a, "shape") for a in every) else None
    return None


def divisions(avals):
    """Specs of operands: one axis on each dimension, then two on each pair of dimensions."""
    places = [
        (i, d) for i, a in enumerate(avals) for d, n in enumerate(a.shape) if n > 1 and n % 2 == 0
    ]
    cases = [{place: ("x",)} for place in places]
    for a, b in itertools.combinations(places, 2):
        cases.append({a: ("x",), b: ("y",)})
        if a[0] != b[0]:
            cases.append({a: ("x",), b: ("x",)})
    for case in cases[:MAX_CASES]:
        yield [
            tuple([case.get((i, d), ()) for d in range(len(a.shape))]) for i, a in enumerate(avals)
        ]


def alone(eqn):
    """A program of one equation."""
    given = {x: Var(x.aval) for x in eqn.invars if type(x) is not Literal}
    operands = [given.get(x, x) if type(x) is not Literal else Var(x.aval) for x in eqn.invars]
    outs = [Var(v.aval) for v in eqn.outvars]
    invars = list(dict.fromkeys(operands))
    eqn = eqn.replace(invars=operands, outvars=outs)
    return ClosedJaxpr(Jaxpr([], invars, outs, [eqn], eqn.effects), ()), operands


SAMPLES = defaultdict(list)
for one in all_samples():
    if one.args and one.axis is None:
        SAMPLES[one.prim].append(one)


def check_types(eqn, specs, found, mesh=MESH):
    """Whether types are as described, where they are not refused."""
    avals, outs = [x.aval for x in eqn.invars], [v.aval for v in eqn.outvars]
    typed = [with_spec(a, s, mesh) for a, s in zip(avals, specs, strict=True)]
    described = eqn.primitive.shard(specs, typed, outs, eqn.params)
    try:
        types = eqn.primitive.explicit(specs, typed, outs, eqn.params)
    except (ShardingTypeError, ValueError):
        return described
    if list(map(tuple, types)) != described:
        found.append(f"{specs}: types are {types}, described is {described}")
    return described


def known_otherwise(spec, other):
    """Whether a dimension is divided by one spec, and not so by another."""
    return any(axes and axes != own for axes, own in zip(spec, other, strict=True))


def check_flow(eqn, specs, described, parts, found, mesh=MESH):
    """Whether propagation and partitioning give results no axes but those described."""
    closed, operands = alone(eqn)
    if len(set(map(id, operands))) != len(operands):
        return
    flow = results(closed, specs, mesh)
    if any(known_otherwise(*pair) for pair in zip(flow, described or flow, strict=True)):
        found.append(f"{specs}: propagated is {flow}, described is {described}")
    if parts:  # a device may divide other dimensions besides, where it makes one whole
        made = partition(closed, mesh, specs).out_specs
        if any(known_otherwise(*pair) for pair in zip(flow, made, strict=True)):
            found.append(f"{specs}: partitioned is {made}, propagated is {flow}")


@pytest.mark.parametrize("name", SAMPLES)
def test_types_propagation_and_partitioning_agree(name):
    types, flows = [], []
    for sample in SAMPLES[name]:
        eqn = equation(sample)
        if eqn is None:
            continue
        with checks.precision(sample.dtypes[0]):
            for k, specs in enumerate(divisions([x.aval for x in eqn.invars])):
                described = check_types(eqn, specs, types)
                check_flow(eqn, specs, described, k < MAX_PARTITIONED, flows)
    assert bool(types) == (name in TYPES_OTHERWISE), types[:3]
    assert bool(flows) == (name in PROPAGATED_OTHERWISE), flows[:3]


def equation_of(case):
    """The equation of a case, the specs of its operands, and its mesh."""
    name, (sizes, names), shapes, specs, _ = case
    dtypes = ["float32", "int32", "float32"]
    avals = [weft.ShapeDtypeStruct(tuple(n), d) for n, d in zip(shapes, dtypes, strict=False)]
    closed = weft.make_jaxpr(function(lax, case))(*avals)
    (eqn,) = [e for e in equations(closed.jaxpr, name) if len(e.invars) == len(shapes)]
    mesh = AbstractMesh(tuple(sizes), tuple(names), axis_types=(AxisType.Explicit,) * len(sizes))
    return eqn, [tuple(map(tuple, spec)) for spec in specs], mesh


def is_clear(eqn, specs, mesh):
    """Whether types say how the result is divided."""
    avals, outs = [x.aval for x in eqn.invars], [v.aval for v in eqn.outvars]
    typed = [with_spec(a, s, mesh) for a, s in zip(avals, specs, strict=True)]
    try:
        eqn.primitive.explicit(specs, typed, outs, eqn.params)
    except ShardingTypeError:
        return False
    return True


DRAWN = [case for case in drawn(1, 400) if case[2][0] != case[4].get("new")]


@pytest.mark.parametrize("name", ["reshape", "gather", "scatter", "scatter-add", "scatter-max"])
def test_types_propagation_and_partitioning_agree_for_many_shapes(name):
    types, flows, clear = [], [], 0
    for case in DRAWN:
        if case[0] != name:
            continue
        eqn, specs, mesh = equation_of(case)
        described = check_types(eqn, specs, types, mesh)
        clear += is_clear(eqn, specs, mesh)
        parts = is_clear(eqn, specs, mesh) and clear % 3 == 0
        check_flow(eqn, specs, described, parts, flows, mesh)
    assert clear > 20 and not flows, flows[:3]
    assert bool(types) == (name == "reshape"), (JOINED, types[:3])


def test_types_are_those_of_jax():
    """JAX refuses some reshapes that join a dimension of one element, which divides nothing."""
    wrong, more = [], []
    for case, told in recorded():
        found = answer(weft, case)
        if found == told:
            continue
        ones = case[0] == "reshape" and 1 in (*case[2][0], *case[4]["new"])
        (more if ones and told == "ShardingTypeError" else wrong).append((case, told, found))
    assert not wrong, wrong[:3]
    assert len(more) < 5


ERRORS = {
    "indexed": (lambda x, i: x.at[i].get(mode="clip"), ("x", None), "dimension 0 of operand 0"),
    "window": (
        lambda x, i: lax.dynamic_slice_in_dim(x, i[0], 2, 1) + x[:, i],
        (None, "x"),
        "dimension 1",
    ),
    "updated": (lambda x, i: x.at[i].add(1.0), ("x", None), "dimension 0 of operand 0"),
    "set": (lambda x, i: x.at[:, i].set(0.0), (None, "x"), "dimension 1 of operand 0"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_dimension_and_what_to_write(name):
    fun, spec, phrase = ERRORS[name]
    places = NamedSharding(MESH, PartitionSpec(*spec))
    x = weft.ShapeDtypeStruct((8, 4), "float32", sharding=places)
    with pytest.raises(ShardingTypeError, match=phrase) as caught:
        weft.eval_shape(fun, x, weft.ShapeDtypeStruct((2,), "int32"))
    assert "over x" in str(caught.value) and "weft.reshard" in str(caught.value)
    if name != "window":
        method = {"indexed": "get(", "updated": "add(y, ", "set": "set(y, "}[name]
        assert f"x.at[...].{method}out_sharding=P(...))" in str(caught.value)


def test_errors_name_both_of_two_dimensions_that_differ():
    numbers = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    both = [("float32", ("x", None)), ("int32", ("y", None))]
    given = [
        weft.ShapeDtypeStruct((4, n), dtype, sharding=NamedSharding(MESH, PartitionSpec(*spec)))
        for n, (dtype, spec) in zip((8, 1), both, strict=True)
    ]
    with pytest.raises(
        ShardingTypeError, match="dimension 0 of operand 0 and dimension 0 of opera"
    ):
        weft.eval_shape(lambda x, i: lax.gather(x, i, numbers, (1, 1)), *given)


SYSTEMS = {
    "left": (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), 1, (6, 8)),
    "right": (lambda a, b: lax.linalg.triangular_solve(a, b), 0, (8, 6)),
    "tridiagonal": (lambda a, b: lax.linalg.tridiagonal_solve(a[0], a[1], a[2], b), 1, (6, 8)),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_right_hand_sides_are_solved_where_they_are(name):
    """Devices that have some of the right-hand sides solve these, and send nothing."""
    solve, dimension, shape = SYSTEMS[name]
    closed = weft.make_jaxpr(solve)(jnp.ones((6, 6)), jnp.ones(shape))
    spec = tuple([("x",) if d == dimension else () for d in range(2)])
    made = partition(closed, MESH, [((), ()), spec])
    assert made.out_specs == (spec,) and not made.moves
