"""What several tests of the CPU backend look at."""

import pytest

from tests.backends.shapes import compiled_texts
from weft.base import knobs


@pytest.fixture
def texts(monkeypatch):
    """The texts that go to LLVM."""
    with compiled_texts(monkeypatch) as found:
        yield found


@pytest.fixture(autouse=True)
def _exact_code():
    """Code for the very sizes: what serves many has tests of its own."""
    with knobs.scope(shape_generic=False):
        yield
