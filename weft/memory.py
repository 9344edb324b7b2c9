"""Kinds of memory that arrays may be placed in: ``weft.memory.Space``."""

import enum

__all__ = ["Space"]


class Space(enum.Enum):
    """Memory of the device, of the host, or either; on CPUs they are one.

    >>> Space.Host
    <Space.Host: 2>
    """

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()
