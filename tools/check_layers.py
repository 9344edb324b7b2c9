"""Which room of weft may import which, and a check that the source keeps to it.

Run `python tools/check_layers.py` to list every import that points the wrong way.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Rooms that every room may import, beyond what its own line names.
OPEN = "base tree dtypes"

# A room, and the rooms it may import.
LOWER = {
    "base": "",
    "tree": "base",
    "dtypes": "base",
    "core": "",
    "kernel": "",
    "lapack": "",
    "prims": "core kernel lapack",
    "transforms": "core prims",
    "control": "core kernel prims transforms",
    "compiler": "core kernel",
    "runtime": "core kernel compiler",
    "stablehlo": "core prims",
    "backends": "core kernel lapack compiler runtime stablehlo",
    "api": "core transforms control runtime stablehlo",
}

# The room of division stands on the floors of two others, which say what it may import and who may
# import it: every primitive has factors, and programs are divided where loops are known.
FLOORS = {"weft.division": "core", "weft.division.programs": "control"}

# Backends, and those that each may import.
BACKENDS = {
    "llvm": "",
    "c": "",
    "reference": "",
    "cpu": "llvm",
    "cuda": "llvm reference",
    "pjrt": "llvm",
}

# Rooms by topic, lowest first: each may import every room before it, here and in LOWER.
TOPICS = "lax numpy random scipy ops image nn parallel".split()

# Public side rooms may import all of the above and, without cycles, each other.
SIDE = (
    "__main__ ad ad_checkpoint api_util as_jax checkpoint_policies custom_batching "
    "custom_derivatives debug "
    "distributed dlpack errors example_libraries experimental export extend flatten_util "
    "interpreters memory mlir monitoring moving profiler ref sharding stages state test_util "
    "testing tree_util typing version"
).split()

# Libraries written as a user would write them: on public rooms only, not imported by weft. As
# public packages do, theirs pass on what is loaded when it is looked at (LAZY, below).
CLIENTS = "linen optim train".split()
PUBLIC = "tree dtypes lax numpy random scipy ops image nn".split()

ROOM_NAMES = {f"weft.{room}" for room in [*LOWER, *TOPICS, *SIDE, *CLIENTS]}
FOREIGN = "jax jaxlib torch numba tensorflow scipy flax optax".split()
HOOKS, FILLER, MOST_HOOKS = "weft.core.hooks", "weft", 3

# The one module that imports others by computed names, at their first use; and who may let it:
# a file, and a module that it does not need before something is compiled, solved or printed.
# Packages may list what they only pass on, with `members`: that counts as imports, too.
LAZY = "weft.base.lazy"
# What may import by computed names besides: they give weft's modules other names.
BY_NAME = (LAZY, "weft.as_jax.finder", "weft.as_jax.child.sitecustomize")
# The one file that names backends, and is imported by those that stand below them.
REGISTRY = "weft.runtime.registry"
LATE = {
    ("weft", "weft.api.eager"),
    ("weft", "weft.api.verifying.sampling"),
    ("weft", "weft.core.printing"),
    ("weft", "weft.numpy.operators"),
    *(
        ("weft.numpy.operators", f"weft.numpy.{name}")
        for name in (
            "averages contraction creation index_functions index_update manipulation matrices "
            "positions rearranging reductions sorting"
        ).split()
    ),
    ("weft.numpy.polynomials", "weft.numpy.linalg"),
    ("weft.numpy.linalg", "weft.numpy.einstein"),
    ("weft.numpy.linalg", "weft.lax.linear_solve"),
    ("weft.numpy.determinant", "weft.lax.linear_solve"),
    ("weft.prims.families", "weft.kernel.kernel"),
    ("weft.prims.families", "weft.kernel.math"),
    ("weft.prims.families", "weft.kernel.math_complex"),
    ("weft.prims.families", "weft.kernel.math_plane"),
    ("weft.prims.families", "weft.kernel.math_random"),
    ("weft.prims.families", "weft.kernel.math_series"),
    ("weft.prims.families", "weft.kernel.tiny"),
    ("weft.prims.families", "weft.kernel.elements"),
    ("weft.prims.complex_reference", "weft.prims.special_reference"),
    ("weft.prims.special", "weft.prims.special_reference"),
    ("weft.prims.random_draws", "weft.prims.lowerings.draws"),
    ("weft.control.custom_vjp", "weft.transforms.live"),
    ("weft.transforms.masks", "weft.prims.families"),
    ("weft.transforms.masks", "weft.division.explicit"),
    ("weft.tree.treedef", "weft.tree.proto"),
    ("weft.backends.cuda.program", "weft.backends.cuda.forms.named"),
    ("weft.backends.cuda.program", "weft.backends.cuda.forms.stored"),
    ("weft.runtime.site", "weft.runtime.spread"),
    ("weft.runtime.evaluate", "weft.runtime.programs"),
    ("weft.runtime.evaluate", "weft.runtime.divided"),
    ("weft.runtime.clients", "weft.runtime.programs"),
    ("weft.runtime.clients", "weft.core.key_reuse"),
    ("weft.runtime.clients", "weft.compiler.checks.instrument"),
    ("weft.runtime.clients", "weft.compiler.checks.replay"),
    ("weft.runtime.compiling", "weft.compiler.checks.instrument"),
    ("weft.runtime.registry", "weft.runtime.checked"),
    ("weft.api.stages", "weft.runtime.checked"),
    ("weft.backends.cuda.client", "weft.backends.cuda.spread"),
    *(("weft.backends.pjrt.client", f"weft.backends.pjrt.{m}") for m in ("spread", "topology")),
    ("weft.backends.pjrt.device", "weft.backends.pjrt.calls"),
    ("weft.api.stages", "weft.api.ahead"),
    ("weft.api.explain", "weft.api.picture.page"),
    ("weft.api.explain", "weft.runtime.drawing"),
    *(
        ("weft.backends.cpu.client", f"weft.backends.{name}")
        for name in (
            "cpu.calls.instances cpu.calls.native cpu.calls.selection cpu.calls.study"
            " llvm.calls.dispatch"
        ).split()
    ),
    *(
        (f"weft.{name}", "weft.division.explicit")
        for name in (
            "api.placement core.staging runtime.clients runtime.programs transforms.jvp"
            " transforms.transpose transforms.vmap"
        ).split()
    ),
    ("weft.division.varying", "weft.division.marks"),
    *(("weft.runtime.observed", f"weft.division.{name}") for name in ("propagate", "specs")),
    ("weft.runtime.array", "weft.division.marks"),
    ("weft.api.placement", "weft.division.programs.unmade_sums"),
    ("weft.core.primitive", "weft.division.rules"),
    ("weft.api.placement", "weft.division.rules"),
    *(
        ("weft.backends.cpu.routines.table", f"weft.backends.cpu.routines.{name}")
        for name in (
            "contractions.conv contractions.window cumulative draws.sampling"
            " factorisations.linalg factorisations.sylvester fourier.fft"
            " products.complex_products products.dot scatter.scatter"
            " sorting.largest sorting.sort special"
        ).split()
    ),
    (
        "weft.backends.cpu.routines.sorting.largest",
        "weft.backends.cpu.routines.sorting.sort",
    ),
    (
        "weft.backends.cpu.routines.products.dot",
        "weft.backends.cpu.routines.products.blas_stubs",
    ),
    (
        "weft.backends.cpu.routines.factorisations.linalg",
        "weft.backends.cpu.routines.factorisations.small_matrices",
    ),
    ("weft.backends.cpu.assemble", "weft.backends.cpu.routines.messages"),
    ("weft.api.placement", "weft.runtime.spanning"),
    ("weft.api.placement", "weft.division.programs.devices"),
    ("weft.backends.llvm.native.machine", "weft.backends.llvm.text.stub"),
    ("weft.compiler.pipeline", "weft.core.verify"),
    ("weft.compiler.pipeline", "weft.compiler.passes.compact"),
    ("weft.compiler.pipeline", "weft.compiler.own_loops"),
    ("weft.compiler.generic", "weft.compiler.own_loops"),
    ("weft.compiler.pipeline", "weft.compiler.passes.fix_order"),
    ("weft.compiler.pipeline", "weft.compiler.refine"),
    ("weft.compiler.pipeline", "weft.compiler.nearer"),
    ("weft.compiler.pipeline", "weft.compiler.unroll"),
    ("weft.core.staging", "weft.core.verify"),
    ("weft.api.reports", "weft.stablehlo.module"),
    ("weft.backends.cpu.target", "weft.backends.cpu.routines.table"),
    ("weft.backends.cpu.target", "weft.backends.cpu.routines.factorisations.tiny"),
    ("weft.backends.cpu.target", "weft.backends.cpu.code.loop_text"),
    ("weft.backends.cpu.target", "weft.backends.cpu.code.lanes_text"),
    ("weft.backends.cpu.target", "weft.backends.cpu.code.shared_text"),
    ("weft.backends.cpu.target", "weft.backends.cpu.code.serial"),
    ("weft.backends.cpu.calls.native", "weft.backends.cpu.calls.layout"),
    ("weft.backends.cpu.calls.native", "weft.backends.llvm.calls.entries"),
    ("weft.backends.cpu.calls.native", "weft.backends.cpu.generic"),
    ("weft.runtime.compiling", "weft.runtime.kinds"),
    ("weft.backends.cpu.calls.native", "weft.backends.cpu.calls.tell"),
    ("weft.backends.cpu.calls.native", "weft.backends.cpu.calls.traces"),
    ("weft.api.jit", "weft.api.high"),
    ("weft.api.jit", "weft.api.stages"),
    *((f"weft.api.{name}", "weft.api.shardings") for name in ("jit", "stages")),
    ("weft.api.learning", "weft.runtime.shapes"),
    ("weft.api.stages", "weft.core.dims.dim"),
    ("weft.control.jit", "weft.control.initial_style"),
    *(
        ("weft.control.jit", f"weft.transforms.{name}")
        for name in "jvp masks partial_eval transpose vmap".split()
    ),
    ("weft.base.observing", "weft.base.text"),
    ("weft.core.shape_dtype", "weft.core.layout"),
    ("weft.runtime.array", "weft.division.mesh_layout"),
    ("weft.runtime.array", "weft.runtime.printed"),
    ("weft.api.stages", "weft.api.movement"),
    ("weft.api.explain", "weft.api.movement"),
    ("weft.api.stages", "weft.stablehlo.module"),
    ("weft.api.autodiff", "weft.api.wanted"),
    *((f"weft.api.{name}", "weft.transforms.discharge") for name in ("autodiff", "stages")),
    *(
        (f"weft.transforms.{name}", "weft.transforms.discharge")
        for name in "jvp linearize vmap".split()
    ),
    *(
        (f"weft.control.{name}", "weft.transforms.discharge")
        for name in "cond jit remat scan while_loop".split()
    ),
    *((f"weft.control.{name}", "weft.control.lanes") for name in ("cond", "while_loop")),
}


def allowed_rooms() -> dict[str, set[str]]:
    """For every room, the rooms it may import; the room "" is weft/__init__.py."""
    opened = set(OPEN.split())
    table = {room: set(names.split()) for room, names in LOWER.items()}
    for room in table.keys() - opened:
        table[room] |= opened
    below = set(table)
    for room in TOPICS:
        table[room] = set(below)
        below.add(room)
    for room in SIDE:
        table[room] = below | set(SIDE)
    table[""] = below | set(SIDE)
    for room in CLIENTS:
        table[room] = {"", *PUBLIC, *SIDE, *CLIENTS}
    return table


def room_of(name: str) -> str:
    """The room of a module; in the room of division, the one on whose floor it stands."""
    parts = name.split(".")
    floors = [FLOORS[folder] for n in (3, 2) if (folder := ".".join(parts[:n])) in FLOORS]
    return (floors + parts[1:] + [""])[0]


@dataclass
class Import:
    """One import statement of one of our own modules."""

    line: int
    target: str
    deferred: bool
    only_types: bool
    late: bool


@dataclass
class Module:
    """A source file: its dotted name, what it imports, and where it breaks a rule by itself."""

    name: str
    path: Path
    imports: list[Import] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)

    @property
    def room(self) -> str:
        return room_of(self.name)


def dotted(node: ast.expr) -> str:
    """A name with dots, or any other expression, as it is written."""
    names: list[str] = []
    part = node
    while isinstance(part, ast.Attribute):
        names.append(part.attr)
        part = part.value
    if not isinstance(part, ast.Name):
        return ast.unparse(node)
    return ".".join([part.id, *reversed(names)])


class Reader(ast.NodeVisitor):
    """Collects the imports of one file, knowing which stand inside a function."""

    def __init__(self, module: Module, modules: dict[str, Path]):
        self.module, self.modules = module, modules
        self.depth = 0
        self.types = False
        self.hook_names: set[str] = set()

    def fault(self, node: ast.AST, text: str) -> None:
        self.module.faults.append((getattr(node, "lineno", 0), text))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        guard = ast.unparse(node.test)
        before, self.types = self.types, self.types or guard.endswith("TYPE_CHECKING")
        for child in node.body:
            self.visit(child)
        self.types = before
        for child in node.orelse:
            self.visit(child)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)
            if alias.name == HOOKS:
                self.hook_names.add(alias.asname or HOOKS)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = self.resolve(node)
        for alias in node.names:
            whole = f"{source}.{alias.name}"
            self.add(node, whole)
            if whole == HOOKS:
                self.hook_names.add(alias.asname or alias.name)
            if source == HOOKS and alias.name.startswith("set_") and self.module.name != FILLER:
                self.fault(node, f"only weft/__init__.py fills hooks, not {alias.name}")

    def visit_Call(self, node: ast.Call) -> None:
        function = dotted(node.func)
        called = function.rpartition(".")[2]
        if called in ("import_module", "__import__", "Late") and self.module.name not in BY_NAME:
            argument = node.args[0] if node.args else None
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                self.fault(node, "imports a module by a computed name")
            else:
                self.add(node, argument.value, late=called == "Late")
        if called == "members" and self.module.name != LAZY:
            self.add_members(node)
        owner, _, name = function.rpartition(".")
        if owner in self.hook_names and name.startswith("set_") and self.module.name != FILLER:
            self.fault(node, f"only weft/__init__.py fills hooks, not {function}")
        self.generic_visit(node)

    def add_members(self, node: ast.Call) -> None:
        """What a package passes on: modules of its own, and names by the modules they are in.

        A file does the same for files whose names begin with its own.
        """
        own = self.module.path.name == "__init__.py"
        if not own and len(node.args) == 3 and isinstance(node.args[2], ast.Dict):
            keys = [str(getattr(key, "value", "")) for key in node.args[2].keys]
            own = all(key.startswith(f"{self.module.name}_") for key in keys)
        if not own or ast.unparse(node.args[0]) != "__name__":
            self.fault(node, "only a package has members, and they are its own")
        modules, *tables = node.args[1:]
        for constant in ast.walk(modules):
            if isinstance(constant, ast.Constant):
                for name in str(constant.value).split():
                    self.add(node, f"{self.module.name}.{name}")
        for table in tables:
            for key in table.keys if isinstance(table, ast.Dict) else [None]:
                if isinstance(key, ast.Constant):
                    self.add(node, str(key.value))
                else:
                    self.fault(node, "lists members by a computed name")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and dotted(node.value) in self.hook_names:
            self.fault(node, f"assigns a hook: {ast.unparse(node)}")
        self.generic_visit(node)

    def resolve(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.module.name.split(".")
        if self.module.path.name != "__init__.py":
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, node.module] if node.module else parts)

    def add(self, node: ast.AST, target: str, late: bool = False) -> None:
        top = target.partition(".")[0]
        if top in FOREIGN:
            self.fault(node, f"imports {target}, which weft does without")
        if top == "weft":
            # A name that is no module belongs to the package that holds it.
            while target not in self.modules and "." in target and target not in ROOM_NAMES:
                target = target.rpartition(".")[0]
            line = getattr(node, "lineno", 0)
            self.module.imports.append(Import(line, target, self.depth > 0, self.types, late))


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules(root: Path = ROOT) -> list[Module]:
    """Every module under weft/ with its imports."""
    paths = {module_name(path, root): path for path in sorted((root / "weft").rglob("*.py"))}
    modules = []
    for name, path in paths.items():
        module = Module(name, path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        Reader(module, paths).visit(tree)
        if name == HOOKS:
            check_hooks(module, tree)
        modules.append(module)
    return modules


def check_hooks(module: Module, tree: ast.Module) -> None:
    setters = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("set_")
    ]
    if len(setters) > MOST_HOOKS:
        module.faults.append((1, f"more than {MOST_HOOKS} hooks: {', '.join(setters)}"))


def backend_of(name: str) -> str:
    """The backend that a module belongs to, if it is one's."""
    parts = name.split(".")
    return parts[2] if parts[1:2] == ["backends"] and len(parts) > 2 else ""


def import_faults(module: Module, table: dict[str, set[str]]) -> Iterator[tuple[int, str]]:
    if module.room not in table:
        yield 1, f"room {module.room!r} has no line in tools/check_layers.py"
        return
    allowed = table[module.room]
    for item in module.imports:
        room = room_of(item.target)
        if item.deferred:
            yield item.line, f"imports {item.target} inside a function"
        if module.name == REGISTRY and item.late and room == "backends":
            continue
        if item.late and (module.name, item.target) not in LATE:
            yield item.line, f"imports {item.target} late, which LATE does not list"
        if module.room in CLIENTS and item.target == LAZY:
            continue
        if room != module.room and room not in allowed:
            yield item.line, f"{module.room or 'weft'} may not import {item.target}"
        own, other = backend_of(module.name), backend_of(item.target)
        if own and other and other not in (own, *BACKENDS.get(own, "").split()):
            yield item.line, f"backends/{own} may not import {item.target}"


def find_cycle(graph: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def cycle_faults(modules: list[Module]) -> Iterator[str]:
    files: dict[str, dict[str, set[str]]] = {}
    rooms: dict[str, set[str]] = {}
    for module in modules:
        graph = files.setdefault(module.room, {})
        edges = graph.setdefault(module.name, set())
        for item in module.imports:
            room = room_of(item.target)
            if module.name == REGISTRY and item.late:
                continue
            if room != module.room:
                rooms.setdefault(module.room, set()).add(room)
            elif not item.only_types:
                edges.add(item.target)
    for graph in files.values():
        if cycle := find_cycle(graph):
            yield "files import each other: " + " -> ".join(cycle)
    if cycle := find_cycle(rooms):
        yield "rooms import each other: " + " -> ".join(room or "weft" for room in cycle)


def violations(root: Path = ROOT) -> list[str]:
    """Everything in weft/ that breaks the layering, as `file:line: what`."""
    modules, table = read_modules(root), allowed_rooms()
    found = []
    for module in modules:
        place = module.path.relative_to(root)
        faults = [*module.faults, *import_faults(module, table)]
        found += [f"{place}:{line}: {text}" for line, text in sorted(faults)]
    return found + list(cycle_faults(modules))


if __name__ == "__main__":
    faults = violations()
    print("\n".join(faults) or "every import points the right way")
    sys.exit(bool(faults))
