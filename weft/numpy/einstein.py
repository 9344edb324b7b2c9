"""Sums of products in Einstein's notation."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.placement import result_sharding, summed_as
from weft.base.functional import is_hashable, lru
from weft.base.record import Record
from weft.core.array import Array
from weft.core.dims.dim import Dim, is_constant_shape
from weft.core.trace import loosely
from weft.numpy.broadcasting import full_of
from weft.numpy.contraction import element_type
from weft.numpy.promotion import as_array, convert_operand, ensure_arrays, refuse_out, unwrapped


class Step(Record):
    """One contraction: positions of operands, names summed, names of operands and result."""

    positions: tuple[int, ...]
    summed: tuple[str, ...]
    inputs: tuple[str, ...]
    result: str


class _Shape:
    """A stand-in with a shape: all that path finding looks at."""

    def __init__(self, shape: tuple[int, ...], value: Any = None) -> None:
        self.shape, self.value = shape, value

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _finder(optimize: Any) -> Any:
    """What to give to opt_einsum: False means from left to right."""
    import opt_einsum

    class LeftToRight(opt_einsum.paths.PathOptimizer):
        def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            return [(0, 1)] * (len(inputs) - 1)

    if optimize is False:
        return LeftToRight()
    return "optimal" if optimize is True else optimize


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """Return the order in which ``einsum`` contracts its operands, and a report.

    Args:
        subscripts: Labels of each operand's axes, separated by commas, and after "->" those of the
            result: "ij,jk->ik". Without "->" the result has the labels that occur once, in
            alphabetical order. "..." stands for axes that broadcast. Or an operand, in the form
            ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.
        *operands: Arrays, one for each group of labels.
        optimize: How to search: "auto", "optimal", "greedy", True, False, or a path.

    Returns:
        Pair of a list of tuples, the operands that each step contracts, and the report as text.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.einsum_path("ij,jk->ik", jnp.ones((2, 2)), jnp.ones((2, 2)))[0]
        [(0, 1)]
    """
    import opt_einsum

    arguments = [_stand_in(x) for x in (subscripts, *operands)]
    return opt_einsum.contract_path(*arguments, optimize=_finder(optimize))


def _stand_in(x: Any) -> Any:
    return _Shape(x.shape, x) if isinstance(x, (Array, np.ndarray)) else x


def _find_steps(arguments: tuple[Any, ...], optimize: Any) -> tuple[list[Any], list[Step]]:
    """Operands in order, and the contractions that make one of them."""
    import opt_einsum

    if any(not is_constant_shape(getattr(x, "shape", ())) for x in arguments):
        arguments = _with_numbers(arguments)
    found, contractions = opt_einsum.contract_path(
        *arguments, einsum_call=True, use_blas=True, optimize=_finder(optimize)
    )
    steps = []
    for positions, summed, text, *_ in contractions:
        inputs, result = text.split("->")
        steps.append(
            Step(tuple(positions), tuple(sorted(summed)), tuple(inputs.split(",")), result)
        )
    return list(found), steps


# What a symbolic dimension counts as when a path is looked for.
TYPICAL_SIZE = 64


def _with_numbers(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands with a number of its own for each symbolic dimension."""
    known: dict[Any, int] = {}

    def number(n: Any) -> Any:
        return known.setdefault(n, TYPICAL_SIZE + len(known)) if type(n) is Dim else n

    return tuple(
        _Shape(tuple(map(number, x.shape)), x.value) if isinstance(x, _Shape) else x
        for x in arguments
    )


@lru(1024)
def _steps_by_shape(subscripts: str, shapes: Any, optimize: Any) -> list[Step]:
    step = _only_step(subscripts, shapes) if isinstance(optimize, (bool, str)) else None
    if step is not None:
        return [step]
    return _find_steps((subscripts, *map(_Shape, shapes)), optimize)[1]


_PLAIN = re.compile(r"([a-zA-Z]+)(?:,([a-zA-Z]+))?->([a-zA-Z]*)")


def _only_step(subscripts: str, shapes: Any) -> Step | None:
    """The step of one or two operands written out in full, which leave nothing to find.

    None where something is left open, or wrong: who looks for paths says what it is.
    """
    found = _PLAIN.fullmatch(subscripts)
    if found is None:
        return None
    *inputs, result = (x for x in found.groups() if x is not None)
    if [len(x) for x in inputs] != [len(shape) for shape in shapes]:
        return None
    pairs = [
        pair for x, shape in zip(inputs, shapes, strict=True) for pair in zip(x, shape, strict=True)
    ]
    sizes = dict(pairs)
    once = len(set(result)) == len(result) and sizes.keys() >= set(result)
    if not once or any(sizes[name] != size for name, size in pairs):
        return None
    summed = tuple(sorted(sizes.keys() - set(result)))
    return Step(tuple(reversed(range(len(inputs)))), summed, tuple(reversed(inputs)), result)


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Callable[..., Any] = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """Return a sum of products given in Einstein's notation.

    Args:
        subscripts: Labels of each operand's axes, separated by commas, and after "->" those of the
            result: "ij,jk->ik". Without "->" the result has the labels that occur once, in
            alphabetical order. "..." stands for axes that broadcast. Or an operand, in the form
            ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.
        *operands: Arrays, one for each group of labels.
        out: Must be None; arrays are immutable.
        optimize: How to choose the order of contractions: "auto", "optimal", "greedy", True, False
            (left to right), or a path.
        precision: Precision of the products on accelerators: None, a ``lax.Precision`` or its name.
        preferred_element_type: Dtype to accumulate in and to return; by default the promoted dtype
            of the operands.
        out_sharding: Sharding of the result, for arrays on meshes with explicit axes.

    Returns:
        Array with the labels after "->" as axes.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.einsum("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((3, 4))).shape
        (2, 4)
    """
    refuse_out("einsum", out)
    if isinstance(subscripts, str):
        arrays = ensure_arrays("einsum", *operands)
        shapes = tuple(x.shape for x in arrays)
        if is_hashable(optimize):
            steps = _steps_by_shape(subscripts, shapes, optimize)
        else:
            steps = _find_steps((subscripts, *map(_Shape, shapes)), optimize)[1]
    else:
        given = [unwrapped(x) for x in (subscripts, *operands)]
        found, steps = _find_steps(tuple(_stand_in(x) for x in given), optimize)
        arrays = ensure_arrays("einsum", *(getattr(x, "value", x) for x in found))
    dtype, weak = element_type("einsum", preferred_element_type, *arrays)
    product = functools.partial(_dot_general, precision=precision, preferred_element_type=dtype)
    where = result_sharding(out_sharding, "einsum")
    with contextlib.nullcontext() if where is None else loosely(where.spec.unreduced):
        for step in steps:
            picked = [arrays.pop(i) for i in step.positions]
            arrays.append(_contract(step, picked, product, dtype))
    result = as_array(convert_operand(arrays[0], dtype, weak))
    return result if where is None else summed_as(result, where, "einsum")


def _contract(step: Step, arrays: list[Any], product: Any, dtype: Any) -> Any:
    if len(arrays) == 1:
        x, names = _alone(arrays[0], step, dtype)
    elif len(arrays) == 2:
        x, names = _pair(arrays, step, product, dtype)
    else:
        raise NotImplementedError(
            f"einsum contracts one or two operands at a time; the given path asks for {len(arrays)}"
        )
    if names != step.result:
        x = lax.transpose(x, [names.index(n) for n in step.result])
    return x


def _sum(x: Any, axes: list[int], dtype: Any) -> Any:
    if dtypes.result_type(x, dtype) != x.dtype:
        x = convert_operand(x, dtype)
    reduce = lax.reduce_or if x.dtype == np.bool_ else lax.reduce_sum
    return reduce(x, tuple(axes))


def _sum_names(x: Any, names: str, gone: list[str], dtype: Any) -> tuple[Any, str]:
    """Sums over dimensions that nothing else has."""
    if not gone:
        return x, names
    x = _sum(x, [names.index(n) for n in gone], dtype)
    return x, "".join(n for n in names if n not in gone)


def _take_diagonals(x: Any, names: str, kept: str, dtype: Any) -> tuple[Any, str]:
    """Names that occur more than once made to occur once, or summed if nothing has them."""
    if len(set(names)) == len(names):
        return x, names
    for name, count in Counter(names).items():
        if count == 1:
            continue
        axes = [i for i, n in enumerate(names) if n == name]
        x = lax.select(_equal_places(x.shape, axes), x, full_of(x, 0))
        summed = axes if name not in kept else axes[:-1]
        x = _sum(x, summed, dtype)
        names = "".join(n for i, n in enumerate(names) if i not in summed)
    return x, names


def _equal_places(shape: tuple[int, ...], axes: list[int]) -> Any:
    """Where the indices along all of some axes are equal."""
    sizes = {shape[i] for i in axes}
    if len(sizes) > 1:
        raise ValueError(f"einsum repeats an index over sizes {sorted(sizes)} (shape {shape})")
    small = tuple(shape[i] for i in axes)
    lines = [lax.broadcasted_iota(np.uint32, small, i) for i in range(len(axes))]
    same = lax.eq(lines[0], lines[1])
    for line, after in itertools.pairwise(lines[1:]):
        same = lax.bitwise_and(same, lax.eq(line, after))
    return lax.broadcast_in_dim(same, shape, axes)


def _alone(x: Any, step: Step, dtype: Any) -> tuple[Any, str]:
    (names,) = step.inputs
    counts = Counter(names)
    x, names = _sum_names(x, names, [n for n in step.summed if counts[n] == 1], dtype)
    return _take_diagonals(x, names, step.result, dtype)


def _without_ones(x: Any, names: str, other: Any, other_names: str) -> tuple[Any, str]:
    """An operand without dimensions of size 1 that broadcast against the other's."""
    if 1 not in x.shape:
        return x, names
    gone = []
    for i, name in enumerate(names):
        j = other_names.find(name)
        if x.shape[i] == 1 and j != -1 and other.shape[j] != 1:
            gone.append(i)
    return lax.squeeze(x, gone), "".join(n for i, n in enumerate(names) if i not in gone)


def _places(names: str, wanted: list[str]) -> tuple[int, ...]:
    return tuple(names.index(n) for n in wanted)


def _pair(arrays: list[Any], step: Step, product: Any, dtype: Any) -> tuple[Any, str]:
    """The contraction of two operands by one product."""
    (x, y), (left, right) = arrays, step.inputs
    x, left = _without_ones(x, left, y, right)
    y, right = _without_ones(y, right, x, left)
    only_left = [n for n in step.summed if n not in right and left.count(n) == 1]
    only_right = [n for n in step.summed if n not in left and right.count(n) == 1]
    x, left = _sum_names(x, left, only_left, dtype)
    y, right = _sum_names(y, right, only_right, dtype)
    x, left = _take_diagonals(x, left, step.result + right, dtype)
    y, right = _take_diagonals(y, right, step.result + left, dtype)
    batch = [n for n in step.result if n in left and n in right]
    summed = [n for n in step.summed if n in left or n in right]
    for n in (*batch, *summed):
        sizes = x.shape[left.index(n)], y.shape[right.index(n)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"einsum index {n!r} stands for sizes {sizes[0]} and {sizes[1]}")
    used = (*batch, *summed)
    rest_left = "".join(n for n in left if n not in used)
    rest_right = "".join(n for n in right if n not in used)
    lead = "".join(batch)
    left_numbers = _places(left, summed), _places(left, batch)
    right_numbers = _places(right, summed), _places(right, batch)
    if lead + rest_right + rest_left == step.result:
        numbers = tuple(zip(right_numbers, left_numbers, strict=True))
        return product(y, x, numbers), step.result
    numbers = tuple(zip(left_numbers, right_numbers, strict=True))
    return product(x, y, numbers), lead + rest_left + rest_right
