"""What the tables by topic leave open of ``lax``, ``nn``, ``ops`` and ``scipy.special``."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, VALUE, Adder, Tol, call, family


@family("lax_rest", Tol(64, True))
def lax_rest(add: Adder) -> None:
    """Functions of lax with no derivative or batch elsewhere; collectives over a named axis."""
    rng = add.rng("lax_rest")
    x, y = rng.f((3, 4)), rng.f((3, 4))
    index = np.asarray(np.int32(1))
    table: dict[str, tuple[Any, list[Any]]] = {
        "broadcast_like": (lambda J, x, y: J.lax.broadcast_like(x[0], y), [x, y]),
        "dynamic_update_slice_in_dim": (
            lambda J, x, y, i: J.lax.dynamic_update_slice_in_dim(x, y[:, :2], i, 1),
            [x, y, index],
        ),
        "approx_max_k": (lambda J, x: J.lax.approx_max_k(x, 2), [x]),
        "approx_min_k": (lambda J, x: J.lax.approx_min_k(x, 2), [x]),
        "platform_dependent": (
            lambda J, x: J.lax.platform_dependent(x, cpu=J.jnp.sin, default=J.jnp.cos),
            [x],
        ),
        "ragged_dot": (
            lambda J, x, y: J.lax.ragged_dot(
                x,
                y.reshape(2, 2, 3).transpose(0, 2, 1).reshape(2, 3, 2)[:, :2].repeat(2, 1),
                np.array([1, 2], np.int32),
            ),
            [x, y],
        ),
        "reduce_window": (
            lambda J, x: J.lax.reduce_window(x, 0.0, J.lax.add, (2, 2), (1, 1), "VALID"),
            [x],
        ),
        "reduce_window/max": (
            lambda J, x: J.lax.reduce_window(x, -np.inf, J.lax.max, (2, 2), (1, 2), "SAME"),
            [x],
        ),
        "reduce_window/dilated": (
            lambda J, x: J.lax.reduce_window(
                x, 0.0, J.lax.add, (2, 2), (1, 1), "VALID", (1, 2), (1, 2)
            ),
            [x],
        ),
        "while_loop": (
            lambda J, x: J.lax.while_loop(
                lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)
            ),
            [x],
        ),
        "nextafter": (lambda J, x, y: J.lax.nextafter(x, y), [x, y]),
        "zeta": (lambda J, x, y: J.lax.zeta(abs(x) + 2, abs(y) + 1), [x, y]),
        "polygamma": (lambda J, x: J.lax.polygamma(np.float32(1), abs(x) + 1), [x]),
        "igamma_grad_a": (lambda J, x, y: J.lax.igamma_grad_a(abs(x) + 1, abs(y) + 1), [x, y]),
        "random_gamma_grad": (
            lambda J, x, y: J.lax.random_gamma_grad(abs(x) + 1, abs(y) + 1),
            [x, y],
        ),
        "full": (lambda J, x: J.lax.full((2, 2), x[0, 0]), [x]),
        "shape_as_value": (lambda J, x: J.lax.shape_as_value((2, 3)), [x]),
        "optimization_barrier": (lambda J, x: J.lax.optimization_barrier(x) * 2, [x]),
        "stage": (lambda J, x: J.lax.stage(x) * 2, [x]),
        "scaled_dot": (lambda J, x, y: J.lax.scaled_dot(x, y), [x, y]),
        "scatter_apply": (
            lambda J, x: J.lax.scatter_apply(
                x[:, 0],
                np.array([[0], [2]]),
                lambda v: v * v,
                J.lax.ScatterDimensionNumbers((), (0,), (0,)),
            ),
            [x],
        ),
        "ragged_dot_general": (
            lambda J, x, y: J.lax.ragged_dot_general(
                x,
                y[:2, :].reshape(2, 4, 1),
                np.array([1, 2], np.int32),
                J.lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]),
            ),
            [x, y],
        ),
        "with_sharding_constraint": (
            lambda J, x: J.lax.with_sharding_constraint(
                x, J.sharding.SingleDeviceSharding(J.devices()[0])
            ),
            [x],
        ),
        "create_token": (lambda J, x: (J.lax.after_all(J.lax.create_token()), x)[1], [x]),
        "dce_sink": (lambda J, x: (J.lax.dce_sink(x), x)[1], [x]),
        "composite": (lambda J, x: J.lax.composite(lambda v: v * 2, "my.double")(x), [x]),
        "rng_bit_generator": (
            lambda J, x: J.lax.rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (3,))[1] * 0,
            [x],
        ),
    }
    for name, (fn, args) in table.items():
        # Second derivatives of draws from a gamma distribution are refused (docs/rules.md).
        modes = BATCH if name == "random_gamma_grad" else ALL
        add(name, fn, args, modes=modes, error="maybe", each=len(args) > 1)
    collectives(add, x)


def collectives(add: Adder, x: np.ndarray) -> None:
    """Collectives inside of a vmap, and outside of one where there is no axis."""
    inner: dict[str, Any] = {
        "psum": lambda lax, v: lax.psum(v, "i"),
        "pmean": lambda lax, v: lax.pmean(v, "i"),
        "pmax": lambda lax, v: lax.pmax(v, "i"),
        "pmin": lambda lax, v: lax.pmin(v, "i"),
        "all_gather": lambda lax, v: lax.all_gather(v, "i"),
        "all_gather/tiled": lambda lax, v: lax.all_gather(v, "i", tiled=True),
        "all_to_all": lambda lax, v: lax.all_to_all(v[:3], "i", 0, 0),
        "ppermute": lambda lax, v: lax.ppermute(v, "i", [(0, 1), (1, 2), (2, 0)]),
        "pshuffle": lambda lax, v: lax.pshuffle(v, "i", [2, 0, 1]),
        "psum_scatter": lambda lax, v: lax.psum_scatter(v[:3], "i"),
        "pswapaxes": lambda lax, v: lax.pswapaxes(v[:3], "i", 0),
        "axis_index": lambda lax, v: v * lax.axis_index("i"),
        "axis_size": lambda lax, v: v * lax.axis_size("i"),
        "pbroadcast": lambda lax, v: lax.pbroadcast(v, "i", 1),
    }
    for name, f in inner.items():
        fn = lambda J, x, f=f: J.vmap(lambda v: f(J.lax, v), axis_name="i")(x)
        if name != "pbroadcast":  # JAX has no batching rule for it
            add(name, fn, [x], modes=ALL, error="maybe")
        fn = lambda J, x, f=f: f(J.lax, x)
        add(f"{name}/unbound", fn, [x], error="maybe")


@family("nn_rest", Tol(64, True))
def nn_rest(add: Adder) -> None:
    """Scaled products, one-hot vectors, masked normalisation, segment sums."""
    rng = add.rng("nn_rest")
    x = rng.f((3, 4))
    mask = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]], bool)
    for axis in (-1, 0):
        fn = lambda J, x, a=axis: J.nn.one_hot(np.array([0, 2, 5, -1]), 3, axis=a) * x[0, 0]
        add(f"one_hot/{axis}", fn, [x], modes=ALL)
    for name in ("softmax", "log_softmax", "standardize", "logsumexp", "logmeanexp"):
        for axis in (-1, 0, (0, 1), None):
            fn = call(f"nn.{name}", axis=axis)
            add(f"{name}/{axis}", fn, [x], modes=ALL, error="maybe")
            fn = lambda J, x, m, n=name, a=axis: getattr(J.nn, n)(x, axis=a, where=m)
            if name != "log_softmax":
                add(f"{name}/where/{axis}", fn, [x, mask], modes=ALL, error="maybe")
    scaled: dict[str, Any] = {
        "scaled_matmul": lambda J, a, b: J.nn.scaled_matmul(
            a.reshape(1, 2, 32),
            b.reshape(1, 2, 32),
            np.ones((1, 2, 1), np.float32),
            2 * np.ones((1, 2, 1), np.float32),
        ),
        "scaled_dot_general": lambda J, a, b: J.nn.scaled_dot_general(
            a.reshape(2, 32), b.reshape(2, 32), (((1,), (1,)), ((), ()))
        ),
    }
    a, b = rng.f((64,)), rng.f((64,))
    for name, fn in scaled.items():
        add(name, fn, [a, b], modes=DIFF, error="maybe")
    data, ids = rng.f((5, 2)), np.array([0, 2, 0, 1, 2], np.int32)
    for name in ("sum", "prod", "max", "min"):
        for d in ("f32", "f64", "i32"):
            values = rng.any((5, 2), d, 0.5, 2)
            fn = lambda J, v, i, n=name: getattr(J.ops, f"segment_{n}")(v, i, 4)
            add(f"segment_{name}/{d}", fn, [values, ids], modes=ALL if d == "f32" else BATCH)
        for label, option in (
            ("sorted", {"indices_are_sorted": True}),
            ("bucket", {"bucket_size": 2}),
            ("mode", {"mode": "clip"}),
        ):
            fn = lambda J, v, i, n=name, o=option: getattr(J.ops, f"segment_{n}")(v, i, 2, **o)
            order = np.sort(ids)
            # Where rows of a segment are clipped away JAX's slopes of extremes are infinite.
            modes = BATCH if label == "mode" and name in ("max", "min") else ALL
            add(f"segment_{name}/{label}", fn, [data, order], modes=modes, error="maybe")
        fn = lambda J, v, i, n=name: getattr(J.ops, f"segment_{n}")(v, i)
        add(f"segment_{name}/count", fn, [data, ids])


@family("special_rest", Tol(512, True))
def special_rest(add: Adder) -> None:
    """Special functions of several arguments, of integers, and with several results."""
    for d in ("f32", "f64"):
        rng = add.rng("special" + d)
        x, y, z = rng.f((5,), d, 0.3, 2.5), rng.f((5,), d, 0.3, 2.5), rng.f((5,), d, -0.9, 0.9)
        table: dict[str, tuple[Any, list[Any]]] = {
            "boxcox1p": (lambda s, x, y: s.boxcox1p(x, y), [x, y]),
            "comb": (lambda s, x, y: s.comb(x + 3, y), [x, y]),
            "comb/repetition": (lambda s, x, y: s.comb(x + 3, y, repetition=True), [x, y]),
            "fresnel": (lambda s, x: s.fresnel(x), [x]),
            "sici": (lambda s, x: s.sici(x), [x]),
            "owens_t": (lambda s, x, y: s.owens_t(x, y), [x, y]),
            "hyp1f1": (lambda s, x, y, z: s.hyp1f1(x, y, z), [x, y, z]),
            "hyp2f1": (lambda s, x, y, z: s.hyp2f1(x, y, x + y + 1, z), [x, y, z]),
            "hyp2f1/x": (lambda s, z: s.hyp2f1(0.5, 1.5, 2.5, z), [z]),
            "wofz": (lambda s, z: s.wofz(z + 0.5j), [z]),
            "bessel_jn": (lambda s, x: s.bessel_jn(x + 1, v=3), [x]),
            "bernoulli": (lambda s, x: s.bernoulli(6) * x[0], [x]),
            "log_softmax": (lambda s, x: s.log_softmax(x, axis=-1), [x]),
            "softmax/none": (lambda s, x: s.softmax(x), [x]),
            "log_ndtr/order": (lambda s, z: s.log_ndtr(4 * z, series_order=4), [z]),
            "multigammaln/3": (lambda s, x: s.multigammaln(x + 3, 3), [x]),
            "polygamma": (lambda s, x: s.polygamma(np.array([0, 1, 2, 3, 1]), x), [x]),
            "expn": (lambda s, x: s.expn(np.array([0, 1, 2, 3, 1]), x), [x]),
            "zeta/one": (lambda s, x: s.zeta(x + 1.5), [x]),
            "sph_harm_y": (
                lambda s, x, y: s.sph_harm_y(
                    np.array([1, 2, 3, 2, 1]), np.array([0, 1, 2, -1, 1]), x, y, n_max=3
                ),
                [x, y],
            ),
            "logsumexp/where": (
                lambda s, x: s.logsumexp(x, where=np.array([1, 0, 1, 1, 0], bool)),
                [x],
            ),
            "gammainc": (lambda s, x, y: s.gammainc(x, y), [x, y]),
            "gammaincc": (lambda s, x, y: s.gammaincc(x, y), [x, y]),
            "betainc": (lambda s, x, y, z: s.betainc(x, y, abs(z) / 2), [x, y, z]),
            "factorial": (lambda s, x: s.factorial(x), [x]),
        }
        for name, (f, args) in table.items():
            # JAX's bessel_jn overflows in float32, its Bernoulli numbers are not those of float64.
            if f"{name}/{d}" in ("bessel_jn/f32", "bernoulli/f64"):
                continue
            fn = lambda J, *xs, f=f: f(J.special, *xs)
            tol = Tol(65536 if name.startswith(("hyp", "fresnel", "sici", "owens")) else 2048, True)
            modes = ALL if d == "f32" or name == "bessel_jn" else VALUE
            add(f"{name}/{d}", fn, args, modes=modes, tol=tol, error="maybe")
    for n in (3, 5, -1, 2.5, "a"):
        fn = lambda J, n=n: J.special.factorial(n, exact=True)
        add(f"factorial/exact/{n}", fn, error="maybe")
        add(
            f"bernoulli/{n}",
            lambda J, n=n: J.special.bernoulli(n),
            error="maybe",
            tol=Tol(64, True),
        )


@family("numpy_reductions", Tol(32, True))
def reductions(add: Adder) -> None:
    """Reductions with every option that NumPy has: where, initial, dtype, out, axes, keepdims."""
    rng = add.rng("reductions")
    x = rng.distinct((2, 3, 4))
    mask = rng.i((2, 3, 4), "bool")
    mask[..., 0] = True
    holes = np.where(rng.i((2, 3, 4), "bool") & ~mask, np.float32(np.nan), x)
    plain = "sum prod mean var std max min amax amin ptp median all any count_nonzero"
    names = plain + " nansum nanprod nanmean nanvar nanstd nanmax nanmin nanmedian"
    for name in names.split():
        given = holes if name.startswith("nan") else x
        for axis in (None, 0, -1, (0, 2), (-1, -3), ()):
            for keep in (False, True):
                fn = call(f"jnp.{name}", axis=axis, keepdims=keep)
                modes = ALL if axis in (-1, (0, 2)) and keep else VALUE
                add(f"{name}/axis/{axis}/{keep}", fn, [given], modes=modes, error="maybe")
        options: dict[str, dict[str, Any]] = {
            "where": {"where": mask},
            "where/axis": {"where": mask, "axis": 1},
            "initial": {"initial": 2.0},
            "both": {"where": mask, "initial": -1.0, "axis": (0, 1), "keepdims": True},
            "dtype": {"dtype": np.float16},
            "dtype/int": {"dtype": np.int32},
            "out": {"out": None},
            "ddof": {"ddof": 1},
            "correction": {"correction": 1},
            "mean": {"mean": np.float32(0.25)},
            "promote": {"promote_integers": False},
            "overwrite": {"overwrite_input": True},
        }
        for label, option in options.items():
            modes = ALL if label in ("where/axis", "both", "ddof") else VALUE
            add(
                f"{name}/{label}",
                call(f"jnp.{name}", **option),
                [given],
                modes=modes,
                error="maybe",
            )
        whole = np.array([[1, 0, 3], [4, 5, 6]], np.int8)
        for d in ("int8", "uint16", "bool", "complex64", "bfloat16"):
            fn = lambda J, v, n=name, d=d: getattr(J.jnp, n)(v.astype(d), axis=0)
            add(f"{name}/of/{d}", fn, [whole], error="maybe")
        add(f"{name}/empty", call(f"jnp.{name}"), [np.zeros((0,), np.float32)], error="maybe")
        fn = call(f"jnp.{name}", axis=0)
        add(f"{name}/none", fn, [np.zeros((0, 3), np.float32)], error="maybe")
    positions(add, x, holes)


def positions(add: Adder, x: np.ndarray, holes: np.ndarray) -> None:
    """Positions of extremes, quantiles by every method, running sums."""
    for name in ("argmax", "argmin", "nanargmax", "nanargmin"):
        for axis in (None, 0, -1):
            for keep in (False, True):
                given = holes if name.startswith("nan") else x
                fn = call(f"jnp.{name}", axis=axis, keepdims=keep)
                add(f"{name}/{axis}/{keep}", fn, [given], modes=BATCH)
    methods = ("linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "weibull")
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
        unit = 100 if name.endswith("percentile") else 1
        for method in (*methods, "hazen", "wrong"):
            q = np.array([0.1, 0.5, 0.95], np.float32) * unit
            fn = call(f"jnp.{name}", q, axis=-1, method=method, keepdims=True)
            modes = BATCH if method != "linear" or name.startswith("nan") else ALL
            add(f"{name}/{method}", fn, [x], modes=modes, error="maybe")
        for q in (-0.5 * unit, 1.5 * unit, np.float32(0.3 * unit)):
            add(f"{name}/q/{q:.2f}", call(f"jnp.{name}", q), [x], error="maybe")
        weights = np.arange(1.0, 5).astype(np.float32)
        fn = call(f"jnp.{name}", 0.3 * unit, axis=-1, weights=weights, method="inverted_cdf")
        add(f"{name}/weights", fn, [x], error="maybe")
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        for axis in (None, 0, -1):
            for d in (None, np.float16, np.int32):
                fn = call(f"jnp.{name}", axis=axis, dtype=d)
                label = np.dtype(d).name if d else "same"
                given = holes if name.startswith("nan") else x
                modes = ALL if d is None else VALUE
                add(f"{name}/{axis}/{label}", fn, [given / 4], modes=modes, error="maybe")
    for name in ("cumulative_sum", "cumulative_prod"):
        for axis in (0, 1, -1, None):
            for first in (False, True):
                fn = call(f"jnp.{name}", axis=axis, include_initial=first)
                add(f"{name}/{axis}/{first}", fn, [x / 4], modes=ALL, error="maybe")
