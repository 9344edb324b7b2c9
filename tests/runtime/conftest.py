"""Tests of how programs are called have code for the very sizes of their arguments."""

import pytest

from weft.base import knobs


@pytest.fixture(autouse=True)
def _exact_code(request):
    """What serves many sizes has tests of its own."""
    with knobs.scope(
        shape_generic=request.module.__name__.endswith(("shape_generic", "instances"))
    ):
        yield
