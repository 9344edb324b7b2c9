"""Every public function on unusual arguments: objects that stand for arrays, no elements, no axes.

What JAX accepts is recorded with its result, what it refuses with the class of its error.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tools import api_coverage

from ..table import VALUE, Adder, Tol, family, path
from .signatures import LOOSE, parameters, required, structural

MATRIX = np.array([[1.5, 0.25, 0.5], [0.25, 1.75, 0.125], [0.5, 0.125, 2.0]], np.float32)
COUNTS = np.array([[1, 2, 3], [4, 0, 2], [2, 1, 5]], np.int32)
EMPTY = {"0": (0,), "3x0": (3, 0), "0x0": (0, 0)}
SCALARS = {"f32": np.array(0.5, np.float32), "i32": np.array(2, np.int32)}
OBJECTS = {"f32": MATRIX, "i32": COUNTS}
# The other arguments of functions of one array that need them.
REST: dict[str, tuple[Any, ...]] = {
    "argpartition": (1,),
    "array_split": (2,),
    "astype": (np.float16,),
    "broadcast_to": ((2, 3, 3),),
    "delete": (1,),
    "expand_dims": (0,),
    "moveaxis": (0, -1),
    "one_hot": (3,),
    "pad": (1,),
    "partition": (1,),
    "matrix_power": (2,),
    "repeat": (2,),
    "reshape": ((-1,),),
    "resize": ((2, 2),),
    "roll": (1,),
    "rollaxis": (0,),
    "split": (1,),
    "swapaxes": (0, -1),
    "tile": (2,),
    "multigammaln": (2,),
}
BY_ACCIDENT = "the class of JAX's error comes from a line further in, ours names the argument"
# Cases that are not made, with the reason.
DIFFERENCES: dict[str, str] = {}


class Plain:
    """Not an array and no container; it says which array it stands for."""

    def __init__(self, J: Any, x: Any):
        self.J, self.x = J, x

    def __jax_array__(self) -> Any:
        return self.J.jnp.asarray(self.x)


@dataclass
class Registered:
    """The same, and a pytree."""

    x: Any

    def __jax_array__(self) -> Any:
        return self.x


_known: set[Any] = set()


def registered(J: Any, x: Any) -> Registered:
    """An object that is known to a library as a container."""
    register = J.tu.register_dataclass
    if register not in _known:
        register(Registered, ["x"], [])
        _known.add(register)
    return Registered(J.jnp.asarray(x))


WRAPPERS = {"plain": Plain, "registered": registered}


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
        for kind, x in SCALARS.items():
            add(f"{label}/0d/{kind}", plain, [x], modes=VALUE)
        for kind, shape in EMPTY.items():
            add(f"{label}/empty/{kind}", plain, [np.zeros(shape, np.float32)], modes=VALUE)
        if name in LOOSE:
            continue
        for how, wrap in WRAPPERS.items():
            for kind, x in OBJECTS.items():
                if how == "registered" and kind == "i32":
                    continue

                def given(J: Any, a: Any, g=get, n=count, r=rest, w=wrap) -> Any:
                    return g(J)(*[w(J, a)] * n, *r)

                add(f"{label}/{how}/{kind}", given, [x], modes=("value",))


@family("inputs_numpy", Tol(64, True))
def inputs_numpy(add: Adder) -> None:
    """numpy: unusual arguments."""
    sweep(add, "numpy", "jnp")


@family("inputs_linalg", Tol(512, True))
def inputs_linalg(add: Adder) -> None:
    """numpy.linalg, numpy.fft and scipy.linalg: unusual arguments."""
    sweep(add, "numpy.linalg", "jnp.linalg")
    sweep(add, "numpy.fft", "jnp.fft")
    sweep(add, "scipy.linalg", "sla")


@family("inputs_scipy", Tol(512, True))
def inputs_scipy(add: Adder) -> None:
    """nn, scipy.special, signal, fft and stats: unusual arguments."""
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
