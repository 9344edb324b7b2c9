"""What ``verify`` found out about a function, as values, as text and as HTML."""

from __future__ import annotations

import html
import math
from typing import Any

from weft.base.errors import VerificationError
from weft.base.record import Record

# Operations that the text lists, of those that lose at least so many digits.
LISTED, MIN_DIGITS = 5, 1.0


class Finding(Record):
    """One comparison.

    Args:
        name: What was compared.
        ok: Whether it agreed.
        error: Largest relative error, 0 where bits are the same.
        ulps: The same in units in the last place; None where that means nothing.
        allowed: Relative error that was allowed.
        detail: What is wrong, or how well it agrees, in words.

    Example:
        >>> Finding("one thread", True, 0.0, 0.0, 0.0, "same bits").ok
        True
    """

    name: str
    ok: bool
    error: float
    ulps: float | None
    allowed: float
    detail: str


class Verification:
    """What ``weft.verify`` found out about one call; as a string, its story.

    ``ok`` says whether everything agreed. ``runs`` compares ways to run the function,
    ``transformations`` its derivatives and batches; each entry has ``name``, ``ok``, ``error``,
    ``ulps``, ``allowed`` and ``detail``. ``operations`` lists operations, those that lose most
    digits first, with ``name``, ``line``, ``digits``, ``rounding`` (in ULPs), ``condition`` and
    ``error``. ``skipped`` lists what was not verified, and why. ``result`` is what the compiled
    function returned.
    """

    def __init__(self, name: str, rtol: float) -> None:
        self.name, self.rtol = name, rtol
        self.runs: list[Finding] = []
        self.transformations: list[Finding] = []
        self.operations: list[Any] = []
        self.skipped: list[str] = []
        self.result: Any = None

    @property
    def findings(self) -> list[Finding]:
        """All comparisons."""
        return [*self.runs, *self.transformations]

    @property
    def ok(self) -> bool:
        """Whether everything that was compared agreed."""
        return all(f.ok for f in self.findings)

    @property
    def failures(self) -> list[Finding]:
        """The comparisons that did not agree."""
        return [f for f in self.findings if not f.ok]

    def raise_if_failed(self) -> Verification:
        """Raise VerificationError, an AssertionError, unless everything agreed.

        Returns:
            The report itself.
        """
        if not self.ok:
            raise VerificationError(str(self))
        return self

    check = raise_if_failed

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "FAILED"
        lines = [f"{self.name}: {verdict}"]
        width = max((len(f.name) for f in self.findings), default=0)
        for f in self.findings:
            mark = "" if f.ok else "  FAILED"
            lines.append(f"  {f.name.ljust(width)}  {f.detail}{mark}")
        lines += self._losses()
        lines += [f"  not verified: {text}" for text in self.skipped]
        return "\n".join(lines)

    def worst(self) -> list[Any]:
        """The operations that lose digits, or make infinities and NaNs."""
        bad = [op for op in self.operations if op.digits >= MIN_DIGITS or op.made]
        return bad[:LISTED]

    def _losses(self) -> list[str]:
        worst = self.worst()
        if not worst:
            return []
        rows = [("digits lost", "rounding", "condition", "operation", "line")]
        for op in worst:
            rows.append((op.made or f"{op.digits:.1f}", _ulps(op.rounding), f"{op.condition:.2g}",
                         op.name, op.line))  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        return ["  " + "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip()
                for r in rows]  # fmt: skip

    def __repr__(self) -> str:
        count = len(self.failures)
        return f"<verification of {self.name}: {'ok' if self.ok else f'{count} failed'}>"

    def _repr_html_(self) -> str:
        cells = []
        for f in self.findings:
            mark = "✓" if f.ok else "✗"
            cells.append(f"<tr><td>{mark}</td><td>{html.escape(f.name)}</td>"
                         f"<td>{html.escape(f.detail)}</td></tr>")  # fmt: skip
        losses = html.escape("\n".join([*self._losses(), *self.skipped]))
        title = html.escape(f"{self.name}: {'ok' if self.ok else 'FAILED'}")
        return f"<b>{title}</b><table>{''.join(cells)}</table><pre>{losses}</pre>"


def _ulps(x: float) -> str:
    return "overflow" if math.isinf(x) else f"{x:.2g} ulp"
