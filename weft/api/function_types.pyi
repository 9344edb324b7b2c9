"""What transformations make of functions, as type checkers see it. Nothing here runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, ParamSpec, Self, TypedDict, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

class Function(Generic[P, R]):
    """A function; what is decorated by it stays callable as a method, too.

    Not ``Callable``: where several overloads fit a lambda, its result stays a function.
    """

    __name__: str
    __wrapped__: Callable[..., Any]
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> Callable[..., R]: ...

class Opaque:
    """Taken only by functions that take anything: their argument says nothing of its gradient."""

class GradOptions(TypedDict, total=False):
    """What ``grad`` takes by keyword besides what decides the type of its result."""

    holomorphic: bool
    allow_int: bool
    reduce_axes: Sequence[Any]

class JacobianOptions(TypedDict, total=False):
    """The same of ``jacrev`` and ``jacobian``."""

    holomorphic: bool
    allow_int: bool

class HolomorphicOptions(TypedDict, total=False):
    """The same of ``jacfwd`` and ``hessian``."""

    holomorphic: bool

class JitOptions(TypedDict, total=False):
    """What ``jit`` takes by keyword."""

    in_shardings: Any
    out_shardings: Any
    static_argnums: int | Iterable[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Iterable[int] | None
    donate_argnames: str | Iterable[str] | None
    keep_unused: bool
    device: Any
    backend: str | None
    inline: bool
    compiler_options: dict[str, Any] | None
