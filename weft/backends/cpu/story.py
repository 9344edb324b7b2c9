"""The story of one compilation in the user's words: which equations became which kernels, what
they read and write, and why what is stored in between is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

from weft.backends.cpu.assembly import Assembly, Run
from weft.backends.cpu.assembly_text import (
    all_seen,
    codes_of,
    counted,
    finish_code,
    function_names,
    name_of,
)
from weft.base import source
from weft.compiler.analysis.cost import cost, kernel_bytes, size_of, unfused_costs
from weft.compiler.passes.rewrite import peel
from weft.compiler.pull import Domain, reduces
from weft.compiler.watch import Seen, Watch, computed, primitive_names
from weft.core.jaxpr import DropVar, JaxprEqn, count_eqns
from weft.kernel.kernel import Loop
from weft.kernel.program import all_nodes

# Names and lines that are listed before "and more".
_NAMES, _LINES = 8, 3
# Bytes of a row that stay in the caches from pass to pass.
_CACHED_ROW_BYTES = 1 << 18
# Kernels that move fewer bytes get no bandwidth in the text: it would say nothing.
_RATED_BYTES = 1024
# Stages in the order in which they begin.
_STAGES = ("simplify", "fuse", "schedule", "render", "plan", "LLVM")


def size_text(n: float) -> str:
    """A number of bytes.

    >>> size_text(12), size_text(4096), size_text(3e9)
    ('12 B', '4.1 kB', '3 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= factor:
            return f"{n / factor:.3g} {unit}" if n < 999.5 * factor else f"{n / factor:.0f} {unit}"
    return f"{n:.0f} B"


class Told:
    """One step of a plan, told: its kind, what it does, and the details below.

    Kinds: ``kernel``, ``library`` (a function of BLAS or LAPACK, in our tiles), ``own`` (an
    algorithm with code of its own), ``python`` (the NumPy reference), ``loop``, ``branch`` and
    ``again`` (what a checkpoint computes a second time).
    """

    __slots__ = ("kind", "name", "primitives", "lines", "scopes", "details", "read", "written",
                 "inner", "times", "counted", "way", "nodes", "seconds", "launches",
                 "share")  # fmt: skip

    def __init__(self, kind: str, name: str, eqns: list[JaxprEqn]) -> None:
        self.kind = kind
        self.name = name
        self.primitives = primitive_names(eqns)
        self.lines = list(dict.fromkeys(source.summarize(e.source_info) for e in eqns))
        self.scopes = source.scopes(e.source_info for e in eqns)
        self.details: list[str] = []
        self.read = self.written = 0
        self.inner: list[Told] = []
        self.times = 1
        self.counted = True  # whether it is known how often what is inside runs
        self.way = ""  # how a loop became one native function, if it did
        self.nodes: list[Any] = []  # that it has become
        self.seconds: float | None = None  # in one call, if that was measured
        self.launches = 0
        self.share = 0.0  # of the time of all steps

    @property
    def moved(self) -> float:
        """Bytes read and written, those of loops for all iterations that are known of."""
        return self.read + self.written + self.times * sum(t.moved for t in self.inner)

    def moves(self, variables: Any) -> str:
        """What it gives, and what it reads and writes for that."""
        read, written = size_text(self.read), size_text(self.written)
        return f"→ {_listed(_types(variables), _NAMES)}; reads {read}, writes {written}"

    def head(self) -> str:
        """One line."""
        known = [line for line in self.lines if line != "<unknown>"]
        where = f"  [{_listed(known, _LINES)}]" if known else ""
        return f"{self.name}: {_listed(self.primitives, _NAMES)}{where}{self._took()}"

    def _took(self) -> str:
        """How long it took, if that was measured."""
        if self.seconds is None:
            return ""
        text = f", took {1e6 * self.seconds:.1f} us"
        if self.launches > 1:
            text += f" in {self.launches:,} runs"
        moved, told = self._moved_in_call(), [f"{100 * self.share:.0f} %"]
        if moved >= _RATED_BYTES and self.seconds:
            told.insert(0, f"{moved / self.seconds / 1e9:.3g} GB/s")
        return f"{text} ({', '.join(told)})"

    def _moved_in_call(self) -> float:
        """Bytes that a call that was measured moves; 0 where they are not known."""
        within = [t for t in self.inner if t.seconds is not None]
        if within and not self.way:
            return sum(t._moved_in_call() for t in within)
        if self.inner:  # in one native function
            return 0 if self.way == "blocks" else self.moved * self.launches / self.times
        return self.moved * self.launches

    def text(self, depth: int = 1) -> list[str]:
        """The lines of this step and of those inside it."""
        pad = "  " * depth
        lines = [pad + self.head(), *(f"{pad}    {detail}" for detail in self.details)]
        return lines + [line for t in self.inner for line in t.text(depth + 2)]


def _listed(names: list[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _types(variables: Any) -> list[str]:
    return [v.aval.str_short(True) for v in variables]


class Story:
    """All that is told of one function; as a string, for people."""

    def __init__(self, watch: Watch, program: Assembly) -> None:
        closed = watch.closed
        self.program = program
        self.name = name_of(closed)
        self.equations = count_eqns(closed.jaxpr)
        self.simplified = next(
            (count_eqns(p.made.jaxpr) for p in watch.passes if p.name == "prune"), self.equations
        )
        self.unfused = cost(closed.jaxpr)
        self.functions = function_names(program, watch)
        self.steps = [self._told(seen) for seen in watch.steps]
        self.moved = sum(t.moved for t in self.steps)
        self.arena = program.arena
        self.whole: float | None = None  # seconds of a call, and of its steps, if measured
        self.busy = 0.0
        self.temporaries = sum(s.size for s in program.slots if s.role == "temp")
        self.seconds = {k: watch.seconds[k] for k in _STAGES if k in watch.seconds}
        self.origins = Counter(watch.origins)
        kinds = Counter(t.kind for t in self._all(self.steps))
        self.kernels = sum(
            len(seen.parts) + (seen.step.finish is not None) for seen in all_seen(watch.steps)
        )
        self.libraries, self.own, self.python = (kinds[k] for k in ("library", "own", "python"))

    def _all(self, steps: list[Told]) -> list[Told]:
        return [t for told in steps for t in [told, *self._all(told.inner)]]

    def owners(self) -> dict[int, Told]:
        """The innermost step of each node, by the ``id`` of the node."""
        steps = self._all(self.steps)  # those around others first
        return {id(node): told for told in steps for node in all_nodes(told.nodes)}

    def measured(self, times: Mapping[int, tuple[float, int]], whole: float) -> None:
        """Take the times of nodes, with how often each ran, by ``id``; and that of a call."""
        owners = self.owners()
        for node, (seconds, launches) in times.items():
            told = owners.get(node)
            if told is not None and launches:
                told.seconds = (told.seconds or 0.0) + seconds
                told.launches = max(told.launches, launches)
        self.whole = whole
        self.busy = sum(seconds for seconds, _ in times.values())
        for told in self.steps:
            self._sum_up(told, 1)

    def inner_codes(self) -> dict[int, list[Told]]:
        """The steps inside loops that became one function that calls theirs, by their code."""
        found: dict[int, list[Told]] = {}
        for told in self._all(self.steps):
            for inner in self._all(told.inner) if told.way == "calls" else ():
                for node in inner.nodes:
                    if isinstance(node, Run):
                        found.setdefault(node.code, []).append(inner)
        return found

    def measured_inside(self, times: Mapping[int, tuple[float, int]]) -> None:
        """Take the times of functions that loops call; steps that share one have equal parts."""
        codes = self.inner_codes()
        for code, (seconds, launches) in times.items():
            for told in codes[code] if launches else ():
                told.seconds = (told.seconds or 0.0) + seconds / len(codes[code])
                told.launches = max(told.launches, launches // len(codes[code]))
                told.share = told.seconds / self.busy if self.busy else 0.0

    def _sum_up(self, told: Told, around: int) -> None:
        """Give a loop or a branch the time of what is inside it, and every step its share;
        ``around`` are the rounds of the loops around it, 0 if that is not known."""
        rounds = around * told.times if told.counted else 0
        for inner in told.inner:
            self._sum_up(inner, rounds)
        within = [t.seconds for t in told.inner if t.seconds is not None]
        if within and not told.way:
            told.seconds = (told.seconds or 0.0) + sum(within)
        if told.inner:
            told.launches = rounds
        if told.seconds is not None:
            told.share = told.seconds / self.busy if self.busy else 0.0

    # --- sentences --------------------------------------------------------------------------------

    def summary(self) -> str:
        """One line: equations in, what came out, and how long it took."""
        kinds = {
            "kernel": self.kernels,
            "library call": self.libraries,
            "routine": self.own,
            "Python call": self.python,
        }
        parts = [counted(n, word) for word, n in kinds.items() if n] or ["nothing to run"]
        total = 1e3 * sum(self.seconds.values())
        return (
            f"{self.name}: {counted(self.equations, 'operation')} → {', '.join(parts)};"
            f" compiled in {total:.1f} ms"
        )

    def totals(self) -> list[str]:
        """Memory and time."""
        ratio = self.unfused.moved / self.moved if self.moved else 1.0
        stages = ", ".join(f"{k} {1e3 * v:.1f}" for k, v in self.seconds.items())
        origins = ", ".join(f"{n} from {k}" for k, n in sorted(self.origins.items()))
        moved, alone = size_text(self.moved), size_text(self.unfused.moved)
        functions, between = sum(self.origins.values()), size_text(self.temporaries)
        times = (
            f"one call took {1e6 * (self.whole or 0):.1f} us, {1e6 * self.busy:.1f} us of it below"
        )
        return [
            *([times] if self.whole is not None else []),
            f"memory traffic {moved}; without fusion {alone} ({ratio:.1f}×)",
            f"temporary memory {size_text(self.arena)}; intermediate values {between}",
            f"milliseconds to compile: {stages}",
            f"machine code of {counted(functions, 'function')}: {origins or 'none'}",
        ]

    def __str__(self) -> str:
        lines = [self.summary()]
        if self.simplified != self.equations:
            lines.append(f"  simplified to {counted(self.simplified, 'operation')}")
        lines += [line for told in self.steps for line in told.text()]
        return "\n".join(lines + [f"  {line}" for line in self.totals()])

    # --- steps ------------------------------------------------------------------------------------

    def _told(self, seen: Seen) -> Told:
        told = self._step(seen)
        told.nodes = seen.nodes
        return told

    def _step(self, seen: Seen) -> Told:
        eqn = seen.step.eqn
        if eqn is None:
            return self._kernel(seen)
        if seen.step.finish is not None:
            return self._finished(seen, eqn)
        if eqn.primitive.nodes:
            return self._control(seen, eqn)
        tasks = [] if seen.lowered is None else seen.lowered.tasks
        libraries = [str(p.what) for t in tasks for p in t.places if p.kind == "library"]
        kind = "python" if seen.lowered is None else "library" if libraries else "own"
        told = Told(kind, kind if kind != "own" else "routine", [eqn])
        told.read = sum(size_of(x.aval) for x in eqn.invars)
        told.written = sum(size_of(v.aval) for v in eqn.outvars)
        ins, outs = (", ".join(_types(xs)) for xs in (eqn.invars, eqn.outvars))
        told.details.append(f"{ins} → {outs}; memory traffic {size_text(told.moved)}")
        names = list(dict.fromkeys(t.name for t in tasks))
        if kind == "python":
            reason = "it has side effects" if eqn.effects else "it has no native code"
            told.details.append(f"runs in Python: {reason}")
        elif kind == "library":
            called = ", ".join(dict.fromkeys(libraries))
            told.details.append(f"calls {called}, {_shares(seen)} ({names[-1]})")
        else:
            told.details.append(f"{', '.join(names)}, {_shares(seen)}")
        told.details += _stored(seen, [v for v in eqn.outvars if type(v) is not DropVar])
        return told

    def _kernel(self, seen: Seen) -> Told:
        kernel = seen.step.kernel
        assert kernel is not None
        eqns, roots = computed(seen)
        name = " ".join(dict.fromkeys(self.functions[c] for c in codes_of(seen.nodes)))
        told = Told("kernel", name or "no kernel", eqns)
        if not seen.nodes:
            outs = _listed(_types(roots), _NAMES)
            told.details.append(f"→ {outs}; no work, it shares the memory of an input")
            return told
        told.read, told.written = kernel_bytes(kernel)
        told.details.append(told.moves(roots))
        told.details.append(f"{_shape(seen, roots)}, {_shares(seen)}")
        told.details += _stored(seen, roots)
        return told

    def _finished(self, seen: Seen, eqn: JaxprEqn) -> Told:
        """An operation and the kernel that goes on with its result."""
        eqns, roots = computed(seen)
        kernel, (v,) = seen.step.kernel, eqn.outvars
        assert kernel is not None
        told = Told("own", "routine", [eqn, *eqns])
        told.read, told.written = kernel_bytes(kernel)
        told.read += sum(size_of(x.aval) for x in eqn.invars) - size_of(v.aval)
        told.details.append(told.moves(roots))
        name = self.functions[finish_code(self.program, seen)]
        kept = "is written too" if v in roots else "is never written"
        told.details.append(
            f"{name} is an epilogue of {eqn.primitive.name}: it runs on each block of its result"
            f" while that is in the cache; the whole {v.aval.str_short(True)} {kept}"
        )
        told.details.append(_shares(seen))
        told.details += _stored(seen, [x for x in roots if x is not v])
        return told

    def _control(self, seen: Seen, eqn: JaxprEqn) -> Told:
        kind = eqn.primitive.nodes
        told = Told(kind, "recomputation" if kind == "again" else kind, [eqn])
        told.inner = [self._told(s) for s in seen.inner]
        if kind == "branch":
            regions = eqn.params.get("branches")
            way = "stops the program if a check has failed"
            told.details.append(f"runs one of {len(regions)} branches" if regions else way)
            return told
        if kind == "again":
            told.details.append("recomputed instead of stored, because checkpoint asks for it")
            return told
        rounds = eqn.primitive.rounds(eqn.params)
        if rounds is not None:
            told.times = rounds
            times = counted(rounds, "iteration")
        else:
            told.counted = False
            times = "until its condition is false (figures are for one iteration)"
        ways = {
            "one": "compiled to one native function",
            "calls": "compiled to one native function that calls the kernels below",
            "blocks": "all iterations for one block of elements at a time",
        }
        told.way = seen.loop if seen.loop in ways else ""
        how = ways.get(seen.loop, "its kernels are launched one by one")
        told.details.append(f"{times}, {how}")
        return told


def _shape(seen: Seen, roots: list[Any]) -> str:
    """What a kernel runs over."""
    kernel, fusion = seen.step.kernel, seen.fusion
    assert kernel is not None
    updates = any(fusion.producer[v].primitive.form == "update" for v in roots)
    domains = [] if updates else [fusion.domain(v) for v in roots]
    domain = next((d for d in domains if d.columns), domains[0] if domains else Domain(()))
    if not domain.columns:
        return counted(prod(roots[0].aval.shape), "element")
    rows, columns = prod(domain.rows), prod(domain.columns)
    if not rows or not columns:
        return "no elements"
    passes = max(1, sum(isinstance(s, Loop) for s in peel(kernel).body))
    if not domain.rows:
        return f"reduces {counted(columns, 'element')} to one, {counted(passes, 'pass')}"
    way = "" if domain.trailing else " (not contiguous)"
    text = f"{counted(rows, 'row')} of {columns}{way}, {counted(passes, 'pass')} over each row"
    kept = sum(b.size * b.dtype.itemsize for b in kernel.buffers if b.role == "row")
    widest = max((b.dtype.itemsize for b in kernel.buffers), default=1)
    if passes > 1 and columns * widest <= _CACHED_ROW_BYTES:
        text += " (one from memory, then from the cache)"
    return text + (f", {size_text(kept)} of it on the stack" if kept else "")


def _shares(seen: Seen) -> str:
    """Over how many tasks threads may divide it."""
    launches = [node for node in seen.nodes if isinstance(node, Run)]
    most = max((-(-node.extent // max(node.chunk, 1)) for node in launches), default=1)
    tasks = "on one thread" if most <= 1 else f"{most} parallel tasks"
    if len(launches) <= 1:
        return tasks
    return f"{len(launches)} launches {tasks if most <= 1 else f'of up to {tasks}'}"


def _stored(seen: Seen, variables: list[Any]) -> list[str]:
    """Why values in between are in memory at all; results of the function need no reason."""
    reasons: dict[str, list[str]] = {}
    for v in variables:
        reason = _why_stored(seen.fusion, v)
        if reason:
            reasons.setdefault(reason, []).append(v.aval.str_short(True))
    return [
        f"stores {_listed(list(dict.fromkeys(names)), 3)} because {reason}"
        for reason, names in reasons.items()
    ]


def _why_stored(fusion: Any, v: Any) -> str:
    if v in fusion.results:
        return ""
    outside = [eqn for eqn in fusion.users.get(v, ()) if id(eqn) not in fusion.fusible]
    if outside:
        names = list(dict.fromkeys(eqn.primitive.name for eqn in outside))
        return f"{', '.join(names)} {'reads' if len(names) == 1 else 'read'} it from memory"
    eqn = fusion.producer[v]
    if id(eqn) not in fusion.fusible:
        return f"{eqn.primitive.name} does not fuse with what follows"
    if eqn.primitive.form == "update":
        return "an in-place update needs the whole array first"
    if v in fusion.shared:
        return "several kernels use it, and recomputing it costs more"
    if reduces(eqn):
        return "the next step needs the whole reduction"
    return "fusion would make a kernel too large, or compute it too often"


def costs(watch: Watch, program: Assembly) -> dict[str, float]:
    """Operations and bytes of a plan, under the names that XLA has for them."""
    (simple,) = watch.simplified.values(watch.closed)
    found = unfused_costs(simple)
    found["bytes accessed"] = float(Story(watch, program).moved)
    return found
