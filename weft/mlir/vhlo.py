"""VHLO, StableHLO's versioned form in files: its types, attributes and operations.

Codes and layouts are those of StableHLO's portable artifacts. Operations keep their meaning over
versions of the dialect; what is here brings each to the names of StableHLO's generic form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.mlir import shardy
from weft.mlir.attributes import MAX_ELEMENTS, MAX_RANK, Attributes
from weft.mlir.bytecode import Bytecode, Bytes, fail
from weft.mlir.errors import StableHLOError
from weft.mlir.lexer import Cursor
from weft.mlir.tree import (
    DTYPES,
    Block,
    Function,
    Module,
    Operation,
    Other,
    Raw,
    Symbol,
    Tensor,
    Word,
)

UNKNOWN_SIZE = -(1 << 63)
# Element types by their codes.
ELEMENTS = {
    0: "i1", 2: "bf16", 3: "f16", 4: "f32", 5: "f64", 6: "f8E4M3FN", 7: "f8E5M2", 10: "i4",
    11: "i8", 12: "i16", 13: "i32", 14: "i64", 15: "ui4", 16: "ui8", 17: "ui16", 18: "ui32",
    19: "ui64", 27: "f8E4M3FNUZ", 28: "f8E5M2FNUZ", 29: "f8E4M3B11FNUZ", 31: "i2", 32: "ui2",
    35: "f8E4M3", 36: "f8E3M4", 37: "f4E2M1FN", 38: "f6E2M3FN", 39: "f6E3M2FN", 40: "f8E8M0FNU",
}  # fmt: skip
REFUSED = {24: "a quantized type", 25: "a type of any rank", 30: "a quantized type", 34: "tf32"}
OTHERS = {22: "stablehlo.token", 26: "shape.witness", 33: "none", 41: "memref"}
# Words of enumerations by the codes of their attributes.
WORDS = {
    3: ("EQ", "NE", "GE", "GT", "LE", "LT"),
    4: ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    5: tuple(f"API_VERSION_{name}" for name in (
        "UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI")),
    7: ("FFT", "IFFT", "RFFT", "IRFFT"),
    11: ("DEFAULT", "HIGH", "HIGHEST"),
    12: ("DEFAULT", "THREE_FRY", "PHILOX"),
    13: ("", "UNIFORM", "NORMAL"),
    16: ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    19: ("DEFAULT", "HIGHEST", "TOLERANCE"),
}  # fmt: skip


# --- types ----------------------------------------------------------------------------------------


def type_of(b: Bytecode, dialect: str, c: Bytes, is_own: bool) -> Any:
    """A type of a dialect."""
    if not is_own:
        return Attributes(Cursor(c.text())).type()
    if dialect == "builtin":
        return _builtin_type(b, c)
    if dialect != "vhlo":
        fail(f"weft has no types of the dialect {dialect[:40]!r} in this form")
    code = c.integer()
    if code in ELEMENTS:
        return _scalar(ELEMENTS[code])
    if code == 1:
        return _complex(b.type(c))
    if code == 8:
        return Other("function", (tuple(b.types(c)), tuple(b.types(c))))
    if code == 9:
        return Tensor((), np.dtype(np.int64))
    if code in (20, 21):
        if code == 21:
            b.attribute(c)
        return _tensor([c.signed() for _ in range(c.count())], b.type(c))
    if code == 23:
        return Other("tuple", tuple(b.types(c)))
    if code in REFUSED:
        raise StableHLOError(f"the module has {REFUSED[code]}, which weft has no arrays of")
    return Other(OTHERS[code]) if code in OTHERS else fail(f"there is no type {code}")


def _scalar(name: str) -> Tensor:
    if name not in DTYPES:
        raise StableHLOError(f"the module has the element type {name}, which weft has not")
    return Tensor((), DTYPES[name])


def _complex(part: Any) -> Tensor:
    names = {"float32": "complex<f32>", "float64": "complex<f64>"}
    if not isinstance(part, Tensor) or part.dtype.name not in names:
        fail(f"there are no complex numbers of {part}")
    return Tensor((), DTYPES[names[part.dtype.name]])


def _tensor(shape: list[int], element: Any) -> Tensor:
    if not isinstance(element, Tensor) or element.shape:
        fail(f"there are no arrays of {element}")
    sizes = tuple([None if n == UNKNOWN_SIZE else n for n in shape])
    known = [n for n in sizes if n is not None]
    if len(sizes) > MAX_RANK or any(n < 0 for n in known):
        fail(f"no array has the shape {sizes[:8]}")
    if prod([n for n in known if n]) > MAX_ELEMENTS:
        fail(f"no machine holds an array of shape {sizes[:8]}")
    return Tensor(sizes, element.dtype)


_BUILTIN_FLOATS = {3: "bf16", 4: "f16", 5: "f32", 6: "f64"}


def _builtin_type(b: Bytecode, c: Bytes) -> Any:
    code = c.integer()
    if code == 0:
        found = c.integer()
        return _scalar(f"{'u' if found & 3 == 2 else ''}i{found >> 2}")
    if code == 1:
        return Tensor((), np.dtype(np.int64))
    if code == 2:
        return Other("function", (tuple(b.types(c)), tuple(b.types(c))))
    if code in _BUILTIN_FLOATS:
        return _scalar(_BUILTIN_FLOATS[code])
    if code == 9:
        return _complex(b.type(c))
    if code == 12:
        return Other("none")
    if code in (13, 14):
        if code == 14:
            b.attribute(c)
        return _tensor([c.signed() for _ in range(c.count())], b.type(c))
    if code == 15:
        return Other("tuple", tuple(b.types(c)))
    fail(f"weft has no type {code} of MLIR's own")


# --- attributes -----------------------------------------------------------------------------------


def attribute_of(b: Bytecode, dialect: str, c: Bytes, is_own: bool) -> Any:
    """An attribute of a dialect, as the text's reader would give it."""
    if not is_own:
        return Attributes(Cursor(c.text())).value()
    if dialect == "builtin":
        return _builtin(b, c)
    if dialect == "sdy":
        return shardy.attribute_of(b, c)
    if dialect != "vhlo":
        return Raw(dialect, "")
    code = c.integer()
    found = _VHLO.get(code)
    if found is not None:
        return found(b, c)
    if code in WORDS:
        at, words = c.integer(), WORDS[code]
        return Word(words[at]) if at < len(words) else fail(f"{at} is no word of attribute {code}")
    fail(f"there is no attribute {code}")


def _builtin(b: Bytecode, c: Bytes) -> Any:
    code = c.integer()
    found = _BUILTIN.get(code)
    return found(b, c) if found is not None else Raw("builtin", str(code))


def _pairs(b: Bytecode, c: Bytes) -> dict[str, Any]:
    found = {}
    for _ in range(c.count()):
        name = b.attribute(c)
        found[name if isinstance(name, str) else fail("an attribute has no name")] = b.attribute(c)
    return found


def _boolean(b: Bytecode, c: Bytes) -> bool:
    return bool(c.integer())


def _whole(b: Bytecode, c: Bytes) -> Any:
    kind = b.type(c)
    if not isinstance(kind, Tensor) or kind.shape:
        fail(f"there are no numbers of type {kind}")
    if kind.dtype == np.bool_:
        return bool(c.byte())
    bits = 8 * kind.dtype.itemsize
    found = c.byte() if bits == 8 else c.signed()
    if kind.dtype.kind == "u" or "uint" in kind.dtype.name:
        return found & ((1 << bits) - 1)
    return found - (1 << bits) if bits == 8 and found >> 7 else found


def _real(b: Bytecode, c: Bytes) -> float:
    kind = b.type(c)
    if not isinstance(kind, Tensor) or kind.shape or kind.dtype.kind in "iubc":
        fail(f"there are no numbers of type {kind}")
    size = kind.dtype.itemsize
    bits = (c.byte() if size == 1 else c.signed()) & ((1 << 8 * size) - 1)
    return float(np.frombuffer(bits.to_bytes(size, "little"), kind.dtype)[0])


def _constant(b: Bytecode, c: Bytes) -> np.ndarray:
    kind = b.type(c)
    raw = c.take(c.integer())
    if not isinstance(kind, Tensor) or None in kind.shape:
        fail(f"there are no constants of type {kind}")
    shape = tuple([n for n in kind.shape if n is not None])
    count, size = prod(shape), kind.dtype.itemsize
    if kind.dtype == np.bool_:
        found = np.frombuffer(raw, np.uint8)
        # eight to a byte; one that is repeated is a whole byte
        if len(raw) == -(-count // 8) != count:
            found = np.unpackbits(found, bitorder="little")[:count]
        values = found != 0
    elif len(raw) % size:
        fail(f"a constant of type {kind} has {len(raw)} bytes")
    else:
        values = np.frombuffer(raw, kind.dtype)
    if values.size == 1:
        return np.broadcast_to(values.reshape(()), shape)
    if values.size != count:
        fail(f"a constant of type {kind} has {values.size} numbers")
    return values.reshape(shape)


def _skipped(name: str) -> Callable[[Bytecode, Bytes], Any]:
    return lambda b, c: Raw(name, "")


_VHLO: dict[int, Callable[[Bytecode, Bytes], Any]] = {
    1: lambda b, c: b.attributes(c),
    2: _boolean,
    6: _pairs,
    8: _real,
    9: _whole,
    10: _skipped("output_operand_alias"),
    14: lambda b, c: b.string(c),
    15: _constant,
    17: lambda b, c: b.type(c),
    18: _skipped("bounds"),
    20: _skipped("result_accuracy"),
}
_BUILTIN: dict[int, Callable[[Bytecode, Bytes], Any]] = {
    0: lambda b, c: b.attributes(c),
    1: _pairs,
    2: lambda b, c: b.string(c),
    3: lambda b, c: b.string(c),
    4: lambda b, c: Symbol(b.attribute(c)),
    5: lambda b, c: Symbol(b.attribute(c)),
    6: lambda b, c: b.type(c),
    7: lambda b, c: True,
    8: _whole,
    9: _real,
}


# --- operations -----------------------------------------------------------------------------------

_AXES = re.compile(r"(lhs|rhs)_(batching|contracting)_dimensions")
_GATHER = (
    "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
    "start_index_map", "index_vector_dim",
)  # fmt: skip
_SCATTER = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims",
    "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim",
)  # fmt: skip
# Attributes that StableHLO has as one: the operation, its name there, and the parts.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "stablehlo.gather": ("dimension_numbers", _GATHER),
    "stablehlo.dynamic_gather": ("dimension_numbers", _GATHER),
    "stablehlo.scatter": ("scatter_dimension_numbers", _SCATTER),
    "stablehlo.dot_general": (
        "dot_dimension_numbers",
        tuple(f"{a}_{b}_dimensions" for a in ("lhs", "rhs") for b in ("batching", "contracting")),
    ),
}
_SIDES = {
    "lhs": ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "rhs": (
        "kernel_output_feature_dimension",
        "kernel_input_feature_dimension",
        "kernel_spatial_dimensions",
    ),
    "out": ("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
}
_WINDOW = "lhs_dilation precision_config rhs_dilation window_reversal window_strides"
_CONVOLUTION = [
    *"batch_group_count feature_group_count padding".split(),
    *[name for side in _SIDES.values() for name in side],
    *_WINDOW.split(),
]
_ALGORITHM = (
    "accumulation_type", "allow_imprecise_accumulation", "lhs_component_count",
    "lhs_precision_type", "num_primitive_operations", "rhs_component_count", "rhs_precision_type",
)  # fmt: skip
_UNARY = """cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt
    tan tanh"""
# The attributes of operations; in files they come in the order of their names.
_LISTED = """
    all_gather: all_gather_dim channel_id replica_groups use_global_device_ids
    all_reduce: channel_id replica_groups use_global_device_ids
    all_to_all: channel_id concat_dimension replica_groups split_count split_dimension
    batch_norm_grad: epsilon feature_index
    batch_norm_inference: epsilon feature_index
    batch_norm_training: epsilon feature_index
    broadcast: broadcast_sizes
    broadcast_in_dim: broadcast_dimensions
    call: callee
    cholesky: lower
    collective_broadcast: channel_id replica_groups
    collective_permute: channel_id source_target_pairs
    compare: comparison_direction compare_type
    composite: composite_attributes decomposition name version
    concatenate: dimension
    constant: value
    cross-replica-sum: replica_groups
    custom_call: api_version backend_config call_target_name called_computations has_side_effect
        operand_layouts output_operand_aliases result_layouts
    dot: precision_config
    dynamic_broadcast_in_dim: broadcast_dimensions known_expanding_dimensions
        known_nonexpanding_dimensions
    dynamic_iota: iota_dimension
    dynamic_slice: slice_sizes
    einsum: einsum_config
    fft: fft_type fft_length
    func: sym_name function_type sym_visibility arg_attrs res_attrs
    get_dimension_size: dimension
    get_tuple_element: index
    infeed: infeed_config layout
    iota: iota_dimension
    map: dimensions
    outfeed: outfeed_config
    pad: edge_padding_low edge_padding_high interior_padding
    recv: channel_id channel_type is_host_transfer
    recv_v2: channel_id channel_type is_host_transfer source_target_pairs
    reduce: dimensions
    reduce_precision: exponent_bits mantissa_bits
    reduce_scatter: channel_id replica_groups scatter_dimension use_global_device_ids
    reduce_window: base_dilations padding window_dilations window_dimensions window_strides
    reverse: dimensions
    rng: rng_distribution
    rng_bit_generator: rng_algorithm
    select_and_scatter: padding window_dimensions window_strides
    send: channel_id channel_type is_host_transfer
    send_v2: channel_id channel_type is_host_transfer source_target_pairs
    set_dimension_size: dimension
    slice: start_indices limit_indices strides
    sort: dimension is_stable
    torch_index_select: batch_dims dim
    transpose: permutation
    triangular_solve: left_side lower transpose_a unit_diagonal
    unary_einsum: einsum_config
"""


def _attribute_names() -> dict[str, list[str]]:
    """The names of an operation's attributes, in order; versions that differ have entries."""
    found = {}
    for name, names in re.findall(r"^\s*([\w-]+):((?:\s+\w+)+)$", _LISTED, re.M):
        found[name] = names.split()
    gather = [*_GATHER, "indices_are_sorted"]
    scatter = [*_SCATTER, "indices_are_sorted", "unique_indices"]
    dot = [*GROUPS["stablehlo.dot_general"][1], "precision_config"]
    found |= {
        "gather": [*gather, "slice_sizes"],
        "dynamic_gather": gather,
        "scatter": scatter,
        "dot_general": [*dot, *_ALGORITHM],
        "dot_general_v1": dot,
        "convolution": _CONVOLUTION,
        "dynamic_conv": [name for name in _CONVOLUTION if name != "padding"],
        "dynamic_conv_v1": _CONVOLUTION,
    }
    for name in ("gather", "dynamic_gather", "scatter"):
        found[f"{name}_v1"] = [n for n in found[name] if "batching" not in n]
    for name in _UNARY.split():
        found[name] = ["result_accuracy"]
    return {name: sorted(names) for name, names in found.items()}


_ATTRIBUTES = _attribute_names()
_SHARDY = {
    "sdy.mesh": ["mesh", "sym_name"],
    "sdy.sharding_constraint": ["sharding"],
    "sdy.reshard": ["sharding"],
    "sdy.manual_computation": ["in_shardings", "manual_axes", "out_shardings"],
}


def read(raw: bytes) -> Module:
    """The module in some bytes."""
    b = Bytecode(raw, attribute_of, type_of)
    try:
        top = b.module()
        for op in _within(top.regions):
            _rename(b, op)
        found = Module("", attributes=top.attributes)
        held = top.attributes.pop("properties", None)
        at, is_named = Bytes(held).flagged() if held is not None else (0, False)
        name = b.attribute_at(at) if is_named else top.attributes.get("sym_name")
        found.name = name if isinstance(name, str) else found.name
        for op in top.regions[0].operations if top.regions else []:
            if op.name == "func.func":
                function = _function(op)
                if function.name in found.functions:
                    fail(f"there are two functions @{function.name}")
                found.functions[function.name] = function
            elif op.name == "sdy.mesh":
                found.meshes[str(op.attributes.get("sym_name"))] = op.attributes.get("mesh")
            else:
                fail(f"{op.name} is no function")
    except StableHLOError:
        raise
    except RecursionError:
        fail("it is nested too deeply")
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        fail(f"{type(error).__name__}: {str(error)[:100]}")
    if not found.functions:
        fail("the module has no function")
    found.text = "".join(b.lines)
    return found


def _within(regions: list[Block]) -> Any:
    for region in regions:
        for op in region.operations:
            yield op
            yield from _within(op.regions)


def _rename(b: Bytecode, op: Operation) -> None:
    """Bring an operation to StableHLO's names."""
    given = op.attributes
    dialect, _, full = op.name.partition(".")
    name = re.sub(r"_v\d+$", "", full)
    held = given.pop("properties", None)
    if held is not None:
        names = _SHARDY.get(op.name) or []
        if dialect == "vhlo":
            names = _ATTRIBUTES.get(full) or _ATTRIBUTES.get(name, [])
        c = Bytes(held)
        given.update({key: b.attribute(c) for key in names})
        if c.left and dialect == "vhlo":
            fail(f"{full} has other attributes than weft knows")
    if dialect != "vhlo":
        return
    op.name = f"{'func' if name in ('func', 'call') else 'stablehlo'}.{name}"
    if op.name in GROUPS:
        key, parts = GROUPS[op.name]
        given[key] = {part: given.pop(part) for part in parts if part in given}
    elif op.name in ("stablehlo.convolution", "stablehlo.dynamic_conv"):
        given["dimension_numbers"] = {
            side: (int(given[first]), int(given[second]), *map(int, given[rest]))
            for side, (first, second, rest) in _SIDES.items()
        }
    for key in ("callee", "decomposition"):
        if isinstance(given.get(key), str):
            given[key] = Symbol(given[key])


def _function(op: Operation) -> Function:
    given, kind = op.attributes, op.attributes.get("function_type")
    name = given.get("sym_name")
    if not isinstance(name, str) or not (isinstance(kind, Other) and kind.name == "function"):
        fail("a function has a name and a type")
    if len(op.regions) != 1 or op.regions[0].types != list(kind.parts[0]):
        fail(f"the function @{name} has no body for its arguments")
    marks = []
    for key, count in (("arg_attrs", len(kind.parts[0])), ("res_attrs", len(kind.parts[1]))):
        found = given.get(key, [])
        found = [x if isinstance(x, dict) else {} for x in found] if type(found) is list else []
        marks.append((found + [{}] * count)[:count])
    is_public = given.get("sym_visibility") in ("", "public", None)
    types = list(kind.parts[1])
    return Function(name, is_public, op.regions[0], types, marks[0], marks[1], op.position)
