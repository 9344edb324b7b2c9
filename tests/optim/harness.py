"""Cases that run on optax and on weft.optim, what they gave on optax, and how to compare.

A case is a function of a `Library`: `L.optim` is optax or weft.optim, `L.jax` is jax or weft,
`L.jnp` its numpy. It returns a tree of arrays. `tools/record_optim.py` stores the results of
optax in `data/`: the tree as text (names of states and fields, dtypes, shapes) and the numbers.
"""

import functools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"
TOLERANCE = {False: 1e-5, True: 1e-12}


@dataclass
class Library:
    """One of the two libraries, with 64-bit numbers or without."""

    jax: Any
    jnp: Any
    optim: Any
    x64: bool
    compiled: bool = False

    @property
    def dtype(self):
        """The dtype of the parameters."""
        return np.float64 if self.x64 else np.float32

    def array(self, values):
        """An array of the library, from anything NumPy takes."""
        values = np.asarray(values)
        if values.dtype == np.float64:
            values = values.astype(self.dtype)
        return self.jnp.asarray(values)

    def tree(self, seed=0):
        """Small parameters: a matrix, a vector and a scalar in nested containers."""
        draw = np.random.RandomState(seed).standard_normal
        return {
            "dense": {"w": self.array(draw((3, 2))), "b": self.array(draw(2))},
            "scale": [self.array(draw((1,)))],
        }


@dataclass
class Case:
    """A name, a function of a `Library`, and how exact the result is."""

    name: str
    run: Callable[[Library], Any]
    x64: bool = False
    tolerance: float = 0.0
    # Optax compiles its steps, which keeps bfloat16 sums in float32; eager ones round as written.
    eager: bool = False

    @property
    def id(self):
        """The name with the width of numbers."""
        return f"{self.name}-{'x64' if self.x64 else 'f32'}"

    @property
    def limit(self):
        """The largest relative difference."""
        return self.tolerance or TOLERANCE[self.x64]


def describe_parameter(parameter) -> str:
    """A parameter as text, with its default where that is a plain value."""
    default = parameter.default
    if default is parameter.empty:
        text = ""
    elif type(default) in (bool, int, float, str, tuple, type(None)):
        text = f"={default!r}"
    else:
        text = "=..."
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    only = {parameter.KEYWORD_ONLY: "*, ", parameter.POSITIONAL_ONLY: "/, "}
    return only.get(parameter.kind, "") + star + parameter.name + text


def leaves(tree, library) -> tuple[str, list[np.ndarray]]:
    """The tree as text and its numbers, in the same way for both libraries."""
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        inner = [leaves(child, library) for child in tree]
        fields = zip(tree._fields, inner, strict=True)
        text = f"{type(tree).__name__}({', '.join(f'{name}={part[0]}' for name, part in fields)})"
    elif isinstance(tree, (tuple, list)):
        inner = [leaves(child, library) for child in tree]
        text = f"{type(tree).__name__}[{', '.join(part[0] for part in inner)}]"
    elif isinstance(tree, dict):
        inner = [leaves(tree[key], library) for key in sorted(tree)]
        keys = zip(sorted(tree), inner, strict=True)
        text = f"{{{', '.join(f'{key!r}: {part[0]}' for key, part in keys)}}}"
    elif tree is None or isinstance(tree, str):
        return repr(tree), []
    else:
        if hasattr(tree, "dtype") and str(tree.dtype).startswith("key<"):
            tree = library.jax.random.key_data(tree)
        array = np.asarray(tree)
        if isinstance(tree, (bool, int, float)):
            array = array.astype({"b": bool, "i": np.int32, "f": np.float32}[array.dtype.kind])
        return f"{array.dtype}{list(array.shape)}", [array]
    return text, [array for part in inner for array in part[1]]


def outcome(case: Case, library: Library) -> dict:
    """What a case gives: a tree as text and numbers, or the class of an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text, arrays = leaves(case.run(library), library)
        except Exception as error:
            return {"error": type(error).__name__, "message": str(error)[:300]}
    return {"text": text, "arrays": arrays}


def difference(case: Case, found: dict, wanted: dict) -> str:
    """What sets two outcomes apart; nothing if they agree."""
    if "error" in wanted or "error" in found:
        if found.get("error") == wanted.get("error"):
            return ""
        message = found.get("message")
        return f"gave {found.get('error')} ({message}), recorded {wanted.get('error')}"
    if found["text"] != wanted["text"]:
        return f"gave the tree\n{found['text']}\nrecorded\n{wanted['text']}"
    for number, (ours, theirs) in enumerate(zip(found["arrays"], wanted["arrays"], strict=True)):
        if theirs.dtype.kind not in "fcV":
            if not np.array_equal(ours, theirs):
                return f"leaf {number}: gave {ours}, recorded {theirs}"
            continue
        ours, theirs = ours.astype(np.complex128), theirs.astype(np.complex128)
        finite = np.abs(theirs[np.isfinite(theirs)])
        limit = case.limit * max(0.05, finite.max(initial=0.0))
        equal = np.isclose(ours, theirs, rtol=case.limit, atol=limit, equal_nan=True)
        if not equal.all():
            worst = np.nanmax(np.abs(ours - theirs))
            text = f"leaf {number}: gave\n{ours}\nrecorded\n{theirs}\n"
            return text + f"largest difference {worst:.3g}, allowed {limit:.3g}"
    return ""


def save(family: str, outcomes: dict[str, dict]) -> None:
    """Store outcomes: one line of text each, and all numbers of a dtype in one array."""
    pools: dict[str, list[np.ndarray]] = {}
    rows = {}
    for name, result in outcomes.items():
        if "error" in result:
            rows[name] = {"error": result["error"]}
            continue
        parts = []
        for array in result["arrays"]:
            pools.setdefault(array.dtype.name, []).append(array.ravel())
            parts.append([array.dtype.name, list(array.shape)])
        rows[name] = {"text": result["text"], "parts": parts}
    arrays = {name: np.concatenate(parts) for name, parts in pools.items()}
    arrays = {
        name: array.view(np.uint16) if name == "bfloat16" else array
        for name, array in arrays.items()
    }
    DATA.mkdir(exist_ok=True)
    text = np.frombuffer(json.dumps(rows).encode(), np.uint8)
    np.savez_compressed(DATA / f"{family}.npz", rows=text, **arrays)


@functools.cache
def load(family: str) -> dict[str, dict]:
    """What `save` stored."""
    import ml_dtypes

    with np.load(DATA / f"{family}.npz") as stored:
        pools = {name: stored[name] for name in stored.files}
    rows = json.loads(pools.pop("rows").tobytes())
    if "bfloat16" in pools:
        pools["bfloat16"] = pools["bfloat16"].view(ml_dtypes.bfloat16)
    place = dict.fromkeys(pools, 0)
    for row in rows.values():
        if "error" in row:
            continue
        row["arrays"] = []
        for dtype, shape in row["parts"]:
            size, start = int(np.prod(shape, dtype=int)), place[dtype]
            row["arrays"].append(pools[dtype][start : start + size].reshape(shape))
            place[dtype] = start + size
    return rows
