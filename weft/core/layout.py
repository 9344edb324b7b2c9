"""The order in which the elements of an array lie in memory: always row-major here.

Other orders may be asked for wherever JAX takes them. They change no result, and what an array or
an executable says of its layout is how it does lie in memory.
"""

from __future__ import annotations

from typing import Any

from weft.base.record import Record


class AutoLayout:
    """Stands for a layout that the compiler chooses."""

    def __repr__(self) -> str:
        return "AUTO"


class Layout(Record):
    """The order of an array's dimensions in memory.

    Args:
        major_to_minor: the dimensions, the slowest first.
        tiling: accepted for JAX, no effect.
        sub_byte_element_size_in_bits: accepted for JAX, no effect.

    Example:
        >>> from weft.experimental.layout import Layout
        >>> Layout((1, 0)).major_to_minor
        (1, 0)
    """

    major_to_minor: tuple[int, ...]
    tiling: Any = None
    sub_byte_element_size_in_bits: int = 0

    def check_fits(self, shape: tuple[Any, ...], what: str) -> None:
        """Raise ValueError unless an array of a shape can have this layout."""
        if sorted(self.major_to_minor) != list(range(len(shape))):
            raise ValueError(
                f"{what} is given {self}, which is not a permutation of the {len(shape)} "
                "dimensions of"
                f" an array of shape {shape}"
            )


Layout.AUTO = AutoLayout()  # type: ignore[attr-defined]


class Format:
    """How and where an array lies: its layout and its sharding.

    Args:
        layout: a ``Layout``, or None for any.
        sharding: a ``Sharding``, or None for any.

    Example:
        >>> import weft
        >>> from weft.experimental.layout import Format, Layout
        >>> here = weft.sharding.SingleDeviceSharding(weft.devices()[0])
        >>> weft.device_put(weft.numpy.ones((2, 3)), Format(Layout((1, 0)), here)).format.layout
        Layout(major_to_minor=(0, 1), tiling=(), sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout: Any = None, sharding: Any = None) -> None:
        if layout is not None and not isinstance(layout, (Layout, AutoLayout)):
            raise TypeError(
                f"a Format has a Layout, Layout.AUTO or None, got {layout!r} of type"
                f" {type(layout).__name__}"
            )
        if isinstance(layout, Layout) and sharding is None:
            raise ValueError(f"a Format with {layout} needs a sharding too: where the array is")
        self.layout = layout
        self.sharding = sharding

    @property
    def device_local_layout(self) -> Any:
        return self.layout

    def sharding_for(self, shape: tuple[Any, ...], what: str) -> Any:
        """The sharding of an array of a shape that is given this format, which must fit it."""
        if isinstance(self.layout, Layout):
            self.layout.check_fits(shape, what)
        return self.sharding

    def __eq__(self, other: object) -> bool:
        if type(other) is not Format:
            return False
        return (self.layout, self.sharding) == (other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def row_major(ndim: int, sharding: Any) -> Format:
    """The format of all arrays here."""
    return Format(Layout(tuple(range(ndim)), (), 0), sharding)


def format_of(array: Any) -> Format:
    """How and where an array lies; memory that lays arrays out in its own way says how."""
    found = array._device_layout() if hasattr(array, "_device_layout") else None
    if found is None or len(found[0]) != array.ndim:
        return row_major(array.ndim, array.sharding)
    order, tiles = found
    return Format(Layout(tuple(reversed(order)), tiles, 0), array.sharding)
