"""Entries of functions: what native code expects of a call's arguments, and what it makes of them.

A recipe is a row of words that says how a tree is taken apart or put together. Objects of users'
classes are read attribute by attribute where that is all their registration does; functions of
Python take apart what is left, and build all of them. A leaf that native code does not know has no
words, and its calls go the slow way.
"""

from __future__ import annotations

import ctypes
import enum
import inspect
import itertools
import struct
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, MemberDescriptorType, MethodType
from typing import Any

import numpy as np

from weft.backends.llvm.calls import tables
from weft.backends.llvm.calls.dispatch import (
    address,
    is_loading,
    native,
    slot_numbers,
    supported,
    words_of,
)
from weft.base import knobs
from weft.base.record import Record
from weft.runtime.array import ArrayImpl
from weft.runtime.function import NativeFunction
from weft.runtime.patterns import CallPattern, OperationPattern, Pattern

# Entries of one function, and of one operation; those made last are kept.
MAX_FUNCTION_ENTRIES, MAX_OPERATION_ENTRIES = 16, 64
# What native code takes as numbers, besides arrays.
_NUMBERS = (bool, int, float, range, np.generic)
# References of one call: each is compared with all others.
MOST_REFERENCES = 64
_CODES = {
    np.dtype(np.float32): tables.SINGLE,
    np.dtype(np.float64): tables.DOUBLE,
    np.dtype(np.int32): tables.INT32,
}
_BITS = {np.dtype(np.int32): 32, np.dtype(np.int64): 64}


# dtypes of NumPy scalars that have their value in them, and those native code makes narrower.
_IN_OBJECTS = frozenset(np.dtype(c) for c in "?bhilqBHILQefdFD")
_HALVED = frozenset((np.dtype(wide), np.dtype(narrow)) for wide, narrow in ("df", "li", "qi"))
_UNCHANGING = frozenset(
    [bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type, np.dtype, range]
    + [BuiltinFunctionType, MethodType]  # which compare what they are bound to by identity
    + [type(np.dtype(c)) for c in np.typecodes["All"]]
    + [np.dtype(c).type for c in "?bhilqBHILQefdFD"]
)


class NoRecipe(Exception):
    """A tree or a leaf that native code cannot take apart."""


class Entry(Record):
    """One way to call a function, and everything its words point to."""

    key: tuple[int, ...]
    words: tuple[int, ...]  # for native code
    kept: Any


def _match(node: Any, leaves: Iterator[list[int]]) -> list[int]:
    """How a tree is flattened; ``leaves`` gives the words of each leaf."""
    kind, tag = node.kind, node.kind.tag
    if kind.type is None:
        return next(leaves)
    if tag == "none":
        return [tables.NOTHING]
    if tag in ("tuple", "namedtuple"):
        words = [tables.TUPLE, id(kind.type), len(node.children)]
    elif tag == "list":
        words = [tables.LIST, id(list), len(node.children)]
    elif tag == "dict":
        words = [tables.DICT, len(node.children), *map(id, node.aux)]
    elif _has_attributes(kind):
        data, meta = kind.fields
        words = [tables.FIELDS, id(kind.type), len(meta) + len(data), *map(id, meta + data)]
        words += [word for value in node.aux for word in static_words(value)]
    else:
        words = [tables.CALLED, id(kind.type), id(kind.expand), *static_words(node.aux)]
        words += [tables.TUPLE, id(tuple), len(node.children)]
    for child in node.children:
        words += _match(child, leaves)
    return words


def _build(node: Any) -> list[int]:
    """How a tree is put together."""
    kind, tag = node.kind, node.kind.tag
    if kind.type is None:
        return [tables.LEAF]
    if tag == "none":
        return [tables.NOTHING]
    if tag == "tuple" or (tag == "namedtuple" and _plain(kind.type)):
        words = [tables.TUPLE, id(kind.type), len(node.children)]
    elif tag == "list":
        words = [tables.LIST, id(list), len(node.children)]
    elif tag == "dict":
        words = [tables.DICT, len(node.children), *map(id, node.aux)]
    else:
        words = [tables.BUILD, id(kind.build), id(node.aux), len(node.children)]
    for child in node.children:  # one frame a level: trees may be nearly as deep as Python goes
        words += _build(child)
    return words


def _has_attributes(kind: Any) -> bool:
    """Whether containers of a kind are their attributes, and reading one runs no code."""
    if kind.fields is None or kind.type.__getattribute__ is not object.__getattribute__:
        return False
    own = [inspect.getattr_static(kind.type, name, None) for name in sum(kind.fields, ())]
    return all(type(x) is MemberDescriptorType or not hasattr(type(x), "__set__") for x in own)


def _is_called(node: Any) -> bool:
    """Whether functions of Python take a part of a tree apart."""
    if node.kind.tag in ("custom", "dataclass") and not _has_attributes(node.kind):
        return True
    for child in node.children:
        if _is_called(child):
            return True
    return False


def _plain(cls: Any) -> bool:
    """Whether a class of named tuples makes its instances as ``namedtuple`` itself does."""
    named = next(c for c in reversed(cls.__mro__) if "_fields" in vars(c))
    return cls.__new__ is named.__new__ and cls.__init__ is object.__init__


def _fixed(value: Any) -> bool:
    """Whether an object equals only what it equalled before: then it is known by its identity."""
    kind = type(value)
    if kind in _UNCHANGING or kind.__hash__ is object.__hash__:
        return True
    if isinstance(value, enum.Enum) or _names_dtype(value):
        return True
    if kind in (tuple, frozenset):
        return all(map(_fixed, value))
    params = getattr(kind, "__dataclass_params__", None)
    if params is None or not params.frozen:
        return False
    return all(_fixed(getattr(value, name, None)) for name in kind.__dataclass_fields__)


def _names_dtype(value: Any) -> bool:
    """Whether an object is a class that stands for a dtype, which compares as that."""
    return isinstance(value, type) and isinstance(getattr(value, "dtype", None), np.dtype)


def static_words(value: Any) -> list[int]:
    """How an argument that is part of the program is recognised: numbers and texts by their value,
    tuples and lists by their items, all else by identity."""
    kind = type(value)
    if kind is int and -(1 << 63) <= value < 1 << 63:
        return [tables.EQUAL, value]
    if kind is float:
        return [tables.BITS, *struct.unpack("q", struct.pack("d", value))]
    if kind is str:
        return [tables.TEXT, id(value)]
    if kind is list or (isinstance(value, tuple) and kind.__eq__ is tuple.__eq__):
        items = [word for item in value for word in static_words(item)]
        return [tables.LIST if kind is list else tables.TUPLE, id(kind), len(value), *items]
    if not _fixed(value):
        raise NoRecipe
    return [tables.SAME, id(value)]


def leaf_words(x: Any, aval: Any) -> list[int]:
    """How an argument is recognised when it comes again."""
    kind = type(x)
    if kind is ArrayImpl:
        return [tables.LEAF, id(x._type)]
    if kind is np.ndarray and x.dtype == aval.dtype and x.dtype.isbuiltin:
        return [tables.NUMPY, id(x.dtype), x.ndim, *x.shape]
    if kind is bool and aval.dtype == np.bool_:
        return [tables.BOOLEAN, 0]
    if kind is float and aval.dtype.kind == "f" and aval.dtype in _CODES:
        return [tables.FLOATING, _CODES[aval.dtype]]
    if kind is int and aval.dtype in _BITS:
        limit = 1 << _BITS[aval.dtype] - 1
        return [tables.INDEX, -limit, limit - 1]
    if isinstance(x, np.generic):
        return _scalar_words(x, aval.dtype)
    if kind is range:  # any whole number in it
        return [tables.INDEX, x.start, x.stop - 1]
    if _is_reference(x):
        slots, held = slot_numbers(kind, ["_aval", "_refs"]), x._refs
        if type(held) is not ArrayImpl:
            raise NoRecipe
        aval = [slots["_aval"], id(x.aval)]
        return [tables.REFERENCE, id(kind), *aval, slots["_refs"], id(held._type)]
    raise NoRecipe


def _scalar_words(x: np.generic, dtype: Any) -> list[int]:
    where = id(x) + tables.SCALAR_VALUE * 8
    if x.dtype not in _IN_OBJECTS or ctypes.string_at(where, x.itemsize) != x.tobytes():
        raise NoRecipe
    if x.dtype == dtype:
        return [tables.GENERIC, id(type(x)), tables.AS_IS]
    if (x.dtype, dtype) not in _HALVED:
        raise NoRecipe
    return [tables.GENERIC, id(type(x)), _CODES[dtype]]


def _is_reference(x: Any) -> bool:
    return getattr(getattr(x, "aval", None), "is_ref", False)


def call_words(call: Any, tree: Any, leaves: Any, avals: Any) -> list[int]:
    """How a call is recognised; ``call`` marks each argument as static or not.

    ``call`` is (positional, named): rows of (static, value), the named ones by sorted name.
    """
    positional, named = call
    given = iter(leaf_words(x, a) for x, a in zip(leaves, avals, strict=True))
    args, kwargs = (iter(node.children) for node in tree.node.children)
    words = [tables.TUPLE, id(tuple), len(positional)]
    for static, value in positional:
        _argument(static, value, args, given, words)
    words += [tables.DICT, len(named), *(id(name) for name, _ in named)]
    for _, (static, value) in named:
        _argument(static, value, kwargs, given, words)
    return words


def _argument(static: bool, value: Any, nodes: Any, given: Any, words: list[int]) -> None:
    if static:
        words.extend(static_words(value))
    else:
        words.extend(_match(next(nodes), given))


def donated_words(args: Any, executable: Any, donated: Any, written: Any) -> list[int]:
    """Rows of arguments that are donated, and of references; others than arrays lose nothing."""
    taken = executable.taken
    refs = [i for i, x in enumerate(args) if _is_reference(x)]
    if len(refs) > MOST_REFERENCES or (executable.stops and any(i in taken for i in refs)):
        raise NoRecipe
    if any(i not in refs and type(args[i]) is not ArrayImpl for i in taken):
        raise NoRecipe
    result = len(executable.out_avals) - sum(written)  # the first that a reference gets
    rows = []
    for i, x in enumerate(args):
        if i in refs:
            slot = slot_numbers(type(x), ["_aval", "_refs"])["_refs"]
            rows.append([i, i in taken, slot, result if written[i] else -1])
            result += written[i]
        elif type(x) is ArrayImpl and donated and donated[i]:
            rows.append([i, i in taken, 0, -1])
    return [len(rows), *(word for row in rows for word in row)]


def remember(pattern: Pattern, find: Callable[[], Any]) -> bool:
    """Let calls of a pattern be answered natively by what ``find`` gives, on a device; False if it
    is too early to say."""
    if is_loading() and native(wait=False) is None:
        return False
    if not supported() or pattern.has_references:
        return True
    if all(type(x) is ArrayImpl or isinstance(x, _NUMBERS) for x in pattern.operands):
        executable = find()
        if executable is not None:
            add(pattern, executable)
    return True


def add(pattern: Pattern, executable: Any, avals: Any = None) -> None:
    """Let calls of a pattern be answered natively from now on; ``avals`` are the types of their
    operands, by default those of the pattern's program."""
    avals = pattern.closed.in_avals if avals is None else avals
    if isinstance(pattern, CallPattern):
        _add_call(pattern, executable, avals)
    else:
        _add_operation(pattern, executable, avals)


def _add_call(pattern: CallPattern, executable: Any, avals: Any) -> None:
    function, call, tree, leaves = pattern.function, pattern.call, pattern.tree, pattern.leaves
    hoisted, given, out_tree = pattern.hoisted, pattern.given, pattern.out_tree
    count = len(hoisted)
    if given is not None and type(leaves[given]) is not ArrayImpl:
        return
    try:
        operands = [*hoisted, *leaves]
        lost = donated_words(operands, executable, pattern.donated, pattern.written)
        fixed = [(x, leaf_words(x, a)) for x, a in zip(hoisted, avals, strict=False)]
        words = [word for x, row in fixed for word in (tables.FIXED, id(x), *row)]
        words += call_words(call, tree, leaves, avals[count:])
        if _is_called(tree.node):
            words = [tables.TWICE, *words]
    except NoRecipe:
        return
    old, context = entries_of(function), knobs.context_key()
    key = (id(context), *words)
    if any(entry.key == key for entry in old):
        return
    result = [tables.GIVEN, given] if given is not None else _build(out_tree.node)
    # the words hold addresses of these
    types = [getattr(x, name, 0) for x in leaves for name in ("dtype", "aval", "_type")]
    types += [x._refs._type for x in [*hoisted, *leaves] if _is_reference(x)]
    kept = (_without_arrays(call), tree, types, list(avals), out_tree, list(hoisted))
    donors = words_of(lost) if lost[0] else None
    entry = _entry(context, words, executable, result, donors, kept)
    _install(function, [entry, *old][:MAX_FUNCTION_ENTRIES])


def _add_operation(pattern: OperationPattern, executable: Any, avals: Any) -> None:
    function, given = pattern.function, pattern.arguments
    named = sorted(pattern.options.items())
    words = [tables.TUPLE, id(tuple), len(given)]
    rest = iter(avals)
    try:
        for kind, value in given:
            if kind == "leaf":
                words += leaf_words(value, next(rest))
            else:
                index, shape, operands = value
                words += index_words(index, shape)
                list(itertools.islice(rest, operands))
        words += [tables.DICT, len(named), *(id(name) for name, _ in named)]
        for _, value in named:
            words += static_words(value)
    except NoRecipe:
        return
    kept = [*avals, *named, *(getattr(value, "dtype", None) for _, value in given)]
    kept += [part._type for _, value in given for part in _arrays(value)]
    entry = _entry(knobs.context_key(), words, executable, [tables.LEAF], None, kept)
    _install(function, [entry, *entries_of(function)][:MAX_OPERATION_ENTRIES])


def index_words(index: Any, shape: tuple[int, ...]) -> list[int]:
    """How an index is recognised: numbers within their axis are operands, slices are fixed."""
    parts = index if type(index) is tuple else (index,)
    taking = [p for p in parts if p is not None and p is not Ellipsis]
    words = [tables.TUPLE, id(tuple), len(parts)] if type(index) is tuple else []
    axis = 0
    for i, part in enumerate(parts):
        if part is None:
            words.append(tables.NOTHING)
        elif part is Ellipsis:
            words += [tables.SAME, id(Ellipsis)]
            after = [p for p in parts[i + 1 :] if p is not None]
            axis = len(shape) - len(after)
        else:
            words += _part_words(part, shape[axis])
            axis += 1
    if len(taking) > len(shape):
        raise NoRecipe
    return words


def _arrays(value: Any) -> list[Any]:
    """The arrays among an operand, or the parts of an index."""
    parts = value if type(value) is tuple else (value,)
    nested = [p for part in parts for p in (part if type(part) is tuple else (part,))]
    return [p for p in nested if type(p) is ArrayImpl]


def _part_words(part: Any, size: int) -> list[int]:
    if type(part) is int:
        return [tables.INDEX, -size, size - 1]
    if type(part) is slice:
        words = [tables.SLICE]
        for end in (part.start, part.stop, part.step):
            words += [tables.NOTHING] if end is None else [tables.EQUAL, end]
        return words
    return leaf_words(part, part)


def _without_arrays(call: Any) -> Any:
    """The static arguments and the names of a call: what its recipe points to."""
    positional, named = call
    fixed = [value for static, value in positional if static]
    return fixed, [(name, value if static else None) for name, (static, value) in named]


def entries_of(function: NativeFunction) -> list[Entry]:
    try:
        return function._entries[1]
    except AttributeError:
        return []


def _entry(
    context: Any, recipe: list[int], executable: Any, result: list[int], lost: Any, kept: Any
) -> Entry:
    """An entry that knows where its parts are."""
    parts = [words_of(recipe), executable.table, words_of(result), lost]
    words = [id(context), *(0 if part is None else address(part) for part in parts)]
    return Entry((id(context), *recipe), tuple(words), (context, parts, executable, kept))


def _install(function: NativeFunction, entries: list[Entry]) -> None:
    walks = native()
    assert walks is not None
    counts = _counts(function)
    words = [address(walks.shared), len(entries)]
    for e in entries:
        words += (*e.words, counts.get(e.key, 0) if counts else 0)
    # one object holds the words and all they point to: who holds it may use them
    function._entries = (words_of(words), entries)


def _counts(function: NativeFunction) -> dict[Any, int]:
    """How often each entry has answered."""
    try:
        words, entries = function._entries
    except AttributeError:
        return {}
    first = tables.FIRST_ENTRY + tables.ENTRY_HITS
    return {e.key: int(words[first + i * tables.ENTRY_WORDS]) for i, e in enumerate(entries)}


def hits(function: NativeFunction) -> int:
    """How often native code has answered calls of a function, by the entries that are left."""
    return sum(_counts(function).values())
