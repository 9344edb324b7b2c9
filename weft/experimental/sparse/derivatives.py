"""Derivatives by sparse arrays: with respect to their stored elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import numpy as jnp
from weft.api import autodiff, jacobians
from weft.api.staging import eval_shape
from weft.base.functional import wraps
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.transform import is_sparse
from weft.tree.functions import (
    tree_flatten,
    tree_map,
    tree_structure,
    tree_unflatten,
)


def _elements(args: Any) -> Any:
    """Arguments with stored elements in the place of sparse arrays."""
    return tree_map(lambda x: x.data if is_sparse(x) else x, args, is_leaf=is_sparse)


def _with_elements(mat: Any, data: Any) -> Any:
    """A sparse array with other elements at the same places."""
    if not is_sparse(mat):
        return data
    buffers, tree = tree_flatten(mat)
    return tree_unflatten(tree, [data, *buffers[1:]])


def _rebuilt(args: Any, data: Any) -> Any:
    return tree_map(_with_elements, args, data, is_leaf=is_sparse)


def _of_elements(fun: Callable[..., Any], argnums: Any, args: Any, kwargs: Any) -> Any:
    """``fun`` as a function of the elements of the arguments that it is differentiated by."""
    single = isinstance(argnums, int)
    numbers = [n % len(args) for n in ((argnums,) if single else argnums)]
    chosen = [args[n] for n in numbers]

    def of_elements(data: Any) -> Any:
        given = list(args)
        for n, x in zip(numbers, _rebuilt(chosen, data), strict=True):
            given[n] = x
        return fun(*given, **kwargs)

    return of_elements, chosen, single


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return a function for the value and gradient, of arrays of which some are sparse.

    The gradient by a sparse array is sparse, with the same places.

    Args:
        fun: the function.
        argnums: the positions of the arguments to differentiate by.
        has_aux: whether ``fun`` returns a pair, of which only the first part is differentiated.
        **kwargs: further arguments of the same function of weft.

    Returns:
        A function of the same arguments. The gradient by a sparse array is sparse, with the same
        places.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> value, grad = sparse.value_and_grad(lambda m: (m @ jnp.arange(2.)).sum())(sparse.eye(2))
        >>> value, grad.data
        (Array(1., dtype=float32), Array([0., 1.], dtype=float32))
    """

    @wraps(fun)
    def differentiated(*args: Any, **named: Any) -> Any:
        of_elements, chosen, single = _of_elements(fun, argnums, args, named)
        both = autodiff.value_and_grad(of_elements, has_aux=has_aux, **kwargs)
        value, grads = both(_elements(chosen))
        found = _rebuilt(chosen, grads)
        return value, found[0] if single else tuple(found)

    return differentiated


def grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return a function for the gradient, of arrays of which some are sparse.

    Args:
        fun: the function.
        argnums: the positions of the arguments to differentiate by.
        has_aux: whether ``fun`` returns a pair, of which only the first part is differentiated.
        **kwargs: further arguments of the same function of weft.

    Returns:
        A function of the same arguments. The gradient by a sparse array is sparse, with the same
        places.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.grad(lambda m: (m @ jnp.arange(2.)).sum())(sparse.eye(2)).data
        Array([0., 1.], dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def gradient(*args: Any, **named: Any) -> Any:
        value, found = both(*args, **named)
        return (found, value[1]) if has_aux else found

    return gradient


def _jacobian(transform: Any, fun: Any, argnums: Any, has_aux: bool, options: Any) -> Any:
    @wraps(fun)
    def differentiated(*args: Any, **named: Any) -> Any:
        of_elements, chosen, single = _of_elements(fun, argnums, args, named)
        data = _elements(chosen)
        found = transform(of_elements, has_aux=has_aux, **options)(data)
        found, aux = found if has_aux else (found, None)
        out = eval_shape(of_elements, data)
        out = tree_structure(out[0] if has_aux else out)
        places = tree_map(lambda x: x, chosen, is_leaf=is_sparse)
        rows = [tree_map(_jacobian_of, places, row, is_leaf=is_sparse)
                for row in out.flatten_up_to(found)]  # fmt: skip
        rows = [row[0] if single else tuple(row) for row in rows]
        result = tree_unflatten(out, rows)
        return (result, aux) if has_aux else result

    return differentiated


def _jacobian_of(mat: Any, data: Any) -> Any:
    """A Jacobian by a sparse array: dimensions of the result are batch ones."""
    if not is_sparse(mat):
        return data
    if not isinstance(mat, BCOO):
        raise NotImplementedError(f"sparse Jacobians need BCOO arrays, got {mat!r}")
    ahead = data.shape[: data.ndim - mat.data.ndim]
    indices = jnp.broadcast_to(mat.indices, (*ahead, *mat.indices.shape))
    return BCOO(
        (data, indices),
        shape=(*ahead, *mat.shape),
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def jacfwd(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return a function for the Jacobian, column by column, of arrays of which some are sparse.

    Args:
        fun: the function.
        argnums: the positions of the arguments to differentiate by.
        has_aux: whether ``fun`` returns a pair, of which only the first part is differentiated.
        **kwargs: further arguments of the same function of weft.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.jacfwd(lambda m: m @ jnp.arange(2.))(sparse.eye(2))
        BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian(jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """Return a function for the Jacobian, row by row, of arrays of which some are sparse.

    Args:
        fun: the function.
        argnums: the positions of the arguments to differentiate by.
        has_aux: whether ``fun`` returns a pair, of which only the first part is differentiated.
        **kwargs: further arguments of the same function of weft.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> sparse.jacrev(lambda m: m @ jnp.arange(2.))(sparse.eye(2))
        BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian(jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
