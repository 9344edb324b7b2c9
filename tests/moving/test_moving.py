"""What `python -m weft.moving` says of programs, and the imports that it changes."""

import json
import subprocess
import sys
import textwrap

import pytest

from weft import moving
from weft.moving.names import Status, in_weft, look_up
from weft.moving.tables import DIFFERENT, MODULES

PROGRAM = textwrap.dedent(
    """
    import os
    import jax, functools
    import jax.numpy as jnp
    from jax import grad, lax, random as jr
    from jax.experimental import pallas as pl
    from flax.training import train_state
    import flax.linen as nn
    import optax
    import equinox as eqx

    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_bogus", True)

    def f(x):
        return jnp.sine(x) + nn.relu(jax.scipy.special.logsumexp(x)) + jr.normal(jr.key(0))

    pl.pallas_call(f)
    state = train_state.TrainState.create
    optimiser = optax.chain(optax.adamw(1e-3))
    """
)


def statuses(source):
    return {found.name: found.status for found in moving.check(source)}


def test_every_name_is_judged():
    found = statuses(PROGRAM)
    for name in ("jax.numpy", "jax.grad", "jax.scipy.special.logsumexp", "jax.random.normal"):
        assert found[name] is Status.SAME, name
    for name in ("flax.linen.relu", "optax.adamw", "jax_enable_x64"):
        assert found[name] is Status.SAME, name
    assert found["flax.training.train_state.TrainState.create"] is Status.SAME
    assert found["jax.experimental.pallas.pallas_call"] is Status.ABSENT
    assert found["jax.numpy.sine"] is Status.MISSING and found["jax_bogus"] is Status.MISSING
    assert found["XLA_FLAGS"] is Status.DIFFERENT and found["equinox"] is Status.ALIAS


def test_lines_are_those_of_the_program():
    (found,) = [x for x in moving.check(PROGRAM) if x.name == "jax.numpy.sine"]
    assert "jnp.sine" in PROGRAM.splitlines()[found.line - 1]


def test_imports_are_changed_where_weft_has_the_names():
    made = moving.rewritten(PROGRAM)
    assert "import weft as jax, functools\nimport weft.numpy as jnp\n" in made
    assert "from weft import grad, lax, random as jr\n" in made
    assert "from weft import train as train_state\n" in made
    assert "import weft.linen as nn\nimport weft.optim as optax\n" in made
    # what weft does not have stays
    assert "from jax.experimental import pallas as pl\n" in made
    assert "import equinox as eqx\n" in made
    # nothing but imports is touched
    assert made.partition("os.environ")[2] == PROGRAM.partition("os.environ")[2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import jax.numpy", "import weft as jax"),
        ("import jax as j", "import weft as j"),
        ("from jax.numpy import *", "from weft.numpy import *"),
        ("if True:\n    import jax  # here", "if True:\n    import weft as jax  # here"),
        ("from jax import (\n    grad,\n    vmap as v,\n)", "from weft import grad, vmap as v"),
        ("from jax._src import core", "from jax._src import core"),
        ("from . import jax", "from . import jax"),
        ("import flax.linen", "import flax.linen"),
        ("x = 'import jax'", "x = 'import jax'"),
        ("é = 1; import jax", "é = 1; import weft as jax"),
    ],
)
def test_imports_of_all_kinds(before, after):
    assert moving.rewritten(before) == after


def test_a_program_runs_after_its_imports_are_changed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"
        "print(jax.grad(lambda x: lax.sin(x) * jnp.float32(2))(0.0))\n"
    )
    command = [sys.executable, "-m", "weft.moving", str(program), "--rewrite"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "+import weft as jax" in done.stdout, done.stderr
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert ran.stdout == "2.0\n", ran.stderr


def test_packages_are_read_file_by_file(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "one.py").write_text("import jax\njax.numpy.nothing\n")
    (tmp_path / "inner" / "two.py").write_text("import jax\njax.jit(abs)\n")
    (tmp_path / "broken.py").write_text("import jax +\n")
    command = [sys.executable, "-m", "weft.moving", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "broken.py: cannot be read" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(x["name"], x["status"]) for x in found} == {
        ("jax", "same"),
        ("jax.jit", "same"),
        ("jax.numpy.nothing", "missing"),
    }


def test_a_missing_name_is_an_exit_status(tmp_path):
    (tmp_path / "one.py").write_text("import jax\njax.nothing\n")
    command = [sys.executable, "-m", "weft.moving", str(tmp_path / "one.py")]
    assert subprocess.run(command, capture_output=True).returncode == 1
    (tmp_path / "one.py").write_text("print(1)\n")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "Nothing here uses JAX" in done.stdout


def test_the_verdict_counts_and_advises(tmp_path):
    program = tmp_path / "one.py"
    command = [sys.executable, "-m", "weft.moving", str(program)]

    def verdict(text, *options):
        program.write_text(text)
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        return done.stdout.splitlines()[-1]

    whole = verdict("import jax\njax.jit(abs)\n")
    assert whole.startswith("2 names of JAX and its libraries are used; all work. Change the imp")
    assert "--rewrite" in whole and "weft.as_jax" in whole
    changed = verdict("import jax\njax.jit(abs)\n", "--rewrite")
    assert "The imports are changed" in changed and "--rewrite" not in changed
    mixed = verdict("import jax\nimport equinox\njax.nothing\n")
    assert "3 names" in mixed and "1 works, 1 works only under weft.as_jax, 1 is missing." in mixed
    assert verdict("import jax\nimport equinox\n").endswith("python -m weft.as_jax PROGRAM")


def test_what_cannot_be_read_gets_no_verdict(tmp_path):
    command = [sys.executable, "-m", "weft.moving", str(tmp_path / "gone.py")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and not done.stdout
    assert "gone.py: cannot be read: [Errno 2]" in done.stderr


def test_tables_name_what_there_is():
    assert [where for where in MODULES.values() if not in_weft(where)] == []
    known = (Status.DIFFERENT, Status.MISSING, Status.ALIAS)
    assert [name for name in DIFFERENT if look_up(name).status not in known] == []
