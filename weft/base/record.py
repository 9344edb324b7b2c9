"""Records: classes of named tuples, as typing.NamedTuple makes them, at a sixth of its cost.

weft has dozens, and they are made when it is imported.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterable
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from weft.base.annotations import annotations_in

_field = getattr(collections, "_tuplegetter", lambda i, doc: property(itemgetter(i), doc=doc))
# What ``_replace`` of a named tuple raises for a field that it does not have.
_NO_FIELD = TypeError if sys.version_info >= (3, 13) else ValueError
_codes: dict[int, CodeType] = {}


def _constructor(name: str, types: dict[str, Any], defaults: tuple[Any, ...]) -> FunctionType:
    """``__new__`` with these parameters; what it does is the same for all of one length."""
    fields = tuple(types)
    code = _codes.get(len(fields))
    if code is None:
        items = "".join(f"_{i}, " for i in range(len(fields)))
        code = _codes[len(fields)] = eval(f"lambda _cls, {items}: _new(_cls, ({items}))").__code__
    code = code.replace(
        co_varnames=("_cls", *fields), co_name="__new__", co_qualname=f"{name}.__new__"
    )
    new = FunctionType(code, {"_new": tuple.__new__}, "__new__", defaults)
    new.__annotations__ = types
    return new


class _Fields(tuple):
    """What all records share: the methods of a named tuple."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Any:
        result = tuple.__new__(cls, values)
        if len(result) != len(cls._fields):
            raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, got {len(result)}")
        return result

    def _replace(self, /, **changes: Any) -> Any:
        result = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise _NO_FIELD(f"{type(self).__name__} has no fields {list(changes)}")
        return result

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        pairs = (f"{k}={v!r}" for k, v in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(pairs)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _RecordType(type):
    """Turns the body of a class into a tuple with named fields."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if not bases:
            return type.__new__(cls, name, bases, body)
        types = body["__annotations__"] = annotations_in(body)
        fields = tuple(types)
        defaults = {field: body[field] for field in fields if field in body}
        if tuple(defaults) != fields[len(fields) - len(defaults) :]:
            raise TypeError(f"{name} has a field without a default after one with a default")
        body.update({field: _field(i, None) for i, field in enumerate(fields)})
        body.update(
            __slots__=(),
            __match_args__=fields,
            __new__=_constructor(name, types, tuple(defaults.values())),
            _fields=fields,
            _field_defaults=defaults,
        )
        return type(name, (_Fields,), body)


if TYPE_CHECKING:
    from typing import NamedTuple as Record
else:

    class Record(metaclass=_RecordType):
        """A tuple with named fields: ``class Point(Record)``, with annotated fields as its body.

        >>> class Point(Record):
        ...     x: float
        ...     y: float = 0.0
        >>> Point(1.0)._replace(y=2.0)
        Point(x=1.0, y=2.0)
        """
