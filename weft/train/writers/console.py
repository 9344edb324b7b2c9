"""A progress bar and lines of metrics, in a terminal, a notebook or a log file."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from weft.train.writers import base

_PARTS = " ▏▎▍▌▋▊▉█"
_REDRAW_S, _LOG_S, _SMOOTH_S = 0.1, 30.0, 10.0


def duration(seconds: float) -> str:
    """Seconds as minutes and seconds, with hours if there are any.

    >>> duration(75), duration(3725), duration(float("inf"))
    ('01:15', '1:02:05', '?')
    """
    if not 0 <= seconds < 1e9:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def bar(share: float, width: int) -> str:
    """A bar that is filled up to a share of its width, to an eighth of a letter.

    >>> bar(0.5, 3)
    '█▌ '
    """
    eighths = int(min(max(share, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_PARTS[part] if full < width else "")).ljust(width)


class ProgressBar:
    """Shows how far a loop is: a bar, steps, time gone and left, the rate, and metrics.

    In a terminal and in a notebook one line is drawn again and again; elsewhere, as in a log file,
    a line is printed now and then.

    Args:
        total: the number of steps; None if it is not known.
        stream: where it is drawn; standard error by default.
        width: the number of columns; that of the terminal by default.
        clock: gives seconds, for tests.

    Example:
        >>> with ProgressBar(total=4, stream=sys.stdout, clock=iter(range(99)).__next__) as bar:
        ...     for step in range(4):
        ...         bar.update(step + 1, {"loss": 1 / (step + 1)})
        100% 4/4 [00:05<00:00, 1.00 step/s] loss 0.25
    """

    def __init__(
        self,
        total: int | None = None,
        stream: TextIO | None = None,
        width: int | None = None,
        clock: Any = time.monotonic,
    ) -> None:
        self.total, self.stream, self.width = total, stream or sys.stderr, width
        self._clock = clock
        self._start = self._last_time = clock()
        self._first_step: int | None = None
        self._last_step = 0
        self._rate = 0.0
        self._drawn = -float("inf")
        self._length = 0
        self._metrics: dict[str, Any] = {}
        self._closed = False

    @property
    def redraws(self) -> bool:
        """Whether one line can be drawn again and again: in terminals and notebooks."""
        notebook = type(self.stream).__module__.startswith("ipykernel")
        return notebook or getattr(self.stream, "isatty", lambda: False)()

    def update(self, step: int, metrics: Mapping[str, Any] | None = None) -> None:
        """Say how far the loop is.

        Args:
            step: how many steps are done.
            metrics: numbers by name, shown behind the bar; the last ones stay.
        """
        now = self._clock()
        self._metrics |= metrics or {}
        if self._first_step is None:
            self._first_step = self._last_step = step
            # A loop that first says 100 may have done 100 steps, or resumed there.
            self._rate = 1.0 / max(now - self._start, 1e-9) if step == 1 else 0.0
        elif step > self._last_step:
            seconds = max(now - self._last_time, 1e-9)
            rate = (step - self._last_step) / seconds
            share = min(1.0, seconds / _SMOOTH_S + 0.1)
            self._rate = rate if not self._rate else self._rate + share * (rate - self._rate)
        self._last_step, self._last_time = step, now
        if self.redraws:
            due = now - self._drawn >= _REDRAW_S
        else:
            due = now - max(self._drawn, self._start) >= _LOG_S
        if due:
            self._draw(now)

    def text(self, now: float) -> str:
        """The line as it is now."""
        step, total, gone = self._last_step, self.total, now - self._start
        rate = f"{self._rate:.2f} step/s" if self._rate >= 1 else self._slow_rate()
        shown = " ".join(f"{name} {_short(value)}" for name, value in self._metrics.items())
        if not total:
            return f"{step} steps [{duration(gone)}, {rate}] {shown}".rstrip()
        left = (total - step) / self._rate if self._rate else float("inf")
        left = 0.0 if step >= total else left
        after = f"{step}/{total} [{duration(gone)}<{duration(left)}, {rate}] {shown}".rstrip()
        before = f"{min(100, 100 * step // total):3}%"
        if not self.redraws:
            return f"{before.strip()} {after}"
        columns = self.width or shutil.get_terminal_size((80, 24)).columns
        room = columns - len(before) - len(after) - 4
        drawn = f"|{bar(step / total, min(room, 40))}| " if room >= 5 else " "
        return f"{before}{drawn}{after}"[: columns - 1]

    def _slow_rate(self) -> str:
        return f"{1 / self._rate:.2f} s/step" if self._rate > 0 else "? step/s"

    def _draw(self, now: float) -> None:
        text = self.text(now)
        if self.redraws:
            self.stream.write("\r" + text.ljust(self._length))
            self._length = len(text)
        else:
            self.stream.write(text + "\n")
        self.stream.flush()
        self._drawn = now

    def write(self, line: str) -> None:
        """Print a line above the bar.

        Args:
            line: the text.
        """
        if self.redraws and self._length:
            self.stream.write("\r" + " " * self._length + "\r")
        self.stream.write(line + "\n")
        if self.redraws and self._length:
            self._draw(self._clock())
        self.stream.flush()

    def close(self) -> None:
        """Draw the last state and end the line."""
        if self._closed:
            return
        self._closed = True
        if self._first_step is not None:
            self._draw(self._clock())
            if self.redraws:
                self.stream.write("\n")
                self.stream.flush()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _short(value: Any) -> str:
    number = base.as_number("metric", value)
    return str(number) if isinstance(number, int) else f"{number:.4g}"


class ConsoleWriter(base.MetricWriter):
    """Shows numbers in a progress bar, and text and settings as lines.

    Args:
        total_steps: the number of steps of the training; None if it is not known.
        stream: where it goes; standard error by default.

    Example:
        >>> with ConsoleWriter(stream=sys.stdout) as writer:
        ...     writer.write_hparams({"rate": 0.1})
        ...     writer.write_scalars(10, {"loss": 0.5})
        rate: 0.1
        10 steps [00:00, ...] loss 0.5
    """

    def __init__(self, total_steps: int | None = None, stream: TextIO | None = None) -> None:
        self.bar = ProgressBar(total_steps, stream)

    def write_scalars(self, step: int, scalars: base.Scalars) -> None:
        """Show numbers behind the bar."""
        self.bar.update(int(step), scalars)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Print text above the bar."""
        for name, words in texts.items():
            self.bar.write(f"[{step}] {name}: {words}")

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Print the settings of the run, a line each."""
        for name, value in hparams.items():
            self.bar.write(f"{name}: {value}")

    def close(self) -> None:
        """End the line of the bar."""
        self.bar.close()
