"""Reading of error texts: the class, the user's line, and what is said."""

import os
import re
import traceback
from types import CodeType

import pytest

import weft

# A clone may be in a folder of any name, "weft" too: only this one is the package.
PACKAGE = os.path.join(os.path.dirname(weft.__file__), "")


def lines_of(code):
    """The first and the last line of a function, nested ones included."""
    numbers = [line for _, _, line in code.co_lines() if line]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            numbers += lines_of(constant)
    return min(numbers), max(numbers)


def text_of(kind, fun, *phrases, located=True):
    """The text of the error that ``fun`` raises: of this class, at this function's lines."""
    with pytest.raises(Exception) as caught:
        fun()
    error = caught.value
    text = str(error)
    assert type(error).__name__ == kind if isinstance(kind, str) else type(error) is kind, text
    for phrase in phrases:
        assert phrase in text, f"{phrase!r} is not in:\n{text}"
    if located:
        name = re.escape(os.path.basename(fun.__code__.co_filename))
        first, last = lines_of(fun.__code__)
        found = [int(n) for n in re.findall(rf"{name}:(\d+)", text)]
        assert any(first <= n <= last for n in found), f"lines {first} to {last} not in:\n{text}"
    check_frames(error)
    return text


def check_frames(error):
    """Nothing of weft itself shows in the traceback."""
    files = [f.filename for f in traceback.extract_tb(error.__traceback__)]
    shown = [name for name in files if name.startswith(PACKAGE)]
    assert not shown, shown
