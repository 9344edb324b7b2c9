"""Wrong and unusual uses of functions about meshes and devices: what JAX refuses, weft does too.

A case is a name and a function of a library; the answer is "ok" or the class of the error.
``python -m tests.parallel.mesh_refusals weft`` prints weft's answers; ``tools/record_meshes.py``
records JAX's in ``data/refusals.json``.
"""

import importlib
import json
import sys
import warnings

import numpy as np

from tests.parallel.mesh_programs import namespace

X = np.arange(8.0, dtype=np.float32)
PROGRAMS = {
    # --- jit ---
    "jit/out_shardings unconstrained": lambda J: J.jit(
        lambda x: x, out_shardings=J.NamedSharding(J.two, J.P(J.P.UNCONSTRAINED))
    )(X),
    "jit/in_shardings unconstrained": lambda J: J.jit(
        lambda x: x, in_shardings=J.NamedSharding(J.two, J.P(J.P.UNCONSTRAINED))
    )(X),
    "jit/device and backend": lambda J: J.jit(lambda x: x, device=J.devices()[0], backend="cpu")(X),
    "jit/device and in_shardings": lambda J: J.jit(
        lambda x: x, device=J.devices()[0], in_shardings=J.halves
    )(X),
    "jit/device and out_shardings": lambda J: J.jit(
        lambda x: x, device=J.devices()[0], out_shardings=J.halves
    )(X),
    "jit/backend and in_shardings": lambda J: J.jit(
        lambda x: x, backend="cpu", in_shardings=J.halves
    )(X),
    "jit/backend unknown": lambda J: J.jit(lambda x: x, backend="nowhere")(X),
    "jit/device of a list": lambda J: J.jit(lambda x: x, device=J.devices()[:2])(X),
    "jit/device text": lambda J: J.jit(lambda x: x, device="cpu")(X),
    "jit/in_shardings text": lambda J: J.jit(lambda x: x, in_shardings="x")(X),
    "jit/in_shardings number": lambda J: J.jit(lambda x: x, in_shardings=3)(X),
    "jit/in_shardings device": lambda J: J.jit(lambda x: x, in_shardings=J.devices()[0])(X),
    "jit/in_shardings list of devices": lambda J: J.jit(lambda x: x, in_shardings=J.devices()[:2])(
        X
    ),
    "jit/out_shardings device": lambda J: J.jit(lambda x: x, out_shardings=J.devices()[0])(X),
    "jit/in_shardings mesh": lambda J: J.jit(lambda x: x, in_shardings=J.two)(X),
    "jit/in_shardings spec without mesh": lambda J: J.jit(lambda x: x, in_shardings=J.P("x"))(X),
    "jit/out_shardings spec without mesh": lambda J: J.jit(lambda x: x, out_shardings=J.P("x"))(X),
    "jit/in_shardings too many": lambda J: J.jit(lambda x: x, in_shardings=(J.halves, J.halves))(X),
    "jit/in_shardings too few": lambda J: J.jit(lambda x, y: x, in_shardings=(J.halves,))(X, X),
    "jit/in_shardings with keywords": lambda J: J.jit(lambda x: x, in_shardings=J.halves)(x=X),
    "jit/in_shardings of another tree": lambda J: J.jit(
        lambda x: x, in_shardings=({"a": J.halves},)
    )({"b": X}),
    "jit/out_shardings of another tree": lambda J: J.jit(
        lambda x: x, out_shardings=(J.halves, J.halves)
    )(X),
    "jit/out_shardings of a dict": lambda J: J.jit(
        lambda x: {"a": x}, out_shardings={"b": J.halves}
    )(X),
    "jit/in_shardings indivisible": lambda J: J.jit(lambda x: x, in_shardings=J.halves)(X[:3]),
    "jit/out_shardings indivisible": lambda J: J.jit(lambda x: x[:3], out_shardings=J.halves)(X),
    "jit/in_shardings of too low a rank": lambda J: J.jit(
        lambda x: x, in_shardings=J.NamedSharding(J.two, J.P(None, "x"))
    )(X),
    "jit/out_shardings of too low a rank": lambda J: J.jit(
        lambda x: x.sum(), out_shardings=J.halves
    )(X),
    "jit/in_shardings of a committed array": lambda J: J.jit(lambda x: x, in_shardings=J.halves)(
        J.device_put(X, J.NamedSharding(J.two, J.P()))
    ),
    "jit/in_shardings of a committed array elsewhere": lambda J: J.jit(
        lambda x: x, in_shardings=J.halves
    )(J.device_put(X, J.devices()[3])),
    "jit/in_shardings None of a committed array": lambda J: J.jit(
        lambda x: x, in_shardings=None, out_shardings=None
    )(J.device_put(X, J.halves)),
    "jit/lower indivisible": lambda J: J.jit(lambda x: x).lower(
        J.ShapeDtypeStruct((3,), np.float32, sharding=J.halves)
    ),
    "jit/lower of too low a rank": lambda J: J.jit(lambda x: x).lower(
        J.ShapeDtypeStruct((), np.float32, sharding=J.halves)
    ),
    "jit/two meshes": lambda J: J.jit(lambda x, y: x + y)(
        J.device_put(X, J.halves), J.device_put(X, J.NamedSharding(J.grid, J.P("x")))
    ),
    "jit/static and donated": lambda J: J.jit(lambda x: x, static_argnums=0, donate_argnums=0)(1),
    "jit/static out of range": lambda J: J.jit(lambda x: x, static_argnums=3)(X),
    "jit/static name unknown": lambda J: J.jit(lambda x: x, static_argnames="q")(X),
    "jit/donate out of range": lambda J: J.jit(lambda x: x, donate_argnums=3)(X),
    "jit/donate name unknown": lambda J: J.jit(lambda x: x, donate_argnames="q")(X),
    "jit/static unhashable": lambda J: J.jit(lambda x: 1, static_argnums=0)([1]),
    "jit/not a function": lambda J: J.jit(3),
    "jit/static text": lambda J: J.jit(lambda x: x, static_argnums="x")(X),
    "jit/compiler option unknown": lambda J: J.jit(lambda x: x, compiler_options={"none_such": 1})(
        X
    ),
    "jit/compiler options of a list": lambda J: J.jit(lambda x: x, compiler_options=[1])(X),
    "jit/keep_unused of a text": lambda J: J.jit(lambda x: x, keep_unused="yes")(X),
    "jit/donated twice": lambda J: (lambda x: J.jit(lambda a, b: a + b, donate_argnums=0)(x, x))(
        J.jnp.ones(3)
    ),
    "jit/deleted argument": lambda J: (lambda x: (x.delete(), J.jit(lambda a: a + 1)(x)))(
        J.jnp.ones(3)
    ),
    "jit/deleted argument that was donated": lambda J: (lambda x, f: (f(x), f(x)))(
        J.jnp.ones(3), J.jit(lambda a: a + 1, donate_argnums=0)
    ),
    # --- deleted arrays ---
    "deleted/add": lambda J: (lambda x: (x.delete(), x + 1))(J.jnp.ones(3)),
    "deleted/numpy": lambda J: (lambda x: (x.delete(), np.asarray(x)))(J.jnp.ones(3)),
    "deleted/index": lambda J: (lambda x: (x.delete(), x[0]))(J.jnp.ones(3)),
    "deleted/repr": lambda J: (lambda x: (x.delete(), repr(x)))(J.jnp.ones(3)),
    "deleted/float": lambda J: (lambda x: (x.delete(), float(x)))(J.jnp.ones(())),
    "deleted/device_put": lambda J: (lambda x: (x.delete(), J.device_put(x, J.devices()[1])))(
        J.jnp.ones(3)
    ),
    "deleted/block_until_ready": lambda J: (lambda x: (x.delete(), x.block_until_ready()))(
        J.jnp.ones(3)
    ),
    "deleted/devices": lambda J: (lambda x: (x.delete(), x.devices()))(J.jnp.ones(3)),
    "deleted/shape": lambda J: (lambda x: (x.delete(), x.shape))(J.jnp.ones(3)),
    "deleted/shards": lambda J: (lambda x: (x.delete(), x.addressable_shards[0].data))(
        J.device_put(X, J.halves)
    ),
    "deleted/pmap": lambda J: (lambda x: (x.delete(), J.pmap(lambda a: a)(x)))(J.jnp.ones(2)),
    "deleted/grad": lambda J: (lambda x: (x.delete(), J.grad(lambda a: a.sum())(x)))(J.jnp.ones(2)),
    "deleted/sum": lambda J: (lambda x: (x.delete(), x.sum()))(J.jnp.ones(2)),
    "deleted/iterate": lambda J: (lambda x: (x.delete(), list(x)))(J.jnp.ones(2)),
    "deleted/copy": lambda J: (lambda x: (x.delete(), x.copy()))(J.jnp.ones(2)),
    "deleted/delete": lambda J: (lambda x: (x.delete(), x.delete()))(J.jnp.ones(2)),
    # --- meshes and shardings ---
    "mesh/axis names twice": lambda J: J.Mesh(np.array(J.devices()[:4]).reshape(2, 2), ("x", "x")),
    "mesh/too few names": lambda J: J.Mesh(np.array(J.devices()[:4]).reshape(2, 2), ("x",)),
    "mesh/too many names": lambda J: J.Mesh(np.array(J.devices()[:4]), ("x", "y")),
    "mesh/no devices": lambda J: J.Mesh(np.array([]), ("x",)),
    "mesh/name None": lambda J: J.Mesh(np.array(J.devices()[:2]), (None,)),
    "mesh/name number": lambda J: J.Mesh(np.array(J.devices()[:2]), (1,)),
    "mesh/types too many": lambda J: J.Mesh(np.array(J.devices()[:2]), ("x",), (J.Auto,) * 2),
    "mesh/types text": lambda J: J.Mesh(np.array(J.devices()[:2]), ("x",), ("Auto",)),
    "mesh/types one": lambda J: J.Mesh(np.array(J.devices()[:2]), ("x",), J.Auto),
    "mesh/set attribute": lambda J: setattr(J.two, "axis_names", ("y",)),
    "mesh/set shape": lambda J: setattr(J.two, "shape", {}),
    "make_mesh/nested shape": lambda J: J.make_mesh(((4,), 2), ("x", "y")),
    "make_mesh/nested names": lambda J: J.make_mesh((4, 2), (("x",), "y")),
    "make_mesh/too many devices": lambda J: J.make_mesh((100,), ("x",)),
    "make_mesh/too few names": lambda J: J.make_mesh((2, 2), ("x",)),
    "make_mesh/too many names": lambda J: J.make_mesh((2,), ("x", "y")),
    "make_mesh/float": lambda J: J.make_mesh((2.0,), ("x",)),
    "make_mesh/text": lambda J: J.make_mesh("2", ("x",)),
    "make_mesh/number": lambda J: J.make_mesh(2, "x"),
    "make_mesh/zero": lambda J: J.make_mesh((0,), ("x",)),
    "make_mesh/negative": lambda J: J.make_mesh((-2,), ("x",)),
    "make_mesh/types text": lambda J: J.make_mesh((2,), ("x",), axis_types=("Auto",)),
    "make_mesh/types too many": lambda J: J.make_mesh((2,), ("x",), axis_types=(J.Auto,) * 2),
    "make_mesh/types one": lambda J: J.make_mesh((2,), ("x",), axis_types=J.Auto),
    "make_mesh/devices wrong": lambda J: J.make_mesh((2,), ("x",), devices=J.devices()[:3]),
    "make_mesh/devices too few": lambda J: J.make_mesh((4,), ("x",), devices=J.devices()[:3]),
    "make_mesh/devices numbers": lambda J: J.make_mesh((2,), ("x",), devices=[0, 1]),
    "make_mesh/names twice": lambda J: J.make_mesh((2, 2), ("x", "x")),
    "make_mesh/list": lambda J: J.make_mesh([2], ["x"]),
    "make_mesh/keywords": lambda J: J.make_mesh(axis_shapes=(2,), axis_names=("x",)),
    "NamedSharding/spec None": lambda J: J.NamedSharding(J.two, None),
    "NamedSharding/spec tuple": lambda J: J.NamedSharding(J.two, ("x",)),
    "NamedSharding/spec text": lambda J: J.NamedSharding(J.two, "x"),
    "NamedSharding/mesh None": lambda J: J.NamedSharding(None, J.P("x")),
    "NamedSharding/mesh text": lambda J: J.NamedSharding("x", J.P("x")),
    "NamedSharding/no spec": lambda J: J.NamedSharding(J.two),
    "NamedSharding/unknown axis": lambda J: J.NamedSharding(J.two, J.P("q")),
    "NamedSharding/axis twice": lambda J: J.NamedSharding(J.two, J.P("x", "x")),
    "NamedSharding/axis twice in a tuple": lambda J: J.NamedSharding(J.two, J.P(("x", "x"))),
    "NamedSharding/memory unknown": lambda J: J.NamedSharding(J.two, J.P("x"), memory_kind="disk"),
    "NamedSharding/memory number": lambda J: J.NamedSharding(J.two, J.P("x"), memory_kind=3),
    "NamedSharding/set": lambda J: setattr(J.halves, "spec", J.P()),
    "NamedSharding/shard_shape": lambda J: J.halves.shard_shape((3,)),
    "NamedSharding/shard_shape of rank 0": lambda J: J.halves.shard_shape(()),
    "NamedSharding/indices": lambda J: J.halves.devices_indices_map((3,)),
    "NamedSharding/unreduced and named": lambda J: J.NamedSharding(
        J.two, J.P("x", unreduced={"x"})
    ),
    "NamedSharding/unreduced unknown": lambda J: J.NamedSharding(J.two, J.P(unreduced={"q"})),
    "SingleDevice/None": lambda J: J.sharding.SingleDeviceSharding(None),
    "SingleDevice/text": lambda J: J.sharding.SingleDeviceSharding("cpu"),
    "SingleDevice/memory unknown": lambda J: J.sharding.SingleDeviceSharding(
        J.devices()[0], memory_kind="disk"
    ),
    "P/number": lambda J: J.P(1),
    "P/nested": lambda J: J.P((("x",),)),
    "P/list": lambda J: J.P(["x"]),
    "P/unreduced text": lambda J: J.P(unreduced="x"),
    "P/unreduced list": lambda J: J.P(unreduced=["x"]),
    "P/set item": lambda J: J.P("x").__setitem__(0, "y"),
    "P/unreduced None": lambda J: J.P(unreduced={None}),
    "set_mesh/text": lambda J: J.set_mesh("x"),
    "set_mesh/abstract": lambda J: J.set_mesh(J.two.abstract_mesh),
    "use_abstract_mesh/concrete": lambda J: J.sharding.use_abstract_mesh(J.two).__enter__(),
    "abstract/devices": lambda J: J.NamedSharding(J.two.abstract_mesh, J.P("x")).device_set,
    "abstract/device_put": lambda J: J.device_put(
        X, J.NamedSharding(J.two.abstract_mesh, J.P("x"))
    ),
    "abstract/jit": lambda J: J.jit(
        lambda x: x, in_shardings=J.NamedSharding(J.two.abstract_mesh, J.P("x"))
    )(X),
    # --- with_sharding_constraint, device_put ---
    "constraint/None": lambda J: J.lax.with_sharding_constraint(X, None),
    "constraint/text": lambda J: J.lax.with_sharding_constraint(X, "x"),
    "constraint/device": lambda J: J.lax.with_sharding_constraint(X, J.devices()[0]),
    "constraint/mesh": lambda J: J.lax.with_sharding_constraint(X, J.two),
    "constraint/spec without mesh": lambda J: J.lax.with_sharding_constraint(X, J.P("x")),
    "constraint/indivisible": lambda J: J.lax.with_sharding_constraint(X[:3], J.halves),
    "constraint/indivisible in jit": lambda J: J.jit(
        lambda x: J.lax.with_sharding_constraint(x, J.halves)
    )(X[:3]),
    "constraint/of too low a rank": lambda J: J.lax.with_sharding_constraint(X[0], J.halves),
    "constraint/of too low a rank in jit": lambda J: J.jit(
        lambda x: J.lax.with_sharding_constraint(x, J.halves)
    )(X[0]),
    "constraint/of another tree": lambda J: J.lax.with_sharding_constraint(
        {"a": X}, {"b": J.halves}
    ),
    "constraint/other devices": lambda J: J.lax.with_sharding_constraint(
        J.device_put(X, J.devices()[3]), J.halves
    ),
    "constraint/other devices in jit": lambda J: J.jit(
        lambda x: J.lax.with_sharding_constraint(x, J.halves)
    )(J.device_put(X, J.devices()[3])),
    "constraint/object": lambda J: J.lax.with_sharding_constraint(object(), J.halves),
    "constraint/unconstrained": lambda J: J.lax.with_sharding_constraint(
        X, J.NamedSharding(J.two, J.P(J.P.UNCONSTRAINED))
    ),
    "device_put/text": lambda J: J.device_put(X, "cpu"),
    "device_put/number": lambda J: J.device_put(X, 0),
    "device_put/mesh": lambda J: J.device_put(X, J.two),
    "device_put/spec without mesh": lambda J: J.device_put(X, J.P("x")),
    "device_put/object": lambda J: J.device_put(object(), J.devices()[0]),
    "device_put/a text": lambda J: J.device_put("text"),
    "device_put/indivisible": lambda J: J.device_put(X[:3], J.halves),
    "device_put/of too low a rank": lambda J: J.device_put(X[0], J.halves),
    "device_put/list of devices": lambda J: J.device_put(X, J.devices()[:2]),
    "device_put/of another tree": lambda J: J.device_put([X, X], [J.halves]),
    "device_put/unconstrained": lambda J: J.device_put(
        X, J.NamedSharding(J.two, J.P(J.P.UNCONSTRAINED))
    ),
    "device_put/donate and alias": lambda J: J.device_put(
        X, J.devices()[0], donate=True, may_alias=True
    ),
    "device_put/donate of a list": lambda J: J.device_put([X, X], donate=[True]),
    "device_put/in jit indivisible": lambda J: J.jit(lambda x: J.device_put(x, J.halves))(X[:3]),
    "device_put/in jit to others": lambda J: J.jit(lambda x: J.device_put(x, J.halves))(
        J.device_put(X, J.devices()[3])
    ),
    "device_put/in jit to a device": lambda J: J.jit(lambda x: J.device_put(x, J.devices()[2]))(X),
    # --- pmap ---
    "pmap/in_axes True": lambda J: J.pmap(lambda x: x, in_axes=True)(X[:2]),
    "pmap/in_axes text": lambda J: J.pmap(lambda x: x, in_axes="0")(X[:2]),
    "pmap/in_axes float": lambda J: J.pmap(lambda x: x, in_axes=0.0)(X[:2]),
    "pmap/in_axes list": lambda J: J.pmap(lambda x: x, in_axes=[0])(X[:2]),
    "pmap/in_axes too many": lambda J: J.pmap(lambda x: x, in_axes=(0, 0))(X[:2]),
    "pmap/in_axes all None": lambda J: J.pmap(lambda x: x, in_axes=None)(X[:2]),
    "pmap/in_axes out of range": lambda J: J.pmap(lambda x: x, in_axes=1)(X[:2]),
    "pmap/in_axes negative": lambda J: J.pmap(lambda x: x, in_axes=-1)(X[:2]),
    "pmap/out_axes text": lambda J: J.pmap(lambda x: x, out_axes="0")(X[:2]),
    "pmap/out_axes out of range": lambda J: J.pmap(lambda x: x, out_axes=3)(X[:2]),
    "pmap/out_axes of another tree": lambda J: J.pmap(lambda x: x, out_axes=(0, 0))(X[:2]),
    "pmap/out_axes None of a mapped": lambda J: J.pmap(lambda x: x, out_axes=None)(X[:2]),
    "pmap/scalar": lambda J: J.pmap(lambda x: x)(1.0),
    "pmap/no arguments": lambda J: J.pmap(lambda: 1)(),
    "pmap/sizes": lambda J: J.pmap(lambda x, y: x)(X[:2], X[:4]),
    "pmap/too many": lambda J: J.pmap(lambda x: x)(np.ones(9)),
    "pmap/empty": lambda J: J.pmap(lambda x: x)(np.ones((0, 2))),
    "pmap/axis_size": lambda J: J.pmap(lambda x: x, axis_size=4)(X[:2]),
    "pmap/axis_size text": lambda J: J.pmap(lambda x: x, axis_size="2")(X[:2]),
    "pmap/devices too few": lambda J: J.pmap(lambda x: x, devices=J.devices()[:2])(X[:4]),
    "pmap/devices none": lambda J: J.pmap(lambda x: x, devices=[])(X[:2]),
    "pmap/devices numbers": lambda J: J.pmap(lambda x: x, devices=[0, 1])(X[:2]),
    "pmap/backend unknown": lambda J: J.pmap(lambda x: x, backend="nowhere")(X[:2]),
    "pmap/backend and devices": lambda J: J.pmap(
        lambda x: x, backend="cpu", devices=J.devices()[:2]
    )(X[:2]),
    "pmap/static unhashable": lambda J: J.pmap(lambda x, y: x, static_broadcasted_argnums=1)(
        X[:2], []
    ),
    "pmap/static out of range": lambda J: J.pmap(lambda x: x, static_broadcasted_argnums=2)(X[:2]),
    "pmap/donate out of range": lambda J: J.pmap(lambda x: x, donate_argnums=3)(X[:2]),
    "pmap/static and donated": lambda J: J.pmap(
        lambda x, y: x, static_broadcasted_argnums=1, donate_argnums=1
    )(X[:2], 1),
    "pmap/not a function": lambda J: J.pmap(3),
    "pmap/object": lambda J: J.pmap(lambda x: 1)(object()),
    "pmap/axis unbound": lambda J: J.pmap(lambda x: J.lax.psum(x, "q"), axis_name="i")(X[:2]),
    "pmap/ordered print": lambda J: J.pmap(lambda x: (J.debug.print("{}", x, ordered=True), x)[1])(
        X[:2]
    ),
    "pmap/ordered callback": lambda J: J.pmap(
        lambda x: (J.debug.callback(lambda y: None, x, ordered=True), x)[1]
    )(X[:2]),
    "pmap/result object": lambda J: J.pmap(lambda x: object())(X[:2]),
    "pmap/axis name list": lambda J: J.pmap(lambda x: x, axis_name=["i"])(X[:2]),
    "pmap/global axis": lambda J: J.pmap(lambda x: x, axis_name=3)(X[:2]),
    # --- shard_map and smap ---
    "shard_map/no mesh": lambda J: J.shard_map(lambda x: x, in_specs=J.P(), out_specs=J.P())(X),
    "shard_map/mesh text": lambda J: J.spread(lambda x: x, mesh="x")(X),
    "shard_map/in_specs text": lambda J: J.spread(lambda x: x, "x")(X),
    "shard_map/out_specs text": lambda J: J.spread(lambda x: x, J.P("x"), "x")(X),
    "shard_map/in_specs sharding": lambda J: J.spread(lambda x: x, J.halves)(X),
    "shard_map/in_specs unknown axis": lambda J: J.spread(lambda x: x, J.P("q"))(X),
    "shard_map/out_specs unknown axis": lambda J: J.spread(lambda x: x, J.P("x"), J.P("q"))(X),
    "shard_map/in_specs indivisible": lambda J: J.spread(lambda x: x)(X[:3]),
    "shard_map/in_specs rank": lambda J: J.spread(lambda x: x, J.P(None, "x"))(X),
    "shard_map/out_specs rank": lambda J: J.spread(lambda x: x.sum())(X),
    "shard_map/out_specs not the same": lambda J: J.spread(lambda x: x, J.P("x"), J.P())(X),
    "shard_map/not the same unchecked": lambda J: J.spread(
        lambda x: x, J.P("x"), J.P(), check_vma=False
    )(X),
    "shard_map/in_specs too many": lambda J: J.spread(lambda x: x, (J.P("x"), J.P("x")))(X),
    "shard_map/out_specs tree": lambda J: J.spread(lambda x: x, J.P("x"), (J.P("x"), J.P()))(X),
    "shard_map/axis_names unknown": lambda J: J.spread(lambda x: x, axis_names={"q"})(X),
    "shard_map/axis_names text": lambda J: J.spread(lambda x: x, axis_names="x")(X),
    "shard_map/axis_names list": lambda J: J.spread(lambda x: x, axis_names=["x"])(X),
    "shard_map/axis_names of others": lambda J: J.spread(
        lambda x: x, mesh=J.grid, axis_names={"y"}
    )(X),
    "shard_map/not a function": lambda J: J.spread(3),
    "shard_map/keyword": lambda J: J.spread(lambda x: x)(x=X),
    "shard_map/result object": lambda J: J.spread(lambda x: object())(X),
    "shard_map/psum unbound": lambda J: J.spread(lambda x: J.lax.psum(x, "q"))(X),
    "shard_map/axis twice": lambda J: J.spread(lambda x: x, J.P("x", "x"))(X.reshape(4, 2)),
    "shard_map/other mesh": lambda J: J.spread(lambda x: x)(
        J.device_put(X, J.NamedSharding(J.grid, J.P("x")))
    ),
    "shard_map/other device": lambda J: J.spread(lambda x: x)(J.device_put(X, J.devices()[3])),
    "shard_map/position": lambda J: J.shard_map(lambda x: x, J.two, J.P("x"), J.P("x")),
    "shard_map/nested": lambda J: J.spread(lambda x: J.spread(lambda y: y)(x))(X),
    "shard_map/constraint on its axis": lambda J: J.jit(
        J.spread(lambda x: J.lax.with_sharding_constraint(x, J.halves))
    )(X),
    "shard_map/unreduced out_specs": lambda J: J.spread(
        lambda x: x, J.P("x"), J.P(unreduced={"x"})
    )(X),
    "shard_map/pcast unknown": lambda J: J.spread(lambda x: J.lax.pcast(x, "q", to="varying"))(X),
    "shard_map/pcast to nothing": lambda J: J.spread(lambda x: J.lax.pcast(x, "x", to="none"))(X),
    "shard_map/pcast outside": lambda J: J.lax.pcast(X, "x", to="varying"),
    "shard_map/grad of an object": lambda J: J.grad(J.spread(lambda x: x))(X),
    "smap/no mesh": lambda J: J.smap(lambda x: x, in_axes=0, out_axes=0, axis_name="x")(X),
    "smap/axis list": lambda J: J.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=["x"])(X),
    "smap/axis tuple": lambda J: J.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("x",))(X),
    "smap/in_axes text": lambda J: J.smap(lambda x: x, in_axes="x", out_axes=0, axis_name="x")(X),
    "smap/in_axes negative": lambda J: J.smap(lambda x: x, in_axes=-1, out_axes=0, axis_name="x")(
        X
    ),
    "smap/out_axes True": lambda J: J.smap(lambda x: x, in_axes=0, out_axes=True, axis_name="x")(X),
    # --- collectives ---
    "groups/overlap": lambda J: J.pmap(
        lambda x: J.lax.psum(x, "i", axis_index_groups=[[0, 1], [1]]), axis_name="i"
    )(X[:2]),
    "groups/missing": lambda J: J.pmap(
        lambda x: J.lax.psum(x, "i", axis_index_groups=[[0, 1]]), axis_name="i"
    )(X[:4]),
    "groups/in shard_map": lambda J: J.spread(
        lambda x: J.lax.psum(x, "x", axis_index_groups=[[0], [1]])
    )(X),
    "groups/all_to_all uneven": lambda J: J.pmap(
        lambda x: J.lax.all_to_all(x, "i", 0, 0, axis_index_groups=[[0], [1, 2, 3]]), axis_name="i"
    )(X[:4].reshape(4, 1)),
    "ppermute/twice": lambda J: J.pmap(
        lambda x: J.lax.ppermute(x, "i", [(0, 1), (0, 1)]), axis_name="i"
    )(X[:2]),
    "ppermute/out of range": lambda J: J.pmap(
        lambda x: J.lax.ppermute(x, "i", [(0, 5)]), axis_name="i"
    )(X[:2]),
    "pshuffle/short": lambda J: J.pmap(lambda x: J.lax.pshuffle(x, "i", [0]), axis_name="i")(X[:2]),
    "axis_index/outside": lambda J: J.lax.axis_index("x"),
    "axis_size/outside": lambda J: J.lax.axis_size("x"),
    "psum/outside": lambda J: J.lax.psum(X, "x"),
    "all_gather/axis": lambda J: J.pmap(lambda x: J.lax.all_gather(x, "i", axis=4), axis_name="i")(
        X[:2]
    ),
    "psum_scatter/size": lambda J: J.pmap(lambda x: J.lax.psum_scatter(x, "i"), axis_name="i")(
        X[:6].reshape(2, 3)
    ),
    # --- custom_vmap, callbacks, checkpoint ---
    "custom_vmap/grad": lambda J: J.grad(_custom_vmap(J))(1.0),
    "custom_vmap/jvp": lambda J: J.jvp(_custom_vmap(J), (1.0,), (1.0,)),
    "custom_vmap/grad in jit": lambda J: J.jit(J.grad(_custom_vmap(J)))(1.0),
    "custom_vmap/no rule": lambda J: J.vmap(J.custom_batching.custom_vmap(lambda x: x))(X),
    "custom_vmap/two rules": lambda J: _two_rules(J),
    "custom_vmap/wrong result": lambda J: J.vmap(_wrong_rule(J))(X),
    "custom_vmap/keywords": lambda J: J.vmap(lambda x: _custom_vmap(J)(x=x))(X),
    "io_callback/checkpoint": lambda J: J.grad(
        J.checkpoint(lambda x: _io(J)(lambda y: np.asarray(y), _struct(J, x), x) * x)
    )(1.0),
    "io_callback/checkpoint in jit": lambda J: J.jit(
        J.grad(J.checkpoint(lambda x: (_io(J)(lambda y: None, None, x), J.jnp.sin(x))[1]))
    )(1.0),
    "io_callback/grad": lambda J: J.grad(
        lambda x: _io(J)(lambda y: np.asarray(y), _struct(J, x), x)
    )(1.0),
    "io_callback/ordered vmap": lambda J: J.vmap(
        lambda x: _io(J)(lambda y: np.asarray(y), _struct(J, x), x, ordered=True)
    )(X),
    "io_callback/wrong shape": lambda J: _io(J)(lambda: np.ones(2), J.ShapeDtypeStruct((3,), "f")),
    "io_callback/wrong dtype": lambda J: J.jit(
        lambda: _io(J)(lambda: np.ones(3, "i"), J.ShapeDtypeStruct((3,), "f"))
    )(),
    "io_callback/not a function": lambda J: _io(J)(3, J.ShapeDtypeStruct((3,), "f")),
    "pure_callback/vmap without method": lambda J: J.vmap(
        lambda x: J.pure_callback(lambda y: np.asarray(y), _struct(J, x), x)
    )(X),
    "pure_callback/unknown method": lambda J: J.pure_callback(
        lambda y: np.asarray(y), _struct(J, X), X, vmap_method="none"
    ),
    "pure_callback/grad": lambda J: J.grad(
        lambda x: J.pure_callback(lambda y: np.asarray(y), _struct(J, x), x)
    )(1.0),
    "pure_callback/wrong tree": lambda J: J.pure_callback(lambda: (1, 2), _struct(J, X)),
    "pure_callback/raises": lambda J: J.jit(
        lambda x: J.pure_callback(_raises, J.ShapeDtypeStruct((8,), np.float32), x)
    )(X),
    "checkpoint/policy text": lambda J: J.grad(J.checkpoint(lambda x: J.jnp.sin(x), policy="all"))(
        1.0
    ),
    "checkpoint/static unhashable": lambda J: J.checkpoint(lambda x: 1.0, static_argnums=0)([1]),
    "checkpoint/static out of range": lambda J: J.checkpoint(lambda x: x, static_argnums=2)(1.0),
    "checkpoint/not a function": lambda J: J.checkpoint(3),
    "checkpoint/prevent_cse text": lambda J: J.checkpoint(lambda x: x, prevent_cse="no")(1.0),
    "checkpoint/concrete": lambda J: J.checkpoint(lambda x: x, concrete=True)(1.0),
    # --- arrays made of parts ---
    "from_callback/shape": lambda J: J.library.make_array_from_callback(
        (4,), J.halves, lambda i: np.ones(3)
    ),
    "from_callback/indivisible": lambda J: J.library.make_array_from_callback(
        (3,), J.halves, lambda i: np.ones(3)[i]
    ),
    "from_callback/spec": lambda J: J.library.make_array_from_callback(
        (4,), J.P("x"), lambda i: np.ones(4)[i]
    ),
    "from_parts/too few": lambda J: J.library.make_array_from_single_device_arrays(
        (4,), J.halves, [J.jnp.ones(2)]
    ),
    "from_parts/shape": lambda J: J.library.make_array_from_single_device_arrays(
        (4,), J.halves, [J.device_put(np.ones(3), d) for d in J.devices()[:2]]
    ),
    "from_parts/numpy": lambda J: J.library.make_array_from_single_device_arrays(
        (4,), J.halves, [np.ones(2), np.ones(2)]
    ),
    "from_parts/not a list": lambda J: J.library.make_array_from_single_device_arrays(
        (4,), J.halves, J.jnp.ones(4)
    ),
    "local_data/shape": lambda J: J.make_array_from_process_local_data(J.halves, X, (4,)),
    "reshard/auto": lambda J: J.reshard(X, J.halves),
    "reshard/None": lambda J: J.reshard(X, None),
    "reshard/spec without mesh": lambda J: J.reshard(X, J.P("x")),
    "devices/backend": lambda J: J.devices("nowhere"),
    "default_device/number": lambda J: J.default_device(3).__enter__(),
    "pjit/no mesh": lambda J: J.pjit.pjit(lambda x: x, in_shardings=J.P("x"))(X),
    "pjit/device": lambda J: J.pjit.pjit(lambda x: x, in_shardings=J.devices()[0])(X),
    "pjit/None": lambda J: J.pjit.pjit(lambda x: x, in_shardings=None, out_shardings=None)(X),
    "pjit/not a function": lambda J: J.pjit.pjit(3),
}


def _struct(J, x):
    return J.ShapeDtypeStruct(np.shape(x), np.float32)


def _io(J):
    return importlib.import_module(f"{J.library.__name__}.experimental").io_callback


def _raises(x):
    raise KeyError("a user's error")


def _custom_vmap(J):
    f = J.custom_batching.custom_vmap(lambda x: J.jnp.sin(x))
    f.def_vmap(lambda size, batched, x: (J.jnp.sin(x), True))
    return f


def _two_rules(J):
    f = _custom_vmap(J)
    f.def_vmap(lambda size, batched, x: (x, True))
    return J.vmap(f)(X)


def _wrong_rule(J):
    f = J.custom_batching.custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: x)
    return f


def answers(library, names=()):
    """For each case "ok", or the class of the error and its message."""
    J = namespace(library)
    found = {}
    for name, program in PROGRAMS.items():
        if names and name not in names:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program(J)
            found[name] = ["ok", ""]
        except Exception as error:
            kind = type(error).__name__.lstrip("_")
            found[name] = [kind, str(error)]
    return found


if __name__ == "__main__":
    print(json.dumps(answers(importlib.import_module(sys.argv[1]), sys.argv[2:])))
