"""Plans as text: the nodes of a program over its slots, and the kernels that they launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.backends.cpu.assembly import Assembly, Python, Run
from weft.base.record import Record
from weft.compiler.watch import Seen, Watch
from weft.core.jaxpr import ClosedJaxpr
from weft.kernel.kernel import show
from weft.kernel.program import Branch, Copy, For, Point, Swap, While

_ROLES = {"arg": "arg", "out": "out", "const": "const", "temp": "t", "view": "view"}


def counted(n: int, word: str) -> str:
    """A number of things.

    >>> counted(1, "kernel"), counted(3, "pass"), counted(2, "call of Python")
    ('1 kernel', '3 passes', '2 calls of Python')
    """
    if n == 1:
        return f"1 {word}"
    head, of, tail = word.partition(" of ")
    return f"{n:,} {head}{'es' if head.endswith('s') else 's'}{of}{tail}"


def name_of(closed: ClosedJaxpr) -> str:
    """The name of the function that a program is of, or of the one operation in it."""
    info = closed.jaxpr.debug_info
    if info is not None and info.function is not None:
        return info.func_name
    return closed.eqns[0].primitive.name if len(closed.eqns) == 1 else "program"


def all_seen(steps: list[Seen]) -> list[Seen]:
    """All steps, those inside loops and branches after the one that holds them."""
    return [s for seen in steps for s in [seen, *all_seen(seen.inner)]]


def function_names(program: Assembly, watch: Watch) -> list[str]:
    """The names of a program's native functions: kernels are k0, k1, ..."""
    own: set[int] = set()
    for seen in all_seen(watch.steps):
        if seen.step.finish is not None:
            own.add(finish_code(program, seen))
        elif seen.parts:
            own.update(codes_of(seen.nodes))
    return [f"k{i}" if i in own else f"{name}.{i}" for i, (_, name) in enumerate(program.codes)]


def codes_of(nodes: Any) -> list[int]:
    """The numbers of the native functions that nodes launch themselves."""
    return [node.code for node in nodes if isinstance(node, Run)]


def finish_code(program: Assembly, seen: Seen) -> int:
    """The number of the native function that goes on with the result of an operation."""
    given = [program.slots[i] for node in seen.nodes for i in node.slots]
    return next(slot.what for slot in given if slot.role == "code")


def program_text(program: Assembly, watch: Watch) -> str:
    """The slots and nodes of a program."""
    return "\n".join(_Lines(program, watch).lines)


def kernel_texts(program: Assembly, watch: Watch) -> dict[str, str]:
    """Every kernel of a program as text, by its name."""
    names = function_names(program, watch)
    texts: dict[str, str] = {}
    for seen in all_seen(watch.steps):
        if seen.step.finish is not None:
            name = names[finish_code(program, seen)]
            texts.setdefault(name, show(seen.step.finish.kernel._replace(name=name)))
        for code, part in zip(codes_of(seen.nodes), seen.parts, strict=False):
            name = names[code]
            texts.setdefault(name, show(part.kernel._replace(name=name)))
    return texts


def whole_text(program: Assembly, watch: Watch) -> str:
    """The program, then every kernel that it launches."""
    return "\n\n".join([program_text(program, watch), *kernel_texts(program, watch).values()])


class Stage(Record):
    """What there is of a program at one point of the way: from which ``debug`` on it is shown."""

    level: int
    name: str
    text: str


def stages(program: Assembly, watch: Watch) -> Iterator[Stage]:
    """The way of a program, from what was traced to LLVM's text."""
    yield Stage(3, "traced", str(watch.closed))
    last = str(watch.closed)
    for p in watch.passes:
        if p.on == "program":
            text = str(p.made)
            yield Stage(3, p.name, text if text != last else "(as before)")
            last = text
    names = function_names(program, watch)
    for seen in all_seen(watch.steps):
        if seen.step.kernel is not None and seen.step.finish is None:
            name = names[codes_of(seen.nodes)[0]] if codes_of(seen.nodes) else "k"
            yield Stage(4, f"fused-{name}", show(seen.step.kernel._replace(name=name)))
    for name, text in kernel_texts(program, watch).items():
        yield Stage(4, f"scheduled-{name}", text)
    yield Stage(5, "program", program_text(program, watch))
    for name, (module, _) in zip(names, program.codes, strict=True):
        yield Stage(6, f"llvm-{name}", str(module))
    yield Stage(7, "timings", timings(watch))


def timings(watch: Watch) -> str:
    """The time of every stage and of every pass, in milliseconds."""
    lines = [f"{1e3 * seconds:9.3f}  {stage}" for stage, seconds in watch.seconds.items()]
    spent: dict[tuple[str, str], list[float]] = {}
    for p in watch.passes:
        spent.setdefault((p.on, p.name), []).append(p.seconds)
    for (on, name), times in spent.items():
        lines.append(f"{1e3 * sum(times):9.3f}  pass {name} on a {on}, {len(times)} times")
    return "\n".join(lines)


class _Lines:
    """The lines of a program's text."""

    def __init__(self, program: Assembly, watch: Watch) -> None:
        self.program = program
        self.functions = function_names(program, watch)
        self.slots = self._slot_names()
        jaxpr = watch.closed.jaxpr
        self.lines = [f"program {name_of(watch.closed)}("]
        for i, v in enumerate(jaxpr.invars):
            self.lines.append(f"    arg{i}: {v.aval.str_short(True)}")
        self.lines.append(f") arena {program.arena} bytes:")
        self.nodes(program.nodes, 1)
        outs = zip(program.results, jaxpr.outvars, strict=True)
        listed = [f"{self.result(i, r)}: {x.aval.str_short(True)}" for i, (r, x) in enumerate(outs)]
        self.lines.append(f"    return {', '.join(listed)}")

    def _slot_names(self) -> list[str]:
        names, counts = [], dict.fromkeys(_ROLES, 0)
        for slot in self.program.slots:
            if slot.role == "library":
                names.append(slot.what)
                continue
            if slot.role == "code":
                names.append(self.functions[slot.what])
                continue
            number = slot.what if slot.role in ("arg", "out", "const") else counts[slot.role]
            counts[slot.role] += 1
            names.append(f"{_ROLES[slot.role]}{number}")
        return names

    def result(self, number: int, result: Any) -> str:
        if result.kind == "slot":
            return self.slots[result.number]
        if result.kind == "same":
            return self.result(result.number, self.program.results[result.number])
        return f"{'arg' if result.kind == 'taken' else result.kind}{result.number}"

    def nodes(self, nodes: Any, depth: int) -> None:
        for node in nodes:
            self.node(node, depth)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def node(self, node: Any, depth: int) -> None:
        names = self.slots
        if isinstance(node, Run):
            given = ", ".join(names[i] for i in node.slots)
            span = f" over {node.extent} by {node.chunk}" if node.extent > 1 else ""
            self.put(depth, f"{self.functions[node.code]}({given}){span}")
        elif isinstance(node, Copy):
            self.put(depth, f"copy {names[node.target]} <- {names[node.source]}, {node.size} bytes")
        elif isinstance(node, Point):
            self.put(depth, f"point {names[node.view]} at {names[node.base]}")
        elif isinstance(node, Swap):
            self.put(depth, f"swap {names[node.first]}, {names[node.second]}")
        elif isinstance(node, Python):
            call = self.program.hosts[node.number]
            ins, outs = (", ".join(names[i] for i in slots) for slots in (call.ins, call.outs))
            self.put(depth, f"python {call.eqn.primitive.name}({ins}) -> {outs}")
        else:
            self.control(node, depth)

    def control(self, node: Any, depth: int) -> None:
        names = self.slots
        if isinstance(node, For):
            order = ", from the last" if node.reverse else ""
            self.put(depth, f"repeat {node.trips} times{order}:")
            for view, base, stride in node.slices:
                self.put(depth + 1, f"point {names[view]} at {names[base]}, {stride} bytes a time")
            self.nodes(node.body, depth + 1)
        elif isinstance(node, While):
            self.put(depth, f"while {names[node.flag]}, computed by")
            self.nodes(node.condition, depth + 2)
            self.put(depth, "do" if node.body else "do nothing more")
            self.nodes(node.body, depth + 2)
        elif isinstance(node, Branch):
            for i, region in enumerate(node.regions):
                self.put(depth, f"if {names[node.choice]} is {i}:")
                self.nodes(region, depth + 1)
        else:
            raise TypeError(f"no text for a {type(node).__name__}")
