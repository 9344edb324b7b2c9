"""Programs as bytes: JSON and raw arrays, nothing that could run when it is read.

The bytes are a mark, the length of a JSON text, the text, and the arrays it refers to.
``reading`` makes programs of them again.
"""

from __future__ import annotations

import enum
import json
import struct
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.avals import ShapedArray
from weft.core.dims.dim import Dim
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.primitive import Primitive
from weft.core.sharding import UNSPECIFIED, Mesh, NamedSharding
from weft.core.trace import Tracer
from weft.export.placement import written_sharding
from weft.prims.random import PRNGImpl
from weft.runtime.array import ArrayImpl

MARK = b"weft-export-1\n"
_PLAIN = (bool, int, float, str, type(None))


class Unwritable(ValueError):
    """A program holds something that cannot be written."""


class Writer:
    """Makes JSON of values; arrays are put aside."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.scope: Any = None  # of symbolic dimensions, if there are any

    def to_bytes(self, value: Any) -> bytearray:
        """All of a value."""
        written = self.value(value)
        shapes = [[_dtype_name(a.dtype), list(a.shape)] for a in self.arrays]
        held: dict[str, Any] = {"value": written, "arrays": shapes}
        if self.scope is not None:
            held["constraints"] = list(self.scope.texts)
        text = json.dumps(held).encode()
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
        if kind is Dim:
            return {"k": "dim", "v": self._size(x)}
        if kind is complex:
            return {"k": "complex", "v": [x.real, x.imag]}
        if isinstance(x, (np.dtype, dtypes.ExtendedDType)):
            return {"k": "dtype", "v": _dtype_name(x)}
        if isinstance(x, type) and issubclass(x, np.generic):
            return {"k": "scalar", "v": _dtype_name(np.dtype(x))}
        if isinstance(x, (np.ndarray, np.generic, ArrayImpl)):
            return self._array(x)
        return self._object(x)

    def _size(self, n: Any) -> Any:
        """A size: a number, or a symbolic dimension as text."""
        if type(n) is not Dim:
            return n
        if self.scope is not None and n.scope is not self.scope:
            raise Unwritable(f"dimensions of several scopes ({n})")
        self.scope = n.scope
        return str(n)

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
            sizes = [self._size(n) for n in x.shape]
            return {"k": "aval", "v": [sizes, _dtype_name(x.dtype), x.weak_type]}
        if isinstance(x, Primitive):
            return {"k": "primitive", "v": x.name}
        if isinstance(x, PRNGImpl):
            return {"k": "generator", "v": x.name}
        if x is UNSPECIFIED:
            return {"k": "unspecified"}
        if isinstance(x, NamedSharding) and isinstance(x.mesh, Mesh):
            return {"k": "sharding", "v": written_sharding(x)}
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
        along = eqn.primitive.axis_names
        axes = () if along is None else along(eqn.params)
        if any(type(axis) is str for axis in axes):
            raise Unwritable(f"{eqn.primitive.name} along the axes {axes} of a mesh")
        for name, value in eqn.params.items():
            if name == "computation" and "jaxpr" in eqn.params:
                value = None  # kept beside the program for printing only
            try:
                written.append([name, self.value(value)])
            except Unwritable as error:
                raise Unwritable(f"the parameter {name} of {eqn.primitive.name}: {error}") from None
        return written


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, dtypes.PrimalTangentDType):
        return f"pair:{dtype.primal_dtype}/{dtype.tangent_dtype}/{dtype.name}"
    if isinstance(dtype, dtypes.ExtendedDType):
        return f"key:{dtype._impl.name}"  # type: ignore[attr-defined]
    return "float0" if dtype == dtypes.float0 else str(np.dtype(dtype))
