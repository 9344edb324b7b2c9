"""High-precision values of the special functions at hard points, by mpmath.

``python tools/special_points.py`` writes ``tests/data/special_points.json``: for every function its
arguments (as float64 has them) and the value to 25 digits.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "special_points.json"
TINY = 1e-6


def ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def ndtri(p: Any) -> Any:
    if p == 0.5:
        return mp.mpf(0)
    if p > 0.5:
        return -ndtri(1 - p)
    start = -mp.sqrt(-2 * mp.log(p)) if p < 0.1 else mp.mpf(-1)
    return mp.findroot(lambda x: mp.log(ndtr(x)) - mp.log(p), start, tol=1e-80)


def erfinv(x: Any) -> Any:
    return mp.erfinv(x)


def owens_t(h: Any, a: Any) -> Any:
    return mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def dawsn(x: Any) -> Any:
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def spence(x: Any) -> Any:
    return mp.polylog(2, 1 - x).real


def betainc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def gammainc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def gammaincc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def gammaln(x: Any) -> Any:
    return mp.log(abs(mp.gamma(x)))


def boxcox(x: Any, y: Any) -> Any:
    return mp.log(x) if y == 0 else mp.expm1(y * mp.log(x)) / y


NEAR_ONE = [1 - TINY, 1 + TINY, 1 - 1e-3, 1 + 1e-3]
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "erf": (mp.erf, [1e-30, 1e-8, 0.3, 0.84375, 1.0, 2.5, 4.0, 5.9]),
    "erfc": (mp.erfc, [-5.0, 1e-10, 0.5, 1.0, 3.0, 8.0, 20.0, 26.0]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [-3.0, 0.0, 0.7, 5.0, 26.0, 1e5, 1e10]),
    "erfinv": (erfinv, [1e-20, 0.1, 0.5, 0.9, 0.999, 1 - 1e-10, -0.75]),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), [-700.0, -40.0, -1e-9, 0.5, 36.0, 100.0]),
    "logit": (lambda p: mp.log(p / (1 - p)), [1e-300, 1e-8, 0.4, 0.5 + 1e-9, 1 - 1e-12]),
    "gammaln": (gammaln, [1e-10, 0.5, *NEAR_ONE, 2 - TINY, 2 + TINY, 3.5, 50.0, 1e6, 1e30, -0.5]),
    "digamma": (mp.digamma, [1e-8, 0.5, 1.4616321, 1.4616322, 3.0, 100.0, 1e10, -0.5, -3.3]),
    "gamma": (mp.gamma, [1e-8, 0.5, 1.0 + TINY, 5.5, 30.2, 100.7, 170.5, -0.5, -5.3]),
    "i0": (lambda x: mp.besseli(0, x), [0.0, 1e-5, 1.0, 7.9, 8.1, 50.0]),
    "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [0.0, 1.0, 7.9, 8.1, 300.0, 1e8]),
    "i1": (lambda x: mp.besseli(1, x), [1e-10, 1.0, 7.9, 8.1, 50.0]),
    "i1e": (lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), [1e-10, 1.0, 7.9, 8.1, 300.0, 1e8]),
    "ndtr": (ndtr, [-38.0, -10.0, -1.0, 1e-9, 0.7, 3.0, 8.0]),
    "ndtri": (ndtri, [1e-300, 1e-20, 1e-3, 0.1, 0.5, 0.6, 0.975, 1 - 1e-12]),
    "log_ndtr": (lambda x: mp.log(ndtr(x)), [-1e4, -40.0, -10.0, -5.0, -1.0, 0.0, 3.0, 9.0]),
    "entr": (lambda x: -x * mp.log(x), [1e-300, 1e-10, 0.36787944, *NEAR_ONE, 20.0]),
    "exp1": (mp.e1, [1e-300, 1e-5, 0.5, 1.0, 2.0, 10.0, 100.0, 700.0]),
    "expi": (mp.ei, [-50.0, -1.0, 1e-8, 0.3725, 0.37251, 2.0, 10.0, 50.0]),
    "spence": (spence, [0.0, 1e-8, 0.5, *NEAR_ONE, 2.0, 100.0, 1e10]),
    "dawsn": (dawsn, [1e-10, 0.5, 0.9241388, 3.0, 6.0, 10.0, 1e5]),
    "xlogy": (lambda x, y: x * mp.log(y), [(1e-300, 1e-300), (2.0, 1 + TINY), (3.0, 1e300)]),
    "xlog1py": (lambda x, y: x * mp.log1p(y), [(2.0, 1e-15), (3.0, -0.999999), (1e-8, 1e8)]),
    "betaln": (
        lambda a, b: mp.log(mp.beta(a, b)),
        [(1e-5, 1e-5), (0.5, 1e8), (8.0, 8.0), (100.0, 2.0), (1e5, 1e5), (2.0, 3.0)],
    ),
    "beta": (mp.beta, [(1e-5, 3.0), (0.5, 0.5), (20.0, 30.0), (2.0, 1e5)]),
    "gammainc": (
        gammainc,
        [
            (0.01, 1e-5),
            (0.5, 0.2),
            (3.0, 3.0),
            (10.0, 1.0),
            (100.0, 100.0),
            (1e4, 1e4),
            (5.0, 40.0),
        ],
    ),
    "gammaincc": (
        gammaincc,
        [(0.01, 1e-5), (0.5, 5.0), (3.0, 3.0), (10.0, 50.0), (100.0, 100.0), (1e4, 1.01e4)],
    ),
    "betainc": (
        betainc,
        [(0.1, 50.0, 1e-5), (0.5, 0.5, 0.5), (2.0, 3.0, 0.99), (1e3, 1e3, 0.5), (5.0, 0.2, 0.999)],
    ),
    "zeta": (mp.zeta, [(1 + TINY, 1.0), (1.5, 0.1), (2.0, 1.0), (10.0, 30.0), (3.0, 1e5)]),
    "poch": (mp.rf, [(1e-5, 2.0), (0.5, 3.5), (10.0, 20.0)]),
    "boxcox": (boxcox, [(1 + TINY, 2.0), (3.0, 1e-10), (0.1, 0.0), (5.0, -3.0)]),
    "owens_t": (owens_t, [(1e-5, 0.5), (0.5, 1.0), (3.0, 0.1), (5.0, 2.0), (0.1, 30.0)]),
    "hyp1f1": (mp.hyp1f1, [(0.5, 1.5, -30.0), (2.0, 3.0, 50.0), (1.0, 2.0, 1e-8), (3.3, 0.7, 5.0)]),
    "hyp2f1": (
        mp.hyp2f1,
        [
            (1.0, 1.0, 2.0, 0.999),
            (0.5, 1.5, 2.5, -50.0),
            (2.0, 3.0, 7.0, 0.95),
            (1.0, 2.0, 4.0, 0.1),
        ],
    ),
    "polygamma": (
        lambda n, x: mp.polygamma(int(n), x),
        [(1.0, 1e-5), (1.0, 30.0), (2.0, 0.5), (5.0, 2.0), (3.0, 100.0)],
    ),
    "expn": (
        lambda n, x: mp.expint(int(n), x),
        [(2.0, 1e-8), (5.0, 0.5), (3.0, 30.0), (50.0, 1.0)],
    ),
    "rel_entr": (lambda x, y: x * mp.log(x / y), [(1.0, 1 + TINY), (1e-10, 3.0), (5.0, 1e-8)]),
}


def main() -> None:
    mp.mp.dps = 60
    table = {}
    for name, (function, points) in FUNCTIONS.items():
        rows = []
        for point in points:
            args = point if isinstance(point, tuple) else (point,)
            value = function(*map(mp.mpf, args))
            rows.append([list(args), mp.nstr(value, 25)])
        table[name] = rows
    TARGET.write_text(json.dumps(table, indent=0) + "\n", encoding="utf-8")
    print(f"{sum(map(len, table.values()))} points of {len(table)} functions")


if __name__ == "__main__":
    main()
