"""The tables of a program that native code reads, as one row of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu import library
from weft.backends.cpu.assembly import Assembly, Python, Run
from weft.backends.llvm.calls import tables, walker
from weft.backends.llvm.calls.dispatch import Native, address, words_of
from weft.backends.llvm.native.float_mode import flush_bits
from weft.core.interpret import storage_dtype
from weft.kernel.program import Branch, Copy, For, Point, Swap, While, all_nodes, inner_regions

# Bytes that a program touches from which on Python's lock is given up while it runs.
LONG_BYTES = 1 << 18
_KINDS = {
    "slot": tables.FRESH,
    "arg": tables.PASSED,
    "taken": tables.PASSED,
    "const": tables.CONSTANT,
    "same": tables.REPEATED,
}


class Layout:
    """A row of words; sizes are filled in later, and so is what is not known before the call.

    ``inside`` are words that are places in the row itself, in bytes.
    """

    def __init__(
        self,
        plan: Assembly,
        code: Mapping[int, int],
        arguments: int,
        out_avals: Sequence[Any],
        flushes: bool,
        walks: Native,
    ) -> None:
        words = self.words = [0] * tables.PROGRAM_WORDS
        self.inside: list[int] = []
        rows = {
            number: self._section(constant)
            for number, constant in enumerate(plan.constants)
            if type(constant) is tuple
        }
        template = self.template = self._section([0] * len(plan.slots))
        for i, slot in enumerate(plan.slots, template):
            if slot.role == "temp":
                offset = plan.offsets[i - template]
                words[i] = offset if type(offset) is int else 0
            elif slot.role == "const" and slot.what in rows:
                words[i] = 8 * rows[slot.what]
                self.inside.append(i)
            elif slot.role == "const":
                words[i] = address(plan.constants[slot.what])
            elif slot.role == "library":
                words[i] = library.address(slot.what)
            elif slot.role == "code":
                words[i] = int(code[slot.what])
        temps = self._section([i for i, slot in enumerate(plan.slots) if slot.role == "temp"])
        nodes = self._section(encode(plan.nodes, code))
        self.results = len(words)
        for (kind, number), aval in zip(plan.results, out_avals, strict=True):
            size = prod(aval.shape) * storage_dtype(aval.dtype).itemsize
            owner = id(plan.constants[number]) if kind == "const" else 0
            self._section([_KINDS[kind], number, size, 0, owner])
        for word, at in (
            (tables.TEMPLATE, template),
            (tables.TEMPS, temps),
            (tables.NODES, nodes),
            (tables.END, self.results),
            (tables.RESULTS, self.results),
        ):
            words[word] = 8 * at
            self.inside.append(word)
        words[tables.SHARED] = address(walks.shared)
        words[tables.SLOTS] = len(plan.slots)
        words[tables.TEMP_COUNT] = nodes - temps
        widest = max((len(run.slots) for run in runs(plan.nodes)), default=0)
        words[tables.RUN_WORDS] = walker.run_words(len(plan.results), len(plan.slots), widest)
        words[tables.RESULT_COUNT] = len(plan.results)
        words[tables.ARGUMENTS] = arguments
        words[tables.FLUSH] = flush_bits() if flushes else 0

    def _section(self, values: Sequence[Any]) -> int:
        begin = len(self.words)
        self.words.extend(values)
        return begin

    def filled(self, types: Sequence[Any], **known: int) -> np.ndarray:
        """The row with the types of results, and other words of the program by their names."""
        for i, kind in enumerate(types):
            self.words[self.results + i * tables.RESULT_WORDS + tables.TYPE] = id(kind)
        for name, value in known.items():
            self.words[getattr(tables, name)] = value
        row = words_of(self.words)
        row[self.inside] += np.uint64(address(row))
        return row


def encode(nodes: Sequence[Any], addresses: Mapping[int, int]) -> list[int]:
    """The table of some nodes; ``addresses`` are those of the program's native functions."""
    words: list[int] = []
    for node in nodes:
        if isinstance(node, Run):
            code, slots, extent, chunk = node
            words += [
                walker.LAUNCH,
                6 + len(slots),
                int(addresses[code]),
                extent,
                chunk,
                len(slots),
                *slots,
            ]
        elif isinstance(node, Copy):
            words += [walker.COPY, 5, *node]
        elif isinstance(node, Point):
            words += [walker.POINT, 4, *node]
        elif isinstance(node, Swap):
            words += [walker.SWAP, 4, *node]
        elif isinstance(node, Branch):
            regions = [encode(region, addresses) for region in node.regions]
            at = 5 + len(regions)
            ends = []
            for region in regions:
                at += len(region)
                ends.append(at)
            words += [walker.BRANCH, at, node.choice, node.size, len(regions), *ends]
            for region in regions:
                words += region
        elif isinstance(node, While):
            condition = encode(node.condition, addresses)
            body = encode(node.body, addresses)
            at = 4 + len(condition)
            words += [walker.WHILE, at + len(body), node.flag, at, *condition, *body]
        elif isinstance(node, For):
            body = encode(node.body, addresses)
            at = 5 + 3 * len(node.slices)
            words += [walker.FOR, at + len(body), node.trips, int(node.reverse), len(node.slices)]
            for part in node.slices:
                words += part
            words += body
        else:
            assert isinstance(node, Python)
            words += [walker.HOST, 3, node.number]
    return words


def runs(nodes: Any) -> list[Run]:
    """All native functions that are run over a range."""
    return [node for node in all_nodes(nodes) if isinstance(node, Run)]


def work(nodes: Any, plan: Assembly) -> int:
    """Bytes that nodes touch, roughly; a loop of unknown length counts as long."""
    total = 0
    for node in nodes:
        if isinstance(node, Run):
            total += sum(plan.slots[s].size for s in node.slots)
        elif isinstance(node, While):
            total += LONG_BYTES
        else:
            times = node.trips if isinstance(node, For) else 1
            total += times * sum(64 + work(region, plan) for region in inner_regions(node))
    return total
