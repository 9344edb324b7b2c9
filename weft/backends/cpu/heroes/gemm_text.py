"""LLVM text of matrix products: register tiles, the walk over blocks of them, and packing.

Sizes and strides come in a table of 64-bit numbers, so one text serves every shape; strides are in
bytes. A text is fixed by the types, the rows of a tile and the lanes of its vectors. Every element
is one chain of multiply-adds in the order of the depth, whatever tile it is computed in; tiles at
the far edges are moved back until they are whole, and write what others write too.
"""

from __future__ import annotations

from typing import NamedTuple

# What the table of a product holds, in order.
BATCH = 3  # outer axes, each with a size and the strides of lhs, rhs and result
FIELDS = (
    *(f"{what}{i}" for i in range(BATCH) for what in ("size", "lhs", "rhs", "out")),
    "rows",
    "columns",
    "depth",
    "row_block",  # rows of a unit of work
    "column_block",  # columns of a unit of work
    "row_blocks",
    "column_blocks",
    "a_tile",  # bytes from one row to the next where tiles of lhs begin, by their place ...
    "a_pack",  # ... and by the number of rows before them (packed)
    "a_row",  # bytes from row to row inside a tile
    "a_depth",
    "b_place",  # bytes for each column where panels of rhs begin, by their place ...
    "b_pack",  # ... and by the number of columns before them (packed)
    "b_depth",
    "b_last",  # bytes from the first vector of a panel to the last
    "out_row",
    "out_last",
)


class Shape(NamedTuple):
    """What fixes the text of a product."""

    work: str  # the type of sums and of the operands in memory, such as "float"
    out: str  # the type of the result in memory
    lanes: int
    rows: int  # of a tile
    width: int  # vectors of a tile


def bytes_of(kind: str) -> int:
    """The size in memory of an LLVM type."""
    sizes = {"float": 4, "double": 8, "half": 2, "bfloat": 2}
    return sizes[kind] if kind in sizes else int(kind[1:]) // 8


def is_floating(kind: str) -> bool:
    return kind[0] != "i"


def suffix(kind: str) -> str:
    """How an intrinsic's name says a type."""
    return {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)


class Lines:
    """Instructions of one function under construction."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def __call__(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(name + ":")

    def emit(self, text: str) -> str:
        """An instruction with a result of its own name."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def at(self, pointer: str, *offsets: str) -> str:
        """A pointer moved by bytes."""
        for offset in offsets:
            pointer = self.emit(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return pointer

    def loop(self, name: str, low: str, high: str) -> None:
        """Open a loop whose counter is ``%name`` and whose latch sets ``%name.next``."""
        before = f"{name}.before"
        self(f"br label %{before}")
        self.label(before)
        some = self.emit(f"icmp slt i64 {low}, {high}")
        self(f"br i1 {some}, label %{name}.body, label %{name}.done")
        self.label(f"{name}.body")
        self(f"%{name} = phi i64 [ {low}, %{before} ], [ %{name}.next, %{name}.latch ]")

    def close(self, name: str, high: str, step: str) -> None:
        self(f"br label %{name}.latch")
        self.label(f"{name}.latch")
        self(f"%{name}.next = add i64 {step}")
        self(f"%{name}.more = icmp slt i64 %{name}.next, {high}")
        self(f"br i1 %{name}.more, label %{name}.body, label %{name}.done")
        self.label(f"{name}.done")


# --- numbers --------------------------------------------------------------------------------------


def _vector(kind: str, lanes: int) -> str:
    return f"<{lanes} x {kind}>"


def memory_kind(kind: str) -> str:
    """The type that is loaded and stored: bfloat goes through integers on every processor."""
    return "i16" if kind == "bfloat" else kind


def convert(f: Lines, have: str, want: str, x: str, lanes: int, signed: bool = True) -> str:
    """Numbers of one type as numbers of another, rounded once."""
    if have == want:
        return x
    if have == "bfloat":
        wide = f.emit(f"zext {_vector('i16', lanes)} {x} to {_vector('i32', lanes)}")
        high = f.emit(f"shl {_vector('i32', lanes)} {wide}, splat (i32 16)")
        x = f.emit(f"bitcast {_vector('i32', lanes)} {high} to {_vector('float', lanes)}")
        return convert(f, "float", want, x, lanes)
    if want == "bfloat":
        return _to_bfloat(f, convert(f, have, "float", x, lanes, signed), lanes)
    floats = is_floating(have), is_floating(want)
    wider = bytes_of(want) > bytes_of(have)
    if floats == (True, True):
        how = "fpext" if wider else "fptrunc"
    elif floats == (False, True):
        how = "sitofp" if signed else "uitofp"
    else:
        assert floats == (False, False)
        how = ("sext" if signed else "zext") if wider else "trunc"
    return f.emit(f"{how} {_vector(have, lanes)} {x} to {_vector(want, lanes)}")


def _to_bfloat(f: Lines, x: str, lanes: int) -> str:
    """To nearest even, by adding to the integer; what is not a number keeps its high bits."""
    wide = _vector("i32", lanes)
    nan = f.emit(f"fcmp uno {_vector('float', lanes)} {x}, {x}")
    bits = f.emit(f"bitcast {_vector('float', lanes)} {x} to {wide}")
    last = f.emit(f"lshr {wide} {bits}, splat (i32 16)")
    odd = f.emit(f"and {wide} {last}, splat (i32 1)")
    half = f.emit(f"add {wide} {odd}, splat (i32 32767)")
    rounded = f.emit(f"add {wide} {bits}, {half}")
    quiet = f.emit(f"or {wide} {bits}, splat (i32 4194304)")
    chosen = f.emit(f"select <{lanes} x i1> {nan}, {wide} {quiet}, {wide} {rounded}")
    high = f.emit(f"lshr {wide} {chosen}, splat (i32 16)")
    return f.emit(f"trunc {wide} {high} to {_vector('i16', lanes)}")


def multiply_add(f: Lines, kind: str, lanes: int, a: str, b: str, c: str, new: str) -> None:
    """``new`` as the product of vectors added to another."""
    vector = _vector(kind, lanes)
    if is_floating(kind):
        name = f"@llvm.fma.v{lanes}{suffix(kind)}"
        f(f"{new} = call {vector} {name}({vector} {a}, {vector} {b}, {vector} {c})")
    else:
        product = f.emit(f"mul {vector} {a}, {b}")
        f(f"{new} = add {vector} {product}, {c}")


def declarations(shape: Shape) -> list[str]:
    if not is_floating(shape.work):
        return []
    vector = _vector(shape.work, shape.lanes)
    name = f"@llvm.fma.v{shape.lanes}{suffix(shape.work)}"
    return [f"declare {vector} {name}({vector}, {vector}, {vector})"]


# --- the walk -------------------------------------------------------------------------------------


def load_table(f: Lines, number: int, fields: tuple[str, ...]) -> None:
    """Every number of the table in a buffer as ``%field``."""
    f(f"%table = load ptr, ptr {f.at('%buffers', str(8 * number))}, align 8")
    for i, field in enumerate(fields):
        at = f.at("%table", str(8 * i))
        f(f"%{field} = load i64, ptr {at}, align 8")


def pointers(f: Lines, names: tuple[str, ...]) -> None:
    """The buffers of a task by name."""
    for i, name in enumerate(names):
        at = f.at("%buffers", str(8 * i))
        f(f"%{name} = load ptr, ptr {at}, align 8")


def least(f: Lines, a: str, b: str) -> str:
    return f.emit(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")


def locate(f: Lines, index: str, offsets: dict[str, str]) -> dict[str, str]:
    """Pointers moved to an outer index, the last axis running fastest."""
    moved = dict(offsets)
    for axis in reversed(range(BATCH)):
        inside, index = (
            f.emit(f"urem i64 {index}, %size{axis}"),
            f.emit(f"udiv i64 {index}, %size{axis}"),
        )
        for name in moved:
            step = f.emit(f"mul i64 {inside}, %{name}{axis}")
            moved[name] = f.at(moved[name], step)
    return moved


def panel_place(f: Lines, shape: Shape, j: str) -> str:
    """The first column of the panel after ``j`` columns, moved back until it is whole."""
    over = f.emit(f"sub i64 %columns, {shape.lanes * shape.width}")
    back = f.emit(f"call i64 @llvm.smax.i64(i64 {over}, i64 0)")
    return least(f, j, back)


def product(shape: Shape, name: str) -> str:
    """A task over blocks of the result: buffers are lhs, rhs, result and the table.

    The depth is at least one.
    """
    f = Lines()
    pointers(f, ("lhs", "rhs", "out"))
    load_table(f, 3, FIELDS)
    f.loop("u", "%start", "%stop")
    column_block = f.emit("urem i64 %u, %column_blocks")
    rest = f.emit("udiv i64 %u, %column_blocks")
    row_block = f.emit(f"urem i64 {rest}, %row_blocks")
    outer = f.emit(f"udiv i64 {rest}, %row_blocks")
    at = locate(f, outer, {"lhs": "%lhs", "rhs": "%rhs", "out": "%out"})
    first_row = f.emit(f"mul i64 {row_block}, %row_block")
    last_row = least(f, f.emit(f"add i64 {first_row}, %row_block"), "%rows")
    first = f.emit(f"mul i64 {column_block}, %column_block")
    last = least(f, f.emit(f"add i64 {first}, %column_block"), "%columns")
    bound = f.emit(f"sub i64 %rows, {shape.rows}")
    f.loop("j", first, last)
    place = panel_place(f, shape, "%j")
    packed, plain = f.emit("mul i64 %j, %b_pack"), f.emit(f"mul i64 {place}, %b_place")
    b = f.at(at["rhs"], packed, plain)
    out = f.at(at["out"], f.emit(f"mul i64 {place}, {bytes_of(shape.out)}"))
    f.loop("i", first_row, last_row)
    row = least(f, "%i", bound)
    packed, plain = f.emit("mul i64 %i, %a_pack"), f.emit(f"mul i64 {row}, %a_tile")
    a = f.at(at["lhs"], packed, plain)
    _store(f, shape, _tile(f, shape, a, b), f.at(out, f.emit(f"mul i64 {row}, %out_row")))
    f.close("i", last_row, f"%i, {shape.rows}")
    f.close("j", last, f"%j, {shape.lanes * shape.width}")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    own = [
        "declare i64 @llvm.smin.i64(i64, i64)",
        "declare i64 @llvm.smax.i64(i64, i64)",
        *declarations(shape),
        *(_narrow(shape) if shape.out == "bfloat" else []),
    ]
    return function(f, name, own)


def function(f: Lines, name: str, own: list[str]) -> str:
    """The module of a task: declarations and other functions come before it."""
    head = f"define void @{name}(ptr %buffers, i64 %start, i64 %stop) #0 {{"
    return "\n".join([*own, head, "entry:", *f.lines, "}", ""])


def _tile(f: Lines, shape: Shape, a: str, b: str) -> list[list[str]]:
    """Rows by vectors of the result, summed in registers."""
    work, _, lanes, rows, width = shape
    vector, size = _vector(work, lanes), bytes_of(work)
    f("br label %k.before")
    f.label("k.before")
    f("br label %k.body")
    f.label("k.body")
    f("%k = phi i64 [ %depth, %k.before ], [ %k.next, %k.body ]")
    f(f"%ak = phi ptr [ {a}, %k.before ], [ %ak.next, %k.body ]")
    f(f"%bk = phi ptr [ {b}, %k.before ], [ %bk.next, %k.body ]")
    # Results are named before they are known, as the loop needs them.
    base = f.count + 1
    total = rows * width
    f.count += total
    for n in range(total):
        new = f"%n{base + n}"
        f(f"%v{base + n} = phi {vector} [ zeroinitializer, %k.before ], [ {new}, %k.body ]")
    offsets = [str(j * lanes * size) for j in range(width - 1)]
    panel = []
    for offset in [*offsets, "%b_last"] if width > 1 else ["0"]:
        panel.append(f.emit(f"load {vector}, ptr {f.at('%bk', offset)}, align {size}"))
    at, sums = "%ak", []
    for i in range(rows):
        at = at if i == 0 else f.at(at, "%a_row")
        number = f.emit(f"load {work}, ptr {at}, align {size}")
        one = f.emit(f"insertelement {vector} poison, {work} {number}, i32 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        spread = f.emit(f"shufflevector {vector} {one}, {vector} poison, {zeros}")
        sums.append([f"%n{base + i * width + j}" for j in range(width)])
        for j, new in enumerate(sums[-1]):
            so_far = f"%v{base + i * width + j}"
            multiply_add(f, work, lanes, spread, panel[j], so_far, new)
    f("%ak.next = getelementptr i8, ptr %ak, i64 %a_depth")
    f("%bk.next = getelementptr i8, ptr %bk, i64 %b_depth")
    f("%k.next = sub i64 %k, 1")
    f("%k.more = icmp ne i64 %k.next, 0")
    f("br i1 %k.more, label %k.body, label %k.done")
    f.label("k.done")
    return sums


def _store(f: Lines, shape: Shape, sums: list[list[str]], row: str) -> None:
    """A tile written to the result."""
    kind, size = _vector(memory_kind(shape.out), shape.lanes), bytes_of(shape.out)
    for i, vectors in enumerate(sums):
        row = row if i == 0 else f.at(row, "%out_row")
        for j, x in enumerate(vectors):
            last = j and j == shape.width - 1
            at = row if j == 0 else f.at(row, "%out_last" if last else str(j * shape.lanes * size))
            if shape.out == "bfloat":
                x = convert(f, shape.work, "float", x, shape.lanes)
                x = f.emit(f"call {kind} @narrow({_vector('float', shape.lanes)} {x})")
            else:
                x = convert(f, shape.work, shape.out, x, shape.lanes)
            f(f"store {kind} {x}, ptr {at}, align {size}")


def _narrow(shape: Shape) -> list[str]:
    """A function that rounds vectors to bfloat: long, and wanted once for each of a tile."""
    f, have = Lines(), _vector("float", shape.lanes)
    want = _vector("i16", shape.lanes)
    f(f"ret {want} {convert(f, 'float', 'bfloat', '%x', shape.lanes)}")
    return [f"define internal {want} @narrow({have} %x) #0 {{", *f.lines, "}"]


def zeros(kind: str, name: str) -> str:
    """A task that clears numbers: the only buffer is the result."""
    f = Lines()
    pointers(f, ("out",))
    f.loop("u", "%start", "%stop")
    at = f.at("%out", f.emit(f"mul i64 %u, {bytes_of(kind)}"))
    f(f"store i{8 * bytes_of(kind)} 0, ptr {at}, align {bytes_of(kind)}")
    f.close("u", "%stop", "%u, 1")
    f("ret void")
    return function(f, name, [])
