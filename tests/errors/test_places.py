"""Errors as they are printed: in scripts, at `python -c`, from standard input, in notebooks."""

import os
import shutil
import subprocess
import sys
import types

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PROGRAM = """\
import weft as jax, weft.numpy as jnp

def loss(w, x):
    y = jnp.dot(w, x)
    return y

def outer(w, x):
    return jax.jit(loss)(w, x)

outer(jnp.ones((2, 3)), jnp.ones(4))
"""

EAGER = """\
import weft.numpy as jnp
x = jnp.ones(3)
y = jnp.ones(4)
x + y
"""


def printed(arguments, text=None, root=ROOT, **environment):
    """Standard error of a Python process that fails, with the weft that is in a folder."""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "JAX_"))}
    run = subprocess.run(
        [sys.executable, *arguments],
        input=text,
        capture_output=True,
        encoding="utf-8",
        env={**known, "PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )
    assert run.returncode == 1
    return run.stderr


def frames(text):
    return [line for line in text.splitlines() if line.lstrip().startswith("File ")]


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(PROGRAM)
    return str(path)


def test_script(script):
    text = printed([script])
    last = text.splitlines()[-1]
    assert last.startswith("TypeError: ") and last.endswith(" — model.py:4, in loss")
    assert "(2, 3)" in last and "(4,)" in last
    shown = frames(text)
    assert len(shown) == 3 and all("model.py" in line for line in shown)
    assert [line.rpartition(" ")[2] for line in shown] == ["<module>", "outer", "loss"]


@pytest.mark.parametrize("folder", ["", "weft", "numpy"])
def test_clone_in_a_folder_named_weft(folder, clone):
    # The user's file lies beside the package, or in a folder with the name of a library.
    path = clone / "examples" / folder / "model.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM, encoding="utf-8")
    text = printed([str(path)], root=clone)
    assert text.splitlines()[-1].endswith(" — model.py:4, in loss")
    shown = frames(text)
    assert len(shown) == 3 and all(str(path) in line for line in shown)
    if folder == "weft":
        full = printed([str(path)], root=clone, WEFT_TRACEBACK="full")
        assert sum(os.path.join(str(clone), "weft", "") in line for line in frames(full)) > 5


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the package where `git clone` puts it, below an awkward path."""
    folder = tmp_path_factory.mktemp("a clone") / "folder ü" / "weft"
    shutil.copytree(os.path.join(ROOT, "weft"), folder / "weft")
    return folder


@pytest.mark.parametrize(
    "setting", [{"WEFT_TRACEBACK": "full"}, {"JAX_TRACEBACK_FILTERING": "off"}], ids=["ours", "jax"]
)
def test_full_traceback(script, setting):
    text = printed([script], **setting)
    assert sum(os.path.join(ROOT, "weft", "") in line for line in frames(text)) > 5
    assert text.splitlines()[-1].endswith(" — model.py:4, in loss")


def test_command(script):
    text = printed(["-c", PROGRAM])
    assert text.splitlines()[-1].endswith(" — <string>:4, in loss")
    assert len(frames(text)) == 3


def test_standard_input():
    text = printed(["-"], EAGER)
    assert text.splitlines()[-1].endswith(
        "; the sizes of axis 0, 3 and 4, must be equal or 1 — <stdin>:4"
    )
    assert len(frames(text)) == 1


CELL = """
def f(x):
    return x if x > 0 else -x
"""


def test_notebook(monkeypatch):
    namespace = {}
    filename = os.path.join("any", "ipykernel_4711", "3735928559.py")
    exec(compile(CELL, filename, "exec"), namespace)
    import weft

    with pytest.raises(weft.errors.TracerBoolConversionError) as caught:
        weft.jit(namespace["f"])(1.0)
    assert "— notebook cell:3, in f" in str(caught.value)
    shell = types.SimpleNamespace(
        compile=types.SimpleNamespace(_filename_map={filename: 7}),
    )
    monkeypatch.setattr(sys.modules["__main__"], "get_ipython", lambda: shell, raising=False)
    with pytest.raises(weft.errors.TracerBoolConversionError) as caught:
        weft.jit(namespace["f"])(1.0)
    assert "— In [7]:3, in f" in str(caught.value)
    assert "is f at In [7]:2." in str(caught.value)


def test_old_notebook():
    namespace = {}
    exec(compile(CELL, "<ipython-input-12-0a1b2c3d>", "exec"), namespace)
    import weft

    with pytest.raises(weft.errors.TracerBoolConversionError) as caught:
        weft.jit(namespace["f"])(1.0)
    assert "— In [12]:3, in f" in str(caught.value)


USER_ERRORS = """\
import weft as jax
def f(x):
    raise KeyError("mine")
jax.jit(jax.grad(f))(1.0)
"""


def test_the_users_own_errors_are_left_alone():
    text = printed(["-c", USER_ERRORS])
    assert text.splitlines()[-1] == "KeyError: 'mine'"
    assert len(frames(text)) == 2
