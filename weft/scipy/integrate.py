"""Integration: ``weft.scipy.integrate``."""

from weft.numpy import trapezoid

__all__ = ["trapezoid"]
