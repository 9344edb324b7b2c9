"""Errors that leave the public API show the user's frames only."""

import traceback

import pytest

from weft.base import knobs
from weft.base.traceback import api_boundary

LIBRARY = """
@api_boundary
def outer(f, x):
    "Doc."
    return middle(f, x)

def middle(f, x):
    try:
        return f(x)
    except KeyError as error:
        raise TypeError("bad") from error

@api_boundary
def inner(x):
    raise x
"""
library = {"api_boundary": api_boundary}
exec(compile(LIBRARY, "<weft library>", "exec"), library)


def user(x):
    return library["inner"](x)


def names(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_frames_are_hidden():
    with pytest.raises(ValueError) as caught:
        library["outer"](user, ValueError())
    assert names(caught.value) == ["test_frames_are_hidden", "user"]


def test_causes_are_kept_and_shortened():
    with pytest.raises(TypeError, match="bad") as caught:
        library["outer"](user, KeyError())
    assert names(caught.value) == ["test_causes_are_kept_and_shortened"]
    assert isinstance(caught.value.__cause__, KeyError)
    assert names(caught.value.__cause__) == ["user"]


@pytest.mark.parametrize(
    "full", [knobs.traceback("full"), knobs.traceback_filtering("off")], ids=["ours", "jax"]
)
def test_all_frames_on_request(full):
    with full, pytest.raises(ValueError) as caught:
        library["outer"](user, ValueError())
    assert names(caught.value)[1:] == ["wrapped", "outer", "middle", "user", "wrapped", "inner"]


def test_hiding_can_be_left_to_the_printer():
    with knobs.traceback_filtering("tracebackhide"), pytest.raises(ValueError) as caught:
        library["outer"](user, ValueError())
    assert "middle" in names(caught.value)


def test_interrupts_pass_untouched():
    with pytest.raises(KeyboardInterrupt) as caught:
        library["outer"](user, KeyboardInterrupt())
    assert "middle" in names(caught.value)


def test_wraps():
    assert library["outer"].__name__ == "outer" and library["outer"].__doc__ == "Doc."
    assert library["outer"](lambda x: x + 1, 1) == 2
