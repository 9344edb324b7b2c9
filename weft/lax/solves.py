"""Solves with derivatives by the implicit function theorem: ``custom_root`` and linear solves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar, overload

import numpy as np

from weft import dtypes
from weft.api.autodiff import linear_transpose, linearize
from weft.base.functional import split_list
from weft.base.record import Record
from weft.base.traceback import api_boundary
from weft.control.custom_jvp import custom_jvp
from weft.control.initial_style import separate_consts, stage_tree_function
from weft.control.solves import LinearSolveTuple, linear_solve_p
from weft.core.ad import Zero, instantiate, zeros
from weft.core.array import Array, ArrayData
from weft.core.jaxpr import eval_jaxpr, jaxpr_as_fun
from weft.core.trace import typeof
from weft.lax.loops import debug_info
from weft.prims.arithmetic import neg
from weft.transforms.jvp import jvp
from weft.tree.functions import tree_flatten, tree_leaves, tree_unflatten, treedef_tuple
from weft.tree.treedef import PyTreeDef

T = TypeVar("T")


def _check_tree(
    name: str, found: PyTreeDef, expected: PyTreeDef, of: str, has_aux: bool = False
) -> None:
    """Raise unless a function given to a solve returns the structure that it must."""
    if has_aux:
        parts = found.children()
        if len(parts) != 2:
            raise ValueError(
                f"{name} must return a pair (result, aux), since has_aux=True, but returned a"
                f" tree of structure {found}"
            )
        found = parts[0]
    if found != expected:
        # as JAX, which compares the shapes of linear solves before their structure
        other_count = of == "b" and found.num_leaves != expected.num_leaves
        raise (ValueError if other_count else TypeError)(
            f"{name} must return a tree of the same structure as {of}, got {found} and {expected}"
        )


# --- roots ----------------------------------------------------------------------------------------


class _Root(Record):
    """One thing for each function of a root: itself, its solver, the solver of its tangents."""

    f: Any
    solve: Any
    l_and_s: Any


@overload
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: ArrayData,
    solve: Callable[[Callable[..., Any], Any], Any],
    tangent_solve: Callable[[Callable[..., Any], Any], Any],
    has_aux: Literal[False] = False,
) -> Array: ...
@overload
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: T,
    solve: Callable[[Callable[..., Any], Any], Any],
    tangent_solve: Callable[[Callable[..., Any], Any], Any],
    has_aux: Literal[False] = False,
) -> T: ...
@overload
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[..., Any], Any], Any],
    tangent_solve: Callable[[Callable[..., Any], Any], Any],
    has_aux: bool,
) -> Any: ...
@api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[..., Any], Any], Any],
    tangent_solve: Callable[[Callable[..., Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Return a root of a function, found by your solver, with derivatives of the implicit function.

    Args:
        f: Function whose root is sought. Derivatives are with respect to what it closes over.
        initial_guess: Where the solver starts: an array or a tree.
        solve: Function ``solve(f, initial_guess)`` that returns a root.
        tangent_solve: Function ``tangent_solve(g, y)`` that returns x with g(x) = y, for the linear
            function g, ``f`` linearised at the root.
        has_aux: If true, ``solve`` returns a pair of the root and auxiliary data.

    Returns:
        The root; with ``has_aux`` a pair of it and the auxiliary data.

    Example:
        >>> import weft
        >>> from weft import lax
        >>> def sqrt(a):
        ...     newton = lambda f, x: lax.fori_loop(0, 9, lambda _, x: (x + a / x) / 2, x)
        ...     return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
        >>> float(weft.grad(sqrt)(4.0))
        0.25
    """
    guess, tree = tree_flatten(initial_guess)
    avals = [typeof(x) for x in guess]
    one, two = treedef_tuple((tree,)), treedef_tuple((tree, tree))
    info = debug_info("custom_root", f, one)
    function, out_tree = stage_tree_function(f, one, avals, info)
    _check_tree("f of custom_root", out_tree, tree, "initial_guess")
    info = debug_info("custom_root solve", solve, one)
    solver, solution_tree = stage_tree_function(partial(solve, f), one, avals, info)
    _check_tree("solve of custom_root", solution_tree, tree, "initial_guess", has_aux)

    def linearize_and_solve(x: Any, b: Any) -> Any:
        _, linear = linearize(f, x)
        return tangent_solve(linear, b)

    info = debug_info("custom_root tangent_solve", tangent_solve, two)
    tangents, out_tree = stage_tree_function(linearize_and_solve, two, [*avals, *avals], info)
    _check_tree("tangent_solve of custom_root", out_tree, tree, "initial_guess")
    programs, consts = zip(*(separate_consts(p) for p in (function, solver, tangents)))
    lengths = _Root(*map(len, consts))
    operands = [x for group in consts for x in group]
    outs = _custom_root(lengths, _Root(*programs), *operands, *guess)
    return tree_unflatten(solution_tree, outs)


def _split_root(args: Sequence[Any], lengths: _Root) -> tuple[_Root, list[Any]]:
    *consts, guess = split_list(args, list(lengths))
    return _Root(*consts), guess


@partial(custom_jvp, nondiff_argnums=(0, 1))
def _custom_root(lengths: _Root, programs: _Root, *args: Any) -> list[Any]:
    consts, guess = _split_root(args, lengths)
    solve = programs.solve
    return eval_jaxpr(solve.jaxpr, solve.consts, *consts.solve, *guess)


@_custom_root.defjvp
def _root_jvp(
    lengths: _Root, programs: _Root, primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """From F(m, u(m)) = 0 follows du = -(dF/du)^-1 dF/dm dm."""
    consts, _ = _split_root(primals, lengths)
    consts_dot, _ = _split_root(tangents, lengths)
    outs = _custom_root(lengths, programs, *primals)
    count = len(programs.f.out_avals)
    solution = list(outs[:count])
    f = jaxpr_as_fun(programs.f)
    moved = [Zero(typeof(t)) if typeof(t).dtype == dtypes.float0 else t for t in consts_dot.f]
    _, rhs = jvp(lambda *params: f(*params, *solution), consts.f, moved)
    solve = jaxpr_as_fun(programs.l_and_s)
    solution_dot = solve(*consts.l_and_s, *solution, *map(instantiate, rhs))
    aux_dot = [zeros(typeof(x).to_tangent_aval()) for x in outs[count:]]
    return list(outs), [*map(neg, solution_dot), *aux_dot]


# --- linear solves --------------------------------------------------------------------------------


@overload
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: ArrayData,
    solve: Callable[[Callable[..., Any], Any], Any],
    transpose_solve: Callable[[Callable[..., Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: Literal[False] = False,
) -> Array: ...
@overload
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: T,
    solve: Callable[[Callable[..., Any], Any], Any],
    transpose_solve: Callable[[Callable[..., Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: Literal[False] = False,
) -> T: ...
@overload
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[..., Any], Any], Any],
    transpose_solve: Callable[[Callable[..., Any], Any], Any] | None = None,
    symmetric: bool = False,
    *,
    has_aux: bool,
) -> Any: ...
@api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[..., Any], Any], Any],
    transpose_solve: Callable[[Callable[..., Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return the solution of a linear system, found by your solver, with exact derivatives.

    Args:
        matvec: Linear function whose inverse is applied.
        b: Right side, an array or a tree.
        solve: Function ``solve(matvec, b)`` that returns the solution. It is not differentiated.
        transpose_solve: Function ``transpose_solve(vecmat, b)`` for the transposed system, needed
            for reverse mode.
        symmetric: Your promise that ``matvec`` is its own transpose: ``solve`` then serves for
            both.
        has_aux: If true, the solvers return a pair of the solution and auxiliary data.

    Returns:
        The solution; with ``has_aux`` a pair of it and the auxiliary data.

    Example:
        >>> import weft
        >>> from weft import lax
        >>> def divide(a, b):
        ...     solve = lambda matvec, b: b / a
        ...     return lax.custom_linear_solve(lambda x: a * x, b, solve, symmetric=True)
        >>> [float(g) for g in weft.grad(divide, argnums=(0, 1))(2.0, 3.0)]
        [-0.75, 0.5]
    """
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    rhs, tree = tree_flatten(b)
    avals = [typeof(x) for x in rhs]
    in_tree = treedef_tuple((tree,))

    def staged(name: str, fun: Any, named: Any, aux: bool = False) -> Any:
        checked = _check_shapes(f"{name} of custom_linear_solve", fun, rhs, aux)
        info = debug_info(f"custom_linear_solve {name}", named, in_tree)
        program, out_tree = stage_tree_function(checked, in_tree, avals, info)
        _check_tree(f"{name} of custom_linear_solve", out_tree, tree, "b", aux)
        return separate_consts(program), out_tree

    operator, _ = staged("matvec", matvec, matvec)
    solver, out_tree = staged("solve", partial(solve, matvec), solve, has_aux)
    transposed: Any = (None, [])
    back: Any = (None, [])
    if transpose_solve is not None:
        if symmetric:
            vecmat, transposed = matvec, operator
        else:
            vecmat = _transpose_function(matvec, b)
            transposed, _ = staged("vecmat", vecmat, matvec)
        function = partial(transpose_solve, vecmat)
        back, out_tree = staged("transpose_solve", function, transpose_solve, has_aux)
    programs, consts = zip(operator, transposed, solver, back)
    operands = [x for group in consts for x in group]
    outs = linear_solve_p.bind(
        *operands,
        *rhs,
        const_lengths=LinearSolveTuple(*map(len, consts)),
        jaxprs=LinearSolveTuple(*programs),
    )
    return tree_unflatten(out_tree, outs)


def _check_shapes(name: str, fun: Any, rhs: Sequence[Any], has_aux: bool) -> Any:
    """The function, with a check that it returns shapes like the right-hand side's."""
    expected = [np.shape(x) for x in rhs]

    def checked(x: Any) -> Any:
        result = fun(x)
        found = [np.shape(leaf) for leaf in tree_leaves(result[0] if has_aux else result)]
        if len(found) == len(expected) and found != expected:
            raise ValueError(f"{name} must return the shapes of b, got {found} and {expected}")
        return result

    return checked


def _transpose_function(fun: Callable[..., Any], like: Any) -> Callable[[Any], Any]:
    transposed = linear_transpose(fun, like)

    def vecmat(x: Any) -> Any:
        (result,) = transposed(x)
        return result

    return vecmat
