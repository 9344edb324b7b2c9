"""Small programs on meshes with explicit axes, for weft and for JAX: what types say.

A case is a line of Python, in a namespace with a library's names; ``mesh | line`` says which mesh
is set. ``python -m tests.parallel.cases_types`` runs all of them on weft and prints the answers as
JSON; ``tools/record_types.py`` does so on JAX.
"""

import contextlib
import copy
import json
import sys
import types
import warnings

import numpy as np

from tests.parallel import (  # noqa: F401  they add lines
    programs_families,
    programs_places,
    programs_sums,
)
from tests.parallel.programs_types import LINES

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 8


def namespace(library):
    """The names that cases use, of a library, and meshes of its devices."""
    Type = library.sharding.AxisType
    J = types.SimpleNamespace(
        jax=library,
        jnp=library.numpy,
        lax=library.lax,
        np=np,
        copy=copy,
        P=library.P,
        NamedSharding=library.NamedSharding,
        Mesh=library.sharding.Mesh,
        AbstractMesh=library.sharding.AbstractMesh,
        ManualAxisType=library.sharding.ManualAxisType,
        AxisType=Type,
        typeof=library.typeof,
        reshard=library.reshard,
        jit=library.jit,
        grad=library.grad,
        vjp=library.vjp,
        vmap=library.vmap,
        shard_map=library.shard_map,
        X=X,
    )
    make = library.make_mesh
    J.line = make((2,), ("x",))
    J.grid = make((2, 2), ("x", "y"))
    J.wide = make((4, 2), ("x", "y"))
    J.auto = make((2,), ("x",), axis_types=(Type.Auto,))
    J.agrid = make((2, 2), ("x", "y"), axis_types=(Type.Auto,) * 2)
    J.mixed = make((2, 2), ("x", "y"), axis_types=(Type.Explicit, Type.Auto))
    J.one = make((1, 2), ("x", "y"))

    def put(shape, *spec, scale=8, dtype=np.float32, **marks):
        """An array of a shape, divided over the mesh that is set."""
        x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) / scale).astype(dtype)
        if marks:
            return J.reshard(J.jnp.asarray(x), J.P(*spec, **marks))
        return library.device_put(x, J.P(*spec))

    def noted(f):
        """The types that a function sees, and its result."""
        seen = []
        out = f(lambda x: seen.append(str(J.typeof(x))) or x)
        return seen, out

    def small(f):
        """What a function gives where types leave out mesh axes of size 1."""
        option = "jax_remove_size_one_mesh_axis_from_type"
        library.config.update(option, True)
        try:
            return told(f())
        finally:
            library.config.update(option, False)

    def under(mesh, f):
        """The result of a jitted function of a divided array, under a mesh without devices."""

        def inside(x):
            with library.sharding.use_abstract_mesh(mesh):
                return f(x)

        found = J.jit(inside)(library.device_put(X, J.NamedSharding(J.agrid, J.P("x"))))
        return str(found.sharding.mesh), found

    J.put, J.noted, J.small, J.under = put, noted, small, under
    J.spec = lambda x: x.sharding.spec
    J.parts = lambda x: [s.data for s in x.addressable_shards]
    return vars(J)


def told(value):
    """A value as JSON: type, spec and numbers of an array; the text of anything else."""
    if isinstance(value, dict):
        return {str(k): told(v) for k, v in value.items()}
    if type(value) in (tuple, list):
        return [told(v) for v in value]
    if not hasattr(value, "addressable_shards"):
        return value if isinstance(value, (str, bool, int, float)) else str(value)
    sharding = value.sharding
    spec = str(getattr(sharding, "spec", None))
    if getattr(getattr(sharding, "spec", None), "unreduced", None):
        numbers = [numbers_of(s.data) for s in value.addressable_shards]
    else:
        numbers = numbers_of(value)
    return [str(value.aval), spec, numbers]


def numbers_of(x):
    if not np.issubdtype(x.dtype, np.number) and x.dtype != bool:
        return []
    found = np.asarray(x, np.float64).ravel()
    step = max(1, len(found) // 12)
    return [float(f"{n:.5g}") for n in found[::step].tolist()]


def answer(line, names):
    """What a line gives, or the class of its error."""
    mesh, _, text = line.rpartition(" | ")
    scope = names["jax"].set_mesh(names[mesh]) if mesh else contextlib.nullcontext()
    try:
        with warnings.catch_warnings(), scope:
            warnings.simplefilter("ignore")
            return told(eval(text, names))
    except Exception as error:
        return f"!{type(error).__name__}"


def answers(library, lines=LINES):
    """The answer of a library to each line."""
    names = namespace(library)
    return {line: answer(line, dict(names)) for line in lines}


if __name__ == "__main__":
    import weft

    json.dump(answers(weft), sys.stdout)
