"""MLIR's binary form: its sections, and the operations of a module in it.

What attributes and types of a dialect mean is left to ``vhlo``. Reading is lazy: locations, and
what else is not asked for, is passed over. The text of such a module is a list of its operations,
by which errors say where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from weft.mlir.errors import BYTECODE, StableHLOError
from weft.mlir.tree import Block, Operation

MAX_VERSION = 6  # of the format
MAX_REGIONS = 100  # one in another
MAX_NESTED = 64  # attributes in attributes
# Versions from which parts of the format are as they are read here.
LAZY_REGIONS, USE_ORDERS, SHORT_LOCATIONS, PROPERTIES = 2, 3, 4, 5
STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR = 0, 1, 2, 3, 4
PROPERTY_SECTION = 8
# Which parts an operation has.
HAS_ATTRIBUTES, HAS_RESULTS, HAS_OPERANDS, HAS_SUCCESSORS = 1, 2, 4, 8
HAS_REGIONS, HAS_ORDERS, HAS_PROPERTIES = 16, 32, 64
MAX_OFFSET = 1 << 48


class Bytes:
    """A place among bytes."""

    def __init__(self, data: memoryview, at: int = 0) -> None:
        self.data, self.at = data, at

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def byte(self) -> int:
        if self.at >= len(self.data):
            fail("the bytes end too early")
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        if count > self.left:
            fail(f"{count} bytes are named, {self.left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def integer(self) -> int:
        """A number of one to nine bytes; the zeros that the first one ends with count the rest."""
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        rest = int.from_bytes(self.take(more), "little")
        return first >> (more + 1) | rest << (7 - more)

    def signed(self) -> int:
        """A number whose lowest bit is its sign."""
        found = self.integer()
        return found >> 1 ^ -(found & 1)

    def count(self) -> int:
        """How many items follow, each of a byte at least."""
        found = self.integer()
        if found > self.left:
            fail(f"{found} items are named, {self.left} bytes are left")
        return found

    def flagged(self) -> tuple[int, bool]:
        found = self.integer()
        return found >> 1, bool(found & 1)

    def text(self) -> str:
        """Characters up to a zero."""
        start = self.at
        while self.byte():
            pass
        return decoded(self.data[start : self.at - 1])

    def section(self) -> tuple[int, Bytes]:
        """A section's number and its bytes."""
        kind = self.byte()
        size = self.integer()
        if kind & 0x80:
            alignment = self.integer()
            if not 0 < alignment <= 1 << 20:
                fail(f"a section is aligned to {alignment} bytes")
            self.take(-self.at % alignment)
        start = self.at
        self.take(size)
        # sections count alignments from the beginning of the file
        return kind & 0x7F, Bytes(self.data[: start + size], start)


def fail(message: str) -> NoReturn:
    raise StableHLOError(f"the MLIR bytecode is damaged: {message}")


def decoded(raw: Any) -> str:
    try:
        return bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        fail("a name is no UTF-8")


Decoder = Callable[["Bytecode", str, Bytes, bool], Any]


class Bytecode:
    """The tables of a module, and its operations.

    ``attribute_of`` and ``type_of`` read an attribute and a type of a dialect from bytes; they get
    these tables, the dialect's name, the bytes, and whether the dialect's own form is used.
    """

    def __init__(self, raw: bytes, attribute_of: Decoder, type_of: Decoder) -> None:
        self.decoders = (attribute_of, type_of)
        c = Bytes(memoryview(raw), len(BYTECODE))
        self.version = c.integer()
        if self.version > MAX_VERSION:
            raise StableHLOError(
                f"this module is MLIR bytecode of version {self.version}; weft reads versions up"
                f" to {MAX_VERSION}"
            )
        self.producer = c.text()
        self.sections: dict[int, Bytes] = {}
        while c.left:
            kind, found = c.section()
            if kind in self.sections:
                fail(f"there are two sections of kind {kind}")
            self.sections[kind] = found
        missing = {STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR} - set(self.sections)
        if missing:
            fail(f"it lacks the sections {sorted(missing)}")
        self.strings = self._strings(self.sections[STRINGS])
        self.dialects, self.names = self._dialects(self.sections[DIALECTS])
        # of attributes, and of types: dialect, bytes, whether in its own form
        self.places = self._places(self.sections[OFFSETS], self.sections[ATTRIBUTES])
        self.known: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        self.depth = 0
        self.properties = self._properties(self.sections.get(PROPERTY_SECTION))
        self.lines: list[str] = []  # the list of operations
        self.position = 0  # of the next operation in it

    # --- tables -----------------------------------------------------------------------------------

    def _strings(self, c: Bytes) -> list[str]:
        sizes = [c.integer() for _ in range(c.count())][::-1]
        return [decoded(c.take(size)[:-1]) for size in sizes]

    def string(self, c: Bytes) -> str:
        return pick(self.strings, c.integer(), "string")

    def _dialects(self, c: Bytes) -> tuple[list[str], list[tuple[str, str]]]:
        """Names of dialects, and those of operations with their dialects."""
        dialects = []
        for _ in range(c.count()):
            at, is_versioned = c.flagged() if self.version >= 1 else (c.integer(), False)
            if is_versioned:
                c.section()
            dialects.append(pick(self.strings, at, "string"))
        if self.version >= SHORT_LOCATIONS:
            c.integer()  # how many operations
        names: list[tuple[str, str]] = []
        while c.left:
            dialect = pick(dialects, c.integer(), "dialect")
            for _ in range(c.count()):
                at = c.flagged()[0] if self.version >= PROPERTIES else c.integer()
                names.append((dialect, pick(self.strings, at, "string")))
        return dialects, names

    def _places(self, c: Bytes, data: Bytes) -> tuple[list[Any], list[Any]]:
        counts, found = (c.integer(), c.integer()), ([], [])  # type: ignore[var-annotated]
        for count, places in zip(counts, found, strict=True):
            while len(places) < count:
                dialect = pick(self.dialects, c.integer(), "dialect")
                for _ in range(c.count()):
                    size, is_own = c.flagged()
                    places.append((dialect, data.take(size), is_own))
            if len(places) != count:
                fail(f"{count} attributes or types are named, {len(places)} are there")
        return found

    def _properties(self, c: Bytes | None) -> list[memoryview]:
        return [c.take(c.integer()) for _ in range(c.count())] if c is not None else []

    # --- attributes and types ---------------------------------------------------------------------

    def attribute(self, c: Bytes) -> Any:
        return self._entry(0, c.integer())

    def attribute_at(self, at: int) -> Any:
        return self._entry(0, at)

    def type(self, c: Bytes) -> Any:
        return self._entry(1, c.integer())

    def attributes(self, c: Bytes) -> list[Any]:
        return [self.attribute(c) for _ in range(c.count())]

    def types(self, c: Bytes) -> list[Any]:
        return [self.type(c) for _ in range(c.count())]

    def _entry(self, which: int, at: int) -> Any:
        known = self.known[which]
        if at in known:
            return known[at]
        if self.depth >= MAX_NESTED:
            fail("attributes or types are nested too deeply")
        dialect, data, is_own = pick(self.places[which], at, ("attribute", "type")[which])
        self.depth += 1
        found = known[at] = self.decoders[which](self, dialect, Bytes(data), is_own)
        self.depth -= 1
        return found

    # --- operations -------------------------------------------------------------------------------

    def module(self) -> Operation:
        """The outermost operation."""
        block = self._block(self.sections[IR], 0, [0])
        if len(block.operations) != 1 or block.operations[0].name != "builtin.module":
            fail("a module is one operation")
        return block.operations[0]

    def _operation(self, c: Bytes, depth: int, values: list[int]) -> Operation:
        """One operation; ``values`` says how many are defined, and how many there are."""
        dialect, short = pick(self.names, c.integer(), "name of an operation")
        mask = c.byte()
        c.integer()  # its location
        given: dict[str, Any] = {}
        if mask & HAS_ATTRIBUTES:
            found = self.attribute(c)
            given = dict(found) if isinstance(found, dict) else fail("attributes have names")
        if mask & HAS_PROPERTIES:
            given["properties"] = pick(self.properties, c.integer(), "property")
        types = self.types(c) if mask & HAS_RESULTS else []
        results = self._defined(values, len(types))
        operands = []
        if mask & HAS_OPERANDS:
            operands = [c.integer() for _ in range(c.count())]
            if any(n >= values[-1] for n in operands):
                fail(f"an operand of {dialect}.{short} is no value of its region")
        if mask & HAS_SUCCESSORS:
            fail("StableHLO has no jumps between blocks")
        if mask & HAS_ORDERS:
            self._skip_orders(c, len(types))
        position = self._listed(f"{dialect}.{short}", results, operands, types)
        op = Operation(f"{dialect}.{short}", results, [f"%{n}" for n in operands], given, [], types,
                       None, position)  # fmt: skip
        if mask & HAS_REGIONS:
            count, is_isolated = c.flagged()
            if is_isolated and self.version >= LAZY_REGIONS:
                kind, c = c.section()
                if kind != IR:
                    fail("a region is no section of operations")
            if count > c.left:
                fail(f"{count} regions are named, {c.left} bytes are left")
            inner = [0] if is_isolated else values
            op.regions = [self._region(c, depth + 1, inner) for _ in range(count)]
        return op

    def _listed(self, name: str, results: list[str], operands: list[int], types: list[Any]) -> int:
        """Write an operation into the list; its position."""
        equals = f"{', '.join(results)} = " if results else ""
        kinds = f" : {', '.join(map(str, types))}" if types else ""
        self.lines.append(f"{equals}{name}({', '.join([f'%{n}' for n in operands])}){kinds}\n")
        position = self.position
        self.position += len(self.lines[-1])
        return position

    def _region(self, c: Bytes, depth: int, values: list[int]) -> Block:
        if depth > MAX_REGIONS:
            fail(f"regions are nested more than {MAX_REGIONS} deep")
        blocks = c.integer()
        if blocks == 0:
            return Block([], [])
        # numbers of its values follow those of all values of the region around
        start = values[-1]
        inner = [start, start + c.integer()]
        if inner[1] > MAX_OFFSET:
            fail("a region has more values than there are bytes")
        if blocks != 1:
            fail("a region has one block here; StableHLO has no jumps between blocks")
        return self._block(c, depth, inner)

    def _block(self, c: Bytes, depth: int, values: list[int]) -> Block:
        count, has_arguments = c.flagged()
        if count > c.left:
            fail(f"{count} operations are named, {c.left} bytes are left")
        block = Block([], [])
        if has_arguments:
            for _ in range(c.count()):
                at, has_location = c.integer(), True
                if self.version >= SHORT_LOCATIONS:
                    at, has_location = at >> 1, bool(at & 1)
                block.types.append(self._entry(1, at))
                if has_location:
                    c.integer()
            block.names = self._defined(values, len(block.types))
            if self.version >= USE_ORDERS and c.byte():
                self._skip_orders(c, len(block.types))
        block.operations = [self._operation(c, depth, values) for _ in range(count)]
        return block

    def _defined(self, values: list[int], count: int) -> list[str]:
        """Names for the next values of a region."""
        if count and values[0] + count > values[-1]:
            fail("a region has fewer values than its operations give")
        start = values[0]
        if count:
            values[0] += count
        return [f"%{n}" for n in range(start, start + count)]

    def _skip_orders(self, c: Bytes, count: int) -> None:
        """Pass the order of uses of some values."""
        for _ in range(c.count() if count > 1 else 1):
            if count > 1:
                c.integer()
            size, _is_pairs = c.flagged()
            if size > c.left:
                fail(f"{size} uses are named, {c.left} bytes are left")
            for _ in range(size):
                c.integer()


def pick(items: list[Any], at: int, what: str) -> Any:
    if at >= len(items):
        fail(f"{what} {at} of {len(items)} is used")
    return items[at]
