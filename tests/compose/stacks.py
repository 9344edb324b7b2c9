"""Random stacks of transformations, each beside what it means without them.

``Layer.fast`` transforms a function of arrays that returns a list of arrays; ``Layer.slow`` gives
the same results by definition: a batch by a loop, a jitted or rematerialised function by itself.
Derivatives are taken of the plain function, and those in turn are checked against differences.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from weft import lax
from weft import numpy as jnp
from weft.api.remat import checkpoint

Function = Callable[..., list[Any]]


@dataclass
class Layer:
    """One transformation and its meaning; ``lift`` makes inputs for it of those below."""

    name: str
    fast: Callable[[Function], Function]
    slow: Callable[[Function], Function]
    lift: Callable[[list[Any]], list[Any]] = list


class Stack:
    """A program under layers, and the inputs of the outermost."""

    def __init__(self, seed: int, args: list[np.ndarray], traits: set[str]) -> None:
        self.rng = random.Random(seed + 1)
        self.values = np.random.default_rng(seed + 1)
        self.args = args
        self.traits = traits
        self.layers: list[Layer] = []

    def names(self) -> str:
        return " of ".join([*(layer.name for layer in reversed(self.layers)), "the program"])

    def build(self, fun: Function, which: str) -> Function:
        for layer in self.layers:
            fun = getattr(layer, which)(fun)
        return fun

    def grow(self, plain: Function) -> None:
        """Put layers on; derivatives are at most two, batches at most two."""
        left = {"derivative": 2, "batch": 2}
        for _ in range(self.rng.choice((1, 2, 2, 3, 4))):
            kind = self.rng.choice(("jit", "remat", "batch", "batch", "derivative", "derivative"))
            if kind in left and not left[kind]:
                continue
            if kind in left:
                left[kind] -= 1
            layer = self.make(kind, self.build(plain, "slow"))
            self.layers.append(layer)
            self.args = layer.lift(self.args)

    def make(self, kind: str, below: Function) -> Layer:
        if kind == "jit":
            return Layer("jit", lambda f: weft.jit(f), lambda f: f)
        if kind == "remat":
            return Layer("remat", lambda f: checkpoint(f), lambda f: f)
        if kind == "batch":
            return batch_layer(self)
        return derivative_layer(self, below)

    def reverse_first(self) -> bool:
        """Functions with a backward rule alone must meet reverse mode before forward mode."""
        return "reverse only" in self.traits and not any("grad" in x.name for x in self.layers)


# --- batches --------------------------------------------------------------------------------------


def batch_layer(stack: Stack) -> Layer:
    rng = stack.rng
    size = rng.choice((1, 2, 3))
    places: list[int | None] = [
        None if rng.random() < 0.25 else rng.randint(0, np.ndim(x)) for x in stack.args
    ]
    if all(p is None for p in places):
        places[0] = 0
    noise = [stack.values.standard_normal((size, *np.shape(x))) for x in stack.args]
    shared = rng.random() < 0.25
    out = 0 if shared else rng.choice((0, 0, -1))

    def fast(f: Function) -> Function:
        if not shared:
            return weft.vmap(f, in_axes=tuple(places), out_axes=out)

        def with_mean(*args: Any) -> list[Any]:
            return [y + lax.psum(y, "rows") * 0.1 for y in f(*args)]

        return weft.vmap(with_mean, in_axes=tuple(places), axis_name="rows")

    def slow(f: Function) -> Function:
        def looped(*args: Any) -> list[Any]:
            rows = [
                f(*(x if p is None else jnp.take(x, k, axis=p) for x, p in zip(args, places)))
                for k in range(size)
            ]
            outs = [jnp.stack(column, out) for column in zip(*rows)]
            return [y + jnp.sum(y, 0) * 0.1 for y in outs] if shared else outs

        return looped

    def lift(args: list[Any]) -> list[Any]:
        return [
            x if p is None else np.moveaxis(np.asarray(x) + 0.3 * e, 0, p)
            for x, p, e in zip(args, places, noise)
        ]

    name = f"vmap[{size}; {places} to {out}{'; psum' if shared else ''}]"
    return Layer(name, fast, slow, lift)


# --- derivatives ----------------------------------------------------------------------------------


def derivative_layer(stack: Stack, below: Function) -> Layer:
    kinds = ["jvp", "linearize", "grad", "value_and_grad", "vjp", "transpose"]
    if "forward only" in stack.traits:
        kinds = ["jvp", "linearize"]
    elif stack.reverse_first():
        kinds = ["grad", "value_and_grad", "vjp"]
    kind = stack.rng.choice(kinds)
    directions = [stack.values.standard_normal(np.shape(x)) for x in stack.args]
    outs = below(*stack.args)
    weights = [stack.values.standard_normal(np.shape(y)) for y in outs]
    if kind in ("jvp", "linearize"):
        fast = pushed(directions, kind == "linearize")
        return Layer(kind, fast, pushed(directions, False))
    slow = pulled(weights, "vjp")
    return Layer(f"grad[{kind}]", pulled(weights, kind), slow)


def pushed(directions: list[Any], linearized: bool) -> Callable[[Function], Function]:
    def transform(f: Function) -> Function:
        def tangents(*args: Any) -> list[Any]:
            if linearized:
                _, push = weft.linearize(f, *args)
                return push(*directions)
            return weft.jvp(f, args, tuple(directions))[1]

        return tangents

    return transform


def pulled(weights: list[Any], kind: str) -> Callable[[Function], Function]:
    """Gradients of the weighted sum of the results."""

    def transform(f: Function) -> Function:
        def weighted(*args: Any) -> Any:
            return sum(jnp.sum(y * w) for y, w in zip(f(*args), weights))

        def gradients(*args: Any) -> list[Any]:
            every = tuple(range(len(args)))
            if kind == "grad":
                return list(weft.grad(weighted, every)(*args))
            if kind == "value_and_grad":
                return list(weft.value_and_grad(weighted, every)(*args)[1])
            if kind == "transpose":
                _, push = weft.linearize(f, *args)
                return list(weft.linear_transpose(push, *args)(list(weights)))
            return list(weft.vjp(f, *args)[1](list(weights)))

        return gradients

    return transform
