"""Functions whose StableHLO JAX writes and runs; `tools/record_stablehlo.py` records both.

Imports JAX, flax and optax: tests only read the record.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import optax
from jax import export, lax, random
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

DRAW = np.random.default_rng(36)


def draw(*shape, kind="float32"):
    return jnp.asarray(DRAW.standard_normal(shape).astype(kind))


X = draw(3, 4)
Y = jnp.abs(draw(3, 4)) + 0.5
V = draw(8)
A = draw(4, 4)
S = A @ A.T + 4 * jnp.eye(4)
N = jnp.array([[3, -1, 4], [1, -5, 9]])
I = jnp.array([2, 0, 1, 2])
B = draw(2, 3, 4, 4)
C = draw(3, 3) + 1j * draw(3, 3)
IMAGES = draw(2, 8, 8, 3)
KERNEL = draw(3, 3, 3, 4)
KEY = random.key_data(random.key(7))


def key(k):
    return random.wrap_key_data(k)


def _both(fun, x):
    return fun(x, axis=0), fun(x)


def numpy_cases():
    unary = "abs arccosh arcsin arctan ceil cos cosh exp exp2 expm1 floor log log10 log1p log2"
    unary += " negative reciprocal rint sign sin sinh sqrt square tan tanh cbrt isnan isfinite"
    for name in unary.split():
        fun = getattr(jnp, name)
        yield f"numpy {name}", fun, [Y / 3 if name.startswith("arcs") else Y + 1]
    binary = "add subtract multiply divide power maximum minimum arctan2 fmod hypot logaddexp"
    binary += " floor_divide mod copysign heaviside nextafter greater less_equal"
    for name in binary.split():
        yield f"numpy {name}", getattr(jnp, name), [X + 3 if name == "power" else X, Y]
    for name in "bitwise_and bitwise_or bitwise_xor left_shift gcd".split():
        yield f"numpy {name}", getattr(jnp, name), [jnp.abs(N), jnp.abs(N) % 3]
    reductions = "sum prod max min mean std var argmax argmin any all median cumsum cumprod"
    reductions += " sort argsort ptp nansum"
    for name in reductions.split():
        yield f"numpy {name}", lambda x, n=name: _both(getattr(jnp, n), x), [X]
    yield from [
        ("numpy matmul", jnp.matmul, [X, A]),
        ("numpy einsum", lambda b: jnp.einsum("bhqk,bhdk->bqhd", b, b), [B]),
        ("numpy tensordot", lambda a: jnp.tensordot(a, a, 2), [A]),
        ("numpy inner", lambda a: jnp.inner(a, a), [X]),
        ("numpy pad modes", lambda x: [jnp.pad(x, 2, mode=m) for m in ("edge", "reflect")], [X]),
        ("numpy roll", lambda x: jnp.roll(x, (1, 2), (0, 1)), [X]),
        ("numpy flip", lambda x: (jnp.flip(x), jnp.rot90(x)), [X]),
        ("numpy where", lambda x: jnp.where(x > 0, x, -1), [X]),
        ("numpy select", lambda x: jnp.select([x > 1, x > 0], [x, 2 * x], 7.0), [X]),
        ("numpy take", lambda x, i: (x[i % 3], jnp.take(x, i, 1), x[:, i]), [X, I]),
        ("numpy take fill", lambda x, i: jnp.take(x, i * 9, 0, mode="fill"), [X, I]),
        ("numpy mask", lambda x: jnp.where((x > 0)[:, None], x[:, None], 0).sum(1), [X]),
        (
            "numpy at",
            lambda x, i: (x.at[i].add(1.0), x.at[i, 1].set(9.0), x.at[i].max(0.5)),
            [A, I],
        ),
        ("numpy at min mul", lambda x, i: (x.at[i].min(0.0), x.at[i].multiply(2.0)), [A, I]),
        ("numpy searchsorted", lambda v: jnp.searchsorted(jnp.sort(v), v), [V]),
        ("numpy interp", lambda v: jnp.interp(v, jnp.arange(8.0), v), [V]),
        ("numpy histogram", lambda v: jnp.histogram(v, bins=4), [V]),
        ("numpy bincount", lambda i: jnp.bincount(i, length=4), [I]),
        ("numpy unique", lambda i: jnp.unique(i, size=4), [I]),
        ("numpy percentile", lambda x: jnp.percentile(x, jnp.array([20.0, 70.0]), axis=1), [X]),
        ("numpy cov", lambda x: (jnp.cov(x), jnp.corrcoef(x)), [X]),
        ("numpy convolve", lambda v: jnp.convolve(v, v[:3]), [V]),
        ("numpy polyval", lambda v: jnp.polyval(v[:3], v), [V]),
        ("numpy vander", lambda v: jnp.vander(v, 4), [V]),
        ("numpy triangles", lambda a: (jnp.tril(a), jnp.triu(a, 1), jnp.trace(a)), [A]),
        ("numpy kron", lambda a: jnp.kron(a[:2, :2], a), [A]),
        ("numpy cross", lambda c: jnp.cross(c[:, :3], c[:, 1:]), [X]),
        ("numpy linspace", lambda x: jnp.linspace(x[0], x[1], 5), [X]),
        ("numpy lexsort", lambda i: jnp.lexsort((i, -i)), [I]),
        ("numpy complex", lambda c: (jnp.abs(c), jnp.angle(c), c.conj() * c, jnp.exp(c)), [C]),
        ("numpy complex sort", jnp.sort, [C]),
        ("numpy fft", lambda x: (jnp.fft.fft(x), jnp.fft.ifft2(x), jnp.fft.fftn(x)), [X]),
        ("numpy rfft", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), [X]),
        ("numpy divmod", lambda n: (n // 2, n % 3, divmod(n, -2), n**2), [N]),
        ("numpy unsigned", lambda n: (n.astype("uint8") >> 1, n.astype("uint16") // 3), [N]),
        ("numpy narrow", lambda x: (x.astype("bfloat16") * 2, x.astype("float16") + 1), [X]),
        ("numpy convert", lambda x: (x.astype(int), x.astype(bool), x.astype("int8")), [X * 3]),
        ("numpy special values", lambda x: jnp.nan_to_num(x / 0 * (x > 0)), [X]),
        ("numpy repeat tile", lambda x: (jnp.repeat(x, 2, 1), jnp.tile(x, (2, 2))), [X]),
        ("numpy block", lambda a: jnp.block([[a, a], [a, 2 * a]]), [A]),
        ("numpy digitize", lambda v: jnp.digitize(v, jnp.array([-1.0, 0.0, 1.0])), [V]),
        ("numpy packbits", lambda x: jnp.packbits(x > 0), [X]),
        ("numpy choose", lambda i: jnp.choose(i, [i, i * 2, i * 3], mode="clip"), [I]),
        ("numpy gradient", lambda x: jnp.gradient(x), [X]),
        ("numpy trapezoid", lambda v: jnp.trapezoid(v), [V]),
        ("numpy clip", lambda x: (x.clip(-1, 1), jnp.clip(x, None, 0)), [X]),
        ("numpy full of constants", lambda x: x + np.arange(12.0, dtype="f4").reshape(3, 4), [X]),
        ("numpy empty", lambda x: (x[:0], x[:0].sum(), jnp.concatenate([x[:0], x])), [X]),
    ]


def lax_cases():
    unary = "erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e rsqrt logistic asinh acos atanh"
    for name in unary.split():
        yield (
            f"lax {name}",
            getattr(lax, name),
            [Y / 4 if name in ("erf_inv", "atanh", "acos") else Y],
        )
    yield from [
        ("lax igamma", lax.igamma, [Y, Y]),
        ("lax igamma vjp", jax.grad(lambda a, x: lax.igamma(a, x).sum(), (0, 1)), [Y, Y]),
        ("lax betainc", lax.betainc, [Y, Y, Y / 9]),
        ("lax zeta polygamma", lambda x: (lax.zeta(x + 1, x), lax.polygamma(x * 0 + 1, x)), [Y]),
        (
            "lax integer bits",
            lambda n: (lax.clz(n), lax.population_count(n), lax.rem(n, n + 7)),
            [N],
        ),
        (
            "lax shifts",
            lambda n: (
                lax.shift_right_arithmetic(n, 1 + 0 * n),
                lax.shift_right_logical(n, 1 + 0 * n),
            ),
            [N],
        ),
        ("lax top_k", lambda x: lax.top_k(x, 3), [X]),
        ("lax approx_max_k", lambda x: lax.approx_max_k(x, 2), [X]),
        ("lax approx_min_k", lambda x: lax.approx_min_k(x, 2), [X]),
        ("lax sort keys", lambda x, n: lax.sort((n, x[:2, :3], n), num_keys=2), [X, N]),
        ("lax sort descending", lambda v: -jnp.sort(-v), [V]),
        ("lax sort nan", lambda v: jnp.sort(v / (v > 0)), [V]),
        ("lax reduce custom", lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + 0 * a, (0,)), [X]),
        (
            "lax reduce two",
            lambda x: lax.reduce(
                (x, -x), (0.0, 0.0), lambda a, b: (a[0] + b[0], a[1] + b[1]), (1,)
            ),
            [X],
        ),
        (
            "lax reduce_window",
            lambda x: (
                lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
                lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (2, 1), "VALID"),
                lax.reduce_window(x, 1.0, lax.mul, (2, 1), (1, 1), "VALID"),
            ),
            [X],
        ),
        (
            "lax cumulative",
            lambda x: (
                lax.cummax(x, 0),
                lax.cummin(x, 1, reverse=True),
                lax.cumlogsumexp(x, 1),
                lax.cumsum(x, 1, reverse=True),
            ),
            [X],
        ),
        (
            "lax dynamic slices",
            lambda x, i: (
                lax.dynamic_slice(x, (i[0], i[1]), (2, 2)),
                lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i[0], i[3])),
            ),
            [A, I],
        ),
        (
            "lax gather modes",
            lambda x, i: [x.at[i * 3 - 2].get(mode=m) for m in ("clip", "fill")],
            [A, I],
        ),
        (
            "lax scatter modes",
            lambda x, i: [x.at[i * 3].add(1.0, mode=m) for m in ("clip", "drop")],
            [A, I],
        ),
        (
            "lax scatter_apply",
            lambda x: lax.scatter_apply(
                x,
                jnp.array([[1], [2]]),
                jnp.sin,
                lax.ScatterDimensionNumbers((1,), (0,), (0,)),
                update_shape=(2, 4),
            ),
            [A],
        ),
        ("lax pad", lambda x: lax.pad(x, 1.0, ((1, 2, 1), (-1, 0, 0))), [X]),
        ("lax reduce_precision", lambda x: lax.reduce_precision(x, 5, 4), [X]),
        (
            "lax bitcast",
            lambda x: (lax.bitcast_convert_type(x, "int32"), lax.bitcast_convert_type(x, "uint8")),
            [X],
        ),
        (
            "lax conv",
            lambda x, k: lax.conv_general_dilated(
                x, k, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            [IMAGES, KERNEL],
        ),
        (
            "lax conv dilated",
            lambda x, k: lax.conv_general_dilated(
                x,
                k,
                (1, 1),
                ((2, 1), (0, 3)),
                lhs_dilation=(2, 1),
                rhs_dilation=(1, 2),
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            [IMAGES, KERNEL],
        ),
        (
            "lax conv grouped",
            lambda x: lax.conv_general_dilated(
                x,
                jnp.ones((3, 3, 1, 6)),
                (1, 1),
                "VALID",
                feature_group_count=3,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            [IMAGES],
        ),
        (
            "lax conv transpose",
            lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"),
            [IMAGES, KERNEL],
        ),
        (
            "lax conv grads",
            jax.grad(
                lambda x, k: (
                    lax.conv_general_dilated(
                        x, k, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                    )
                    ** 2
                ).sum(),
                (0, 1),
            ),
            [IMAGES, KERNEL],
        ),
        (
            "lax max pool grad",
            jax.grad(lambda x: (nn.max_pool(x, (2, 2), (2, 2)) ** 2).sum()),
            [IMAGES],
        ),
        ("lax mean pool", lambda x: nn.avg_pool(x, (3, 3), (2, 2), "SAME"), [IMAGES]),
        (
            "lax dot types",
            lambda n: lax.dot_general(
                n.astype("int8"),
                n.T.astype("int8"),
                (((1,), (0,)), ((), ())),
                preferred_element_type=jnp.int32,
            ),
            [N],
        ),
        ("lax dot precision", lambda a: jnp.dot(a, a, precision="highest"), [A]),
        (
            "lax ragged_dot",
            lambda a, b: lax.ragged_dot(a, b, jnp.array([1, 3, 0])),
            [A, draw(3, 4, 2)],
        ),
        (
            "lax rng_bit_generator",
            lambda k: lax.rng_bit_generator(k, (5,))[1],
            [jnp.arange(4, dtype="uint32")],
        ),
        ("lax barrier", lambda x: lax.optimization_barrier((x, x + 1)), [X]),
        ("lax map", lambda x: lax.map(jnp.sum, x), [X]),
        ("lax composite", lambda x: lax.composite(lambda y: y * 2, "mine.double")(x), [X]),
        ("lax custom_linear_solve", lambda a, b: jnp.linalg.solve(a, b), [S, A]),
    ]


def control_cases():
    step = lambda c, a: (c * 0.5 + a, jnp.sin(c))
    yield from [
        ("control scan", lambda x: lax.scan(step, jnp.zeros(4), x), [X]),
        ("control scan reverse", lambda x: lax.scan(step, jnp.ones(4), x, reverse=True), [X]),
        ("control scan grad", jax.grad(lambda x: lax.scan(step, jnp.zeros(4), x)[1].sum()), [X]),
        ("control scan unroll", lambda x: lax.scan(step, jnp.zeros(4), x, unroll=2), [X]),
        (
            "control nested scan",
            lambda a: lax.scan(lambda c, r: lax.scan(lambda d, s: (d + s, d), c, r), 0.0, a),
            [A],
        ),
        (
            "control while",
            lambda v: lax.while_loop(
                lambda c: c[1].sum() < 100, lambda c: (c[0] + 1, c[1] * 1.5 + 1), (0, v)
            ),
            [V],
        ),
        ("control fori", lambda v: lax.fori_loop(2, 7, lambda i, c: c + i * v, v), [V]),
        ("control fori unknown", lambda i: lax.fori_loop(0, i[0] + 2, lambda j, c: c + j, 0), [I]),
        ("control cond", lambda v: lax.cond(v[0] > 0, jnp.sin, jnp.cos, v), [V]),
        (
            "control cond grad",
            jax.grad(lambda v: lax.cond(v[0] > 0, lambda u: (u**2).sum(), lambda u: u.sum(), v)),
            [V],
        ),
        ("control switch", lambda i, v: lax.switch(i[0], [jnp.sin, jnp.cos, jnp.tanh], v), [I, V]),
        (
            "control switch vmap",
            lambda i, v: jax.vmap(lambda j: lax.switch(j, [jnp.sin, jnp.cos, jnp.tanh], v))(i),
            [I, V],
        ),
        (
            "control while vmap",
            lambda i: jax.vmap(
                lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2), (0, 1))
            )(i),
            [I],
        ),
        ("control associative", lambda v: lax.associative_scan(jnp.multiply, v), [V]),
        (
            "control remat",
            jax.grad(lambda v: jax.checkpoint(lambda u: jnp.sin(jnp.sin(u)))(v).sum()),
            [V],
        ),
        ("control custom_vjp", jax.grad(lambda v: nn.relu(v).sum() + jax.nn.silu(v).sum()), [V]),
        ("control hessian", jax.hessian(lambda v: (jnp.sin(v) * v).sum() ** 2), [V]),
        ("control jacobians", lambda v: (jax.jacfwd(jnp.sort)(v), jax.jacrev(jnp.cumsum)(v)), [V]),
        ("control jvp", lambda v: jax.jvp(jnp.tanh, (v,), (v,)), [V]),
        ("control vmap", jax.vmap(lambda r: jnp.outer(r, r).sum(0)), [X]),
        ("control vmap axes", jax.vmap(jnp.dot, (0, 1)), [A, A]),
        (
            "control collectives of vmap",
            jax.vmap(lambda r: lax.psum(r, "i") + lax.axis_index("i"), axis_name="i"),
            [X],
        ),
        (
            "control ode",
            lambda v: lax.fori_loop(0, 10, lambda i, y: y + 0.1 * (-y + jnp.sin(0.1 * i)), v),
            [V],
        ),
        (
            "control newton",
            lambda v: lax.while_loop(
                lambda c: (c[1] < 30) & (jnp.abs(c[0] ** 2 - 2).max() > 1e-5),
                lambda c: (c[0] - (c[0] ** 2 - 2) / (2 * c[0]), c[1] + 1),
                (jnp.abs(v) + 1, 0),
            )[0],
            [V],
        ),
        ("control callees", lambda x: jax.jit(jnp.sin)(x) + jax.jit(jnp.sin)(x * 2), [X]),
    ]


def scipy_cases():
    la, sl = jnp.linalg, jsp.linalg
    yield from [
        ("linalg cholesky", la.cholesky, [S]),
        ("linalg cholesky grad", jax.grad(lambda s: la.cholesky(s).sum()), [S]),
        ("linalg upper", lambda s: sl.cholesky(s), [S]),
        ("linalg solve", la.solve, [S, A]),
        ("linalg inv", la.inv, [S]),
        ("linalg det", lambda a: (la.det(a), la.slogdet(a)), [A]),
        ("linalg qr", lambda a: jnp.abs(jnp.stack(la.qr(a))), [A]),
        ("linalg qr product", lambda x: (lambda q, r: (q @ r, q.T @ q))(*la.qr(x)), [draw(5, 3)]),
        ("linalg qr complex", lambda c: (lambda q, r: (q @ r, q.conj().T @ q))(*la.qr(c)), [C]),
        ("linalg qr grad", jax.grad(lambda a: (la.qr(a)[1] ** 2)[0].sum()), [A]),
        ("linalg qr full", lambda x: la.qr(x, mode="r"), [draw(3, 5)]),
        ("linalg qr pivoting", lambda a: jnp.abs(sl.qr(a, pivoting=True)[1]), [A]),
        (
            "linalg svd",
            lambda x: (lambda u, s, v: ((u * s) @ v, s))(*la.svd(x, full_matrices=False)),
            [X],
        ),
        ("linalg svd values", lambda x: la.svd(x, compute_uv=False), [X]),
        ("linalg eigh", lambda s: (lambda w, v: (w, (v * w) @ v.T))(*la.eigh(s)), [S]),
        ("linalg eigvalsh", la.eigvalsh, [S]),
        ("linalg eig", lambda a: (lambda w, v: ((v * w) @ la.inv(v)).real)(*la.eig(a)), [A]),
        ("linalg eigvals", lambda a: jnp.sort(la.eigvals(a)), [A]),
        ("linalg lu", lambda a: (lambda p, l, u: p @ l @ u)(*sl.lu(a)), [A]),
        ("linalg lu solve", lambda a, b: sl.lu_solve(sl.lu_factor(a), b), [A, S]),
        ("linalg schur", lambda a: (lambda t, z: z @ t @ z.T)(*sl.schur(a)), [A]),
        ("linalg expm", sl.expm, [A / 4]),
        ("linalg hessenberg", lambda a: jnp.abs(sl.hessenberg(a)), [A]),
        ("linalg triangular", lambda a, b: sl.solve_triangular(a, b, lower=True, trans=1), [S, A]),
        (
            "linalg tridiagonal",
            lambda v: lax.linalg.tridiagonal_solve(
                v[:4] * 0.1, v[:4] + 5, v[4:] * 0.1, v[4:, None]
            ),
            [V],
        ),
        ("linalg pinv", la.pinv, [X]),
        ("linalg lstsq", lambda a, b: la.lstsq(a, b)[0], [draw(5, 3), draw(5)]),
        ("linalg norms", lambda a: (la.norm(a), la.norm(a, 2), la.norm(a, 1)), [A]),
        ("linalg batched", lambda s: la.inv(s), [jnp.stack([S, 2 * S])]),
        ("linalg matrix_power", lambda a: la.matrix_power(a, 5), [A / 2]),
        ("scipy logsumexp", lambda x: jsp.special.logsumexp(x, 1), [X]),
        ("scipy gammaln", lambda y: (jsp.special.gammaln(y), jsp.special.betaln(y, y)), [Y]),
        (
            "scipy special",
            lambda y: (
                jsp.special.i0(y),
                jsp.special.expit(y),
                jsp.special.ndtr(y),
                jsp.special.xlogy(y, y),
                jsp.special.entr(y),
            ),
            [Y],
        ),
        ("scipy expi", lambda y: (jsp.special.expi(y), jsp.special.exp1(y)), [Y]),
        (
            "scipy stats",
            lambda x: (
                jsp.stats.norm.logpdf(x),
                jsp.stats.t.logpdf(x, 3.0),
                jsp.stats.beta.logpdf(x, 2.0, 3.0),
                jsp.stats.norm.cdf(x),
            ),
            [Y / 4],
        ),
        ("scipy convolve2d", lambda x: jsp.signal.convolve2d(x, x[:2, :2]), [X]),
        (
            "scipy map_coordinates",
            lambda x: jsp.ndimage.map_coordinates(x, [x * 0 + 0.5, x * 0 + 1.2], 1),
            [X],
        ),
        ("image resize", lambda x: jax.image.resize(x, (2, 5, 6, 3), "bilinear"), [IMAGES]),
        ("image cubic", lambda x: jax.image.resize(x, (2, 12, 12, 3), "cubic"), [IMAGES]),
    ]


def random_cases():
    draws = {
        "uniform": lambda k: random.uniform(k, (3, 4)),
        "normal": lambda k: random.normal(k, (5,)),
        "bits": lambda k: (random.bits(k, (3,)), random.bits(k, (3,), "uint8")),
        "randint": lambda k: random.randint(k, (6,), -3, 9),
        "bernoulli": lambda k: random.bernoulli(k, 0.3, (7,)),
        "categorical": lambda k: random.categorical(k, jnp.arange(5.0)),
        "permutation": lambda k: random.permutation(k, 7),
        "choice": lambda k: random.choice(k, 5, (3,), replace=False),
        "gamma": lambda k: random.gamma(k, 2.0, (3,)),
        "truncated": lambda k: random.truncated_normal(k, -1, 1, (4,)),
        "split": lambda k: random.key_data(random.split(k, 3)),
        "fold_in": lambda k: random.key_data(random.fold_in(k, 5)),
        "dropout": lambda k: nn.Dropout(0.5, deterministic=False).apply({}, X, rngs={"dropout": k}),
    }
    for name, fun in draws.items():
        yield f"random {name}", lambda k, f=fun: f(key(k)), [KEY]


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(8)(x))
        return nn.Dense(3)(nn.LayerNorm()(x))


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x))
        x = nn.max_pool(x, (2, 2), (2, 2))
        x = nn.GroupNorm(2)(nn.Conv(4, (3, 3), strides=2)(x))
        return nn.Dense(3)(x.mean((1, 2)))


class Normed(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.BatchNorm(use_running_average=False)(nn.Dense(6)(x))
        return nn.Dense(3)(nn.tanh(x))


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.RNN(nn.LSTMCell(5))(x)[:, -1])


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(16)(nn.LayerNorm()(x))))


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(11, 8)(tokens)
        x = x + self.param("places", nn.initializers.normal(0.1), (tokens.shape[1], 8))
        return nn.Dense(11)(Block()(Block()(x)))


def loss_of(model, x, labels):
    def loss(variables):
        made = model.apply(variables, x, mutable=["batch_stats"])
        logits = made[0]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean()

    return loss


def training(model, x, labels, optimizer):
    variables = model.init(random.key(0), x)
    state = optimizer.init(variables["params"])
    leaves, tree = jax.tree.flatten((variables, state))

    def step(x, labels, *leaves):
        variables, state = jax.tree.unflatten(tree, leaves)
        value, grads = jax.value_and_grad(loss_of(model, x, labels))(variables)
        updates, state = optimizer.update(grads["params"], state, variables["params"])
        return value, optax.apply_updates(variables["params"], updates)

    return step, [x, labels, *leaves]


def network_cases():
    labels = jnp.array([0, 2])
    tokens = jnp.array([[1, 4, 9, 0], [10, 3, 3, 7]])
    flat = draw(2, 5)
    for name, model, x, goal in [
        ("mlp", Mlp(), flat, labels),
        ("cnn", Cnn(), IMAGES, labels),
        ("batch norm", Normed(), flat, labels),
        ("lstm", Recurrent(), draw(2, 4, 5), labels),
        ("transformer", Transformer(), tokens, tokens),
    ]:
        variables = model.init(random.key(0), x)
        leaves, tree = jax.tree.flatten(variables)

        def forward(x, *leaves, model=model, tree=tree):
            return model.apply(jax.tree.unflatten(tree, leaves), x, mutable=["batch_stats"])[0]

        yield f"network {name}", forward, [x, *leaves]
        for kind, optimizer in [
            ("sgd", optax.sgd(0.1, 0.9)),
            ("adamw", optax.adamw(1e-2, eps=1e-3)),
        ]:
            yield f"network {name} {kind}", *training(model, x, goal, optimizer)
    q = draw(2, 5, 2, 4)
    yield "network attention", lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), [q]
    yield (
        "network attention grad",
        jax.grad(lambda q: (jax.nn.dot_product_attention(q, q * 2, q) ** 2).sum()),
        [q],
    )
    for name in "softmax log_softmax gelu silu elu selu softplus hard_tanh glu one_hot".split():
        args = [I] if name == "one_hot" else [X]
        fun = getattr(jax.nn, name)
        yield f"nn {name}", lambda x, f=fun: f(x, 5) if f is jax.nn.one_hot else f(x), args


def symbolic_cases():
    """Functions of symbolic shapes; each with the sizes it is called at."""
    f32 = jnp.float32
    scan = lambda x: lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(3), x)
    w = draw(3, 2)
    return [
        ("symbolic reshape", lambda x: (x.reshape(-1), x.reshape(-1, 1, 3)), ["b, 3"], f32),
        (
            "symbolic arange",
            lambda x: (jnp.arange(x.shape[0] * 2), jnp.ones(x.shape)),
            ["b, 3"],
            f32,
        ),
        ("symbolic mlp", lambda x: jnp.tanh(x @ w).mean(0), ["b, 3"], f32),
        ("symbolic softmax", lambda x: jax.nn.softmax(x, 0), ["b, 3"], f32),
        ("symbolic scan", scan, ["b, 3"], f32),
        ("symbolic scan grad", jax.grad(lambda x: scan(x)[1].sum()), ["b, 3"], f32),
        ("symbolic concatenate", lambda x: jnp.concatenate([x, x[:1]], 0), ["b, 3"], f32),
        ("symbolic slice", lambda x: (x[1:], x[::2], x[-1]), ["b, 3"], f32),
        ("symbolic pad", lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 0))), ["b, 3"], f32),
        ("symbolic matmul", lambda x: x @ x.T, ["b, c"], f32),
        ("symbolic gather", lambda x: jnp.take(x, jnp.array([0, 0]), 0), ["b, 3"], f32),
        ("symbolic cumsum", lambda x: jnp.cumsum(x, 0), ["b, 3"], f32),
        ("symbolic top_k", lambda x: lax.top_k(x[:, 0], x.shape[0] // 2), ["b, 3"], f32),
        (
            "symbolic cholesky",
            lambda x: jnp.linalg.cholesky(x[:, :1, None] ** 2 * jnp.eye(2) + 1 * jnp.eye(2)),
            ["b, 3"],
            f32,
        ),
        (
            "symbolic qr",
            lambda x: jnp.linalg.qr(x[:, :1, None] + jnp.ones((2, 2)) + jnp.eye(2))[1] ** 2,
            ["b, 3"],
            f32,
        ),
        ("symbolic sort", lambda x: (jnp.sort(x, 0), jnp.argmax(x, 0)), ["b, 3"], f32),
        (
            "symbolic division",
            lambda x: (jnp.arange(x.shape[0] // 2), x.shape[0] % 2 + x),
            ["b, 3"],
            f32,
        ),
        ("symbolic conv", lambda x: nn.avg_pool(x, (2, 2), (1, 1), "SAME"), ["b, h, h, 3"], f32),
        (
            "symbolic where",
            lambda x: jnp.where(jnp.arange(x.shape[0])[:, None] > 1, x, 0),
            ["b, 3"],
            f32,
        ),
    ]


def sharded_cases():
    """Functions over four devices."""
    line = Mesh(np.array(jax.devices()[:4]), ("d",))
    grid = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    rows, tiles = NamedSharding(line, P("d", None)), NamedSharding(grid, P("a", "b"))
    x = draw(8, 4)
    put = jax.device_put
    shard = lambda mesh, ins, outs: (
        lambda f: jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
    )
    d = P("d")

    def exchange(x):
        pairs = [(0, 1), (1, 2), (2, 3), (3, 0)]
        return lax.ppermute(x, "d", pairs), lax.all_to_all(x, "d", 1, 0, tiled=True)

    def sums(x):
        return lax.psum(x, "a"), lax.psum(x, "b"), lax.pmax(x, ("a", "b"))

    return [
        ("sharded jit", lambda x: jnp.sin(x) @ x.T, [put(x, rows)]),
        ("sharded constraint", lambda x: lax.with_sharding_constraint(x * 2, rows) + 1, [x]),
        ("sharded grid", lambda x: (x @ A).sum(0), [put(x, tiles)]),
        ("sharded grad", jax.grad(lambda x: (jnp.tanh(x @ A) ** 2).sum()), [put(x, rows)]),
        ("sharded psum", shard(line, d, P())(lambda x: lax.psum(x, "d")), [x]),
        ("sharded pmean", shard(line, d, d)(lambda x: x - lax.pmean(x, "d")), [x]),
        ("sharded index", shard(line, d, d)(lambda x: x + lax.axis_index("d")), [x]),
        ("sharded gather", shard(line, d, d)(lambda x: lax.all_gather(x, "d").sum(0)), [x]),
        (
            "sharded scatter",
            shard(line, d, d)(lambda x: lax.psum_scatter(jnp.tile(x, (2, 1)), "d", tiled=True)),
            [x],
        ),
        ("sharded exchange", shard(line, d, (d, d))(exchange), [x]),
        ("sharded two axes", shard(grid, P("a", "b"), (P(None, "b"), P("a"), P()))(sums), [x]),
        (
            "sharded step",
            lambda x, w: (
                w
                - 0.1
                * jax.grad(
                    lambda w: shard(line, (d, P()), P())(
                        lambda x, w: lax.psum((jnp.tanh(x @ w) ** 2).sum(), "d")
                    )(x, w)
                )(w)
            ),
            [x, A],
        ),
    ]


def wide_cases():
    """Functions of 64-bit types."""
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    return [
        ("wide arithmetic", lambda x: (jnp.sin(x) ** 2, x @ x.T, x.sum(0)), [x]),
        (
            "wide integers",
            lambda n: (n * 3_000_000_000, n // 7, n.astype("uint64")),
            [np.arange(5)],
        ),
        ("wide linalg", lambda s: jnp.linalg.solve(s, s[0]), [np.asarray(S, "float64")]),
        ("wide scan", lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x[0]), [x]),
        ("wide complex", lambda x: jnp.fft.fft(x + 1j), [x]),
    ]


def plain_cases():
    yield from numpy_cases()
    yield from lax_cases()
    yield from control_cases()
    yield from scipy_cases()
    yield from random_cases()
    yield from network_cases()


def symbolic_specs(shapes, dtype):
    scope = export.SymbolicScope()
    return [
        jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), dtype) for text in shapes
    ]
