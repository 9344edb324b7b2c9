"""Type promotion: the dtype and weak type that operands of one operation are brought to.

The rule itself is the table in ``lattice``; here values are looked at and results are cached.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, overload

import numpy as np

from weft.base import knobs
from weft.dtypes import kinds
from weft.dtypes.canonical import (
    canonicalize_dtype,
    default_complex_dtype,
    default_float_dtype,
    default_int_dtype,
    default_types,
    dtype,
    is_python_scalar,
    narrow_explicit_dtype,
    python_scalar_dtypes,
)
from weft.dtypes.kinds import AnyDType, DType, DTypeLike
from weft.dtypes.lattice import WEAK_NODES, Node, least_upper_bound, weak_node

# What promotion sees of an operand: its dtype, and whether its width may give way.
Typed: TypeAlias = tuple[Any, bool]

_BOOL = np.dtype(np.bool_)
_MAX_JOINS = 20_000
_knobs = knobs.thread


def is_weakly_typed(x: Any) -> bool:
    """Return whether ``x`` is a Python number or a weakly typed array, whose width gives way.

    Args:
        x: a value.

    Returns:
        True or False.

    Example:
        >>> is_weakly_typed(1.0), is_weakly_typed(np.float32(1.0)), is_weakly_typed(True)
        (True, False, False)
    """
    typ = type(x)
    if typ is int or typ is float or typ is complex:
        return True
    if getattr(typ, "is_size", False):  # a symbolic dimension
        return True
    return getattr(getattr(x, "aval", None), "weak_type", False)


def is_weakly_typed_scalar(x: Any) -> bool:
    """Return whether ``x`` is a Python scalar or a weakly typed array of no dimensions.

    Args:
        x: a value.

    Returns:
        True or False.

    Example:
        >>> is_weakly_typed_scalar(1.0)
        True
    """
    return is_python_scalar(x) or (is_weakly_typed(x) and np.ndim(x) == 0)


def dtype_and_weak_type(x: Any) -> Typed:
    """Return the dtype and weak type of a value, or of a dtype-like object.

    Args:
        x: a value, or what stands for a dtype.

    Returns:
        A pair of a dtype and a boolean.

    Example:
        >>> dtype_and_weak_type(np.int8(1)), dtype_and_weak_type(float)[1]
        ((dtype('int8'), False), True)
    """
    typ = type(x)
    if typ is float:
        return default_float_dtype(), True
    if typ is int:
        return default_int_dtype(), True
    # Only arrays and tracers have an aval; mere descriptions (ShapeDtypeStruct) count as strong.
    aval = getattr(x, "aval", None)
    if aval is not None:
        return x.dtype, getattr(aval, "weak_type", False)
    if typ is complex:
        return default_complex_dtype(), True
    return dtype(x), x is int or x is float or x is complex


_joins: dict[Any, Typed] = {}


def promote_pair(dtype1: AnyDType, weak1: bool, dtype2: AnyDType, weak2: bool) -> Typed:
    """Return the dtype and weak type that two operands of known types promote to.

    Args:
        dtype1: the dtype of the first.
        weak1: whether it is weakly typed.
        dtype2: the dtype of the second.
        weak2: whether it is weakly typed.

    Returns:
        A pair of a dtype and a boolean.

    Example:
        >>> promote_pair(np.dtype("int8"), False, np.dtype("float32"), True)[1]
        True
        >>> promote_pair(np.dtype("float16"), False, np.dtype("float32"), True)
        (dtype('float16'), False)
    """
    if dtype1 is dtype2 and not (weak1 and weak2):
        return dtype1, False
    key = (dtype1, weak1, dtype2, weak2, _knobs.enable_x64, _knobs.numpy_dtype_promotion)
    return _joins.get(key) or _join(key, ((dtype1, weak1), (dtype2, weak2)))


def _join(key: Any, operands: tuple[Typed, ...]) -> Typed:
    found = _find_join(operands)
    # A 64-bit result that is narrowed warns, and must do so each time.
    if all(canonicalize_dtype(given, True) == given for given, _ in operands):
        if len(_joins) >= _MAX_JOINS:
            _joins.clear()
        _joins[key] = found
    return found


def _find_join(operands: tuple[Typed, ...]) -> Typed:
    dtypes = frozenset(given for given, _ in operands)
    all_weak = all(weak for _, weak in operands)
    if len(dtypes) == 1 and not all_weak:
        # The only rule that extended dtypes take part in.
        return operands[0][0], False
    strict = _knobs.numpy_dtype_promotion == "strict"
    x64 = _knobs.enable_x64
    if all_weak and not strict:
        # Widths count among weak values, although they give way to everything else.
        return _settle(least_upper_bound(dtypes, strict, x64), True)
    nodes = frozenset(weak_node(given) if weak else given for given, weak in operands)
    node = least_upper_bound(nodes, strict, x64)
    return _settle(node, isinstance(node, type))


def _settle(node: Node, weak: bool) -> Typed:
    if isinstance(node, type):
        return python_scalar_dtypes[node](), weak
    return narrow_explicit_dtype(node, "type promotion"), weak and node != _BOOL


def lattice_result_type(*args: Any) -> Typed:
    """Return the dtype and weak type that values or dtypes promote to in one operation.

    Args:
        *args: values or dtypes.

    Returns:
        A pair of a dtype and a boolean.

    Example:
        >>> lattice_result_type(np.int8(1), np.uint8(1), 2)
        (dtype('int16'), False)
        >>> lattice_result_type("bfloat16", 1.5)
        (dtype(bfloat16), False)
    """
    if len(args) == 2:
        dtype1, weak1 = dtype_and_weak_type(args[0])
        dtype2, weak2 = dtype_and_weak_type(args[1])
        return promote_pair(dtype1, weak1, dtype2, weak2)
    if not args:
        raise ValueError("type promotion needs at least one array or dtype")
    if len(args) == 1:
        given, weak = dtype_and_weak_type(args[0])
        return given, weak and given != _BOOL
    distinct = tuple({dtype_and_weak_type(arg): None for arg in args})
    if len(distinct) <= 2:
        return promote_pair(*distinct[0], *distinct[-1])
    key = (distinct, _knobs.enable_x64, _knobs.numpy_dtype_promotion)
    return _joins.get(key) or _join(key, distinct)


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[True]) -> Typed: ...


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[False] = False) -> Any: ...


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype that an operation on these values or dtypes has.

    Args:
        *args: values or dtypes.
        return_weak_type_flag: return a pair with the weak type.

    Returns:
        A dtype, or a pair of a dtype and a boolean.

    Example:
        >>> result_type("int32", "float16", 3.0)
        dtype('float16')
        >>> result_type("uint8", 1, return_weak_type_flag=True)
        (dtype('uint8'), False)
    """
    given = [default_float_dtype() if arg is None else arg for arg in args]
    found, weak = lattice_result_type(*given)
    if weak:
        found = _default_of_kind(found)
    return (found, weak) if return_weak_type_flag else found


def _default_of_kind(given: DType) -> DType:
    if given in kinds.unsigned_dtypes:
        return default_types["u"]()
    node = weak_node(given)
    return python_scalar_dtypes[node]() if isinstance(node, type) else given


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """Return the dtype that two dtypes promote to.

    Args:
        a: Dtype, or a Python type: int, float and complex take the width of the other.
        b: The other dtype.

    Returns:
        NumPy dtype.

    Differs from NumPy: int32 and float32 give float32, as in JAX.

    Example:
        >>> promote_types("int32", "float16"), promote_types("uint8", int)
        (dtype('float16'), dtype('uint8'))
    """
    strict = _knobs.numpy_dtype_promotion == "strict"
    nodes = frozenset((_node_of(a), _node_of(b)))
    return np.dtype(least_upper_bound(nodes, strict, _knobs.enable_x64))


def _node_of(given: Any) -> Node:
    return given if any(given is node for node in WEAK_NODES) else np.dtype(given)


def safe_to_cast(input_dtype_or_value: Any, output_dtype_or_value: Any) -> bool:
    """Return whether promotion alone would bring one dtype or value to another's dtype.

    Args:
        input_dtype_or_value: the dtype or value to bring.
        output_dtype_or_value: the dtype or value to reach.

    Returns:
        True or False.

    Example:
        >>> safe_to_cast("int16", "float32"), safe_to_cast("float32", "int16")
        (True, False)
    """
    source, target = dtype(input_dtype_or_value), dtype(output_dtype_or_value)
    if source == target:
        return True
    return result_type(input_dtype_or_value, target) == target
