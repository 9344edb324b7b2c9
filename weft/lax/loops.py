"""Loops of ``weft.lax``: arguments and user errors around the primitives ``while`` and ``scan``."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from weft import dtypes
from weft.api.arguments import argument_names, check_references, signature
from weft.base import errors, knobs, source
from weft.base.functional import merge_lists, partition_list, weakref_lru_cache
from weft.base.record import Record
from weft.base.traceback import api_boundary
from weft.control.initial_style import (
    forwarded_inputs,
    inputs_to_front,
    keep_outputs,
    leaf_paths,
    separate_consts,
    stage_tree_function,
)
from weft.control.scan import scan_p
from weft.control.while_loop import while_p
from weft.core.array import Array, ArrayData, ArrayLike
from weft.core.avals import ShapedArray, same_type, varying_of
from weft.core.debug_info import DebugInfo, hollow
from weft.core.dims.dim import is_constant_shape
from weft.core.high import flatten
from weft.core.jaxpr import ClosedJaxpr
from weft.core.trace import Tracer, box, is_tracing, state, typeof
from weft.division import varying
from weft.lax.slicing import index_in_dim
from weft.prims.arithmetic import add
from weft.prims.convert import convert, convert_values
from weft.prims.families import broadcast_in_dim, const
from weft.prims.selection import lt
from weft.prims.shape import concatenate_p
from weft.runtime.array import from_numpy
from weft.transforms.dce import dce_closed
from weft.tree.compare import equality_errors_treedef
from weft.tree.functions import tree_map, tree_unflatten, treedef_tuple
from weft.tree.keys import keystr
from weft.tree.treedef import PyTreeDef

# Where bodies are whose initial values are made to vary over the mesh axes that results vary over;
# users say so themselves.
_OWN = tuple(f"weft.{room}." for room in "numpy lax nn random scipy image ops".split())
T = TypeVar("T")
# What may stand for arrays in a carry: the body gives it the type that it returns.
Container: TypeAlias = tuple[Any, ...] | list[Any] | dict[Any, Any]
X = TypeVar("X")
Y = TypeVar("Y")


class Loop(Record):
    """A loop as its user sees it, for messages."""

    what: str
    body: Callable[..., Any]
    # For fori_loop the carry is (i, value), of which only the value is the user's; its name is
    # that of the body's second parameter.
    counted: bool = False

    def carry_name(self) -> str:
        sig = signature(self.body)
        names = [] if sig is None else list(sig.parameters)
        position = 1 if self.counted else 0
        return names[position] if len(names) > position else ""

    def component(self, path: Sequence[Any]) -> str:
        inner = tuple(path)[1 if self.counted else 0 :]
        name = self.carry_name()
        return f"{name}{keystr(inner)}" if name else f"at {keystr(inner)}" if inner else ""

    def promoted(
        self, carry: Sequence[Any], avals: Sequence[Any], returned: Sequence[Any]
    ) -> list[Any] | None:
        """A carry that is more like the one that the body returns; None if it stays as it is."""
        found = [promote_weak(*row) for row in zip(carry, avals, returned, strict=True)]
        if state.manual and (getattr(self.body, "__module__", None) or "").startswith(_OWN):
            found = [varying.like(x, aval) for x, aval in zip(found, returned, strict=True)]
        return None if all(map(operator.is_, found, carry)) else found

    def place(self) -> str:
        info = DebugInfo(self.what, self.body)
        return f"{self.what} at {source.summarize(source.current())}, body {info.func_src_info}"


def debug_info(what: str, fun: Callable[..., Any], in_tree: PyTreeDef) -> DebugInfo:
    """Names for messages, from the structure of the positional arguments."""

    known = hollow(fun)

    def names() -> tuple[str, ...]:
        dummies = tree_unflatten(in_tree, range(in_tree.num_leaves))
        return argument_names(known, dummies, {})

    return DebugInfo(what, fun, names)


def is_concrete(x: Any) -> bool:
    """Whether the value of ``x`` can be looked at now."""
    return not isinstance(x, Tracer) or x._concrete() is not None


def as_result(x: Any) -> Any:
    """A value that is handed through, as the array it would be had it been computed."""
    if isinstance(x, Array) or is_tracing():
        return x
    aval = typeof(x)
    return box(np.array(x, aval.dtype), aval)


def _immutable(x: Any) -> Any:
    """A value that a body run as Python cannot write into: NumPy arrays are copied."""
    return from_numpy(x) if isinstance(x, np.ndarray) else x


# --- the carry ------------------------------------------------------------------------------------


def promote_weak(x: Any, given: Any, returned: Any) -> Any:
    """An initial value of weak type at the dtype that the body returns for it."""
    if not getattr(given, "weak_type", False) or same_type(given, returned):
        return x
    if isinstance(returned.dtype, dtypes.ExtendedDType):
        return x  # the check of the carry says what is wrong
    dtype, _ = dtypes.promote_pair(given.dtype, True, returned.dtype, returned.weak_type)
    if isinstance(x, (bool, int, float, complex, np.generic)):
        return convert_values(np.asarray(x, given.dtype), dtype)[()]
    return convert(x, dtype)


def check_carry(
    loop: Loop, in_tree: PyTreeDef, in_avals: Any, out_tree: PyTreeDef, out_avals: Any
) -> None:
    """Raise TypeError unless the carry that a body returns is like the one it takes."""
    if in_tree != out_tree:
        differences = [
            f"the input carry {loop.component(path)} is a {one}, but the output carry there is a"
            f" {two}: {why}"
            for path, one, two, why in equality_errors_treedef(in_tree, out_tree)
        ]
        if not differences:
            return  # equal but for data that a class keeps beside its children
        raise TypeError(
            f"{loop.what} needs a body that returns a carry with the same tree structure as its "
            f"input ({loop.place()}):\n{_listed(differences)}"
        )
    if all(map(same_type, in_avals, out_avals)):
        return
    differences = [
        f"the input carry {loop.component(path)} has type {given.str_short()}, but the output"
        f" carry there has type {returned.str_short()}{_difference(given, returned)}"
        for path, given, returned in zip(leaf_paths(in_tree), in_avals, out_avals, strict=True)
        if not same_type(given, returned)
    ]
    raise TypeError(
        f"{loop.what} needs a body that returns a carry with the same types as its input"
        f" ({loop.place()}):\n{_listed(differences)}\nConvert in the body (x.astype, x.reshape),"
        " or start from an initial value of the type that the body returns"
    )


def _listed(differences: Sequence[str]) -> str:
    return "\n".join(f"  * {line}" for line in differences)


def _difference(given: Any, returned: Any) -> str:
    if not hasattr(given, "shape") or not hasattr(returned, "shape"):
        return ""
    parts = [name for name in ("shape", "dtype") if getattr(given, name) != getattr(returned, name)]
    left = varying_of(returned) - varying_of(given)
    if not parts and left:
        axes = varying.ordered(left)
        return (
            f" (it varies over the mesh axes {axes}: make the initial value vary too, by"
            f" lax.pcast(x, {axes}, to='varying'))"
        )
    return f" (the {' and the '.join(parts)} differ{'s' if len(parts) == 1 else ''})"


# --- while ----------------------------------------------------------------------------------------


@overload
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], ArrayLike], init_val: ArrayData
) -> Array: ...
@overload
def while_loop(cond_fun: Callable[[T], Any], body_fun: Callable[[T], T], init_val: T) -> T: ...
@overload
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], T], init_val: Container
) -> T: ...
@api_boundary
def while_loop(cond_fun: Callable[[T], Any], body_fun: Callable[[T], T], init_val: T) -> T:
    """Return the carry after applying ``body_fun`` as long as ``cond_fun`` of it is true.

    Args:
        cond_fun: Function of the carry that returns a boolean scalar.
        body_fun: Function of the carry that returns the next carry, with the same shapes and
            dtypes.
        init_val: First carry, a tree of arrays.

    Returns:
        Last carry, a tree like ``init_val``.

    The carry keeps its tree structure, shapes and dtypes. Forward-mode derivatives only: for
    reverse mode use ``scan``, or ``fori_loop`` with static bounds.

    Example:
        >>> from weft import lax
        >>> lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
        Array(192, dtype=int32, weak_type=True)
    """
    if not (callable(body_fun) and callable(cond_fun)):
        raise TypeError(
            f"lax.while_loop takes two functions and a value, got {type(cond_fun).__name__},"
            f" {type(body_fun).__name__}"
        )
    if knobs.disable_jit.value:
        try:
            value = tree_map(_immutable, init_val)
            while cond_fun(value):
                value = body_fun(value)
            return value
        except errors.ConcretizationTypeError:
            pass  # the predicate is traced by something outside: stage the loop after all
    return _while_loop(cond_fun, body_fun, init_val, Loop("while_loop", body_fun))


def _while_loop(cond_fun: Any, body_fun: Any, init_val: Any, loop: Loop) -> Any:
    init, init_tree = flatten(init_val)
    avals = [typeof(x) for x in init]
    cond, body, out_tree = _while_programs(cond_fun, body_fun, init_tree, avals, loop)
    while len(body.out_avals) == len(avals):
        promoted = loop.promoted(init, avals, body.out_avals)
        if promoted is None:
            break
        init, avals = promoted, [typeof(x) for x in promoted]
        cond, body, out_tree = _while_programs(cond_fun, body_fun, init_tree, avals, loop)
    check_carry(loop, init_tree, avals, out_tree, body.out_avals)
    cond, cond_consts = separate_consts(cond)
    body, body_consts = separate_consts(body)

    # A part of the carry that the body hands on and the predicate does not read is a constant of
    # the body: it need not be batched because the predicate is.
    count = len(body_consts)
    changes = [count + i != f for i, f in enumerate(forwarded_inputs(body.jaxpr))]
    smaller, kept = dce_closed(cond, [True], [True] * len(cond_consts) + changes)
    fixed = [not k for k in kept[len(cond_consts) :]]
    constants: list[Any] = []
    if any(fixed):
        cond = smaller
        body = keep_outputs(body, [not f for f in fixed])
        body = inputs_to_front(body, [False] * count + fixed)
        init, constants = partition_list(fixed, init)
        body_consts = [*constants, *body_consts]
    outs = while_p.bind(
        *cond_consts,
        *body_consts,
        *init,
        cond_nconsts=len(cond_consts),
        cond_jaxpr=cond,
        body_nconsts=len(body_consts),
        body_jaxpr=body,
    )
    outs = merge_lists(fixed, outs, [as_result(x) for x in constants])
    return tree_unflatten(out_tree, outs)


def _while_programs(
    cond_fun: Any, body_fun: Any, init_tree: PyTreeDef, avals: Sequence[Any], loop: Loop
) -> tuple[ClosedJaxpr, ClosedJaxpr, PyTreeDef]:
    in_tree = treedef_tuple((init_tree,))
    info = debug_info("while_cond", cond_fun, in_tree)
    cond, cond_tree = stage_tree_function(cond_fun, in_tree, avals, info)
    info = debug_info("while_body", body_fun, in_tree)
    body, out_tree = stage_tree_function(body_fun, in_tree, avals, info)
    if cond_tree.node_data() is not None:
        raise TypeError(
            f"cond_fun of {loop.what} must return a boolean scalar, but returned a container of"
            f" structure {cond_tree} ({loop.place()})"
        )
    (predicate,) = cond.out_avals
    if predicate.shape or predicate.dtype != np.bool_:
        raise TypeError(
            f"cond_fun of {loop.what} must return a boolean scalar, but returned"
            f" {predicate.str_short()} ({loop.place()}); compare, or reduce with .any() or .all()"
        )
    return cond, body, out_tree


# --- fori -----------------------------------------------------------------------------------------


@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], ArrayLike],
    init_val: ArrayData,
    *,
    unroll: int | bool | None = None,
) -> Array: ...
@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, T], T],
    init_val: T,
    *,
    unroll: int | bool | None = None,
) -> T: ...
@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], T],
    init_val: Container,
    *,
    unroll: int | bool | None = None,
) -> T: ...
@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, T], T],
    init_val: T,
    *,
    unroll: int | bool | None = None,
) -> T:
    """Return the value after applying ``body_fun(i, value)`` for i from ``lower`` to ``upper`` - 1.

    Args:
        lower: First index, an integer scalar.
        upper: End of the indices, which is not included; an integer scalar.
        body_fun: Function of index and value that returns the next value, with the same shapes and
            dtypes.
        init_val: First value, a tree of arrays.
        unroll: How many steps the compiled loop takes at once, or True for all; only with static
            bounds.

    Returns:
        Last value, a tree like ``init_val``.

    With static bounds the loop is a ``scan`` and can be differentiated in reverse mode; with traced
    bounds it is a ``while_loop``.

    Example:
        >>> from weft import lax
        >>> lax.fori_loop(1, 5, lambda i, x: x * i, 1.0)
        Array(24., dtype=float32, weak_type=True)
    """
    if not callable(body_fun):
        raise TypeError(f"lax.fori_loop takes a function body_fun, got {body_fun!r}")
    dtype = _counter_dtype(typeof(lower), typeof(upper))
    loop = Loop("fori_loop", body_fun, counted=True)
    if is_concrete(lower) and is_concrete(upper) and is_constant_shape((lower, upper)):
        first, last = int(lower), int(upper)
        length = max(last - first, 0)
        if knobs.disable_jit.value and length == 0:
            return init_val
        step = False if unroll is None else unroll
        carry = (first, init_val)
        (_, result), _ = _scan(_fori_scan_body(body_fun), carry, None, length, False, step, loop)
        return result
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError(
            f"fori_loop can only unroll (got unroll={unroll}) with bounds that are known when it"
            " is traced; pass Python integers, or mark the arguments they come from as static"
        )
    carry = (_with_dtype(lower, dtype), _with_dtype(upper, dtype), init_val)
    body = _fori_while_body(body_fun)
    if knobs.disable_jit.value:
        return while_loop(_fori_condition, body, carry)[2]
    return _while_loop(_fori_condition, body, carry, Loop("fori_loop", body_fun))[2]


def _counter_dtype(lower: Any, upper: Any) -> Any:
    if lower.dtype == upper.dtype:
        return lower.dtype
    signed = all(dtypes.issubdtype(a.dtype, np.signedinteger) for a in (lower, upper))
    if signed and lower.weak_type != upper.weak_type:
        return upper.dtype if lower.weak_type else lower.dtype
    raise TypeError(
        "fori_loop needs lower and upper of the same dtype, got"
        f" {lower.str_short()} and {upper.str_short()}; convert one with astype"
    )


def _with_dtype(x: Any, dtype: Any) -> Any:
    aval = typeof(x)
    return x if aval.dtype == dtype else convert(x, dtype)


def _fori_condition(carry: Any) -> Any:
    i, upper, _ = carry
    return lt(i, upper)


def _increment(i: Any) -> Any:
    return i + 1 if isinstance(i, int) else add(i, const(i, 1))


@weakref_lru_cache
def _fori_while_body(body_fun: Any) -> Callable[..., Any]:
    body = weakref.ref(body_fun)

    def body_of_while(carry: Any) -> Any:
        i, upper, value = carry
        return _increment(i), upper, body()(i, value)

    return body_of_while


@weakref_lru_cache
def _fori_scan_body(body_fun: Any) -> Callable[..., Any]:
    body = weakref.ref(body_fun)

    def body_of_scan(carry: Any, _: Any) -> Any:
        i, value = carry
        return (_increment(i), body()(i, value)), None

    return body_of_scan


# --- scan -----------------------------------------------------------------------------------------


@overload
def scan(
    f: Callable[[Any, Any], tuple[ArrayLike, Y]],
    init: ArrayData,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Array, Y]: ...
@overload
def scan(
    f: Callable[[T, X], tuple[T, Y]],
    init: T,
    xs: X | None = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[T, Y]: ...
@overload
def scan(
    f: Callable[[Any, Any], tuple[T, Y]],
    init: Container,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[T, Y]: ...
@overload
def scan(
    f: Callable[[T, Any], tuple[T, Y]],
    init: T,
    xs: ArrayData | Container,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[T, Y]: ...
@api_boundary
def scan(
    f: Callable[[T, X], tuple[T, Y]],
    init: T,
    xs: X | None = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[T, Y]:
    """Return the last carry and the stacked outputs of ``carry, y = f(carry, x)`` over a sequence.

    Args:
        f: Function of the carry and one slice of ``xs`` that returns the next carry, with the same
            shapes and dtypes, and an output.
        init: First carry, a tree of arrays.
        xs: Tree of arrays that are scanned along their leading axis; None if there is nothing to
            read.
        length: Number of steps; needed only without ``xs``.
        reverse: If true, start at the end; outputs stay in the order of ``xs``.
        unroll: How many steps the compiled loop takes at once; True or 0 for all.

    Returns:
        Pair of the last carry and the outputs, stacked along a new leading axis.

    Example:
        >>> from weft import lax
        >>> import weft.numpy as jnp
        >>> lax.scan(lambda total, x: (total + x, total), 0.0, jnp.array([1., 2., 3.]))
        (Array(6., dtype=float32), Array([0., 1., 3.], dtype=float32, weak_type=True))
    """
    if not callable(f):
        raise TypeError(f"lax.scan takes a function f, got {f!r}")
    return _scan(f, init, xs, length, reverse, unroll, Loop("scan", f))


def _scan(
    f: Any, init: Any, xs: Any, length: Any, reverse: bool, unroll: Any, loop: Loop
) -> tuple[Any, Any]:
    carry, carry_tree = flatten(init)
    scanned, xs_tree = flatten(xs)
    count = _scan_length(scanned, length)
    unroll = _unroll_factor(unroll, count)
    if knobs.disable_jit.value:
        return _scan_in_python(f, init, scanned, xs_tree, count, reverse)
    in_tree = treedef_tuple((carry_tree, xs_tree))
    x_avals = [_element(typeof(x)) for x in scanned]
    avals = [typeof(x) for x in carry]
    if any(aval.is_ref for aval in (*avals, *x_avals)):
        names_of = debug_info("scan", f, in_tree).names
        check_references([*carry, *scanned], (), f, "scan", names_of)
    body, out_carry_tree, ys_tree = _scan_program(f, in_tree, avals, x_avals, loop)
    while out_carry_tree.num_leaves == len(carry):
        promoted = loop.promoted(carry, avals, body.out_avals[: len(carry)])
        if promoted is None:
            break
        carry, avals = promoted, [typeof(x) for x in promoted]
        body, out_carry_tree, ys_tree = _scan_program(f, in_tree, avals, x_avals, loop)
    out_avals = body.out_avals[: out_carry_tree.num_leaves]
    check_carry(loop, carry_tree, avals, out_carry_tree, out_avals)
    outs = _bind_scan(body, carry, scanned, count, reverse, unroll)
    final = tree_unflatten(out_carry_tree, outs[: len(carry)])
    return final, tree_unflatten(ys_tree, outs[len(carry) :])


def _bind_scan(
    body: ClosedJaxpr, carry: list[Any], xs: list[Any], length: int, reverse: bool, unroll: int
) -> list[Any]:
    """Bind the primitive, less what the body merely hands through."""
    body, consts = separate_consts(body)
    num_ys = len(body.out_avals) - len(carry)
    sources = forwarded_inputs(body.jaxpr)
    fixed = [len(consts) + i == s for i, s in enumerate(sources[: len(carry)])]
    constants: list[Any] = []
    if any(fixed):
        # a part of the carry that never changes is a constant
        body = keep_outputs(body, [not f for f in fixed] + [True] * num_ys)
        moved = [False] * len(consts) + fixed + [False] * len(xs)
        body = inputs_to_front(body, moved)
        carry, constants = partition_list(fixed, carry)
        consts = [*constants, *consts]
    # outputs that are elements of xs need not be stacked again
    first = len(consts) + len(carry)
    passed = [s if s is not None and s >= first else None for s in sources[len(fixed) :]]
    body = keep_outputs(body, [True] * len(carry) + [s is None for s in passed])
    outs = scan_p.bind(
        *consts,
        *carry,
        *xs,
        jaxpr=body,
        length=length,
        reverse=reverse,
        num_consts=len(consts),
        num_carry=len(carry),
        unroll=unroll,
    )
    computed = iter(outs[len(carry) :])
    ys = [next(computed) if s is None else as_result(xs[s - first]) for s in passed]
    final = merge_lists(fixed, outs[: len(carry)], [as_result(x) for x in constants])
    return [*final, *ys]


def _scan_program(
    f: Any, in_tree: PyTreeDef, avals: Sequence[Any], x_avals: Sequence[Any], loop: Loop
) -> tuple[ClosedJaxpr, PyTreeDef, PyTreeDef]:
    info = debug_info(loop.what, f, in_tree)
    body, out_tree = stage_tree_function(f, in_tree, [*avals, *x_avals], info)
    data = out_tree.node_data()
    children = out_tree.children()
    if data is None or data[0] not in (tuple, list) or len(children) != 2:
        raise TypeError(
            f"the body of {loop.what} must return a pair (carry, y), but returned {out_tree}"
            f" ({loop.place()}); return (carry, None) if there is nothing to stack"
        )
    return body, children[0], children[1]


def _element(aval: Any) -> Any:
    if aval.is_ref:
        return aval.update(shape=aval.shape[1:])
    made = ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type, manual_axis_type=aval.mat)
    if aval.divided is None:
        return made if aval.named is None else made.on_mesh(aval.named)
    if aval.divided.spec[0] is not None:
        raise ValueError(
            f"scan slices its xs along their first dimension, and that of {aval.str_short()} is "
            "sharded over devices; replicate it first with weft.reshard(xs, P(None))"
        )
    return made.update(sharding=aval.divided.with_parts(aval.divided.spec[1:]))


def _scan_length(xs: Sequence[Any], length: Any) -> int:
    shapes = [typeof(x).shape for x in xs]
    for x, shape in zip(xs, shapes, strict=True):
        if not shape:
            raise ValueError(
                f"scan got {x!r} among xs, which has no leading axis to scan over; values that "
                "are the same in every step belong in the carry, or in the body's closure"
            )
    sizes = [shape[0] for shape in shapes]
    if length is not None:
        if not is_concrete(length):
            raise errors.ConcretizationTypeError(
                length,
                "the length of scan must be known when it is traced; for a computed number of "
                "steps, use while_loop or fori_loop",
            )
        length = int(length)
        if any(n != length for n in sizes):
            raise ValueError(
                f"scan got length={length}, which disagrees with leading axes of size {sizes}"
            )
        return length
    if not sizes:
        raise ValueError("scan got no xs to scan over and no length; give one of them")
    if len(set(sizes)) > 1:
        raise ValueError(f"scan got xs with different leading axis sizes: {sizes}")
    return sizes[0]


def _unroll_factor(unroll: Any, length: int) -> int:
    if not is_concrete(unroll):
        raise errors.ConcretizationTypeError(
            unroll, "the unroll argument of a loop must be known when it is traced"
        )
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    unroll = operator.index(unroll)
    if unroll < 0:
        raise ValueError(f"unroll must be a bool or a non-negative integer, got {unroll}")
    return unroll


def _scan_in_python(
    f: Any, init: Any, xs: Sequence[Any], xs_tree: PyTreeDef, length: int, reverse: bool
) -> tuple[Any, Any]:
    if length == 0:
        raise ValueError(
            "a scan of length 0 does not work under disable_jit: the body does not run, so the"
            " type of its outputs is not known"
        )
    carry, ys = tree_map(_immutable, init), []
    for i in reversed(range(length)) if reverse else range(length):
        x = tree_unflatten(xs_tree, [index_in_dim(x, i, keepdims=False) for x in xs])
        carry, y = f(carry, x)
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree_map(lambda *parts: _stack(parts), *ys)


def _stack(parts: Sequence[Any]) -> Any:
    shape = (1, *np.shape(parts[0]))
    dims = tuple(range(1, len(shape)))
    rows = [broadcast_in_dim(x, shape, dims) for x in parts]
    return concatenate_p.bind(*rows, dimension=0)
