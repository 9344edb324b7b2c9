"""Figures of a GPU: ``python -m bench.gpu [TEXT ...]`` times rows that have a text in their name.

Arrays stay on the device, time is the device's own between two events, and the best of ten runs
counts. Bytes are those of operands and results, once each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from bench.gpu_model import training_step
from weft import lax, nn, random
from weft import numpy as jnp
from weft.backends.cuda import driver
from weft.backends.cuda.commands import length
from weft.backends.cuda.program import Cuda, put

LONG = 128 << 20
ROWS = 16384, 4096


@dataclass(frozen=True)
class Row:
    """A function and its operands; what it moves or computes says what is shown."""

    name: str
    fun: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: Any = np.float32
    bytes: float = 0.0
    flops: float = 0.0
    steps: int = 0


def chain(x: Any) -> Any:
    for i in range(10):
        x = jnp.sin(x) * 1.1 + 0.5 if i % 5 == 0 else x * 1.01 + 0.5
    return x


def layer_norm(x: Any) -> Any:
    mean = x.mean(1, keepdims=True)
    return (x - mean) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)


def network_step(w1: Any, w2: Any, x: Any, y: Any) -> Any:
    def loss(w1: Any, w2: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w1) @ w2 - y) ** 2)

    g1, g2 = weft.grad(loss, (0, 1))(w1, w2)
    return w1 - 0.1 * g1, w2 - 0.1 * g2


def attention(q: Any, k: Any, v: Any) -> Any:
    return nn.dot_product_attention(q, k, v, is_causal=True)


def attention_gradients(q: Any, k: Any, v: Any, g: Any) -> Any:
    out, back = weft.vjp(attention, q, k, v)
    return out, back(g)


def recurrent(w: Any, xs: Any) -> Any:
    step = lambda h, x: (jnp.tanh(h @ w + x), None)
    return lax.scan(step, jnp.zeros(xs.shape[1:]), xs)[0]


def counted(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 1000, lambda c: (c[0] + 1, c[1] * 0.999 + 1), (0, x))[1]


def _attention_rows() -> list[Row]:
    rows = []
    for batch, length_, heads, depth in ((8, 2048, 16, 64), (4, 4096, 16, 128)):
        shape = (batch, length_, heads, depth)
        flops = 2.0 * batch * heads * length_**2 * depth  # half of the scores are seen
        one, two = ("attention, causal", "attention with gradients, causal")
        rows.append(Row(f"{one}, {shape}", attention, (shape,) * 3, jnp.bfloat16, flops=flops))
        flops *= 3.5
        rows.append(
            Row(f"{two}, {shape}", attention_gradients, (shape,) * 4, jnp.bfloat16, flops=flops)
        )
    return rows


def rows() -> list[Row]:
    array, matrix = 8.0 * LONG, 8.0 * ROWS[0] * ROWS[1]
    square = ((8192, 8192),)
    product = 2.0 * 8192**3
    key = random.key(0)
    return [
        Row("add, two small arrays", jnp.add, ((16,), (16,))),
        Row("x + 1, 512 MB", lambda x: x + 1, ((LONG,),), bytes=array),
        Row("chain of 10 with 2 sines, 512 MB", chain, ((LONG,),), bytes=array),
        Row("softmax 16k x 4k", nn.softmax, (ROWS,), bytes=matrix),
        Row("layer norm 16k x 4k", layer_norm, (ROWS,), bytes=matrix),
        Row("transpose 8k x 8k", lambda x: x.T * 1.0, square, bytes=8.0 * 8192**2),
        Row("sum of all 16k x 4k", jnp.sum, (ROWS,), bytes=matrix / 2),
        Row("cumsum 128 M", jnp.cumsum, ((LONG,),), bytes=array),
        Row("cumsum of rows", lambda x: jnp.cumsum(x, 1), (ROWS,), bytes=matrix),
        Row("cumsum of columns", lambda x: jnp.cumsum(x, 0), (ROWS,), bytes=matrix),
        Row("sort 16 M", jnp.sort, ((16 << 20,),)),
        Row("argsort 16 M", jnp.argsort, ((16 << 20,),)),
        Row("normal 128 M", lambda x: random.normal(key, (LONG,)) * x, ((),), bytes=array / 2),
        Row("uniform 128 M", lambda x: random.uniform(key, (LONG,)) * x, ((),), bytes=array / 2),
        Row("A @ A 8192 bf16", lambda x: x @ x, square, jnp.bfloat16, flops=product),
        Row("gelu(A @ A) 8192 bf16", lambda x: nn.gelu(x @ x), square, jnp.bfloat16, flops=product),
        Row("network step", network_step, ((784, 512), (512, 10), (128, 784), (128, 10))),
        Row("recurrent scan", recurrent, ((256, 256), (1000, 64, 256)), steps=1000),
        Row("while", counted, ((256,),), steps=1000),
        *_attention_rows(),
    ]


def measured(row: Row, rounds: int = 10) -> str:
    """The figures of a row, as text."""
    begin = time.perf_counter()
    specs = [weft.ShapeDtypeStruct(s, row.dtype) for s in row.shapes]
    run = Cuda().compile(weft.make_jaxpr(row.fun)(*specs))
    compiled = time.perf_counter() - begin
    rng = np.random.default_rng(0)
    given = [rng.random(s, dtype=np.float32) - 0.5 for s in row.shapes]
    args = [put(np.asarray(x, row.dtype)) for x in given]
    for _ in range(3):
        run.run_on_device(args)
    timer, best = driver.Timer(), float("inf")
    for _ in range(rounds):
        timer.start()
        run.run_on_device(args)
        best = min(best, timer.stop())
    told = [f"{1e3 * best:10.1f} us"]
    told += [f"{row.bytes / best / 1e9:6.2f} TB/s"] if row.bytes else []
    told += [f"{row.flops / best / 1e9:6.0f} TFLOP/s"] if row.flops else []
    told += [f"{1e3 * best / row.steps:6.2f} us a step"] if row.steps else []
    return f"{'  '.join(told)}  ({length(run.commands)} commands, compiled in {compiled:.2f} s)"


def main() -> None:
    wanted = sys.argv[1:]
    print(driver.device().name)
    for row in rows():
        if not wanted or any(text in row.name for text in wanted):
            print(f"{row.name:50}{measured(row)}", flush=True)
    if not wanted or any(text in "training step" for text in wanted):
        print(training_step(), flush=True)


if __name__ == "__main__":
    main()
