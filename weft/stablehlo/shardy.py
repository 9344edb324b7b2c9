"""Shardings in the form of Shardy, the partitioner that follows GSPMD in XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core.sharding import PartitionSpec, axes_of


class Meshes:
    """The meshes of a module by name; ``grid`` gives the partitions of a mesh in its shape."""

    def __init__(self, grid: Callable[[Any], np.ndarray]) -> None:
        self.grid = grid
        self.names: dict[str, str] = {}

    def name(self, mesh: Any) -> str:
        """The symbol of a mesh."""
        text = self._text(mesh)
        count = len(self.names)
        return self.names.setdefault(text, f"@mesh_{count - 1}" if count else "@mesh")

    def _text(self, mesh: Any) -> str:
        axes = ", ".join([f'"{name}"={size}' for name, size in dict(mesh.shape).items()])
        order = self.grid(mesh).reshape(-1).tolist()
        moved = f", device_ids={order}" if order != sorted(order) else ""
        return f"<[{axes}]{moved}>"

    def declared(self) -> list[str]:
        """The lines of a module that name its meshes."""
        return [f"  sdy.mesh {name} = {text}" for text, name in self.names.items()]

    def sharding(self, mesh: Any, spec: Any, rank: int, is_open: bool = False) -> str:
        """How an array is divided: what may be divided further is open.

        >>> from weft.core.sharding import AbstractMesh
        >>> mesh = AbstractMesh((2, 4), ("a", "b"))
        >>> meshes = Meshes(lambda mesh: np.arange(8).reshape(2, 4))
        >>> meshes.sharding(mesh, PartitionSpec(("b", "a"), PartitionSpec.UNCONSTRAINED), 3)
        '<@mesh, [{"b", "a"}, {?}, {}]>'
        >>> meshes.declared()
        ['  sdy.mesh @mesh = <["a"=2, "b"=4]>']
        """
        parts = [*spec[:rank], *[None] * (rank - len(spec))]
        return f"<{self.name(mesh)}, [{', '.join([_dimension(p, is_open) for p in parts])}]>"

    def per_value(
        self, mesh: Any, specs: Sequence[Any], ranks: Sequence[int], is_open: bool
    ) -> str:
        """The shardings of several arrays."""
        found = [self.sharding(mesh, s, n, is_open) for s, n in zip(specs, ranks, strict=True)]
        return f"#sdy.sharding_per_value<[{', '.join(found)}]>"


def _dimension(part: Any, is_open: bool) -> str:
    is_free = part is PartitionSpec.UNCONSTRAINED
    names = [] if is_free else [f'"{name}"' for name in axes_of(part)]
    return "{" + ", ".join([*names, *["?"] * (is_open or is_free)]) + "}"


def manual_axes(names: Sequence[Any]) -> str:
    """The axes of a mesh along which a region sees parts."""
    return "#sdy<manual_axes{" + ", ".join([f'"{name}"' for name in names]) + "}>"
