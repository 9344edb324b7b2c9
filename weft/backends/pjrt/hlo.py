"""Optimised programs of plugins, which come as messages of HLO modules: as text and as lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from weft.backends.pjrt.proto import fields, numbers

# Element types by their numbers in XLA.
_ELEMENTS = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64",
    10: "f16", 11: "f32", 12: "f64", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128",
    19: "f8e5m2", 20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz",
    25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4", 33: "f8e8m0fnu",
}  # fmt: skip
_TUPLE = 13
_NO_OPERATION = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")


class Module:
    """A module: its computations by name, in order, the entry last."""

    def __init__(self, form: str, data: bytes) -> None:
        if form == "hlo_with_config":
            data = next((value for field, value in fields(data) if field == 1), b"")
        self.name, self.entry = "", 0
        self.computations: list[tuple[str, int, list[dict[str, Any]]]] = []
        for field, value in fields(data):
            if field == 1:
                self.name = value.decode()
            elif field == 6:
                self.entry = value
            elif field == 3:
                self.computations.append(_computation(value))


def _computation(data: bytes) -> tuple[str, int, list[dict[str, Any]]]:
    name, number, found = "", 0, []
    for field, value in fields(data):
        if field == 1:
            name = value.decode()
        elif field == 5:
            number = value
        elif field == 2:
            found.append(_instruction(value))
    return name, number, found


def _instruction(data: bytes) -> dict[str, Any]:
    made: dict[str, Any] = {"operands": [], "called": [], "target": "", "name": "", "opcode": ""}
    for field, value in fields(data):
        if field in (1, 2, 28):
            made[{1: "name", 2: "opcode", 28: "target"}[field]] = value.decode()
        elif field == 3:
            made["shape"] = _shape(value)
        elif field == 35:
            made["id"] = value
        elif field == 36:
            made["operands"] += numbers(value)
        elif field == 38:
            made["called"] += numbers(value)
    return made


def _shape(data: bytes) -> str:
    kind, sizes, parts, layout = 0, [], [], ""
    for field, value in fields(data):
        if field == 2:
            kind = value
        elif field == 3:
            sizes += numbers(value)
        elif field == 4:
            parts.append(_shape(value))
        elif field == 5:
            order = [n for f, v in fields(value) if f == 1 for n in numbers(v)]
            layout = f"{{{','.join(map(str, order))}}}" if len(order) > 1 else ""
    if kind == _TUPLE:
        return f"({', '.join(parts)})"
    return f"{_ELEMENTS.get(kind, f'type{kind}')}[{','.join(map(str, sizes))}]{layout}"


def text_of(form: str, data: bytes) -> str:
    """A module as text: a line for each instruction, the entry last; texts as they are."""
    if not form.startswith("hlo"):
        return data.decode(errors="replace")
    module = Module(form, data)
    names = {number: name for name, number, _ in module.computations}
    blocks = []
    ordered = sorted(module.computations, key=lambda c: c[1] == module.entry)
    for name, number, rows in ordered:
        known = {row["id"]: row["name"] for row in rows}
        lines = [_line(row, known, names) for row in rows]
        head = "ENTRY " if number == module.entry else ""
        blocks.append(f"{head}%{name} {{\n" + "\n".join(lines) + "\n}")
    return f"HloModule {module.name}\n\n" + "\n\n".join(blocks) + "\n"


def _line(row: dict[str, Any], known: dict[int, str], names: dict[int, str]) -> str:
    operands = ", ".join(f"%{known.get(n, n)}" for n in row["operands"])
    more = "".join(f", calls=%{names.get(n, n)}" for n in row["called"])
    more += f', custom_call_target="{row["target"]}"' if row["target"] else ""
    return f"  %{row['name']} = {row.get('shape', '')} {row['opcode']}({operands}){more}"


def instructions(form: str, data: bytes) -> Iterator[str]:
    """The operations of the entry, in order: their names, without what moves no data.

    Of other forms than HLO, all operations of StableHLO.
    """
    if not form.startswith("hlo"):
        yield from re.findall(r'"(?:stable|c)hlo\.(\w+)"\(', data.decode(errors="replace"))
        return
    module = Module(form, data)
    for _, number, rows in module.computations:
        if number == module.entry:
            yield from (row["opcode"] for row in rows if row["opcode"] not in _NO_OPERATION)
