"""Short programs that JAX and weft are asked alike, and how their answers are written down.

A program is text. It leaves its answer in ``answer``, or is a single expression. Files of programs
are named ``*_programs.py`` and hold a list ``PROGRAMS``; ``tools/record_surface.py`` records JAX's
answers beside them, in ``*_answers.json``, and the tests ask weft.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
MODULES = {
    "jax": "", "jnp": "numpy", "lax": "lax", "export": "export", "sparse": "experimental.sparse",
    "nn": "nn", "jsp": "scipy", "image": "image", "random": "random", "sharding": "sharding",
    "shard_alike": "experimental.shard_alike", "layout": "experimental.layout",
}  # fmt: skip


def groups() -> list[str]:
    return sorted(path.stem.removesuffix("_programs") for path in HERE.glob("*_programs.py"))


def programs(group: str) -> list[str]:
    return importlib.import_module(f"tests.surface.{group}_programs").PROGRAMS


def setup(group: str) -> str:
    """What is run once, before the programs of a group."""
    return getattr(importlib.import_module(f"tests.surface.{group}_programs"), "SETUP", "")


def answers(group: str) -> dict[str, Any]:
    return json.loads((HERE / f"{group}_answers.json").read_text())


class Library:
    """A library under the names that programs use."""

    def __init__(self, name: str, group: str) -> None:
        self.name = name
        self.names: dict[str, Any] = {"np": np, "os": os}
        for short, path in MODULES.items():
            try:
                module = importlib.import_module(f"{name}.{path}" if path else name)
            except ImportError:
                continue
            self.names[short] = module
        share = self.names["sharding"]
        self.names |= {
            "P": share.PartitionSpec, "NamedSharding": share.NamedSharding, "Mesh": share.Mesh,
            "AxisType": share.AxisType,
        }  # fmt: skip
        self.names["module"] = lambda path: importlib.import_module(f"{name}.{path}")
        exec(setup(group), self.names)

    def ask(self, program: str) -> Any:
        """What a program gives, or the class of what it raises, as JSON has it."""
        names = dict(self.names)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    code = compile(program, "program", "eval")
                except SyntaxError:
                    exec(compile(program, "program", "exec"), names)
                    found = names["answer"]
                else:
                    found = eval(code, names)
                return self.told(found)
        except Exception as error:
            return f"raises {type(error).__name__}"

    def told(self, x: Any) -> Any:
        """A result as JSON has it: numbers, texts, and arrays with their type."""
        sparse = self.names["sparse"]
        if isinstance(x, sparse.JAXSparse):
            return {type(x).__name__: self.told(x.todense())}
        if isinstance(x, (dict, tuple, list)):
            if hasattr(x, "_fields") or isinstance(x, dict):
                x = x if isinstance(x, dict) else x._asdict()
                return {str(key): self.told(value) for key, value in x.items()}
            return [self.told(value) for value in x]
        if x is None or isinstance(x, (str, bool, int)):
            return x
        if isinstance(x, float):
            return {"float": round(x, 4)}
        if isinstance(x, (self.names["jax"].Array, np.ndarray, np.generic)):
            if self.names["jnp"].issubdtype(x.dtype, self.names["jax"].dtypes.extended):
                return {f"{x.dtype}{tuple(x.shape)}": []}
            values = np.asarray(x)
            kind = "c" if np.iscomplexobj(values) else "f"
            if values.dtype.kind not in "biu":
                values = values.astype(np.complex128 if kind == "c" else np.float64)
            if kind == "c":
                values = np.stack([values.real, values.imag], -1)
            flat = [round(v, 4) if isinstance(v, float) else v for v in values.ravel().tolist()]
            return {f"{x.dtype}{tuple(x.shape)}": flat}
        return str(x).replace("weft.", "jax.")


def same(found: Any, expected: Any, tol: float = 2e-3) -> bool:
    """Whether two answers agree; numbers of arrays nearly."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(
            same(found[key], expected[key], 2e-2 if "float16" in key else tol) for key in found
        )
    if isinstance(found, list):
        return len(found) == len(expected) and all(
            same(a, b, tol) for a, b in zip(found, expected, strict=True)
        )
    if isinstance(found, float):
        return bool(np.isclose(found, expected, rtol=tol, atol=tol, equal_nan=True))
    return found == expected


# What JAX says where it has not got to something, or stumbles: weft may do more.
OPEN = {f"raises {name}" for name in ("NotImplementedError", "AttributeError", "KeyError")}


def differences(group: str) -> list[list[Any]]:
    """Programs that weft answers otherwise: each with its answer and JAX's.

    ``MORE`` of a group names programs that weft runs and JAX refuses, for the reason given there.
    """
    library, expected = Library("weft", group), answers(group)
    more = getattr(importlib.import_module(f"tests.surface.{group}_programs"), "MORE", ())
    found = []
    for program in programs(group):
        answer = library.ask(program)
        free = str(expected[program]) in OPEN or any(part in program for part in more)
        refused = str(expected[program]).startswith("raises")
        if not same(answer, expected[program]) and not (free and refused):
            found.append([program, answer, expected[program]])
    return found


if __name__ == "__main__":
    print(json.dumps(differences(sys.argv[1])))
