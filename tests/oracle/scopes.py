"""Cases under settings that forbid things: what JAX computes there, weft does too.

A few cases of every public function run by the interpreter with ranks and dtypes not promoted,
with NaN looked for, and staged with escaped tracers looked for. What fails in weft may do so in
JAX as well, because a case mixes ranks on purpose, or has NaN; ``data/refused.json`` says where.

``python -m tests.oracle.scopes`` prints what fails and is not listed; with the ``oracle`` extra
``tools/record_scopes.py`` runs that on JAX and writes the list.
"""

import functools
import gc
import json
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import coverage, harness
from .table import FAMILIES, Case, is_inexact

REFUSED = harness.DATA / "refused.json"
# How cases run, and under which settings.
SCOPES: dict[str, tuple[str, dict[str, Any]]] = {
    "ranks": ("value", {"numpy_rank_promotion": "raise"}),
    "dtypes": ("value", {"numpy_dtype_promotion": "strict"}),
    "nans": ("value", {"debug_nans": True}),
    "leaks": ("jit", {"check_tracer_leaks": True}),
}
# The same inside of shard_map on two devices, which the process has to show: of the arguments all
# vary over the mesh, or the first alone, and then ranks are not promoted either.
SHARDED: dict[str, tuple[str, dict[str, Any]]] = {
    "shard_all": ("shard:all", {}),
    "shard_first": ("shard:first", {"numpy_rank_promotion": "raise"}),
}
# How many cases of each function are run by every test, and how many have been run on JAX.
TESTED, RECORDED = 1, 3


def chosen(each: int) -> set[str]:
    """The names of so many cases of each public function."""
    public = {name for module in coverage.modules() for name in coverage.functions(module)}
    found: dict[str, list[tuple[int, str]]] = {}
    for family in harness.families():
        if family.startswith("inputs_"):  # of shapes without elements or axes: a law of their own
            continue
        for name, entry in harness.Record(family).meta.items():
            ident = f"{family}/{name}"
            if not entry["value"].get("l"):
                continue
            for used in public.intersection(entry["uses"]):
                found.setdefault(used, []).append((zlib.crc32(ident.encode()), ident))
    return {ident for cases in found.values() for _, ident in sorted(cases)[:each]}


def cases(names: set[str]) -> Iterator[Case]:
    """The cases of these names, family by family."""
    for family in sorted({name.partition("/")[0] for name in names}):
        yield from (case for case in FAMILIES[family].cases() if case.id in names)


_record = functools.cache(harness.Record)


def is_meant(case: Case, scope: str) -> bool:
    """Whether a scope says anything of a case: NaN is looked for where there is none."""
    record = _record(case.id.partition("/")[0])
    entry = record.entry(case) or {}
    if scope in SHARDED:
        arrays = sum(isinstance(x, np.ndarray) for x in case.args)
        return "l" in entry.get("jit", ()) and arrays > 0
    if scope == "leaks":
        return "l" in entry.get("jit", ())
    if scope != "nans":
        return True
    leaves = record.outcome(entry["value"]).leaves
    return not any(_has_nan(x) for x in (*case.args, *(leaf.array for leaf in leaves)))


def _has_nan(x: Any) -> bool:
    inexact = isinstance(x, np.ndarray) and is_inexact(x.dtype)
    return bool(inexact and not np.isfinite(x.astype(complex)).all())


def run(runner: harness.Runner, case: Case, scope: str) -> harness.Outcome:
    """What a case gives under the settings of a scope."""
    mode, settings = {**SCOPES, **SHARDED}[scope]
    J, old = runner.J, {}
    for name, value in settings.items():
        old[name] = getattr(J.config, f"jax_{name}")
        J.config.update(f"jax_{name}", value)
    try:
        return runner.run(case, mode)
    finally:
        for name, value in old.items():
            J.config.update(f"jax_{name}", value)


def _like_one_device(case: Case, outcome: harness.Outcome) -> harness.Outcome:
    """What both devices gave, or an error where that is not what one gives alone."""
    record = _record(case.id.partition("/")[0])
    entry = record.entry(case) or {}
    wanted = [leaf.array for leaf in record.outcome(entry["value"]).leaves]
    wanted = [x for x in wanted if x is not None]
    found = [leaf.array for leaf in outcome.leaves]
    if len(wanted) != len(found):
        return outcome
    for x, y in zip(wanted, found, strict=True):
        if not is_inexact(x.dtype) or y.shape != (2, *x.shape):
            continue
        wide = complex if x.dtype.kind == "c" else float
        near = {"rtol": 1e-2 if x.dtype.itemsize < 4 else 1e-3, "atol": 1e-2, "equal_nan": True}
        if not np.allclose(y.astype(wide), x.astype(wide), **near):
            return harness.Outcome(error="AssertionError", message="other values than alone")
    return outcome


def refused() -> dict[str, list[str]]:
    """For each scope, the cases that JAX refuses too."""
    return json.loads(REFUSED.read_text()) if REFUSED.exists() else {}


def failures(scope: str, wanted: set[str]) -> Iterator[tuple[Case, harness.Outcome]]:
    """The cases that fail in weft and are not known to fail in JAX."""
    runner, listed = harness.Runner("weft"), refused()
    known = set(listed.get(scope, ()))
    if scope == "shard_first":
        known.update(listed["ranks"])
    found = [case for case in cases(wanted - known) if is_meant(case, scope)]
    gc.collect()
    gc.freeze()  # what there is already need not be searched for leaks
    try:
        for case in found:
            outcome = run(runner, case, scope)
            if not outcome.error and scope in SHARDED:
                outcome = _like_one_device(case, outcome)
            if outcome.error:
                yield case, outcome
    finally:
        gc.unfreeze()


def main() -> int:
    from weft.base import knobs

    count = 0
    wanted = chosen(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDED)
    with knobs.scope(backend="reference"):
        for scope in sys.argv[2:] or (*SCOPES, *SHARDED):
            for case, outcome in failures(scope, wanted):
                print(f"{scope} {case.id} {outcome.error}: {outcome.message[:160]}", flush=True)
                count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
