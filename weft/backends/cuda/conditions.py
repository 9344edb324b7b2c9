"""Conditions of graphs, set by kernels: loops and branches that don't return to the host.

The one function of the device's runtime that is needed, ``cudaGraphSetConditional``, is in a
library of device code that comes with NVIDIA's wheels and is linked in by the driver.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import Any

from weft.backends.cuda import driver
from weft.backends.cuda.libraries import files
from weft.base.functional import lru

# Set the condition %h to %v, and to whether a byte isn't 0.
_SET = """\
  {
  .param .b64 one;
  .param .b32 two;
  st.param.b64 [one], %h;
  st.param.b32 [two], %v;
  call.uni cudaGraphSetConditional, (one, two);
  }"""
_SET_FLAG = f"""\
  ld.param.u64 %h, [handle];
  ld.param.u64 %p, [flag];
  ld.global.u8 %v, [%p];
  setp.ne.u32 %c, %v, 0;
  selp.u32 %v, 1, 0, %c;
{_SET}"""
_TEXT = """\
.version 8.4
.target sm_{architecture}
.address_size 64

.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);

.visible .entry set_flag(.param .u64 handle, .param .u64 flag)
{{
  .reg .b64 %h, %p;
  .reg .b32 %v;
  .reg .pred %c;
{set_flag}
  ret;
}}

.visible .entry set_choice(.param .u64 handle, .param .u64 choice, .param .u64 size,
                           .param .u64 own, .param .u64 last)
{{
  .reg .b64 %h, %p, %s, %o, %l, %x;
  .reg .b32 %v;
  .reg .pred %c;
  ld.param.u64 %h, [handle];
  ld.param.u64 %p, [choice];
  ld.param.u64 %s, [size];
  ld.param.u64 %o, [own];
  ld.param.u64 %l, [last];
  setp.eq.u64 %c, %s, 8;
  @%c bra wide;
  setp.eq.u64 %c, %s, 1;
  @%c bra narrow;
  ld.global.s32 %x, [%p];
  bra known;
wide:
  ld.global.s64 %x, [%p];
  bra known;
narrow:
  ld.global.u8 %x, [%p];
known:
  max.s64 %x, %x, 0;
  min.s64 %x, %x, %l;
  setp.eq.s64 %c, %x, %o;
  selp.u32 %v, 1, 0, %c;
{set}
  ret;
}}
"""


# What a round of a loop leaves elsewhere is copied back by the kernel that sets the condition: at
# most so many values, of so many bytes each.
MOST_COPIES, MOST_BYTES = 8, 1 << 16
_THREADS = 256


def _copying(count: int, size: int) -> str:
    """A kernel that copies values, in words of a size, and then sets a condition by a byte.

    Its parameters: the handle, the address of the byte, and for each value where it belongs, where
    it is, and its words.
    """
    more = "".join(
        f", .param .u64 to{i}, .param .u64 from{i}, .param .u64 words{i}" for i in range(count)
    )
    lines = [
        f".visible .entry copy_{count}_{size}(.param .u64 handle, .param .u64 flag{more})",
        "{",
    ]
    lines += [
        "  .reg .b64 %h, %p, %t, %f, %n, %i, %a, %b;",
        "  .reg .b32 %v, %x;",
        "  .reg .pred %c;",
    ]
    kind = {1: "u8", 4: "u32"}[size]
    for i in range(count):
        lines += [
            f"  ld.param.u64 %t, [to{i}];",
            f"  ld.param.u64 %f, [from{i}];",
            f"  ld.param.u64 %n, [words{i}];",
            "  mov.u32 %v, %tid.x;",
            "  cvt.u64.u32 %i, %v;",
            f"again{i}:",
            "  setp.ge.u64 %c, %i, %n;",
            f"  @%c bra done{i};",
            f"  mad.lo.u64 %a, %i, {size}, %f;",
            f"  mad.lo.u64 %b, %i, {size}, %t;",
            f"  ld.global.{kind} %x, [%a];",
            f"  st.global.{kind} [%b], %x;",
            f"  add.u64 %i, %i, {_THREADS};",
            f"  bra again{i};",
            f"done{i}:",
        ]
    lines += [
        "  mov.u32 %v, %tid.x;",
        "  setp.ne.u32 %c, %v, 0;",
        "  @%c bra end;",
        _SET_FLAG,
        "end:",
        "  ret;",
        "}",
    ]
    return "\n".join(lines)


def text_of(architecture: int) -> str:
    """The PTX of all kernels that set conditions."""
    made = [_copying(n, size) for n in range(1, MOST_COPIES + 1) for size in (1, 4)]
    text = _TEXT.format(architecture=architecture, set=_SET, set_flag=_SET_FLAG)
    return "\n".join([text, *made, ""])


@lru(1)
def _runtime() -> str | None:
    """The library of the device's runtime."""
    found = files("libcudadevrt.a")
    return next(iter([*found, *glob.glob("/usr/local/cuda*/lib64/libcudadevrt.a")]), None)


@driver.per_device(1)
def _code() -> bytes | None:
    path = _runtime()
    if path is None or not driver.has_conditional_nodes():
        return None
    return driver.link(text_of(driver.device().architecture), path)


def available() -> bool:
    """Whether graphs can have loops and branches here."""
    return _code() is not None


@driver.per_device(64)
def _function(name: str) -> driver.Function:
    code = _code()
    assert code is not None
    return driver.Function(code, name)


def set_flag(state: Any, handle: int, flag: int) -> None:
    """Have a condition hold if a byte isn't 0."""
    _function("set_flag").launch(1, 1, [handle, flag], state.stream)


def copy_and_set(
    state: Any, handle: int, flag: int, copies: Sequence[tuple[int, int, int]]
) -> None:
    """Copy values (where to, where from, bytes) and have a condition hold if a byte isn't 0."""
    small = [c for c in copies if c[2] <= MOST_BYTES][:MOST_COPIES]
    for target, source, size in copies:
        if (target, source, size) not in small:
            driver.copy(target, source, size, state.stream)
    if not small:
        set_flag(state, handle, flag)
        return
    size = 4 if all(c[2] % 4 == 0 for c in small) else 1
    values = [x for to, source, n in small for x in (to, source, n // size)]
    function = _function(f"copy_{len(small)}_{size}")
    function.launch(1, _THREADS, [handle, flag, *values], state.stream)


def set_choice(state: Any, handle: int, choice: int, size: int, own: int, last: int) -> None:
    """Have a condition hold if a number, clamped to those up to the last, is a given one."""
    _function("set_choice").launch(1, 1, [handle, choice, size, own, last], state.stream)
