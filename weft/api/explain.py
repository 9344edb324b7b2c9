"""``explain``: what the compiler made of a function, in the user's words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.api.arguments import check_callable
from weft.api.jit import JitFunction, jit
from weft.base.functional import wraps
from weft.base.lazy import Late
from weft.base.notebook import folded
from weft.base.traceback import api_boundary
from weft.core.jaxpr import ClosedJaxpr, count_eqns
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.runtime.site import client_of

# loaded where arguments are on a mesh, and for pictures
movement = Late("weft.api.movement")
picture = Late("weft.api.picture.page")
drawn = Late("weft.runtime.drawing")

# Parts of a program from which on notebooks show its report without a picture.
MAX_FRAMED_PARTS = 2000


class Explanation:
    """What became of one function; as a string, its story.

    Figures are attributes: ``equations``, ``kernels``, ``libraries``, ``own`` and ``python`` count
    what came in and out, ``moved`` and ``unfused`` are bytes, ``arena`` too, ``seconds`` a
    dictionary by stage, ``origins`` says where machine code came from, and ``steps`` has one entry
    for each kernel or call (``kind``, ``name``, ``primitives``, ``lines``, ``read``, ``written``,
    ``inner``). ``moves`` lists the collectives between the devices of a mesh.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        traced: float,
        client: Any,
        made: Any = None,
        args: Any = None,
    ) -> None:
        told = client.told(closed, name, traced, args)
        self.name, self.equations = name, count_eqns(closed.jaxpr)
        self.kernels, self.libraries, self.own = told.kernels, told.libraries, told.own
        self.python, self.steps = told.python, told.steps
        self.moved, self.unfused, self.arena = told.moved, told.unfused, told.arena
        self.seconds, self.origins = dict(told.seconds), dict(told.origins)
        # whether calls with these sizes are answered by code that serves others too
        self.shape_generic, self._text = told.shape_generic, told.text
        self._parts = told.parts or (lambda: drawn.equations(closed))
        self.moves = () if made is None else made.moves
        if made is not None:
            self._text += f"\n{movement.story(made)}"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<explanation of {self.name}: {self.equations} equations, {self.kernels} kernels>"

    def _repr_html_(self) -> str:
        parts = self._parts()
        if len(parts) > MAX_FRAMED_PARTS:
            return folded(self._text)
        return folded(self._text) + picture.frame(picture.page(self.name, self._text, parts))

    def html(self) -> str:
        """The picture of the program: one HTML page that needs no other file."""
        return picture.page(self.name, self._text, self._parts())

    def lines(self) -> list[str]:
        """One line in all, and one for each kernel and call."""
        if self.steps and not hasattr(self.steps[0], "head"):
            return self._text.splitlines()
        return [self._text.partition("\n")[0], *_heads(self.steps)]


def _heads(steps: list[Any]) -> list[str]:
    return [line for told in steps for line in [told.head(), *_heads(told.inner)]]


def explain(
    fun: Callable[..., Any],
    *,
    quiet: bool = False,
    measure: bool = False,
    html: str | os.PathLike[str] | None = None,
) -> Callable[..., Explanation]:
    """Return a function that compiles ``fun`` for given arguments and prints how it was compiled.

    Args:
        fun: Function of arrays, jitted or not.
        quiet: If true, nothing is printed.
        measure: If true, also run the function several times (once if it has effects), and report
            the least time, the bytes per second and the share of each kernel.
        html: Path of a file to write a picture of the program to: one page with the graph of
            kernels, the memory over time, the time of each kernel if it is measured, and the source
            code with the cost of each line.

    Returns:
        Function with the arguments of ``fun`` that returns an ``Explanation``; its ``str`` is the
        report. Nothing is run unless ``measure`` is true.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> told = weft.explain(lambda x: jnp.exp(x - x.max()))(jnp.ones(1000))
        <lambda>: 3 operations → 2 kernels; ...
        >>> told.kernels, told.moved < told.unfused
        (2, True)
        >>> told = weft.explain(jnp.sin, quiet=True, measure=True)(jnp.ones(1000))
        >>> print(told.steps[0].head())
        k0: sin ... took ... us (... GB/s, 100 %)
    """
    check_callable(fun)
    jitted = fun if isinstance(fun, JitFunction) else jit(fun)

    @wraps(fun)
    @api_boundary
    def explain_of(*args: Any, **kwargs: Any) -> Explanation:
        begin = time.perf_counter()
        traced = jitted.trace(*args, **kwargs)
        seconds = time.perf_counter() - begin
        made = traced._partitioned()
        client, given = _runner(traced, measure)
        told = Explanation(traced._program, traced.fun_name, seconds, client, made, given)
        if html is not None:
            Path(html).write_text(told.html(), encoding="utf-8")
        if not quiet:
            print(told)
        return told

    return explain_of


def _runner(traced: Any, measure: bool) -> tuple[Any, Any]:
    """Who runs a program, and the arguments if its parts are measured."""
    args = traced._leaves()
    client = client_of(traced._program, args)
    if measure and any(type(x) is ShapeDtypeStruct for x in args):
        raise TypeError(
            "explain(measure=True) runs the function, so it needs arrays, not just their types; "
            "pass for example weft.numpy.zeros(x.shape, x.dtype)"
        )
    return client, args if measure else None
