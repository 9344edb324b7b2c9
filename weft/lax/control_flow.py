"""Control flow of ``weft.lax``: choices between functions, maps, and associative scans."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from weft.api.arguments import check_references
from weft.base import knobs, source
from weft.base.traceback import api_boundary
from weft.control.cond import cond_p
from weft.control.initial_style import (
    forwarded_inputs,
    keep_outputs,
    leaf_paths,
    merge_branch_consts,
    stage_tree_function,
)
from weft.control.platform import platform_index_p
from weft.core.array import Array, ArrayLike
from weft.core.avals import same_type
from weft.core.batching import AxisData, match_axis
from weft.core.debug_info import DebugInfo
from weft.core.dims.dim import is_constant_shape
from weft.core.high import flatten
from weft.core.trace import typeof
from weft.lax.loops import as_result, debug_info, is_concrete
from weft.lax.loops import fori_loop as fori_loop
from weft.lax.loops import scan as scan
from weft.lax.loops import while_loop as while_loop
from weft.lax.shape import canonical_axis
from weft.lax.slicing import slice_in_dim
from weft.lax.solves import custom_linear_solve as custom_linear_solve
from weft.lax.solves import custom_root as custom_root
from weft.prims.arithmetic import add, clamp_p
from weft.prims.bits import or_
from weft.prims.convert import convert
from weft.prims.families import BOOL, FLOAT, INTEGER, along, const, kind_of, scalar
from weft.prims.selection import ne
from weft.prims.shape import concatenate_p, pad_p, reshape_p, rev_p
from weft.runtime.devices import platform_of
from weft.transforms.vmap import batch
from weft.tree.compare import equality_errors_treedef
from weft.tree.functions import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from weft.tree.keys import keystr
from weft.tree.treedef import PyTreeDef

R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")

INT32 = np.dtype(np.int32)
_absent = object()


# --- choices --------------------------------------------------------------------------------------


@overload
def cond(
    pred: Any,
    true_fun: Callable[..., ArrayLike],
    false_fun: Callable[..., ArrayLike],
    *operands: Any,
    operand: Any = ...,
) -> Array: ...
@overload
def cond(
    pred: Any,
    true_fun: Callable[..., R],
    false_fun: Callable[..., S],
    *operands: Any,
    operand: Any = ...,
) -> R | S: ...
@overload
def cond(
    pred: Any,
    true_operand: Any,
    true_fun: Callable[..., R],
    false_operand: Any,
    false_fun: Callable[..., S],
    /,
) -> R | S: ...
@api_boundary
def cond(
    pred: Any,
    true_fun: Callable[..., R],
    false_fun: Callable[..., R],
    *operands: Any,
    operand: Any = _absent,
) -> R:
    """Return ``true_fun(*operands)`` if a scalar is true, else ``false_fun(*operands)``.

    Args:
        pred: Boolean scalar; a number counts as true if it isn't zero. It may be traced.
        true_fun: Function applied if ``pred`` is true.
        false_fun: Function applied otherwise; it must return the same tree of shapes and dtypes.
        *operands: Arguments of both functions, trees of arrays.
        operand: One argument by keyword, instead of ``operands``; None calls the functions with
            None.

    Returns:
        The result of the chosen function.

    Both functions are traced; only one of them runs. Under ``vmap`` over ``pred`` both run, and
    each element takes its result from one of them.

    Example:
        >>> from weft import lax
        >>> lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10)
        Array(11, dtype=int32, weak_type=True)
    """
    if not (callable(true_fun) and callable(false_fun)):
        if callable(false_fun) and len(operands) == 2 and callable(operands[1]):
            return _cond_of_five(pred, true_fun, false_fun, *operands)
        raise TypeError(
            "lax.cond takes two functions true_fun and false_fun, got"
            f" {type(true_fun).__name__} and {type(false_fun).__name__}"
        )
    operands = _with_operand("cond", operands, operand)
    pred = _predicate(pred)
    if knobs.disable_jit.value and is_concrete(pred):
        return true_fun(*operands) if pred else false_fun(*operands)
    names = ("true_fun", "false_fun")
    index = np.int32(pred) if isinstance(pred, (bool, np.bool_)) else None
    return _choose("cond", index, pred, (true_fun, false_fun), names, operands)


def _cond_of_five(pred: Any, x: Any, true_fun: Any, y: Any, false_fun: Any) -> Any:
    """The older form with one operand for each function."""
    return cond(pred, lambda x, _: true_fun(x), lambda _, y: false_fun(y), x, y)


@overload
def switch(
    index: Any, branches: Sequence[Callable[..., ArrayLike]], *operands: Any, operand: Any = ...
) -> Array: ...
@overload
def switch(
    index: Any, branches: Sequence[Callable[..., R]], *operands: Any, operand: Any = ...
) -> R: ...
@api_boundary
def switch(
    index: Any,
    branches: Sequence[Callable[..., R]],
    *operands: Any,
    operand: Any = _absent,
) -> R:
    """Return ``branches[index](*operands)``, with the index limited to the branches.

    Args:
        index: Integer scalar, which may be traced; below 0 chooses the first branch, too large the
            last.
        branches: Sequence of functions that return the same tree of shapes and dtypes.
        *operands: Arguments of the branches, trees of arrays.
        operand: One argument by keyword, instead of ``operands``.

    Returns:
        The result of the chosen branch.

    Example:
        >>> from weft import lax
        >>> lax.switch(7, [lambda x: x, lambda x: -x], 3.0)
        Array(-3., dtype=float32, weak_type=True)
    """
    branches = tuple(branches)
    if not all(callable(branch) for branch in branches):
        kinds = ", ".join(type(b).__name__ for b in branches)
        raise TypeError(f"lax.switch takes a sequence of functions, got {kinds}")
    operands = _with_operand("switch", operands, operand)
    if np.ndim(index) != 0:
        raise TypeError(f"the index of switch must be a scalar, got shape {np.shape(index)}")
    aval = _type_of("switch", "the index", index)
    if not kind_of(aval.dtype) & INTEGER:
        raise TypeError(f"the index of switch must be an integer, got {aval.str_short()}")
    if not branches:
        raise ValueError("switch got no branches to choose from")
    if len(branches) == 1:
        return branches[0](*operands)
    number = isinstance(index, (int, np.generic))
    index = np.int32(index) if number else convert(index, INT32)
    index = clamp_p.bind(scalar(INT32, 0), index, scalar(INT32, len(branches) - 1))
    return _switch(index, branches, operands, None)


@api_boundary
def platform_dependent(
    *args: Any, default: Callable[..., R] | None = None, **per_platform: Callable[..., R]
) -> R:
    """Return the result of the function given for the platform that the computation runs on.

    Args:
        *args: Arguments of the functions.
        default: Function for platforms that aren't named; without it they raise an error.
        **per_platform: Functions by platform: ``cpu=``, ``cuda=``, ``rocm=`` or ``tpu=``.

    Returns:
        The result of the chosen function; all must return the same types.

    Example:
        >>> from weft import lax
        >>> lax.platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x - 1)
        3.0
    """
    found: list[tuple[list[str], Callable[..., Any]]] = []
    for name, branch in per_platform.items():
        if not callable(branch):
            raise TypeError(f"platform_dependent takes functions, got {name}={branch!r}")
        if name == "gpu":
            raise ValueError("platform_dependent takes 'cuda' or 'rocm', not 'gpu'")
        same = [names for names, other in found if other is branch]
        if same:
            same[0].append(name)
        else:
            found.append(([name], branch))
    branches = [branch for _, branch in found]
    platforms: list[tuple[str, ...] | None] = [tuple(names) for names, _ in found]
    if default is not None:
        if not callable(default):
            raise TypeError(f"platform_dependent takes functions, got default={default!r}")
        branches.append(default)
        platforms.append(None)
    index = platform_index_p.bind(platforms=tuple(platforms))
    if is_concrete(index):
        placed = [x for x in tree_leaves(args) if is_concrete(x) and getattr(x, "committed", False)]
        if placed:
            (platform, *_) = {platform_of(d.platform) for d in placed[0].devices()}
            index = platform_index_p.index_of(tuple(platforms), platform)
        return branches[int(index)](*args)
    return _switch(index, branches, args, tuple(platforms))


def _switch(
    index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any], platforms: Any
) -> Any:
    if knobs.disable_jit.value and is_concrete(index):
        return branches[int(index)](*operands)
    names = [f"branch {i}" for i in range(len(branches))]
    return _choose("switch", index, None, branches, names, operands, platforms)


def _with_operand(what: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _absent:
        return operands
    if operands:
        raise TypeError(
            f"{what} got operands both by position and as operand={operand!r}; pass them all by "
            "position"
        )
    return (operand,)


def _type_of(what: str, role: str, x: Any) -> Any:
    try:
        return typeof(x)
    except TypeError:
        raise TypeError(
            f"{role} of {what} must be a number or a boolean, got {x!r} of type {type(x).__name__}"
        ) from None


def _predicate(pred: Any) -> Any:
    """The predicate of ``cond`` as a boolean scalar."""
    if pred is None or isinstance(pred, Sequence):
        raise TypeError(
            f"the predicate of cond must be a scalar, got {pred!r} of type {type(pred).__name__}"
        )
    if np.ndim(pred) != 0:
        raise TypeError(
            f"the predicate of cond must be a scalar, got shape {np.shape(pred)}; reduce it with"
            " .any() or .all(), or use weft.numpy.where to choose element by element"
        )
    aval = _type_of("cond", "the predicate", pred)
    kind = kind_of(aval.dtype)
    if kind == BOOL:
        return bool(pred) if isinstance(pred, (np.bool_, np.ndarray)) else pred
    if not kind & (INTEGER | FLOAT):
        raise TypeError(
            f"the predicate of cond must be a boolean or a real number, got {aval.str_short()}"
        )
    if isinstance(pred, (int, float, np.generic, np.ndarray)):
        return bool(pred != 0)
    return ne(pred, const(pred, 0))


def _choose(
    what: str,
    index: Any,
    pred: Any,
    functions: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: Sequence[Any],
    platforms: Any = None,
) -> Any:
    """Stage the functions, check that they agree, and bind ``cond``.

    For ``cond`` the functions are the one of true and the one of false, in this order.
    """
    args, in_tree = flatten(tuple(operands))
    avals = [typeof(x) for x in args]
    if any(aval.is_ref for aval in avals):
        names_of = debug_info(what, functions[0], in_tree).names
        check_references(args, (), functions[0], what, names_of)
    staged = [
        stage_tree_function(fun, in_tree, avals, debug_info(what, fun, in_tree))
        for fun in functions
    ]
    out_tree = staged[0][1]
    programs, consts = merge_branch_consts([program for program, _ in staged])
    for i in range(1, len(staged)):
        _check_branches(what, names, functions, staged, i)
    sources = [forwarded_inputs(p.jaxpr) for p in programs]
    passed = [column[0] if len(set(column)) == 1 else None for column in zip(*sources)]
    branches = tuple(keep_outputs(p, [s is None for s in passed]) for p in programs)
    if what == "cond":
        branches = branches[::-1]
        if index is None:
            index = convert(pred, INT32)
    params = {} if platforms is None else {"branches_platforms": platforms}
    inputs = [*consts, *args]
    outs = iter(cond_p.bind(index, *inputs, branches=branches, **params))
    results = [next(outs) if s is None else as_result(inputs[s]) for s in passed]
    return tree_unflatten(out_tree, results)


def _check_branches(
    what: str, names: Sequence[str], functions: Sequence[Any], staged: Sequence[Any], i: int
) -> None:
    """Raise TypeError unless branch ``i`` returns what branch 0 does."""
    (first, tree), (other, other_tree) = staged[0], staged[i]
    if tree != other_tree:
        differences = [
            f"  * {names[0]} returns a {one}{_at(path)}, {names[i]} a {two}: {why}"
            for path, one, two, why in equality_errors_treedef(tree, other_tree)
        ]
        rule = "branch outputs must have the same pytree structure, but they differ"
    elif all(same_type(a, b) for a, b in zip(first.out_avals, other.out_avals, strict=True)):
        return
    else:
        rows = zip(leaf_paths(tree), first.out_avals, other.out_avals, strict=True)
        differences = [
            f"  * {names[0]} returns {one.str_short()}{_at(path)}, {names[i]} {two.str_short()}"
            for path, one, two in rows
            if not same_type(one, two)
        ]
        rule = "branches must have equal output types but they differ"
        differences.append("Convert with x.astype or x.reshape in one of them.")
    if not differences:
        return  # equal but for data that a class keeps beside its children
    places = [f"  {names[k]} is {DebugInfo(what, functions[k]).func_src_info}" for k in (0, i)]
    where = source.summarize(source.current())
    raise TypeError(f"{what} {rule} ({where}):\n" + "\n".join([*places, *differences]))


def _at(path: Sequence[Any]) -> str:
    return f" at output{keystr(path)}" if path else ""


# --- maps -----------------------------------------------------------------------------------------


@overload
def map(f: Callable[[Any], ArrayLike], xs: Any, *, batch_size: int | None = None) -> Array: ...
@overload
def map(f: Callable[[Any], R], xs: Any, *, batch_size: int | None = None) -> R: ...
@api_boundary
def map(f: Callable[[Any], R], xs: Any, *, batch_size: int | None = None) -> R:
    """Return a function's results for each element along the leading axis, one after the other.

    Args:
        f: Function of one element (a slice of ``xs``) that returns a tree of arrays.
        xs: Array, or tree of arrays with one leading size.
        batch_size: Number of elements to compute at once, as by ``vmap``; 0 takes them all. By
            default one.

    Returns:
        Results stacked along a new leading axis. It takes less memory than ``vmap``, and longer.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.map(lambda x: x * x, jnp.array([1, 2, 3]))
        Array([1, 4, 9], dtype=int32)
    """
    if not callable(f):
        raise TypeError(f"lax.map takes a function, got {f!r}")
    if batch_size is None:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    leaves, tree = tree_flatten(xs)
    if not leaves:
        return scan(lambda _, x: ((), _map_at_once(f, x)), (), xs)[1]
    batch_size = operator.index(batch_size)
    if batch_size < 0:
        raise ValueError(f"batch_size of lax.map must not be negative, got {batch_size}")
    length = np.shape(leaves[0])[0]
    batches = length // batch_size if batch_size else 0
    covered = batches * batch_size
    if not batches:
        return _map_at_once(f, tree_unflatten(tree, [_rows(x, 0, length) for x in leaves]))
    blocks, rest = [], []
    for x in leaves:
        shape = (batches, batch_size, *np.shape(x)[1:])
        blocks.append(_reshape(_rows(x, 0, covered), shape))
        if covered < length:
            rest.append(_rows(x, covered, length))
    _, ys = scan(lambda _, x: ((), _map_at_once(f, x)), (), tree_unflatten(tree, blocks))
    if covered == length:
        return tree_map(_merge_leading, ys)
    tail = _map_at_once(f, tree_unflatten(tree, rest))
    return tree_map(lambda y, t: concatenate_p.bind(_merge_leading(y), t, dimension=0), ys, tail)


def _map_at_once(f: Callable[[Any], Any], xs: Any) -> Any:
    leaves, tree = tree_flatten(xs)
    size = np.shape(leaves[0])[0]
    structure: list[PyTreeDef] = []

    def flat(*args: Any) -> list[Any]:
        outs, out_tree = tree_flatten(f(tree_unflatten(tree, args)))
        structure.append(out_tree)
        return outs

    outs, dims = batch(flat, AxisData(None, size), leaves, [0] * len(leaves))
    moved = [match_axis(size, d, 0, x) for x, d in zip(outs, dims, strict=True)]
    return tree_unflatten(structure[0], moved)


def _rows(x: Any, start: int, stop: int) -> Any:
    return x if start == 0 and stop == np.shape(x)[0] else along(x, 0, start, stop)


def _reshape(x: Any, shape: Sequence[int]) -> Any:
    return reshape_p.bind(x, new_sizes=tuple(shape), dimensions=None, sharding=None)


def _merge_leading(x: Any) -> Any:
    shape = np.shape(x)
    return _reshape(x, (shape[0] * shape[1], *shape[2:]))


@overload
def associative_scan(
    fn: Callable[[Any, Any], ArrayLike], elems: ArrayLike, reverse: bool = False, axis: int = 0
) -> Array: ...
@overload
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: T, reverse: bool = False, axis: int = 0
) -> T: ...
@api_boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return all prefixes of a sequence, combined by an associative function.

    Args:
        fn: Associative function of two trees of arrays like ``elems``; it is applied to slices of
            many elements at once.
        elems: Array or tree of arrays with one size along ``axis``.
        reverse: If true, combine suffixes instead of prefixes.
        axis: Axis along which the elements lie.

    Returns:
        Tree like ``elems``: element k is the combination of the elements up to k.

    It takes O(log n) steps; each calls ``fn`` on whole arrays.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.associative_scan(lambda a, b: a * b, jnp.arange(1, 6))
        Array([  1,   2,   6,  24, 120], dtype=int32)
    """
    if not callable(fn):
        raise TypeError(f"lax.associative_scan takes a function fn, got {fn!r}")
    leaves, tree = tree_flatten(elems)
    if not leaves:
        return elems
    ndim = np.ndim(leaves[0])
    position = canonical_axis(axis, ndim)
    sizes = [np.shape(x)[position] for x in leaves]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"associative_scan needs arrays of one size along axis {axis}, got shapes"
            f" {[np.shape(x) for x in leaves]}"
        )
    if not is_constant_shape(sizes):
        raise NotImplementedError(
            f"associative_scan halves its axis repeatedly, which needs a known size instead of"
            f" {sizes[0]}; use lax.scan, or cumsum, cumprod, cummax, cummin and cumlogsumexp"
        )
    if reverse:
        leaves = [rev_p.bind(x, dimensions=(position,)) for x in leaves]

    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        result = fn(tree_unflatten(tree, left), tree_unflatten(tree, right))
        if tree_structure(result) != tree:
            raise TypeError(
                "the function of associative_scan must return a tree like those it takes"
                f" ({tree}), but returned {tree_structure(result)}"
            )
        return tree_flatten(result)[0]

    outs = _prefixes(combine, leaves, position)
    if reverse:
        outs = [rev_p.bind(x, dimensions=(position,)) for x in outs]
    return tree_unflatten(tree, outs)


def _prefixes(combine: Any, elems: list[Any], axis: int) -> list[Any]:
    """Prefixes at odd places are those of combined pairs; one more step gives the even ones."""
    size = np.shape(elems[0])[axis]
    if size < 2:
        return elems
    pairs = combine(_part(elems, axis, 0, -1, 2), _part(elems, axis, 1, None, 2))
    odd = _prefixes(combine, pairs, axis)
    before = odd if size % 2 else _part(odd, axis, 0, -1)
    even = combine(before, _part(elems, axis, 2, None, 2))
    even = [
        concatenate_p.bind(slice_in_dim(x, 0, 1, 1, axis), e, dimension=axis)
        for x, e in zip(elems, even, strict=True)
    ]
    return [_interleave(e, o, axis) for e, o in zip(even, odd, strict=True)]


def _part(
    elems: Sequence[Any], axis: int, start: int, stop: int | None, stride: int = 1
) -> list[Any]:
    return [slice_in_dim(x, start, stop, stride, axis) for x in elems]


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """The elements of two arrays in turn, each spread by padding; the paddings add up to none."""
    same = np.shape(even)[axis] == np.shape(odd)[axis]
    aval = typeof(even)
    zero = const(even, 0)
    none = [(0, 0, 0)] * len(aval.shape)
    wide_even, wide_odd = list(none), list(none)
    wide_even[axis] = (0, int(same), 1)
    wide_odd[axis] = (1, int(not same), 1)
    join = or_ if aval.dtype == np.bool_ else add
    return join(
        pad_p.bind(even, zero, padding_config=tuple(wide_even)),
        pad_p.bind(odd, zero, padding_config=tuple(wide_odd)),
    )
