"""Modules that are loaded at their first use."""

import sys
import threading
from types import ModuleType
from typing import Any

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


def test_threads_may_need_what_each_other_loads(tmp_path, monkeypatch) -> None:
    """One imports a module that looks for a member, which another has begun to load."""
    folder = tmp_path / "crossing"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import threading\nfrom weft.base import lazy\n"
        "begun = threading.Event()\n"
        "__getattr__, __dir__ = lazy.members('crossing', ['one', 'two', 'three'])\n"
    )
    (folder / "one.py").write_text(
        "import crossing, time\ncrossing.begun.set()\ntime.sleep(0.2)\nthree = crossing.three\n"
    )
    (folder / "two.py").write_text("import crossing.one\n")
    (folder / "three.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    crossing = __import__("crossing")

    found: list[Any] = []

    def by_import() -> None:
        found.append(__import__("crossing.one").one.three.value)

    def by_look() -> None:
        assert crossing.begun.wait(600)
        found.append(crossing.two.__name__)

    threads = [threading.Thread(target=work, daemon=True) for work in (by_import, by_look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert sorted(found, key=str) == [3, "crossing.two"]
    for name in [name for name in sys.modules if name.startswith("crossing")]:
        del sys.modules[name]


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
