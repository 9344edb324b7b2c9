"""What package metadata says of jax and jaxlib while weft goes by their names."""

from __future__ import annotations

import importlib.abc
import importlib.metadata
from collections.abc import Iterator
from typing import Any

from weft.as_jax.table import VERSION

NAMES = ("jax", "jaxlib")


_ANY = importlib.metadata.DistributionFinder.Context()


class _Distribution(importlib.metadata.Distribution):
    """The distribution of one of the names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return (
            f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {VERSION}\n"
            "Summary: weft under this name\n"
        )

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"weft stands in for {self._name}, which has no files here")


class Distributions(importlib.metadata.DistributionFinder):
    """Answers questions about the metadata of the two names, before what is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        return None  # it finds metadata, no modules

    def find_distributions(self, context: Any = _ANY) -> Iterator[importlib.metadata.Distribution]:
        wanted = context.name
        return iter([_Distribution(n) for n in NAMES if wanted is None or wanted.lower() == n])
