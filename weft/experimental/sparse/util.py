"""What warns of inefficient sparse arrays, under the name that JAX has for it."""

from weft.experimental.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from weft.experimental.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from weft.experimental.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from weft.experimental.sparse.base import SparseInfo as SparseInfo
