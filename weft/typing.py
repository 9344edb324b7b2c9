"""Types for annotating functions of arrays: ``weft.typing``.

Annotate what a function takes with ``ArrayLike`` and what it gives with ``weft.Array``.
"""

from __future__ import annotations

from weft.core.array import Array as Array
from weft.core.array import ArrayLike as ArrayLike
from weft.core.array import StaticScalar as StaticScalar
from weft.dtypes import DType as DType
from weft.dtypes import DTypeLike as DTypeLike
from weft.dtypes import SupportsDType as SupportsDType
