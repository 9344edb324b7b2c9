"""Tools around ``checkpoint``: names for values, and a look at what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import checkpoint_policies as checkpoint_policies
from weft.api.arguments import argument_names
from weft.api.remat import checkpoint as checkpoint
from weft.api.remat import checkpoint_name as checkpoint_name
from weft.api.remat import remat as remat
from weft.base import source
from weft.control.recompute import Offloadable as Offloadable
from weft.control.recompute import Recompute as Recompute
from weft.control.recompute import Saveable as Saveable
from weft.core.jaxpr import Jaxpr, Literal
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.transforms.linearize import linearize
from weft.tree.functions import tree_flatten, tree_unflatten


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """Return the types and origins of the values that differentiating ``f`` keeps.

    Args:
        f: the function.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Returns:
        A list of pairs of a type and a text.

    Example:
        >>> saved_residuals(lambda x: x * x, 1.0)
        [(ShapedArray(float32[], weak_type=True), 'from the argument x')]
    """
    leaves, in_tree = tree_flatten((args, kwargs))

    def flat(*values: Any) -> list[Any]:
        given, keywords = tree_unflatten(in_tree, values)
        return tree_flatten(f(*given, **keywords))[0]

    def residuals(*values: Any) -> list[Any]:
        return linearize(flat, values)[1].program.consts

    program = stage(residuals, [typeof(x) for x in leaves])
    return _origins(program.jaxpr, argument_names(f, args, kwargs))


def _origins(jaxpr: Jaxpr, names: tuple[str, ...]) -> list[tuple[Any, str]]:
    rounded: dict[Any, Any] = {
        eqn.outvars[0]: eqn.invars[0]
        for eqn in jaxpr.eqns
        if eqn.primitive.name == "reduce_precision"
    }
    kept = {rounded.get(v, v) for v in jaxpr.outvars if type(v) is not Literal}
    found = [(v.aval, "from a literal") for v in jaxpr.outvars if type(v) is Literal]
    found += [(v.aval, "from a constant") for v in jaxpr.constvars if v in kept]
    for i, v in enumerate(jaxpr.invars):
        if v in kept:
            name = names[i] if i < len(names) else f"at flattened index {i}"
            found.append((v.aval, f"from the argument {name}"))
    for eqn in jaxpr.eqns:
        where = source.summarize(eqn.source_info)
        found += [(v.aval, f"{_what(eqn)} from {where}") for v in eqn.outvars if v in kept]
    return found


def _what(eqn: Any) -> str:
    if eqn.primitive.name == "name":
        return f"named '{eqn.params['name']}'"
    if eqn.primitive.name == "jit":
        return f"output of jitted function '{eqn.params['name']}'"
    return f"output of {eqn.primitive}"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the values that differentiating ``f`` keeps for the backward pass.

    Args:
        f: the function.
        *args: its arguments.
        **kwargs: its keyword arguments.

    Example:
        >>> import weft
        >>> print_saved_residuals(lambda x: 3.0 * x, 1.0)
        >>> print_saved_residuals(lambda x: x * x, 1.0)
        f32[] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {origin}")
