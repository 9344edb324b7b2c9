"""Runs cases on a library, stores what came out, and compares a run with the record."""

import difflib
import importlib
import json
import os
import pkgutil
import re
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from . import cases as _cases
from .table import FAMILIES, Case, Rng, Tol, dtype, is_inexact

DATA = Path(__file__).parent / "data"

# Variants of a batched run with the same answer: where arguments and results have the new axis.
IN_AXES = (0, -1, 1)
OUT_AXES = (0, 0, -1)
# An error of a derived mode binds when it is about tracing; others are JAX's accidents.
TRACING = (
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
)

# Where JAX says "not implemented", or stumbles over what it was given, any refusal will do.
REFUSED = "refused"
ANY_REFUSAL = ("NotImplementedError", REFUSED)
# Recorded as the error of a case that JAX leaves open: nothing is compared.
OPEN = "open"
# What an entry of the record has beside its modes: a fingerprint, and the public names it is about.
NOTES = ("crc", "uses")

for _info in pkgutil.iter_modules(_cases.__path__):
    importlib.import_module(f"{_cases.__name__}.{_info.name}")


class Watched:
    """A module that notes which of its public names are asked for."""

    def __init__(self, module: Any, path: str, seen: set[str]):
        self._module, self._path, self._seen = module, path, seen

    def __getattr__(self, attr: str) -> Any:
        value = getattr(self._module, attr)
        path = f"{self._path}.{attr}"
        if isinstance(value, ModuleType):
            return Watched(value, path, self._seen)
        self._seen.add(path)
        return value


class Namespace:
    """A library under its JAX names: ``J.jit``, ``J.jnp``, ``J.lax``, ``J.special`` and so on.

    ``seen`` is what a case asked for, under JAX's names (``numpy.sum``, ``lax.linalg.qr``).
    """

    _short = {
        "jnp": "numpy",
        "linalg": "lax.linalg",
        "special": "scipy.special",
        "sla": "scipy.linalg",
        "stats": "scipy.stats",
        "signal": "scipy.signal",
        "ndimage": "scipy.ndimage",
        "interpolate": "scipy.interpolate",
        "integrate": "scipy.integrate",
        "optimize": "scipy.optimize",
        "sfft": "scipy.fft",
        "vq": "scipy.cluster.vq",
        "sparse_linalg": "scipy.sparse.linalg",
        "transform": "scipy.spatial.transform",
        "initializers": "nn.initializers",
        "tu": "tree_util",
        "experimental_jet": "experimental.jet",
        "experimental_ode": "experimental.ode",
        "checkify": "experimental.checkify",
        "experimental": "experimental",
        "ad_checkpoint": "ad_checkpoint",
        "flatten_util": "flatten_util",
        "xcore": "extend.core",
    }

    def __init__(self, name: str):
        self._name = name
        self._root = importlib.import_module(name)
        self.seen: set[str] = set()

    def __getattr__(self, attr: str) -> Any:
        if attr not in self._short and hasattr(self._root, attr):
            value = getattr(self._root, attr)
        else:
            value = importlib.import_module(f"{self._name}.{self._short.get(attr, attr)}")
        if isinstance(value, ModuleType):
            value = Watched(value, self._short.get(attr, attr), self.seen)
            setattr(self, attr, value)
        else:
            self.seen.add(attr)
        return value


@dataclass(slots=True)
class Leaf:
    """One output: an array with its dtype name and weak type, or plain text."""

    dtype: str
    shape: tuple[int, ...]
    weak: bool
    array: np.ndarray | None
    text: str = ""


@dataclass(slots=True)
class Outcome:
    """What a run gave: leaves under a structure, or the class of the error."""

    structure: str = ""
    leaves: tuple[Leaf, ...] = ()
    error: str = ""
    classes: tuple[str, ...] = ()
    message: str = ""


def flatten(x: Any, leaves: list[Any]) -> str:
    """Leaves in JAX's order, and the structure as text; independent of both libraries."""
    if isinstance(x, dict):
        return "{" + ",".join(f"{k}:{flatten(x[k], leaves)}" for k in sorted(x)) + "}"
    if isinstance(x, (tuple, list)):
        inner = ",".join(flatten(item, leaves) for item in x)
        return f"[{inner}]" if isinstance(x, list) else f"({inner})"
    if x is None:
        return "None"
    leaves.append(x)
    return "*"


def is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type)


def to_leaf(J: Namespace, x: Any) -> Leaf:
    """Describe one output."""
    if isinstance(x, (bool, int, float, complex, str, np.dtype, type)):
        text = x.__name__ if isinstance(x, type) else str(x)
        return Leaf("py", (), False, None, f"{type(x).__name__}:{text}")
    if not is_array(x):
        raise TypeError(f"a case returned {type(x).__name__}: return arrays, scalars or text")
    name = str(x.dtype)
    weak = bool(getattr(x, "weak_type", False))
    if name.startswith("key<"):
        return Leaf(name, tuple(x.shape), False, np.asarray(J.random.key_data(x)))
    return Leaf(name, tuple(x.shape), weak, np.array(x, copy=True))


def arrays_of(x: Any) -> list[Any]:
    leaves: list[Any] = []
    flatten(x, leaves)
    return [leaf for leaf in leaves if is_array(leaf)]


def floats_of(x: Any) -> list[Any]:
    return [a for a in arrays_of(x) if str(a.dtype)[:3] != "key" and is_inexact(a.dtype)]


def public_error(error: BaseException) -> str:
    """The nearest class a user can name: builtin, or of ``errors``/``dtypes``."""
    public = ("builtins", "numpy", "jax.errors", "jax._src.errors", "weft")
    for cls in type(error).__mro__:
        if cls.__module__.startswith(public) or cls.__name__ == "TypePromotionError":
            return cls.__name__
    return type(error).__name__


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


class Runner:
    """Runs the modes of a case on one library."""

    def __init__(self, name: str):
        self.J = Namespace(name)
        self.asked = Namespace(name)  # the one that cases see: what they use is noted there
        self.is_jax = name == "jax"

    def outcome(self, thunk: Any) -> Outcome:
        """Call, and turn the result or the exception into an Outcome."""
        try:
            out = thunk()
            raw: list[Any] = []
            structure = flatten(out, raw)
            leaves = tuple(to_leaf(self.J, leaf) for leaf in raw)
        except Exception as error:
            classes = tuple(c.__name__ for c in type(error).__mro__)
            return Outcome(error=public_error(error), classes=classes, message=first_line(error))
        return Outcome(structure, leaves)

    def run(self, case: Case, mode: str, variant: int = 0) -> Outcome:
        """Run one mode; ``variant`` picks other batch axes with the same answer."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with ExitStack() as scopes:
                if not self.is_jax:  # gradients as JAX has them, NaN where it says so
                    scopes.enter_context(self.J.safe_where_gradients(False))
                if case.x64:
                    scopes.enter_context(self.J.enable_x64(True))
                return self.outcome(lambda: self.dispatch(case, mode, variant))

    def dispatch(self, case: Case, mode: str, variant: int) -> Any:
        args = [self.argument(a) for a in case.args]

        def fn(*xs: Any) -> Any:
            return case.fn(self.asked, *xs)

        if mode == "value":
            return fn(*args)
        if mode == "jit":
            return self.jit(fn, args)
        if mode.startswith("shard:"):
            return self.shard(fn, args, mode.partition(":")[2])
        if mode in ("jvp", "vjp"):
            return self.derivative(case, fn, args, mode)
        return self.vmap(case, fn, args, mode.partition(":")[2], variant)

    def argument(self, x: Any) -> Any:
        return self.J.jnp.asarray(x) if isinstance(x, np.ndarray) else x

    def split(self, args: list[Any], which: list[int]) -> Any:
        """A function of the chosen positions alone, the others closed over."""

        def merge(xs: Any) -> list[Any]:
            merged = list(args)
            for i, x in zip(which, xs, strict=True):
                merged[i] = x
            return merged

        return merge

    def jit(self, fn: Any, args: list[Any]) -> Any:
        which = [i for i, a in enumerate(args) if is_array(a)]
        merge = self.split(args, which)

        def staged(*xs: Any) -> Any:
            return arrays_of(fn(*merge(xs)))

        if not self.is_jax:
            return self.J.jit(staged)(*[args[i] for i in which])
        closed = self.J.make_jaxpr(staged)(*[args[i] for i in which])
        return [self.abstract(aval) for aval in closed.out_avals]

    def shard(self, fn: Any, args: list[Any], which: str) -> Any:
        """The results of both devices of a mesh, along a first axis; of the arguments all vary
        over the mesh, or the first alone does."""
        J, arrays = self.J, [i for i, a in enumerate(args) if is_array(a)]
        mesh = J.make_mesh((2,), ("x",), axis_types=(J.sharding.AxisType.Auto,))
        merge = self.split(args, arrays)
        varying = len(arrays) if which == "all" else 1

        def body(*xs: Any) -> Any:
            given = [J.lax.pcast(x, "x", to="varying") for x in xs[:varying]]
            outs = arrays_of(fn(*merge([*given, *xs[varying:]])))
            return [J.jnp.expand_dims(y, 0) for y in outs]

        spread = J.shard_map(body, mesh=mesh, in_specs=J.P(), out_specs=J.P("x"))
        return spread(*[args[i] for i in arrays])

    def abstract(self, aval: Any) -> str:
        return f"{aval.dtype} {tuple(aval.shape)} {bool(getattr(aval, 'weak_type', False))}"

    def derivative(self, case: Case, fn: Any, args: list[Any], mode: str) -> Any:
        J = self.J
        which = [
            i for i, a in enumerate(case.args) if isinstance(a, np.ndarray) and is_inexact(a.dtype)
        ]
        merge = self.split(args, which)
        primals = [args[i] for i in which]

        def inexact(*xs: Any) -> Any:
            return floats_of(fn(*merge(xs)))

        rng = Rng("tangents " + case.id)
        if mode == "jvp":
            tangents = [J.jnp.asarray(direction(rng, case.args[i])) for i in which]
            return J.jvp(inexact, tuple(primals), tuple(tangents))[1]
        out, pull = J.vjp(inexact, *primals)
        return pull([J.jnp.asarray(direction(rng, np.asarray(o))) for o in out])

    def vmap(self, case: Case, fn: Any, args: list[Any], which: str, variant: int) -> Any:
        J = self.J
        arrays = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]
        chosen = arrays if which == "all" else [int(which)]
        axes, stacked = [], []
        for i in chosen:
            axis = IN_AXES[variant] if case.args[i].ndim else 0
            axes.append(axis)
            pair = [case.args[i], second(case.args[i])]
            stacked.append(J.jnp.asarray(np.stack(pair, axis)))
        merge = self.split(args, chosen)

        def batched(*xs: Any) -> Any:
            return arrays_of(fn(*merge(xs)))

        return J.vmap(batched, in_axes=tuple(axes), out_axes=OUT_AXES[variant])(*stacked)


def batch_first(outcome: Outcome) -> Outcome:
    """Leaves with the batch axis moved from last to first."""
    leaves = []
    for leaf in outcome.leaves:
        if leaf.array is not None and not leaf.dtype.startswith("key<"):
            array = np.moveaxis(leaf.array, -1, 0)
            leaf = Leaf(leaf.dtype, array.shape, leaf.weak, array)
        leaves.append(leaf)
    return replace(outcome, leaves=tuple(leaves))


def direction(rng: Rng, like: np.ndarray) -> np.ndarray:
    """A fixed tangent or cotangent of the given shape and dtype."""
    wide = "c128" if like.dtype.kind == "c" else "f64"
    return np.asarray(rng.f(like.shape, wide, 0.25, 1.75)).astype(like.dtype)


def second(x: np.ndarray) -> np.ndarray:
    """The second batch entry: stays in the function's domain, differs from the first."""
    if is_inexact(x.dtype):
        return (x * np.asarray(0.75, x.dtype)).astype(x.dtype)
    return np.roll(x.ravel(), 1).reshape(x.shape)


def about(case: Case, seen: set[str]) -> list[str]:
    """The public names a case is about: those its own name has, or all that it uses."""
    words = set(case.id.split("/")[1:])
    named = [name for name in seen if name.rpartition(".")[2] in words]
    return sorted(named or seen)


def expand_modes(case: Case) -> list[str]:
    """The record's keys of a case: vmap gives one per choice of batched arguments."""
    arrays = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]
    inexact = [i for i in arrays if is_inexact(case.args[i].dtype)]
    modes = []
    for mode in case.modes:
        if mode in ("jvp", "vjp") and not inexact:
            continue
        if mode != "vmap":
            modes.append(mode)
        elif arrays:
            modes.append("vmap:all")
            if case.each and len(arrays) > 1:
                modes.extend(f"vmap:{i}" for i in arrays)
    return modes


# --------------------------------------------------------------------------------------------
# the record on disk


def store(name: str, outcomes: dict[str, dict[str, Any]]) -> int:
    """Write one family's record; returns its size in bytes."""
    blob, meta, offset = [], {}, 0
    for ident, entry in outcomes.items():
        rows: dict[str, Any] = {"crc": entry["crc"], "uses": entry["uses"]}
        for mode, outcome in entry["modes"].items():
            if outcome.error:
                rows[mode] = {"error": outcome.error}
                continue
            leaves = []
            for leaf in outcome.leaves:
                if leaf.array is None:
                    leaves.append([leaf.text])
                    continue
                data = np.ascontiguousarray(leaf.array).tobytes()
                leaves.append([leaf.dtype, list(leaf.shape), int(leaf.weak), offset, len(data)])
                blob.append(data)
                offset += len(data)
            rows[mode] = {"s": outcome.structure, "l": leaves}
        meta[ident.partition("/")[2]] = rows
    text = json.dumps(meta, separators=(",", ":")).encode()
    DATA.mkdir(exist_ok=True)
    target = DATA / f"{name}.npz"
    np.savez_compressed(
        target,
        meta=np.frombuffer(text, np.uint8),
        data=np.frombuffer(b"".join(blob), np.uint8),
    )
    return target.stat().st_size


class Record:
    """The stored answers of one family."""

    def __init__(self, name: str):
        self.meta: dict[str, Any] = {}
        if not (DATA / f"{name}.npz").exists():
            return
        with np.load(DATA / f"{name}.npz") as file:
            self.meta = json.loads(file["meta"].tobytes())
            self.data = file["data"].tobytes()

    def entry(self, case: Case) -> dict[str, Any] | None:
        return self.meta.get(case.id.partition("/")[2])

    def outcome(self, row: dict[str, Any]) -> Outcome:
        if "error" in row:
            return Outcome(error=row["error"])
        return Outcome(row["s"], tuple(self.leaf(fields) for fields in row["l"]))

    def leaf(self, fields: list[Any]) -> Leaf:
        if len(fields) == 1:
            return Leaf("py", (), False, None, fields[0])
        name, shape, weak, offset, size = fields
        raw = self.data[offset : offset + size]
        if name.startswith("key<"):
            array = np.frombuffer(raw, np.uint32)
        else:
            array = np.frombuffer(raw, dtype(name)).reshape(shape)
        return Leaf(name, tuple(shape), bool(weak), array)


# --------------------------------------------------------------------------------------------
# comparison


def limits(d: np.dtype) -> tuple[float, float]:
    """Epsilon and the smallest normal of a float or complex type."""
    d = {"complex64": np.dtype("float32"), "complex128": np.dtype("float64")}.get(d.name, d)
    info = ml_dtypes.finfo(d)
    return float(info.eps), float(info.smallest_normal)


def compare_floats(want: np.ndarray, got: np.ndarray, tol: Tol) -> str:
    """Empty when within tolerance, else what is off most."""
    eps, tiny = limits(want.dtype)
    wide = np.clongdouble if want.dtype.kind == "c" else np.longdouble
    w, g = want.astype(wide).ravel(), got.astype(wide).ravel()
    if want.dtype.kind == "c":
        parts = [(w.real, g.real), (w.imag, g.imag)]
    else:
        parts = [(w, g)]
    for a, b in parts:
        bad = np.isnan(a) != np.isnan(b)
        bad |= np.isinf(a) != np.isinf(b)
        bad |= np.isinf(a) & np.isinf(b) & (a != b)
        if tol.ulp == 0:
            bad |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
        if bad.any():
            at = int(np.argmax(bad))
            return f"at flat index {at}: want {want.ravel()[at]}, got {got.ravel()[at]}"
    finite = np.isfinite(w) & np.isfinite(g)
    size = np.where(finite, np.abs(w), 0)
    if tol.scale and size.size:
        size = np.maximum(size, size.max())
    allowed = tol.ulp * eps * size + (tiny if tol.ulp else 0)
    if tol.scale:
        allowed = np.maximum(allowed, tol.ulp * eps)
    off = np.abs(np.where(finite, w, 0) - np.where(finite, g, 0))
    bad = off > allowed
    if not bad.any():
        return ""
    at = int(np.argmax(np.where(bad, off / np.maximum(size, tiny), 0)))
    ulps = float(off[at] / max(float(size[at]) * eps, tiny * eps))
    return (
        f"at flat index {at}: want {want.ravel()[at]}, got {got.ravel()[at]}"
        f" ({ulps:.3g} ulp, allowed {tol.ulp:g})"
    )


def differing(want: str, got: str) -> str:
    """Two texts side by side: in a line when short, else the lines that differ."""
    if "\n" not in want + got:
        return f"want {want}, got {got}"
    lines = difflib.unified_diff(want.splitlines(), got.splitlines(), "want", "got", "", n=1)
    return "the text differs\n        " + "\n        ".join(list(lines)[2:14])


def compare_leaf(want: Leaf, got: Leaf, tol: Tol) -> str:
    if want.array is None or got.array is None:
        return "" if want.text == got.text else differing(want.text, got.text or got.dtype)
    for attribute in ("dtype", "shape", "weak"):
        w, g = getattr(want, attribute), getattr(got, attribute)
        if w != g:
            return f"{attribute}: want {w}, got {g}"
    w, g = want.array, got.array
    if not w.size:
        return ""
    if want.dtype.startswith("key<") or not is_inexact(w.dtype):
        if np.array_equal(w.ravel(), g.ravel()):
            return ""
        at = int(np.argmax(w.ravel() != g.ravel()))
        return f"at flat index {at}: want {w.ravel()[at]}, got {g.ravel()[at]}"
    return compare_floats(w, g, tol)


def compare(want: Outcome, got: Outcome, tol: Tol) -> str:
    """Empty when the run agrees with the record."""
    if missing(got):
        return f"raised {got.classes[0]}: {got.message}"
    if want.error:
        if want.error in got.classes or (got.error and want.error in ANY_REFUSAL):
            return ""
        if got.error:
            return f"want {want.error}, got {got.error}: {got.message}"
        return f"want {want.error}, but the call returned {brief(got)}"
    if got.error:
        return f"raised {got.classes[0]}: {got.message}"
    if want.structure != got.structure:
        return f"structure: want {want.structure}, got {got.structure}"
    for i, (w, g) in enumerate(zip(want.leaves, got.leaves, strict=True)):
        if problem := compare_leaf(w, g, tol):
            return f"output {i}: {problem}"
    return ""


def missing(outcome: Outcome) -> str:
    """The public name that a run did not find, if that is why it failed."""
    if not outcome.error:
        return ""
    if found := re.search(r"No module named 'weft\.([\w.]+)'", outcome.message):
        return found[1]
    if found := re.search(r"module 'weft([\w.]*)' has no attribute '(\w+)'", outcome.message):
        return f"{found[1]}.{found[2]}".lstrip(".")
    pattern = r"'(?:ArrayImpl|\w+Tracer)' object has no attribute '(\w+)'"
    found = re.search(pattern, outcome.message)
    return f"Array.{found[1]}" if found else ""


def brief(outcome: Outcome) -> str:
    """An outcome in one line."""
    if outcome.error:
        return f"{outcome.error}: {outcome.message}"
    parts = []
    for leaf in outcome.leaves[:3]:
        if leaf.array is None:
            parts.append(leaf.text if "\n" not in leaf.text else "text")
        else:
            values = np.array2string(leaf.array.ravel()[:8], separator=", ")
            weak = " weak" if leaf.weak else ""
            parts.append(f"{leaf.dtype}{list(leaf.shape)}{weak} {values}")
    return "; ".join(parts)


@dataclass(slots=True)
class Failure:
    """A case that disagrees, with all a developer needs to look at it."""

    case: Case
    mode: str
    problem: str
    want: str
    got: str
    missing: str = ""

    def __str__(self) -> str:
        return (
            f"{self.case.id} [{self.mode}] {self.problem}\n"
            f"    want: {self.want}\n    got:  {self.got}\n"
            f"    rerun: python -m tests.oracle.run --case '{self.case.id}'"
        )


class Checker:
    """Compares a library with the record, case by case."""

    def __init__(self, library: str):
        self.runner = Runner(library)
        self.records: dict[str, Record] = {}

    def record(self, case: Case) -> Record:
        name = case.id.partition("/")[0]
        if name not in self.records:
            self.records[name] = Record(name)
        return self.records[name]

    def check(self, case: Case) -> list[Failure]:
        """All modes of one case."""
        record = self.record(case)
        entry = record.entry(case)
        advice = f"run tools/record_oracle.py --family {case.id.partition('/')[0]}"
        if entry is None or entry["crc"] != case.crc():
            return [Failure(case, "record", "is missing or stale: " + advice, "-", "-")]
        value = record.outcome(entry["value"])
        if value.error == OPEN:
            return []
        failures = []
        for mode, row in entry.items():
            if mode in NOTES:
                continue
            want = record.outcome(row)
            if want.error and mode not in ("value", "jit") and want.error not in TRACING:
                continue
            variants = (0, 1, 2) if mode == "vmap:all" and not want.error else (0,)
            for variant in variants:
                got = self.runner.run(case, mode, variant)
                got = batch_first(got) if OUT_AXES[variant] else got
                problem = self.problem(case, mode, want, got, value)
                if problem:
                    label = f"{mode} axis {IN_AXES[variant]}" if variant else mode
                    found = (brief(want), brief(got), missing(got))
                    failures.append(Failure(case, label, problem, *found))
                    break
        return failures

    def problem(self, case: Case, mode: str, want: Outcome, got: Outcome, value: Outcome) -> str:
        if mode == "jit" and not want.error:
            if got.error:
                return f"raised {got.classes[0]}: {got.message}"
            return compare_jit(want, got, value, case.tol, self.runner.is_jax)
        if mode != "value" and want.error in TRACING and got.error in TRACING:
            return ""
        return compare(want, got, case.tol.derivative() if mode in ("jvp", "vjp") else case.tol)


def compare_jit(want: Outcome, got: Outcome, value: Outcome, tol: Tol, is_jax: bool) -> str:
    """Types as recorded under jit, values as recorded eagerly."""
    types = [leaf.text.partition(":")[2] for leaf in want.leaves]
    if is_jax:
        have = [leaf.text.partition(":")[2] for leaf in got.leaves]
        return "" if have == types else f"types under jit: want {types}, got {have}"
    have = [f"{leaf.dtype} {leaf.shape} {leaf.weak}" for leaf in got.leaves]
    if have != types:
        return f"types under jit: want {types}, got {have}"
    eager = [leaf for leaf in value.leaves if leaf.array is not None]
    for i, (w, g) in enumerate(zip(eager, got.leaves, strict=True)):
        same = Leaf(g.dtype, w.shape, g.weak, w.array)
        if w.dtype == g.dtype and (problem := compare_leaf(same, g, tol)):
            return f"output {i}: {problem}"
    return ""


def environment() -> None:
    """One thread and no accelerator, so that records do not depend on the machine's size."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def families() -> list[str]:
    return sorted(FAMILIES)


def select(wanted: list[str] | None) -> list[str]:
    """Families by name; what is no family's name picks all that start with it."""
    names = families()
    if not wanted:
        return names
    prefixes = tuple(w for w in wanted if w not in names)
    return [n for n in names if n in wanted or (prefixes and n.startswith(prefixes))]
