"""Sparse arrays: formats, operations on them, and functions of dense arrays made for them."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.experimental.sparse.base import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from weft.experimental.sparse.base import JAXSparse as JAXSparse
from weft.experimental.sparse.base import SparseEfficiencyError as SparseEfficiencyError
from weft.experimental.sparse.base import SparseEfficiencyWarning as SparseEfficiencyWarning
from weft.experimental.sparse.bcoo_arithmetic import (
    bcoo_conv_general_dilated as bcoo_conv_general_dilated,
)
from weft.experimental.sparse.bcoo_arithmetic import bcoo_dot_general as bcoo_dot_general
from weft.experimental.sparse.bcoo_arithmetic import (
    bcoo_dot_general_sampled as bcoo_dot_general_sampled,
)
from weft.experimental.sparse.bcoo_arithmetic import bcoo_extract as bcoo_extract
from weft.experimental.sparse.bcoo_arithmetic import bcoo_multiply_dense as bcoo_multiply_dense
from weft.experimental.sparse.bcoo_arithmetic import bcoo_multiply_sparse as bcoo_multiply_sparse
from weft.experimental.sparse.bcoo_arithmetic import bcoo_reduce_sum as bcoo_reduce_sum
from weft.experimental.sparse.bcoo_array import BCOO as BCOO
from weft.experimental.sparse.bcoo_array import bcoo_fromdense as bcoo_fromdense
from weft.experimental.sparse.bcoo_array import bcoo_sort_indices as bcoo_sort_indices
from weft.experimental.sparse.bcoo_array import bcoo_sum_duplicates as bcoo_sum_duplicates
from weft.experimental.sparse.bcoo_array import bcoo_todense as bcoo_todense
from weft.experimental.sparse.bcoo_array import bcoo_transpose as bcoo_transpose
from weft.experimental.sparse.bcoo_buffers import bcoo_dot_general_p as bcoo_dot_general_p
from weft.experimental.sparse.bcoo_buffers import (
    bcoo_dot_general_sampled_p as bcoo_dot_general_sampled_p,
)
from weft.experimental.sparse.bcoo_buffers import bcoo_extract_p as bcoo_extract_p
from weft.experimental.sparse.bcoo_buffers import bcoo_fromdense_p as bcoo_fromdense_p
from weft.experimental.sparse.bcoo_buffers import bcoo_sort_indices_p as bcoo_sort_indices_p
from weft.experimental.sparse.bcoo_buffers import bcoo_spdot_general_p as bcoo_spdot_general_p
from weft.experimental.sparse.bcoo_buffers import bcoo_sum_duplicates_p as bcoo_sum_duplicates_p
from weft.experimental.sparse.bcoo_buffers import bcoo_todense_p as bcoo_todense_p
from weft.experimental.sparse.bcoo_buffers import bcoo_transpose_p as bcoo_transpose_p
from weft.experimental.sparse.bcoo_layout import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from weft.experimental.sparse.bcoo_layout import bcoo_concatenate as bcoo_concatenate
from weft.experimental.sparse.bcoo_layout import bcoo_dynamic_slice as bcoo_dynamic_slice
from weft.experimental.sparse.bcoo_layout import bcoo_gather as bcoo_gather
from weft.experimental.sparse.bcoo_layout import bcoo_reshape as bcoo_reshape
from weft.experimental.sparse.bcoo_layout import bcoo_rev as bcoo_rev
from weft.experimental.sparse.bcoo_layout import bcoo_slice as bcoo_slice
from weft.experimental.sparse.bcoo_layout import bcoo_squeeze as bcoo_squeeze
from weft.experimental.sparse.bcoo_layout import bcoo_update_layout as bcoo_update_layout
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

_expose(_sys.modules[__name__])
