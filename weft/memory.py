"""Kinds of memory that arrays may be placed in: ``weft.memory.Space``."""

from weft.base.spaces import MemorySpace as Space

__all__ = ["Space"]
