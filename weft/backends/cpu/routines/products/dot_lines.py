"""LLVM text that all kernels of products have in common: loops, numbers, tables, outer axes."""

from __future__ import annotations

from weft.backends.cpu.code import instructions as lines
from weft.base.record import Record

BATCH = 3  # outer axes, each with a size and the strides of lhs, rhs and result


class Shape(Record):
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


class Lines(lines.Lines):
    """Instructions of one function under construction."""

    def __call__(self, text: str) -> None:
        self.line(text)

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
        # frozen: LLVM looks for no other counters then, which takes it long and gains nothing
        self(f"%{name}.next = freeze i64 {self.emit(f'add i64 {step}')}")
        self(f"%{name}.more = icmp slt i64 %{name}.next, {high}")
        self(f"br i1 %{name}.more, label %{name}.body, label %{name}.done")
        self.label(f"{name}.done")


# --- numbers --------------------------------------------------------------------------------------


def vector_of(kind: str, lanes: int) -> str:
    """A vector type."""
    return f"<{lanes} x {kind}>"


def memory_kind(kind: str) -> str:
    """The type that is loaded and stored: bfloat goes through integers on every processor."""
    return "i16" if kind == "bfloat" else kind


def convert(f: Lines, have: str, want: str, x: str, lanes: int, signed: bool = True) -> str:
    """Numbers of one type as numbers of another, rounded once."""
    if have == want:
        return x
    if have == "bfloat":
        wide = f.emit(f"zext {vector_of('i16', lanes)} {x} to {vector_of('i32', lanes)}")
        high = f.emit(f"shl {vector_of('i32', lanes)} {wide}, splat (i32 16)")
        x = f.emit(f"bitcast {vector_of('i32', lanes)} {high} to {vector_of('float', lanes)}")
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
    return f.emit(f"{how} {vector_of(have, lanes)} {x} to {vector_of(want, lanes)}")


def _to_bfloat(f: Lines, x: str, lanes: int) -> str:
    """To nearest even, by adding to the integer; what is not a number keeps its high bits."""
    wide = vector_of("i32", lanes)
    nan = f.emit(f"fcmp uno {vector_of('float', lanes)} {x}, {x}")
    bits = f.emit(f"bitcast {vector_of('float', lanes)} {x} to {wide}")
    last = f.emit(f"lshr {wide} {bits}, splat (i32 16)")
    odd = f.emit(f"and {wide} {last}, splat (i32 1)")
    half = f.emit(f"add {wide} {odd}, splat (i32 32767)")
    rounded = f.emit(f"add {wide} {bits}, {half}")
    quiet = f.emit(f"or {wide} {bits}, splat (i32 4194304)")
    chosen = f.emit(f"select <{lanes} x i1> {nan}, {wide} {quiet}, {wide} {rounded}")
    high = f.emit(f"lshr {wide} {chosen}, splat (i32 16)")
    return f.emit(f"trunc {wide} {high} to {vector_of('i16', lanes)}")


def multiply_add(f: Lines, kind: str, lanes: int, a: str, b: str, c: str, new: str) -> None:
    """``new`` as the product of vectors added to another."""
    vector = vector_of(kind, lanes)
    if is_floating(kind):
        name = f"@llvm.fma.v{lanes}{suffix(kind)}"
        f(f"{new} = call {vector} {name}({vector} {a}, {vector} {b}, {vector} {c})")
    else:
        product = f.emit(f"mul {vector} {a}, {b}")
        f(f"{new} = add {vector} {product}, {c}")


def declarations(shape: Shape) -> list[str]:
    if not is_floating(shape.work):
        return []
    vector = vector_of(shape.work, shape.lanes)
    name = f"@llvm.fma.v{shape.lanes}{suffix(shape.work)}"
    return [f"declare {vector} {name}({vector}, {vector}, {vector})"]


# --- tasks ----------------------------------------------------------------------------------------


def load_table(f: Lines, number: int, fields: tuple[str, ...]) -> None:
    """Every number of the table in a buffer as ``%field``."""
    f(f"%table = load ptr, ptr {f.at('%buffers', str(8 * number))}, align 8")
    load_fields(f, fields, fields)


def load_fields(f: Lines, fields: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """Some numbers of ``%table`` as ``%field``."""
    for field in wanted:
        at = f.at("%table", str(8 * fields.index(field)))
        f(f"%{field} = load i64, ptr {at}, align 8")


def pointers(f: Lines, names: tuple[str, ...]) -> None:
    """The buffers of a task by name."""
    for i, name in enumerate(names):
        at = f.at("%buffers", str(8 * i))
        f(f"%{name} = load ptr, ptr {at}, align 8")


def least(f: Lines, a: str, b: str) -> str:
    return f.emit(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")


def locate(f: Lines, index: str, offsets: dict[str, str]) -> dict[str, str]:
    """Pointers moved to an outer index, the last axis running fastest.

    What begins with "0" is no pointer: it becomes the number of bytes or elements it is moved by.
    """
    moved = dict(offsets)
    for axis in reversed(range(BATCH)):
        inside, index = (
            f.emit(f"urem i64 {index}, %size{axis}"),
            f.emit(f"udiv i64 {index}, %size{axis}"),
        )
        for name in moved:
            step = f.emit(f"mul i64 {inside}, %{name}{axis}")
            if offsets[name] == "0":
                moved[name] = f.emit(f"add i64 {moved[name]}, {step}")
            else:
                moved[name] = f.at(moved[name], step)
    return moved


def unit_of(f: Lines) -> tuple[str, str, str]:
    """The numbers of a unit of work, ``%u``: its blocks of columns and rows, its outer index."""
    column_block = f.emit("urem i64 %u, %column_blocks")
    rest = f.emit("udiv i64 %u, %column_blocks")
    row_block = f.emit(f"urem i64 {rest}, %row_blocks")
    return column_block, row_block, f.emit(f"udiv i64 {rest}, %row_blocks")


def function(f: Lines, name: str, own: list[str], how: str = "#0") -> str:
    """The module of a task: declarations and other functions come before it."""
    head = f"define void @{name}(ptr %buffers, i64 %start, i64 %stop) {how} {{"
    return "\n".join([*own, head, "entry:", *f.lines, "}", ""])


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
