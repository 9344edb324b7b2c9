"""A GPU made of the host whose kernels all run by their text, and what their threads do to memory:
two threads that touch the same bytes with no barrier between them, one of which writes, are a race.

A barrier of a block orders what threads of that block do, one of a warp what its threads do, and
one of a grid or of a cluster what all do. Shuffles order nothing.
"""

import bisect
import ctypes
import re
from collections import defaultdict
from typing import NamedTuple

import llvmlite.binding as llvm

from tests.backends.cuda import emulation, host_device
from tests.backends.cuda.emulation import local
from weft.backends.cuda import assemble, commands
from weft.backends.cuda.text import join, render

READ, WRITE, ATOMIC = range(3)
_PLACE = re.compile(r"(.*), (ptr(?: addrspace\(\d\))?) (.+?)(?:, align \d+)?(?:, !.*)?$")
_LOAD = re.compile(r"  (%\S+) = load (.+)$")
_STORE = re.compile(r"  store (.+)$")
_ATOMIC = re.compile(
    r"  (?:%\S+ = )?(?:atomicrmw \w+|cmpxchg) (ptr(?: addrspace\(\d\))?) (%[\w.]+), (\w+) "
)
_OWN = re.compile(r"  (%\S+) = (?:alloca|getelementptr .*ptr (%[\w.]+),)")
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
MARKED_WITHIN = 8  # lines from the load of a mark to the store


def _bits(kind):
    many = re.match(r"<(\d+) x (\w+)>", kind)
    if many:
        return int(many[1]) * _bits(many[2])
    return _BITS.get(kind) or int(kind[1:])


def noted(text):
    """A kernel's text, in which every access of memory that threads may share is noted."""
    lines, own, source = [], set(), text.split("\n")
    for number, line in enumerate(source):
        lines.append(line)
        if line.startswith("define"):
            own = set()
        stack = _OWN.match(line)
        if stack and (stack[2] is None or stack[2] in own):
            own.add(stack[1])
        other, load, store = _ATOMIC.match(line), _LOAD.match(line), _STORE.match(line)
        if other:
            access, space, place, kind, value = ATOMIC, *other.groups(), "0"
        elif load:
            kind, space, place = _PLACE.match(load[2]).groups()
            access, value = READ, load[1]
        elif store:
            what, space, place = _PLACE.match(store[1]).groups()
            kind, value = re.match(r"(<[^>]*>|\S+) (.*)", what).groups()
            access = WRITE
        if not (load or store or other) or place in own or kind[0] in "[{":
            continue
        # what is marked where it isn't yet may be read before or after others have marked it
        near = source[number + 1 : number + MARKED_WITHIN]
        mark = access == READ and any(re.match(rf"  store i8 .*, ptr {place}\b", x) for x in near)
        tag, bits = f"%note{number}", _bits(kind)
        if "addrspace" in space:
            lines.append(f"  {tag}p = addrspacecast {space} {place} to ptr")
            place = f"{tag}p"
        whole = f"i{bits}"
        if access == ATOMIC:
            given = "0"
        else:
            op = "ptrtoint" if kind == "ptr" else "bitcast"
            lines.append(f"  {tag}a = {op} {kind} {value} to {whole}")
            given = f"{tag}b"
            if bits > 64:
                lines.append(f"  {tag}h = lshr {whole} {tag}a, 64")
                lines.append(f"  {tag}x = mul {whole} {tag}h, 31")
                lines.append(f"  {tag}y = xor {whole} {tag}x, {tag}a")
                lines.append(f"  {tag}b = trunc {whole} {tag}y to i64")
            elif bits < 64:
                lines.append(f"  {tag}b = zext {whole} {tag}a to i64")
            else:
                given = f"{tag}a"
        what = (number * 2 + mark) * 3 + access
        size = max(bits // 8, 1)
        lines.append(f"  call void @note(ptr {place}, i64 {size}, i64 {what}, i64 {given})")
    return "declare void @note(ptr, i64, i64, i64)\n" + "\n".join(lines)


class Watched(emulation.Native):
    """A kernel compiled for the host, which notes what its threads touch."""

    def __init__(self, text, dynamic):
        self.log, self.rooms, names = [], {}, []

        def shared(found):
            names.append((found[1], int(found[2]) * _bits(found[3]) // 8))
            return f"@{found[1]} = addrspace(3) global{found[0].partition('global')[2]}"

        pattern = r"^@((?!room_)\w+) = internal addrspace\(3\) global \[(\d+) x (\w+)\]"
        text = re.sub(pattern, shared, text, flags=re.MULTILINE)
        kinds = [ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64]
        self.call = ctypes.CFUNCTYPE(None, *kinds)(self.note)
        symbol = f"note_{id(self)}"
        llvm.add_symbol(symbol, ctypes.cast(self.call, ctypes.c_void_p).value)
        super().__init__(noted(text).replace("@note(", f"@{symbol}("), dynamic)
        self.ranges = [(self.engine.get_global_value_address(n), size) for n, size in names]

    def note(self, place, size, what, value):
        block, thread = local.block, local.thread
        kind, marks, line = what % 3, what // 3 % 2, what // 6
        self.log.append(
            Touch(place, size, kind, bool(marks), line, value, block.number, thread,
                  *block.met[thread])
        )  # fmt: skip
        for name, room in list(block.rooms.items()):
            self.rooms.setdefault((block.number, name), (emulation._start(room), len(room) - 64))

    def shared(self):
        """Where memory is that threads of a block share."""
        return [*self.ranges, *self.rooms.values()]


# --- races ----------------------------------------------------------------------------------------


class Race(AssertionError):
    """Two threads that touch the same bytes with nothing between them."""


class Touch(NamedTuple):
    """What a thread has read or written, after how many barriers of the grid, of its block and of
    its warp; a load that ``marks`` only finds out whether there is anything left to mark."""

    place: int
    size: int
    kind: int
    marks: bool
    line: int
    value: int
    block: int
    thread: int
    grid: int
    met: int
    warp: int

    @property
    def who(self):
        return self.block, self.thread

    def byte(self, place):
        """What it has read or written at a place; of long words, all of them."""
        if self.size > 8:
            return self.place, self.size, self.value
        return self.value >> 8 * (place - self.place) & 255

    def told(self):
        word = ("reads", "writes", "combines")[self.kind]
        who = f"block {self.block}, thread {self.thread}"
        return f"{who} {word} {self.size} bytes at {self.place:x}, line {self.line}"


def find_races(log, device, shared):
    """Raise for the first race in memory of the device, or in that of blocks."""
    starts, touched = sorted(device), defaultdict(list)
    for x in log:
        i = bisect.bisect_right(starts, x.place) - 1
        if i >= 0 and x.place < starts[i] + device[starts[i]]:
            room = None
        elif any(start <= x.place < start + size for start, size in shared):
            room = x.block
        else:
            continue  # a thread's own
        for byte in range(x.place, x.place + x.size):
            touched[byte, room].append(x)
    for (byte, _), every in touched.items():
        writes = [x for x in every if x.kind != READ]
        if writes and len({x.who for x in every}) > 1:
            for w in writes:
                for x in every:
                    if x.who != w.who and not _ordered(x, w) and _matters(x, w, writes, byte):
                        raise Race(f"{x.told()}\n{w.told()}")


def _ordered(one, other):
    """Whether a barrier is between what two threads do."""
    if one.block != other.block:
        return one.grid != other.grid
    if one.met != other.met:
        return True
    return one.thread // 32 == other.thread // 32 and one.warp != other.warp


def _matters(x, w, writes, byte):
    """Whether it makes a difference which of two comes first."""
    if x.marks or x.kind == w.kind == ATOMIC:
        return False
    if x.byte(byte) != w.byte(byte):
        return True
    # all write the same, and read what they have written
    return x.kind == READ and not any(_gives(y, x, byte) for y in writes)


def _gives(w, x, byte):
    """Whether a thread reads what it, or another one of its block before a barrier, has written."""
    if w.byte(byte) != x.byte(byte) or w.block != x.block:
        return False
    return w.thread == x.thread or (_ordered(w, x) and (w.met, w.warp) < (x.met, x.warp))


# --- the GPU --------------------------------------------------------------------------------------


class Text(host_device.Text):
    """A kernel of any sort by its text."""

    def __init__(self, module, dynamic, name, memory):
        super().__init__(module, dynamic, name)
        self.dynamic, self.memory, loop = dynamic, memory, self.loop
        loop.native = Watched
        if "llvm.nvvm.read.ptx.sreg.tid.x" in loop.text:
            loop.text = emulation.hosted(loop.text)
        self.launch_together = self._launch_together

    def launch(self, *given):
        super().launch(*given)
        self.check()

    def _launch_together(self, *given):
        self.loop.launch_together(*given)
        self.check()

    def check(self):
        log = [x for n in self.loop.natives for x in n.log]
        shared = [x for n in self.loop.natives for x in n.shared()]
        for n in self.loop.natives:
            n.log.clear()
            n.rooms.clear()
        try:
            find_races(log, {at: block.nbytes for at, block in self.memory.items()}, shared)
        except Race as race:
            raise Race(f"{self.name}: {race}") from None


def install(monkeypatch):
    """Have programs run on the host, every kernel by its text, with its threads watched; modules
    of kernels, which grow with the programs that are compiled."""
    memory, modules = host_device.install(monkeypatch), []
    monkeypatch.setattr(commands.LoopKernel, "capturable", False)
    monkeypatch.setattr(assemble, "render", render.render)
    monkeypatch.setattr(assemble, "render_joined", join.render)

    def load(module, dynamic=0, label=""):
        modules.append(module)
        return Text(module, dynamic, label, memory)

    monkeypatch.setattr(assemble, "load", load)
    return modules
