"""Attributes of modules: values that may hold modules in lists, dictionaries or dataclasses."""

import dataclasses
import inspect
import sys

from weft.linen.core import FrozenDict

# Values of these types hold no modules; most fields of most layers have them. Others are added
# when they are first met.
PLAIN = {int, float, bool, str, bytes, complex, type(None), type, type(len), type(lambda: None)}


def annotations_of(cls: type) -> dict:
    """The annotations of a class's own fields; names that only a type checker knows may be there.

    From 3.14 on Python evaluates annotations when they are read, unless a reader asks for less.
    """
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(cls)


def holds(value, kind) -> bool:
    """Whether a value is of a class, or has one inside."""
    cls = type(value)
    if cls in PLAIN:
        return False
    if isinstance(value, kind):
        return True
    if isinstance(value, (tuple, list)):
        return any(holds(item, kind) for item in value)
    if isinstance(value, (dict, FrozenDict)):
        return any(holds(item, kind) for item in value.values())
    if hasattr(cls, "_flax_dataclass"):
        return any(holds(getattr(value, f.name), kind) for f in dataclasses.fields(value))
    if not hasattr(cls, "scope"):
        PLAIN.add(cls)
    return False


def freeze_attribute(value):
    """Lists as tuples and dictionaries as frozen ones, so that a bound module stays as it is."""
    cls = type(value)
    if cls in PLAIN:
        return value
    if cls is tuple or cls is list:
        return tuple(freeze_attribute(item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cls(*(freeze_attribute(item) for item in value))
    if isinstance(value, (dict, FrozenDict)):
        return FrozenDict({key: freeze_attribute(item) for key, item in value.items()})
    return value


def map_inside(fn, kind, value, suffix: str = ""):
    """Apply ``fn(suffix, x)`` to every value of a class; the suffix says where it is: '_0_a'."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, kind):
        return fn(suffix, value)
    if not holds(value, kind):
        return value
    if isinstance(value, (tuple, list)):
        items = [map_inside(fn, kind, x, f"{suffix}_{i}") for i, x in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, (dict, FrozenDict)):
        mapped = {k: map_inside(fn, kind, x, f"{suffix}_{k}") for k, x in value.items()}
        return type(value)(mapped)
    names = [f.name for f in dataclasses.fields(value)]
    changed = {n: map_inside(fn, kind, getattr(value, n), f"{suffix}_{n}") for n in names}
    return dataclasses.replace(value, **changed)
