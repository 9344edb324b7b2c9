"""Functions that JAX exports and runs; `tools/record_exports.py` records both.

A case is a name, a function that makes the ``Exported`` of JAX, lists of arguments to call it
with, and how many derivatives are written.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import export, register_namedtuple_serialization, symbolic_shape
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

F32 = jnp.float32


class Point(NamedTuple):
    x: object
    y: object


register_namedtuple_serialization(Point, serialized_name="tests.Point")


def draw(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def struct(x):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), x)


def plain(fun, *args, order=0, **options):
    """A case whose types are those of its arguments."""
    return lambda: export(jax.jit(fun), **options)(*struct(args)), [args], order


def open_sizes(fun, shapes, calls, dtype=F32, order=0):
    """A case with symbolic shapes: their text, and the shapes of each call."""

    def make():
        scope = jax.export.SymbolicScope()
        specs = [jax.ShapeDtypeStruct(symbolic_shape(s, scope=scope), dtype) for s in shapes]
        return export(jax.jit(fun))(*specs)

    args = [tuple(draw(*shape, dtype=np.dtype(dtype)) for shape in call) for call in calls]
    return make, args, order


def network(params, x):
    for layer in params["layers"]:
        x = jax.nn.gelu(x @ layer["w"] + layer["b"])
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return {"out": (x - mean) * lax.rsqrt(var + 1e-6), "probabilities": jax.nn.softmax(x)}


def images(kernel, x):
    y = lax.conv_general_dilated(
        x, kernel, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)), v)


def recurrent(w, xs):
    step = lambda h, x: (jnp.tanh(h @ w + x), h.sum())
    return lax.scan(step, jnp.zeros(xs.shape[1:]), xs)


def indices(x, i):
    return x[i], x.at[i].add(2.0), jnp.take_along_axis(x, i[:, None], 1), x.at[i, 0].max(3.0)


def control(x, n):
    y = lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x)
    z = lax.switch(n, [lambda x: x, lambda x: x + 1, lambda x: x * 3], x)
    return y, z, lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))


def orders(x):
    return jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 2), jnp.argmax(x, 1), jnp.median(x)


def types(x):
    found = [
        x.astype(t) for t in ("bfloat16", "float16", "int8", "uint16", "bool", "float8_e4m3fn")
    ]
    return [y.astype(F32) for y in found], lax.bitcast_convert_type(x, jnp.uint32), x + 1j * x


def functions(x):
    unary = (lax.erf, lax.lgamma, jnp.sinh, jnp.arctan, jnp.cbrt, jnp.round, jnp.sign, lax.digamma)
    two = jnp.nextafter(x, 2 * x), jnp.power(x * x, x), lax.erf_inv(x / 9)
    return [f(x) for f in unary], two


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct, -0.5, 0.5) * x,))


def mesh(*sizes):
    names = ("data", "model")[: len(sizes)]
    return jax.make_mesh(sizes, names, axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def sharded(x, w):
    there = lambda x, *spec: NamedSharding(mesh(2, 2), P(*spec))
    f = jax.jit(
        lambda x, w: lax.with_sharding_constraint(jnp.tanh(x @ w), there(x, "data", "model")),
        in_shardings=(there(x, "data"), there(w, None, "model")),
    )
    return lambda: export(f)(*struct((x, w))), [(x, w)], 0


def divided(x):
    f = jax.shard_map(
        lambda x: (lax.psum(x, "data"), lax.all_gather(x, "data"), lax.axis_index("data")[None]),
        mesh=mesh(4), in_specs=P("data"), out_specs=(P(), P("data"), P("data")), check_vma=False,
    )  # fmt: skip
    return lambda: export(jax.jit(f))(*struct((x,))), [(x,)], 0


def cases():
    """All cases by name."""
    x = draw(4, 6)
    i = np.array([2, 0, 3, 1], np.int32)
    params = {"layers": [{"w": draw(6, 6, seed=k), "b": draw(6, seed=k)} for k in range(2)]}
    found = {
        "dictionaries": plain(network, params, x, order=1),
        "convolution": plain(images, draw(3, 3, 2, 4), draw(2, 8, 8, 2), order=1),
        "attention": plain(attention, *[draw(2, 5, 2, 4, seed=k) for k in range(3)], order=1),
        "recurrent": plain(recurrent, draw(6, 6), draw(5, 3, 6), order=1),
        "indices": plain(indices, x, i),
        "control": plain(control, x, np.int32(2)),
        "orders": plain(orders, x),
        "types": plain(types, x),
        "functions": plain(functions, x),
        "custom rule": plain(clipped, x, order=2),
        "whole numbers": plain(lambda x, i: x * i[:, None], x, i, order=1),
        "arguments that are not used": plain(lambda a, b, c: a + c, x, i, x[0]),
        "nothing": plain(lambda: jnp.arange(5)),
        "none and lists": plain(lambda a: [a["x"], None, (a["y"][0],)], {"x": x, "y": [i, None]}),
        "named tuples": plain(lambda p: Point(p.y, p.x + 1), Point(x, i)),
        "several platforms": plain(lambda x: jnp.sin(x) @ x.T, x, platforms=["tpu", "cpu"]),
        "platform dependent": plain(
            lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, tpu=lambda x: x + 2), x,
            platforms=["tpu", "cpu"],
        ),
        "constants": plain(lambda x: (x + draw(4, 6, seed=9), jnp.array([True, False, True])), x),
        "fft": plain(lambda x: (jnp.fft.fft(x), jnp.fft.irfft(jnp.fft.rfft(x))), x),
        "linear algebra": plain(lambda x: jnp.linalg.cholesky(x.T @ x + jnp.eye(6)), x),
        "random": plain(lambda k: (jax.random.normal(k, (5,)), jax.random.split(k)),
                        jax.random.PRNGKey(3)),
        "bfloat16": plain(lambda x: jnp.dot(x, x.T), x.astype(jnp.bfloat16)),
        "sharded": sharded(draw(8, 4), draw(4, 6)),
        "divided": divided(draw(8, 3)),
        "open batch": open_sizes(
            lambda x: jax.nn.softmax(x @ draw(3, 4), 0), ["b, 3"], [[(2, 3)], [(5, 3)]], order=1
        ),
        "open sums": open_sizes(
            lambda x, y: jnp.concatenate([x, y], 0).reshape(-1), ["a, 3", "2*a + 1, 3"],
            [[(2, 3), (5, 3)], [(1, 3), (3, 3)]],
        ),
        "open products": open_sizes(
            lambda x: (x.reshape(-1), jnp.arange(x.shape[0] // 2), x[: x.shape[0] - 1]), ["b, c"],
            [[(4, 3)], [(5, 2)]],
        ),
    }  # fmt: skip
    return found


def key_cases():
    """Functions of keys, which are compared by their bits."""
    make = lambda: export(jax.jit(lambda k: (jax.random.split(k, 2), jax.random.bits(k, (3,)))))(
        jax.eval_shape(lambda: jax.random.key(0))
    )
    return {"keys": make}
