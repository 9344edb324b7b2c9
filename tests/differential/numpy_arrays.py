"""Cases of the functions of ``numpy`` that make, move, join, index and describe arrays."""

import numpy as np

from tests.differential.harness import ALL, BOOLS, COMPLEX, FLOATS, INTS, SMALL, Spec, Table

table = Table("numpy")

# --- creation -------------------------------------------------------------------------------------

for kind in (*ALL, "int8", "float16"):
    table.add(
        "zeros",
        lambda m, kind=kind: [
            m.zeros((2, 3), kind),
            m.ones(3, dtype=kind),
            m.zeros((), kind),
            m.ones((0, 2), kind),
            m.full((2, 3), 1, dtype=kind),
            m.eye(3, 4, k=1, dtype=kind),
            m.eye(2, 5, k=-3, dtype=kind),
            m.identity(3, dtype=kind),
            m.tri(3, 4, -1, dtype=kind),
            m.tri(2, dtype=kind),
            m.empty((0, 3), kind),
        ],
        label=f"dtype {kind}",
    )
table.add(
    "arange",
    lambda m: [
        m.arange(5),
        m.arange(2, 9, 3),
        m.arange(9, 2, -2),
        m.arange(0.0, 1.0, 0.25),
        m.arange(3, dtype="float32"),
        m.arange(5, 2),
        m.linspace(0, 1, 5),
        m.linspace(-1, 3, 4, endpoint=False),
        m.linspace(1, 1, 3),
        m.linspace(0, 1, 0),
        m.linspace(0, 1, 1),
        m.linspace(0, 10, 3, dtype="int32"),
        *m.linspace(0, 2, 5, retstep=True)[:1],
        m.logspace(0, 2, 3),
        m.logspace(0, 3, 4, base=2.0),
        m.geomspace(1, 1000, 4),
        m.geomspace(1, 256, 9, endpoint=False),
        m.geomspace(-1, -1000, 4),
    ],
    ulp=16,
    dtype=True,
)
table.add(
    "linspace",
    lambda m, x, y: [m.linspace(x, y, 4), m.linspace(x, y, 3, axis=-1), m.geomspace(x, y, 4)],
    Spec((3,), low=1),
    Spec((3,), low=4, high=9),
    ulp=16,
)
table.add(
    "full",
    lambda m, x: [
        m.full((2, 3), x[0]),
        m.full_like(x, 2),
        m.zeros_like(x),
        m.ones_like(x, dtype="float32"),
        m.zeros_like(x, shape=(2, 2)),
        m.full_like(x, 3, shape=(4,)),
        m.empty_like(x, shape=(0,)),
    ],
    (2, 3),
    dtypes=ALL,
)
table.add(
    "array",
    lambda m, x: [
        m.array(x),
        m.array([x, x]),
        m.asarray(x),
        m.copy(x),
        m.array(x, ndmin=3),
        m.array([x[0, 0], 1]),
    ],
    (2, 3),
    dtypes=FLOATS + INTS + BOOLS,
    dtype=False,
)
table.add(
    "astype",
    lambda m, x: [m.astype(x, "float32"), m.astype(x, "int32"), m.astype(x, "uint8")],
    Spec((2, 3), low=0),
    dtypes=FLOATS + INTS + BOOLS + ("uint16",),
)
table.add(
    "array",
    lambda m: [m.array([[1, 2], [3, 4]]), m.array([1, 2.5]), m.array([]), m.array(True)],
    label="lists",
)
table.add(
    "meshgrid",
    lambda m, x, y: [
        *m.meshgrid(x, y),
        *m.meshgrid(x, y, indexing="ij"),
        *m.meshgrid(x, y, sparse=True),
        m.indices((2, 3)),
        *m.indices((2, 3), sparse=True),
        m.mgrid[0:3, 1:5:2],
        m.mgrid[0:1:4j],
        *m.ogrid[0:3, 1:5:2],
    ],
    (3,),
    (2,),
    ulp=4,
)
table.add("ix_", lambda m: list(m.ix_(np.array([0, 2]), np.array([1, 3, 0]))), dtype=False)
table.add("ix_", lambda m: list(m.ix_(np.array([True, False, True]))), label="mask", jit=False)
table.add("c_", lambda m, x: [m.r_[x, 1.5, x], m.c_[x, x], m.r_["0,2", x, x]], (4,))
table.add("s_", lambda m, x: [x[m.s_[1:, ::2]], x[m.index_exp[0, 1]]], (3, 4))
table.add("fromfunction", lambda m: m.fromfunction(lambda i, j: i * 2 + j, (2, 3)), dtype=False)
table.add("fromiter", lambda m: m.fromiter((k * k for k in range(5)), "float32"))
table.add("fromstring", lambda m: m.fromstring("1 2 3", sep=" ", dtype="float32"))
table.add("frombuffer", lambda m: m.frombuffer(b"\x01\x02\x03\x04", dtype="uint8"))
table.add("from_dlpack", lambda m, x: m.from_dlpack(x), (2, 3), jit=False)
table.add(
    "bartlett",
    lambda m: (
        [f(n) for f in (m.bartlett, m.blackman, m.hamming, m.hanning) for n in (0, 1, 7, 8)]
        + [m.kaiser(9, 3.5), m.kaiser(1, 0.0)]
    ),
    ulp=16,
    scaled=True,
)
table.add(
    "vander",
    lambda m, x: [m.vander(x), m.vander(x, 3), m.vander(x, 5, increasing=True)],
    (4,),
    ulp=8,
)

# --- shapes ---------------------------------------------------------------------------------------

table.add(
    "reshape",
    lambda m, x: [
        m.reshape(x, (4, 6)),
        m.reshape(x, (-1, 3)),
        m.reshape(x, (4, 6), order="F"),
        m.ravel(x),
        m.ravel(x, order="F"),
        m.transpose(x),
        m.transpose(x, (1, -1, 0)),
        m.permute_dims(x, (2, 0, 1)),
        m.squeeze(x[:, :1]),
        m.squeeze(x[:, :1], axis=1),
        m.expand_dims(x, (0, -1)),
        m.swapaxes(x, 0, -1),
        m.moveaxis(x, 0, -1),
        m.moveaxis(x, (0, 1), (-1, 0)),
        m.rollaxis(x, 2),
        m.rollaxis(x, 0, 3),
        m.matrix_transpose(x),
    ],
    (2, 3, 4),
    dtypes=ALL + SMALL,
)
table.add("matrix_transpose", None, (2, 3), dtypes=FLOATS)
table.add(
    "atleast_1d",
    lambda m, x, y: [
        m.atleast_1d(y),
        m.atleast_2d(y),
        m.atleast_2d(x),
        m.atleast_3d(x),
        m.atleast_3d(y),
        *m.atleast_1d(x, y),
        m.broadcast_to(x, (2, 2, 3)),
        m.broadcast_to(y, (2, 0)),
        *m.broadcast_arrays(x, y, x[:, :1]),
    ],
    (2, 3),
    (),
    dtypes=FLOATS + INTS + BOOLS,
)
table.add(
    "flip",
    lambda m, x: [
        m.flip(x),
        m.flip(x, 1),
        m.flip(x, (0, -1)),
        m.fliplr(x),
        m.flipud(x),
        m.rot90(x),
        m.rot90(x, 2),
        m.rot90(x, -1, (1, 0)),
        m.roll(x, 2),
        m.roll(x, -1, axis=0),
        m.roll(x, (1, 5), axis=(0, 1)),
        m.tile(x, 2),
        m.tile(x, (2, 1, 2)),
        m.tile(x, (0,)),
        m.repeat(x, 2),
        m.repeat(x, 3, axis=1),
        m.repeat(x, np.array([1, 0, 2]), axis=0),
        m.resize(x, (4, 5)),
        m.resize(x, (2, 2)),
    ],
    (3, 4),
    dtypes=FLOATS + INTS + BOOLS + COMPLEX,
)
table.add(
    "flip",
    lambda m, x: [m.flip(x), m.roll(x, 3), m.tile(x, (2, 1)), m.reshape(x, (0,)), m.repeat(x, 2)],
    (0, 3),
    label="empty",
)
table.add(
    "concatenate",
    lambda m, x, y: [
        m.concatenate([x, y]),
        m.concatenate([x, x, x], axis=-1),
        m.concatenate([x, y], axis=None),
        m.concat([x, y[:0]]),
        m.stack([x, x], axis=1),
        m.stack([x, x], axis=-1),
        m.vstack([x, y]),
        m.vstack([x[0], y[0]]),
        m.hstack([x, x]),
        m.hstack([x[0], y[0]]),
        m.dstack([x, x]),
        m.column_stack([x[0], y[0]]),
        m.append(x, y),
        m.append(x, y, axis=0),
        m.block([[x, x], [y[:2], y[1:]]]),
    ],
    (2, 3),
    (3, 3),
    dtypes=FLOATS + INTS + BOOLS + COMPLEX,
)
table.add(
    "concatenate",
    lambda m, x, y: [m.concatenate([x, y]), m.stack([x, y]), m.hstack([y, x])],
    Spec((3,), dtype="int8"),
    Spec((3,), dtype="float32"),
    label="mixed",
)
table.add(
    "split",
    lambda m, x: [
        *m.split(x, 2),
        *m.split(x, [1, 3], axis=2),
        *m.split(x, (0, 2), axis=1),
        *m.array_split(x, 3, axis=2),
        *m.hsplit(x, 3),
        *m.vsplit(x, [1]),
        *m.dsplit(x, 2),
        *m.unstack(x, axis=1),
    ],
    (2, 3, 4),
    dtypes=FLOATS + INTS,
)
table.add(
    "tril",
    lambda m, x: [
        m.tril(x),
        m.tril(x, 1),
        m.triu(x, -1),
        m.diag(x),
        m.diag(x, 1),
        m.diag(x[0]),
        m.diag(x[0], -2),
        m.diagflat(x, 1),
        m.diagonal(x, -1),
        m.diagonal(x, axis1=1, axis2=0),
        m.trace(x),
        m.trace(x, 1),
    ],
    (3, 4),
    dtypes=FLOATS + INTS + BOOLS + COMPLEX,
    ulp=4,
    scaled=True,
)
table.add("diagonal", lambda m, x: [m.diagonal(x, 1, 0, 2), m.trace(x, 0, 2, 1)], (2, 3, 4), ulp=4)
table.add(
    "diag_indices",
    lambda m, x: [
        *m.diag_indices(3),
        *m.diag_indices(2, 3),
        *m.tril_indices(3, 1, 4),
        *m.triu_indices(4, -1),
        *m.diag_indices_from(x),
        *m.tril_indices_from(x, -1),
        *m.triu_indices_from(x, 1),
    ],
    (3, 3),
)
table.add("mask_indices", lambda m: list(m.mask_indices(3, m.triu, 1)), jit=False)
table.add(
    "delete",
    lambda m, x: [
        m.delete(x, 1, axis=0),
        m.delete(x, np.array([0, 3]), axis=1),
        m.delete(x, slice(0, 2), axis=1),
        m.delete(x, 5),
        m.insert(x, 1, 7, axis=0),
        m.insert(x, np.array([0, 2]), 9, axis=1),
        m.insert(x, 2, x[0], axis=0),
        m.insert(x, -1, 5),
    ],
    (3, 4),
    dtypes=FLOATS + INTS,
)
for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "mean", "maximum", "minimum"):
    table.add(
        "pad",
        lambda m, x, mode=mode: [
            m.pad(x, 2, mode=mode),
            m.pad(x, ((1, 2), (0, 3)), mode=mode),
            m.pad(x, (1, 0), mode=mode),
        ],
        (4, 5),
        label=mode,
        dtypes=FLOATS + (INTS if mode != "mean" else ()),
        ulp=4 if mode == "mean" else 0,
        scaled=True,
    )
table.add(
    "pad",
    lambda m, x: [
        m.pad(x, 2, constant_values=7),
        m.pad(x, 1, constant_values=((1, 2), (3, 4))),
        m.pad(x, 2, mode="linear_ramp", end_values=3),
        m.pad(x, 1, mode="median"),
        m.pad(x, 2, mode="reflect", reflect_type="odd"),
        m.pad(x, 2, mode="maximum", stat_length=2),
        m.pad(x, 9, mode="wrap"),
    ],
    (4, 5),
    label="options",
    ulp=8,
    scaled=True,
)

# --- taking and putting ---------------------------------------------------------------------------

places = Spec((2, 3), dtype="int32", low=-3, high=2)
table.add(
    "take",
    lambda m, x, i: [
        m.take(x, i),
        m.take(x, i, axis=0),
        m.take(x, i[0], axis=1),
        m.take(x, i + 9, axis=0, mode="wrap"),
        m.take(x, i + 9, axis=0, mode="clip"),
        m.take(x, i[:0], axis=0),
    ],
    (3, 4),
    places,
    dtypes=ALL,
)
table.add(
    "take_along_axis",
    lambda m, x, i: [m.take_along_axis(x, i, 1), m.take_along_axis(x, i[:1, :1], 0)],
    (2, 4),
    places,
    dtypes=FLOATS + INTS,
)
table.add(
    "unravel_index",
    lambda m, i: [
        *m.unravel_index(i, (3, 4)),
        m.ravel_multi_index((i % 3, i % 4), (3, 4)),
        m.ravel_multi_index((i % 3, i % 4), (3, 4), order="F"),
        m.ravel_multi_index((i + 5, i + 5), (3, 4), mode="clip"),
        m.ravel_multi_index((i + 5, i + 5), (3, 4), mode="wrap"),
    ],
    Spec((2, 3), dtype="int32", low=0, high=11),
    jit=False,
)


def changed(m, name, x, *arguments):
    """The array after a function that NumPy lets change it in place."""
    if m.__name__ == "numpy":
        x = x.copy()
        getattr(m, name)(x, *arguments)
        return x
    return getattr(m, name)(x, *arguments, inplace=False)


table.add(
    "put",
    lambda m, x: [
        changed(m, "put", x, np.array([1, 5]), 7),
        changed(m, "put", x, np.array([0, 2, 4]), np.array([1, 2])),
        changed(m, "put_along_axis", x, np.array([[1], [0], [2]]), 9, 1),
        changed(m, "fill_diagonal", x, 3),
        changed(m, "fill_diagonal", x, np.array([1, 2])),
    ],
    (3, 4),
    dtypes=FLOATS + INTS,
)
table.add(
    "place",
    lambda m, x: [changed(m, "place", x, x > 0, np.array([1, 2, 3], x.dtype))],
    (3, 4),
    dtypes=FLOATS + INTS,
)
table.add(
    "packbits",
    lambda m, x: [
        m.packbits(x),
        m.packbits(x, axis=1),
        m.packbits(x, axis=0, bitorder="little"),
        m.unpackbits(m.packbits(x, axis=1), axis=1),
        m.unpackbits(m.packbits(x), count=5, bitorder="little"),
    ],
    Spec((3, 11), high=1),
    dtypes=("uint8", "bool"),
)

# --- calculus, polynomials ------------------------------------------------------------------------

table.add(
    "diff",
    lambda m, x: [
        m.diff(x),
        m.diff(x, 2, axis=0),
        m.diff(x, n=0),
        m.diff(x, prepend=1, append=2),
        m.ediff1d(x),
        m.ediff1d(x, to_begin=5, to_end=np.array([1, 2], x.dtype)),
        *m.gradient(x),
        m.gradient(x, axis=1),
        m.gradient(x, 0.5, axis=0),
        m.trapezoid(x),
        m.trapezoid(x, dx=0.5, axis=0),
        m.trapezoid(x, x=np.array([0, 1, 3, 4], np.float32)),
        m.unwrap(x),
        m.unwrap(x, axis=0, period=2.0),
    ],
    (3, 4),
    ulp=16,
    scaled=True,
)
table.add("diff", lambda m, x: [m.diff(x), m.ediff1d(x)], (3, 4), dtypes=INTS + COMPLEX, ulp=4)
table.add(
    "gradient",
    lambda m, x: m.gradient(x, np.array([0.0, 1.0, 3.0, 4.0, 8.0], x.dtype)),
    (5,),
    ulp=32,
    scaled=True,
)
table.add(
    "interp",
    lambda m, x, y: [
        m.interp(x, np.arange(5, dtype=np.float32), y),
        m.interp(x, np.arange(5, dtype=np.float32), y, left=-9.0, right=9.0),
        m.interp(x, np.arange(5, dtype=np.float32), y, period=4.5),
    ],
    (2, 3),
    (5,),
    ulp=32,
    scaled=True,
)
for mode in ("full", "same", "valid"):
    table.add(
        "convolve",
        lambda m, x, y, mode=mode: [
            m.convolve(x, y, mode=mode),
            m.correlate(x, y, mode=mode),
            m.convolve(y, x, mode=mode),
        ],
        (7,),
        (3,),
        label=mode,
        dtypes=FLOATS + COMPLEX,
        ulp=16,
        scaled=True,
    )
    table.add(
        "convolve",
        lambda m, x, y, mode=mode: [m.convolve(x, y, mode=mode), m.correlate(x, y, mode=mode)],
        (7,),
        (3,),
        label=f"integers {mode}",
        dtypes=INTS,
        ulp=1,
        dtype=False,
    )
table.add(
    "polyadd",
    lambda m, x, y: [
        m.polyadd(x, y),
        m.polysub(y, x),
        m.polymul(x, y),
        m.polyval(x, y),
        m.polyder(x),
        m.polyder(x, 2),
        m.polyint(x),
        m.polyint(x, 2, k=np.array([1, 2], np.float32)),
        m.poly(y),
    ],
    (5,),
    (3,),
    ulp=64,
    scaled=True,
)
table.add(
    "polydiv",
    lambda m, x, y: (lambda q, r: [q, r[-2:]])(*m.polydiv(x, y)),
    (5,),
    Spec((3,), low=1),
    ulp=256,
    scaled=True,
    jit=False,
)
table.add(
    "polyfit",
    lambda m, y: m.polyfit(np.linspace(-1, 1, 9, dtype=y.dtype), y, 2),
    (9,),
    ulp=256,
    scaled=True,
)
table.add(
    "roots",
    lambda m: m.sort(m.real(m.roots(np.array([1.0, -6.0, 11.0, -6.0], np.float32)))),
    ulp=512,
    jit=False,
)

# --- functions of functions -----------------------------------------------------------------------

table.add(
    "apply_along_axis",
    lambda m, x: [
        m.apply_along_axis(lambda row: row * 2, 0, x),
        m.apply_along_axis(lambda row: row[::-1], -1, x),
        m.apply_over_axes(m.sum, x, [0, 1]),
        m.vectorize(lambda a, b: a + 2 * b)(x, x[0]),
        m.vectorize(lambda row: row.sum(), signature="(n)->()")(x),
    ],
    (3, 4),
    ulp=8,
    scaled=True,
)
table.add(
    "frompyfunc",
    lambda m, x: m.asarray(m.frompyfunc(lambda a, b: a + b, 2, 1)(x, x), dtype="float32"),
    (3,),
    jit=False,
)

# --- what arrays are ------------------------------------------------------------------------------

DTYPES = [np.dtype(name) for name in (*ALL, *SMALL, "float16", "int16")]
table.add(
    "shape",
    lambda m, x: [
        np.array(m.shape(x)),
        np.array([m.size(x), m.size(x, 0), m.ndim(x), m.iterable(x), m.isscalar(3.0)]),
    ],
    (2, 3),
    dtypes=FLOATS + BOOLS,
    jit=False,
    dtype=False,
)
table.add(
    "broadcast_shapes",
    lambda m: [
        np.array(m.broadcast_shapes((2, 1), (3,), ())),
        np.array([[m.can_cast(a, b) for a in DTYPES] for b in DTYPES]),
        np.array([[m.issubdtype(a, k) for a in DTYPES] for k in (m.integer, m.inexact, m.number)]),
        np.array([[m.isdtype(a, k) for a in DTYPES] for k in ("integral", "real floating")]),
    ],
    jit=False,
    dtype=False,
)
table.add(
    "result_type",
    lambda m: (
        [
            np.array(m.result_type(a, b).itemsize)
            for a in ("int8", "uint8", "int32", "bool")
            for b in ("int8", "uint16", "bool", "int32")
        ]
        + [np.array(m.promote_types("int8", "uint8").itemsize)]
    ),
    jit=False,
    dtype=False,
)
table.add(
    "finfo",
    lambda m: [
        *(np.array(getattr(m.finfo("float32"), k)) for k in ("eps", "max", "min", "tiny", "bits")),
        *(np.array(getattr(m.iinfo("int8"), k)) for k in ("min", "max", "bits")),
    ],
    jit=False,
    dtype=False,
)
table.add("pi", lambda m: np.array([m.pi, m.e, m.inf, m.euler_gamma]), dtype=False, ulp=1)
