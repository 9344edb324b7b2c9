"""The rest of ``scipy``: signal, fft, ndimage, interpolate, optimize, sparse.linalg, and image."""

from typing import Any

import numpy as np

from ..table import ALL, BATCH, DIFF, VALUE, Adder, Tol, call, family


@family("signal", Tol(128, True))
def signal(add: Adder) -> None:
    """Convolutions, correlations, spectra, trends."""
    for d in ("f32", "f64", "c64"):
        rng = add.rng("signal" + d)
        x, y = rng.f((6,), d), rng.f((3,), d)
        a, b = rng.f((5, 6), d), rng.f((2, 3), d)
        for mode in ("full", "same", "valid"):
            for method in ("auto", "direct", "fft"):
                for name in ("convolve", "correlate"):
                    fn = call(f"signal.{name}", mode=mode, method=method)
                    key = f"{name}/{mode}/{method}/{d}"
                    add(key, fn, [x, y], modes=ALL if d == "f32" else VALUE, each=d == "f32")
                    if d == "f32" and method != "auto":
                        add(f"{key}/2d", fn, [a, b], modes=ALL)
            for name in ("convolve2d", "correlate2d"):
                fn = call(f"signal.{name}", mode=mode)
                add(f"{name}/{mode}/{d}", fn, [a, b], modes=ALL if d == "f32" else VALUE)
                for boundary in ("fill", "wrap", "symm"):
                    fn = call(f"signal.{name}", mode=mode, boundary=boundary, fillvalue=0)
                    add(f"{name}/{mode}/{boundary}/{d}", fn, [a, b], error="maybe")
            for axes in (None, 1, (0, 1)):
                fn = call("signal.fftconvolve", mode=mode, axes=axes)
                other = b if axes != 1 else rng.f((5, 3), d)
                add(f"fftconvolve/{mode}/{axes}/{d}", fn, [a, other], modes=ALL, error="maybe")
        wrong = call("signal.convolve", mode="wrong")
        add(f"convolve/wrong/{d}", wrong, [x, y], error=True)
        add(f"convolve/ranks/{d}", call("signal.convolve"), [x, b], error=True)
    for d in ("f32", "f64"):
        rng = add.rng("trend" + d)
        a = rng.f((3, 8), d)
        for kind in ("linear", "constant", "wrong"):
            for axis in (0, -1):
                fn = call("signal.detrend", axis=axis, type=kind)
                add(f"detrend/{kind}/{axis}/{d}", fn, [a], modes=ALL, error="maybe")
        fn = call("signal.detrend", bp=[4])
        add(f"detrend/bp/{d}", fn, [a], modes=ALL, error="maybe")
        spectra(add, d)


def spectra(add: Adder, d: str) -> None:
    """Short-time transforms and spectral densities."""
    rng = add.rng("spectra" + d)
    x, y = rng.f((24,), d), rng.f((24,), d)
    rows = rng.f((2, 24), d)
    options: dict[str, dict[str, Any]] = {
        "plain": {"nperseg": 8},
        "overlap": {"nperseg": 8, "noverlap": 6},
        "long": {"nperseg": 8, "nfft": 16},
        "boxcar": {"nperseg": 8, "window": "boxcar"},
        "two": {"nperseg": 8, "return_onesided": False},
        "detrend": {"nperseg": 8, "detrend": "linear"},
    }
    for label, option in options.items():
        modes = ALL if label in ("plain", "overlap") else VALUE
        add(f"stft/{label}/{d}", call("signal.stft", **option), [x], modes=modes, error="maybe")
        for scaling in ("density", "spectrum"):
            fn = call("signal.welch", scaling=scaling, **option)
            add(f"welch/{label}/{scaling}/{d}", fn, [x], modes=modes, error="maybe")
            fn = call("signal.csd", scaling=scaling, **option)
            add(f"csd/{label}/{scaling}/{d}", fn, [x, y], modes=modes, error="maybe")
    add(f"welch/median/{d}", call("signal.welch", nperseg=8, average="median"), [x], modes=ALL)
    add(f"welch/rows/{d}", call("signal.welch", nperseg=8, axis=-1), [rows], modes=ALL)
    for boundary in (None, "zeros", "even", "odd", "constant"):
        fn = call("signal.stft", nperseg=8, boundary=boundary, padded=boundary is not None)
        add(f"stft/boundary/{boundary}/{d}", fn, [x], error="maybe")
    back = lambda J, x: J.signal.istft(J.signal.stft(x, nperseg=8)[2], nperseg=8)
    add(f"istft/{d}", back, [x], modes=ALL)
    add(f"stft/wrong/{d}", call("signal.stft", nperseg=8, noverlap=9), [x], error="maybe")


@family("scipy_fft", Tol(64, True))
def transforms(add: Adder) -> None:
    """Cosine transforms and their inverses."""
    for d in ("f32", "f64"):
        rng = add.rng("dct" + d)
        x = rng.f((3, 4), d)
        for name in ("dct", "idct"):
            for norm in (None, "ortho"):
                for axis in (0, -1):
                    for n in (None, 3, 6):
                        fn = call(f"sfft.{name}", n=n, axis=axis, norm=norm)
                        modes = ALL if n is None else VALUE
                        add(f"{name}/{norm}/{axis}/{n}/{d}", fn, [x], modes=modes, error="maybe")
            for kind in (1, 2, 3, 4, 5):
                fn = call(f"sfft.{name}", kind)
                add(f"{name}/type/{kind}/{d}", fn, [x], error="maybe")
        for name in ("dctn", "idctn"):
            for norm in (None, "ortho"):
                for axes in (None, (0,), (1, 0)):
                    fn = call(f"sfft.{name}", axes=axes, norm=norm)
                    add(f"{name}/{norm}/{axes}/{d}", fn, [x], modes=ALL, error="maybe")
            add(f"{name}/s/{d}", call(f"sfft.{name}", s=(2, 6)), [x], error="maybe")
        y = rng.f((3, 5), d)
        for axis in (0, 1, -1):
            fn = call("integrate.trapezoid", axis=axis, dx=0.5)
            add(f"trapezoid/{axis}/{d}", fn, [y], modes=ALL)
        fn = lambda J, y, x: J.integrate.trapezoid(y, x)
        add(f"trapezoid/x/{d}", fn, [y, rng.f((5,), d)], modes=ALL, each=True)


@family("interpolation", Tol(64, True))
def interpolation(add: Adder) -> None:
    """map_coordinates, RegularGridInterpolator, image.resize, vector quantisation."""
    for d in ("f32", "f64"):
        rng = add.rng("map" + d)
        image, where = rng.f((4, 5), d), rng.f((2, 3), d, -1.5, 5.0)
        for order in (0, 1):
            for mode in ("constant", "nearest", "wrap", "mirror", "reflect"):
                fn = lambda J, x, w, o=order, m=mode: J.ndimage.map_coordinates(
                    x, list(w), order=o, mode=m, cval=1.5
                )
                key = f"map_coordinates/{order}/{mode}/{d}"
                add(key, fn, [image, where], modes=ALL if d == "f32" else VALUE, each=order == 1)
        wrong = lambda J, x, w: J.ndimage.map_coordinates(x, list(w), order=2)
        add(f"map_coordinates/order/{d}", wrong, [image, where], error="maybe")
        few = lambda J, x, w: J.ndimage.map_coordinates(x, [w[0]], order=1)
        add(f"map_coordinates/few/{d}", few, [image, where], error="maybe")
        grid = (np.arange(3.0).astype(image.dtype), np.array([0.0, 1.0, 3.0, 4.0], image.dtype))
        values, at = rng.f((3, 4), d), rng.f((5, 2), d, -0.5, 4.5)
        for method in ("linear", "nearest"):
            for fill in (np.nan, None, 7.0):
                fn = lambda J, v, p, m=method, f=fill, g=grid: (
                    J.interpolate.RegularGridInterpolator(g, v, method=m, fill_value=f)(p)
                )
                key = f"RegularGridInterpolator/{method}/{fill}/{d}"
                modes = ("value", "jit", "vmap") if fill is np.nan else ALL
                add(key, fn, [values, at], modes=modes)
        quantise = call("vq.vq")
        book = rng.f((3, 2), d)
        add(f"vq/{d}", quantise, [at, book], modes=ALL)
        add(f"vq/wrong/{d}", quantise, [at, values], error=True)
    images(add)


def images(add: Adder) -> None:
    """Resizing by every method, up, down and both."""
    methods = ("nearest", "linear", "bilinear", "trilinear", "triangle", "cubic", "bicubic")
    for method in (*methods, "lanczos3", "lanczos5", "wrong"):
        for shape in ((8, 6), (2, 3), (3, 9)):
            for antialias in (True, False):
                x = add.rng("resize").f((4, 6))
                fn = call("image.resize", shape, method, antialias=antialias)
                key = f"resize/{method}/{shape[0]}x{shape[1]}/{antialias}"
                add(key, fn, [x], modes=ALL, error="maybe", tol=Tol(256, True))
        x = add.rng("resize").i((4, 6), "u8", 0, 255)
        fn = call("image.resize", (2, 3), method)
        add(f"resize/{method}/u8", fn, [x], error="maybe", tol=Tol(256, True))
        if method not in ("nearest", "trilinear"):
            x = add.rng("scale").f((4, 6))
            scale, shift = np.float32([0.75, 1.5]), np.float32([0.25, -0.5])
            fn = lambda J, x, s, t, m=method: J.image.scale_and_translate(
                x, (5, 7), (0, 1), s, t, m
            )
            key = f"scale_and_translate/{method}"
            add(key, fn, [x, scale, shift], modes=ALL, error="maybe", tol=Tol(256, True))
    x = add.rng("resize").f((4, 6))
    add("resize/rank", call("image.resize", (2, 3, 4), "linear"), [x], error=True)
    fn = lambda J, x: J.image.resize(x, (8, 6), J.image.ResizeMethod.CUBIC)
    add("resize/enum", fn, [x], modes=ALL)
    odd = call(
        "image.scale_and_translate", (5, 6), (0, 1), np.float32([1]), np.float32([0]), "cubic"
    )
    add("scale_and_translate/lengths", odd, [x], error="maybe")


@family("solvers", Tol(4096, True))
def solvers(add: Adder) -> None:
    """Iterative solvers, minimisation, rotations."""
    for d in ("f32", "f64"):
        rng = add.rng("solvers" + d)
        a, b = rng.spd(4, d), rng.f((4,), d)
        for name in ("cg", "bicgstab", "gmres"):
            solve = lambda J, a, b, n=name, **k: getattr(J.sparse_linalg, n)(a, b, **k)
            options: dict[str, dict[str, Any]] = {
                "plain": {},
                "tol": {"tol": 1e-6, "atol": 1e-6},
                "iterations": {"maxiter": 3},
            }
            if name == "gmres":
                options["incremental"] = {"solve_method": "incremental"}
                options["wrong"] = {"solve_method": "wrong"}
            for label, option in options.items():
                fn = lambda J, a, b, s=solve, o=option: s(J, a, b, **o)[0]
                modes = ALL if label in ("plain", "tol") else VALUE
                add(f"{name}/{label}/{d}", fn, [a, b], modes=modes, error="maybe")
            fn = lambda J, a, b, s=solve: s(J, lambda v: a @ v, b, x0=b)[0]
            add(f"{name}/function/{d}", fn, [a, b], modes=ALL)
            fn = lambda J, a, b, n=name: getattr(J.sparse_linalg, n)(
                lambda t: {"u": a @ t["u"]}, {"u": b}
            )[0]
            add(f"{name}/tree/{d}", fn, [a, b], modes=VALUE)
            fn = lambda J, a, b, s=solve: s(J, a, b[:2])
            add(f"{name}/lengths/{d}", fn, [a, b], error="maybe")
        # Both stop when the slope is below 1e-5, by other steps.
        tol = Tol(65536 if d == "f32" else 1e12, True)
        add(f"minimize/{d}", minimised, [rng.f((2,), d)], modes=BATCH, tol=tol)
    fn = lambda J, x: J.optimize.minimize(lambda v: (v * v).sum(), x, method="newton").x
    add("minimize/newton", fn, [b], error="maybe")
    rotations(add)


def minimised(J: Any, x: Any) -> Any:
    fun = lambda v: ((v - 1) ** 2).sum() + 0.5 * (v[0] * v[1]) ** 2
    found = J.optimize.minimize(fun, x, method="BFGS")
    return found.x, found.success


def rotations(add: Adder) -> None:
    """Rotation and Slerp, made and shown in every form."""
    rng = add.rng("rotations")
    quat, vector = rng.f((3, 4)), rng.f((3, 3))
    shown: dict[str, Any] = {
        "as_quat": lambda r: r.as_quat(),
        "as_matrix": lambda r: r.as_matrix(),
        "as_rotvec": lambda r: r.as_rotvec(),
        "as_mrp": lambda r: r.as_mrp(),
        "as_euler": lambda r: r.as_euler("xyz"),
        "as_euler/degrees": lambda r: r.as_euler("ZYX", degrees=True),
        "magnitude": lambda r: r.magnitude(),
        "inv": lambda r: r.inv().as_quat(),
        "mul": lambda r: (r * r.inv() * r).as_quat(),
        "mean": lambda r: r.mean().as_matrix(),
        "apply": lambda r: r.apply(np.ones((3, 3), np.float32)),
        "apply/inverse": lambda r: r.apply(np.ones((3, 3), np.float32), inverse=True),
        "index": lambda r: r[1].as_quat(),
        "length": lambda r: len(r),
        "single": lambda r: r.single,
    }
    for name, show in shown.items():
        fn = lambda J, q, s=show: s(J.transform.Rotation.from_quat(q))
        modes = VALUE if name in ("length", "single", "mean") else (*DIFF, "vmap")
        add(f"Rotation/quat/{name}", fn, [quat], modes=modes, error="maybe", tol=Tol(512, True))
    made: dict[str, Any] = {
        "rotvec": lambda R, v: R.from_rotvec(v),
        "rotvec/degrees": lambda R, v: R.from_rotvec(v * 50, degrees=True),
        "mrp": lambda R, v: R.from_mrp(v),
        "euler": lambda R, v: R.from_euler("xyz", v),
        "euler/degrees": lambda R, v: R.from_euler("ZYX", v * 50, degrees=True),
        "matrix": lambda R, v: R.from_matrix(R.from_rotvec(v).as_matrix()),
        "concatenate": lambda R, v: R.concatenate([R.from_rotvec(v), R.from_rotvec(-v)]),
        "identity": lambda R, v: R.identity(3),
        "wrong": lambda R, v: R.from_euler("xyw", v),
    }
    for name, make in made.items():
        fn = lambda J, v, m=make: m(J.transform.Rotation, v).as_quat()
        add(f"Rotation/{name}", fn, [vector], modes=ALL, error="maybe", tol=Tol(512, True))
    times, at = np.float32([0, 1, 2]), np.float32([0.25, 1.5])
    fn = lambda J, v, t: J.transform.Slerp.init(
        times, J.transform.Rotation.from_rotvec(v)
    )(t).as_quat()  # fmt: skip
    add("Slerp", fn, [vector, at], modes=VALUE, error="maybe", tol=Tol(512, True))
