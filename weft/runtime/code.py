"""The code of programs: what clients have made of them, kept with each program."""

from __future__ import annotations

from typing import Any, NamedTuple

from weft.core.caches import ProgramCache
from weft.core.jaxpr import ClosedJaxpr


class CodeKey(NamedTuple):
    """Which code of a program: a client's, for arguments that are donated, and for what else it
    depends on: settings, or how arguments and results are divided."""

    client: Any
    donated: tuple[bool, ...] = ()
    details: tuple[Any, ...] = ()


# False where a program has no plan.
CODE: ProgramCache[CodeKey, Any] = ProgramCache("code")


def is_shape_generic(closed: ClosedJaxpr) -> bool:
    """Whether the code that a program runs serves other sizes too."""
    return any(getattr(made, "generic", False) for made in CODE.values(closed))
