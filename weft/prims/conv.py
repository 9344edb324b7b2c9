"""Convolution: one primitive with strides, padding, dilations and groups in any layout. The
reference gathers windows of the padded input and multiplies them by the kernel as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.base.record import Record
from weft.core.ad import Zero, is_undef
from weft.core.avals import ShapedArray
from weft.core.batching import AxisData
from weft.core.dims.dim import max_dim
from weft.core.primitive import Primitive, divisions
from weft.core.trace import typeof
from weft.division.factors import Factors
from weft.prims.convert import convert
from weft.prims.dot import contract, inverse, working_dtype
from weft.prims.families import COMPLEX, FLOAT, INT, INTEGER, kind_of, scalar
from weft.prims.shape import full, pad_p, reshape, reshape_p, rev_p

Dims = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


class ConvDimensionNumbers(Record):
    """Where the dimensions of a convolution are.

    Args:
        lhs_spec: Axes of the input: batch, features, then space.
        rhs_spec: Axes of the kernel: output features, input features, then space.
        out_spec: Axes of the result: batch, features, then space.

    Example:
        >>> from weft import lax
        >>> lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1)).lhs_spec
        (0, 2, 1)
    """

    lhs_spec: Sequence[int]
    rhs_spec: Sequence[int]
    out_spec: Sequence[int]


# --- shapes ---------------------------------------------------------------------------------------


def dilated(sizes: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Sizes after ``dilation - 1`` holes are put between neighbours."""
    return [max(0, 1 + d * (n - 1)) for n, d in zip(sizes, dilation, strict=True)]


def window_counts(
    sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], padding: Pads
) -> list[int]:
    """How many windows fit into each padded size."""
    padded = [n + low + high for n, (low, high) in zip(sizes, padding, strict=True)]
    if any(n < 0 for n in padded):
        raise ValueError(
            "negative padding exceeds the size of the dimension: padding"
            f" {padding} for spatial sizes {tuple(sizes)}"
        )
    return [max_dim(0, (n - w) // s + 1) for n, w, s in zip(padded, window, strides, strict=True)]


def _check_groups(lhs: Dims, rhs: Dims, numbers: Any, features: int, batches: int) -> None:
    """Raise ValueError unless features and batch divide into the groups."""

    def error(problem: str) -> ValueError:
        return ValueError(
            f"conv_general_dilated: {problem}. Got lhs of shape {lhs}, rhs of shape {rhs},"
            f" feature_group_count={features}, batch_group_count={batches} and {numbers}"
        )

    in_features, out_features = lhs[numbers.lhs_spec[1]], rhs[numbers.rhs_spec[0]]
    if features < 1 or batches < 1:
        raise error("group counts must be positive")
    if features > 1 and batches > 1:
        raise error("only one of feature_group_count and batch_group_count may be above 1")
    if in_features % features:
        raise error(f"feature_group_count does not divide the {in_features} features of lhs")
    if in_features // features != rhs[numbers.rhs_spec[1]]:
        raise error(
            f"lhs has {in_features // features} features in each group but rhs takes"
            f" {rhs[numbers.rhs_spec[1]]}"
        )
    if out_features % features or out_features % batches:
        raise error(f"the group count does not divide the {out_features} output features of rhs")
    if lhs[numbers.lhs_spec[0]] % batches:
        raise error(f"batch_group_count does not divide the batch of {lhs[numbers.lhs_spec[0]]}")


@lru()
def conv_shape(
    lhs: Dims,
    rhs: Dims,
    window_strides: Dims,
    padding: Pads,
    lhs_dilation: Dims,
    rhs_dilation: Dims,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
) -> Dims:
    """The shape of a convolution."""
    if len(lhs) != len(rhs):
        raise ValueError(
            f"conv_general_dilated needs lhs and rhs of equal rank, got shapes {lhs} and {rhs}"
        )
    spatial = len(lhs) - 2
    counts = {"window_strides": window_strides, "lhs_dilation": lhs_dilation}
    counts["rhs_dilation"] = rhs_dilation
    for name, values in counts.items():
        if len(values) != spatial:
            raise ValueError(
                f"conv_general_dilated needs one number in {name} for each of {spatial} spatial"
                f" dimensions, got {values} for lhs of shape {lhs}"
            )
        if any(n < 1 for n in values):
            error = ValueError if name == "window_strides" else TypeError
            raise error(f"conv_general_dilated needs positive {name}, got {values}")
    if len(padding) != spatial:
        raise TypeError(
            f"conv_general_dilated needs one pair in padding for each of {spatial} spatial"
            f" dimensions, got {padding} for lhs of shape {lhs}"
        )
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if any(sorted(spec) != list(range(len(lhs))) for spec in dimension_numbers):
        raise ValueError(
            f"conv_general_dilated needs each dimension once in dimension_numbers for lhs of shape"
            f" {lhs}, got {dimension_numbers}"
        )
    _check_groups(lhs, rhs, dimension_numbers, feature_group_count, batch_group_count)
    space = window_counts(
        dilated([lhs[i] for i in lhs_spec[2:]], lhs_dilation),
        dilated([rhs[i] for i in rhs_spec[2:]], rhs_dilation),
        window_strides,
        padding,
    )
    out = (lhs[lhs_spec[0]] // batch_group_count, rhs[rhs_spec[0]], *space)
    return tuple(out[i] for i in inverse(out_spec))


def _check_preferred(dtype: Any, preferred: Any) -> None:
    have, want = kind_of(dtype), kind_of(preferred)
    if not (have & INTEGER and want == FLOAT):
        for kind in (INTEGER, FLOAT, COMPLEX):
            if have & kind and not want & kind:
                raise TypeError(
                    f"conv_general_dilated cannot sum {dtype} in preferred_element_type"
                    f" {preferred}: integers sum in integers or floats, floats in floats, complex"
                    " numbers in complex numbers"
                )
        if have == INT and want != INT:
            raise TypeError(
                f"conv_general_dilated: preferred_element_type {preferred} must be signed, as the"
                f" operands' {dtype} is"
            )
    if preferred.itemsize < dtype.itemsize:
        raise TypeError(
            f"conv_general_dilated: preferred_element_type {preferred} is narrower than {dtype};"
            " convert the result instead"
        )


# --- the reference --------------------------------------------------------------------------------

# The windows of a large input overlap: they are gathered for a part of the batch at a time.
_WINDOW_ELEMENTS = 1 << 24


def _convolve(
    lhs: np.ndarray, rhs: np.ndarray, counts: Sequence[int], strides: Dims, dilation: Dims
) -> np.ndarray:
    """(group, batch, features, space...) by (group, outputs, features, window...)."""
    steps = lhs.strides[3:]
    window = rhs.shape[3:]
    windows = np.lib.stride_tricks.as_strided(
        lhs,
        shape=(*lhs.shape[:3], *counts, *window),
        strides=(
            *lhs.strides[:3],
            *(b * s for b, s in zip(steps, strides, strict=True)),
            *(b * d for b, d in zip(steps, dilation, strict=True)),
        ),
        writeable=False,
    )
    space = len(window)
    summed = (2, *range(3 + space, 3 + 2 * space))
    numbers = ((summed, (2, *range(3, 3 + space))), ((0,), (0,)))
    each = windows.size // max(1, lhs.shape[1])
    part = max(1, _WINDOW_ELEMENTS // max(1, each))
    parts = [
        contract(windows[:, i : i + part], rhs, numbers)
        for i in range(0, max(1, lhs.shape[1]), part)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def convolve(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    window_strides: Dims,
    padding: Pads,
    lhs_dilation: Dims,
    rhs_dilation: Dims,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
) -> np.ndarray:
    """The convolution of two NumPy arrays of one dtype."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    gaps = [(*pair, d - 1) for pair, d in zip(padding, lhs_dilation, strict=True)]
    x = lhs.transpose(tuple(lhs_spec))
    x = pad_p.ref(x, np.zeros((), x.dtype), padding_config=[(0, 0, 0), (0, 0, 0), *gaps])
    w = rhs.transpose(tuple(rhs_spec))
    counts = window_counts(
        x.shape[2:], dilated(w.shape[2:], rhs_dilation), window_strides, ((0, 0),) * (x.ndim - 2)
    )
    groups = feature_group_count * batch_group_count
    batch, features = x.shape[0] // batch_group_count, x.shape[1] // feature_group_count
    outputs = w.shape[0] // groups
    space, window = x.shape[2:], w.shape[2:]
    if batch_group_count > 1:
        x = x.reshape((groups, batch, features, *space))
    else:
        x = x.reshape((batch, groups, features, *space)).swapaxes(0, 1)
    w = w.reshape((groups, outputs, w.shape[1], *window))
    out = _convolve(x, w, counts, window_strides, rhs_dilation)
    out = np.moveaxis(out, (0, -1), (1, 2)).reshape((batch, groups * outputs, *counts))
    return out.transpose(inverse(out_spec))


# --- the primitive --------------------------------------------------------------------------------


def _merge_axis(source: int, target: int, x: Any) -> Any:
    """``x`` with one axis folded into another, which is numbered as if the first were gone."""
    shape = list(np.shape(x))
    order = [i for i in range(len(shape)) if i != source]
    order.insert(target, source)
    size = shape.pop(source)
    shape[target] *= size
    if order == list(range(len(order))):
        return reshape(x, tuple(shape))
    return reshape_p.bind(x, new_sizes=tuple(shape), dimensions=tuple(order), sharding=None)


def _split_axis(axis: int, size: int, x: Any) -> Any:
    """``x`` with an axis split in two, the first of which has the given size."""
    shape = np.shape(x)
    return reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


def _swap_features(spec: Sequence[int]) -> Dims:
    return (spec[1], spec[0], *spec[2:])


def _cast(x: Any, dtype: Any) -> Any:
    return x if typeof(x).dtype == dtype else convert(x, dtype)


def _sizes(shape: Dims, axes: Sequence[int]) -> list[int]:
    return [shape[i] for i in axes]


class ConvGeneralDilated(Primitive):
    """Windows of lhs times the kernel rhs, summed over the window and the input features."""

    arithmetic = True
    name = "conv_general_dilated"
    masks = "product"
    neutral = "products.conv_general_dilated"
    in_blocks = "again"

    products = True
    overflows = "sums of products"

    def flops(self, avals: Any, outs: Any, params: dict[str, Any]) -> float:
        kernel = avals[1].shape
        return 2 * outs[0].size * prod(kernel) // kernel[params["dimension_numbers"].rhs_spec[0]]

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        lhs, rhs, out = (tuple(s) for s in params["dimension_numbers"])
        groups, batches = params["feature_group_count"], params["batch_group_count"]
        sizes: dict[int, int] = {}
        combine: dict[int, str] = {}

        def new(size: int, how: str | None = None) -> int:
            label = len(sizes)
            sizes[label] = size
            if how is not None:
                combine[label] = how
            return label

        dims: list[list[tuple[int, ...]]] = [[()] * len(lhs) for _ in range(3)]
        x, k, y = dims
        shapes = [a.shape for a in (*avals, *outs)]
        batch = new(shapes[0][lhs[0]] // batches)
        group = new(groups * batches)
        inner = new(shapes[1][rhs[1]], "add")
        made = new(shapes[1][rhs[0]] // (groups * batches))
        x[lhs[0]] = (group, batch) if batches > 1 else (batch,)
        x[lhs[1]] = (group, inner) if groups > 1 else (inner,)
        k[rhs[1]] = (inner,)
        k[rhs[0]] = y[out[1]] = (group, made)
        y[out[0]] = (batch,)
        for i, _ in enumerate(lhs[2:], 2):
            kind = self.space(
                params, i - 2, *(shapes[j][s[i]] for j, s in enumerate((lhs, rhs, out)))
            )
            if kind == "rows":
                x[lhs[i]] = y[out[i]] = (new(shapes[2][out[i]]),)
            elif kind == "sum":
                x[lhs[i]] = k[rhs[i]] = (new(shapes[1][rhs[i]], "add"),)
        return Factors([tuple(x), tuple(k)], [tuple(y)], sizes, combine)

    @staticmethod
    def space(params: dict[str, Any], i: int, size: int, window: int, count: int) -> str:
        """How a spatial dimension can be divided: by its results, by what is summed, or not."""
        stride, base = params["window_strides"][i], params["lhs_dilation"][i]
        rows = size * base == count * stride and 0 < count
        sums = base == 1 and size == window * params["rhs_dilation"][i] and 0 < window
        if rows and not (sums and window > count):
            return "rows"
        return "sum" if sums else ""

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """The convolution of a part, with the edges of its neighbours where windows reach them."""
        x, kernel = args
        lhs, rhs, out = (tuple(s) for s in params["dimension_numbers"])
        pads = list(params["padding"])
        for i in range(len(pads)):
            labels = part.factors.ins[0][lhs[i + 2]]
            if part.count(labels) == 1:
                continue
            stride, base = params["window_strides"][i], params["lhs_dilation"][i]
            apart = params["rhs_dilation"][i]
            size, window = np.shape(x)[lhs[i + 2]], np.shape(kernel)[rhs[i + 2]]
            count = part.outs[0][out[i + 2]]
            low = pads[i][0]
            end = (count - 1) * stride + (window - 1) * apart + 1 - low
            before = -(-max(low, 0) // base)
            after = max(0, -(-(end - 1) // base) - size + 1)
            x = part.halo(x, lhs[i + 2], labels, before, after)
            pads[i] = (low - before * base, end - ((size + after - 1) * base + 1))
        groups = part.count([1]) if len(part.factors.ins[0][lhs[1]]) > 1 else 1
        batches = part.count([1]) if len(part.factors.ins[0][lhs[0]]) > 1 else 1
        return self.bind(
            x,
            kernel,
            **{
                **params,
                "padding": tuple(pads),
                "feature_group_count": params["feature_group_count"] // groups,
                "batch_group_count": params["batch_group_count"] // batches,
            },
        )

    def shard(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        """The batch keeps its axes, and so do positions; features are those of the kernels."""
        numbers = params["dimension_numbers"]
        (batch, _, *space), (kernels, *_) = numbers.lhs_spec, numbers.rhs_spec
        out_batch, out_features, *out_space = numbers.out_spec
        found: list[Any] = [()] * len(outs[0].shape)
        found[out_batch], found[out_features] = specs[0][batch], specs[1][kernels]
        for here, there in zip(space, out_space, strict=True):
            found[there] = specs[0][here]
        return [tuple(found)]

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        numbers = params["dimension_numbers"]
        if any(specs[1]) or specs[0][numbers.lhs_spec[1]]:
            raise divisions.different_kernels(avals)
        return self.shard(specs, avals, outs, params)

    def shape(
        self,
        lhs: Any,
        rhs: Any,
        *,
        precision: Any,
        preferred_element_type: Any,
        out_sharding: Any,
        **params: Any,
    ) -> ShapedArray:
        shape = conv_shape(lhs.shape, rhs.shape, **params)
        dtype = lhs.dtype
        if dtype != rhs.dtype:
            raise TypeError(
                "conv_general_dilated needs operands of the same dtype, got"
                f" {lhs.str_short()} and {rhs.str_short()}; convert one with"
                " lax.convert_element_type"
            )
        if preferred_element_type is not None:
            _check_preferred(dtype, preferred_element_type)
            dtype = preferred_element_type
        return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)

    @staticmethod
    def ref(
        lhs: np.ndarray,
        rhs: np.ndarray,
        *,
        precision: Any,
        preferred_element_type: Any,
        out_sharding: Any,
        **params: Any,
    ) -> np.ndarray:
        work = working_dtype(preferred_element_type or lhs.dtype, (lhs.dtype,))
        return convolve(lhs.astype(work, copy=False), rhs.astype(work, copy=False), **params)

    def d0(self, g: Any, out: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        return self.bind(g, rhs, **params)

    def d1(self, g: Any, out: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        return self.bind(lhs, g, **params)

    # Without space, and with m the batch, j the input and k the output features, a convolution is
    # [m,j] [j,k] -> [m,k]; its transposes are [m,k] [k,j] -> [m,j] and [j,m] [m,k] -> [j,k].
    # In g feature groups it is [m,gj] [j,gk] -> [m,gk]: lhs's transpose has feature groups again
    # once the groups of the kernel have moved to its other side, and rhs's has batch groups,
    # [gj,m] [m,gk] -> [j,gk]. In g batch groups it is [gm,j] [j,gk] -> [m,gk]: both transposes
    # have feature groups.

    def transpose(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
        if is_undef(lhs):
            return [self._lhs_cotangent(ct, lhs.aval, rhs, **params), None]
        return [None, self._rhs_cotangent(ct, lhs, rhs.aval, **params)]

    def _lhs_cotangent(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
        strides, dilation = params["window_strides"], params["lhs_dilation"]
        window = dilated(_sizes(np.shape(rhs), rhs_spec[2:]), params["rhs_dilation"])
        batches = params["batch_group_count"]
        groups = max(params["feature_group_count"], batches)
        if groups > 1:
            rhs = _merge_axis(rhs_spec[0], rhs_spec[1], _split_axis(rhs_spec[0], groups, rhs))
        ins = dilated(_sizes(lhs.shape, lhs_spec[2:]), dilation)
        outs = dilated(_sizes(np.shape(ct), out_spec[2:]), strides)
        before = [w - 1 - low for w, (low, _) in zip(window, params["padding"], strict=True)]
        sizes = zip(ins, window, outs, before, strict=True)
        params |= {
            "window_strides": dilation,
            "padding": tuple((b, n + w - 1 - o - b) for n, w, o, b in sizes),
            "lhs_dilation": strides,
            "dimension_numbers": ConvDimensionNumbers(out_spec, _swap_features(rhs_spec), lhs_spec),
            "feature_group_count": groups,
            "batch_group_count": 1,
        }
        kernel = rev_p.bind(rhs, dimensions=tuple(rhs_spec[2:]))
        out = _cast(self.bind(ct, _cast(kernel, typeof(ct).dtype), **params), lhs.dtype)
        if batches > 1:
            split = _split_axis(lhs_spec[1], batches, out)
            out = _merge_axis(lhs_spec[1], lhs_spec[0], split)
        return out

    def _rhs_cotangent(self, ct: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
        if not prod(np.shape(ct)):
            return Zero(rhs)  # the kernel of the transpose would have no spatial extent
        lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
        strides, dilation = params["window_strides"], params["rhs_dilation"]
        window = dilated(_sizes(rhs.shape, rhs_spec[2:]), dilation)
        ins = dilated(_sizes(np.shape(lhs), lhs_spec[2:]), params["lhs_dilation"])
        outs = dilated(_sizes(np.shape(ct), out_spec[2:]), strides)
        sizes = zip(ins, window, outs, params["padding"], strict=True)
        numbers = ConvDimensionNumbers(*map(_swap_features, (lhs_spec, out_spec, rhs_spec)))
        params |= {
            "window_strides": dilation,
            "padding": tuple((low, o - n + w - low - 1) for n, w, o, (low, _) in sizes),
            "rhs_dilation": strides,
            "dimension_numbers": numbers,
            "feature_group_count": params["batch_group_count"],
            "batch_group_count": params["feature_group_count"],
        }
        return _cast(self.bind(_cast(lhs, typeof(ct).dtype), ct, **params), rhs.dtype)

    # The batch goes where the operand that has it has room: into the batch of lhs or the output
    # features of rhs, inside the groups; where both have it, it multiplies the groups.

    def batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> tuple[Any, int]:
        (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
        lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
        size = axis.size
        features, batches = params["feature_group_count"], params["batch_group_count"]
        if not size:
            return self._batch_of_none(lhs, rhs, dims, params), 0
        if lhs_dim is not None and rhs_dim is not None:
            if batches > 1:
                lhs = _merge_axis(lhs_dim, lhs_spec[0], lhs)
                params["batch_group_count"] = batches * size
            else:
                lhs = _merge_axis(lhs_dim, lhs_spec[1], lhs)
                params["feature_group_count"] = features * size
            out = self.bind(lhs, _merge_axis(rhs_dim, rhs_spec[0], rhs), **params)
            return _split_axis(out_spec[1], size, out), out_spec[1]
        if lhs_dim is not None:
            lhs = _merge_within_groups(lhs, lhs_dim, lhs_spec[0], batches)
            out = self.bind(lhs, rhs, **params)
            return _split_axis(out_spec[0], size, out), out_spec[0]
        groups = max(features, batches)
        rhs = _merge_within_groups(rhs, rhs_dim, rhs_spec[0], groups)
        out, axis_of_groups = self.bind(lhs, rhs, **params), out_spec[1]
        if groups == 1:
            return _split_axis(axis_of_groups, size, out), axis_of_groups
        out = _split_axis(axis_of_groups, groups, out)
        out = _split_axis(axis_of_groups + 1, size, out)
        return _merge_axis(axis_of_groups, axis_of_groups + 1, out), axis_of_groups

    def _batch_of_none(self, lhs: Any, rhs: Any, dims: Any, params: Any) -> Any:
        avals = []
        for x, dim in zip((lhs, rhs), dims, strict=True):
            aval = typeof(x)
            shape = aval.shape if dim is None else aval.shape[:dim] + aval.shape[dim + 1 :]
            avals.append(ShapedArray(shape, aval.dtype))
        out = self.shape(*avals, **params)
        return full((0, *out.shape), scalar(out.dtype, 0))


def _merge_within_groups(x: Any, dim: int, axis: int, groups: int) -> Any:
    """``x`` with its batch dimension folded into an axis, inside that axis's groups."""
    if groups == 1:
        return _merge_axis(dim, axis, x)
    split = _split_axis(axis + (dim <= axis), groups, x)
    merged = _merge_axis(dim + (axis < dim), axis + 1, split)
    return _merge_axis(axis, axis, merged)


conv_general_dilated_p = ConvGeneralDilated()
