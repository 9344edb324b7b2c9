"""What a user's type checker makes of a program: mypy over a file that uses weft as users do."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import weft
import weft.numpy as jnp
from weft.core.array import IN_MEMORY, OPERATORS

ROOT = Path(weft.__file__).parent

# Each expression, and what a type checker takes it for.
KNOWN = {
    "x + 1": "Array",
    "1 - x": "Array",
    "-x": "Array",
    "x @ x": "Array",
    "x > 1": "Array",
    "x[0]": "Array",
    "x.sum()": "Array",
    "x.T": "Array",
    "x.at[0].set(1.0)": "Array",
    "x.shape": "tuple[int, ...]",
    "float(x)": "float",
    "jnp.sum(x, axis=0)": "Array",
    "jnp.linalg.norm(x)": "Array",
    "jax.nn.relu(x)": "Array",
    "jax.random.normal(jax.random.key(0), (3,))": "Array",
    "lax.scan(lambda c, a: (c + a, a), x, x)": "tuple[Array, Array]",
    "lax.cond(True, f, f, x)": "Array",
    "lax.fori_loop(0, 3, lambda i, c: c * 2, x)": "Array",
    "jax.jit(f)(x)": "Array",
    "jitted(x, n=3)": "Array",
    "jax.jit(static_argnames='n')(f)(x)": "Array",
    "jax.vmap(f)(x)": "Array",
    "jax.checkpoint(f)(x)": "Array",
    "jax.value_and_grad(f)(x)": "tuple[Array, Any]",
    "Model(width=3, name='m')": "Model",
    "nn.Dense(3)": "Dense",
    "nn.Dense(3).features": "int",
    "nn.Dense(3).init(key, x)": "dict[str, Any]",
    "nn.Dense(3).init_with_output(key, x)": "tuple[Any, dict[str, Any]]",
    "nn.Dense(3).clone(features=4)": "Dense",
    "nn.remat(nn.Dense)(3)": "Dense",
    "nn.max_pool(x, (2,))": "Array",
    "nn.make_causal_mask(x)": "Array",
    "optim.adam(optim.linear_schedule(1.0, 0.0, 10)).init(x)": "Any",
    "optim.sgd(0.1).update(x, optim.sgd(0.1).init(x), x)": "tuple[Any, Any]",
    "optim.lbfgs().update(x, (), x, value=1.0, grad=x, value_fn=f)": "tuple[Any, Any]",
    "optim.squared_error(x, x)": "Array",
    "jax.random.split(key)": "Array",
    "weft.nn.initializers.lecun_normal()(key, (2, 3))": "Array",
    "weft.scipy.special.gammaln(x)": "Array",
    "weft.scipy.stats.norm.pdf(x)": "Array",
    "weft.tree.flatten(x)[1]": "PyTreeDef",
    "weft.sharding.get_mesh()": "Mesh",
}
# Each mistake, and what the type checker says of it.
WRONG = {
    "jnp.summ(x)": 'has no attribute "summ"',
    "jnp.sum(x, axes=0)": 'keyword argument "axes"',
    "jax.jit(f)(x, m=3)": 'keyword argument "m"',
    "Model(wdth=3)": 'keyword argument "wdth"',
    "nn.Dense(fatures=3)": 'keyword argument "fatures"',
    "x.summ()": 'has no attribute "summ"',
    "f('text')": "incompatible type",
    "optim.adam(learning_rat=0.1)": 'keyword argument "learning_rat"',
    "optim.adam('fast')": "incompatible type",
    "nn.Dense('three')": "incompatible type",
}
HEAD = """\
import weft as jax
import weft.numpy as jnp
import weft.nn.initializers, weft.random, weft.scipy.special, weft.scipy.stats.norm
import weft.sharding, weft.tree
from weft import Array, lax, linen as nn, optim

x = jnp.ones(3)
key = jax.random.key(0)

def f(a: Array, n: int = 2) -> Array:
    return a * n

@jax.jit
def jitted(a: Array, n: int = 2) -> Array:
    return a * n

class Model(nn.Module):
    width: int = 3

    @nn.compact
    def __call__(self, y: Array) -> Array:
        return nn.Dense(self.width)(y)

"""
MODULES = (
    "weft weft.numpy weft.numpy.linalg weft.numpy.fft weft.lax weft.lax.linalg weft.nn weft.random"
    " weft.image weft.scipy.special weft.scipy.linalg weft.tree weft.linen weft.optim"
).split()


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The lines of the program, and what mypy says of each."""
    pytest.importorskip("mypy", reason="mypy comes with the extra `test`")
    folder = tmp_path_factory.mktemp("user")
    lines = HEAD.splitlines()
    lines += [f"reveal_type({text})" for text in KNOWN] + list(WRONG)
    record = json.loads((Path(__file__).parents[1] / "data" / "public_names.json").read_text())
    for number, module in enumerate(MODULES):
        # a module below one of these is imported by its own name
        names = [n for n in record[module] if f"{module}.{n}" not in record]
        lines += [f"import {module} as module{number}", *[f"module{number}.{n}" for n in names]]
    (folder / "program.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-error-summary", "program.py"]
    paths = {"MYPYPATH": str(ROOT.parent), "PATH": "", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=paths)
    found = {}
    for line in done.stdout.splitlines():
        place = re.match(r"program\.py:(\d+): (.*)", line)
        if place:
            found.setdefault(lines[int(place[1]) - 1], []).append(place[2])
    assert found, done.stdout + done.stderr
    return found


def plain(text):
    return re.sub(r"\b(?:weft|program)\.(?:\w+\.)*", "", text)


def test_a_correct_program_has_its_types(said):
    got = {text: plain(" ".join(said.get(f"reveal_type({text})", []))) for text in KNOWN}
    want = {text: f'note: Revealed type is "{kind}"' for text, kind in KNOWN.items()}
    assert got == want


def test_mistakes_are_found(said):
    for text, wanted in WRONG.items():
        assert wanted in " ".join(said.get(text, [])), text


def test_every_public_name_is_known(said):
    listed = {k: v for k, v in said.items() if re.match(r"module\d+\.|import ", k)}
    assert not listed


def test_methods_are_declared_as_they_are():
    """The stub of methods names all of them, with their parameters."""
    tree = ast.parse((ROOT / "core" / "array_methods.pyi").read_text())
    methods = next(n for n in tree.body if getattr(n, "name", "") == "Methods")
    declared = {n.name: n for n in methods.body if isinstance(n, ast.FunctionDef)}
    hidden = {"__setitem__", "__array_module__", "__numpy_dtype__"}
    assert set(OPERATORS) | set(IN_MEMORY) <= set(declared) | hidden
    kind = type(jnp.ones(2))
    for name, node in declared.items():
        found = inspect.getattr_static(kind, name, None)
        if name[0] == "_" or isinstance(found, property) or not callable(getattr(kind, name)):
            continue
        if name not in OPERATORS:
            continue
        runtime = list(inspect.signature(getattr(kind, name)).parameters)[1:]
        given = node.args
        stub = [a.arg for a in (*given.posonlyargs, *given.args)][1:]
        stub += [given.vararg.arg] if given.vararg else []
        stub += [a.arg for a in given.kwonlyargs]
        assert stub == runtime, name
