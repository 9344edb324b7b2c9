"""The words of a GPU that stubs use: threads, barriers, shuffles, atomic operations.

A word is an `External` here, so that stubs can be written with it, and the text of a function that
becomes part of the modules that call it.
"""

from __future__ import annotations

from weft.backends.cuda.ptx import WAIT
from weft.kernel.kinds import External, f32, f64, i32, i64, ptr, u16, u32, u64, void

DEFINITIONS: dict[str, str] = {}


def _function(name: str, result: str, parameters: str, body: str, declared: str = "") -> None:
    # Convergent: LLVM must not give the threads of a warp copies of it on different ways.
    head = f"define internal {result} @{name}({parameters}) convergent alwaysinline {{\n{body}\n}}"
    DEFINITIONS[name] = f"{declared}\n{head}" if declared else head


def _asm(head: str, code: str, constraints: str, operands: str) -> str:
    """An instruction that is written out, and done where it stands."""
    return f'  {head} asm sideeffect "{code}", "{constraints},~{{memory}}"({operands}) convergent\n'


def _register(name: str, register: str) -> None:
    word = f"llvm.nvvm.read.ptx.sreg.{register}"
    body = f"  %x = call i32 @{word}()\n  %y = zext i32 %x to i64\n  ret i64 %y"
    _function(name, "i64", "", body, f"declare i32 @{word}()")


thread = block = blocks = threads = block_y = block_z = External(i64, ())
for _name, _sreg in (
    ("thread", "tid.x"),
    ("block", "ctaid.x"),
    ("block_y", "ctaid.y"),
    ("blocks", "nctaid.x"),
    ("threads", "ntid.x"),
):
    _register(_name, _sreg)

barrier = fence = warp_barrier = External(void, ())
_function(
    "barrier",
    "void",
    "",
    "  call void @llvm.nvvm.barrier0()\n  ret void",
    "declare void @llvm.nvvm.barrier0()",
)
_function(
    "fence",
    "void",
    "",
    "  call void @llvm.nvvm.membar.gl()\n  ret void",
    "declare void @llvm.nvvm.membar.gl()",
)
_function(
    "warp_barrier",
    "void",
    "",
    "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n  ret void",
    "declare void @llvm.nvvm.bar.warp.sync(i32)",
)

# What a kernel says first that may begin before the one before it has ended.
await_previous = External(void, ())
_function("await_previous", "void", "", WAIT + "  ret void")

# --- shuffles: the value of another thread of the warp --------------------------------------------

shuffle_up_u32 = shuffle_u32 = shuffle_xor_u32 = External(u32, (u32, i32))
for _name, _mode, _clamp in (("up", "up", 0), ("", "idx", 31), ("xor", "bfly", 31)):
    _word = f"shuffle_{_name}_u32" if _name else "shuffle_u32"
    _intrinsic = f"llvm.nvvm.shfl.sync.{_mode}.i32"
    _function(
        _word,
        "i32",
        "i32 %x, i32 %n",
        f"  %y = call i32 @{_intrinsic}(i32 -1, i32 %x, i32 %n, i32 {_clamp})\n  ret i32 %y",
        f"declare i32 @{_intrinsic}(i32, i32, i32, i32)",
    )
    _wide = _word.replace("u32", "u64")
    _function(
        _wide,
        "i64",
        "i64 %x, i32 %n",
        "  %a = trunc i64 %x to i32\n  %h = lshr i64 %x, 32\n  %b = trunc i64 %h to i32\n"
        f"  %c = call i32 @{_word}(i32 %a, i32 %n)\n  %d = call i32 @{_word}(i32 %b, i32 %n)\n"
        "  %e = zext i32 %c to i64\n  %f = zext i32 %d to i64\n  %g = shl i64 %f, 32\n"
        "  %r = or i64 %e, %g\n  ret i64 %r",
    )
shuffle_up_u64 = shuffle_u64 = shuffle_xor_u64 = External(u64, (u64, i32))

ballot = External(u32, (i32,))
_function(
    "ballot",
    "i32",
    "i32 %x",
    "  %c = icmp ne i32 %x, 0\n  %y = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %c)\n"
    "  ret i32 %y",
    "declare i32 @llvm.nvvm.vote.ballot.sync(i32, i1)",
)
# The lanes of the warp that have the same lowest byte, bit by bit: to have the GPU look for same
# numbers takes as long as there are different ones.
same_byte = External(u32, (u32,))
_function(
    "same_byte",
    "i32",
    "i32 %x",
    _asm(
        "%y = call i32",
        "{ .reg .pred p; .reg .b32 t; mov.b32 $0, -1; "
        + "".join(
            f"and.b32 t, $1, {1 << b}; setp.ne.u32 p, t, 0; vote.sync.ballot.b32 t, p, -1; "
            "@!p not.b32 t, t; and.b32 $0, $0, t; "
            for b in range(8)
        )
        + "}",
        "=&r,r",
        "i32 %x",
    )
    + "  ret i32 %y",
)
count_bits = External(u32, (u32,))
_function(
    "count_bits",
    "i32",
    "i32 %x",
    "  %y = call i32 @llvm.ctpop.i32(i32 %x)\n  ret i32 %y",
    "declare i32 @llvm.ctpop.i32(i32)",
)

leading_zeros = External(u32, (u32,))
_function(
    "leading_zeros",
    "i32",
    "i32 %x",
    "  %y = call i32 @llvm.ctlz.i32(i32 %x, i1 false)\n  ret i32 %y",
    "declare i32 @llvm.ctlz.i32(i32, i1)",
)

# --- memory that other blocks write ---------------------------------------------------------------

atomic_add_u32 = External(u32, (ptr, u32))
_function(
    "atomic_add_u32",
    "i32",
    "ptr %p, i32 %x",
    "  %y = atomicrmw add ptr %p, i32 %x monotonic\n  ret i32 %y",
)
# Numbers of device memory combined with others, whatever the order is.
reduce_add_f32 = External(void, (ptr, f32))
reduce_add_f64 = External(void, (ptr, f64))
reduce_add_u32 = reduce_min_u32 = reduce_max_u32 = External(void, (ptr, u32))
reduce_add_u64 = reduce_min_u64 = reduce_max_u64 = External(void, (ptr, u64))
reduce_min_i32 = reduce_max_i32 = External(void, (ptr, i32))
reduce_min_i64 = reduce_max_i64 = External(void, (ptr, i64))
for _word, _llvm, _op in (
    ("add_f32", "float", "fadd"),
    ("add_f64", "double", "fadd"),
    *((f"add_u{n}", f"i{n}", "add") for n in (32, 64)),
    *((f"{op}_u{n}", f"i{n}", f"u{op}") for n in (32, 64) for op in ("min", "max")),
    *((f"{op}_i{n}", f"i{n}", op) for n in (32, 64) for op in ("min", "max")),
):
    _function(
        f"reduce_{_word}",
        "void",
        f"ptr %p, {_llvm} %x",
        "  %q = addrspacecast ptr %p to ptr addrspace(1)\n"
        f"  %y = atomicrmw {_op} ptr addrspace(1) %q, {_llvm} %x monotonic\n  ret void",
    )
# Four neighbouring numbers at once, at a multiple of 16 bytes; Hopper GPUs and later ones.
reduce_add_4_f32 = External(void, (ptr, f32, f32, f32, f32))
_function(
    "reduce_add_4_f32",
    "void",
    "ptr %p, float %a, float %b, float %c, float %d",
    _asm(
        "call void",
        "red.global.add.v4.f32 [$0], {$1, $2, $3, $4};",
        "l,f,f,f,f",
        "ptr addrspace(1) %q, float %a, float %b, float %c, float %d",
    ).join(["  %q = addrspacecast ptr %p to ptr addrspace(1)\n", "  ret void"]),
)
acquire_u32 = External(u32, (ptr,))
_function(
    "acquire_u32",
    "i32",
    "ptr %p",
    _asm("%y = call i32", "ld.acquire.gpu.u32 $0, [$1];", "=r,l", "ptr %p") + "  ret i32 %y",
)
release_u32 = External(void, (ptr, u32))
_function(
    "release_u32",
    "void",
    "ptr %p, i32 %x",
    _asm("call void", "st.release.gpu.u32 [$0], $1;", "l,r", "ptr %p, i32 %x") + "  ret void",
)
arrive_u32 = External(void, (ptr, u32))  # add to a count, after all that was written before
_function(
    "arrive_u32",
    "void",
    "ptr %p, i32 %x",
    _asm("call void", "red.release.gpu.add.u32 [$0], $1;", "l,r", "ptr %p, i32 %x") + "  ret void",
)
wait_u32 = External(void, (ptr, u32))  # until a count has come to a goal; both may wrap around
_function(
    "wait_u32",
    "void",
    "ptr %p, i32 %goal",
    "  br label %again\nagain:\n"
    + _asm("%now = call i32", "ld.acquire.gpu.u32 $0, [$1];", "=r,l", "ptr %p")
    + "  %left = sub i32 %now, %goal\n  %early = icmp slt i32 %left, 0\n"
    "  br i1 %early, label %again, label %done\ndone:\n  ret void",
)
peek_u64 = External(u64, (ptr,))
_function(
    "peek_u64",
    "i64",
    "ptr %p",
    _asm("%y = call i64", "ld.relaxed.gpu.u64 $0, [$1];", "=l,l", "ptr %p") + "  ret i64 %y",
)
poke_u64 = External(void, (ptr, u64))
_function(
    "poke_u64",
    "void",
    "ptr %p, i64 %x",
    _asm("call void", "st.relaxed.gpu.u64 [$0], $1;", "l,l", "ptr %p, i64 %x") + "  ret void",
)

bring_near = External(void, (ptr,))  # begin to load the 128 bytes that an address is in
_function(
    "bring_near",
    "void",
    "ptr %p",
    "  %q = addrspacecast ptr %p to ptr addrspace(1)\n"
    + _asm("call void", "prefetch.global.L2 [$0];", "l", "ptr addrspace(1) %q")
    + "  ret void",
)

# --- numbers --------------------------------------------------------------------------------------

largest_f32 = smallest_f32 = External(f32, (f32, f32))
largest_f64 = smallest_f64 = External(f64, (f64, f64))
for _name, _intrinsic in (("largest", "maximum"), ("smallest", "minimum")):
    for _kind, _llvm in (("f32", "float"), ("f64", "double")):
        _function(
            f"{_name}_{_kind}",
            _llvm,
            f"{_llvm} %x, {_llvm} %y",
            f"  %z = call {_llvm} @llvm.{_intrinsic}.{_kind}({_llvm} %x, {_llvm} %y)\n"
            f"  ret {_llvm} %z",
            f"declare {_llvm} @llvm.{_intrinsic}.{_kind}({_llvm}, {_llvm})",
        )

fma_f32 = External(f32, (f32, f32, f32))
fma_f64 = External(f64, (f64, f64, f64))
for _kind, _llvm in (("f32", "float"), ("f64", "double")):
    _function(
        f"fma_{_kind}",
        _llvm,
        f"{_llvm} %x, {_llvm} %y, {_llvm} %z",
        f"  %r = call {_llvm} @llvm.fma.{_kind}({_llvm} %x, {_llvm} %y, {_llvm} %z)\n"
        f"  ret {_llvm} %r",
        f"declare {_llvm} @llvm.fma.{_kind}({_llvm}, {_llvm}, {_llvm})",
    )

# Four numbers, at a multiple of 16 bytes, to memory of the thread's own.
take_four_f32 = take_four_f64 = External(void, (ptr, ptr))
for _kind, _llvm in (("f32", "float"), ("f64", "double")):
    _function(
        f"take_four_{_kind}",
        "void",
        "ptr %out, ptr %p",
        f"  %x = load <4 x {_llvm}>, ptr %p, align 16\n"
        f"  store <4 x {_llvm}> %x, ptr %out, align 16\n  ret void",
    )

f32_of_f16 = External(f32, (u16,))
_function(
    "f32_of_f16",
    "float",
    "i16 %x",
    '  %f = call float asm "cvt.f32.f16 $0, $1;", "=f,h"(i16 %x)\n  ret float %f',
)
f16_of_f32 = External(u16, (f32,))
_function(
    "f16_of_f32",
    "i16",
    "float %x",
    '  %b = call i16 asm "cvt.rn.f16.f32 $0, $1;", "=h,f"(float %x)\n  ret i16 %b',
)
bf16_of_f32 = External(u16, (f32,))
_function(
    "bf16_of_f32",
    "i16",
    "float %x",
    '  %b = call i16 asm "cvt.rn.bf16.f32 $0, $1;", "=h,f"(float %x)\n  ret i16 %b',
)


# --- matrices -------------------------------------------------------------------------------------
#
# Fragments of matrices are in memory of the thread's own, which becomes registers: four words of a
# 16 x 16 matrix of 16-bit floats, four float32 of a 16 x 8 result.

shared_place = External(u32, (ptr,))  # an address as instructions for shared memory take it
_function(
    "shared_place",
    "i32",
    "ptr %p",
    "  %q = addrspacecast ptr %p to ptr addrspace(3)\n"
    "  %x = ptrtoint ptr addrspace(3) %q to i32\n  ret i32 %x",
)


def _fragment(name: str, parameters: str, code: str, constraints: str, operands: str) -> None:
    """An instruction that gives four words, kept at an address."""
    words = "{ i32, i32, i32, i32 }"
    lines = [f'  %r = call {words} asm sideeffect "{code}", "{constraints}"({operands}) convergent']
    for i in range(4):
        lines.append(f"  %x{i} = extractvalue {words} %r, {i}")
        lines.append(f"  %p{i} = getelementptr i32, ptr %out, i64 {i}")
        lines.append(f"  store i32 %x{i}, ptr %p{i}, align 4")
    _function(name, "void", parameters, "\n".join([*lines, "  ret void"]))


load_matrices = load_transposed = External(void, (ptr, u32))
for _name, _kind in (("load_matrices", ""), ("load_transposed", ".trans")):
    _fragment(
        _name,
        "ptr %out, i32 %at",
        f"ldmatrix.sync.aligned.m8n8.x4{_kind}.shared.b16 {{$0, $1, $2, $3}}, [$4];",
        "=r,=r,=r,=r,r,~{memory}",
        "i32 %at",
    )

multiply_bf16 = multiply_f16 = External(void, (ptr, ptr, u32, u32))
for _name in ("bf16", "f16"):
    _words = "{ float, float, float, float }"
    _code = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{_name}.{_name}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    _lines = []
    for _i in range(4):
        _lines.append(f"  %q{_i} = getelementptr i32, ptr %a, i64 {_i}")
        _lines.append(f"  %a{_i} = load i32, ptr %q{_i}, align 4")
        _lines.append(f"  %p{_i} = getelementptr float, ptr %out, i64 {_i}")
        _lines.append(f"  %c{_i} = load float, ptr %p{_i}, align 4")
    _given = [f"i32 %a{_i}" for _i in range(4)] + ["i32 %b0", "i32 %b1"]
    _given += [f"float %c{_i}" for _i in range(4)]
    _constraints = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
    _lines.append(f'  %r = call {_words} asm "{_code}", "{_constraints}"({", ".join(_given)})')
    for _i in range(4):
        _lines.append(f"  %x{_i} = extractvalue {_words} %r, {_i}")
        _lines.append(f"  store float %x{_i}, ptr %p{_i}, align 4")
    _function(
        f"multiply_{_name}",
        "void",
        "ptr %out, ptr %a, i32 %b0, i32 %b1",
        "\n".join([*_lines, "  ret void"]),
    )

pack_bf16 = pack_f16 = External(u32, (f32, f32))  # two floats as a word, the first in its low half
for _name, _code in (("bf16", "cvt.rn.bf16x2.f32"), ("f16", "cvt.rn.f16x2.f32")):
    _function(
        f"pack_{_name}",
        "i32",
        "float %x, float %y",
        f'  %w = call i32 asm "{_code} $0, $2, $1;", "=r,f,f"(float %x, float %y)\n  ret i32 %w',
    )

exp2_fast = External(f32, (f32,))
_function(
    "exp2_fast",
    "float",
    "float %x",
    '  %y = call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %x)\n  ret float %y',
)

copy_async = External(void, (u32, ptr))  # 16 bytes of device memory to shared memory
_function(
    "copy_async",
    "void",
    "i32 %to, ptr %from",
    _asm(
        "call void",
        "cp.async.cg.shared.global [$0], [$1], 16;",
        "r,l",
        "i32 %to, ptr addrspace(1) %q",
    ).join(["  %q = addrspacecast ptr %from to ptr addrspace(1)\n", "  ret void"]),
)
# The same by an address in shared memory. Blocks of a cluster say that they are there, wait until
# all are, and write to the same address in another one.
_NEAR = (
    "  %s = addrspacecast ptr %p to ptr addrspace(3)\n  %n = ptrtoint ptr addrspace(3) %s to i32\n"
)
_function(
    "copy_near",
    "void",
    "ptr %p, ptr %from",
    f"{_NEAR}  call void @copy_async(i32 %n, ptr %from)\n  ret void",
    DEFINITIONS["copy_async"],
)
# 16 bytes that nobody writes to, now: later, LLVM would read them where they are used.
_function(
    "hold_four",
    "void",
    "ptr %out, ptr %p",
    "  %q = addrspacecast ptr %p to ptr addrspace(1)\n"
    + _asm(
        "%x = call { i32, i32, i32, i32 }",
        "ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];",
        "=r,=r,=r,=r,l",
        "ptr addrspace(1) %q",
    )
    + "".join(
        f"  %x{i} = extractvalue {{ i32, i32, i32, i32 }} %x, {i}\n"
        f"  %p{i} = getelementptr i32, ptr %out, i32 {i}\n"
        f"  store i32 %x{i}, ptr %p{i}\n"
        for i in range(4)
    )
    + "  ret void",
)
touch = External(void, (ptr,))  # what is read nearby soon is in the cache then
_function(
    "touch",
    "void",
    "ptr %p",
    "  %q = addrspacecast ptr %p to ptr addrspace(1)\n"
    + _asm("%x = call i32", "ld.global.b32 $0, [$1];", "=r,l", "ptr addrspace(1) %q")
    + "  ret void",
)
cluster_arrive = cluster_wait = External(void, ())
cluster_write_f32 = External(void, (ptr, i32, f32))
for _name in ("arrive", "wait"):
    _function(
        f"cluster_{_name}",
        "void",
        "",
        f'  call void asm sideeffect "barrier.cluster.{_name}.aligned;", "~{{memory}}"()'
        " convergent\n  ret void",
    )
_function(
    "cluster_write_f32",
    "void",
    "ptr %p, i32 %block, float %x",
    _NEAR
    + '  %m = call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"(i32 %n, i32 %block)\n'
    + _asm("call void", "st.shared::cluster.f32 [$0], $1;", "r,f", "i32 %m, float %x")
    + "  ret void",
)
zero_shared = External(void, (u32,))  # 16 bytes of shared memory set to 0
_function(
    "zero_shared",
    "void",
    "i32 %to",
    _asm("call void", "st.shared.v4.u32 [$0], {$1, $1, $1, $1};", "r,r", "i32 %to, i32 0")
    + "  ret void",
)
commit_copies = wait_all_copies = wait_older_copies = External(void, ())
for _name, _code in (
    ("commit_copies", "cp.async.commit_group;"),
    ("wait_all_copies", "cp.async.wait_group 0;"),
    ("wait_older_copies", "cp.async.wait_group 1;"),
):
    _function(
        _name,
        "void",
        "",
        f'  call void asm sideeffect "{_code}", "~{{memory}}"()\n  ret void',
    )
shuffle_xor_f32 = External(f32, (f32, i32))
_function(
    "shuffle_xor_f32",
    "float",
    "float %x, i32 %n",
    "  %a = bitcast float %x to i32\n  %b = call i32 @shuffle_xor_u32(i32 %a, i32 %n)\n"
    "  %y = bitcast i32 %b to float\n  ret float %y",
)
