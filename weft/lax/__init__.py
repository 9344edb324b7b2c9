"""The operations that programs are made of, loops and conditionals, and collectives.

``weft.numpy`` is built on these. They are stricter: dtypes are not promoted, and most arguments
have no defaults. Use them for control flow (``scan``, ``while_loop``, ``cond``), for convolutions,
and for communication between devices (``psum``, ``all_gather``).

>>> from weft import lax
>>> lax.fori_loop(0, 3, lambda i, x: 2 * x, 1)
Array(8, dtype=int32, weak_type=True)
"""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    # first, since files below import functions of primitives that have the same names
    from weft.lax.shape import *
    from weft.lax.transfer import *

    # isort: split
    from weft.control.cond import cond_p as cond_p
    from weft.control.scan import scan_p as scan_p
    from weft.control.solves import linear_solve_p as linear_solve_p
    from weft.control.while_loop import while_p as while_p
    from weft.lax import linalg as linalg
    from weft.lax.composites import composite as composite
    from weft.lax.control_flow import associative_scan as associative_scan
    from weft.lax.control_flow import cond as cond
    from weft.lax.control_flow import map as map
    from weft.lax.control_flow import platform_dependent as platform_dependent
    from weft.lax.control_flow import switch as switch
    from weft.lax.convolutions import *
    from weft.lax.elementwise import *
    from weft.lax.fourier import fft as fft
    from weft.lax.generators import rng_bit_generator as rng_bit_generator
    from weft.lax.generators import rng_uniform as rng_uniform
    from weft.lax.loops import *
    from weft.lax.parallel import *
    from weft.lax.patches import conv_general_dilated_local as conv_general_dilated_local
    from weft.lax.patches import conv_general_dilated_patches as conv_general_dilated_patches
    from weft.lax.products import *
    from weft.lax.reductions import *
    from weft.lax.scaled import scaled_dot as scaled_dot
    from weft.lax.slicing import *
    from weft.lax.solves import custom_linear_solve as custom_linear_solve
    from weft.lax.solves import custom_root as custom_root
    from weft.lax.sorting import *
    from weft.lax.special import *
    from weft.lax.windows import *
    from weft.prims.arithmetic import abs_p as abs_p
    from weft.prims.arithmetic import add_p as add_p
    from weft.prims.arithmetic import ceil_p as ceil_p
    from weft.prims.arithmetic import clamp_p as clamp_p
    from weft.prims.arithmetic import complex_p as complex_p
    from weft.prims.arithmetic import conj_p as conj_p
    from weft.prims.arithmetic import div_p as div_p
    from weft.prims.arithmetic import floor_p as floor_p
    from weft.prims.arithmetic import imag_p as imag_p
    from weft.prims.arithmetic import integer_pow_p as integer_pow_p
    from weft.prims.arithmetic import is_finite_p as is_finite_p
    from weft.prims.arithmetic import max_p as max_p
    from weft.prims.arithmetic import min_p as min_p
    from weft.prims.arithmetic import mul_p as mul_p
    from weft.prims.arithmetic import mulhi_p as mulhi_p
    from weft.prims.arithmetic import neg_p as neg_p
    from weft.prims.arithmetic import nextafter_p as nextafter_p
    from weft.prims.arithmetic import real_p as real_p
    from weft.prims.arithmetic import rem_p as rem_p
    from weft.prims.arithmetic import round_p as round_p
    from weft.prims.arithmetic import sign_p as sign_p
    from weft.prims.arithmetic import square_p as square_p
    from weft.prims.arithmetic import stop_gradient_p as stop_gradient_p
    from weft.prims.arithmetic import sub_p as sub_p
    from weft.prims.bit_generator import RandomAlgorithm as RandomAlgorithm
    from weft.prims.bit_generator import rng_bit_generator_p as rng_bit_generator_p
    from weft.prims.bit_generator import rng_uniform_p as rng_uniform_p
    from weft.prims.collective import all_gather_p as all_gather_p
    from weft.prims.collective import all_to_all_p as all_to_all_p
    from weft.prims.collective import axis_index_p as axis_index_p
    from weft.prims.collective import pmax_p as pmax_p
    from weft.prims.collective import pmin_p as pmin_p
    from weft.prims.collective import ppermute_p as ppermute_p
    from weft.prims.collective import psum_p as psum_p
    from weft.prims.dot import dot_general_p as dot_general_p
    from weft.prims.exchange import ragged_all_to_all_p as ragged_all_to_all_p
    from weft.prims.fft import FftType as FftType
    from weft.prims.fft import fft_p as fft_p
    from weft.prims.index import gather_p as gather_p
    from weft.prims.index import scatter_add_p as scatter_add_p
    from weft.prims.index import scatter_max_p as scatter_max_p
    from weft.prims.index import scatter_min_p as scatter_min_p
    from weft.prims.index import scatter_mul_p as scatter_mul_p
    from weft.prims.index import scatter_p as scatter_p
    from weft.prims.index import scatter_sub_p as scatter_sub_p
    from weft.prims.ragged_dot import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
    from weft.prims.reduce import argmax_p as argmax_p
    from weft.prims.reduce import argmin_p as argmin_p
    from weft.prims.reduce import reduce_and_p as reduce_and_p
    from weft.prims.reduce import reduce_max_p as reduce_max_p
    from weft.prims.reduce import reduce_min_p as reduce_min_p
    from weft.prims.reduce import reduce_or_p as reduce_or_p
    from weft.prims.reduce import reduce_prod_p as reduce_prod_p
    from weft.prims.reduce import reduce_sum_p as reduce_sum_p
    from weft.prims.reduce import reduce_xor_p as reduce_xor_p
    from weft.prims.selection import eq_p as eq_p
    from weft.prims.selection import ge_p as ge_p
    from weft.prims.selection import gt_p as gt_p
    from weft.prims.selection import le_p as le_p
    from weft.prims.selection import lt_p as lt_p
    from weft.prims.selection import ne_p as ne_p
    from weft.prims.selection import select_n_p as select_n_p
    from weft.prims.shape import broadcast_in_dim_p as broadcast_in_dim_p
    from weft.prims.shape import concatenate_p as concatenate_p
    from weft.prims.shape import iota_p as iota_p
    from weft.prims.shape import optimization_barrier_p as optimization_barrier_p
    from weft.prims.shape import pad_p as pad_p
    from weft.prims.shape import reshape_p as reshape_p
    from weft.prims.shape import rev_p as rev_p
    from weft.prims.shape import split_p as split_p
    from weft.prims.shape import squeeze_p as squeeze_p
    from weft.prims.shape import stack_p as stack_p
    from weft.prims.shape import tile_p as tile_p
    from weft.prims.shape import transpose_p as transpose_p
    from weft.prims.shape import unstack_p as unstack_p
    from weft.prims.special import bessel_i0e_p as bessel_i0e_p
    from weft.prims.special import bessel_i1e_p as bessel_i1e_p
    from weft.prims.special import digamma_p as digamma_p
    from weft.prims.special import erf_inv_p as erf_inv_p
    from weft.prims.special import erf_p as erf_p
    from weft.prims.special import erfc_p as erfc_p
    from weft.prims.special import igamma_grad_a_p as igamma_grad_a_p
    from weft.prims.special import igamma_p as igamma_p
    from weft.prims.special import igammac_p as igammac_p
    from weft.prims.special import lgamma_p as lgamma_p
    from weft.prims.special import polygamma_p as polygamma_p
    from weft.prims.special import regularized_incomplete_beta_p as regularized_incomplete_beta_p
    from weft.prims.special import zeta_p as zeta_p
    from weft.prims.transcendental import acos_p as acos_p
    from weft.prims.transcendental import acosh_p as acosh_p
    from weft.prims.transcendental import asin_p as asin_p
    from weft.prims.transcendental import asinh_p as asinh_p
    from weft.prims.transcendental import atan2_p as atan2_p
    from weft.prims.transcendental import atan_p as atan_p
    from weft.prims.transcendental import atanh_p as atanh_p
    from weft.prims.transcendental import cbrt_p as cbrt_p
    from weft.prims.transcendental import cos_p as cos_p
    from weft.prims.transcendental import cosh_p as cosh_p
    from weft.prims.transcendental import exp2_p as exp2_p
    from weft.prims.transcendental import exp_p as exp_p
    from weft.prims.transcendental import expm1_p as expm1_p
    from weft.prims.transcendental import log1p_p as log1p_p
    from weft.prims.transcendental import log_p as log_p
    from weft.prims.transcendental import logistic_p as logistic_p
    from weft.prims.transcendental import pow_p as pow_p
    from weft.prims.transcendental import rsqrt_p as rsqrt_p
    from weft.prims.transcendental import sin_p as sin_p
    from weft.prims.transcendental import sinh_p as sinh_p
    from weft.prims.transcendental import sqrt_p as sqrt_p
    from weft.prims.transcendental import tan_p as tan_p
    from weft.prims.transcendental import tanh_p as tanh_p

    # last, since they import functions of primitives that have the names of functions above
    # isort: split
    from weft.control.reductions import *
    from weft.prims.bits import *
    from weft.prims.conv import *
    from weft.prims.convert import *
    from weft.prims.cumulative import *
    from weft.prims.index_dims import *
    from weft.prims.order import *
    from weft.prims.precision import *
    from weft.prims.slice import *
    from weft.prims.sort import *
    from weft.prims.transfer import *
    from weft.prims.window import *
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        ("linalg",),
        {
            "weft.control.cond": "cond_p",
            "weft.control.reductions": "reduce_p reduce_window_p select_and_scatter_p",
            "weft.control.scan": "scan_p",
            "weft.control.solves": "linear_solve_p",
            "weft.control.while_loop": "while_p",
            "weft.lax.composites": "composite",
            "weft.lax.control_flow": "associative_scan cond map platform_dependent switch",
            "weft.lax.convolutions": (
                "ConvGeneralDilatedDimensionNumbers conv conv_dimension_numbers "
                "conv_general_dilated conv_general_permutations conv_general_shape_tuple "
                "conv_shape_tuple conv_transpose conv_transpose_shape_tuple "
                "conv_with_general_padding"
            ),
            "weft.lax.elementwise": (
                "AccuracyMode RoundingMethod Tolerance abs acos acosh add asin asinh atan atan2 "
                "atanh bitcast_convert_type bitwise_and bitwise_not bitwise_or bitwise_xor cbrt "
                "ceil clamp clz complex conj convert_element_type cos cosh div dtype eq exp exp2 "
                "expm1 floor full full_like ge gt imag integer_pow is_finite le log log1p "
                "logistic lt max min mul mulhi ne neg nextafter population_count pow real "
                "reciprocal reduce_precision rem round rsqrt select select_n shift_left "
                "shift_right_arithmetic shift_right_logical sign sin sinh sqrt square "
                "stop_gradient sub tan tanh"
            ),
            "weft.lax.fourier": "fft",
            "weft.lax.generators": "rng_bit_generator rng_uniform",
            "weft.lax.loops": "fori_loop scan while_loop",
            "weft.lax.parallel": (
                "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin "
                "ppermute precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all"
            ),
            "weft.lax.patches": "conv_general_dilated_local conv_general_dilated_patches",
            "weft.lax.products": (
                "DotDimensionNumbers batch_matmul dot dot_general ragged_dot ragged_dot_general"
            ),
            "weft.lax.reductions": (
                "argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce reduce_and "
                "reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor"
            ),
            "weft.lax.scaled": "scaled_dot",
            "weft.lax.shape": (
                "broadcast broadcast_in_dim broadcast_like broadcast_shapes broadcast_to_rank "
                "broadcasted_iota collapse concatenate empty expand_dims iota "
                "optimization_barrier pad reshape rev shape_as_value split squeeze stack tile "
                "transpose unstack"
            ),
            "weft.lax.slicing": (
                "dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim "
                "dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim "
                "gather index_in_dim index_take scatter scatter_add scatter_apply scatter_max "
                "scatter_min scatter_mul scatter_sub slice slice_in_dim"
            ),
            "weft.lax.solves": "custom_linear_solve custom_root",
            "weft.lax.sorting": "approx_max_k approx_min_k sort sort_key_val top_k",
            "weft.lax.special": (
                "bessel_i0e bessel_i1e betainc digamma erf erf_inv erfc igamma igamma_grad_a "
                "igammac lgamma polygamma random_gamma_grad zeta"
            ),
            "weft.lax.transfer": "after_all create_token dce_sink stage with_sharding_constraint",
            "weft.lax.windows": "padtype_to_pads reduce_window reduce_window_shape_tuple",
            "weft.prims.arithmetic": (
                "abs_p add_p ceil_p clamp_p complex_p conj_p div_p floor_p imag_p integer_pow_p "
                "is_finite_p max_p min_p mul_p mulhi_p neg_p nextafter_p real_p rem_p round_p "
                "sign_p square_p stop_gradient_p sub_p"
            ),
            "weft.prims.bit_generator": "RandomAlgorithm rng_bit_generator_p rng_uniform_p",
            "weft.prims.bits": (
                "and_p clz_p not_p or_p population_count_p shift_left_p shift_right_arithmetic_p "
                "shift_right_logical_p xor_p"
            ),
            "weft.prims.collective": (
                "all_gather_p all_to_all_p axis_index_p pmax_p pmin_p ppermute_p psum_p"
            ),
            "weft.prims.conv": "ConvDimensionNumbers conv_general_dilated_p",
            "weft.prims.convert": (
                "bitcast_convert_type_p convert_element_type_p copy_p reduce_precision_p"
            ),
            "weft.prims.cumulative": "cumlogsumexp_p cummax_p cummin_p cumprod_p cumsum_p",
            "weft.prims.dot": "dot_general_p",
            "weft.prims.exchange": "ragged_all_to_all_p",
            "weft.prims.fft": "FftType fft_p",
            "weft.prims.index": (
                "gather_p scatter_add_p scatter_max_p scatter_min_p scatter_mul_p scatter_p "
                "scatter_sub_p"
            ),
            "weft.prims.index_dims": (
                "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers"
            ),
            "weft.prims.order": "eq_to_p le_to_p lt_to_p",
            "weft.prims.precision": "DotAlgorithm DotAlgorithmPreset Precision PrecisionLike",
            "weft.prims.ragged_dot": "RaggedDotDimensionNumbers",
            "weft.prims.reduce": (
                "argmax_p argmin_p reduce_and_p reduce_max_p reduce_min_p reduce_or_p "
                "reduce_prod_p reduce_sum_p reduce_xor_p"
            ),
            "weft.prims.selection": "eq_p ge_p gt_p le_p lt_p ne_p select_n_p",
            "weft.prims.shape": (
                "broadcast_in_dim_p concatenate_p iota_p optimization_barrier_p pad_p reshape_p "
                "rev_p split_p squeeze_p stack_p tile_p transpose_p unstack_p"
            ),
            "weft.prims.slice": "dynamic_slice_p dynamic_update_slice_p slice_p",
            "weft.prims.sort": "approx_top_k_p sort_p top_k_p",
            "weft.prims.special": (
                "bessel_i0e_p bessel_i1e_p digamma_p erf_inv_p erf_p erfc_p igamma_grad_a_p "
                "igamma_p igammac_p lgamma_p polygamma_p regularized_incomplete_beta_p zeta_p"
            ),
            "weft.prims.transcendental": (
                "acos_p acosh_p asin_p asinh_p atan2_p atan_p atanh_p cbrt_p cos_p cosh_p exp2_p "
                "exp_p expm1_p log1p_p log_p logistic_p pow_p rsqrt_p sin_p sinh_p sqrt_p tan_p "
                "tanh_p"
            ),
            "weft.prims.transfer": (
                "after_all_p create_token_p dce_sink_p device_put_p sharding_constraint_p stage_p"
            ),
            "weft.prims.window": (
                "reduce_window_max_p reduce_window_min_p reduce_window_sum_p "
                "select_and_gather_add_p select_and_scatter_add_p"
            ),
        },
    )
