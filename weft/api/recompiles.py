"""``explain_recompiles``, ``no_recompiles`` and ``no_transfers``: what a scope traced, compiled and
copied, or that it must not.
"""

from __future__ import annotations

import contextlib
import html
import operator
from collections import Counter
from collections.abc import Iterator
from typing import Any

from weft.base import errors, observing
from weft.base.text import bytes_text, seconds_text


class RecompileReport(observing.Scope):
    """What happened in a scope of ``explain_recompiles``; as a string, its story.

    ``recompiles`` lists the calls that traced or compiled something: each has ``function``,
    ``line``, ``stages``, ``reasons``, ``seconds`` and ``first``. ``transfers`` lists the arrays
    that were copied: each has ``direction``, ``what``, ``nbytes``, ``function``, ``line`` and
    ``explicit``. ``again`` lists the calls that were not the first of their function.
    """

    watches_transfers = True

    def __init__(self) -> None:
        self.recompiles: list[observing.Recompile] = []
        self.transfers: list[observing.Transfer] = []

    def ended(self, recompile: observing.Recompile) -> None:
        self.recompiles.append(recompile)

    def copied(self, transfer: observing.Transfer) -> None:
        self.transfers.append(transfer)

    @property
    def again(self) -> list[observing.Recompile]:
        """Calls that traced or compiled something, and were not the first of their function."""
        return [r for r in self.recompiles if not r.first]

    def __str__(self) -> str:
        return "\n".join([self._summary(), *self._made(), *self._moved()])

    def _summary(self) -> str:
        if not self.recompiles and not self.transfers:
            return "nothing was traced, compiled or copied"
        seconds = seconds_text(sum(r.seconds for r in self.recompiles))
        calls = "call" if len(self.recompiles) == 1 else "calls"
        text = f"{len(self.recompiles)} {calls} traced or compiled"
        if self.recompiles:
            text += f", in {seconds}"
        size = bytes_text(sum(t.nbytes for t in self.transfers))
        arrays = "array" if len(self.transfers) == 1 else "arrays"
        return f"{text}; {len(self.transfers)} {arrays} copied, {size}"

    def _made(self) -> list[str]:
        """One paragraph for each function, line and reason."""
        groups: dict[Any, list[observing.Recompile]] = {}
        for r in self.recompiles:
            groups.setdefault((r.function, r.line, r.stages, r.reasons), []).append(r)
        lines = []
        for group in groups.values():
            total = group[0]._replace(seconds=sum(r.seconds for r in group))
            times = f" ({len(group)} times)" if len(group) > 1 else ""
            lines += [f"{total.title()}{times}", *[f"  {reason}" for reason in total.reasons]]
        return lines

    def _moved(self) -> list[str]:
        found = Counter(self.transfers)
        return [f"{t!r}{f' ({n} times)' if n > 1 else ''}" for t, n in found.items()]

    def __repr__(self) -> str:
        return f"<report: {self._summary()}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@contextlib.contextmanager
def explain_recompiles() -> Iterator[RecompileReport]:
    """Report why calls in a scope trace or compile again, and which arrays they copy.

    Returns:
        Context manager that gives a report: ``print(report)`` tells the story, inside the scope or
        after it. ``report.recompiles`` and ``report.transfers`` list what happened.

    The report names function, line and reason: which argument's shape, dtype, weak type, static
    value, sharding or device changed since the nearest earlier call, which setting, or that the
    function is a new object. Copies are those of arrays between the host and a device, and of
    arrays gathered from shards. The scope holds for the thread that enters it; set the options
    ``log_recompiles`` and ``log_transfers`` to log the same in all threads. What weft compiles in
    the background isn't reported, since no call waits for it.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> step = weft.jit(lambda x: x * 2)
        >>> _ = step(jnp.ones(3))
        >>> with weft.explain_recompiles() as report:
        ...     _ = step(jnp.ones(3))
        ...     _ = step(jnp.ones(4))
        >>> report.again[0].reasons
        ('x: shape (3,) → (4,)',)
    """
    report = RecompileReport()
    with observing.within(report):
        yield report


class _NoRecompiles(observing.Scope):
    """A scope that allows a number of calls to trace or compile."""

    holds = True

    def __init__(self, allow: int) -> None:
        self.allow, self.count = allow, 0

    def begins(self, call: observing.Call) -> None:
        self.count += 1
        if self.count <= self.allow:
            return
        scope = f"no_recompiles(allow={self.allow})" if self.allow else "no_recompiles"
        message = f"{call.function} would be {call.stages[0]} in this call, which {scope} forbids"
        why = "".join(f"\n  {reason}" for reason in call.reasons)
        advice = "Call it with arguments of these types before the scope begins."
        text = errors.located(message, "", call.where)
        raise errors.RecompileError(f"{text}{why}\n{advice}") from None


@contextlib.contextmanager
def no_recompiles(allow: int = 0) -> Iterator[None]:
    """Raise an error for calls in a scope that would trace or compile something.

    Args:
        allow: Number of calls that may.

    Returns:
        Context manager. In it, such a call raises ``weft.errors.RecompileError``, which names the
        function, the line and what changed, before it spends any time.

    Use it after the first steps of a loop. Scopes can be nested, and each counts for itself. The
    scope holds for the thread that enters it. What weft compiles in the background doesn't count,
    since no call waits for it.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> step = weft.jit(lambda x: x * 2)
        >>> x = step(jnp.ones(3))
        >>> with weft.no_recompiles():
        ...     x = step(x)
        >>> x
        Array([4., 4., 4.], dtype=float32)
    """
    allow = operator.index(allow)
    if allow < 0:
        raise ValueError(f"no_recompiles takes a number of calls from 0 up, got allow={allow}")
    with observing.within(_NoRecompiles(allow)):
        yield


class _NoTransfers(observing.Scope):
    """A scope in which no array may be copied, unless it is asked for."""

    watches_transfers = True

    def __init__(self, allow_explicit: bool) -> None:
        self.allow_explicit = allow_explicit

    def copied(self, transfer: observing.Transfer) -> None:
        if transfer.explicit and self.allow_explicit:
            return
        size, to = bytes_text(transfer.nbytes), transfer.direction
        done = "gathered from its shards" if to == "gathered" else f"copied from {to}"
        message = f"{transfer.what} ({size}) would be {done} by {transfer.function}"
        advice = "Put arrays on the device with weft.device_put before the scope begins."
        if to != "host to device":
            advice = "Read values with weft.device_get, or after the scope."
        text = f"{message}, which no_transfers forbids"
        raise errors.TransferError(errors.located(text, advice))


@contextlib.contextmanager
def no_transfers(allow_explicit: bool = True) -> Iterator[None]:
    """Raise an error for arrays that are copied between host and device in a scope.

    Args:
        allow_explicit: Whether ``device_put`` and ``device_get`` may copy.

    Returns:
        Context manager. In it, such a copy raises ``weft.errors.TransferError``, which names the
        array, its bytes, the direction and the line.

    It looks at NumPy arrays given to functions, arrays moved to another device, values that Python
    reads from a device, and arrays gathered from shards. Numbers travel with the call and don't
    count. On the CPU, NumPy arrays given to functions count as they would on a GPU, and reading an
    array copies nothing. The scope holds for the thread that enters it. ``weft.transfer_guard`` is
    JAX's form, which also refuses Python numbers.

    Example:
        >>> import numpy as np, weft
        >>> step = weft.jit(lambda x: x * 2)
        >>> with weft.no_transfers():
        ...     y = step(weft.device_put(np.ones(3, np.float32)))
        >>> y
        Array([2., 2., 2.], dtype=float32)
    """
    with observing.within(_NoTransfers(allow_explicit)):
        yield
