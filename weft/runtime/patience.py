"""How much of the time of eager operations goes into compiling them.

An operation that comes again is worth compiling, but not all of them in one call of a model: that
call would take a hundred times as long as the next. Compiling has an account, which time that
passes fills and compiling empties; operations that find it empty run by the interpreter once more.
Only those wait whose results are the same either way.
"""

from __future__ import annotations

from time import perf_counter

from weft.base import knobs

# Seconds of compiling that the account holds at most.
CAPACITY = 0.02

# Elements up to which a program in named sizes stays in use, where code for exactly these could be
# made.
FEW_ELEMENTS = 1 << 14


class Account:
    """Seconds of compiling that eager operations may take."""

    __slots__ = ("balance", "last")

    def __init__(self) -> None:
        self.balance, self.last = CAPACITY, perf_counter()

    def allows(self) -> bool:
        """Whether an operation may be compiled now."""
        share = knobs.thread.eager_compile_share
        if share >= 1:
            return True
        now = perf_counter()
        self.balance = min(CAPACITY, self.balance + share * (now - self.last))
        self.last = now
        return self.balance > 0

    def charge(self, began: float) -> None:
        """Note that an operation has been compiled since a time."""
        self.balance -= perf_counter() - began


account = Account()
