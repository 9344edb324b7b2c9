"""Attributes of Shardy's dialect in MLIR bytecode, as the text of their printed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.mlir.bytecode import Bytecode, Bytes, fail
from weft.mlir.tree import Raw, Symbol


def attribute_of(b: Bytecode, c: Bytes) -> Any:
    """An attribute; what says how operations propagate shardings has no text."""
    code = c.integer()
    found = _CODES.get(code)
    return found(b, c) if found is not None else Raw("sdy", "")


def _text(x: Any, name: str) -> str:
    if not isinstance(x, Raw) or x.name != name:
        fail(f"an attribute of Shardy's is meant to be {name}")
    return x.text


def _listed(b: Bytecode, c: Bytes, name: str) -> str:
    return ", ".join([_text(x, name) for x in b.attributes(c)])


def _manual_axes(b: Bytecode, c: Bytes) -> Raw:
    return Raw("manual_axes", ", ".join([f'"{name}"' for name in b.attributes(c)]))


def _mesh_axis(b: Bytecode, c: Bytes) -> Raw:
    return Raw("mesh_axis", f'"{b.string(c)}"={c.signed()}')


def _mesh(b: Bytecode, c: Bytes) -> Raw:
    axes = _listed(b, c, "mesh_axis")
    for _ in range(c.count()):
        c.signed()  # the order of devices, which a mesh at hand has its own of
    return Raw("mesh", f"[{axes}]")


def _part(b: Bytecode, c: Bytes) -> Raw:
    return Raw("sub_axis", f"({c.signed()}){c.signed()}")


def _axis(b: Bytecode, c: Bytes) -> Raw:
    name = f'"{b.string(c)}"'
    at, is_part = c.flagged()
    return Raw("axis", f"{name}:{_text(b.attribute_at(at), 'sub_axis')}" if is_part else name)


def _dimension(b: Bytecode, c: Bytes) -> Raw:
    axes, is_closed = _listed(b, c, "axis"), c.byte()
    priority, is_given = c.flagged()
    open_ = "" if is_closed else ", ?" if axes else "?"
    return Raw("dimension", f"{{{axes}{open_}}}{f'p{priority}' if is_given else ''}")


def _sharding(b: Bytecode, c: Bytes) -> Raw:
    where = b.attribute(c)
    mesh = f"@{where}" if isinstance(where, Symbol) else f"mesh<{_text(where, 'mesh')}>"
    return Raw("sdy.sharding", f"{mesh}, [{_listed(b, c, 'dimension')}]")


def _per_value(b: Bytecode, c: Bytes) -> Raw:
    found = [f"<{_text(x, 'sdy.sharding')}>" for x in b.attributes(c)]
    return Raw("per_value", ", ".join(found))


_CODES: dict[int, Callable[[Bytecode, Bytes], Raw]] = {
    0: _manual_axes,
    1: _mesh_axis,
    2: _mesh,
    3: _part,
    4: _axis,
    5: _dimension,
    6: _sharding,
    7: _per_value,
    15: _sharding,
    16: _per_value,
    17: _sharding,
}
