"""Spatial dimensions of convolutions and windows, taken apart into ones without holes."""

from __future__ import annotations

from math import gcd

from weft.base.record import Record


class Line(Record):
    """One spatial dimension whose input has no holes.

    Output ``i`` of ``size`` is at ``first + i * step``; with tap ``t`` of ``taps``, which is the
    kernel's ``tap + t * tap_step``, it reads the input at ``start + i * stride + t * dilation``.

    That of a window has the ``length`` and stride of its axis and all taps of the ``window``;
    outputs are counted in elements of the result. Indices outside of the axis are not read.
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
    length: int = 0
    source: int = 1
    window: int = 1

    def placed(self, length: int, source: int, out: int, window: int) -> Line:
        """The same along an axis of arrays with these strides."""
        line = self._replace(first=self.first * out, step=self.step * out)
        dilation = max(1, self.dilation)
        return line._replace(dilation=dilation, length=length, source=source, window=window)

    @property
    def whole(self) -> bool:
        """Whether no window reaches beyond the axis."""
        last = self.start + (self.size - 1) * self.stride + (self.taps - 1) * self.dilation
        return self.start >= 0 and last < self.length

    @property
    def still(self) -> bool:
        """Whether every result reads the element at its own index."""
        return self.taps == 1 and self.stride == 1 and self.start == 0 and self.whole

    def middle(self) -> tuple[int, int]:
        """The first result whose window is whole, and the first after it whose is not."""
        if self.whole:
            return 0, self.size
        first = max(0, -(self.start // self.stride)) if self.stride else 0
        last = self.length - 1 - self.start - (self.taps - 1) * self.dilation
        stop = last // self.stride + 1 if self.stride else self.size
        first = min(first, self.size)
        return first, max(first, min(self.size, stop))


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
