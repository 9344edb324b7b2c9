"""Movement of data: broadcasting, reshaping, permuting, joining, splitting, padding, counting."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.ad import Zero, instantiate, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData, at_front, moveaxis
from weft.core.primitive import Primitive, divisions
from weft.core.registry import lookup
from weft.core.repeated import remember
from weft.core.trace import typeof
from weft.division.factors import Factors, elementwise, labelled, reshaped
from weft.prims.arithmetic import sub
from weft.prims.families import broadcast_in_dim as broadcast_in_dim
from weft.prims.families import (
    const,
    converted,
    element_rule,
    forwarded,
    kernel_elements,
    kernels,
)
from weft.prims.selection import select_n

# Operands up to which a joined array is compiled into as many loops: those of a stencil of nine
# points are; and repetitions of one array.
MOST_JOINED, MOST_REPEATED = 12, 8
# More operands are compiled where all of them together are small: reading the result costs as
# many comparisons as there are operands, and a call of Python costs more than these.
MOST_SMALL_JOINED, SMALL_JOIN_COMPARISONS = 64, 4096


def _join_fuses(ins: Any) -> bool:
    """Whether joined operands are compiled."""
    if len(ins) <= MOST_JOINED:
        return True
    sizes = [size for aval in ins for size in aval.shape]
    if len(ins) > MOST_SMALL_JOINED or not all(type(size) is int for size in sizes):
        return False
    return len(ins) * sum(prod(aval.shape) for aval in ins) <= SMALL_JOIN_COMPARISONS


def check_sizes(name: str, shape: Any) -> None:
    """Raise TypeError for a shape with a negative size."""
    if any(n < 0 for n in shape):
        raise TypeError(f"{name} needs non-negative sizes, got shape {tuple(shape)}")


class BroadcastInDim(Primitive):
    """An array at a larger shape; operand dimension i becomes ``broadcast_dimensions[i]``."""

    name, repeats = "broadcast_in_dim", True
    masks = "summed"
    counts = "iu"
    form = "move"
    linear = True

    def bind(self, x: Any, **params: Any) -> Any:
        out = super().bind(x, **params)
        if typeof(x).dtype == np.bool_:
            remember(out, x, params["broadcast_dimensions"])
        return out

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        rank = len(outs[0].shape)
        dims = params["broadcast_dimensions"]
        same = [
            d if n == outs[0].shape[d] else None for n, d in zip(avals[0].shape, dims, strict=True)
        ]
        return labelled([same], [range(rank)], avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        return self.bind(*args, **{**params, "shape": part.outs[0]})

    def shape(self, x: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any) -> ShapedArray:
        dims = broadcast_dimensions
        if len(dims) != len(x.shape):
            raise TypeError(
                f"broadcast_in_dim needs one broadcast dimension for each of the"
                f" {len(x.shape)} operand dimensions, got {dims}"
            )
        check_sizes("broadcast_in_dim", shape)
        if len(set(dims)) != len(dims):
            raise TypeError(f"broadcast_in_dim needs distinct dimensions, got {dims}")
        for size, d in zip(x.shape, dims, strict=True):
            if not 0 <= d < len(shape):
                raise TypeError(
                    f"broadcast_in_dim needs dimensions from 0 up to {len(shape) - 1}, got {dims}"
                )
            if size != 1 and size != shape[d]:
                raise TypeError(
                    f"broadcast_in_dim cannot fit operand shape {x.shape} into {tuple(shape)} at"
                    f" dimensions {dims}: sizes must be equal or 1"
                )
        return ShapedArray(shape, x.dtype, x.weak_type)

    @staticmethod
    def ref(x: np.ndarray, *, shape: Any, broadcast_dimensions: Any, sharding: Any) -> np.ndarray:
        inner = [1] * len(shape)
        for size, d in zip(x.shape, broadcast_dimensions, strict=True):
            inner[d] = size
        order = np.argsort(broadcast_dimensions) if x.ndim > 1 else None
        return np.broadcast_to(x.transpose(order).reshape(inner), shape)

    def transpose(
        self, ct: Any, x: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
    ) -> list[Any]:
        dims = broadcast_dimensions
        size_one = [d for n, d in zip(x.aval.shape, dims, strict=True) if n == 1 != shape[d]]
        axes = tuple(d for d in range(len(shape)) if d not in dims or d in size_one)
        out = lookup("reduce_sum").bind(ct, axes=axes, out_sharding=None) if axes else ct
        # the operand dimensions that are left, in the order in which the result has them
        kept = sorted((i for i, d in enumerate(dims) if d not in size_one), key=lambda i: dims[i])
        if size_one or kept != sorted(kept):
            out = self.bind(
                out, shape=x.aval.shape, broadcast_dimensions=tuple(kept), sharding=None
            )
        return [out]

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        shape: Any,
        broadcast_dimensions: Any,
        sharding: Any,
    ) -> tuple[Any, int]:
        x = moveaxis(args[0], dims[0], 0)
        out = self.bind(
            x,
            shape=(axis.size, *shape),
            broadcast_dimensions=(0, *(d + 1 for d in broadcast_dimensions)),
            sharding=None,
        )
        return out, 0

    def pull(
        self, index: Any, x: Any, out: Any, *, shape: Any, broadcast_dimensions: Any, sharding: Any
    ) -> Any:
        return tuple(
            index[d] if n != 1 or shape[d] == 1 else kernels.Affine()
            for n, d in zip(x.shape, broadcast_dimensions, strict=True)
        )


def reshaped_index(index: Any, out: Any, shape: Any) -> Any:
    """The index before a reshape, if it is affine in the index after it; else None."""
    result, i, j = [], 0, 0
    while j < len(shape):
        if shape[j] == 1:
            result.append(kernels.Affine())
            j += 1
            continue
        while i < len(out) and out[i] == 1:
            i += 1
        # dimensions of the result that together make this one
        size, entry = 1, kernels.Affine()
        while i < len(out) and size < shape[j]:
            entry = entry.scaled(out[i], 0).plus(index[i])
            size *= out[i]
            i += 1
        if size != shape[j]:
            return None
        result.append(entry)
        j += 1
    return tuple(result)


class Reshape(Primitive):
    """The same elements in row-major order at another shape."""

    name, reshapes = "reshape", True
    masks = "moved"
    form = "move"
    linear = True

    def expands(self, avals: Any, params: Any) -> bool:
        return params["dimensions"] is not None

    def decompose(self, x: Any, *, new_sizes: Any, dimensions: Any, sharding: Any) -> Any:
        turned = transpose_p.bind(x, permutation=tuple(dimensions))
        return self.bind(turned, new_sizes=new_sizes, dimensions=None, sharding=sharding)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        if params["dimensions"] is not None:
            return None
        return reshaped(avals[0].shape, outs[0].shape)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        return self.bind(*args, **{**params, "new_sizes": part.outs[0]})

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        if not any(specs[0]):
            return [((),) * len(outs[0].shape)]
        f = self.factors(avals, outs, params)
        shapes, mesh = (avals[0].shape, outs[0].shape), avals[0].divided.mesh.shape
        found = None if f is None else divisions.reshaped(f, specs[0], *shapes, mesh)
        if found is None:
            raise divisions.unclear_reshape(avals[0], outs[0].shape)
        return [found]

    def shape(self, x: Any, *, new_sizes: Any, dimensions: Any, sharding: Any) -> ShapedArray:
        if any(n < 0 for n in new_sizes):
            raise TypeError(f"reshape sizes must not be negative, got {tuple(new_sizes)}")
        if prod(new_sizes) != prod(x.shape):
            raise ValueError(
                f"reshape cannot turn shape {x.shape} ({prod(x.shape)} elements) into"
                f" {tuple(new_sizes)} ({prod(new_sizes)} elements)"
            )
        if dimensions is not None and sorted(dimensions) != list(range(len(x.shape))):
            raise TypeError(
                f"reshape dimensions must be a permutation of the operand's, got {dimensions} for"
                f" shape {x.shape}"
            )
        return ShapedArray(new_sizes, x.dtype, x.weak_type)

    @staticmethod
    def ref(x: np.ndarray, *, new_sizes: Any, dimensions: Any, sharding: Any) -> np.ndarray:
        return (x if dimensions is None else np.transpose(x, dimensions)).reshape(new_sizes)

    def transpose(
        self, ct: Any, x: Any, *, new_sizes: Any, dimensions: Any, sharding: Any
    ) -> list[Any]:
        shape = x.aval.shape
        if dimensions is None:
            return [reshape(ct, shape)]
        out = reshape(ct, tuple(shape[d] for d in dimensions))
        return [transpose(out, tuple(int(i) for i in np.argsort(dimensions)))]

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        new_sizes: Any,
        dimensions: Any,
        sharding: Any,
    ) -> tuple[Any, int]:
        x = moveaxis(args[0], dims[0], 0)
        order = None if dimensions is None else (0, *(d + 1 for d in dimensions))
        return self.bind(x, new_sizes=(axis.size, *new_sizes), dimensions=order, sharding=None), 0

    def pull(
        self, index: Any, x: Any, out: Any, *, new_sizes: Any, dimensions: Any, sharding: Any
    ) -> Any:
        return reshaped_index(index, out.shape, x.shape)

    def fuses(self, params: Any, ins: Any) -> bool:
        return params["dimensions"] is None


class Squeeze(Primitive):
    """Dimensions of size 1 removed."""

    name = "squeeze"
    masks = "moved"
    form = "move"
    linear = True

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        dims = range(len(avals[0].shape))
        kept = [d for d in dims if d not in params["dimensions"]]
        return labelled([dims], [kept], avals, outs)

    def shape(self, x: Any, *, dimensions: Any) -> ShapedArray:
        for d in dimensions:
            if not 0 <= d < len(x.shape):
                raise ValueError(f"squeeze got dimension {d} for shape {x.shape}")
            if x.shape[d] != 1:
                raise ValueError(
                    f"squeeze can only remove dimensions of size 1, got dimension {d} of shape"
                    f" {x.shape}"
                )
        return ShapedArray(
            tuple(n for i, n in enumerate(x.shape) if i not in dimensions), x.dtype, x.weak_type
        )

    @staticmethod
    def ref(x: np.ndarray, *, dimensions: Any) -> np.ndarray:
        return np.squeeze(x, tuple(dimensions))

    def transpose(self, ct: Any, x: Any, *, dimensions: Any) -> list[Any]:
        return [expand_dims(ct, dimensions)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, dimensions: Any) -> tuple[Any, int]:
        x = moveaxis(args[0], dims[0], 0)
        return self.bind(x, dimensions=tuple(d + 1 for d in dimensions)), 0

    def pull(self, index: Any, x: Any, out: Any, *, dimensions: Any) -> Any:
        rest = iter(index)
        return tuple(kernels.Affine() if i in dimensions else next(rest) for i in range(x.ndim))


class Transpose(Primitive):
    """Dimensions permuted."""

    name, permutes = "transpose", True
    masks = "moved"
    form = "move"
    linear = True

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        order = params["permutation"]
        return labelled([range(len(order))], [order], avals, outs)

    def shape(self, x: Any, *, permutation: Any) -> ShapedArray:
        if sorted(permutation) != list(range(len(x.shape))):
            raise TypeError(
                f"transpose needs a permutation of {len(x.shape)} dimensions for shape {x.shape},"
                f" got {tuple(permutation)}"
            )
        return ShapedArray(tuple([x.shape[d] for d in permutation]), x.dtype, x.weak_type)

    @staticmethod
    def ref(x: np.ndarray, *, permutation: Any) -> np.ndarray:
        return np.transpose(x, permutation)

    def transpose(self, ct: Any, x: Any, *, permutation: Any) -> list[Any]:
        inverse = tuple(int(i) for i in np.argsort(permutation))
        return [self.bind(ct, permutation=inverse)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, permutation: Any) -> tuple[Any, int]:
        dim = dims[0]
        order = (dim, *(d if d < dim else d + 1 for d in permutation))
        return self.bind(args[0], permutation=order), 0

    def pull(self, index: Any, x: Any, out: Any, *, permutation: Any) -> Any:
        place = dict(zip(permutation, index, strict=True))
        return tuple(place[d] for d in range(x.ndim))


class Rev(Primitive):
    """Dimensions read backwards."""

    name = "rev"
    masks = "moved"
    form = "move"
    linear = True

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return elementwise(avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """Parts change places, and are reversed themselves."""
        (x,) = args
        for d in params["dimensions"]:
            labels = part.factors.ins[0][d]
            n = part.count(labels)
            if n > 1:
                x = part.permuted(x, labels, [(i, n - 1 - i) for i in range(n)])
        return self.bind(x, **params)

    divided_as = 0

    def shape(self, x: Any, *, dimensions: Any) -> ShapedArray:
        if len(set(dimensions)) != len(dimensions):
            raise TypeError(f"rev needs distinct dimensions, got {tuple(dimensions)}")
        if any(not 0 <= d < len(x.shape) for d in dimensions):
            raise TypeError(f"rev got dimensions {tuple(dimensions)} for shape {x.shape}")
        return x

    @staticmethod
    def ref(x: np.ndarray, *, dimensions: Any) -> np.ndarray:
        return np.flip(x, tuple(dimensions))

    def transpose(self, ct: Any, x: Any, *, dimensions: Any) -> list[Any]:
        return [self.bind(ct, dimensions=dimensions)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, dimensions: Any) -> tuple[Any, int]:
        dim = dims[0]
        return self.bind(
            args[0], dimensions=tuple(d if d < dim else d + 1 for d in dimensions)
        ), dim

    def pull(self, index: Any, x: Any, out: Any, *, dimensions: Any) -> Any:
        return tuple(
            entry.scaled(-1, n - 1) if d in dimensions else entry
            for d, (entry, n) in enumerate(zip(index, x.shape, strict=True))
        )


class Concatenate(Primitive):
    """Arrays joined along a dimension."""

    name, form = "concatenate", "element"
    masks = "moved"
    linear = True
    element = element_rule(kernel_elements, "concatenate")

    def distances(
        self, params: dict[str, Any], ins: Any, operand: int, result: int
    ) -> tuple[int, ...]:
        axis = params["dimension"]
        before = sum(x.shape[axis] for x in ins[:operand])
        return tuple(-before if i == axis else 0 for i in range(len(ins[0].shape)))

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        return [divisions.check_alike(self.name, specs, avals)]

    def fuses(self, params: Any, ins: Any) -> bool:
        return _join_fuses(ins)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        kept = [None if d == params["dimension"] else d for d in range(len(outs[0].shape))]
        return labelled([kept] * len(avals), [kept], avals, outs)

    def shape(self, *xs: Any, dimension: int) -> ShapedArray:
        if not xs:
            raise ValueError("concatenate needs at least one operand")
        first = xs[0]
        if not 0 <= dimension < len(first.shape):
            raise TypeError(f"concatenate got dimension {dimension} for shape {first.shape}")
        rest = first.shape[:dimension] + first.shape[dimension + 1 :]
        for x in xs:
            if len(x.shape) != len(first.shape) or (
                x.shape[:dimension] + x.shape[dimension + 1 :] != rest
            ):
                raise TypeError(
                    "concatenate needs equal shapes except along dimension"
                    f" {dimension}, got {', '.join(str(a.shape) for a in xs)}"
                )
            if x.dtype != first.dtype:
                raise TypeError(
                    "concatenate needs operands of the same dtype, got"
                    f" {', '.join(a.str_short() for a in xs)}; use weft.numpy.concatenate, which"
                    " promotes"
                )
        size = sum(x.shape[dimension] for x in xs)
        shape = (*first.shape[:dimension], size, *first.shape[dimension + 1 :])
        return ShapedArray(shape, first.dtype, all(x.weak_type for x in xs))

    @staticmethod
    def ref(*xs: np.ndarray, dimension: int) -> np.ndarray:
        return np.concatenate(xs, dimension)

    def transpose(self, ct: Any, *xs: Any, dimension: int) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(x.aval) if is_undef(x) else None for x in xs]
        sizes = tuple((x.aval if is_undef(x) else typeof(x)).shape[dimension] for x in xs)
        parts = split_p.bind(ct, sizes=sizes, axis=dimension)
        return [p if is_undef(x) else None for p, x in zip(parts, xs, strict=True)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, dimension: int) -> tuple[Any, int]:
        moved = [at_front(x, d, axis.size) for x, d in zip(args, dims, strict=True)]
        return self.bind(*moved, dimension=dimension + 1), 0


class Split(Primitive):
    """An array cut into pieces along a dimension."""

    name, form, view = "split", "element", True
    masks = "moved"
    multiple_results = linear = True
    element = element_rule(kernel_elements, "split")

    def distances(
        self, params: dict[str, Any], ins: Any, operand: int, result: int
    ) -> tuple[int, ...]:
        before = sum(params["sizes"][:result])
        return tuple(before if i == params["axis"] else 0 for i in range(len(ins[0].shape)))

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        kept = [None if d == params["axis"] else d for d in range(len(avals[0].shape))]
        return labelled([kept], [kept] * len(outs), avals, outs)

    divided_as = 0

    def shape(self, x: Any, *, sizes: Any, axis: int) -> list[ShapedArray]:
        if not 0 <= axis < len(x.shape):
            raise TypeError(f"split got axis {axis} for shape {x.shape}")
        if any(n < 0 for n in sizes) or sum(sizes) != x.shape[axis]:
            raise ValueError(
                f"split sizes {tuple(sizes)} must be non-negative and sum to {x.shape[axis]},"
                f" the size of axis {axis} of {x.shape}"
            )
        return [
            ShapedArray((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, x.weak_type)
            for n in sizes
        ]

    @staticmethod
    def ref(x: np.ndarray, *, sizes: Any, axis: int) -> list[np.ndarray]:
        return np.split(x, list(accumulate(sizes))[:-1], axis)

    def transpose(self, cts: Any, x: Any, *, sizes: Any, axis: int) -> list[Any]:
        return [concatenate_p.bind(*map(instantiate, cts), dimension=axis)]

    def batch(self, axis_: AxisData, args: Any, dims: Any, *, sizes: Any, axis: int) -> Any:
        dim = dims[0]
        outs = self.bind(args[0], sizes=sizes, axis=axis if axis < dim else axis + 1)
        return outs, [dim] * len(outs)


class Stack(Primitive):
    """Arrays of one shape joined along a new dimension."""

    name, form = "stack", "element"
    masks = "moved"
    linear = True
    element = element_rule(kernel_elements, "stack")

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        parts = list(divisions.check_alike(self.name, specs, avals))
        parts.insert(params["axis"], ())
        return [tuple(parts)]

    def fuses(self, params: Any, ins: Any) -> bool:
        return _join_fuses(ins)

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        dims = list(range(len(avals[0].shape)))
        made = [*dims[: params["axis"]], None, *dims[params["axis"] :]]
        return labelled([dims] * len(avals), [made], avals, outs)

    def shape(self, *xs: Any, axis: int) -> ShapedArray:
        if not xs:
            raise ValueError("stack needs at least one operand")
        first = xs[0]
        if any(x.shape != first.shape or x.dtype != first.dtype for x in xs):
            given = ", ".join(x.str_short() for x in xs)
            error = TypeError if all(x.shape == first.shape for x in xs) else ValueError
            raise error(f"stack needs operands of one shape and dtype, got {given}")
        if not 0 <= axis <= len(first.shape):
            raise ValueError(f"stack got axis {axis} for operands of shape {first.shape}")
        shape = (*first.shape[:axis], len(xs), *first.shape[axis:])
        return ShapedArray(shape, first.dtype, all(x.weak_type for x in xs))

    @staticmethod
    def ref(*xs: np.ndarray, axis: int) -> np.ndarray:
        return np.stack(xs, axis)

    def transpose(self, ct: Any, *xs: Any, axis: int) -> list[Any]:
        parts = unstack_p.bind(ct, axis=axis)
        return [p if is_undef(x) else None for p, x in zip(parts, xs, strict=True)]

    def batch(self, axis_: AxisData, args: Any, dims: Any, *, axis: int) -> tuple[Any, int]:
        moved = [at_front(x, d, axis_.size) for x, d in zip(args, dims, strict=True)]
        return self.bind(*moved, axis=axis + 1), 0


class Unstack(Primitive):
    """The slices of an array along a dimension."""

    name, form, view = "unstack", "element", True
    masks = "moved"
    multiple_results = linear = True
    element = element_rule(kernel_elements, "unstack")

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        dims = list(range(len(outs[0].shape))) if outs else []
        given = [*dims[: params["axis"]], None, *dims[params["axis"] :]]
        return labelled([given], [dims] * len(outs), avals, outs) if outs else None

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [(params["axis"],)]

    def shape(self, x: Any, *, axis: int) -> list[ShapedArray]:
        if not 0 <= axis < len(x.shape):
            raise ValueError(f"unstack got axis {axis} for shape {x.shape}")
        one = ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], x.dtype, x.weak_type)
        return [one] * x.shape[axis]

    @staticmethod
    def ref(x: np.ndarray, *, axis: int) -> list[np.ndarray]:
        return list(np.moveaxis(x, axis, 0))

    def transpose(self, cts: Any, x: Any, *, axis: int) -> list[Any]:
        return [stack_p.bind(*map(instantiate, cts), axis=axis)]

    def batch(self, axis_: AxisData, args: Any, dims: Any, *, axis: int) -> Any:
        x = moveaxis(args[0], dims[0], 0)
        outs = self.bind(x, axis=axis + 1)
        return outs, [0] * len(outs)


class Pad(Primitive):
    """An array surrounded (or cropped) and spread with a padding value."""

    name, form = "pad", "element"
    masks = "summed"
    linear = True
    element = element_rule(kernel_elements, "pad")

    def distances(
        self, params: dict[str, Any], ins: Any, operand: int, result: int
    ) -> tuple[int, ...]:
        if operand:
            return ()
        return tuple(0 if inner else -low for low, _, inner in params["padding_config"])

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        kept = [
            d if config == (0, 0, 0) else None
            for d, config in enumerate(map(tuple, params["padding_config"]))
        ]
        return labelled([kept, ()], [kept], avals, outs)

    divided_as = 0

    def shape(self, x: Any, value: Any, *, padding_config: Any) -> ShapedArray:
        if value.shape:
            raise ValueError(f"pad needs a scalar padding value, got shape {value.shape}")
        if x.dtype != value.dtype:
            raise TypeError(
                f"pad needs a padding value of the operand's dtype, got {x.str_short()} and"
                f" {value.str_short()}"
            )
        if len(padding_config) != len(x.shape):
            raise ValueError(
                f"pad needs one (low, high, interior) for each of the {len(x.shape)} dimensions,"
                f" got {len(padding_config)}"
            )
        sizes = []
        for n, (low, high, interior) in zip(x.shape, padding_config, strict=True):
            if interior < 0:
                raise ValueError(f"pad needs interior padding >= 0, got {interior}")
            size = low + high + n + interior * max(n - 1, 0)
            if size < 0:
                raise ValueError(
                    f"pad with {tuple(padding_config)} makes a dimension of shape {x.shape}"
                    f" negative ({size})"
                )
            sizes.append(size)
        return ShapedArray(tuple(sizes), x.dtype, x.weak_type and value.weak_type)

    @staticmethod
    def ref(x: np.ndarray, value: np.ndarray, *, padding_config: Any) -> np.ndarray:
        if not any(map(any, padding_config)):
            return x
        sizes, source, target = [], [], []
        for n, (low, high, interior) in zip(x.shape, padding_config, strict=True):
            step = interior + 1
            size = low + high + n + interior * max(n - 1, 0)
            first = max(0, -(low // step)) if low < 0 else 0
            last = n - 1
            while last >= first and low + last * step >= size:
                last -= 1
            sizes.append(max(size, 0))
            source.append(slice(first, max(last + 1, first)))
            target.append(slice(low + first * step, max(low + last * step + 1, 0), step))
        out = np.full(sizes, value, x.dtype)
        if all(s.start < s.stop for s in source):
            out[tuple(target)] = x[tuple(source)]
        return out

    def transpose(self, ct: Any, x: Any, value: Any, *, padding_config: Any) -> list[Any]:
        if type(ct) is Zero:
            return [Zero(a.aval) if is_undef(a) else None for a in (x, value)]
        t_x = t_value = None
        if is_undef(x) or is_undef(value):
            crop = tuple((-low, -high, 0) for low, high, _ in padding_config)
            cropped = self.bind(ct, const(ct, 0), padding_config=crop)
            steps = tuple(interior + 1 for _, _, interior in padding_config)
            inner = lookup("slice").bind(
                cropped,
                start_indices=(0,) * len(steps),
                limit_indices=tuple(np.shape(cropped)),
                strides=steps,
            )
            t_x = inner if is_undef(x) else None
            if is_undef(value):
                t_value = sub(_sum_all(ct), _sum_all(inner))
        return [t_x, t_value]

    def batch(
        self, axis: AxisData, args: Any, dims: Any, *, padding_config: Any
    ) -> tuple[Any, int]:
        (x, value), (dim, value_dim) = args, dims
        if value_dim is None:
            mapped = list(padding_config)
            mapped.insert(dim, (0, 0, 0))
            return self.bind(x, value, padding_config=tuple(mapped)), dim
        # one padding value for each element of the batch: pad with zeros, then select
        x = at_front(x, dim, axis.size)
        value = at_front(value, value_dim, axis.size)
        config = ((0, 0, 0), *padding_config)
        padded = self.bind(x, const(x, 0), padding_config=config)
        inside = broadcast_in_dim(np.bool_(True), np.shape(x))
        mask = self.bind(inside, np.bool_(False), padding_config=config)
        wide = broadcast_in_dim(value, np.shape(padded), (0,))
        return select_n(mask, wide, padded), 0


def _sum_all(x: Any) -> Any:
    return lookup("reduce_sum").bind(x, axes=tuple(range(np.ndim(x))), out_sharding=None)


class Tile(Primitive):
    """An array repeated along each dimension."""

    name, form = "tile", "element"
    masks = "summed"
    linear = True
    neutral = "shapes.tile"
    element = element_rule(kernel_elements, "tile")

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        return [[d for d, n in enumerate(params["reps"]) if n != 1]]

    def fuses(self, params: Any, ins: Any) -> bool:
        return prod(params["reps"]) <= MOST_REPEATED

    def shape(self, x: Any, *, reps: Any) -> ShapedArray:
        if len(reps) != len(x.shape):
            raise TypeError(
                f"tile needs one repetition for each of the {len(x.shape)} dimensions, got {reps}"
            )
        shape = tuple(n * r for n, r in zip(x.shape, reps, strict=True))
        return ShapedArray(shape, x.dtype, x.weak_type)

    @staticmethod
    def ref(x: np.ndarray, *, reps: Any) -> np.ndarray:
        return np.tile(x, reps)

    def transpose(self, ct: Any, x: Any, *, reps: Any) -> list[Any]:
        shape = x.aval.shape
        split_sizes = tuple(k for r, n in zip(reps, shape, strict=True) for k in (r, n))
        axes = tuple(range(0, 2 * len(shape), 2))
        parts = reshape(ct, split_sizes)
        return [lookup("reduce_sum").bind(parts, axes=axes, out_sharding=None)]

    def batch(self, axis: AxisData, args: Any, dims: Any, *, reps: Any) -> tuple[Any, int]:
        counts = list(reps)
        counts.insert(dims[0], 1)
        return self.bind(args[0], reps=tuple(counts)), dims[0]


class Iota(Primitive):
    """Counting along a dimension."""

    name = "iota"
    form = "iota"
    holes = {"transpose": "it has no operands", "batch": "it has no operands"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return labelled([], [range(len(outs[0].shape))], avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        dim = params["dimension"]
        found = self.bind(**{**params, "shape": part.outs[0]})
        labels = part.factors.outs[0][dim]
        if part.count(labels) == 1:
            return found
        start = converted(part.start(labels, part.outs[0][dim]), np.dtype(params["dtype"]))
        return lookup("add").bind(found, broadcast_in_dim(start, part.outs[0], ()))

    def shape(self, *, dtype: Any, shape: Any, dimension: int, sharding: Any) -> ShapedArray:
        if not dtypes.issubdtype(dtype, np.number):
            raise TypeError(f"iota needs a numeric dtype, got {np.dtype(dtype)}")
        if not 0 <= dimension < len(shape):
            raise ValueError(f"iota got dimension {dimension} for shape {tuple(shape)}")
        check_sizes("iota", shape)
        return ShapedArray(shape, dtype)

    @staticmethod
    def ref(*, dtype: Any, shape: Any, dimension: int, sharding: Any) -> np.ndarray:
        count = np.arange(shape[dimension]).astype(dtype)
        inner = [1] * len(shape)
        inner[dimension] = shape[dimension]
        return np.broadcast_to(count.reshape(inner), shape)


class Empty(Primitive):
    """An array whose values are not set: zeros here."""

    name, form = "empty", "element"
    element = element_rule(kernel_elements, "empty")
    holes = {"transpose": "it has no operands", "batch": "it has no operands"}

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        return labelled([], [range(len(outs[0].shape))], avals, outs)

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        return self.bind(**{**params, "shape": part.outs[0]})

    def shape(self, *, shape: Any, dtype: Any, out_sharding: Any) -> ShapedArray:
        return ShapedArray(shape, dtype)

    @staticmethod
    def ref(*, shape: Any, dtype: Any, out_sharding: Any) -> np.ndarray:
        return np.zeros(shape, dtype)


class OptimizationBarrier(Primitive):
    """The operands unchanged; nothing is moved or merged across."""

    name, form, pinned = "optimization_barrier", "element", True
    multiple_results = True
    element = forwarded

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        names = [[(i, d) for d in range(len(a.shape))] for i, a in enumerate(avals)]
        return labelled(names, names, avals, outs)

    def shape(self, *xs: Any) -> list[Any]:
        return list(xs)

    @staticmethod
    def ref(*xs: np.ndarray) -> list[np.ndarray]:
        return list(xs)

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        out = self.bind(*primals)
        given = [t for t in tangents if type(t) is not Zero]
        moved = iter(self.bind(*given))
        return out, [t if type(t) is Zero else next(moved) for t in tangents]

    def transpose(self, cts: Any, *xs: Any) -> list[Any]:
        given = [ct for ct in cts if type(ct) is not Zero]
        moved = iter(self.bind(*given))
        return [ct if type(ct) is Zero else next(moved) for ct in cts]

    def batch(self, axis: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        return self.bind(*args), list(dims)


broadcast_in_dim_p = BroadcastInDim()
reshape_p, squeeze_p, transpose_p, rev_p = Reshape(), Squeeze(), Transpose(), Rev()
concatenate_p, split_p, stack_p, unstack_p = Concatenate(), Split(), Stack(), Unstack()
pad_p, tile_p, iota_p, empty_p = Pad(), Tile(), Iota(), Empty()
optimization_barrier_p = OptimizationBarrier()


def reshape(x: Any, shape: tuple[int, ...]) -> Any:
    if typeof(x).shape == shape:
        return x
    return reshape_p.bind(x, new_sizes=shape, dimensions=None, sharding=None)


def transpose(x: Any, permutation: tuple[int, ...]) -> Any:
    if permutation == tuple(range(len(permutation))):
        return x
    return transpose_p.bind(x, permutation=permutation)


def squeeze(x: Any, dimensions: tuple[int, ...]) -> Any:
    return squeeze_p.bind(x, dimensions=dimensions) if dimensions else x


def expand_dims(x: Any, dimensions: tuple[int, ...]) -> Any:
    """``x`` with axes of size 1 at the given places of the result."""
    if not dimensions:
        return x
    shape = list(typeof(x).shape)
    for d in sorted(dimensions):
        shape.insert(d, 1)
    kept = [i for i in range(len(shape)) if i not in dimensions]
    return broadcast_in_dim(x, tuple(shape), tuple(kept))


def iota(dtype: Any, shape: tuple[int, ...], dimension: int = 0, sharding: Any = None) -> Any:
    return iota_p.bind(dtype=np.dtype(dtype), shape=shape, dimension=dimension, sharding=sharding)


def full(shape: tuple[int, ...], value: Any) -> Any:
    """A scalar at every place of a shape."""
    return broadcast_in_dim(value, shape, ()) if shape else value
