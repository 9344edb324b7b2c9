"""Random calls of public functions, as plain data that either library can run.

A drawn call names a function, its arguments, a setting and a nesting of transformations. Everything
is JSON, so that a call can be recorded with JAX's answer and replayed without JAX.
"""

from __future__ import annotations

import random
from typing import Any

from tools import api_coverage

from .programs import PROGRAMS

Value = Any  # JSON: plain values, or a list whose first item says what the rest is

MODULES = (
    "numpy numpy.linalg numpy.fft lax lax.linalg nn nn.initializers random image ops scipy.special"
    " scipy.linalg scipy.signal scipy.fft scipy.stats scipy.integrate scipy.interpolate"
    " scipy.ndimage scipy.cluster.vq"
).split()
STATS = [m[4:] for m in api_coverage.read_list() if m.startswith("jax.scipy.stats.")]

# Files, global settings, tokens, results that are not defined, and functions that take programs,
# which programs.py has; dtypes with which JAX's compiler ends the process.
SKIPPED = frozenset(
    "load save savez fromfile fromstring fromiter set_printoptions get_printoptions printoptions"
    " empty empty_like from_dlpack frombuffer create_token after_all rng_uniform composite psend"
    " precv ragged_all_to_all frompyfunc vectorize iterable array_repr array_str stage dce_sink"
    " pbroadcast pcast shape_as_value einsum_path fft_type optimization_barrier gaussian_kde"
    " get_scaled_dot_general_config minimize scan while_loop fori_loop cond switch map custom_root"
    " custom_linear_solve reduce associative_scan scatter scatter_add scatter_apply scatter_max"
    " scatter_min scatter_mul scatter_sub gather platform_dependent all_gather all_to_all"
    " axis_index axis_size pmax pmean pmin ppermute pshuffle psum psum_scatter pswapaxes"
    " apply_along_axis apply_over_axes fromfunction piecewise with_sharding_constraint"
    " reduce_window ufunc random_gamma_grad asarray_chkfinite dot_general"
    " conv_general_dilated_local rng_bit_generator scaled_matmul reduce_precision key_impl"
    " wrap_key_data random_wrap float4_e2m1fn float6_e2m3fn float6_e3m2fn".split()
)
# Results that are not defined beyond a sign, an order or a rounding: types are compared only.
LOOSE = frozenset(
    "eig eigh eigvals eigvalsh svd svdvals qr schur hessenberg lu lu_factor roots poly lstsq pinv"
    " householder_product tridiagonal expm logm sqrtm funm polar rsf2csf lu_solve solve inv"
    " tensorsolve tensorinv cond matrix_rank solve_triangular cho_solve cho_factor cholesky"
    " cholesky_update tridiagonal_solve triangular_solve eigh_tridiagonal symmetric_product det"
    " slogdet matrix_power polyfit cov corrcoef solve_sylvester geqrf geqp3 ormqr"
    " triangular_solve gauss_seidel polydiv hilbert invhilbert fixed_quad rel_entr".split()
)

FLOATS = ["float32"] * 8 + ["bfloat16", "float16"]
DTYPES = (
    FLOATS * 2 + "int32 int32 int32 bool bool uint8 int8 int16 uint32 complex64 complex64".split()
)
WIDE = "float64 float64 float64 int64 complex128 float32 int32 bool uint64".split()
SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8)


class Draw:
    """The random choices of one call."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.wide = False
        self.count = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    # --- arrays -----------------------------------------------------------------------------------

    def shape(self, most: int = 4, least: int = 0) -> list[int]:
        ndim = self.rng.choice([n for n in (0, 1, 1, 2, 2, 2, 3, 3, 4) if least <= n <= most])
        shape = [self.rng.choice(SIZES) for _ in range(ndim)]
        if shape and self.chance(0.04):
            shape[self.rng.randrange(ndim)] = 0
        if shape and ndim < 3 and self.chance(0.05):
            shape[self.rng.randrange(ndim)] = self.rng.choice((33, 130, 1025))
        return shape

    def dtype(self) -> str:
        return self.rng.choice(WIDE if self.wide and self.chance(0.7) else DTYPES)

    def array(self, shape: Any = None, dtype: str | None = None, domain: str = "") -> Value:
        shape = self.shape() if shape is None else list(shape)
        dtype = dtype or self.dtype()
        domain = domain or self.rng.choice(("normal", "normal", "normal", "unit", "small"))
        self.count += 1
        return ["array", shape, dtype, self.rng.randrange(1 << 16), domain]

    def near(self, shape: list[int]) -> list[int]:
        """A shape that often goes with another one."""
        roll = self.rng.random()
        if roll < 0.6:
            return list(shape)
        if roll < 0.75 and shape:
            return [1 if self.chance(0.4) else n for n in shape]
        if roll < 0.85 and shape:
            return shape[self.rng.randrange(len(shape)) :]
        return [] if roll < 0.93 else self.shape()

    def scalar(self) -> Value:
        return self.rng.choice((0, 1, 2, -1, 3, 0.5, 2.0, -1.5, True, 0.0))

    def axis(self, ndim: int) -> Value:
        if self.chance(0.06):
            return self.rng.choice((ndim, -ndim - 1, 7))
        return self.rng.randrange(-ndim, ndim) if ndim else self.rng.choice((0, -1))

    def axes(self, ndim: int) -> Value:
        roll = self.rng.random()
        if roll < 0.55:
            return self.axis(ndim)
        if roll < 0.65:
            return None
        picked = self.rng.sample(range(ndim), self.rng.randint(0, ndim))
        return ["tuple", *[n - ndim if self.chance(0.3) else n for n in picked]]


# --- parameters by name ---------------------------------------------------------------------------

ARRAYS = frozenset(
    "a x y z b c m v p q t u w arr array ary operand operands x1 x2 lhs rhs left right xp fp"
    " logits labels bias weights values data samples arrays tup mean cov loc scale df lam alpha"
    " beta concentration rate lower_bound upper_bound low high minval maxval key_data log_rates"
    " nonnegative image images obs code_book xs ys zs real imag start stop base d"
    " val element fill_value initial padding_value init_value query value mask segment_ids".split()
)
TEXTS = {
    "mode": "same valid full clip wrap raise fill reflect constant edge symmetric nearest drop"
    " promise_in_bounds complete economic reduced",
    "method": "linear lower higher nearest midpoint bilinear cubic lanczos3 sort compare_all scan"
    " scan_unrolled cholesky svd eigh",
    "norm": "ortho forward backward",
    "side": "left right",
    "order": "C F K A",
    "indexing": "ij xy",
    "UPLO": "U L",
    "kind": "introsort stable",
    "casting": "no safe same_kind",
    "window": "hann hamming boxcar",
    "detrend": "constant linear",
    "scaling": "density spectrum",
    "resize_method": "linear nearest",
    "unroll": "",
    "distribution": "normal uniform truncated_normal",
    "ord": "fro nuc",
}
AXIS = frozenset("axis dimension axis1 axis2 axisa axisb axisc".split())
COUNTS = frozenset(
    "size num n N M k deg num_classes num_segments length total_repeat_length repeats shift nperseg"
    " count depth decimals ddof correction offset rank nbins bins kth".split()
)
FLAGS = frozenset(
    "keepdims keepdim sorted_ descending stable lower upper unique_indices indices_are_sorted"
    " full_matrices compute_uv hermitian endpoint retstep assume_unique invert replace"
    " return_index return_inverse return_counts equal_nan approximate sparse density increasing"
    " left_side conjugate_a transpose_a unit_diagonal bias rowvar ravel copy correction_"
    " antialias is_stable reverse nan promote_integers return_sign adjoint assume_a_ overwrite_a"
    " check_finite wrap_angle include_initial axis_wise trim_ unwrap".split()
)


def value_for(draw: Draw, name: str, default: str | None, shape: list[int], module: str) -> Value:
    """A value for a parameter, by its name."""
    ndim = len(shape)
    rng = draw.rng
    if name == "key" or (module == "random" and name in ("keys", "key1")):
        return ["key", rng.randrange(9)]
    if name in (
        "axis",
        "dimension",
        "axis1",
        "axis2",
        "cumulative_axis",
        "axisa",
        "axisb",
        "axisc",
    ):
        return draw.axes(ndim) if name == "axis" and draw.chance(0.3) else draw.axis(ndim)
    if name in ("axes", "dimensions", "dims", "source", "destination"):
        return draw.axes(ndim) if draw.chance(0.7) else ["tuple", *range(ndim)][: ndim + 1]
    if name in ("permutation",):
        return ["tuple", *rng.sample(range(ndim), ndim)]
    if name in ("dtype", "new_dtype", "preferred_element_type", "index_dtype", "out_dtype"):
        return ["dtype", draw.dtype()]
    if name in ("shape", "sizes", "newshape", "new_sizes", "out_shape", "target_shape", "s"):
        return shape_value(draw, shape, name)
    if TEXTS.get(name):
        return rng.choice(TEXTS[name].split())
    if name in FLAGS:
        return draw.chance(0.6)
    if name in COUNTS:
        return rng.choice((0, 1, 1, 2, 2, 3, 4, 5, -1))
    if name in ("indices", "ind", "index", "obj", "idx", "idxs", "start_indices", "start_index"):
        roll = rng.random()
        if roll < 0.5:
            return draw.array(draw.shape(2), rng.choice(("int32", "uint8", "int16")), "index")
        return rng.choice((0, 1, -1, 2, 9))
    if name in ("where", "condition", "mask", "which", "pred"):
        return draw.array(draw.near(shape), "bool")
    if name in ("reps",):
        return rng.choice((2, ["tuple", 2, 1], ["tuple", 1, 2, 1]))
    if name in ("pad_width",):
        return rng.choice((1, ["tuple", 1, 2], ["tuple", *[["tuple", 1, 0]] * ndim]))
    if name in ("indices_or_sections",):
        return rng.choice((1, 2, 3, ["list", 1, 2], ["tuple", 0, 1]))
    if name in ("rtol", "atol", "eps", "tol", "rcond", "negative_slope", "temperature", "stddev"):
        return rng.choice((1e-3, 0.1, 0.5))
    if name in ("precision",):
        return rng.choice(("highest", "default", "float32", None))
    if name in ("arrays", "tup", "operands", "seq", "choicelist", "condlist"):
        return ["list", *[draw.array(draw.near(shape)) for _ in range(rng.choice((1, 2, 2, 3)))]]
    if name in ("subscripts",):
        return rng.choice(("ij,jk->ik", "i,i->", "...i,...i->...", "ij->ji", "ii->i", "ab,bc,cd"))
    if name in ARRAYS or default is None:
        return operand(draw, name, shape)
    return default_like(draw, default)


def operand(draw: Draw, name: str, shape: list[int]) -> Value:
    if name == "segment_ids":
        return draw.array(shape[:1] or [3], "int32", "index")
    if name in ("lam", "df", "alpha", "concentration", "rate", "scale", "nonnegative", "beta"):
        return draw.array(draw.near(shape), draw.rng.choice(FLOATS), "positive")
    if draw.chance(0.12):
        return draw.scalar()
    return draw.array(draw.near(shape))


def shape_value(draw: Draw, shape: list[int], name: str) -> Value:
    roll = draw.rng.random()
    if roll < 0.35:
        size = 1
        for n in shape:
            size *= n
        return draw.rng.choice((-1, size, ["tuple", -1], ["tuple", size, 1], ["tuple", 1, -1]))
    if roll < 0.6:
        return ["tuple", *draw.rng.sample(shape, len(shape))]
    return ["tuple", *draw.shape(3)]


def default_like(draw: Draw, default: str) -> Value:
    if default in ("True", "False"):
        return draw.chance(0.5)
    if default.lstrip("-").isdigit():
        return draw.rng.choice((0, 1, 2, 3, -1))
    if default.replace(".", "", 1).replace("-", "", 2).replace("e", "", 1).isdigit():
        return draw.rng.choice((0.0, 0.5, 1.0, 2.0))
    return draw.scalar() if draw.chance(0.5) else None


# --- whole calls ----------------------------------------------------------------------------------

SETTINGS = ("plain",) * 10 + (
    "x64",
    "x64",
    "rank",
    "strict",
    "nans",
    "leaks",
    "auto mesh",
    "auto mesh",
    "explicit mesh",
    "explicit mesh",
)
NESTINGS = ("call",) * 8 + (
    "jit",
    "jit",
    "jit",
    "vmap",
    "vmap",
    "vmap last",
    "grad",
    "grad",
    "jvp",
    "vjp",
    "jit vmap",
    "vmap grad",
    "jit grad",
    "grad checkpoint",
    "eval_shape",
    "scan",
    "cond",
    "jacfwd",
    "jacrev",
    "linearize",
    "grad grad",
    "vmap vmap",
    "shard_map",
)

FUNCTIONS: list[tuple[str, str, list[Any]]] = []
for _module in [*MODULES, *STATS]:
    for _name, _text in api_coverage.read_list().get(f"jax.{_module}", {}).items():
        _listed = api_coverage.listed_parameters(_text)
        if _listed and _name not in SKIPPED and not _name[0].isupper() and _name[0] != "_":
            FUNCTIONS.append((_module, _name, _listed))
METHODS = [
    (name, api_coverage.listed_parameters(text) or [])
    for name, text in api_coverage.read_list()["jax.Array"].items()
    if name[0] != "_"
    and name
    not in "at addressable_data addressable_shards block_until_ready copy_to_host_async delete"
    " device devices format global_shards is_deleted is_fully_addressable is_fully_replicated"
    " is_ready sharding on_device_size_in_bytes unsafe_buffer_pointer traceback committed aval"
    " tobytes platform".split()
]
OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift eq ne lt le gt ge"


def call(seed: int) -> dict[str, Any]:
    """The call of a seed."""
    draw = Draw(seed)
    setting = draw.rng.choice(SETTINGS)
    draw.wide = setting == "x64"
    roll = draw.rng.random()
    if roll < 0.62:
        made = of_function(draw)
    elif roll < 0.70:
        made = of_method(draw)
    elif roll < 0.78:
        made = of_index(draw)
    elif roll < 0.83:
        made = of_operator(draw)
    else:
        name = draw.rng.choice(sorted(PROGRAMS))
        made = {"program": name, "args": PROGRAMS[name].draw(draw)}
    nests = PROGRAMS[made["program"]].nestings if "program" in made else NESTINGS
    return {**made, "setting": setting, "nest": draw.rng.choice(nests)}


def of_function(draw: Draw) -> dict[str, Any]:
    module, name, listed = draw.rng.choice(FUNCTIONS)
    shape = draw.shape(least=1 if "linalg" in module or "fft" in module else 0)
    if "linalg" in module and draw.chance(0.7):
        shape = [*draw.shape(1), *[draw.rng.choice((2, 3, 4))] * 2]
    if module == "image":
        shape = [draw.rng.choice((3, 4, 6)), draw.rng.choice((3, 5)), draw.rng.choice((1, 3))]
    args: list[Value] = []
    options: dict[str, Value] = {}
    for parameter, kind, default in listed:
        if parameter in ("out", "_dot_general", "device", "out_sharding", "self"):
            continue
        if kind == "VAR_POSITIONAL":
            count = draw.rng.choice((1, 2, 2, 3))
            args += [value_for(draw, "x", None, shape, module) for _ in range(count)]
        elif kind == "VAR_KEYWORD":
            continue
        elif default is None:
            value = value_for(draw, parameter, None, shape, module)
            if kind == "KEYWORD_ONLY":
                options[parameter] = value
            else:
                args.append(value)
        elif draw.chance(0.28):
            options[parameter] = value_for(draw, parameter, default, shape, module)
    return {"function": f"{module}.{name}", "args": args, "options": options}


def of_method(draw: Draw) -> dict[str, Any]:
    name, listed = draw.rng.choice(METHODS)
    shape = draw.shape()
    options: dict[str, Value] = {}
    args = [draw.array(shape)]
    for parameter, kind, default in listed:
        if parameter in ("self", "out", "out_sharding") or kind.startswith("VAR"):
            continue
        if default is None:
            args.append(value_for(draw, parameter, None, shape, "numpy"))
        elif draw.chance(0.3):
            options[parameter] = value_for(draw, parameter, default, shape, "numpy")
    return {"method": name, "args": args, "options": options}


def of_operator(draw: Draw) -> dict[str, Any]:
    shape = draw.shape()
    pair = [draw.array(shape), operand(draw, "x", shape)]
    draw.rng.shuffle(pair)
    return {"operator": draw.rng.choice(OPERATORS.split()), "args": pair}


def index_part(draw: Draw, n: int) -> Value:
    rng = draw.rng
    roll = rng.random()
    if roll < 0.3:
        ends = [rng.choice((None, 0, 1, 2, -1, n)) for _ in range(2)]
        return ["slice", *ends, rng.choice((None, None, 1, 2, -1, -2))]
    if roll < 0.5:
        return rng.choice((0, -1, 1, n - 1, n))
    if roll < 0.62:
        return None
    if roll < 0.7:
        return ["ellipsis"]
    if roll < 0.85:
        return draw.array(draw.shape(2), rng.choice(("int32", "uint8")), "index")
    if roll < 0.92:
        return ["list", *[rng.choice((0, 1, -1)) for _ in range(2)]]
    return draw.array([n], "bool") if n else True


def of_index(draw: Draw) -> dict[str, Any]:
    shape = draw.shape(least=1)
    parts = [index_part(draw, n) for n in shape[: draw.rng.randint(1, len(shape))]]
    index = ["tuple", *parts] if len(parts) > 1 or draw.chance(0.3) else parts[0]
    args = [draw.array(shape), index]
    if draw.chance(0.4):
        return {"index": "get", "args": args, "options": {}}
    options: dict[str, Value] = {}
    if draw.chance(0.3):
        options["mode"] = draw.rng.choice(("clip", "drop", "fill", "wrap", "promise_in_bounds"))
    if draw.chance(0.2):
        options["indices_are_sorted"] = True
    kind = draw.rng.choice("set add mul multiply divide power min max get apply".split())
    if kind == "get" and draw.chance(0.3):
        options["fill_value"] = draw.scalar()
    if kind not in ("get", "apply"):
        args.append(draw.scalar() if draw.chance(0.5) else draw.array(draw.near(shape)))
    return {"index": f"at {kind}", "args": args, "options": options}
