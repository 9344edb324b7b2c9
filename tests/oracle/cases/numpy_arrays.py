"""Reductions, shape functions, sorting, products and creation of ``numpy``."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, EXACT, VALUE, Adder, Tol, call, dtype, family, is_inexact

INF, NAN = np.inf, np.nan


@family("jnp_reduce", Tol(16, True))
def reduce(add: Adder) -> None:
    """Reductions over axes, keepdims, where, initial, dtypes."""
    names = ("sum", "prod", "mean", "var", "std", "max", "min", "ptp", "median")
    for name in names:
        for d in ("f32", "f64", "bf16", "i32", "u8", "bool", "c64"):
            for axis in (None, 0, 1, (0, 1)):
                if d not in ("f32", "i32") and axis not in (None, 1):
                    continue
                key = f"{name}/{d}/{axis}"
                rng = add.rng(key)
                x = rng.distinct((3, 4), d) if d[0] in "fi" else rng.any((3, 4), d, 0.5, 2)
                modes = ALL if is_inexact(x.dtype) else BATCH
                add(key, call(f"jnp.{name}", axis=axis), [x], modes=modes, error="maybe")
        x = add.rng(name).distinct((3, 4))
        keep = call(f"jnp.{name}", axis=1, keepdims=True)
        add(f"{name}/keepdims", keep, [x], modes=ALL)
        add(f"{name}/0d", call(f"jnp.{name}"), [np.asarray(np.float32(2.5))], modes=DIFF)
        if name not in ("ptp", "median"):
            mask = np.array([[1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 1, 1]], bool)
            extra = {"initial": 0.0} if name in ("max", "min") else {}
            fn = lambda J, x, m, name=name, extra=extra: getattr(J.jnp, name)(
                x, axis=1, where=m, **extra
            )
            add(f"{name}/where", fn, [x, mask], modes=ALL)
        method = lambda J, x, name=name: getattr(x, name)(axis=0)
        if name != "median":
            add(f"{name}/method", method, [x], modes=ALL)
    for name in (
        "nansum",
        "nanprod",
        "nanmean",
        "nanvar",
        "nanstd",
        "nanmax",
        "nanmin",
        "nanmedian",
    ):
        x = np.array([[1.0, NAN, 3.0], [NAN, NAN, 2.0], [0.5, 4.0, -1.0]], np.float32)
        for axis in (None, 0, 1):
            add(f"{name}/{axis}", call(f"jnp.{name}", axis=axis), [x], modes=BATCH)
    for name in ("all", "any", "count_nonzero", "argmax", "argmin", "nanargmax", "nanargmin"):
        for d in ("f32", "i32", "bool"):
            for axis in (None, 0, 1):
                x = add.rng(name + d).any((3, 4), d)
                add(f"{name}/{d}/{axis}", call(f"jnp.{name}", axis=axis), [x], modes=BATCH)
    for name in (
        "cumsum",
        "cumprod",
        "nancumsum",
        "nancumprod",
        "cumulative_sum",
        "cumulative_prod",
    ):
        for d in ("f32", "i32", "bool", "u8"):
            for axis in (None, 0, 1):
                if axis is None and name.startswith("cumulative"):
                    continue
                x = add.rng(name + d).any((3, 4), d, 0.5, 1.5)
                modes = ALL if d == "f32" else BATCH
                add(
                    f"{name}/{d}/{axis}",
                    call(f"jnp.{name}", axis=axis),
                    [x],
                    modes=modes,
                    error="maybe",
                )
    for name in ("sum", "prod", "mean"):
        for source, target in (
            ("i32", "f32"),
            ("f32", "bf16"),
            ("i8", "i32"),
            ("bool", "i8"),
            ("f32", "i32"),
        ):
            x = add.rng(name + source).any((4,), source, 0.5, 2)
            add(f"{name}/dtype/{source}/{target}", call(f"jnp.{name}", dtype=dtype(target)), [x])
    more_reductions(add)


def more_reductions(add: Adder) -> None:
    """Quantiles, averages, norms of statistics, histograms."""
    x = add.rng("quantile").distinct((3, 5))
    for q in (0.0, 0.25, 0.5, 1.0, (0.1, 0.9)):
        for method in ("linear", "lower", "higher", "nearest", "midpoint"):
            fn = call("jnp.quantile", np.array(q, np.float32), axis=1, method=method)
            add(f"quantile/{q}/{method}", fn, [x], modes=ALL if method == "linear" else BATCH)
        fn = call("jnp.percentile", np.array(q, np.float32) * 100, axis=0)
        add(f"percentile/{q}", fn, [x], modes=ALL)
    for ddof in (0, 1):
        add(f"var/ddof/{ddof}", call("jnp.var", ddof=ddof), [x], modes=ALL)
        add(f"std/ddof/{ddof}", call("jnp.std", axis=0, ddof=ddof), [x], modes=ALL)
    add("std/constant", call("jnp.std"), [np.ones(3, np.float32)], modes=DIFF)
    weights = np.array([1.0, 2.0, 3.0], np.float32)
    add(
        "average",
        call("jnp.average", axis=0),
        [
            x,
        ],
        modes=ALL,
    )
    fn = lambda J, x, w: J.jnp.average(x, axis=0, weights=w, returned=True)
    add("average/weights", fn, [x, weights], modes=ALL)
    add("cov", call("jnp.cov"), [x], modes=ALL)
    add("corrcoef", call("jnp.corrcoef"), [x], modes=ALL)
    add("max/initial", call("jnp.max", axis=1, initial=0.5), [x], modes=ALL)
    add("sum/initial", call("jnp.sum", initial=2.0), [x], modes=ALL)
    add("sum/promote", call("jnp.sum", promote_integers=False), [np.array([200, 100], np.uint8)])
    add("histogram", call("jnp.histogram", bins=4), [x], modes=VALUE)
    add("bincount", call("jnp.bincount", length=5), [np.array([0, 1, 1, 4], np.int32)], modes=VALUE)
    add("digitize", call("jnp.digitize"), [x, np.array([-1.0, 0.0, 1.0], np.float32)], modes=VALUE)
    add("trapezoid", call("jnp.trapezoid", dx=0.5), [x], modes=ALL)
    add(
        "interp",
        call("jnp.interp"),
        [
            np.array([0.5, 1.5, 4.0], np.float32),
            np.array([0, 1, 2.0], np.float32),
            np.array([1, 3, 2.0], np.float32),
        ],
        modes=ALL,
    )
    odd = np.array([[INF, 1.0], [NAN, 2.0]], np.float32)
    for name in ("max", "min", "sum", "mean", "var", "argmax", "argmin", "median"):
        add(f"{name}/odd", call(f"jnp.{name}", axis=0), [odd], modes=VALUE)


SHAPE_CASES: dict[str, tuple[tuple[int, ...], Any]] = {
    "reshape": ((2, 3), lambda jnp, x: jnp.reshape(x, (3, -1))),
    "reshape/F": ((2, 3), lambda jnp, x: jnp.reshape(x, (3, 2), order="F")),
    "ravel": ((2, 3), lambda jnp, x: jnp.ravel(x)),
    "ravel/F": ((2, 3), lambda jnp, x: jnp.ravel(x, order="F")),
    "transpose": ((2, 3, 4), lambda jnp, x: jnp.transpose(x, (1, 2, 0))),
    "permute_dims": ((2, 3), lambda jnp, x: jnp.permute_dims(x, (1, 0))),
    "matrix_transpose": ((2, 3, 4), lambda jnp, x: jnp.matrix_transpose(x)),
    "swapaxes": ((2, 3, 4), lambda jnp, x: jnp.swapaxes(x, 0, 2)),
    "moveaxis": ((2, 3, 4), lambda jnp, x: jnp.moveaxis(x, 0, -1)),
    "moveaxis/two": ((2, 3, 4), lambda jnp, x: jnp.moveaxis(x, (0, 1), (2, 0))),
    "rollaxis": ((2, 3, 4), lambda jnp, x: jnp.rollaxis(x, 2)),
    "squeeze": ((1, 3, 1), lambda jnp, x: jnp.squeeze(x)),
    "squeeze/axis": ((1, 3, 1), lambda jnp, x: jnp.squeeze(x, axis=(0,))),
    "expand_dims": ((2, 3), lambda jnp, x: jnp.expand_dims(x, (0, 3))),
    "broadcast_to": ((3,), lambda jnp, x: jnp.broadcast_to(x, (2, 3))),
    "broadcast_arrays": ((3,), lambda jnp, x: jnp.broadcast_arrays(x, x[:, None])),
    "flip": ((2, 3), lambda jnp, x: jnp.flip(x)),
    "flip/axis": ((2, 3), lambda jnp, x: jnp.flip(x, 1)),
    "fliplr": ((2, 3), lambda jnp, x: jnp.fliplr(x)),
    "flipud": ((2, 3), lambda jnp, x: jnp.flipud(x)),
    "rot90": ((2, 3), lambda jnp, x: jnp.rot90(x)),
    "rot90/3": ((2, 3), lambda jnp, x: jnp.rot90(x, 3)),
    "roll": ((2, 3), lambda jnp, x: jnp.roll(x, 2)),
    "roll/axis": ((2, 3), lambda jnp, x: jnp.roll(x, 1, axis=1)),
    "roll/negative": ((5,), lambda jnp, x: jnp.roll(x, -2)),
    "roll/two": ((2, 3), lambda jnp, x: jnp.roll(x, (1, 2), axis=(0, 1))),
    "tile": ((2, 3), lambda jnp, x: jnp.tile(x, (2, 1))),
    "tile/more": ((3,), lambda jnp, x: jnp.tile(x, (2, 2))),
    "repeat": ((2, 3), lambda jnp, x: jnp.repeat(x, 2)),
    "repeat/axis": ((2, 3), lambda jnp, x: jnp.repeat(x, 2, axis=0)),
    "repeat/counts": ((2, 3), lambda jnp, x: jnp.repeat(x, np.array([1, 0, 2]), axis=1)),
    "concatenate": ((2, 3), lambda jnp, x: jnp.concatenate([x, x + x], axis=1)),
    "concatenate/none": ((2, 3), lambda jnp, x: jnp.concatenate([x, x], axis=None)),
    "stack": ((2, 3), lambda jnp, x: jnp.stack([x, x], axis=-1)),
    "vstack": ((3,), lambda jnp, x: jnp.vstack([x, x])),
    "hstack": ((2, 3), lambda jnp, x: jnp.hstack([x, x])),
    "dstack": ((2, 3), lambda jnp, x: jnp.dstack([x, x])),
    "column_stack": ((3,), lambda jnp, x: jnp.column_stack([x, x])),
    "append": ((3,), lambda jnp, x: jnp.append(x, x)),
    "split": ((6,), lambda jnp, x: jnp.split(x, 3)),
    "split/at": ((6,), lambda jnp, x: jnp.split(x, [1, 4])),
    "array_split": ((7,), lambda jnp, x: jnp.array_split(x, 3)),
    "hsplit": ((2, 4), lambda jnp, x: jnp.hsplit(x, 2)),
    "vsplit": ((4, 2), lambda jnp, x: jnp.vsplit(x, 2)),
    "unstack": ((3, 2), lambda jnp, x: jnp.unstack(x)),
    "pad": ((2, 3), lambda jnp, x: jnp.pad(x, 1)),
    "pad/pairs": ((2, 3), lambda jnp, x: jnp.pad(x, ((1, 0), (0, 2)))),
    "pad/edge": ((2, 3), lambda jnp, x: jnp.pad(x, 1, mode="edge")),
    "pad/reflect": ((3, 4), lambda jnp, x: jnp.pad(x, 2, mode="reflect")),
    "pad/symmetric": ((3, 4), lambda jnp, x: jnp.pad(x, 2, mode="symmetric")),
    "pad/wrap": ((3, 4), lambda jnp, x: jnp.pad(x, 2, mode="wrap")),
    "diag": ((3,), lambda jnp, x: jnp.diag(x)),
    "diag/k": ((3,), lambda jnp, x: jnp.diag(x, 1)),
    "diag/extract": ((3, 4), lambda jnp, x: jnp.diag(x)),
    "diagonal": ((3, 4), lambda jnp, x: jnp.diagonal(x, 1)),
    "diagonal/3d": ((2, 3, 4), lambda jnp, x: jnp.diagonal(x, 0, 1, 2)),
    "diagflat": ((2, 2), lambda jnp, x: jnp.diagflat(x)),
    "trace": ((3, 4), lambda jnp, x: jnp.trace(x)),
    "tril": ((3, 4), lambda jnp, x: jnp.tril(x)),
    "tril/k": ((3, 4), lambda jnp, x: jnp.tril(x, -1)),
    "triu": ((3, 4), lambda jnp, x: jnp.triu(x, 1)),
    "atleast_1d": ((), lambda jnp, x: jnp.atleast_1d(x)),
    "atleast_2d": ((3,), lambda jnp, x: jnp.atleast_2d(x)),
    "atleast_3d": ((3,), lambda jnp, x: jnp.atleast_3d(x)),
    "meshgrid": ((3,), lambda jnp, x: jnp.meshgrid(x, x[:2])),
    "meshgrid/ij": ((3,), lambda jnp, x: jnp.meshgrid(x, x[:2], indexing="ij")),
    "diff": ((2, 4), lambda jnp, x: jnp.diff(x)),
    "diff/n": ((5,), lambda jnp, x: jnp.diff(x, n=2)),
    "ediff1d": ((4,), lambda jnp, x: jnp.ediff1d(x)),
    "gradient": ((5,), lambda jnp, x: jnp.gradient(x)),
    "take": ((5, 2), lambda jnp, x: jnp.take(x, np.array([0, 4, 1]), axis=0)),
    "take/fill": ((5,), lambda jnp, x: jnp.take(x, np.array([0, 7, -1]))),
    "take/clip": ((5,), lambda jnp, x: jnp.take(x, np.array([0, 7, -1]), mode="clip")),
    "take/wrap": ((5,), lambda jnp, x: jnp.take(x, np.array([0, 7, -1]), mode="wrap")),
    "take_along_axis": (
        (2, 3),
        lambda jnp, x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
    ),
    "insert": ((4,), lambda jnp, x: jnp.insert(x, 1, 5)),
    "delete": ((4,), lambda jnp, x: jnp.delete(x, 1)),
    "resize": ((2, 2), lambda jnp, x: jnp.resize(x, (3, 2))),
    "block": ((2, 2), lambda jnp, x: jnp.block([[x, x], [x, x]])),
    "copy": ((2,), lambda jnp, x: jnp.copy(x)),
    "astype": ((2,), lambda jnp, x: jnp.astype(x, "float16")),
    "full_like": ((2, 2), lambda jnp, x: jnp.full_like(x, 2)),
    "zeros_like": ((2, 2), lambda jnp, x: jnp.zeros_like(x)),
    "ones_like": ((2, 2), lambda jnp, x: jnp.ones_like(x)),
    "select": ((4,), lambda jnp, x: jnp.select([x > 1, x > 0], [x, 2 * x], 0)),
    "kron": ((2, 2), lambda jnp, x: jnp.kron(x, x)),
    "vander": ((3,), lambda jnp, x: jnp.vander(x, 3)),
    "polyval": ((3,), lambda jnp, x: jnp.polyval(x, 2)),
    "convolve": ((4,), lambda jnp, x: jnp.convolve(x, x[:2])),
    "convolve/same": ((4,), lambda jnp, x: jnp.convolve(x, x[:3], mode="same")),
    "correlate": ((4,), lambda jnp, x: jnp.correlate(x, x[:2])),
    "cross": ((2, 3), lambda jnp, x: jnp.cross(x, x[::-1])),
    "apply_along_axis": ((2, 3), lambda jnp, x: jnp.apply_along_axis(jnp.sum, 1, x)),
    "vectorize": ((2, 3), lambda jnp, x: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, x)),
    "unwrap": ((4,), lambda jnp, x: jnp.unwrap(x * 4)),
    "ix_": ((3, 3), lambda jnp, x: x[jnp.ix_(np.array([0, 2]), np.array([1, 2]))]),
    "r_": ((3,), lambda jnp, x: jnp.r_[x, x]),
    "fill_diagonal": ((3, 3), lambda jnp, x: jnp.fill_diagonal(x, 1, inplace=False)),
    "place": ((3,), lambda jnp, x: jnp.put(x, np.array([1]), 5, inplace=False)),
}


@family("jnp_shape", Tol(8, True))
def shape(add: Adder) -> None:
    """Shape, joining, taking and padding functions over dtypes with derivatives."""
    for name, (s, op) in SHAPE_CASES.items():
        for d in ("f32", "i32", "c64", "bf16"):
            if d == "c64" and name in ("select", "take_along_axis", "unwrap"):
                continue
            if d == "bf16" and name in ("unwrap", "astype"):
                continue
            x = add.rng(name + d).any(s, d)
            modes = ALL if is_inexact(x.dtype) else BATCH
            fn = lambda J, x, op=op: op(J.jnp, x)
            add(f"{name}/{d}", fn, [x], modes=modes, error="maybe")


@family("jnp_creation", Tol(4))
def creation(add: Adder) -> None:
    """Creation functions with their default dtypes, x64 on and off."""
    table: dict[str, Any] = {
        "zeros": lambda jnp: jnp.zeros((2, 3)),
        "zeros/int": lambda jnp: jnp.zeros(3, int),
        "ones": lambda jnp: jnp.ones(2),
        "ones/bool": lambda jnp: jnp.ones(2, bool),
        "full": lambda jnp: jnp.full((2,), 3),
        "full/float": lambda jnp: jnp.full((2,), 3.5),
        "full/dtype": lambda jnp: jnp.full((2,), 3, jnp.float16),
        "eye": lambda jnp: jnp.eye(3),
        "eye/k": lambda jnp: jnp.eye(2, 4, 1, dtype=jnp.int32),
        "identity": lambda jnp: jnp.identity(2),
        "arange": lambda jnp: jnp.arange(5),
        "arange/float": lambda jnp: jnp.arange(5.0),
        "arange/step": lambda jnp: jnp.arange(1, 8, 2),
        "arange/fraction": lambda jnp: jnp.arange(0.0, 1.0, 0.3),
        "arange/down": lambda jnp: jnp.arange(5, 0, -2),
        "arange/dtype": lambda jnp: jnp.arange(4, dtype=jnp.float16),
        "linspace": lambda jnp: jnp.linspace(0, 1, 5),
        "linspace/open": lambda jnp: jnp.linspace(0, 2, 4, endpoint=False),
        "linspace/step": lambda jnp: jnp.linspace(0, 1, 3, retstep=True),
        "linspace/int": lambda jnp: jnp.linspace(0, 10, 4, dtype=int),
        "logspace": lambda jnp: jnp.logspace(0, 2, 4),
        "geomspace": lambda jnp: jnp.geomspace(1, 100, 4),
        "tri": lambda jnp: jnp.tri(3, 4, 1),
        "indices": lambda jnp: jnp.indices((2, 3)),
        "tril_indices": lambda jnp: jnp.tril_indices(3),
        "triu_indices": lambda jnp: jnp.triu_indices(3, 1),
        "diag_indices": lambda jnp: jnp.diag_indices(3),
        "mgrid": lambda jnp: jnp.mgrid[0:2, 0:3],
        "ogrid": lambda jnp: jnp.ogrid[0:2, 0:3],
        "array": lambda jnp: jnp.array([1, 2]),
        "array/float": lambda jnp: jnp.array([1.0, 2]),
        "array/nested": lambda jnp: jnp.array([[1, 2], [3, 4.5]]),
        "array/mixed": lambda jnp: jnp.array([jnp.zeros(2), np.ones(2)]),
        "array/bool": lambda jnp: jnp.array([True, 1]),
        "array/complex": lambda jnp: jnp.array([1j, 2]),
        "array/ndmin": lambda jnp: jnp.array(3, ndmin=2),
        "array/dtype": lambda jnp: jnp.array([1.7, 2.2], jnp.int8),
        "array/numpy64": lambda jnp: jnp.array(np.arange(3.0)),
        "array/numpy_int64": lambda jnp: jnp.array(np.arange(3)),
        "array/empty": lambda jnp: jnp.array([]),
        "asarray/array": lambda jnp: jnp.asarray(jnp.asarray(2)),
        "asarray/scalar": lambda jnp: jnp.asarray(np.float32(2)),
        "float32": lambda jnp: jnp.float32(3),
        "int8": lambda jnp: jnp.int8(3),
        "bool_": lambda jnp: jnp.bool_(3),
        "complex64": lambda jnp: jnp.complex64(3),
        "float64": lambda jnp: jnp.float64(3),
        "fromfunction": lambda jnp: jnp.fromfunction(lambda i, j: i + j, (2, 3)),
        "zeros/float64": lambda jnp: jnp.zeros(2, jnp.float64),
        "zeros/int64": lambda jnp: jnp.zeros(2, "int64"),
        "hanning": lambda jnp: jnp.hanning(5),
        "hamming": lambda jnp: jnp.hamming(5),
        "blackman": lambda jnp: jnp.blackman(5),
        "bartlett": lambda jnp: jnp.bartlett(5),
        "kaiser": lambda jnp: jnp.kaiser(5, 2.0),
        "constants": lambda jnp: [jnp.pi, jnp.e, jnp.inf, jnp.euler_gamma, jnp.newaxis],
        "finfo": lambda jnp: [str(jnp.finfo(jnp.float32).eps), str(jnp.finfo("bfloat16").max)],
        "iinfo": lambda jnp: [jnp.iinfo(jnp.int8).min, jnp.iinfo("uint32").max],
        "issubdtype": lambda jnp: [
            bool(jnp.issubdtype(jnp.bfloat16, jnp.floating)),
            bool(jnp.issubdtype("int4", jnp.integer)),
        ],
        "result_type": lambda jnp: [
            str(jnp.result_type(1, 2.0)),
            str(jnp.result_type(jnp.int8, jnp.uint8)),
            str(jnp.result_type("int32", jnp.bfloat16, 1.0)),
        ],
        "can_cast": lambda jnp: [
            bool(jnp.can_cast("int32", "float32")),
            bool(jnp.can_cast("bool", "int8")),
        ],
        "shape_of": lambda jnp: [jnp.shape([[1, 2]]), jnp.ndim([[1]]), jnp.size([1, 2, 3])],
        "broadcast_shapes": lambda jnp: jnp.broadcast_shapes((2, 1), (3,)),
        "isscalar": lambda jnp: [jnp.isscalar(3), jnp.isscalar(jnp.ones(2)), jnp.iscomplexobj(1j)],
    }
    for name, op in table.items():
        for x64 in (False, True):
            fn = lambda J, op=op: op(J.jnp)
            loose = name in ("logspace", "geomspace", "kaiser", "linspace", "hanning", "blackman")
            tol = Tol(32, True) if loose else None
            add(f"{name}/{'x64' if x64 else 'x32'}", fn, x64=x64, tol=tol)
    for value in (7, 2**40, -1):
        for d in ("u8", "i32", "f32"):
            fn = lambda J, v=value, d=d: J.jnp.array(v, dtype(d))
            add(f"array/overflow/{value}/{d}", fn, error="maybe")


@family("jnp_products", Tol(16, True))
def products(add: Adder) -> None:
    """matmul over ranks, dot, tensordot, inner, outer, einsum."""
    pairs = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((2, 2, 3), (3, 2))]
    pairs += [
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((0, 3), (3, 2)),
    ]
    for left, right in pairs:
        for d in ("f32", "i32", "c64", "bf16", "bool"):
            key = f"matmul/{'x'.join(map(str, left))}/{'x'.join(map(str, right))}/{d}"
            rng = add.rng(key)
            x, y = rng.any(left, d), rng.any(right, d)
            modes = ALL if is_inexact(x.dtype) else BATCH
            add(key, call("jnp.matmul"), [x, y], modes=modes, each=d == "f32")
            if len(left) < 4 and d != "bool":
                add(
                    key.replace("matmul", "dot", 1),
                    call("jnp.dot"),
                    [x, y],
                    modes=modes,
                    error="maybe",
                )
    rng = add.rng("others")
    a, b = rng.f((2, 3)), rng.f((4, 3))
    add("inner", call("jnp.inner"), [a, b], modes=ALL)
    add("outer", call("jnp.outer"), [a, b], modes=ALL)
    add("vdot", call("jnp.vdot"), [rng.f((3,), "c64"), rng.f((3,), "c64")], modes=ALL)
    add("vecdot", call("jnp.vecdot"), [a, a], modes=ALL)
    add("matvec", call("jnp.matvec"), [a, rng.f((3,))], modes=ALL)
    add("vecmat", call("jnp.vecmat"), [rng.f((2,)), a], modes=ALL)
    x, y = rng.f((2, 3, 4)), rng.f((4, 3, 2))
    for axes in (0, 1, ((1, 2), (1, 0)), ((0,), (2,)), ((-1,), (0,))):
        add(f"tensordot/{axes}", call("jnp.tensordot", axes=axes), [x, y], modes=ALL)
    mixed = [("i32", "f32"), ("bf16", "f32"), ("bool", "f32"), ("f32", "c64"), ("u8", "i32")]
    for left, right in mixed:
        args = [rng.any((2, 3), left), rng.any((3, 2), right)]
        add(f"matmul/mixed/{left}/{right}", call("jnp.matmul"), args, modes=BATCH)
    fn = call("jnp.matmul", preferred_element_type=np.dtype(np.float32))
    add("matmul/preferred", fn, [rng.f((2, 3), "bf16"), rng.f((3, 2), "bf16")], modes=BATCH)
    einsums = {
        "ij,jk->ik": ((2, 3), (3, 4)),
        "ij,jk": ((2, 3), (3, 4)),
        "ij->ji": ((2, 3),),
        "ii": ((3, 3),),
        "ii->i": ((3, 3),),
        "ij->": ((2, 3),),
        "ij->j": ((2, 3),),
        "i,j->ij": ((2,), (3,)),
        "i,i": ((3,), (3,)),
        "bij,bjk->bik": ((2, 2, 3), (2, 3, 2)),
        "bij,bjk->ikb": ((2, 2, 3), (2, 3, 2)),
        "...ij,...jk->...ik": ((2, 2, 3), (2, 3, 2)),
        "...i->...": ((2, 3),),
        "ij,jk,kl->il": ((2, 3), (3, 2), (2, 4)),
        "bhqd,bhkd->bhqk": ((1, 2, 3, 2), (1, 2, 4, 2)),
        "ij,ij->ij": ((2, 3), (2, 3)),
        "iij->j": ((2, 2, 3),),
        "ij,kl->ijkl": ((2, 2), (2, 3)),
        "ab,bc,cd->": ((2, 3), (3, 2), (2, 2)),
        "ijk->kij": ((2, 3, 4),),
        "i...,i...->...": ((2, 3), (2, 3)),
        "ij,j->i": ((2, 3), (3,)),
        "i,ij,j": ((2,), (2, 3), (3,)),
    }
    for spec, shapes in einsums.items():
        for d in ("f32", "i32", "c64"):
            args = [add.rng(f"{spec}{n}{d}").any(s, d) for n, s in enumerate(shapes)]
            fn = lambda J, *xs, spec=spec: J.jnp.einsum(spec, *xs)
            modes = ALL if d != "i32" else BATCH
            add(f"einsum/{spec}/{d}", fn, args, modes=modes, each=d == "f32")
    fn = lambda J, x, y: J.jnp.einsum(x, [0, 1], y, [1, 2], [0, 2])
    add("einsum/indices", fn, [rng.f((2, 3)), rng.f((3, 2))], modes=ALL)


@family("jnp_sort", EXACT)
def sort(add: Adder) -> None:
    """sort, argsort, lexsort, partition, unique, searchsorted, set functions, nonzero."""
    for d in ("f32", "i32", "u8", "bool", "bf16"):
        x = add.rng("sort" + d).any((3, 5), d)
        for axis in (0, -1, None):
            modes = ALL if is_inexact(x.dtype) else BATCH
            add(f"sort/{d}/{axis}", call("jnp.sort", axis=axis), [x], modes=modes)
            add(f"argsort/{d}/{axis}", call("jnp.argsort", axis=axis), [x], modes=BATCH)
        add(f"sort/{d}/descending", call("jnp.sort", descending=True), [x], modes=BATCH)
        add(f"argsort/{d}/descending", call("jnp.argsort", descending=True), [x], modes=BATCH)
        add(f"argsort/{d}/unstable", call("jnp.argsort", stable=False), [x], modes=("value",))
        flat = (
            add.rng("unique" + d).any((8,), d).round()
            if d != "bool"
            else np.array([True, False, True])
        )
        for flag in ("return_index", "return_inverse", "return_counts"):
            add(f"unique/{d}/{flag}", call("jnp.unique", **{flag: True}), [flat], modes=VALUE)
        add(f"unique/{d}/size", call("jnp.unique", size=5), [flat], modes=BATCH)
        add(f"unique/{d}/fill", call("jnp.unique", size=9, fill_value=1), [flat], modes=BATCH)
        for name in ("nonzero", "flatnonzero", "argwhere"):
            add(f"{name}/{d}", call(f"jnp.{name}"), [x], modes=VALUE)
            add(f"{name}/{d}/size", call(f"jnp.{name}", size=4), [x], modes=BATCH)
            add(f"{name}/{d}/fill", call(f"jnp.{name}", size=20, fill_value=7), [x], modes=BATCH)
    x = add.rng("others").distinct((3, 5))
    for k in (0, 2, -1):
        fn = lambda J, x, k=k: J.jnp.sort(J.jnp.partition(x, k)[..., : k % 5 + 1])
        add(f"partition/{k}", fn, [x], modes=VALUE)
    keys = add.rng("lex").i((2, 6), "i32", 0, 3)
    add("lexsort", lambda J, k: J.jnp.lexsort((k[0], k[1])), [keys], modes=BATCH)
    table = np.array([0.0, 1.0, 1.0, 2.0, 5.0], np.float32)
    query = np.array([-1.0, 1.0, 1.5, 5.0, 9.0, np.nan], np.float32)
    for side in ("left", "right"):
        for method in ("scan", "sort", "compare_all", "scan_unrolled"):
            fn = call("jnp.searchsorted", side=side, method=method)
            add(f"searchsorted/{side}/{method}", fn, [table, query], modes=BATCH)
    a, b = np.array([1, 2, 2, 5], np.int32), np.array([2, 5, 7], np.int32)
    for name in ("isin", "intersect1d", "setdiff1d", "setxor1d", "union1d"):
        add(name, call(f"jnp.{name}"), [a, b], modes=VALUE)
        if name != "isin":
            add(f"{name}/size", call(f"jnp.{name}", size=4), [a, b], modes=BATCH)
    mask = np.array([True, False, True, True, False])
    row = np.arange(5, dtype=np.float32)
    add("compress", call("jnp.compress"), [mask, row], modes=VALUE)
    add("extract", call("jnp.extract"), [mask, row], modes=VALUE)
    add("where/one", lambda J, m: J.jnp.where(m), [mask], modes=VALUE)
    add("where/size", lambda J, m: J.jnp.where(m, size=4, fill_value=-1), [mask], modes=BATCH)
    add(
        "unravel_index",
        call("jnp.unravel_index", (3, 4)),
        [np.array([0, 5, 11], np.int32)],
        modes=BATCH,
    )
    add(
        "ravel_multi_index",
        lambda J, i, j: J.jnp.ravel_multi_index((i, j), (3, 4), mode="clip"),
        [np.array([0, 2], np.int32), np.array([1, 3], np.int32)],
        modes=BATCH,
    )
    for name in ("array_equal", "array_equiv", "allclose"):
        add(name, call(f"jnp.{name}"), [row, row + np.float32(0)], modes=VALUE)
        add(f"{name}/shapes", call(f"jnp.{name}"), [row, row[:1]], modes=VALUE)
    odd = np.array([2.0, np.nan, -0.0, 0.0, np.inf, -np.inf], np.float32)
    for name in ("sort", "argsort", "unique", "nan_to_num", "sort_complex"):
        add(f"{name}/odd", call(f"jnp.{name}"), [odd], modes=("value",))
    z = np.array([1 + 2j, 1 - 1j, 0 + 5j], np.complex64)
    add("sort/complex", call("jnp.sort"), [z], modes=VALUE)
    add("packbits", call("jnp.packbits"), [np.array([1, 0, 1, 1, 0, 0, 0, 1, 1], np.uint8)])
    add("unpackbits", call("jnp.unpackbits"), [np.array([177, 3], np.uint8)])
