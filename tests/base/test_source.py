"""Source lines are the user's, whatever lies between."""

import time
import timeit

import numpy as np

from weft.base import source
from weft.extend import source_info_util


def compiled(code, filename, **names):
    exec(compile(code, filename, "exec"), names)
    return names


def test_here():
    info = source.current()
    assert source.summarize(info).endswith("(test_here)")
    assert info.file == __file__ and info.line() == 18 and info.function == "test_here"
    inner = lambda: source.current()
    assert inner().function.endswith("<lambda>")


def test_internal_frames_are_skipped():
    code = "def f(n):\n    return g() if n == 0 else f(n - 1)"
    f = compiled(code, "<weft generated>", g=source.current)["f"]
    info = f(5)
    assert info.file == __file__ and info.function == "test_internal_frames_are_skipped"


def test_exclusions_can_be_registered():
    f = compiled("def f():\n    return g()", "/some/library/layers.py", g=source.current)["f"]
    assert source.summarize(f()) == "layers.py:2 (f)"
    source.register_exclusion("/some/library/")
    try:
        assert f().file == __file__
    finally:
        source._excluded.remove("/some/library/")
        source._internal.clear()


def test_a_folder_named_like_a_library_is_the_users():
    hidden = source.is_hidden
    assert hidden(np.linalg.__file__, True) and not hidden(np.linalg.__file__, False)
    for name in ("weft", "numpy", "opt_einsum", "ml_dtypes"):
        assert not hidden(f"/somewhere/{name}/model.py", True)


def test_an_exclusion_is_a_file_or_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_excluded", [*source._excluded])
    monkeypatch.setattr(source, "_internal", {})
    for name in ("library", "library_user"):
        (tmp_path / name).mkdir()
    source_info_util.register_exclusion(str(tmp_path / "library"))
    source_info_util.register_exclusion(str(tmp_path / "helper.py"))
    shown = [p for p in ("library/a.py", "library_user/a.py", "helper.py", "model.py")
             if not source.is_internal(str(tmp_path / p))]  # fmt: skip
    assert shown == ["library_user/a.py", "model.py"]


def test_lines_of_a_long_statement_are_found_later():
    code = "def f():\n    x = (\n        1,\n        g(),\n    )\n    return x[1]"
    f = compiled(code, "model.py", g=source.current)["f"]
    assert source.summarize(f()) == "model.py:4 (f)"


def test_prompts_and_notebooks_have_names():
    assert source.display_name("<stdin>") == "<stdin>"
    assert source.display_name("<ipython-input-12-abcdef012345>") == "In [12]"
    assert source.display_name("/x/ipykernel_4711/123456.py") == "notebook cell"
    at_prompt = compiled("info = g()", "<stdin>", g=source.current)["info"]
    assert source.summarize(at_prompt) == "<stdin>:1"


def test_notebook_cells_have_numbers(monkeypatch):
    import __main__

    name = "/x/ipykernel_4711/123456.py"

    class Shell:
        class compile:
            _filename_map = {name: 7}

    monkeypatch.setattr(__main__, "get_ipython", Shell, raising=False)
    assert source.display_name(name) == "In [7]"


def test_frames():
    def inner():
        return source.frames(limit=2)

    a, b = inner()
    assert (a.function, b.function) == ("test_frames.<locals>.inner", "test_frames")
    assert len(source.frames()) > 2


def test_unknown():
    assert source.summarize(None) == source.summarize(source.UNKNOWN) == "<unknown>"
    named = source.current().replace(name_stack=source.NameStack(["a"]))
    assert named.name_stack == ("a",) and named.line() > 0


def test_cost():
    code = "def f(n):\n    return g() if n == 0 else f(n - 1)"
    calls = 2000

    def measure():
        return (
            min(timeit.repeat(source.current, timer=time.process_time, number=calls, repeat=5))
            / calls
        )

    f = compiled(code, "<weft generated>", g=measure)["f"]
    assert f(12) < 20e-6, "a coarse bound, for shared machines"
