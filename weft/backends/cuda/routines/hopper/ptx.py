"""PTX for Hopper's own instructions, written line by line: copies of tiles by the tensor memory
accelerator, barriers in shared memory, and products by the matrix instructions of four warps.

A tile in shared memory is made of panels of 64 columns: rows of 128 bytes, whose pieces of 16 bytes
are swizzled in groups of eight rows, as the copies write them and the products read them.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence

# Registers by the kind of what they hold, and the letters of their names.
_LETTERS = {"b32": "r", "b64": "l", "f32": "f", "pred": "p"}
PANEL = 64  # columns of a panel, 128 bytes of 16-bit floats
_SWIZZLED = 1 << 62  # by 128 bytes
_GROUP = 1024  # bytes of eight rows of a panel


class Writer:
    """A kernel while it is written; registers are virtual, and named by a letter and a number."""

    def __init__(self, name: str, maps: int, numbers: int, threads: int) -> None:
        self.name, self.maps, self.numbers, self.threads = name, maps, numbers, threads
        self.lines: list[str] = []
        self.counts = dict.fromkeys(_LETTERS, 0)
        self.labels = 0

    # --- text -------------------------------------------------------------------------------------

    def new(self, kind: str) -> str:
        self.counts[kind] += 1
        return f"%{_LETTERS[kind]}{self.counts[kind] - 1}"

    def several(self, kind: str, count: int) -> list[str]:
        return [self.new(kind) for _ in range(count)]

    def do(self, operation: str, *operands: object) -> None:
        self.lines.append(f"  {operation} {', '.join(map(str, operands))};")

    def made(self, kind: str, operation: str, *operands: object) -> str:
        """A new register with the result of an operation."""
        found = self.new(kind)
        self.do(operation, found, *operands)
        return found

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def here(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def go(self, label: str, condition: str = "") -> None:
        """Jump, or jump if a predicate holds (``p``) or doesn't (``!p``)."""
        self.lines.append(f"  {f'@{condition} ' if condition else ''}bra {label};")

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is done if a predicate holds."""
        after = self.label()
        self.go(after, condition[1:] if condition[0] == "!" else f"!{condition}")
        yield
        self.here(after)

    def text(self) -> str:
        given = [f".param .align 64 .b8 map{i}[128]" for i in range(self.maps)]
        given += [f".param .u64 number{i}" for i in range(self.numbers)]
        registers = [
            f"  .reg .{kind} %{letter}<{self.counts[kind]}>;"
            for kind, letter in _LETTERS.items()
            if self.counts[kind]
        ]
        head = [
            ".version 8.0",
            ".target sm_90a",
            ".address_size 64",
            ".extern .shared .align 1024 .b8 room[];",
            f".visible .entry {self.name}({', '.join(given)})",
            f".maxntid {self.threads}, 1, 1",
            ".minnctapersm 1",
            "{",
        ]
        return "\n".join([*head, *registers, *self.lines, "  ret;", "}", ""])

    # --- registers --------------------------------------------------------------------------------

    # What threads that copy keep of the registers that all are started with, and what those that
    # compute have then, by how many groups of four warps compute.

    def give_registers(self, groups: int) -> None:
        self.do("setmaxnreg.dec.sync.aligned.u32", {2: 24, 3: 32}[groups])

    def take_registers(self, groups: int) -> None:
        self.do("setmaxnreg.inc.sync.aligned.u32", {2: 240, 3: 160}[groups])

    # --- parameters and arithmetic ----------------------------------------------------------------

    def number(self, i: int) -> str:
        return self.made("b64", "ld.param.u64", f"[number{i}]")

    def map(self, i: int) -> str:
        """The address of a description of an array, for copies."""
        return self.made("b64", "cvta.param.u64", self.made("b64", "mov.u64", f"map{i}"))

    def room(self) -> str:
        return self.made("b32", "mov.u32", "room")

    def add(self, x: str, y: object) -> str:
        return self.made("b32", "add.s32", x, y)

    def mul(self, x: str, y: object) -> str:
        return self.made("b32", "mul.lo.s32", x, y)

    def compare(self, how: str, x: str, y: object) -> str:
        return self.made("pred", f"setp.{how}.s32", x, y)

    # --- barriers ---------------------------------------------------------------------------------

    def start_barriers(self, barriers: Sequence[tuple[str, int]]) -> None:
        """Barriers at addresses, each completed by so many arrivals."""
        for address, count in barriers:
            self.do("mbarrier.init.shared::cta.b64", f"[{address}]", count)
        self.lines.append("  fence.mbarrier_init.release.cluster;")

    def wait(self, barrier: str, phase: str) -> None:
        again = self.label()
        done = self.new("pred")
        self.here(again)
        self.do("mbarrier.try_wait.parity.shared::cta.b64", done, f"[{barrier}]", phase)
        self.go(again, f"!{done}")

    def arrive(self, barrier: str) -> None:
        self.do("mbarrier.arrive.shared::cta.b64", "_", f"[{barrier}]")

    def expect(self, barrier: str, size: int) -> None:
        """Arrive, and have the barrier wait for so many bytes of copies."""
        self.do("mbarrier.arrive.expect_tx.shared::cta.b64", "_", f"[{barrier}]", size)

    def fetch(self, to: str, panel: int, rows: int, map: str, at: Sequence[str], bar: str) -> None:
        """Begin to copy a panel of a tile: rows from ``at`` (row, head, batch) on."""
        target = self.add(to, panel * rows * 128)
        place = ", ".join([str(panel * PANEL), *at])
        self.do(
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes",
            f"[{target}]",
            f"[{map}, {{{place}}}]",
            f"[{bar}]",
        )

    def copy(self, to: str, source: str, size: int, bar: str) -> None:
        """Begin to copy bytes that lie in one piece."""
        self.do(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
            f"[{to}]",
            f"[{source}]",
            size,
            f"[{bar}]",
        )

    # --- products ---------------------------------------------------------------------------------

    def described(self, address: str, across: int = 0) -> str:
        """A tile as products take it. ``across`` is for a tile whose rows are the depth of a
        product: the bytes from one panel to the next."""
        low = self.made("b32", "bfe.u32", address, 4, 14)
        wide = self.made("b64", "cvt.u64.u32", low)
        fixed = _SWIZZLED | (_GROUP >> 4) << 32 | (max(across, 16) >> 4) << 16
        return self.made("b64", "or.b64", wide, fixed)

    def fence(self) -> None:
        self.lines.append("  wgmma.fence.sync.aligned;")

    def commit(self) -> None:
        self.lines.append("  wgmma.commit_group.sync.aligned;")

    def settle(self, open_groups: int = 0) -> None:
        """Wait until no more than so many groups of products are open."""
        self.lines.append(f"  wgmma.wait_group.sync.aligned {open_groups};")

    def multiply(
        self,
        kind: str,
        out: Sequence[str],
        a: str | Sequence[str],
        b: str,
        *,
        more: str,
        a_across: int = 0,
        b_across: int = 0,
    ) -> None:
        """64 rows of a product by 16 of depth; added to ``out`` where the predicate ``more`` holds.

        An operand is described, or, the first, in registers; one that is ``across`` has its rows
        along the depth.
        """
        columns = 2 * len(out)
        first = a if isinstance(a, str) else f"{{{', '.join(a)}}}"
        turned = [a_across, b_across] if isinstance(a, str) else [b_across]
        self.do(
            f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind}",
            f"{{{', '.join(out)}}}",
            first,
            b,
            more,
            1,
            1,
            *turned,
        )


def float_word(x: float) -> str:
    """A float32 as PTX writes it."""
    return f"0f{struct.unpack('>I', struct.pack('>f', x))[0]:08X}"


def row_step(k: int, rows: int) -> int:
    """How far, in a description, step k of depth is, for a tile whose columns are the depth."""
    panel, inside = divmod(16 * k, PANEL)
    return (panel * rows * 128 + 2 * inside) >> 4


def column_step(k: int) -> int:
    """The same for a tile whose rows are the depth."""
    return 16 * k * 128 >> 4
