"""Digests of the code that the benchmark programs compile to, to compare two versions of weft.

    python tools/replay.py --record before.json       # on one version
    python tools/replay.py --compare before.json      # on another: lists programs that changed

Programs are planned and rendered, not compiled by LLVM and not run. ``--machine`` renders for
another processor; ``--generic`` renders the shape-generic form that eager operations use.
``--samples`` takes the samples of the laws instead of the benchmark's programs. ``--cuda`` makes
PTX for a GPU, which none has to be there for; ``--dump`` keeps all texts in a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from bench.rows import Program as BenchProgram
from weft.backends.llvm.native import processor

SUITES = "compiled variants programs compile memory".split()
_NAME = re.compile(r"[%@](?!llvm\.)[\w.]+|^[\w.]+(?=:$)", re.MULTILINE)
# Architecture, bits of a vector register.
MACHINES = {"neon": ("aarch64", 128), "avx2": ("x86_64", 256), "avx512": ("x86_64", 512)}


@contextlib.contextmanager
def pretend(machine: str | None) -> Iterator[None]:
    """Make the renderer believe that it runs on another processor."""
    if machine is None:
        yield
        return
    architecture, bits = MACHINES[machine]
    facts = {
        "architecture": lambda: architecture,
        "vector_bits": lambda: bits,
        "has_matrices": lambda: False,
    }
    own = {name: getattr(processor, name) for name in facts}
    rooms = ("weft.backends.cpu", "weft.backends.llvm")
    modules = [m for name, m in sys.modules.items() if name.startswith(rooms)]
    changed = [(m, n) for m in modules for n in facts if getattr(m, n, None) is own[n]]
    for module, name in changed:
        setattr(module, name, facts[name])
    try:
        yield
    finally:
        for module, name in changed:
            setattr(module, name, own[name])


def programs(only: str) -> Iterator[tuple[str, Any]]:
    """The programs of the benchmark, staged: names and Jaxprs."""
    import weft
    import weft.numpy
    from bench.libraries import tree_map

    seen = set()
    for suite in SUITES:
        for row in importlib.import_module(f"bench.suites.{suite}").ROWS:
            setup = row.setups.get("weft")
            name = f"{suite}: {row.name}"
            if only not in name or not callable(setup):
                continue
            weft.config.update("jax_enable_x64", row.x64)
            made = setup(weft)
            if not isinstance(made, BenchProgram):
                continue

            def cast(x: Any, dtype: str | None = made.dtype) -> Any:
                x = np.asarray(x)
                return weft.numpy.asarray(x, dtype if dtype and x.dtype.kind == "f" else x.dtype)

            try:
                args = tree_map(cast, made.args) if made.convert else made.args
                yield name, weft.make_jaxpr(made.function)(*args)
            except TypeError as error:
                if name not in seen:
                    print(f"{name}: not staged ({error})", file=sys.stderr)
            seen.add(name)
    weft.config.update("jax_enable_x64", False)


def samples(only: str) -> Iterator[tuple[str, Any]]:
    """The samples of the laws in each of their dtypes, staged."""
    import weft
    from tests.laws.checks import seed_of
    from tests.samples import WIDE, all_samples

    for sample in all_samples():
        for dtype in sample.dtypes if sample.axis is None else ():
            name = f"{sample.name}: {dtype}"
            if only in name:
                with weft.enable_x64(dtype in WIDE):
                    args = sample.operands(dtype, seed_of(sample))
                    yield name, weft.make_jaxpr(sample.function(dtype))(*args)


class Gpu:
    """A GPU that is not there: programs are assembled for it, and their kernels become PTX."""

    def __init__(self) -> None:
        from weft.backends.cuda import assemble

        self.assemble = assemble
        self.own = {name: getattr(assemble, name) for name in ("render", "render_joined")}
        self.lowered = assemble.lower
        self.ptx: dict[Any, str] = {}
        self.made: list[str] = []

    def load(self, text: Any, dynamic: int = 0, label: str = "") -> Any:
        """Stand in for what loads a kernel."""
        from tests.backends.cuda.host_device import Kernel
        from weft.backends.cuda import ptx

        if text not in self.ptx:
            self.ptx[text] = ptx.assemble(text)
        self.made.append(f"{dynamic} {self.ptx[text]}")
        return Kernel(None, label)

    def lower(self, *given: Any) -> Any:
        """The routine of an operation, unless that needs a library that is not there."""
        from weft.backends.cuda.driver import DriverError

        try:
            return self.lowered(*given)
        except DriverError:
            return None

    def digest(self, closed: Any) -> dict[str, Any]:
        """A digest of the PTX of a program, and how many kernels there are."""
        from unittest import mock

        import pytest

        from tests.backends.cuda.host_device import install
        from weft.backends.cuda import program
        from weft.backends.cuda.driver import DriverError
        from weft.backends.cuda.routines import lt, products
        from weft.compiler.plan import Unplannable

        self.made = []
        with pytest.MonkeyPatch.context() as patch:
            install(patch, apart=True)
            for name, function in {**self.own, "load": self.load, "lower": self.lower}.items():
                patch.setattr(self.assemble, name, function)
            patch.setattr(lt, "library", lambda name: mock.MagicMock())
            patch.setattr(products, "Product", lambda *given, **more: mock.MagicMock(workspace=0))
            try:
                program.Cuda().make(closed)
            except (Unplannable, DriverError):
                return {"codes": 0}
        whole = hashlib.sha256("\0".join(sorted(self.made)).encode()).hexdigest()[:16]
        return {"codes": len(self.made), "digest": whole}


def digest(closed: Any, generic: bool) -> dict[str, Any]:
    """What a program is rendered to: a digest of its native functions, and how many there are."""
    from weft.backends.cpu.assembly import called, launched
    from weft.backends.cpu.target import Cpu
    from weft.base.sizes import recording
    from weft.compiler.generic import Different, Walked, alone
    from weft.compiler.plan import Unplannable

    try:
        if generic:
            closed = alone(Walked(closed), closed, 2 * processor.vector_bits() // 32 - 1).closed
        with recording():
            plan = Cpu(named=generic, eager=generic).assemble(closed)
    except (Unplannable, Different, AssertionError):  # of programs that are not made in named sizes
        return {"codes": 0}
    used = launched(plan.nodes) | called(plan.slots)
    texts = sorted(f"{plan.codes[i][1]}\n{_renamed(str(plan.codes[i][0]))}" for i in used)
    if _dump is not None:
        for text in texts:
            name = hashlib.sha256(text.encode()).hexdigest()[:16]
            (_dump / f"{name}.ll").write_text(text)
    whole = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    return {"codes": len(texts), "digest": whole, "arena": plan.arena, "nodes": _count(plan.nodes)}


_dump: Path | None = None


def _renamed(text: str) -> str:
    """A text with its names counted in order: what things are called makes no difference, nor does
    the order of what is declared."""
    names: dict[str, str] = {}
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("; part")]
    declared = [x for x in lines if x.startswith(("declare ", "attributes ", "@", "!"))]
    text = "\n".join([*sorted(set(declared)), *(x for x in lines if x not in declared)])

    def name(found: re.Match[str]) -> str:
        known = found[0] if found[0][0] in "%@" else f"%{found[0]}"
        return names.setdefault(known, f"{known[0]}{len(names)}")

    return _NAME.sub(name, text)


def _count(nodes: Any) -> int:
    from weft.kernel.program import inner_regions

    return sum(1 + sum(map(_count, inner_regions(node))) for node in nodes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", "--write", dest="write", type=Path)
    parser.add_argument("--compare", "--check", dest="check", type=Path)
    parser.add_argument("--machine", choices=MACHINES)
    parser.add_argument("--generic", action="store_true")
    parser.add_argument("--rows", default="", help="only programs whose names hold this")
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--dump", type=Path)
    given = parser.parse_args()
    global _dump
    _dump = given.dump
    if _dump is not None:
        _dump.mkdir(parents=True, exist_ok=True)
    gpu = Gpu() if given.cuda else None
    found = {}
    for name, closed in (samples if given.samples else programs)(given.rows):
        with pretend(given.machine):
            found[name] = gpu.digest(closed) if gpu else digest(closed, given.generic)
    if given.write:
        given.write.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    changed = 0
    if given.check:
        known = json.loads(given.check.read_text())
        for name, made in found.items():
            before = known.get(name)
            if before is not None and before != made:
                changed += 1
                told = [
                    f"{k} {before.get(k)} → {made.get(k)}" for k in made if before.get(k) != made[k]
                ]
                print(f"{name}: {', '.join(told)}")
    print(f"{len(found)} programs, {changed} changed")
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
