"""Immutable dataclasses that are pytrees: the counterpart of ``flax.struct``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeVar, dataclass_transform

from weft import tree_util
from weft.linen import serialization

TNode = TypeVar("TNode", bound="PyTreeNode")


def field(
    pytree_node: bool = True, *, metadata: Mapping[str, Any] | None = None, **kwargs: Any
) -> Any:
    """A field of a dataclass; with ``pytree_node=False`` it is static data, not a subtree."""
    metadata = {**(metadata or {}), "pytree_node": pytree_node}
    return dataclasses.field(metadata=metadata, **kwargs)


def _to_state(names, x):
    return {name: serialization.to_state_dict(getattr(x, name)) for name in names}


def _from_state(names, x, state):
    where, cls = serialization.current_path(), type(x).__name__
    serialization.check_mapping(state, cls)
    missing = [name for name in names if name not in state]
    if missing:
        raise ValueError(f"the state lacks {', '.join(missing)} of {cls} at {where!r}")
    unknown = [name for name in state if name not in names]
    if unknown:
        raise ValueError(
            f"{cls} has no field {', '.join(map(str, unknown))}, which the state has at {where!r}"
        )
    restored = {
        name: serialization.from_state_dict(getattr(x, name), state[name], name=name)
        for name in names
    }
    return x.replace(**restored)


def _replace(self, **updates):
    """A copy with these fields replaced."""
    return dataclasses.replace(self, **updates)


@dataclass_transform(field_specifiers=(field,))
def dataclass(clz: Any = None, **kwargs: Any) -> Any:
    """Make a class an immutable dataclass that can pass through transformations.

    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     name: str = field(pytree_node=False, default="p")
    >>> tree_util.tree_map(lambda v: v + 1, Point(1.0)).replace(name="q")
    Point(x=2.0, name='q')
    """
    if clz is None:
        return functools.partial(dataclass, **kwargs)
    if "_flax_dataclass" in clz.__dict__:
        return clz
    kwargs.setdefault("frozen", True)
    made = dataclasses.dataclass(**kwargs)(clz)
    nodes, static = [], []
    for item in dataclasses.fields(made):
        (nodes if item.metadata.get("pytree_node", True) else static).append(item.name)
    if "replace" not in made.__dict__:
        made.replace = _replace
    tree_util.register_dataclass(made, nodes, static)
    serialization.register_serialization_state(
        made, functools.partial(_to_state, nodes), functools.partial(_from_state, nodes)
    )
    made._flax_dataclass = True
    return made


@dataclass_transform(field_specifiers=(field,))
class PyTreeNode:
    """A base class whose subclasses are dataclasses that can pass through transformations.

    >>> class Point(PyTreeNode):
    ...     x: float
    >>> tree_util.tree_leaves(Point(3.0))
    [3.0]
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__()
        dataclass(cls, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("PyTreeNode has no fields; subclass it and declare them in the subclass")

    def replace(self: TNode, **overrides: Any) -> TNode:
        """A copy with these fields replaced."""
        return dataclasses.replace(self, **overrides)
