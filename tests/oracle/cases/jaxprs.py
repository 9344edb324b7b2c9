"""The text of ``make_jaxpr``: exact for lax, operators and control flow, inlined for numpy."""

from typing import Any

import numpy as np

from ..flat import flat_text
from ..table import Adder, family

F3 = np.zeros(3, np.float32)
G3 = np.ones(3, np.float32)
M = np.zeros((2, 3), np.float32)
N = np.zeros((3, 4), np.float32)
S = np.float32(1.0)
I3 = np.zeros(3, np.int32)
B3 = np.zeros(3, bool)
C3 = np.zeros(3, np.complex64)
SPD = np.eye(3, dtype=np.float32)


def exact(fn: Any, *args: Any) -> Any:
    return lambda J: str(J.make_jaxpr(lambda *xs: fn(J, *xs))(*args))


def flat(fn: Any, *args: Any) -> Any:
    return lambda J: flat_text(J.make_jaxpr(lambda *xs: fn(J, *xs))(*args))


UNARY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "cbrt",
    "sin",
    "cos",
    "tan",
    "asin",
)
UNARY += (
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "logistic",
    "erf",
    "erfc",
)
UNARY += ("erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e", "square", "reciprocal", "neg")
UNARY += (
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "is_finite",
    "stop_gradient",
    "optimization_barrier",
)
BINARY = (
    "add",
    "sub",
    "mul",
    "div",
    "rem",
    "max",
    "min",
    "pow",
    "atan2",
    "nextafter",
    "eq",
    "ne",
    "lt",
)
BINARY += ("le", "gt", "ge", "complex", "igamma", "igammac", "zeta")
INTEGER = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right_logical")
INTEGER += ("shift_right_arithmetic",)


@family("jaxpr_lax")
def lax(add: Adder) -> None:
    """Programs of lax functions: the text is JAX's."""
    for name in UNARY:
        add(f"unary/{name}", exact(lambda J, x, n=name: getattr(J.lax, n)(x), F3))
        add(f"unary/{name}/0d", exact(lambda J, x, n=name: getattr(J.lax, n)(x) + 1, S))
    for name in BINARY:
        add(f"binary/{name}", exact(lambda J, x, y, n=name: getattr(J.lax, n)(x, y), F3, G3))
        add(f"binary/{name}/scalar", exact(lambda J, x, n=name: getattr(J.lax, n)(x, 2.0), F3))
        add(f"binary/{name}/scalar_left", exact(lambda J, x, n=name: getattr(J.lax, n)(2.0, x), F3))
    for name in INTEGER:
        add(f"integer/{name}", exact(lambda J, x, n=name: getattr(J.lax, n)(x, x), I3))
        add(f"integer/{name}/scalar", exact(lambda J, x, n=name: getattr(J.lax, n)(x, 2), I3))
    for name in ("population_count", "clz", "bitwise_not"):
        add(f"integer/{name}", exact(lambda J, x, n=name: getattr(J.lax, n)(x), I3))
    for name in ("real", "imag", "conj", "abs", "exp", "sqrt"):
        add(f"complex/{name}", exact(lambda J, x, n=name: getattr(J.lax, n)(x), C3))
    for name, (fn, args) in LAX.items():
        wrapped = name in ("reduce/general", "dynamic_index_in_dim", "dynamic_update_index")
        add(name, (flat if wrapped else exact)(fn, *args))


def gather(J: Any, x: Any, i: Any) -> Any:
    dims = J.lax.GatherDimensionNumbers((1,), (0,), (0,))
    return J.lax.gather(x, i, dims, (1, 3), mode="clip")


def scatter(name: str) -> Any:
    def fn(J: Any, x: Any, i: Any, u: Any) -> Any:
        dims = J.lax.ScatterDimensionNumbers((1,), (0,), (0,))
        return getattr(J.lax, name)(x, i, u, dims, mode="drop")

    return fn


IDX = np.zeros((2, 1), np.int32)
LAX: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "convert": (lambda J, x: J.lax.convert_element_type(x, np.int32), (F3,)),
    "convert/same": (lambda J, x: J.lax.convert_element_type(x, np.float32), (F3,)),
    "bitcast": (lambda J, x: J.lax.bitcast_convert_type(x, np.int32), (F3,)),
    "reduce_precision": (lambda J, x: J.lax.reduce_precision(x, 5, 10), (F3,)),
    "round/even": (lambda J, x: J.lax.round(x, J.lax.RoundingMethod.TO_NEAREST_EVEN), (F3,)),
    "integer_pow": (lambda J, x: J.lax.integer_pow(x, 3), (F3,)),
    "integer_pow/2": (lambda J, x: J.lax.integer_pow(x, 2), (F3,)),
    "clamp": (lambda J, x: J.lax.clamp(-1.0, x, 1.0), (F3,)),
    "select": (lambda J, p, x, y: J.lax.select(p, x, y), (B3, F3, G3)),
    "select_n": (lambda J, i, x, y, z: J.lax.select_n(i, x, y, z), (I3, F3, G3, F3)),
    "reshape": (lambda J, x: J.lax.reshape(x, (3, 2)), (M,)),
    "reshape/dimensions": (lambda J, x: J.lax.reshape(x, (6,), (1, 0)), (M,)),
    "transpose": (lambda J, x: J.lax.transpose(x, (1, 0)), (M,)),
    "rev": (lambda J, x: J.lax.rev(x, (0, 1)), (M,)),
    "squeeze": (lambda J, x: J.lax.squeeze(x, (0,)), (np.zeros((1, 3), np.float32),)),
    "expand_dims": (lambda J, x: J.lax.expand_dims(x, (0, 2)), (F3,)),
    "broadcast": (lambda J, x: J.lax.broadcast(x, (2,)), (F3,)),
    "broadcast_in_dim": (lambda J, x: J.lax.broadcast_in_dim(x, (3, 2), (0,)), (F3,)),
    "broadcast_in_dim/scalar": (lambda J, x: J.lax.broadcast_in_dim(x, (3, 2), ()), (S,)),
    "slice": (lambda J, x: J.lax.slice(x, (0, 1), (2, 3)), (M,)),
    "slice/strides": (lambda J, x: J.lax.slice(x, (0, 0), (2, 3), (1, 2)), (M,)),
    "slice_in_dim": (lambda J, x: J.lax.slice_in_dim(x, 1, 3, axis=1), (M,)),
    "index_in_dim": (lambda J, x: J.lax.index_in_dim(x, 1, 1, keepdims=False), (M,)),
    "dynamic_slice": (lambda J, x, i: J.lax.dynamic_slice(x, (i, 0), (1, 2)), (M, np.int32(1))),
    "dynamic_slice/static": (lambda J, x: J.lax.dynamic_slice(x, (1, 0), (1, 2)), (M,)),
    "dynamic_update_slice": (
        lambda J, x, u, i: J.lax.dynamic_update_slice(x, u, (i, i)),
        (M, M[:1], np.int32(0)),
    ),
    "dynamic_index_in_dim": (lambda J, x, i: J.lax.dynamic_index_in_dim(x, i, 0), (M, np.int32(1))),
    "dynamic_update_index": (
        lambda J, x, u, i: J.lax.dynamic_update_index_in_dim(x, u, i, 0),
        (M, F3, np.int32(1)),
    ),
    "pad": (lambda J, x: J.lax.pad(x, 0.0, ((1, 2, 0), (0, 0, 1))), (M,)),
    "concatenate": (lambda J, x, y: J.lax.concatenate([x, y], 0), (F3, G3)),
    "concatenate/one": (lambda J, x: J.lax.concatenate([x], 0), (F3,)),
    "split": (lambda J, x: J.lax.split(x, (1, 2)), (F3,)),
    "stack": (lambda J, x, y: J.lax.stack([x, y]), (F3, G3)),
    "tile": (lambda J, x: J.lax.tile(x, (2, 1)), (M,)),
    "iota": (lambda J: J.lax.iota(np.int32, 5), ()),
    "iota/use": (lambda J, x: J.lax.iota(np.float32, 3) * x, (F3,)),
    "broadcasted_iota": (lambda J: J.lax.broadcasted_iota(np.float32, (2, 3), 1), ()),
    "full": (lambda J: J.lax.full((2, 3), 1.5), ()),
    "full/use": (lambda J, x: J.lax.full((3,), 2.0) + x, (F3,)),
    "full_like": (lambda J, x: J.lax.full_like(x, 3), (F3,)),
    "collapse": (lambda J, x: J.lax.collapse(x, 0, 2), (M,)),
    "reduce_sum": (lambda J, x: J.lax.reduce_sum(x, (0,)), (M,)),
    "reduce_sum/all": (lambda J, x: J.lax.reduce_sum(x, (0, 1)), (M,)),
    "reduce_max": (lambda J, x: J.lax.reduce_max(x, (1,)), (M,)),
    "reduce_min": (lambda J, x: J.lax.reduce_min(x, (1,)), (M,)),
    "reduce_prod": (lambda J, x: J.lax.reduce_prod(x, (1,)), (M,)),
    "reduce_and": (lambda J, x: J.lax.reduce_and(x, (0,)), (B3,)),
    "reduce_or": (lambda J, x: J.lax.reduce_or(x, (0,)), (B3,)),
    "reduce_xor": (lambda J, x: J.lax.reduce_xor(x, (0,)), (I3,)),
    "reduce": (lambda J, x: J.lax.reduce(x, np.float32(0), J.lax.add, (0,)), (M,)),
    "reduce/general": (
        lambda J, x: J.lax.reduce(x, np.float32(0), lambda a, b: a * b + a, (0,)),
        (M,),
    ),
    "argmax": (lambda J, x: J.lax.argmax(x, 1, np.int32), (M,)),
    "argmin": (lambda J, x: J.lax.argmin(x, 0, np.int32), (M,)),
    "cumsum": (lambda J, x: J.lax.cumsum(x, 1), (M,)),
    "cumprod": (lambda J, x: J.lax.cumprod(x, 0, reverse=True), (M,)),
    "cummax": (lambda J, x: J.lax.cummax(x, 1), (M,)),
    "cummin": (lambda J, x: J.lax.cummin(x, 1), (M,)),
    "cumlogsumexp": (lambda J, x: J.lax.cumlogsumexp(x, 1), (M,)),
    "sort": (lambda J, x: J.lax.sort(x), (M,)),
    "sort/pair": (lambda J, x, y: J.lax.sort((x, y), num_keys=1), (F3, I3)),
    "sort_key_val": (lambda J, x, y: J.lax.sort_key_val(x, y), (F3, I3)),
    "top_k": (lambda J, x: J.lax.top_k(x, 2), (M,)),
    "reduce_window": (
        lambda J, x: J.lax.reduce_window(x, np.float32(0), J.lax.add, (1, 2), (1, 1), "VALID"),
        (M,),
    ),
    "reduce_window/max": (
        lambda J, x: J.lax.reduce_window(x, -np.float32(np.inf), J.lax.max, (2, 2), (1, 1), "SAME"),
        (M,),
    ),
    "reduce_window/min": (
        lambda J, x: J.lax.reduce_window(x, np.float32(np.inf), J.lax.min, (2, 2), (1, 1), "SAME"),
        (M,),
    ),
    "dot": (lambda J, x, y: J.lax.dot(x, y), (M, N)),
    "dot_general": (lambda J, x, y: J.lax.dot_general(x, y, (((1,), (0,)), ((), ()))), (M, N)),
    "dot_general/batch": (lambda J, x: J.lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))), (M,)),
    "dot_general/preferred": (
        lambda J, x, y: J.lax.dot_general(
            x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.float32
        ),
        (M, N),
    ),
    "dot_general/precision": (
        lambda J, x, y: J.lax.dot_general(x, y, (((1,), (0,)), ((), ())), precision="highest"),
        (M, N),
    ),
    "batch_matmul": (lambda J, x: J.lax.batch_matmul(x, x), (np.zeros((2, 3, 3), np.float32),)),
    "conv": (
        lambda J, x, w: J.lax.conv(x, w, (1, 1), "SAME"),
        (np.zeros((1, 2, 5, 5), np.float32), np.zeros((3, 2, 3, 3), np.float32)),
    ),
    "conv/general": (
        lambda J, x, w: J.lax.conv_general_dilated(
            x, w, (2,), ((1, 1),), rhs_dilation=(2,), dimension_numbers=("NWC", "WIO", "NWC")
        ),
        (np.zeros((1, 7, 2), np.float32), np.zeros((3, 2, 4), np.float32)),
    ),
    "conv_transpose": (
        lambda J, x, w: J.lax.conv_transpose(x, w, (2,), "SAME"),
        (np.zeros((1, 7, 2), np.float32), np.zeros((3, 2, 4), np.float32)),
    ),
    "gather": (gather, (M, IDX)),
    "scatter": (scatter("scatter"), (M, IDX, M)),
    "scatter_add": (scatter("scatter_add"), (M, IDX, M)),
    "scatter_mul": (scatter("scatter_mul"), (M, IDX, M)),
    "scatter_min": (scatter("scatter_min"), (M, IDX, M)),
    "scatter_max": (scatter("scatter_max"), (M, IDX, M)),
    "fft": (lambda J, x: J.lax.fft(x, "fft", (3,)), (C3,)),
    "rfft": (lambda J, x: J.lax.fft(x, "rfft", (3,)), (F3,)),
    "betainc": (lambda J, a: J.lax.betainc(a, a, a), (F3,)),
    "polygamma": (lambda J, a: J.lax.polygamma(a, a), (F3,)),
    "cholesky": (lambda J, x: J.linalg.cholesky(x, symmetrize_input=False), (SPD,)),
    "eigh": (lambda J, x: J.linalg.eigh(x, symmetrize_input=False), (SPD,)),
    "svd": (lambda J, x: J.linalg.svd(x, full_matrices=False), (M,)),
    "qr": (lambda J, x: J.linalg.qr(x, full_matrices=False), (N,)),
    "lu": (lambda J, x: J.linalg.lu(x), (SPD,)),
    "triangular_solve": (
        lambda J, a, b: J.linalg.triangular_solve(a, b, left_side=True, lower=True),
        (SPD, SPD),
    ),
    "many": (lambda J, x: [J.lax.sin(x), J.lax.cos(x), x, 1.0, 2], (F3,)),
    "unused": (lambda J, x, y: J.lax.sin(x), (F3, G3)),
    "dead": (lambda J, x: (J.lax.sin(x), J.lax.cos(x))[0], (F3,)),
    "constant_output": (lambda J, x: 3.0, (F3,)),
    "identity": (lambda J, x: x, (F3,)),
    "twice": (lambda J, x: (x, x), (F3,)),
    "closure": (lambda J, x: J.lax.add(x, J.jnp.asarray(G3)), (F3,)),
    "numpy_closure": (lambda J, x: J.lax.add(x, G3), (F3,)),
    "long": (lambda J, x: [x := J.lax.sin(x) for _ in range(60)][-1], (F3,)),
    "dict": (lambda J, p: {"b": J.lax.sin(p["a"]), "a": p["b"]}, ({"a": F3, "b": G3},)),
    "weak": (lambda J, x: J.lax.mul(x, x), (2.0,)),
    "weak_int": (lambda J, x: J.lax.add(x, 1), (2,)),
    "bf16": (lambda J, x: J.lax.convert_element_type(x, J.jnp.bfloat16) * 2, (F3,)),
    "key": (lambda J: J.random.key_data(J.random.wrap_key_data(np.zeros(2, np.uint32))), ()),
}


OPERATORS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (lambda J, x, y: x + y, (F3, G3)),
    "add_scalar": (lambda J, x: x + 1, (F3,)),
    "radd": (lambda J, x: 2.0 + x, (F3,)),
    "sub": (lambda J, x, y: x - y, (F3, G3)),
    "rsub": (lambda J, x: 1 - x, (F3,)),
    "mul": (lambda J, x, y: x * y, (F3, G3)),
    "mul_scalar": (lambda J, x: x * 2.5, (F3,)),
    "div": (lambda J, x, y: x / y, (F3, G3)),
    "div_scalar": (lambda J, x: x / 2, (F3,)),
    "int_div": (lambda J, x: x / 2, (I3,)),
    "pow2": (lambda J, x: x**2, (F3,)),
    "pow3": (lambda J, x: x**3, (F3,)),
    "pow_negative": (lambda J, x: x**-2, (F3,)),
    "pow_half": (lambda J, x: x**0.5, (F3,)),
    "pow_array": (lambda J, x, y: x**y, (F3, G3)),
    "neg": (lambda J, x: -x, (F3,)),
    "pos": (lambda J, x: +x, (F3,)),
    "abs": (lambda J, x: abs(x), (F3,)),
    "invert": (lambda J, x: ~x, (I3,)),
    "and": (lambda J, x, y: x & y, (I3, I3)),
    "or": (lambda J, x: x | 1, (I3,)),
    "xor": (lambda J, x, y: x ^ y, (B3, B3)),
    "lshift": (lambda J, x: x << 2, (I3,)),
    "lt": (lambda J, x, y: x < y, (F3, G3)),
    "le": (lambda J, x: x <= 1, (F3,)),
    "gt": (lambda J, x: x > 0, (F3,)),
    "ge": (lambda J, x, y: x >= y, (F3, G3)),
    "eq": (lambda J, x, y: x == y, (F3, G3)),
    "ne": (lambda J, x: x != 0, (F3,)),
    "matmul": (lambda J, x, y: x @ y, (M, N)),
    "matvec": (lambda J, x, y: x @ y, (M, F3)),
    "inner": (lambda J, x, y: x @ y, (F3, G3)),
    "broadcast": (lambda J, x, y: x + y, (M, F3)),
    "broadcast_both": (lambda J, x, y: x[:, None] * y, (F3, G3)),
    "promote": (lambda J, x, y: x + y, (F3, I3)),
    "promote_bool": (lambda J, x: x * True, (F3,)),
    "promote_int": (lambda J, x: x + 1.5, (I3,)),
    "promote_complex": (lambda J, x: x + 1j, (F3,)),
    "index_int": (lambda J, x: x[0], (F3,)),
    "index_negative": (lambda J, x: x[-1], (M,)),
    "index_slice": (lambda J, x: x[1:], (F3,)),
    "index_step": (lambda J, x: x[::2], (F3,)),
    "index_newaxis": (lambda J, x: x[None], (F3,)),
    "index_pair": (lambda J, x: x[1, 2], (M,)),
    "index_column": (lambda J, x: x[:, 1], (M,)),
    "transpose": (lambda J, x: x.T, (M,)),
    "reshape": (lambda J, x: x.reshape(3, 2), (M,)),
    "ravel": (lambda J, x: x.ravel(), (M,)),
    "astype": (lambda J, x: x.astype("int32"), (F3,)),
    "sum": (lambda J, x: x.sum(), (M,)),
    "sum_axis": (lambda J, x: x.sum(0), (M,)),
    "max": (lambda J, x: x.max(), (M,)),
    "mean": (lambda J, x: x.mean(), (M,)),
    "polynomial": (lambda J, x: 3 * x**2 + 2 * x - 1, (F3,)),
    "scalar": (lambda J, x: x * 2 + 1, (2.0,)),
    "scalar_int": (lambda J, x: x * 2 + 1, (2,)),
    "numpy_scalar": (lambda J, x: x * np.float32(2), (F3,)),
    "numpy_array": (lambda J, x: x + np.arange(3.0, dtype=np.float32), (F3,)),
    "logistic": (lambda J, x: 1 / (1 + J.lax.exp(-x)), (F3,)),
}


@family("jaxpr_operators")
def operators(add: Adder) -> None:
    """Operators of arrays: exact text where JAX inlines them, else after opening library jits."""
    inlined = (
        "index",
        "ravel",
        "sum",
        "max",
        "mean",
        "matvec",
        "inner",
        "matmul",
        "broadcast_both",
    )
    for name, (fn, args) in OPERATORS.items():
        make = flat if name.startswith(inlined) or name in ("pow_half", "pow_array") else exact
        add(name, make(fn, *args))


CONTROL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "cond": (lambda J, x: J.lax.cond(x[0] > 0, J.lax.sin, J.lax.cos, x), (F3,)),
    "cond/lambda": (lambda J, p, x: J.lax.cond(p, lambda v: v * 2, lambda v: v, x), (True, F3)),
    "cond/closure": (lambda J, p, x: J.lax.cond(p, lambda: x, lambda: -x), (True, F3)),
    "cond/tree": (
        lambda J, p, x: J.lax.cond(p, lambda v: (v, 1.0), lambda v: (-v, 2.0), x),
        (True, F3),
    ),
    "cond/int": (lambda J, i, x: J.lax.cond(i, lambda v: v, lambda v: -v, x), (1, F3)),
    "switch": (lambda J, i, x: J.lax.switch(i, [J.lax.sin, J.lax.cos, J.lax.tanh], x), (1, F3)),
    "switch/two": (lambda J, i, x: J.lax.switch(i, [J.lax.sin, J.lax.cos], x), (1, F3)),
    "while": (lambda J, x: J.lax.while_loop(lambda v: v < 3, lambda v: v + 1, x), (1.0,)),
    "while/tuple": (
        lambda J, x: J.lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, J.lax.sin(s[1])), (0, x)
        ),
        (F3,),
    ),
    "while/closure": (
        lambda J, x, y: J.lax.while_loop(lambda v: v < y, lambda v: v * x, x),
        (2.0, 9.0),
    ),
    "fori": (lambda J, x: J.lax.fori_loop(0, 3, lambda i, v: v * i, x), (F3,)),
    "fori/dynamic": (lambda J, n, x: J.lax.fori_loop(0, n, lambda i, v: v + i, x), (3, F3)),
    "fori/closure": (lambda J, x: J.lax.fori_loop(0, 3, lambda i, v: v + x, x), (F3,)),
    "scan": (lambda J, x: J.lax.scan(lambda c, v: (c + v, c * v), 0.0, x), (F3,)),
    "scan/closure": (lambda J, x, y: J.lax.scan(lambda c, v: (c + v * y, None), y, x), (F3, S)),
    "scan/length": (
        lambda J, x: J.lax.scan(lambda c, _: (J.lax.sin(c), c), x, None, length=4),
        (F3,),
    ),
    "scan/reverse": (lambda J, x: J.lax.scan(lambda c, v: (c + v, c), 0.0, x, reverse=True), (F3,)),
    "scan/unroll": (lambda J, x: J.lax.scan(lambda c, v: (c + v, c), 0.0, x, unroll=3), (F3,)),
    "scan/tree": (
        lambda J, x: J.lax.scan(
            lambda c, v: ({"a": c["a"] + v["p"]}, v["q"]), {"a": 0.0}, {"p": x, "q": x}
        ),
        (F3,),
    ),
    "scan/nested": (
        lambda J, x: J.lax.scan(
            lambda c, r: (J.lax.scan(lambda a, v: (a + v, None), c, r)[0], c), 0.0, x
        ),
        (M,),
    ),
    "map": (lambda J, x: J.lax.map(J.lax.sin, x), (F3,)),
    "associative_scan": (lambda J, x: J.lax.associative_scan(J.lax.add, x), (F3,)),
    "jit": (lambda J, x: J.jit(lambda v: J.lax.sin(v) * 2)(x), (F3,)),
    "jit/named": (lambda J, x: J.jit(named)(x), (F3,)),
    "jit/twice": (lambda J, x: twice(J, x), (F3,)),
    "jit/nested": (lambda J, x: J.jit(lambda v: J.jit(lambda u: u + 1)(v) * 2)(x), (F3,)),
    "jit/static": (lambda J, x: J.jit(lambda v, n: v * n, static_argnums=1)(x, 3), (F3,)),
    "jit/donated": (lambda J, x: J.jit(lambda v: v * 2, donate_argnums=0)(x), (F3,)),
    "jit/keep": (lambda J, x, y: J.jit(lambda u, v: u, keep_unused=True)(x, y), (F3, G3)),
    "jit/inline": (lambda J, x: J.jit(lambda v: v + 1, inline=True)(x), (F3,)),
    "jit/closure": (lambda J, x, y: J.jit(lambda v: v + y)(x), (F3, G3)),
    "custom_jvp": (lambda J, x: custom_jvp(J)(x), (F3,)),
    "custom_vjp": (lambda J, x: custom_vjp(J)(x), (F3,)),
    "checkpoint": (lambda J, x: J.checkpoint(lambda v: J.lax.sin(v))(x), (F3,)),
    "custom_linear_solve": (
        lambda J, x: J.lax.custom_linear_solve(
            lambda v: v * 2, x, lambda mv, b: b / 2, symmetric=True
        ),
        (F3,),
    ),
    "vmap": (lambda J, x: J.vmap(lambda v: J.lax.sin(v) * 2)(x), (M,)),
    "vmap/psum": (lambda J, x: J.vmap(lambda v: J.lax.psum(v, "i"), axis_name="i")(x), (M,)),
    "vmap/index": (
        lambda J, x: J.vmap(lambda v: v + J.lax.axis_index("i"), axis_name="i")(x),
        (M,),
    ),
    "named_scope": (lambda J, x: scoped(J, x), (F3,)),
    "stop_gradient": (lambda J, x: J.lax.stop_gradient(x) + x, (F3,)),
    "random/split": (
        lambda J, k: J.random.split(J.random.wrap_key_data(k)),
        (np.zeros(2, np.uint32),),
    ),
    "random/bits": (
        lambda J, k: J.random.bits(J.random.wrap_key_data(k), (3,)),
        (np.zeros(2, np.uint32),),
    ),
    "random/fold_in": (
        lambda J, k: J.random.fold_in(J.random.wrap_key_data(k), 3),
        (np.zeros(2, np.uint32),),
    ),
}


def named(x: Any) -> Any:
    return x * 2 + 1


def twice(J: Any, x: Any) -> Any:
    f = J.jit(lambda v: J.lax.sin(v))
    return f(x) + f(x * 2)


def scoped(J: Any, x: Any) -> Any:
    with J.named_scope("inner"):
        return J.lax.sin(x)


def custom_jvp(J: Any) -> Any:
    f = J.custom_jvp(lambda x: J.lax.sin(x))
    f.defjvp(lambda p, t: (f(p[0]), t[0]))
    return f


def custom_vjp(J: Any) -> Any:
    f = J.custom_vjp(lambda x: J.lax.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda r, g: (g,))
    return f


@family("jaxpr_control")
def control(add: Adder) -> None:
    """Control flow, user jits, custom rules: exact text."""
    flattened = ("map", "associative_scan", "random/bits", "vmap/psum", "custom_linear_solve")
    for name, (fn, args) in CONTROL.items():
        add(name, (flat if name in flattened else exact)(fn, *args))


NUMPY: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "where": (lambda J, p, x, y: J.jnp.where(p, x, y), (B3, F3, G3)),
    "where/scalar": (lambda J, x: J.jnp.where(x > 0, x, 0), (F3,)),
    "mean": (lambda J, x: J.jnp.mean(x, axis=0), (M,)),
    "sum": (lambda J, x: J.jnp.sum(x, axis=1, keepdims=True), (M,)),
    "sum/int": (lambda J, x: J.jnp.sum(x), (I3,)),
    "sum/bool": (lambda J, x: J.jnp.sum(x), (B3,)),
    "var": (lambda J, x: J.jnp.var(x), (M,)),
    "std": (lambda J, x: J.jnp.std(x, axis=0), (M,)),
    "max": (lambda J, x: J.jnp.max(x, axis=0), (M,)),
    "min": (lambda J, x: J.jnp.min(x), (M,)),
    "prod": (lambda J, x: J.jnp.prod(x), (M,)),
    "any": (lambda J, x: J.jnp.any(x), (B3,)),
    "all": (lambda J, x: J.jnp.all(x > 0), (M,)),
    "argmax": (lambda J, x: J.jnp.argmax(x, axis=1), (M,)),
    "argmax/flat": (lambda J, x: J.jnp.argmax(x), (M,)),
    "cumsum": (lambda J, x: J.jnp.cumsum(x, axis=0), (M,)),
    "sort": (lambda J, x: J.jnp.sort(x), (M,)),
    "argsort": (lambda J, x: J.jnp.argsort(x), (F3,)),
    "clip": (lambda J, x: J.jnp.clip(x, -1, 1), (F3,)),
    "maximum": (lambda J, x: J.jnp.maximum(x, 0), (F3,)),
    "minimum": (lambda J, x, y: J.jnp.minimum(x, y), (F3, G3)),
    "add": (lambda J, x, y: J.jnp.add(x, y), (M, F3)),
    "multiply": (lambda J, x: J.jnp.multiply(x, 2), (F3,)),
    "divide": (lambda J, x: J.jnp.divide(x, 2), (I3,)),
    "floor_divide": (lambda J, x, y: J.jnp.floor_divide(x, y), (F3, G3)),
    "floor_divide/int": (lambda J, x, y: J.jnp.floor_divide(x, y), (I3, I3)),
    "remainder": (lambda J, x, y: J.jnp.remainder(x, y), (F3, G3)),
    "power": (lambda J, x: J.jnp.power(x, 2), (F3,)),
    "sqrt": (lambda J, x: J.jnp.sqrt(x), (I3,)),
    "exp": (lambda J, x: J.jnp.exp(x), (F3,)),
    "log2": (lambda J, x: J.jnp.log2(x), (F3,)),
    "log10": (lambda J, x: J.jnp.log10(x), (F3,)),
    "tanh": (lambda J, x: J.jnp.tanh(x), (F3,)),
    "sinc": (lambda J, x: J.jnp.sinc(x), (F3,)),
    "hypot": (lambda J, x, y: J.jnp.hypot(x, y), (F3, G3)),
    "logaddexp": (lambda J, x, y: J.jnp.logaddexp(x, y), (F3, G3)),
    "round": (lambda J, x: J.jnp.round(x), (F3,)),
    "round/decimals": (lambda J, x: J.jnp.round(x, 2), (F3,)),
    "isnan": (lambda J, x: J.jnp.isnan(x), (F3,)),
    "isclose": (lambda J, x, y: J.jnp.isclose(x, y), (F3, G3)),
    "sign": (lambda J, x: J.jnp.sign(x), (F3,)),
    "square": (lambda J, x: J.jnp.square(x), (F3,)),
    "reciprocal": (lambda J, x: J.jnp.reciprocal(x), (F3,)),
    "matmul": (lambda J, x, y: J.jnp.matmul(x, y), (M, N)),
    "dot": (lambda J, x, y: J.jnp.dot(x, y), (F3, G3)),
    "outer": (lambda J, x, y: J.jnp.outer(x, y), (F3, G3)),
    "einsum": (lambda J, x, y: J.jnp.einsum("ij,jk->ik", x, y), (M, N)),
    "einsum/trace": (lambda J, x: J.jnp.einsum("ii->", x), (SPD,)),
    "tensordot": (lambda J, x, y: J.jnp.tensordot(x, y, 1), (M, N)),
    "reshape": (lambda J, x: J.jnp.reshape(x, -1), (M,)),
    "transpose": (lambda J, x: J.jnp.transpose(x), (M,)),
    "swapaxes": (lambda J, x: J.jnp.swapaxes(x, 0, 1), (M,)),
    "moveaxis": (lambda J, x: J.jnp.moveaxis(x, 0, 1), (M,)),
    "concatenate": (lambda J, x, y: J.jnp.concatenate([x, y]), (F3, G3)),
    "concatenate/mixed": (lambda J, x, y: J.jnp.concatenate([x, y]), (F3, I3)),
    "stack": (lambda J, x, y: J.jnp.stack([x, y]), (F3, G3)),
    "split": (lambda J, x: J.jnp.split(x, 3), (F3,)),
    "squeeze": (lambda J, x: J.jnp.squeeze(x), (np.zeros((1, 3), np.float32),)),
    "expand_dims": (lambda J, x: J.jnp.expand_dims(x, 0), (F3,)),
    "broadcast_to": (lambda J, x: J.jnp.broadcast_to(x, (2, 3)), (F3,)),
    "flip": (lambda J, x: J.jnp.flip(x), (M,)),
    "roll": (lambda J, x: J.jnp.roll(x, 1), (F3,)),
    "tile": (lambda J, x: J.jnp.tile(x, 2), (F3,)),
    "repeat": (lambda J, x: J.jnp.repeat(x, 2), (F3,)),
    "pad": (lambda J, x: J.jnp.pad(x, 1), (M,)),
    "diag": (lambda J, x: J.jnp.diag(x), (F3,)),
    "trace": (lambda J, x: J.jnp.trace(x), (SPD,)),
    "tril": (lambda J, x: J.jnp.tril(x), (SPD,)),
    "triu": (lambda J, x: J.jnp.triu(x, 1), (SPD,)),
    "eye": (lambda J: J.jnp.eye(3), ()),
    "arange": (lambda J: J.jnp.arange(5), ()),
    "zeros": (lambda J: J.jnp.zeros((2, 3)), ()),
    "ones_like": (lambda J, x: J.jnp.ones_like(x), (F3,)),
    "full": (lambda J: J.jnp.full((2,), 3.0), ()),
    "linspace": (lambda J: J.jnp.linspace(0, 1, 5), ()),
    "take": (lambda J, x, i: J.jnp.take(x, i), (F3, I3)),
    "index": (lambda J, x, i: x[i], (F3, I3)),
    "index/scalar": (lambda J, x, i: x[i], (F3, np.int32(1))),
    "index/rows": (lambda J, x, i: x[:, i], (M, I3)),
    "index/two": (lambda J, x, i: x[i, i], (M, I3)),
    "at/set": (lambda J, x: x.at[0].set(1.0), (F3,)),
    "at/add": (lambda J, x, i: x.at[i].add(1.0), (F3, I3)),
    "at/slice": (lambda J, x: x.at[1:].multiply(2.0), (F3,)),
    "take_along_axis": (lambda J, x, i: J.jnp.take_along_axis(x, i, 0), (F3, I3)),
    "norm": (lambda J, x: J.jnp.linalg.norm(x), (F3,)),
    "det": (lambda J, x: J.jnp.linalg.det(x), (SPD,)),
    "relu": (lambda J, x: J.nn.relu(x), (F3,)),
    "sigmoid": (lambda J, x: J.nn.sigmoid(x), (F3,)),
    "gelu": (lambda J, x: J.nn.gelu(x), (F3,)),
    "silu": (lambda J, x: J.nn.silu(x), (F3,)),
    "softplus": (lambda J, x: J.nn.softplus(x), (F3,)),
    "softmax": (lambda J, x: J.nn.softmax(x), (M,)),
    "log_softmax": (lambda J, x: J.nn.log_softmax(x), (M,)),
    "logsumexp": (lambda J, x: J.nn.logsumexp(x, axis=1), (M,)),
    "one_hot": (lambda J, i: J.nn.one_hot(i, 4), (I3,)),
    "layer_norm": (
        lambda J, x: (x - x.mean(-1, keepdims=True)) * J.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
        (M,),
    ),
    "uniform": (
        lambda J, k: J.random.uniform(J.random.wrap_key_data(k), (3,)),
        (np.zeros(2, np.uint32),),
    ),
    "normal": (
        lambda J, k: J.random.normal(J.random.wrap_key_data(k), (3,)),
        (np.zeros(2, np.uint32),),
    ),
    "randint": (
        lambda J, k: J.random.randint(J.random.wrap_key_data(k), (3,), 0, 9),
        (np.zeros(2, np.uint32),),
    ),
    "mlp": (lambda J, x, w: J.jnp.sum(J.nn.relu(x @ w) ** 2), (M, N)),
    "attention": (lambda J, q: J.nn.softmax(q @ q.T / 3.0) @ q, (M,)),
}


@family("jaxpr_numpy")
def numpy_programs(add: Adder) -> None:
    """Programs of numpy and nn: equal after inlining library jits."""
    for name, (fn, args) in NUMPY.items():
        add(name, flat(fn, *args))


@family("jaxpr_derived")
def derived(add: Adder) -> None:
    """jvp and vmap of lax programs: equal after inlining."""
    for name in UNARY:
        jvp = lambda J, x, t, n=name: J.jvp(getattr(J.lax, n), (x,), (t,))
        if name not in ("is_finite", "erf_inv"):
            add(f"jvp/{name}", flat(jvp, F3, G3))
        add(f"vmap/{name}", flat(lambda J, x, n=name: J.vmap(getattr(J.lax, n))(x), M))
    for name in ("add", "sub", "mul", "div", "max", "pow", "atan2", "rem"):
        jvp = lambda J, x, y, n=name: J.jvp(getattr(J.lax, n), (x, y), (y, x))
        add(f"jvp/{name}", flat(jvp, F3, G3))
        vmap = lambda J, x, y, n=name: J.vmap(getattr(J.lax, n), (0, None))(x, y)
        add(f"vmap/{name}", flat(vmap, M, F3))
    for name in (
        "dot",
        "reduce_sum",
        "cumsum",
        "transpose",
        "concatenate",
        "dynamic_slice",
        "gather",
    ):
        fn, args = LAX[name]
        if name != "gather":
            vmap = lambda J, *xs, fn=fn: J.vmap(lambda *v: fn(J, *v))(*xs)
            stacked = tuple(np.stack([a, a]) for a in args)
            add(f"vmap/{name}", flat(vmap, *stacked))
