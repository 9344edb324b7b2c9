"""Processes started by one that has weft under the name jax have it, too.

A folder with a module ``jax`` of its own stands for an installed JAX: nothing may import it.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weft.as_jax.children import with_alias

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (real / "jax.py").write_text("numpy = None\n__version__ = 'the real one'\n")
    return tmp_path


def run(folder, text, *flags, env=None):
    """What a script prints that runs with weft as jax, JAX being installed."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text))
    paths = [str(ROOT), str(folder / "real")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(env or {})}
    variables.pop("WEFT_AS_JAX", None)
    start = [sys.executable, *flags, "-m", "weft.as_jax", str(script)]
    if "-I" in flags:
        code = (
            f"import sys; sys.path[:0] = {paths!r}; import runpy; sys.argv = ['', {str(script)!r}]"
        )
        code += "; runpy.run_module('weft.as_jax', run_name='__main__')"
        start = [sys.executable, *flags, "-c", code]
    done = subprocess.run(start, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WORKERS = """
    import multiprocessing as mp
    import sys

    def work(queue):
        import jax, jax.numpy as jnp
        queue.put((jnp.__name__, jax.__version__, float(jnp.sum(jnp.ones(3)))))

    if __name__ == "__main__":
        context = mp.get_context("{method}")
        queue = context.Queue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        print(queue.get(timeout=60))
        process.join()
    """


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(folder, method):
    assert run(folder, WORKERS.format(method=method)) == "('weft.numpy', '0.10.2', 3.0)"


def test_workers_of_an_isolated_interpreter(folder):
    text = WORKERS.format(method="spawn")
    assert run(folder, text, "-I") == "('weft.numpy', '0.10.2', 3.0)"


def test_arrays_travel_between_workers(folder):
    text = """
        from concurrent.futures import ProcessPoolExecutor
        import multiprocessing as mp
        import jax, jax.numpy as jnp

        def double(x):
            return type(x).__module__, 2 * x

        if __name__ == "__main__":
            with ProcessPoolExecutor(1, mp_context=mp.get_context("spawn")) as pool:
                module, result = pool.submit(double, jnp.arange(3)).result(timeout=60)
            print(module.split(".")[0], isinstance(result, jax.Array), result.tolist())
        """
    assert run(folder, text) == "weft True [0, 2, 4]"


CHILD = f"""
import jax, weft
from importlib.metadata import version
print(jax.numpy.__name__, version("jaxlib"), weft.__file__.startswith({str(ROOT)!r}))
"""


def test_subprocesses(folder):
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text("import sys; sys.chained = True\n")
    text = f"""
        import os, subprocess, sys
        child = "import sys; print(getattr(sys, 'chained', False))" + {CHILD!r}
        def say(**options):
            command = [sys.executable, "-c", child]
            done = subprocess.run(command, capture_output=True, text=True, **options)
            print(done.stdout.split(), done.stderr[-300:], done.returncode)
        say()
        say(cwd="/")                                         # weft is not found from there
        say(env={{"PATH": os.environ["PATH"]}})              # an environment of its own
        os.environ["PYTHONPATH"] += os.pathsep + {str(folder / "site")!r}
        say()                                                # one with a sitecustomize
        grandchild = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import jax;"
        grandchild += " print(jax.__version__)'])"
        subprocess.run([sys.executable, "-c", grandchild])
        say(env={{**os.environ, "WEFT_AS_JAX": "0"}})        # asked to leave it alone
        """
    lines = run(folder, text).splitlines()
    first = "['False', 'weft.numpy', '0.10.2', 'True']  0"
    chained = "['True', 'weft.numpy', '0.10.2', 'True']  0"
    assert lines[:5] == [first, first, first, chained, "0.10.2"]
    assert "['True']" in lines[5] and "has no attribute '__name__'" in "".join(lines[5:])


def test_a_flag_that_hides_the_alias_is_warned_of(folder):
    text = """
        import subprocess, sys, warnings
        for command in (["-I", "-c", ""], ["-Ec", ""], ["-c", "-I"], ["-m", "this", "-S"]):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                subprocess.run([sys.executable, *command], capture_output=True)
            print([str(w.message).partition(",")[0] for w in found])
        """
    assert run(folder, text).splitlines() == [
        "['Python is started with -I']", "['Python is started with -E']", "[]", "[]"
    ]  # fmt: skip


def test_other_interpreters_are_left_alone(folder):
    text = """
        import os, subprocess, sys
        root = os.environ["WEFT_AS_JAX"].partition(os.pathsep)[0]
        env = dict(os.environ, WEFT_AS_JAX=os.pathsep.join([root, "/another/prefix"]))
        os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-c", "import jax; print("
                   "jax.__version__)"], env)
        """
    assert run(folder, text) == "the real one"


def test_an_environment_is_completed_once():
    env = with_alias({"PYTHONPATH": "/there"})
    assert with_alias(env) == env
    assert env["PYTHONPATH"].endswith(os.pathsep + "/there")
    assert with_alias({"WEFT_AS_JAX": "0"}) == {"WEFT_AS_JAX": "0"}
