"""Programs for eight devices that run on weft and on JAX alike.

A case is ``(name, function)``; a function takes a namespace with the library's names and returns a
tree of arrays, texts and booleans. ``python -m tests.parallel.cases`` runs them all on weft and
prints their answers as JSON; ``tools/record_parallel.py`` does so on JAX.
"""

import json
import sys
import types
import warnings

import numpy as np

from tests.parallel import cases_explicit, cases_specs

CASES = []
X = np.arange(64, dtype=np.float32).reshape(8, 8) / 7
PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7]]
ODD_EVEN = [[0, 2, 4, 6], [1, 3, 5, 7]]


def case(function):
    CASES.append((function.__name__, function))
    return function


def add(name, function):
    CASES.append((name, function))


def namespace(library):
    """The names of a library that cases use, and meshes of its devices."""
    J = types.SimpleNamespace(
        **{name: getattr(library, name) for name in NAMES.split()},
        jnp=library.numpy,
        Mesh=library.sharding.Mesh,
        Single=library.sharding.SingleDeviceSharding,
    )
    devices = np.array(J.devices()[:8])
    J.line = J.Mesh(devices, ("x",))
    J.grid = J.Mesh(devices.reshape(4, 2), ("x", "y"))
    J.cube = J.Mesh(devices.reshape(2, 2, 2), ("x", "y", "z"))
    J.four = J.Mesh(devices[:4], ("x",))
    J.egrid = J.make_mesh((4, 2), ("x", "y"))  # of explicit axes, as make_mesh makes them
    J.eline = J.make_mesh((8,), ("x",))

    def spread(f, in_specs, out_specs, mesh=J.line, **options):
        return J.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)

    J.spread = spread
    return J


NAMES = """
P NamedSharding ShapeDtypeStruct checkpoint debug default_device device_put devices eval_shape grad
hessian jit jvp
lax linearize make_array_from_callback make_array_from_process_local_data
make_array_from_single_device_arrays make_mesh make_jaxpr nn numpy ops pmap random sharding
set_mesh shard_map smap tree_util typeof value_and_grad vjp vmap
"""

# --- collectives over meshes of one, two and three axes -------------------------------------------


def _shift(n, by=1):
    return [(i, (i + by) % n) for i in range(n)]


COLLECTIVES = {
    "psum": lambda J, x, a: J.lax.psum(x, a),
    "pmean": lambda J, x, a: J.lax.pmean(x, a),
    "pmax": lambda J, x, a: J.lax.pmax(x, a),
    "pmin": lambda J, x, a: J.lax.pmin(x, a),
    "all_gather": lambda J, x, a: J.lax.all_gather(x, a).sum(0),
    "all_gather_1": lambda J, x, a: J.lax.all_gather(x, a, axis=1).max(1),
    "all_gather_tiled": lambda J, x, a: J.lax.all_gather(x, a, axis=1, tiled=True)[:, :1],
    "psum_scatter": lambda J, x, a: J.lax.psum_scatter(
        J.jnp.tile(x, (1, J.lax.axis_size(a))), a, scatter_dimension=1, tiled=True
    ),
    "all_to_all": lambda J, x, a: J.lax.all_to_all(
        J.jnp.tile(x, (J.lax.axis_size(a), 1)) * (1 + J.lax.axis_index(a)), a, 0, 1, tiled=True
    )[:, :2],
    "ppermute": lambda J, x, a: J.lax.ppermute(x, a, _shift(J.lax.axis_size(a))),
    "ppermute_part": lambda J, x, a: J.lax.ppermute(x, a, [(0, 1)]),
    "axis_index": lambda J, x, a: x + J.lax.axis_index(a),
    "axis_size": lambda J, x, a: x * J.lax.axis_size(a),
}
SUMS = ("psum", "pmean", "pmax", "pmin")
LAYOUTS = [
    ("line", ("x",), "x"),
    ("line", (None, "x"), "x"),
    ("grid", ("x", "y"), "x"),
    ("grid", ("x", "y"), "y"),
    ("grid", ("x", "y"), ("x", "y")),
    ("grid", ("y", "x"), "x"),
    ("grid", (("x", "y"),), ("x", "y")),
    ("grid", (("y", "x"),), ("x", "y")),
    ("grid", ("x",), "x"),
    ("cube", ("x", ("y", "z")), "y"),
    ("cube", (("z", "x"), "y"), ("x", "z")),
    ("cube", ("x", "y"), ("x", "y")),
]


def _collective(operation, mesh, spec, axes, kind, how):
    def run(J):
        P = J.P

        def f(x):
            return COLLECTIVES[operation](J, x, axes)

        names = axes if isinstance(axes, tuple) else (axes,)
        parts = [p if isinstance(p, tuple) else (p,) for p in spec]
        if operation in SUMS:
            parts = [tuple(n for n in p if n not in names) for p in parts]
        out = P(*[tuple(n for n in p if n is not None) or None for p in parts])
        mapped = J.spread(f, P(*spec), out, getattr(J, mesh))
        x = X.astype(kind)
        if how == "grad":
            weights = np.cos(np.arange(64, dtype=np.float32))
            return J.grad(lambda x: (mapped(x).reshape(-1)[:8] * weights[:8]).sum())(x)
        if how == "vmap":
            return J.vmap(mapped)(np.stack([x, 2 * x]))
        return (J.jit(mapped) if how == "jit" else mapped)(x)

    label = f"{operation}/{mesh}{spec}{axes}/{kind}/{how}".replace("'", "").replace(" ", "")
    add(label, run)


for _operation in COLLECTIVES:
    for _layout in LAYOUTS:
        _collective(_operation, *_layout, "float32", "jit")
    _collective(_operation, *LAYOUTS[0], "float32", "eager")
    _collective(_operation, *LAYOUTS[2], "int32", "jit")
    _collective(_operation, *LAYOUTS[2], "float32", "vmap")
    if _operation not in ("pmax", "pmin"):
        _collective(_operation, *LAYOUTS[0], "float32", "grad")
        _collective(_operation, *LAYOUTS[4], "float32", "grad")


def _grouped(name, f):
    add(f"groups/{name}/pmap", lambda J: J.pmap(lambda x: f(J, x), "x")(X))
    add(
        f"groups/{name}/shard_map",
        lambda J: J.spread(lambda x: f(J, x), J.P("x"), J.P("x"), check_vma=False)(X),
    )


for _groups in (PAIRS, ODD_EVEN):
    _n = len(_groups)
    _grouped(f"psum{_n}", lambda J, x, g=_groups: J.lax.psum(x, "x", axis_index_groups=g))
    _grouped(f"pmax{_n}", lambda J, x, g=_groups: J.lax.pmax(x, "x", axis_index_groups=g))
    _grouped(f"pmin{_n}", lambda J, x, g=_groups: J.lax.pmin(x, "x", axis_index_groups=g))
    _grouped(f"pmean{_n}", lambda J, x, g=_groups: J.lax.pmean(x, "x", axis_index_groups=g))
    _grouped(
        f"all_gather{_n}", lambda J, x, g=_groups: J.lax.all_gather(x, "x", axis_index_groups=g)
    )
    _grouped(
        f"all_gather_tiled{_n}",
        lambda J, x, g=_groups: J.lax.all_gather(x, "x", axis_index_groups=g, tiled=True),
    )
    _grouped(
        f"psum_scatter{_n}",
        lambda J, x, g=_groups: J.lax.psum_scatter(
            x, "x", axis_index_groups=g, scatter_dimension=x.ndim - 1, tiled=True
        ),
    )

# --- shard_map ------------------------------------------------------------------------------------


@case
def transposed_grid(J):
    return J.spread(lambda x: x.T, J.P("x", "y"), J.P("y", "x"), J.grid)(X)


@case
def sharded_product(J):
    f = J.spread(lambda a, b: J.lax.psum(a @ b, "y"), (J.P("x", "y"), J.P("y")), J.P("x"), J.grid)
    return J.jit(f)(X, X), f(X, X)


@case
def gradient_of_sharded_product(J):
    f = J.spread(lambda a, b: J.lax.psum(a @ b, "y"), (J.P("x", "y"), J.P("y")), J.P("x"), J.grid)
    return J.grad(lambda a, b: (f(a, b) ** 2).sum(), (0, 1))(X, X)


@case
def closes_over_an_argument(J):
    return J.jit(lambda w: J.spread(lambda x: x @ w, J.P("x"), J.P("x"))(X))(X)


@case
def gradient_by_what_is_closed_over(J):
    def loss(w):
        return J.spread(lambda x: J.lax.psum((w * x).sum(), "x"), J.P("x"), J.P())(X)

    return J.grad(loss)(2.0), J.jit(J.grad(loss))(2.0)


@case
def second_derivative(J):
    def loss(w):
        return J.spread(lambda x: J.lax.psum(((w * x) ** 3).sum(), "x"), J.P("x"), J.P())(X)

    return J.grad(J.grad(loss))(1.5)


@case
def forward_mode(J):
    f = J.spread(lambda x: J.lax.psum(J.jnp.sin(x), "x"), J.P("x"), J.P())
    return J.jvp(f, (X,), (X,))


@case
def pullback(J):
    f = J.spread(lambda x: x * J.lax.psum(x, "x"), J.P("x"), J.P("x"))
    return J.vjp(f, X)[1](X)


def _inside(loss, check=True, after=lambda J, g: g, out=()):
    def run(J):
        def step(w, x):
            return after(J, J.grad(lambda w: loss(J, w, x))(w))

        mapped = J.spread(step, (J.P(), J.P("x")), J.P(*out), check_vma=check)
        return mapped(np.float32(2), X)

    return run


def _local(J, w, x):
    return ((w * x) ** 2).sum()


def _summed(J, w, x):
    return J.lax.psum(((w * x) ** 2).sum(), "x") + w**2


def _mean(J, w, x):
    return J.lax.pmean(((w * x) ** 2).sum(), "x")


add("gradient_inside/local", _inside(_local))
add("gradient_inside/psum_of_loss", _inside(_summed))
add("gradient_inside/pmean_of_loss", _inside(_mean))
add("gradient_inside/psum_after", _inside(_local, after=lambda J, g: J.lax.psum(g, "x")))
add("gradient_inside/pmean_after", _inside(_local, after=lambda J, g: J.lax.pmean(g, "x")))
add("gradient_inside/unchecked", _inside(_local, False, lambda J, g: J.lax.pmean(g, "x")))
add("gradient_inside/unchecked_sum", _inside(_summed, False, lambda J, g: J.lax.pmean(g, "x")))
add("gradient_inside/varying", _inside(_local, False, lambda J, g: g[None], ("x",)))


@case
def gradient_inside_of_a_varying_copy(J):
    def step(w, x):
        mine = J.lax.pcast(w, "x", to="varying")
        return J.grad(lambda w: ((w * x) ** 2).sum())(mine)[None]

    return J.spread(step, (J.P(), J.P("x")), J.P("x"))(np.float32(2), X)


@case
def gradient_inside_through_jit_and_scan(J):
    def step(w, x):
        def loss(w):
            zero = J.lax.pcast(J.jnp.float32(0), "x", to="varying")
            body = J.jit(lambda c, row: (c + J.jnp.sin(w * row).sum(), None))
            return J.lax.scan(body, zero, x)[0]

        return J.grad(loss)(w)

    return J.spread(step, (J.P(), J.P("x")), J.P())(np.float32(0.5), X)


@case
def data_parallel_step(J):
    w = {"a": np.ones((8, 4), np.float32) / 8, "b": np.zeros(4, np.float32)}
    y = np.tanh(X[:, :4] - 3)

    def loss(w, x, y):
        return ((J.jnp.tanh(x @ w["a"] + w["b"]) - y) ** 2).mean()

    def step(w, x, y):
        value, grads = J.value_and_grad(lambda w: J.lax.pmean(loss(w, x, y), "x"))(w)
        return value, J.tree_util.tree_map(lambda w, g: w - 0.1 * g, w, grads)

    f = J.jit(J.spread(step, (J.P(), J.P("x"), J.P("x")), J.P()))
    return f(w, X, y)


@case
def scan_inside(J):
    def f(x):
        zero = J.lax.pcast(J.jnp.float32(0), "x", to="varying")
        return J.lax.scan(lambda c, r: (c + r.sum(), c), zero, x)[1]

    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def scan_with_a_carry_that_begins_to_vary(J):
    f = lambda x: J.lax.scan(lambda c, r: (c + r.sum(), c), J.jnp.float32(0), x)[1]
    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def scan_of_sums(J):
    def f(x):
        return J.lax.scan(lambda c, r: (c + J.lax.psum(r.sum(), "x"), c), J.jnp.float32(0), x)[0]

    return J.spread(f, J.P("x"), J.P())(X)


@case
def while_inside(J):
    f = lambda x: J.lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + 1, x)
    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def ring_in_a_loop(J):
    f = lambda x: J.lax.fori_loop(0, 3, lambda i, c: J.lax.ppermute(c, "x", _shift(8)) + i, x)
    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def branches_by_device(J):
    f = lambda x: J.lax.cond(J.lax.axis_index("x") % 2 == 0, lambda x: x, lambda x: -x, x)
    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def collectives_in_branches(J):
    def f(x):
        sums = lambda x: J.lax.psum(x, "x")
        return J.lax.cond(True, sums, lambda x: J.lax.pmax(x, "x"), x)

    return J.spread(f, J.P("x"), J.P())(X)


@case
def branches_of_zeros(J):
    f = lambda x: J.lax.cond(x.sum() > 3, lambda x: x, J.jnp.zeros_like, x)
    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def branches_of_constants(J):
    ones, zeros = lambda x: J.jnp.ones((1, 8)), lambda x: J.jnp.zeros((1, 8))
    return J.spread(lambda x: J.lax.cond(x.sum() > 3, ones, zeros, x), J.P("x"), J.P("x"))(X)


def _branches(*functions):
    def run(J):
        made = [f(J) for f in functions]
        return J.spread(lambda x: J.lax.switch(1, made, x), J.P("x"), J.P("x"))(X)

    return run


_same, _constant = (lambda J: lambda x: x), (lambda J: lambda x: J.jnp.zeros((1, 8)))
add("wrong/branches_that_vary_and_not", _branches(_same, _constant))
add("wrong/branches_that_do_not_and_vary", _branches(_constant, _same))
add(
    "wrong/carry_that_begins_to_vary",
    lambda J: J.spread(
        lambda x: J.lax.fori_loop(0, 3, lambda i, c: c + x.sum(), 0.0)[None], J.P("x"), J.P("x")
    )(X),
)


@case
def loops_whose_lengths_differ(J):
    def f(x):
        start = J.lax.pcast((J.jnp.float32(0), J.jnp.float32(1)), "x", to="varying")
        body = lambda c: (c[0] + 1, c[1] * 1.5)
        return J.lax.while_loop(lambda c: c[0] < x.sum() / 4, body, start)[1][None]

    return J.spread(f, J.P("x"), J.P("x"))(X)


@case
def jit_inside(J):
    f = lambda x: J.jit(lambda y: J.lax.psum(y, "x") * 2)(x)
    return J.spread(f, J.P("x"), J.P())(X)


@case
def axes_by_hand_in_part(J):
    f = J.shard_map(
        lambda x: J.lax.psum(x, "x"),
        mesh=J.grid,
        in_specs=J.P("x"),
        out_specs=J.P(),
        axis_names={"x"},
    )
    return J.jit(f)(X)


@case
def one_in_another(J):
    inner = lambda x: J.shard_map(
        lambda z: J.lax.psum(z, "y"), in_specs=J.P("y"), out_specs=J.P(), axis_names={"y"}
    )(x)
    f = J.shard_map(inner, mesh=J.grid, in_specs=J.P("x"), out_specs=J.P("x"), axis_names={"x"})
    return J.jit(f)(X)


@case
def trees_of_specs(J):
    f = lambda t, s: {"a": t[0] + t[1], "b": (s, J.lax.psum(s, "x"))}
    specs = {"a": J.P("x"), "b": (J.P("x"), J.P())}
    return J.spread(f, (J.P("x"), J.P(None, "x")), specs)([X, X + 1], X)


@case
def constants_and_numbers(J):
    return J.spread(lambda x: (x + J.jnp.asarray(X)[:1], 1.0), J.P("x"), (J.P("x"), J.P()))(X)


@case
def sum_of_a_shared_value(J):
    return J.spread(lambda x, w: J.lax.psum(w, "x"), (J.P("x"), J.P()), J.P())(X, X)


@case
def gathered_for_all(J):
    f = lambda x: J.lax.all_gather(x, "x", tiled=True, to="invarying")
    mapped = J.spread(f, J.P("x"), J.P())
    return mapped(X), J.grad(lambda x: (mapped(x) ** 2).sum())(X)


@case
def different_on_each_device_unchecked(J):
    return J.spread(lambda x: x, J.P("x"), J.P(), check_vma=False)(X)


@case
def random_numbers(J):
    key = J.random.key(0)
    f = lambda x: x + J.random.normal(J.random.fold_in(key, J.lax.axis_index("x")), (1, 8))
    return J.spread(f, J.P("x"), J.P("x"))(X), J.spread(
        lambda x: x + J.random.uniform(key, (8,)), J.P("x"), J.P("x")
    )(X)


@case
def networks_functions(J):
    f = lambda x: J.nn.relu(x - 1) + J.nn.softmax(x) + J.nn.gelu(x)
    return J.spread(f, J.P("x"), J.P("x"))(X), J.grad(
        lambda x: J.spread(f, J.P("x"), J.P("x"))(x).sum()
    )(X)


@case
def recomputed(J):
    f = J.checkpoint(lambda x: J.lax.psum(J.jnp.sin(x).sum(), "x"))
    return J.grad(lambda x: J.spread(f, J.P("x"), J.P())(x))(X)


@case
def sorts_and_factors_on_each_device(J):
    def f(x):
        return J.jnp.sort(x, axis=1)[:, ::-1], J.jnp.linalg.norm(x, axis=1), J.jnp.cumsum(x, 1)

    return J.jit(J.spread(f, J.P("x"), J.P("x")))(np.sin(X))


@case
def maps_over_one_axis(J):
    with J.set_mesh(J.line):
        total = J.smap(lambda x: J.lax.psum(x, "x"), in_axes=0, out_axes=None, axis_name="x")(X)
        columns = J.smap(lambda x: x * 2, in_axes=1, out_axes=1, axis_name="x")(X)
        return total, columns


@case
def the_current_mesh(J):
    with J.set_mesh(J.line):
        return J.shard_map(lambda x: x * 2, in_specs=J.P("x"), out_specs=J.P("x"))(X)


@case
def types_say_what_varies(J):
    seen = []

    def f(x):
        seen.append(str(J.typeof(x)) + str(J.typeof(J.lax.psum(x, "x"))))
        seen.append(str(J.typeof(J.jnp.ones(3) * x.sum())))
        return x

    J.spread(f, J.P("x", "y"), J.P("x", "y"), J.grid)(X)
    return seen


# --- pmap -----------------------------------------------------------------------------------------

add("pmap/plain", lambda J: J.pmap(lambda x: x * 2)(X))
add("pmap/psum", lambda J: J.pmap(lambda x: J.lax.psum(x, "i"), axis_name="i")(X))
add("pmap/columns", lambda J: J.pmap(lambda x: x + 1, in_axes=1, out_axes=1)(X))
add("pmap/shared", lambda J: J.pmap(lambda x, y: x + y, in_axes=(0, None))(X, 2.0))
add("pmap/one_result", lambda J: J.pmap(lambda x: J.lax.psum(x, "i"), "i", out_axes=None)(X))
add("pmap/four", lambda J: J.pmap(lambda x: x + J.lax.axis_index("i"), "i")(X[:4]))
add("pmap/static", lambda J: J.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(X, 3))
add("pmap/trees", lambda J: J.pmap(lambda t: {"q": t["a"] + t["b"][0]})({"a": X, "b": [X]}))
add("pmap/named", lambda J: J.pmap(lambda x, *, k: x + k)(X, k=X))
add("pmap/gradient", lambda J: J.pmap(J.grad(lambda x: (x**2).sum()))(X))
add(
    "pmap/gradient_of_psum",
    lambda J: J.pmap(J.grad(lambda x: J.lax.psum((x**2).sum(), "i")), "i")(X),
)
add(
    "pmap/mean_gradient",
    lambda J: J.pmap(lambda x: J.lax.pmean(J.grad(lambda x: (x**2).sum())(x), "i"), "i")(X),
)
add("pmap/gradient_outside", lambda J: J.grad(lambda x: J.pmap(lambda x: x**2)(x).sum())(X))
add("pmap/inside_vmap", lambda J: J.vmap(J.pmap(lambda x: x * 2))(np.stack([X, X])))
add("pmap/around_vmap", lambda J: J.pmap(J.vmap(lambda x: x * 2))(X))
add("pmap/inside_jit", lambda J: J.jit(J.pmap(lambda x: J.lax.psum(x, "i"), "i"))(X))
add("pmap/two_devices", lambda J: J.pmap(lambda x: x, devices=J.devices()[:2])(X[:2]))
add("pmap/donated", lambda J: J.pmap(lambda x: x + 1, donate_argnums=0)(J.jnp.asarray(X)))
add("pmap/ring", lambda J: J.pmap(lambda x: J.lax.ppermute(x, "i", _shift(8)), "i")(X))
add("pmap/scan", lambda J: J.pmap(lambda x: J.lax.scan(lambda c, r: (c + r, c * r), 0.0, x))(X))
add(
    "pmap/cond",
    lambda J: J.pmap(lambda x: J.lax.cond(x.sum() > 30, lambda x: x, lambda x: -x, x))(X),
)
add(
    "pmap/random",
    lambda J: J.pmap(lambda k: J.random.normal(k, (3,)))(J.random.split(J.random.key(1), 8)),
)
add(
    "pmap/all_to_all",
    lambda J: J.pmap(lambda x: J.lax.all_to_all(x, "i", 0, 0, tiled=True), "i")(X),
)
add(
    "pmap/pshuffle",
    lambda J: J.pmap(lambda x: J.lax.pshuffle(x, "i", list(range(8))[::-1]), "i")(X),
)
add(
    "pmap/shards",
    lambda J: [
        f"{s.device.id}{s.index}{s.replica_id}" for s in J.pmap(lambda x: x)(X).addressable_shards
    ],
)

# --- shardings and placement ----------------------------------------------------------------------

PLACED = [("grid", s) for s in [("x", "y"), ("y", "x"), (("x", "y"),), (None, "x"), (), ("y",)]]
PLACED += [("cube", s) for s in [("x", ("y", "z")), (("z", "y"), "x"), (None, ("x", "y", "z"))]]


def _placed(mesh, spec):
    label = f"placed/{mesh}{spec}".replace("'", "").replace(" ", "")

    def sharding(J):
        return J.NamedSharding(getattr(J, mesh), J.P(*spec))

    def parts(J):
        x = J.device_put(X, sharding(J))
        shards = [
            f"{s.device.id}{s.index}{s.replica_id}{s.data.shape}" for s in x.addressable_shards
        ]
        told = [x.is_fully_replicated, x.is_fully_addressable, x.committed, str(x.sharding)]
        return x, shards, told, [s.data for s in x.addressable_shards[:3]]

    def described(J):
        s = sharding(J)
        where = {str(d.id): str(i) for d, i in s.devices_indices_map((8, 8)).items()}
        return [str(s.shard_shape((8, 8))), str(where), s.num_devices, str(s)]

    def computed(J):
        x = J.device_put(X, sharding(J))
        f = J.jit(lambda x: (x * 2, x.sum(), x.T, x + x.sum(0), J.jnp.sin(x).sum(1), x[0]))
        return J.jnp.cos(x), x + 1, f(x)

    def equivalent(J):
        s = sharding(J)
        return [
            s.is_equivalent_to(J.NamedSharding(getattr(J, mesh), J.P(*o)), 2)
            for m, o in PLACED
            if m == mesh
        ]

    def from_callback(J):
        return J.make_array_from_callback((8, 8), sharding(J), lambda index: X[index])

    def constrained(J):
        s = sharding(J)
        return (
            J.jit(lambda x: J.lax.with_sharding_constraint(x * 2, s))(X),
            J.jit(lambda x: x * 2, out_shardings=s)(X),
            J.jit(lambda x: x + 1, in_shardings=s)(X),
        )

    for f in (parts, described, computed, equivalent, from_callback, constrained):
        add(f"{label}/{f.__name__}", f)


for _mesh, _spec in PLACED:
    _placed(_mesh, _spec)


@case
def on_one_device(J):
    x = J.device_put(X, J.devices()[2])
    free = J.jnp.ones(8)
    made = [x + 1, x + free, J.jit(lambda a, b: a @ b)(x, free), x.at[0].set(1), x[1], -x]
    made += [J.jnp.zeros_like(x), J.grad(lambda x: (x**2).sum())(x), J.jnp.asarray(x)]
    return [[str(sorted(d.id for d in y.devices())), y.committed] for y in (x, free, *made)]


@case
def the_default_device(J):
    with J.default_device(J.devices()[5]):
        inside = J.jnp.ones(3)
        both = [inside, inside + 1, J.jnp.arange(3), J.random.normal(J.random.key(0), (2,))]
        told = [[str(sorted(d.id for d in y.devices())), y.committed] for y in both]
    return told, str(sorted(d.id for d in (inside + 1).devices()))


@case
def one_function_with_several_shardings(J):
    def f(x):
        return x * 2

    specs = [J.P("x"), J.P("y"), J.P(None, "x"), J.P()]
    placed = [J.NamedSharding(J.grid, spec) for spec in specs]
    made = [J.jit(f, out_shardings=s)(X) for s in placed] + [
        J.jit(f, in_shardings=s)(X) for s in placed
    ]
    nested = [J.jit(lambda x, s=s: J.jit(f, out_shardings=s)(x) + 1)(X) for s in placed]
    ahead = J.jit(f, out_shardings=placed[1]).lower(X).compile()(X)
    return [
        made,
        nested,
        ahead,
        J.jit(lambda x: (x, f(x)), out_shardings=(placed[0], placed[1]))(X),
    ]


@case
def shardings_of_executables(J):
    s, t = J.NamedSharding(J.grid, J.P("x")), J.NamedSharding(J.grid, J.P("y"))
    texts = lambda c: [str(c.input_shardings), str(c.output_shardings)]
    both = J.jit(
        lambda x, y: {"a": x * 2, "b": (y.sum(),)},
        in_shardings=(s, None),
        out_shardings={"a": t, "b": None},
    )
    struct = J.ShapeDtypeStruct((8, 8), np.float32, sharding=s)
    described = J.jit(lambda x: x * 2).lower(struct).compile()
    named = J.jit(lambda x, *, k: x * 2 + k).lower(J.device_put(X, s), k=1.0).compile()
    plain = J.jit(lambda x: x * 2).lower(X).compile()
    there = J.jit(lambda x: x * 2).lower(J.device_put(X, J.devices()[1])).compile()
    told = [texts(c) for c in (both.lower(X, X).compile(), described, named, plain, there)]
    return told, described(X), there(X), plain(X)


def _compiled_for(place, given):
    def run(J):
        places = {"x": J.NamedSharding(J.grid, J.P("x")), "y": J.NamedSharding(J.grid, J.P("y"))}
        places |= {"1": J.devices()[1], "2": J.devices()[2], "": None}
        compiled = J.jit(lambda x: x * 2).lower(J.device_put(X, places[place])).compile()
        return compiled(J.device_put(X, places[given]))

    return run


for _place, _given in ("x", "y"), ("", "1"), ("", "x"), ("1", "2"), ("1", "x"):
    add(f"wrong/compiled_for_{_place}_{_given}", _compiled_for(_place, _given))
for _place, _given in ("x", "x"), ("x", ""), ("1", "1"), ("1", ""), ("", ""):
    add(f"compiled_for/{_place}_{_given}", _compiled_for(_place, _given))


@case
def donated_and_placed(J):
    x = J.device_put(X, J.NamedSharding(J.line, J.P("x")))
    y = J.jit(lambda x: x + 1, donate_argnums=0)(x)
    return y, x.is_deleted()


@case
def loops_over_placed_arrays(J):
    x = J.device_put(X, J.NamedSharding(J.grid, J.P("x", "y")))
    total = J.lax.fori_loop(0, 3, lambda i, c: c + x.sum(), 0.0)
    return [
        float(total),
        float(J.jit(lambda x: J.lax.scan(lambda c, r: (c + r.sum(), None), 0.0, x)[0])(x)),
    ]


@case
def gradients_of_placed_arrays(J):
    x = J.device_put(X, J.NamedSharding(J.grid, J.P("x", "y")))
    w = J.device_put(X, J.NamedSharding(J.grid, J.P("y")))
    loss = lambda x, w: (J.jnp.tanh(x @ w) ** 2).sum()
    return J.jit(J.value_and_grad(loss))(x, w)[0], [
        float(g.sum()) for g in J.grad(loss, (0, 1))(x, w)
    ]


@case
def printed(J):
    x = J.device_put(X[:, :2], J.NamedSharding(J.grid, J.P("x", "y")))
    return [str(x), repr(x), float(x[3, 1]), [float(v) for v in x[2]], x.tolist()]


@case
def moved_between_shardings(J):
    x = J.device_put(X, J.NamedSharding(J.grid, J.P("x", "y")))
    y = J.device_put(x, J.NamedSharding(J.grid, J.P("y", "x")))
    z = J.device_put(y, J.devices()[3])
    return [x, y, z, J.device_put(z, J.NamedSharding(J.line, J.P("x")))]


@case
def from_parts(J):
    s = J.NamedSharding(J.grid, J.P("x"))
    parts = [J.device_put(np.full(2, d.id, np.float32), d) for d in J.devices()[:8]]
    return J.make_array_from_single_device_arrays((8,), s, parts)


# --- errors ---------------------------------------------------------------------------------------


def wrong(name, function):
    add(f"wrong/{name}", function)


wrong("not_the_same", lambda J: J.spread(lambda x: x, J.P("x"), J.P())(X))
wrong(
    "gathered_is_not_known_to_be_the_same",
    lambda J: J.spread(lambda x: J.lax.all_gather(x, "x"), J.P("x"), J.P())(X),
)
wrong("rank", lambda J: J.spread(lambda x: x, J.P("x", None, None), J.P("x"))(X))
wrong("indivisible", lambda J: J.spread(lambda x: x, J.P("x"), J.P("x"))(X[:7]))
wrong("axis", lambda J: J.spread(lambda x: x, J.P("q"), J.P("x"))(X))
wrong("axis_of_results", lambda J: J.spread(lambda x: x, J.P("x"), J.P("q"))(X))
wrong("rank_of_results", lambda J: J.spread(lambda x: x.sum(), J.P("x"), J.P("x"))(X))
wrong("axis_twice", lambda J: J.spread(lambda x: x, J.P("x", "x"), J.P("x"))(X))
wrong("structure", lambda J: J.spread(lambda x: x, (J.P("x"), J.P("x")), J.P("x"))(X))
wrong("structure_of_results", lambda J: J.spread(lambda x: x, J.P("x"), (J.P("x"),) * 2)(X))
wrong("spec_is_text", lambda J: J.spread(lambda x: x, "x", J.P("x"))(X))
wrong("no_mesh", lambda J: J.shard_map(lambda x: x, in_specs=J.P("x"), out_specs=J.P("x"))(X))
wrong("axis_names", lambda J: J.spread(lambda x: x, J.P("x"), J.P("x"), axis_names={"q"})(X))
wrong(
    "not_by_hand", lambda J: J.spread(lambda x: x, J.P("y"), J.P("y"), J.grid, axis_names={"x"})(X)
)
wrong("devices_apart", lambda J: J.device_put(X, J.devices()[1]) + J.device_put(X, J.devices()[2]))
wrong(
    "devices_apart_in_jit",
    lambda J: J.jit(lambda a, b: a @ b)(*[J.device_put(X, d) for d in J.devices()[1:3]]),
)
wrong(
    "mesh_and_device",
    lambda J: J.device_put(X, J.NamedSharding(J.line, J.P("x"))) + J.device_put(X, J.devices()[1]),
)
wrong("mesh_names", lambda J: J.Mesh(np.array(J.devices()[:8]).reshape(4, 2), ("a",)))
wrong("too_many", lambda J: J.make_mesh((1000,), ("x",)))
wrong("sharding_axis", lambda J: J.NamedSharding(J.line, J.P("q")))
wrong("sharding_twice", lambda J: J.NamedSharding(J.line, J.P("x", "x")))
wrong("put_indivisible", lambda J: J.device_put(X[:7], J.NamedSharding(J.line, J.P("x"))))
wrong("put_rank", lambda J: J.device_put(X, J.NamedSharding(J.grid, J.P("x", "y", None))))
wrong("put_spec_without_mesh", lambda J: J.device_put(X, J.P("x")))
wrong("put_text", lambda J: J.device_put(X, "cpu"))
wrong(
    "in_shardings",
    lambda J: J.jit(lambda x: x, in_shardings=J.NamedSharding(J.line, J.P("x")))(
        J.device_put(X, J.NamedSharding(J.line, J.P(None, "x")))
    ),
)
wrong(
    "in_shardings_count",
    lambda J: J.jit(lambda x: x, in_shardings=(J.NamedSharding(J.line, J.P("x")), None))(X),
)
wrong("in_shardings_spec", lambda J: J.jit(lambda x: x, in_shardings=J.P("x"))(X))
wrong(
    "out_shardings",
    lambda J: J.jit(lambda x: x, out_shardings=J.NamedSharding(J.line, J.P("x")))(X[:7]),
)
wrong("constraint_spec", lambda J: J.lax.with_sharding_constraint(X, J.P("x")))
wrong(
    "parts_on_one_device",
    lambda J: J.make_array_from_single_device_arrays(
        (8,), J.NamedSharding(J.line, J.P("x")), [J.device_put(np.ones(1), J.devices()[0])] * 8
    ),
)
wrong(
    "parts_of_wrong_shape",
    lambda J: J.make_array_from_single_device_arrays(
        (8,),
        J.NamedSharding(J.line, J.P("x")),
        [J.device_put(np.ones(2), d) for d in J.devices()[:8]],
    ),
)
wrong(
    "too_few_parts",
    lambda J: J.make_array_from_single_device_arrays(
        (8,), J.NamedSharding(J.line, J.P("x")), [J.jnp.ones(1)]
    ),
)
wrong("pmap_devices", lambda J: J.pmap(lambda x: x)(np.ones(9)))
wrong("pmap_sizes", lambda J: J.pmap(lambda x, y: x)(X, X[:4]))
wrong("pmap_scalar", lambda J: J.pmap(lambda x: x)(1.0))
wrong("pmap_nothing_mapped", lambda J: J.pmap(lambda x: x, in_axes=None)(X))
wrong("pmap_devices_given", lambda J: J.pmap(lambda x: x, devices=J.devices()[:2])(X))
wrong(
    "pcast_twice",
    lambda J: J.spread(lambda x: J.lax.pcast(x, "x", to="varying"), J.P("x"), J.P("x"))(X),
)

CASES += cases_explicit.CASES + cases_specs.CASES

# --- running them ---------------------------------------------------------------------------------


def told(value):
    """A result as JSON: values, dtypes and where they are."""
    if isinstance(value, dict):
        return {str(k): told(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [told(v) for v in value]
    if not hasattr(value, "sharding"):
        return value if isinstance(value, (str, bool, int, float)) else str(value)
    spec = getattr(value.sharding, "spec", None)
    parts = None if spec is None else [list(p) if isinstance(p, tuple) else p for p in spec]
    while parts and parts[-1] is None:
        parts.pop()
    ids = sorted(d.id for d in value.devices())
    numbers = np.asarray(value, np.float64).ravel().tolist()
    rounded = [float(f"{n:.7g}") for n in numbers]
    shape = list(value.shape)
    return {"values": rounded, "shape": shape, "dtype": str(value.dtype), "spec": parts, "ids": ids}


def answers(library, chosen=()):
    """For every case what a library gives, or the class of its error."""
    J = namespace(library)
    found = {}
    for name, function in CASES:
        if chosen and not name.startswith(chosen):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = told(function(J))
        except Exception as error:
            found[name] = {"error": type(error).__name__, "text": str(error)}
    return found


if __name__ == "__main__":
    import weft

    json.dump(answers(weft), sys.stdout)
