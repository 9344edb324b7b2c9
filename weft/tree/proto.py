"""Structures of plain containers as protocol buffers, byte for byte as JAX writes them.

The message holds the nodes in post-order (field 1: arity, type, for dicts the numbers of their
keys) and the keys (field 2), each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from weft.base.errors import JaxRuntimeError
from weft.tree.kinds import kind_of
from weft.tree.nodes import LEAF, Node, make_node

_LEAF, _LIST, _NONE, _TUPLE, _DICT = range(1, 6)
_TYPES = {"list": _LIST, "none": _NONE, "tuple": _TUPLE, "dict": _DICT}
_CLASSES = {_LIST: list, _NONE: type(None), _TUPLE: tuple, _DICT: dict}
_VARINT, _BYTES = 0, 2


def serialize(node: Node) -> bytes:
    """A structure of lists, tuples, dicts with string keys, None and leaves."""
    keys: dict[str, int] = {}
    nodes = b"".join(_bytes(1, _node_message(n, keys)) for n in _post_order(node))
    return nodes + b"".join(_bytes(2, key.encode()) for key in keys)


def _post_order(node: Node) -> Iterator[Node]:
    if node is not LEAF:
        for child in node.children:
            yield from _post_order(child)
    yield node


def _node_message(node: Node, keys: dict[str, int]) -> bytes:
    if node is LEAF:
        return _number(2, _LEAF)
    tag = node.kind.tag
    if tag not in _TYPES:
        name = node.kind.type.__name__ if node.kind.type else tag
        raise ValueError(
            f"a structure with {name} nodes cannot be a protocol buffer: only lists, tuples,"
            " dicts and None can; convert the tree to these, or pickle the structure"
        )
    arity = len(node.children)
    message = (_number(1, arity) if arity else b"") + _number(2, _TYPES[tag])
    if tag != "dict" or not arity:
        return message
    if not all(isinstance(key, str) for key in node.aux):
        raise ValueError(f"only dicts with string keys can be protocol buffers: {node.aux}")
    numbers = b"".join(_varint(keys.setdefault(key, len(keys))) for key in node.aux)
    return message + _bytes(3, _bytes(1, numbers))


def deserialize(data: bytes) -> Node:
    """The structure that bytes say; JaxRuntimeError or ValueError if they say none."""
    nodes: list[Any] = []
    keys: list[Any] = []
    for field, value in _fields(data):
        (nodes if field == 1 else keys).append(value)
    stack: list[Node] = []
    names = [_text(key) for key in keys]
    for message in nodes:
        _push(stack, dict(_fields(message)), names)
    if len(stack) != 1:
        raise RuntimeError(f"the bytes hold {len(stack)} structures, not one")
    return stack[0]


def _push(stack: list[Node], fields: dict[int, Any], names: list[str]) -> None:
    """One node, over the children that are on the stack."""
    tag, arity = fields.get(2), fields.get(1, 0)
    if tag == _LEAF:
        stack.append(LEAF)
        return
    if tag not in _CLASSES:
        raise ValueError(f"the bytes hold a node of an unknown type, {tag}")
    if not isinstance(arity, int) or arity > len(stack) or (tag == _NONE and arity):
        raise ValueError(f"the bytes hold a node of {arity} children, where there are {len(stack)}")
    children = stack[len(stack) - arity :]
    del stack[len(stack) - arity :]
    aux: Any = None
    if tag == _DICT:
        numbers = _numbers(dict(_fields(fields.get(3, b""))).get(1, b""))
        if len(numbers) != arity or any(n >= len(names) for n in numbers):
            raise JaxRuntimeError("the bytes hold a dict without all of its keys")
        aux = tuple(names[n] for n in numbers)
    kind = kind_of(cast(type, _CLASSES[tag]))
    assert kind is not None
    stack.append(make_node(kind, aux, children))


def _text(key: Any) -> str:
    try:
        return key.decode()
    except (AttributeError, UnicodeDecodeError):
        raise JaxRuntimeError("the bytes hold a key that isn't text") from None


# --- protocol buffers -----------------------------------------------------------------------------


def _varint(n: int) -> bytes:
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(n)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(data)) + data


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise JaxRuntimeError("the bytes are not a serialized structure: a number has no end")


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = _read_varint(data, at)
        found.append(value)
    return found


def _fields(data: Any) -> Iterator[tuple[int, Any]]:
    """The fields of a message with their values."""
    if not isinstance(data, bytes):
        raise JaxRuntimeError("the bytes are not a serialized structure: a message is a number")
    at = 0
    while at < len(data):
        head, at = _read_varint(data, at)
        value: Any
        value, at = _read_varint(data, at)
        if head & 7 == _BYTES:
            if at + value > len(data):
                raise JaxRuntimeError(
                    "the bytes are not a serialized structure: they end too early"
                )
            value, at = data[at : at + value], at + value
        elif head & 7 != _VARINT:
            raise JaxRuntimeError(
                "the bytes are not a serialized structure: a field of unknown type"
            )
        yield head >> 3, value
