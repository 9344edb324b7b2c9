"""Universal functions: elementwise functions that can also reduce, accumulate and scatter."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft.api.batching import vmap
from weft.api.staging import eval_shape
from weft.base.traceback import api_boundary
from weft.core.array import Array
from weft.lax.shape import canonical_axis
from weft.numpy.broadcasting import broadcast_to, choose_where
from weft.numpy.creation import ones
from weft.numpy.index_functions import take
from weft.numpy.indexing import getitem, take_index, update_index
from weft.numpy.manipulation import append, moveaxis, ravel, reshape
from weft.numpy.promotion import as_array, check_arraylike, convert_operand, ensure_array
from weft.numpy.ufuncs import greater, less
from weft.numpy.vectorizing import vectorize


class ufunc:
    """An elementwise function of arrays with methods such as ``reduce``, ``accumulate`` and ``at``.

    Args:
        func: Function of ``nin`` scalars, or of arrays if ``call`` is given.
        nin: Number of arguments.
        nout: Number of results.
        name: Name of the function; by default that of ``func``.
        nargs: Number of arguments of NumPy's function of the same name; ``nin`` by default.
        identity: The value that leaves the other operand unchanged, from which reductions start;
            None if there is none.
        call: Function of arrays to use instead of mapping ``func``.
        reduce: Function that implements ``reduce``; by default a loop over ``func``.
        accumulate: Function that implements ``accumulate``; by default a loop over ``func``.
        at: Function that implements ``at``; by default a loop over ``func``.
        reduceat: Function that implements ``reduceat``; by default a loop over ``func``.

    Example:
        >>> import weft.numpy as jnp
        >>> halfway = jnp.frompyfunc(lambda x, y: (x + y) / 2, nin=2, nout=1)
        >>> halfway(jnp.arange(2.0), 4.0)
        Array([2. , 2.5], dtype=float32)
        >>> jnp.add.reduce(jnp.arange(4)).item()
        6
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        nargs: int | None = None,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: Callable[..., Any] | None = None,
        reduceat: Callable[..., Any] | None = None,
    ) -> None:
        self.__doc__ = func.__doc__
        self.__name__ = name or func.__name__
        self._nin, self._nout = operator.index(nin), operator.index(nout)
        self._nargs = operator.index(nargs or nin)
        self._identity = identity
        self._func = func
        self._call = vectorize(func) if call is None else call
        self._reduce, self._accumulate = reduce, accumulate
        self._at, self._reduceat = at, reduceat

    @property
    def nin(self) -> int:
        """How many arguments it takes."""
        return self._nin

    @property
    def nout(self) -> int:
        """How many results it has."""
        return self._nout

    @property
    def nargs(self) -> int:
        """How many arguments NumPy's function of the kind takes."""
        return self._nargs

    @property
    def identity(self) -> Any:
        """What changes nothing, if there is such a value."""
        return self._identity

    def _key(self) -> Any:
        return (self._func, self.__name__, self.identity, self.nin, self.nout, self.nargs)

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key() == other._key()

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"

    @api_boundary
    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            raise NotImplementedError(
                f"{self.__name__} has no arguments out and where: arrays are immutable; use"
                " jnp.where on the result"
            )
        return self._call(*args)

    def _need_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                f"{method} is defined for functions of two arguments with one result;"
                f" {self.__name__} has {self.nin} and {self.nout}"
            )

    def _refuse_out(self, method: str, out: Any) -> None:
        if out is not None:
            raise NotImplementedError(
                f"{self.__name__}.{method} has no argument out: arrays are immutable"
            )

    def _result_dtype(self, *args: Any) -> Any:
        units = [ones((), dtypes.dtype(x)) for x in args]
        return eval_shape(self._func, *units).dtype

    # --- reduce -----------------------------------------------------------------------------------

    @api_boundary
    def reduce(
        self,
        a: Any,
        axis: int | None = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        """Return an array reduced along axes by applying the function to neighbours.

        Args:
            a: Array to reduce.
            axis: Axis, or None for all; some functions, such as ``add``, take a tuple of axes too.
            dtype: Dtype to compute in and to return; by default that of the result of the function.
            out: Must be None; arrays are immutable.
            keepdims: If true, reduced axes stay with size 1.
            initial: Scalar to start from; by default the identity of the function. Needed with
                ``where`` if there is none.
            where: Boolean mask that broadcasts against ``a``; elements where it is false are left
                out.

        Returns:
            Array without the reduced axes.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.add.reduce(jnp.ones((2, 3)), axis=1)
            Array([3., 3.], dtype=float32)
        """
        check_arraylike(f"{self.__name__}.reduce", a)
        self._need_binary("reduce")
        self._refuse_out("reduce", out)
        if where is not None:
            where = ensure_array(f"{self.__name__}.reduce", where)
            if self.identity is None and initial is None:
                raise ValueError(
                    f"{self.__name__}.reduce over a mask needs an initial value, because it has "
                    "no identity"
                )
            if where.dtype != np.bool_:
                raise ValueError(f"where must be boolean, got dtype {where.dtype}")
        options = {"keepdims": keepdims, "initial": initial, "where": where}
        rule = self._reduce or self._reduce_by_loop
        return rule(a, axis=axis, dtype=dtype, **options)

    def _reduce_by_loop(
        self, a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
    ) -> Any:
        x = as_array(a)
        if isinstance(axis, tuple):
            raise NotImplementedError(f"{self.__name__}.reduce takes one axis, got {axis}")
        start = self.identity if initial is None else initial
        wanted = self._result_dtype(x, x) if dtype is None else dtypes.check_user_dtype(dtype)
        where = None if where is None else broadcast_to(where, x.shape)
        kept = (1,) * x.ndim
        if axis is None:
            x, place = ravel(x), 0
            where = None if where is None else ravel(where)
        else:
            place = canonical_axis(axis, x.ndim)
            kept = (*x.shape[:place], 1, *x.shape[place + 1 :])
        x = convert_operand(moveaxis(x, place, 0), wanted)
        where = None if where is None else moveaxis(where, place, 0)
        if x.shape[0] == 0 and start is None:
            raise ValueError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )

        def step(i: Any, total: Any) -> Any:
            new = self(total, getitem(x, i))
            return new if where is None else choose_where(getitem(where, i), new, total)

        if x.shape[0] == 0:  # of which no element can be looked up
            out = broadcast_to(convert_operand(start, wanted), x.shape[1:])
            return reshape(out, kept) if keepdims else out
        first = getitem(x, 0) if start is None else convert_operand(start, wanted)
        total = broadcast_to(first, x.shape[1:])
        out = lax.fori_loop(int(start is None), x.shape[0], step, total)
        return reshape(out, kept) if keepdims else out

    # --- accumulate -------------------------------------------------------------------------------

    @api_boundary
    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Array:
        """Return the running results of applying the function along an axis.

        Args:
            a: Array to accumulate.
            axis: Axis along which to accumulate.
            dtype: Dtype to compute in and to return; by default that of the result of the function.
            out: Must be None; arrays are immutable.

        Returns:
            Array with the shape of ``a``.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.multiply.accumulate(jnp.array([1, 2, 3]))
            Array([1, 2, 6], dtype=int32)
        """
        self._need_binary("accumulate")
        self._refuse_out("accumulate", out)
        rule = self._accumulate or self._accumulate_by_scan
        return rule(a, axis=axis, dtype=dtype)

    def _accumulate_by_scan(self, a: Any, axis: Any, dtype: Any) -> Any:
        x = ensure_array(f"{self.__name__}.accumulate", a)
        if axis is None or isinstance(axis, tuple):
            raise ValueError(f"{self.__name__}.accumulate takes one axis, got {axis}")
        wanted = self._result_dtype(x, x) if dtype is None else dtypes.check_user_dtype(dtype)
        place = canonical_axis(axis, x.ndim)
        x = convert_operand(x, wanted)
        if x.size == 0:
            return x
        x = moveaxis(x, place, 0)

        def step(total: Any, row: Any) -> tuple[Any, Any]:
            new = convert_operand(self(total, row), wanted)
            return new, new

        first = lax.slice_in_dim(x, 0, 1)
        _, rest = lax.scan(step, getitem(x, 0), lax.slice_in_dim(x, 1, None))
        return moveaxis(lax.concatenate([first, rest], 0), 0, place)

    # --- at ---------------------------------------------------------------------------------------

    @api_boundary
    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Array:
        """Return a copy of an array with the function applied at indices, once for each.

        Args:
            a: Array to copy.
            indices: Any index that ``a[indices]`` takes.
            b: Second operand, which broadcasts to ``a[indices]``; None for functions of one
                argument.
            inplace: Must be False: arrays are immutable, the result is a new array.

        Returns:
            Array with the shape and dtype of ``a``.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.add.at(jnp.zeros(2), jnp.array([1, 1]), 3.0, inplace=False)
            Array([0., 6.], dtype=float32)
        """
        if inplace:
            raise NotImplementedError(
                f"arrays are immutable: write a = {self.__name__}.at(a, indices, b, inplace=False)"
            )
        others = () if b is None else (b,)
        rule = self._at or self._at_by_scan
        return rule(a, indices, *others)

    def _at_by_scan(self, a: Any, indices: Any, *others: Any) -> Any:
        check_arraylike(f"{self.__name__}.at", a, *others)
        dtype = self._result_dtype(a, *others)
        x = as_array(convert_operand(as_array(a), dtype))
        others = tuple(as_array(convert_operand(as_array(b), dtype)) for b in others)
        index = indices if isinstance(indices, tuple) else (indices,)
        shapes = [np.shape(i) for i in index if not isinstance(i, slice)]
        shape = lax.broadcast_shapes(*shapes) if shapes else ()
        if not shape:
            return update_index(x, index, self(take_index(x, index), *others), lax.scatter)
        count, lead = prod(shape), len(shape)
        columns = []
        for b in others:
            rest = b.shape[lead:]
            columns.append(reshape(broadcast_to(b, (*shape, *rest)), (count, *rest)))
        flat = [i if isinstance(i, slice) else ravel(broadcast_to(i, shape)) for i in index]

        def step(i: Any, total: Any) -> Any:
            place = tuple(p if isinstance(p, slice) else getitem(p, i) for p in flat)
            new = self(take_index(total, place), *(getitem(c, i) for c in columns))
            return update_index(total, place, new, lax.scatter)

        return lax.fori_loop(0, count, step, x)

    # --- reduceat and outer -----------------------------------------------------------------------

    @api_boundary
    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Array:
        """Return the reductions of the slices that begin at each of the indices.

        Args:
            a: Array to reduce.
            indices: Integer vector: where each slice begins; it ends where the next begins.
            axis: Axis to reduce along.
            dtype: Dtype to compute in and to return; by default that of the result of the function.
            out: Must be None; arrays are immutable.

        Returns:
            Array with one element for each index along ``axis``.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.add.reduceat(jnp.arange(5), jnp.array([0, 3]))
            Array([3, 7], dtype=int32)
        """
        self._need_binary("reduceat")
        self._refuse_out("reduceat", out)
        rule = self._reduceat or self._reduceat_by_loop
        return rule(a, indices, axis=axis, dtype=dtype)

    def _reduceat_by_loop(self, a: Any, indices: Any, axis: Any, dtype: Any) -> Any:
        name = f"{self.__name__}.reduceat"
        x, starts = ensure_array(name, a), ensure_array(name, indices)
        if x.ndim == 0 or starts.ndim != 1:
            raise ValueError(
                f"{name} takes an array of at least one dimension and a vector of indices, got"
                f" shapes {x.shape} and {starts.shape}"
            )
        if axis is None or isinstance(axis, (tuple, list)):
            raise ValueError(f"{name} takes one axis, got {axis}")
        place = canonical_axis(axis, x.ndim)
        if dtype is not None:
            x = as_array(convert_operand(x, dtypes.check_user_dtype(dtype)))
        total = take(x, starts, axis=place)
        others = [i for i in range(total.ndim) if i != place]
        bounds = lax.expand_dims(append(starts, x.shape[place]), others)
        low = lax.slice_in_dim(bounds, 0, -1, axis=place)
        high = lax.slice_in_dim(bounds, 1, None, axis=place)

        def step(i: Any, total: Any) -> Any:
            inside = lax.bitwise_and(greater(i, low), less(i, high))
            row = take(x, lax.expand_dims(i, (0,)), axis=place)
            return choose_where(inside, self(total, row), total)

        return lax.fori_loop(0, x.shape[place], step, total)

    @api_boundary
    def outer(self, A: Any, B: Any, /) -> Array:
        """Return the function of every element of one array with every element of another.

        Args:
            A: First array.
            B: Second array.

        Returns:
            Array of shape ``A.shape + B.shape``.

        Example:
            >>> import weft.numpy as jnp
            >>> jnp.add.outer(jnp.arange(2), jnp.arange(3))
            Array([[0, 1, 2],
                   [1, 2, 3]], dtype=int32)
        """
        self._need_binary("outer")
        check_arraylike(f"{self.__name__}.outer", A, B)
        x, y = ravel(A), ravel(B)
        out = vmap(vmap(self, (None, 0)), (0, None))(x, y)
        return reshape(out, (*np.shape(A), *np.shape(B)))


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Return a universal function made from a function of scalars.

    Args:
        func: Function of ``nin`` scalars that returns ``nout`` values. It must be traceable.
        nin: Number of arguments.
        nout: Number of results.
        identity: The value that leaves the other operand unchanged, from which reductions start;
            None if there is none.

    Returns:
        A ``ufunc``, which broadcasts its arguments; binary ones can ``reduce`` and ``accumulate``.

    Example:
        >>> import weft.numpy as jnp
        >>> jnp.frompyfunc(lambda x, y: x * y, 2, 1)(jnp.arange(3), 2)
        Array([0, 2, 4], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)
