"""Attention's forward pass for Hopper GPUs, as PTX.

A block has 64 rows of queries for each of its groups of four warps, and one warp that fetches tiles
of keys and values. While a group turns scores into weights, the tensor cores multiply the weights
before by their values, and other groups' products (Shah et al. 2024, FlashAttention-3).
"""

from __future__ import annotations

import math

from weft.backends.cuda.routines.hopper.kernel import Kernel
from weft.backends.cuda.routines.hopper.ptx import PANEL, float_word
from weft.base.record import Record

LEAST = "0fFEC00000"  # -3 * 2**125, below every score
STAGES = 2


class Forward(Record):
    """A forward pass: sizes, scale times log2(e), and how many groups share a block."""

    kind: str  # bf16 or f16
    depth: int
    batch: int
    heads: int
    shared: int
    rows: int
    columns: int
    shift: int | None
    scale: float
    out_strides: tuple[int, int, int]
    groups: int
    width: int  # columns of a tile

    @property
    def tile(self) -> int:
        return 64 * self.groups

    @property
    def threads(self) -> int:
        return 128 * (self.groups + 1)

    @property
    def blocks(self) -> int:
        return -(-self.rows // self.tile) * self.heads * self.batch

    @property
    def bytes(self) -> int:
        return 2 * self.depth * (self.tile + 2 * STAGES * self.width) + 1024 + 128


class _Kernel(Kernel):
    """The forward pass while it is written."""

    stages = STAGES
    names = ("k_full", "v_full", "k_free", "v_free")

    def layout(self) -> None:
        w, s = self.w, self.s
        base = w.made("b32", "and.b32", w.add(w.room(), 1023), -1024)
        self.q = base
        size = 2 * s.depth * s.width
        self.k = w.add(base, 2 * s.depth * s.tile)
        self.v = w.add(self.k, STAGES * size)
        self.bars = w.add(self.v, STAGES * size)
        self.size = size

    def place(self) -> None:
        """Which rows, head and batch a block has, and how many tiles of columns they see."""
        w, s = self.w, self.s
        block = w.made("b32", "mov.u32", "%ctaid.x")
        count = -(-s.rows // s.tile)
        tile = w.made("b32", "rem.u32", block, count)
        tile = w.made("b32", "sub.s32", count - 1, tile)
        rest = w.made("b32", "div.u32", block, count)
        self.head = w.made("b32", "rem.u32", rest, s.heads)
        self.batch = w.made("b32", "div.u32", rest, s.heads)
        self.shared = w.made("b32", "div.u32", self.head, s.heads // s.shared)
        self.first = w.mul(tile, s.tile)
        steps = -(-s.columns // s.width)
        self.steps = w.made("b32", "mov.u32", steps)
        if s.shift is not None:
            last = w.add(self.first, s.tile - 1 + s.shift)
            seen = w.add(w.made("b32", "div.u32", last, s.width), 1)
            self.steps = w.made("b32", "min.s32", seen, steps)

    # --- the warp that fetches --------------------------------------------------------------------

    def produce(self) -> None:
        w, s = self.w, self.s
        end = w.label()
        other = w.compare("ne", self.thread, 0)
        w.go(end, other)
        maps = [w.map(i) for i in range(3)]
        panels = s.depth // PANEL
        w.expect(self.bars, 2 * s.depth * s.tile)
        for p in range(panels):
            at = (self.first, self.head, self.batch)
            w.fetch(self.q, p, s.tile, maps[0], at, self.bars)
        j, row = w.made("b32", "mov.u32", 0), w.made("b32", "mov.u32", 0)
        again = w.label()
        w.here(again)
        stage, phase = self.stage(j), self.free_phase(j)
        for name, tiles, m in (("k", self.k, maps[1]), ("v", self.v, maps[2])):
            full = self.staged(f"{name}_full", stage)
            w.wait(self.staged(f"{name}_free", stage), phase)
            w.expect(full, self.size)
            to = w.made("b32", "mad.lo.s32", stage, self.size, tiles)
            for p in range(panels):
                w.fetch(to, p, s.width, m, (row, self.shared, self.batch), full)
        w.do("add.s32", j, j, 1)
        w.do("add.s32", row, row, s.width)
        w.go(again, w.compare("lt", j, self.steps))
        w.here(end)

    # --- the groups that compute ------------------------------------------------------------------

    def consume(self) -> None:
        w, s = self.w, self.s
        self.find_rows()
        self.scores = w.several("f32", s.width // 2)
        self.sums = w.several("f32", s.depth // 2)
        self.weights = w.several("b32", s.width // 4)
        self.most = [w.made("f32", "mov.f32", LEAST) for _ in range(2)]
        self.total = [w.made("f32", "mov.f32", "0f00000000") for _ in range(2)]
        own = w.made("b32", "mad.lo.s32", self.group, 64 * 128, self.q)
        self.queries = w.described(own)
        self.own_turn = w.add(self.group, 1)
        following = w.compare("eq", self.group, s.groups - 1)
        self.next_turn = w.made("b32", "selp.b32", 1, w.add(self.group, 2), following)
        with w.when(following):  # the first group begins
            w.do("bar.arrive", self.next_turn, 256)
        zero = w.made("b32", "mov.u32", 0)
        w.wait(self.bars, zero)

        j = w.made("b32", "mov.u32", 0)
        self.column = w.made("b32", "mov.u32", 0)
        self.turn_begins()
        self.product_of_scores(zero, zero)
        w.commit()
        self.turn_ends()
        w.settle(0)
        self.release("k_free", zero)
        self.hide()
        self.soften(first=True)
        self.pack(self.weights, self.scores)
        w.do("add.s32", j, j, 1)
        w.do("add.s32", self.column, self.column, s.width)
        again, done = w.label(), w.label()
        w.go(done, w.compare("ge", j, self.steps))
        w.here(again)
        stage = self.stage(j)
        phase = self.phase(j)
        before = w.add(j, -1)
        stage_before = self.stage(before)
        phase_before = self.phase(before)
        w.wait(self.staged("k_full", stage), phase)
        self.turn_begins()
        self.product_of_scores(stage, None)
        w.commit()
        w.wait(self.staged("v_full", stage_before), phase_before)
        self.product_of_values(stage_before)
        w.commit()
        self.turn_ends()
        w.settle(1)
        self.release("k_free", stage)
        self.hide()
        scales = self.soften(first=False)
        w.settle(0)
        self.release("v_free", stage_before)
        for i, x in enumerate(self.sums):
            w.do("mul.f32", x, x, scales[i // 2 % 2])
        self.pack(self.weights, self.scores)
        w.do("add.s32", j, j, 1)
        w.do("add.s32", self.column, self.column, s.width)
        w.go(again, w.compare("lt", j, self.steps))
        w.here(done)
        before = w.add(j, -1)
        stage = self.stage(before)
        w.wait(self.staged("v_full", stage), self.phase(before))
        self.product_of_values(stage)
        w.commit()
        w.settle(0)
        self.finish()

    def turn_begins(self) -> None:
        self.w.do("bar.sync", self.own_turn, 256)

    def turn_ends(self) -> None:
        self.w.do("bar.arrive", self.next_turn, 256)

    def product_of_scores(self, stage: str, first_phase: str | None) -> None:
        w = self.w
        if first_phase is not None:
            w.wait(self.staged("k_full", stage), first_phase)
        keys = w.described(w.made("b32", "mad.lo.s32", stage, self.size, self.k))
        self.product(self.scores, self.queries, keys, self.never())

    def product_of_values(self, stage: str) -> None:
        w = self.w
        at = w.made("b32", "mad.lo.s32", stage, self.size, self.v)
        self.accumulate(self.sums, self.weights, at)
        w.do("setp.eq.u32", self.more, self.lane, self.lane)

    def hide(self) -> None:
        """Give scores that a row doesn't see the least weight."""
        w, s = self.w, self.s
        end = w.add(self.column, s.width)
        some = w.compare("gt", end, s.columns)
        if s.shift is not None:
            # the first row of the group of warps
            first = w.made("b32", "mad.lo.s32", self.group, 64, self.first)
            cut = w.compare("gt", end, w.add(first, s.shift + 1))
            some = w.made("pred", "or.pred", some, cut)
        with w.when(some):
            start = w.add(self.column, self.pair)
            for half in range(2):
                limit = w.made("b32", "mov.u32", s.columns - 1)
                if s.shift is not None:
                    seen = w.add(self.row, 8 * half + s.shift)
                    limit = w.made("b32", "min.s32", limit, seen)
                limit = w.made("b32", "sub.s32", limit, start)
                self.hide_beyond(limit, "lt", half, self.scores, LEAST)

    def soften(self, first: bool) -> list[str]:
        """Scores as weights; what earlier sums are to be multiplied by."""
        w, s = self.w, self.s
        scale = float_word(s.scale)
        scales = []
        for half in range(2):
            own = [x for i, x in enumerate(self.scores) if i // 2 % 2 == half]
            parts = list(own)
            while len(parts) > 1:  # a tree, so that they don't wait for each other
                parts = [
                    w.made("f32", "max.f32", parts[i], parts[i + 1])
                    for i in range(0, len(parts), 2)
                ]
            most = w.made("f32", "max.f32", parts[0], self.most[half])
            for step in (1, 2):
                there = w.made("b32", "shfl.sync.bfly.b32", f"{self._bits(most)}", step, 31, -1)
                value = w.made("f32", "mov.b32", there)
                most = w.made("f32", "max.f32", most, value)
            shift = w.made("f32", "mul.f32", most, scale)
            shift = w.made("f32", "neg.f32", shift)
            if not first:
                gone = w.made("f32", "fma.rn.f32", self.most[half], scale, shift)
                scales.append(w.made("f32", "ex2.approx.ftz.f32", gone))
            w.do("mov.f32", self.most[half], most)
            for x in own:
                w.do("fma.rn.f32", x, x, scale, shift)
                w.do("ex2.approx.ftz.f32", x, x)
            parts = list(own)
            while len(parts) > 1:
                parts = [
                    w.made("f32", "add.f32", parts[i], parts[i + 1])
                    for i in range(0, len(parts), 2)
                ]
            if first:
                w.do("mov.f32", self.total[half], parts[0])
            else:
                w.do("fma.rn.f32", self.total[half], self.total[half], scales[half], parts[0])
        return scales

    def _bits(self, x: str) -> str:
        return self.w.made("b32", "mov.b32", x)

    def finish(self) -> None:
        """Divide by the sums of weights, store results and logarithms."""
        w, s = self.w, self.s
        batch, head, row = s.out_strides
        out, stats = w.number(0), w.number(1)
        for half in range(2):
            total = self.total[half]
            for step in (1, 2):
                there = w.made("b32", "shfl.sync.bfly.b32", self._bits(total), step, 31, -1)
                total = w.made("f32", "add.f32", total, w.made("f32", "mov.b32", there))
            inverse = w.made("f32", "rcp.approx.ftz.f32", total)
            at = w.add(self.row, 8 * half)
            with w.when(w.compare("lt", at, s.rows)):
                place = w.made("b64", "mul.wide.u32", self.batch, 2 * batch)
                place = w.made("b64", "add.s64", place, out)
                for register, stride in ((self.head, head), (at, row), (self.pair, 1)):
                    step_ = w.made("b64", "mul.wide.u32", register, 2 * stride)
                    place = w.made("b64", "add.s64", place, step_)
                self.store(place, self.sums, half, inverse)
                with w.when(w.compare("eq", self.pair, 0)):
                    line = w.made("b32", "mad.lo.s32", self.batch, s.heads, self.head)
                    line = w.made("b32", "mad.lo.s32", line, s.rows, at)
                    place = w.made("b64", "mul.wide.u32", line, 4)
                    place = w.made("b64", "add.s64", place, stats)
                    log = w.made("f32", "lg2.approx.ftz.f32", total)
                    value = w.made("f32", "fma.rn.f32", self.most[half], float_word(s.scale), log)
                    value = w.made("f32", "mul.f32", value, float_word(math.log(2)))
                    w.do("st.global.f32", f"[{place}]", value)


def forward_text(s: Forward) -> str:
    return _Kernel(s, 3, 2).text()
