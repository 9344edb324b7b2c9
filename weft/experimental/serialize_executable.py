"""Executables as bytes, for another process to load.

The bytes hold the program and no machine code: it is compiled where it is loaded, from the cache
of compiled kernels if they are there. Nothing of them is unpickled.
"""

from __future__ import annotations

from typing import Any

from weft.api.jit import jit
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.export.exported import exported_stage
from weft.export.loading import deserialize
from weft.tree.functions import tree_unflatten

__all__ = ["deserialize_and_load", "serialize"]


def serialize(compiled: Any) -> tuple[bytes, Any, Any]:
    """An executable as bytes, and the structures of its arguments and results.

    >>> import weft
    >>> from weft.experimental.serialize_executable import deserialize_and_load, serialize
    >>> made = weft.jit(lambda x: 2 * x).lower(1.5).compile()
    >>> deserialize_and_load(*serialize(made))(4.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return bytes(exported_stage(compiled).serialize()), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Any = None,
) -> Any:
    """The executable that ``serialize`` wrote, compiled for this machine.

    It donates no arguments. ``backend`` and ``execution_devices`` say where it is to run; they
    must be those that functions run on by default.
    """
    exported = deserialize(serialized)
    if exported.in_tree != in_tree or exported.out_tree != out_tree:
        raise ValueError(
            f"these bytes hold a function of {exported.in_tree} that gives {exported.out_tree}, not"
            f" one of {in_tree} that gives {out_tree}"
        )
    if execution_devices is not None and len(execution_devices) != exported.nr_devices:
        raise ValueError(
            f"{exported.fun_name} was compiled for {exported.nr_devices} devices, got"
            f" {len(execution_devices)} execution_devices"
        )
    specs = [
        ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in exported.in_avals
    ]
    args, kwargs = tree_unflatten(in_tree, specs)

    def call(*args: Any, **kwargs: Any) -> Any:
        return exported.call(*args, **kwargs)

    call.__name__ = call.__qualname__ = exported.fun_name
    return jit(call).lower(*args, **kwargs).compile()
