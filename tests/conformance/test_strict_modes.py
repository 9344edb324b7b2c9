"""Library functions under knobs that forbid to mix ranks and dtypes, or look for leaks and NaN."""

import gc
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.experimental import checkify
from weft.experimental.sparse.linalg import lobpcg_standard
from weft.scipy import fft, linalg, signal, special, stats
from weft.scipy.sparse.linalg import cg
from weft.scipy.spatial.transform import Rotation, Slerp

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
LONG = np.linspace(-1, 1, 64, dtype="float32")
SQUARE = np.diag(np.arange(1.0, 4)).astype("float32") + 0.1
HERMITIAN = np.array([[2, 1j], [-1j, 3]], "complex64")
TURNS = np.array([[0, 0, 0, 1], [0, 1, 0, 1], [1, 0, 0, 1]], "float32")


def _attention():
    q = np.ones((2, 3, 1, 4), "float32")
    lengths = np.array([1, 2], "int32")
    return weft.nn.dot_product_attention(q, q, q, query_seq_lengths=lengths)


RANKS = {
    "lobpcg_standard": lambda: lobpcg_standard(np.diag(np.arange(20.0)), jnp.eye(20, 2)),
    "scale_and_translate": lambda: weft.image.scale_and_translate(
        X, (4, 4), (0, 1), np.ones(2, "float32"), np.zeros(2, "float32"), "linear"
    ),
    "dct": lambda: fft.dct(X),
    "idct": lambda: fft.idct(X, norm="ortho"),
    "dctn": lambda: fft.dctn(X),
    "idctn": lambda: fft.idctn(X),
    "stft": lambda: signal.stft(LONG, nperseg=8),
    "istft": lambda: signal.istft(np.ones((5, 4), "complex64")),
    "welch": lambda: signal.welch(LONG, nperseg=8, average="median"),
    "csd": lambda: signal.csd(LONG, LONG, nperseg=8, detrend="linear"),
    "detrend": lambda: signal.detrend(X),
    "inv": lambda: Rotation.from_quat(TURNS).inv().as_quat(),
    "mean": lambda: Rotation.from_quat(TURNS).mean().as_quat(),
    "slerp": lambda: Slerp.init(jnp.arange(3.0), Rotation.from_quat(TURNS))(0.5).as_quat(),
    "solve_sylvester": lambda: linalg.solve_sylvester(SQUARE, SQUARE, SQUARE),
    "solve_sylvester eigen": lambda: linalg.solve_sylvester(SQUARE, SQUARE, SQUARE, method="eigen"),
    "hilbert": lambda: linalg.hilbert(3),
    "helmert": lambda: linalg.helmert(3),
    "polar": lambda: linalg.polar(SQUARE, method="svd"),
    "bessel_jn": lambda: special.bessel_jn(LONG[:4], v=3),
    "multivariate_normal": lambda: weft.random.multivariate_normal(
        weft.random.key(0), jnp.zeros(2), jnp.eye(2), (3,)
    ),
    "attention": _attention,
    "mode": lambda: stats.mode(X)[0],
    "array_equiv": lambda: jnp.array_equiv(X, X[0]),
}
DTYPES = {
    "sqrtm": lambda: linalg.sqrtm(jnp.eye(3)),
    "funm": lambda: linalg.funm(SQUARE, jnp.sin),
    "eigh_tridiagonal": lambda: linalg.eigh_tridiagonal(
        np.ones(3, "float32"), np.ones(2, "float32"), eigvals_only=True
    ),
    "idct": lambda: fft.idct(X),
    "dctn": lambda: fft.dctn(X),
    "dct of complex": lambda: fft.dct(X.astype("complex64")),
    "logsumexp": lambda: special.logsumexp(X.astype("complex64"), axis=0),
    "cg": lambda: cg(HERMITIAN, np.ones(2, "complex64"))[0],
    "istft": RANKS["istft"],
    "multinomial": lambda: stats.multinomial.logpmf(
        np.array([1, 2], "int32"), np.int32(3), np.array([0.25, 0.75], "float32")
    ),
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_mixed_inside_are_the_librarys_own(name):
    expected = RANKS[name]()
    with weft.numpy_rank_promotion("raise"):
        found = RANKS[name]()
    assert str(found) == str(expected)


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_mixed_inside_are_the_librarys_own(name):
    expected = DTYPES[name]()
    with weft.numpy_dtype_promotion("strict"):
        found = DTYPES[name]()
    assert str(found) == str(expected)


def test_dtypes_that_users_mix_are_refused_still():
    with weft.numpy_dtype_promotion("strict"):
        with pytest.raises(weft.dtypes.TypePromotionError):
            signal.csd(LONG, LONG.astype("float16"), nperseg=8)
        with pytest.raises(weft.dtypes.TypePromotionError):
            linalg.solve_sylvester(SQUARE, SQUARE, SQUARE.astype("complex64"))


LEAKS = {
    "checkify": lambda: checkify.checkify(weft.jit(jnp.log), errors=checkify.float_checks)(1.0),
    "checkify in jit": lambda: weft.jit(checkify.checkify(jnp.log, errors=checkify.all_checks))(
        1.0
    ),
    "sinc": lambda: weft.jit(jnp.sinc)(1.0),
    "pinv": lambda: weft.jit(jnp.linalg.pinv)(np.eye(3, dtype="float32")),
    "hyp1f1": lambda: weft.jit(special.hyp1f1)(1.0, 2.0, 3.0),
    "custom_root": lambda: weft.jit(
        lambda a: lax.custom_root(
            lambda x: x - a, 1.0, lambda f, x: x - f(x), lambda g, y: y / g(1.0)
        )
    )(1.0),
    "cond of a type": lambda: weft.jit(
        lambda x: lax.cond(x > 0, lambda: x, lambda: jnp.ones_like(x))
    )(1.0),
}


@pytest.mark.parametrize("name", LEAKS)
def test_no_leaks_of_our_own(name):
    with weft.check_tracer_leaks():
        LEAKS[name]()


def test_leaks_of_the_user_are_found():
    kept = []
    with weft.check_tracer_leaks(), pytest.raises(Exception, match="escape"):
        weft.jit(lambda x: kept.append(x) or x)(1.0)


def test_programs_do_not_keep_the_functions_that_they_are_of():
    class Big:
        pass

    def run():
        big = Big()
        lax.cond(True, lambda: (big, 1)[1], lambda: 2)
        lax.fori_loop(0, 2, lambda i, x: (big, x)[1], 1.0)
        return weakref.ref(big)

    ref = run()
    gc.collect()
    assert ref() is None


def test_nan_inside_of_a_function_is_its_own():
    with weft.debug_nans(True):
        np.testing.assert_allclose(jnp.sinc(jnp.array([0.0, 0.5])), [1, 2 / np.pi], rtol=1e-6)
        assert special.logsumexp(1.0, b=1.0) == 1
        assert jnp.nanmean(jnp.array([1.0, 2.0])) == 1.5
        for nan in (
            lambda: jnp.log(-1.0),
            lambda: weft.jit(jnp.log)(-1.0),
            lambda: jnp.nanmean(jnp.array([np.nan])),
            lambda: jnp.zeros(2) / 0,
        ):
            with pytest.raises(FloatingPointError, match="nan"):
                nan()
