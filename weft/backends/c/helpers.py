"""Functions that C code of kernels is written with, each given only where something uses it."""

from __future__ import annotations

import re

# What stands at the head of every file. Memory of the arena holds one type after another.
HEAD = """\
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define WEFT_SHARED __attribute__((may_alias))
#else
#define WEFT_SHARED
#endif
typedef float WEFT_SHARED f32;
typedef double WEFT_SHARED f64;
typedef int8_t i8;
typedef uint8_t u8;
typedef int16_t WEFT_SHARED i16;
typedef uint16_t WEFT_SHARED u16;
typedef int32_t WEFT_SHARED i32;
typedef uint32_t WEFT_SHARED u32;
typedef int64_t WEFT_SHARED i64;
typedef uint64_t WEFT_SHARED u64;
"""


def _bitcast(name: str, have: str, want: str) -> str:
    return f"static {want} {name}({have} x) {{ {want} y; memcpy(&y, &x, sizeof y); return y; }}\n"


def _extreme(name: str, kind: str, test: str, sign: str) -> str:
    """IEEE 754's minimum or maximum: NaN if either is, and -0 below 0."""
    return (
        f"static {kind} {name}({kind} x, {kind} y) {{\n"
        "    if (x != x) return x;\n    if (y != y) return y;\n"
        f"    if (x == y) return signbit(x) {sign} ? x : y;\n"
        f"    return x {test} y ? x : y;\n}}\n"
    )


def _saturated(name: str, have: str, want: str, low: str, high: str, top: str) -> str:
    """A float as an integer, the nearest there is; NaN as zero. ``top`` is too large by one."""
    return (
        f"static {want} {name}({have} x) {{\n"
        f"    if (x != x) return 0;\n    if (x <= ({have}){low}) return {low};\n"
        f"    return x >= ({have}){top} ? {high} : ({want})x;\n}}\n"
    )


def _made() -> dict[str, str]:
    found = {}
    for kind, word in (("f32", "u32"), ("f64", "u64")):
        for letter in "ui":
            whole = letter + word[1:]
            found[f"bits_{kind}_{whole}"] = _bitcast(f"bits_{kind}_{whole}", kind, whole)
            found[f"bits_{whole}_{kind}"] = _bitcast(f"bits_{whole}_{kind}", whole, kind)
        found[f"min_{kind}"] = _extreme(f"min_{kind}", kind, "<", "!= 0")
        found[f"max_{kind}"] = _extreme(f"max_{kind}", kind, ">", "== 0")
        for bits in (8, 16, 32, 64):
            low = f"INT{bits}_MIN"
            name = f"to_i{bits}_{kind}"
            half = f"{2 ** (bits - 1)}.0"
            found[name] = _saturated(name, kind, f"i{bits}", low, f"INT{bits}_MAX", half)
            name = f"to_u{bits}_{kind}"
            whole = f"{2**bits}.0"
            found[name] = _saturated(name, kind, f"u{bits}", "0", f"UINT{bits}_MAX", whole)
    return found


# By name, in an order in which each uses only those before it.
FUNCTIONS: dict[str, str] = {
    **_made(),
    "from_bf16": """\
static f32 from_bf16(u16 x) { return bits_u32_f32((u32)x << 16); }
""",
    "to_bf16": """\
static u16 to_bf16(f32 x) {
    u32 bits = bits_f32_u32(x);
    if (x != x) return (u16)(((bits & 0x80000000u) | 0x7FC00000u) >> 16);
    return (u16)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
""",
    "from_f16": """\
static f32 from_f16(u16 x) {
    u32 sign = (u32)(x & 0x8000u) << 16, exponent = (x >> 10) & 31u, rest = x & 1023u;
    f32 small;
    if (exponent == 31u) return bits_u32_f32(sign | 0x7F800000u | rest << 13);
    if (exponent) return bits_u32_f32(sign | (exponent + 112u) << 23 | rest << 13);
    small = (f32)rest * 0x1p-24f;
    return sign ? -small : small;
}
""",
    "to_f16": """\
static u16 to_f16(f32 x) {
    u32 bits = bits_f32_u32(x), size = bits & 0x7FFFFFFFu;
    u16 sign = (u16)(bits >> 16 & 0x8000u);
    if (size > 0x7F800000u) return (u16)(sign | 0x7E00u);
    if (size >= 0x477FF000u) return (u16)(sign | 0x7C00u);
    if (size < 0x38800000u)
        return (u16)(sign | (u16)rintf(bits_u32_f32(size) * 0x1p24f));
    return (u16)(sign | ((size + 0xFFFu + (size >> 13 & 1u) - 0x38000000u) >> 13));
}
""",
    "odd_f32": """\
/* float64 as float32 whose last bit says whether anything was cut off: rounded again, to float16,
   it gives what rounding once gives. */
static f32 odd_f32(f64 x) {
    f32 near = (f32)x;
    f64 back = (f64)near;
    u32 bits = bits_f32_u32(near);
    bits -= fabs(back) > fabs(x);
    return bits_u32_f32(bits | (back < x || back > x));
}
""",
    "round_f16": """\
static f32 round_f16(f32 x) { return from_f16(to_f16(x)); }
""",
    "popcount": """\
static int popcount(u64 x) { int n = 0; for (; x; x &= x - 1) n++; return n; }
""",
    "clz": """\
static int clz(u64 x, int bits) { while (x) { x >>= 1; bits--; } return bits; }
""",
    "mulhi_u64": """\
static u64 mulhi_u64(u64 x, u64 y) {
    u64 a = x >> 32, b = x & 0xFFFFFFFFu, c = y >> 32, d = y & 0xFFFFFFFFu;
    u64 low = b * d, first = a * d + (low >> 32), second = b * c + (first & 0xFFFFFFFFu);
    return a * c + (first >> 32) + (second >> 32);
}
""",
    "mulhi_i64": """\
static i64 mulhi_i64(i64 x, i64 y) {
    u64 high = mulhi_u64((u64)x, (u64)y);
    if (x < 0) high -= (u64)y;
    if (y < 0) high -= (u64)x;
    return (i64)high;
}
""",
}

_BITS = ("bits_f32_u32", "bits_u32_f32")
NEEDS: dict[str, tuple[str, ...]] = {
    "from_bf16": ("bits_u32_f32",),
    "to_bf16": ("bits_f32_u32",),
    "from_f16": ("bits_u32_f32",),
    "to_f16": _BITS,
    "odd_f32": _BITS,
    "round_f16": (*_BITS, "from_f16", "to_f16"),
    "mulhi_i64": ("mulhi_u64",),
}


def definitions(used: set[str]) -> str:
    """The text of functions, and of those that they call."""
    wanted = used.union(*(NEEDS.get(name, ()) for name in used))
    return "".join(text for name, text in FUNCTIONS.items() if name in wanted)


_TYPES = frozenset(re.findall(r"(\w+);", HEAD))
_MEMORY = re.compile(r"memory|constant\d+(_data)?")


def is_own(name: str) -> bool:
    """Whether a file of C has a name for itself."""
    return name in _TYPES or name in FUNCTIONS or _MEMORY.fullmatch(name) is not None
