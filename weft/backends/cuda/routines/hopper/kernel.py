"""What kernels of attention for Hopper GPUs have in common: a warp that fetches tiles, and groups
of four warps that compute with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.backends.cuda.routines.hopper.ptx import Writer, column_step, row_step


class Kernel:
    """A kernel while it is written. ``s`` has its sizes, ``stages`` are tiles that may be on their
    way, ``names`` barriers of each stage: a tile has come, or is needed no more."""

    stages: int
    names: tuple[str, ...]
    bars: str  # the address of the barriers: what the block owns has come, then those of stages
    first: str  # the first row that the block owns

    def __init__(self, s: Any, maps: int, numbers: int) -> None:
        self.s = s
        self.w = Writer("kernel", maps, numbers, s.threads)

    def layout(self) -> None:
        """Where things are in shared memory."""
        raise NotImplementedError

    def place(self) -> None:
        """What rows a block owns, and which tiles go by."""
        raise NotImplementedError

    def produce(self) -> None:
        """What the warp does that fetches."""
        raise NotImplementedError

    def consume(self) -> None:
        """What the groups do that compute."""
        raise NotImplementedError

    def text(self) -> str:
        w, s = self.w, self.s
        self.thread = w.made("b32", "mov.u32", "%tid.x")
        self.layout()
        self.place()
        with w.when(w.compare("eq", self.thread, 0)):
            bars = [(self.bars, 1)]
            for n, name in enumerate(self.names):
                count = 1 if name.endswith("full") else 4 * s.groups
                places = [8 + 8 * (n * self.stages + i) for i in range(self.stages)]
                bars += [(w.add(self.bars, at), count) for at in places]
            w.start_barriers(bars)
        w.lines.append("  bar.sync 0;")
        consume, end = w.label(), w.label()
        w.go(consume, w.compare("ge", self.thread, 128))
        w.give_registers(s.groups)
        self.produce()
        w.go(end)
        w.here(consume)
        w.take_registers(s.groups)
        self.consume()
        w.here(end)
        return w.text()

    # --- stages -----------------------------------------------------------------------------------

    def staged(self, name: str, stage: str) -> str:
        """The address of a barrier whose stage is in a register."""
        w, at = self.w, 8 + 8 * self.names.index(name) * self.stages
        return w.add(w.made("b32", "mad.lo.s32", stage, 8, self.bars), at)

    def stage(self, j: str) -> str:
        return self.w.made("b32", "and.b32", j, self.stages - 1)

    def turn(self, j: str) -> str:
        """How often all stages were used before."""
        return self.w.made("b32", "shr.u32", j, self.stages.bit_length() - 1)

    def phase(self, j: str) -> str:
        return self.w.made("b32", "and.b32", self.turn(j), 1)

    def free_phase(self, j: str) -> str:
        """The phase of a barrier that says that a tile is needed no more."""
        w = self.w
        return w.made("b32", "and.b32", w.made("b32", "xor.b32", self.turn(j), 1), 1)

    def release(self, name: str, stage: str) -> None:
        """A warp doesn't need a tile any more."""
        with self.w.when(self.leads):
            self.w.arrive(self.staged(name, stage))

    # --- groups -----------------------------------------------------------------------------------

    def find_rows(self) -> None:
        """Which group a thread is of, and its first row and pair of columns."""
        w = self.w
        self.group = w.add(w.made("b32", "shr.u32", self.thread, 7), -1)
        self.lane = w.made("b32", "and.b32", self.thread, 31)
        self.leads = w.compare("eq", self.lane, 0)
        warp = w.made("b32", "and.b32", w.made("b32", "shr.u32", self.thread, 5), 3)
        inside = w.made("b32", "mad.lo.s32", self.group, 64, w.mul(warp, 16))
        inside = w.add(inside, w.made("b32", "shr.u32", self.lane, 2))
        self.row = w.add(self.first, inside)
        self.pair = w.mul(w.made("b32", "and.b32", self.lane, 3), 2)
        self.yes = w.made("pred", "setp.eq.u32", self.lane, self.lane)
        self.more = self.never()  # whether there are sums already

    def never(self) -> str:
        return self.w.made("pred", "setp.ne.u32", self.lane, self.lane)

    def product(self, out: Sequence[str], a: str, b: str, no: str) -> None:
        """The product of owned rows and those of a tile, both described."""
        w, s = self.w, self.s
        w.fence()
        for k in range(s.depth // 16):
            left = w.made("b64", "add.s64", a, row_step(k, s.tile))
            right = w.made("b64", "add.s64", b, row_step(k, s.width))
            w.multiply(s.kind, out, left, right, more=self.yes if k else no)

    def accumulate(self, out: Sequence[str], a: Sequence[str], tile: str) -> None:
        """Add the product of weights and the rows of a tile."""
        w, s = self.w, self.s
        right = w.described(tile, s.width * 128)
        w.fence()
        for k in range(s.width // 16):
            b = w.made("b64", "add.s64", right, column_step(k))
            more = self.yes if k else self.more
            w.multiply(s.kind, out, a[4 * k : 4 * k + 4], b, more=more, b_across=1)

    def pack(self, out: Sequence[str], values: Sequence[str]) -> None:
        for i, word in enumerate(out):
            self.w.do(f"cvt.rn.{self.s.kind}x2.f32", word, values[2 * i + 1], values[2 * i])

    def hide_beyond(self, limit: str, how: str, half: int, scores: Sequence[str], x: str) -> None:
        """Replace scores whose column compares so with a limit, of one of a thread's two rows."""
        w = self.w
        for n in range(self.s.width // 8):
            for i in range(2):
                score = scores[4 * n + 2 * half + i]
                w.do("selp.f32", score, x, score, w.compare(how, limit, 8 * n + i))

    def store(self, place: str, sums: Sequence[str], half: int, factor: str) -> None:
        """Store one of a thread's two rows of sums times a factor."""
        w, s = self.w, self.s
        for n in range(s.depth // 8):
            own = sums[4 * n + 2 * half : 4 * n + 2 * half + 2]
            low, high = (w.made("f32", "mul.f32", x, factor) for x in own)
            word = w.made("b32", f"cvt.rn.{s.kind}x2.f32", high, low)
            w.do("st.global.b32", f"[{place}+{16 * n}]", word)
