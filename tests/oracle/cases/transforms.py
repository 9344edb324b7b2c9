"""Transformations alone and nested, custom rules, checkpointing, collectives under vmap."""

from typing import Any

import numpy as np

from ..table import VALUE, Adder, Tol, dtype, family


def program(name: str) -> Any:
    """A scalar function of a vector, built of common pieces."""

    def mlp(J: Any, x: Any) -> Any:
        w = J.jnp.linspace(-1.0, 1.0, 12).reshape(3, 4).astype(x.dtype)
        return J.jnp.sum(J.jnp.tanh(x @ w) ** 2)

    def softmax(J: Any, x: Any) -> Any:
        return -J.jnp.log(J.nn.softmax(x)[1])

    def logsumexp(J: Any, x: Any) -> Any:
        return J.nn.logsumexp(x * 2) + J.jnp.prod(x)

    def polynomial(J: Any, x: Any) -> Any:
        return J.jnp.sum(x**3 - 2 * x * x[::-1]) / (1 + x[0] ** 2)

    def selects(J: Any, x: Any) -> Any:
        return J.jnp.sum(J.jnp.where(x > 0.5, J.jnp.sin(x), J.jnp.exp(-x)) * x)

    def scan(J: Any, x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            c = c * 0.5 + J.jnp.sin(v)
            return c, c * v

        c, ys = J.lax.scan(step, x[0], x)
        return c + J.jnp.sum(ys)

    def loop(J: Any, x: Any) -> Any:
        return J.jnp.sum(J.lax.fori_loop(0, 3, lambda i, v: J.jnp.sin(v) + i, x))

    def cond(J: Any, x: Any) -> Any:
        return J.lax.cond(x[0] > 0, lambda v: J.jnp.sum(v**2), lambda v: J.jnp.sum(J.jnp.exp(v)), x)

    def jitted(J: Any, x: Any) -> Any:
        return J.jit(lambda v: J.jnp.sum(J.jnp.cos(v) * v))(x)

    def remat(J: Any, x: Any) -> Any:
        return J.checkpoint(lambda v: J.jnp.sum(J.jnp.sin(J.jnp.cos(v))))(x)

    def indexing(J: Any, x: Any) -> Any:
        return J.jnp.sum(x.at[1].multiply(x[0])[np.array([0, 1, 1])] ** 2)

    def matrix(J: Any, x: Any) -> Any:
        a = J.jnp.outer(x, x) + 3 * J.jnp.eye(3, dtype=x.dtype)
        return J.jnp.linalg.slogdet(a)[1] + J.jnp.sum(J.jnp.linalg.solve(a, x))

    def sorted_(J: Any, x: Any) -> Any:
        return J.jnp.sum(J.jnp.sort(x) * J.jnp.arange(3, dtype=x.dtype)) + J.jnp.max(x) * J.jnp.min(
            x
        )

    def cumulative(J: Any, x: Any) -> Any:
        return J.jnp.sum(J.jnp.cumsum(x) * J.jnp.cumprod(x))

    return locals()[name]


PROGRAMS = (
    "mlp",
    "softmax",
    "logsumexp",
    "polynomial",
    "selects",
    "scan",
    "loop",
    "cond",
    "jitted",
)
PROGRAMS += ("remat", "indexing", "matrix", "sorted_", "cumulative")


def stacks() -> dict[str, Any]:
    """Ways to transform a scalar function f of a vector x."""
    return {
        "grad": lambda J, f, x: J.grad(f)(x),
        "value_and_grad": lambda J, f, x: J.value_and_grad(f)(x),
        "jvp": lambda J, f, x: J.jvp(f, (x,), (x * 0.5,)),
        "vjp": lambda J, f, x: J.vjp(f, x)[1](J.jnp.ones((), x.dtype)),
        "linearize": lambda J, f, x: J.linearize(f, x)[1](x),
        "jacfwd": lambda J, f, x: J.jacfwd(f)(x),
        "jacrev": lambda J, f, x: J.jacrev(f)(x),
        "hessian": lambda J, f, x: J.hessian(f)(x),
        "grad_grad": lambda J, f, x: J.grad(lambda v: J.jnp.sum(J.grad(f)(v) ** 2))(x),
        "jacrev_jacrev": lambda J, f, x: J.jacrev(J.jacrev(f))(x),
        "jacfwd_jacfwd": lambda J, f, x: J.jacfwd(J.jacfwd(f))(x),
        "jvp_grad": lambda J, f, x: J.jvp(J.grad(f), (x,), (x,))[1],
        "grad_jvp": lambda J, f, x: J.grad(lambda v: J.jvp(f, (v,), (v,))[1])(x),
        "vmap": lambda J, f, x: J.vmap(f)(J.jnp.stack([x, 2 * x])),
        "vmap_grad": lambda J, f, x: J.vmap(J.grad(f))(J.jnp.stack([x, 2 * x])),
        "grad_vmap": lambda J, f, x: J.grad(lambda m: J.jnp.sum(J.vmap(f)(m)))(
            J.jnp.stack([x, 2 * x])
        ),
        "vmap_hessian": lambda J, f, x: J.vmap(J.hessian(f))(J.jnp.stack([x, 2 * x])),
        "vmap_vmap": lambda J, f, x: J.vmap(J.vmap(f))(
            J.jnp.stack([x, x + 1, x * 2, -x]).reshape(2, 2, 3)
        ),
        "vmap_axis1": lambda J, f, x: J.vmap(f, in_axes=1)(J.jnp.stack([x, 2 * x], 1)),
        "jit_grad": lambda J, f, x: J.jit(J.grad(f))(x),
        "grad_jit": lambda J, f, x: J.grad(J.jit(f))(x),
        "jit_vmap_grad_jit": lambda J, f, x: J.jit(J.vmap(J.grad(J.jit(f))))(
            J.jnp.stack([x, 2 * x])
        ),
        "checkpoint_grad": lambda J, f, x: J.grad(J.checkpoint(f))(x),
        "grad_checkpoint_vmap": lambda J, f, x: J.vmap(J.grad(J.checkpoint(f)))(
            J.jnp.stack([x, 2 * x])
        ),
        "checkpoint_hessian": lambda J, f, x: J.hessian(J.checkpoint(f))(x),
        "linearize_vmap": lambda J, f, x: J.vmap(J.linearize(f, x)[1])(J.jnp.eye(3, dtype=x.dtype)),
        "vjp_vmap": lambda J, f, x: J.vmap(J.vjp(J.grad(f), x)[1])(J.jnp.eye(3, dtype=x.dtype)),
        "eval_shape": lambda J, f, x: [
            str(J.eval_shape(J.grad(f), x).dtype),
            J.eval_shape(J.grad(f), x).shape,
        ],
        "grad3": lambda J, f, x: J.jvp(J.jacfwd(J.grad(f)), (x,), (x,))[1],
    }


@family("transforms", Tol(256, True))
def transforms(add: Adder) -> None:
    """Programs under stacks of transformations."""
    for name in PROGRAMS:
        f = program(name)
        for stack, apply in stacks().items():
            if name == "loop" and stack in ("grad3",):
                continue
            for d in ("f32", "f64"):
                x = np.array([0.3, 0.9, -0.4], dtype(d))
                if name in ("matrix", "sorted_"):
                    x = np.array([0.3, 0.9, 0.5], dtype(d))
                fn = lambda J, x, f=f, apply=apply: apply(J, lambda v: f(J, v), x)
                modes = VALUE if stack not in ("eval_shape",) else ("value",)
                add(f"{name}/{stack}/{d}", fn, [x], modes=modes)


@family("grad_arguments", Tol(16, True))
def arguments(add: Adder) -> None:
    """argnums, has_aux, holomorphic, allow_int, trees, zero and float0 tangents."""
    x, y = np.array([1.0, 2.0], np.float32), np.array([3.0, -1.0], np.float32)
    f = lambda J: lambda x, y: J.jnp.sum(x * x * y)
    table: dict[str, Any] = {
        "argnums1": lambda J, x, y: J.grad(f(J), argnums=1)(x, y),
        "argnums01": lambda J, x, y: J.grad(f(J), argnums=(0, 1))(x, y),
        "argnums_negative": lambda J, x, y: J.grad(f(J), argnums=-1)(x, y),
        "has_aux": lambda J, x, y: J.grad(lambda x: (J.jnp.sum(x * y), {"a": x}), has_aux=True)(x),
        "value_aux": lambda J, x, y: J.value_and_grad(
            lambda x: (J.jnp.sum(x * y), x), has_aux=True
        )(x),
        "dict": lambda J, x, y: J.grad(lambda p: J.jnp.sum(p["a"] * p["b"][0]))({"a": x, "b": [y]}),
        "unused": lambda J, x, y: J.grad(lambda x, y: J.jnp.sum(y), argnums=0)(x, y),
        "constant": lambda J, x, y: J.grad(lambda x: 3.0)(1.0),
        "holomorphic": lambda J, x, y: J.grad(lambda z: J.jnp.sum(z**2), holomorphic=True)(
            x + 1j * y
        ),
        "complex_abs": lambda J, x, y: J.grad(lambda z: J.jnp.sum(J.jnp.abs(z) ** 2))(x + 1j * y),
        "complex_mixed": lambda J, x, y: J.grad(lambda x: J.jnp.sum(J.jnp.real(J.jnp.exp(1j * x))))(
            x
        ),
        "kwargs": lambda J, x, y: J.grad(lambda x, *, scale: J.jnp.sum(x) * scale)(x, scale=3.0),
        "allow_int": lambda J, x, y: str(J.grad(lambda i: 2.0, allow_int=True)(3).dtype),
        "python_scalar": lambda J, x, y: J.grad(lambda v: v * v)(3.0),
        "scalar_int_argument": lambda J, x, y: J.grad(lambda v, n: v**n)(3.0, 2),
        "weak_grad": lambda J, x, y: J.grad(lambda v: J.jnp.sin(v))(1.0),
        "stop_gradient": lambda J, x, y: J.grad(lambda x: J.jnp.sum(J.lax.stop_gradient(x) * x))(x),
        "jvp_aux": lambda J, x, y: J.jvp(lambda x: (x * 2, x), (x,), (y,), has_aux=True),
        "vjp_aux": lambda J, x, y: [
            J.vjp(lambda x: (x * 2, x), x, has_aux=True)[i] for i in (0, 2)
        ],
        "vjp_tree": lambda J, x, y: J.vjp(lambda p: {"o": p["a"] * p["b"]}, {"a": x, "b": y})[1](
            {"o": x}
        ),
        "jvp_int": lambda J, x, y: J.jvp(lambda x: x.astype("int32"), (x,), (y,))[0],
        "linear_transpose": lambda J, x, y: J.linear_transpose(lambda v: 3 * v[::-1], x)(y),
        "linear_transpose_dot": lambda J, x, y: J.linear_transpose(lambda v: J.jnp.dot(y, v), x)(
            2.0
        ),
        "linearize_aux": lambda J, x, y: J.linearize(lambda v: (v * v, v), x, has_aux=True)[1](y),
        "jacfwd_argnums": lambda J, x, y: J.jacfwd(lambda x, y: x * y, argnums=(0, 1))(x, y),
        "jacrev_tree": lambda J, x, y: J.jacrev(lambda p: [p["a"] * 2, p["a"].sum()])({"a": x}),
        "jacfwd_tree": lambda J, x, y: J.jacfwd(lambda p: [p["a"] * 2, p["a"].sum()])({"a": x}),
        "jacrev_aux": lambda J, x, y: J.jacrev(lambda x: (x**2, y), has_aux=True)(x),
        "hessian_tree": lambda J, x, y: J.hessian(lambda p: J.jnp.sum(p["a"] ** 2 * p["b"]))(
            {"a": x, "b": y}
        ),
        "jacobian_holomorphic": lambda J, x, y: J.jacfwd(lambda z: z**2, holomorphic=True)(
            x + 1j * y
        ),
        "closure": lambda J, x, y: J.grad(lambda x: J.grad(lambda y: J.jnp.sum(x * y**2))(y).sum())(
            x
        ),
        "perturbation": lambda J, x, y: J.grad(lambda x: x * J.grad(lambda y: x * y)(2.0))(3.0),
        "through_int": lambda J, x, y: J.grad(lambda x: J.jnp.sum(x * J.jnp.argmax(x)))(x),
        "bf16": lambda J, x, y: J.grad(lambda x: J.jnp.sum(x * x))(x.astype("bfloat16")),
        "cast": lambda J, x, y: J.grad(
            lambda x: J.jnp.sum(x.astype("bfloat16") * 2).astype("float32")
        )(x),
        "none_tree": lambda J, x, y: J.grad(lambda p: J.jnp.sum(p[0]))((x, None)),
        "custom_gradient": lambda J, x, y: J.grad(
            lambda v: J.custom_gradient(lambda x: (x**2, lambda g: (g * 7,)))(v)
        )(2.0),
        "closure_convert": lambda J, x, y: J.closure_convert(lambda v: v * y.sum(), x)[0](x),
        "fwd_bwd": lambda J, x, y: J.vjp(lambda x, y: (x @ y, x * y), x, y)[1]((np.float32(1), y)),
    }
    for name, fn in table.items():
        add(name, fn, [x, y], modes=("value",), error="maybe")


@family("vmap_arguments", Tol(16, True))
def vmap(add: Adder) -> None:
    """in_axes and out_axes trees, axis names, collectives, nested maps."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    table: dict[str, Any] = {
        "none": lambda J, x, y: J.vmap(lambda a, b: a + b, in_axes=(0, None))(x, x[0]),
        "mixed": lambda J, x, y: J.vmap(lambda a, b: a @ b, in_axes=(1, 0))(x, y),
        "dict": lambda J, x, y: J.vmap(lambda p: p["a"] * p["b"], in_axes=({"a": 0, "b": None},))(
            {"a": x, "b": 2.0}
        ),
        "out1": lambda J, x, y: J.vmap(lambda a: a * 2, out_axes=1)(x),
        "out_tree": lambda J, x, y: J.vmap(lambda a: (a, a.sum()), out_axes=(1, 0))(x),
        "out_none": lambda J, x, y: J.vmap(lambda a: (a, 3.0), out_axes=(0, None))(x),
        "negative": lambda J, x, y: J.vmap(lambda a: a.sum(), in_axes=-1)(y),
        "constant": lambda J, x, y: J.vmap(lambda a: 1.0)(x),
        "axis_size": lambda J, x, y: J.vmap(lambda: J.jnp.ones(2), axis_size=3, in_axes=())(),
        "psum": lambda J, x, y: J.vmap(lambda a: J.lax.psum(a, "i"), axis_name="i")(x),
        "pmean": lambda J, x, y: J.vmap(lambda a: a - J.lax.pmean(a, "i"), axis_name="i")(x),
        "pmax": lambda J, x, y: J.vmap(lambda a: J.lax.pmax(a, "i"), axis_name="i")(x),
        "pmin": lambda J, x, y: J.vmap(lambda a: J.lax.pmin(a, "i"), axis_name="i")(x),
        "psum_int": lambda J, x, y: J.vmap(lambda a: J.lax.psum(1, "i") * a, axis_name="i")(x),
        "psum_tree": lambda J, x, y: J.vmap(
            lambda a: J.lax.psum({"a": a, "b": a * 2}, "i"), axis_name="i"
        )(x),
        "axis_index": lambda J, x, y: J.vmap(lambda a: a + J.lax.axis_index("i"), axis_name="i")(x),
        "axis_size_of": lambda J, x, y: J.vmap(lambda a: a + J.lax.axis_size("i"), axis_name="i")(
            x
        ),
        "all_gather": lambda J, x, y: J.vmap(lambda a: J.lax.all_gather(a, "i"), axis_name="i")(x),
        "all_gather_tiled": lambda J, x, y: J.vmap(
            lambda a: J.lax.all_gather(a, "i", tiled=True), axis_name="i"
        )(x),
        "all_gather_axis": lambda J, x, y: J.vmap(
            lambda a: J.lax.all_gather(a, "i", axis=1), axis_name="i"
        )(x),
        "ppermute": lambda J, x, y: J.vmap(
            lambda a: J.lax.ppermute(a, "i", [(0, 1), (1, 0)]), axis_name="i"
        )(x),
        "pshuffle": lambda J, x, y: J.vmap(lambda a: J.lax.pshuffle(a, "i", [1, 0]), axis_name="i")(
            x
        ),
        "pswapaxes": lambda J, x, y: J.vmap(lambda a: J.lax.pswapaxes(a, "i", 0), axis_name="i")(
            x[:, :2]
        ),
        "all_to_all": lambda J, x, y: J.vmap(
            lambda a: J.lax.all_to_all(a, "i", 0, 0), axis_name="i"
        )(x[:, :2]),
        "psum_scatter": lambda J, x, y: J.vmap(lambda a: J.lax.psum_scatter(a, "i"), axis_name="i")(
            x[:, :2]
        ),
        "psum_scatter_tiled": lambda J, x, y: J.vmap(
            lambda a: J.lax.psum_scatter(a, "i", tiled=True), axis_name="i"
        )(x[:, :2]),
        "two_names": lambda J, x, y: J.vmap(
            J.vmap(lambda a: J.lax.psum(a, ("i", "j")), axis_name="j"), axis_name="i"
        )(x),
        "inner_name": lambda J, x, y: J.vmap(
            J.vmap(lambda a: J.lax.psum(a, "i"), axis_name="j"), axis_name="i"
        )(x),
        "grad_psum": lambda J, x, y: J.vmap(
            J.grad(lambda a: J.jnp.sum(J.lax.psum(a, "i") ** 2)), axis_name="i"
        )(x),
        "psum_grad": lambda J, x, y: J.vmap(
            lambda a: J.lax.psum(J.grad(lambda v: J.jnp.sum(v**2))(a), "i"), axis_name="i"
        )(x),
        "grad_pmean": lambda J, x, y: J.grad(
            lambda x: J.jnp.sum(J.vmap(lambda a: J.jnp.sin(J.lax.pmean(a, "i")), axis_name="i")(x))
        )(x),
        "grad_all_gather": lambda J, x, y: J.grad(
            lambda x: J.jnp.sum(J.vmap(lambda a: J.lax.all_gather(a, "i") ** 2, axis_name="i")(x))
        )(x),
        "grad_ppermute": lambda J, x, y: J.grad(
            lambda x: J.jnp.sum(
                J.vmap(lambda a: a * J.lax.ppermute(a, "i", [(0, 1), (1, 0)]), axis_name="i")(x)
            )
        )(x),
        "jit_psum": lambda J, x, y: J.jit(J.vmap(lambda a: J.lax.psum(a, "i"), axis_name="i"))(x),
        "kwargs": lambda J, x, y: J.vmap(lambda a, *, b: a + b)(x, b=x),
        "list": lambda J, x, y: J.vmap(lambda ab: ab[0] + ab[1])([x, x]),
        "random": lambda J, x, y: J.vmap(lambda k: J.random.uniform(k, (2,)))(
            J.random.split(J.random.key(0), 3)
        ),
        "cond": lambda J, x, y: J.vmap(
            lambda a: J.lax.cond(a[0] > 1, lambda v: v * 2, lambda v: v - 1, a)
        )(x),
        "while": lambda J, x, y: J.vmap(
            lambda a: J.lax.while_loop(lambda v: v[0] < 10, lambda v: v * 2 + 1, a)
        )(x),
        "scan": lambda J, x, y: J.vmap(lambda a: J.lax.scan(lambda c, v: (c + v, c * v), a[0], a))(
            x
        ),
        "scan_const": lambda J, x, y: J.vmap(
            lambda a: J.lax.scan(lambda c, v: (c + v * a[0], c), 0.0, J.jnp.arange(3.0))
        )(x),
        "switch": lambda J, x, y: J.vmap(
            lambda i, a: J.lax.switch(i, [J.jnp.sin, J.jnp.cos, J.jnp.exp], a)
        )(J.jnp.array([0, 2]), x),
        "fori": lambda J, x, y: J.vmap(lambda n, a: J.lax.fori_loop(0, n, lambda i, v: v + i, a))(
            J.jnp.array([1, 3]), x
        ),
        "solve": lambda J, x, y: J.vmap(J.jnp.linalg.solve)(
            J.jnp.stack([J.jnp.eye(2) * 2, J.jnp.eye(2)]), x[:, :2]
        ),
        "custom_vmap": custom_vmap,
        "sequential": lambda J, x, y: J.vmap(
            J.custom_batching.sequential_vmap(lambda a: J.jnp.sin(a) * 2)
        )(x),
        "spmd": lambda J, x, y: J.vmap(lambda a: a * 2, axis_size=2)(x),
    }
    for name, fn in table.items():
        add(name, fn, [x, y], modes=VALUE)


def custom_vmap(J: Any, x: Any, y: Any) -> Any:
    f = J.custom_batching.custom_vmap(lambda a, b: a + b)

    @f.def_vmap
    def rule(size: int, batched: Any, a: Any, b: Any) -> Any:
        return a * 10 + b, True

    return J.vmap(f, in_axes=(0, None))(x, x[0])


@family("custom_rules", Tol(16, True))
def custom(add: Adder) -> None:
    """custom_jvp and custom_vjp under transformations, with their options."""
    ways: dict[str, Any] = {
        "call": lambda J, f, x: f(x),
        "grad": lambda J, f, x: J.grad(lambda v: J.jnp.sum(f(v)))(x),
        "jvp": lambda J, f, x: J.jvp(f, (x,), (x,)),
        "vmap": lambda J, f, x: J.vmap(f)(J.jnp.stack([x, x + 1])),
        "vmap_grad": lambda J, f, x: J.vmap(J.grad(lambda v: J.jnp.sum(f(v))))(
            J.jnp.stack([x, x + 1])
        ),
        "grad_vmap": lambda J, f, x: J.grad(lambda m: J.jnp.sum(J.vmap(f)(m)))(
            J.jnp.stack([x, x + 1])
        ),
        "jit_grad": lambda J, f, x: J.jit(J.grad(lambda v: J.jnp.sum(f(v))))(x),
        "grad_jit": lambda J, f, x: J.grad(lambda v: J.jnp.sum(J.jit(f)(v)))(x),
        "scan": lambda J, f, x: J.grad(
            lambda v: J.jnp.sum(J.lax.scan(lambda c, _: (f(c), c), v, None, length=2)[0])
        )(x),
        "checkpoint": lambda J, f, x: J.grad(lambda v: J.jnp.sum(J.checkpoint(f)(v)))(x),
        "second": lambda J, f, x: J.grad(lambda v: J.jnp.sum(J.grad(lambda u: J.jnp.sum(f(u)))(v)))(
            x
        ),
        "hessian": lambda J, f, x: J.jacfwd(J.jacrev(f))(x),
    }
    x = np.array([0.5, -1.0, 2.0], np.float32)
    for rule, make in CUSTOM.items():
        for way, apply in ways.items():
            fn = lambda J, x, make=make, apply=apply: apply(J, make(J), x)
            add(f"{rule}/{way}", fn, [x], modes=("value",), error="maybe")


def _custom_jvp(J: Any) -> Any:
    f = J.custom_jvp(lambda x: J.jnp.sin(x))
    f.defjvp(lambda p, t: (f(p[0]), 2 * J.jnp.cos(p[0]) * t[0]))
    return f


def _defjvps(J: Any) -> Any:
    f = J.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, ans, x, y: 10 * t * y, None)
    return lambda x: f(x, x[::-1])


def _custom_vjp(J: Any) -> Any:
    f = J.custom_vjp(lambda x: x**2)
    f.defvjp(lambda x: (x**2, x), lambda r, g: (3 * r * g,))
    return f


def _nondiff_jvp(J: Any) -> Any:
    f = J.custom_jvp(lambda n, x: x**n, nondiff_argnums=(0,))
    f.defjvp(lambda n, p, t: (f(n, p[0]), n * t[0]))
    return lambda x: f(3, x)


def _nondiff_vjp(J: Any) -> Any:
    f = J.custom_vjp(lambda n, x: x**n, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (x**n, x), lambda n, r, g: (n * r * g,))
    return lambda x: f(3, x)


def _clip(J: Any) -> Any:
    f = J.custom_vjp(lambda x, lo: x)
    f.defvjp(lambda x, lo: (x, lo), lambda lo, g: (J.jnp.clip(g, lo, 0.5), None))
    return lambda x: f(x * 2, -0.5)


def _symbolic(J: Any) -> Any:
    f = J.custom_jvp(lambda x, y: x * y)

    def rule(p: Any, t: Any) -> Any:
        x, y = p
        dx, dy = t
        zero = J.custom_derivatives.SymbolicZero
        out = J.jnp.zeros_like(x)
        out = out if isinstance(dx, zero) else out + dx * y
        return f(x, y), out if isinstance(dy, zero) else out + dy * x

    f.defjvp(rule, symbolic_zeros=True)
    return lambda x: f(x, 3.0)


def _tree(J: Any) -> Any:
    f = J.custom_vjp(lambda p: {"o": p["a"] * p["b"]})
    f.defvjp(lambda p: (f(p), p), lambda r, g: ({"a": g["o"] * r["b"], "b": g["o"]},))
    return lambda x: f({"a": x, "b": x + 1})["o"]


def _relu(J: Any) -> Any:
    return J.nn.relu


CUSTOM: dict[str, Any] = {
    "jvp": _custom_jvp,
    "defjvps": _defjvps,
    "vjp": _custom_vjp,
    "nondiff_jvp": _nondiff_jvp,
    "nondiff_vjp": _nondiff_vjp,
    "clip": _clip,
    "symbolic": _symbolic,
    "tree": _tree,
    "relu": _relu,
}


@family("checkpoint_policies", Tol(64, True))
def checkpoints(add: Adder) -> None:
    """Gradients stay the same under every policy."""
    names = ("everything_saveable", "nothing_saveable", "dots_saveable", "checkpoint_dots")
    names += ("dots_with_no_batch_dims_saveable", "checkpoint_dots_with_no_batch_dims")
    x = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)

    def body(J: Any, x: Any) -> Any:
        h = J.ad_checkpoint.checkpoint_name(J.jnp.sin(x @ x), "h")
        return J.jnp.sum(J.jnp.cos(h) @ x)

    def run(J: Any, x: Any, policy: Any) -> Any:
        return J.grad(J.checkpoint(lambda v: body(J, v), policy=policy))(x)

    for name in names:
        fn = lambda J, x, name=name: run(J, x, getattr(J.checkpoint_policies, name))
        add(name, fn, [x], modes=VALUE)
    add("save_only", lambda J, x: run(J, x, J.checkpoint_policies.save_only_these_names("h")), [x])
    add(
        "save_any_but",
        lambda J, x: run(J, x, J.checkpoint_policies.save_any_names_but_these("h")),
        [x],
    )
    add(
        "save_except",
        lambda J, x: run(J, x, J.checkpoint_policies.save_anything_except_these_names("h")),
        [x],
    )
    both = lambda J, x: run(
        J,
        x,
        J.checkpoint_policies.save_from_both_policies(
            J.checkpoint_policies.dots_saveable, J.checkpoint_policies.save_only_these_names("h")
        ),
    )
    add("both", both, [x])
    add(
        "prevent_cse",
        lambda J, x: J.grad(J.checkpoint(lambda v: body(J, v), prevent_cse=False))(x),
        [x],
    )
    static = lambda J, x: J.grad(J.checkpoint(lambda v, n: J.jnp.sum(v**n), static_argnums=(1,)))(
        x, 3
    )
    add("static", static, [x])
    add("remat", lambda J, x: J.hessian(J.remat(lambda v: body(J, v)))(x), [x])
