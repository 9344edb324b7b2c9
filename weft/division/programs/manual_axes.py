"""The scope in which types say over which mesh axes values vary, and what it is checked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.base import knobs
from weft.base.forks import across_forks
from weft.core.avals import varying_of
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import SHARED, AxisType, Mesh
from weft.core.trace import state
from weft.division import varying

# Beside the names of axes: programs staged with and without this knowledge differ.
_CHECKED = object()
_lock = across_forks(threading.Lock())


@contextmanager
def manual_scope(mesh: Any, names: Any) -> Iterator[None]:
    """Stage a function for one device of a mesh; ``names`` are axes whose varying is checked."""
    previous, env = state.manual, state.axis_env
    abstract = mesh.abstract_mesh
    bound = {n for n, _ in env} & set(abstract.axis_names)
    types = [
        AxisType.Manual if n in bound else t
        for n, t in zip(abstract.axis_names, abstract.axis_types, strict=True)
    ]
    current = knobs.thread.mesh
    concrete = mesh if isinstance(mesh, Mesh) else None if current is None else current[0]
    with knobs.mesh((concrete, abstract.update(axis_types=tuple(types)))):
        state.manual = frozenset(names or ()) | (previous if names else frozenset())
        entry: Any = (_CHECKED, state.manual)
        state.axis_env = (*env, entry)
        _count(1)
        try:
            yield
        finally:
            _count(-1)
            state.manual, state.axis_env = previous, env


def _count(change: int) -> None:
    with _lock:
        varying.scopes += change


def check_out_specs(closed: ClosedJaxpr, specs: Any, manual: Any, name: str) -> None:
    """Raise ValueError where a result may differ over an axis that its spec does not name."""
    for i, (aval, spec) in enumerate(zip(closed.out_avals, specs, strict=True)):
        varying = varying_of(aval) & frozenset(manual)
        mat = getattr(aval, "mat", SHARED)
        parts = spec.unreduced - mat.unreduced
        missing = spec.reduced != mat.reduced or not mat.unreduced <= spec.unreduced
        if missing or not parts <= varying:
            raise ValueError(
                f"out_specs say {spec} for result {i} of {name}, which is {aval.str_short()}: it "
                "must be unreduced and reduced over the same axes; sum with lax.psum, or convert "
                "with lax.pcast"
            )
        left = sorted(varying - set(spec.names()) - parts, key=str)
        if left:
            raise ValueError(
                f"out_specs say {spec} for result {i} of {name}, {aval.str_short()}, so it must "
                f"be the same on all devices along {left}, but it is computed from values that "
                f"vary over {left}. Reduce it, as with lax.psum(x, {left[0]!r}); name"
                f" the axis in its spec; or, if you know that it is the same, pass check_vma=False"
            )
