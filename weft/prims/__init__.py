"""First-order primitives with all their rules, one family a file."""

from weft.core import registry as _registry

# which file has which: they are loaded when first asked for
_registry.declare(
    __name__,
    {
        "arithmetic": (
            "add_any add sub neg mul div rem mulhi square integer_pow sign abs floor ceil "
            "round is_finite nextafter max min real imag complex conj clamp stop_gradient"
        ),
        "attention": "attention attention_backward decode_attention packed_attention"
        " packed_attention_backward",
        "bit_generator": "rng_bit_generator rng_uniform",
        "bits": (
            "not and or xor population_count clz shift_left shift_right_logical "
            "shift_right_arithmetic"
        ),
        "collective": (
            "psum pmax pmin pvary pshared pcast ppermute pbroadcast all_gather reduce_scatter "
            "all_to_all axis_index"
        ),
        "sums": "sum_to_parts parts_to_sum shared_to_parts parts_to_shared",
        "conv": "conv_general_dilated",
        "convert": "convert_element_type bitcast_convert_type reduce_precision copy copy_p",
        "cumulative": "cumsum cumprod cumlogsumexp cummax cummin",
        "dimension": "dim_as_value",
        "dot": "dot_general",
        "extreme_tangent": "extreme_tangent",
        "exchange": "ragged_all_to_all psend precv",
        "fft": "fft",
        "index": "gather scatter scatter-add scatter-sub scatter-mul scatter-min scatter-max",
        "linalg.cholesky": "cholesky cholesky_update symmetric_product",
        "linalg.eigen": "eigh eig schur hessenberg tridiagonal",
        "linalg.lu": "lu lu_pivots_to_permutation",
        "linalg.qr": "geqrf geqp3 householder_product ormqr qr",
        "linalg.solve": "triangular_solve tridiagonal_solve",
        "linalg.svd": "svd",
        "linalg.sylvester": "triangular_sylvester",
        "order": "eq_to le_to lt_to",
        "ragged_dot": "ragged_dot_general",
        "processes": "process_all_gather process_all_to_all process_permute process_fault",
        "random": (
            "random_seed random_split random_fold_in random_bits random_clone random_wrap "
            "random_unwrap"
        ),
        "random_draws": "random_gamma random_poisson random_binomial",
        "reduce": (
            "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor "
            "argmax argmin"
        ),
        "selection": "eq ne ge gt le lt select_n zero_untaken",
        "shape": (
            "broadcast_in_dim reshape squeeze transpose rev concatenate split stack unstack "
            "pad tile iota empty optimization_barrier"
        ),
        "slice": "slice dynamic_slice dynamic_update_slice",
        "sort": "sort partition top_k approx_top_k",
        "special": (
            "erf erfc erf_inv lgamma digamma polygamma zeta igamma igammac igamma_grad_a "
            "random_gamma_grad regularized_incomplete_beta bessel_i0e bessel_i1e"
        ),
        "threefry": "threefry2x32 iota_2x32_shape",
        "transcendental": (
            "exp exp2 log expm1 log1p tanh logistic sin cos tan asin acos atan atan2 sinh "
            "cosh asinh acosh atanh sqrt rsqrt cbrt pow"
        ),
        "transfer": (
            "device_put sharding_constraint reshard create_token after_all dce_sink stage"
        ),
        "window": (
            "reduce_window_sum reduce_window_max reduce_window_min select_and_gather_add "
            "select_and_scatter_add"
        ),
    },
)

# references are primitives of a room far above, which little needs
_registry.declare(
    "weft.state", {"primitives": "new_ref empty_ref get swap addupdate freeze free_ref"}
)
_registry.declare("weft.experimental", {"representation": "to_edtype from_edtype"})
