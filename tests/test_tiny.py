"""The whole product in a few seconds: run it before every commit."""

import weft


def test_imports() -> None:
    assert weft.__name__ == "weft"
