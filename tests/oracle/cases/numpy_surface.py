"""What of ``numpy`` the other tables leave out: second names, sets, polynomials, histograms."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, VALUE, Adder, Tol, call, dtype, family

INF, NAN = np.inf, np.nan

# Second names of functions, with the range of their arguments.
ONE: dict[str, tuple[float, float]] = {
    "acos": (-0.9, 0.9),
    "acosh": (1.2, 3.0),
    "asin": (-0.9, 0.9),
    "asinh": (-2.0, 2.0),
    "atan": (-2.0, 2.0),
    "atanh": (-0.9, 0.9),
    "around": (-3.0, 3.0),
    "iscomplex": (-2.0, 2.0),
    "isreal": (-2.0, 2.0),
    "isfinite": (-2.0, 2.0),
    "isnan": (-2.0, 2.0),
    "isinf": (-2.0, 2.0),
    "isposinf": (-2.0, 2.0),
    "isneginf": (-2.0, 2.0),
    "signbit": (-2.0, 2.0),
    "logical_not": (-2.0, 2.0),
    "spacing": (0.5, 2.0),
}
TWO: dict[str, tuple[float, float]] = {
    "atan2": (-2.0, 2.0),
    "pow": (0.5, 2.0),
    "equal": (-2.0, 2.0),
    "not_equal": (-2.0, 2.0),
    "less": (-2.0, 2.0),
    "less_equal": (-2.0, 2.0),
    "greater": (-2.0, 2.0),
    "greater_equal": (-2.0, 2.0),
    "logical_and": (-2.0, 2.0),
    "logical_or": (-2.0, 2.0),
    "logical_xor": (-2.0, 2.0),
    "isclose": (-2.0, 2.0),
    "nextafter": (-2.0, 2.0),
    "allclose": (-2.0, 2.0),
    "array_equal": (-2.0, 2.0),
    "array_equiv": (-2.0, 2.0),
}
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift", "left_shift", "right_shift")


@family("numpy_names", Tol(16, True))
def names(add: Adder) -> None:
    """Second names and predicates over dtypes and shapes."""
    for name, (lo, hi) in ONE.items():
        for d in ("f32", "f64", "bf16", "i32", "bool", "c64"):
            x = add.rng(name + d).any((2, 3), d, lo, hi)
            modes = ALL if d in ("f32", "c64") else VALUE
            add(f"{name}/{d}", call(f"jnp.{name}"), [x], modes=modes, error="maybe")
        x = add.rng(name).f((), "f32", lo, hi)
        add(f"{name}/0d", call(f"jnp.{name}"), [x], modes=DIFF, error="maybe")
        add(f"{name}/empty", call(f"jnp.{name}"), [np.zeros((0, 2), np.float32)], modes=ALL)
        odd = np.array([-INF, -1.0, -0.0, 0.0, 1.0, INF, NAN], np.float32)
        add(f"{name}/points", call(f"jnp.{name}"), [odd])
    for name, (lo, hi) in TWO.items():
        for d in ("f32", "f64", "bf16", "i32", "bool", "c64"):
            rng = add.rng(name + d)
            x, y = rng.any((2, 3), d, lo, hi), rng.any((3,), d, lo, hi)
            modes = ALL if d == "f32" else VALUE
            fn = call(f"jnp.{name}")
            add(f"{name}/{d}", fn, [x, y], modes=modes, error="maybe", each=d == "f32")
        x = add.rng(name).f((3,), "f32", lo, hi)
        add(f"{name}/scalar", call(f"jnp.{name}", 1.5), [x], modes=ALL, error="maybe")
        # JAX refuses to compare shapes that do not fit: NumPy and weft answer False.
        if name != "array_equiv":
            add(f"{name}/wrong", call(f"jnp.{name}"), [x, x[:2]], error="maybe")
    for name in (*BITS, *SHIFTS):
        for d in ("i32", "u8", "i8", "bool", "f32"):
            rng = add.rng(name + d)
            x, y = rng.i((2, 3), d, 0, 20), rng.i((3,), d, 1, 5)
            add(f"{name}/{d}", call(f"jnp.{name}"), [x, y], modes=BATCH, error="maybe")
    for name in ("bitwise_invert", "bitwise_not", "invert", "bitwise_count"):
        for d in ("i32", "u8", "i8", "bool", "f32"):
            x = add.rng(name + d).i((2, 3), d, -9, 20)
            add(f"{name}/{d}", call(f"jnp.{name}"), [x], modes=BATCH, error="maybe")
    for d in ("f32", "f64", "i32"):
        rng = add.rng("ldexp" + d)
        x, e = rng.any((2, 3), d), rng.i((3,), "i32", -3, 4)
        modes = BATCH if d == "i32" else ALL
        add(f"ldexp/{d}", call("jnp.ldexp"), [x, e], modes=modes, error="maybe", each=True)
    for decimals in (-1, 0, 1, 2):
        x = add.rng("round").f((5,), "f32", -30, 30)
        add(f"around/decimals/{decimals}", call("jnp.around", decimals), [x], modes=ALL)
        add(f"round/decimals/{decimals}", call("jnp.round", decimals=decimals), [x], modes=ALL)
        whole = np.array([1, 15, 25, -35], np.int32)
        add(f"around/int/{decimals}", call("jnp.around", decimals), [whole], error="maybe")
    for name in ("iscomplexobj", "isrealobj", "isscalar", "iterable", "ndim", "shape", "size"):
        for d in ("f32", "c64", "i32"):
            add(f"{name}/{d}", call(f"jnp.{name}"), [add.rng(name).any((2, 3), d)])
        for label, value in (("int", 3), ("list", [1, 2]), ("text", "a"), ("complex", 2j)):
            add(f"{name}/{label}", lambda J, n=name, v=value: getattr(J.jnp, n)(v), error="maybe")


# name: operands (shapes), the function; all are differentiated and batched.
REST: dict[str, tuple[list[Any], Any]] = {
    "amax": ([(3, 4)], lambda n, x: n.amax(x, axis=-1)),
    "amin": ([(3, 4)], lambda n, x: n.amin(x, axis=(0, 1), keepdims=True)),
    "apply_along_axis": ([(3, 4)], lambda n, x: n.apply_along_axis(n.sum, 1, x)),
    "apply_over_axes": ([(2, 3, 4)], lambda n, x: n.apply_over_axes(n.sum, x, [0, 2])),
    "astype": ([(3,)], lambda n, x: n.astype(x, np.float16)),
    "asarray": ([(3,)], lambda n, x: n.asarray(x, np.float32)),
    "asarray/copy": ([(3,)], lambda n, x: n.asarray(x, copy=True)),
    "array/list": ([(3,)], lambda n, x: n.array([x, x * 2])),
    "array/ndmin": ([(3,)], lambda n, x: n.array(x, ndmin=3)),
    "asarray/nested": ([(), ()], lambda n, x, y: n.asarray([[x, y], [1.0, 2]])),
    "choose": ([(3,), (3,)], lambda n, x, y: n.choose(np.array([0, 1, 0]), [x, y])),
    "choose/wrap": ([(3,)], lambda n, x: n.choose(np.array([0, 5, -1]), [x, 2 * x], mode="wrap")),
    "choose/clip": ([(3,)], lambda n, x: n.choose(np.array([0, 5, -1]), [x, 2 * x], mode="clip")),
    "compress": ([(3, 4)], lambda n, x: n.compress(np.array([True, False, True]), x, axis=0)),
    "compress/size": ([(4,)], lambda n, x: n.compress(np.array([1, 0, 1, 1], bool), x, size=2)),
    "compress/fill": (
        [(4,)],
        lambda n, x: n.compress(np.array([1, 0, 0, 1], bool), x, size=3, fill_value=-1),
    ),
    "concat": ([(2, 3), (2, 3)], lambda n, x, y: n.concat([x, y], axis=-1)),
    "concat/none": ([(2, 3), (2,)], lambda n, x, y: n.concat([x, y], axis=None)),
    "concatenate/dtype": ([(2,), (2,)], lambda n, x, y: n.concatenate([x, y], dtype="float16")),
    "stack/dtype": ([(2,), (2,)], lambda n, x, y: n.stack([x, y], axis=1, dtype="bfloat16")),
    "dsplit": ([(2, 2, 4)], lambda n, x: n.dsplit(x, 2)),
    "dsplit/at": ([(2, 2, 4)], lambda n, x: n.dsplit(x, [1, 3])),
    "empty_like": ([(3,)], lambda n, x: n.empty_like(x) * x),
    "extract": ([(4,)], lambda n, x: n.extract(np.array([1, 0, 1, 0], bool), x)),
    "extract/size": ([(4,)], lambda n, x: n.extract(x > 0, x, size=2, fill_value=9)),
    "frompyfunc": ([(3,), (3,)], lambda n, x, y: n.frompyfunc(lambda a, b: a * b, 2, 1)(x, y)),
    "frompyfunc/outer": (
        [(3,), (2,)],
        lambda n, x, y: n.frompyfunc(lambda a, b: a * b, 2, 1).outer(x, y),
    ),
    "full": ([()], lambda n, x: n.full((2, 3), x)),
    "full_like": ([(2,), ()], lambda n, x, y: n.full_like(x, y)),
    "geomspace": ([(), ()], lambda n, x, y: n.geomspace(2 + x * x, 20 + y, 5)),
    "linspace": ([(2,), (2,)], lambda n, x, y: n.linspace(x, y, 4)),
    "linspace/axis": ([(2,), (2,)], lambda n, x, y: n.linspace(x, y, 4, axis=-1, endpoint=False)),
    "linspace/step": ([(), ()], lambda n, x, y: n.linspace(x, y, 4, retstep=True)),
    "logspace": ([(), ()], lambda n, x, y: n.logspace(x, y, 4, base=2.0)),
    "kaiser": ([()], lambda n, x: n.kaiser(5, 3 + x)),
    "nanmax": ([(3, 4)], lambda n, x: n.nanmax(x, axis=1)),
    "nanmin": ([(3, 4)], lambda n, x: n.nanmin(x, axis=-1)),
    "nanmean": ([(3, 4)], lambda n, x: n.nanmean(x, axis=(0, 1))),
    "nanmedian": ([(3, 4)], lambda n, x: n.nanmedian(x, axis=1)),
    "nansum": ([(3, 4)], lambda n, x: n.nansum(x, axis=0)),
    "nanprod": ([(3, 4)], lambda n, x: n.nanprod(x, axis=0)),
    "nanvar": ([(3, 4)], lambda n, x: n.nanvar(x, axis=0, ddof=1)),
    "nanstd": ([(3, 4)], lambda n, x: n.nanstd(x, axis=0)),
    "nanquantile": ([(3, 4)], lambda n, x: n.nanquantile(x, 0.3, axis=1)),
    "nanpercentile": ([(3, 4)], lambda n, x: n.nanpercentile(x, n.array([20.0, 60]), axis=0)),
    "partition": ([(7,)], lambda n, x: n.partition(x, 3)),
    "argpartition": ([(7,)], lambda n, x: n.argpartition(x, 3)),
    "partition/axis": ([(3, 4)], lambda n, x: n.partition(x, -2, axis=0)),
    "piecewise": (
        [(4,)],
        lambda n, x: n.piecewise(x, [x < 0, x > 1], [lambda v: v**2, 5.0, n.sin]),
    ),
    "poly": ([(3,)], lambda n, x: n.poly(x)),
    "poly/matrix": ([(3, 3)], lambda n, x: n.poly(x @ x.T).real),
    "polyadd": ([(3,), (2,)], lambda n, x, y: n.polyadd(x, y)),
    "polysub": ([(3,), (4,)], lambda n, x, y: n.polysub(x, y)),
    "polymul": ([(3,), (2,)], lambda n, x, y: n.polymul(x, y)),
    "polydiv": ([(4,), (2,)], lambda n, x, y: n.polydiv(x, y + 3)),
    "polyder": ([(4,)], lambda n, x: n.polyder(x)),
    "polyder/2": ([(4,)], lambda n, x: n.polyder(x, 2)),
    "polyint": ([(3,)], lambda n, x: n.polyint(x)),
    "polyint/k": ([(3,)], lambda n, x: n.polyint(x, 2, k=n.array([1.0, 2.0]))),
    "polyfit": ([(6,), (6,)], lambda n, x, y: n.polyfit(x, y, 2)),
    "polyfit/w": ([(6,), (6,)], lambda n, x, y: n.polyfit(x, y, 1, w=n.arange(1.0, 7))),
    "polyval": ([(3,), (4,)], lambda n, x, y: n.polyval(x, y)),
    "roots/one": ([(2,)], lambda n, x: n.roots(x + 3, strip_zeros=False)),
    "sort_complex": ([(4,)], lambda n, x: n.sort_complex(x)),
    "trim_zeros": ([(4,)], lambda n, x: n.trim_zeros(np.array([0.0, 1, 2, 0]))),
    "unwrap": ([(6,)], lambda n, x: n.unwrap(4 * x)),
    "unwrap/period": ([(2, 6)], lambda n, x: n.unwrap(4 * x, discont=2.0, axis=-1, period=4)),
    "vectorize": ([(3,), (3,)], lambda n, x, y: n.vectorize(lambda a, b: a * b + 1)(x, y)),
    "vectorize/signature": (
        [(2, 3), (3,)],
        lambda n, x, y: n.vectorize(n.dot, signature="(n),(n)->()")(x, y),
    ),
    "place": ([(4,)], lambda n, x: n.place(x, np.array([1, 0, 1, 0], bool), 7.0, inplace=False)),
    "put": ([(4,), (2,)], lambda n, x, y: n.put(x, np.array([0, 2]), y, inplace=False)),
    "put/clip": ([(4,)], lambda n, x: n.put(x, np.array([9]), 1.0, mode="clip", inplace=False)),
    "put_along_axis": (
        [(3, 4), (3, 1)],
        lambda n, x, y: n.put_along_axis(x, np.array([[1], [0], [3]]), y, 1, inplace=False),
    ),
    "fill_diagonal": ([(3, 3)], lambda n, x: n.fill_diagonal(x, 5.0, inplace=False)),
    "diagflat": ([(2, 2)], lambda n, x: n.diagflat(x, k=-1)),
    "ediff1d": ([(4,), (1,)], lambda n, x, y: n.ediff1d(x, to_end=y, to_begin=y)),
    "diff/ends": ([(3, 4)], lambda n, x: n.diff(x, n=2, axis=0, prepend=0.0, append=1.0)),
    "gradient": ([(5,)], lambda n, x: n.gradient(x)),
    "gradient/two": ([(4, 5)], lambda n, x: n.gradient(x, 2.0, 0.5)),
    "gradient/axis": ([(4, 5)], lambda n, x: n.gradient(x, axis=1)),
    "interp/period": (
        [(3,)],
        lambda n, x: n.interp(x, n.arange(4.0), n.arange(4.0) ** 2, period=4),
    ),
    "interp/ends": (
        [(3,), (4,)],
        lambda n, x, y: n.interp(3 * x, n.arange(4.0), y, left=-1.0, right=9.0),
    ),
    "cov/two": ([(5,), (5,)], lambda n, x, y: n.cov(x, y)),
    "cov/weights": ([(2, 5)], lambda n, x: n.cov(x, aweights=n.arange(1.0, 6), ddof=0)),
    "cov/counts": ([(2, 5)], lambda n, x: n.cov(x, fweights=np.array([1, 2, 1, 3, 1]))),
    "cov/bias": ([(5, 2)], lambda n, x: n.cov(x, rowvar=False, bias=True)),
    "corrcoef/columns": ([(5, 2)], lambda n, x: n.corrcoef(x, rowvar=False)),
    "average/keep": ([(3, 4)], lambda n, x: n.average(x, axis=1, keepdims=True)),
    "trapezoid/x": ([(4,), (4,)], lambda n, y, x: n.trapezoid(y, n.cumsum(x * x))),
    "resize": ([(3,)], lambda n, x: n.resize(x, (2, 4))),
    "insert": ([(4,), (2,)], lambda n, x, y: n.insert(x, np.array([1, 3]), y)),
    "insert/axis": ([(2, 3)], lambda n, x: n.insert(x, 1, 5.0, axis=1)),
    "delete": ([(5,)], lambda n, x: n.delete(x, np.array([1, 3]))),
    "delete/slice": ([(5,)], lambda n, x: n.delete(x, slice(1, 4, 2))),
    "delete/axis": ([(3, 4)], lambda n, x: n.delete(x, 2, axis=-1)),
    "select": ([(4,), (4,)], lambda n, x, y: n.select([x > 0, y > 0], [x, y], default=7.0)),
    "nan_to_num": ([(3,)], lambda n, x: n.nan_to_num(x / n.array([1.0, 0, 1]), posinf=9.0)),
    "repeat/total": (
        [(3,)],
        lambda n, x: n.repeat(x, np.array([1, 2, 2]), total_repeat_length=6),
    ),
    "einsum/three": (
        [(2, 3), (3, 4), (4,)],
        lambda n, x, y, z: n.einsum("ij,jk,k->i", x, y, z, optimize="greedy"),
    ),
    "einsum/lists": ([(2, 3), (3,)], lambda n, x, y: n.einsum(x, [0, 1], y, [1], [0])),
    "cross/axes": ([(3, 2), (2, 3)], lambda n, x, y: n.cross(x, y, axisa=0, axisb=1, axisc=0)),
    "convolve/same": ([(5,), (3,)], lambda n, x, y: n.convolve(x, y, mode="same")),
    "convolve/valid": ([(5,), (3,)], lambda n, x, y: n.convolve(x, y, mode="valid")),
    "correlate/full": ([(5,), (3,)], lambda n, x, y: n.correlate(x, y, mode="full")),
    "clip/both": ([(4,), ()], lambda n, x, y: n.clip(x, -0.5, y)),
    "clip/min": ([(4,)], lambda n, x: n.clip(x, min=0.25)),
    "where/none": ([(4,)], lambda n, x: n.where(x > 0, x, n.zeros(()))),
    "histogram/weights": (
        [(6,), (6,)],
        lambda n, x, w: n.histogram(x, bins=3, range=(-2, 2), weights=w),
    ),
    "histogram/density": ([(6,)], lambda n, x: n.histogram(x, bins=4, density=True)),
    "histogram2d": ([(6,), (6,)], lambda n, x, y: n.histogram2d(x, y, bins=3)),
    "histogram2d/weights": (
        [(6,), (6,), (6,)],
        lambda n, x, y, w: n.histogram2d(
            x, y, bins=(2, 3), range=((-2, 2), (-2, 2)), weights=w, density=True
        ),
    ),
    "histogramdd": ([(6, 2)], lambda n, x: n.histogramdd(x, bins=2)),
    "histogram_bin_edges": ([(6,)], lambda n, x: n.histogram_bin_edges(x, bins=5)),
    "bincount/weights": (
        [(4,)],
        lambda n, w: n.bincount(np.array([0, 1, 1, 3]), weights=w, length=5),
    ),
}


@family("numpy_rest", Tol(64, True))
def rest(add: Adder) -> None:
    """Functions of no other family: value, compiled, both derivatives, batched."""
    for name, (shapes, f) in REST.items():
        for d in ("f32", "f64"):
            rng = add.rng(f"{name}/{d}")
            args = [rng.f(shape, d) for shape in shapes]
            fn = lambda J, *xs, f=f: f(J.jnp, *xs)
            wide = 4096 if name.startswith(("poly", "roots", "geomspace", "logspace")) else 64
            key = f"{name}/{d}"
            each = d == "f32" and len(shapes) > 1
            add(key, fn, args, modes=ALL, each=each, tol=Tol(wide, True), error="maybe")
        rng = add.rng(f"{name}/i32")
        args = [rng.i(shape, "i32", -6, 7) for shape in shapes]
        add(f"{name}/i32", fn, args, modes=VALUE, error="maybe", tol=Tol(wide, True))


@family("numpy_methods", Tol(16, True))
def methods(add: Adder) -> None:
    """reduce, accumulate, at, outer and reduceat of the universal functions."""
    names = "add subtract multiply maximum minimum logical_and logical_or logical_xor bitwise_and"
    names += " bitwise_or bitwise_xor logaddexp logaddexp2 negative"
    where = np.array([[1, 0, 1], [1, 1, 0]], bool)
    for name in names.split():
        for d in ("i32", "bool") if "_" in name else ("f32", "i32"):
            rng = add.rng(name + d)
            x, y = rng.any((2, 3), d), rng.any((3,), d)
            table: dict[str, Any] = {
                "call": lambda u, x, y: u(x, y),
                "where": lambda u, x, y: u(x, y, where=where),
                "reduce": lambda u, x, y: u.reduce(x),
                "reduce/axis": lambda u, x, y: u.reduce(x, axis=-1, keepdims=True),
                "reduce/none": lambda u, x, y: u.reduce(x, axis=None),
                "reduce/where": lambda u, x, y: u.reduce(x, axis=1, where=where, initial=1),
                "reduce/dtype": lambda u, x, y: u.reduce(x, axis=0, dtype=np.float32),
                "accumulate": lambda u, x, y: u.accumulate(x, axis=1),
                "outer": lambda u, x, y: u.outer(x, y),
                "reduceat": lambda u, x, y: u.reduceat(y, np.array([0, 2, 1])),
                "at": lambda u, x, y: u.at(x, np.array([0, 1]), y, inplace=False),
                "fields": lambda u, x, y: [u.nin, u.nout, str(u.identity), u.__name__],
            }
            for label, f in table.items():
                fn = lambda J, x, y, f=f, n=name: f(getattr(J.jnp, n), x, y)
                modes = ALL if d == "f32" and name in ("add", "multiply", "maximum") else VALUE
                modes = VALUE if label == "fields" else modes
                # NumPy's reductions of extremes take a dtype, and so do weft's.
                if (name, label) != ("maximum", "reduce/dtype"):
                    key = f"{name}/{label}/{d}"
                    add(key, fn, [x, y], modes=modes, error="maybe", tol=Tol(32, True))


SETS: dict[str, Any] = {
    "intersect1d": lambda n, x, y: n.intersect1d(x, y),
    "intersect1d/size": lambda n, x, y: n.intersect1d(x, y, size=4, fill_value=-9),
    "intersect1d/indices": lambda n, x, y: n.intersect1d(x, y, size=3, return_indices=True),
    "union1d": lambda n, x, y: n.union1d(x, y),
    "union1d/size": lambda n, x, y: n.union1d(x, y, size=9, fill_value=-9),
    "setdiff1d": lambda n, x, y: n.setdiff1d(x, y),
    "setdiff1d/size": lambda n, x, y: n.setdiff1d(x, y, size=5, fill_value=-9),
    "setxor1d": lambda n, x, y: n.setxor1d(x, y),
    "setxor1d/size": lambda n, x, y: n.setxor1d(x, y, size=7, fill_value=-9),
    "isin": lambda n, x, y: n.isin(x, y),
    "isin/invert": lambda n, x, y: n.isin(x, y, invert=True),
    "isin/compare": lambda n, x, y: n.isin(x, y, method="compare_all"),
    "isin/sort": lambda n, x, y: n.isin(x, y, method="sort"),
    "isin/binary": lambda n, x, y: n.isin(x, y, method="binary_search"),
    "unique": lambda n, x, y: n.unique(x),
    "unique/size": lambda n, x, y: n.unique(x, size=3),
    "unique/fill": lambda n, x, y: n.unique(x, size=8, fill_value=-9),
    "unique/all": lambda n, x, y: n.unique(
        x, return_index=True, return_inverse=True, return_counts=True, size=5
    ),
    "unique_all": lambda n, x, y: tuple(n.unique_all(x, size=5)),
    "unique_counts": lambda n, x, y: tuple(n.unique_counts(x, size=5)),
    "unique_inverse": lambda n, x, y: tuple(n.unique_inverse(x, size=5)),
    "unique_values": lambda n, x, y: n.unique_values(x, size=5, fill_value=-1),
    "nonzero/size": lambda n, x, y: n.nonzero(x, size=3, fill_value=-1),
    "flatnonzero/size": lambda n, x, y: n.flatnonzero(x, size=9, fill_value=-1),
    "argwhere/size": lambda n, x, y: n.argwhere(x, size=4, fill_value=7),
    "where/size": lambda n, x, y: n.where(x > 1, size=4, fill_value=7),
    "searchsorted/left": lambda n, x, y: n.searchsorted(n.sort(x), y),
    "searchsorted/right": lambda n, x, y: n.searchsorted(n.sort(x), y, side="right"),
    "searchsorted/sorter": lambda n, x, y: n.searchsorted(x, y, sorter=n.argsort(x)),
    "searchsorted/unrolled": lambda n, x, y: n.searchsorted(n.sort(x), y, method="scan_unrolled"),
    "searchsorted/sort": lambda n, x, y: n.searchsorted(n.sort(x), y, method="sort"),
    "searchsorted/compare": lambda n, x, y: n.searchsorted(n.sort(x), y, method="compare_all"),
    "digitize": lambda n, x, y: n.digitize(x, n.sort(y)),
    "digitize/right": lambda n, x, y: n.digitize(x, n.sort(y), right=True),
    "digitize/down": lambda n, x, y: n.digitize(x, -n.sort(-y)),
    "argsort/down": lambda n, x, y: n.argsort(x, descending=True),
    "argsort/unstable": lambda n, x, y: n.argsort(x, stable=False),
    "sort/down": lambda n, x, y: n.sort(x, descending=True),
    "lexsort": lambda n, x, y: n.lexsort((x, x * 0)),
    "argpartition": lambda n, x, y: n.argpartition(x, 2),
    "nanargmax": lambda n, x, y: n.nanargmax(x),
    "nanargmin": lambda n, x, y: n.nanargmin(x, keepdims=True),
    "count_nonzero": lambda n, x, y: n.count_nonzero(x),
    "trim_zeros": lambda n, x, y: n.trim_zeros(x, "f"),
}


@family("numpy_sets", Tol(4, True))
def sets(add: Adder) -> None:
    """Sets, searches and what depends on the data, with ``size`` and ``fill_value``."""
    for name, f in SETS.items():
        fn = lambda J, x, y, f=f: f(J.jnp, x, y)
        for d in ("f32", "i32", "u8"):
            x = np.array([3, 1, 0, 3, 2, 1], dtype(d))
            y = np.array([1, 3, 5, 1], dtype(d))
            # Without a size JAX finds sets outside of the trace, and loses their derivative.
            lost = name in ("intersect1d", "union1d", "setdiff1d", "setxor1d", "unique")
            modes = ALL if d == "f32" and not lost else BATCH
            add(f"{name}/{d}", fn, [x, y], modes=modes, error="maybe", each=d == "f32")
        odd = np.array([NAN, 1.0, INF, NAN, -0.0, 0.0, 1.0], np.float32)
        add(f"{name}/odd", fn, [odd, odd[:4]], error="maybe")
        none = np.zeros(0, np.float32)
        add(f"{name}/empty", fn, [none, none], error="maybe")
    table = np.array([[1, 2], [3, 1], [1, 2]], np.int32)
    for axis in (0, 1, None):
        add(f"unique/axis/{axis}", call("jnp.unique", axis=axis), [table], modes=BATCH)
        fn = call("jnp.unique", axis=axis, size=4, return_inverse=True)
        add(f"unique/axis/size/{axis}", fn, [table], modes=BATCH)
    odd = np.array([NAN, 1.0, NAN], np.float32)
    add("unique/equal_nan", call("jnp.unique", equal_nan=False), [odd])
    for n, shape in ((10, (3, 4)), (11, (2, 6))):
        flat = np.array([0, 5, n, -1], np.int32)
        fn = call("jnp.unravel_index", shape)
        add(f"unravel_index/{n}", fn, [flat], modes=BATCH)
        for mode in ("clip", "wrap", "raise"):
            fn = lambda J, i, s=shape, m=mode: J.jnp.ravel_multi_index((i, i), s, mode=m)
            index = np.array([0, 1, 5, -1], np.int32)
            add(f"ravel_multi_index/{mode}/{n}", fn, [index], modes=BATCH, error="maybe")
    for name in ("packbits", "unpackbits"):
        for axis in (None, 0, -1):
            for order in ("big", "little"):
                x = add.rng(name).i((3, 9), "u8", 0, 200)
                fn = call(f"jnp.{name}", axis=axis, bitorder=order)
                add(f"{name}/{axis}/{order}", fn, [x], modes=BATCH)
    add("unpackbits/count", call("jnp.unpackbits", count=5), [np.array([7, 200], np.uint8)])
    add("unpackbits/drop", call("jnp.unpackbits", count=-3), [np.array([7, 200], np.uint8)])
    add("unpackbits/float", call("jnp.unpackbits"), [np.ones(2, np.float32)], error=True)
    for d in ("f32", "i32"):
        keys = add.rng("lexsort").i((2, 6), "i32", 0, 3).astype(dtype(d))
        add(f"lexsort/rows/{d}", call("jnp.lexsort"), [keys], modes=BATCH)


@family("numpy_made", Tol(8, True))
def made(add: Adder) -> None:
    """Arrays made of numbers, texts, functions and shapes."""
    table: dict[str, Any] = {}
    for n in (0, 1, 5):
        for window in ("bartlett", "blackman", "hamming", "hanning"):
            table[f"{window}/{n}"] = lambda J, w=window, n=n: getattr(J.jnp, w)(n)
        table[f"kaiser/{n}"] = lambda J, n=n: J.jnp.kaiser(n, 3.5)
        table[f"identity/{n}"] = lambda J, n=n: J.jnp.identity(n, "int8")
        for k in (-1, 0, 1):
            table[f"tri/{n}/{k}"] = lambda J, n=n, k=k: J.jnp.tri(n, 3, k)
            table[f"eye/{n}/{k}"] = lambda J, n=n, k=k: J.jnp.eye(n, 3, k)
            table[f"tril_indices/{n}/{k}"] = lambda J, n=n, k=k: J.jnp.tril_indices(n, k, 4)
            table[f"triu_indices/{n}/{k}"] = lambda J, n=n, k=k: J.jnp.triu_indices(n, k)
        table[f"diag_indices/{n}"] = lambda J, n=n: J.jnp.diag_indices(n, 3)
        table[f"mask_indices/{n}"] = lambda J, n=n: J.jnp.mask_indices(n, J.jnp.triu, 1)
        table[f"mask_indices/size/{n}"] = lambda J, n=n: J.jnp.mask_indices(n, J.jnp.tril, size=4)
    for start, stop, step in ((5, None, None), (1, 6, 2), (5, 0, -2), (0.5, 3, 0.75), (3, 1, 1)):
        for d in (None, "float32", "int16"):
            fn = lambda J, a=start, b=stop, c=step, d=d: J.jnp.arange(a, b, c, dtype=d)
            table[f"arange/{start}/{stop}/{step}/{d}"] = fn
    for endpoint in (True, False):
        for d in (None, "float16", "int32"):
            # Powers that are whole numbers come out next to them: cutting them off is chance.
            for name in ("linspace",) if d == "int32" else ("linspace", "logspace", "geomspace"):
                fn = lambda J, n=name, e=endpoint, d=d: getattr(J.jnp, n)(
                    1, 7, 5, endpoint=e, dtype=d
                )
                table[f"{name}/{endpoint}/{d}"] = fn
    for name in ("zeros", "ones", "empty"):
        for shape in ((), 3, (2, 0), [1, 2], -1, "a", 1.5):
            fn = lambda J, n=name, s=shape: getattr(J.jnp, n)(s) * 0
            table[f"{name}/{shape}"] = fn
        table[f"{name}/dtype"] = lambda J, n=name: getattr(J.jnp, n)((2,), "uint8") * 0
        table[f"{name}/object"] = lambda J, n=name: getattr(J.jnp, n)((2,), object)
    for value in (3, 2.5, True, 1 + 2j, [1, 2], None, "a"):
        for d in (None, "float32", "int8"):
            table[f"full/{value}/{d}"] = lambda J, v=value, d=d: J.jnp.full((2, 2), v, d)
            table[f"array/{value}/{d}"] = lambda J, v=value, d=d: J.jnp.array(v, d)
            table[f"asarray/{value}/{d}"] = lambda J, v=value, d=d: J.jnp.asarray(v, d)
    more_made(table)
    for name, fn in table.items():
        add(name, fn, error="maybe")


def more_made(table: dict[str, Any]) -> None:
    """From functions, buffers and texts; what describes arrays."""
    for sparse in (False, True):
        table[f"indices/{sparse}"] = lambda J, s=sparse: J.jnp.indices((2, 3), sparse=s)
        for how in ("xy", "ij", "wrong"):
            fn = lambda J, s=sparse, h=how: J.jnp.meshgrid(
                J.jnp.arange(2), J.jnp.arange(3.0), sparse=s, indexing=h
            )
            table[f"meshgrid/{sparse}/{how}"] = fn
    table["fromfunction"] = lambda J: J.jnp.fromfunction(lambda i, j: i * 2 + j, (2, 3))
    table["fromfunction/int"] = lambda J: J.jnp.fromfunction(lambda i: i, (3,), dtype=int)
    table["frombuffer"] = lambda J: J.jnp.frombuffer(b"\x01\x02\x03\x04", dtype="uint8", count=3)
    table["frombuffer/offset"] = lambda J: J.jnp.frombuffer(b"\x01\x02\x03\x04", "int16", offset=2)
    table["fromstring"] = lambda J: J.jnp.fromstring("1 2 3", dtype="int32", sep=" ")
    table["fromiter"] = lambda J: J.jnp.fromiter(range(3), dtype="int32")
    table["fromfile"] = lambda J: J.jnp.fromfile("none")
    table["array_repr"] = lambda J: J.jnp.array_repr(J.jnp.arange(3.0))
    table["array_str"] = lambda J: J.jnp.array_str(J.jnp.arange(3.0))
    table["einsum_path"] = lambda J: str(
        J.jnp.einsum_path("ij,jk->ik", J.jnp.ones((2, 3)), J.jnp.ones((3, 2)))[0]
    )
    table["broadcast_shapes"] = lambda J: J.jnp.broadcast_shapes((2, 1), (3,), ())
    table["broadcast_shapes/wrong"] = lambda J: J.jnp.broadcast_shapes((2,), (3,))
    for a, b in (("int8", "uint8"), ("float16", "bfloat16"), ("int32", "float16"), ("bool", "i4")):
        table[f"promote_types/{a}/{b}"] = lambda J, a=a, b=b: str(J.jnp.promote_types(a, b))
        table[f"result_type/{a}/{b}"] = lambda J, a=a, b=b: str(J.jnp.result_type(a, b, 1.0))
        for casting in ("safe", "same_kind", "no"):
            fn = lambda J, a=a, b=b, c=casting: J.jnp.can_cast(a, b, c)
            table[f"can_cast/{a}/{b}/{casting}"] = fn
    rows = lambda J: J.jnp.arange(6.0).reshape(2, 3)
    table["tril_indices_from"] = lambda J: J.jnp.tril_indices_from(rows(J), 1)
    table["triu_indices_from"] = lambda J: J.jnp.triu_indices_from(rows(J))
    table["triu_indices_from/flat"] = lambda J: J.jnp.triu_indices_from(J.jnp.arange(3))
    table["diag_indices_from"] = lambda J: J.jnp.diag_indices_from(J.jnp.ones((3, 3)))
    table["diag_indices_from/wrong"] = lambda J: J.jnp.diag_indices_from(rows(J))
    table["ix_"] = lambda J: J.jnp.ix_(J.jnp.array([0, 1]), J.jnp.array([True, False, True]))
    table["mgrid"] = lambda J: J.jnp.mgrid[0:2, 1:4]
    table["mgrid/complex"] = lambda J: J.jnp.mgrid[0:1:3j]
    table["ogrid"] = lambda J: J.jnp.ogrid[0:2, 1:4:2]
    table["r_"] = lambda J: J.jnp.r_[1:4, 0, J.jnp.array([5, 6])]
    table["r_/text"] = lambda J: J.jnp.r_["0,2", [1, 2], [3, 4]]
    table["c_"] = lambda J: J.jnp.c_[J.jnp.arange(2), J.jnp.arange(2.0)]
    table["s_"] = lambda J: str(J.jnp.s_[1:3, ..., None])
    table["block"] = lambda J: J.jnp.block([[rows(J), rows(J)], [J.jnp.ones((1, 6))]])
    table["block/wrong"] = lambda J: J.jnp.block([[rows(J)], rows(J)])
