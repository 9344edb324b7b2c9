"""Peak memory of training steps and updates of many small arrays on one GPU, by weft and JAX:
``python -m bench.gpu_steps [--json FILE] [--rows TEXT] [--small]``.

Each row has a process of its own for each library. Rows of weft that compute values again have all
programs do so (``WEFT_GPU_REMATERIALISE=0``). A peak is that of the device's memory, arguments
included; a time is that of calls that follow each other, over their number, and of updates also
over the number of arrays.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.suites import cuda_models as models

LEAVES = 1000
# Seconds that a row may take, with its first call.
LIMIT = 120.0
# Settings of a library that is measured twice.
AGAIN = {"WEFT_GPU_REMATERIALISE": "0"}


def _unet(m: Any) -> Callable[..., Any]:
    """Gradient descent of a network of convolutions, group norms and shortcuts, of three sizes."""
    conv = lambda x, w, s=1: m.lax.conv_general_dilated(
        x, w, (s, s), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )

    def norm(x: Any) -> Any:
        groups = x.reshape(*x.shape[:3], 8, -1)
        mean = groups.mean((1, 2, 4), keepdims=True)
        variance = groups.var((1, 2, 4), keepdims=True)
        return ((groups - mean) * m.lax.rsqrt(variance + 1e-5)).reshape(x.shape)

    def block(x: Any, first: Any, second: Any) -> Any:
        y = conv(m.nn.silu(norm(x)), first)
        return conv(m.nn.silu(norm(y)), second) + x

    def loss(params: Any, x: Any) -> Any:
        kept = []
        y = conv(x, params[0])
        for i in range(2):
            y = block(y, params[1 + 2 * i], params[2 + 2 * i])
            kept.append(y)
            y = y[:, ::2, ::2]
        for i in (1, 0):
            y = m.numpy.repeat(m.numpy.repeat(y, 2, 1), 2, 2) + kept[i]
            y = block(y, params[5 + 2 * i], params[6 + 2 * i])
        return ((y.mean(-1) - x.mean(-1)) ** 2).mean()

    def step(params: Any, x: Any) -> Any:
        value, grads = m.value_and_grad(loss)(params, x)
        return value, m.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return step


def _unet_arguments() -> tuple[Any, ...]:
    count, side = (1, 16) if SMALL else (64, 64)
    params = [models.draw(3, 3, 3, 64)] + [models.draw(3, 3, 64, 64) for _ in range(8)]
    return params, models.draw(count, side, side, 3, scale=1.0)


SMALL = "--small" in sys.argv


def _sized(kind: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = {"equal": [64] * LEAVES, "odd": rng.integers(1, 5000, LEAVES).tolist()}[kind]
    return [models.draw(int(n), scale=1.0) for n in sizes[:: 50 if SMALL else 1]]


def _plus(m: Any) -> Callable[..., Any]:
    return lambda tree: m.tree.map(lambda x: x + 1, tree)


def _adam(m: Any) -> Callable[..., Any]:
    def step(params: Any, grads: Any, first: Any, second: Any) -> Any:
        each = m.tree.map
        first = each(lambda a, g: 0.9 * a + 0.1 * g, first, grads)
        second = each(lambda b, g: 0.95 * b + 0.05 * g * g, second, grads)
        change = lambda p, a, b: p - 1e-4 * a / (m.numpy.sqrt(b) + 1e-8)
        return each(change, params, first, second), first, second

    return step


# The function of a row, its arguments, and whether it is of many arrays.
ROWS: dict[str, tuple[Callable[[Any], Any], Callable[[], tuple[Any, ...]], bool]] = {
    "GPT step": (models.training, models.training_arguments, False),
    "ResNet-50 step": (models.images_step, models.images_arguments, False),
    "U-Net step": (_unet, _unet_arguments, False),
    "x + 1, equal leaves": (_plus, lambda: (_sized("equal"),), True),
    "x + 1, odd leaves": (_plus, lambda: (_sized("odd"),), True),
    "Adam, equal leaves": (_adam, lambda: tuple(_sized("equal") for _ in range(4)), True),
    "Adam, odd leaves": (_adam, lambda: tuple(_sized("odd") for _ in range(4)), True),
}


def measured(library: str, name: str) -> dict[str, float]:
    """A row in this process: seconds of the first call and of later ones, and the peak in MiB."""
    m = importlib.import_module(library)
    make, arguments, many = ROWS[name]
    args = m.tree.map(m.numpy.asarray, arguments())
    m.block_until_ready(args)
    run = m.jit(make(m))
    began = time.perf_counter()
    m.block_until_ready(run(*args))
    found = {"first": time.perf_counter() - began}
    for _ in range(3):
        m.block_until_ready(run(*args))
    count, best = 10, float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(count):
            out = run(*args)
        m.block_until_ready(out)
        best = min(best, (time.perf_counter() - began) / count)
    stats = m.devices()[0].memory_stats() or {}
    found |= {"us": 1e6 * best, "peak": stats.get("peak_bytes_in_use", 0) / 2**20}
    return found | ({"us a leaf": 1e6 * best / len(args[0])} if many else {})


def _asked(library: str, name: str, more: dict[str, str]) -> dict[str, Any]:
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | more
    command = [sys.executable, "-m", "bench.gpu_steps", "--work", library, "--rows", name]
    try:
        done = subprocess.run(
            [*command, *["--small"] * SMALL],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))
    except (subprocess.TimeoutExpired, IndexError, json.JSONDecodeError) as error:
        return {"error": f"{type(error).__name__}"}


def _told(name: str, figures: dict[str, dict[str, Any]]) -> str:
    theirs = figures["jax"]
    parts = []
    for library, found in figures.items():
        if "error" in found:
            parts.append(f"{library} {found['error']}")
            continue
        text = f"{library} {found['us']:,.0f} us, peak {found['peak']:,.0f} MiB"
        text += f", first {found['first']:.2f} s"
        if "us a leaf" in found:
            text += f", {found['us a leaf']:.2f} us a leaf"
        if library != "jax" and "error" not in theirs and theirs["peak"]:
            ratios = [found[key] / theirs[key] for key in ("us", "peak", "first")]
            text += " (time {:.2f}, peak {:.2f}, first {:.2f} of JAX's)".format(*ratios)
        parts.append(text)
    return f"{name}: " + "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu_steps", description=__doc__)
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--only", choices=("weft", "jax"), help="only this library")
    parser.add_argument("--small", action="store_true", help="fewer arrays and images")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(measured(options.work, options.rows)))
        return
    whole: dict[str, Any] = {}
    for name, (_, _, many) in ROWS.items():
        if options.rows not in name:
            continue
        ways = {"jax": ("jax", {}), "weft": ("weft", {})}
        if not many:
            ways["weft, computing again"] = ("weft", AGAIN)
        if options.only:
            ways = {key: way for key, way in ways.items() if way[0] == options.only}
        whole[name] = {key: _asked(way, name, more) for key, (way, more) in ways.items()}
        print(_told(name, {"jax": {"error": "not run"}, **whole[name]}), flush=True)
        if options.json:
            options.json.write_text(json.dumps(whole))


if __name__ == "__main__":
    main()
