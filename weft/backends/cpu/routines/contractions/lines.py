"""Spatial dimensions of convolutions and windows, taken apart into ones without holes."""

from __future__ import annotations

from math import gcd

from weft.base.record import Record


class Line(Record):
    """One spatial dimension whose input has no holes.

    Output ``i`` of ``size`` is at ``first + i * step``; with tap ``t`` of ``taps``, which is the
    kernel's ``tap + t * tap_step``, it reads the input at ``start + i * stride + t * dilation``.
    """

    first: int
    step: int
    size: int
    start: int
    stride: int
    dilation: int
    tap: int
    tap_step: int
    taps: int


def lines(
    out: int, taps: int, stride: int, low: int, dilation: int, tap_dilation: int
) -> list[Line]:
    """A spatial dimension as plain ones: outputs apart by what the input's holes repeat with."""
    period = dilation // gcd(stride, dilation)
    apart = dilation // gcd(tap_dilation, dilation)
    found = []
    for first in range(min(period, out)):
        size = -(-(out - first) // period)
        for tap in range(min(apart, taps)):
            position = first * stride + tap * tap_dilation - low
            if position % dilation == 0:
                count = -(-(taps - tap) // apart)
                start = position // dilation
                steps = (period * stride // dilation, tap_dilation * apart // dilation)
                found.append(Line(first, period, size, start, *steps, tap, apart, count))
                break
        else:
            found.append(Line(first, period, size, 0, 0, 0, 0, 1, 0))
    return found
