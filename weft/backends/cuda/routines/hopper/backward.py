"""Attention's gradients for Hopper GPUs, as PTX: one kernel by rows of queries, one by columns.

Each group of four warps owns 64 rows of two arrays, queries and gradients of results or keys and
values, while tiles of the two others go by. Scores and their changes are products of owned rows and
a tile's; what they add to gradients is a product of them, from registers, and the tile again.
Nothing is added up by atomics.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.backends.cuda.routines.hopper.kernel import Kernel
from weft.backends.cuda.routines.hopper.ptx import PANEL, float_word
from weft.base.record import Record

STAGES = 4


class Backward(Record):
    """A backward pass: by columns (gradients of keys and values) or by rows (of queries).

    ``scale`` is the one of scores; ``padded`` the rows of the numbers for each row: logarithms to
    the base 2, then sums of results times gradients.
    """

    by_columns: bool
    kind: str
    depth: int
    batch: int
    heads: int
    shared: int
    rows: int
    columns: int
    padded: int
    shift: int | None
    scale: float
    # strides of batch, head and row of the gradients: of queries, or of keys and of values
    strides: tuple[tuple[int, int, int], ...]
    groups: int
    width: int  # rows of a tile that goes by

    @property
    def tile(self) -> int:
        return 64 * self.groups

    @property
    def threads(self) -> int:
        return 128 * (self.groups + 1)

    @property
    def blocks(self) -> int:
        extent, heads = (self.columns, self.shared) if self.by_columns else (self.rows, self.heads)
        return -(-extent // self.tile) * heads * self.batch

    @property
    def bytes(self) -> int:
        tiles = 2 * self.depth * (2 * self.tile + 2 * STAGES * self.width)
        return tiles + STAGES * 8 * self.width + 1024 + 128


class _Kernel(Kernel):
    """A kernel of the backward pass while it is written."""

    stages = STAGES
    names = ("full", "free")

    def layout(self) -> None:
        w, s = self.w, self.s
        self.size = 2 * s.depth * s.width
        self.own = [w.made("b32", "and.b32", w.add(w.room(), 1023), -1024)]
        self.own.append(w.add(self.own[0], 2 * s.depth * s.tile))
        self.passing = [w.add(self.own[1], 2 * s.depth * s.tile)]
        self.passing.append(w.add(self.passing[0], STAGES * self.size))
        self.lines = w.add(self.passing[1], STAGES * self.size)
        self.bars = w.add(self.lines, STAGES * 8 * s.width)

    def place(self) -> None:
        """What rows a block owns, and which tiles go by."""
        w, s = self.w, self.s
        extent, heads = (s.columns, s.shared) if s.by_columns else (s.rows, s.heads)
        group = s.heads // s.shared
        count = -(-extent // s.tile)
        block = w.made("b32", "mov.u32", "%ctaid.x")
        tile = w.made("b32", "rem.u32", block, count)
        rest = w.made("b32", "div.u32", block, count)
        self.head = w.made("b32", "rem.u32", rest, heads)
        self.batch = w.made("b32", "div.u32", rest, heads)
        if not s.by_columns:  # the last rows see most
            tile = w.made("b32", "sub.s32", count - 1, tile)
        self.first = w.mul(tile, s.tile)
        other = s.rows if s.by_columns else s.columns
        all_steps = -(-other // s.width)
        self.begin = w.made("b32", "mov.u32", 0)
        self.per = w.made("b32", "mov.u32", all_steps)
        if s.shift is not None and s.by_columns:
            seen = w.made("b32", "max.s32", w.add(self.first, -s.shift), 0)
            begin = w.made("b32", "div.u32", seen, s.width)
            # one at least, so that no block has nothing to do
            self.begin = w.made("b32", "min.s32", begin, all_steps - 1)
            self.per = w.made("b32", "sub.s32", all_steps, self.begin)
        elif s.shift is not None:
            last = w.add(self.first, s.tile - 1 + s.shift)
            seen = w.add(w.made("b32", "div.u32", last, s.width), 1)
            self.per = w.made("b32", "min.s32", seen, all_steps)
        self.steps = w.mul(self.per, group) if s.by_columns else self.per
        self.sharing = group  # heads of queries that share keys

    # --- the warp that fetches --------------------------------------------------------------------

    def produce(self) -> None:
        w, s = self.w, self.s
        end = w.label()
        w.go(end, w.compare("ne", self.thread, 0))
        maps = [w.map(i) for i in range(4)]  # two that are owned, two that go by
        numbers = w.number(0)
        panels = range(s.depth // PANEL)
        w.expect(self.bars, 4 * s.depth * s.tile)
        for i in range(2):
            for p in panels:
                at = (self.first, self.head, self.batch)
                w.fetch(self.own[i], p, s.tile, maps[i], at, self.bars)
        j = w.made("b32", "mov.u32", 0)
        step, head = w.made("b32", "mov.u32", self.begin), w.new("b32")
        if s.by_columns:
            w.do("mul.lo.s32", head, self.head, self.sharing)
        else:
            w.do("div.u32", head, self.head, self.sharing)
        again = w.label()
        w.here(again)
        stage, phase = self.stage(j), self.free_phase(j)
        full = self.staged("full", stage)
        w.wait(self.staged("free", stage), phase)
        w.expect(full, 2 * self.size + (8 * s.width if s.by_columns else 0))
        row = w.mul(step, s.width)
        for i in range(2):
            to = w.made("b32", "mad.lo.s32", stage, self.size, self.passing[i])
            for p in panels:
                w.fetch(to, p, s.width, maps[2 + i], (row, head, self.batch), full)
        if s.by_columns:
            line = w.made("b32", "mad.lo.s32", self.batch, s.heads, head)
            line = w.made("b32", "mad.lo.s32", line, s.padded, row)
            source = w.made("b64", "mad.wide.u32", line, 4, numbers)
            to = w.made("b32", "mad.lo.s32", stage, 8 * s.width, self.lines)
            for i in range(2):
                far = 4 * s.batch * s.heads * s.padded * i
                w.copy(
                    w.add(to, 4 * s.width * i),
                    w.made("b64", "add.s64", source, far),
                    4 * s.width,
                    full,
                )
        w.do("add.s32", j, j, 1)
        w.do("add.s32", step, step, 1)
        if s.by_columns and self.sharing > 1:  # the next head of queries
            over = w.compare("ge", step, w.made("b32", "add.s32", self.begin, self.per))
            with w.when(over):
                w.do("mov.u32", step, self.begin)
                w.do("add.s32", head, head, 1)
        w.go(again, w.compare("lt", j, self.steps))
        w.here(end)

    # --- the groups that compute ------------------------------------------------------------------

    def consume(self) -> None:
        w, s = self.w, self.s
        self.find_rows()
        self.group_first = w.made("b32", "mad.lo.s32", self.group, 64, self.first)
        self.no = self.never()
        self.scores, self.changes = (w.several("f32", s.width // 2) for _ in range(2))
        self.sums = [w.several("f32", s.depth // 2) for _ in s.strides]
        self.packed = w.several("b32", s.width // 4)
        own = [w.made("b32", "mad.lo.s32", self.group, 64 * 128, x) for x in self.own]
        self.described = [w.described(x) for x in own]
        if not s.by_columns:
            self.numbers_of_rows()
        w.wait(self.bars, w.made("b32", "mov.u32", 0))
        j = w.made("b32", "mov.u32", 0)
        self.at = w.mul(self.begin, s.width)  # the first row of the tile that goes by
        end_of_head = w.mul(w.made("b32", "add.s32", self.begin, self.per), s.width)
        start_of_head = w.mul(self.begin, s.width)
        before = w.made("b32", "mov.u32", 0)
        again = w.label()
        w.here(again)
        stage = self.stage(j)
        w.wait(self.staged("full", stage), self.phase(j))
        tiles = [w.made("b32", "mad.lo.s32", stage, self.size, x) for x in self.passing]
        for out, own_, tile in zip((self.scores, self.changes), self.described, tiles, strict=True):
            self.product(out, own_, w.described(tile), self.no)
            w.commit()
        w.settle(1)
        with w.when(w.compare("gt", j, 0)):
            self.release("free", before)
        w.do("mov.u32", before, stage)
        self.weigh(stage)
        if s.by_columns:
            self.pack(self.packed, self.scores)
            self.accumulate(self.sums[1], self.packed, tiles[1])
            w.commit()
        w.settle(0)
        self.change(stage)
        self.pack(self.packed, self.changes)
        self.accumulate(self.sums[0], self.packed, tiles[0])
        w.commit()
        w.do("setp.eq.u32", self.more, self.lane, self.lane)
        w.do("add.s32", j, j, 1)
        w.do("add.s32", self.at, self.at, s.width)
        if s.by_columns and self.sharing > 1:
            over = w.compare("ge", self.at, end_of_head)
            w.do("selp.b32", self.at, start_of_head, self.at, over)
        w.go(again, w.compare("lt", j, self.steps))
        w.settle(0)
        self.finish()

    def numbers_of_rows(self) -> None:
        """By rows: the two numbers of each of a thread's two rows."""
        w, s = self.w, self.s
        line = w.made("b32", "mad.lo.s32", self.batch, s.heads, self.head)
        line = w.made("b32", "mad.lo.s32", line, s.padded, self.row)
        place = w.made("b64", "mad.wide.u32", line, 4, w.number(0))
        far = 4 * s.batch * s.heads * s.padded
        self.logs, self.products = (
            [w.made("f32", "ld.global.f32", f"[{place}+{far * i + 32 * half}]") for half in (0, 1)]
            for i in (0, 1)
        )

    def lines_of(self, stage: str, which: int) -> str:
        """By columns: where a tile's numbers are, from a thread's first on."""
        w, s = self.w, self.s
        at = w.made("b32", "mad.lo.s32", stage, 8 * s.width, self.lines)
        return w.made("b32", "mad.lo.s32", self.pair, 4, w.add(at, 4 * s.width * which))

    def pairs(self, stage: str, which: int) -> Iterator[list[str]]:
        """The numbers, of one kind, of each score of a group of eight: four for each group."""
        w, s = self.w, self.s
        count = s.width // 8
        if not s.by_columns:
            low, high = (self.logs, self.products)[which]
            yield from [[low, low, high, high]] * count
            return
        at = self.lines_of(stage, which)
        for n in range(count):
            x, y = w.several("f32", 2)
            w.do("ld.shared.v2.f32", f"{{{x}, {y}}}", f"[{at}+{32 * n}]")
            yield [x, y, x, y]

    def weigh(self, stage: str) -> None:
        """Scores as weights; 0 where a row doesn't see a column."""
        w, s = self.w, self.s
        scale = float_word(s.scale * 1.4426950408889634)
        for n, logs in enumerate(self.pairs(stage, 0)):
            for i, log in enumerate(logs):
                x = self.scores[4 * n + i]
                minus = w.made("f32", "neg.f32", log)
                w.do("fma.rn.f32", x, x, scale, minus)
                w.do("ex2.approx.ftz.f32", x, x)
        if s.shift is None:
            return
        if s.by_columns:  # hidden: column > row + shift, columns are owned
            last = w.add(self.group_first, 63 - s.shift)
            some = w.compare("lt", self.at, last)
        else:
            end = w.add(self.at, s.width - 1)
            some = w.compare("gt", end, w.add(self.group_first, s.shift))
        with w.when(some):
            start = w.add(self.at, self.pair)
            for half in range(2):
                limit = w.add(self.row, 8 * half + (-s.shift if s.by_columns else s.shift))
                limit = w.made("b32", "sub.s32", limit, start)
                how = "gt" if s.by_columns else "lt"
                self.hide_beyond(limit, how, half, self.scores, "0f00000000")

    def change(self, stage: str) -> None:
        """The changes of scores, from those of weights."""
        w = self.w
        for n, products in enumerate(self.pairs(stage, 1)):
            for i, product in enumerate(products):
                x = self.changes[4 * n + i]
                w.do("sub.f32", x, x, product)
                w.do("mul.f32", x, x, self.scores[4 * n + i])

    def finish(self) -> None:
        w, s = self.w, self.s
        extent = s.columns if s.by_columns else s.rows
        for number, (sums, strides) in enumerate(zip(self.sums, s.strides, strict=True)):
            batch, head, row = strides
            out = w.number(1 + number)
            scale = float_word(s.scale if number == 0 else 1.0)
            for half in range(2):
                at = w.add(self.row, 8 * half)
                with w.when(w.compare("lt", at, extent)):
                    place = w.made("b64", "mad.wide.u32", self.batch, 2 * batch, out)
                    for register, stride in ((self.head, head), (at, row), (self.pair, 1)):
                        place = w.made("b64", "mad.wide.u32", register, 2 * stride, place)
                    self.store(place, sums, half, scale)


def backward_text(s: Backward) -> str:
    return _Kernel(s, 4, 1 + len(s.strides)).text()
