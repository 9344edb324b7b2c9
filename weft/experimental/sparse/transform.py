"""``sparsify``: functions of dense arrays made functions of sparse ones; operators of BCOO, BCSR.

The function is staged on the dense shapes, and its program is evaluated by rules for sparse
values. A result that would not be sparse is refused rather than made dense.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from weft import lax
from weft import numpy as jnp
from weft.base.functional import wraps
from weft.base.traceback import bounded
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.experimental.sparse.base import JAXSparse, SparseOperation, inside, trailing
from weft.experimental.sparse.bcoo_arithmetic import (
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
)
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_layout import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_update_layout,
    full_buffers,
)
from weft.experimental.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
)
from weft.experimental.sparse.loops import branch, scan, while_loop
from weft.experimental.sparse.rows import COO, CSC, CSR, rows_of
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten


def is_sparse(x: Any) -> bool:
    """Whether a leaf of a tree is a sparse array."""
    return isinstance(x, JAXSparse)


def to_bcoo(x: Any) -> BCOO:
    """A sparse array of any format as BCOO."""
    if isinstance(x, BCSR):
        return x.to_bcoo()
    if isinstance(x, COO):
        return BCOO((x.data, jnp.stack([x.row, x.col], -1)), shape=x.shape)
    if isinstance(x, CSC):
        return to_bcoo(x.transpose()).transpose()
    if isinstance(x, CSR):
        rows = rows_of(x.indptr, x.nse).astype(x.indices.dtype)
        return BCOO((x.data, jnp.stack([rows, x.indices], -1)), shape=x.shape)
    return x


# --- rules ----------------------------------------------------------------------------------------

# Functions that are zero at zero: they act on stored elements.
LINEAR = "neg convert_element_type copy copy_p real imag conj reduce_precision".split()
ZERO_AT_ZERO = (
    "abs asin asinh atan atanh bessel_i1e ceil cbrt erf expm1 floor integer_pow is_finite log1p"
    " round sign sin sinh sqrt square tan tanh"
).split()

Rule = Callable[..., Any]
_rules: dict[str, Rule] = {}


def _rule(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _rules[name] = rule
        return rule

    return register


def _with_data(mat: Any, data: Any) -> Any:
    return type(mat)(
        (data, *mat._bufs[1:]),
        shape=mat.shape,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


def _elementwise(eqn: JaxprEqn, x: Any) -> Any:
    name = eqn.primitive.name
    if (name == "integer_pow" and eqn.params["y"] <= 0) or name == "is_finite":
        raise _dense_result(name)
    if name in ZERO_AT_ZERO and not x.unique_indices:
        x = x.sum_duplicates(nse=x.nse, remove_zeros=False)
    return _with_data(x, eqn.primitive.bind(x.data, **eqn.params))


@_rule("mul")
def _mul(eqn: JaxprEqn, x: Any, y: Any) -> BCOO:
    if is_sparse(x) and is_sparse(y):
        if x.indices is y.indices and x.unique_indices and x.shape == y.shape:
            return _with_data(x, lax.mul(x.data, y.data))
        return bcoo_multiply_sparse(x, y)
    mat, other = (x, y) if is_sparse(x) else (y, x)
    return _with_data(mat, bcoo_multiply_dense(mat, other))


@_rule("div")
def _div(eqn: JaxprEqn, x: Any, y: Any) -> BCOO:
    if is_sparse(y):
        raise _dense_result("division by a sparse array")
    if jnp.ndim(y) == 0:
        return _with_data(x, lax.div(x.data, jnp.asarray(y, x.dtype)))
    ones = BCOO((jnp.ones_like(x.data), x.indices), shape=x.shape)
    divisor = bcoo_multiply_dense(ones, y)
    good = trailing(inside(x.indices, x._sparse_shape), divisor)
    return _with_data(x, lax.div(x.data, jnp.where(good, divisor, 1)))


@_rule("add")
def _add(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    if not (is_sparse(x) and is_sparse(y)):
        mat, other = (x, y) if is_sparse(x) else (y, x)
        if jnp.shape(other) != mat.shape:
            raise _dense_result(f"the sum with an array of shape {jnp.shape(other)}")
        return mat.todense() + other
    if x.shape != y.shape:
        raise NotImplementedError(
            f"the sum of {x} and {y}, whose shapes differ; bcoo_broadcast_in_dim first"
        )
    if x.indices is y.indices and x.data.shape == y.data.shape:
        return _with_data(x, lax.add(x.data, y.data))
    layout = {"n_batch": min(x.n_batch, y.n_batch), "n_dense": min(x.n_dense, y.n_dense)}
    x, y = bcoo_update_layout(x, **layout), bcoo_update_layout(y, **layout)
    both = [full_buffers(x), full_buffers(y)]
    buffers = tuple(jnp.concatenate(parts, x.n_batch) for parts in zip(*both, strict=True))
    return BCOO(buffers, shape=x.shape)


@_rule("sub")
def _sub(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    return _add(eqn, x, _with_data(y, -y.data) if is_sparse(y) else -y)


@_rule("add_any")
def _add_any(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    return _add(eqn, x, y)


@_rule("dot_general")
def _dot_general(eqn: JaxprEqn, x: Any, y: Any) -> Any:
    return bcoo_dot_general(
        x,
        y,
        dimension_numbers=eqn.params["dimension_numbers"],
        preferred_element_type=eqn.params["preferred_element_type"],
    )


@_rule("reduce_sum")
def _reduce_sum(eqn: JaxprEqn, x: BCOO) -> Any:
    out = bcoo_reduce_sum(x, axes=eqn.params["axes"])
    return out if out.shape else out.todense()


@_rule("transpose")
def _transpose(eqn: JaxprEqn, x: BCOO) -> BCOO:
    return x.transpose(eqn.params["permutation"])


@_rule("reshape")
def _reshape(eqn: JaxprEqn, x: BCOO) -> BCOO:
    return bcoo_reshape(
        x, new_sizes=eqn.params["new_sizes"], dimensions=eqn.params.get("dimensions")
    )


@_rule("squeeze")
def _squeeze(eqn: JaxprEqn, x: BCOO) -> BCOO:
    return bcoo_squeeze(x, dimensions=eqn.params["dimensions"])


@_rule("rev")
def _rev(eqn: JaxprEqn, x: BCOO) -> BCOO:
    return bcoo_rev(x, eqn.params["dimensions"])


@_rule("slice")
def _slice(eqn: JaxprEqn, x: BCOO) -> BCOO:
    return bcoo_slice(
        x, **{k: eqn.params[k] for k in ("start_indices", "limit_indices", "strides")}
    )


@_rule("dynamic_slice")
def _dynamic_slice(eqn: JaxprEqn, x: BCOO, *starts: Any) -> BCOO:
    return bcoo_dynamic_slice(x, starts, eqn.params["slice_sizes"])


@_rule("gather")
def _gather(eqn: JaxprEqn, x: BCOO, starts: Any) -> BCOO:
    names = ("dimension_numbers", "slice_sizes", "mode", "fill_value")
    return bcoo_gather(x, starts, **{name: eqn.params[name] for name in names})


@_rule("broadcast_in_dim")
def _broadcast_in_dim(eqn: JaxprEqn, x: Any) -> Any:
    params = {name: eqn.params[name] for name in ("shape", "broadcast_dimensions")}
    if isinstance(x, BCSR):
        return bcsr_broadcast_in_dim(x, **params)
    return bcoo_broadcast_in_dim(x, **params)


@_rule("concatenate")
def _concatenate(eqn: JaxprEqn, *operands: Any) -> Any:
    return _joined(operands, eqn.params["dimension"])


def _joined(operands: Any, dimension: int) -> Any:
    if not all(map(is_sparse, operands)):
        raise _dense_result("sparse and dense arrays joined")
    if all(isinstance(x, BCSR) for x in operands):
        return bcsr_concatenate(operands, dimension=dimension)
    return bcoo_concatenate([to_bcoo(x) for x in operands], dimension=dimension)


@_rule("stack")
def _stack(eqn: JaxprEqn, *operands: Any) -> Any:
    if not all(map(is_sparse, operands)):
        raise _dense_result("sparse and dense arrays stacked")
    axis = eqn.params["axis"]
    return _joined([_wider(x, axis) for x in operands], axis)


def _wider(x: Any, axis: int) -> Any:
    """``x`` with a new dimension of size 1."""
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    places = [d for d in range(len(shape)) if d != axis]
    widen = bcsr_broadcast_in_dim if isinstance(x, BCSR) else bcoo_broadcast_in_dim
    return widen(x, shape=shape, broadcast_dimensions=places)


@_rule("conv_general_dilated")
def _conv(eqn: JaxprEqn, x: Any, y: Any) -> BCOO:
    numbers = eqn.params["dimension_numbers"]
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count",
             "batch_group_count", "preferred_element_type")  # fmt: skip
    return bcoo_conv_general_dilated(
        x,
        y,
        dimension_numbers=tuple(tuple(part) for part in numbers),
        **{name: eqn.params[name] for name in names},
    )


def _dense_result(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what} would give a dense array; if this is meant, make operands dense with"
        " sparse.todense"
    )


def _known_dense(name: str) -> bool:
    return name in {"cos", "cosh", "exp", "exp2", "log", "logistic", "digamma", "lgamma", "acos",
                    "erfc", "rsqrt", "eq", "ne", "lt", "le", "gt", "ge", "max", "min", "pow",
                    "not"}  # fmt: skip


# Rules that leave BCSR what it is, and those that need to evaluate programs.
_OF_ROWS = {"broadcast_in_dim", "concatenate", "stack"}
_CONTROL = {"cond": branch, "while": while_loop, "scan": scan}


# --- evaluation -----------------------------------------------------------------------------------


def _evaluate(closed: ClosedJaxpr, args: Any) -> list[Any]:
    """The results of a program on values of which some are sparse."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
        outs = _step(eqn, values)
        env.update(zip(eqn.outvars, outs, strict=True))
    return [x.val if type(x) is Literal else env[x] for x in jaxpr.outvars]


def _step(eqn: JaxprEqn, values: list[Any]) -> Any:
    primitive = eqn.primitive
    if not any(map(is_sparse, values)):
        leading, params = primitive.get_bind_params(eqn.params)
        out = primitive.bind(*leading, *values, **params)
        return out if primitive.multiple_results else [out]
    if primitive.name in _CONTROL:
        return _CONTROL[primitive.name](_evaluate, eqn, *values)
    if primitive.name == "todense":
        return [x.todense() for x in values]
    callee = primitive.callee(eqn.params)
    if callee is not None:
        return _evaluate(callee, values)
    if primitive.name == "dot_general" and isinstance(values[0], BCSR):
        return [_bcsr_dot(eqn, *values)]
    elementwise = primitive.name in LINEAR or primitive.name in ZERO_AT_ZERO
    kept = BCSR if elementwise or primitive.name in _OF_ROWS else BCOO
    values = [to_bcoo(x) if is_sparse(x) and not isinstance(x, kept) else x for x in values]
    rule = _elementwise if elementwise else _rules.get(primitive.name)
    if rule is None:
        if _known_dense(primitive.name):
            raise _dense_result(f"the operation {primitive.name} on a sparse array")
        raise NotImplementedError(
            f"sparsify has no rule for {primitive.name}; make its operands dense with"
            " sparse.todense"
        )
    return [rule(eqn, *values)]


def _bcsr_dot(eqn: JaxprEqn, x: BCSR, y: Any) -> Any:
    return bcsr_dot_general(
        x,
        y,
        dimension_numbers=eqn.params["dimension_numbers"],
        preferred_element_type=eqn.params["preferred_element_type"],
    )


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """Return a function as one of arrays of which some may be sparse.

    Args:
        f: the function.
        use_tracer: accepted for JAX, no effect.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental import sparse
        >>> f = sparse.sparsify(lambda mat, v: jnp.sin(mat) @ v)
        >>> f(sparse.eye(2), jnp.ones(2)).round(3)
        Array([0.841, 0.841], dtype=float32)
    """

    @wraps(f)
    def sparse_f(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_flatten((args, kwargs), is_leaf=is_sparse)
        avals = [ShapedArray(x.shape, x.dtype) if is_sparse(x) else typeof(x) for x in leaves]
        trees = []

        def flat(*given: Any) -> list[Any]:
            positional, named = tree_unflatten(in_tree, given)
            outs, tree = tree_flatten(f(*positional, **named))
            trees.append(tree)
            return outs

        outs = _evaluate(stage(flat, avals), _apart(leaves))
        return tree_unflatten(trees[0], outs)

    return sparse_f


def _apart(args: list[Any]) -> list[Any]:
    """Arguments of which no two have one array of indices: sums join the elements of two."""
    seen: set[int] = set()
    found = []
    for x in args:
        if isinstance(x, (BCOO, BCSR)):
            if id(x.indices) in seen:
                x = tree_map(lambda buffer: jnp.array(buffer, copy=True), x)
            seen.add(id(x.indices))
        found.append(x)
    return found


# --- operators ------------------------------------------------------------------------------------


def _iterate(self: Any) -> Any:
    if not self.ndim:
        raise TypeError("a sparse array without dimensions cannot be iterated over")
    return (self[i] for i in range(self.shape[0]))


def _item(self: Any, key: Any) -> Any:
    return sparsify(lambda x: x[key])(self)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: sparsify(lambda a, b: function(b, a))(self, other)


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: sparsify(function)(self, *others)


def _update_layout(self: BCOO, *, n_batch=None, n_dense=None, on_inefficient="error") -> BCOO:
    """The same array with another number of batch and dense dimensions."""
    return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)


def _sum(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The sum over all or some dimensions."""
    return sparsify(lambda x: x.sum(*args, **kwargs))(self)


def _reshaped(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The array with other sizes."""
    return sparsify(lambda x: x.reshape(*args, **kwargs))(self)


def _astype(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in another dtype."""
    return sparsify(lambda x: x.astype(*args, **kwargs))(self)


def _power(self: Any, power: Any) -> Any:
    """The array's elements to a power."""
    return sparsify(lambda x: x**power)(self)


def _attach() -> None:
    """Give BCOO and BCSR the operators and methods that ``sparsify`` provides."""
    methods = {"sum": _sum, "reshape": _reshaped, "astype": _astype, "__pow__": _power}
    methods |= {"__getitem__": _item, "__iter__": _iterate}
    for name in "add sub mul truediv matmul".split():
        methods[f"__{name}__"] = _operator(getattr(operator, name))
        methods[f"__r{name}__"] = _reflected(getattr(operator, name))
    for name in "eq ne lt le gt ge neg abs pos".split():
        methods[f"__{name}__"] = _operator(getattr(operator, name))
    for cls in (BCOO, BCSR):
        for name, method in methods.items():
            setattr(cls, name, bounded(method, __name__))
    BCOO.update_layout = bounded(_update_layout, __name__)  # type: ignore[attr-defined]


_attach()


# --- dense again ----------------------------------------------------------------------------------


@SparseOperation
def todense_p(*buffers: Any, tree: Any) -> list[Any]:
    """An array of any format with all its zeros."""
    arr = tree_unflatten(tree, buffers)
    return [arr.todense() if is_sparse(arr) else arr]


def todense(arr: Any) -> Any:
    """Return a tree of arrays, the sparse ones with all their zeros.

    Args:
        arr: an array or a tree of arrays.

    Returns:
        The tree, with dense arrays.

    Example:
        >>> from weft.experimental import sparse
        >>> sparse.todense(sparse.eye(2)).sum().item()
        2.0
    """

    def one(x: Any) -> Any:
        buffers, tree = tree_flatten(x)
        return todense_p.call(*buffers, tree=tree)[0]

    return tree_map(one, arr, is_leaf=is_sparse)
