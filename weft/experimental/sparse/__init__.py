"""Sparse arrays: formats, operations on them, and functions of dense arrays made for them."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.experimental.sparse import linalg as linalg
from weft.experimental.sparse import util as util
from weft.experimental.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from weft.experimental.sparse.base import JAXSparse as JAXSparse
from weft.experimental.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from weft.experimental.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from weft.experimental.sparse.bcoo import *
from weft.experimental.sparse.bcsr import BCSR as BCSR
from weft.experimental.sparse.bcsr import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from weft.experimental.sparse.bcsr import bcsr_concatenate as bcsr_concatenate
from weft.experimental.sparse.bcsr import bcsr_dot_general as bcsr_dot_general
from weft.experimental.sparse.bcsr import bcsr_dot_general_p as bcsr_dot_general_p
from weft.experimental.sparse.bcsr import bcsr_extract as bcsr_extract
from weft.experimental.sparse.bcsr import bcsr_extract_p as bcsr_extract_p
from weft.experimental.sparse.bcsr import bcsr_fromdense as bcsr_fromdense
from weft.experimental.sparse.bcsr import bcsr_fromdense_p as bcsr_fromdense_p
from weft.experimental.sparse.bcsr import bcsr_sum_duplicates as bcsr_sum_duplicates
from weft.experimental.sparse.bcsr import bcsr_todense as bcsr_todense
from weft.experimental.sparse.bcsr import bcsr_todense_p as bcsr_todense_p
from weft.experimental.sparse.derivatives import grad as grad
from weft.experimental.sparse.derivatives import jacfwd as jacfwd
from weft.experimental.sparse.derivatives import jacobian as jacobian
from weft.experimental.sparse.derivatives import jacrev as jacrev
from weft.experimental.sparse.derivatives import value_and_grad as value_and_grad
from weft.experimental.sparse.making import empty as empty
from weft.experimental.sparse.making import eye as eye
from weft.experimental.sparse.making import random_bcoo as random_bcoo
from weft.experimental.sparse.rows import COO as COO
from weft.experimental.sparse.rows import CSC as CSC
from weft.experimental.sparse.rows import CSR as CSR
from weft.experimental.sparse.rows import coo_fromdense as coo_fromdense
from weft.experimental.sparse.rows import coo_fromdense_p as coo_fromdense_p
from weft.experimental.sparse.rows import coo_matmat as coo_matmat
from weft.experimental.sparse.rows import coo_matmat_p as coo_matmat_p
from weft.experimental.sparse.rows import coo_matvec as coo_matvec
from weft.experimental.sparse.rows import coo_matvec_p as coo_matvec_p
from weft.experimental.sparse.rows import coo_todense as coo_todense
from weft.experimental.sparse.rows import coo_todense_p as coo_todense_p
from weft.experimental.sparse.rows import csr_fromdense as csr_fromdense
from weft.experimental.sparse.rows import csr_fromdense_p as csr_fromdense_p
from weft.experimental.sparse.rows import csr_matmat as csr_matmat
from weft.experimental.sparse.rows import csr_matmat_p as csr_matmat_p
from weft.experimental.sparse.rows import csr_matvec as csr_matvec
from weft.experimental.sparse.rows import csr_matvec_p as csr_matvec_p
from weft.experimental.sparse.rows import csr_todense as csr_todense
from weft.experimental.sparse.rows import csr_todense_p as csr_todense_p
from weft.experimental.sparse.transform import sparsify as sparsify
from weft.experimental.sparse.transform import todense as todense
from weft.experimental.sparse.transform import todense_p as todense_p

del bcoo_eliminate_zeros  # noqa: F821 -- as in JAX, it is in `bcoo` alone
_expose(_sys.modules[__name__])
