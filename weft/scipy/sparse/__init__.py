"""Sparse problems: ``weft.scipy.sparse``."""

from weft.scipy.sparse import linalg as linalg
