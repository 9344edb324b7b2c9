"""Programs as users write them; each takes the library, so that weft and JAX can run the same."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np


def perceptron(jax):
    """Training of a small classifier: random keys, nested parameters, value_and_grad in jit."""
    jnp, random = jax.numpy, jax.random

    def init(key, sizes):
        keys = random.split(key, len(sizes) - 1)
        return [
            {"w": random.normal(k, (m, n)) * jnp.sqrt(2 / m), "b": jnp.zeros(n)}
            for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]

    def forward(params, x):
        *hidden, last = params
        for layer in hidden:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]

    def loss(params, x, y):
        logp = jax.nn.log_softmax(forward(params, x))
        return -jnp.mean(jnp.sum(logp * jax.nn.one_hot(y, 3), axis=-1))

    @jax.jit
    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    data_key, init_key = random.split(random.key(0))
    x = random.normal(data_key, (32, 4))
    y = jnp.argmax(x[:, :3], axis=1)
    params = init(init_key, [4, 16, 3])
    losses = []
    for _ in range(20):
        params, value = step(params, x, y)
        losses.append(value)
    return jnp.stack(losses[::5]), params[-1]["b"]


def logistic_regression(jax):
    """Newton's method with an exact Hessian."""
    jnp = jax.numpy
    rng = np.random.RandomState(0)
    x = jnp.asarray(rng.randn(50, 3), jnp.float32)
    y = jnp.asarray(rng.rand(50) > 0.5, jnp.float32)

    def loss(w):
        z = x @ w
        return jnp.mean(jnp.logaddexp(0.0, z) - y * z) + 0.005 * jnp.vdot(w, w)

    w = jnp.zeros(3)
    for _ in range(6):
        w = w - jnp.linalg.solve(jax.hessian(loss)(w), jax.grad(loss)(w))
    return w, loss(w)


def meta_learning(jax):
    """A gradient of a loss after a gradient step, over a batch of tasks."""
    jnp = jax.numpy

    def loss(p, x, y):
        return jnp.mean((jnp.tanh(x * p["a"] + p["b"]) @ p["c"] - y) ** 2)

    def adapted(p, x, y):
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x, y))

    def outer(p, x, y):
        return loss(adapted(p, x, y), x * 0.5, y * 0.7)

    p = {"a": jnp.linspace(-1, 1, 5), "b": jnp.linspace(0, 1, 5), "c": jnp.ones(5) * 0.3}
    amplitudes = jnp.array([0.5, 1.0, 1.5])
    xs = jnp.linspace(-2, 2, 8)[:, None] * jnp.ones((3, 1, 1))
    ys = amplitudes[:, None] * jnp.sin(xs[..., 0])
    tasks = jax.vmap(outer, in_axes=(None, 0, 0))
    return jax.jit(jax.value_and_grad(lambda p: jnp.mean(tasks(p, xs, ys))))(p)


def recurrent_network(jax):
    """Back-propagation through a scan, and the scan over a batch."""
    jnp, lax = jax.numpy, jax.lax
    rng = np.random.RandomState(1)
    params = {
        "h": jnp.asarray(rng.randn(4, 4) * 0.3, jnp.float32),
        "x": jnp.asarray(rng.randn(4, 2), jnp.float32),
        "b": jnp.zeros(4),
    }
    xs = jnp.asarray(rng.randn(6, 2), jnp.float32)

    def run(p, xs):
        def cell(h, x):
            h = jnp.tanh(p["h"] @ h + p["x"] @ x + p["b"])
            return h, h

        return lax.scan(cell, jnp.zeros(4), xs)

    value, grads = jax.jit(jax.value_and_grad(lambda p: jnp.sum(run(p, xs)[1][-1] ** 2)))(params)
    states, _ = jax.vmap(run, (None, 0))(params, jnp.stack([xs, xs * 2]))
    return value, grads["h"], grads["b"], states


def square_roots(jax):
    """A while loop over a batch, and its forward derivative."""
    jnp, lax = jax.numpy, jax.lax

    @jax.jit
    def root(a):
        def unfinished(state):
            x, i = state
            return (jnp.abs(x * x - a) > 1e-6) & (i < 50)

        def newton(state):
            x, i = state
            return x - (x * x - a) / (2 * x), i + 1

        return lax.while_loop(unfinished, newton, (a, 0))

    roots = jax.vmap(lambda a: root(a)[0])(jnp.array([2.0, 3.0, 10.0]))
    return roots, jax.jvp(lambda a: root(a)[0], (2.0,), (1.0,)), root(2.0)[1]


def clipped_gradients(jax):
    """Gradients of every example, clipped by their norm."""
    jnp = jax.numpy
    rng = np.random.RandomState(2)
    params = {"w": jnp.asarray(rng.randn(2, 3), jnp.float32), "b": jnp.zeros(2)}
    x, y = jnp.asarray(rng.randn(5, 3), jnp.float32), jnp.ones((5, 2))

    def loss(p, x, y):
        return jnp.sum((jnp.tanh(jnp.dot(p["w"], x) + p["b"]) - y) ** 2)

    def norm(tree):
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)))

    grads = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))(params, x, y)
    norms = jax.vmap(norm)(grads)
    factors = 1 / jnp.maximum(1.0, norms)
    return norms, jax.tree.map(lambda g: jnp.tensordot(factors, g, 1) / 5, grads)


def gauss_newton(jax):
    """A curve fitted by least squares with Jacobians, and products with J'J."""
    jnp = jax.numpy
    t = jnp.linspace(0.0, 2.0, 10)
    y = 2.5 * jnp.exp(-1.3 * t)

    def residual(p):
        return p[0] * jnp.exp(-p[1] * t) - y

    p = jnp.array([1.0, 1.0])
    for _ in range(8):
        p = p - jnp.linalg.lstsq(jax.jacfwd(residual)(p), residual(p))[0]

    def product(v):
        _, pushed = jax.jvp(residual, (p,), (v,))
        return jax.vjp(residual, p)[1](pushed)[0]

    return p, jax.vmap(product)(jnp.eye(2))


def oscillator(jax):
    """A Runge-Kutta solver as a scan, differentiated by a parameter and the initial state."""
    jnp, lax = jax.numpy, jax.lax

    def solve(mu, y0):
        def f(y):
            return jnp.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

        def step(y, dt):
            k1 = f(y)
            k2 = f(y + dt / 2 * k1)
            k3 = f(y + dt / 2 * k2)
            k4 = f(y + dt * k3)
            return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

        return lax.scan(step, y0, jnp.full(40, 0.05))

    y0 = jnp.array([2.0, 0.0])
    end, path = jax.jit(solve)(1.0, y0)
    by_parameter = jax.grad(lambda mu: solve(mu, y0)[0][0])(1.0)
    return end, path[::10], by_parameter, jax.jacfwd(lambda y: solve(1.0, y)[0])(y0)


def clusters(jax):
    """k-means with static arguments, one-hot products and a random start."""
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    centres = [jnp.array([0.0, 0.0]), jnp.array([3.0, 3.0]), jnp.array([0.0, 3.0])]
    points = jnp.concatenate(
        [random.normal(random.key(i), (20, 2)) * 0.3 + c for i, c in enumerate(centres)]
    )

    @partial(jax.jit, static_argnames=("k", "steps"))
    def fit(points, k, steps=10):
        def improve(_, c):
            nearest = jnp.argmin(jnp.sum((points[:, None] - c[None]) ** 2, -1), 1)
            member = jax.nn.one_hot(nearest, k)
            count = member.sum(0)[:, None]
            return jnp.where(count > 0, (member.T @ points) / jnp.maximum(count, 1), c)

        start = random.choice(random.key(5), points.shape[0], (k,), replace=False)
        return lax.fori_loop(0, steps, improve, points[start])

    c = fit(points, k=3)
    return c[jnp.lexsort((c[:, 1], c[:, 0]))]


def chains(jax):
    """Metropolis chains: keys split, folded and mapped over."""
    jnp, lax, random = jax.numpy, jax.lax, jax.random

    def log_density(x):
        return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.cos(3 * x))

    def step(x, key):
        move, decide = random.split(key)
        proposal = x + 0.5 * random.normal(move, x.shape)
        accept = jnp.log(random.uniform(decide)) < log_density(proposal) - log_density(x)
        return jnp.where(accept, proposal, x), accept

    @jax.jit
    def chain(key):
        return lax.scan(step, jnp.zeros(2), random.split(key, 100))

    end, accepted = jax.vmap(chain)(random.split(random.key(42), 4))
    logits = jnp.log(jnp.array([0.2, 0.3, 0.5]))
    return (
        end,
        accepted.mean(axis=1),
        random.permutation(random.key(1), 10),
        random.randint(random.PRNGKey(3), (5,), 0, 100),
        random.categorical(random.fold_in(random.key(7), 2), logits, shape=(8,)),
    )


def custom_rules(jax):
    """A square root that is safe at zero, a gradient that is clipped, and a checkpoint."""
    jnp = jax.numpy

    @jax.custom_jvp
    def root(x):
        return jnp.sqrt(jnp.maximum(x, 0.0))

    @root.defjvp
    def _(primals, tangents):
        y = root(primals[0])
        return y, tangents[0] * jnp.where(y > 0, 0.5 / jnp.where(y > 0, y, 1.0), 0.0)

    @jax.custom_vjp
    def gentle(x):
        return x

    gentle.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1.0, 1.0),))

    @jax.checkpoint
    def block(w, x):
        return jnp.tanh(w @ jnp.sin(gentle(x)))

    x = jnp.array([0.0, 1.0, 4.0])
    w = jnp.arange(9.0).reshape(3, 3) / 9
    return (
        jax.grad(lambda x: root(x).sum())(x),
        jax.vmap(jax.hessian(root))(x[1:]),
        jax.jit(jax.grad(lambda x: (gentle(x) ** 2).sum()))(x),
        jax.jit(jax.grad(lambda w: block(w, block(w, x)).sum()))(w),
    )


def named_axes(jax):
    """Statistics over a mapped axis that has a name."""
    jnp, lax = jax.numpy, jax.lax

    def normalize(x):
        return (x - lax.pmean(x, "i")) / jnp.sqrt(lax.pmean(x * x, "i") + 1e-6)

    mapped = jax.vmap(normalize, axis_name="i")
    x = jnp.arange(6.0).reshape(3, 2)
    total = jax.vmap(lambda x: lax.psum(x, ("a", "b")), axis_name="b")
    turn = [(0, 1), (1, 2), (2, 0)]
    return (
        mapped(x),
        jax.grad(lambda x: mapped(x)[0, 0])(x),
        jax.vmap(total, axis_name="a")(x),
        jax.vmap(lambda x: x * lax.axis_index("i"), axis_name="i")(x),
        jax.vmap(lambda x: lax.ppermute(x, "i", turn), axis_name="i")(x),
    )


def attention(jax):
    """Masked attention with einsum, softmax and a residual normalised."""
    jnp, random = jax.numpy, jax.random
    keys = random.split(random.key(0), 5)
    p = {n: random.normal(k, (4, 2, 2)) * 0.5 for n, k in zip("qkv", keys, strict=False)}
    p["o"] = random.normal(keys[3], (2, 2, 4)) * 0.5
    x = random.normal(keys[4], (2, 3, 4))
    mask = jnp.tril(jnp.ones((3, 3), bool))

    def normalize(x):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(variance + 1e-5)

    def attend(p, x):
        q, k, v = (jnp.einsum("btd,dhk->bhtk", x, p[n]) for n in "qkv")
        scores = jnp.einsum("bhtk,bhsk->bhts", q, k) / jnp.sqrt(2)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return jnp.einsum("bhts,bhsk,hkd->btd", weights, v, p["o"])

    loss = jax.jit(lambda p: jnp.sum(normalize(x + attend(p, normalize(x))) ** 3))
    grads = jax.grad(loss)(p)
    return loss(p), grads["q"], grads["o"]


def implicit_functions(jax):
    """Roots and linear solves with their implicit derivatives."""
    jnp, lax = jax.numpy, jax.lax

    def root(a):
        def newton(f, x0):
            return lax.fori_loop(0, 30, lambda _, x: x - f(x) / (3 * x * x + 1), x0)

        return lax.custom_root(lambda x: x**3 + x - a, 1.0, newton, lambda g, y: y / g(1.0))

    def conjugate_gradients(matvec, b):
        def step(state):
            x, r, p, i = state
            product = matvec(p)
            length = r @ r / (p @ product)
            rest = r - length * product
            return x + length * p, rest, rest + (rest @ rest) / (r @ r) * p, i + 1

        return lax.while_loop(lambda s: s[3] < 2, step, (jnp.zeros_like(b), b, b, 0))[0]

    def solve(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, conjugate_gradients, symmetric=True)

    a, b = jnp.array([[4.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 2.0])
    return root(10.0), jax.grad(root)(10.0), solve(a, b), jax.jacobian(solve)(a, b)


def structures(jax):
    """A dataclass of arrays and a static field through jit, grad, vmap and tree functions."""
    jnp = jax.numpy

    @partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["name"])
    @dataclasses.dataclass
    class Layer:
        w: Any
        b: Any
        name: str

    layer = Layer(jnp.ones((2, 2)), jnp.zeros(2), "dense")
    moved = jax.jit(lambda l, x: Layer(l.w * 2, l.b + x, l.name + "!"))(layer, 1.0)
    grads = jax.grad(lambda l: jnp.sum(l.w**2) + jnp.sum(l.b))(layer)
    mapped = jax.vmap(lambda l: l.w.sum() + l.b)(layer)
    paths = [jax.tree_util.keystr(k) for k, _ in jax.tree_util.tree_leaves_with_path(layer)]
    assert (moved.name, grads.name, paths) == ("dense!", "dense", [".w", ".b"])
    update = jax.jit(lambda s, x: (s + x, s * x), donate_argnums=0)
    state = jnp.ones(4)
    updated = update(state, jnp.arange(4.0))
    assert state.is_deleted()
    return moved.w, moved.b, grads.w, grads.b, mapped, updated


PROGRAMS = {
    f.__name__: f
    for f in (
        perceptron,
        logistic_regression,
        meta_learning,
        recurrent_network,
        square_roots,
        clipped_gradients,
        gauss_newton,
        oscillator,
        clusters,
        chains,
        custom_rules,
        named_axes,
        attention,
        implicit_functions,
        structures,
    )
}
