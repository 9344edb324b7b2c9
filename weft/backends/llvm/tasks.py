"""Operations as native functions over ranges: what routines of a backend lower an operation to."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.llvm.code import Module
from weft.base.record import Record


class Place(Record):
    """What a pointer given to a task points at.

    ``in`` and ``out``: an operand or a result by number; ``scratch``: memory of the operation by
    number; ``library``: the function of a library, by name; ``numbers``: a constant table of
    64-bit integers, given as such, so that one module serves many shapes; ``data``: a constant
    array; ``code``: a native function that the task calls, by its module and name; ``finish``: a
    buffer of the kernel that goes on with the result, by number.
    """

    kind: str
    what: int | str | tuple[Any, ...] | np.ndarray


class Task(Record):
    """A native function and the range it runs over, in pieces that do not depend on threads."""

    module: Module | None  # that defines the function; None until it is written
    name: str
    places: tuple[Place, ...]
    extent: int = 1
    chunk: int = 1


class Lowered(Record):
    """An operation as tasks, and the bytes of each piece of scratch memory they share.

    ``in_place`` is the same for a result that has the memory of the first operand.
    """

    tasks: list[Task]
    scratch: tuple[int, ...] = ()
    in_place: Any = None
