"""Imports point down, as the table in tools/check_layers.py says."""

from pathlib import Path

import pytest

from tools.check_layers import allowed_rooms, violations


def test_weft_keeps_to_the_layers() -> None:
    assert not violations(), "\n" + "\n".join(violations())


def test_open_rooms_stand_below_all() -> None:
    table = allowed_rooms()
    assert table["base"] == set()
    assert all({"base", "tree", "dtypes"} <= table[room] for room in ("core", "kernel", "numpy"))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"core/a.py": "import weft.numpy", "numpy/__init__.py": ""}, "core may not import"),
        ({"core/a.py": "from ..lax import x", "lax/__init__.py": ""}, "core may not import"),
        ({"core/a.py": "import weft"}, "core may not import weft"),
        ({"core/a.py": "def f():\n    from weft.base import b"}, "inside a function"),
        ({"core/a.py": "import weft.core.b", "core/b.py": "from . import a"}, "each other"),
        ({"nn/a.py": "import scipy.special"}, "does without"),
        ({"nn/a.py": "def f():\n    import jax"}, "does without"),
        ({"attic/a.py": ""}, "has no line"),
        ({"api/a.py": "from weft.core import hooks\nhooks.box = 1"}, "assigns a hook"),
        ({"api/a.py": "from weft.core import hooks\nhooks.set_box(1)"}, "fills hooks"),
        ({"api/a.py": "import importlib\nimportlib.import_module('weft.nn')"}, "may not import"),
        ({"core/a.py": "Late('weft.core.b')", "core/b.py": ""}, "LATE does not list"),
        ({"core/a.py": "Late('weft.numpy')", "numpy/__init__.py": ""}, "core may not import"),
        ({"core/a.py": "Late('weft.core.' + name)"}, "computed name"),
        ({"core/a.py": "def f():\n    Late('weft.core.b')", "core/b.py": ""}, "inside a function"),
        ({"core/__init__.py": "members(__name__, (), {'weft.nn.a': 'x'})"}, "core may not import"),
        ({"core/__init__.py": "members(__name__, ['a'])", "core/a.py": "import weft.core"}, "each"),
        ({"core/__init__.py": "members(__name__, [], table)"}, "computed name"),
        ({"core/a.py": "members(__name__, ['hooks'])"}, "only a package"),
        ({"core/a.py": "members(__name__, (), {'weft.core.b': 'x'})"}, "only a package"),
        ({"runtime/a.py": "import weft.backends.cpu", "backends/cpu.py": ""}, "runtime may not"),
        (
            {"backends/cuda/a.py": "import weft.backends.cpu.b", "backends/cpu/b.py": ""},
            "backends/cuda may not import",
        ),
        (
            {"backends/llvm/a.py": "Late('weft.backends.cpu.b')", "backends/cpu/b.py": ""},
            "backends/llvm may not import",
        ),
        ({"linen/a.py": "import weft.core.hooks"}, "linen may not import"),
        (
            {"core/a.py": "import weft.division.programs.b", "division/programs/b.py": ""},
            "core may not import",
        ),
        (
            {
                "core/a.py": "import weft.division.b",
                "division/b.py": "import weft.core.a",
            },
            "files import each other",
        ),
        ({"debug/a.py": "import weft.stages", "stages.py": "import weft.debug"}, "each other"),
    ],
)
def test_what_breaks_the_layers_is_found(tmp_path: Path, files: dict, expected: str) -> None:
    core = {"__init__.py": "", "core/__init__.py": "", "core/hooks.py": "", "debug/__init__.py": ""}
    write(tmp_path, core | files)
    assert any(expected in line for line in violations(tmp_path)), violations(tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"core/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import weft.core.b",
         "core/b.py": "import weft.core.a"},
        {"numpy/a.py": "from weft.lax import add", "lax/__init__.py": "from .b import add as add",
         "lax/b.py": "def add(): import llvmlite"},
        {"__init__.py": "from weft.core import hooks\nhooks.set_box(1)"},
        {"runtime/registry.py": "Late('weft.backends.cpu.a')", "backends/cpu/a.py": ""},
        {"backends/cuda/a.py": "import weft.backends.llvm.b", "backends/llvm/b.py": ""},
        {"prims/a.py": "import weft.division.b", "division/b.py": "import weft.core.a",
         "core/a.py": ""},
        {"linen/a.py": "import weft, weft.numpy as jnp", "numpy/__init__.py": ""},
    ],
)  # fmt: skip
def test_what_keeps_to_the_layers_passes(tmp_path: Path, files: dict) -> None:
    write(tmp_path, {"__init__.py": "", "core/__init__.py": "", "core/hooks.py": ""} | files)
    assert violations(tmp_path) == []


def write(root: Path, files: dict) -> None:
    for name, text in files.items():
        path = root / "weft" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
