"""Modules that are loaded at their first use."""

import sys
from types import ModuleType

import pytest

from weft.base.lazy import Late, members


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a module that notes when it is run."""
    folder = tmp_path / "late_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("early = 1\n")
    (folder / "part.py").write_text("import sys\nsys.runs.append(1)\nvalue = 2\ndef f(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "runs", [], raising=False)
    yield __import__("late_package")
    for name in [name for name in sys.modules if name.startswith("late_package")]:
        del sys.modules[name]


def test_a_late_module_runs_once_when_a_name_is_read(package) -> None:
    part = Late("late_package.part")
    assert repr(part) == "<late late_package.part>" and sys.runs == []
    assert part.value == 2 and part.f is sys.modules["late_package.part"].f
    assert part.value == 2 and sys.runs == [1]
    with pytest.raises(AttributeError, match="nothing"):
        part.nothing


def test_members_are_found_when_looked_at(package) -> None:
    package.__getattr__, package.__dir__ = members(
        "late_package", ["part"], {"late_package.part": "value f"}
    )
    assert {"early", "part", "value", "f"} <= {*dir(package)} and sys.runs == []
    assert package.value == 2 and sys.runs == [1]
    assert vars(package)["value"] == 2 and isinstance(package.part, ModuleType)
    assert package.f is package.part.f
    assert {"early", "part", "value", "f"} <= {*package.__all__}
    assert not any(name.startswith("_") for name in package.__all__)
    with pytest.raises(AttributeError, match="module 'late_package' has no attribute 'nothing'"):
        package.nothing


def test_functions_of_weft_get_their_boundary(package) -> None:
    package.__getattr__, _ = members("late_package", [], {"weft.base.source": "display_name"})
    assert package.display_name.__module__ == "late_package"
    assert package.display_name.__wrapped__.__module__ == "weft.base.source"
    assert package.display_name is package.display_name
