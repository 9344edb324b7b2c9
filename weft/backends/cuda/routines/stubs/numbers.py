"""Real and complex numbers of stubs: lists of ``PARTS`` parts, as straight code."""

from __future__ import annotations

from typing import Any

from weft.kernel.kinds import f32, fabs, i64, ptr, static, values

# Kinds that the stubs are given.
C: Any = f32


def read(p: ptr, i: i64, *, PARTS: static) -> values:
    return [C[p, i * PARTS + k] for k in range(PARTS)]


def write(p: ptr, i: i64, x: values, *, PARTS: static) -> values:
    for k in range(PARTS):
        C[p, i * PARTS + k] = x[k]


def real(x: C, *, PARTS: static) -> values:
    return [x, C(0.0)][:PARTS]


def size(x: values, *, PARTS: static) -> values:
    """The sum of the sizes of all parts."""
    found = [fabs(part) for part in x]
    return found[0] if PARTS == 1 else found[0] + found[1]


def adjoint(x: values, *, PARTS: static) -> values:
    return x if PARTS == 1 else [x[0], -x[1]]


def times(x: values, y: values, *, PARTS: static) -> values:
    if PARTS == 1:
        return [x[0] * y[0]]
    return [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]]


def plus(x: values, y: values) -> values:
    return [a + b for a, b in zip(x, y, strict=True)]


def minus(x: values, y: values) -> values:
    return [a - b for a, b in zip(x, y, strict=True)]


def negative(x: values) -> values:
    return [-part for part in x]
