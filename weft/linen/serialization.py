"""Pytrees as state dictionaries and bytes, in the format of ``flax.serialization``.

Files written by either library can be read by the other. Nothing that is read can run code.
"""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

import weft
from weft import tree_util
from weft.linen import msgpack
from weft.linen.core import FrozenDict, unfreeze

# Arrays above this many bytes are stored in pieces: MessagePack holds at most 2**32 in one value.
MAX_CHUNK_SIZE = 2**30

_ARRAY, _COMPLEX, _SCALAR = 1, 2, 3
_CHUNKED = "__msgpack_chunked_array__"


class _NamedTuple:
    """The key of all named tuples in the table of types."""


class _Path(threading.local):
    def __init__(self):
        self.names: list[str] = []
        self.strict = True


_path = _Path()
_handlers: dict[type, tuple[Callable, Callable]] = {}


@contextmanager
def _inside(name):
    _path.names.append(str(name))
    try:
        yield
    finally:
        _path.names.pop()


def current_path() -> str:
    """Where in the tree ``from_state_dict`` is, for messages of handlers."""
    return "/".join(_path.names)


def _kind(target):
    return _NamedTuple if isinstance(target, tuple) and hasattr(target, "_fields") else type(target)


def register_serialization_state(ty, ty_to_state_dict, ty_from_state_dict, override=False):
    """Declare how values of a type become state dictionaries, and how they are restored."""
    if ty in _handlers and not override:
        raise ValueError(
            f"{ty.__name__} has a serialization handler already; pass override=True to replace it"
        )
    _handlers[ty] = ty_to_state_dict, ty_from_state_dict


def is_serializable(target) -> bool:
    """Whether a value, or a type, has a handler."""
    return (target if isinstance(target, type) else type(target)) in _handlers


def to_state_dict(target):
    """Nested dictionaries with string keys that hold what the pytree holds.

    >>> to_state_dict({"a": (1, 2)})
    {'a': {'0': 1, '1': 2}}
    """
    handler = _handlers.get(_kind(target))
    if handler is None:
        return target
    state = handler[0](target)
    if isinstance(state, dict) and not all(isinstance(key, str) for key in state):
        raise TypeError(
            f"the state dictionary of {type(target).__name__} has keys that are not strings"
        )
    return state


def from_state_dict(target, state, name: str = ".", *, strict: bool | None = None):
    """A pytree like ``target`` with the values of a state dictionary.

    A state that does not fit raises ValueError with the path of what differs: names that are
    missing or that the target lacks, arrays of another shape or kind of dtype (a float of another
    width fits), and values of another kind. None in the target takes anything. With
    ``strict=False`` leaves are not looked at and further names are left out, as in flax. Handlers
    that call this function pass on what it was first called with.

    >>> from_state_dict((0, 0), {"0": 1, "1": 2})
    (1, 2)
    >>> from_state_dict({"w": np.zeros(3)}, {"w": np.zeros(2)})
    Traceback (most recent call last):
    ...
    ValueError: the target has float64[3] at './w', the state float64[2]; ...
    >>> from_state_dict({"w": np.zeros(3)}, {"w": np.zeros(2)}, strict=False)
    {'w': array([0., 0.])}
    """
    outer = _path.strict
    if strict is not None:
        _path.strict = strict
    elif not _path.names:
        _path.strict = True
    try:
        with _inside(name):
            handler = _handlers.get(_kind(target))
            if handler is not None:
                return handler[1](target, state)
            if _path.strict:
                _check_leaf(target, state)
            return state
    finally:
        _path.strict = outer


# Kinds of numbers: within one, arrays of any width fit.
_KINDS = (np.bool_, np.signedinteger, np.unsignedinteger, np.floating, np.complexfloating)


def _type_of(x):
    """The shape and the kind of numbers of a leaf, with a text; None for what is no number."""
    if isinstance(x, (bool, int, float, complex)):
        return (), np.dtype(type(x)), type(x).__name__
    dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    if dtype is None or shape is None:
        return None
    shape = tuple(shape)
    return shape, dtype, f"{dtype}[{','.join(map(str, shape))}]"


def _number_kind(dtype):
    return next((kind for kind in _KINDS if weft.dtypes.issubdtype(dtype, kind)), dtype)


def _check_leaf(target, state) -> None:
    """Raise where a value is of another kind than the leaf of a target."""
    expected, found = _type_of(target), _type_of(state)
    if expected is None:
        fits = not isinstance(target, (str, bytes)) or type(state) is type(target)
    elif found is None:
        fits = False
    else:
        same = _number_kind(expected[1]) == _number_kind(found[1])
        fits = expected[0] == found[0] and same
    if not fits:
        has = type(target).__name__ if expected is None else expected[2]
        got = type(state).__name__ if found is None else found[2]
        raise ValueError(
            f"the target has {has} at {current_path()!r}, the state {got}; pass strict=False to"
            " take what the state has"
        )


def check_mapping(state, what: str) -> None:
    """Raise unless a state is a dictionary, as ``what`` of a target needs."""
    if not isinstance(state, (dict, FrozenDict)):
        raise ValueError(
            f"the target has {what} at {current_path()!r}, the state {type(state).__name__}"
        )


def _mapping_state(xs) -> dict[str, Any]:
    if len({str(key) for key in xs}) != len(xs):
        raise ValueError(f"these keys become the same string: {list(xs)}")
    return {str(key): to_state_dict(value) for key, value in xs.items()}


def _restore_dict(xs, states):
    check_mapping(states, "a dictionary")
    missing = sorted({str(key) for key in xs} - set(states))
    if missing:
        raise ValueError(
            f"the state lacks {', '.join(map(repr, missing))} at {current_path()!r}; it has "
            f"{', '.join(map(repr, states)) or 'nothing'}"
        )
    more = sorted(map(repr, set(states) - {str(key) for key in xs}))
    if more and _path.strict:
        raise ValueError(
            f"the state has {', '.join(more)} at {current_path()!r}, which the target lacks; pass"
            " strict=False to leave it out"
        )
    return {k: from_state_dict(v, states[str(k)], name=str(k)) for k, v in xs.items()}


def _sequence_state(xs) -> dict[str, Any]:
    return {str(i): to_state_dict(x) for i, x in enumerate(xs)}


def _restore_list(xs, states) -> list:
    check_mapping(states, f"a {type(xs).__name__}")
    if len(states) != len(xs):
        raise ValueError(
            f"the target has {len(xs)} elements at {current_path()!r}, the state {len(states)}"
        )
    missing = [str(i) for i in range(len(xs)) if str(i) not in states]
    if missing:
        raise ValueError(f"the state lacks element {missing[0]} at {current_path()!r}")
    return [from_state_dict(x, states[str(i)], name=str(i)) for i, x in enumerate(xs)]


def _restore_named(xs, states):
    check_mapping(states, type(xs).__name__)
    if set(states) == {"name", "fields", "values"}:  # how flax wrote named tuples before 2020
        fields, values = states["fields"], states["values"]
        check_mapping(fields, f"the fields of {type(xs).__name__}")
        check_mapping(values, f"the values of {type(xs).__name__}")
        if set(fields) != set(values) or not all(type(n) is str for n in fields.values()):
            raise ValueError(f"fields and values at {current_path()!r} do not fit each other")
        states = {fields[i]: values[i] for i in fields}
    if set(states) != set(xs._fields):
        raise ValueError(
            f"{type(xs).__name__} has the fields {', '.join(xs._fields)}, the state "
            f"{', '.join(map(str, states)) or 'none'}, at {current_path()!r}"
        )
    return type(xs)(**{k: from_state_dict(getattr(xs, k), v, name=k) for k, v in states.items()})


def _restore_partial(x, state):
    check_mapping(state, "a Partial")
    if set(state) != {"args", "keywords"}:
        raise ValueError(f"the state of a Partial has args and keywords, at {current_path()!r}")
    args = from_state_dict(x.args, state["args"], name="args")
    keywords = from_state_dict(x.keywords, state["keywords"], name="keywords")
    return tree_util.Partial(x.func, *args, **keywords)


register_serialization_state(dict, _mapping_state, _restore_dict)
register_serialization_state(
    FrozenDict, _mapping_state, lambda xs, states: FrozenDict(_restore_dict(xs, states))
)
register_serialization_state(list, _sequence_state, _restore_list)
register_serialization_state(
    tuple, _sequence_state, lambda xs, states: tuple(_restore_list(xs, states))
)
register_serialization_state(
    _NamedTuple, lambda x: {k: to_state_dict(getattr(x, k)) for k in x._fields}, _restore_named
)
register_serialization_state(
    tree_util.Partial,
    lambda x: {"args": to_state_dict(x.args), "keywords": to_state_dict(x.keywords)},
    _restore_partial,
)


def _array_to_bytes(array: np.ndarray) -> bytes:
    if array.dtype.hasobject or array.dtype.isalignedstruct or array.dtype.names:
        raise ValueError(f"arrays of dtype {array.dtype} cannot be stored: only numbers can")
    return msgpack.packb([list(array.shape), array.dtype.name, array.tobytes("C")])


def _array_from_bytes(data: bytes) -> np.ndarray:
    found = msgpack.unpackb(data)
    try:
        shape, name, values = found
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        return np.frombuffer(values, dtype=dtype).reshape(shape)
    except (TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"the bytes of an array are damaged: {error}") from None


def _encode(value):
    if isinstance(value, weft.Array):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_ARRAY, _array_to_bytes(value))
    if isinstance(value, np.generic):
        return msgpack.ExtType(_SCALAR, _array_to_bytes(np.asarray(value)))
    if isinstance(value, complex):
        return msgpack.ExtType(_COMPLEX, msgpack.packb([value.real, value.imag]))
    return value


def _decode(code: int, data: bytes):
    if code == _ARRAY:
        return _array_from_bytes(data)
    if code == _SCALAR:
        return _array_from_bytes(data)[()]
    if code == _COMPLEX:
        parts = msgpack.unpackb(data)
        if type(parts) is not list or [type(part) for part in parts] != [float, float]:
            raise ValueError(f"the bytes of a complex number are damaged: {parts!r:.80}")
        return complex(*parts)
    return msgpack.ExtType(code, data)


def _split_large(value):
    """Arrays that are too large for one value, as dictionaries of pieces."""
    if isinstance(value, dict):
        return {key: _split_large(inner) for key, inner in value.items()}
    if isinstance(value, weft.Array):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray) or value.nbytes <= MAX_CHUNK_SIZE:
        return value
    step = max(1, MAX_CHUNK_SIZE // value.dtype.itemsize)
    flat = value.reshape(-1)
    pieces = [flat[i : i + step] for i in range(0, flat.size, step)]
    return {
        _CHUNKED: True,
        "shape": {str(i): size for i, size in enumerate(value.shape)},
        "chunks": {str(i): piece for i, piece in enumerate(pieces)},
    }


def _join_pieces(value):
    if not isinstance(value, dict):
        return value
    if _CHUNKED not in value:
        return {key: _join_pieces(inner) for key, inner in value.items()}
    try:
        shape, chunks = value["shape"], value["chunks"]
        pieces = [chunks[str(i)] for i in range(len(chunks))]
        return np.concatenate(pieces).reshape([shape[str(i)] for i in range(len(shape))])
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"the pieces of a large array are damaged: {error!r}") from None


def msgpack_serialize(pytree, in_place: bool = False) -> bytes:
    """The bytes of a state dictionary; ``in_place`` is accepted and changes nothing."""
    return msgpack.packb(_split_large(unfreeze(pytree)), default=_encode)


def msgpack_restore(encoded_pytree):
    """The state dictionary that the bytes hold, with NumPy arrays as leaves."""
    return _join_pieces(msgpack.unpackb(encoded_pytree, ext_hook=_decode))


def to_bytes(target) -> bytes:
    """The bytes of a pytree, readable by ``from_bytes`` and by flax.

    >>> from_bytes({"w": None}, to_bytes({"w": np.arange(3)}))["w"]
    array([0, 1, 2])
    """
    return msgpack_serialize(to_state_dict(target))


def from_bytes(target, encoded_bytes, *, strict: bool = True):
    """A pytree like ``target`` with the values that the bytes hold.

    What does not fit the target is refused, as ``from_state_dict`` says; ``strict=False`` takes
    what flax takes.
    """
    return from_state_dict(target, msgpack_restore(encoded_bytes), strict=strict)
