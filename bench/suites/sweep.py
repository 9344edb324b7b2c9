"""Every function of the public modules once: compiled, and eagerly, at a million elements and at
ten; `calls.py` has the calls, this file the arrays they are given.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bench.rows import Program, Row
from bench.suites.calls import ALONE, CALLS, FREE

FORMS = ("compiled", "eager", "eager, ten elements")
MANY = 1_000_000


class Sizes(NamedTuple):
    """How large arguments are: lines, sides of planes and of matrices, stacks, tall matrices."""

    n: int
    r: int
    a: int
    t: int
    tall: tuple[int, int]


LARGE, SMALL = Sizes(MANY, 1000, 256, 2000, (20_000, 30)), Sizes(10, 4, 4, 3, (12, 3))


@functools.cache
def arrays(sizes: Sizes) -> dict[str, Callable[[np.random.Generator], np.ndarray]]:
    """How the argument that each letter stands for is made; capitals have several axes."""
    n, r, a, t, tall = sizes
    deep = r >= 48

    def normal(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
        return lambda random: random.standard_normal(shape, np.float32)

    def uniform(low: float, high: float, *shape: int) -> Callable[[Any], np.ndarray]:
        return lambda random: random.uniform(low, high, shape).astype(np.float32)

    def integers(low: int, high: int, *shape: int) -> Callable[[Any], np.ndarray]:
        return lambda random: random.integers(low, high, shape, np.int32)

    def complex_(*shape: int) -> Callable[[Any], np.ndarray]:
        return lambda random: (normal(*shape)(random) + 1j * normal(*shape)(random)).astype("c8")

    def holes(*shape: int) -> Callable[[Any], np.ndarray]:
        return lambda random: np.where(
            random.random(shape) < 0.1, np.float32(np.nan), normal(*shape)(random)
        )

    def positive(*shape: int) -> Callable[[Any], np.ndarray]:
        def make(random: Any) -> np.ndarray:
            root = normal(*shape)(random)
            return root @ root.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1], dtype=np.float32)

        return make

    return {
        "x": normal(n),
        "y": normal(n),
        "p": uniform(0.1, 3, n),
        "q": uniform(0.1, 3, n),
        "u": uniform(0.01, 0.99, n),
        "v": uniform(0.01, 0.99, n),
        "i": integers(0, r, n),
        "j": integers(0, r, n),
        "s": integers(1, 8, n),
        "b": lambda random: random.random(n) < 0.5,
        "d": lambda random: random.random(n) < 0.5,
        "c": complex_(n),
        "e": complex_(n),
        "h": lambda random: random.integers(1, 256, n, np.uint8),
        "l": lambda random: np.zeros(n, np.bool_),
        "f": holes(n),
        "g": lambda random: np.sort(normal(n)(random)),
        "t": lambda random: np.sort(normal(r)(random)),
        "w": integers(0, r, r),
        "k": uniform(0.5, 1, a),
        "o": normal(tall[0]),
        "K": normal(r),
        "M": normal(r, r),
        "N": normal(r, r),
        "F": holes(r, r),
        "J": integers(0, r, r, r),
        "X": uniform(0, r - 1, r, r),
        "Z": complex_(r, r),
        "O": normal(*tall),
        "A": normal(a, a),
        "B": normal(a, a),
        "S": positive(a, a),
        "T": normal(t, 8, 8),
        "P": positive(t, 8, 8),
        "V": normal(n // 3, 3),
        "W": normal(n // 3, 3),
        "E": normal(t, 8),
        "C": normal(4, 16, r // 16, r // 16) if deep else normal(1, 2, 5, 5),
        "D": normal(32, 16, 3, 3) if deep else normal(2, 2, 3, 3),
        "Q": normal(2, r // 4, 4, 64),
        "R": normal(4, r, 100),
        "G": lambda random: np.full(4, r // 4, np.int32),
        "key": lambda random: np.array([0, 42], np.uint32),
    }


@functools.lru_cache(64)
def argument(letter: str, sizes: Sizes) -> np.ndarray:
    return arrays(sizes)[letter](np.random.default_rng(list(letter.encode())))


def split(lines: str) -> Iterator[tuple[str, str | None, bool]]:
    """Each call of a text: its text, what NumPy runs instead, and whether it can be compiled."""
    for line in re.split(r"\s{2,}|\n", lines.strip()):
        text, bar, other = line.partition("|")
        yield text.rstrip("!"), other if bar else None, not text.endswith("!")


def letters(text: str) -> list[str]:
    """The names of arrays in a call, but for those of functions inside it."""
    nodes = list(ast.walk(ast.parse(text, mode="eval")))
    inner = {node.arg for node in nodes if isinstance(node, ast.arg)}
    found = {node.id for node in nodes if isinstance(node, ast.Name)} - inner
    return [name for name in arrays(LARGE) if name in found]


def modules(library: Any, room: str, text: str) -> dict[str, Any]:
    """What a call may name besides its arrays."""
    plain = library.__name__ == "numpy"
    if plain:
        base = room if room.startswith("scipy") else f"numpy.{room}".replace("numpy.numpy", "numpy")
    else:
        base = f"{library.__name__}.{room}"
    inside = text.partition("(")[0].rpartition(".")[0]
    if room == "scipy":  # its modules have to be imported by name; SciPy's distributions are none
        first, _, second = inside.partition(".")
        importlib.import_module(f"{base}.{first}")
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(f"{base}.{first}.{second}".rstrip("."))
    found = {"room": importlib.import_module(base), "np": np if plain else library.numpy}
    return found if plain else {**found, "lax": library.lax}


def prepare(library: Any, room: str, text: str, sizes: Sizes) -> tuple[Callable[..., Any], Any]:
    """A call as a function of the arrays that its letters name, and these."""
    given = letters(text)
    names = {**modules(library, room, text), "n": sizes.n, "r": sizes.r}
    function = eval(f"lambda {', '.join(given)}: room.{text}", names)
    return function, tuple(argument(letter, sizes) for letter in given)


def setup(room: str, text: str, form: str) -> Callable[[Any], Program]:
    """What builds the program of a call."""

    def build(library: Any) -> Program:
        made = prepare(library, room, text, SMALL if form == FORMS[2] else LARGE)
        return Program(*made, compiled=form == FORMS[0])

    return build


def _rows() -> Iterator[Row]:
    for room, lines in CALLS.items():
        for text, other, fixed in split(lines):
            free = text.partition("(")[0].rpartition(".")[2].startswith(FREE)
            if other is None and room in ALONE:
                other = "-"
            for form in FORMS:
                # eagerly on many elements: what NumPy does, too, and what is not compiled
                if (form == FORMS[0] and not fixed) or (
                    form == FORMS[1] and fixed and other == "-"
                ):
                    continue
                setups = dict.fromkeys(("weft", "jax"), setup(room, text, form))
                if other != "-" and form != FORMS[2]:
                    setups["numpy"] = setup(room, other or text, form)
                yield Row(
                    f"{room}.{text} {form}",
                    "one call of a sweep over all functions",
                    setups,
                    clock="wall",
                    ratio=1.2,
                    tolerance=2e-3 if form == FORMS[0] and not free else None,
                    limit=8.0,
                    brief=True,
                )


ROWS = list(_rows())
