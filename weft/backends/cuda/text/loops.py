"""The text of a kernel that runs a whole loop.

Kernels of its rounds are functions that become part of it; barriers stand where one item needs what
another has written. Pointers of slots are variables, so that views may move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.backends.cuda.groups import MAX_PARAMETERS, Access, SameMemory
from weft.backends.cuda.loops import Grid, Moved, Multiply, Part, Region, Unfit, items_of, tile_of
from weft.backends.cuda.ptx import GpuModule, giving, group, room
from weft.backends.cuda.routines.stubs import loop_stubs as stubs
from weft.backends.cuda.schedule import Schedule
from weft.backends.cuda.text.launch import Launch
from weft.backends.cuda.text.render import SerialText
from weft.backends.cuda.text.threads import Threads, inlined
from weft.backends.llvm.code import Call, Function, Module, parameters
from weft.backends.llvm.text.instructions import memory_type
from weft.base.record import Record
from weft.kernel.kinds import f32, f64
from weft.kernel.nodes import BF16, F16, F64
from weft.kernel.program import For, Point, Swap, While
from weft.kernel.spec import verify

# Bytes of shared memory of a block, of GPUs that have it, that sides of products may stay in.
MOST_KEPT = 100 << 10
# Bytes of it that are left for what isn't known yet, where a side has more.
RESERVED = 4 << 10
# Bytes of it that a module may declare; a launch can give it more.
MOST_FIXED = 40 << 10
# Bytes of a chunk of both sides of a product.
MOST_CHUNK = 96 << 10
_NARROW = {BF16: 1, F16: 2}
# Elements that a thread reads before it writes them to shared memory; in compact texts.
_BATCHED, _FEW_BATCHED = 8, 2
# Rounds of loops that have a compact text at most: one takes microseconds more with it.
MAX_COMPACT_ROUNDS = 4096
# Words that say where the sides of a product and its sums are in shared memory.
_ROOMS = ("left_room", "right_room", "sums_room")


class Text(Record):
    """A module, the slots that its parameters are, the bytes of shared memory that a launch gives
    it, how many barriers a round has, and whether there are products in it."""

    module: GpuModule
    slots: tuple[int, ...]
    dynamic: int
    barriers: int
    multiplies: bool


class _Function(Threads):
    """A kernel as a function: of its buffers, the number of a thread, a warp's lane, and an
    iteration."""

    written_out = False  # instructions, so that tests can compile it for the host
    again = True
    numbers = parameters("i64", "thread", "number")

    def __init__(self, schedule: Schedule, mode: str, threads: int) -> None:
        super().__init__(schedule)
        self.mode, self.all_threads = mode, threads

    def write(self, block: str) -> None:
        verify(self.kernel)
        self._rows_of_scratch()
        self.tid = "%thread"
        self._run("%number")
        self.line("ret void")

    def _row(self, i: int, b: Any) -> None:
        if self.mode != "warps":
            super()._row(i, b)
            return
        kind, warps = memory_type(b.dtype), self.all_threads // 32
        name = self.share(f"{self.prefix}row{i}", warps * b.size, kind)
        thread = self.call_function("thread", (), "i64")
        warp = self.emit(f"lshr i64 {thread}, 5")
        at = self.emit(f"mul i64 {warp}, {b.size}")
        place = self.emit(f"getelementptr {kind}, ptr addrspace(3) {name}, i64 {at}")
        self.line(f"%b{i} = addrspacecast ptr addrspace(3) {place} to ptr")

    def _barrier(self) -> None:
        self.call_function("warp_barrier" if self.mode == "warps" else "meet", ())

    _meet = _barrier

    def _exchanged(self, word: str, distance: int) -> str:
        return self.call_function("shuffle_xor_u32", [f"i32 {word}", f"i32 {distance}"], "i32")

    def to_bfloat(self, x: str) -> str:
        return self.call_function("bf16_of_f32", [f"float {x}"], "i16")


class _SerialFunction(_Function, SerialText):
    """The same for a kernel whose threads each run one iteration of the grid."""


class Writer(Launch):
    """The kernel of a loop, or of kernels that follow each other, while it is written.

    A block has ``most_shared`` bytes of shared memory. ``compact`` asks for few instructions, for
    first calls. ``large`` is whether a side of a product may stay in most of the shared memory.
    """

    def __init__(
        self,
        grid: Grid,
        same_memory: SameMemory,
        state: int,
        most_shared: int,
        compact: bool = False,
        large: bool = True,
    ) -> None:
        super().__init__(grid, same_memory, state)
        self.compact = compact
        self.large, self.has_large = large, False
        self.blocks, self.threads = grid.blocks, grid.threads
        self.most_shared = most_shared
        self.before: list[str] = []  # what is done once, before the loop
        self.names: dict[Any, str] = {}
        self.origin, self.last = -1, 0  # the kernel of the last part, and where its threads end
        self.rooms: dict[str, int] = {}  # places in shared memory
        self.fixed = 0  # bytes of shared memory of the functions
        self.kept = 0  # bytes of shared memory that are in use throughout
        self.shared = 0  # and of that which products use in turn
        self.changed: set[int] = set()  # slots that rounds write, or that move
        self.loop_start = 0  # the first line of the loop that ends it
        self.starts: list[int] = []  # slots of which it is known where they began

    def pointer(self, slot: int) -> str:
        self.slots[slot] = None
        return self.emit(f"load ptr, ptr %s{slot}")

    # --- items ------------------------------------------------------------------------------------

    def region(self, items: Sequence[Any]) -> None:
        position = 0
        while position < len(items):
            item = items[position]
            position += 1
            if isinstance(item, Part):
                self.part(item)
            elif isinstance(item, Multiply):
                position += self.multiply(item, items[position:])
            elif isinstance(item, Moved):
                self.begin(item.accesses)
                target, source = self.pointer(item.node.target), self.pointer(item.node.source)
                self.copy(target, source, item.node.size)
            elif isinstance(item, Point):
                if any(a.slot == item.view for a, _, _ in self.pending):
                    self.barrier()
                base = self.pointer(item.base)
                self.slots[item.view] = None
                self.line(f"store ptr {base}, ptr %s{item.view}")
            elif isinstance(item, Swap):
                self.swap(item)
            elif isinstance(item.node, For):
                self.repeat(item)
            elif isinstance(item.node, While):
                self.repeat_while(item)
            else:
                self.branch(item)

    def swap(self, item: Swap) -> None:
        first, second = self.pointer(item.first), self.pointer(item.second)
        self.line(f"store ptr {second}, ptr %s{item.first}")
        self.line(f"store ptr {first}, ptr %s{item.second}")
        other = {item.first: item.second, item.second: item.first}
        self.pending = [
            (a._replace(slot=other.get(a.slot, a.slot)), *more) for a, *more in self.pending
        ]

    def copy(self, target: str, source: str, size: int) -> None:
        self.stub(stubs.copy_bytes, {})
        self.call_function("copy_bytes", [f"ptr {target}", f"ptr {source}", f"i64 {size}"])

    def part(self, item: Part) -> None:
        item = item._replace(schedule=item.fitted(self.grid))
        mode, iterations = item.mode, item.schedule.iterations
        total = self.blocks * self.threads
        # parts that need nothing of each other begin at the threads where the one before ended
        first = self.last if item.schedule.apart and item.origin == self.origin else 0
        self.last, self.origin = (first + iterations) % total, item.origin
        key: Any = "all" if mode == "all" else None
        if mode == "threads":
            key = ("threads", iterations, first)
        self.begin(item.accesses, key, item.origin)
        name = self.function(item)
        given = [f"ptr {self.pointer(s)}" for s in item.slots]

        def run(thread: str, number: str) -> None:
            self.call_function(name, [*given, f"i64 {thread}", f"i64 {number}"])

        if mode == "all":
            run("%thread", "0")
        elif mode == "threads":
            begin = self.rotated(first, total)
            self.counted(begin, total, iterations, lambda n: run("%thread", n))
        elif mode == "warps":
            self.counted("%warp", total // 32, iterations, lambda n: run("%lane", n))
        else:
            self.counted("%block", self.blocks, iterations, lambda n: run("%thread", n))

    def rotated(self, first: int, total: int) -> str:
        """The number of a thread, counted from one of them on."""
        if not first:
            return "%everywhere"
        moved = self.emit(f"add i64 %everywhere, {total - first}")
        less = self.emit(f"sub i64 {moved}, {total}")
        over = self.emit(f"icmp sge i64 {moved}, {total}")
        return self.emit(f"select i1 {over}, i64 {less}, i64 {moved}")

    def function(self, item: Part) -> str:
        """The name of the function of a part, which the module then has."""
        key = item.schedule.key, item.mode
        if key not in self.names:
            made = item.schedule
            if item.mode == "block":
                made = made._replace(threads=self.threads)
            kind = _SerialFunction if made.kernel.serial else _Function
            text = kind(made, item.mode, self.threads)
            self.names[key] = f"part{len(self.names)}"
            self.add(self.names[key], text)
            self.fixed += text.shared_bytes
            if self.fixed > MOST_FIXED:
                raise Unfit("too much shared memory")
        return self.names[key]

    # --- products ---------------------------------------------------------------------------------

    def multiply(self, item: Multiply, later: Sequence[Any]) -> int:
        """A product, and the kernels after it that go on with its elements; how many of these."""
        key = ("product", len(self.modules))
        shape = item.shape
        left, right, out = item.slots
        accesses = (Access(left, False), Access(right, False), Access(out, True, True))
        self.begin(accesses, key)
        total = shape.batch * shape.rows * shape.columns
        followers: list[Part] = []
        for other in later:
            if not isinstance(other, Part) or other.mode != "threads":
                break
            if other.schedule.iterations != total or self.conflicts(other.accesses, key):
                break
            self.note(other.accesses, key)
            followers.append(other)
        tag = f"_{len(self.modules)}"
        self.modules.append(Module([self.followed(followers, tag)]))
        table = self.variable(f"[{max(1, sum(len(f.slots) for f in followers))} x ptr]")
        for i, slot in enumerate(s for f in followers for s in f.slots):
            place = self.emit(f"getelementptr ptr, ptr {table}, i64 {i}")
            self.line(f"store ptr {self.pointer(slot)}, ptr {place}")
        self.product(item, tag)
        given = [f"ptr {self.pointer(s)}" for s in item.slots]
        self.call_function(f"product{tag}", [*given, f"ptr {table}"])
        return len(followers)

    def followed(self, followers: Sequence[Part], tag: str) -> Function:
        """The function that goes on with an element of a product."""
        lines: list[str] = []
        place = 0
        for f in followers:
            given = []
            for _ in f.slots:
                lines.append(f"  %a{place} = getelementptr ptr, ptr %table, i64 {place}")
                lines.append(f"  %p{place} = load ptr, ptr %a{place}")
                given.append(f"ptr %p{place}")
                place += 1
            given += ["i64 0", "i64 %number"]
            lines.append(Call("  call void ", self.function(f), given))
        given_all = (*parameters("ptr", "table"), *parameters("i64", "number"))
        return inlined(f"follow{tag}", given_all, [*lines, "  ret void"])

    def product(self, item: Multiply, tag: str) -> None:
        """The functions of a product, with shared memory for its tiles."""
        shape = item.shape
        rows, columns, own = tile_of(shape, self.blocks, self.threads)[0]
        wide = item.dtype == F64
        width = 8 if wide else 4
        depth = -(-shape.depth // 4) * 4
        across, down = -(-shape.columns // columns), -(-shape.rows // rows)
        tiles = shape.batch * across * down
        most_units = self.threads // (rows // own * (columns // 4))

        def rooms(chunk: int) -> tuple[int, int, int]:
            """Bytes of a chunk of both sides, and of the sums of the units that share it."""
            sums = min(most_units, chunk // 4) * rows * columns * width
            return rows * (chunk + 4) * width, chunk * (columns + 4) * width, sums

        free = self.most_shared - self.kept - self.fixed - RESERVED
        room = min(MOST_CHUNK, free - most_units * rows * columns * width)
        chunk = min(depth, max(16, room // width // (rows + columns + 8) // 4 * 4))
        still = [tiles <= self.blocks and not self.changes(slot) for slot in item.slots[:2]]
        large = -1
        if self.large and chunk < depth and any(still):
            # one side may stay beside what products have in turn
            whole = rooms(depth)
            large = max((i for i in range(2) if still[i]), key=lambda i: whole[i])
            if whole[large] + max(self.shared, sum(whole) - whole[large]) > free:
                large = -1
        if large >= 0:
            self.has_large, chunk = True, depth
        left_size, right_size, sums = rooms(chunk)
        units = sums // (rows * columns * width)
        sizes = left_size, right_size
        kept = [False, False]
        places = [0, 0, 0]
        for i, size in enumerate(sizes):
            fits = large in (-1, i) and (large == i or self.kept + size < MOST_KEPT)
            if still[i] and chunk >= shape.depth and fits:
                kept[i], places[i] = True, self.kept
                self.kept += -(-size // 16) * 16
        used = 0
        for i, size in enumerate((*sizes, sums)):
            if i == 2 or not kept[i]:
                places[i] = -1 - used
                used += -(-size // 16) * 16
        self.shared = max(self.shared, used)
        names: dict[str, Any] = {
            "C": f64 if wide else f32,
            "WIDTH": width,
            "NARROW": _NARROW.get(item.dtype, 0),
            "NARROW_OUT": _NARROW.get(item.out_dtype, 0),
            "ROWS": shape.rows,
            "COLUMNS": shape.columns,
            "DEPTH": shape.depth,
            "LEFT_TRANSPOSED": int(shape.left_transposed),
            "RIGHT_TRANSPOSED": int(shape.right_transposed),
            "TILE_ROWS": rows,
            "TILE_COLUMNS": columns,
            "OWN_ROWS": own,
            "CHUNK": chunk,
            "UNITS": units,
            "THREADS": self.threads,
            "TILES": tiles,
            "ACROSS": across,
            "DOWN": down,
            "RAGGED_ROWS": int(shape.rows % rows > 0),
            "RAGGED_COLUMNS": int(shape.columns % columns > 0),
            "RAGGED_DEPTH": int(shape.depth % chunk > 0),
            "LEFT_KEPT": int(kept[0]),
            "RIGHT_KEPT": int(kept[1]),
            "BATCHED": _FEW_BATCHED if self.compact else _BATCHED,
            "ROLLED": units // 4 * 4 if self.compact else 0,
        }
        mains: list[Any] = [stubs.product]
        for i, stub in enumerate((stubs.keep_left, stubs.keep_right)):
            if kept[i]:
                mains.append(stub)
                self.slots[item.slots[i]] = None
                pointer = f"%k{len(self.before)}"
                self.before += [
                    f"  {pointer} = load ptr, ptr %s{item.slots[i]}",
                    Call("  call void ", f"{stub.__name__}{tag}", [f"ptr {pointer}"]),
                ]
        for main in mains:
            self.stub(main, names, tag, ("follow", *_ROOMS))
        self.rooms |= {f"{word}{tag}": n for word, n in zip(_ROOMS, places, strict=True)}

    def changes(self, slot: int) -> bool:
        """Whether rounds change what a slot holds, or where it points."""
        return any(self.same_memory(slot, s) for s in self.changed)

    # --- regions ----------------------------------------------------------------------------------

    def repeat(self, item: Region) -> None:
        node = item.node
        self.barrier()
        tag, at = self.fresh("l")[1:], self.variable("i64")
        first, last, step = (node.trips - 1, -1, -1) if node.reverse else (0, node.trips, 1)
        self.line(f"store i64 {first}, ptr {at}")
        self.line(f"br label %{tag}body")
        self.label(f"{tag}body")
        now = self.emit(f"load i64, ptr {at}")
        for view, base, size in node.slices:
            offset = self.emit(f"mul i64 {now}, {size}")
            place = self.emit(f"getelementptr i8, ptr {self.pointer(base)}, i64 {offset}")
            self.slots[view] = None
            self.line(f"store ptr {place}, ptr %s{view}")
        self.prefetch(item, now, last, step)
        self.region(item.regions[0])
        self.barrier()
        after = self.emit(f"add i64 {now}, {step}")
        self.line(f"store i64 {after}, ptr {at}")
        more = self.emit(f"icmp ne i64 {after}, {last}")
        self.line(f"br i1 {more}, label %{tag}body, label %{tag}end")
        self.label(f"{tag}end")

    def prefetch(self, item: Region, now: str, last: int, step: int) -> None:
        """Begin to load the slices that the next round reads, if there is one."""
        accesses = [a for x in items_of(item.regions[0]) for a in getattr(x, "accesses", ())]
        written = {a.slot for a in accesses if a.writes}
        read = {a.slot for a in accesses} - written
        most = 128 * self.blocks * self.threads
        slices = [x for x in item.node.slices if x[0] in read and 0 < x[2] <= most]
        if not slices:
            return
        self.stub(stubs.prefetch, {})
        after = self.emit(f"add i64 {now}, {step}")
        with self.when(self.emit(f"icmp ne i64 {after}, {last}")):
            for _, base, size in slices:
                offset = self.emit(f"mul i64 {after}, {size}")
                place = self.emit(f"getelementptr i8, ptr {self.pointer(base)}, i64 {offset}")
                self.call_function("prefetch", [f"ptr {place}", f"i64 {size}"])

    def repeat_while(self, item: Region) -> None:
        flag = item.node.flag
        self.barrier()
        tag = self.fresh("l")[1:]
        self.line(f"br label %{tag}head")
        self.label(f"{tag}head")
        self.region(item.regions[0])
        self.begin([Access(flag, False)])
        found = self.emit(f"load i8, ptr {self.pointer(flag)}")
        more = self.emit(f"icmp ne i8 {found}, 0")
        pending = self.pending
        self.line(f"br i1 {more}, label %{tag}body, label %{tag}end")
        self.label(f"{tag}body")
        self.region(item.regions[1])
        self.barrier()
        self.line(f"br label %{tag}head")
        self.label(f"{tag}end")
        self.pending = pending

    def branch(self, item: Region) -> None:
        node = item.node
        self.begin([Access(node.choice, False)])
        found = self.chosen(self.pointer(node.choice), node.size)
        self.barrier()

        def write(region: Any) -> None:
            self.region(region)
            self.barrier()

        self.switch(found, item.regions, write)

    # --- the whole --------------------------------------------------------------------------------

    def whole(self, items: Sequence[Any], sizes: Callable[[int], int], early: bool = False) -> Text:
        """The module of items that follow each other, of which only the last is a region. What a
        loop of unknown length leaves elsewhere is brought back to where its views pointed.
        ``early``: whether it waits by itself for the kernel before it."""
        self.region(items[:-1] if isinstance(items[-1], Region) else items)
        if isinstance(items[-1], Region):
            if len(items) > 1:
                self.barrier()
            self.loop(items[-1], sizes)
        return self.text(early)

    def loop(self, item: Region, sizes: Callable[[int], int]) -> None:
        """A loop that nothing follows."""
        for x in items_of([item]):
            if isinstance(x, Swap):
                self.changed |= {x.first, x.second}
            elif isinstance(x, Point):
                self.changed.add(x.view)
            elif isinstance(x, Region):
                if isinstance(x.node, For):
                    self.changed |= {view for view, _, _ in x.node.slices}
            else:
                self.changed |= {a.slot for a in x.accesses if a.writes}
        self.loop_start, self.barriers = len(self.lines), 0
        self.region([item])
        rounds = self.barriers
        swaps = []
        if isinstance(item.node, While):
            swaps = [x for x in item.regions[1] if isinstance(x, Swap)]
        if swaps:
            self.pending = [(Access(swaps[0].first, True), None, 0)] if self.blocks > 1 else []
            self.barrier()
        for x in swaps:
            target = self.emit(f"load ptr, ptr %start{x.first}")
            source = self.pointer(x.first)
            with self.when(self.emit(f"icmp ne ptr {target}, {source}")):
                self.copy(target, source, sizes(x.first))
        self.starts, self.barriers = [x.first for x in swaps], rounds

    def text(self, early: bool) -> Text:
        dynamic = self.kept + self.shared
        if dynamic + self.fixed > self.most_shared:
            raise Unfit("too much shared memory")
        slots = tuple(self.slots)
        if len(slots) > MAX_PARAMETERS:
            raise Unfit("too many arrays")
        head: list[str] = [Call("  call void ", "await_previous", ())] if early else []
        for word, some in (("s", slots), ("start", self.starts)):
            for s in some:
                head += [f"  %{word}{s} = alloca ptr", f"  store ptr %a{s}, ptr %{word}{s}"]
        head += [
            "  %goal = alloca i32",
            Call("  %thread = call i64 ", "thread", ()),
            Call("  %block = call i64 ", "block", ()),
            f"  %before = mul i64 %block, {self.threads}",
            "  %everywhere = add i64 %before, %thread",
            "  %lane = and i64 %thread, 31",
            "  %warp = lshr i64 %everywhere, 5",
        ]
        if "grid_barrier" in self.stubs:
            given = (f"ptr %a{self.state}", "ptr %goal")
            head.append(Call("  call void ", "begin_barriers", given))
        # what is read once, after what comes before a loop has written it
        if self.before:
            self.before.append(Call("  call void ", "barrier", ()))
        first, rounds = self.lines[: self.loop_start], self.lines[self.loop_start :]
        self.lines = [*head, *first, *self.before, *rounds, "  ret void"]
        self.modules += [room("dynamic", 0)] if dynamic else []
        for name, place in self.rooms.items():
            # a side's own, or what products use in turn, after all that
            offset = place if place >= 0 else self.kept - 1 - place
            at = f"  %q = getelementptr i8, ptr %p, i64 {offset}"
            lines = (Call("  %p = call ptr ", "dynamic", ()), at, "  ret ptr %q")
            self.modules.append(Module([giving(name, lines)]))
        groups = [group(0, "nounwind"), group(1, "nounwind", f'"nvvm.maxntid"="{self.threads}"')]
        cluster = self.blocks if self.grid.cluster else 0
        module = self.module(groups, early, cluster)
        return Text(module, slots, dynamic, self.barriers, bool(self.rooms))


def text_of(
    grid: Grid,
    same_memory: SameMemory,
    state: int,
    most_shared: int,
    items: Sequence[Any],
    sizes: Callable[[int], int],
    early: bool = False,
) -> Text:
    """The text of items that follow each other (`Writer.whole`). With products, its module has a
    compact text as well, with loops over what adds up and what is copied, if rounds are few."""

    def writer(compact: bool, large: bool) -> Writer:
        return Writer(grid, same_memory, state, most_shared, compact, large)

    first = writer(False, True)
    try:
        text = first.whole(items, sizes, early)
    except Unfit:
        if not first.has_large:
            raise
        first.has_large = False
        text = writer(False, False).whole(items, sizes, early)
    if text.multiplies and _rounds(items) <= MAX_COMPACT_ROUNDS:
        large = first.has_large
        text.module.compact = lambda: writer(True, large).whole(items, sizes, early).module
    return text


def _rounds(items: Sequence[Any]) -> int:
    """The rounds of the longest of some loops, with those around it; unknown ones count as one."""
    most = 1
    for item in items:
        if isinstance(item, Region):
            own = item.node.trips if isinstance(item.node, For) else 1
            most = max(most, own * max(map(_rounds, item.regions), default=1))
    return most
