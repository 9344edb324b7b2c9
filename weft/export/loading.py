"""Exported functions from bytes: those that weft wrote, and those of JAX."""

from __future__ import annotations

from typing import Any

from weft.base.knobs import enable_x64
from weft.core.avals import same_type
from weft.core.jaxpr import ClosedJaxpr
from weft.export import from_jax
from weft.export.encoding import MARK
from weft.export.exported import (
    DisabledSafetyCheck,
    Exported,
    maximum_supported_calling_convention_version,
    moves,
)
from weft.export.placement import read_spec
from weft.export.reading import MalformedExportError, Reader
from weft.export.trees import read_tree
from weft.mlir.errors import BYTECODE
from weft.tree.functions import tree_unflatten


def deserialize(blob: Any) -> Exported:
    """Return the exported function that ``serialize`` wrote, of weft or of JAX.

    The bytes may come from anyone: types are derived anew and arrays checked before anything can
    be called, and whatever is wrong raises ``MalformedExportError``. What the function computes,
    and for how long, is of course the writer's choice. Exports of JAX's run without JAX, as far as
    weft has their operations; one for several devices runs on one if there are fewer.

    Args:
        blob: the bytes.

    Returns:
        An ``Exported``.

    Example:
        >>> import weft
        >>> from weft import export
        >>> blob = export.export(weft.jit(lambda x: x + 1))(1.0).serialize()
        >>> export.deserialize(blob).in_avals
        (ShapedArray(float32[], weak_type=True),)
    """
    data = bytes(memoryview(blob))
    try:
        if data.startswith(BYTECODE):
            raise MalformedExportError(
                "these bytes are a module without the types of arguments; read it with"
                " weft.export.from_stablehlo"
            )
        if not data.startswith(MARK) and BYTECODE in data:
            return from_jax.read(data)
        # types are the program's, whatever the knob says here
        with enable_x64(True):
            reader = Reader(data)
            return _from_written(reader.value(reader.root))
    except MalformedExportError:
        raise
    except Exception as error:  # rules of primitives refuse wrong parameters in many ways
        raise MalformedExportError(
            f"these bytes of an exported function are damaged: {type(error).__name__}: {error}"
        ) from None


def _from_written(held: dict[str, Any]) -> Exported:
    version = held["version"]
    if version != maximum_supported_calling_convention_version:
        raise MalformedExportError(
            f"an exported function of version {version} cannot be read by this weft"
        )
    name, program = held["name"], held["program"]
    platforms, disabled = tuple(held["platforms"]), tuple(held["disabled"])
    if type(program) is not ClosedJaxpr or any(type(x) is not str for x in platforms + disabled):
        raise ValueError("it has no program, or no platforms")
    if type(name) is not str or not name.isprintable():
        raise ValueError(f"its name is {name!r}")
    in_tree, out_tree = read_tree(held["in_tree"]), read_tree(held["out_tree"])
    args, kwargs = tree_unflatten(in_tree, program.in_avals)
    if type(args) is not tuple or type(kwargs) is not dict or set(map(type, kwargs)) - {str}:
        raise ValueError(f"its arguments are like {in_tree}")
    trees = (in_tree.num_leaves, out_tree.num_leaves)
    if trees != (len(program.in_avals), len(program.out_avals)):
        raise ValueError("its arguments or results are not those of its program")
    checks = tuple(map(DisabledSafetyCheck, disabled))
    made = Exported(name, program, in_tree, out_tree, platforms, checks, None)
    made._is_read = True
    if "specs" in held:
        _place(made, held["devices"], held["specs"])
    if held["vjp"] is not None:
        made._vjp = derivative = _from_written(held["vjp"])
        moving = [[a for a in avals if moves(a)] for avals in (made.in_avals, made.out_avals)]
        ins, outs = [*made.in_avals, *moving[1]], moving[0]
        if not (_same(derivative.in_avals, ins) and _same(derivative.out_avals, outs)):
            raise ValueError("its derivative is one of another function")
    return made


def _place(made: Exported, devices: Any, specs: Any) -> None:
    """Give it the devices and specs that were written."""
    ins, outs = ([read_spec(spec) for spec in part] for part in specs)
    if (len(ins), len(outs)) != (len(made.in_avals), len(made.out_avals)):
        raise ValueError("its shardings are not those of its arguments and results")
    if type(devices) is not int or devices < made.nr_devices:
        raise ValueError(f"it is for {devices} devices")
    made.nr_devices, made._in_specs, made._out_specs = devices, tuple(ins), tuple(outs)


def _same(found: Any, wanted: Any) -> bool:
    return len(found) == len(wanted) and all(map(same_type, found, wanted))
