"""``Partial``: a partially applied function whose bound arguments are leaves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.tree.registry import register_pytree_node


class _Opaque:
    """Calls, hashes and compares as the ``functools.partial`` it holds.

    ``functools.partial`` merges with a partial it is given, which would turn the inner one's
    arguments into leaves of the outer one.
    """

    def __init__(self, fun: functools.partial[Any]) -> None:
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fun(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __eq__(self, other: object) -> bool:
        return bool(self.fun == (other.fun if isinstance(other, _Opaque) else other))

    def __repr__(self) -> str:
        return repr(self.fun)


class Partial(functools.partial):
    """A ``functools.partial`` that is a tree node, so that it can be an argument of ``jit``.

    The bound arguments are its leaves; the function belongs to the structure.

    Args:
        func: the function, which belongs to the structure.
        *args: the bound arguments, which are leaves.
        **kw: the bound keyword arguments, which are leaves.

    Example:
        >>> from weft import tree
        >>> power = Partial(pow, 2)
        >>> power(10)
        1024
        >>> tree.map(lambda x: x + 1, power)(3)
        27
    """

    def __new__(cls, func: Callable[..., Any], *args: Any, **kw: Any) -> Partial:
        """Bind arguments to ``func``."""
        if not isinstance(func, functools.partial):
            return super().__new__(cls, func, *args, **kw)
        opaque = _Opaque(func)
        self = super().__new__(cls, opaque, *args, **kw)
        # Readers of a partial of a partial expect to find the inner one's attributes.
        vars(opaque).update(func=func.func, args=func.args, keywords=func.keywords)
        return self


register_pytree_node(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func),
    lambda func, bound: Partial(func, *bound[0], **bound[1]),
)
