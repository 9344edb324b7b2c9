"""Functions over flat arguments, and names of arguments, for those who write transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.api.arguments import Hashed, as_tuple
from weft.api.arguments import debug_info as _debug_info
from weft.base.functional import safe_map as safe_map
from weft.core.debug_info import DebugInfo
from weft.core.shape_dtype import abstractify as shaped_abstractify
from weft.extend.linear_util import WrappedFun, transformation_with_aux2
from weft.tree.compare import flatten_axes as flatten_axes
from weft.tree.functions import tree_flatten, tree_unflatten

__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun",
    "flatten_fun_nokwargs", "rebase_donate_argnums", "safe_map", "shaped_abstractify",
]  # fmt: skip


def debug_info(
    traced_for: str,
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    **_: Any,
) -> DebugInfo:
    """Return the names of a function and its arguments, for messages.

    Args:
        traced_for: the name of the transformation.
        fun: the function.
        args: its arguments.
        kwargs: its keyword arguments.
        static_argnums: the positions of arguments that are compile-time constants.
        static_argnames: their names.
        result_paths_thunk: a function that returns the paths of the results.

    Returns:
        A ``DebugInfo``.

    Example:
        >>> debug_info("grad", lambda x, y: x, (1.0, {"w": 2.0}), {}).arg_names
        ('x', "y['w']")
    """
    given = [None if i in static_argnums else x for i, x in enumerate(args)]
    named = {k: None if k in static_argnames else x for k, x in kwargs.items()}
    info = _debug_info(traced_for, fun, given, named)
    info.names()  # while the arguments are at hand
    return info


def _with_tree(with_kwargs: bool) -> Callable[..., Any]:
    @transformation_with_aux2
    def flatten(f: Callable[..., Any], store: Any, in_tree: Any, *leaves: Any) -> list[Any]:
        given = tree_unflatten(in_tree, leaves)
        result = f(*given[0], **given[1]) if with_kwargs else f(*given)
        outs, out_tree = tree_flatten(result)
        store.store(out_tree)
        return outs

    return flatten


_FLATTEN, _FLATTEN_POSITIONAL = _with_tree(True), _with_tree(False)


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """Return a function of the leaves of ``(args, kwargs)``, and one for its result's tree.

    Args:
        fun: the wrapped function.
        in_tree: the structure of ``(args, kwargs)``.

    Returns:
        A wrapped function that returns a list, and a function that returns the structure of its
        result.

    Example:
        >>> from weft.extend.linear_util import wrap_init
        >>> leaves, tree = tree_flatten(((1, 2), {}))
        >>> flat, out_tree = flatten_fun(wrap_init(lambda x, y: {"sum": x + y}), tree)
        >>> flat.call_wrapped(*leaves), out_tree()
        ([3], PyTreeDef({'sum': *}))
    """
    return _FLATTEN(fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """Return a function of the leaves of a tree of positional arguments.

    Args:
        fun: the wrapped function.
        in_tree: the structure of the arguments.

    Returns:
        A wrapped function that returns a list, and a function that returns the structure of its
        result.

    Example:
        >>> from weft.extend.linear_util import wrap_init
        >>> leaves, tree = tree_flatten((1, 2))
        >>> flat, out_tree = flatten_fun_nokwargs(wrap_init(lambda x, y: {"sum": x + y}), tree)
        >>> flat.call_wrapped(*leaves)
        [3]
    """
    return _FLATTEN_POSITIONAL(fun, in_tree)


def argnums_partial(
    f: WrappedFun, dyn_argnums: Any, args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """Return a function of the arguments at some positions alone, and these arguments.

    Args:
        f: the wrapped function.
        dyn_argnums: the positions.
        args: all arguments.
        require_static_args_hashable: raise an error for other arguments that are not hashable.

    Returns:
        A wrapped function and a tuple of arguments.

    Example:
        >>> from weft.extend.linear_util import wrap_init
        >>> g, dynamic = argnums_partial(wrap_init(lambda x, y: x - y), 1, (10, 3))
        >>> dynamic, g.call_wrapped(4)
        ((3,), 6)
    """
    numbers = [n % len(args) for n in as_tuple(dyn_argnums)]
    fixed = {i: x for i, x in enumerate(args) if i not in numbers}
    if require_static_args_hashable:
        for i, x in fixed.items():
            Hashed(x, str(i))

    def of_dynamic(*dynamic: Any, **kwargs: Any) -> Any:
        full = [fixed.get(i) for i in range(len(args))]
        for i, x in zip(numbers, dynamic, strict=True):
            full[i] = x
        return f.call_wrapped(*full, **kwargs)

    return f.with_function(of_dynamic), tuple([args[i] for i in numbers])


def rebase_donate_argnums(donate_argnums: Any, static_argnums: Any) -> tuple[int, ...]:
    """Return the positions of donated arguments among those that are not static.

    Args:
        donate_argnums: the positions of donated arguments.
        static_argnums: the positions of static ones.

    Returns:
        A tuple of positions.

    Example:
        >>> rebase_donate_argnums((2,), (0,))
        (1,)
    """
    static = set(as_tuple(static_argnums))
    wrong = static & set(as_tuple(donate_argnums))
    if wrong:
        raise ValueError(f"arguments {sorted(wrong)} are both static and donated")
    return tuple(n - sum(s < n for s in static) for n in sorted(as_tuple(donate_argnums)))


def donation_vector(
    donate_argnums: Any, donate_argnames: Any, in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """Return for every leaf of ``(args, kwargs)`` whether it is donated.

    Args:
        donate_argnums: the positions of donated arguments.
        donate_argnames: the names of donated keyword arguments.
        in_tree: the structure of ``(args, kwargs)``.
        kws: whether the structure has keyword arguments.

    Returns:
        A tuple of booleans.

    Example:
        >>> donation_vector((0,), (), tree_flatten((([1, 2], 3), {}))[1])
        (True, True, False)
    """
    marks = tree_unflatten(in_tree, range(in_tree.num_leaves))
    args, kwargs = marks if kws else (marks, {})
    numbers, names = as_tuple(donate_argnums), as_tuple(donate_argnames)
    flags: list[bool] = []
    for i, x in enumerate(args):
        flags += [i in numbers] * len(tree_flatten(x)[0])
    for name in sorted(kwargs):
        flags += [name in names] * len(tree_flatten(kwargs[name])[0])
    return tuple(flags)
