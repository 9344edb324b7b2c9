"""Special functions at hard points against 25 digits of mpmath (``tools/special_points.py``)."""

import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.scipy import special

POINTS = json.loads(
    (Path(__file__).parent.parent / "data" / "special_points.json").read_text(encoding="utf-8")
)
# How many units in the last place a function may be off, in float64 and float32; what is not
# named is held to two. Those with more are made of exponentials of large logarithms.
BOUNDS = {
    "gammaln": (16, 2),
    "digamma": (4, 2),
    "gamma": (128, 2),
    "beta": (48, 48),
    "poch": (32, 48),
    "i0": (4, 2),
    "i1": (10, 2),
    "i1e": (8, 2),
    "ndtr": (24, 2),
    "log_ndtr": (64, 48),
    "exp1": (2, 4),
    "expi": (2, 4),
    "betaln": (12, 6),
    "gammainc": (4, 2),
    "gammaincc": (4, 2),
    "betainc": (64, 2),
    "owens_t": (8, 2),
    "hyp1f1": (4, 4),
    "hyp2f1": (32, 4),
}
# Around a root of these the error is held against 1, as SciPy's and XLA's are.
AROUND_ROOTS = ("gammaln", "digamma")
ORDERS = ("polygamma", "expn")


@pytest.mark.parametrize("wide", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize("name", POINTS)
def test_hard_points(name: str, wide: bool) -> None:
    dtype = np.float64 if wide else np.float32
    bound = BOUNDS.get(name, (2, 2))[0 if wide else 1]
    function = getattr(special, name)
    with weft.enable_x64(wide), np.errstate(all="ignore"):
        compiled = weft.jit(function)
        for point, text in POINTS[name]:
            if not wide and any(float(dtype(x)) != x for x in point):
                continue
            want = dtype(text)
            if not np.isfinite(want) or abs(want) < np.finfo(dtype).tiny:
                continue
            args = [jnp.asarray(dtype(x)) for x in point]
            if name in ORDERS:
                args[0] = args[0].astype(np.int32)
            size = max(abs(want), dtype(1)) if name in AROUND_ROOTS else abs(want)
            for call in (function, compiled):
                got = np.asarray(call(*args))
                assert got.dtype == dtype
                off = abs(Decimal(float(got)) - Decimal(text)) / Decimal(float(np.spacing(size)))
                assert off <= bound, f"{name}{tuple(point)}: want {text}, got {got}, {off:.3g} ulp"


def test_every_point_is_of_a_function() -> None:
    assert sum(map(len, POINTS.values())) >= 200
    assert all(hasattr(special, name) for name in POINTS)
    assert set(BOUNDS) <= set(POINTS)
