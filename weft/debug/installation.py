"""A check of an installation: short programs, what they should give, and what to do if not."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weft import numpy as jnp
from weft import random
from weft.api.autodiff import grad
from weft.api.environment import print_environment_info
from weft.api.jit import jit
from weft.api.placement import device_put
from weft.base import disk, knobs
from weft.runtime.client import host
from weft.runtime.devices import devices

# The first numbers that JAX draws with this key.
_DRAWN = np.array([-0.02830462, 0.46713185, 0.29570296], np.float32)


class Check(NamedTuple):
    """A check by name, and what to do if it fails; it returns why it does, or an empty text."""

    name: str
    run: Callable[[], str]
    advice: str


def _model(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w).sum()


def _is_wrong(found: Any, wanted: np.ndarray, tolerance: float) -> str:
    found = np.asarray(found)
    if found.shape != wanted.shape:
        return f"the shape is {found.shape}, not {wanted.shape}"
    error = float(np.max(np.abs(found - wanted)))
    return "" if error <= tolerance else f"results are off by {error:.3g}"


def _compiled(device: Any, tolerance: float) -> str:
    """A gradient by compiled code against NumPy's."""
    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=s).astype(np.float32) / 4 for s in ((16, 8), (32, 16)))
    found = jit(grad(_model))(device_put(w, device), device_put(x, device))
    wanted = x.T @ (1 - np.tanh(x @ w) ** 2)
    return _is_wrong(found, wanted, tolerance)


def _native() -> str:
    return "" if host().about().get("native code", "yes") == "yes" else "no native code runs here"


def _numbers() -> str:
    return _is_wrong(random.normal(random.key(42), (3,)), _DRAWN, 1e-6)


def _products() -> str:
    a = np.random.default_rng(1).normal(size=(300, 200)).astype(np.float32)
    return _is_wrong(jnp.asarray(a) @ jnp.asarray(a).T, a @ a.T, 1e-3)


def _cache() -> str:
    where = disk.folder()
    if where is None:
        return "there is none: every process compiles again"
    while not os.path.isdir(where):
        where = os.path.dirname(where)
    return "" if os.access(where, os.W_OK) else f"{where} cannot be written to"


_DRIVER = "/proc/driver/nvidia/version"


def _driver_says() -> str:
    """Why weft finds no GPU, although the system has NVIDIA's driver; empty if it finds one."""
    wanted = knobs.thread.platforms
    if wanted and "cuda" not in wanted:
        return ""
    try:
        devices("cuda")
    except RuntimeError as error:
        return str(error)
    return ""


def checks() -> list[Check]:
    """All checks for the devices at hand."""
    found = [
        Check("compiled code", lambda: _compiled(devices("cpu")[0], 1e-4),
              "run the tests with ./weft-test and report what fails"),
        Check("native code", _native,
              "weft runs native code in CPython with its global lock, on Linux; elsewhere NumPy"
              " computes everything"),
        Check("products of matrices", _products, "reinstall scipy-openblas32"),
        Check("random numbers", _numbers, "report this: numbers must be the same everywhere"),
        Check("disk cache", _cache, "set WEFT_CACHE to a folder that you can write to"),
    ]  # fmt: skip
    if os.path.exists(_DRIVER):
        advice = "install the extra with pip install 'weft[cuda]', and a driver for CUDA 13"
        found.append(Check("GPU driver", _driver_says, advice))
    for device in devices():
        if device.platform not in ("cpu", "tpu"):
            found.append(
                Check(
                    f"compiled code on {device}",
                    partial(_compiled, device, 2e-2),
                    "run ./weft-test --cuda and report what fails",
                )
            )
    return found


def report(out: Any = None) -> int:
    """Print what this installation is, run all checks, and print a verdict.

    Args:
        out: A file to print to, instead of the standard output.

    Returns:
        0 if all is well, 1 if something is wrong.

    Example:
        >>> import io
        >>> from weft.debug.installation import report
        >>> text = io.StringIO()
        >>> report(text) in (0, 1) and "verdict" in text.getvalue()
        True
    """
    out = out or sys.stdout
    print(print_environment_info(return_string=True), "", sep="\n", file=out)
    wrong = 0
    for check in checks():
        began = time.perf_counter()
        try:
            problem = check.run()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        spent = time.perf_counter() - began
        if problem:
            wrong += 1
            print(f"PROBLEM {check.name}: {problem}\n        To do: {check.advice}.", file=out)
        else:
            print(f"ok      {check.name} ({1000 * spent:.0f} ms)", file=out)
    if not os.path.exists(_DRIVER) and len(devices()) == len(devices("cpu")):
        print(
            "--      no GPU: this machine has no NVIDIA driver; programs run on the CPU", file=out
        )
    verdict = "this installation works" if not wrong else f"{wrong} of the checks found a problem"
    print(f"verdict: {verdict}.", file=out)
    return int(bool(wrong))
