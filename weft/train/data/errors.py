"""Errors of data pipelines, and what is added to errors of a user's functions."""

import os
import traceback
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class DataError(ValueError):
    """Data, a file or a saved state does not fit what the pipeline does with it.

    >>> raise DataError("column 'label' is missing")
    Traceback (most recent call last):
        ...
    weft.train.data.errors.DataError: column 'label' is missing
    """


class WorkerError(RuntimeError):
    """A worker process ended before its work was done.

    >>> raise WorkerError("worker 0 was killed by SIGKILL")
    Traceback (most recent call last):
        ...
    weft.train.data.errors.WorkerError: worker 0 was killed by SIGKILL
    """


def name_of(function: Any) -> str:
    """What a function is called in messages: its name, and where it is defined.

    >>> name_of(len)
    'len'
    """
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    if code is None:
        return name
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def users_line(error: BaseException) -> str:
    """The line of a user's function that an error came from, or "" if it came from none."""
    frames = traceback.extract_tb(error.__traceback__)
    for frame in frames:
        if not frame.filename.startswith(_FOLDER):
            return f"{os.path.basename(frame.filename)}:{frame.lineno}, in {frame.name}"
    return ""


def add_place(error: BaseException, what: str, first: int, last: int | None = None) -> None:
    """Note on an error which element, or elements, it is about; the first note is the best one."""
    if is_placed(error):
        return
    line = users_line(error)
    where = f"element {first}" if last is None else f"elements {first} to {last}"
    error.add_note(f"{where} of {what}" + (f" — {line}" if line else ""))


def is_placed(error: BaseException, together: bool = False) -> bool:
    """Whether an error says which element it is about, or which elements together."""
    begin = "elements " if together else "element"
    return any(note.startswith(begin) for note in getattr(error, "__notes__", ()))
