"""Compiled functions against JAX's: calls, arrays, products, networks, loops, decompositions.

The targets are what weft may take of JAX's time on the same machine in the same run.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np

from bench.rows import Program, Row, same
from bench.suites import arrays, models, torch_models
from bench.suites.arrays import normal


def row(name: str, about: str, target: float, setup: Any, **more: Any) -> Row:
    """A row of a program for libraries with JAX's interface, and others that ``more`` names."""
    setups = same(setup) | {k: more.pop(k) for k in ("numpy", "torch") if k in more}
    settings: dict[str, Any] = {"clock": "wall", "tolerance": 1e-3} | more
    return Row(name, about, setups, ratio=target, **settings)


def program(function: Any, arguments: Any) -> Any:
    """A setup whose function takes the library's top module first, then what is made for it."""
    return lambda module: Program(lambda *a: function(module, *a), arguments())


def sized(*shape: int, count: int = 1) -> Any:
    return lambda: normal(count)(shape)


# Calls that do next to nothing.

SMALL = np.arange(10, dtype=np.float32)


def _tree(count: int) -> dict[str, Any]:
    return {f"k{i}": np.full(3, i, np.float32) for i in range(count)}


def _plain(function: Any, *args: Any, **more: Any) -> Any:
    """A setup whose function is passed as it is: nothing between the clock and the library."""
    return lambda module: Program(function, args, wait=False, **more)


def _add_two(a: Any, b: Any) -> Any:
    return a + b


def _slice(a: Any) -> Any:
    return a[2:7]


def _donated(values: Any) -> Any:
    """A setup whose calls each take the memory of the last result."""

    def setup(jax: Any) -> Any:
        step = jax.jit(
            lambda tree: jax.tree.map(lambda x: jax.numpy.maximum(x, 1), tree), donate_argnums=0
        )
        held = [jax.tree.map(jax.numpy.array, values)]

        def call() -> Any:
            held[0] = step(held[0])
            return held[0]

        return Program(call, (), compiled=False, wait=False)

    return setup


def _reference(jax: Any) -> Any:
    ref = jax.new_ref(jax.numpy.zeros(1_000_000))

    @jax.jit
    def write(i: Any) -> Any:
        ref[i] = jax.numpy.maximum(ref[i], 1)
        return ref[i]

    return Program(write, (np.int32(5),), compiled=False, wait=False)


def _classes(jax: Any) -> Program:
    """A call that takes a dataclass whose fields hold objects of a registered class."""

    class Pair:
        def __init__(self, w: Any, b: Any) -> None:
            self.w, self.b = w, b

    @dataclasses.dataclass
    class State:
        step: Any
        layers: Any
        name: str

    jax.tree_util.register_pytree_node(Pair, lambda p: ((p.w, p.b), None), lambda _, p: Pair(*p))
    jax.tree_util.register_dataclass(State, ["step", "layers"], ["name"])

    def step(state: Any) -> Any:
        return [(p.w + 1, p.b * 2) for p in state.layers]

    arrays = [*map(jax.numpy.asarray, _tree(100).values())]
    state = State(np.int32(0), list(map(Pair, arrays[::2], arrays[1::2])), "net")
    return Program(step, (state,), convert=False, wait=False)


CALLS = [
    row(
        "call a+b, 10",
        "jitted a+b of 10 elements",
        0.10,
        _plain(_add_two, SMALL, SMALL),
    ),
    row(
        "call a+b, NumPy and scalar",
        "the same with a NumPy array and a Python number",
        0.2,
        _plain(_add_two, SMALL, 2.5, convert=False),
    ),
    row(
        "call tree of 100",
        "jitted +1 of a dict of 100 small arrays",
        0.12,
        lambda jax: Program(
            lambda tree: jax.tree.map(lambda x: x + 1, tree), (_tree(100),), wait=False
        ),
    ),
    row(
        "call dataclass of 100",
        "a dataclass of 50 objects of a registered class, of two small arrays each",
        0.3,
        _classes,
    ),
    row("call donated, 10", "jitted max(a, 1), written over a", 0.2, _donated(SMALL)),
    row(
        "call donated tree of 100",
        "the same of a dict of 100 small arrays",
        0.2,
        _donated(_tree(100)),
    ),
    row("call reference, 1M", "a jitted write of one element of a reference", 0.1, _reference),
    row(
        "eager a+b, 10",
        "a+b without jit",
        0.15,
        _plain(_add_two, SMALL, SMALL, compiled=False),
        numpy=_plain(_add_two, SMALL, SMALL),
        torch=_plain(_add_two, SMALL, SMALL),
    ),
    row(
        "eager slice",
        "a[2:7] without jit",
        0.15,
        _plain(_slice, SMALL, compiled=False),
        numpy=_plain(_slice, SMALL),
        torch=_plain(_slice, SMALL),
    ),
]

ARRAYS = [
    arrays.ELEMENTWISE.row("elementwise 4M"),
    arrays.AXPY.row("2x+y 4M"),
    arrays.SUM.row("sum(x+y·x) 4M"),
    arrays.SOFTMAX.row("softmax 2048²"),
    arrays.NORM.row("layer norm 2048²"),
    arrays.COLUMNS.row("column sum 2048²"),
    arrays.TRANSPOSE.row("transpose+1 2048²"),
    arrays.CUMSUM.row("cumsum 2048²"),
    arrays.SORT.row("sort 1M"),
    arrays.ARGSORT.row("argsort 1M"),
    arrays.SORT.row("sort rows 2048²", (2048, 2048), target=0.05),
    arrays.GATHER.row("gather 1M of 4M"),
    arrays.SCATTER.row("scatter-add 1M into 4M"),
    arrays.NORMAL.row("random normal 4M"),
    arrays.UNIFORM.row("random uniform 4M"),
    arrays.MATMUL.row("matmul 1024"),
    arrays.MATMUL.row("matmul 64×128³", (64, 128, 128), target=0.55),
    arrays.RELU_MATMUL.row("relu(A@A+b) 1024"),
    arrays.MATMUL.row("matmul 1024 bf16", dtype="bfloat16", target=0.9),
    arrays.MATMUL.row("matmul 1024 f64", dtype="float64", target=0.9),
]

# Networks.


def _mlp(jax: Any) -> Program:
    return Program(models.sgd(jax, models.mlp_loss(jax)), models.mlp_arguments())


def _torch_mlp(torch: Any) -> Program:
    return Program(torch_models.sgd(torch, torch_models.mlp_loss(torch)), models.mlp_arguments())


def _conv_arguments(groups: int = 1) -> tuple[Any, ...]:
    make = models.weights()
    if groups > 1:
        return make(8, 56, 56, 64) * 100, make(3, 3, 1, 64)
    return make(32, 28, 28, 32) * 100, make(3, 3, 32, 64)


def _conv(groups: int = 1) -> Any:
    return program(
        lambda jax, x, w: models.conv(jax, x, w, groups=groups), lambda: _conv_arguments(groups)
    )


def _conv_gradient(jax: Any) -> Program:
    loss = lambda x, w: jax.numpy.sum(models.conv(jax, x, w) ** 2)
    return Program(jax.grad(loss, argnums=(0, 1)), _conv_arguments())


def _torch_conv(groups: int = 1, gradient: bool = False) -> Any:
    """Pictures with channels last in memory, as for the others; shapes as torch has them."""

    def forward(torch: Any, x: Any, w: Any) -> Any:
        x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
        return torch.nn.functional.conv2d(x, w, padding=1, groups=groups).permute(0, 2, 3, 1)

    def backward(torch: Any, x: Any, w: Any) -> Any:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad((forward(torch, x, w) ** 2).sum(), (x, w))

    return program(backward if gradient else forward, lambda: _conv_arguments(groups))


def _pictures() -> tuple[Any, ...]:
    return normal()((32, 28, 28, 32))


def _pool_gradient(jax: Any, x: Any) -> Any:
    return jax.grad(lambda v: jax.numpy.sum(models.max_pool(jax, v) ** 2))(x)


def _torch_pool(torch: Any, x: Any) -> Any:
    found = torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 2)
    return found.permute(0, 2, 3, 1)


def _torch_pool_gradient(torch: Any, x: Any) -> Any:
    x = x.detach().requires_grad_()
    return torch.autograd.grad((_torch_pool(torch, x) ** 2).sum(), x)


def _attention_arguments() -> tuple[Any, ...]:
    return normal(4)((4, 8, 256, 64))


def _attention(jax: Any) -> Program:
    jnp = jax.numpy

    def loss(query: Any, key: Any, value: Any, towards: Any) -> Any:
        scores = jnp.einsum("bhtd,bhsd->bhts", query, key) / 8
        mixed = jnp.einsum("bhts,bhsd->bhtd", jax.nn.softmax(scores, axis=-1), value)
        return jnp.sum(mixed * towards)

    return Program(jax.value_and_grad(loss, argnums=(0, 1, 2)), _attention_arguments())


def _torch_attention(torch: Any, query: Any, key: Any, value: Any, towards: Any) -> Any:
    leaves = [x.detach().requires_grad_() for x in (query, key, value)]
    mixed = torch.nn.functional.scaled_dot_product_attention(*leaves)
    loss = (mixed * towards).sum()
    return loss, torch.autograd.grad(loss, leaves)


def _language(jax: Any) -> Program:
    step = models.adam(jax, models.language_loss(jax))
    return Program(step, models.language_arguments(2))


def _torch_language(torch: Any) -> Program:
    step = torch_models.adam(torch, torch_models.language_loss(torch))
    return Program(step, models.language_arguments(2))


def _torch_resnet(torch: Any) -> Program:
    step = torch_models.sgd(torch, torch_models.resnet_loss(torch))
    return Program(step, models.resnet_arguments())


def _resnet(jax: Any) -> Program:
    return Program(models.sgd(jax, models.resnet_loss(jax)), models.resnet_arguments())


NETWORKS = [
    row("MLP step", "784-512-512-10, batch 128, SGD", 0.95, _mlp, torch=_torch_mlp),
    row("conv forward", "3×3 32→64, 32×28×28 NHWC", 0.45, _conv(), torch=_torch_conv()),
    row(
        "conv gradients",
        "3×3 32→64, 32×28×28 NHWC",
        0.22,
        _conv_gradient,
        torch=_torch_conv(gradient=True),
    ),
    row("depthwise conv", "3×3, 8×56×56×64", 0.03, _conv(64), torch=_torch_conv(64)),
    row(
        "max-pool",
        "2×2, 32×28×28×32",
        0.95,
        program(models.max_pool, _pictures),
        torch=program(_torch_pool, _pictures),
    ),
    row(
        "max-pool gradient",
        "2×2, 32×28×28×32",
        0.95,
        program(_pool_gradient, _pictures),
        torch=program(_torch_pool_gradient, _pictures),
    ),
    row(
        "attention gradient",
        "forward and gradients, 4×8 heads × 256 × 64",
        0.8,
        _attention,
        torch=program(_torch_attention, _attention_arguments),
    ),
    row(
        "transformer step",
        "2 layers, width 256, heads of 32, 128 tokens, batch 8, Adam",
        0.7,
        _language,
        torch=_torch_language,
        unit="ms",
        limit=40.0,
        tolerance=5e-3,
    ),
    row(
        "ResNet-18 step",
        "batch 16 of 32×32, SGD",
        0.6,
        _resnet,
        torch=_torch_resnet,
        unit="ms",
        limit=40.0,
        tolerance=2e-2,
    ),
]

# Loops and transformations.


def _rnn_arguments() -> tuple[Any, ...]:
    make = models.weights()
    return make(64, 64), np.zeros((8, 64), np.float32), normal()((1000, 8, 64))[0]


def _rnn(jax: Any, w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jax.numpy.tanh(h @ w + x)
        return h, h

    return jax.lax.scan(step, h, xs)


def _decay(jax: Any, w: Any, h: Any) -> Any:
    return jax.lax.scan(lambda h, _: (jax.numpy.tanh(h @ w), None), h, None, length=1000)[0]


def _rnn_gradient(jax: Any, w: Any, h: Any, xs: Any) -> Any:
    return jax.grad(lambda v: jax.numpy.mean(_rnn(jax, v, h, xs)[1] ** 2))(w)


def _numpy_rnn(np: Any, w: Any, h: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        h = np.tanh(h @ w + x)
        ys.append(h)
    return h, np.stack(ys)


def _fori(jax: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, 100_000, lambda i, v: v * 0.999 + 0.001 * i, x)


def _jacobians(jax: Any, x: Any) -> Any:
    jnp = jax.numpy
    return jax.vmap(jax.jacfwd(lambda v: jnp.tanh(v) * jnp.sum(v * v)))(x)


LOOPS = [
    row(
        "scan RNN",
        "1000 × tanh(8×64 @ 64×64 + x)",
        0.65,
        program(_rnn, _rnn_arguments),
        numpy=program(_numpy_rnn, _rnn_arguments),
    ),
    row(
        "scan that decays",
        "1000 × tanh(8×64 @ 64×64), states through denormal numbers to zero",
        0.65,
        program(
            _decay,
            lambda: (models.weights()(64, 64) * np.float32(0.8), np.ones((8, 64), np.float32)),
        ),
    ),
    row("scan RNN gradient", "of the weights", 0.5, program(_rnn_gradient, _rnn_arguments)),
    row("fori_loop 100k", "scalar steps", 0.55, program(_fori, lambda: (np.float32(1),))),
    row("vmap(jacfwd) 64×64", "tanh(v)·sum(v²)", 0.8, program(_jacobians, sized(64, 64))),
]


# Linear algebra and transforms.


def _positive() -> tuple[Any, ...]:
    a = normal()((512, 512))[0]
    return (a @ a.T + 512 * np.eye(512, dtype=np.float32),)


def _middle(results: list[np.ndarray]) -> list[np.ndarray]:
    """Of a decomposition by singular values only those: vectors have signs of their own."""
    return [results[1]]


LINALG = [
    row(
        "Cholesky 512",
        "",
        1.05,
        program(lambda jax, a: jax.numpy.linalg.cholesky(a), _positive),
        numpy=program(lambda np, a: np.linalg.cholesky(a), _positive),
        torch=program(lambda torch, a: torch.linalg.cholesky(a), _positive),
    ),
    row(
        "SVD 256",
        "full",
        1.05,
        program(lambda jax, a: tuple(jax.numpy.linalg.svd(a)), sized(256, 256)),
        numpy=program(lambda np, a: tuple(np.linalg.svd(a)), sized(256, 256)),
        torch=program(lambda torch, a: tuple(torch.linalg.svd(a)), sized(256, 256)),
        look=_middle,
    ),
    arrays.FFT.row("FFT 1M"),
]

# Large programs, constants and threads.


def _chain(jax: Any, x: Any) -> Any:
    jnp = jax.numpy
    for i in range(250):
        x = jnp.sin(x * 1.01) + 0.001 * i - jnp.abs(x) * 0.5
    return x


def _unrolled(jax: Any, x: Any, y: Any) -> Any:
    jnp = jax.numpy
    for _ in range(500):
        x = x + 0.01 * jnp.sin(y)
        y = y - 0.01 * x * jnp.mean(x) + 0.001 * y
    return x, y


def _closing_over(jax: Any) -> Program:
    large = jax.numpy.asarray(normal()((25_000_000,))[0])
    return Program(lambda x: jax.numpy.sum(large * x), (np.float32(2),))


def _threads(jax: Any) -> Program:
    function = jax.jit(lambda x: jax.numpy.tanh(x @ x * 0.01) + x)

    def calls(x: Any) -> None:
        for _ in range(20):
            function(x).block_until_ready()

    def both(x: Any) -> Any:
        threads = [threading.Thread(target=calls, args=(x,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return function(x)

    return Program(both, normal()((256, 256)), compiled=False)


PROGRAMS = [
    row("chain of 1,000", "1,250 elementwise operations, 256×256", 0.8,
        program(_chain, sized(256, 256)), limit=60.0),
    row("unrolled 5,000", "500 × 10 equations with a mean, 64 elements", 0.5,
        program(_unrolled, sized(64, count=2)), limit=60.0),
    row("closing over 100 MB", "sum(large · x)", 0.9, _closing_over),
    row("two threads", "2 × 20 calls of tanh(x@x)+x, 256×256", 1.0, _threads),
]  # fmt: skip

ROWS = [*CALLS, *ARRAYS, *NETWORKS, *LOOPS, *LINALG, *PROGRAMS]
