"""Functions of whole arrays that rows are made of: the same code for each library where it can be.

An `Op` knows nothing of sizes and dtypes; the suites choose those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.rows import Program, Row

TOLERANCE = {"float32": 2e-4, "float64": 1e-9, "bfloat16": 4e-2}


@dataclass(frozen=True)
class Op:
    """``jax`` takes the top module and the arrays; ``numpy`` and ``torch`` too, where they do."""

    name: str
    shape: tuple[int, ...]
    args: Callable[[tuple[int, ...]], tuple[Any, ...]]
    jax: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    torch: Callable[..., Any] | None = None
    target: float = 1.0
    exact: bool = False  # what it gives does not depend on rounding
    dtypes: tuple[str, ...] = ("float32", "float64", "bfloat16")

    def row(
        self,
        name: str,
        shape: tuple[int, ...] | None = None,
        dtype: str = "float32",
        target: float | None = None,
        torch: bool = True,
    ) -> Row:
        """A row of the function at a size and dtype."""
        size = self.shape if shape is None else shape

        def setup(function: Callable[..., Any]) -> Any:
            def make(module: Any) -> Program:
                call = lambda *args: function(module, *args)
                return Program(call, self.args(size), dtype=dtype)

            return make

        setups = {"weft": setup(self.jax), "jax": setup(self.jax)}
        if self.numpy is not None and dtype != "bfloat16":
            setups["numpy"] = setup(self.numpy)
        if self.torch is not None and torch:
            setups["torch"] = setup(self.torch)
        about = f"{self.name}, {'×'.join(map(str, size))}, {dtype}"
        return Row(
            name,
            about,
            setups,
            clock="wall",
            ratio=self.target if target is None else target,
            x64=dtype == "float64",
            tolerance=0.0 if self.exact else TOLERANCE[dtype],
        )


def everywhere(function: Callable[..., Any]) -> dict[str, Any]:
    """Code that reads the same in NumPy, in JAX and in torch."""
    return {
        "jax": lambda jax, *args: function(jax.numpy, *args),
        "numpy": function,
        "torch": function,
    }


def normal(count: int = 1, positive: bool = False) -> Callable[[tuple[int, ...]], tuple[Any, ...]]:
    """Arguments: arrays of normal numbers, the same in every process."""

    def make(shape: tuple[int, ...]) -> tuple[Any, ...]:
        random = np.random.default_rng(0)
        found = [random.standard_normal(shape, np.float32) for _ in range(count)]
        return tuple(np.abs(x) + 0.1 if positive else x for x in found)

    return make


def square(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Two matrices that can be multiplied, with the first's sizes turned round in the second."""
    random = np.random.default_rng(0)
    turned = (*shape[:-2], shape[-1], shape[-2])
    return tuple(random.standard_normal(s, np.float32) for s in (shape, turned))


def indices(shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A long array, a quarter as many places in it, and values for them."""
    random = np.random.default_rng(0)
    size = int(np.prod(shape))
    places = random.integers(0, size, size // 4).astype(np.int32)
    return (random.standard_normal(size, np.float32), places,
            random.standard_normal(size // 4, np.float32))  # fmt: skip


def _numpy_softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def _norm(jax: Any, x: Any) -> Any:
    jnp = jax.numpy if hasattr(jax, "numpy") else jax
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5)


def _numpy_scatter(np: Any, x: Any, i: Any, v: Any) -> Any:
    x = x.copy()
    np.add.at(x, i, v)
    return x


def _key() -> Any:
    return np.array([0, 42], np.uint32)


def _sized(draw: str) -> Any:
    """A draw as large and of the dtype of an array that is only looked at for these."""

    def function(jax: Any, key: Any, like: Any) -> Any:
        return getattr(jax.random, draw)(key, like.shape, like.dtype)

    return function


def _keyed(shape: tuple[int, ...]) -> tuple[Any, ...]:
    return _key(), np.zeros(shape, np.float32)


FLAT = (1 << 22,)
SQUARE = (2048, 2048)

ELEMENTWISE = Op(
    "tanh(xy+1)·exp(−x²)+sin y/(1+y²)",
    FLAT,
    normal(2),
    **everywhere(lambda m, x, y: m.tanh(x * y + 1) * m.exp(-x * x) + m.sin(y) / (1 + y * y)),
    target=0.40,
)
AXPY = Op("2x+y", FLAT, normal(2), **everywhere(lambda m, x, y: 2 * x + y), target=1.0)
SUM = Op("sum(x+y·x)", FLAT, normal(2), **everywhere(lambda m, x, y: m.sum(x + y * x)), target=0.85)
SOFTMAX = Op(
    "softmax of rows",
    SQUARE,
    normal(),
    jax=lambda jax, x: jax.nn.softmax(x, axis=-1),
    numpy=_numpy_softmax,
    torch=lambda torch, x: torch.softmax(x, -1),
    target=0.7,
)
NORM = Op(
    "layer norm of rows",
    SQUARE,
    normal(),
    jax=_norm,
    numpy=_norm,
    torch=lambda torch, x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    target=0.9,
)
COLUMNS = Op(
    "column sum",
    SQUARE,
    normal(),
    jax=lambda jax, x: jax.numpy.sum(x, axis=0),
    numpy=lambda np, x: np.sum(x, axis=0),
    torch=lambda torch, x: torch.sum(x, 0),
    target=0.8,
)
TRANSPOSE = Op(
    "transpose + 1",
    SQUARE,
    normal(),
    jax=lambda jax, x: jax.numpy.transpose(x) + 1,
    numpy=lambda np, x: np.ascontiguousarray(x.T + 1),
    torch=lambda torch, x: (x.T + 1).contiguous(),
    target=0.3,
)
CUMSUM = Op(
    "cumsum of rows",
    SQUARE,
    normal(),
    jax=lambda jax, x: jax.numpy.cumsum(x, axis=-1),
    numpy=lambda np, x: np.cumsum(x, axis=-1),
    torch=lambda torch, x: torch.cumsum(x, -1),
    target=0.09,
)
SORT = Op(
    "sort",
    (1 << 20,),
    normal(),
    jax=lambda jax, x: jax.numpy.sort(x),
    numpy=lambda np, x: np.sort(x),
    torch=lambda torch, x: torch.sort(x).values,
    target=0.045,
    exact=True,
)
ARGSORT = Op(
    "argsort",
    (1 << 20,),
    normal(),
    jax=lambda jax, x: jax.numpy.argsort(x),
    numpy=lambda np, x: np.argsort(x, kind="stable"),
    torch=lambda torch, x: torch.argsort(x, stable=True),
    target=0.08,
    exact=True,
)
TOP_K = Op(
    "top-k",
    (1 << 20,),
    normal(),
    jax=lambda jax, x: jax.lax.top_k(x, 64),
    numpy=lambda np, x: np.sort(np.partition(x, -64)[-64:])[::-1],
    torch=lambda torch, x: torch.topk(x, 64),
    target=0.35,
    exact=True,
)
GATHER = Op(
    "gather",
    FLAT,
    indices,
    jax=lambda jax, x, i, v: x[i],
    numpy=lambda np, x, i, v: x[i],
    torch=lambda torch, x, i, v: x[i],
    target=0.9,
    exact=True,
)
SCATTER = Op(
    "scatter-add",
    FLAT,
    indices,
    jax=lambda jax, x, i, v: x.at[i].add(v),
    numpy=_numpy_scatter,
    torch=lambda torch, x, i, v: x.index_add(0, i, v),
    target=0.6,
)
NORMAL = Op(
    "random normal",
    FLAT,
    _keyed,
    jax=_sized("normal"),
    target=0.3,
)
UNIFORM = Op(
    "random uniform",
    FLAT,
    _keyed,
    jax=_sized("uniform"),
    target=0.2,
)
MATMUL = Op(
    "matmul", (1024, 1024), square, **everywhere(lambda m, a, b: m.matmul(a, b)), target=0.92
)
RELU_MATMUL = Op(
    "relu(A@B+b)",
    (1024, 1024),
    lambda shape: (*square(shape), *normal()((shape[0],))),
    jax=lambda jax, a, b, c: jax.nn.relu(a @ b + c),
    numpy=lambda np, a, b, c: np.maximum(a @ b + c, 0),
    torch=lambda torch, a, b, c: torch.relu(a @ b + c),
    target=0.92,
)
FFT = Op(
    "fft",
    (1 << 20,),
    lambda shape: tuple((x + 1j * y).astype(np.complex64) for x, y in [normal(2)(shape)]),
    jax=lambda jax, x: jax.numpy.fft.fft(x),
    numpy=lambda np, x: np.fft.fft(x),
    torch=lambda torch, x: torch.fft.fft(x),
    target=0.6,
    dtypes=("float32",),
)
