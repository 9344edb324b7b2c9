"""Products of arrays: dot, matmul, einsum, tensordot and their kin."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum

from weft import dtypes, lax
from weft.core.array import Array
from weft.core.trace import typeof
from weft.lax.shape import canonical_axis
from weft.numpy.manipulation import moveaxis, ravel
from weft.numpy.promotion import check_arraylike, convert_operand, promote_dtypes
from weft.numpy.ufuncs import lax_array, multiply
from weft.numpy.unary import conjugate


def _operands(name: str, a: Any, b: Any, preferred: Any) -> tuple[Any, Any, Any, bool]:
    """Promoted operands, the element type of the product, and whether it stays weak."""
    check_arraylike(name, a, b)
    weak = dtypes.is_weakly_typed(a) and dtypes.is_weakly_typed(b)
    if preferred is not None:
        preferred = dtypes.check_user_dtype(preferred, name)
        x, y = promote_dtypes(a, b)
        return x, y, preferred, False
    x, y = promote_dtypes(a, b)
    return x, y, typeof(x).dtype, weak


def _weak(x: Any, weak: bool) -> Any:
    return convert_operand(x, typeof(x).dtype, True) if weak else x


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Product of matrices; leading dimensions are batches and broadcast.

    >>> import weft.numpy as jnp
    >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones((3, 4))).shape
    (2, 4)
    """
    x, y, preferred, weak = _operands("matmul", a, b, preferred_element_type)
    x_shape, y_shape = np.shape(x), np.shape(y)
    for i, s in enumerate((x_shape, y_shape)):
        if not s:
            raise ValueError(f"matmul operand {i} must have at least one dimension, got a scalar")
    x_vector, y_vector = len(x_shape) == 1, len(y_shape) == 1
    x_contract = len(x_shape) - 1
    y_contract = 0 if y_vector else len(y_shape) - 2
    if x_shape[x_contract] != y_shape[y_contract]:
        raise TypeError(
            f"matmul got incompatible shapes {x_shape} and {y_shape}: the last dimension of the"
            f" first ({x_shape[x_contract]}) must equal dimension {y_contract} of the second"
            f" ({y_shape[y_contract]})"
        )
    x_batch = x_shape[: -1 if x_vector else -2]
    y_batch = y_shape[: -1 if y_vector else -2]
    try:
        batch = np.broadcast_shapes(x_batch, y_batch)
    except ValueError:
        raise ValueError(
            f"matmul got batch dimensions {x_batch} and {y_batch} that do not broadcast (shapes"
            f" {x_shape} and {y_shape})"
        ) from None
    return _weak(_batched_product(x, y, len(x_batch), len(y_batch), batch, precision, preferred), weak)


def _batched_product(
    x: Any, y: Any, nx: int, ny: int, batch: tuple[int, ...], precision: Any, preferred: Any
) -> Any:
    """One dot_general, with batch dimensions that only one operand has kept as free dimensions."""
    shared_x, shared_y, shared, squeeze_x, squeeze_y = [], [], [], [], []
    lead_x, lead_y = [], []
    for i in range(len(batch)):
        px, py = i - (len(batch) - nx), i - (len(batch) - ny)
        size_x = np.shape(x)[px] if px >= 0 else 1
        size_y = np.shape(y)[py] if py >= 0 else 1
        if size_x == 1 and size_y != 1:
            lead_y.append(i)
            if px >= 0:
                squeeze_x.append(px)
        elif size_y == 1 and size_x != 1:
            lead_x.append(i)
            if py >= 0:
                squeeze_y.append(py)
        elif px >= 0 and py >= 0:
            shared.append(i)
            shared_x.append(px)
            shared_y.append(py)
        elif px >= 0:
            lead_x.append(i)
        else:
            lead_y.append(i)
    x_vector, y_vector = np.ndim(x) - nx == 1, np.ndim(y) - ny == 1
    shared_x = [p - sum(s < p for s in squeeze_x) for p in shared_x]
    shared_y = [p - sum(s < p for s in squeeze_y) for p in shared_y]
    x = lax.squeeze(x, squeeze_x) if squeeze_x else x
    y = lax.squeeze(y, squeeze_y) if squeeze_y else y
    x_contract = np.ndim(x) - 1
    y_contract = np.ndim(y) - 1 if y_vector else np.ndim(y) - 2
    out = lax.dot_general(
        x,
        y,
        (((x_contract,), (y_contract,)), (tuple(shared_x), tuple(shared_y))),
        precision=precision,
        preferred_element_type=preferred,
    )
    # result: shared, then free of x (batch then row), then free of y (batch then column)
    order = [*shared, *lead_x]
    places = {i: k for k, i in enumerate(order)}
    row = len(order)
    free_y = row + (not x_vector)
    for k, i in enumerate(lead_y):
        places[i] = free_y + k
    permutation = [places[i] for i in range(len(batch))]
    if not x_vector:
        permutation.append(row)
    if not y_vector:
        permutation.append(free_y + len(lead_y))
    return lax.transpose(out, permutation)


def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sum product over the last axis of the first and the second-to-last of the second array.

    >>> import weft.numpy as jnp
    >>> jnp.dot(jnp.arange(3), jnp.arange(3)).item()
    5
    """
    x, y, preferred, weak = _operands("dot", a, b, preferred_element_type)
    if not np.ndim(x) or not np.ndim(y):
        return _weak(multiply(x, y), weak)
    contract = (np.ndim(x) - 1,), (np.ndim(y) - 2 if np.ndim(y) > 1 else 0,)
    _check_contraction("dot", x, y, *contract)
    out = lax.dot_general(
        x, y, (contract, ((), ())), precision=precision, preferred_element_type=preferred
    )
    return _weak(out, weak)


def _check_contraction(name: str, x: Any, y: Any, ax: Sequence[int], ay: Sequence[int]) -> None:
    for i, j in zip(ax, ay, strict=True):
        if np.shape(x)[i] != np.shape(y)[j]:
            raise TypeError(
                f"{name} got incompatible shapes {np.shape(x)} and {np.shape(y)}: dimension {i} of"
                f" the first must equal dimension {j} of the second"
            )


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Sum product of all elements, the first conjugated.

    >>> import weft.numpy as jnp
    >>> jnp.vdot(jnp.arange(3), jnp.arange(3)).item()
    5
    """
    check_arraylike("vdot", a, b)
    return dot(
        ravel(conjugate(a)),
        ravel(b),
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def vecdot(
    x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Sum product along an axis, the first conjugated, the rest broadcast.

    >>> import weft.numpy as jnp
    >>> jnp.vecdot(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    check_arraylike("vecdot", x1, x2)
    x, y = lax_array(conjugate(x1)), lax_array(x2)
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError("vecdot needs arrays of at least one dimension")
    x, y = moveaxis(x, axis, -1), moveaxis(y, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"vecdot got shapes {np.shape(x1)} and {np.shape(x2)} at axis {axis}")
    row, column = lax.expand_dims(x, (x.ndim - 1,)), lax.expand_dims(y, (y.ndim,))
    out = matmul(
        row, column, precision=precision, preferred_element_type=preferred_element_type
    )
    return lax.squeeze(out, (out.ndim - 2, out.ndim - 1))


def matvec(x1: Any, x2: Any, /) -> Array:
    """Product of matrices and vectors.

    >>> import weft.numpy as jnp
    >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones(3))
    Array([3., 3.], dtype=float32)
    """
    check_arraylike("matvec", x1, x2)
    column = lax.expand_dims(x2, (np.ndim(x2),))
    out = matmul(x1, column)
    return lax.squeeze(out, (out.ndim - 1,))


def vecmat(x1: Any, x2: Any, /) -> Array:
    """Product of conjugated vectors and matrices.

    >>> import weft.numpy as jnp
    >>> jnp.vecmat(jnp.ones(2), jnp.ones((2, 3)))
    Array([2., 2., 2.], dtype=float32)
    """
    check_arraylike("vecmat", x1, x2)
    row = lax.expand_dims(conjugate(x1), (np.ndim(x1) - 1,))
    out = matmul(row, x2)
    return lax.squeeze(out, (out.ndim - 2,))


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Sum product over the last axes.

    >>> import weft.numpy as jnp
    >>> jnp.inner(jnp.arange(3), jnp.arange(3)).item()
    5
    """
    check_arraylike("inner", a, b)
    if not np.ndim(a) or not np.ndim(b):
        return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
    return tensordot(
        a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type
    )


def outer(a: Any, b: Any, out: None = None) -> Array:
    """All products of an element of the first with one of the second.

    >>> import weft.numpy as jnp
    >>> jnp.outer(jnp.arange(2), jnp.arange(3)).shape
    (2, 3)
    """
    if out is not None:
        raise NotImplementedError("the out argument of outer is not supported: arrays are immutable")
    check_arraylike("outer", a, b)
    x, y = promote_dtypes(a, b)
    x, y = ravel(x), ravel(y)
    return multiply(lax.expand_dims(x, (1,)), lax.expand_dims(y, (0,)))


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Sum product over chosen axes of two arrays.

    >>> import weft.numpy as jnp
    >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), 1).shape
    (2, 4)
    """
    x, y, preferred, weak = _operands("tensordot", a, b, preferred_element_type)
    nx, ny = np.ndim(x), np.ndim(y)
    if isinstance(axes, (int, np.integer)):
        if axes > min(nx, ny):
            raise TypeError(
                f"tensordot over {axes} axes needs arrays of so many dimensions, got shapes"
                f" {np.shape(x)} and {np.shape(y)}"
            )
        contract = tuple(range(nx - axes, nx)), tuple(range(axes))
    elif isinstance(axes, (tuple, list)) and len(axes) == 2:
        ax, ay = axes
        ax = (ax,) if isinstance(ax, (int, np.integer)) else tuple(ax)
        ay = (ay,) if isinstance(ay, (int, np.integer)) else tuple(ay)
        if len(ax) != len(ay):
            raise TypeError(f"tensordot needs as many axes of each array, got {axes}")
        contract = (
            tuple(canonical_axis(i, nx) for i in ax),
            tuple(canonical_axis(i, ny) for i in ay),
        )
    else:
        raise TypeError(f"tensordot axes must be an integer or a pair of sequences, got {axes!r}")
    _check_contraction("tensordot", x, y, *contract)
    out = lax.dot_general(
        x, y, (contract, ((), ())), precision=precision, preferred_element_type=preferred
    )
    return _weak(out, weak)


# --- einsum ---------------------------------------------------------------------------------------


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> Any:
    """The order in which an einsum contracts its operands, and a report.

    >>> import weft.numpy as jnp
    >>> jnp.einsum_path("ij,jk->ik", jnp.ones((2, 2)), jnp.ones((2, 2)))[0]
    [(0, 1)]
    """
    arrays = [_Shape(x) if hasattr(x, "shape") else x for x in operands]
    return opt_einsum.contract_path(subscripts, *arrays, optimize=optimize)


class _Shape:
    """A stand-in with a shape: all that path finding looks at."""

    def __init__(self, x: Any) -> None:
        self.shape = tuple(np.shape(x))

    @property
    def ndim(self) -> int:
        return len(self.shape)


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Any = lax.dot_general,
    out_sharding: Any = None,
) -> Array:
    """Sum of products written in Einstein's notation.

    >>> import weft.numpy as jnp
    >>> jnp.einsum("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((3, 4))).shape
    (2, 4)
    """
    if out is not None:
        raise NotImplementedError("the out argument of einsum is not supported: arrays are immutable")
    if not isinstance(subscripts, str):
        inputs, output, arrays = _parse_interleaved(subscripts, operands)
    else:
        inputs, output, arrays = _parse(subscripts, operands)
    check_arraylike("einsum", *arrays)
    weak = all(dtypes.is_weakly_typed(x) for x in arrays)
    if preferred_element_type is None:
        dtype = dtypes.result_type(*arrays)
    else:
        dtype = dtypes.check_user_dtype(preferred_element_type, "einsum")
    promoted = [lax_array(x) for x in promote_dtypes(*arrays)]
    path = _contraction_path(inputs, output, promoted, optimize)
    dot_rule = functools.partial(
        _dot_general, precision=precision, preferred_element_type=dtype
    )
    result = _contract(inputs, output, promoted, path, dot_rule)
    return convert_operand(result, dtype, weak)


def _parse(subscripts: str, operands: Any) -> tuple[list[str], str, list[Any]]:
    arrays = list(operands)
    shapes = [_Shape(x) for x in arrays]
    given, output, _ = opt_einsum.parser.parse_einsum_input((subscripts, *shapes), shapes=False)
    inputs = given.split(",")
    if len(inputs) != len(arrays):
        raise ValueError(f"einsum {subscripts!r} names {len(inputs)} operands, got {len(arrays)}")
    return inputs, output, arrays


def _parse_interleaved(first: Any, rest: Any) -> tuple[list[str], str, list[Any]]:
    arguments = [first, *rest]
    arrays = arguments[0 : len(arguments) // 2 * 2 : 2]
    shapes = [_Shape(x) if i % 2 == 0 and i < 2 * len(arrays) else x for i, x in enumerate(arguments)]
    given, output, _ = opt_einsum.parser.parse_einsum_input(tuple(shapes), shapes=False)
    return given.split(","), output, arrays


def _contraction_path(inputs: Any, output: str, arrays: Any, optimize: Any) -> Any:
    if len(arrays) <= 2:
        return [tuple(range(len(arrays)))]
    if optimize is False:
        optimize = [(0, 1)] * (len(arrays) - 1)
    equation = ",".join(inputs) + "->" + output
    path, _ = opt_einsum.contract_path(
        equation, *map(_Shape, arrays), optimize="optimal" if optimize is True else optimize
    )
    return path


def _contract(inputs: list[str], output: str, arrays: list[Any], path: Any, dot_rule: Any) -> Any:
    terms = list(zip(inputs, arrays, strict=True))
    for chosen in path:
        picked = [terms[i] for i in chosen]
        terms = [t for i, t in enumerate(terms) if i not in chosen]
        needed = set(output).union(*(names for names, _ in terms))
        while len(picked) > 2:
            wanted = needed.union(*(names for names, _ in picked[2:]))
            picked = [_pair(picked[0], picked[1], wanted, dot_rule), *picked[2:]]
        if len(picked) == 2:
            terms.append(_pair(picked[0], picked[1], needed, dot_rule))
        else:
            terms.append(_single(picked[0], needed))
    names, x = terms[0]
    names, x = _single((names, x), set(output))
    return lax.transpose(x, [names.index(n) for n in output])


def _single(term: tuple[str, Any], needed: set[str]) -> tuple[str, Any]:
    """One operand with repeated names made diagonals and unneeded names summed."""
    names, x = term
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            names, x = _diagonal(names, x, name)
    gone = tuple(i for i, n in enumerate(names) if n not in needed)
    if gone:
        x = lax.reduce_sum(x, gone)
        names = "".join(n for n in names if n in needed)
    return names, x


def _diagonal(names: str, x: Any, name: str) -> tuple[str, Any]:
    first = names.index(name)
    second = names.index(name, first + 1)
    size = x.shape[first]
    if x.shape[second] != size:
        raise ValueError(f"einsum index {name!r} stands for sizes {size} and {x.shape[second]}")
    rows = lax.broadcasted_iota(np.int32, x.shape, first)
    columns = lax.broadcasted_iota(np.int32, x.shape, second)
    kept = lax.select(lax.eq(rows, columns), x, lax.full_like(x, 0))
    return names[:second] + names[second + 1 :], lax.reduce_sum(kept, (second,))


def _pair(
    left: tuple[str, Any], right: tuple[str, Any], needed: set[str], dot_rule: Any
) -> tuple[str, Any]:
    """The contraction of two operands, by one dot_general."""
    left = _single(left, needed | set(right[0]))
    right = _single(right, needed | set(left[0]))
    (lnames, x), (rnames, y) = left, right
    lnames, x, rnames, y = _drop_ones(lnames, x, rnames, y, needed)
    shared = [n for n in lnames if n in rnames]
    for n in shared:
        if x.shape[lnames.index(n)] != y.shape[rnames.index(n)]:
            raise ValueError(
                f"einsum index {n!r} stands for sizes {x.shape[lnames.index(n)]} and"
                f" {y.shape[rnames.index(n)]}"
            )
    batch = [n for n in shared if n in needed]
    contract = [n for n in shared if n not in needed]
    numbers = (
        (tuple(lnames.index(n) for n in contract), tuple(rnames.index(n) for n in contract)),
        (tuple(lnames.index(n) for n in batch), tuple(rnames.index(n) for n in batch)),
    )
    out = dot_rule(x, y, numbers)
    names = [*batch, *(n for n in lnames if n not in shared), *(n for n in rnames if n not in shared)]
    return "".join(names), out


def _drop_ones(
    lnames: str, x: Any, rnames: str, y: Any, needed: set[str]
) -> tuple[str, Any, str, Any]:
    """Shared names of size 1 on one side only broadcast: they are dropped from that side."""
    for n in [n for n in lnames if n in rnames]:
        i, j = lnames.index(n), rnames.index(n)
        if x.shape[i] == 1 and y.shape[j] != 1:
            x, lnames = lax.squeeze(x, (i,)), lnames.replace(n, "")
        elif y.shape[j] == 1 and x.shape[i] != 1:
            y, rnames = lax.squeeze(y, (j,)), rnames.replace(n, "")
    return lnames, x, rnames, y
