"""``pjit``: ``jit`` that reads the mesh of the ``with`` block it is called in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from weft.api import jit as _jit
from weft.base import knobs as _knobs
from weft.base.traceback import bounded as _bounded
from weft.core.sharding import UNSPECIFIED as _UNSPECIFIED

__all__ = ["pjit"]


def _entered() -> Any:
    """A scope in which the mesh of a ``with`` block is the one that is set."""
    mesh = _knobs.thread.entered_mesh
    if mesh is None or mesh.empty or _knobs.thread.mesh is not None:
        return contextlib.nullcontext()
    return _knobs.mesh((mesh, mesh.abstract_mesh))


class _PjitFunction(_jit.JitFunction):
    """A compiled function for which the mesh of a ``with`` block is set."""

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        with _entered():
            return super()._slow(*args, **kwargs)

    __call__ = _slow

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        with _entered():
            return super().trace(*args, **kwargs)


_PjitFunction.__name__ = _PjitFunction.__qualname__ = "PjitFunction"


def _pjit(
    fun: Callable[..., Any],
    in_shardings: Any = _UNSPECIFIED,
    out_shardings: Any = _UNSPECIFIED,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Return a function compiled as by ``jit``, for the mesh of a ``with`` block.

    Args:
        fun: the function.
        in_shardings: how the arguments are divided: a ``Sharding`` or ``PartitionSpec`` for each,
            or a prefix of their tree.
        out_shardings: how the results are divided.
        static_argnums: the positions of arguments that are compile-time constants.
        static_argnames: the names of arguments that are compile-time constants.
        donate_argnums: the positions of arguments whose memory may be reused.
        donate_argnames: the names of arguments whose memory may be reused.
        keep_unused: keep arguments that the function does not use.
        device: the device to run on. By default that of the arguments.
        backend: the name of the backend to run on.
        inline: inline the function into others that are staged.
        compiler_options: options of the compiler, as in ``jit``.

    Returns:
        The compiled function.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft.experimental.pjit import pjit
        >>> with weft.make_mesh((1,), 'x', (weft.sharding.AxisType.Auto,)):
        ...     pjit(lambda x: x + 1, in_shardings=weft.P('x'))(jnp.ones(2))
        Array([2., 2.], dtype=float32)
    """
    options = {name: value for name, value in locals().items() if name != "fun"}
    return _jit.compiled(fun, options, _PjitFunction)


_pjit.__name__ = _pjit.__qualname__ = "pjit"
pjit = _bounded(_pjit, "weft")
