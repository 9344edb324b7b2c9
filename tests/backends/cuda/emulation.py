"""Kernels of routines run on the host: the same text, with the words of a GPU defined by Python.

A thread of a block is a thread of the process; barriers and shuffles are meetings of them.
"""

import ctypes
import re
import threading
import time

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from tests.backends.cuda.host_device import at
from weft.backends.cuda.ptx import WAIT
from weft.backends.cuda.routines.base import Fill, Library, Move, Run
from weft.kernel.run import run_kernel

_FUNCTION = re.compile(r"define internal ([\w ]+) @(\w+)\(([^)]*)\)[^\n]*\{\n.*?\n\}\n?", re.DOTALL)
_TYPES = {
    "i16": ctypes.c_uint16,
    "i32": ctypes.c_uint32,
    "i64": ctypes.c_int64,
    "ptr": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "void": None,
}
STACK = 1 << 18


class Block:
    """A block of threads that runs: what they share."""

    def __init__(self, number, blocks, threads, cluster=None):
        self.number, self.blocks, self.threads = number, blocks, threads
        self.cluster = cluster  # where all threads of a cluster meet
        self.all = threading.Barrier(threads)
        self.warps = [threading.Barrier(min(32, threads)) for _ in range(-(-threads // 32))]
        self.slots = [[None] * 32 for _ in self.warps]
        self.rooms = {}
        self.lock = threading.Lock()
        # barriers that each thread has come through: of the grid, of its block, and of its warp
        self.grid, self.met = 0, [[0, 0, 0] for _ in range(threads)]

    def meet(self):
        """A barrier of the block."""
        self.all.wait()
        own = self.met[local.thread]
        own[0], own[1] = max(own[0], self.grid), own[1] + 1

    def meet_warp(self):
        self.exchange(None)
        self.met[local.thread][2] += 1

    def meet_cluster(self):
        self.cluster.wait()
        own = self.met[local.thread]
        own[0], own[1] = own[0] + 1, own[1] + 1

    def exchange(self, mine):
        """What all lanes of a warp have given."""
        warp, lane = divmod(local.thread, 32)
        self.slots[warp][lane] = mine
        self.warps[warp].wait()
        found = list(self.slots[warp])
        self.warps[warp].wait()
        return found, lane


local = threading.local()
_memory = threading.Lock()


def _shuffle(find):
    def run(x, n):
        found, lane = local.block.exchange(x)
        source = find(lane, ctypes.c_int32(n).value)
        return found[source if 0 <= source < 32 else lane]

    return run


def _ballot(x):
    found, _ = local.block.exchange(x)
    return sum(1 << i for i, other in enumerate(found) if other)


def _same_byte(x):
    found, _ = local.block.exchange(x & 255)
    return sum(1 << i for i, other in enumerate(found) if other == x & 255)


def _add(kind):
    def run(p, x):
        with _memory:
            place = kind.from_address(p)
            before = place.value
            place.value = before + x
            return before

    return run


def _reduce(kind, join):
    def run(p, x):
        with _memory:
            place = kind.from_address(p)
            place.value = join(place.value, kind(x).value)

    return run


def _wait(p, goal):
    while (U32.from_address(p).value ^ goal) >> 31:
        time.sleep(0)
    local.block.grid += 1


def _float_bits(dtype):
    return lambda x: int(np.float32(x).astype(dtype).view(np.uint16))


def _set(kind):
    def run(p, x):
        kind.from_address(p).value = x

    return run


U32, U64 = ctypes.c_uint32, ctypes.c_uint64
WORDS = {
    "thread": lambda: local.thread,
    "block": lambda: local.block.number,
    "blocks": lambda: local.block.blocks,
    "threads": lambda: local.block.threads,
    **dict.fromkeys(("barrier", "meet"), lambda: local.block.meet()),
    "warp_barrier": lambda: local.block.meet_warp(),
    "fence": lambda: None,
    "await_previous": lambda: None,
    "shuffle_up_u32": _shuffle(lambda lane, n: lane - n),
    "shuffle_up_u64": _shuffle(lambda lane, n: lane - n),
    "shuffle_u32": _shuffle(lambda lane, n: n),
    "shuffle_u64": _shuffle(lambda lane, n: n),
    "shuffle_xor_u32": _shuffle(lambda lane, n: lane ^ n),
    "shuffle_xor_u64": _shuffle(lambda lane, n: lane ^ n),
    "ballot": _ballot,
    "same_byte": _same_byte,
    "count_bits": lambda x: x.bit_count(),
    "atomic_add_u32": _add(U32),
    "acquire_u32": lambda p: U32.from_address(p).value,
    "arrive_u32": lambda p, x: _add(U32)(p, x) and None,
    "wait_u32": _wait,
    "bring_near": lambda p: None,
    "peek_u32": lambda p: U32.from_address(p).value,
    "cluster_meet": lambda: local.block.meet_cluster(),
    "peek_u64": lambda p: U64.from_address(p).value,
    "release_u32": _set(U32),
    "poke_u64": _set(U64),
    "f32_of_f16": lambda x: float(np.uint16(x).view(np.float16)),
    "f16_of_f32": _float_bits(np.float16),
    "bf16_of_f32": _float_bits(ml_dtypes.bfloat16),
}


def _bfloat(x):
    return np.uint16(x).view(ml_dtypes.bfloat16).astype(np.float32)


def _fma_bf16(x, y, z):
    """Exact for what kernels have of it: one of the two operations changes nothing."""
    with np.errstate(all="ignore"):
        found = (_bfloat(x) * _bfloat(y) + _bfloat(z)).astype(ml_dtypes.bfloat16)
    return 0x7FFF if np.isnan(found) else int(found.view(np.uint16))


def _extreme_bf16(join):
    def run(x, y):
        a, b = _bfloat(x), _bfloat(y)
        if np.isnan(a + b) and (np.isnan(a) or np.isnan(b)):
            return 0x7FFF
        if a == b:  # zeros: the negative one is smaller
            return join(x ^ 0x8000, y ^ 0x8000) ^ 0x8000 if a == 0 else x
        return x if join(a, b) == a else y

    return run


def _by_halves(run):
    def both(*words):
        low = run(*(w & 0xFFFF for w in words))
        return low | run(*(w >> 16 for w in words)) << 16

    return both


_NARROW = {
    "fma_bf16": _fma_bf16,
    "min_bf16": _extreme_bf16(min),
    "max_bf16": _extreme_bf16(max),
}
WORDS |= _NARROW | {f"{name}x2": _by_halves(run) for name, run in _NARROW.items()}


def _reduce_four(p, *numbers):
    assert p % 16 == 0
    for i, x in enumerate(numbers):
        _reduce(ctypes.c_float, lambda old, new: old + new)(p + 4 * i, x)


WORDS |= {"leading_zeros": lambda x: 32 - x.bit_length(), "reduce_add_4_f32": _reduce_four}


# --- matrices -------------------------------------------------------------------------------------


def _tiles():
    """The address of the memory that `shared_place` counts from."""
    return ctypes.addressof(local.block.rooms["tiles"]) + 63 & ~63


def _matrices(transposed):
    def run(out, at):
        places, lane = local.block.exchange(at)
        base = _tiles()
        for i in range(4):
            rows = [(ctypes.c_uint16 * 8).from_address(base + places[8 * i + r]) for r in range(8)]
            group, pair = lane // 4, lane % 4 * 2
            low, high = (
                (rows[pair][group], rows[pair + 1][group])
                if transposed
                else (rows[group][pair], rows[group][pair + 1])
            )
            ctypes.c_uint32.from_address(out + 4 * i).value = low | high << 16

    return run


def _multiply(dtype):
    def run(out, a, b0, b1):
        words = tuple((ctypes.c_uint32 * 4).from_address(a)) + (b0, b1)
        block = local.block
        found, lane = block.exchange(words)
        halves = np.array(found, np.uint32).view(np.uint16).reshape(32, 6, 2).view(dtype)
        left, right = np.zeros((16, 16), np.float32), np.zeros((16, 8), np.float32)
        for n in range(32):
            group, pair = n // 4, n % 4 * 2
            for i in range(4):
                row, column = group + i % 2 * 8, pair + i // 2 * 8
                left[row, column : column + 2] = halves[n, i]
            for i in range(2):
                right[pair + 8 * i : pair + 8 * i + 2, group] = halves[n, 4 + i]
        product = left @ right
        group, pair = lane // 4, lane % 4 * 2
        sums = (ctypes.c_float * 4).from_address(out)
        for i in range(4):
            sums[i] += product[group + i // 2 * 8, pair + i % 2]

    return run


def _pack(dtype):
    def run(x, y):
        low, high = (int(np.float32(v).astype(dtype).view(np.uint16)) for v in (x, y))
        return low | high << 16

    return run


WORDS |= {
    "shared_place": lambda p: p - _tiles(),
    "load_matrices": _matrices(False),
    "load_transposed": _matrices(True),
    "multiply_bf16": _multiply(ml_dtypes.bfloat16),
    "multiply_f16": _multiply(np.float16),
    "pack_bf16": _pack(ml_dtypes.bfloat16),
    "pack_f16": _pack(np.float16),
    "exp2_fast": lambda x: float(np.exp2(np.float32(x))),
    "copy_async": lambda to, source: ctypes.memmove(_tiles() + to, source, 16) and None,
    "zero_shared": lambda to: ctypes.memset(_tiles() + to, 0, 16) and None,
    "commit_copies": lambda: None,
    "wait_all_copies": lambda: None,
    "wait_older_copies": lambda: None,
    "shuffle_xor_f32": _shuffle(lambda lane, n: lane ^ n),
}


class Cluster:
    """Blocks that run at a time: where each has memory that others write to, and its bytes."""

    def __init__(self, rooms, threads):
        self.rooms, self.threads = rooms, len(rooms) * threads
        self.blocks = [None] * len(rooms)
        self.arrived, self.changed = 0, threading.Condition()

    def write(self, place, block, x):
        own = local.block.number % len(self.rooms)
        for start, other in zip(self.rooms[own], self.rooms[block], strict=True):
            if start <= place < start + self.rooms[own][start]:
                ctypes.c_float.from_address(other + place - start).value = x
                return
        with local.block.lock:
            rooms = list(local.block.rooms.items())
        for name, room in rooms:
            distance = place - _start(room)
            if 0 <= distance < len(room) - 64:
                there = _start(_kept(self.blocks[block], name, len(room) - 64))
                ctypes.c_float.from_address(there + distance).value = x
                return
        raise AssertionError("no memory that others may write to")

    def arrive(self):
        with self.changed:
            local.phase = getattr(local, "phase", 0) + 1
            self.arrived += 1
            self.changed.notify_all()

    def wait(self):
        with self.changed:
            goal = local.phase * self.threads
            assert self.changed.wait_for(lambda: self.arrived >= goal, timeout=120)


cluster = None
WORDS |= {
    "copy_near": lambda to, source: ctypes.memmove(to, source, 16) and None,
    "touch": lambda p: ctypes.c_int32.from_address(p) and None,
    "hold_four": lambda to, source: ctypes.memmove(to, source, 16) and None,
    "cluster_arrive": lambda: cluster.arrive(),
    "cluster_wait": lambda: cluster.wait(),
    "cluster_write_f32": lambda place, block, x: cluster.write(place, block, x),
}


def _kept(block, name, size):
    """Memory that the threads of a block share."""
    with block.lock:
        if name not in block.rooms:
            block.rooms[name] = ctypes.create_string_buffer(b"\xff" * (size + 64))  # NaNs
    return block.rooms[name]


def _start(room):
    return ctypes.addressof(room) + 63 & ~63


def _room(name, size):
    return lambda: _start(_kept(local.block, name, size))


# Words that need no other thread: kernels of these alone are run a thread after the other.
ALONE = frozenset(
    "thread block blocks threads fence count_bits leading_zeros"
    " f32_of_f16 f16_of_f32 bf16_of_f32".split()
)
ALONE |= {name for name in WORDS if name.startswith("reduce_") or "bf16" in name}
ALONE -= {"multiply_bf16"}


HEAD = """\
define internal i64 @thread() {
  ret i64 0
}
define internal i64 @block() {
  ret i64 0
}
define internal void @barrier() {
  ret void
}
define internal void @warp_barrier() {
  ret void
}
define internal i32 @shuffle_xor_u32(i32 %x, i32 %n) {
  ret i32 0
}
define internal i32 @shuffle_u32(i32 %x, i32 %n) {
  ret i32 0
}
define internal float @f32_of_f16(i16 %x) {
  ret float 0.0
}
define internal i16 @f16_of_f32(float %x) {
  ret i16 0
}
define internal i16 @bf16_of_f32(float %x) {
  ret i16 0
}
define internal i16 @fma_bf16(i16 %x, i16 %y, i16 %z) {
  ret i16 0
}
define internal i16 @min_bf16(i16 %x, i16 %y) {
  ret i16 0
}
define internal i16 @max_bf16(i16 %x, i16 %y) {
  ret i16 0
}
define internal i32 @fma_bf16x2(i32 %x, i32 %y, i32 %z) {
  ret i32 0
}
define internal i32 @min_bf16x2(i32 %x, i32 %y) {
  ret i32 0
}
define internal i32 @max_bf16x2(i32 %x, i32 %y) {
  ret i32 0
}
define i32 @two_bf16(float %x, float %y) {
  %a = call i16 @bf16_of_f32(float %x)
  %b = call i16 @bf16_of_f32(float %y)
  %high = zext i16 %a to i32
  %low = zext i16 %b to i32
  %moved = shl i32 %high, 16
  %both = or i32 %moved, %low
  ret i32 %both
}
define i32 @low_and_high(i32 %x, i32 %y) {
  %low = and i32 %x, 65535
  %high = and i32 %y, -65536
  %both = or i32 %low, %high
  ret i32 %both
}
define i32 @upper_bf16(float %x) {
  %y = call i16 @bf16_of_f32(float %x)
  %z = zext i16 %y to i32
  %u = shl i32 %z, 16
  ret i32 %u
}
define void @add_four(ptr addrspace(1) %p, float %a, float %b, float %c, float %d) {
  %q = getelementptr float, ptr addrspace(1) %p, i64 1
  %r = getelementptr float, ptr addrspace(1) %p, i64 2
  %s = getelementptr float, ptr addrspace(1) %p, i64 3
  %1 = atomicrmw fadd ptr addrspace(1) %p, float %a monotonic
  %2 = atomicrmw fadd ptr addrspace(1) %q, float %b monotonic
  %3 = atomicrmw fadd ptr addrspace(1) %r, float %c monotonic
  %4 = atomicrmw fadd ptr addrspace(1) %s, float %d monotonic
  ret void
}
define i32 @tid() {
  %x = call i64 @thread()
  %y = trunc i64 %x to i32
  ret i32 %y
}
define i32 @ctaid() {
  %x = call i64 @block()
  %y = trunc i64 %x to i32
  ret i32 %y
}
"""

# Conversions that are written out for GPUs, and what they are on the host.
_CONVERTED = (
    ("cvt.f64.f32", "double", r"fpext \1 \2 to double"),
    ("cvt.rn.f32.f64", "float", r"fptrunc \1 \2 to float"),
    ("cvt.f32.f16", "float", r"call float @f32_of_f16(\1 \2)"),
    ("cvt.rn.f16.f32", "i16", r"call i16 @f16_of_f32(\1 \2)"),
    ("cvt.rn.bf16.f32", "i16", r"call i16 @bf16_of_f32(\1 \2)"),
    ("cvt.rn.bf16x2.f32", "i32", r"call i32 @upper_bf16(\1 \2)"),  # beside a zero
)
# Arithmetic of bfloat16, of one number or of two.
_NARROW_WORDS = (
    *((rf"{op}\.(?:rn|NaN)\.bf16{two} ", f"{op}_bf16{two}")
      for op in ("fma", "min", "max") for two in ("", "x2")),
    (r"cvt\.rn\.bf16x2\.f32 \$0, \$1, \$2;", "two_bf16"),
    ("prmt", "low_and_high"),
)  # fmt: skip


def hosted(module):
    """The text of a kernel with the words of a GPU as those that the host has."""
    text = str(module).replace("\n".join([*WAIT, ""]), "")
    text = re.sub(r"  call void asm [^\n]*prefetch[^\n]*\n", "", text)
    added = r'void asm sideeffect "red.global.add.v4.f32 [^"]*", "[^"]*"'
    text = re.sub(added, "void @add_four", text)
    text = re.sub(r"^declare [^\n]*llvm\.nvvm[^\n]*\n", "", text, flags=re.MULTILINE)
    for name in re.findall(r"^define [\w ]*@(\w+)\(", HEAD, re.MULTILINE):
        text = re.sub(rf"^define internal [^\n]*@{name}\(.*?^}}\n", "", text, flags=re.M | re.S)
    text = text.replace("@llvm.nvvm.read.ptx.sreg.tid.x", "@tid")
    text = text.replace("@llvm.nvvm.read.ptx.sreg.ctaid.x", "@ctaid")
    text = text.replace("@llvm.nvvm.barrier0", "@barrier")
    text = text.replace("@llvm.nvvm.barrier.sync(i32 0)", "@barrier()")
    text = text.replace("@llvm.nvvm.bar.warp.sync(i32 -1)", "@warp_barrier()")
    shuffles = r"@llvm\.nvvm\.shfl\.sync\.bfly\.i32\(i32 -1, (i32 [^,]+), (i32 \d+), i32 31\)"
    others = r"@llvm\.nvvm\.shfl\.sync\.idx\.i32\(i32 -1, (i32 [^,]+), (i32 [^,]+), i32 31\)"
    text = re.sub(others, r"@shuffle_u32(\1, \2)", text)
    for word, made in _NARROW_WORDS:
        call = rf'asm "{word}[^"]*", "[^"]*"(\([^)]*\)) memory\(none\)[a-z ]*'
        text = re.sub(call, rf"@{made}\1", text)
    for word, kind, made in _CONVERTED:
        call = rf'call {kind} asm "{re.escape(word)} [^"]*", "[^"]*"'
        call += r"\((\w+) ([^)]*)\) memory\(none\)[a-z ]*"
        text = re.sub(call, made, text)
    turned = r'asm "shf\.l\.wrap\.b32 \$0, \$1, \$1, (\d+);", "[^"]*"\((i32 [^)]*)\)[a-z() ]*'
    text, count = re.subn(turned, r"@llvm.fshl.i32(\2, \2, i32 \1)", text)
    if count:
        text = f"declare i32 @llvm.fshl.i32(i32, i32, i32)\n{text}"
    return HEAD + re.sub(shuffles, r"@shuffle_xor_u32(\1, \2)", text)


class Native:
    """A kernel compiled for the host."""

    def __init__(self, module, dynamic=0):
        text = re.sub(
            r"external addrspace\(3\) global \[0 x i8\], align 128",
            f"internal addrspace(3) global [{dynamic} x i8] undef, align 128",
            str(module),
        )
        sizes = dict(
            re.findall(r"@room_(\w+) = internal addrspace\(3\) global \[(\d+) x i8\]", text)
        )
        text = re.sub(r"^@room_[^\n]*\n", "", text, flags=re.MULTILINE)
        self.kept = []
        words = {**WORDS, **{name: _room(name, int(size)) for name, size in sizes.items()}}

        def declared(found):
            result, name, parameters = found.groups()
            if name not in words:
                return found.group(0)
            kinds = [p.split()[0] for p in parameters.split(", ")] if parameters else []
            call = ctypes.CFUNCTYPE(_TYPES[result], *[_TYPES[k] for k in kinds])(words[name])
            self.kept.append(call)
            own = f"{name}_{id(self)}"
            llvm.add_symbol(own, ctypes.cast(call, ctypes.c_void_p).value)
            renamed[name] = own
            return f"declare {result} @{own}({', '.join(kinds)})\n"

        renamed = {}
        text = _FUNCTION.sub(declared, text)
        text = re.sub(r"^declare [^\n]*llvm\.nvvm[^\n]*\n", "", text, flags=re.MULTILINE)
        for name, own in renamed.items():
            text = text.replace(f"@{name}(", f"@{own}(")
        text = text.replace("ptx_kernel ", "")
        text = re.sub(r"attributes #0 = [^\n]*", "attributes #0 = { nounwind }", text)
        text = re.sub(r"attributes #1 = [^\n]*", "attributes #1 = { nounwind }", text)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(text)
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.address = self.engine.get_function_address("kernel")
        self.alone = ALONE.issuperset(renamed)

    def launch(self, blocks, threads, values):
        for number in range(blocks):
            finish(self.start(number, blocks, threads, values))

    def start(self, number, blocks, threads, values, meeting=None):
        """The threads of a block, running."""
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * len(values))(self.address)
        block = Block(number, blocks, threads, meeting)
        if cluster is not None:
            cluster.blocks[number % len(cluster.blocks)] = block

        def run(i):
            local.block, local.thread = block, i
            function(*values)

        if self.alone:
            for i in range(threads):
                run(i)
            return []
        workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
        before = threading.stack_size(STACK)
        for w in workers:
            w.start()
        threading.stack_size(before)
        return workers


def finish(workers):
    for w in workers:
        w.join()


class Loop:
    """The kernel of a loop; each block has a copy, as globals are what its threads share."""

    native = Native

    def __init__(self, module, dynamic=0):
        self.module, self.text = module, str(module)
        self.dynamic, self.name = dynamic, "loop"
        self.cluster = getattr(module, "cluster", 0)
        self.natives = []

    def launch(self, blocks, threads, values, stream):
        """Run one block after the other, or those of a cluster at once."""
        if self.cluster:
            assert blocks == self.cluster
            self.launch_together(blocks, threads, values, stream)
            return
        if not self.natives:
            plain = "llvm.nvvm.read.ptx.sreg.tid.x" in self.text
            self.natives = [self.native(hosted(self.text) if plain else self.text, self.dynamic)]
        self.natives[0].launch(blocks, threads, values)

    def launch_together(self, blocks, threads, values, stream):
        """Run all blocks at once."""
        while len(self.natives) < blocks:
            self.natives.append(self.native(self.text, self.dynamic))
        meeting = threading.Barrier(blocks * threads)
        numbered = enumerate(self.natives)
        running = [n.start(i, blocks, threads, values, meeting) for i, n in numbered]
        for workers in running:
            finish(workers)

    def ready(self):
        pass

    def attribute(self, name):
        return 0


_natives = {}


def run_routine(routine, ins, outs):
    """Run a routine on NumPy arrays."""
    rooms = [np.full(size + 64, 0xAB, np.uint8) for size in routine.scratch]
    kept = []

    def address(place):
        if place.kind in ("const", "state"):
            kept.append(np.ascontiguousarray(place.what))
            return kept[-1].ctypes.data
        array = {"in": ins, "out": outs, "scratch": rooms}[place.kind][place.what]
        return (
            array.ctypes.data + 63 & ~63 if place.kind == "scratch" else array.ctypes.data
        ) + place.offset

    for step in routine.steps:
        if isinstance(step, Run):
            native = _natives.get(step.module)
            if native is None:
                native = _natives[step.module] = Native(step.module, step.dynamic)
            values = [*map(address, step.places), *step.numbers]
            native.launch(step.blocks, step.threads, values)
        elif isinstance(step, Fill):
            ctypes.memset(address(step.place), step.value, step.size)
        elif isinstance(step, Move):
            ctypes.memmove(address(step.target), address(step.source), step.size)
        elif isinstance(step, Library):
            step.function(None, *map(address, step.places))
        else:  # a kernel of the compiler's
            kernel, places = step
            outside = [b for b in kernel.buffers if b.role != "row"]
            run_kernel(kernel, [at(address(p), b) for p, b in zip(places, outside, strict=True)])
