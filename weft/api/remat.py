"""The public face of rematerialisation: ``checkpoint``, also called ``remat``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from weft.api.arguments import Hashed, as_tuple, check_callable, debug_info, resolve_names
from weft.base.errors import ConcretizationTypeError
from weft.base.functional import wraps
from weft.base.traceback import api_boundary
from weft.control.initial_style import separate_consts, stage_tree_function
from weft.control.remat import name_p, remat_p
from weft.core.shape_dtype import abstractify
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

P = ParamSpec("P")
R = TypeVar("R")


class _NotGiven:
    def __repr__(self) -> str:
        return "Deprecated"


NOT_GIVEN = _NotGiven()


def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Sequence[str] = (),
    concrete: Any = NOT_GIVEN,
) -> Callable[P, R]:
    """Return ``fun`` with its intermediate values computed again in the backward pass, not stored.

    Args:
        fun: Function to differentiate later; it trades time for memory.
        prevent_cse: If true, keeps the compiler from merging both computations; False is fine
            inside of ``scan``. A tuple gives one for each argument.
        policy: Function that says which values are stored all the same, such as one of
            ``checkpoint_policies``; by default none.
        static_argnums: Positions of arguments that Python code looks at, such as flags.
        static_argnames: Names of such arguments.
        concrete: Not supported any more: use ``static_argnums``.

    Returns:
        Function with the arguments and results of ``fun``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> f = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
        >>> float(weft.grad(f)(0.0))
        1.0
    """
    if concrete is not NOT_GIVEN:
        raise NotImplementedError(
            "checkpoint has no option `concrete`; name the arguments that Python code inspects "
            "with static_argnums"
        )
    check_callable(fun)
    prevent_cse = _checked_prevent_cse(prevent_cse)
    parts = _Static(fun, static_argnums, as_tuple(static_argnames))

    @wraps(fun)
    @api_boundary
    def rematerialized(*args: Any, **kwargs: Any) -> Any:
        body, dynamic, keywords = parts.split(args, kwargs)
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

    return rematerialized


def _checked_prevent_cse(given: Any) -> bool | tuple[bool, ...]:
    if isinstance(given, bool):
        return given
    if not isinstance(given, (tuple, list)):
        raise TypeError(
            f"prevent_cse must be a bool or a tuple of bools, got a {type(given).__name__}"
        )
    return tuple(given)


class _Static:
    """A function and which of its arguments Python code looks at."""

    def __init__(self, fun: Callable[..., Any], argnums: Any, names: tuple[str, ...]) -> None:
        self.given = (argnums,) if isinstance(argnums, int) else argnums
        if not isinstance(self.given, tuple) or not all(type(n) is int for n in self.given):
            raise TypeError(
                f"static_argnums of checkpoint must be an int or a tuple of ints, got {argnums!r}"
            )
        self.fun, self.names = fun, names
        named = resolve_names(fun, None, names)[0] if names else ()
        self.nums = tuple(dict.fromkeys((*self.given, *named)))
        self.whole = lambda args, kwargs: fun(*args, **kwargs)
        self.bodies: dict[Any, Any] = {}

    def split(self, args: Any, kwargs: Any) -> Any:
        """A function of the dynamic arguments, one object for equal static ones, and these."""
        if not self.nums and not self.names:
            return self.whole, args, kwargs
        if not all(-len(args) <= n < len(args) for n in self.given):
            raise ValueError(
                f"static_argnums of checkpoint is {self.given}, but the call has"
                f" {len(args)} positional arguments"
            )
        static = {n % len(args) for n in self.nums if -len(args) <= n < len(args)}
        fixed = {i: args[i] for i in static} | {k: kwargs[k] for k in self.names if k in kwargs}
        dynamic = tuple(x for i, x in enumerate(args) if i not in static)
        keywords = {k: v for k, v in kwargs.items() if k not in self.names}

        def of_dynamic(given: Any, more: Any) -> Any:
            rest = iter(given)
            full = [fixed[i] if i in static else next(rest) for i in range(len(args))]
            return self.fun(*full, **{k: fixed[k] for k in self.names if k in fixed}, **more)

        try:
            key = (len(args), tuple((k, Hashed(v, str(k))) for k, v in fixed.items()))
        except ValueError:  # unhashable: traced anew at each call
            return of_dynamic, dynamic, keywords
        if len(self.bodies) >= BODIES_LIMIT:
            self.bodies.clear()
        return self.bodies.setdefault(key, of_dynamic), dynamic, keywords


# Distinct static arguments remembered by one function; beyond that it starts anew.
BODIES_LIMIT = 1024

remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """Return ``x`` itself, under a name that checkpoint policies refer to.

    Args:
        x: a value or a tree of values.
        name: the name.

    Returns:
        ``x``.

    Example:
        >>> checkpoint_name(3, "three")
        Array(3, dtype=int32, weak_type=True)
    """
    return tree_map(lambda leaf: name_p.bind(leaf, name=name), x)
