"""Special functions of ``scipy.special``, the functions of ``nn`` and its initialisers."""

import numpy as np

from ..table import ALL, BATCH, DIFF, EXACT, VALUE, Adder, Tol, call, dtype, family

REAL = ("f32", "f64")

# name: (lo, hi, ulp)
SPECIAL: dict[str, tuple[float, float, float]] = {
    "erf": (-2.5, 2.5, 8),
    "erfc": (-2, 3, 16),
    "erfinv": (-0.95, 0.95, 16),
    "expit": (-6, 6, 8),
    "logit": (0.05, 0.95, 64),
    "gammaln": (0.3, 9, 64),
    "digamma": (0.3, 9, 64),
    "gamma": (0.3, 5, 64),
    "gammasgn": (0.3, 5, 0),
    "loggamma": (0.3, 5, 64),
    "i0": (-5, 5, 32),
    "i0e": (-5, 5, 16),
    "i1": (-5, 5, 32),
    "i1e": (-5, 5, 16),
    "ndtr": (-3, 3, 16),
    "ndtri": (0.05, 0.95, 64),
    "log_ndtr": (-4, 4, 64),
    "entr": (0.1, 3, 16),
    "exp1": (0.2, 4, 64),
    "expi": (0.2, 4, 64),
    "spence": (0.2, 4, 64),
    "dawsn": (-3, 3, 64),
    "factorial": (0.3, 5, 64),
    "erfcx": (-1, 4, 64),
}
BINARY: dict[str, tuple[float, float, float]] = {
    "xlogy": (0.2, 3, 8),
    "xlog1py": (0.2, 3, 8),
    "betaln": (0.5, 4, 128),
    "beta": (0.5, 4, 128),
    "gammainc": (0.5, 4, 128),
    "gammaincc": (0.5, 4, 256),
    "rel_entr": (0.2, 3, 32),
    "kl_div": (0.2, 3, 64),
    "zeta": (1.5, 4, 128),
    "poch": (0.5, 3, 256),
    "boxcox": (0.5, 3, 64),
}


@family("special", Tol(16, True))
def special(add: Adder) -> None:
    """Values, derivatives and batching of the special functions."""
    for name, (lo, hi, ulp) in SPECIAL.items():
        for d in REAL:
            for shape in ((5,), (2, 3)):
                key = f"{name}/{d}/{len(shape)}"
                x = add.rng(key).f(shape, d, lo, hi)
                tol = Tol(ulp, bool(ulp))
                # JAX's reverse derivative of spence is NaN on half of the range.
                modes = ("value", "jit", "jvp", "vmap") if name == "spence" else ALL
                add(key, call(f"special.{name}"), [x], modes=modes, tol=tol)
        x = np.array([1, 2, 3], np.int32)
        add(f"{name}/int", call(f"special.{name}"), [x], tol=Tol(ulp, bool(ulp)), error="maybe")
    for name, (lo, hi, ulp) in BINARY.items():
        for d in REAL:
            key = f"{name}/{d}"
            rng = add.rng(key)
            x, y = rng.f((5,), d, lo, hi), rng.f((5,), d, lo, hi)
            add(key, call(f"special.{name}"), [x, y], modes=ALL, tol=Tol(ulp, True))
    for d in REAL:
        rng = add.rng("more" + d)
        a, b = rng.f((4,), d, 0.5, 4), rng.f((4,), d, 0.5, 4)
        x = rng.f((4,), d, 0.1, 0.9)
        tol = Tol(512, True)
        add(
            f"betainc/{d}",
            call("special.betainc"),
            [a, b, x],
            modes=("value", "jit", "vmap"),
            tol=tol,
        )
        for n in (0, 1, 2, 3):
            fn = lambda J, x, n=n: J.special.polygamma(n, x)
            add(f"polygamma/{n}/{d}", fn, [a], modes=DIFF, tol=tol)
            fn = lambda J, x, n=n: J.special.expn(n, x)
            add(f"expn/{n}/{d}", fn, [a], modes=("value", "jit"), tol=tol)
        add(f"multigammaln/{d}", call("special.multigammaln", 2), [a + 2], modes=ALL, tol=tol)
        for axis in (None, 0, 1, (0, 1)):
            m = rng.f((2, 3), d)
            add(f"logsumexp/{axis}/{d}", call("special.logsumexp", axis), [m], modes=ALL)
            keep = call("special.logsumexp", axis, keepdims=True)
            add(f"logsumexp/keep/{axis}/{d}", keep, [m], modes=ALL)
            add(f"softmax/{axis}/{d}", call("special.softmax", axis=axis), [m], modes=ALL)
        weights = lambda J, m, w: J.special.logsumexp(m, axis=1, b=w, return_sign=True)
        add(f"logsumexp/b/{d}", weights, [rng.f((2, 3), d), rng.f((2, 3), d)], modes=ALL)
    odd = np.array([-np.inf, -np.inf], np.float32)
    add("logsumexp/inf", call("special.logsumexp"), [odd], modes=VALUE)
    add(
        "xlogy/zero",
        call("special.xlogy"),
        [np.zeros(3, np.float32), np.array([0, 1, 2.0], np.float32)],
        modes=DIFF,
    )
    add("entr/points", call("special.entr"), [np.array([0.0, -1.0, 1.0], np.float32)])
    add("logit/points", call("special.logit"), [np.array([0.0, 1.0, 0.5], np.float32)])
    for name in ("gammaln", "digamma", "ndtri", "erfinv", "i0e", "i1e", "ndtr", "log_ndtr"):
        points = np.array([0.0, 1.0, -1.0, 0.5, 2.0, np.inf, np.nan, 10.0], np.float32)
        add(f"{name}/points", call(f"special.{name}"), [points], tol=Tol(64, True))


ACTIVATIONS = (
    "relu",
    "relu6",
    "sigmoid",
    "softplus",
    "silu",
    "swish",
    "log_sigmoid",
    "elu",
    "selu",
)
ACTIVATIONS += (
    "gelu",
    "celu",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
)
ACTIVATIONS += (
    "mish",
    "soft_sign",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "tanh",
    "identity",
)


@family("nn", Tol(16, True))
def nn(add: Adder) -> None:
    """Activations with derivatives at their corners, softmax family, attention, one_hot."""
    for name in ACTIVATIONS:
        for d in ("f32", "f64", "bf16", "f16"):
            x = add.rng(name + d).f((2, 4), d, -4, 4)
            add(f"{name}/{d}", call(f"nn.{name}"), [x], modes=ALL)
        corners = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 50.0, -50.0], np.float32)
        add(f"{name}/corners", call(f"nn.{name}"), [corners], modes=DIFF)
        add(f"{name}/int", call(f"nn.{name}"), [np.array([-2, 0, 3], np.int32)], error="maybe")
    for d in ("f32", "f64", "bf16"):
        x = add.rng("axis" + d).f((3, 4), d)
        for axis in (-1, 0, 1, (0, 1)):
            for name in ("softmax", "log_softmax", "standardize"):
                add(
                    f"{name}/{axis}/{d}",
                    call(f"nn.{name}", axis),
                    [x],
                    modes=ALL,
                    tol=Tol(64, True),
                )
        for axis in (None, 0, -1):
            for name in ("logsumexp", "logmeanexp"):
                add(f"{name}/{axis}/{d}", call(f"nn.{name}", axis), [x], modes=ALL)
        for axis in (-1, 1):
            add(f"glu/{axis}/{d}", call("nn.glu", axis), [x], modes=ALL)
        exact = call("nn.gelu", approximate=False)
        add(f"gelu/exact/{d}", exact, [x], modes=ALL)
        add(f"elu/alpha/{d}", call("nn.elu", 0.5), [x], modes=ALL)
        add(f"celu/alpha/{d}", call("nn.celu", 0.5), [x], modes=ALL)
        add(f"leaky_relu/slope/{d}", call("nn.leaky_relu", 0.3), [x], modes=ALL)
        positive = np.abs(x) + np.asarray(0.1, x.dtype)
        add(
            f"log1mexp/{d}",
            call("nn.log1mexp"),
            [positive.astype(x.dtype)],
            modes=ALL,
            tol=Tol(64, True),
        )
    mask = np.array([[True, False, True], [True, True, True]])
    x = add.rng("where").f((2, 3))
    for name in ("softmax", "log_softmax", "logsumexp", "standardize"):
        fn = lambda J, x, m, name=name: getattr(J.nn, name)(x, axis=-1, where=m)
        add(f"{name}/where", fn, [x, mask], modes=ALL, tol=Tol(64, True))
    for axis in (-1, 0, 1):
        for d in (None, "i32", "bool", "bf16"):
            i = np.array([0, 2, 5, -1], np.int32)
            fn = call("nn.one_hot", 4, axis=axis, dtype=None if d is None else dtype(d))
            if axis != 1 or d is None:
                add(f"one_hot/{axis}/{d}", fn, [i], modes=BATCH)
    attention(add)


def attention(add: Adder) -> None:
    """dot_product_attention with its masks and biases."""
    rng = add.rng("attention")
    q, k, v = rng.f((2, 4, 2, 3)), rng.f((2, 5, 2, 3)), rng.f((2, 5, 2, 3))
    fn = call("nn.dot_product_attention")
    add("attention", fn, [q, k, v], modes=ALL)
    add("attention/grouped", fn, [q, k[:, :, :1], v[:, :, :1]], modes=DIFF)
    same = [q, rng.f((2, 4, 2, 3)), rng.f((2, 4, 2, 3))]
    add("attention/causal", call("nn.dot_product_attention", is_causal=True), same, modes=ALL)
    add("attention/scale", call("nn.dot_product_attention", scale=0.3), [q, k, v], modes=DIFF)
    bias = rng.f((2, 2, 4, 5))
    add("attention/bias", fn, [q, k, v, bias], modes=DIFF)
    mask = rng.i((2, 2, 4, 5), "bool")
    mask[..., 0] = True
    masked = lambda J, q, k, v, m: J.nn.dot_product_attention(q, k, v, mask=m)
    add("attention/mask", masked, [q, k, v, mask], modes=DIFF)
    single = call("nn.dot_product_attention")
    add("attention/unbatched", single, [q[0], k[0], v[0]], modes=DIFF)
    window = call("nn.dot_product_attention", local_window_size=1)
    add("attention/window", window, same, modes=DIFF)


@family("nn_init", Tol(5))
def initializers(add: Adder) -> None:
    """Initialisers draw the same numbers."""
    plain = ("glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal")
    plain += (
        "lecun_uniform",
        "kaiming_normal",
        "kaiming_uniform",
        "xavier_normal",
        "xavier_uniform",
    )
    for name in (*plain, "normal", "uniform", "truncated_normal"):
        for shape in ((4, 3), (2, 3, 4)):
            for d in ("f32", "bf16", "f64"):
                fn = lambda J, name=name, shape=shape, d=d: getattr(J.initializers, name)()(
                    J.random.key(3), shape, dtype(d)
                )
                add(f"{name}/{len(shape)}/{d}", fn, x64=d == "f64")
    for scale, mode, kind in (
        (1.0, "fan_in", "normal"),
        (2.0, "fan_out", "uniform"),
        (0.5, "fan_avg", "truncated_normal"),
    ):
        fn = lambda J, a=(scale, mode, kind): J.initializers.variance_scaling(*a)(
            J.random.key(1), (3, 4)
        )
        add(f"variance_scaling/{mode}", fn)
    add("zeros", lambda J: J.initializers.zeros(J.random.key(0), (2, 2)), tol=EXACT)
    add("ones", lambda J: J.initializers.ones(J.random.key(0), (2, 2), np.int32), tol=EXACT)
    add("constant", lambda J: J.initializers.constant(2.5)(J.random.key(0), (2,)), tol=EXACT)
    add(
        "orthogonal",
        lambda J: J.initializers.orthogonal()(J.random.key(0), (4, 3)),
        tol=Tol(64, True),
    )
    add(
        "delta_orthogonal",
        lambda J: J.initializers.delta_orthogonal()(J.random.key(0), (3, 2, 4)),
        tol=Tol(64, True),
    )
    axes = lambda J: J.initializers.he_normal(in_axis=0, out_axis=1, batch_axis=2)(
        J.random.key(5), (3, 4, 2)
    )
    add("axes", axes)
