"""Everything around arrays: trees, callbacks, staging, dtypes, jet, ode, checkify."""

import collections
import functools
from typing import Any

import numpy as np

from ..table import Adder, Tol, dtype, family

Point = collections.namedtuple("Point", ["x", "y"])
TREES: dict[str, Any] = {
    "leaf": 1,
    "tuple": (1, 2, (3,)),
    "list": [1, [2, 3], []],
    "dict": {"b": 1, "a": {"z": 2, "c": 3}},
    "none": (None, 1, [None]),
    "named": Point(1, [2, 3]),
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "default": collections.defaultdict(list, {"b": 1, "a": 2}),
    "mixed": {"a": (1, [2.0, None]), "b": Point({"q": 3}, ())},
    "empty": {},
}


@family("trees")
def trees(add: Adder) -> None:
    """Flattening order, structures as text, paths, maps."""
    for name, tree in TREES.items():
        table: dict[str, Any] = {
            "leaves": lambda J, t=tree: [str(v) for v in J.tree.leaves(t)],
            "structure": lambda J, t=tree: str(J.tree.structure(t)),
            "round_trip": lambda J, t=tree: str(J.tree.unflatten(*J.tree.flatten(t)[::-1])),
            "map": lambda J, t=tree: str(J.tree.map(lambda v: v * 2, t)),
            "map_two": lambda J, t=tree: str(J.tree.map(lambda a, b: (a, b), t, t)),
            "reduce": lambda J, t=tree: J.tree.reduce(lambda a, b: a + b, t, 0),
            "paths": lambda J, t=tree: [J.tu.keystr(p) for p, _ in J.tree.leaves_with_path(t)],
            "simple": lambda J, t=tree: [
                J.tu.keystr(p, simple=True, separator="/") for p, _ in J.tree.leaves_with_path(t)
            ],
            "keys": lambda J, t=tree: [str(p) for p, _ in J.tu.tree_flatten_with_path(t)[0]],
            "counts": lambda J, t=tree: counts(J.tree.structure(t)),
            "children": lambda J, t=tree: [str(c) for c in J.tree.structure(t).children()],
            "is_leaf": lambda J, t=tree: [
                str(v) for v in J.tree.leaves(t, is_leaf=lambda v: isinstance(v, list))
            ],
            "none_leaf": lambda J, t=tree: [
                str(v) for v in J.tree.leaves(t, is_leaf=lambda v: v is None)
            ],
            "with_path": lambda J, t=tree: str(
                J.tree.leaves(J.tree.map_with_path(lambda p, v: J.tu.keystr(p) + str(v), t))
            ),
            "all": lambda J, t=tree: J.tree.all(t),
            "compose": lambda J, t=tree: str(J.tree.structure([0, 0]).compose(J.tree.structure(t))),
            "equal": lambda J, t=tree: (
                J.tree.structure(t) == J.tree.structure([t])
                or hash(J.tree.structure(t)) == hash(J.tree.structure(t))
            ),
        }
        for label, fn in table.items():
            add(f"{name}/{label}", fn, error="maybe")
    add("transpose", lambda J: str(transpose(J)))
    add("prefix", lambda J: J.tu.tree_map(lambda a, b: str((a, b)), (1, 2), ([3, 4], {"a": 5})))
    add("broadcast", lambda J: J.tree.broadcast((1, 2), ([3, 4], {"a": 5})))
    add("registered", lambda J: registered(J))
    add("partial", lambda J: J.tree.leaves(J.tu.Partial(max, 1, 2)))
    ravel = lambda J: J.flatten_util.ravel_pytree({"b": np.ones(2, np.float32), "a": np.float32(3)})
    add("ravel", lambda J: ravel(J)[0])
    add("unravel", lambda J: ravel(J)[1](J.jnp.arange(3.0)))


def counts(structure: Any) -> list[int]:
    return [structure.num_leaves, structure.num_nodes]


def transpose(J: Any) -> Any:
    outer, inner = J.tree.structure([0, 0]), J.tree.structure({"a": 0})
    return J.tree.transpose(outer, inner, [{"a": 1}, {"a": 2}])


def registered(J: Any) -> Any:
    class Pair:
        def __init__(self, a: Any, b: Any):
            self.a, self.b = a, b

    J.tu.register_pytree_node(Pair, lambda p: ((p.a,), p.b), lambda b, ch: Pair(ch[0], b))
    doubled = J.jit(lambda p: Pair(p.a * 2, p.b))(Pair(J.jnp.ones(2), "tag"))
    return doubled.a, doubled.b


@family("callbacks")
def callbacks(add: Adder) -> None:
    """pure_callback and io_callback under transformations."""
    shape = lambda J, x: J.ShapeDtypeStruct(x.shape, x.dtype)
    pure = lambda J, x, m=None: J.pure_callback(
        lambda v: np.asarray(v) * 2, shape(J, x), x, vmap_method=m
    )
    x = np.array([1.0, 2.0, 3.0], np.float32)
    add("pure", pure, [x])
    add("pure/jit", lambda J, x: J.jit(lambda v: pure(J, v) + 1)(x), [x])
    for method in ("sequential", "expand_dims", "broadcast_all"):
        fn = lambda J, x, m=method: J.vmap(lambda v: pure(J, v, m))(x)
        add(f"pure/vmap/{method}", fn, [x])
    add("pure/grad", lambda J, x: J.grad(lambda v: pure(J, v).sum())(x), [x], error=True)
    scan = lambda J, x: J.lax.scan(lambda c, v: (c + pure(J, v), c), J.jnp.float32(0), x)
    add("pure/scan", scan, [x])
    two = lambda J, x: J.pure_callback(lambda v: (v, v + 1), (shape(J, x), shape(J, x)), x)
    add("pure/tree", two, [x])
    for ordered in (False, True):
        add(f"io/{ordered}", lambda J, x, o=ordered: seen_order(J, x, o), [x], modes=("value",))
    add("debug", lambda J, x: printed(J, x), [x], modes=("value",))
    add("debug/callback", lambda J, x: debug_seen(J, x), [x], modes=("value",))


def seen_order(J: Any, x: Any, ordered: bool) -> Any:
    seen: list[float] = []

    def step(v: Any) -> None:
        seen.append(float(v))

    def body(i: Any, c: Any) -> Any:
        J.experimental.io_callback(step, None, c[0] + i, ordered=ordered)
        return c + 1

    out = J.jit(lambda v: J.lax.fori_loop(0, 3, body, v))(x)
    J.effects_barrier()
    return out, sorted(seen)


def printed(J: Any, x: Any) -> Any:
    return J.jit(lambda v: (J.debug.callback(lambda a: None, v), v * 2)[1])(x)


def debug_seen(J: Any, x: Any) -> Any:
    seen: list[float] = []
    J.jit(lambda v: J.debug.callback(lambda a: seen.append(float(a.sum())), v))(x)
    J.effects_barrier()
    return seen


@family("staging", Tol(16, True))
def staging(add: Adder) -> None:
    """jit's options and stages, eval_shape, contexts, device_put."""
    x = np.array([1.0, 2.0, 3.0], np.float32)
    table: dict[str, Any] = {
        "static": lambda J, x: J.jit(lambda v, n: v * n, static_argnums=1)(x, 3),
        "static_name": lambda J, x: J.jit(lambda v, n: v * n, static_argnames="n")(x, n=3),
        "static_keyword": lambda J, x: J.jit(lambda v, n: v * n, static_argnames=("n",))(x, 3),
        "kwargs": lambda J, x: J.jit(lambda v, *, s: v * s)(x, s=2.0),
        "defaults": lambda J, x: J.jit(lambda v, s=4.0: v * s)(x),
        "python_scalar": lambda J, x: J.jit(lambda s: s)(3),
        "python_float": lambda J, x: J.jit(lambda s: s)(3.5),
        "python_bool": lambda J, x: J.jit(lambda s: s)(True),
        "numpy_scalar": lambda J, x: J.jit(lambda s: s)(np.float64(3)),
        "numpy_array": lambda J, x: J.jit(lambda s: s)(np.arange(3)),
        "constant": lambda J, x: J.jit(lambda: J.jnp.arange(3))(),
        "none": lambda J, x: J.jit(lambda v: (None, v))(x),
        "donate": lambda J, x: J.jit(lambda v: v + 1, donate_argnums=0)(x + 0),
        "decorator": lambda J, x: decorated(J)(x, 2),
        "lower": lambda J, x: J.jit(lambda v: v * 2).lower(x).compile()(x),
        "trace": lambda J, x: str(J.jit(lambda v: J.lax.sin(v)).trace(x).jaxpr),
        "out_info": lambda J, x: list(J.jit(lambda v: v[:2]).lower(x).out_info.shape),
        "retrace": lambda J, x: retraces(J, x),
        "disable": lambda J, x: disabled(J, x),
        "compile_time": lambda J, x: compile_time(J, x),
        "eval_shape": lambda J, x: described(J.eval_shape(lambda v: (v @ v, v[None]), x)),
        "eval_shape_struct": lambda J, x: described(
            J.eval_shape(lambda v: [v.sum(0)], J.ShapeDtypeStruct((2, 3), "int8"))
        ),
        "device_put": lambda J, x: J.device_put({"a": np.arange(3), "b": 2.0}),
        "device_get": lambda J, x: str(type(J.device_get(x)).__name__),
        "block": lambda J, x: J.block_until_ready([x, x * 2]),
        "named_call": lambda J, x: J.named_call(lambda v: v * 2, name="double")(x),
        "named_scope": lambda J, x: (
            J.named_scope("s")(lambda v: v * 2)(x) if callable(J.named_scope("s")) else x * 2
        ),
        "typeof": lambda J, x: [str(J.typeof(x)), str(J.typeof(1)), str(J.typeof(np.int8(2)))],
        "aval": lambda J, x: str(x.aval),
        "weak_aval": lambda J, x: str(J.jnp.asarray(2).aval),
        "instance": lambda J, x: J.jit(lambda v: v * isinstance(v, J.Array))(x),
        "default_matmul": lambda J, x: precision(J, x),
        "make_jaxpr_shape": lambda J, x: described(
            J.make_jaxpr(lambda v: (v, v.sum()), return_shape=True)(x)[1]
        ),
        "make_jaxpr_static": lambda J, x: str(
            J.make_jaxpr(lambda v, n: v * n, static_argnums=1)(x, 3)
        ),
        "eval_jaxpr": lambda J, x: eval_jaxpr(J, x),
        "jaxpr_fields": lambda J, x: jaxpr_fields(J, x),
        "jaxpr_as_fun": lambda J, x: J.xcore.jaxpr_as_fun(J.make_jaxpr(lambda v: v * 2)(x))(x),
        "platform": lambda J, x: [J.default_backend(), str(J.devices()[0].platform)],
        "process": lambda J, x: [J.process_count(), J.process_index()],
    }
    for name, fn in table.items():
        add(name, fn, [x], modes=("value",))


def decorated(J: Any) -> Any:
    @functools.partial(J.jit, static_argnums=(1,))
    def f(v: Any, n: int) -> Any:
        return v**n

    return f


def retraces(J: Any, x: Any) -> list[int]:
    count = [0]

    def f(v: Any) -> Any:
        count[0] += 1
        return v * 2

    g = J.jit(f)
    steps = []
    for v in (x, x + 1, x[:2], x.astype("int32"), x, 1.0, 2.0, 1, True):
        g(v)
        steps.append(count[0])
    return steps


def disabled(J: Any, x: Any) -> Any:
    with J.disable_jit():
        return J.jit(lambda v: v if v[0] > 0 else -v)(x)


def compile_time(J: Any, x: Any) -> Any:
    def f(v: Any) -> Any:
        with J.ensure_compile_time_eval():
            n = int(J.jnp.sum(J.jnp.arange(3)))
        return v * n

    return J.jit(f)(x)


def described(tree: Any) -> Any:
    if isinstance(tree, (tuple, list)):
        return [described(t) for t in tree]
    return [str(tree.dtype), list(tree.shape)]


def precision(J: Any, x: Any) -> Any:
    with J.default_matmul_precision("float32"):
        return x @ x


def eval_jaxpr(J: Any, x: Any) -> Any:
    closed = J.make_jaxpr(lambda v: J.lax.sin(v) * 2)(x)
    return J.core.eval_jaxpr(closed.jaxpr, closed.consts, x)


def jaxpr_fields(J: Any, x: Any) -> Any:
    closed = J.make_jaxpr(lambda v: (J.jit(lambda u: u + 1)(v), J.lax.cumsum(v)))(x)
    rows = []
    for eqn in closed.jaxpr.eqns:
        rows.append([eqn.primitive.name, sorted(eqn.params), len(eqn.invars), len(eqn.outvars)])
    return [rows, len(closed.in_avals), [str(a) for a in closed.out_avals], len(closed.effects)]


@family("dtype_functions")
def dtypes(add: Adder) -> None:
    """dtypes and finfo: limits, hierarchy, canonical types."""
    names = (
        "bool",
        "i8",
        "u8",
        "i32",
        "u32",
        "i64",
        "f16",
        "bf16",
        "f32",
        "f64",
        "c64",
        "f8e4",
        "i4",
    )
    for d in names:
        for x64 in (False, True):
            tag = f"{d}/{'x64' if x64 else 'x32'}"
            fn = lambda J, d=d: str(J.dtypes.canonicalize_dtype(dtype(d)))
            add(f"canonicalize/{tag}", fn, x64=x64)
            fn = lambda J, d=d: str(J.dtypes.result_type(dtype(d), 1.0))
            add(f"result_type/{tag}", fn, x64=x64, error="maybe")
        kinds = (
            "floating",
            "integer",
            "inexact",
            "number",
            "signedinteger",
            "complexfloating",
            "generic",
        )
        for kind in kinds:
            fn = lambda J, d=d, k=kind: bool(J.dtypes.issubdtype(dtype(d), getattr(J.jnp, k)))
            add(f"issubdtype/{d}/{kind}", fn)
        for field in ("eps", "max", "min", "tiny", "bits"):
            fn = lambda J, d=d, f=field: str(getattr(J.jnp.finfo(dtype(d)), f))
            if d in ("f16", "bf16", "f32", "f64", "f8e4"):
                add(f"finfo/{d}/{field}", fn)
        for kind in ("bool", "numeric", "integral", "real floating", "complex floating"):
            fn = lambda J, d=d, k=kind: bool(J.jnp.isdtype(dtype(d), k))
            add(f"isdtype/{d}/{kind}", fn)
    for value in (1, 1.0, True, 1j):
        add(f"scalar_type/{value}", lambda J, v=value: J.dtypes.scalar_type_of(v).__name__)
    add("float0", lambda J: str(J.dtypes.float0))
    add("key", lambda J: str(J.random.key(0).dtype))


@family("experimental", Tol(256, True))
def experimental(add: Adder) -> None:
    """jet, odeint and checkify."""
    x = np.array([0.3, 0.7], np.float32)
    functions: dict[str, Any] = {
        "sin": lambda J, v: J.jnp.sin(v),
        "exp": lambda J, v: J.jnp.exp(v) * v,
        "tanh": lambda J, v: J.jnp.tanh(v),
        "log": lambda J, v: J.jnp.log(1 + v),
        "div": lambda J, v: v / (1 + v * v),
        "pow": lambda J, v: v**3,
        "sqrt": lambda J, v: J.jnp.sqrt(1 + v),
        "dot": lambda J, v: J.jnp.dot(v, v * 2),
        "sum": lambda J, v: J.jnp.sum(J.jnp.cos(v)),
    }
    jet = lambda J: J.experimental_jet.jet
    for name, f in functions.items():
        fn = lambda J, x, f=f: jet(J)(
            lambda v: f(J, v), (x,), ((J.jnp.ones(2), J.jnp.zeros(2), J.jnp.zeros(2)),)
        )
        add(f"jet/{name}", fn, [x], modes=("value",))
    times = np.linspace(0, 1, 4).astype(np.float32)
    decay = lambda J, y, t: J.experimental_ode.odeint(lambda y, t: -y * t, y, t)
    add("ode", decay, [x, times], modes=("value", "jit"), tol=Tol(4096, True))
    fn = lambda J, y, t: J.grad(lambda v: decay(J, v, t)[-1].sum())(y)
    add("ode/grad", fn, [x, times], modes=("value",), tol=Tol(65536, True))
    checks: dict[str, Any] = {
        "user": lambda J, v: J.checkify.check(v[0] > 1, "too small: {}", v[0]),
        "passes": lambda J, v: J.checkify.check(v[0] > 0, "too small"),
        "nan": lambda J, v: J.jnp.log(v - 1),
        "index": lambda J, v: v[J.jnp.argmax(v) + 5],
        "division": lambda J, v: v / J.jnp.zeros(2),
    }
    for name, f in checks.items():
        for errors in ("user_checks", "float_checks", "index_checks", "all_checks", "nan_checks"):
            fn = lambda J, x, f=f, e=errors: caught(J, f, e, x)
            add(f"checkify/{name}/{errors}", fn, [x], modes=("value",))


def caught(J: Any, f: Any, errors: str, x: Any) -> Any:
    checked = J.checkify.checkify(lambda v: (f(J, v), v)[1], errors=getattr(J.checkify, errors))
    error, out = J.jit(checked)(x)
    return error.get() is not None, out
