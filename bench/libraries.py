"""What each library needs to run a Program: loading, its arrays, compiling, waiting, results."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from itertools import repeat
from time import perf_counter, process_time
from typing import Any

import numpy as np

from bench.rows import COMPILED_TORCH, JAX_CUDNN, OTHER_WEFT, XLA, Program, names

MODULES = {
    "weft": ("weft", "weft.numpy"),
    "alone": ("weft", "weft.numpy"),  # weft on one device, for what several do together
    OTHER_WEFT: ("weft", "weft.numpy"),
    XLA: ("weft", "weft.numpy"),
    "jax": ("jax", "jax.numpy"),
    JAX_CUDNN: ("jax", "jax.numpy"),
    "numpy": ("numpy",),
    "torch": ("torch",),
    COMPILED_TORCH: ("torch",),
    "DataLoader": ("torch",),
    "grain": ("grain",),
}

LIKE_JAX = ("weft", "alone", OTHER_WEFT, XLA, "jax", JAX_CUDNN)


def load(library: str) -> Any:
    if library == OTHER_WEFT:
        sys.path.insert(0, os.environ["WEFT_BENCH_OTHER"])
    modules = [importlib.import_module(name) for name in MODULES[library]]
    return modules[0]


def find(suite: str, name: str) -> Any:
    return next(row for row in importlib.import_module(names(suite)).ROWS if row.name == name)


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Over tuples, lists and dicts, in the same order for all libraries."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(tree_map(function, child) for child in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(tree_map(function, child) for child in tree)
    if isinstance(tree, dict):
        return {key: tree_map(function, tree[key]) for key in sorted(tree)}
    return None if tree is None else function(tree)


def leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    tree_map(found.append, tree)
    return found


def _array(library: str, module: Any, dtype: str | None, gpu: bool = False) -> Callable[[Any], Any]:
    """How an argument becomes an array of the library."""

    def cast(x: np.ndarray) -> np.ndarray:
        if dtype is None or x.dtype.kind != "f":
            return x
        return x.astype(importlib.import_module("ml_dtypes").bfloat16 if half else dtype)

    half = dtype == "bfloat16"
    if library == "numpy":
        return lambda x: cast(np.asarray(x))
    if library in LIKE_JAX:
        return lambda x: module.numpy.asarray(cast(np.asarray(x)))

    def tensor(x: Any) -> Any:
        made = module.from_numpy(np.asarray(x))
        made = made.cuda() if gpu else made
        return made.to(getattr(module, dtype)) if dtype and made.is_floating_point() else made

    return tensor


def _wait(result: Any) -> None:
    """All results of a call are ready together: the first tells."""
    while isinstance(result, (tuple, list, dict)):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    result.block_until_ready()


class Call:
    """A row ready to run in one library."""

    def __init__(self, library: str, module: Any, row: Any) -> None:
        if library in LIKE_JAX:
            module.config.update("jax_enable_x64", row.x64)
        made = row.setups[library.partition(".")[0]](module)
        self.program = made if isinstance(made, Program) else None
        self.function, self.args = made, ()
        self.wait: Callable[[Any], None] | None = None
        if self.program is not None:
            self.function, self.args = self._prepare(library, module, self.program, row.gpu)
            if library in LIKE_JAX:
                self.wait = _wait
        if row.gpu and library not in LIKE_JAX:
            self.wait = lambda result: module.cuda.synchronize()
        self.each = self.program is not None and self.program.wait
        self.batch = 1

    @staticmethod
    def _prepare(
        library: str, module: Any, program: Program, gpu: bool
    ) -> tuple[Any, tuple[Any, ...]]:
        function, args = program.function, program.args
        if program.convert:
            args = tree_map(_array(library, module, program.dtype, gpu), args)
        if program.compiled and library in LIKE_JAX:
            function = module.jit(function)
        if library == COMPILED_TORCH:
            function = module.compile(function)
        return function, args

    def once(self) -> Any:
        result = self.function(*self.args)
        if self.wait is not None:
            self.wait(result)
        return result

    def sample(self) -> tuple[float, float]:
        """CPU and wall seconds of one call, the mean of a batch."""
        function, args, wait = self.function, self.args, self.wait
        cpu, wall = process_time(), perf_counter()
        if wait is not None and self.each:
            for _ in repeat(None, self.batch):
                wait(function(*args))
        else:
            for _ in repeat(None, self.batch):
                result = function(*args)
            if wait is not None:
                wait(result)
        return (process_time() - cpu) / self.batch, (perf_counter() - wall) / self.batch


def as_numpy(x: Any) -> np.ndarray:
    """A result for comparison: 16-bit floats widened."""
    if hasattr(x, "detach"):
        x = x.detach()
        x = (x.float() if x.dtype.itemsize == 2 and x.is_floating_point() else x).cpu().numpy()
    found = np.asarray(x)
    narrow = found.dtype.kind not in "biufc" or found.dtype == np.float16
    return found.astype(np.float32) if narrow else found
