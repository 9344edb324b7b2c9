"""Importing weft is cheap and leaves the process as it was."""

import ast
import importlib
import inspect
import json
import os
import pkgutil
import statistics
import subprocess
import sys
from types import ModuleType

import pytest

import weft
from weft.core.array import OPERATORS, Operator
from weft.core.registry import load_declared, primitives

# Processor time beyond NumPy's own, in the best of several runs: what else the machine does only
# adds to it.
BUDGET_S, RUNS = 0.100, 7
# The same beside NumPy's import in the same process, in the median: 0.40 to 0.45 on a busy machine.
MAX_RATIO = 0.65
# Modules of weft that its import loads; each costs a quarter of a millisecond and more.
MAX_MODULES = 98

PROBE = """
import sys, time, json, threading, warnings
start = time.process_time()
import numpy
plain = time.process_time() - start
def native_threads():
    try:
        import os
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()
native, before = native_threads(), set(sys.modules)
start = time.process_time()
import weft
seconds = time.process_time() - start
print(json.dumps({
    "seconds": seconds,
    "numpy": plain,
    "threads": threading.active_count(),
    "new native threads": native_threads() - native,
    "modules": sorted(set(sys.modules) - before),
}))
"""

LOAD_ALL = """
import importlib, pkgutil, weft
from weft.core import hooks

def evaluate(primitive, args, params):
    raise AssertionError(f"{primitive} is computed")

def load():
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        importlib.import_module(module.name)
    return ()

hooks.set_evaluate(evaluate)
with weft.enable_x64(True):
    assert not weft.make_jaxpr(load)().jaxpr.eqns
"""

# Loaded when first needed, or not at all; of weft, what compiles and what few programs use.
LATE = {
    "argparse",
    "asyncio",
    "concurrent.futures",
    "ctypes.util",
    "email",
    "http",
    "importlib.abc",
    "importlib.metadata",
    "llvmlite",
    "multiprocessing",
    "pathlib",
    "pkg_resources",
    "platform",
    "pydoc",
    "scipy",
    "scipy_openblas32",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "weft.transforms.jvp",
    "weft.transforms.partial_eval",
    "weft.transforms.transpose",
    "weft.transforms.vmap",
    "weft.api.autodiff",
    "weft.backends.llvm.native.machine",
    "weft.compiler",
    "weft.core.printing",
    "weft.debug",
    "weft.kernel",
    "weft.lax",
    "weft.numpy",
    "weft.prims.families",
    "weft.random",
    "weft.backends.cpu.calls.native",
    "xml",
}


def run(code: str, cache: str | None = None) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    # byte code is written and read, whatever the environment of the test says
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> str:
    """A folder with the byte code that a fresh clone writes at its first import."""
    folder = str(tmp_path_factory.mktemp("bytecode"))
    run("import weft", folder)
    return folder


@pytest.fixture(scope="module")
def probes(cache: str) -> list[dict]:
    return [json.loads(run(PROBE, cache)) for _ in range(RUNS)]


def test_import_is_cheap(probes: list[dict]) -> None:
    weft, numpy = (min(r[what] for r in probes) for what in ("seconds", "numpy"))
    assert weft <= BUDGET_S, (
        f"import weft takes {weft * 1000:.0f} ms beyond NumPy's {numpy * 1000:.0f}"
    )


def test_import_is_cheap_beside_numpys(probes: list[dict]) -> None:
    ratio = statistics.median(probe["seconds"] / probe["numpy"] for probe in probes)
    assert ratio <= MAX_RATIO, f"import weft takes {ratio:.2f} of the time of import numpy"


def test_import_loads_few_modules(probes: list[dict]) -> None:
    loaded = [name for name in probes[0]["modules"] if name.split(".")[0] == "weft"]
    assert len(loaded) <= MAX_MODULES, loaded


def test_import_starts_no_thread(probes: list[dict]) -> None:
    assert probes[0]["threads"] == 1
    assert probes[0]["new native threads"] == 0


@pytest.mark.parametrize("code", [
    "import weft; weft.nn.relu; weft.debug.print; weft.random.PRNGKey; weft.lax.linalg.qr",
    "import weft; weft.checkpoint; weft.custom_vjp; weft.hessian; weft.numpy.linalg.norm",
    "import weft.nn; import weft.random; from weft import custom_vjp, remat, stages, nn as n",
    "from weft.numpy import *; linalg.norm, fft.rfft, sin, pi, float32, newaxis",
    "import weft.numpy as n, weft.lax.linalg as k, weft.lax as l; l.fft(n.ones(4), 'FFT', (4,))",
    "from weft import *; grad, vmap, numpy, lax, random.normal",
    "import weft; x = weft.device_put(1.0); assert (x + 1).item() == 2 and (2 / x).T.sum() == 2",
    "import weft; assert weft.jit(lambda x: -x)(1.0) == -1 and weft.vjp(lambda x: (x, x), 1.0)",
    "import pickle, weft; weft.Array.sort; pickle.loads(pickle.dumps(weft.numpy.sort)).__doc__",
    "import weft; assert {'nn', 'remat', 'jit'} <= {*dir(weft)}; assert not hasattr(weft, 'norm')",
    "import weft; assert 'sin' in str(weft.make_jaxpr(weft.numpy.sin)(1.0))",
    "from weft.extend.core.primitives import cholesky_p, random_bits_p, remat2_p, name_p, lu_p",
    "from weft.experimental.taylor_rules import sparse_rules as s, lookup; s[lookup('name')]",
])  # fmt: skip
def test_what_is_loaded_late_is_found(code: str, cache: str) -> None:
    run(code, cache)


def public_names(module: ModuleType) -> set[str]:
    """The public names that a module defines, or imports as its own."""
    found = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.name == alias.asname}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            found |= {part.id for part in parts if isinstance(part, ast.Name)}
    return {name for name in found if not name.startswith("_")}


LATE_PACKAGES = (
    "weft weft.numpy weft.lax weft.random weft.nn weft.linen weft.optim weft.optim.contrib "
    "weft.optim.losses weft.optim.transforms weft.train"
).split()


@pytest.mark.parametrize("package", LATE_PACKAGES)
def test_type_checkers_see_what_is_loaded_late(package: str, cache: str) -> None:
    """Of several values of a name some take the first, some the last that a file has of its own."""
    module = importlib.import_module(package)
    only_asked = f"import weft, {package} as m; print(*{{*dir(m)}} - {{*vars(m)}})"
    asked = {*run(only_asked, cache).split()}
    first: dict[str, object] = {}
    last: dict[str, object] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "_typing.TYPE_CHECKING":
            for line in node.body:
                source = importlib.import_module(line.module)
                names = {alias.name for alias in line.names}
                if names == {"*"}:
                    found, names = vars(source), public_names(source)
                else:
                    found = {name: getattr(source, name) for name in names}
                    assert names <= asked
                first = found | first
                last |= {name: found[name] for name in names}
    for name in asked:
        value = inspect.unwrap(getattr(module, name))
        assert inspect.unwrap(first[name]) is inspect.unwrap(last[name]) is value, name
    files = {file.name for file in pkgutil.iter_modules(module.__path__)}
    hidden = {name for name in asked & files if not inspect.ismodule(getattr(module, name))}
    assert not hidden, "files that would take the place of a name when they are imported"


def test_operators_of_arrays_are_found() -> None:
    for name in OPERATORS:
        assert type(getattr(weft.Array, name)) is not Operator
        assert getattr(weft.Array, name) is vars(weft.Array)[name] is not None


def test_primitives_are_declared_where_they_are() -> None:
    declared = load_declared()
    for room in (weft.prims, weft.control, weft.division):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    homes = {name: type(p).__module__ for name, p in primitives.items()}
    assert declared.items() <= homes.items()
    rooms = ("weft.prims", "weft.control", "weft.division")
    assert {name for name, home in homes.items() if home.startswith(rooms)} <= {*declared}


def test_a_module_computes_nothing_when_it_is_loaded() -> None:
    """It may be loaded while a program is traced, in whatever scope of knobs."""
    run(LOAD_ALL)


def imported(code: str, cache: str) -> list[str]:
    """The modules that a program imports, in order, by ``python -X importtime``."""
    command = [sys.executable, "-X", "importtime", "-c", code]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    rows = [line.split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    return [row[2].strip() for row in rows[1:]]


# What programs of weft need besides it and NumPy, whatever else an environment has. The number of
# weft's own modules is what `import weft` costs most.
ELSEWHERE = {"__future__", "_ctypes", "ctypes", "errno", "fnmatch", "gc", "threading", "_weakref"}
MAX_OWN_MODULES = 100


def test_import_loads_a_known_list_of_modules(cache: str) -> None:
    numpy = {*imported("import numpy", cache)}
    new = [name for name in imported("import numpy, weft", cache) if name not in numpy]
    own = [name for name in new if name.split(".")[0] == "weft"]
    assert 50 < len(own) <= MAX_OWN_MODULES, f"{len(own)} modules of weft's"
    others = {name for name in new if name.split(".")[0] not in ("weft", "ml_dtypes")}
    unexpected = others - ELSEWHERE - {*sys.builtin_module_names}
    assert len(unexpected) <= 3 and LATE.isdisjoint(unexpected), unexpected


def test_an_environment_of_many_packages_costs_nothing(cache: str, tmp_path) -> None:
    """Neither entry points nor metadata of other packages are read: files opened are weft's."""
    for i in range(50):
        folder = tmp_path / f"package{i}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: package{i}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text("[jax_plugins]\nx = package:x\n")
    code = (
        "import sys, os; opened = []\n"
        f"sys.path.append({str(tmp_path)!r})\n"
        "def hook(event, args):\n"
        "    if event in ('open', 'os.scandir', 'os.listdir'): opened.append(str(args[0]))\n"
        "import numpy; sys.addaudithook(hook); import weft, weft.numpy\n"
        "print(sum('dist-info' in name for name in opened))\n"
        f"print(opened.count({str(tmp_path)!r}) <= 1)"
    )
    assert run(code, cache).split() == ["0", "True"]


def test_import_loads_nothing_heavy(probes: list[dict]) -> None:
    assert LATE.isdisjoint(probes[0]["modules"])
    assert not any(name.split(".")[0] in ("jax", "torch") for name in probes[0]["modules"])
