"""What programs are made of: their registry, and the sizes, dtypes and arrays that they draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

# Elements of the largest array of a program, about.
MOST = 1 << 25
KINDS = ("tiny", "short rows", "long rows", "prime", "odd", "medium", "medium", "large")
PRIMES = (997, 1009, 1511, 2003, 3001, 4001)

# By name: what makes a program, whether it has a gradient, and whether bfloat16 makes sense.
PROGRAMS: dict[str, tuple[Callable[..., Any], bool, bool]] = {}


def program(name: str, grad: bool = True, narrow: bool = True) -> Any:
    """Register a maker: of the library's top module and a `Draw`, a function and its arguments."""

    def register(make: Any) -> Any:
        PROGRAMS[name] = make, grad, narrow
        return make

    return register


class Draw:
    """Sizes and arrays of one program, by a seed."""

    def __init__(self, seed: Sequence[int], narrow: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype: Any = np.dtype(np.float32)
        if narrow and self.rng.random() < 0.35:
            self.dtype = np.dtype(ml_dtypes.bfloat16)
        self.kind = str(self.rng.choice(KINDS))

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def near(self, low: int, high: int) -> int:
        """An integer, evenly by its logarithm."""
        return int(np.exp(self.rng.uniform(np.log(low), np.log(high))))

    def rows(self, most: int = MOST) -> tuple[int, int]:
        """Rows and their length, of the kind of this program."""
        if self.kind == "tiny":
            found = self.near(3, 20), self.near(3, 40)
        elif self.kind == "short rows":
            found = self.near(1 << 17, 1 << 22), self.near(2, 17)
        elif self.kind == "long rows":
            found = self.near(1, 9), self.near(1 << 18, 1 << 22)
        elif self.kind == "prime":
            found = self.pick(*PRIMES), self.pick(*PRIMES)
        elif self.kind == "odd":
            found = self.near(300, 5000), self.near(100, 5000)
        elif self.kind == "medium":
            found = 64 * self.near(8, 64), 64 * self.near(2, 64)
        else:
            found = 1024 * self.near(4, 16), 1024 * self.near(2, 8)
        rows, length = found
        while rows * length > most:
            rows, length = (rows // 2, length) if rows > length else (rows, length // 2)
        return max(rows, 1), max(length, 1)

    def width(self) -> int:
        """The width of a layer."""
        return self.pick(16, 64, 96, 100, 128, 256, 257, 512, 768, 1024)

    def side(self) -> int:
        """The side of an image."""
        return self.pick(14, 28, 31, 32, 56, 64, 128)

    def normal(self, *shape: int, scale: float = 1.0, dtype: Any = None) -> np.ndarray:
        found = self.rng.standard_normal(shape, np.float32) * np.float32(scale)
        return found.astype(self.dtype if dtype is None else dtype)

    def whole(self, most: int, *shape: int) -> np.ndarray:
        """Integers from 0 to below a number."""
        return self.rng.integers(0, most, shape).astype(np.int32)


def loss_of(m: Any, fun: Any) -> Any:
    """The gradients of the mean square of a function's results, by its floating arguments."""

    def loss(moving: Any, fixed: Any) -> Any:
        out = m.tree.leaves(fun(*_merged(moving, fixed)))
        floats = [x.astype("float32") for x in out if x.dtype.kind in "fV"]
        return sum((m.numpy.mean(x * x) for x in floats), m.numpy.float32(0))

    def gradients(*args: Any) -> Any:
        is_float = [getattr(x, "dtype", np.dtype(int)).kind in "fV" for x in args]
        moving = {str(i): x for i, (x, f) in enumerate(zip(args, is_float, strict=True)) if f}
        fixed = {str(i): x for i, (x, f) in enumerate(zip(args, is_float, strict=True)) if not f}
        return m.grad(loss)(moving, fixed)

    return gradients


def _merged(moving: dict[str, Any], fixed: dict[str, Any]) -> list[Any]:
    both = moving | fixed
    return [both[str(i)] for i in range(len(both))]
