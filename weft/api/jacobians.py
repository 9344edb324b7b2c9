"""Jacobians and Hessians: derivatives along every element, batched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload

import numpy as np

from weft import dtypes
from weft.api.arguments import check_callable, checked_positions, split_argnums
from weft.api.autodiff import jvp, vjp
from weft.api.batching import vmap
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.core.array import Array, ArrayLike
from weft.core.avals import ShapedArray
from weft.core.dims.dim import is_constant_shape
from weft.core.registry import lookup
from weft.core.trace import box, typeof
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

if TYPE_CHECKING:
    from weft.api.function_types import Function, HolomorphicOptions, JacobianOptions, Opaque

P = ParamSpec("P")
N = TypeVar("N", bound=ArrayLike)


@overload
def jacfwd(
    fun: Callable[P, Any], argnums: int | Sequence[int], has_aux: bool, holomorphic: bool = False
) -> Function[P, Any]: ...
@overload
def jacfwd(
    fun: Callable[Concatenate[Opaque, P], Any],
    argnums: Literal[0] = 0,
    **options: Unpack[HolomorphicOptions],
) -> Function[Concatenate[Any, P], Any]: ...
@overload
def jacfwd(
    fun: Callable[Concatenate[N, P], ArrayLike],
    argnums: Literal[0] = 0,
    **options: Unpack[HolomorphicOptions],
) -> Function[Concatenate[N, P], Array]: ...
@overload
def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function[P, Any]: ...
def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Return a function that computes the Jacobian of ``fun``, column by column, by forward mode.

    Args:
        fun: Function whose arguments and results are arrays or trees of arrays.
        argnums: Position, or sequence of positions, of the arguments to differentiate with respect
            to.
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data that isn't
            differentiated.
        holomorphic: Your promise that ``fun`` is holomorphic: arguments and results are then
            complex.

    Returns:
        Function with the arguments of ``fun`` that returns an array of shape
        ``result.shape + argument.shape``, or a tree of them; with ``has_aux`` a pair of it and the
        auxiliary data.

    Forward mode is cheaper if there are fewer inputs than outputs.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.jacfwd(lambda x: x * x)(jnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    argnums = checked_positions("jacfwd", "argnums", argnums)

    @wraps(fun, "The Jacobian of")
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        of_chosen, found, _ = split_argnums(
            functools.partial(fun, **kwargs), argnums, args, "jacfwd"
        )
        chosen = tuple(found)
        for x in tree_flatten(chosen)[0]:
            _check_forward_input(x, holomorphic)

        def push(tangents: Any) -> Any:
            y, t, *aux = jvp(of_chosen, chosen, tangents, has_aux=has_aux)
            return y, t, aux

        y, columns, aux = vmap(push, out_axes=(None, -1, None))(standard_basis(chosen))
        for leaf in tree_flatten(y)[0]:
            _check_output("jacfwd", leaf, holomorphic)
        example = chosen[0] if isinstance(argnums, int) else chosen
        result = tree_map(lambda c, out: _unravel(example, -1, c, out), columns, y)
        return (result, *aux) if has_aux else result

    return jacobian_of


@overload
def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function[P, Any]: ...
@overload
def jacrev(
    fun: Callable[Concatenate[Opaque, P], Any],
    argnums: Literal[0] = 0,
    **options: Unpack[JacobianOptions],
) -> Function[Concatenate[Any, P], Any]: ...
@overload
def jacrev(
    fun: Callable[Concatenate[N, P], ArrayLike],
    argnums: Literal[0] = 0,
    **options: Unpack[JacobianOptions],
) -> Function[Concatenate[N, P], Array]: ...
@overload
def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function[P, Any]: ...
def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """Return a function that computes the Jacobian of ``fun``, row by row, by reverse mode.

    Args:
        fun: Function whose arguments and results are arrays or trees of arrays.
        argnums: Position, or sequence of positions, of the arguments to differentiate with respect
            to.
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data that isn't
            differentiated.
        holomorphic: Your promise that ``fun`` is holomorphic: arguments and results are then
            complex.
        allow_int: If true, integer arguments are allowed; their derivatives are zeros of dtype
            float0.

    Returns:
        Function with the arguments of ``fun`` that returns an array of shape
        ``result.shape + argument.shape``, or a tree of them; with ``has_aux`` a pair of it and the
        auxiliary data.

    Reverse mode is cheaper if there are fewer outputs than inputs.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.jacrev(lambda x: x * x)(jnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    check_callable(fun)
    argnums = checked_positions("jacrev", "argnums", argnums)

    @wraps(fun, "The Jacobian of")
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        of_chosen, chosen, _ = split_argnums(
            functools.partial(fun, **kwargs), argnums, args, "jacrev"
        )
        for x in tree_flatten(chosen)[0]:
            _check_reverse_input(x, holomorphic, allow_int)
        y, pull, *aux = vjp(of_chosen, *chosen, has_aux=has_aux)
        for leaf in tree_flatten(y)[0]:
            _check_output("jacrev", leaf, holomorphic)
        rows = vmap(pull)(standard_basis(y))
        rows = rows[0] if isinstance(argnums, int) else rows
        leaves, row_tree = tree_flatten(rows)
        # outer structure of the output, inner structure of the arguments
        inputs = tree_flatten(chosen)[0]
        per_leaf = [_unravel(y, 0, leaf, x) for leaf, x in zip(leaves, inputs, strict=True)]
        out_tree = tree_flatten(y)[1]
        columns = [tree_flatten(p)[0] for p in per_leaf]
        nested = [
            tree_unflatten(row_tree, [c[i] for c in columns]) for i in range(out_tree.num_leaves)
        ]
        result = tree_unflatten(out_tree, nested)
        return (result, *aux) if has_aux else result

    return jacobian_of


jacobian = jacrev


@overload
def hessian(
    fun: Callable[P, Any], argnums: int | Sequence[int], has_aux: bool, holomorphic: bool = False
) -> Function[P, Any]: ...
@overload
def hessian(
    fun: Callable[Concatenate[Opaque, P], Any],
    argnums: Literal[0] = 0,
    **options: Unpack[HolomorphicOptions],
) -> Function[Concatenate[Any, P], Any]: ...
@overload
def hessian(
    fun: Callable[Concatenate[N, P], ArrayLike],
    argnums: Literal[0] = 0,
    **options: Unpack[HolomorphicOptions],
) -> Function[Concatenate[N, P], Array]: ...
@overload
def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function[P, Any]: ...
def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Return a function that computes the second derivatives of ``fun``: forward over reverse mode.

    Args:
        fun: Function whose arguments and results are arrays or trees of arrays.
        argnums: Position, or sequence of positions, of the arguments to differentiate with respect
            to.
        has_aux: If true, ``fun`` returns a pair of the result and auxiliary data that isn't
            differentiated.
        holomorphic: Your promise that ``fun`` is holomorphic: arguments and results are then
            complex.

    Returns:
        Function with the arguments of ``fun`` that returns an array of shape
        ``result.shape + argument.shape + argument.shape``, or a tree of them; with ``has_aux`` a
        pair.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.hessian(lambda x: jnp.sum(x ** 3))(jnp.array([1.0, 2.0]))
        Array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    argnums = checked_positions("hessian", "argnums", argnums)
    inner = jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return jacfwd(inner, argnums, has_aux=has_aux, holomorphic=holomorphic)


def standard_basis(tree: Any) -> Any:
    """The unit tangents of a tree of arrays, stacked along a leading axis."""
    leaves, structure = tree_flatten(tree)
    avals = [typeof(x) for x in leaves]
    total = sum(a.size for a in avals)
    basis, offset = [], 0
    for aval in avals:
        dtype = aval.dtype
        if not is_constant_shape((total, aval.size)):
            basis.append(_symbolic_basis(aval, total, offset))
        elif not dtypes.issubdtype(dtype, np.inexact):
            basis.append(np.zeros((total, *aval.shape), dtypes.float0))
        else:
            eye = np.zeros((total, aval.size), dtype)
            eye[np.arange(aval.size) + offset, np.arange(aval.size)] = 1
            stacked = ShapedArray((total, *aval.shape), dtype, aval.weak_type)
            basis.append(box(eye.reshape(stacked.shape), stacked))
        offset += aval.size
    return tree_unflatten(structure, basis)


def _symbolic_basis(aval: Any, total: Any, offset: Any) -> Any:
    """The same for one array of a symbolic shape."""
    number, shape = dtypes.default_int_dtype(), (total, aval.size)
    rows, columns = (
        lookup("iota").bind(dtype=number, shape=shape, dimension=axis, sharding=None)
        for axis in (0, 1)
    )
    own = lookup("sub").bind(rows, _converted(offset, number))
    eye = _converted(lookup("eq").bind(own, columns), aval.dtype, aval.weak_type)
    return _reshaped(eye, (total, *aval.shape))


def _converted(x: Any, dtype: Any, weak: bool = False) -> Any:
    convert = lookup("convert_element_type")
    return convert.bind(x, new_dtype=dtype, weak_type=weak, sharding=None)


def _reshaped(x: Any, shape: tuple[Any, ...]) -> Any:
    return lookup("reshape").bind(x, new_sizes=shape, dimensions=None, sharding=None)


def _unravel(example: Any, axis: int, x: Any, like: Any) -> Any:
    """One axis of ``x`` split into the shapes of the leaves of ``example``, weak as ``like``."""
    leaves, structure = tree_flatten(example)
    given, weak = typeof(x), typeof(like).weak_type
    if given.dtype != dtypes.float0 and given.weak_type != weak:
        x = _converted(x, given.dtype, weak)
    axis = axis % np.ndim(x)
    shapes = [np.shape(leaf) for leaf in leaves]
    sizes = tuple(prod(s) for s in shapes)
    parts = [x] if len(sizes) == 1 else lookup("split").bind(x, sizes=sizes, axis=axis)
    rest = np.shape(x)
    return tree_unflatten(
        structure,
        [
            _reshaped(part, (*rest[:axis], *shape, *rest[axis + 1 :]))
            for part, shape in zip(parts, shapes, strict=True)
        ],
    )


def _check_forward_input(x: Any, holomorphic: bool) -> None:
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(f"jacfwd with holomorphic=True takes complex inputs, got {dtype}")
    elif not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(
            f"jacfwd takes real inputs, got {dtype}; convert the input to a floating dtype, pass"
            " holomorphic=True for a holomorphic function, or use jvp"
        )


def _check_reverse_input(x: Any, holomorphic: bool, allow_int: bool) -> None:
    dtype = typeof(x).dtype
    if holomorphic and not dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(f"jacrev with holomorphic=True takes complex inputs, got {dtype}")
    if not dtypes.issubdtype(dtype, np.inexact) and not allow_int:
        raise TypeError(
            f"jacrev takes real or complex inputs, got {dtype}; convert the input to a floating"
            " dtype, or pass allow_int=True"
        )


def _check_output(what: str, x: Any, holomorphic: bool) -> None:
    dtype = typeof(x).dtype
    if holomorphic:
        if not dtypes.issubdtype(dtype, np.complexfloating):
            raise TypeError(f"{what} with holomorphic=True takes complex outputs, got {dtype}")
    elif what == "jacrev" and dtypes.issubdtype(dtype, np.complexfloating):
        raise TypeError(
            f"jacrev takes functions with real output, got {dtype}; pass holomorphic=True for a"
            " holomorphic function"
        )
    elif what == "jacrev" and not dtypes.issubdtype(dtype, np.floating):
        raise TypeError(f"jacrev takes functions with real output, got {dtype}")
