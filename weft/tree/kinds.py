"""The container types that count as tree nodes: the built-in ones and those users register."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from weft.tree.keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey
from weft.tree.nodes import Kind


def sorted_keys(mapping: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dictionary in the order in which its children are flattened."""
    try:
        return tuple(sorted(mapping))
    except Exception as error:
        names = ", ".join(sorted({type(key).__name__ for key in mapping}))
        raise ValueError(
            f"the keys of a dictionary in a pytree must be sortable, but keys of type {names} are "
            "not "
            f"({error}); use keys of one type, or a collections.OrderedDict"
        ) from error


def _expand_dict(obj: dict[Any, Any]) -> tuple[Sequence[Any], Any]:
    keys = sorted_keys(obj)
    return tuple([obj[key] for key in keys]), keys


def _expand_defaultdict(obj: defaultdict[Any, Any]) -> tuple[Sequence[Any], Any]:
    values, keys = _expand_dict(obj)
    return values, (obj.default_factory, keys)


def _sequence_keys(aux: Any, n: int) -> list[SequenceKey]:
    return [SequenceKey(i) for i in range(n)]


def _flat_keys(aux: Any, n: int) -> list[FlattenedIndexKey]:
    return [FlattenedIndexKey(i) for i in range(n)]


def _dict_keys(aux: Any, n: int) -> list[DictKey]:
    return [DictKey(key) for key in aux]


NONE = Kind(type(None), "none", lambda obj: ((), None), lambda aux, xs: None, _flat_keys)
TUPLE = Kind(tuple, "tuple", lambda obj: (obj, None), lambda aux, xs: tuple(xs), _sequence_keys)
LIST = Kind(list, "list", lambda obj: (obj, None), lambda aux, xs: list(xs), _sequence_keys)
DICT = Kind(dict, "dict", _expand_dict, lambda aux, xs: dict(zip(aux, xs)), _dict_keys)
ORDERED = Kind(
    OrderedDict,
    "custom",
    lambda obj: (tuple(obj.values()), tuple(obj)),
    lambda aux, xs: OrderedDict(zip(aux, xs)),
    _dict_keys,
)
DEFAULT = Kind(
    defaultdict,
    "custom",
    _expand_defaultdict,
    lambda aux, xs: defaultdict(aux[0], zip(aux[1], xs)),
    lambda aux, n: [DictKey(key) for key in aux[1]],
)

_BUILTIN = (NONE, TUPLE, LIST, DICT, ORDERED, DEFAULT)
kinds: dict[type, Kind] = {kind.type: kind for kind in _BUILTIN if kind.type is not None}
# Kept apart from `kinds`: types met on the way may be dropped again, registered ones may not.
_namedtuples: dict[type, Kind] = {}
_MAX_NAMEDTUPLES = 4096


def kind_of(cls: type) -> Kind | None:
    """How to open objects of this type, or None for leaves."""
    kind = kinds.get(cls)
    if kind is None and issubclass(cls, tuple) and hasattr(cls, "_fields"):
        kind = _namedtuples.get(cls)
        if kind is None:
            if len(_namedtuples) >= _MAX_NAMEDTUPLES:
                _namedtuples.clear()
            kind = _namedtuples[cls] = _namedtuple_kind(cls)
    return kind


def _namedtuple_kind(cls: Any) -> Kind:
    def child_keys(aux: Any, n: int) -> list[GetAttrKey]:
        return [GetAttrKey(name) for name in cls._fields]

    return Kind(cls, "namedtuple", lambda obj: (obj, None), lambda aux, xs: cls(*xs), child_keys)


def _checked(cls: type, flatten: Callable[[Any], Any], items: str) -> Callable[[Any], Any]:
    """``flatten`` of a registered class, with its result held to (iterable, aux)."""
    want = f"the flatten function of {cls} must return a pair ({items}, aux_data)"

    def expand(obj: Any) -> tuple[Sequence[Any], Any]:
        pair = flatten(obj)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ValueError(f"{want}, but it returned {pair!r}")
        children, aux = pair
        if type(children) is tuple:
            return children, aux
        try:
            iterator = iter(children)
        except TypeError:
            raise ValueError(f"{want} with iterable {items}, but it returned {pair!r}") from None
        return tuple(iterator), aux

    return expand


def custom_kind(
    cls: type,
    flatten: Callable[[Any], Any],
    unflatten: Callable[[Any, Any], Any],
    flatten_with_keys: Callable[[Any], Any] | None,
) -> Kind:
    """The kind of a class registered by its functions."""
    expand = _checked(cls, flatten, "children")
    if flatten_with_keys is None:
        return Kind(cls, "custom", expand, unflatten, _flat_keys)
    with_keys = _checked(cls, flatten_with_keys, "(key, child) pairs")
    return Kind(cls, "custom", expand, unflatten, None, with_keys)


def _attributes(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A function from an object to the tuple of the named attributes."""
    if not names:
        return lambda obj: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda obj: (get(obj),)


def dataclass_kind(cls: Any, data: tuple[str, ...], meta: tuple[str, ...]) -> Kind:
    """The kind of a class whose fields are its whole state."""
    get_data, get_meta = _attributes(data), _attributes(meta)

    def expand(obj: Any) -> tuple[Sequence[Any], Any]:
        return get_data(obj), get_meta(obj)

    def build(aux: Any, children: Sequence[Any]) -> Any:
        return cls(**dict(zip(meta, aux)), **dict(zip(data, children)))

    def child_keys(aux: Any, n: int) -> list[GetAttrKey]:
        return [GetAttrKey(name) for name in data]

    return Kind(cls, "dataclass", expand, build, child_keys, fields=(data, meta))
