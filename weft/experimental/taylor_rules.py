"""Rules of Taylor mode: which series comes out of a primitive, given those that go in."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft import dtypes, lax
from weft import numpy as jnp
from weft.base.functional import safe_zip, split_list
from weft.control.jit import jit_params
from weft.control.remat import remat_p
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from weft.core.registry import lookup
from weft.core.staging import stage
from weft.core.trace import typeof
from weft.experimental.taylor import (
    Rule,
    ZeroTerm,
    by_jvp,
    filled_terms,
    is_zero,
    run_on_series,
    sparse_rules,
    zero_series,
    zero_term,
    zeros_of,
)
from weft.transforms.dce import close, convert_constvars


def integral(slope: Sequence[Any], u: Sequence[Any]) -> list[Any]:
    """The terms of y where y' = slope · u'."""
    order = len(u) - 1
    return [_sum(j * slope[k - j] * u[j] for j in range(1, k + 1)) / k for k in range(1, order + 1)]


def _sum(values: Iterable[Any]) -> Any:
    return functools.reduce(operator.add, values)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule that takes zero terms as they are."""

    def register(rule: Rule) -> Rule:
        for name in names:
            sparse_rules[lookup(name)] = rule
        return rule

    return register


_LINEAR = """
neg real imag conj complex add add_any sub broadcast_in_dim concatenate split stack unstack pad
reshape squeeze rev transpose slice reduce_sum reduce_window_sum fft copy copy_p device_put cumsum
name psum optimization_barrier
""".split()


@_rule(*_LINEAR)
def _linear(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    out = primitive.bind(*primals, **params)
    terms = []
    for given in safe_zip(*series):
        if all(type(t) is ZeroTerm for t in given):
            count = len(out) if primitive.multiple_results else 0
            terms.append([zero_term] * count if count else zero_term)
            continue
        dense = [
            zeros_of(x) if type(t) is ZeroTerm else t for x, t in zip(primals, given, strict=True)
        ]
        terms.append(primitive.bind(*dense, **params))
    return out, safe_zip(*terms) if primitive.multiple_results else terms


@_rule("convert_element_type")
def _converted(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    if not dtypes.issubdtype(params["new_dtype"], np.inexact):
        return primitive.bind(*primals, **params), zero_series
    return _linear(primitive, primals, series, params)


_LINEAR_IN = {
    "dynamic_slice": lambda i: i == 0,
    "dynamic_update_slice": lambda i: i < 2,
    "gather": lambda i: i == 0,
    "scatter-add": lambda i: i != 1,
    "scatter-sub": lambda i: i != 1,
    "select_n": lambda i: i > 0,
    "zero_untaken": lambda i: i == 1,
}


@_rule(*_LINEAR_IN)
def _linear_in_some(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    """Linear in some operands; the others are indices and predicates, the same for every term."""
    moves = _LINEAR_IN[primitive.name]

    def term(given: Any) -> Any:
        if all(type(t) is ZeroTerm for i, t in enumerate(given) if moves(i)):
            return zero_term
        dense = [
            x if not moves(i) else zeros_of(x) if type(t) is ZeroTerm else t
            for i, (x, t) in enumerate(zip(primals, given, strict=True))
        ]
        return primitive.bind(*dense, **params)

    return primitive.bind(*primals, **params), [term(given) for given in safe_zip(*series)]


@_rule("mul", "dot_general", "conv_general_dilated")
def _bilinear(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    u, w = ([x, *terms] for x, terms in zip(primals, series, strict=True))

    def term(k: int) -> Any:
        pairs = [(u[j], w[k - j]) for j in range(k + 1)]
        pairs = [(a, b) for a, b in pairs if ZeroTerm not in (type(a), type(b))]
        if not pairs:
            return zero_term
        return _sum(primitive.bind(a, b, **params) for a, b in pairs)

    out, *terms = (term(k) for k in range(len(u)))
    return out, terms


@_rule("square")
def _square(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    _, terms = _bilinear(lookup("mul"), primals * 2, list(series) * 2, {})
    return primitive.bind(*primals, **params), terms


def _coefficients(x: Any, terms: Any) -> list[Any]:
    return [x, *filled_terms(x, terms, len(terms))]


@_rule("div")
def _quotient(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    x, y = primals
    v = [primitive.bind(x, y)]
    if is_zero(series[1]):
        zero = lambda t: type(t) is ZeroTerm
        return v[0], [t if zero(t) else primitive.bind(t, y) for t in series[0]]
    u, w = (_coefficients(*pair) for pair in zip(primals, series, strict=True))
    for k in range(1, len(u)):
        v.append((u[k] - _sum(v[j] * w[k - j] for j in range(k))) / y)
    return v[0], v[1:]


@_rule("exp")
def _exponential(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    out = primitive.bind(*primals, **params)
    return out, _exp_terms(out, _coefficients(primals[0], series[0]))


def _exp_terms(out: Any, u: Sequence[Any]) -> list[Any]:
    """The terms of v with v' = v · u', where v starts with ``out``."""
    v = [out]
    for k in range(1, len(u)):
        v.append(_sum(j * v[k - j] * u[j] for j in range(1, k + 1)) / k)
    return v[1:]


@_rule("log")
def _logarithm(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    u = _coefficients(primals[0], series[0])
    v = [primitive.bind(u[0], **params)]
    for k in range(1, len(u)):
        rest = [j * v[j] * u[k - j] for j in range(1, k)]
        v.append((u[k] - _sum(rest) / k if rest else u[k]) / u[0])
    return v[0], v[1:]


@_rule("sqrt")
def _square_root(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    u = _coefficients(primals[0], series[0])
    v = [primitive.bind(u[0], **params)]
    for k in range(1, len(u)):
        rest = [v[j] * v[k - j] for j in range(1, k)]
        v.append((u[k] - _sum(rest) if rest else u[k]) / (2 * v[0]))
    return v[0], v[1:]


@_rule("pow")
def _power(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    x, r = primals
    out = primitive.bind(x, r)
    if not is_zero(series[1]):
        exponent = lambda a, b: [lax.mul(b, lax.log(a))]
        (y,), (terms,) = run_on_series(exponent, len(series[0]), primals, series)
        return out, _exp_terms(out, [y, *filled_terms(y, terms, len(series[0]))])
    u, v = _coefficients(x, series[0]), [out]
    r = lax.convert_element_type(r, typeof(x).dtype)
    for k in range(1, len(u)):
        v.append(_sum((j * r - (k - j)) * u[j] * v[k - j] for j in range(1, k + 1)) / (k * x))
    return out, v[1:]


@_rule("integer_pow")
def _integer_power(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    y, (x,) = params["y"], primals
    out = primitive.bind(x, **params)
    if not y:
        return out, zero_series
    if y < 0:
        reciprocal = lambda v: [lax.div(jnp.ones_like(v), lax.integer_pow(v, -y))]
        return out, run_on_series(reciprocal, len(series[0]), primals, series)[1][0]
    mul, result, base, n = lookup("mul"), None, (x, series[0]), y
    while n:  # by squaring: exact also where x is zero
        if n & 1:
            result = base if result is None else _product(mul, result, base)
        n >>= 1
        if n:
            base = _product(mul, base, base)
    return out, result[1]


def _product(mul: Any, a: Any, b: Any) -> tuple[Any, Any]:
    return _bilinear(mul, [a[0], b[0]], [a[1], b[1]], {})


@_rule("sin", "cos", "sinh", "cosh")
def _waves(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    u = _coefficients(primals[0], series[0])
    name = primitive.name
    hyperbolic = "h" if name.endswith("h") else ""
    sign = 1 if hyperbolic else -1
    s = [lookup("sin" + hyperbolic).bind(u[0], **params)]
    c = [lookup("cos" + hyperbolic).bind(u[0], **params)]
    for k in range(1, len(u)):
        s.append(_sum(j * u[j] * c[k - j] for j in range(1, k + 1)) / k)
        c.append(_sum(j * u[j] * s[k - j] for j in range(1, k + 1)) / k * sign)
    v = s if name.startswith("sin") else c
    return v[0], v[1:]


@_rule("logistic")
def _sigmoid(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    u = _coefficients(primals[0], series[0])
    v = [primitive.bind(u[0], **params)]
    slope = [v[0] * (1 - v[0])]
    for k in range(1, len(u)):
        v.append(_sum(j * slope[k - j] * u[j] for j in range(1, k + 1)) / k)
        slope.append((1 - v[0]) * v[k] - _sum(v[j] * v[k - j] for j in range(1, k + 1)))
    return v[0], v[1:]


@_rule("tanh")
def _hyperbolic_tangent(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    u = _coefficients(primals[0], series[0])
    v = [primitive.bind(u[0], **params)]
    slope = [(1 - v[0]) * (1 + v[0])]
    for k in range(1, len(u)):
        v.append(_sum(j * slope[k - j] * u[j] for j in range(1, k + 1)) / k)
        slope.append(-_sum(v[j] * v[k - j] for j in range(k + 1)))
    return v[0], v[1:]


@_rule("abs")
def _absolute(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    (x,) = primals
    if jnp.iscomplexobj(x):
        return by_jvp(primitive, primals, series, params)
    sign = jnp.where(x < 0, -1, 1).astype(typeof(x).dtype)
    return primitive.bind(x), [t if type(t) is ZeroTerm else sign * t for t in series[0]]


@_rule("max", "min")
def _extreme(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    x, y = primals
    first = x > y if primitive.name == "max" else x < y
    dense = [filled_terms(*pair, len(series[0])) for pair in zip(primals, series, strict=True)]
    terms = [jnp.where(first, a, b) for a, b in safe_zip(*dense)]
    middles = [(a + b) / 2 for a, b in safe_zip(*dense)]
    terms = [jnp.where(x == y, m, t) for m, t in zip(middles, terms, strict=True)]
    return primitive.bind(x, y), terms


@_rule("reduce_max", "reduce_min")
def _extreme_along(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    (x,) = primals
    out, axes = primitive.bind(x, **params), tuple(params["axes"])
    found = (x == jnp.expand_dims(out, axes)).astype(typeof(x).dtype)
    count = jnp.sum(found, axes)
    mean = lambda t: t if type(t) is ZeroTerm else jnp.sum(t * found, axes) / count
    return out, [mean(t) for t in series[0]]


@_rule("cumprod", "cummax", "cummin")
def _cumulative(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    combine = {"cumprod": lax.mul, "cummax": lax.max, "cummin": lax.min}[primitive.name]
    settings = {"axis": params["axis"], "reverse": params["reverse"]}
    by_parts = lambda x: [lax.associative_scan(combine, x, **settings)]
    _, (terms,) = run_on_series(by_parts, len(series[0]), primals, series)
    return primitive.bind(*primals, **params), terms


# --- primitives that carry programs ---------------------------------------------------------------
# An operand that moves is followed by its terms, all of them; one that does not stands alone.


def _packed(values: Any, series: Any, moving: Any, order: int) -> list[Any]:
    flat: list[Any] = []
    for x, terms, moves in zip(values, series, moving, strict=True):
        flat.append(x)
        if moves:
            flat += filled_terms(x, terms, order)
    return flat


def _unpacked(flat: Any, moving: Any, order: int) -> tuple[list[Any], list[Any]]:
    given = iter(flat)
    values, series = [], []
    for moves in moving:
        values.append(next(given))
        series.append([next(given) for _ in range(order)] if moves else zero_series)
    return values, series


def _width(moving: Iterable[bool], order: int) -> int:
    return sum(1 + order * m for m in moving)


def _packed_avals(avals: Any, moving: Any, order: int) -> list[Any]:
    return [a for aval, m in zip(avals, moving, strict=True) for a in [aval] * (1 + order * m)]


def _moving(series: Any) -> list[bool]:
    return [not is_zero(terms) for terms in series]


def _program(
    closed: ClosedJaxpr, order: int, moving: Sequence[bool], wanted: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """The program over series, and which results move; those in ``wanted`` do in any case."""
    return _staged(closed, order, tuple(moving), None if wanted is None else tuple(wanted))


@per_program
def _staged(
    closed: ClosedJaxpr, order: int, moving: tuple[bool, ...], wanted: tuple[bool, ...] | None
) -> tuple[ClosedJaxpr, list[bool]]:
    out_moving: list[bool] = []

    def over_series(*flat: Any) -> list[Any]:
        outs, series = run_on_series(jaxpr_as_fun(closed), order, *_unpacked(flat, moving, order))
        forced = wanted or [False] * len(outs)
        out_moving.extend(w or m for w, m in zip(forced, _moving(series), strict=True))
        return _packed(outs, series, out_moving, order)

    avals = _packed_avals(closed.in_avals, moving, order)
    return stage(over_series, avals, closed.debug_info), out_moving


@_rule("jit")
def _jit(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    order, moving = len(series[0]), _moving(series)
    program, out_moving = _program(params["jaxpr"], order, moving)
    args = _packed(primals, series, moving, order)
    return _unpacked(primitive.bind(*args, **jit_params(program, params)), out_moving, order)


@_rule(remat_p.name)
def _remat(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    order, moving = len(series[0]), _moving(series)
    program, out_moving = _program(close(params["jaxpr"]), order, moving)
    flags = params["prevent_cse"]
    if isinstance(flags, tuple):
        flags = (False,) * len(program.consts) + tuple(_packed_avals(flags, moving, order))
    args = [*program.consts, *_packed(primals, series, moving, order)]
    new_params = dict(params, jaxpr=convert_constvars(program.jaxpr), prevent_cse=flags)
    return _unpacked(primitive.bind(*args, **new_params), out_moving, order)


@_rule("cond")
def _cond(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    index, *operands = primals
    order, moving, branches = len(series[0]), _moving(series[1:]), params["branches"]
    found = [_program(b, order, moving)[1] for b in branches]
    wanted = [any(flags) for flags in safe_zip(*found)]
    programs = tuple(_program(b, order, moving, wanted)[0] for b in branches)
    args = _packed(operands, series[1:], moving, order)
    outs = primitive.bind(index, *args, **dict(params, branches=programs))
    return _unpacked(outs, wanted, order)


def _settled_carry(
    body: ClosedJaxpr, order: int, consts: list[bool], carry: list[bool], xs: list[bool]
) -> list[bool]:
    """Which of a loop's carried values move, given which do at the start."""
    while True:
        _, out = _program(body, order, [*consts, *carry, *xs])
        grown = [a or b for a, b in zip(carry, out, strict=False)]
        if grown == carry:
            return carry
        carry = grown


@_rule("scan")
def _scan(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    order, body = len(series[0]), params["jaxpr"]
    sizes = [params["num_consts"], params["num_carry"]]
    consts, carry, xs = split_list(_moving(series), sizes)
    carry = _settled_carry(body, order, consts, carry, xs)
    moving = [*consts, *carry, *xs]
    forced = carry + [False] * (len(body.out_avals) - len(carry))
    program, out_moving = _program(body, order, moving, forced)
    new_params = dict(
        params,
        jaxpr=program,
        num_consts=_width(consts, order),
        num_carry=_width(carry, order),
    )
    outs = primitive.bind(*_packed(primals, series, moving, order), **new_params)
    return _unpacked(outs, out_moving, order)


@_rule("while")
def _while(primitive: Any, primals: Any, series: Any, params: Any) -> tuple[Any, Any]:
    order, cond, body = len(series[0]), params["cond_jaxpr"], params["body_jaxpr"]
    sizes = [params["cond_nconsts"], params["body_nconsts"]]
    n_cond = sizes[0]
    _, consts, carry = split_list(_moving(series), sizes)
    carry = _settled_carry(body, order, consts, carry, [])
    program, _ = _program(body, order, [*consts, *carry], carry)
    test = jaxpr_as_fun(cond)

    def over_series(*flat: Any) -> list[Any]:
        return test(*flat[:n_cond], *_unpacked(flat[n_cond:], carry, order)[0])

    cond_avals = [*cond.in_avals[:n_cond], *_packed_avals(cond.in_avals[n_cond:], carry, order)]
    rest = _packed(primals[n_cond:], series[n_cond:], [*consts, *carry], order)
    outs = primitive.bind(
        *primals[:n_cond],
        *rest,
        cond_nconsts=n_cond,
        cond_jaxpr=stage(over_series, cond_avals, cond.debug_info),
        body_nconsts=_width(consts, order),
        body_jaxpr=program,
    )
    return _unpacked(outs, carry, order)
