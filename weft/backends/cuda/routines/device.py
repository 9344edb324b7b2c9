"""The words of a GPU that stubs use: threads, barriers, shuffles, atomic operations.

A word is an `External` here, so that stubs can be written with it, and a function that becomes part
of the modules that call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.backends.cuda.ptx import WAIT
from weft.backends.llvm.code import Call, Function, Module, Parameter
from weft.kernel.kinds import (
    External,
    Intrinsic,
    Kind,
    f32,
    f64,
    i32,
    i64,
    ptr,
    u16,
    u32,
    u64,
    void,
)

DEFINITIONS: dict[str, Module] = {}
# How instructions that are written out call registers of each type.
_REGISTERS = {"i16": "h", "i32": "r", "i64": "l", "ptr": "l", "float": "f", "double": "d"}
_GLOBAL, _SHARED = 1, 3  # address spaces


def definitions(functions: Iterable[Function]) -> dict[str, Module]:
    """The words that functions call, and those that these call, by name."""
    return words(name for f in functions for name in f.calls)


def words(names: Iterable[str]) -> dict[str, Module]:
    """Some words, of names that may be no words too, and those that these call."""
    found: dict[str, Module] = {}
    waiting = [*names]
    while waiting:
        name = waiting.pop(0)
        if name in DEFINITIONS and name not in found:
            found[name] = DEFINITIONS[name]
            waiting += [word for f in found[name].functions for word in f.calls]
    return found


def _defined(
    name: str,
    result: Kind,
    parameters: tuple[Kind, ...],
    *lines: str,
    declared: Mapping[str, str] | None = None,
) -> Module:
    """A function by its lines, where parameters are ``%0`` and so on, and what it declares."""
    given = tuple([Parameter(kind.llvm, str(i)) for i, kind in enumerate(parameters)])
    body = [_indented(line) for line in lines]
    if result is void:
        body.append("  ret void")
    # Convergent: LLVM must not give the threads of a warp copies of it on different ways.
    attributes = ("convergent", "alwaysinline")
    function = Function(name, given, tuple(body), result.llvm, attributes, internal=True)
    return Module([function], declared)


def _indented(line: str) -> str:
    if isinstance(line, Call):
        return Call(f"  {line.before}", line.name, line.arguments)
    return line if line[-1] == ":" else f"  {line}"


def _word(
    name: str,
    result: Kind,
    parameters: tuple[Kind, ...],
    *lines: str,
    declared: Mapping[str, str] | None = None,
) -> External:
    """A word by the lines of its function."""
    DEFINITIONS[name] = _defined(name, result, parameters, *lines, declared=declared)
    return External(result, parameters)


def _computed(result: Kind, value: str) -> list[str]:
    """A value, and that it is what a word gives."""
    return [value] if result is void else [f"%y = {value}", f"ret {result.llvm} %y"]


def _called(
    name: str, result: Kind, parameters: tuple[Kind, ...], intrinsic: str, operands: str = ""
) -> External:
    """A word that is one of LLVM's intrinsics, with its parameters as operands or with others."""
    given = operands or ", ".join(f"{kind.llvm} %{i}" for i, kind in enumerate(parameters))
    types = ", ".join(x.split()[0] for x in given.split(", ") if x)
    call = f"call {result.llvm} @llvm.{intrinsic}({given})"
    declared = {f"llvm.{intrinsic}": f"declare {result.llvm} @llvm.{intrinsic}({types})"}
    return _word(name, result, parameters, *_computed(result, call), declared=declared)


def _asm(head: str, code: str, constraints: str, operands: str = "") -> str:
    """An instruction that is written out, and done where it stands."""
    told = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    return f'{head} asm sideeffect "{code}", "{told}"({operands}) convergent'


def _instruction(
    name: str, result: Kind, parameters: tuple[Kind, ...], code: str, space: int = 0
) -> External:
    """A word that is one instruction, done where it stands; pointers may be to an address space."""
    cast, given = [], []
    for i, kind in enumerate(parameters):
        if kind is ptr and space:
            cast.append(_cast(f"%q{i}", f"%{i}", space))
            given.append(f"ptr addrspace({space}) %q{i}")
        else:
            given.append(f"{kind.llvm} %{i}")
    constraints = ",".join(_REGISTERS[kind.llvm] for kind in parameters)
    if result is not void:
        constraints = f"={_REGISTERS[result.llvm]},{constraints}"
    call = _asm(f"call {result.llvm}", code, constraints, ", ".join(given))
    return _word(name, result, parameters, *cast, *_computed(result, call))


def _arithmetic(name: str, result: Kind, parameters: tuple[Kind, ...], code: str) -> External:
    """A word that is one instruction, which depends on its operands alone."""
    constraints = ",".join(_REGISTERS[kind.llvm] for kind in parameters)
    given = ", ".join(f"{kind.llvm} %{i}" for i, kind in enumerate(parameters))
    told = f'"{code}", "={_REGISTERS[result.llvm]},{constraints}"({given})'
    return _word(name, result, parameters, *_computed(result, f"call {result.llvm} asm {told}"))


def _cast(name: str, pointer: str, space: int) -> str:
    return f"{name} = addrspacecast ptr {pointer} to ptr addrspace({space})"


def _register(name: str, register: str) -> External:
    read = f"llvm.nvvm.read.ptx.sreg.{register}"
    lines = f"%x = call i32 @{read}()", "%y = zext i32 %x to i64", "ret i64 %y"
    return _word(name, i64, (), *lines, declared={read: f"declare i32 @{read}()"})


thread, threads = _register("thread", "tid.x"), _register("threads", "ntid.x")
block, blocks = _register("block", "ctaid.x"), _register("blocks", "nctaid.x")
block_y = _register("block_y", "ctaid.y")

barrier = _called("barrier", void, (), "nvvm.barrier0")
# A barrier that threads of a warp may come to one by one. A plain one takes for granted that they
# come together, which the assembler doesn't see to everywhere after a branch of some of them.
meet = _called("meet", void, (), "nvvm.barrier.sync", "i32 0")
fence = _called("fence", void, (), "nvvm.membar.gl")
warp_barrier = _called("warp_barrier", void, (), "nvvm.bar.warp.sync", "i32 -1")

# What a kernel says first that may begin before the one before it has ended.
await_previous = _word("await_previous", void, (), *[line.strip() for line in WAIT])

# --- shuffles: the value of another thread of the warp --------------------------------------------


def _shuffle(name: str, mode: str, clamp: int) -> External:
    operands = f"i32 -1, i32 %0, i32 %1, i32 {clamp}"
    return _called(name, u32, (u32, i32), f"nvvm.shfl.sync.{mode}.i32", operands)


def _wide_shuffle(name: str, narrow: str) -> External:
    return _word(
        name,
        u64,
        (u64, i32),
        "%a = trunc i64 %0 to i32",
        "%h = lshr i64 %0, 32",
        "%b = trunc i64 %h to i32",
        Call("%c = call i32 ", narrow, ["i32 %a", "i32 %1"]),
        Call("%d = call i32 ", narrow, ["i32 %b", "i32 %1"]),
        "%e = zext i32 %c to i64",
        "%f = zext i32 %d to i64",
        "%g = shl i64 %f, 32",
        "%r = or i64 %e, %g",
        "ret i64 %r",
    )


shuffle_up_u32 = _shuffle("shuffle_up_u32", "up", 0)
shuffle_u32 = _shuffle("shuffle_u32", "idx", 31)
shuffle_xor_u32 = _shuffle("shuffle_xor_u32", "bfly", 31)
shuffle_up_u64 = _wide_shuffle("shuffle_up_u64", "shuffle_up_u32")
shuffle_u64 = _wide_shuffle("shuffle_u64", "shuffle_u32")
shuffle_xor_u64 = _wide_shuffle("shuffle_xor_u64", "shuffle_xor_u32")
shuffle_xor_f32 = _word(
    "shuffle_xor_f32",
    f32,
    (f32, i32),
    "%a = bitcast float %0 to i32",
    Call("%b = call i32 ", "shuffle_xor_u32", ["i32 %a", "i32 %1"]),
    "%y = bitcast i32 %b to float",
    "ret float %y",
)

_BALLOT = "llvm.nvvm.vote.ballot.sync"
ballot = _word(
    "ballot",
    u32,
    (i32,),
    "%c = icmp ne i32 %0, 0",
    f"%y = call i32 @{_BALLOT}(i32 -1, i1 %c)",
    "ret i32 %y",
    declared={_BALLOT: f"declare i32 @{_BALLOT}(i32, i1)"},
)
# The lanes of the warp that have the same lowest byte, bit by bit: to have the GPU look for same
# numbers takes as long as there are different ones.
_SAME_BYTE = "".join(
    f"and.b32 t, $1, {1 << b}; setp.ne.u32 p, t, 0; vote.sync.ballot.b32 t, p, -1; "
    "@!p not.b32 t, t; and.b32 $0, $0, t; "
    for b in range(8)
)
_SAME_BYTE = f"{{ .reg .pred p; .reg .b32 t; mov.b32 $0, -1; {_SAME_BYTE}}}"
same_byte = _word(
    "same_byte", u32, (u32,), *_computed(u32, _asm("call i32", _SAME_BYTE, "=&r,r", "i32 %0"))
)
count_bits = _called("count_bits", u32, (u32,), "ctpop.i32")
leading_zeros = _called("leading_zeros", u32, (u32,), "ctlz.i32", "i32 %0, i1 false")

# --- memory that other blocks write ---------------------------------------------------------------

atomic_add_u32 = _word(
    "atomic_add_u32", u32, (ptr, u32), *_computed(u32, "atomicrmw add ptr %0, i32 %1 monotonic")
)


def combining(
    operation: str, kind: Kind, given: Kind | None = None, name: str = "combine"
) -> External:
    """What stubs may be given as ``combine``: a number of device memory combined with another one,
    whatever the order is. ``given`` is what stubs see, if that is another kind of the same bits."""
    signs = {"float": "f", "unsigned": "u", "signed": ""}
    sign = "" if operation == "add" and kind.family != "float" else signs[kind.family]
    atomic = f"atomicrmw {sign}{operation} ptr addrspace({_GLOBAL}) %q, {kind.llvm} %1 monotonic"
    lines = _cast("%q", "%0", _GLOBAL), f"%y = {atomic}"
    seen = (ptr, given or kind)
    return External(void, seen, _defined(name, void, seen, *lines))


# Four neighbouring numbers at once, at a multiple of 16 bytes; Hopper GPUs and later ones.
reduce_add_4_f32 = _instruction(
    "reduce_add_4_f32",
    void,
    (ptr, f32, f32, f32, f32),
    "red.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
    _GLOBAL,
)
acquire_u32 = _instruction("acquire_u32", u32, (ptr,), "ld.acquire.gpu.u32 $0, [$1];")
release_u32 = _instruction("release_u32", void, (ptr, u32), "st.release.gpu.u32 [$0], $1;")
# Add to a count, after all that was written before.
arrive_u32 = _instruction("arrive_u32", void, (ptr, u32), "red.release.gpu.add.u32 [$0], $1;")
wait_u32 = _word(  # until the first bit of a count is that of a number
    "wait_u32",
    void,
    (ptr, u32),
    "br label %again",
    "again:",
    _asm("%now = call i32", "ld.acquire.gpu.u32 $0, [$1];", "=r,l", "ptr %0"),
    "%other = xor i32 %now, %1",
    "%early = icmp slt i32 %other, 0",
    "br i1 %early, label %again, label %done",
    "done:",
)
peek_u32 = _instruction("peek_u32", u32, (ptr,), "ld.relaxed.gpu.u32 $0, [$1];")
peek_u64 = _instruction("peek_u64", u64, (ptr,), "ld.relaxed.gpu.u64 $0, [$1];")
poke_u64 = _instruction("poke_u64", void, (ptr, u64), "st.relaxed.gpu.u64 [$0], $1;")
# Begin to load the 128 bytes that an address is in.
bring_near = _instruction("bring_near", void, (ptr,), "prefetch.global.L2 [$0];", _GLOBAL)

# --- numbers --------------------------------------------------------------------------------------

maximum, minimum, fma = Intrinsic("maximum"), Intrinsic("minimum"), Intrinsic("fma")


def _take(kind: Kind, count: int, word: str) -> External:
    """Some numbers, at a multiple of up to 16 bytes, to memory of the thread's own."""
    vector, align = kind.of(count).llvm, min(16, count * kind.size)
    lines = (
        f"%x = load {vector}, ptr %1, align {align}",
        f"store {vector} %x, ptr %0, align {align}",
    )
    return _word(f"take_{word}_{kind}", void, (ptr, ptr), *lines)


take_four_f32, take_four_f64 = _take(f32, 4, "four"), _take(f64, 4, "four")
take_four_u32, take_two_u32 = _take(u32, 4, "four"), _take(u32, 2, "two")

f32_of_f16 = _arithmetic("f32_of_f16", f32, (u16,), "cvt.f32.f16 $0, $1;")
f16_of_f32 = _arithmetic("f16_of_f32", u16, (f32,), "cvt.rn.f16.f32 $0, $1;")
bf16_of_f32 = _arithmetic("bf16_of_f32", u16, (f32,), "cvt.rn.bf16.f32 $0, $1;")
exp2_fast = _arithmetic("exp2_fast", f32, (f32,), "ex2.approx.ftz.f32 $0, $1;")
# Two floats as a word, the first in its low half.
pack_bf16 = _arithmetic("pack_bf16", u32, (f32, f32), "cvt.rn.bf16x2.f32 $0, $2, $1;")
pack_f16 = _arithmetic("pack_f16", u32, (f32, f32), "cvt.rn.f16x2.f32 $0, $2, $1;")

# --- matrices -------------------------------------------------------------------------------------
#
# Fragments of matrices are in memory of the thread's own, which becomes registers: four words of a
# 16 x 16 matrix of 16-bit floats, four float32 of a 16 x 8 result.

_WORDS = "{ i32, i32, i32, i32 }"


def _kept(kind: str) -> list[str]:
    """What an instruction gave, four numbers, kept at an address."""
    lines = []
    for i in range(4):
        lines.append(f"%x{i} = extractvalue {{ {', '.join([kind] * 4)} }} %r, {i}")
        lines.append(f"%p{i} = getelementptr {kind}, ptr %0, i64 {i}")
        lines.append(f"store {kind} %x{i}, ptr %p{i}, align 4")
    return lines


def _load(name: str, kind: str) -> External:
    code = f"ldmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
    call = _asm(f"%r = call {_WORDS}", code, "=r,=r,=r,=r,r", "i32 %1")
    return _word(name, void, (ptr, u32), call, *_kept("i32"))


def _multiply(kind: str) -> External:
    lines = []
    for i in range(4):
        lines.append(f"%q{i} = getelementptr i32, ptr %1, i64 {i}")
        lines.append(f"%a{i} = load i32, ptr %q{i}, align 4")
        lines.append(f"%o{i} = getelementptr float, ptr %0, i64 {i}")
        lines.append(f"%c{i} = load float, ptr %o{i}, align 4")
    code = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    given = [f"i32 %a{i}" for i in range(4)] + ["i32 %2", "i32 %3"]
    given += [f"float %c{i}" for i in range(4)]
    constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
    call = f'asm "{code}", "{constraints}"({", ".join(given)})'
    lines.append(f"%r = call {{ float, float, float, float }} {call}")
    return _word(f"multiply_{kind}", void, (ptr, ptr, u32, u32), *lines, *_kept("float"))


load_matrices, load_transposed = _load("load_matrices", ""), _load("load_transposed", ".trans")
multiply_bf16, multiply_f16 = _multiply("bf16"), _multiply("f16")

# --- shared memory, and that of other blocks of a cluster -----------------------------------------

_PLACE = _cast("%s", "%0", _SHARED), f"%n = ptrtoint ptr addrspace({_SHARED}) %s to i32"
shared_place = _word(  # an address as instructions for shared memory take it
    "shared_place", u32, (ptr,), *_PLACE, "ret i32 %n"
)
# 16 bytes of device memory to shared memory.
copy_async = _instruction(
    "copy_async", void, (u32, ptr), "cp.async.cg.shared.global [$0], [$1], 16;", _GLOBAL
)
# The same by an address in shared memory.
_word(
    "copy_near",
    void,
    (ptr, ptr),
    *_PLACE,
    Call("call void ", "copy_async", ["i32 %n", "ptr %1"]),
)
# 16 bytes that nobody writes to, now: later, LLVM would read them where they are used.
_HOLD = "ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];"
_word(
    "hold_four",
    void,
    (ptr, ptr),
    _cast("%q", "%1", _GLOBAL),
    _asm(f"%r = call {_WORDS}", _HOLD, "=r,=r,=r,=r,l", f"ptr addrspace({_GLOBAL}) %q"),
    *_kept("i32"),
)
touch = _word(  # what is read nearby soon is in the cache then
    "touch",
    void,
    (ptr,),
    _cast("%q", "%0", _GLOBAL),
    _asm("%x = call i32", "ld.global.b32 $0, [$1];", "=r,l", f"ptr addrspace({_GLOBAL}) %q"),
)
zero_shared = _word(  # 16 bytes of shared memory set to 0
    "zero_shared",
    void,
    (u32,),
    _asm("call void", "st.shared.v4.u32 [$0], {$1, $1, $1, $1};", "r,r", "i32 %0, i32 0"),
)


def _copies(name: str, code: str) -> External:
    """A word about copies, which threads of a warp may say apart from each other."""
    return _word(name, void, (), f'call void asm sideeffect "cp.async.{code};", "~{{memory}}"()')


commit_copies = _copies("commit_copies", "commit_group")
wait_all_copies = _copies("wait_all_copies", "wait_group 0")
wait_older_copies = _copies("wait_older_copies", "wait_group 1")
# Blocks of a cluster say that they are there, wait until all are, and write to the same address in
# another one.
cluster_arrive = _instruction("cluster_arrive", void, (), "barrier.cluster.arrive.aligned;")
cluster_wait = _instruction("cluster_wait", void, (), "barrier.cluster.wait.aligned;")
# A barrier of all threads of a cluster, which may come one by one, for device memory too.
cluster_meet = _instruction(
    "cluster_meet", void, (), "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
)
cluster_write_f32 = _word(
    "cluster_write_f32",
    void,
    (ptr, i32, f32),
    *_PLACE,
    '%m = call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"(i32 %n, i32 %1)',
    _asm("call void", "st.shared::cluster.f32 [$0], $1;", "r,f", "i32 %m, float %2"),
)
