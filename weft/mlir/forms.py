"""The short forms that operations are printed in, each brought to the names of the generic form.

Most are a list of operands, words and ``name = value``; a table says what these are called in the
generic form. Those with a syntax of their own have a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.mlir.attributes import convolution_numbers
from weft.mlir.tree import Block, Operation, Raw, Symbol, Word

if TYPE_CHECKING:
    from weft.mlir.parser import Parser


@dataclass
class Parts:
    """What stands between the name of an operation and its types."""

    operands: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    words: list[Any] = field(default_factory=list)
    # types that were part of the form: those of operands, and of results
    types: tuple[list[Any] | None, list[Any]] | None = None


_PRECISION = {"precision": "precision_config"}
_SIZES = {"dims": "broadcast_dimensions"}
_BATCH = {
    "batching_dims": ("lhs_batching_dimensions", "rhs_batching_dimensions"),
    "contracting_dims": ("lhs_contracting_dimensions", "rhs_contracting_dimensions"),
}
_WINDOW = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}

# Names in short forms, and what the generic form calls them.
KEYS: dict[str, dict[str, str]] = {
    "stablehlo.broadcast": {"sizes": "broadcast_sizes"},
    "stablehlo.broadcast_in_dim": _SIZES,
    "stablehlo.dynamic_broadcast_in_dim": _SIZES,
    "stablehlo.transpose": {"dims": "permutation"},
    "stablehlo.reverse": {"dims": "dimensions"},
    "stablehlo.concatenate": {"dim": "dimension"},
    "stablehlo.iota": {"dim": "iota_dimension"},
    "stablehlo.dynamic_iota": {"dim": "iota_dimension"},
    "stablehlo.pad": {
        "low": "edge_padding_low",
        "high": "edge_padding_high",
        "interior": "interior_padding",
    },
    "stablehlo.dynamic_slice": {"sizes": "slice_sizes"},
    "stablehlo.dot_general": _PRECISION,
    "stablehlo.dot": _PRECISION,
    "stablehlo.convolution": {"dim_numbers": "dimension_numbers"},
    "stablehlo.dynamic_conv": {"dim_numbers": "dimension_numbers"},
    "stablehlo.fft": {"type": "fft_type", "length": "fft_length"},
    "stablehlo.rng": {"distribution": "rng_distribution"},
    "stablehlo.rng_bit_generator": {"algorithm": "rng_algorithm"},
    "stablehlo.get_dimension_size": {"dim": "dimension"},
    "stablehlo.set_dimension_size": {"dim": "dimension"},
    "stablehlo.einsum": {"config": "einsum_config"},
}
# The attributes that words without a name stand for, in order.
WORDS: dict[str, tuple[str, ...]] = {
    "stablehlo.compare": ("comparison_direction", "compare_type"),
    "chlo.broadcast_compare": ("comparison_direction", "compare_type"),
    "stablehlo.custom_call": ("call_target_name",),
    "stablehlo.composite": ("name",),
    "call": ("callee",),
    "func.call": ("callee",),
}


def parse_short(p: Parser, name: str) -> Parts:
    """The parts of an operation in its short form."""
    special = SPECIAL.get(name)
    if special is not None:
        return special(p)
    parts = _listed(p)
    given, keys = parts.attributes, KEYS.get(name, {})
    parts.attributes = {keys.get(key, key): value for key, value in given.items()}
    wanted = WORDS.get(name, ())
    if len(parts.words) > len(wanted):
        p.c.fail(f"{str(parts.words[-1])[:40]!r} is no part of {name}")
    parts.attributes.update(zip(wanted, parts.words, strict=False))
    fixed = FIXES.get(name)
    if fixed is not None:
        fixed(p, parts.attributes)
    return parts


def _listed(p: Parser) -> Parts:
    """Operands, words, names with values, and attributes, up to the types."""
    c, parts, depth = p.c, Parts(), 0
    while True:
        kind, word = c.kind, c.word
        if kind == "value":
            parts.operands.append(c.take())
        elif word in ("(", ")") and kind == "mark":
            depth += 1 if word == "(" else -1
            if depth < 0:
                return parts
            c.take()
        elif word == "," and kind == "mark":
            c.take()
        elif word == "{":
            parts.attributes.update(p.attributes.dictionary())
        elif word == "<":
            parts.attributes["value"] = Raw("", c.skip_balanced())
        elif kind == "word" and c.next_is("=", 1):
            key = c.take()
            c.take()
            parts.attributes[key] = _keyed(p, key)
        elif word == "attributes" and c.next_is("{", 1):
            c.take()
        elif kind == "word" and (depth or not _starts_operation(p)):
            parts.words.append(Word(c.take()))
        elif kind == "symbol":
            parts.words.append(Symbol(c.take()[1:].strip('"')))
        elif kind == "string" and not c.next_is("(", 1):
            parts.words.append(p.attributes.untyped())
        else:
            return parts


def _starts_operation(p: Parser) -> bool:
    """Whether a word is the next operation, after one without types."""
    return "." in p.c.word or p.c.word in ("return", "call", "loc")


def _keyed(p: Parser, key: str) -> Any:
    c = p.c
    if key == "dim_numbers":
        return convolution_numbers(p.attributes, "")
    if c.next_is("<"):
        return Raw(key, c.skip_balanced())
    value = p.attributes.untyped()
    if isinstance(value, list) and c.accept("x"):
        return (value, p.attributes.values())
    return value


# --- forms with more than a list ------------------------------------------------------------------


def _dot_numbers(p: Parser, given: dict[str, Any]) -> None:
    """The pairs of a product's axes, as the generic form names them."""
    numbers: dict[str, Any] = {}
    for key, (left, right) in _BATCH.items():
        pair = given.pop(key, ([], []))
        if not isinstance(pair, tuple):
            p.c.fail(f"{key} of dot_general are two lists, [..] x [..]")
        numbers[left], numbers[right] = pair
    given.setdefault("dot_dimension_numbers", numbers)


def _window(p: Parser, given: dict[str, Any]) -> None:
    """The window of a convolution, as the generic form names its parts."""
    window = given.pop("window", {})
    if not isinstance(window, dict):
        p.c.fail("the window of a convolution is written {stride = [..], pad = [[..]], ..}")
    for key, value in window.items():
        given[_WINDOW.get(str(key), str(key))] = value


def _precision_format(p: Parser, given: dict[str, Any]) -> None:
    found = re.fullmatch(r"e(\d{1,4})m(\d{1,4})", str(given.pop("format", "")))
    if found is None:
        p.c.fail("reduce_precision has a format such as e8m4")
    given["exponent_bits"], given["mantissa_bits"] = int(found[1]), int(found[2])


FIXES: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "stablehlo.dot_general": _dot_numbers,
    "stablehlo.convolution": _window,
    "stablehlo.dynamic_conv": _window,
    "stablehlo.reduce_precision": _precision_format,
}


def _constant(p: Parser) -> Parts:
    parts = Parts()
    if p.c.next_is("{"):
        parts.attributes = p.attributes.dictionary()
    position, mark = p.c.position, p.c.at
    parts.attributes["value"] = p.attributes.value()
    # the type is that of the constant
    inner = [i for i in range(mark, p.c.at) if p.c.kinds[i] == "tensor"]
    if not inner:
        p.c.fail("a constant is written dense<..> : tensor<..>", position)
    after, p.c.at = p.c.at, inner[-1]
    parts.types = ([], [p.attributes.type()])
    p.c.at = after
    return parts


def _slice(p: Parser) -> Parts:
    """``%x [0:4:2, 1:3]``."""
    c = p.c
    parts = Parts([c.expect_kind("value", "an operand")])
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    c.expect("[")
    while not c.accept("]"):
        if starts:
            c.expect(",")
        starts.append(_integer(p))
        c.expect(":")
        limits.append(_integer(p))
        strides.append(_integer(p) if c.accept(":") else 1)
    parts.attributes = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    if c.next_is("{"):
        parts.attributes.update(p.attributes.dictionary())
    return parts


def _integer(p: Parser) -> int:
    word = p.c.expect_kind("number", "an integer")
    if not re.fullmatch(r"-?\d{1,18}", word):
        p.c.fail(f"{word[:40]!r} is no integer")
    return int(word)


def _tuple_element(p: Parser) -> Parts:
    parts = Parts([p.c.expect_kind("value", "an operand")])
    p.c.expect("[")
    parts.attributes["index"] = _integer(p)
    p.c.expect("]")
    return parts


def _while(p: Parser) -> Parts:
    """``(%a = %x, %b = %y) : types cond {...} do {...}``."""
    c, parts = p.c, Parts()
    names: list[str] = []
    c.expect("(")
    while not c.accept(")"):
        if names:
            c.expect(",")
        names.append(c.expect_kind("value", "an argument"))
        c.expect("=")
        parts.operands.append(c.expect_kind("value", "an operand"))
    types: list[Any] = []
    if names:
        c.expect(":")
        types.append(p.attributes.type())
        while c.accept(","):
            types.append(p.attributes.type())
    if len(types) != len(names):
        c.fail(f"this loop carries {len(names)} values and names {len(types)} types")
    if c.accept("attributes"):
        parts.attributes = p.attributes.dictionary()
    for word in ("cond", "do"):
        c.expect(word)
        parts.regions.append(p.region(list(names), list(types)))
    parts.types = (types, types)
    return parts


def _reduce(p: Parser) -> Parts:
    """``(%x init: %c), (%y init: %d) applies op across dimensions = [0] : types``."""
    c, parts = p.c, Parts()
    starts: list[str] = []
    while True:
        c.expect("(")
        parts.operands.append(c.expect_kind("value", "an operand"))
        c.expect("init")
        c.expect(":")
        starts.append(c.expect_kind("value", "an initial value"))
        c.expect(")")
        if not c.accept(","):
            break
    count = len(starts)
    parts.operands += starts
    position, applied = c.position, ""
    if c.accept("applies"):
        applied = c.expect_kind("word", "an operation")
    c.expect("across")
    c.expect("dimensions")
    c.expect("=")
    parts.attributes["dimensions"] = p.attributes.values()
    if c.next_is("{"):
        parts.attributes.update(p.attributes.dictionary())
    parts.types = p.signature(count)
    kinds = [p.scalar(kind) for kind in (parts.types[0] or [])[count:]]
    if applied:
        if count != 1 or not kinds:
            c.fail("'applies' is the short form of a reduction of one array", position)
        parts.regions.append(applied_block(applied, kinds[0], position))
        return parts
    c.expect("reducer")
    names: list[tuple[str, str]] = []
    types: list[tuple[Any, Any]] = []
    while c.next_is("("):
        (left, right), (first, second) = _pair(p)
        names.append((left, right))
        types.append((first, second))
    flat = [pair[i] for i in range(2) for pair in names]
    c.skip_location()
    parts.regions.append(p.region(flat, [pair[i] for i in range(2) for pair in types]))
    return parts


def _pair(p: Parser) -> tuple[tuple[str, str], tuple[Any, Any]]:
    names, types = p.arguments()
    if len(names) != 2:
        p.c.fail("a reducer takes pairs of arguments")
    return (names[0], names[1]), (types[0], types[1])


def applied_block(name: str, kind: Any, position: int) -> Block:
    """The region of a reduction by one operation."""
    block = Block(["%lhs", "%rhs"], [kind, kind])
    step = Operation(name, ["%out"], ["%lhs", "%rhs"], {}, [], [kind], [kind, kind], position)
    end = Operation("stablehlo.return", [], ["%out"], {}, [], [], [kind], position)
    block.operations += [step, end]
    return block


def _manual_computation(p: Parser) -> Parts:
    """``(%x) in_shardings=[..] out_shardings=[..] manual_axes={..} (%a: t) {...}``."""
    c, parts = p.c, Parts()
    c.expect("(")
    while not c.accept(")"):
        if parts.operands:
            c.expect(",")
        parts.operands.append(c.expect_kind("value", "an operand"))
    for key in ("in_shardings", "out_shardings", "manual_axes"):
        c.expect(key)
        c.expect("=")
        if not (c.next_is("[") or c.next_is("{")):
            c.fail(f"expected a list, found {c.found}")
        parts.attributes[key] = Raw(key, c.skip_balanced())
    names, types = p.arguments()
    parts.regions.append(p.region(names, types))
    return parts


SPECIAL: dict[str, Callable[[Any], Parts]] = {
    "stablehlo.constant": _constant,
    "stablehlo.slice": _slice,
    "stablehlo.get_tuple_element": _tuple_element,
    "stablehlo.while": _while,
    "stablehlo.reduce": _reduce,
    "sdy.manual_computation": _manual_computation,
}
