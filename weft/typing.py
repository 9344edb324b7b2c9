"""Types for annotating functions of arrays: ``weft.typing``.

Annotate what a function takes with ``ArrayLike`` and what it gives with ``weft.Array``.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from weft.core.array import Array
from weft.dtypes import DType as DType
from weft.dtypes import DTypeLike as DTypeLike
from weft.dtypes import SupportsDType as SupportsDType

StaticScalar: TypeAlias = np.bool_ | np.number | bool | int | float | complex

# What becomes an array without being asked: not lists, not strings. Usable with isinstance.
ArrayLike: TypeAlias = Array | np.ndarray | StaticScalar
