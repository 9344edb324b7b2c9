"""The words of a GPU that stubs use: threads, barriers, shuffles, atomic operations.

A word is an `External` here, so that stubs can be written with it, and the text of a function that
becomes part of the modules that call it.
"""

from __future__ import annotations

from weft.backends.cpu.kinds import External, f32, f64, i32, i64, ptr, u16, u32, u64, void

DEFINITIONS: dict[str, str] = {}


def _function(name: str, result: str, parameters: str, body: str, declared: str = "") -> None:
    head = f"define internal {result} @{name}({parameters}) alwaysinline {{\n{body}\n}}"
    DEFINITIONS[name] = f"{declared}\n{head}" if declared else head


def _asm(head: str, code: str, constraints: str, operands: str) -> str:
    """An instruction that is written out, and done where it stands."""
    return f'  {head} asm sideeffect "{code}", "{constraints},~{{memory}}"({operands})\n'


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
same_lanes = External(u32, (u32,))  # the lanes of the warp that have the same number
_function(
    "same_lanes",
    "i32",
    "i32 %x",
    "  %y = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %x)\n  ret i32 %y",
    "declare i32 @llvm.nvvm.match.any.sync.i32(i32, i32) convergent",
)
count_bits = External(u32, (u32,))
_function(
    "count_bits",
    "i32",
    "i32 %x",
    "  %y = call i32 @llvm.ctpop.i32(i32 %x)\n  ret i32 %y",
    "declare i32 @llvm.ctpop.i32(i32)",
)

# --- memory that other blocks write ---------------------------------------------------------------

atomic_add_u32 = External(u32, (ptr, u32))
_function(
    "atomic_add_u32",
    "i32",
    "ptr %p, i32 %x",
    "  %y = atomicrmw add ptr %p, i32 %x monotonic\n  ret i32 %y",
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

f32_of_f16 = External(f32, (u16,))
_function(
    "f32_of_f16",
    "float",
    "i16 %x",
    "  %h = bitcast i16 %x to half\n  %f = fpext half %h to float\n  ret float %f",
)
f16_of_f32 = External(u16, (f32,))
_function(
    "f16_of_f32",
    "i16",
    "float %x",
    "  %h = fptrunc float %x to half\n  %b = bitcast half %h to i16\n  ret i16 %b",
)
bf16_of_f32 = External(u16, (f32,))
_function(
    "bf16_of_f32",
    "i16",
    "float %x",
    '  %b = call i16 asm "cvt.rn.bf16.f32 $0, $1;", "=h,f"(float %x)\n  ret i16 %b',
)
