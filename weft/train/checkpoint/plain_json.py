"""JSON from files that may be damaged or hostile: every fault is a CheckpointError."""

import json
from typing import Any

from weft.train.checkpoint.errors import CheckpointError


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(items)
    if len(made) != len(items):
        seen: set[str] = set()
        twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r:.80} appears twice")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def loads(data: bytes, where: str) -> Any:
    """The value that JSON text holds; ``where`` names the file in errors.

    Duplicate keys, ``NaN``, and nesting too deep for Python's stack are refused.

    >>> loads(b'{"a": [1, 2.5]}', "a file")
    {'a': [1, 2.5]}
    """
    try:
        return json.loads(data.decode(), object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise CheckpointError(f"{where}: its JSON is nested too deeply") from None
    except ValueError as error:  # also bytes that are not UTF-8, and integers of many digits
        raise CheckpointError(f"{where}: its JSON cannot be read: {error!s:.200}") from None


def is_size(value: Any, limit: int = 1 << 62) -> bool:
    """Whether a value is an integer from 0 up to a limit; True and False are not.

    >>> is_size(3), is_size(-1), is_size(True), is_size(1.0)
    (True, False, False, False)
    """
    return type(value) is int and 0 <= value <= limit


def is_shape(value: Any) -> bool:
    """Whether a value is a list of sizes that an array can have.

    >>> is_shape([2, 3]), is_shape([]), is_shape([1 << 40, 1 << 40]), is_shape("ab")
    (True, True, False, False)
    """
    if type(value) is not list or len(value) > 32 or not all(is_size(n) for n in value):
        return False
    size = 1
    for n in value:
        size *= max(n, 1)
    return size < 1 << 56
