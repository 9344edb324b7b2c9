"""Programs about meshes, devices and transformations whose answers JAX gave.

A case is a function of a library, JAX or weft; it returns a tree of arrays, texts and numbers, or
raises. ``python -m tests.parallel.mesh_programs weft`` runs all cases on weft and prints their
answers as JSON; ``tools/record_meshes.py`` does so on JAX and writes ``data/meshes.json``.
"""

import functools
import importlib
import json
import sys
import types
import warnings

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def namespace(library):
    """The library with its submodules, two meshes of two devices, and what cases often use."""
    J = types.SimpleNamespace(**{name: getattr(library, name) for name in NAMES.split()})
    for name in "experimental.checkify experimental.pjit experimental.sparse export".split():
        setattr(J, name.split(".")[-1], importlib.import_module(f"{library.__name__}.{name}"))
    for (
        name
    ) in "core custom_batching custom_derivatives interpreters.xla interpreters.mlir".split():
        setattr(J, name.split(".")[-1], importlib.import_module(f"{library.__name__}.{name}"))
    J.jnp, J.Mesh = library.numpy, library.sharding.Mesh
    J.Auto, J.Explicit = library.sharding.AxisType.Auto, library.sharding.AxisType.Explicit
    J.library = library
    J.two = J.make_mesh((2,), ("x",), axis_types=(J.Auto,))
    J.explicit = J.make_mesh((2,), ("x",))
    J.grid = J.make_mesh((4, 2), ("x", "y"), axis_types=(J.Auto,) * 2)
    J.halves = J.NamedSharding(J.two, J.P("x"))

    row = J.P("x")

    def spread(f, in_specs=row, out_specs=row, mesh=J.two, **options):
        return J.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)

    J.spread = spread
    return J


NAMES = """
P NamedSharding ShapeDtypeStruct checkpoint config debug default_device device_put devices
enable_x64 eval_shape grad jacrev jit jvp lax linearize make_array_from_process_local_data make_mesh
make_jaxpr new_ref nn numpy numpy_dtype_promotion pmap pure_callback random reshard set_mesh
shard_map sharding smap threefry_partitionable transfer_guard transfer_guard_device_to_device
transfer_guard_host_to_device transfer_guard_device_to_host tree_util typeof value_and_grad vjp vmap
"""


# --- checks inside shard_map and pmap -------------------------------------------------------------


def _error(J, f, x, errors):
    error, out = J.checkify.checkify(f, errors=errors)(x)
    text = error.get()
    return [None if text is None else text.partition("(")[0].strip(), np.asarray(out)]


@case
def checkify_shard_map(J):
    f = J.spread(lambda x: x / 0.0)
    g = J.spread(lambda x: x / x)
    kinds = J.checkify.float_checks
    x = J.jnp.arange(4.0)
    found = [_error(J, h, x, kinds)[0] for h in (f, g, J.jit(g))]
    return [[t is not None and t.split()[0] for t in found], _error(J, g, x + 1, kinds)]


@case
def checkify_pmap(J):
    f = J.pmap(lambda x: x / x, axis_name="i")
    found = [_error(J, f, J.jnp.arange(4.0) + i, J.checkify.float_checks)[0] for i in (0, 1)]
    return [t is not None for t in found]


@case
def checkify_check_in_shard_map(J):
    def body(x):
        J.checkify.check(J.jnp.all(x < 3), "too large: {}", x.max())
        return x * 2

    f = J.spread(body)
    found = [_error(J, f, J.jnp.arange(4.0) - i, J.checkify.user_checks) for i in (0, 1)]
    return found


@case
def checkify_check_in_pmap(J):
    def body(x):
        J.checkify.check(x < 3, "too large")
        return J.lax.psum(x, "i")

    f = J.pmap(body, axis_name="i")
    return [_error(J, f, J.jnp.arange(4.0) - i, J.checkify.user_checks) for i in (0, 1)]


@case
def checkify_with_replicated_result(J):
    f = J.spread(lambda x: J.lax.psum(J.jnp.log(x), "x"), out_specs=J.P())
    return [_error(J, f, J.jnp.arange(4.0) - i, J.checkify.nan_checks)[0] is None for i in (0, 1)]


@case
def checkify_two_axes(J):
    def body(x):
        J.checkify.check(J.jnp.all(x != 5), "five")
        return x

    f = J.spread(body, J.P("x", "y"), J.P("x", "y"), J.grid)
    x = J.jnp.arange(16.0).reshape(4, 4)
    return [_error(J, f, x + 16 * i, J.checkify.user_checks) for i in (0, 1)]


@case
def checkify_index_in_shard_map(J):
    f = J.spread(lambda x: J.jnp.arange(3.0)[x])
    kinds = J.checkify.index_checks
    found = [_error(J, f, J.jnp.arange(4) - i, kinds)[0] for i in (0, 1)]
    return [t is not None for t in found]


@case
def checkify_around_shard_map(J):
    def body(x):
        J.checkify.check(J.jnp.all(x < 3), "inside {}", x[0])
        return x * 2

    def f(x):
        J.checkify.check(x[0] < 1, "before")
        y = J.spread(body)(x)
        J.checkify.check(y[0] < 10, "after {}", y[1])
        return y

    x = J.jnp.arange(4.0)
    kinds = J.checkify.user_checks
    return [_error(J, f, y, kinds)[0] is None for y in (x, x - 1, x + 1, x / 2 + 0.6)]


@case
def checkify_scan_of_shard_map(J):
    f = lambda x: J.lax.scan(lambda c, _: (J.spread(lambda x: J.jnp.log(x))(c), None), x, None, 2)
    kinds = J.checkify.nan_checks
    found = [_error(J, lambda x: f(x)[0], J.jnp.ones(4) * n, kinds)[0] for n in (20, 0.5)]
    return [t is None for t in found]


# --- settings that are read while a function is staged --------------------------------------------


@case
def partitionable_inside_jit(J):
    def f(x):
        with J.threefry_partitionable(False):
            return J.random.bits(J.random.key(0), (4,))

    def g(x):
        with J.threefry_partitionable(False):
            return J.random.split(J.random.key(3), 3)

    def keys(x):
        with J.threefry_partitionable(False):
            return J.random.normal(J.random.PRNGKey(7), (3,)) * x

    data = J.random.key_data
    both = [f(1), J.jit(f)(1), data(g(1)), data(J.jit(g)(1)), keys(1.0), J.jit(keys)(1.0)]
    return [*both, J.vmap(f)(J.jnp.arange(2)), J.jit(lambda: J.random.bits(J.random.key(0)))()]


@case
def partitionable_outside_jit(J):
    f = J.jit(lambda k: J.random.bits(k, (5,)))
    k = J.random.key(1)
    with J.threefry_partitionable(False):
        a = f(k)
        b = J.random.bits(k, (5,), "uint8")
    return [a, f(k), b, J.random.bits(k, (5,), "uint8")]


@case
def x64_inside_a_derivative(J):
    def f(x):
        with J.enable_x64(True):
            return J.jnp.sin(x)

    def g(x):
        with J.enable_x64(True):
            return (J.jnp.sin(x) * J.jnp.asarray(2.0, "float64")).sum()

    one = J.jnp.float32(1.0)
    found = [J.grad(f)(1.0), J.grad(f)(one), J.jvp(f, (one,), (one,))]
    found += [J.jit(J.grad(f))(one), J.grad(g)(J.jnp.ones(3)), J.jvp(g, (one,), (one,))]
    found += [J.grad(J.jit(f))(one), J.vmap(J.grad(f))(J.jnp.ones(2)), J.grad(J.grad(f))(one)]
    return found


@case
def x64_inside_linearize_and_scan(J):
    def f(x):
        with J.enable_x64(True):
            return J.lax.scan(lambda c, _: (J.jnp.cos(c), c), x, None, length=3)[0]

    one = J.jnp.float32(1.0)
    out, push = J.linearize(f, one)
    return [J.grad(f)(one), out, push(one), J.vjp(f, one)[1](J.jnp.ones_like(out))]


@case
def pickled_float64(J):
    import pickle

    with J.enable_x64(True):
        text = pickle.dumps([J.jnp.arange(3.0), J.jnp.arange(3), J.jnp.ones(2, "complex128")])
    with J.enable_x64(True):
        wide = [str(x.dtype) for x in pickle.loads(text)]
    return [wide, [str(x.dtype) for x in pickle.loads(text)], pickle.loads(text)[0]]


@case
def arange_of_symbolic_steps(J):
    def run(f):
        shape = J.ShapeDtypeStruct(J.export.symbolic_shape("b"), "float32")
        return J.export.export(J.jit(f))(shape).call(J.jnp.ones(4))

    return [
        run(lambda x: J.jnp.arange(x.shape[0], 1, -x.shape[0])),
        run(lambda x: J.jnp.arange(2 * x.shape[0], 0, -x.shape[0])),
        run(lambda x: J.jnp.arange(x.shape[0], 0, -1)),
        run(lambda x: J.jnp.arange(0, 3 * x.shape[0], x.shape[0])),
        run(lambda x: J.jnp.arange(0, -x.shape[0], -1)),
        run(lambda x: J.jnp.arange(0, -2 * x.shape[0], -x.shape[0])),
        run(lambda x: J.jnp.arange(x.shape[0] + 1, -1, -x.shape[0])),
    ]


# --- jit, devices and meshes ----------------------------------------------------------------------


def _where(x):
    return [np.asarray(x), sorted(d.id for d in x.devices()), x.committed]


@case
def shardings_over_other_devices(J):
    four = J.NamedSharding(J.Mesh(np.array(J.devices()[:4]), ("x",)), J.P("x"))
    return J.jit(lambda x: x, in_shardings=J.halves, out_shardings=four)(np.arange(4.0))


@case
def shardings_over_other_devices_among_results(J):
    four = J.NamedSharding(J.Mesh(np.array(J.devices()[:4]), ("x",)), J.P("x"))
    return J.jit(lambda x: (x, x), out_shardings=(four, J.halves))(np.arange(4.0))


@case
def shardings_over_other_devices_among_arguments(J):
    four = J.NamedSharding(J.Mesh(np.array(J.devices()[:4]), ("x",)), J.P("x"))
    return J.jit(lambda x, y: x + y, in_shardings=(four, J.halves))(np.ones(4), np.ones(4))


@case
def constraint_over_other_devices(J):
    four = J.NamedSharding(J.Mesh(np.array(J.devices()[:4]), ("x",)), J.P("x"))
    f = J.jit(lambda x: J.lax.with_sharding_constraint(x, four), in_shardings=J.halves)
    return f(np.arange(4.0))


@case
def constraint_over_devices_in_another_order(J):
    turned = J.NamedSharding(J.Mesh(np.array(J.devices()[:2][::-1]), ("x",)), J.P("x"))
    f = J.jit(lambda x: J.lax.with_sharding_constraint(x, turned), in_shardings=J.halves)
    return f(np.arange(4.0))


@case
def unconstrained_in_specs(J):
    return J.spread(lambda x: x, J.P(J.P.UNCONSTRAINED))(J.jnp.arange(4.0))


@case
def unconstrained_out_specs(J):
    return J.spread(lambda x: x, J.P("x"), J.P(J.P.UNCONSTRAINED))(J.jnp.arange(4.0))


@case
def smap_without_in_axes(J):
    with J.set_mesh(J.two):
        return J.smap(lambda x: 2 * x, out_axes=0, axis_name="x")(J.jnp.arange(4.0))


@case
def shard_map_without_in_specs(J):
    return J.shard_map(lambda x: 2 * x, mesh=J.two, out_specs=J.P("x"))(J.jnp.arange(4.0))


@case
def shard_map_without_in_specs_explicit(J):
    with J.set_mesh(J.explicit):
        x = J.device_put(np.arange(4.0, dtype="f"), J.P("x"))
        return np.asarray(J.shard_map(lambda x: 2 * x, out_specs=J.P("x"))(x))


@case
def smap_without_in_axes_explicit(J):
    with J.set_mesh(J.explicit):
        x = J.device_put(np.arange(4.0, dtype="f"), J.P("x"))
        return np.asarray(J.smap(lambda x: 2 * x, out_axes=0, axis_name="x")(x))


@case
def boolean_index_on_another_device(J):
    x = J.device_put(np.arange(4.0), J.devices()[1])
    none, some = J.jnp.zeros(4, bool), np.array([True, False, True, False])
    return [_where(y) for y in (x[none], x[some], x[np.zeros(4, bool)], x[[]], x[0:0])]


@case
def rows_of_a_replicated_array(J):
    x = J.device_put(np.ones((8, 1)), J.NamedSharding(J.two, J.P()))
    y = J.device_put(np.ones((4, 2)), J.NamedSharding(J.two, J.P(None, "x")))
    z = J.device_put(np.ones((4, 2)), J.devices()[3])
    found = [sorted(d.id for d in r.devices()) for a in (x, z) for r in a]
    return [found, [len(r.sharding.device_set) for r in y]]


def _donated(J, f, *args, **options):
    args = [J.jnp.asarray(a) + 0 for a in args]
    options = options or {"donate_argnums": tuple(range(len(args)))}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        out = J.jit(f, **options)(*args)
    told = sum("donated" in str(w.message) for w in seen)
    return [out, [a.is_deleted() for a in args], told]


@case
def donation(J):
    x, y = np.arange(4.0, dtype="f"), np.arange(4, dtype="i")
    return [
        _donated(J, lambda x: x[:2], x),
        _donated(J, lambda x: x * 2, x),
        _donated(J, lambda x, y: x * 2, x, x),
        _donated(J, lambda x, y: (x * 2, y + 1), x, x),
        _donated(J, lambda x: x.astype("float16"), x)[:2],
        _donated(J, lambda x: x.sum(), x),
        _donated(J, lambda x: x.reshape(2, 2) + 1, x),
        _donated(J, lambda x, y: (x.sum(), y + 1), x, y),
        _donated(J, lambda x, y: y.astype("f") + 1, x, y),
        _donated(J, lambda x, y: x + y, x, x[:1]),
        _donated(J, lambda x, y: x + y, x, x, donate_argnums=1),
        _donated(J, lambda x: None, x),
        _donated(J, lambda x, y: y * 2, x, y),
    ]


@case
def donation_of_trees(J):
    f = J.jit(lambda t: {"a": t["a"] * 2}, donate_argnums=0)
    tree = {"a": J.jnp.ones(3), "b": J.jnp.ones((5, 2))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f(tree)
    return [tree["a"].is_deleted(), tree["b"].is_deleted()]


@case
def donation_over_a_mesh(J):
    def run(f, out=None):
        x = J.device_put(np.arange(8.0), J.halves)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {} if out is None else {"out_shardings": out}
            J.jit(f, donate_argnums=0, **options)(x)
        return x.is_deleted()

    return [run(lambda x: x + 1), run(lambda x: x[:4]), run(lambda x: x.sum())]


@case
def donation_in_loops(J):
    f = J.jit(lambda x, y: x + y.sum(), donate_argnums=(0, 1))
    x, y = J.jnp.ones(3), J.jnp.ones(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(30):
            x = f(x, y)
    return [x, y.is_deleted()]


@case
def constraint_under_vmap(J):
    def f(x):
        return J.lax.with_sharding_constraint(x, J.halves)

    x = J.device_put(np.ones((4, 4)), J.NamedSharding(J.two, J.P()))
    y = J.device_put(np.ones((4, 4)), J.NamedSharding(J.grid, J.P("x", "y")))
    g = lambda x: J.lax.with_sharding_constraint(x, J.NamedSharding(J.grid, J.P("y")))
    h = lambda x: J.lax.with_sharding_constraint(x * 2, J.NamedSharding(J.grid, J.P("y")))
    z = J.device_put(np.ones((8, 4)), J.NamedSharding(J.grid, J.P("x")))
    return [
        str(J.jit(J.vmap(h))(z).sharding.shard_shape((8, 4))),
        str(J.vmap(f)(x).sharding.shard_shape((4, 4))),
        str(J.jit(J.vmap(f))(x).sharding.shard_shape((4, 4))),
        str(J.jit(J.vmap(g))(y).sharding.shard_shape((4, 4))),
        str(J.jit(J.vmap(f, in_axes=1, out_axes=1))(x).sharding.shard_shape((4, 4))),
        str(J.jit(J.vmap(g, spmd_axis_name="x"))(np.ones((4, 4))).sharding.shard_shape((4, 4))),
    ]


@case
def constraint_with_its_axis_in_spmd_axis_name(J):
    f = J.vmap(lambda x: J.lax.with_sharding_constraint(x, J.halves), spmd_axis_name="x")
    return J.jit(f)(np.ones((4, 4)))


@case
def own_primitive_with_apply_primitive(J):
    core = importlib.import_module(f"{J.library.__name__}.extend.core")
    p = core.Primitive("thrice")
    p.def_abstract_eval(lambda x: x)
    p.def_impl(functools.partial(J.xla.apply_primitive, p))
    J.mlir.register_lowering(p, J.mlir.lower_fun(lambda x: x * 3, multiple_results=False))
    many = core.Primitive("both")
    many.multiple_results = True
    many.def_abstract_eval(lambda x, *, by: [x, x])
    many.def_impl(functools.partial(J.xla.apply_primitive, many))
    lowered = J.mlir.lower_fun(lambda x, *, by: [x + by, x - by], multiple_results=True)
    J.mlir.register_lowering(many, lowered)
    x = J.jnp.arange(3.0)
    return [p.bind(x), J.jit(p.bind)(x), many.bind(x, by=2.0), p.bind(1.5)]


@case
def own_primitive_without_lowering(J):
    core = importlib.import_module(f"{J.library.__name__}.extend.core")
    p = core.Primitive("nothing")
    p.def_abstract_eval(lambda x: x)
    p.def_impl(functools.partial(J.xla.apply_primitive, p))
    return p.bind(J.jnp.arange(3.0))


# --- with mesh, pjit, device= ---------------------------------------------------------------------


@case
def arrays_made_under_a_mesh(J):
    with J.Mesh(np.array(J.devices()[:2]), ("x",)):
        x = J.jnp.ones((2, 5)) * 4
        y = J.pjit.pjit(lambda x: x + 1, in_shardings=J.P("x"), out_shardings=J.P("x"))(x)
        z = J.jit(lambda x: x + 1)(x)
    return [_where(x), _where(y), _where(z), y.sharding.spec == J.P("x")]


@case
def jit_reads_no_mesh(J):
    with J.Mesh(np.array(J.devices()[:2]), ("x",)):
        return J.jit(lambda x: x + 1, in_shardings=J.P("x"))(np.ones(4))


@case
def pjit_by_position(J):
    with J.Mesh(np.array(J.devices()[:2]), ("x",)):
        f = J.pjit.pjit(lambda x: x + 1, J.P("x"), J.P())
        return _where(f(np.ones(4, "f")))


@case
def pjit_without_a_mesh(J):
    return J.pjit.pjit(lambda x: x + 1, in_shardings=J.P("x"))(np.ones(4))


@case
def pjit_under_a_mesh_keeps_what_is_said(J):
    with J.Mesh(np.array(J.devices()[:4]), ("x",)):
        f = J.pjit.pjit(lambda x, y: x @ y, in_shardings=(J.P("x"), J.P()), out_shardings=J.P("x"))
        y = f(np.ones((8, 2), "f"), J.jnp.ones((2, 4)))
        again = J.pjit.pjit(lambda x: x.T, in_shardings=J.P("x"), out_shardings=None)(y)
    return [_where(y), sorted(d.id for d in again.devices()), again]


@case
def constraint_under_a_mesh(J):
    with J.Mesh(np.array(J.devices()[:2]), ("x",)):
        f = J.pjit.pjit(lambda x: J.lax.with_sharding_constraint(x * 2, J.P("x")))
        return _where(f(np.arange(4.0, dtype="f")))


@case
def constraint_in_jit_under_a_mesh(J):
    with J.Mesh(np.array(J.devices()[:2]), ("x",)):
        f = J.jit(lambda x: J.lax.with_sharding_constraint(x * 2, J.P("x")))
        return _where(f(np.arange(4.0, dtype="f")))


@case
def shard_map_under_a_mesh(J):
    with J.Mesh(np.array(J.devices()[:2]), ("x",)):
        return J.shard_map(lambda x: x * 2, in_specs=J.P("x"), out_specs=J.P("x"))(np.ones(4))


@case
def mesh_as_decorator(J):
    mesh = J.Mesh(np.array(J.devices()[:2]), ("x",))

    @mesh
    def f(x):
        return J.pjit.pjit(lambda x: x * 2, in_shardings=J.P("x"), out_shardings=J.P("x"))(x)

    return _where(f(np.arange(4.0, dtype="f")))


@case
def jit_device_moves(J):
    x = J.device_put(np.arange(4.0, dtype="f"), J.halves)
    y = J.device_put(np.arange(4.0, dtype="f"), J.devices()[3])
    f = J.jit(lambda x: 2 * x, device=J.devices()[1])
    return [_where(f(a)) for a in (x, y, np.ones(2, "f"), J.jnp.ones(2))]


@case
def jit_device_in_a_jit(J):
    f = J.jit(lambda x: 2 * x, device=J.devices()[1])
    return _where(J.jit(lambda x: f(x) + 1)(np.ones(2, "f")))


@case
def grad_through_device_put(J):
    turned = J.NamedSharding(J.Mesh(np.array(J.devices()[:2][::-1]), ("x",)), J.P("x"))
    x = J.device_put(np.arange(4.0, dtype="f"), J.halves)
    f = lambda x: (J.device_put(x, turned) * 2).sum()
    g = J.grad(f)(x)
    y = J.device_put(np.arange(4.0, dtype="f"), J.devices()[3])
    h = J.grad(lambda y: (J.device_put(y, J.devices()[2]) ** 2).sum())(y)
    return [_where(g), _where(h)]


@case
def pmap_over_devices_in_another_order(J):
    turned = J.devices()[:4][::-1]
    f = J.pmap(lambda x: x + J.lax.axis_index("i"), axis_name="i", devices=turned)
    y = f(np.arange(4.0, dtype="f"))
    z = f(y)
    w = J.pmap(lambda x: x * 2)(z)
    return [np.asarray(y), np.asarray(z), np.asarray(w)]


# --- collectives and values from shapes -----------------------------------------------------------


@case
def uneven_groups(J):
    groups = [[0, 1], [2, 3, 4, 5, 6, 7]]
    f = J.pmap(lambda x: J.lax.psum(x, "i", axis_index_groups=groups), axis_name="i")
    return np.asarray(f(np.arange(8.0, dtype="f")))


@case
def uneven_groups_of_others(J):
    groups = [[0], [1, 2, 3], [4, 5, 6, 7]]
    found = []
    for op in (J.lax.pmax, J.lax.pmin):
        f = J.pmap(lambda x, op=op: op(x, "i", axis_index_groups=groups), axis_name="i")
        found.append(np.asarray(f(np.arange(8.0, dtype="f") ** 2)))
    return found


@case
def uneven_groups_gathered(J):
    groups = [[0], [1, 2, 3], [4, 5, 6, 7]]
    f = J.pmap(lambda x: J.lax.all_gather(x, "i", axis_index_groups=groups), axis_name="i")
    return f(np.arange(8.0))


@case
def pmean_of_integers_under_strict_promotion(J):
    with J.numpy_dtype_promotion("strict"):
        f = J.pmap(lambda x: J.lax.pmean(x, "i"), axis_name="i")
        return [np.asarray(f(np.arange(4))), np.asarray(f(np.arange(4.0, dtype="f")))]


@case
def like_a_description(J):
    like = J.ShapeDtypeStruct((4,), "float32", sharding=J.halves)
    made = [J.jnp.zeros_like(like), J.jnp.full_like(like, 2), J.jnp.ones_like(like)]
    return [_where(x) for x in (*made, J.jnp.empty_like(like) * 0, J.lax.full_like(like, 3))]


@case
def like_an_object(J):
    class Thing:
        shape, dtype = (3,), np.dtype("int16")

        def __jax_array__(self):
            raise AssertionError("converted")

    made = [J.jnp.zeros_like(Thing()), J.jnp.ones_like(Thing()), J.jnp.full_like(Thing(), 4)]
    return [*made, J.jnp.empty_like(Thing()) * 0]


@case
def lower_of_types(J):
    f = J.jit(lambda x: x * 2)
    aval = J.core.ShapedArray((3,), np.dtype("float32"))
    return [str(f.lower(aval).out_info.shape), str(f.eval_shape(aval).dtype)]


@case
def lower_over_an_abstract_mesh(J):
    s = J.NamedSharding(J.two.abstract_mesh, J.P("x"))
    f = J.jit(lambda x: x * 2, in_shardings=s)
    struct = J.ShapeDtypeStruct((4,), "float32")
    return [str(f.trace(struct).jaxpr.out_avals[0].shape), str(f.eval_shape(struct).shape)]


@case
def call_over_an_abstract_mesh(J):
    s = J.NamedSharding(J.two.abstract_mesh, J.P("x"))
    return J.jit(lambda x: x * 2, in_shardings=s)(np.ones(4))


@case
def process_local_data(J):
    make = J.make_array_from_process_local_data
    x = make(J.devices()[1], np.arange(4.0, dtype="f"))
    with J.set_mesh(J.two):
        y = make(J.P("x"), np.arange(4.0, dtype="f"))
    z = make(J.halves, np.arange(4.0, dtype="f"), (4,))
    return [_where(a) for a in (x, y, z)]


@case
def process_local_data_without_a_mesh(J):
    return J.make_array_from_process_local_data(J.P("x"), np.arange(4.0))


@case
def full_with_a_long_spec(J):
    return _where(J.lax.full((2,), 1.0, sharding=J.NamedSharding(J.two, J.P("x"))))


@case
def eval_closed_jaxpr(J):
    closed = J.make_jaxpr(lambda x: x * 2)(1.0)
    return J.core.eval_jaxpr(closed.jaxpr, closed.consts, 3.0)


@case
def memories_of_a_device(J):
    d = J.devices()[0]
    kinds = [m.kind for m in d.addressable_memories()]
    return [d.default_memory().kind in kinds, len(kinds) > 0]


@case
def compiled_out_shardings(J):
    x = J.device_put(np.arange(4.0, dtype="f"), J.halves)
    compiled = J.jit(lambda x: x * 2).lower(x).compile()
    info = compiled.out_info
    return [str(info.sharding.spec), info.shape, compiled.output_shardings == info.sharding]


@case
def equal_specs_are_one(J):
    specs = [J.P("x", None), J.P(), J.P(("x", "y")), J.P(J.P.UNCONSTRAINED, "x")]
    again = [J.P("x", None), J.P(), J.P(("x", "y")), J.P(J.P.UNCONSTRAINED, "x")]
    return [a == b for a, b in zip(specs, again, strict=True)]


# --- transfer guards ------------------------------------------------------------------------------


def _guarded(J, level, *programs, direction="host_to_device"):
    found = []
    for f in programs:
        try:
            with getattr(J, f"transfer_guard_{direction}")(level):
                f()
            found.append("ok")
        except Exception as error:
            found.append(type(error).__name__)
    return found


@case
def host_to_device(J):
    f, x = J.jit(lambda x: x + 1), np.ones(3, "f")
    y = f(J.jnp.ones(3))
    programs = [
        lambda: f(x),
        lambda: f(y),
        lambda: J.jnp.array(x),
        lambda: J.jnp.asarray(x),
        lambda: J.jnp.ones(3),
        lambda: J.device_put(x),
        lambda: J.device_put(x, J.devices()[0]),
        lambda: J.device_put(y),
        lambda: y + x,
        lambda: y + y,
        lambda: J.jnp.sin(y),
        lambda: np.asarray(y),
        lambda: J.jit(lambda: J.jnp.ones(3))(),
    ]
    levels = "allow disallow disallow_explicit".split()
    return [_guarded(J, level, *programs) for level in levels]


@case
def host_to_device_by_the_guard_of_all(J):
    x = np.ones(3, "f")
    found = []
    for level in "allow disallow disallow_explicit".split():
        for f in (lambda: J.device_put(x), lambda: J.jit(lambda x: x + 1)(x)):
            try:
                with J.transfer_guard(level):
                    f()
                found.append("ok")
            except Exception as error:
                found.append(type(error).__name__)
    return found


@case
def device_to_device(J):
    x, y = J.device_put(np.ones(3), J.devices()[0]), J.jnp.ones(3)
    programs = [
        lambda: J.device_put(x, J.devices()[1]),
        lambda: J.jit(lambda a: a + 1)(x),
        lambda: J.jit(lambda a: a + 1, device=J.devices()[1])(y),
    ]
    levels = "allow disallow disallow_explicit".split()
    return [_guarded(J, level, *programs, direction="device_to_device") for level in levels]


@case
def device_to_host(J):
    x = J.jnp.ones(3) + 1
    programs = [lambda: np.asarray(x), lambda: J.library.device_get(x), lambda: float(x[0])]
    levels = "allow disallow disallow_explicit".split()
    return [_guarded(J, level, *programs, direction="device_to_host") for level in levels]


# --- buffers and tokens ---------------------------------------------------------------------------


@case
def results_outlive_arguments(J):
    import copy

    found = []
    for f in (lambda x: x, copy.copy, lambda x: (x, x)[1], lambda x: (x + 1, x)[1]):
        f = J.jit(f)
        for _ in range(30):  # as often as it takes to be native
            x = J.jnp.arange(4.0)
            y = f(x)
            x.delete()
        found.append([y, x.is_deleted()])
    return found


@case
def results_are_two_buffers(J):
    a, b = J.jit(lambda x: (x + 1,) * 2)(J.jnp.arange(4.0))
    a.delete()
    return [a.is_deleted(), b.is_deleted()]


@case
def tokens_in_jit(J):
    token = J.lax.create_token()
    f = J.jit(lambda x: (x * 2, token))
    g = J.jit(lambda x, t: (x * 2, t))
    return [f(1.0)[0], g(1.0, token)[0], type(g(1.0, token)[1]).__name__ == type(token).__name__]


# --- callbacks and values inside shard_map --------------------------------------------------------


def _sines(J):
    shape = lambda x: J.ShapeDtypeStruct(x.shape, x.dtype)
    return lambda x: J.pure_callback(lambda y: np.sin(np.asarray(y)), shape(x), x)


@case
def pure_callback_in_shard_map(J):
    x = J.jnp.arange(4.0)
    return [J.spread(_sines(J))(x), J.jit(J.spread(_sines(J)))(x)]


@case
def pure_callback_in_pmap(J):
    return np.asarray(J.pmap(_sines(J))(np.arange(4.0, dtype="f")))


@case
def pure_callback_is_called_once_a_device(J):
    seen = []

    def host(y):
        seen.append(np.asarray(y).shape)
        return np.asarray(y)

    f = lambda x: J.pure_callback(host, J.ShapeDtypeStruct(x.shape, x.dtype), x)
    out = J.spread(f)(J.jnp.arange(4.0))
    grid = J.spread(f, J.P("x", "y"), J.P("x", "y"), J.grid)(J.jnp.arange(16.0).reshape(4, 4))
    return [out, grid, sorted(str(s) for s in seen)]


@case
def io_callback_in_shard_map(J):
    io = importlib.import_module(f"{J.library.__name__}.experimental").io_callback
    seen = []

    def run(ordered):
        def f(x):
            io(lambda y: seen.append(np.asarray(y).tolist()), None, x, ordered=ordered)
            return x + 1

        return J.jit(J.spread(f))(J.jnp.arange(4.0))

    out = run(False)
    J.library.effects_barrier()
    return [out, sorted(seen)]


@case
def ordered_io_callback_in_shard_map(J):
    io = importlib.import_module(f"{J.library.__name__}.experimental").io_callback
    seen = []

    def f(x):
        io(lambda y: seen.append(np.asarray(y).tolist()), None, x, ordered=True)
        return x + 1

    out = J.jit(J.spread(f))(J.jnp.arange(4.0))
    J.library.effects_barrier()
    return [out, sorted(seen)]


@case
def debug_callback_in_shard_map(J):
    seen = []

    def f(x):
        J.debug.callback(lambda y: seen.append(np.asarray(y).tolist()), x)
        return x

    out = J.spread(f)(J.jnp.arange(4.0))
    J.library.effects_barrier()
    return [out, sorted(seen)]


@case
def callback_with_vmap_inside(J):
    f = lambda x: J.pure_callback(
        lambda y: np.sin(np.asarray(y)),
        J.ShapeDtypeStruct(x.shape, x.dtype),
        x,
        vmap_method="sequential",
    )
    return J.spread(J.vmap(f))(J.jnp.arange(4.0))


@case
def searches_in_shard_map(J):
    table = J.jnp.arange(3.0)
    x = J.jnp.arange(4.0)
    key = J.random.key(0)
    return [
        J.spread(lambda x: J.jnp.searchsorted(table, x))(x),
        J.spread(lambda x: J.jnp.searchsorted(x, table))(x),
        J.spread(lambda x: J.jnp.digitize(x, table))(x),
        J.spread(lambda x: J.jnp.histogram(x, table)[0])(x),
        J.spread(lambda x: J.random.choice(key, 2, (2,), p=x))(x),
        *[
            J.spread(lambda x, m=m: J.jnp.searchsorted(table, x, method=m))(x)
            for m in ("scan_unrolled", "sort", "compare_all")
        ],
    ]


@case
def nested_shard_map_takes_what_is_left(J):
    x = J.jnp.arange(32.0).reshape(8, 4)

    def inner(x):
        return x * J.lax.axis_size("y")

    def outer(x):
        return J.shard_map(inner, in_specs=J.P(None, "y"), out_specs=J.P(None, "y"))(x) + 1

    f = J.shard_map(outer, mesh=J.grid, in_specs=J.P("x"), out_specs=J.P("x"), axis_names={"x"})
    options = {"in_specs": J.P("x"), "out_specs": J.P("x"), "axis_names": {"x"}}
    g = J.shard_map(
        lambda x: J.lax.psum(outer(x), "x"), mesh=J.grid, **{**options, "out_specs": J.P()}
    )
    return [np.asarray(J.jit(f)(x)), np.asarray(J.jit(g)(x))]


@case
def nested_shard_map_with_the_whole_mesh(J):
    def local(x):
        inner = lambda x: x * J.lax.axis_size("y")
        return J.shard_map(inner, mesh=J.grid, in_specs=J.P(None, "y"), out_specs=J.P(None, "y"))(x)

    f = J.shard_map(local, mesh=J.grid, in_specs=J.P("x"), out_specs=J.P("x"), axis_names={"x"})
    return np.asarray(J.jit(f)(J.jnp.arange(32.0).reshape(8, 4)))


@case
def specs_none(J):
    f = J.shard_map(lambda o, x: 2 * x, mesh=J.two, in_specs=(None, J.P("x")), out_specs=J.P("x"))
    return f(object(), J.jnp.arange(4.0))


@case
def specs_none_of_trees(J):
    def body(o, x):
        return x * o["scale"] if o["kind"] == "mul" else x

    f = J.shard_map(body, mesh=J.two, in_specs=(None, J.P("x")), out_specs=J.P("x"))
    g = J.jit(lambda o, x: f({"kind": o, "scale": 3}, x), static_argnums=0)
    return [f({"kind": "mul", "scale": 2}, J.jnp.arange(4.0)), g("mul", J.jnp.arange(4.0))]


@case
def specs_none_of_arrays(J):
    f = J.shard_map(
        lambda o, x: x * o.sum(), mesh=J.two, in_specs=(None, J.P("x")), out_specs=J.P("x")
    )
    return f(J.jnp.arange(3.0), J.jnp.arange(4.0))


@case
def objects_with_a_spec(J):
    f = J.shard_map(lambda o, x: x, mesh=J.two, in_specs=(J.P(), J.P("x")), out_specs=J.P("x"))
    return f(object(), J.jnp.arange(4.0))


@case
def references_as_arguments(J):
    def body(r):
        r[...] = r[...] * 2 + J.lax.axis_index("x")

    def scale(r):
        r[...] = r[...] * 2

    ref = J.new_ref(J.device_put(J.jnp.arange(4.0), J.halves))
    whole = J.new_ref(J.device_put(J.jnp.arange(3.0), J.NamedSharding(J.two, J.P())))
    J.jit(J.shard_map(body, mesh=J.two, in_specs=J.P("x"), out_specs=None))(ref)
    J.jit(J.shard_map(scale, mesh=J.two, in_specs=J.P(), out_specs=None))(whole)
    return [np.asarray(ref[...]), np.asarray(whole[...])]


@case
def references_and_arrays(J):
    ref = J.new_ref(J.device_put(J.jnp.zeros((2, 4)), J.NamedSharding(J.two, J.P(None, "x"))))

    def body(r, x):
        r[0] = x
        r[1, 0] += x.sum()
        return x + 1

    f = J.shard_map(body, mesh=J.two, in_specs=(J.P(None, "x"), J.P("x")), out_specs=J.P("x"))
    out = J.jit(f)(ref, J.jnp.arange(4.0))
    return [np.asarray(out), np.asarray(ref[...])]


@case
def references_made_outside(J):
    def body(r):
        r[...] += 1.0

    def f(x):
        ref = J.new_ref(x)
        J.spread(body, out_specs=None)(ref)
        return ref[...] * 2

    return [np.asarray(J.jit(f)(J.jnp.arange(4.0)))]


@case
def cond_of_operands_that_vary_differently(J):
    seen = []

    def body(x, y):
        a, b = J.lax.cond(True, lambda x, y: (x, y), lambda x, y: (x + 1, y), x, y)
        seen.append([sorted(J.typeof(v).mat.varying) for v in (a, b)])
        return a, b

    f = J.spread(body, (J.P("x"), J.P("y")), (J.P("x"), J.P("y")), J.grid)
    out = f(J.jnp.arange(4.0), J.jnp.arange(4.0))
    return [*out, seen[0]]


# --- printing and looking -------------------------------------------------------------------------


def _printed(J, f, *args):
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        f(*args)
        J.library.effects_barrier()
    return sorted(text.getvalue().splitlines())


@case
def prints_in_a_while_loop_under_pmap(J):
    def f(x):
        def body(x):
            J.debug.print("x: {x}", x=x)
            return x + 1

        return J.lax.while_loop(lambda x: x < 5, body, x)

    return _printed(J, lambda: J.pmap(f)(np.array([3, 4])).block_until_ready())


@case
def prints_in_a_while_loop_in_shard_map(J):
    def f(x):
        def body(x):
            J.debug.print("x: {x}", x=x[0])
            return x + 1

        return J.lax.while_loop(lambda x: x[0] < 5, body, x)

    return _printed(J, lambda: J.jit(J.spread(f))(np.array([3, 4])).block_until_ready())


@case
def prints_in_a_cond_in_shard_map(J):
    def f(x):
        def yes(x):
            J.debug.print("yes {x}", x=x)
            return x

        def no(x):
            J.debug.print("no {x}", x=x)
            return x + 1

        return J.lax.cond(x[0] > 3, yes, no, x)

    return _printed(J, lambda: J.jit(J.spread(f))(np.array([3, 4])).block_until_ready())


@case
def prints_in_checkpoint(J):
    def run(policy):
        def f(x):
            J.debug.print("x: {}", x)
            return J.jnp.sin(x) * x

        return _printed(J, lambda: J.grad(J.checkpoint(f, policy=policy))(2.0))

    policies = J.library.checkpoint_policies
    return [run(policies.everything_saveable), run(policies.nothing_saveable), run(None)]


@case
def key_reuse_of_closed_over_keys(J):
    key = J.random.key(0)

    @J.jit
    def draw():
        return J.random.uniform(key)

    with J.library.debug_key_reuse(True):
        draw()
        draw()


@case
def key_reuse_of_an_own_key(J):
    @J.jit
    def draw():
        return J.random.bits(J.random.key(0))

    with J.library.debug_key_reuse(True):
        return [draw(), draw()]


# --- answers --------------------------------------------------------------------------------------


def encoded(x):
    """An answer as JSON can hold it."""
    if isinstance(x, dict):
        return {str(k): encoded(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [encoded(v) for v in x]
    if x is None or isinstance(x, (bool, int, str)):
        return x
    array = np.asarray(x)
    values = array.astype(complex).view(float) if array.dtype.kind == "c" else array
    return {"dtype": str(array.dtype), "shape": list(array.shape), "values": values.tolist()}


def answer(function, J):
    """What a case gives, or the class of the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return encoded(function(J))
    except Exception as error:
        name = "NotImplementedError" if isinstance(error, NotImplementedError) else None
        return {"error": name or type(error).__name__, "text": str(error)}


def answers(library, names=()):
    """The answers of a library to the cases of these names, or all."""
    J = namespace(library)
    return {name: answer(f, J) for name, f in CASES.items() if not names or name in names}


if __name__ == "__main__":
    print(json.dumps(answers(importlib.import_module(sys.argv[1]), sys.argv[2:])))
