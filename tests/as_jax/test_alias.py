"""weft under the name jax, in processes of their own: the alias is for a whole process."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*args, cwd=None, check=True):
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    done = subprocess.run(
        [sys.executable, *map(str, args)], cwd=cwd, env=env, capture_output=True, text=True
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def program(text):
    """What a program prints that runs with weft as jax."""
    return run("-m", "weft.as_jax", "-c", textwrap.dedent(text)).stdout


def test_modules_are_wefts_own():
    assert (
        program(
            """
            import importlib, pickle
            import weft
            import jax, jax.numpy as jnp, jax.numpy.linalg
            import jax.experimental.sparse as sparse
            from jax import lax, random, tree_util
            from jax.scipy import special
            assert jnp is weft.numpy and lax is weft.lax and random is weft.random
            assert jax.numpy.linalg is weft.numpy.linalg
            assert sparse is weft.experimental.sparse and special is weft.scipy.special
            assert jax.jit is weft.jit and jax.Array is weft.Array
            assert isinstance(jnp.ones(3), jax.Array)
            assert tree_util.tree_map is weft.tree_util.tree_map
            assert pickle.loads(pickle.dumps(jnp.sin)) is weft.numpy.sin
            assert pickle.loads(pickle.dumps(jax.jit)) is weft.jit
            assert importlib.reload(jax) is jax and importlib.reload(weft.ops) is jax.ops
            assert "vmap" in dir(jax) and "__version__" in dir(jax)
            print(jax.__version__, jax.__version_info__, jax.version.__version__)
            """
        )
        == "0.10.2 (0, 10, 2) 0.10.2\n"
    )


def test_metadata_answers():
    text = """
        import importlib.metadata as metadata
        print(metadata.version("jax"), metadata.version("jaxlib"))
        print(metadata.distribution("jax").metadata["Name"], metadata.version("numpy") != "")
        """
    assert program(text) == "0.10.2 0.10.2\njax True\n"


def test_what_weft_has_not_is_said_clearly():
    text = """
        import jax
        for code in ("import jax.no_such_module", "jax.no_such_name", "import jax.kernel",
                     "from jax import no_such_name"):
            try:
                exec(code)
            except (ImportError, AttributeError) as error:
                print(type(error).__name__, error)
        """
    lines = program(text).splitlines()
    assert [line.split()[0] for line in lines] == [
        "ModuleNotFoundError", "AttributeError", "ModuleNotFoundError", "ImportError"
    ]  # fmt: skip
    assert lines[1] == "AttributeError weft, under the name jax, has no 'no_such_name'"


def test_scripts_and_modules_run_with_their_arguments(tmp_path):
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, jax, beside\n"
        "assert __name__ == '__main__'\n"
        "print(beside.NAME, sys.argv[1:], float(jax.numpy.sum(jax.numpy.ones(3))))\n"
    )
    expected = "beside ['--rate', '1'] 3.0\n"
    assert run("-m", "weft.as_jax", script, "--rate", "1").stdout == expected
    by_name = run("-m", "weft.as_jax", "-m", "script", "--rate", "1", cwd=tmp_path)
    assert by_name.stdout == expected
    assert "usage" in run("-m", "weft.as_jax", "--help").stdout
    assert run("-m", "weft.as_jax", check=False).returncode == 2


def test_install_comes_before_the_first_import(tmp_path):
    (tmp_path / "jax.py").write_text("")
    code = "import jax, weft.as_jax; weft.as_jax.install()"
    done = run("-c", code, cwd=tmp_path, check=False)
    assert "RuntimeError: jax is imported already from" in done.stderr
    assert "python -m weft.as_jax script.py" in done.stderr


def test_it_is_not_active_unless_asked_for(tmp_path):
    (tmp_path / "jax.py").write_text("REAL = True\n")
    code = "import weft, weft.as_jax, weft.as_jax.finder, jax; print(jax.REAL)"
    assert run("-c", code, cwd=tmp_path).stdout == "True\n"


def test_the_plugin_runs_tests_on_weft(tmp_path):
    (tmp_path / "conftest.py").write_text("import jax\n")
    (tmp_path / "test_it.py").write_text(
        "import jax, weft\n\ndef test_it():\n    assert jax.numpy is weft.numpy\n"
    )
    done = run("-m", "pytest", "-p", "weft.as_jax.pytest", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "weft under the name jax 0.10.2" in done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("size, fails", [(1, False), (2, True)])
def test_pmap_on_one_device(size, fails):
    text = f"""
        import jax, jax.numpy as jnp
        summed = jax.pmap(lambda x, n: jax.lax.psum(x * n, "i"), "i",
                          static_broadcasted_argnums=1)
        try:
            print(summed(jnp.ones(({size}, 2)), 3).tolist())
        except ValueError as error:
            print("which needs 2 devices" in str(error))
        """
    assert program(text) == ("True\n" if fails else "[[3.0, 3.0]]\n")


def test_shard_map_on_one_device():
    text = """
        import jax, jax.numpy as jnp
        from jax.sharding import PartitionSpec as P
        mesh = jax.make_mesh((1, 1), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        f = jax.shard_map(lambda x: jax.lax.psum(x, ("x", "y")), mesh=mesh, in_specs=P("x"),
                          out_specs=P())
        print(f(jnp.arange(3.0)).tolist())
        """
    assert program(text) == "[0.0, 1.0, 2.0]\n"


def test_empty_distributions_fill_the_place_of_jax(tmp_path):
    from tools.empty_distribution import write_wheel

    wheel = write_wheel("jax", "0.10.2", tmp_path / "wheels")
    target = tmp_path / "site"
    run("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", target, wheel)
    code = "import importlib.metadata as m; print(m.version('jax'))"
    done = run("-c", f"import sys; sys.path.insert(0, {str(target)!r}); {code}")
    assert done.stdout == "0.10.2\n"
    assert [p.name for p in target.iterdir()] == ["jax-0.10.2.dist-info"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import optax", ["weft.moving PROGRAM --rewrite", "pip install --no-deps optax"]),
        ("import jraph.inner", ["pip install --no-deps jraph"]),
        ("import yaml", ["yaml is not installed: `pip install PyYAML`"]),
        ("import jax.no_such_module", []),
    ],
)
def test_a_library_that_is_not_installed_comes_with_a_hint(line, words, tmp_path):
    (tmp_path / "program.py").write_text(f"{line}\n")
    code = (  # where they may be installed
        "import sys, importlib.util as u, importlib.machinery as m\n"
        "real = m.PathFinder.find_spec\n"
        "def find(name, *rest):\n"
        "    return None if name in ('optax', 'yaml', 'jraph') else real(name, *rest)\n"
        "m.PathFinder.find_spec = find\n"
        "from weft.as_jax.__main__ import main\n"
        "main(['program.py'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and "ModuleNotFoundError" in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert bool(words) == ("is not installed" in done.stderr)
