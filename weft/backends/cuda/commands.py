"""What a Program does on a GPU, as commands: put on a stream one by one, or captured in a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import conditions, driver
from weft.backends.cuda.ptx import MOST_EARLY_BLOCKS
from weft.base.errors import HostFallbackWarning as HostFallbackWarning
from weft.base.record import Record
from weft.base.source import warn
from weft.core.interpret import run_primitive, storage_dtype

_NUMBERS = {1: np.uint8, 4: np.int32, 8: np.int64}
# Kernels begin before the one before them has ended in programs of which nearly all commands, this
# part of them, are such: others don't notice how long a launch takes, and a residual network's step
# took 2 % longer.
EARLY_PART = 0.75
# Commands that loops may be written out to.
MOST_UNROLLED = 1 << 14


_warned: set[str] = set()


def warn_of(name: str) -> None:
    """Warn, once, that an operation is computed on the host."""
    if name not in _warned:
        _warned.add(name)
        text = f"{name} has no GPU form for these operands: the host computes it"
        warn(text, HostFallbackWarning)


class Spot(Record):
    """An address: so many bytes into a slot."""

    slot: int
    offset: int = 0


class State:
    """Where the slots of a call are, and the stream that commands are put on."""

    def __init__(
        self, addresses: list[int], stream: Any, capturing: bool = False, early: bool = False
    ) -> None:
        """``early``: whether small kernels may begin before the one before them has ended."""
        self.addresses = addresses
        self.stream = stream
        self.capturing = capturing
        self.early = early
        self.follows = False  # whether a small kernel of ours is the last on the stream

    def at(self, spot: Spot) -> int:
        return self.addresses[spot.slot] + spot.offset

    def run(self, commands: Sequence[Any]) -> None:
        self.follows = False
        for command in commands:
            command.run(self)
            self.follows = self.early and is_small(command)

    def number(self, slot: int, size: int) -> int:
        """A number in device memory; waits for it."""
        found = np.empty(1, _NUMBERS[size])
        driver.copy_out(found.ctypes.data, self.addresses[slot], size)
        return int(found[0])


class Launched(Record):
    """A kernel on slots; its last parameters are numbers. ``lines`` are the user's."""

    function: driver.Function
    blocks: int
    threads: int
    spots: tuple[Spot, ...]
    numbers: tuple[int, ...] = ()
    told: str = ""
    lines: tuple[Any, ...] = ()

    @property
    def capturable(self) -> bool:
        return True

    def slots(self) -> list[int]:
        return [s.slot for s in self.spots]

    def run(self, state: State) -> None:
        if self.blocks:
            values = [*map(state.at, self.spots), *self.numbers]
            f = self.function
            launch = f.launch_early if state.follows and f.waits and is_small(self) else f.launch
            launch(self.blocks, self.threads, values, state.stream)


class LoopKernel(Record):
    """A whole loop as one kernel; blocks that wait for each other are resident at once.

    ``uses`` are slots that are in use throughout, ``swaps`` views that have changed places when the
    loop is over, ``rounds`` how it is told of. All blocks may be one ``cluster``.
    """

    function: driver.Function
    blocks: int
    threads: int
    spots: tuple[Spot, ...]
    uses: tuple[int, ...]
    swaps: tuple[tuple[int, int], ...] = ()
    rounds: str = ""
    told: str = ""
    lines: tuple[Any, ...] = ()
    cluster: bool = False

    @property
    def capturable(self) -> bool:
        return True

    def slots(self) -> list[int]:
        return [*(s.slot for s in self.spots), *self.uses]

    def run(self, state: State) -> None:
        f = self.function
        launch = f.launch if self.blocks == 1 or self.cluster else f.launch_together
        launch(self.blocks, self.threads, [*map(state.at, self.spots)], state.stream)
        found = state.addresses
        for first, second in self.swaps:
            found[first], found[second] = found[second], found[first]


class Filled(Record):
    """Bytes set to a value."""

    spot: Spot
    value: int
    size: int

    @property
    def capturable(self) -> bool:
        return True

    def slots(self) -> list[int]:
        return [self.spot.slot]

    def run(self, state: State) -> None:
        driver.fill(state.at(self.spot), self.value, self.size, state.stream)


class Moved(Record):
    """Bytes copied."""

    target: Spot
    source: Spot
    size: int

    @property
    def capturable(self) -> bool:
        return True

    def slots(self) -> list[int]:
        return [self.target.slot, self.source.slot]

    def run(self, state: State) -> None:
        driver.copy(state.at(self.target), state.at(self.source), self.size, state.stream)


class Called(Record):
    """A library's function on slots."""

    function: Any
    spots: tuple[Spot, ...]
    told: str = ""
    capturable: bool = True
    lines: tuple[Any, ...] = ()

    def slots(self) -> list[int]:
        return [s.slot for s in self.spots]

    def run(self, state: State) -> None:
        self.function(state.stream, *map(state.at, self.spots))


class OnHost(Record):
    """An equation that the host computes."""

    eqn: Any
    ins: tuple[int, ...]
    outs: tuple[int, ...]

    @property
    def capturable(self) -> bool:
        return False

    def slots(self) -> list[int]:
        return [*self.ins, *self.outs]

    def run(self, state: State) -> None:
        eqn = self.eqn
        values = []
        for slot, x in zip(self.ins, eqn.invars, strict=True):
            value = np.empty(x.aval.shape, storage_dtype(x.aval.dtype))
            driver.copy_out(value.ctypes.data, state.addresses[slot], value.nbytes)
            values.append(value)
        avals = [v.aval for v in eqn.outvars]
        several = eqn.primitive.multiple_results
        with np.errstate(all="ignore"):
            made = run_primitive(eqn.primitive, avals if several else avals[0], values, eqn.params)
        for slot, aval, value in zip(self.outs, avals, made if several else [made], strict=True):
            if prod(aval.shape):
                array = np.ascontiguousarray(np.asarray(value, storage_dtype(aval.dtype)))
                driver.copy_in(state.addresses[slot], array.ctypes.data, array.nbytes)


class Pointed(Record):
    """A view made to point where a slot is."""

    view: int
    base: int

    @property
    def capturable(self) -> bool:
        return True

    def slots(self) -> list[int]:
        return [self.view, self.base]

    def run(self, state: State) -> None:
        state.addresses[self.view] = state.addresses[self.base]


class Swapped(Record):
    """Two views that change places."""

    first: int
    second: int
    size: int

    @property
    def capturable(self) -> bool:
        return True

    def slots(self) -> list[int]:
        return [self.first, self.second]

    def run(self, state: State) -> None:
        found = state.addresses
        found[self.first], found[self.second] = found[self.second], found[self.first]


class Branched(Record):
    """One of several regions."""

    choice: int
    size: int
    regions: tuple[tuple[Any, ...], ...]

    @property
    def capturable(self) -> bool:
        return conditions.available() and all(c.capturable for r in self.regions for c in r)

    def slots(self) -> list[int]:
        return [self.choice]

    def run(self, state: State) -> None:
        if state.capturing:
            self._capture(state)
            return
        chosen = state.number(self.choice, self.size)
        state.run(self.regions[max(0, min(chosen, len(self.regions) - 1))])

    def _capture(self, state: State) -> None:
        last = len(self.regions) - 1
        before = list(state.addresses)
        handles = [driver.new_condition(state.stream) for _ in self.regions]
        for number, handle in enumerate(handles):
            conditions.set_choice(state, handle, before[self.choice], self.size, number, last)
        for handle, region in zip(handles, self.regions, strict=True):

            def capture(stream: Any, region: Any = region) -> None:
                State(list(before), stream, True).run(region)

            driver.add_conditional(state.stream, handle, driver.IF, capture)


class LoopedWhile(Record):
    """A body repeated as long as a condition holds; ``why`` says why it isn't one kernel."""

    condition: tuple[Any, ...]
    flag: int
    body: tuple[Any, ...]
    why: str = ""

    @property
    def capturable(self) -> bool:
        return conditions.available() and all(c.capturable for c in (*self.condition, *self.body))

    def slots(self) -> list[int]:
        return [self.flag]

    def run(self, state: State) -> None:
        if state.capturing:
            self._capture(state)
            return
        while True:
            state.run(self.condition)
            if not state.number(self.flag, 1):
                return
            state.run(self.body)

    def _capture(self, state: State) -> None:
        handle = driver.new_condition(state.stream)
        state.run(self.condition)
        start = list(state.addresses)
        conditions.set_flag(state, handle, start[self.flag])

        def capture(stream: Any) -> None:
            inner = State(list(start), stream, True)
            inner.run(self.body)
            inner.run(self.condition)
            # a graph's pointers are the same in every round: values go back where they were
            swapped = [c for c in self.body if isinstance(c, Swapped)]
            back = [(start[c.first], inner.addresses[c.first], c.size) for c in swapped]
            conditions.copy_and_set(inner, handle, start[self.flag], back)

        driver.add_conditional(state.stream, handle, driver.WHILE, capture)


class LoopedFor(Record):
    """A body repeated a number of times; views point at one slice of their base in each. ``why``
    says why it isn't one kernel."""

    trips: int
    reverse: bool
    slices: tuple[tuple[int, int, int], ...]
    body: tuple[Any, ...]
    why: str = ""

    @property
    def capturable(self) -> bool:
        return all(c.capturable for c in self.body) and length([self]) <= MOST_UNROLLED

    def slots(self) -> list[int]:
        return [s for view, base, _ in self.slices for s in (view, base)]

    def run(self, state: State) -> None:
        for trip in range(self.trips):
            now = self.trips - 1 - trip if self.reverse else trip
            for view, base, size in self.slices:
                state.addresses[view] = state.addresses[base] + now * size
            state.run(self.body)


def regions_of(command: Any) -> list[tuple[Any, ...]]:
    """The lists of commands inside a command."""
    if isinstance(command, Branched):
        return list(command.regions)
    if isinstance(command, LoopedWhile):
        return [command.condition, command.body]
    return [command.body] if isinstance(command, LoopedFor) else []


def with_regions(command: Any, regions: Sequence[tuple[Any, ...]]) -> Any:
    """A command with other lists of commands inside."""
    if isinstance(command, Branched):
        return command._replace(regions=tuple(regions))
    if isinstance(command, LoopedWhile):
        return command._replace(condition=regions[0], body=regions[1])
    return command._replace(body=regions[0])


def load_all(commands: Sequence[Any]) -> None:
    """Load the kernels that commands launch, as they come out of compilation."""
    for command in commands:
        if isinstance(command, (Launched, LoopKernel)):
            command.function.ready()
        for region in regions_of(command):
            load_all(region)


def quick_kernels(commands: Sequence[Any]) -> list[driver.Function]:
    """The kernels that were made quickly, each once."""
    kernels = [c.function for c in leaves(commands) if isinstance(c, (Launched, LoopKernel))]
    return [f for f in dict.fromkeys(kernels) if getattr(f, "better", None) is not None]


def leaves(commands: Sequence[Any]) -> Iterator[Any]:
    """All commands, those of regions after the one that they are of."""
    for command in commands:
        yield command
        for region in regions_of(command):
            yield from leaves(region)


def is_small(command: Any) -> bool:
    """Whether a command is a kernel of few blocks."""
    return type(command) is Launched and command.blocks <= MOST_EARLY_BLOCKS


def mostly_small(commands: Sequence[Any]) -> bool:
    """Whether nearly all that the GPU does are small kernels."""
    all_of_them = length(commands, lambda c: not isinstance(c, (Pointed, Swapped)))
    return length(commands, is_small) >= EARLY_PART * all_of_them


def length(commands: Sequence[Any], counts: Callable[[Any], bool] = lambda c: True) -> int:
    """Commands of a graph that count, loops of known length written out."""
    total = 0
    for c in commands:
        inner = sum(length(region, counts) for region in regions_of(c))
        total += inner * c.trips if isinstance(c, LoopedFor) else inner + counts(c)
    return total
