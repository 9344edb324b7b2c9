"""Every public function called as its signature allows: odd dtypes, empty arrays, wrong input.

What JAX accepts is recorded with its result, what it refuses with the class of its error.
"""

import re
from typing import Any

import numpy as np

from tools import api_coverage

from ..table import Adder, Tol, family, path

# Input and output, global settings, tokens, and results that JAX leaves undefined.
SKIPPED = frozenset(
    "load save savez fromfile fromstring fromiter set_printoptions get_printoptions printoptions"
    " empty empty_like from_dlpack frombuffer create_token after_all rng_uniform composite"
    " with_sharding_constraint psend precv ragged_all_to_all frompyfunc vectorize iterable"
    " array_repr array_str stage dce_sink pbroadcast pcast shape_as_value einsum_path"
    " fft_type optimization_barrier get_scaled_dot_general_config gaussian_kde minimize".split()
)
# What needs a real problem to say anything: their own tables have them.
BY_HAND = frozenset(
    "conv conv_general_dilated conv_general_dilated_local conv_general_dilated_patches"
    " conv_transpose conv_with_general_padding reduce_window scan while_loop fori_loop cond switch"
    " map custom_root custom_linear_solve reduce associative_scan scatter scatter_add scatter_apply"
    " scatter_max scatter_min scatter_mul scatter_sub gather platform_dependent all_gather"
    " all_to_all axis_index axis_size pmax pmean pmin ppermute pshuffle psum psum_scatter pswapaxes"
    " rng_bit_generator approx_max_k approx_min_k scaled_dot ragged_dot ragged_dot_general"
    " random_gamma_grad bessel_jn sph_harm_y bernoulli ufunc clz acosh stop_gradient".split()
)
# Parameters that are no arrays: functions that need them are called with too few or unknown ones.
STRUCTURE = frozenset(
    "axes shape axis dtype M N dimension_numbers indices_or_sections dimensions lhs_shape rhs_shape"
    " window_strides padding start_indices start_index index func kth obj reps index_dtype d k"
    " new_dtype sizes dimension func1d from_ to subscripts function int_type kind arg1 arg2 dims"
    " mask_func source destination pad_width funclist deg ind multi_index new_shape shift axis1"
    " axis2 broadcast_dimensions rank start_dimension strides pads slice_sizes slice_size fft_type"
    " fft_lengths idxs size padding_value padding_config exponent_bits mantissa_bits new_sizes"
    " limit_indices limit_index permutation num_classes c_and_lower lu_and_piv repeats in_shape"
    " window_shape operand_shape window_dimensions condlist choicelist choices element".split()
)
BY_ACCIDENT = "the class of JAX's error comes from a line further in, ours names the argument"
NARROW = "JAX's transforms refuse float16, ours are computed in float32"
# Cases that are not made, with the reason: here weft does better, or JAX has no rule.
DIFFERENCES = {
    **dict.fromkeys(
        "rfft/typed/f16 rfft2/typed/f16 rfftn/typed/f16 ihfft/typed/f16 csd/typed/f16"
        " fftconvolve/typed/f16 stft/typed/f16 welch/typed/f16".split(),
        NARROW,
    ),
    **dict.fromkeys(
        "standardize/axis/out hessenberg/list hessenberg/none hessenberg/object dct/n/zero"
        " idct/n/zero dctn/typed/empty idctn/typed/empty conj/none full_like/none"
        " stack/typed/empty argmax/axis/out argmin/axis/out nanargmax/axis/out nanargmin/axis/out"
        " mean/axis/out std/axis/out var/axis/out linspace/axis/out logspace/axis/out average/list"
        " average/axis/text gradient/none take/typed/c64 percentile/axis/text quantile/axis/text"
        " nanpercentile/axis/text nanquantile/axis/text"
        " block_diag/none expm/none ndtri/none polydiv/typed/empty polydiv/shapes".split(),
        BY_ACCIDENT,
    ),
    "array_equiv/shapes": "arrays whose shapes do not fit are not equal, says NumPy",
    "clamp/typed/c64": "complex numbers have no order",
    "broadcast_shapes/typed/empty": "an array is no list of shapes",
    **dict.fromkeys(
        "expi/typed/i32 expi/typed/bool expi/typed/f16 expn/typed/f16 logit/typed/c64".split(),
        "JAX gives NaN where SciPy has a value",
    ),
    **dict.fromkeys(
        "owens_t/typed/c64 hyp2f1/typed/c64".split(), "a function of real numbers refuses others"
    ),
    "owens_t/typed/f16": "the result keeps the type of the operands",
    "owens_t/shapes": BY_ACCIDENT,
    "idct/typed/f16": "JAX rounds to float16 on the way",
    "conj/typed/f16": "there is a complex type for it: complex64",
}
TYPES = re.compile(
    r"(u?int_?\d*|b?float\d\w*|float_|complex_|complex\d+|bool_?|cdouble|csingle|single|double)$"
)
# Their results are not defined beyond a sign, an order or a rounding.
LOOSE = frozenset("eig eigh svd qr schur hessenberg lu_factor roots poly lstsq householder".split())

# The other arguments of functions of one array that need them.
REST: dict[str, tuple[Any, ...]] = {
    "argpartition": (1,),
    "array_split": (2,),
    "astype": (np.float16,),
    "broadcast_to": ((2, 3, 3),),
    "delete": (1,),
    "expand_dims": (0,),
    "moveaxis": (0, -1),
    "one_hot": (3,),
    "pad": (1,),
    "partition": (1,),
    "matrix_power": (2,),
    "repeat": (2,),
    "reshape": ((-1,),),
    "resize": ((2, 2),),
    "roll": (1,),
    "rollaxis": (0,),
    "split": (1,),
    "swapaxes": (0, -1),
    "tile": (2,),
    "multigammaln": (2,),
}


def parameters(module: str) -> dict[str, list[tuple[str, str, str | None]]]:
    """The functions of a module with their parameters, as the list of JAX's names has them."""
    found = {}
    for name, text in api_coverage.read_list()[f"jax.{module}"].items():
        listed = api_coverage.listed_parameters(text)
        left = name in SKIPPED or name in BY_HAND or name[0].isupper() or bool(TYPES.match(name))
        if listed and not left:
            found[name] = listed
    return found


def required(listed: list[tuple[str, str, str | None]]) -> int:
    """How many arguments must be given by their place."""
    variable = any(kind == "VAR_POSITIONAL" for _, kind, _ in listed)
    kinds = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
    count = sum(kind in kinds and default is None for _, kind, default in listed)
    return 2 if variable and not count else count


def structural(module: str, listed: list[tuple[str, str, str | None]]) -> bool:
    """Whether an argument that must be given is no array."""
    names = STRUCTURE if module == "scipy.special" else STRUCTURE | {"n"}
    return any(name in names and default is None for name, _, default in listed)


def accepts(listed: list[tuple[str, str, str | None]], name: str) -> bool:
    return any(item == name and kind != "VAR_KEYWORD" for item, kind, _ in listed)


ODD: dict[str, Any] = {
    "list": [1.0, 2.0],
    "text": "a",
    "none": None,
    "object": {"a": 1},
}
TYPED: dict[str, np.ndarray] = {
    "i32": np.array([[1, 2, 3], [4, 0, 2]], np.int32),
    "bool": np.array([[True, False, True], [True, True, False]]),
    "f16": np.array([[0.25, 0.5, 0.75], [1.0, 0.125, 0.5]], np.float16),
    "c64": np.array([[0.25 + 1j, 0.5, 0.75], [1.0, 0.5j, 0.5]], np.complex64),
    "empty": np.zeros((0, 3), np.float32),
}
KEYWORDS: dict[str, dict[str, Any]] = {
    "axis": {"out": 9, "text": "a", "twice": (0, 0), "neg": (-1,)},
    "dtype": {
        "wrong": "wrong",
        "f16": np.float16,
    },
    "keepdims": {"true": True},
    "out": {"none": None, "array": np.zeros((), np.float32)},
    "where": {"true": True},
    "initial": {"zero": 0.0},
    "mode": {"wrong": "wrong", "clip": "clip"},
    "method": {"wrong": "wrong"},
    "size": {"two": 2, "below": -1, "text": "a"},
    "order": {"wrong": "wrong", "F": "F"},
    "norm": {"wrong": "wrong", "ortho": "ortho", "forward": "forward"},
    "n": {"zero": 0, "below": -2},
    "side": {"wrong": "wrong"},
    "ddof": {"two": 2},
    "UPLO": {"wrong": "wrong"},
    "lower": {"true": True},
    "precision": {"wrong": "wrong"},
}


def sweep(adder: Adder, module: str, prefix: str) -> None:
    """All calls of one module."""

    def add(key: str, fn: Any, args: Any = (), **options: Any) -> None:
        if key not in DIFFERENCES:
            adder(key, fn, args, error="maybe", **options)

    x = np.array([[0.25, 0.5, 0.75], [1.0, 0.125, 0.5]], np.float32)
    for name, listed in parameters(module).items():
        count, get = required(listed), path(f"{prefix}.{name}")
        tol = Tol(4096, True) if name in LOOSE else None
        add(f"{name}/few", lambda J, g=get: g(J)())
        unknown = lambda J, g=get, n=count: g(J)(*[1.0] * n, no_such_argument=1)
        add(f"{name}/unknown", unknown)
        if not count or structural(module, listed):
            continue
        for label, value in ODD.items():
            fn = lambda J, g=get, n=count, v=value: g(J)(*[v] * n)
            add(f"{name}/{label}", fn, modes=("value",), tol=tol)
        if name in LOOSE:
            continue
        for label, array in TYPED.items():
            fn = lambda J, a, g=get, n=count: g(J)(*[a] * n)
            key = f"{name}/typed/{label}"
            add(key, fn, [array], tol=tol)
        if count > 1:
            fn = lambda J, a, b, g=get, n=count: g(J)(a, b, *[a] * (n - 2))
            add(f"{name}/shapes", fn, [x, x[:, :2]], tol=tol)
        for keyword, values in KEYWORDS.items():
            if not accepts(listed, keyword):
                continue
            for label, value in values.items():
                fn = lambda J, a, g=get, n=count, k=keyword, v=value: g(J)(*[a] * n, **{k: v})
                key = f"{name}/{keyword}/{label}"
                add(key, fn, [x], tol=tol)


@family("every_numpy", Tol(64, True))
def every_numpy(add: Adder) -> None:
    """numpy: all functions."""
    sweep(add, "numpy", "jnp")


@family("every_linalg", Tol(512, True))
def every_linalg(add: Adder) -> None:
    """numpy.linalg: all functions."""
    sweep(add, "numpy.linalg", "jnp.linalg")


@family("every_fft", Tol(64, True))
def every_fft(add: Adder) -> None:
    """numpy.fft: all functions."""
    sweep(add, "numpy.fft", "jnp.fft")


@family("every_lax", Tol(64, True))
def every_lax(add: Adder) -> None:
    """lax: all functions that need no program as an argument."""
    sweep(add, "lax", "lax")


@family("every_nn", Tol(64, True))
def every_nn(add: Adder) -> None:
    """nn: all functions."""
    sweep(add, "nn", "nn")


@family("every_special", Tol(512, True))
def every_special(add: Adder) -> None:
    """scipy.special: all functions."""
    sweep(add, "scipy.special", "special")


@family("every_scipy_linalg", Tol(512, True))
def every_scipy_linalg(add: Adder) -> None:
    """scipy.linalg: all functions."""
    sweep(add, "scipy.linalg", "sla")


@family("every_signal", Tol(512, True))
def every_signal(add: Adder) -> None:
    """scipy.signal, fft and stats: all functions."""
    sweep(add, "scipy.signal", "signal")
    sweep(add, "scipy.fft", "sfft")
    sweep(add, "scipy.stats", "stats")
