"""The public face of rematerialisation: ``checkpoint``, also called ``remat``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.api.arguments import Hashed, as_tuple, check_callable, debug_info, resolve_names
from weft.base.errors import ConcretizationTypeError
from weft.base.traceback import api_boundary
from weft.control.initial_style import separate_consts, stage_tree_function
from weft.control.remat import name_p, remat_p
from weft.core.shape_dtype import abstractify
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten


class _NotGiven:
    def __repr__(self) -> str:
        return "Deprecated"


NOT_GIVEN = _NotGiven()


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: Any = NOT_GIVEN,
) -> Callable[..., Any]:
    """``fun`` with its intermediate values computed again in the backward pass, not stored.

    ``policy`` (see ``checkpoint_policies``) says which values are stored all the same. Arguments
    that Python code looks at are named by ``static_argnums`` or ``static_argnames``.

    >>> import weft, weft.numpy as jnp
    >>> f = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    >>> float(weft.grad(f)(0.0))
    1.0
    """
    if concrete is not NOT_GIVEN:
        raise NotImplementedError(
            "checkpoint has no option `concrete`; name the arguments that Python looks at with"
            " static_argnums"
        )
    check_callable(fun)
    if not isinstance(prevent_cse, bool):
        if not isinstance(prevent_cse, (tuple, list)):
            raise TypeError(
                "prevent_cse must be a bool or a tuple of bools, got a"
                f" {type(prevent_cse).__name__}"
            )
        prevent_cse = tuple(prevent_cse)
    nums = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    if not isinstance(nums, tuple) or not all(type(n) is int for n in nums):
        raise TypeError(
            "static_argnums of checkpoint must be an int or a tuple of ints, got"
            f" {static_argnums!r}"
        )
    names = as_tuple(static_argnames)
    if names:
        found_nums, _ = resolve_names(fun, None, names)
        nums = tuple(dict.fromkeys((*nums, *found_nums)))

    def call(args: Any, kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    @functools.wraps(fun, updated=())
    @api_boundary
    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        body, dynamic, keywords = call, args, kwargs
        if nums or names:
            body, dynamic, keywords = split(args, kwargs)
        leaves, in_tree = tree_flatten((dynamic, keywords))
        info = debug_info("checkpoint / remat", fun, dynamic, keywords)
        try:
            avals = [abstractify(x) for x in leaves]
            closed, out_tree = stage_tree_function(body, in_tree, avals, info)
        except ConcretizationTypeError as error:
            hint = "Under checkpoint, name it static: checkpoint(f, static_argnums=(1,))"
            error.args = (f"{error.args[0]}\n{hint}",)
            raise
        program, consts = separate_consts(closed)
        cse: Any = prevent_cse
        if isinstance(cse, tuple):
            given = (cse, False) if keywords else (cse,)
            whole = (tuple(dynamic), keywords) if keywords else (tuple(dynamic),)
            cse = (False,) * len(consts) + tuple(broadcast_prefix(given, whole))
        outs = remat_p.bind(
            *consts,
            *leaves,
            jaxpr=program.jaxpr,
            prevent_cse=cse,
            differentiated=False,
            policy=policy,
        )
        return tree_unflatten(out_tree, outs)

    bodies: dict[Any, Any] = {}

    def split(args: Any, kwargs: Any) -> Any:
        """The function of the dynamic arguments, one object for equal static ones."""
        for n in static_argnums if isinstance(static_argnums, tuple) else (static_argnums,):
            if not -len(args) <= n < len(args):
                raise ValueError(
                    f"static_argnums of checkpoint is {static_argnums}, but the call has"
                    f" {len(args)} positional arguments"
                )
        static = {n % len(args) for n in nums if -len(args) <= n < len(args)}
        fixed = {i: args[i] for i in static} | {k: kwargs[k] for k in names if k in kwargs}
        dynamic = tuple(x for i, x in enumerate(args) if i not in static)
        keywords = {k: v for k, v in kwargs.items() if k not in names}

        def of_dynamic(given: Any, more: Any) -> Any:
            rest = iter(given)
            full = [fixed[i] if i in static else next(rest) for i in range(len(args))]
            return fun(*full, **{k: fixed[k] for k in names if k in fixed}, **more)

        try:
            key = (len(args), tuple((k, Hashed(v, str(k))) for k, v in fixed.items()))
        except ValueError:  # unhashable: traced anew at each call
            return of_dynamic, dynamic, keywords
        if len(bodies) >= BODIES_LIMIT:
            bodies.clear()
        return bodies.setdefault(key, of_dynamic), dynamic, keywords

    return rematerialized


# Distinct static arguments remembered by one function; beyond that it starts anew.
BODIES_LIMIT = 1024

remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """``x`` itself, under a name that checkpoint policies refer to.

    >>> checkpoint_name(3, "three")
    Array(3, dtype=int32, weak_type=True)
    """
    return tree_map(lambda leaf: name_p.bind(leaf, name=name), x)
