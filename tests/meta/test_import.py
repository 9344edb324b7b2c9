"""Importing weft is cheap and leaves the process as it was."""

import ast
import importlib
import inspect
import json
import os
import subprocess
import sys

import pytest

# Processor time beyond NumPy's own; the best of several runs counts, as the machine may be shared.
BUDGET_S, RUNS = 0.100, 7

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

# Loaded when first needed, or not at all; of weft, what compiles and what few programs use.
LATE = {
    "asyncio",
    "concurrent.futures",
    "ctypes.util",
    "email",
    "http",
    "importlib.metadata",
    "llvmlite",
    "multiprocessing",
    "pydoc",
    "scipy",
    "scipy_openblas32",
    "ssl",
    "unittest",
    "urllib.request",
    "weft.backends.cpu.machine",
    "weft.compiler",
    "weft.core.printing",
    "weft.debug",
    "weft.kernel",
    "weft.numpy.linalg",
    "weft.prims.linalg",
    "weft.random",
    "weft.runtime.native",
    "xml",
}


def run(code: str, cache: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    # byte code is written and read, whatever the environment of the test says
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
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
    best, numpy = (min(r[what] for r in probes) for what in ("seconds", "numpy"))
    # The budget is for a machine that imports NumPy in a tenth of a second; a slower moment of a
    # shared one slows both down.
    budget = BUDGET_S * max(1.0, numpy / 0.1)
    assert best <= budget, (
        f"import weft takes {best * 1000:.0f} ms beyond NumPy's {numpy * 1000:.0f}"
    )


def test_import_starts_no_thread(probes: list[dict]) -> None:
    assert probes[0]["threads"] == 1
    assert probes[0]["new native threads"] == 0


@pytest.mark.parametrize("code", [
    "import weft; weft.nn.relu; weft.debug.print; weft.random.PRNGKey; weft.lax.linalg.qr",
    "import weft; weft.checkpoint; weft.custom_vjp; weft.hessian; weft.numpy.linalg.norm",
    "import weft.nn; import weft.random; from weft import custom_vjp, remat, stages, nn as n",
    "from weft.numpy import *; linalg.norm, fft.rfft, sin",
    "import weft; assert {'nn', 'remat', 'jit'} <= {*dir(weft)}; assert not hasattr(weft, 'norm')",
    "import weft; assert 'sin' in str(weft.make_jaxpr(weft.numpy.sin)(1.0))",
    "from weft.extend.core.primitives import cholesky_p, random_bits_p, remat2_p, name_p, lu_p",
    "from weft.experimental.taylor_rules import sparse_rules as s, lookup; s[lookup('name')]",
])  # fmt: skip
def test_what_is_loaded_late_is_found(code: str, cache: str) -> None:
    run(code, cache)


@pytest.mark.parametrize("package", ["weft", "weft.numpy", "weft.lax"])
def test_type_checkers_see_what_is_loaded_late(package: str, cache: str) -> None:
    module = importlib.import_module(package)
    seen = set()
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "_TYPE_CHECKING":
            for line in node.body:
                source = importlib.import_module(line.module)
                seen |= {alias.name for alias in line.names}
                for alias in line.names:
                    found = inspect.unwrap(getattr(module, alias.name))
                    assert found is inspect.unwrap(getattr(source, alias.name))
    only_asked = "import sys, weft; m = sys.modules[sys.argv[1]]; print(*{*dir(m)} - {*vars(m)})"
    assert seen == {*run(only_asked, cache, package).split()}


def test_import_loads_nothing_heavy(probes: list[dict]) -> None:
    assert LATE.isdisjoint(probes[0]["modules"])
    assert not any(name.split(".")[0] in ("jax", "torch") for name in probes[0]["modules"])
