"""Conditions of graphs, set by kernels: loops and branches that don't return to the host.

The one function of the device's runtime that is needed, ``cudaGraphSetConditional``, is in a
library of device code that comes with NVIDIA's wheels and is linked in by the driver.
"""

from __future__ import annotations

import glob
import os
from typing import Any

from weft.backends.cuda import driver
from weft.base.functional import lru
from weft.base.lazy import folder_of

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
  ld.param.u64 %h, [handle];
  ld.param.u64 %p, [flag];
  ld.global.u8 %v, [%p];
  setp.ne.u32 %c, %v, 0;
  selp.u32 %v, 1, 0, %c;
  {{
  .param .b64 one;
  .param .b32 two;
  st.param.b64 [one], %h;
  st.param.b32 [two], %v;
  call.uni cudaGraphSetConditional, (one, two);
  }}
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
  {{
  .param .b64 one;
  .param .b32 two;
  st.param.b64 [one], %h;
  st.param.b32 [two], %v;
  call.uni cudaGraphSetConditional, (one, two);
  }}
  ret;
}}
"""


@lru(1)
def _runtime() -> str | None:
    """The library of the device's runtime."""
    found = []
    folder = folder_of("nvidia")
    if folder is not None:
        found = glob.glob(os.path.join(folder, "*", "lib", "libcudadevrt.a"))
    return next(iter([*found, *glob.glob("/usr/local/cuda*/lib64/libcudadevrt.a")]), None)


@lru(1)
def _code() -> bytes | None:
    path = _runtime()
    if path is None or not driver.has_conditional_nodes():
        return None
    text = _TEXT.format(architecture=driver.device().architecture)
    return driver.link(text, path)


def available() -> bool:
    """Whether graphs can have loops and branches here."""
    return _code() is not None


@lru(2)
def _function(name: str) -> driver.Function:
    code = _code()
    assert code is not None
    return driver.Function(code, name)


def set_flag(state: Any, handle: int, flag: int) -> None:
    """Have a condition hold if a byte isn't 0."""
    _function("set_flag").launch(1, 1, [handle, flag], state.stream)


def set_choice(state: Any, handle: int, choice: int, size: int, own: int, last: int) -> None:
    """Have a condition hold if a number, clamped to those up to the last, is a given one."""
    _function("set_choice").launch(1, 1, [handle, choice, size, own, last], state.stream)
