"""What LLVM compiles before the first program: code by which threads share its work, and a tile.

What LLVM does once, and what the system does when a page of its library or of its memory is first
touched, takes as long as a small kernel. So a text with what most products have goes ahead of them.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.backends.cpu.calls import first_runs
from weft.backends.llvm.native import loader
from weft.backends.llvm.native.compiling import compile_now
from weft.backends.llvm.native.processor import vector_bits
from weft.base.cores import threads, usable_cores
from weft.base.helpers import Helper
from weft.base.limits import address_space_left

# A product of a column and a row, in two vectors.
_TILE = """declare {v} @llvm.fmuladd.v{n}f32({v}, {v}, {v})
define void @first(ptr noalias %buffers, ptr %p, ptr %q, i64 %start, i64 %stop) #0 {{
entry:
  %at = getelementptr ptr, ptr %buffers, i64 2
  %out = load ptr, ptr %at, align 8
  br label %rows
rows:
  %i = phi i64 [ %start, %entry ], [ %next, %done ]
  %step = mul i64 %i, 6
  %below = icmp slt i64 %step, %stop
  %place = select i1 %below, i64 %step, i64 %stop
  %left = getelementptr float, ptr %p, i64 %place
  br label %sums
sums:
  %j = phi i64 [ 0, %rows ], [ %more, %sums ]
  %here = phi ptr [ %left, %rows ], [ %there, %sums ]
  %a = phi {v} [ zeroinitializer, %rows ], [ %c, %sums ]
  %b = phi {v} [ zeroinitializer, %rows ], [ %d, %sums ]
  %x = load float, ptr %here, align 4
  %one = insertelement {v} poison, float %x, i64 0
  %all = shufflevector {v} %one, {v} poison, <{n} x i32> zeroinitializer
  %y = load {v}, ptr %q, align 4
  %c = call {v} @llvm.fmuladd.v{n}f32({v} %all, {v} %y, {v} %a)
  %near = getelementptr float, ptr %q, i64 {n}
  %z = load {v}, ptr %near, align 4
  %d = call {v} @llvm.fmuladd.v{n}f32({v} %all, {v} %z, {v} %b)
  %after = getelementptr float, ptr %here, i64 1
  %there = freeze ptr %after
  %add = add i64 %j, 1
  %more = freeze i64 %add
  %again = icmp slt i64 %more, %stop
  br i1 %again, label %sums, label %done
done:
  %to = getelementptr float, ptr %out, i64 %place
  store {v} %c, ptr %to, align 4
  %far = getelementptr float, ptr %to, i64 {n}
  store {v} %d, ptr %far, align 4
  %follow = add i64 %i, 1
  %next = freeze i64 %follow
  %on = icmp slt i64 %next, %stop
  br i1 %on, label %rows, label %end
end:
  ret void
}}
attributes #0 = {{ nounwind }}
"""
# Threads that compile something ahead, and cores from which on they do.
_COMPILERS, MIN_CORES = 3, 4


def first_texts() -> list[str]:
    """A text that is compiled with care, and one without."""
    lanes = vector_bits() // 32
    return [_TILE.format(n=lanes, v=f"<{lanes} x float>"), first_runs.SHARE]


def begin(idle: Callable[[], bool]) -> None:
    """Compile the first texts, as far as that makes nobody wait who compiles others."""
    tile, share = first_texts()
    many = min(threads(), usable_cores()) >= MIN_CORES and address_space_left() is None
    if many or idle():
        first_runs.sharer = first_runs.Sharer(loader.load(compile_now(share)))
    if idle():
        others: list[Helper] = []
        if many:
            # memory that a thread gives back is taken by the next one, which finds its pages there
            first_runs.help_with(others, lambda: compile_now(tile), _COMPILERS - 1)
        compile_now(tile)
        for other in others:
            other.join()
