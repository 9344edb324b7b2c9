"""Samples of primitives that carry a program or a rule, and of callbacks."""

import numpy as np

import weft
import weft.numpy as jnp
from tests.samples import Sample, fixed, normal, whole
from weft import lax
from weft.api.callbacks import io_callback, pure_callback
from weft.api.remat import checkpoint
from weft.control.callbacks import inspect_sharding_p
from weft.control.custom_batching import custom_vmap
from weft.control.custom_jvp import custom_jvp
from weft.control.custom_vjp import custom_vjp
from weft.control.linear_call import linear_call
from weft.debug.printing import callback as debug_callback
from weft.debug.printing import print as debug_print
from weft.experimental.checkify import debug_check

REAL = ("float32", "float64")
INEXACT = (*REAL, "complex64")
# Programs of several operations: each rounds.
TOL = 32


def sample(prim, label, args, fun, dtypes=REAL, **options):
    return Sample(f"{prim}_{label}", prim, args, fun=fun, dtypes=dtypes, tol=TOL, **options)


# --- calls ----------------------------------------------------------------------------------------


@weft.jit
def product(x, y):
    return {"both": jnp.sin(x) * y, "sum": jnp.sum(x + 2)}


named = lax.composite(lambda x, y: [jnp.sin(x) * y, jnp.sum(x + 2)], name="sine.product")
tripled = lax.composite(lambda x: 3 * x, name="triple")


def nested(x):
    weight = jnp.cos(x)
    inner = weft.jit(lambda y: y * weight + 1)
    return weft.jit(lambda y: inner(inner(y)))(x)


SAMPLES = [
    sample("composite", "two_results", [normal(2, 3), normal(3)], named, INEXACT),
    sample("composite", "linear", [normal(3)], tripled, INEXACT, linear=((0,),)),
    sample("jit", "two_results", [normal(2, 3), normal(3)], product, INEXACT),
    sample("jit", "closure", [normal(3)], nested, INEXACT),
    sample("jit", "linear", [normal(3)], weft.jit(lambda x: 3 * x), INEXACT, linear=((0,),)),
    sample("remat2", "chain", [normal(2, 3)], checkpoint(lambda x: jnp.sin(jnp.sin(x)) * x)),
    sample(
        "remat2",
        "two",
        [normal(3), normal(3)],
        checkpoint(lambda x, y: jnp.matmul(jnp.tanh(x * y), y)),
    ),
]

# --- branches -------------------------------------------------------------------------------------


def choose(which, x, y):
    return lax.cond(which, lambda x, y: jnp.sin(x) * y, lambda x, y: x + 2 * y, x, y)


def switch(index, x):
    branches = [lambda x: jnp.sin(x), lambda x: x * x * x, lambda x: jnp.zeros_like(x)]
    return lax.switch(index, branches, x)


def linear_choice(which, x):
    return lax.cond(which, lambda x: 2 * x, lambda x: x[::-1], x)


PREDICATES = {"true": fixed(True), "false": fixed(False)}
SAMPLES += [
    sample("cond", label, [which, normal(2, 3), normal(3)], choose, INEXACT)
    for label, which in PREDICATES.items()
]
SAMPLES += [
    sample("cond", f"linear_{label}", [which, normal(3)], linear_choice, linear=((1,),))
    for label, which in PREDICATES.items()
]
SAMPLES += [
    sample("cond", f"switch_{i}", [fixed(i, np.int32), normal(3)], switch) for i in (-1, 0, 1, 2, 5)
]
SAMPLES += [
    sample(
        "cond",
        "varying",
        [lambda rng: rng.integers(0, 2, ()).astype(np.bool_), normal(3), normal(3)],
        choose,
    )
]

# --- loops ----------------------------------------------------------------------------------------


def counted(n, x):
    return lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) * 2), (jnp.int32(0), x)
    )


def until_large(x, y):
    return lax.while_loop(lambda c: jnp.sum(c) < 20, lambda c: c * 1.5 + y * y + 1, x * x)


FORWARD_ONLY = "a loop of unknown length keeps no values for a backward pass, as in JAX"
SAMPLES += [
    sample("while", "counted", [whole(1, 5, dtype=np.int32), normal(3)], counted,
           reverse=False, notes=FORWARD_ONLY),
    sample("while", "until", [normal(3), normal(3)], until_large,
           reverse=False, notes=FORWARD_ONLY),
]  # fmt: skip


def recurrence(c, xs, w):
    def step(carry, x):
        h, n = carry
        new = jnp.sin(h * w * 0.3 + x)
        return (new, n + 1), (new * x, n)

    return lax.scan(step, (c, jnp.int32(0)), xs)


def backwards(c, xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, c - x), c, xs, reverse=True, unroll=2)


def folded(c, xs):
    xs = jnp.asarray(xs)
    return lax.fori_loop(0, 4, lambda i, c: c * xs[i % 3] + jnp.sin(c), c)


SAMPLES += [
    sample("scan", "recurrence", [normal(3), normal(4, 3), normal(3)], recurrence, INEXACT),
    sample("scan", "reverse", [normal(3), normal(5, 3)], backwards, INEXACT,
           linear=((0, 1), (0,), (1,))),
    sample("scan", "fori", [normal(2), normal(3, 2)], folded),
    sample("scan", "no_steps", [normal(3), normal(0, 3)], backwards),
    sample("scan", "map", [normal(4, 2)], lambda x: lax.map(lambda r: jnp.sin(r) * jnp.sum(r), x)),
]  # fmt: skip

# --- rules of the user's --------------------------------------------------------------------------


@custom_jvp
def with_jvp(x, y):
    return jnp.sin(x) * y


@with_jvp.defjvp
def _with_jvp_rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return with_jvp(x, y), jnp.cos(x) * y * dx + jnp.sin(x) * dy


def make_vjp(optimize_remat):
    @custom_vjp
    def with_vjp(x, y):
        return jnp.sin(x) * y

    def fwd(x, y):
        return jnp.sin(x) * y, (x, y)

    def bwd(residuals, ct):
        x, y = residuals
        return jnp.cos(x) * y * ct, jnp.sin(x) * ct

    with_vjp.defvjp(fwd, bwd, optimize_remat=optimize_remat)
    return with_vjp


def gradient(fun):
    return lambda x, y: weft.vjp(fun, x, y)[1](jnp.ones_like(x))


def first_residual(x, y):
    """A backward pass that needs residuals and the result."""
    out, pull = weft.vjp(checkpointed, x, y)
    return out, pull(out)


plain_vjp, cheap_vjp = make_vjp(False), make_vjp(True)
checkpointed = checkpoint(cheap_vjp)


@custom_vmap
def with_batch(x, y):
    return jnp.sin(x) * y


@with_batch.def_vmap
def _with_batch_rule(size, batched, x, y):
    dims = tuple(0 if b else None for b in batched)
    return weft.vmap(lambda x, y: jnp.sin(x) * y, in_axes=dims, axis_size=size)(x, y), True


PAIR = [normal(3), normal(3)]
NO_FORWARD = "forward mode is refused; the backward rule is checked by custom_vjp_gradient"
SAMPLES += [
    sample("custom_jvp_call", "pair", PAIR, with_jvp),
    sample("custom_vjp_call", "pair", PAIR, plain_vjp, wrt=(), notes=NO_FORWARD),
    sample("custom_lin", "gradient", PAIR, gradient(plain_vjp)),
    sample("mul", "custom_vjp_gradient", PAIR, gradient(plain_vjp)),
    sample("remat_opt", "forward", PAIR, lambda x, y: weft.vjp(cheap_vjp, x, y)[0]),
    sample("mul", "custom_vjp_remat_gradient", PAIR, first_residual),
    sample("custom_vmap_call", "pair", PAIR, with_batch),
    sample(
        "linear_call",
        "scaled",
        PAIR,
        lambda r, x: linear_call(lambda r, x: x * r, lambda r, ct: ct * r, r, x),
        linear=((1,),),
        wrt=(1,),
    ),
]


def solve(a, b):
    a = a * 0.1 + 2 * np.eye(3, dtype=a.dtype)
    return lax.custom_linear_solve(
        lambda x: jnp.matmul(a, x),
        b,
        solve=lambda _, b: jnp.linalg.solve(a, b),
        transpose_solve=lambda _, b: jnp.linalg.solve(lax.transpose(a, (1, 0)), b),
    )


SAMPLES += [sample("custom_linear_solve", "general", [normal(3, 3), normal(3)], solve)]

# --- callbacks ------------------------------------------------------------------------------------


def called(x, method):
    result = weft.ShapeDtypeStruct(x.shape, x.dtype)
    return pure_callback(lambda x: np.asarray(x) * 2, result, x, vmap_method=method)


def told(x):
    result = weft.ShapeDtypeStruct(x.shape, x.dtype)
    return io_callback(lambda x: np.asarray(x) + 1, result, x)


def shown(x):
    debug_print("{}", x)
    return 2 * x


def watched(x):
    debug_callback(lambda x: None, x)
    return 2 * x


def inspected(x):
    inspect_sharding_p.bind(x, callback=lambda sharding: None)
    return 2 * x


SAMPLES += [
    sample("pure_callback", method, [normal(3)], lambda x, m=method: called(x, m))
    for method in ("sequential", "expand_dims", "broadcast_all")
]


def checked(x):
    debug_check(jnp.all(x < 100), "too large")
    return 2 * x


def on_a_mesh(x):
    mesh, spec = weft.make_mesh((1,), "x", (weft.sharding.AxisType.Auto,)), weft.P("x")
    return weft.shard_map(
        lambda x: x * lax.psum(jnp.sin(x), "x"), mesh=mesh, in_specs=spec, out_specs=spec
    )(x)


SAMPLES += [
    sample("shard_map", "product", [normal(3, 2)], on_a_mesh),
    sample("check", "debug", [normal(3)], checked),
    sample("io_callback", "plain", [normal(3)], told),
    sample("debug_print", "plain", [normal(3)], shown),
    sample("debug_callback", "plain", [normal(3)], watched),
    sample("inspect_sharding", "plain", [normal(3)], inspected),
]
