"""Functions that say themselves how they are divided over a mesh.

A function that is called with arrays over a mesh is computed by what its ``partition`` gives, on
the part of each device. Within ``jit`` the function itself is computed: the compiler divides its
operations, and the results are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.api.staging import eval_shape
from weft.base.annotations import signature_of
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.sharding import NamedSharding, PartitionSpec
from weft.core.trace import Tracer
from weft.parallel.shard_map import shard_map
from weft.tree.functions import tree_leaves, tree_map

__all__ = ["BATCHING", "ArrayMapping", "CompoundFactor", "SdyShardingRule", "custom_partitioning"]

BATCHING = "…"  # stands for leading dimensions in a mapping


class CompoundFactor(tuple[str, ...]):
    """Factors that one dimension is the product of.

    >>> CompoundFactor("a", "b")
    ('a', 'b')
    """

    def __new__(cls, *factors: str) -> CompoundFactor:
        if len(factors) < 2:
            raise ValueError(f"a CompoundFactor has at least two factors, got {factors}")
        for factor in factors:
            if not isinstance(factor, str) or factor.startswith(BATCHING):
                raise ValueError(f"the factors of a CompoundFactor are names, got {factor!r}")
            _check_name(factor)
        return tuple.__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """A factor, or a CompoundFactor, for each dimension of an array; ``BATCHING`` may come first.

    >>> ArrayMapping(BATCHING, "i", "j")
    ('…', 'i', 'j')
    """

    def __new__(cls, *dims: Any) -> ArrayMapping:
        for place, dim in enumerate(dims):
            if not isinstance(dim, (str, CompoundFactor)):
                raise ValueError(
                    f"a dimension is mapped to a name or a CompoundFactor, got {dim!r}"
                )
            if isinstance(dim, str) and dim.startswith(BATCHING):
                if place:
                    raise ValueError(f"{BATCHING} stands for leading dimensions, got {dims}")
            elif isinstance(dim, str):
                _check_name(dim)
        return tuple.__new__(cls, dims)


def _check_name(factor: str) -> None:
    if not factor or not factor[0].isalpha() or not all(c.isalnum() or c == "_" for c in factor):
        raise ValueError(f"a factor is a letter, then letters, digits and _, got {factor!r}")


class SdyShardingRule:
    """Which dimensions of operands and results belong together, by the names of their factors."""

    def __init__(
        self, operand_mappings: Sequence[Any], result_mappings: Sequence[Any], **factor_sizes: int
    ) -> None:
        self.operand_mappings = tuple(operand_mappings)
        self.result_mappings = tuple(result_mappings)
        self.factor_sizes = factor_sizes

    def __repr__(self) -> str:
        return f"SdyShardingRule({self.operand_mappings}, {self.result_mappings})"


class custom_partitioning:
    """A function with a rule of its own for how it is divided over devices.

    >>> import weft, weft.numpy as jnp
    >>> from weft.experimental.custom_partitioning import custom_partitioning
    >>> @custom_partitioning
    ... def double(x):
    ...     return 2 * x
    >>> def partition(mesh, arg_shapes, result_shape):
    ...     where = arg_shapes[0].sharding
    ...     return mesh, lambda x: 2 * x, where, (where,)
    >>> _ = double.def_partition(
    ...     partition, infer_sharding_from_operands=lambda mesh, args, result: args[0].sharding)
    >>> weft.jit(double)(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()) -> None:
        self.fun = fun
        self.static_argnums = tuple(static_argnums)
        self.partition: Callable[..., Any] | None = None
        self.infer_sharding_from_operands: Callable[..., Any] | None = None
        self.sharding_rule: Any = None
        functools.update_wrapper(self, fun)

    def def_partition(
        self,
        partition: Callable[..., Any],
        infer_sharding_from_operands: Callable[..., Any] | None = None,
        propagate_user_sharding: Callable[..., Any] | None = None,
        decode_shardings: bool = True,
        sharding_rule: Any = None,
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        **factor_sizes: int,
    ) -> Callable[..., Any]:
        """Say how it is divided.

        ``partition(*static, mesh, arg_shapes, result_shape)`` gives a mesh, the function of one
        device, and shardings of results and arguments. ``infer_sharding_from_operands`` of the same
        arguments gives the shardings of results. The rest is for JAX's compilers.
        """
        if isinstance(sharding_rule, str) and sharding_rule.count("->") != 1:
            raise ValueError(f"a sharding_rule has one ->, as in 'i j -> i', got {sharding_rule!r}")
        self.partition = partition
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.sharding_rule = sharding_rule
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = signature_of(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        args = bound.args
        static = {i % len(args) for i in self.static_argnums}
        dynamic = [x for i, x in enumerate(args) if i not in static]
        mesh = _mesh_of(dynamic)
        if mesh is None or self.partition is None:
            return self.fun(*args, **bound.kwargs)
        return self._divided(mesh, [args[i] for i in sorted(static)], dynamic)

    def _divided(self, mesh: Any, static: list[Any], args: list[Any]) -> Any:
        assert self.partition is not None
        shapes = tree_map(lambda x: _shape(x, mesh), tuple(args))
        positions = [i % (len(args) + len(static)) for i in self.static_argnums]

        def whole(*dynamic: Any) -> Any:
            given = list(dynamic)
            for at, value in sorted(zip(positions, static, strict=True), key=lambda p: p[0]):
                given.insert(at, value)
            return self.fun(*given)

        result = eval_shape(whole, *args)
        everywhere = NamedSharding(mesh, PartitionSpec())
        if self.infer_sharding_from_operands is None:
            result = tree_map(lambda x: x.update(sharding=everywhere), result)
        else:
            found = self.infer_sharding_from_operands(*static, mesh, shapes, result)
            result = tree_map(lambda x, s: x.update(sharding=s), result, found)
        mesh, lower, outs, ins = self.partition(*static, mesh, shapes, result)
        spec = lambda s: getattr(s, "spec", PartitionSpec())
        divided = shard_map(
            lower,
            mesh=mesh,
            in_specs=tree_map(spec, tuple(ins)),
            out_specs=tree_map(spec, outs),
            check_vma=False,
        )
        return divided(*args)


def _mesh_of(args: Any) -> Any:
    """The mesh of several devices that arrays are over; None for traced ones."""
    leaves = tree_leaves(args)
    if any(isinstance(x, Tracer) for x in leaves):
        return None
    for x in leaves:
        place = getattr(x, "sharding", None)
        if isinstance(place, NamedSharding) and place.num_devices > 1:
            return place.mesh
    return None


def _shape(x: Any, mesh: Any) -> ShapeDtypeStruct:
    struct = ShapeDtypeStruct.like(x)
    place = getattr(x, "sharding", None)
    where = place if isinstance(place, NamedSharding) else NamedSharding(mesh, PartitionSpec())
    return struct.update(sharding=where)
