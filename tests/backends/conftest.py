"""What several tests of the CPU backend look at."""

import pytest

from tests.backends.shapes import compiled_texts


@pytest.fixture
def texts(monkeypatch):
    """The texts that go to LLVM."""
    with compiled_texts(monkeypatch) as found:
        yield found
