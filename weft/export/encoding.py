"""Programs as bytes and back: JSON and raw arrays, nothing that could run when it is read.

The bytes are a mark, the length of a JSON text, the text, and the arrays it refers to.
"""

from __future__ import annotations

import enum
import json
import struct
import sys
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.avals import ShapedArray
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.sharding import UNSPECIFIED
from weft.core.trace import Tracer
from weft.prims.random import PRNGImpl
from weft.random.keys import key_dtype
from weft.runtime.array import ArrayImpl, box

MARK = b"weft-export-1\n"
_PLAIN = (bool, int, float, str, type(None))


class Unwritable(ValueError):
    """A program holds something that cannot be written."""


class Writer:
    """Makes JSON of values; arrays are put aside."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def to_bytes(self, value: Any) -> bytearray:
        """All of a value."""
        written = self.value(value)
        shapes = [[_dtype_name(a.dtype), list(a.shape)] for a in self.arrays]
        text = json.dumps({"value": written, "arrays": shapes}).encode()
        raw = b"".join(np.ascontiguousarray(a).tobytes() for a in self.arrays)
        return bytearray(MARK + struct.pack("<Q", len(text)) + text + raw)

    def value(self, x: Any) -> Any:
        """A value as JSON: what JSON has not is a dictionary with its kind under ``k``."""
        kind = type(x)
        if kind in _PLAIN:
            return x
        if kind is list:
            return [self.value(item) for item in x]
        if kind in (tuple, frozenset, set):
            return {"k": kind.__name__, "v": [self.value(item) for item in x]}
        if kind is dict:
            return {"k": "dict", "v": [[self.value(a), self.value(b)] for a, b in x.items()]}
        if kind is complex:
            return {"k": "complex", "v": [x.real, x.imag]}
        if isinstance(x, (np.dtype, dtypes.ExtendedDType)):
            return {"k": "dtype", "v": _dtype_name(x)}
        if isinstance(x, type) and issubclass(x, np.generic):
            return {"k": "scalar", "v": _dtype_name(np.dtype(x))}
        if isinstance(x, (np.ndarray, np.generic, ArrayImpl)):
            return self._array(x)
        return self._object(x)

    def _array(self, x: Any) -> Any:
        if isinstance(x, ArrayImpl):
            self.arrays.append(x._value)
            return {"k": "array", "n": len(self.arrays) - 1, "aval": self.value(x.aval)}
        self.arrays.append(np.asarray(x))
        return {"k": "numpy", "n": len(self.arrays) - 1, "scalar": isinstance(x, np.generic)}

    def _object(self, x: Any) -> Any:
        if isinstance(x, ClosedJaxpr):
            consts = [
                self._constant(c, v) for c, v in zip(x.consts, x.jaxpr.constvars, strict=True)
            ]
            return {"k": "closed", "jaxpr": self.value(x.jaxpr), "consts": consts}
        if isinstance(x, Jaxpr):
            return self._program(x)
        if isinstance(x, ShapedArray):
            return {"k": "aval", "v": [list(x.shape), _dtype_name(x.dtype), x.weak_type]}
        if isinstance(x, Primitive):
            return {"k": "primitive", "v": x.name}
        if isinstance(x, PRNGImpl):
            return {"k": "generator", "v": x.name}
        if x is UNSPECIFIED:
            return {"k": "unspecified"}
        home = f"{type(x).__module__}:{type(x).__qualname__}"
        if home.startswith("weft."):
            if isinstance(x, enum.Enum):
                return {"k": "enum", "c": home, "v": x.name}
            if isinstance(x, tuple) and hasattr(x, "_fields"):
                return {"k": "record", "c": home, "v": [self.value(item) for item in x]}
        raise Unwritable(f"an object of type {type(x).__name__} ({x!r})")

    def _constant(self, x: Any, var: Var) -> Any:
        if isinstance(x, Tracer):
            raise Unwritable("a traced value that the function closes over")
        return self.value(x if isinstance(x, ArrayImpl) else np.asarray(x, var.aval.dtype))

    def _program(self, jaxpr: Jaxpr) -> Any:
        if jaxpr.effects:
            raise Unwritable(f"side effects: {', '.join(map(str, jaxpr.effects))}")
        numbers: dict[Any, int] = {}

        def bound(var: Var) -> Any:
            if type(var) is not DropVar:
                numbers[var] = len(numbers)
            return self.value(var.aval)

        def atom(x: Any) -> Any:
            if type(x) is Literal:
                return {"k": "literal", "v": self.value(x.val), "aval": self.value(x.aval)}
            return numbers[x]

        made: dict[str, Any] = {"k": "jaxpr"}
        made["constants"] = [bound(v) for v in jaxpr.constvars]
        made["inputs"] = [bound(v) for v in jaxpr.invars]
        made["equations"] = [
            [
                eqn.primitive.name,
                [atom(x) for x in eqn.invars],
                [[bound(v), type(v) is DropVar] for v in eqn.outvars],
                self._parameters(eqn),
            ]
            for eqn in jaxpr.eqns
        ]
        made["outputs"] = [atom(x) for x in jaxpr.outvars]
        return made

    def _parameters(self, eqn: JaxprEqn) -> list[Any]:
        written = []
        for name, value in eqn.params.items():
            if name == "computation" and "jaxpr" in eqn.params:
                value = None  # kept beside the program for printing only
            try:
                written.append([name, self.value(value)])
            except Unwritable as error:
                raise Unwritable(f"the parameter {name} of {eqn.primitive.name}: {error}") from None
        return written


class Reader:
    """Makes values of what a writer made."""

    def __init__(self, data: bytes) -> None:
        data = bytes(data)
        if not data.startswith(MARK):
            raise ValueError("these bytes are not an exported function of this version of weft")
        at = len(MARK) + 8
        try:
            (size,) = struct.unpack("<Q", data[len(MARK) : at])
            held = json.loads(data[at : at + size])
            self.arrays = self._read_arrays(held["arrays"], data[at + size :])
            self.root = held["value"]
        except (struct.error, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"these bytes of an exported function are damaged: {error}") from None

    @staticmethod
    def _read_arrays(shapes: Any, raw: bytes) -> list[np.ndarray]:
        arrays, at = [], 0
        for name, shape in shapes:
            dtype = np.dtype(_dtype(name))
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(raw, dtype, count, at).reshape(shape).copy())
            at += count * dtype.itemsize
        if at != len(raw):
            raise ValueError(f"{at} bytes of arrays are named, {len(raw)} are there")
        return arrays

    def value(self, x: Any) -> Any:
        if type(x) in _PLAIN:
            return x
        if type(x) is list:
            return [self.value(item) for item in x]
        read = getattr(self, f"read_{x['k']}", None)
        if read is None:
            raise ValueError(f"an exported function holds a value of unknown kind {x['k']!r}")
        return read(x)

    def read_tuple(self, x: Any) -> Any:
        return tuple(self.value(item) for item in x["v"])

    def read_frozenset(self, x: Any) -> Any:
        return frozenset(self.value(item) for item in x["v"])

    def read_set(self, x: Any) -> Any:
        return {self.value(item) for item in x["v"]}

    def read_dict(self, x: Any) -> Any:
        return {self.value(a): self.value(b) for a, b in x["v"]}

    def read_complex(self, x: Any) -> Any:
        return complex(*x["v"])

    def read_dtype(self, x: Any) -> Any:
        return _dtype(x["v"])

    def read_scalar(self, x: Any) -> Any:
        return np.dtype(_dtype(x["v"])).type

    def read_aval(self, x: Any) -> Any:
        shape, dtype, weak_type = x["v"]
        return ShapedArray(tuple(shape), _dtype(dtype), weak_type)

    def read_array(self, x: Any) -> Any:
        aval = self.read_aval(x["aval"])
        value = self.arrays[x["n"]]
        storage = storage_dtype(aval.dtype)
        return box(value if value.dtype == storage else value.view(storage), aval)

    def read_numpy(self, x: Any) -> Any:
        value = self.arrays[x["n"]]
        return value[()] if x["scalar"] else value

    def read_unspecified(self, x: Any) -> Any:
        return UNSPECIFIED

    def read_generator(self, x: Any) -> Any:
        return key_dtype(x["v"])._impl

    def read_primitive(self, x: Any) -> Any:
        return _primitive(x["v"])

    def read_enum(self, x: Any) -> Any:
        return _class(x["c"], enum.Enum)[x["v"]]

    def read_record(self, x: Any) -> Any:
        return _class(x["c"], tuple)(*(self.value(item) for item in x["v"]))

    def read_closed(self, x: Any) -> Any:
        return ClosedJaxpr(self.value(x["jaxpr"]), [self.value(c) for c in x["consts"]])

    def read_jaxpr(self, x: Any) -> Any:
        variables: list[Var] = []

        def bound(aval: Any) -> Var:
            variables.append(Var(self.value(aval)))
            return variables[-1]

        def atom(x: Any) -> Any:
            if type(x) is int:
                return variables[x]
            return Literal(self.value(x["v"]), self.value(x["aval"]))

        constants = [bound(aval) for aval in x["constants"]]
        inputs = [bound(aval) for aval in x["inputs"]]
        equations = []
        for name, ins, outs, params in x["equations"]:
            operands = [atom(item) for item in ins]
            results = [
                DropVar(self.value(aval)) if dropped else bound(aval) for aval, dropped in outs
            ]
            primitive = _primitive(name)  # loads the classes of its parameters
            given = {key: self.value(value) for key, value in params}
            equations.append(JaxprEqn(operands, results, primitive, given))
        return Jaxpr(constants, inputs, [atom(item) for item in x["outputs"]], equations)


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, dtypes.ExtendedDType):
        return f"key:{dtype._impl.name}"  # type: ignore[attr-defined]
    return "float0" if dtype == dtypes.float0 else str(np.dtype(dtype))


def _dtype(name: str) -> Any:
    if name.startswith("key:"):
        return key_dtype(name[4:])
    if name == "float0":
        return dtypes.float0
    return np.dtype(name)


def _primitive(name: str) -> Any:
    try:
        return lookup(name)
    except KeyError:
        raise ValueError(
            f"an exported function uses {name!r}, which this weft does not have"
        ) from None


def _class(home: str, base: type) -> Any:
    """A class of weft's own that only holds values."""
    module, _, name = home.partition(":")
    if not module.startswith("weft."):
        raise ValueError(f"an exported function names the class {home!r}, which is not weft's")
    found = getattr(sys.modules.get(module), name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"an exported function names {home!r}: import {module} first")
    return found
