"""Samples of transcendental and special functions, where they are smooth."""

import numpy as np

from tests.samples import COMPLEX, FLOATS, Sample, away, between, fixed, normal, whole

NONE = {"accuracy": None}
BOTH_KINDS = (*FLOATS, *COMPLEX)

# name: operand, parameters, dtypes
UNARY = {
    "exp": (normal, NONE, BOTH_KINDS),
    "exp2": (normal, NONE, BOTH_KINDS),
    "log": (lambda *s: between(0.3, 4, *s), NONE, BOTH_KINDS),
    "expm1": (normal, NONE, BOTH_KINDS),
    "log1p": (lambda *s: between(-0.6, 3, *s), NONE, BOTH_KINDS),
    "tanh": (normal, NONE, BOTH_KINDS),
    "logistic": (normal, NONE, BOTH_KINDS),
    "sin": (normal, NONE, BOTH_KINDS),
    "cos": (normal, NONE, BOTH_KINDS),
    "tan": (lambda *s: between(-1.2, 1.2, *s), NONE, BOTH_KINDS),
    "sqrt": (lambda *s: between(0.3, 4, *s), NONE, BOTH_KINDS),
    "rsqrt": (lambda *s: between(0.3, 4, *s), NONE, BOTH_KINDS),
    "cbrt": (lambda *s: away(0.3, *s), NONE, FLOATS),
    "asin": (lambda *s: between(-0.8, 0.8, *s), {}, BOTH_KINDS),
    "acos": (lambda *s: between(-0.8, 0.8, *s), {}, BOTH_KINDS),
    "atan": (lambda *s: between(-0.8, 0.8, *s), {}, BOTH_KINDS),
    "sinh": (normal, {}, BOTH_KINDS),
    "cosh": (normal, {}, BOTH_KINDS),
    "asinh": (normal, {}, BOTH_KINDS),
    "acosh": (lambda *s: between(1.3, 4, *s), {}, BOTH_KINDS),
    "atanh": (lambda *s: between(-0.7, 0.7, *s), {}, BOTH_KINDS),
    "erf": (normal, {}, FLOATS),
    "erfc": (normal, {}, FLOATS),
    "erf_inv": (lambda *s: between(-0.8, 0.8, *s), {}, FLOATS),
    "lgamma": (lambda *s: between(0.3, 5, *s), {}, FLOATS),
    "digamma": (lambda *s: between(0.3, 5, *s), {}, FLOATS),
    "bessel_i0e": (lambda *s: away(0.2, *s), {}, FLOATS),
    "bessel_i1e": (lambda *s: away(0.2, *s), {}, FLOATS),
}
TWO = {
    "equal": ((2, 3), (2, 3)),
    "left_scalar": ((), (2, 3)),
    "right_scalar": ((2, 3), ()),
    "stretched": ((1, 3), (2, 1)),
}
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30, 3e38]

SAMPLES = [
    Sample(name=f"{prim}_{label}", prim=prim, args=[operand(*shape)], params=params, dtypes=dtypes)
    for prim, (operand, params, dtypes) in UNARY.items()
    for label, shape in {"matrix": (2, 3), "scalar": (), "empty": (0, 3)}.items()
]
SAMPLES += [
    Sample(
        name=f"{prim}_edges",
        prim=prim,
        args=[fixed(EDGES)],
        params=params,
        dtypes=("float32", "bfloat16"),
        wrt=(),
        notes="infinities and NaN have no differences",
    )
    for prim, (_, params, _) in UNARY.items()
]


def binary(prim, left, right, dtypes=FLOATS, labels=tuple(TWO), **options):
    """A sample for each way in which two shapes meet."""
    suffix = "".join(f"_by_{i}" for i in options.get("wrt", ()))
    return [
        Sample(
            name=f"{prim}_{label}{suffix}",
            prim=prim,
            args=[left(*TWO[label][0]), right(*TWO[label][1])],
            dtypes=dtypes,
            **options,
        )
        for label in labels
    ]


def positive(*shape):
    return between(0.4, 3, *shape)


def order(*shape):
    return fixed(np.full(shape, 2.0))


SAMPLES += binary("atan2", lambda *s: away(0.3, *s), lambda *s: away(0.3, *s), BOTH_KINDS)
SAMPLES += binary("pow", positive, normal, BOTH_KINDS, tol=16, notes="exponents magnify rounding")
SAMPLES += binary("pow", positive, normal, FLOATS, wrt=(0,), tol=16)
SAMPLES += [
    Sample(
        name="pow_integer_exponent",
        prim="pow",
        args=[away(0.4, 2, 3), whole(-2, 4, 2, 3, dtype=np.int32)],
        dtypes=BOTH_KINDS,
        tol=16,
        notes="exponents magnify rounding",
    )
]
NO_ORDER = "no derivative by the order is defined, as in JAX"
SAMPLES += binary("polygamma", order, positive, wrt=(1,), tol=32, notes=NO_ORDER)
SAMPLES += binary("zeta", lambda *s: between(2, 4, *s), positive, wrt=(1,), tol=32, notes=NO_ORDER)
SAMPLES += binary("igamma", positive, positive, wrt=(1,), tol=64)
SAMPLES += binary("igammac", positive, positive, wrt=(1,), tol=64)
SECOND = "no second derivative by the shape is defined, as in JAX"
SAMPLES += binary("igamma", positive, positive, wrt=(0,), order=1, tol=64, notes=SECOND)
SAMPLES += binary("igammac", positive, positive, wrt=(0,), order=1, tol=64, notes=SECOND)
SAMPLES += binary("igamma_grad_a", positive, positive, wrt=(1,), tol=64, notes=SECOND)
SAMPLES += binary("random_gamma_grad", positive, positive, wrt=(1,), tol=64, notes=SECOND)
SAMPLES += [
    Sample(
        name=f"regularized_incomplete_beta_{label}",
        prim="regularized_incomplete_beta",
        args=[positive(*a), positive(*b), between(0.2, 0.8, *x)],
        dtypes=FLOATS,
        wrt=(2,),
        tol=64,
        notes="no derivative by a and b is defined, as in JAX",
    )
    for label, a, b, x in (
        ("equal", (2, 3), (2, 3), (2, 3)),
        ("scalars", (), (), (2, 3)),
        ("stretched", (1, 3), (2, 1), (2, 3)),
    )
]
