"""Exports that JAX serialised: a FlatBuffer around a module of StableHLO.

The module becomes a program of weft's own, as ``from_stablehlo`` makes it. Where shapes are
symbolic it is read anew for the sizes of each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.base.knobs import enable_x64
from weft.core.avals import ShapedArray
from weft.core.dims.dim import substitute
from weft.core.dims.text import SymbolicScope
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import Mesh, PartitionSpec
from weft.core.staging import stage
from weft.dtypes.kinds import dtype_by_name
from weft.export.exported import DisabledSafetyCheck, Exported, default_export_platform, moves
from weft.export.flatbuffer import Table
from weft.export.instances import is_symbolic
from weft.export.reading import MalformedExportError, checked_shape, symbolic_dimension
from weft.export.trees import read_tree
from weft.lax import full
from weft.mlir import vhlo
from weft.mlir.collectives import axes_in
from weft.mlir.errors import StableHLOError
from weft.mlir.function import CONSTANT, StableHLOFunction
from weft.mlir.tree import Raw
from weft.random.keys import key_data, key_dtype, wrap_key_data
from weft.runtime.devices import devices
from weft.tree.functions import tree_structure, tree_unflatten

# The fields of JAX's tables, by the order of their declarations.
NAME, IN_TREE, IN_AVALS, OUT_TREE, OUT_AVALS = 1, 2, 3, 4, 5
FEW_DEVICES, IN_SHARDINGS, OUT_SHARDINGS, PLATFORMS, ORDERED = 6, 7, 8, 9, 10
CHECKS, MODULE, KEPT, VJP, DEVICES = 12, 13, 15, 17, 18
AVALS, SHARDINGS, IN_AVAL_NUMBERS, OUT_AVAL_NUMBERS = 19, 21, 22, 23
IN_SHARDING_NUMBERS, OUT_SHARDING_NUMBERS = 24, 25
TREE_KIND, CHILDREN, CHILD_NAMES, NODE_NAME, NODE_DATA = 0, 1, 2, 3, 4
LEAF, NONE, TUPLE, LIST, DICT, NODE = range(6)
MAX_DEPTH = 100  # of trees, and of derivatives of derivatives
_TYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
    " complex128 bfloat16 int4 uint4 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2"
    " float8_e5m2fnuz float0 float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn"
).split()
_KEYS = {27: "threefry2x32", 28: "rbg", 29: "unsafe_rbg"}


def read(data: bytes) -> Exported:
    """The exported function in bytes that JAX wrote."""
    try:
        return _exported(Table.root(data), data, 0)
    except StableHLOError as error:
        raise MalformedExportError(f"weft cannot run this export of JAX's: {error}") from None


def _exported(t: Table, data: bytes | None, depth: int) -> Exported:
    if depth > MAX_DEPTH:
        raise ValueError("derivatives are nested too deeply")
    name = t.text(NAME)
    if not name.isprintable():
        raise ValueError(f"its name is {name!r}")
    if t.tables(ORDERED):
        raise MalformedExportError(
            f"{name} has ordered effects, such as callbacks, which weft does not run; export it"
            " without them"
        )
    scope = SymbolicScope(())
    ins, outs = (_avals(t, *fields, scope) for fields in _AVAL_FIELDS)
    in_tree, out_tree = _tree(t.table(IN_TREE)), _tree(t.table(OUT_TREE))
    if (in_tree.num_leaves, out_tree.num_leaves) != (len(ins), len(outs)):
        raise ValueError("its arguments or results are not those of its trees")
    given = tree_unflatten(in_tree, ins)
    parts = given if type(given) is tuple and len(given) == 2 else (None, None)
    if type(parts[0]) is not tuple or type(parts[1]) is not dict:
        raise ValueError(f"its arguments are like {in_tree}")
    kept = t.numbers(KEPT, "H")
    if any(i >= len(ins) for i in kept):
        raise ValueError("it takes arguments that are not there")
    platforms = tuple(t.texts(PLATFORMS))
    module = vhlo.read(t.raw(MODULE) or b"")
    count = t.number(DEVICES, "I") or t.number(FEW_DEVICES, "H")
    mesh = _mesh(module, count)
    called = _Called(module, mesh, platforms, kept, ins, outs)
    if depth:
        called.skip_float0()
        in_tree, out_tree = tree_structure((tuple(called.ins), {})), tree_structure(called.outs)
    checks = tuple([_check(x) for x in t.tables(CHECKS)])
    made = JaxExported(name, called, in_tree, out_tree, platforms, checks)
    made._blob = data
    if not depth:
        made.nr_devices = count if mesh is not None else 1
        specs = [_specs(t, numbers, len(avals)) for numbers, avals in _placed(ins, outs)]
        made._in_specs, made._out_specs = specs
    derivative = t.table(VJP)
    if derivative is not None:
        made._vjp = _exported(derivative, None, depth + 1)
        moving = [[a for a in avals if moves(a)] for avals in (called.ins, called.outs)]
        wanted = [_types([*called.ins, *moving[1]]), _types(moving[0])]
        if [_types(made._vjp.in_avals), _types(made._vjp.out_avals)] != wanted:
            raise ValueError("its derivative is one of another function")
    return made


def _placed(ins: Any, outs: Any) -> Any:
    return ((IN_SHARDING_NUMBERS, ins), (OUT_SHARDING_NUMBERS, outs))


def _types(avals: Any) -> list[Any]:
    return [(tuple(map(str, a.shape)), a.dtype) for a in avals]


class _Called:
    """A module with the types that its function takes and returns."""

    def __init__(self, module: Any, mesh: Any, platforms: Any, kept: Any, ins: Any, outs: Any):
        if "main" not in module.functions:
            raise ValueError("its module has no function main")
        self.function = StableHLOFunction(module, module.functions["main"], mesh, warns=False)
        here = default_export_platform()
        self.platform = np.int32(platforms.index(here) if here in platforms else 0)
        self.takes_platform = any(
            given.get(CONSTANT) == "_platform_index"
            for given in module.functions["main"].argument_attributes[:1]
        )
        self.kept, self.ins, self.outs = kept, list(ins), list(outs)
        self.places = [*range(len(ins))], [*range(len(outs))]  # of what is passed on
        self.all_ins, self.all_outs = ins, outs

    def skip_float0(self) -> None:
        """Leave out what stands for tangents of whole numbers, as derivatives here do."""
        self.places = tuple(  # type: ignore[assignment]
            [i for i, a in enumerate(avals) if a.dtype != dtypes.float0]
            for avals in (self.ins, self.outs)
        )
        self.ins = [self.ins[i] for i in self.places[0]]
        self.outs = [self.outs[i] for i in self.places[1]]

    def program(self, avals: Any) -> ClosedJaxpr:
        """The program for arguments of types without symbolic dimensions."""
        with enable_x64(True):
            return stage(self._run, avals)

    def _run(self, *leaves: Any) -> list[Any]:
        given = dict(zip(self.places[0], leaves, strict=True))
        args = [self.platform] if self.takes_platform else []
        for i in self.kept:
            args.append(_passed(given[i]) if i in given else _nothing(self.all_ins[i]))
        found = self.function.call(*args)
        if len(found) != len(self.all_outs):
            raise ValueError(f"its module gives {len(found)} results, not {len(self.all_outs)}")
        return [_returned(found[i], self.all_outs[i]) for i in self.places[1]]


def _passed(x: Any) -> Any:
    is_key = dtypes.issubdtype(x.dtype, dtypes.prng_key)
    return key_data(x) if is_key else x


def _nothing(aval: Any) -> np.ndarray:
    return np.zeros(aval.shape, np.bool_)


def _returned(x: Any, aval: Any) -> Any:
    if dtypes.issubdtype(aval.dtype, dtypes.prng_key):
        return wrap_key_data(x, dtype=aval.dtype)
    if x.dtype != aval.dtype:
        raise ValueError(f"its module gives an array of {x.dtype} for one of {aval.dtype}")
    return x


class JaxExported(Exported):
    """A function that JAX exported."""

    def __init__(self, name: str, called: _Called, in_tree: Any, out_tree: Any, *rest: Any):
        self._called = called
        self._blob: bytes | None = None
        self._is_open = is_symbolic([*called.ins, *called.outs])
        program = _typed(called) if self._is_open else called.program(called.ins)
        if not self._is_open and _types(program.out_avals) != _types(called.outs):
            raise ValueError("its module gives results of other types")
        super().__init__(name, program, in_tree, out_tree, *rest, None)
        self._is_read = True

    def mlir_module(self) -> str:
        """The operations of JAX's module in a list if it has symbolic shapes; the program as
        StableHLO if not."""
        return self._called.function.text if self._is_open else super().mlir_module()

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """All of it as bytes: those that JAX wrote if it has symbolic shapes."""
        if not self._is_open:
            return super().serialize(vjp_order)
        if self._blob is None or (vjp_order > 0 and not self.has_vjp()):
            raise ValueError(f"{self.fun_name} was read without its derivative")
        return bytearray(self._blob)

    def _checked(self, program: ClosedJaxpr, values: dict[str, Any]) -> ClosedJaxpr:
        """The module, read for the sizes of one call."""
        if any(type(n) is not int for n in values.values()):
            raise ValueError(
                f"{self.fun_name} was exported by JAX with symbolic shapes; call it with arrays of"
                f" known sizes, not for {values}"
            )
        from_sizes = [_sized(a, values) for a in self.in_avals]
        try:
            return self._called.program(from_sizes)
        except StableHLOError as error:
            raise MalformedExportError(
                f"{self.fun_name} cannot run for {values}: {error}"
            ) from None


def _sized(aval: Any, values: dict[str, Any]) -> ShapedArray:
    return ShapedArray(tuple([substitute(n, values) for n in aval.shape]), aval.dtype)


def _typed(called: _Called) -> ClosedJaxpr:
    """A program with the types of arguments and results, which stands for those of all sizes."""

    def zeros(aval: Any) -> Any:
        if not dtypes.issubdtype(aval.dtype, dtypes.prng_key):
            return full(aval.shape, 0, aval.dtype)
        bits = full((*aval.shape, *aval.dtype._impl.key_shape), 0, np.uint32)
        return wrap_key_data(bits, dtype=aval.dtype)

    with enable_x64(True):
        return stage(lambda *_: [zeros(aval) for aval in called.outs], called.ins)


# --- parts ----------------------------------------------------------------------------------------

_AVAL_FIELDS = ((IN_AVALS, IN_AVAL_NUMBERS), (OUT_AVALS, OUT_AVAL_NUMBERS))


def _avals(t: Table, field: int, numbers: int, scope: SymbolicScope) -> list[Any]:
    """Types: numbers of those that are listed once, or, as JAX wrote before 2026, all of them."""
    which = t.numbers(numbers, "I")
    if not which:
        return [_aval(x, scope) for x in t.tables(field)]
    unique = [_aval(x, scope) for x in t.tables(AVALS)]
    return [unique[i] for i in which]


def _aval(t: Table, scope: SymbolicScope) -> ShapedArray:
    if t.number(0) != 0:
        raise ValueError("it takes or returns something that is not an array")
    sizes = [int(n) if n.isdigit() else symbolic_dimension(n, scope) for n in t.texts(1)]
    code = t.number(2)
    dtype: Any = dtypes.float0 if code == 22 else None
    if code in _KEYS:
        dtype = key_dtype(_KEYS[code])
    elif dtype is None:
        dtype = np.dtype(dtype_by_name[_TYPES[code]])
    return ShapedArray(checked_shape(sizes, dtype), dtype)


def _tree(t: Table | None) -> Any:
    if t is None:
        raise ValueError("it has no tree of its arguments or results")
    return read_tree(_node(t, 0))


def _node(t: Table, depth: int) -> Any:
    """A tree as ``read_tree`` takes it."""
    if depth > MAX_DEPTH:
        raise ValueError("its trees are nested too deeply")
    kind = t.number(TREE_KIND)
    children = [_node(child, depth + 1) for child in t.tables(CHILDREN)]
    if kind == LEAF:
        return ("leaf",)
    if kind == NONE:
        return ("none",)
    if kind in (TUPLE, LIST):
        return ("tuple" if kind == TUPLE else "list", children)
    if kind == DICT:
        return ("dict", [*zip(t.texts(CHILD_NAMES), children, strict=True)])
    if kind == NODE:
        return ("node", t.text(NODE_NAME), (t.raw(NODE_DATA) or b"").hex(), children)
    raise ValueError(f"a tree has a node of kind {kind}")


def _check(t: Table) -> DisabledSafetyCheck:
    if t.number(0) == 1:
        return DisabledSafetyCheck.custom_call(t.text(1))
    return DisabledSafetyCheck.platform()


def _mesh(module: Any, count: int) -> Any:
    """A mesh of the devices here with the axes of the module's; None if there are too few."""
    there = devices()
    for found in module.meshes.values():
        axes = axes_in(found.text) if isinstance(found, Raw) else {}
        size = int(np.prod([*axes.values()], initial=1))
        if size == count > 1 and len(there) >= count:
            return Mesh(np.asarray(there[:count]).reshape([*axes.values()]), tuple(axes))
    return None


def _specs(t: Table, numbers: int, count: int) -> tuple[PartitionSpec | None, ...]:
    """How arguments or results are divided."""
    which = t.numbers(numbers, "I") or [0] * count
    unique = [None, *[_spec(x.table(1)) for x in t.tables(SHARDINGS)]]
    if len(which) != count:
        raise ValueError("its shardings are not those of its arguments and results")
    return tuple([unique[i] for i in which])


def _spec(t: Table | None) -> PartitionSpec | None:
    if t is None:
        return None
    parts = [tuple(part.texts(0)) for part in t.tables(0)]
    return PartitionSpec(*[p if len(p) > 1 else p[0] if p else None for p in parts])
