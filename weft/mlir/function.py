"""Modules of StableHLO as functions of arrays."""

from __future__ import annotations

import os
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weft.api.batching import vmap
from weft.base.knobs import enable_x64
from weft.base.traceback import api_boundary
from weft.control.jit import jit_p, jit_parameters
from weft.core.array import Array
from weft.core.avals import ShapedArray
from weft.core.dims.text import SymbolicScope, symbolic_shape
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage
from weft.core.trace import Tracer, typeof
from weft.mlir import collectives as collectives  # their readers
from weft.mlir import control as control
from weft.mlir import custom_calls as custom_calls
from weft.mlir import dynamic as dynamic
from weft.mlir import elementwise as elementwise
from weft.mlir import linear_algebra as linear_algebra
from weft.mlir import normalization as normalization
from weft.mlir import regions as regions
from weft.mlir import structure as structure
from weft.mlir import vhlo
from weft.mlir.errors import BYTECODE, StableHLOError, Unread
from weft.mlir.parser import parse
from weft.mlir.reading import Reading, types_of
from weft.mlir.tree import Function, Module, Raw, Tensor, operations_of

MAX_INSTANCES = 256  # programs for the sizes of calls that a function remembers
MAX_DEVICES = 1 << 20
DEVICE_KINDS = ("replicas", "partitions")
COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in "all_gather all_reduce all_to_all collective_broadcast collective_permute"
    " partition_id reduce_scatter replica_id".split()
)
CONSTANT = "jax.global_constant"  # marks arguments that a call must know: sizes, the platform


class StableHLOFunction:
    """A function of a StableHLO module, which weft runs.

    Call it with arrays of the types in ``in_avals``; it returns a tuple of arrays of the types in
    ``out_avals``. It can be used inside of ``jit``, ``vmap`` and ``grad``. Sizes that the module
    leaves open are symbolic dimensions in ``in_avals``; each call fixes them.

    Args:
        module: the module.
        function: the function of it.
        mesh: the mesh that its shardings are over.
        warns: whether to warn of shardings that have no effect.

    Example:
        >>> import weft
        >>> from weft import export
        >>> f = export.from_stablehlo(weft.jit(lambda x: x + 1).lower(1.0).as_text())
        >>> isinstance(f, export.StableHLOFunction)
        True
    """

    def __init__(
        self, module: Module, function: Function, mesh: Any = None, *, warns: bool = True
    ) -> None:
        self.module_name, self.fun_name = module.name, function.name
        self._module, self._function, self._mesh = module, function, mesh
        self.text, self._warns = module.text, warns
        reading = Reading(module, mesh)
        reading.check_names()
        for kind in (*function.body.types, *function.types):
            if not isinstance(kind, Tensor):
                raise self._error(f"@{function.name} takes or returns {kind}; weft passes arrays")
        scope = SymbolicScope()
        self.in_avals = tuple([_aval(t, f"a{i}", scope) for i, t in enumerate(function.body.types)])
        self._static = [CONSTANT in given for given in function.argument_attributes]
        self.nr_devices = prod([_count(module, f"mhlo.num_{kind}") for kind in DEVICE_KINDS])
        self._is_wide = holds_wide_types(module)
        self._programs: dict[Any, ClosedJaxpr] = {}
        if reading.is_dynamic or any(self._static):
            self.out_avals = tuple([_aval(t, f"r{i}", scope) for i, t in enumerate(function.types)])
        elif self.nr_devices > 1 and is_for_each_device(module):
            self.out_avals = tuple([_aval(t, f"r{i}", scope) for i, t in enumerate(function.types)])
        else:
            program = self._programs[()] = self._staged(self.in_avals, {})
            self.out_avals = tuple(program.out_avals)

    def __repr__(self) -> str:
        ins = ", ".join(a.str_short() for a in self.in_avals)
        outs = ", ".join(a.str_short() for a in self.out_avals)
        return f"<StableHLO function {self.fun_name}: ({ins}) -> ({outs})>"

    @api_boundary
    def __call__(self, *args: Any) -> tuple[Any, ...]:
        return self.call(*args)

    @api_boundary
    def call(self, *args: Any) -> tuple[Any, ...]:
        """The results for arrays of the types that the module's function takes."""
        kinds = self._function.body.types
        if len(args) != len(kinds):
            raise self._error(f"@{self.fun_name} takes {len(kinds)} arguments, got {len(args)}")
        leaves = [self._argument(i, x, t) for i, (x, t) in enumerate(zip(args, kinds, strict=True))]
        if not self._is_wide:
            return self._run(leaves)
        with enable_x64(True):
            return self._run(leaves)

    def _run(self, leaves: list[Any]) -> tuple[Any, ...]:
        program = self._programs.get(())
        if program is None:
            fixed = {i: self._fixed(i, x) for i, x in enumerate(leaves) if self._static[i]}
            leaves = [x for i, x in enumerate(leaves) if i not in fixed]
            shapes = tuple([np.shape(x) for x in leaves])
            key = (shapes, tuple([x.tobytes() for x in fixed.values()]))
            program = self._programs.get(key)
            if program is None:
                if len(self._programs) >= MAX_INSTANCES:
                    self._programs.pop(next(iter(self._programs)))
                types = [a for i, a in enumerate(self.in_avals) if i not in fixed]
                avals = [ShapedArray(s, a.dtype) for s, a in zip(shapes, types, strict=True)]
                program = self._programs[key] = self._staged(avals, fixed)
        return tuple(jit_p.bind(*leaves, **jit_parameters(program, self.fun_name)))

    def _argument(self, i: int, x: Any, kind: Tensor) -> Any:
        if not isinstance(x, (Array, Tracer, np.ndarray, np.generic)):
            x = np.asarray(x, kind.dtype) if isinstance(x, (bool, int, float, complex)) else x
            x = np.asarray(x)
        shape, dtype = np.shape(x), x.dtype
        fits = len(shape) == len(kind.shape) and dtype == kind.dtype
        if not fits or any(m not in (None, n) for n, m in zip(shape, kind.shape, strict=True)):
            given = typeof(x).str_short() if isinstance(x, (Array, Tracer)) else f"{dtype}{shape}"
            raise self._error(f"@{self.fun_name} takes {kind} as argument {i}, got {given}")
        return x

    def _fixed(self, i: int, x: Any) -> np.ndarray:
        if isinstance(x, Tracer):
            raise self._error(f"argument {i} of @{self.fun_name} is a size; it must be a number")
        return np.asarray(x)

    def _staged(self, avals: Any, fixed: dict[int, np.ndarray]) -> ClosedJaxpr:
        reading = Reading(self._module, self._mesh)
        reading.ignored |= set() if self._warns else {"sharding"}

        def whole(*args: Any) -> list[Any]:
            rest = iter(args)
            kinds = self._function.body.types
            given = [fixed[i] if i in fixed else next(rest) for i in range(len(kinds))]
            given = self._placed(reading, given, self._function.argument_attributes)
            outs = reading.run(self._function, given)
            return self._placed(reading, outs, self._function.result_attributes)

        try:
            with enable_x64(True):
                return stage(whole, avals)
        except Unread as error:
            raise self._error(str(error)) from None
        except RecursionError:
            raise self._error("regions and calls are nested too deeply") from None

    def _placed(self, reading: Reading, values: list[Any], marks: list[dict[str, Any]]) -> Any:
        """Arguments or results with the shardings that the module gives them."""
        if len(marks) != len(values):
            return values
        found = []
        for x, given in zip(values, marks, strict=True):
            mark = given.get("sdy.sharding")
            if isinstance(mark, Raw):
                x = collectives.constrained(reading, x, f"<{mark.text}>")
            elif "mhlo.sharding" in given:
                collectives.ignore(reading)
            found.append(x)
        return found

    @api_boundary
    def per_device(self, *args: Any) -> tuple[Any, ...]:
        """The results of every device, for a function that is written for one of several.

        Arguments and results have a leading axis, with an entry for each of ``nr_devices``
        devices; collectives run along it.
        """
        kinds, count = self._function.body.types, self.nr_devices
        if len(args) != len(kinds):
            raise self._error(f"@{self.fun_name} takes {len(kinds)} arguments, got {len(args)}")
        leaves = []
        for i, (x, kind) in enumerate(zip(args, kinds, strict=True)):
            leaves.append(self._argument(i, x, Tensor((count, *kind.shape), kind.dtype)))
        reading = Reading(self._module)
        reading.axes = reading.all_axes = {"devices": count}
        counts = [_count(self._module, f"mhlo.num_{kind}") for kind in DEVICE_KINDS]
        if min(counts) == 1 < max(counts):
            reading.device_kind = "replica_id" if counts[0] > 1 else "partition_id"
        one = lambda *xs: tuple(reading.run(self._function, xs))
        with enable_x64(True) if self._is_wide else nullcontext():
            if not leaves:
                return vmap(lambda _: one(), axis_name="devices")(np.zeros(count, np.bool_))
            return vmap(one, axis_name="devices")(*leaves)

    def _error(self, message: str) -> StableHLOError:
        return Reading(self._module).error(self._function.position, message)


def _count(module: Module, name: str) -> int:
    found = module.attributes.get(name, 1)
    return found if type(found) is int and 0 < found < MAX_DEVICES else 1


def is_for_each_device(module: Module) -> bool:
    """Whether a module has collectives of its own, outside of manual computations."""
    return not module.meshes and any(
        op.name in COLLECTIVES for f in module.functions.values() for op in operations_of(f.body)
    )


def holds_wide_types(module: Module) -> bool:
    """Whether values of 64 bits are in a module, which weft has only under ``enable_x64``."""
    names = ("int64", "uint64", "float64", "complex128")
    found = [t for f in module.functions.values() for t in types_of(f)]
    return any(isinstance(t, Tensor) and t.dtype.name in names for t in found)


def _aval(kind: Tensor, name: str, scope: SymbolicScope) -> ShapedArray:
    """A type; sizes that are not known are dimensions with names of their own."""
    text = ", ".join([f"{name}_{i}" if n is None else str(n) for i, n in enumerate(kind.shape)])
    shape = symbolic_shape(text, scope=scope) if None in kind.shape else kind.shape
    return ShapedArray(tuple(shape), kind.dtype)


@api_boundary
def from_stablehlo(
    module: str | bytes | os.PathLike[str], *, function: str | None = None, mesh: Any = None
) -> StableHLOFunction:
    """Return a function of a StableHLO module, to be called with arrays.

    Args:
        module: the text of a module or the path of a file that holds it, in the form that JAX
            (``jit(f).lower(x).as_text()``, ``Exported.mlir_module()``), other tools and weft write;
            or a portable artifact, StableHLO's binary form (``Exported.mlir_module_serialized``).
        function: the name of the function. By default ``main`` or the only public one.
        mesh: a mesh with the axes that the module's shardings name. Without it they are ignored,
            and one device computes all parts of a manual computation.

    Returns:
        A ``StableHLOFunction``. Text that weft cannot read raises ``StableHLOError`` with the line;
        of a binary module, this is the line in a list of its operations.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import export
        >>> text = weft.jit(lambda x: jnp.sin(x).sum()).lower(jnp.ones(3)).as_text()
        >>> f = export.from_stablehlo(text)
        >>> f
        <StableHLO function main: (float32[3]) -> (float32[])>
        >>> f(jnp.arange(3.0))
        (Array(1.7507684, dtype=float32),)
    """
    read = _read(module)
    functions = read.functions
    if function is None:
        public = [name for name, f in functions.items() if f.is_public]
        function = "main" if "main" in functions else public[0] if len(public) == 1 else ""
    if function not in functions:
        given = ", ".join(f"@{name}" for name in [*functions][:10])
        raise StableHLOError(f"name one of the module's functions with function=: {given}")
    return StableHLOFunction(read, functions[function], mesh)


def _read(module: Any) -> Module:
    """The module that is given as text, as bytes or as a file."""
    if isinstance(module, str) and ("{" in module or "\n" in module):
        return parse(module)
    if isinstance(module, (str, os.PathLike)):
        module = Path(module).read_bytes()
    if not isinstance(module, (bytes, bytearray, memoryview)):
        raise TypeError(f"a module is text or the path of a file, got {type(module).__name__}")
    raw = bytes(module)
    if raw.startswith(BYTECODE):
        return vhlo.read(raw)
    try:
        return parse(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise StableHLOError(
            "this is not a module: its bytes are neither MLIR bytecode nor UTF-8"
        ) from None
