"""The special cases of the array API standard: what functions give at zeros, infinities, NaN.

A row has the class of each argument, then the result. Complex rows have the class of the real and
of the imaginary part; a result marked ``~`` has an unspecified sign.
"""

import itertools
import math

INF, NAN = math.inf, math.nan
CLASSES = {
    "nan": (NAN,),
    "+0": (0.0,),
    "-0": (-0.0,),
    "0": (0.0, -0.0),
    "1": (1.0,),
    "-1": (-1.0,),
    "inf": (INF,),
    "-inf": (-INF,),
    "±inf": (INF, -INF),
    "fin": (-2.5, -1.0, -0.0, 0.0, 1.0, 3.5),
    "nzfin": (-2.5, -1.0, 1.0, 3.5),
    "+fin": (0.5, 1.0, 3.5),
    "-fin": (-0.5, -1.0, -3.5),
    ">0": (0.5, 1.0, 3.5, INF),
    "<0": (-0.5, -1.0, -3.5, -INF),
    ">1": (1.5, 7.0, INF),
    "<1": (0.5, 0.0, -0.0, -3.0, -INF),
    "<-1": (-1.5, -7.0, -INF),
    "integer": (-3.0, 2.0, 7.0),
    "|>1|": (1.5, -2.0, INF, -INF),
    "|1|": (1.0, -1.0),
    "|<1|": (0.5, -0.25, 0.0, -0.0),
    "odd>0": (1.0, 3.0, 7.0),
    "odd<0": (-1.0, -3.0, -7.0),
    "even>0": (0.5, 2.0, 2.5, 4.0, INF),
    "even<0": (-0.5, -2.0, -2.5, -4.0, -INF),
    "fraction": (0.5, -1.5, 2.25),
    "any": (NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5),
    "notnan": (INF, -INF, 0.0, -0.0, 1.0, -2.5),
    "fin|nan": (NAN, 0.0, -0.0, 1.0, -2.5),
    "≠1": (NAN, INF, -INF, 0.0, -0.0, -1.0, -2.5),
    "≠0": (NAN, INF, -INF, 1.0, -2.5),
    "half": (0.5, 1.5, 2.5, -0.5, -1.5),
    "-nan": (-NAN,),
}
RESULTS = {
    "nan": NAN,
    "+0": 0.0,
    "-0": -0.0,
    "0": 0.0,
    "1": 1.0,
    "-1": -1.0,
    "inf": INF,
    "-inf": -INF,
    "π": math.pi,
    "-π": -math.pi,
    "π/2": math.pi / 2,
    "-π/2": -math.pi / 2,
    "π/4": math.pi / 4,
    "-π/4": -math.pi / 4,
    "3π/4": 3 * math.pi / 4,
    "-3π/4": -3 * math.pi / 4,
    "True": True,
    "False": False,
}

UNARY = {
    "abs": "nan nan, -0 +0, -inf inf",
    "acos": "nan nan, >1 nan, <-1 nan, 1 +0",
    "acosh": "nan nan, <1 nan, 1 +0, inf inf",
    "asin": "nan nan, >1 nan, <-1 nan, +0 +0, -0 -0",
    "asinh": "nan nan, +0 +0, -0 -0, inf inf, -inf -inf",
    "atan": "nan nan, +0 +0, -0 -0, inf π/2, -inf -π/2",
    "atanh": "nan nan, <-1 nan, >1 nan, -1 -inf, 1 inf, +0 +0, -0 -0",
    "ceil": "integer x1, inf inf, -inf -inf, +0 +0, -0 -0, nan nan",
    "cos": "nan nan, +0 1, -0 1, inf nan, -inf nan",
    "cosh": "nan nan, +0 1, -0 1, inf inf, -inf inf",
    "exp": "nan nan, +0 1, -0 1, inf inf, -inf +0",
    "expm1": "nan nan, +0 +0, -0 -0, inf inf, -inf -1",
    "floor": "integer x1, inf inf, -inf -inf, +0 +0, -0 -0, nan nan",
    "isfinite": "±inf False, nan False, fin True",
    "isinf": "±inf True, nan False, fin False",
    "isnan": "nan True, notnan False",
    "log": "nan nan, <0 nan, 0 -inf, 1 +0, inf inf",
    "log1p": "nan nan, <-1 nan, -1 -inf, -0 -0, +0 +0, inf inf",
    "log2": "nan nan, <0 nan, 0 -inf, 1 +0, inf inf",
    "log10": "nan nan, <0 nan, 0 -inf, 1 +0, inf inf",
    "reciprocal": "nan nan, +0 inf, -0 -inf, inf +0, -inf -0",
    "round": "integer x1, inf inf, -inf -inf, +0 +0, -0 -0, nan nan, half even(x1)",
    "sign": "<0 -1, 0 ~0, >0 1, nan nan",
    "signbit": "+0 False, -0 True, inf False, -inf True, +fin False, -fin True, nan False, "
    "-nan True",
    "sin": "nan nan, +0 +0, -0 -0, ±inf nan",
    "sinh": "nan nan, +0 +0, -0 -0, inf inf, -inf -inf",
    "sqrt": "nan nan, <0 nan, +0 +0, -0 -0, inf inf",
    "square": "nan nan, 0 +0, ±inf inf",
    "tan": "nan nan, +0 +0, -0 -0, ±inf nan",
    "tanh": "nan nan, +0 +0, -0 -0, inf 1, -inf -1",
    "trunc": "integer x1, inf inf, -inf -inf, +0 +0, -0 -0, nan nan",
}

_QUOTIENT = (
    "nan any nan, any nan nan, ±inf ±inf nan, 0 0 nan, +0 >0 +0, -0 >0 -0, +0 <0 -0, -0 <0 +0, "
    ">0 +0 inf, >0 -0 -inf, <0 +0 -inf, <0 -0 inf"
)
BINARY = {
    "add": "nan any nan, any nan nan, inf -inf nan, -inf inf nan, inf inf inf, -inf -inf -inf, "
    "inf fin inf, -inf fin -inf, fin inf inf, fin -inf -inf, -0 -0 -0, -0 +0 +0, +0 -0 +0, "
    "+0 +0 +0, 0 nzfin x2, nzfin 0 x1",
    "subtract": "nan any nan, any nan nan, inf inf nan, -inf -inf nan, inf -inf inf, "
    "-inf inf -inf, inf fin inf, -inf fin -inf, fin inf -inf, fin -inf inf, -0 +0 -0, -0 -0 +0, "
    "+0 +0 +0, +0 -0 +0, nzfin 0 x1",
    "atan2": "nan any nan, any nan nan, >0 +0 π/2, >0 -0 π/2, +0 >0 +0, +0 +0 +0, +0 -0 π, "
    "+0 <0 π, -0 >0 -0, -0 +0 -0, -0 -0 -π, -0 <0 -π, <0 +0 -π/2, <0 -0 -π/2, +fin inf +0, "
    "+fin -inf π, -fin inf -0, -fin -inf -π, inf fin π/2, -inf fin -π/2, inf inf π/4, "
    "inf -inf 3π/4, -inf inf -π/4, -inf -inf -3π/4",
    "copysign": "notnan <0 -|x1|, notnan -0 -|x1|, notnan +0 |x1|, notnan >0 |x1|, "
    "notnan -nan -|x1|, notnan nan |x1|",
    "divide": _QUOTIENT + ", inf +fin inf, inf -fin -inf, -inf +fin -inf, -inf -fin inf, "
    "+fin inf +0, +fin -inf -0, -fin inf -0, -fin -inf +0",
    # where the standard allows Python's result beside its own, either is right
    "floor_divide": _QUOTIENT
    + ", inf +fin inf|nan, inf -fin -inf|nan, -inf +fin -inf|nan, -inf -fin inf|nan, "
    "+fin inf +0, +fin -inf -0|-1, -fin inf -0|-1, -fin -inf +0",
    "equal": "nan any False, any nan False, inf inf True, -inf -inf True, 0 0 True, "
    "inf -inf False, inf fin False",
    "not_equal": "nan any True, any nan True, inf -inf True, -inf inf True, 0 0 False, "
    "inf inf False",
    "less": "nan any False, any nan False, fin inf True, -inf fin True, 0 0 False",
    "less_equal": "nan any False, any nan False, fin inf True, -inf fin True, 0 0 True",
    "greater": "nan any False, any nan False, inf fin True, fin -inf True, 0 0 False",
    "greater_equal": "nan any False, any nan False, inf fin True, fin -inf True, 0 0 True",
    "hypot": "±inf any inf, any ±inf inf, 0 nzfin |x2|, nzfin 0 |x1|, fin|nan nan nan, "
    "nan fin|nan nan",
    "logaddexp": "nan any nan, any nan nan, inf notnan inf, notnan inf inf",
    "maximum": "nan any nan, any nan nan",
    "minimum": "nan any nan, any nan nan",
    "multiply": "nan any nan, any nan nan, ±inf 0 nan, 0 ±inf nan, inf inf inf, -inf -inf inf, "
    "inf -inf -inf, -inf inf -inf, inf +fin inf, inf -fin -inf, -inf +fin -inf, -inf -fin inf, "
    "+fin inf inf, -fin inf -inf, +fin -inf -inf, -fin -inf inf, +0 +fin +0, -0 +fin -0, "
    "+0 -fin -0, -0 -fin +0",
    "nextafter": "nan any nan, any nan nan, -0 +0 +0, +0 -0 -0",
    "pow": "≠1 nan nan, any +0 1, any -0 1, nan ≠0 nan, |>1| inf inf, |>1| -inf +0, |1| inf 1, "
    "|1| -inf 1, 1 notnan 1, |<1| inf +0, |<1| -inf inf, inf >0 inf, inf <0 +0, "
    "-inf odd>0 -inf, -inf even>0 inf, -inf odd<0 -0, -inf even<0 +0, +0 >0 +0, +0 <0 inf, "
    "-0 odd>0 -0, -0 even>0 +0, -0 odd<0 -inf, -0 even<0 inf, -fin fraction nan",
    "remainder": "nan any nan, any nan nan, ±inf ±inf nan, 0 0 nan, +0 >0 +0, -0 >0 +0, "
    "+0 <0 -0, -0 <0 -0, >0 0 nan, <0 0 nan, ±inf +fin nan, ±inf -fin nan, +fin inf x1, "
    "+fin -inf x2, -fin inf x2, -fin -inf x1",
}

# real part, imaginary part of the argument, then of the result
COMPLEX = {
    "acos": "0 +0 π/2 -0, 0 nan π/2 nan, fin inf π/2 -inf, nzfin nan nan nan, -inf +fin π -inf, "
    "inf +fin +0 -inf, -inf inf 3π/4 -inf, inf inf π/4 -inf, ±inf nan nan ~inf, "
    "nan fin nan nan, nan inf nan -inf, nan nan nan nan",
    "acosh": "0 +0 +0 π/2, fin inf inf π/2, nzfin nan nan nan, +0 nan nan ~π/2, "
    "-inf +fin inf π, inf +fin inf +0, -inf inf inf 3π/4, inf inf inf π/4, ±inf nan inf nan, "
    "nan fin nan nan, nan inf inf nan, nan nan nan nan",
    "asinh": "+0 +0 +0 +0, +fin inf inf π/2, fin nan nan nan, inf +fin inf +0, inf inf inf π/4, "
    "nan +0 nan +0, nan nzfin nan nan, nan inf ~inf nan, nan nan nan nan",
    "atanh": "+0 +0 +0 +0, +0 nan +0 nan, 1 +0 inf +0, +fin inf +0 π/2, nzfin nan nan nan, "
    "inf +fin +0 π/2, inf inf +0 π/2, inf nan +0 nan, nan fin nan nan, nan inf ~0 π/2, "
    "nan nan nan nan",
    "cosh": "+0 +0 1 +0, +0 inf nan ~0, +0 nan nan ~0, nzfin inf nan nan, nzfin nan nan nan, "
    "inf +0 inf +0, inf inf ~inf nan, inf nan inf nan, nan 0 nan ~0, nan nzfin nan nan, "
    "nan nan nan nan",
    "exp": "0 +0 1 +0, fin inf nan nan, fin nan nan nan, inf +0 inf +0, -inf fin ~0 ~0, "
    "-inf inf ~0 ~0, inf inf ~inf nan, -inf nan ~0 ~0, inf nan ~inf nan, nan +0 nan +0, "
    "nan nzfin nan nan, nan nan nan nan",
    "expm1": "0 +0 ~0 +0, fin inf nan nan, fin nan nan nan, inf +0 inf +0, -inf fin -1 ~0, "
    "-inf inf -1 ~0, inf inf ~inf nan, -inf nan -1 ~0, inf nan ~inf nan, nan +0 nan +0, "
    "nan nzfin nan nan, nan nan nan nan",
    "log": "-0 +0 -inf π, +0 +0 -inf +0, fin inf inf π/2, fin nan nan nan, -inf +fin inf π, "
    "inf +fin inf +0, -inf inf inf 3π/4, inf inf inf π/4, ±inf nan inf nan, nan fin nan nan, "
    "nan inf inf nan, nan nan nan nan",
    "log1p": "-1 +0 -inf +0, fin inf inf π/2, fin nan nan nan, -inf +fin inf π, inf +fin inf +0, "
    "-inf inf inf 3π/4, inf inf inf π/4, ±inf nan inf nan, nan fin nan nan, nan inf inf nan, "
    "nan nan nan nan",
    "sinh": "+0 +0 +0 +0, +0 inf ~0 nan, +0 nan ~0 nan, +fin inf nan nan, +fin nan nan nan, "
    "inf +0 inf +0, inf inf ~inf nan, inf nan ~inf nan, nan +0 nan +0, nan nzfin nan nan, "
    "nan nan nan nan",
    # with C99's results for an infinite real part, where the standard's text has them exchanged
    "sqrt": "0 +0 +0 +0, any inf inf inf, fin nan nan nan, -inf +fin +0 inf, inf +fin inf +0, "
    "-inf nan nan ~inf, inf nan inf nan, nan fin nan nan, nan nan nan nan",
    "tanh": "+0 +0 +0 +0, nzfin inf nan nan, +0 inf +0|nan nan, nzfin nan nan nan, "
    "+0 nan +0|nan nan, inf +fin 1 ~0, inf inf 1 ~0, inf nan 1 ~0, nan +0 nan +0, "
    "nan nzfin nan nan, nan nan nan nan",
    "sign": "0 0 ~0 ~0, nan any nan nan, any nan nan nan",
}
COMPLEX_TRUTH = {
    "isfinite": "nan any False, any nan False, ±inf any False, any ±inf False, fin fin True",
    "isinf": "±inf any True, fin|nan ±inf True, fin fin|nan False",
    "isnan": "nan any True, any nan True, notnan notnan False",
}
# f(conj(x)) is conj(f(x)) for all of these
CONJUGATE = ("acos", "acosh", "asinh", "atanh", "cosh", "exp", "expm1", "log", "sinh", "tanh")


def rows(text: str) -> list[list[str]]:
    """The rows of a table: classes of arguments, then the result."""
    return [row.split() for row in text.split(",") if row.strip()]


def samples(*classes: str) -> list[tuple[float, ...]]:
    """Arguments of the given classes, in all combinations."""
    return list(itertools.product(*(CLASSES[name] for name in classes)))


def _even(x: float) -> float:
    return math.copysign(float(round(x)), x)


def _result(word: str, arguments: tuple[float, ...]) -> float:
    first, second = arguments[0], arguments[-1]
    computed = {
        "x1": first,
        "x2": second,
        "|x1|": abs(first),
        "|x2|": abs(second),
        "-|x1|": -abs(first),
    }
    if word == "even(x1)":
        return _even(first)
    return computed[word] if word in computed else RESULTS[word]


def agrees(word: str, arguments: tuple[float, ...], got: float, rtol: float) -> bool:
    """Whether a value is the result that a row names for these arguments."""
    if "|" in word and not word.strip("-").startswith("|"):
        return any(agrees(each, arguments, got, rtol) for each in word.split("|"))
    if word.startswith("~"):
        return agrees(word[1:], arguments, abs(got), rtol)
    want = _result(word, arguments)
    if isinstance(want, bool):
        return bool(got) == want
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if want == 0:
        return got == 0 and math.copysign(1, want) == math.copysign(1, got)
    return got == want or abs(got - want) <= rtol * abs(want) < math.inf
