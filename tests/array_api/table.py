"""The names of the array API standard, 2024.12: signatures, data types, constants, attributes."""

VERSION = "2024.12"

# Parameters before ``/`` are passed by position only, those after ``*`` by name only.
SIGNATURES = """
abs(x, /)
acos(x, /)
acosh(x, /)
add(x1, x2, /)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
argsort(x, /, *, axis=-1, descending=False, stable=True)
asarray(obj, /, *, dtype=None, device=None, copy=None)
asin(x, /)
asinh(x, /)
astype(x, dtype, /, *, copy=True, device=None)
atan(x, /)
atan2(x1, x2, /)
atanh(x, /)
bitwise_and(x1, x2, /)
bitwise_invert(x, /)
bitwise_left_shift(x1, x2, /)
bitwise_or(x1, x2, /)
bitwise_right_shift(x1, x2, /)
bitwise_xor(x1, x2, /)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
ceil(x, /)
clip(x, /, min=None, max=None)
concat(arrays, /, *, axis=0)
conj(x, /)
copysign(x1, x2, /)
cos(x, /)
cosh(x, /)
count_nonzero(x, /, *, axis=None, keepdims=False)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
divide(x1, x2, /)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
equal(x1, x2, /)
exp(x, /)
expand_dims(x, /, *, axis=0)
expm1(x, /)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
finfo(type, /)
flip(x, /, *, axis=None)
floor(x, /)
floor_divide(x1, x2, /)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
greater(x1, x2, /)
greater_equal(x1, x2, /)
hypot(x1, x2, /)
iinfo(type, /)
imag(x, /)
isdtype(dtype, kind)
isfinite(x, /)
isinf(x, /)
isnan(x, /)
less(x1, x2, /)
less_equal(x1, x2, /)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
log(x, /)
log10(x, /)
log1p(x, /)
log2(x, /)
logaddexp(x1, x2, /)
logical_and(x1, x2, /)
logical_not(x, /)
logical_or(x1, x2, /)
logical_xor(x1, x2, /)
matmul(x1, x2, /)
matrix_transpose(x, /)
max(x, /, *, axis=None, keepdims=False)
maximum(x1, x2, /)
mean(x, /, *, axis=None, keepdims=False)
meshgrid(*arrays, indexing='xy')
min(x, /, *, axis=None, keepdims=False)
minimum(x1, x2, /)
moveaxis(x, source, destination, /)
multiply(x1, x2, /)
negative(x, /)
nextafter(x1, x2, /)
nonzero(x, /)
not_equal(x1, x2, /)
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
permute_dims(x, /, axes)
positive(x, /)
pow(x1, x2, /)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
real(x, /)
reciprocal(x, /)
remainder(x1, x2, /)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
result_type(*arrays_and_dtypes)
roll(x, /, shift, *, axis=None)
round(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
sign(x, /)
signbit(x, /)
sin(x, /)
sinh(x, /)
sort(x, /, *, axis=-1, descending=False, stable=True)
sqrt(x, /)
square(x, /)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
subtract(x1, x2, /)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
tan(x, /)
tanh(x, /)
tensordot(x1, x2, /, *, axes=2)
tile(x, repetitions, /)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
trunc(x, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
unstack(x, /, *, axis=0)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
vecdot(x1, x2, /, *, axis=-1)
where(condition, x1, x2, /)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eigh(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
""".split("\n")[1:-1]

METHOD_SIGNATURES = """
__array_namespace__(self, /, *, api_version=None)
__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
__dlpack_device__(self, /)
to_device(self, device, /, *, stream=None)
""".split("\n")[1:-1]

CONSTANTS = {"e": 2.718281828459045, "pi": 3.141592653589793, "inf": float("inf"), "newaxis": None}

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = BOOL + INTS + FLOATS + COMPLEX
KINDS = {
    "bool": BOOL,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTS,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": INTS + FLOATS + COMPLEX,
    "real": INTS + FLOATS,
    "floating": FLOATS + COMPLEX,
    "bits": BOOL + INTS,
    "all": ALL,
}

# Elementwise functions: the kinds of dtype they take and where their arguments are drawn from.
UNARY = {
    **dict.fromkeys("abs conj negative positive round sign square".split(), ("numeric", -4, 4)),
    **dict.fromkeys("isfinite isinf isnan real".split(), ("numeric", -4, 4)),
    **dict.fromkeys("ceil floor trunc".split(), ("real", -4, 4)),
    **dict.fromkeys("exp expm1 sin cos sinh cosh tanh atan asinh".split(), ("floating", -3, 3)),
    **dict.fromkeys("log log2 log10 log1p sqrt".split(), ("floating", 0.1, 4)),
    **dict.fromkeys("asin acos atanh tan".split(), ("floating", -0.9, 0.9)),
    "acosh": ("floating", 1.1, 4),
    "reciprocal": ("floating", 0.5, 4),
    "signbit": ("real floating", -4, 4),
    "imag": ("complex floating", -4, 4),
    "bitwise_invert": ("bits", -4, 4),
    "logical_not": ("bool", 0, 1),
}
BINARY = {
    **dict.fromkeys("add multiply subtract".split(), ("numeric", -4, 4)),
    **dict.fromkeys("equal not_equal".split(), ("all", -4, 4)),
    **dict.fromkeys("greater greater_equal less less_equal".split(), ("real", -4, 4)),
    **dict.fromkeys("maximum minimum".split(), ("real", -4, 4)),
    **dict.fromkeys("floor_divide remainder".split(), ("real", 1, 9)),
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor".split(), ("bits", 0, 9)),
    **dict.fromkeys("bitwise_left_shift bitwise_right_shift".split(), ("integral", 0, 4)),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), ("bool", 0, 1)),
    **dict.fromkeys("atan2 copysign hypot logaddexp nextafter".split(), ("real floating", -4, 4)),
    "divide": ("floating", 1, 4),
    "pow": ("numeric", 1, 3),
}
OPERATORS = {
    "__add__": "add",
    "__sub__": "subtract",
    "__mul__": "multiply",
    "__truediv__": "divide",
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__pow__": "pow",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "__eq__": "equal",
    "__ne__": "not_equal",
    "__lt__": "less",
    "__le__": "less_equal",
    "__gt__": "greater",
    "__ge__": "greater_equal",
}
UNARY_OPERATORS = {
    "__abs__": "abs",
    "__neg__": "negative",
    "__pos__": "positive",
    "__invert__": "bitwise_invert",
}
COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")

# Arithmetic whose results are exact or rounded once; the others are approximations.
ROUNDED = frozenset(
    "abs conj negative positive round sign square isfinite isinf isnan real imag ceil floor trunc "
    "signbit bitwise_invert logical_not add multiply subtract equal not_equal greater "
    "greater_equal less less_equal maximum minimum floor_divide remainder bitwise_and bitwise_or "
    "bitwise_xor bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor "
    "copysign nextafter divide sqrt".split()
)
ATTRIBUTES = ("dtype", "device", "mT", "ndim", "shape", "size", "T")
METHODS = (
    *OPERATORS,
    *UNARY_OPERATORS,
    *(f"__r{name[2:]}" for name in OPERATORS if name not in COMPARISONS),
    *"__matmul__ __rmatmul__ __array_namespace__ __bool__ __complex__ __dlpack__".split(),
    *"__dlpack_device__ __float__ __getitem__ __index__ __int__ __setitem__ to_device".split(),
)


def promoted(first: str, second: str) -> str | None:
    """The dtype of an operation on two dtypes, or None where the standard leaves it open."""
    if first == second:
        return first
    for kind in (SIGNED, UNSIGNED, FLOATS, COMPLEX):
        if first in kind and second in kind:
            return kind[max(kind.index(first), kind.index(second))]
    if first in UNSIGNED and second in SIGNED:
        first, second = second, first
    if first in SIGNED and second in UNSIGNED:
        index = max(SIGNED.index(first), UNSIGNED.index(second) + 1)
        return SIGNED[index] if index < len(SIGNED) else None
    if first in COMPLEX and second in FLOATS:
        first, second = second, first
    if first in FLOATS and second in COMPLEX:
        return COMPLEX[max(FLOATS.index(first), COMPLEX.index(second))]
    return None
