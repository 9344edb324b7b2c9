"""Whether weft has a name of JAX or of a library, and where."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from weft.as_jax.absent import ABSENT
from weft.as_jax.finder import exists, load, weft_module
from weft.as_jax.homes import HOMES
from weft.as_jax.table import TABLE
from weft.base.functional import lru
from weft.moving.tables import DIFFERENT, MISSING, MODULES


class Status(enum.Enum):
    """What becomes of a name.

    It works, differs, works under ``as_jax`` only, can be imported but not used, or is missing.

    Example:
        >>> from weft import moving
        >>> moving.Status.SAME.value
        'works'
    """

    SAME = "works"
    DIFFERENT = "differs"
    ALIAS = "works under as_jax"
    ABSENT = "can be imported only"
    MISSING = "missing"


class Answer(NamedTuple):
    """What becomes of a name, where weft has it, and what to know about it."""

    status: Status
    where: str = ""
    note: str = ""


def _longest(table: Any, dotted: str) -> str | None:
    """The longest beginning of a dotted name that a table has."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        if ".".join(parts[:count]) in table:
            return ".".join(parts[:count])
    return None


_NOTHING = object()


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except (AttributeError, RuntimeError):
        return _NOTHING


def in_weft(dotted: str) -> bool:
    """Whether weft has a dotted name; attributes of what is no module or class are not asked for.

    >>> in_weft("weft.numpy.linalg.svd"), in_weft("weft.numpy.sine")
    (True, False)
    """
    parts = dotted.split(".")
    value: Any = None
    for count in range(len(parts), 0, -1):
        try:
            value = load(".".join(parts[:count]))
        except ImportError:
            continue
        break
    else:
        return False
    return _has(value, parts[count:])


def _has(value: Any, rest: list[str]) -> bool:
    for name in rest:
        if not (isinstance(value, type) or hasattr(value, "__spec__")):
            return True  # of an object that is made when the program runs
        value = _attribute(value, name)
        if value is _NOTHING:
            return False
    return True


@lru(4096)
def look_up(dotted: str) -> Answer:
    """What becomes of a dotted name of JAX or of a library that weft has a module for.

    >>> look_up("jax.numpy.einsum").where
    'weft.numpy.einsum'
    >>> look_up("optax.adamw").where
    'weft.optim.adamw'
    >>> look_up("jax.experimental.pallas.pallas_call").status
    <Status.ABSENT: 'can be imported only'>
    """
    root = _longest(MODULES, dotted)
    if root is not None:
        where = MODULES[root] + dotted[len(root) :]
        private = any(part.startswith("_") for part in dotted.split("."))
        if in_weft(where) and not private and not _hidden(dotted):
            note = _longest(DIFFERENT, dotted)
            if note is not None:
                return Answer(Status.DIFFERENT, where, DIFFERENT[note])
            return Answer(Status.SAME, where)
    if dotted.partition(".")[0] not in ("jax", "jaxlib"):
        return Answer(Status.MISSING, "", "weft has nothing of this name")
    return _aliased(dotted)


def _hidden(dotted: str) -> bool:
    """Whether weft has a module of this path for another purpose."""
    module = _longest(TABLE, dotted)
    return module is not None and TABLE[module].replaces


def _aliased(dotted: str) -> Answer:
    parts = dotted.split(".")
    reason = _longest(MISSING, dotted)
    why = "" if reason is None else MISSING[reason]
    for count in range(len(parts), 0, -1):
        module, rest = ".".join(parts[:count]), parts[count:]
        if not exists(module):
            continue
        if not rest and module in ABSENT and why:
            return Answer(Status.ABSENT, "", why)
        if not rest or _in_alias(module, rest):
            return Answer(Status.ALIAS, "", why)
        if rest[0] in ABSENT.get(module, ()):
            return Answer(Status.ABSENT, "", why)
        break
    return Answer(Status.MISSING, "", why)


def _in_alias(module: str, rest: list[str]) -> bool:
    names = TABLE[module].names if module in TABLE else {}
    if rest[0] in names:
        return _has(load(names[rest[0]]), rest[1:])
    found = weft_module(module)
    if found is not None and _has(found, rest):
        return True
    return any(_has(load(home), rest) for home in HOMES.get(module, ()))
