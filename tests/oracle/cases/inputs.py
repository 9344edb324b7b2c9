"""Every public function on arrays without axes and on arrays without elements.

What JAX accepts is recorded with its result, what it refuses with the class of its error.
"""

from typing import Any

import numpy as np

from tools import api_coverage

from ..table import Adder, Tol, family, path
from .signatures import REST, parameters, required, structural

INPUTS = {
    "0d": np.array(0.5, np.float32),
    "0": np.zeros(0, np.float32),
    "3x0": np.zeros((3, 0), np.float32),
}
BY_ACCIDENT = "the class of JAX's error comes from a line further in, ours names the argument"
# Cases that are not made, with the reason.
DIFFERENCES = {
    **dict.fromkeys(
        "jnp.linalg/lstsq/0d jnp.linalg/vecdot/0d vecdot/0d polydiv/0d polyval/0d sla/sqrtm/0d"
        " sla/sqrtm/0 signal/detrend/0 signal/detrend/3x0 signal/istft/3x0 sfft/dct/0 sfft/dct/3x0"
        " sfft/dctn/0 sfft/dctn/3x0 sfft/idct/0 sfft/idct/3x0 sfft/idctn/0 sfft/idctn/3x0".split(),
        BY_ACCIDENT,
    ),
    "special/expn/0d": "JAX gives NaN where SciPy has a value",
    "signal/csd/3x0": "SciPy gives arrays without elements",
}


def sweep(adder: Adder, module: str, prefix: str) -> None:
    """All functions of a module that take arrays."""

    def add(key: str, fn: Any, args: Any, **options: Any) -> None:
        if key not in DIFFERENCES:
            adder(key, fn, args, error="maybe", **options)

    for name, listed in parameters(module).items():
        rest: tuple[Any, ...] = REST.get(name, ())
        count, get = required(listed), path(f"{prefix}.{name}")
        if rest:
            count = 1
        elif not count or structural(module, listed):
            continue
        label = name if prefix == "jnp" else f"{prefix}/{name}"
        plain = lambda J, a, g=get, n=count, r=rest: g(J)(*[a] * n, *r)
        for kind, x in INPUTS.items():
            add(f"{label}/{kind}", plain, [x], modes=("value",))


@family("inputs_numpy", Tol(64, True))
def inputs_numpy(add: Adder) -> None:
    """numpy: 0-d and empty arrays."""
    sweep(add, "numpy", "jnp")


@family("inputs_linalg", Tol(512, True))
def inputs_linalg(add: Adder) -> None:
    """numpy.linalg, numpy.fft and scipy.linalg: 0-d and empty arrays."""
    sweep(add, "numpy.linalg", "jnp.linalg")
    sweep(add, "numpy.fft", "jnp.fft")
    sweep(add, "scipy.linalg", "sla")


@family("inputs_scipy", Tol(512, True))
def inputs_scipy(add: Adder) -> None:
    """nn, scipy.special, signal, fft and stats: 0-d and empty arrays."""
    for module, prefix in (
        ("nn", "nn"),
        ("scipy.special", "special"),
        ("scipy.signal", "signal"),
        ("scipy.fft", "sfft"),
        ("scipy.stats", "stats"),
    ):
        sweep(add, module, prefix)
    for listed in sorted(api_coverage.read_list()):
        if listed.startswith("jax.scipy.stats."):
            name = listed.rpartition(".")[2]
            sweep(add, f"scipy.stats.{name}", f"stats.{name}")
