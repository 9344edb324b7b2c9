"""What a GPU does: calls, arrays, products, attention, networks and loops, next to JAX and compiled
torch. Arrays stay on the device, calls follow each other, and only the last one is waited for.

Budgets are for an H200. The networks are those of `cuda_models`.
"""

from __future__ import annotations

from typing import Any

from bench.rows import JAX_CUDNN, Program, Row, same
from bench.suites import cuda_models as models
from bench.suites import debugging, shapes
from bench.suites import torch_cuda as torch_rows
from bench.suites.cuda_models import draw

LONG = 128 << 20
TALL = 16384, 4096
ROUNDS = 1000
HEADS = 8, 4096, 16, 128


def row(name: str, about: str, budget: float, setup: Any, torch: Any = None, **more: Any) -> Row:
    setups = same(setup) | more.pop("others", {}) | ({} if torch is None else {"torch": torch})
    settings: dict[str, Any] = {"clock": "wall", "limit": 60.0, "gpu": True} | more
    return Row(name, about, setups, budget=budget, **settings)


def program(function: Any, arguments: Any, dtype: str | None = None) -> Any:
    """A setup whose function takes the library's top module first, then what is made for it."""
    return lambda module: Program(lambda *a: function(module, *a), arguments(), dtype, wait=False)


def network(function: Any, arguments: Any, dtype: str | None = None, **settings: Any) -> Any:
    """A setup whose function is made for the library's top module."""
    return lambda module: Program(function(module, **settings), arguments(), dtype, wait=False)


def sized(*shapes: tuple[int, ...]) -> Any:
    return lambda: tuple(draw(*shape, scale=1.0) for shape in shapes)


# --- arrays ---------------------------------------------------------------------------------------


def chain(m: Any, x: Any) -> Any:
    for i in range(10):
        x = m.numpy.sin(x) * 1.1 + 0.5 if i % 5 == 0 else x * 1.01 + 0.5
    return x


def arithmetic(m: Any, x: Any) -> Any:
    for _ in range(5):
        x = x * 1.01 + 0.5
    return x


def layer_norm(m: Any, x: Any) -> Any:
    mean = x.mean(1, keepdims=True)
    return (x - mean) / m.numpy.sqrt(x.var(1, keepdims=True) + 1e-5)


def drawn(m: Any, x: Any) -> Any:
    return m.random.normal(m.random.key(0), (LONG,)) * x


def attention(m: Any, **settings: Any) -> Any:
    def run(q: Any, k: Any, v: Any, g: Any) -> Any:
        attend = lambda *a: m.nn.dot_product_attention(*a, is_causal=True, **settings)
        out, back = m.vjp(attend, q, k, v)
        return out, back(g)

    return run


# --- loops ----------------------------------------------------------------------------------------


def recurrent(m: Any, w: Any, xs: Any) -> Any:
    step = lambda h, x: (m.numpy.tanh(h @ w + x), None)
    return m.lax.scan(step, m.numpy.zeros(xs.shape[1:]), xs)[0]


def counted(m: Any, x: Any) -> Any:
    again = lambda c: c[0] < ROUNDS
    return m.lax.while_loop(again, lambda c: (c[0] + 1, c[1] * 0.999 + 1), (0, x))[1]


def _scores() -> float:
    batch, length, heads, depth = HEADS
    return 3.5 * 2.0 * batch * heads * length**2 * depth  # half of the scores are seen


MOVED, MATRIX = 8.0 * LONG, 8.0 * TALL[0] * TALL[1]
TB, TFLOP = {"unit": "TB/s"}, {"unit": "TFLOP/s"}
CUDNN = {"implementation": "cudnn"}
NARROW = "bfloat16"

_training = network(models.training, models.training_arguments)
_cudnn = network(models.training, models.training_arguments, **CUDNN)
_images = network(models.images_step, models.images_arguments)

ROWS_OF_ARRAYS = [
    row(
        "dispatch",
        "a + b of 16 elements, calls without waiting",
        4,
        program(lambda m, a, b: a + b, sized((16,), (16,))),
        torch_rows.arrays(lambda t, a, b: a + b, sized((16,), (16,))),
    ),
    row(
        "chain of 10",
        "products and sums of elements, 512 MB",
        4.0,
        program(arithmetic, sized((LONG,))),
        torch_rows.arrays(arithmetic, sized((LONG,))),
        work=MOVED,
        **TB,
    ),
    row(
        "chain with sines",
        "products and sums, two sines, 512 MB",
        4.0,
        program(chain, sized((LONG,))),
        torch_rows.arrays(torch_rows.chain, sized((LONG,))),
        work=MOVED,
        **TB,
    ),
    row(
        "softmax",
        "of the rows of 16k x 4k float32",
        4.0,
        program(lambda m, x: m.nn.softmax(x), sized(TALL)),
        torch_rows.arrays(lambda t, x: t.softmax(x, -1), sized(TALL)),
        work=MATRIX,
        **TB,
    ),
    row(
        "layer norm",
        "of the rows of 16k x 4k float32",
        4.0,
        program(layer_norm, sized(TALL)),
        torch_rows.arrays(torch_rows.layer_norm, sized(TALL)),
        work=MATRIX,
        **TB,
    ),
    row(
        "cumsum",
        "of 128 M float32",
        3.0,
        program(lambda m, x: m.numpy.cumsum(x), sized((LONG,))),
        torch_rows.arrays(lambda t, x: t.cumsum(x, 0), sized((LONG,))),
        work=MOVED,
        **TB,
    ),
    row(
        "normal",
        "128 M numbers drawn and scaled, bytes written",
        2.5,
        program(drawn, sized(())),
        torch_rows.arrays(lambda t, x: t.randn(LONG, device="cuda") * x, sized(())),
        work=MOVED / 2,
        **TB,
    ),
    row(
        "sort",
        "16 M float32",
        0.7,
        program(lambda m, x: m.numpy.sort(x), sized((16 << 20,))),
        torch_rows.arrays(lambda t, x: t.sort(x)[0], sized((16 << 20,))),
        unit="ms",
    ),
    row(
        "gelu(A @ A)",
        "8192 squared, bfloat16",
        790,
        program(lambda m, x: m.nn.gelu(x @ x), sized((8192, 8192)), NARROW),
        torch_rows.arrays(torch_rows.gelu_product, sized((8192, 8192)), NARROW),
        work=2.0 * 8192**3,
        **TFLOP,
    ),
    row(
        "attention",
        "forward and gradients, causal, bfloat16, 8 x 4096, 16 heads of 128",
        500,
        network(attention, sized(*[HEADS] * 4), NARROW),
        torch_rows.attention,
        others={JAX_CUDNN: network(attention, sized(*[HEADS] * 4), NARROW, **CUDNN)},
        work=_scores(),
        **TFLOP,
    ),
]
ROWS_OF_PROGRAMS = [
    row(
        "MLP step",
        "gradient descent, 784, 512, 10, batch 128",
        60,
        network(models.network_step, models.network_arguments),
        torch_rows.network_step,
    ),
    row(
        "GPT step",
        "Adam, 12 layers of 1,024, 8 x 1,024 tokens, bfloat16",
        17,
        _training,
        torch_rows.training,
        others={JAX_CUDNN: _cudnn},
        unit="ms",
    ),
    row(
        "GPT step, first call",
        "from Python to the result in a new process",
        4,
        _training,
        torch_rows.training,
        others={JAX_CUDNN: _cudnn},
        unit="s",
        kind="cold",
    ),
    row(
        "ResNet-50 step",
        "gradient descent, batch 128, bfloat16",
        20,
        _images,
        torch_rows.images_step,
        unit="ms",
    ),
    row(
        "ResNet-50 step, first call",
        "from Python to the result in a new process",
        4,
        _images,
        torch_rows.images_step,
        unit="s",
        kind="cold",
    ),
    row(
        "decode",
        "a token of 12 layers of 1,024 with keys and values kept, batch 1",
        200,
        network(models.decoding, models.decoding_arguments, NARROW),
        torch_rows.decoding,
        per=models.TOKENS,
    ),
    row(
        "scan, a step",
        "recurrent network, 64 x 256",
        5,
        program(recurrent, sized((256, 256), (ROUNDS, 64, 256))),
        per=ROUNDS,
    ),
    row(
        "while, a step",
        "256 elements",
        1.5,
        program(counted, sized((256,))),
        per=ROUNDS,
    ),
]
ROWS_OF_SHAPES = [
    Row(
        found.name,
        f"{found.about}; all of them for the first time",
        found.setups,
        kind="cold",
        unit="ms",
        clock="wall",
        ratio=shapes.TARGET,
        limit=180.0,
        gpu=True,
    )
    for found in shapes.ROWS
]
# Elements that end at their own time: the skewed rows next to the equal ones.
ROWS_OF_BATCHES = debugging.batched(debugging.BATCHED, gpu=True, clock="wall", ratio=1.0)
# Training steps with errors inside compiled code on and off: `--rows checks` has all of them.
_LARGE = {
    "GPT": lambda m: (models.training(m), models.training_arguments()),
    "ResNet-50": lambda m: (models.images_step(m), models.images_arguments()),
}
ROWS_OF_CHECKS = debugging.checked_steps(_LARGE, gpu=True, clock="wall")
ROWS = [*ROWS_OF_ARRAYS, *ROWS_OF_PROGRAMS, *ROWS_OF_SHAPES, *ROWS_OF_BATCHES, *ROWS_OF_CHECKS]
