"""Errors that leave the public API show the user's frames only."""

import traceback
from functools import partial
from types import ModuleType

import numpy as np
import pytest

from weft.base import knobs
from weft.base.traceback import api_boundary, expose

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


def raise_mine(x):
    raise ValueError("mine")


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


def test_libraries_that_weft_calls_are_hidden():
    source = "import numpy as np\ndef f(g, x):\n    return g(x)\n"
    namespace = {"np": np}
    exec(compile(source, "<weft library>", "exec"), namespace)
    with pytest.raises(ValueError, match="broadcast") as caught:
        api_boundary(namespace["f"])(lambda x: np.broadcast_shapes((2,), (3,)), 1)
    assert "<lambda>" in names(caught.value) and "broadcast_shapes" in names(caught.value)
    with pytest.raises(ValueError, match=r"broadcast.* — test_traceback.py:\d+, in test_lib") as c:
        api_boundary(namespace["f"])(partial(np.broadcast_shapes, (2,)), (3,))
    assert names(c.value) == ["test_libraries_that_weft_calls_are_hidden"]


def test_exposed_functions_keep_their_identity():
    module = ModuleType("weft.library")
    exec(compile("def f(x):\n    return 1 / x\ng = f\n", "<weft library>", "exec"), vars(module))
    module.f.__module__ = "weft.inner"
    plain = module.f
    expose(module)
    assert module.f is module.g and module.f.__wrapped__ is plain
    assert module.f.__module__ == "weft.library"
    expose(module)
    assert module.f.__wrapped__ is plain
    with pytest.raises(ZeroDivisionError) as caught:
        module.f(0)
    assert names(caught.value) == ["test_exposed_functions_keep_their_identity"]


def test_the_line_is_said_once_and_only_for_weft():
    code = "def f(x):\n    raise TypeError('bad shapes:\\n  one')\n"
    namespace = {}
    exec(compile(code, "<weft library>", "exec"), namespace)
    twice = api_boundary(lambda x: api_boundary(namespace["f"])(x))
    with pytest.raises(TypeError) as caught:
        twice(1)
    first, second = str(caught.value).splitlines()
    assert first.startswith("bad shapes — test_traceback.py:") and first.endswith("<lambda>:")
    assert second == "  one"
    with pytest.raises(ValueError, match=r"^mine$"):
        library["outer"](raise_mine, 1)
