"""SciPy functions by topic: ``weft.scipy``."""

from weft.scipy import special as special
