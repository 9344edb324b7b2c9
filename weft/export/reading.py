"""Programs of bytes that may come from anyone: every value is checked as it is read.

Sizes and dtypes are checked against the bytes that are there, and each equation's results are
derived anew from its operands by ``checking``, so what the bytes say about types is never believed.
"""

from __future__ import annotations

import enum
import json
import re
import struct
import sys
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.avals import ShapedArray
from weft.core.dims.dim import Dim
from weft.core.dims.text import Parser, SymbolicScope
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.registry import lookup
from weft.core.sharding import UNSPECIFIED
from weft.dtypes.kinds import dtype_by_name
from weft.export.checking import check_constant, check_equation, check_literal
from weft.export.encoding import MARK
from weft.export.placement import read_sharding
from weft.random.keys import key_dtype
from weft.runtime.array import box

# Bytes of one value: more than any machine addresses, and far from where 64 bits wrap.
MAX_BYTES = 1 << 56
_PLAIN = (bool, int, float, str, type(None))
_OPAQUE = re.compile(r"\|V([1-9][0-9]{0,2})")


class MalformedExportError(ValueError):
    """The error for bytes that are no exported function: damaged, forged, or of another version.

    The one error of ``deserialize``, whatever is wrong with the bytes; nothing of them has run.

    >>> import weft
    >>> from weft import export
    >>> blob = export.export(weft.jit(lambda x: x + 1))(1.0).serialize()
    >>> try:
    ...     export.deserialize(blob[:-9])
    ... except export.MalformedExportError as error:
    ...     print("damaged" in str(error))
    True
    """


class Reader:
    """Makes values of what a writer made; raises ValueError and the like where it cannot."""

    def __init__(self, data: bytes) -> None:
        if not data.startswith(MARK):
            raise MalformedExportError(
                "these bytes are not an exported function of this version of weft"
            )
        at = len(MARK) + 8
        (size,) = struct.unpack("<Q", data[len(MARK) : at])
        if size > len(data) - at:
            raise ValueError(
                f"the header names {size} bytes of text, but there are {len(data) - at}"
            )
        held = json.loads(data[at : at + size])
        self.arrays = _read_arrays(held["arrays"], memoryview(data)[at + size :])
        self.root = held["value"]
        self.dims: dict[str, Dim] = {}  # symbolic dimensions by their text
        self.scope = _scope(held.get("constraints", []))
        self._kinds: dict[str, Callable[[Any], Any]] = {
            name[6:]: getattr(self, name) for name in dir(type(self)) if name.startswith("_read_")
        }

    def value(self, x: Any) -> Any:
        if type(x) in _PLAIN:
            return x
        if type(x) is list:
            return [self.value(item) for item in x]
        read = self._kinds.get(x["k"])
        if read is None:
            raise ValueError(f"a value of unknown kind {x['k']!r}")
        return read(x)

    def _read_tuple(self, x: Any) -> Any:
        return tuple([self.value(item) for item in _list(x["v"])])

    def _read_frozenset(self, x: Any) -> Any:
        return frozenset([self.value(item) for item in _list(x["v"])])

    def _read_set(self, x: Any) -> Any:
        return {self.value(item) for item in _list(x["v"])}

    def _read_dict(self, x: Any) -> Any:
        return {self.value(a): self.value(b) for a, b in _list(x["v"])}

    def _read_complex(self, x: Any) -> Any:
        real, imag = x["v"]
        return complex(_is(real, float), _is(imag, float))

    def _read_dtype(self, x: Any) -> Any:
        return _dtype(x["v"])

    def _read_scalar(self, x: Any) -> Any:
        return np.dtype(_dtype(x["v"])).type

    def _read_aval(self, x: Any) -> Any:
        shape, dtype, weak_type = x["v"]
        dtype = _dtype(dtype)
        sizes = [self.dim(n) if type(n) is str else n for n in _list(shape)]
        return ShapedArray(checked_shape(sizes, dtype), dtype, _is(weak_type, bool))

    def _read_dim(self, x: Any) -> Any:
        return self.dim(_is(x["v"], str))

    def dim(self, text: str) -> Dim:
        """A symbolic dimension, written as it is printed."""
        found = self.dims.get(text)
        if found is None:
            found = self.dims[text] = _symbolic(text, self.scope)
        return found

    def _read_array(self, x: Any) -> Any:
        aval = self._aval(x["aval"])
        value = self._stored(x["n"])
        storage = storage_dtype(aval.dtype)
        if (value.shape, value.dtype) != (aval.shape, storage):
            raise ValueError(f"an array of {value.dtype}{list(value.shape)} is typed {aval}")
        return box(value, aval)

    def _read_numpy(self, x: Any) -> Any:
        value = self._stored(x["n"])
        if not _is(x["scalar"], bool):
            return value
        if value.ndim:
            raise ValueError(f"an array of shape {value.shape} is called a scalar")
        return value[()]

    def _read_unspecified(self, x: Any) -> Any:
        return UNSPECIFIED

    def _read_sharding(self, x: Any) -> Any:
        return read_sharding(x["v"])

    def _read_generator(self, x: Any) -> Any:
        return _key_dtype(x["v"])._impl  # type: ignore[attr-defined]

    def _read_primitive(self, x: Any) -> Any:
        return _primitive(x["v"])

    def _read_enum(self, x: Any) -> Any:
        return _class(x["c"], enum.Enum)[x["v"]]

    def _read_record(self, x: Any) -> Any:
        made = _class(x["c"], tuple)
        values = [self.value(item) for item in _list(x["v"])]
        if len(values) != len(made._fields):
            raise ValueError(f"{x['c']} of {len(values)} values has {len(made._fields)} fields")
        return made(*values)

    def _read_closed(self, x: Any) -> Any:
        jaxpr = self.program(x["jaxpr"])
        consts = [self.value(c) for c in _list(x["consts"])]
        for const, var in zip(consts, jaxpr.constvars, strict=True):
            check_constant(const, var.aval)
        return ClosedJaxpr(jaxpr, consts)

    def _read_jaxpr(self, x: Any) -> Any:
        variables: list[Var] = []

        def bound(aval: Any) -> Var:
            variables.append(Var(self._aval(aval)))
            return variables[-1]

        def atom(x: Any) -> Any:
            if type(x) is int:
                if not 0 <= x < len(variables):
                    raise ValueError(f"variable {x} of {len(variables)} is used")
                return variables[x]
            if x["k"] != "literal":
                raise ValueError(f"an operand of unknown kind {x['k']!r}")
            literal = Literal(self.value(x["v"]), self._aval(x["aval"]))
            check_literal(literal)
            return literal

        constants = [bound(aval) for aval in _list(x["constants"])]
        inputs = [bound(aval) for aval in _list(x["inputs"])]
        equations = []
        for name, ins, outs, params in _list(x["equations"]):
            operands = [atom(item) for item in _list(ins)]
            primitive = _primitive(name)  # loads the classes of its parameters
            results = [
                DropVar(self._aval(aval)) if _is(dropped, bool) else bound(aval)
                for aval, dropped in _list(outs)
            ]
            given = {_is(key, str): self.value(value) for key, value in _list(params)}
            equations.append(JaxprEqn(operands, results, primitive, given))
            check_equation(equations[-1])
        return Jaxpr(constants, inputs, [atom(item) for item in _list(x["outputs"])], equations)

    def program(self, x: Any) -> Jaxpr:
        """A program, and nothing else."""
        if x["k"] != "jaxpr":
            raise ValueError(f"expected a program, not a value of kind {x['k']!r}")
        return self._read_jaxpr(x)

    def _aval(self, x: Any) -> ShapedArray:
        if x["k"] != "aval":
            raise ValueError(f"expected a type, not a value of kind {x['k']!r}")
        return self._read_aval(x)

    def _stored(self, n: Any) -> np.ndarray:
        if not 0 <= _is(n, int) < len(self.arrays):
            raise ValueError(f"array {n} of {len(self.arrays)} is used")
        return self.arrays[n]


# --- arrays ---------------------------------------------------------------------------------------


def _read_arrays(named: Any, raw: memoryview) -> list[np.ndarray]:
    arrays, at = [], 0
    for name, shape in _list(named):
        dtype = _stored_dtype(name)
        sizes = checked_shape(shape, dtype)
        count = prod(sizes)
        end = at + count * dtype.itemsize
        if end > len(raw):
            raise ValueError(f"the header names {end} bytes of arrays, but there are {len(raw)}")
        arrays.append(_array(raw[at:end], dtype, sizes))
        at = end
    if at != len(raw):
        raise ValueError(f"the header names {at} bytes of arrays, but there are {len(raw)}")
    return arrays


def _array(raw: memoryview, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A copy of some bytes as an array, in memory of just its size."""
    if not raw.nbytes:
        return np.zeros(shape, dtype)
    value = np.frombuffer(raw, dtype).reshape(shape).copy()
    if dtype == np.bool_ and value.view(np.uint8).max() > 1:
        raise ValueError("an array of booleans holds bytes other than 0 and 1")
    if dtype in _PART_OF_A_BYTE:
        value = value.astype(np.float32).astype(dtype)  # clears bits that are not its own
    return value


_PART_OF_A_BYTE = frozenset(
    dtype for name, dtype in dtype_by_name.items() if re.fullmatch(r"u?int[124]|float[46]_.*", name)
)


def checked_shape(sizes: Any, dtype: Any) -> tuple[int, ...]:
    """A shape that a machine may hold; its sizes may be symbolic."""
    for n in _list(sizes):
        if type(n) is not Dim and (type(n) is not int or n < 0):
            raise ValueError(f"{n!r} is the size of an axis")
    if (
        prod([n for n in sizes if type(n) is int and n]) * max(storage_dtype(dtype).itemsize, 1)
        > MAX_BYTES
    ):
        raise ValueError(f"no machine can hold an array of shape {sizes}")
    if len(sizes) > 64:
        raise ValueError(f"an array has {len(sizes)} axes; NumPy's have 64 at most")
    return tuple(sizes)


# --- symbolic dimensions --------------------------------------------------------------------------

# Characters of a dimension, its calls, powers and digits; constraints of a scope.
MAX_DIM_TEXT, MAX_DIM_CALLS, MAX_DIM_POWER, MAX_DIM_DIGITS = 400, 24, 8, 18
MAX_CONSTRAINTS = 16


def _scope(constraints: Any) -> SymbolicScope:
    if len(_list(constraints)) > MAX_CONSTRAINTS:
        raise ValueError(f"its dimensions have {len(constraints)} constraints")
    for text in constraints:
        _check_dim_text(_is(text, str))
    return SymbolicScope(constraints)


def _symbolic(text: str, scope: SymbolicScope) -> Dim:
    found = symbolic_dimension(text, scope)
    if str(found) != text:
        raise ValueError(f"{text!r} isn't a symbolic dimension")
    return found


def symbolic_dimension(text: str, scope: SymbolicScope) -> Dim:
    """The dimension that a text means."""
    _check_dim_text(text)
    found = Parser(text, None, scope).one()
    if type(found) is not Dim:
        raise ValueError(f"{text!r} isn't a symbolic dimension")
    return found


def _check_dim_text(text: str) -> None:
    """Raise for text whose meaning would take long to find."""
    if len(text) > MAX_DIM_TEXT or text.count("(") > MAX_DIM_CALLS or not text.isascii():
        raise ValueError(f"{text[:80]!r} isn't a symbolic dimension")
    if any(len(digits) > MAX_DIM_DIGITS for digits in re.findall(r"[0-9]+", text)):
        raise ValueError(f"{text!r} has too large a number")
    if any(int(power) > MAX_DIM_POWER for power in re.findall(r"\^\s*([0-9]+)", text)):
        raise ValueError(f"{text!r} has too large a power")


# --- names ----------------------------------------------------------------------------------------


def _list(x: Any) -> list[Any]:
    return _is(x, list)


def _is(x: Any, kind: type) -> Any:
    if type(x) is not kind:
        raise ValueError(f"{x!r} is not a {kind.__name__}")
    return x


def _dtype(name: Any) -> Any:
    found = dtype_by_name.get(_is(name, str))
    if found is not None:
        return found
    if name == "float0":
        return dtypes.float0
    if name.startswith("pair:"):
        primal, tangent, own = name[5:].split("/", 2)
        return dtypes.PrimalTangentDType(np.dtype(_dtype(primal)), np.dtype(_dtype(tangent)), own)
    if not name.startswith("key:"):
        raise ValueError(f"there is no dtype {name!r}")
    return _key_dtype(name[4:])


def _key_dtype(name: Any) -> Any:
    return key_dtype(_is(name, str))


def _stored_dtype(name: Any) -> np.dtype:
    opaque = _OPAQUE.fullmatch(_is(name, str))
    return np.dtype((np.void, int(opaque[1]))) if opaque else np.dtype(_dtype(name))


def _primitive(name: Any) -> Any:
    try:
        return lookup(_is(name, str))
    except KeyError:
        raise ValueError(f"{name!r} isn't an operation of this version of weft") from None


def _class(home: Any, base: type) -> Any:
    """A class of weft's own that only holds values."""
    module, _, name = _is(home, str).partition(":")
    found = getattr(sys.modules.get(module), name, None) if module.startswith("weft.") else None
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"{home!r} isn't a value class of this version of weft")
    if base is tuple and not hasattr(found, "_fields"):
        raise ValueError(f"{home!r} isn't a class of named values")
    return found
