"""Placement and ordering: device_put, sharding constraints, tokens, sinks."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.ad import Zero, instantiate
from weft.core.avals import AbstractToken, abstract_token
from weft.core.batching import AxisData, batch_in_place
from weft.core.effects import Effect
from weft.core.primitive import Primitive
from weft.core.sharding import (
    UNCONSTRAINED,
    NamedSharding,
    Sharding,
    axes_of,
    explicit_part,
    full_spec,
)
from weft.core.trace import typeof
from weft.division.factors import Factors, elementwise, labelled
from weft.prims.families import forwarded, unmoved


def spec_of_type(divided: Any, ndim: int) -> Any:
    """The explicit axes of each dimension."""
    return ((),) * ndim if divided is None else tuple(axes_of(p) for p in divided.spec)


class DevicePut(Primitive):
    """Arrays placed on devices."""

    name, form, view, relocates = "device_put", "element", True, True
    multiple_results, masks = True, "moved"
    element = forwarded

    def shardings(self, params: Any) -> list[Any]:
        return [place if isinstance(place, NamedSharding) else None for place in params["devices"]]

    def explicit(self, specs: Any, avals: Any, outs: Any, params: Any) -> Any:
        there = self.shardings(params)
        found = [
            s if p is None else spec_of_type(explicit_part(p, len(s)), len(s))
            for s, p in zip(specs, there, strict=True)
        ]
        return found

    def shard(self, specs: Any, avals: Any, outs: Any, params: Any) -> Any:
        return specs

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        names = [[(i, d) for d in range(len(a.shape))] for i, a in enumerate(avals)]
        return labelled(names, names, avals, outs)

    def shape(self, *xs: Any, devices: Any, srcs: Any, copy_semantics: Any) -> list[Any]:
        return list(xs)

    @staticmethod
    def ref(*xs: np.ndarray, devices: Any, srcs: Any, copy_semantics: Any) -> list[np.ndarray]:
        return list(xs)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*primals, **params), self._each(tangents, **params)

    def transpose(
        self, cts: Any, *xs: Any, devices: Any, srcs: Any, copy_semantics: Any
    ) -> list[Any]:
        return self._each(cts, devices=srcs, srcs=devices, copy_semantics=copy_semantics)

    def _each(self, xs: Any, **params: Any) -> list[Any]:
        """Tangents or cotangents at their places; zeros have none."""
        found = list(xs)
        for i, x in enumerate(xs):
            own = {key: values[i : i + 1] for key, values in params.items()}
            if type(x) is not Zero and own["devices"] != (None,):
                (found[i],) = self.bind(x, **own)
        return found

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*args, **params), list(dims)


def _with_batch(spec: Any, d: int, spmd_name: Any) -> list[Any]:
    """The parts of a spec with a batch dimension: over the axes that it is said to be spread over,
    else left to the compiler."""
    parts = [*spec, *[None] * (d - len(spec))]
    names = () if spmd_name is None else axes_of(spmd_name)
    if set(names) & {*spec.names()}:
        raise ValueError(
            f"vmap shards its batch over spmd_axis_name={spmd_name!r}, but "
            f"with_sharding_constraint inside it also names that axis, in {spec}; leave it out of "
            "one"
            " of them"
        )
    parts.insert(d, names or UNCONSTRAINED)
    return parts


class ShardingConstraint(Primitive):
    """An array whose sharding is prescribed."""

    name, form, constrains = "sharding_constraint", "move", True
    linear, masks = True, "moved"
    pull = unmoved

    def explicit(self, specs: Any, avals: Any, outs: Any, params: Any) -> Any:
        return specs

    def shardings(self, params: Any) -> list[Any]:
        sharding = params["sharding"]
        return [sharding if isinstance(sharding, Sharding) else None]

    def shape(self, x: Any, **params: Any) -> Any:
        return x

    @staticmethod
    def ref(x: np.ndarray, **params: Any) -> np.ndarray:
        return x

    def transpose(self, ct: Any, x: Any, **params: Any) -> list[Any]:
        return [self.bind(ct, **params)]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, sharding: Any, **params: Any
    ) -> tuple[Any, Any]:
        d = dims[0]
        if isinstance(sharding, NamedSharding):
            sharding = sharding.with_spec(_with_batch(sharding.spec, d, axis.spmd_name))
        return self.bind(*args, sharding=sharding, **params), d


class Reshard(Primitive):
    """An array divided in another way over the explicit axes of its mesh."""

    name, form, constrains = "reshard", "move", True
    pull = unmoved

    def destination(self, params: Any) -> Any:
        return params["dst_sharding"]

    def shardings(self, params: Any) -> list[Any]:
        return [params["dst_sharding"]]

    def shape(self, x: Any, *, dst_sharding: Any) -> Any:
        return x.update(sharding=explicit_part(dst_sharding, len(x.shape)))

    @staticmethod
    def ref(x: np.ndarray, **params: Any) -> np.ndarray:
        return x

    def d0(self, g: Any, out: Any, x: Any, **params: Any) -> Any:
        return self.bind(g, **params)

    def transpose(self, ct: Any, x: Any, *, dst_sharding: Any) -> list[Any]:
        there = x.aval.to_cotangent_aval().divided
        if there is None:
            there = dst_sharding.with_spec([None] * len(x.aval.shape))
        return [self.bind(ct, dst_sharding=there)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, dst_sharding: Any) -> tuple[Any, Any]:
        (x,), (d,) = args, dims
        aval = typeof(x)
        parts = list(full_spec(dst_sharding, len(aval.shape) - 1))
        parts.insert(d, None if aval.divided is None else aval.divided.spec[d])
        return self.bind(x, dst_sharding=dst_sharding.with_parts(parts)), d


class CreateToken(Primitive):
    """A new token, to order effects by."""

    name = "create_token"
    host = "tokens are not memory"
    holes = {
        "jvp": "it has no operands",
        "transpose": "it has no operands",
        "batch": "it has no operands",
    }

    def shape(self) -> Any:
        return abstract_token

    @staticmethod
    def ref() -> Token:
        return token


class AfterAll(Primitive):
    """A token that comes after others."""

    name = "after_all"
    host = "tokens are not memory"
    holes = {"transpose": "tokens carry no data", "batch": "tokens carry no data"}

    def shape(self, *tokens: Any) -> Any:
        if any(type(t) is not AbstractToken for t in tokens):
            raise TypeError(f"after_all takes tokens, got {tokens}")
        return abstract_token

    @staticmethod
    def ref(*tokens: Any) -> Token:
        return token


class Token:
    """The value of a token: there is one."""

    aval = abstract_token

    def __repr__(self) -> str:
        return "Token"

    def block_until_ready(self) -> None:
        return None


token = Token()


class SinkEffect(Effect):
    """Keeps a value from being pruned away."""


class DceSink(Primitive):
    """Keeps a value alive although nothing reads it."""

    name = "dce_sink"
    multiple_results = True
    effects = frozenset({SinkEffect()})

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        names = [[(i, d) for d in range(len(a.shape))] for i, a in enumerate(avals)]
        return labelled(names, [], avals, outs)

    def shape(self, *xs: Any, **params: Any) -> list[Any]:
        return []

    @staticmethod
    def ref(*xs: Any, **params: Any) -> list[Any]:
        return []

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*primals, **params), []

    def transpose(self, cts: Any, *xs: Any, **params: Any) -> list[Any]:
        return [Zero(x.aval) for x in xs]

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, Any]:
        return self.bind(*args, **params), []


class Stage(Primitive):
    """The identity, written down while a function is staged."""

    name, form = "stage", "move"
    linear = True
    pull = unmoved

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return elementwise(avals, outs)

    divided_as = 0

    def shape(self, x: Any) -> Any:
        return x

    @staticmethod
    def ref(x: np.ndarray) -> np.ndarray:
        return x

    def transpose(self, ct: Any, x: Any) -> list[Any]:
        return [instantiate(ct)]

    batch = batch_in_place


device_put_p, sharding_constraint_p = DevicePut(), ShardingConstraint()
reshard_p = Reshard()
create_token_p, after_all_p = CreateToken(), AfterAll()
dce_sink_p = DceSink()
stage_p = Stage()
