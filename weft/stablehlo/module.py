"""The text of a program as StableHLO, and as HLO for those who count its operations."""

from __future__ import annotations

import re
from typing import Any

from weft.core.jaxpr import ClosedJaxpr
from weft.stablehlo import control as control  # their rules
from weft.stablehlo import elementwise as elementwise
from weft.stablehlo import sharded as sharded
from weft.stablehlo import structure as structure
from weft.stablehlo import windows as windows
from weft.stablehlo.emitter import module_text as module_text
from weft.stablehlo.sharded import sharded_text as sharded_text
from weft.stablehlo.types import Unlowered as Unlowered

_LINE = re.compile(
    r'^\s*(?P<left>%\w+)(?::\d+)? = "(?:stablehlo|chlo|func)\.(?P<name>\w+)"\((?P<args>[^)]*)\)'
    r"(?: <\{(?P<attributes>.*?)\}>)?.*?(?: : \(.*\) -> (?P<type>.*))?$"
)
_HLO = {"dot_general": "dot", "broadcast_in_dim": "broadcast", "case": "conditional"}


class Module:
    """A program as StableHLO: ``str`` gives its text."""

    def __init__(
        self, closed: ClosedJaxpr, name: str, debug_info: bool = False, over: Any = None
    ) -> None:
        """``over`` has a mesh, and the shardings of arguments and results; None on one device."""
        self.name = name
        if over is None:
            self.text = module_text(closed, name, debug_info)
        else:
            mesh, ins, outs = over
            self.text = sharded_text(closed, name, mesh, ins, outs, debug_info)

    def __str__(self) -> str:
        return self.text

    def as_text(self) -> str:
        return self.text

    def as_hlo_text(self) -> str:
        """The operations in the manner of HLO: one a line, of the main function in ``ENTRY``."""
        if "<?x" in self.text or "x?x" in self.text:
            raise Unlowered("HLO has no symbolic sizes; request the dialect 'stablehlo'")
        parts: list[tuple[str, list[str]]] = []
        for line in self.text.split("\n"):
            found = re.match(r"\s*func\.func (\w+) @(\w+)", line)
            if found:
                parts.append((found[2], []))
            elif parts and (operation := _operation(line)):
                parts[-1][1].append(operation)
        main, *others = parts
        blocks = [f"{name} {{\n" + "\n".join(lines) + "\n}" for name, lines in others]
        blocks.append(f"ENTRY {main[0]} {{\n" + "\n".join(main[1]) + "\n}")
        return f"HloModule jit_{self.name}\n\n" + "\n\n".join(blocks) + "\n"


def _operation(line: str) -> str:
    found = _LINE.match(line)
    if found is None:
        return ""
    name = _HLO.get(found["name"], found["name"]).replace("_", "-")
    attributes = found["attributes"] or ""
    kinds = re.findall(r"#stablehlo<precision (\w+)>", attributes)
    precision = ""
    if any(kind != "DEFAULT" for kind in kinds):
        precision = f", operand_precision={{{','.join(kinds).lower()}}}"
    shape = re.sub(r"tensor<((?:\d+x)*)([^>]*)>", _hlo_type, found["type"] or "")
    return f"  {found['left'][1:]} = {shape} {name}({found['args']}){precision}"


def _hlo_type(found: Any) -> str:
    sizes = found[1].rstrip("x").replace("x", ",")
    element = found[2].replace("ui", "u").replace("i1", "pred") if found[2] == "i1" else found[2]
    element = re.sub(r"^i(\d)", r"s\1", element.replace("ui", "u"))
    return f"{element}[{sizes}]"
