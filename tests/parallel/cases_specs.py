"""Wrong specs, and what shardings and meshes say of themselves, on weft and on JAX alike."""

import numpy as np

CASES = []
X = (np.arange(32, dtype=np.float32).reshape(8, 4) - 11) / 8


def add(name, function):
    CASES.append((name, function))


# --- wrong specs, wherever they can be given ------------------------------------------------------

SPECS = {
    "axis": ("q",),
    "twice": ("x", "x"),
    "twice_joined": (("x", "y"), "y"),
    "rank": ("x", None, "y"),
    "indivisible": (None, ("x", "y")),
    "not_text": (3,),
}


def _auto(J, *spec):
    return J.NamedSharding(J.grid, J.P(*spec))


def _explicit(J, *spec):
    return J.NamedSharding(J.egrid, J.P(*spec))


PLACES = {
    "sharding": lambda J, s: _auto(J, *s),
    "device_put": lambda J, s: J.device_put(X, _auto(J, *s)),
    "device_put_spec": lambda J, s: J.device_put(X, J.P(*s)),
    "in_shardings": lambda J, s: J.jit(lambda x: x, in_shardings=_auto(J, *s))(X),
    "out_shardings": lambda J, s: J.jit(lambda x: x, out_shardings=_auto(J, *s))(X),
    "constraint": lambda J, s: J.jit(lambda x: J.lax.with_sharding_constraint(x, _auto(J, *s)))(X),
    "constraint_spec": lambda J, s: J.jit(lambda x: J.lax.with_sharding_constraint(x, J.P(*s)))(X),
    "in_specs": lambda J, s: J.shard_map(
        lambda x: x, mesh=J.grid, in_specs=J.P(*s), out_specs=J.P()
    )(X),
    "out_specs": lambda J, s: J.shard_map(
        lambda x: x, mesh=J.grid, in_specs=J.P(), out_specs=J.P(*s)
    )(X),
    "callback": lambda J, s: J.make_array_from_callback((8, 4), _auto(J, *s), lambda i: X[i]),
    "shard_shape": lambda J, s: str(_auto(J, *s).shard_shape((8, 4))),
    "reshard": lambda J, s: J.sharding.reshard(X, _explicit(J, *s)),
    "reshard_spec": lambda J, s: J.sharding.reshard(X, J.P(*s)),
    "zeros": lambda J, s: J.jnp.zeros((8, 4), out_sharding=_explicit(J, *s)),
    "zeros_spec": lambda J, s: J.jnp.zeros((8, 4), out_sharding=J.P(*s)),
    "dot": lambda J, s: J.jnp.dot(X, np.ones((4, 4), np.float32), out_sharding=J.P(*s)),
    "reshape": lambda J, s: J.jnp.reshape(X, (8, 4), out_sharding=J.P(*s)),
    "auto_axes": lambda J, s: J.sharding.auto_axes(lambda x: x, out_sharding=J.P(*s))(X),
}


def _wrong(place, function, name, spec):
    def run(J):
        meshes = {"device_put_spec": J.grid, "constraint_spec": J.grid}
        mesh = meshes.get(place, J.egrid if place in EXPLICIT else None)
        if mesh is None:
            return function(J, spec)
        with J.set_mesh(mesh):
            return function(J, spec)

    add(f"wrong/{place}/{name}", run)


EXPLICIT = "reshard reshard_spec zeros zeros_spec dot reshape auto_axes".split()
for _place, _function in PLACES.items():
    for _name, _spec in SPECS.items():
        _wrong(_place, _function, _name, _spec)


def _refused(name, function):
    add(f"wrong/{name}", function)


def _in(mesh, function):
    def run(J):
        with J.set_mesh(getattr(J, mesh)):
            return function(J)

    return run


_refused("explicit/no_mesh_zeros", lambda J: J.jnp.zeros((8, 4), out_sharding=J.P("x")))
_refused("explicit/no_mesh_dot", lambda J: J.jnp.dot(X.T, X, out_sharding=J.P("x")))
_refused("explicit/no_mesh_reshard", lambda J: J.sharding.reshard(X, J.P("x")))
_refused("explicit/auto_zeros", _in("grid", lambda J: J.jnp.zeros((8, 4), out_sharding=J.P("x"))))
_refused("explicit/auto_dot", _in("grid", lambda J: J.jnp.dot(X.T, X, out_sharding=J.P("x"))))
_refused("explicit/auto_reshard", _in("grid", lambda J: J.sharding.reshard(X, J.P("x"))))
_refused("explicit/text", _in("egrid", lambda J: J.jnp.zeros((8, 4), out_sharding="x")))
_refused("explicit/none", _in("egrid", lambda J: J.sharding.reshard(X, None)))
_refused(
    "explicit/constraint",
    _in("egrid", lambda J: J.lax.with_sharding_constraint(J.jnp.asarray(X), J.P("x"))),
)
_refused(
    "explicit/constraint_in_jit",
    _in("egrid", lambda J: J.jit(lambda x: J.lax.with_sharding_constraint(x, J.P("x")))(X)),
)
_refused(
    "explicit/other_mesh",
    _in("eline", lambda J: J.jit(lambda x: x * 2)(J.device_put(X, _explicit(J, "x"))) + 1),
)
_refused(
    "explicit/two_meshes",
    lambda J: (
        J.device_put(X, _explicit(J, "x")) + J.device_put(X, J.NamedSharding(J.eline, J.P("x")))
    ),
)
_refused(
    "explicit/sharding_of_another_mesh",
    _in("eline", lambda J: J.jnp.zeros((8, 4), out_sharding=_explicit(J, "x"))),
)
_refused("explicit/auto_axes_without", _in("egrid", lambda J: J.sharding.auto_axes(lambda x: x)(X)))
_refused(
    "explicit/auto_axes_unknown",
    _in("egrid", lambda J: J.sharding.auto_axes(lambda x: x, axes="q", out_sharding=J.P())(X)),
)
_refused(
    "explicit/explicit_axes_without",
    _in("egrid", lambda J: J.sharding.explicit_axes(lambda x: x)(X)),
)
_refused(
    "explicit/explicit_axes_no_mesh",
    lambda J: J.sharding.explicit_axes(lambda x: x, in_sharding=J.P("x"))(X),
)
_refused("explicit/set_mesh_of_text", lambda J: J.set_mesh("x").__enter__())
_refused(
    "explicit/abstract_mesh_of_mesh", lambda J: J.sharding.use_abstract_mesh(J.egrid).__enter__()
)
_refused("mesh/names", lambda J: J.make_mesh((4, 2), ("x",)))
_refused("mesh/too_many", lambda J: J.make_mesh((16,), ("x",)))
_refused(
    "mesh/types", lambda J: J.make_mesh((8,), ("x",), axis_types=(J.sharding.AxisType.Auto,) * 2)
)
_refused("mesh/abstract_names", lambda J: J.sharding.AbstractMesh((4, 2), ("x",)))
_refused(
    "mesh/abstract_put", lambda J: J.device_put(X, J.NamedSharding(J.grid.abstract_mesh, J.P("x")))
)
_refused("sharding/mesh_is_text", lambda J: J.NamedSharding("x", J.P("x")))
_refused("sharding/spec_is_text", lambda J: J.NamedSharding(J.grid, "x"))
_refused(
    "sharding/kind_of_memory",
    lambda J: J.NamedSharding(J.grid, J.P("x"), memory_kind="nowhere"),
)
_refused(
    "process_data/shape",
    lambda J: J.make_array_from_process_local_data(_auto(J, "x"), X, (9, 4)),
)
_refused(
    "callback/part", lambda J: J.make_array_from_callback((8, 4), _auto(J, "x"), lambda i: X[:1])
)
_refused("shard_map/scalar", lambda J: J.spread(lambda x: x, J.P("x"), J.P("x"))(np.float32(1)))
_refused(
    "shard_map/out_indivisible", lambda J: J.spread(lambda x: x[:, :3], J.P("x"), J.P("x", "y"))(X)
)
_refused("shard_map/no_function", lambda J: J.spread(3, J.P("x"), J.P("x"))(X))
_refused(
    "shard_map/axis_names_text",
    lambda J: J.spread(lambda x: x, J.P("x"), J.P("x"), axis_names={"z"})(X),
)
_refused(
    "shard_map/tree", lambda J: J.spread(lambda t: t["a"], ({"b": J.P("x")},), J.P("x"))({"a": X})
)
_refused(
    "shard_map/results_tree", lambda J: J.spread(lambda x: {"a": x}, J.P("x"), {"b": J.P("x")})(X)
)
_refused(
    "shard_map/unbound", lambda J: J.spread(lambda x: J.lax.psum(x, "q"), J.P("x"), J.P("x"))(X)
)
_refused(
    "jit/in_shardings_tree",
    lambda J: J.jit(lambda t: t, in_shardings=({"b": _auto(J, "x")},))({"a": X}),
)
_refused(
    "jit/out_shardings_tree", lambda J: J.jit(lambda x: (x, x), out_shardings=(_auto(J, "x"),))(X)
)
_refused("jit/in_shardings_text", lambda J: J.jit(lambda x: x, in_shardings="x")(X))
_refused(
    "jit/two_meshes",
    lambda J: J.jit(lambda x, y: x + y)(
        J.device_put(X, _auto(J, "x")), J.device_put(X, J.NamedSharding(J.four, J.P("x")))
    ),
)
_refused(
    "put/two_devices", lambda J: J.device_put(X, J.devices()[1]) @ J.device_put(X.T, J.devices()[2])
)
_refused("put/tree", lambda J: J.device_put({"a": X}, {"b": J.devices()[0]}))
_refused("put/object", lambda J: J.device_put(X, 3))


def _chosen(J, name):
    return J.lax.all_gather(X, name)


_refused("collective/outside", lambda J: _chosen(J, "x"))

# --- what shardings and meshes say ----------------------------------------------------------------

SHAPES = [(8, 4), (16, 8), (8,), (4, 2, 8)]
DESCRIBED = {
    "x": ("x",),
    "xy": ("x", "y"),
    "yx": ("y", "x"),
    "(xy)": (("x", "y"),),
    "(yx)": (("y", "x"),),
    "_x": (None, "x"),
    "whole": (),
    "__y": (None, None, "y"),
}


def _or_refused(function):
    try:
        return str(function())
    except Exception:
        return "refused"


def _described(label, spec):
    def shapes(J):
        s = _auto(J, *spec)
        return [_or_refused(lambda n=n: s.shard_shape(n)) for n in SHAPES]

    def indices(J):
        s = _auto(J, *spec)
        found = []
        for n in SHAPES:
            where = lambda n=n: {d.id: i for d, i in s.devices_indices_map(n).items()}
            found.append(_or_refused(where))
        return found

    def itself(J):
        s = _auto(J, *spec)
        told = [s.is_fully_replicated, s.is_fully_addressable, s.num_devices, str(s), repr(s.spec)]
        return told, sorted(d.id for d in s.device_set), [d.id for d in s._device_assignment]

    def equivalent(J):
        s = _auto(J, *spec)
        return [s.is_equivalent_to(_auto(J, *o), 3) for o in DESCRIBED.values()]

    def array(J):
        if len(spec) > 2:
            return "too long"
        x = J.make_array_from_callback((8, 4), _auto(J, *spec), lambda i: X[i])
        shards = [f"{p.device.id}{p.index}{p.replica_id}{p.data.shape}" for p in x.global_shards]
        told = [
            x.is_fully_replicated,
            x.is_fully_addressable,
            x.committed,
            x.sharding == _auto(J, *spec),
        ]
        return x, shards, told, x.addressable_data(3), x.addressable_shards[5].data

    def pictured(J):
        import contextlib
        import io

        if len(spec) > 2:
            return "too long"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            J.debug.visualize_array_sharding(J.device_put(X, _auto(J, *spec)), use_color=False)
        return sorted(
            {int(n) for n in "".join(c if c.isdigit() else " " for c in out.getvalue()).split()}
        )

    def explicit(J):
        s = _explicit(J, *spec)
        return (
            str(s),
            _or_refused(lambda: s.shard_shape((8, 4, 2))),
            hash(s) == hash(_explicit(J, *spec)),
        )

    for f in (shapes, indices, itself, equivalent, array, pictured, explicit):
        add(f"told/{f.__name__}/{label}", f)


for _label, _spec in DESCRIBED.items():
    _described(_label, _spec)

add(
    "told/specs",
    lambda J: [repr(J.P(*s)) for s in [(), ("x",), (None,), (("x", "y"), None), ("x", "y")]],
)
add(
    "told/spec_equality",
    lambda J: [
        J.P("x") == J.P("x"),
        J.P("x") == J.P("x", None),
        J.P(("x",)) == J.P("x"),
        J.P() == J.P(None),
        J.P("x") == ("x",),
        hash(J.P("x")) == hash(J.P("x")),
        len(J.P("x", None)),
        J.P("x", "y")[1],
    ],
)
add("told/spec_unreduced", lambda J: [repr(J.P("x", unreduced={"y"})), repr(J.P(unreduced={"x"}))])
add(
    "told/mesh",
    lambda J: [
        str(J.grid),
        str(J.cube),
        J.grid.size,
        J.grid.empty,
        str(J.grid.axis_names),
        str(dict(J.grid.shape)),
        str(J.grid.device_ids.tolist()),
        str(J.grid.abstract_mesh),
        str(J.grid.axis_sizes),
        J.grid.is_multi_process,
        len(J.grid.local_devices),
    ],
)
add(
    "told/mesh_equality",
    lambda J: [
        J.grid == J.Mesh(np.array(J.devices()[:8]).reshape(4, 2), ("x", "y")),
        J.grid == J.egrid,
        J.grid == J.line,
        hash(J.grid) == hash(J.Mesh(np.array(J.devices()[:8]).reshape(4, 2), ("x", "y"))),
        J.grid.abstract_mesh == J.egrid.abstract_mesh,
    ],
)
add(
    "told/abstract",
    lambda J: [
        str(J.sharding.AbstractMesh((4, 2), ("x", "y"))),
        str(J.sharding.AbstractMesh((4, 2), ("x", "y")).explicit_axes),
        str(J.egrid.abstract_mesh.explicit_axes),
        str(J.egrid.abstract_mesh.auto_axes),
        str(J.grid.abstract_mesh.manual_axes),
        J.sharding.AbstractMesh((4, 2), ("x", "y")).size,
        str(J.grid.abstract_mesh.update(axis_names=("a", "b"))),
    ],
)
add(
    "told/single",
    lambda J: [
        str(J.Single(J.devices()[3])),
        J.Single(J.devices()[3]).num_devices,
        J.Single(J.devices()[3]).is_fully_replicated,
        str(J.Single(J.devices()[3]).shard_shape((4, 2))),
        J.Single(J.devices()[3]) == J.Single(J.devices()[3]),
        J.Single(J.devices()[3]) == J.Single(J.devices()[2]),
        J.Single(J.devices()[0]).is_equivalent_to(_auto(J), 2),
    ],
)
add(
    "told/devices",
    lambda J: [
        str(J.devices()[2]),
        repr(J.devices()[2]),
        J.devices()[2].id,
        J.devices()[2].platform,
        J.devices()[2].device_kind,
        J.devices()[2].process_index,
        len(J.devices()),
    ],
)
add(
    "told/put_trees",
    lambda J: J.device_put({"a": X, "b": [X + 1, X[0]]}, {"a": _auto(J, "x"), "b": J.devices()[3]}),
)
add(
    "told/put_to_sharding_of_another",
    lambda J: J.device_put(X, J.device_put(X, _auto(J, "x")).sharding),
)
add("told/process_data", lambda J: J.make_array_from_process_local_data(_auto(J, "x"), X))
add(
    "told/process_data_tree",
    lambda J: J.make_array_from_process_local_data(_auto(J, "x"), {"a": X, "b": X[:, 0]}),
)
add("told/is_deleted", lambda J: _deleted(J))
add("told/struct", lambda J: str(J.ShapeDtypeStruct((8, 4), np.float32, sharding=_auto(J, "x"))))
add(
    "told/copied",
    lambda J: [J.device_put(X, _auto(J, "x")).copy(), J.jnp.array(J.device_put(X, _auto(J, "x")))],
)


def _deleted(J):
    x = J.device_put(X, _auto(J, "x"))
    x.delete()
    return x.is_deleted(), str(x.shape), str(x.sharding.spec)


# --- how results of programs on auto axes are divided ---------------------------------------------

AUTO = {
    "elementwise": lambda J, x: (x * 2, J.jnp.sin(x), x > 0, x.astype(J.jnp.int32)),
    "reductions": lambda J, x: (x.sum(), x.sum(0), x.max(1), x.mean(), x.argmax(1)),
    "moves": lambda J, x: (x.T, x[None], J.jnp.expand_dims(x, 2)),
    "broadcast": lambda J, x: (J.jnp.broadcast_to(x, (3, 8, 4)), x + J.jnp.arange(4.0)),
    "loops": lambda J, x: J.lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
    "while": lambda J, x: J.lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x),
    "scan": lambda J, x: J.lax.scan(lambda c, _: (c + 1, None), x, None, length=3)[0],
    "cond": lambda J, x: J.lax.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, x),
    "jit": lambda J, x: J.jit(lambda y: J.jnp.cos(y))(x),
    "grad": lambda J, x: J.grad(lambda x: (J.jnp.tanh(x) ** 2).sum())(x),
    "softmax": lambda J, x: J.nn.softmax(x, 1),
    "zeros_like": lambda J, x: J.jnp.zeros_like(x) + x,
    "where": lambda J, x: J.jnp.where(x > 0, x, 0.0),
    "vmap": lambda J, x: J.vmap(lambda r: r * 2)(x),
    "constrained": lambda J, x: J.lax.with_sharding_constraint(x * 2, _auto(J, "y")),
}


def _automatic(name, function, label, spec):
    def run(J):
        return J.jit(lambda x: function(J, x))(J.device_put(X, _auto(J, *spec)))

    add(f"auto/{name}/{label}", run)


for _name, _function in AUTO.items():
    for _label, _spec in {"x": ("x",), "xy": ("x", "y"), "_y": (None, "y")}.items():
        _automatic(_name, _function, _label, _spec)
