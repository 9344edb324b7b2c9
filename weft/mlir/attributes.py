"""Types, constants and attributes of operations, from tokens to Python values."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from weft.mlir.errors import Unread
from weft.mlir.lexer import Cursor
from weft.mlir.tree import DTYPES, Other, Raw, Symbol, Tensor, Word

MAX_ELEMENTS = 1 << 46  # of an array; no machine holds more
MAX_RANK = 64
MAX_DEPTH = 64  # of attributes in attributes
_NUMBERS = re.compile(r"[^\s,\[\]()]+")
_FLAT = re.compile(r"[^\[\]]*")
INDEX = np.dtype(np.int64)

# --- types ----------------------------------------------------------------------------------------


def element_type(name: str) -> np.dtype | None:
    """The dtype of a name; those of integers with a sign in their name too."""
    if name == "index":
        return INDEX
    return DTYPES.get(name[1:] if name.startswith("si") else name)


def tensor_type(c: Cursor, text: str, position: int, known: dict[str, Tensor]) -> Tensor:
    """``tensor<2x?xf32>``."""
    found = known.get(text)
    if found is not None:
        return found
    inner = text[len("tensor<") : -1].partition(",")[0].replace(" ", "")
    *sizes, name = re.split(r"(?<=[\d?])x", inner)
    dtype = element_type(name)
    if dtype is None:
        c.fail(f"{name[:40]!r} is no element type that weft has", position)
    if len(sizes) > MAX_RANK or not all(re.fullmatch(r"\?|\d{1,15}", n) for n in sizes):
        c.fail(f"{text[:60]!r} is no type of an array: its sizes are numbers or '?'", position)
    shape = tuple([None if n == "?" else int(n) for n in sizes])
    if prod([n for n in shape if n]) > MAX_ELEMENTS:
        c.fail(f"no machine holds an array of type {text[:60]}", position)
    result = known[text] = Tensor(shape, dtype)
    return result


def parse_type(c: Cursor, known: dict[str, Tensor], depth: int = 0) -> Any:
    """The type here."""
    if depth > MAX_DEPTH:
        c.fail("types are nested too deeply")
    position = c.position
    if c.kind == "tensor":
        return tensor_type(c, c.take(), position, known)
    if c.kind == "bang":
        name = c.take()
        if c.next_is("<"):
            c.skip_balanced()
        return Other(name[1:])
    if c.next_is("("):
        ins = type_list(c, known, depth + 1)
        c.expect_kind("arrow", "'->'")
        return Other("function", (tuple(ins), tuple(result_types(c, known, depth + 1))))
    name = c.expect_kind("word", "a type")
    if name == "tensor":
        c.fail("this is no type of an array; it is written tensor<2x3xf32>", position)
    if name == "tuple":
        c.expect("<")
        parts = []
        while not c.accept(">"):
            parts.append(parse_type(c, known, depth + 1))
            c.accept(",")
        return Other("tuple", tuple(parts))
    if name == "none":
        return Other("none")
    if c.next_is("<"):
        name += f"<{c.skip_balanced()}>"
    dtype = element_type(name)
    if dtype is None:
        c.fail(f"{name[:40]!r} is no type that weft has", position)
    return Tensor((), dtype)


def type_list(c: Cursor, known: dict[str, Tensor], depth: int = 0) -> list[Any]:
    """Types in parentheses."""
    c.expect("(")
    found: list[Any] = []
    while not c.accept(")"):
        if found:
            c.expect(",")
        found.append(parse_type(c, known, depth))
    return found


def result_types(c: Cursor, known: dict[str, Tensor], depth: int = 0) -> list[Any]:
    """One type, or several in parentheses."""
    return type_list(c, known, depth) if c.next_is("(") else [parse_type(c, known, depth)]


# --- constants ------------------------------------------------------------------------------------


def dense(c: Cursor, text: str, kind: Tensor, position: int, blobs: dict[str, bytes]) -> np.ndarray:
    """The array of a constant; one that repeats a number takes no memory for it."""
    shape = kind.shape
    if None in shape:
        c.fail(f"a constant has sizes that are known, not {kind}", position)
    sizes = tuple([n for n in shape if n is not None])
    body = text[text.index("<") + 1 : -1].strip()
    try:
        if text.startswith("dense_resource"):
            values = np.frombuffer(blobs[body], kind.dtype)
        elif body.startswith('"'):
            values = _from_hex(body.strip('"'), kind.dtype)
        else:
            values = _from_numbers(body, kind.dtype, sizes)
    except KeyError:
        c.fail(f"the module has no resource {body[:40]!r} for a constant", position)
    except (ValueError, OverflowError) as error:
        c.fail(f"this is no constant of type {kind}: {str(error)[:100]}", position)
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), sizes)
    if values.size != prod(sizes):
        c.fail(f"a constant of type {kind} has {values.size} numbers", position)
    return values.reshape(sizes)


def _from_hex(text: str, dtype: np.dtype) -> np.ndarray:
    raw = bytes.fromhex(text.removeprefix("0x"))
    if dtype == np.bool_:  # eight to a byte, except one that is repeated
        if len(raw) == 1:
            return np.asarray([raw[0] != 0])
        return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little").astype(bool)
    return np.frombuffer(raw, dtype)


def _from_numbers(body: str, dtype: np.dtype, sizes: tuple[int, ...]) -> np.ndarray:
    if not body:
        return np.zeros(0, dtype)
    if "[" in body:
        _check_nesting(body, sizes)
    words = _NUMBERS.findall(body)
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        return _numbers(words, part).view(dtype)
    return _numbers(words, dtype)


def _check_nesting(body: str, sizes: tuple[int, ...]) -> None:
    depth = top = 0
    for mark in _FLAT.sub("", body):
        depth += 1 if mark == "[" else -1
        top = max(top, depth)
    if depth or top != len(sizes):
        raise ValueError(f"its lists are nested {top} deep")


def _numbers(words: list[str], dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        found = {"true": True, "false": False, "1": True, "0": False, "-1": True}
        if not all(word in found for word in words):
            raise ValueError("booleans are true or false")
        return np.asarray([found[word] for word in words], np.bool_)
    if any(word.startswith(("0x", "-0x")) for word in words):
        return np.concatenate([_one(word, dtype).reshape(1) for word in words])
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        values = [int(word) for word in words]
        if dtype.kind in "iu":
            return np.asarray(values, dtype)
        return np.asarray(values).astype(dtype)
    return np.asarray([float(word) for word in words], np.float64).astype(dtype)


def _one(word: str, dtype: np.dtype) -> np.ndarray:
    if not word.startswith(("0x", "-0x")):
        return _numbers([word], dtype)
    if dtype.kind in "iu":
        return np.asarray(int(word, 16), dtype)
    return np.frombuffer(int(word, 16).to_bytes(dtype.itemsize, "little"), dtype)


# --- attributes -----------------------------------------------------------------------------------


class Attributes:
    """Reads attributes; keeps types, aliases and resources of the module."""

    def __init__(self, cursor: Cursor) -> None:
        self.c = cursor
        self.known: dict[str, Tensor] = {}
        self.aliases: dict[str, Any] = {}
        self.blobs = _resources(cursor)
        self.is_typed = True  # whether numbers may be followed by their types

    def type(self) -> Any:
        return parse_type(self.c, self.known)

    def dictionary(self, depth: int = 0) -> dict[str, Any]:
        """``{name = value, flag}``."""
        self.c.expect("{")
        outer, self.is_typed = self.is_typed, True
        found = self.entries("}", depth)
        self.is_typed = outer
        return found

    def entries(self, end: str, depth: int = 0) -> dict[str, Any]:
        """Names and values up to a closing bracket."""
        c = self.c
        found: dict[str, Any] = {}
        while not c.accept(end):
            if found:
                c.expect(",")
            name = c.take().strip('"') if c.kind == "string" else c.expect_kind("word", "a name")
            found[name] = self.value(depth + 1) if c.accept("=") else True
        return found

    def value(self, depth: int = 0) -> Any:
        """The attribute here."""
        c, position = self.c, self.c.position
        if depth > MAX_DEPTH:
            c.fail("attributes are nested too deeply")
        kind, word = c.kind, c.word
        if kind == "string":
            c.take()
            self._suffix()
            return _unquoted(word)
        if kind == "number":
            return self._number(c.take(), position)
        if kind == "dense":
            c.take()
            c.expect(":")
            own = self.type()
            if not isinstance(own, Tensor):
                c.fail(f"a constant is an array, not {own}", position)
            return dense(c, word, own, position, self.blobs)
        if kind == "symbol":
            c.take()
            while c.accept("::"):
                c.expect_kind("symbol", "a name after '::'")
            return Symbol(word[1:].strip('"'))
        if kind == "alias":
            return self._tagged(depth)
        if word == "[":
            return self.values(depth)
        if word == "{":
            return self.dictionary(depth)
        if kind in ("tensor", "bang") or word == "(":
            return self.type()
        if kind == "word":
            return self._word(word)
        c.fail(f"expected an attribute, found {c.found}")

    def untyped(self) -> Any:
        """The attribute here, where the types of an operation may follow it."""
        self.is_typed = False
        found = self.value()
        self.is_typed = True
        return found

    def values(self, depth: int = 0) -> list[Any]:
        """``[value, value]``."""
        self.c.expect("[")
        found: list[Any] = []
        while not self.c.accept("]"):
            if found:
                self.c.expect(",")
            found.append(self.value(depth + 1))
        return found

    def _word(self, word: str) -> Any:
        c = self.c
        if word in ("true", "false"):
            c.take()
            self._suffix()
            return word == "true"
        if word == "array" and c.next_is("<", 1):
            return self._array()
        if word == "loc" and c.next_is("(", 1):
            c.skip_location()
            return None
        c.take()
        if c.next_is("<"):
            return Raw(word, c.skip_balanced())
        return Word(word)

    def _array(self) -> list[Any]:
        """``array<i64: 1, 2>``."""
        c = self.c
        c.take()
        c.expect("<")
        self.type()
        found: list[Any] = []
        if c.accept(":"):
            while not c.next_is(">"):
                if found:
                    c.expect(",")
                found.append(self.value(MAX_DEPTH))
        c.expect(">")
        return found

    def _number(self, word: str, position: int) -> Any:
        kind = self._suffix()
        try:
            if isinstance(kind, Tensor) and kind.dtype.kind not in "iub":
                return float(_one(word, kind.dtype).reshape(()))
            return (
                int(word, 0)
                if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|0|[1-9]\d*)", word)
                else float(word)
            )
        except (ValueError, OverflowError, TypeError):
            self.c.fail(f"{word[:40]!r} is no number", position)

    def _suffix(self) -> Any:
        """The type of an attribute, if one is written."""
        c = self.c
        if self.is_typed and c.next_is(":") and c.kinds[c.at + 1] in ("word", "tensor", "bang"):
            c.take()
            return self.type()
        return None

    def _tagged(self, depth: int) -> Any:
        """``#stablehlo<precision HIGH>``, ``#stablehlo.dot<...>``, ``#sdy.sharding<...>``."""
        c = self.c
        name = c.take()[1:]
        if not c.next_is("<"):
            return self.aliases.get(name, Raw(name, ""))
        dialect = name.partition(".")[0]
        if dialect not in ("stablehlo", "mhlo", "chlo", "vhlo"):
            return Raw(name, c.skip_balanced())
        c.take()
        if "." not in name:  # a word of an enumeration
            c.expect_kind("word", "the name of an attribute")
            if c.next_is("<"):
                found: Any = Raw(name, c.skip_balanced())
            else:
                found = Word(c.take())
            c.expect(">")
            return found
        if name.endswith(".conv"):
            return convolution_numbers(self, ">")
        if c.kind == "word" and c.next_is("=", 1):
            return self.entries(">", depth + 1)
        if c.kind == "word" and c.next_is(">", 1):
            found = Word(c.take())
            c.expect(">")
            return found
        c.at -= 1
        return Raw(name, c.skip_balanced())


_SIDES = {"lhs": ("b", "f"), "rhs": ("o", "i"), "out": ("b", "f")}
_RAW_NUMBERS = {
    "lhs": ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "rhs": (
        "kernel_output_feature_dimension",
        "kernel_input_feature_dimension",
        "kernel_spatial_dimensions",
    ),
    "out": ("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
}


def convolution_numbers(a: Attributes, end: str) -> dict[str, tuple[int, ...]]:
    """``[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]``, as the axes of each array in lax's order."""
    c, position = a.c, a.c.position
    found: dict[str, tuple[int, ...]] = {}
    if c.accept("raw"):
        given = a.entries(end)
        try:
            for side, (first, second, rest) in _RAW_NUMBERS.items():
                found[side] = (given[first], given[second], *given[rest])
        except (KeyError, TypeError):
            c.fail("dimension numbers of a convolution lack a part", position)
        return found
    for side, letters in _SIDES.items():
        if side == "rhs":
            c.expect("x")
        elif side == "out":
            c.expect_kind("arrow", "'->'")
        c.expect("[")
        places: dict[str, int] = {}
        while not c.accept("]"):
            if places:
                c.expect(",")
            places[c.take()] = len(places)
        spatial = [str(i) for i in range(len(places) - 2)]
        try:
            found[side] = tuple([places[name] for name in (*letters, *spatial)])
        except KeyError as error:
            c.fail(f"dimension numbers of a convolution lack {error}", position)
    if end:
        c.expect(end)
    return found


def _unquoted(word: str) -> str:
    """The text in quotes; two hex digits after a backslash are a byte."""
    if "\\" not in word:
        return word[1:-1]
    raw = re.sub(
        rb"\\([0-9A-Fa-f]{2}|.)",
        lambda m: bytes.fromhex(m[1].decode()) if len(m[1]) == 2 else _ESCAPES.get(m[1], m[1]),
        word[1:-1].encode(),
    )
    return raw.decode("utf-8", "replace")


_ESCAPES = {b"n": b"\n", b"t": b"\t"}


def _resources(cursor: Cursor) -> dict[str, bytes]:
    """The constants kept at the end of a module: names, then bytes after an alignment."""
    found = {}
    for kind, word, start in zip(cursor.kinds, cursor.words, cursor.starts, strict=True):
        if kind == "resources":
            for name, text in re.findall(r'([\w$.\-]+|"[^"]*")\s*:\s*"0x([0-9A-Fa-f]*)"', word):
                try:
                    found[name.strip('"')] = bytes.fromhex(text)[4:]
                except ValueError:
                    raise cursor.error(f"the resource {name!r} isn't in bytes", start) from None
    return found


def integers(value: Any, what: str) -> tuple[int, ...]:
    """A list of integers, in whichever form it was written."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if not isinstance(value, list) or not all(type(n) is int for n in value):
        raise Unread(f"{what} must be a list of integers")
    return tuple(value)
