"""SciPy functions by topic: ``weft.scipy``."""

from weft.scipy import linalg as linalg
from weft.scipy import special as special
