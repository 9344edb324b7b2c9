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
            f"the state dictionary of {type(target).__name__} has keys that are no text"
        )
    return state


def from_state_dict(target, state, name: str = "."):
    """A pytree like ``target`` with the values of a state dictionary.

    >>> from_state_dict((0, 0), {"0": 1, "1": 2})
    (1, 2)
    """
    handler = _handlers.get(_kind(target))
    if handler is None:
        return state
    with _inside(name):
        return handler[1](target, state)


def _mapping_state(xs) -> dict[str, Any]:
    if len({str(key) for key in xs}) != len(xs):
        raise ValueError(f"keys that are equal as text cannot be told apart: {list(xs)}")
    return {str(key): to_state_dict(value) for key, value in xs.items()}


def _restore_dict(xs, states):
    if not isinstance(states, (dict, FrozenDict)):
        raise ValueError(
            f"the target has a dictionary at {current_path()!r}, the state {type(states).__name__}"
        )
    missing = sorted({str(key) for key in xs} - set(states))
    if missing:
        raise ValueError(
            f"the state lacks {', '.join(map(repr, missing))} at {current_path()!r}; it has "
            f"{', '.join(map(repr, states)) or 'nothing'}"
        )
    return {k: from_state_dict(v, states[str(k)], name=str(k)) for k, v in xs.items()}


def _sequence_state(xs) -> dict[str, Any]:
    return {str(i): to_state_dict(x) for i, x in enumerate(xs)}


def _restore_list(xs, states) -> list:
    if len(states) != len(xs):
        raise ValueError(
            f"the target has {len(xs)} elements at {current_path()!r}, the state {len(states)}"
        )
    return [from_state_dict(x, states[str(i)], name=str(i)) for i, x in enumerate(xs)]


def _restore_named(xs, states):
    if set(states) == {"name", "fields", "values"}:  # how flax wrote named tuples before 2020
        order = range(len(states["fields"]))
        states = {states["fields"][str(i)]: states["values"][str(i)] for i in order}
    if set(states) != set(xs._fields):
        raise ValueError(
            f"{type(xs).__name__} has the fields {', '.join(xs._fields)}, the state "
            f"{', '.join(states) or 'none'}, at {current_path()!r}"
        )
    return type(xs)(**{k: from_state_dict(getattr(xs, k), v, name=k) for k, v in states.items()})


def _restore_partial(x, state):
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
    shape, name, values = msgpack.unpackb(data)
    dtype = getattr(ml_dtypes, name, None) or name
    return np.frombuffer(values, dtype=np.dtype(dtype)).reshape(shape)


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
        return complex(*msgpack.unpackb(data))
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
    shape, chunks = value["shape"], value["chunks"]
    pieces = [chunks[str(i)] for i in range(len(chunks))]
    return np.concatenate(pieces).reshape([shape[str(i)] for i in range(len(shape))])


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


def from_bytes(target, encoded_bytes):
    """A pytree like ``target`` with the values that the bytes hold."""
    return from_state_dict(target, msgpack_restore(encoded_bytes))
