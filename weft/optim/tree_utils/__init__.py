"""Functions of whole trees: ``weft.optim.tree_utils``; `optim.tree` has shorter names for them."""

import functools as _functools

from weft.optim.tree_utils.arithmetic import tree_add as tree_add
from weft.optim.tree_utils.arithmetic import tree_add_scale as tree_add_scale
from weft.optim.tree_utils.arithmetic import tree_allclose as tree_allclose
from weft.optim.tree_utils.arithmetic import tree_batch_shape as tree_batch_shape
from weft.optim.tree_utils.arithmetic import tree_bias_correction as tree_bias_correction
from weft.optim.tree_utils.arithmetic import tree_clip as tree_clip
from weft.optim.tree_utils.arithmetic import tree_conj as tree_conj
from weft.optim.tree_utils.arithmetic import tree_div as tree_div
from weft.optim.tree_utils.arithmetic import tree_full_like as tree_full_like
from weft.optim.tree_utils.arithmetic import tree_max as tree_max
from weft.optim.tree_utils.arithmetic import tree_min as tree_min
from weft.optim.tree_utils.arithmetic import tree_mul as tree_mul
from weft.optim.tree_utils.arithmetic import tree_norm as tree_norm
from weft.optim.tree_utils.arithmetic import tree_ones_like as tree_ones_like
from weft.optim.tree_utils.arithmetic import tree_real as tree_real
from weft.optim.tree_utils.arithmetic import tree_scale as tree_scale
from weft.optim.tree_utils.arithmetic import tree_size as tree_size
from weft.optim.tree_utils.arithmetic import tree_sub as tree_sub
from weft.optim.tree_utils.arithmetic import tree_sum as tree_sum
from weft.optim.tree_utils.arithmetic import (
    tree_update_infinity_moment as tree_update_infinity_moment,
)
from weft.optim.tree_utils.arithmetic import tree_update_moment as tree_update_moment
from weft.optim.tree_utils.arithmetic import (
    tree_update_moment_per_elem_norm as tree_update_moment_per_elem_norm,
)
from weft.optim.tree_utils.arithmetic import tree_vdot as tree_vdot
from weft.optim.tree_utils.arithmetic import tree_where as tree_where
from weft.optim.tree_utils.arithmetic import tree_zeros_like as tree_zeros_like
from weft.optim.tree_utils.casting import tree_cast as tree_cast
from weft.optim.tree_utils.casting import tree_cast_like as tree_cast_like
from weft.optim.tree_utils.casting import tree_dtype as tree_dtype
from weft.optim.tree_utils.casting import tree_random_like as tree_random_like
from weft.optim.tree_utils.casting import tree_split_key_like as tree_split_key_like
from weft.optim.tree_utils.casting import tree_unwrap_random_key_data as tree_unwrap_random_key_data
from weft.optim.tree_utils.states import NamedTupleKey as NamedTupleKey
from weft.optim.tree_utils.states import tree_get as tree_get
from weft.optim.tree_utils.states import tree_get_all_with_path as tree_get_all_with_path
from weft.optim.tree_utils.states import tree_map_params as tree_map_params
from weft.optim.tree_utils.states import tree_set as tree_set

# Older names.
tree_scalar_mul = tree_scale
tree_add_scalar_mul = tree_add_scale
tree_l1_norm = _functools.partial(tree_norm, ord=1)
tree_l2_norm = _functools.partial(tree_norm, ord=2)
tree_linf_norm = _functools.partial(tree_norm, ord="inf")
