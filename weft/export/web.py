"""The JavaScript module that loads a WebAssembly module and calls its function, and pages that have
both inside."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from math import prod
from typing import Any

from weft.core.interpret import storage_dtype

PAGE_BYTES = 1 << 16
STACK_BYTES = 1 << 20
ALIGNMENT = 64
_ARRAYS = {"f4": "Float32Array", "f8": "Float64Array", "c8": "Float32Array", "c16": "Float64Array"}
# What a module may ask of its host: functions of C's libraries, which move memory, compute, and
# round to and from float16, as LLVM calls them.
_HALF = """(x) => {
      const [size, sign] = [Math.abs(x), x < 0 || Object.is(x, -0) ? 0x8000 : 0];
      if (x !== x) return 0x7e00;
      if (size >= 65520) return sign | 0x7c00;
      let exponent = -14;
      while (size >= 2 ** (exponent + 1)) exponent++;
      const units = size / 2 ** (exponent - 10), whole = Math.floor(units), rest = units - whole;
      const up = rest > 0.5 || (rest === 0.5 && whole % 2 === 1);
      return sign | ((exponent + 14) * 1024 + whole + (up ? 1 : 0));
    }"""
_WIDER = """(bits) => {
      const [sign, exponent, rest] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
      if (exponent === 31) return rest ? NaN : sign * Infinity;
      return sign * (exponent ? 2 ** (exponent - 15) * (1 + rest / 1024) : 2 ** -24 * rest);
    }"""
_MOVE = """(to, from, size) => {
      new Uint8Array(memory.buffer).copyWithin(to, from, from + size);
      return to;
    }"""
_FILL = """(to, value, size) => {
      new Uint8Array(memory.buffer).fill(value, to, to + size);
      return to;
    }"""
_PROVIDED = {
    "fmod": "(x, y) => x % y",
    "fmodf": "(x, y) => x % y",
    "memcpy": _MOVE,
    "memmove": _MOVE,
    "memset": _FILL,
    "__truncsfhf2": _HALF,
    "__truncdfhf2": _HALF,
    "__extendhfsf2": _WIDER,
}


class Unavailable(ValueError):
    """A function that a module calls, and that a web page doesn't have."""


_AFTER = "// Arguments and results"  # what a loader of its own file says before this

_TEXT = """\
// Loads {name}.wasm, compiled by weft:
//
//     import {{ load }} from "./{name}.js";
//     const {name} = await load(fetch("{name}.wasm"));  // in Node.js, the bytes of the file
//     const [{first}] = {name}({arguments});
//
// Arguments and results are typed arrays, row-major:
{described}
const layout = {layout};

export async function load(source) {{
  const given = await source;
  const bytes = given instanceof Response ? await given.arrayBuffer() : given;
  const memory = new WebAssembly.Memory({{ initial: {pages} }});
  const variable = (value) => new WebAssembly.Global({{ value: "i32", mutable: true }}, value);
  const fixed = (value) => new WebAssembly.Global({{ value: "i32" }}, value);
  const env = {{
    __linear_memory: memory,
    __memory_base: fixed(0),
    __table_base: fixed(1),
    __stack_pointer: variable({stack}),
    __indirect_function_table: new WebAssembly.Table({{ initial: {entries}, element: "anyfunc" }}),
{provided}  }};
  const {{ instance }} = await WebAssembly.instantiate(bytes, {{ env }});
  const kinds = {{ {kinds} }};
  const places = layout.map(([, , at]) => at);
  const view = ([kind, size, at]) => new kinds[kind](memory.buffer, at, size);
  return function {name}(...args) {{
    if (args.length !== {count})
      throw new TypeError(`{name} takes {count} arrays, got ${{args.length}}`);
    args.forEach((values, i) => {{
      const array = view(layout[i]);
      const given = typeof values === "number" ? [values] : values;
      if (given.length !== array.length)
        throw new RangeError(`argument ${{i}} has length ${{given.length}}, not ${{array.length}}`);
      array.set(given);
    }});
    instance.exports.{name}(...places);
    return layout.slice({count}).map((part) => view(part).slice());
  }};
}}
"""


def page_code(name: str, web: Any, avals: Sequence[Any], count: int) -> str:
    """The text of the module; the first ``count`` of the types are arguments."""
    unknown = [word for word in web.imports if word not in _PROVIDED]
    if unknown:
        raise Unavailable(f"calls {', '.join(unknown)}, which WebAssembly does not have")
    at = -(-web.end // ALIGNMENT) * ALIGNMENT + STACK_BYTES
    stack, layout = at, []
    for aval in avals:
        dtype = storage_dtype(aval.dtype)
        parts = prod(aval.shape) * _parts(dtype)
        layout.append([_array(dtype), parts, at])
        at += -(-prod(aval.shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    results = range(len(avals) - count)
    described = [
        f"//   {'argument' if i < count else 'result'} {i if i < count else i - count}:"
        f" {type_of(aval)}; {kind}"
        for i, (aval, (kind, _, _)) in enumerate(zip(avals, layout, strict=True))
    ]
    return _TEXT.format(
        name=name,
        first=", ".join(f"result{i}" for i in results),
        arguments=", ".join(f"argument{i}" for i in range(count)),
        described="\n".join(described),
        layout=json.dumps(layout),
        pages=-(-at // PAGE_BYTES) + 1,
        stack=stack,
        entries=web.entries,
        provided="".join(f"    {word}: {_PROVIDED[word]},\n" for word in web.imports),
        kinds=", ".join(sorted({kind for kind, _, _ in layout})),
        count=count,
    )


def type_of(aval: Any) -> str:
    """A type, and what its elements are in memory where C and JavaScript have no such type."""
    dtype, short = storage_dtype(aval.dtype), str(aval.str_short())
    if dtype.fields is not None:
        return f"{short}, the uint32 numbers of random.key_data"
    if dtype.kind == "c":
        return f"{short}, pairs of a real and an imaginary part"
    narrow = "float" in dtype.name and dtype.str[1:] not in _ARRAYS
    return f"{short}, the bits of each number" if narrow else short


def is_signed(dtype: Any) -> bool:
    """Whether elements are signed integers, of which narrow ones take a byte each."""
    return bool(dtype.fields is None and dtype.name.startswith("int"))


def _parts(dtype: Any) -> int:
    """The numbers of an element: both of a complex one, all of a key of random numbers."""
    if dtype.fields is not None:
        return int(dtype.itemsize // 4)
    return 2 if dtype.kind == "c" else 1


def _array(dtype: Any) -> str:
    """The kind of typed array that holds elements."""
    found = _ARRAYS.get(dtype.str[1:]) if dtype.fields is None else "Uint32Array"
    if found is not None:
        return found
    word = f"{'Int' if is_signed(dtype) else 'Uint'}{8 * dtype.itemsize}Array"
    return f"Big{word}" if dtype.itemsize == 8 else word


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
</head>
<body>
{body}
<script type="module">
{loader}
const {name} = await load(Uint8Array.from(atob("{data}"), (c) => c.charCodeAt(0)).buffer);
{script}
</script>
</body>
</html>
"""


def whole_page(name: str, code: str, module: bytes, script: str, body: str, title: str) -> str:
    """A page that needs no other file: the loader's ``code``, the module, and what runs with it."""
    return _PAGE.format(
        title=html.escape(title),
        body=body,
        loader=code[code.index(_AFTER) :].replace("export async function", "async function"),
        name=name,
        data=base64.b64encode(module).decode(),
        script=script,
    )
