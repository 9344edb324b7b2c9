"""The functions of BCOO under one roof, where JAX has them."""

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
from weft.experimental.sparse.bcoo_array import bcoo_eliminate_zeros as bcoo_eliminate_zeros
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
