"""Between sums that are left to be made and their parts: what ``shard_map`` takes and gives.

The parts of an array over mesh axes have one dimension for each of these behind its own, divided
over it. Programs are compiled without these primitives: see ``division.programs.unmade_sums``.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.core.ad import instantiate
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, moveaxis
from weft.core.primitive import Primitive
from weft.core.sharding import NamedSharding, PartitionSpec, full_spec


def _spec(aval: Any) -> tuple[Any, ...]:
    if aval.divided is None:
        return (None,) * len(aval.shape)
    return full_spec(aval.divided, len(aval.shape))


class _Parts(Primitive):
    """A change between an array and its parts over ``axes`` of ``mesh``."""

    linear = True
    host = "it is removed before compilation"
    mark = ""  # what the array is over the axes
    apart = False  # whether the result is the parts

    def shape(self, x: Any, *, axes: tuple[Any, ...], mesh: Any) -> ShapedArray:
        sizes = [mesh.shape[a] for a in axes]
        if self.apart:
            shape, spec = (*x.shape, *sizes), PartitionSpec(*_spec(x), *axes)
        else:
            count = len(x.shape) - len(axes)
            shape = x.shape[:count]
            spec = PartitionSpec(*_spec(x)[:count], **{self.mark: frozenset(axes)})
        sharding = NamedSharding(mesh.abstract_mesh, spec)
        return ShapedArray(shape, x.dtype, x.weak_type, sharding=sharding)

    def transpose(self, ct: Any, x: Any, *, axes: tuple[Any, ...], mesh: Any) -> list[Any]:
        return [self.dual().bind(instantiate(ct), axes=axes, mesh=mesh)]

    def dual(self) -> Primitive:
        """Its transpose."""
        raise TypeError(f"{self.name} has no transpose")

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        return self.bind(moveaxis(args[0], dims[0], 0), **params), 0


class SumToParts(_Parts):
    """The parts of a sum that is left to be made."""

    name, mark, apart = "sum_to_parts", "unreduced", True

    def dual(self) -> Primitive:
        return parts_to_shared_p

    @staticmethod
    def ref(x: np.ndarray, *, axes: Any, mesh: Any) -> np.ndarray:
        sizes = [mesh.shape[a] for a in axes]
        found = np.zeros((*x.shape, prod(sizes)), x.dtype)
        found[..., 0] = x
        return found.reshape((*x.shape, *sizes))


class PartsToSum(_Parts):
    """Parts as a sum that is left to be made."""

    name, mark = "parts_to_sum", "unreduced"

    def dual(self) -> Primitive:
        return shared_to_parts_p

    @staticmethod
    def ref(x: np.ndarray, *, axes: Any, mesh: Any) -> np.ndarray:
        return x.sum(tuple(range(-len(axes), 0)), x.dtype) if axes else x


class SharedToParts(_Parts):
    """What all devices share, for each of them."""

    name, mark, apart = "shared_to_parts", "reduced", True

    def dual(self) -> Primitive:
        return parts_to_sum_p

    @staticmethod
    def ref(x: np.ndarray, *, axes: Any, mesh: Any) -> np.ndarray:
        sizes = [mesh.shape[a] for a in axes]
        return np.broadcast_to(x.reshape(*x.shape, *[1] * len(sizes)), (*x.shape, *sizes)).copy()


class PartsToShared(_Parts):
    """What each device has, which is the same, as one value that they share."""

    name, mark = "parts_to_shared", "reduced"

    def dual(self) -> Primitive:
        return sum_to_parts_p

    @staticmethod
    def ref(x: np.ndarray, *, axes: Any, mesh: Any) -> np.ndarray:
        for _ in axes:
            x = x[..., 0]
        return x


sum_to_parts_p, parts_to_sum_p = SumToParts(), PartsToSum()
shared_to_parts_p, parts_to_shared_p = SharedToParts(), PartsToShared()
