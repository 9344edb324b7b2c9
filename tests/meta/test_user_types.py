"""What a user's type checker makes of a program: mypy over a file that uses weft as users do."""

import ast
import importlib
import inspect
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import weft
import weft.numpy as jnp
from weft.base.annotations import signature_of
from weft.core.array import IN_MEMORY, OPERATORS

ROOT = Path(weft.__file__).parent
CORRECT = Path(__file__).with_name("typed_program.py")

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
    "jnp.add(x, 1)": "Array",
    "jnp.where(x > 0, x, 0)": "Array",
    "jnp.where(x > 0)": "tuple[Array, ...]",
    "jnp.nonzero(x, size=2)": "tuple[Array, ...]",
    "jnp.unique(x)": "Array",
    "jnp.unique(x, return_counts=True)": "tuple[Array, ...]",
    "jnp.average(x)": "Array",
    "jnp.average(x, returned=True)": "tuple[Array, Array]",
    "jnp.linspace(0, 1, 5)": "Array",
    "jnp.linspace(0, 1, retstep=True)[1]": "Array",
    "jnp.atleast_1d(1.0)": "Array",
    "jnp.atleast_2d(x, x)": "list[Array]",
    "jnp.polyfit(x, x, 1)": "Array",
    "jnp.polyfit(x, x, 1, cov=True)": "tuple[Array, Array]",
    "jnp.histogram(x)": "tuple[Array, Array]",
    "jnp.gradient(x, axis=0)": "Array",
    "jnp.indices((2, 3))": "Array",
    "jnp.intersect1d(x, x)": "Array",
    "jnp.fft.rfft(x)": "Array",
    "jnp.linalg.svd(x)": "tuple[Array, Array, Array, fallback=SVDResult]",
    "jnp.linalg.svd(x, compute_uv=False)": "Array",
    "jnp.linalg.qr(x)": "tuple[Array, Array, fallback=QRResult]",
    "jnp.linalg.qr(x, mode='r')": "Array",
    "jax.scipy.linalg.eigh(x)": "tuple[Array, Array]",
    "jax.scipy.linalg.eigh(x, eigvals_only=True)": "Array",
    "jax.nn.logsumexp(x)": "Array",
    "jax.nn.dot_product_attention(x, x, x)": "Array",
    "jnp.linalg.norm(x)": "Array",
    "jax.nn.relu(x)": "Array",
    "jax.random.normal(jax.random.key(0), (3,))": "Array",
    "lax.scan(lambda c, a: (c + a, a), x, x)": "tuple[Array, Array]",
    "lax.cond(True, f, f, x)": "Array",
    "lax.fori_loop(0, 3, lambda i, c: c * 2, x)": "Array",
    "lax.fori_loop(0, 3, counted, 1.0)": "Array",
    "lax.fori_loop(0, 3, counted_pair, (x, 0))": "tuple[Array, Array]",
    "lax.while_loop(lambda c: c.sum() < 9, f, x)": "Array",
    "lax.scan(step, 0.0, x)": "tuple[Array, dict[str, Array]]",
    "lax.cond(True, loss, f, x)": "Array",
    "lax.switch(1, [f, f], x)": "Array",
    "lax.map(f, x)": "Array",
    "lax.associative_scan(lax.add, {'a': x})": "dict[str, Array]",
    "lax.psum(state, 'i')": "tuple[Array, Array, fallback=State]",
    "lax.psum(1, 'i')": "int",
    "lax.pmean(1, 'i')": "Array",
    "lax.stop_gradient({'a': x})": "dict[str, Array]",
    "lax.stop_gradient(1.0)": "Array",
    "lax.optimization_barrier((x, x))": "tuple[Array, Array]",
    "lax.sort(x)": "Array",
    "lax.sort([x, x])": "tuple[Array, ...]",
    "jax.tree.map(jnp.sin, {'a': x})": "dict[str, Array]",
    "jax.tree.map(lambda a: a, {'a': x})": "dict[str, Any]",
    "jax.tree.map(f, x)": "Array",
    "jax.tree.map(f, state)": "tuple[Array, Array, fallback=State]",
    "jax.tree.map(jnp.shape, {'a': x})": "dict[str, tuple[int, ...]]",
    "jax.tree.reduce(jnp.add, [x, x], 0)": "Array",
    "lax.add(x, 1)": "Array",
    "lax.split(x, (1, 2))": "list[Array]",
    "lax.reduce(x, 0.0, lax.add, (0,))": "Array",
    "jax.jit(f)(x)": "Array",
    "jitted(x, n=3)": "Array",
    "jax.jit(static_argnames='n')(f)(x)": "Array",
    "jax.vmap(f)(x)": "Array",
    "jax.checkpoint(f)(x)": "Array",
    "jax.grad(f)(x, n=3)": "Array",
    "jax.grad(loss)({'w': x}, 1)": "dict[str, Array]",
    "jax.grad(loss, argnums=0)({'w': x}, 1)": "dict[str, Array]",
    "jax.grad(loss, argnums=(0, 1))({'w': x}, 1)": "tuple[Any, ...]",
    "jax.grad(pair, has_aux=True)({'w': x}, y=1)": "tuple[dict[str, Array], int]",
    "jax.grad(of_float)(1.0)": "Array",
    "jax.jit(jax.grad(loss))({'w': x}, 1)": "dict[str, Array]",
    "jax.jit(loss)": "Jitted[[p: dict[str, Array], y: int =], Array]",
    "jax.vmap(jax.grad(f))(x)": "Array",
    "jax.value_and_grad(f)(x)": "tuple[Array, Array]",
    "jax.value_and_grad(loss)({'w': x})": "tuple[Array, dict[str, Array]]",
    "jax.value_and_grad(pair, has_aux=True)({'w': x}, 1)": (
        "tuple[tuple[Array, int], dict[str, Array]]"
    ),
    "jax.jacfwd(f)(x)": "Array",
    "jax.jacrev(f)(x)": "Array",
    "jax.hessian(f)(x)": "Array",
    "jax.jvp(f, (x,), (x,))": "tuple[Array, Array]",
    "jax.vjp(f, x)": "tuple[Array, Pullback]",
    "jax.vjp(f, x)[1](x)": "tuple[Any, ...]",
    "jax.linearize(f, x)[1](x)": "Array",
    "jax.pmap(loss)": "Jitted[[p: dict[str, Array], y: int =], Array]",
    "jax.shard_map(f, out_specs=jax.P())(x)": "Array",
    "jax.named_call(f, name='f')(x)": "Array",
    "jax.custom_jvp(f)(x)": "Array",
    "jax.device_put({'w': x})": "dict[str, Array]",
    "jax.device_put(1.0)": "Array",
    "jax.block_until_ready(state)": "tuple[Array, Array, fallback=State]",
    "State(x, x).step(x)": "Array",
    "State.kept(x)": "Array",
    "Model(width=3, name='m')": "Model",
    "nn.Dense(3)": "Dense",
    "nn.Dense(3).features": "int",
    "nn.Dense(3).init(key, x)": "dict[str, Any]",
    "nn.Dense(3).init_with_output(key, x)": "tuple[Any, dict[str, Any]]",
    "nn.Dense(3).clone(features=4)": "Dense",
    "nn.remat(nn.Dense)(3)": "Dense",
    "nn.max_pool(x, (2,))": "Array",
    "nn.merge_param('n', 1, None)": "int",
    "nn.cond(True, f, f, key, x)": "Array",
    "nn.make_causal_mask(x)": "Array",
    "optim.adam(optim.linear_schedule(1.0, 0.0, 10)).init(x)": "Any",
    "optim.sgd(0.1).update(x, optim.sgd(0.1).init(x), x)": "tuple[Any, Any]",
    "optim.lbfgs().update(x, (), x, value=1.0, grad=x, value_fn=f)": "tuple[Any, Any]",
    "optim.squared_error(x, x)": "Array",
    "optim.apply_updates({'a': x}, {'a': x})": "dict[str, Array]",
    "optim.incremental_update(x, x, 0.1)": "Array",
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
    "jax.grad(f)('text')": "incompatible type",
    "jax.grad(f)(x, m=3)": 'keyword argument "m"',
    "jax.grad(loss)([x])": "incompatible type",
    "jax.jit(f, static_argnum=1)": "No overload variant",
    "lax.pad(x, 0)": 'Missing positional argument "padding_config"',
    "lax.iota(int, 'three')": "incompatible type",
    "optim.adam(learning_rat=0.1)": 'keyword argument "learning_rat"',
    "optim.adam('fast')": "incompatible type",
    "nn.Dense('three')": "incompatible type",
}
# Functions whose results a type checker takes for anything, and why.
VAGUE = {
    "weft.eval_shape": "tree",
    "weft.pure_callback": "tree",
    "weft.ds": "slice or traced slice",
    "weft.typeof": "type",
    "weft.numpy.load": "file",
    "weft.lax.after_all": "token",
    "weft.lax.create_token": "token",
    "weft.lax.psend": "token",
    "weft.tree.broadcast": "tree",
    "weft.tree.map_with_path": "tree",
    "weft.tree.static": "field",
    "weft.tree.transpose": "tree",
    "weft.tree.unflatten": "tree",
    "weft.linen.get_partition_spec": "tree",
    "weft.linen.get_sharding": "tree",
    "weft.linen.grad": "tree",
    "weft.linen.logical_to_mesh_sharding": "tree",
    "weft.linen.merge_lora": "tree",
    "weft.linen.unbox": "tree",
    "weft.optim.tree_map_params": "tree",
}
HEAD = """\
from typing import NamedTuple

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

def loss(p: dict[str, Array], y: int = 1) -> Array:
    return p["w"].sum() * y

def pair(p: dict[str, Array], y: int) -> tuple[Array, int]:
    return p["w"].sum(), y

def of_float(a: float) -> float:
    return a

def counted(i: int, c: Array) -> Array:
    return c

def counted_pair(i: int, c: tuple[Array, Array]) -> tuple[Array, Array]:
    return c

def step(c: Array, a: Array) -> tuple[Array, dict[str, Array]]:
    return c, {"a": a}

class State(NamedTuple):
    a: Array
    b: Array

    @jax.jit
    def step(self, c: Array) -> Array:
        return self.a + c

    @staticmethod
    @jax.jit
    def kept(c: Array) -> Array:
        return c

state = State(x, x)

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
# Packages below those, whose functions have to be annotated, too.
BELOW = "optim.tree optim.losses optim.contrib optim.projections optim.second_order linen.struct"


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
        lines += [f"import {module} as module{number}"]
        lines += [f"reveal_type(module{number}.{n})" for n in names]
    (folder / "program.py").write_text("\n".join(lines) + "\n")
    shutil.copy(CORRECT, folder)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-error-summary"]
    command += ["program.py", CORRECT.name]
    paths = {"MYPYPATH": str(ROOT.parent), "PATH": "", "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=paths)
    found = {}
    found[CORRECT.name] = [line for line in done.stdout.splitlines() if CORRECT.name in line]
    for line in done.stdout.splitlines():
        place = re.match(r"program\.py:(\d+): (.*)", line)
        if place:
            found.setdefault(lines[int(place[1]) - 1], []).append(place[2])
    assert len(found) > 1, done.stdout + done.stderr
    return found


def plain(text):
    return re.sub(r"\b(?:weft|program)\.(?:\w+\.)*", "", text)


def test_a_correct_program_has_its_types(said):
    got = {text: plain(" ".join(said.get(f"reveal_type({text})", []))) for text in KNOWN}
    want = {text: f'note: Revealed type is "{kind}"' for text, kind in KNOWN.items()}
    assert got == want


def test_correct_programs_have_no_errors(said):
    assert not said[CORRECT.name]


def test_these_programs_are_correct(capsys):
    runpy.run_path(str(CORRECT), run_name="__main__")
    assert capsys.readouterr().out


def test_mistakes_are_found(said):
    for text, wanted in WRONG.items():
        assert wanted in " ".join(said.get(text, [])), text


def test_every_public_name_is_known(said):
    listed = {k: v for k, v in said.items() if re.match(r"reveal_type\(module\d+\.|import ", k)}
    assert len(listed) > 1000
    assert not {k: v for k, v in listed.items() if not v[0].startswith("note: Revealed type is")}


def parts(text):
    """A text at its commas, but for those in brackets."""
    found, depth = [""], 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [part.strip() for part in found]


def result(text):
    """What a function gives, as the first of its overloads."""
    overloads = re.fullmatch(r"Overload\((.*)\)", text)
    first = parts(overloads[1])[0] if overloads else text
    wrapped = re.fullmatch(r"[\w.]+\[(\[.*)\]", first)
    if wrapped:
        return parts(wrapped[1])[-1]
    ends = [i for i, sign in enumerate(first) if sign == ")"]
    closing = lambda i: (
        len(re.findall(r"[(\[]", first[: i + 1])) == len(re.findall(r"[)\]]", first[: i + 1]))
    )
    return first[next(filter(closing, ends), -1) + 1 :].removeprefix(" -> ")


def test_results_are_read_from_types():
    assert result("def [T] (x: T, f: def (a: int) -> Any =) -> list[T]") == "list[T]"
    assert result("Overload(def (x: int) -> a.Array, def (x: Any) -> Any)") == "a.Array"
    assert result("a.Jitted[[x: Any, n: int =], Any]") == "Any"
    assert result("def (x: Any)") == ""


def test_functions_say_what_they_give(said):
    """``Any`` is for trees, and for results whose type is only known at run time."""
    vague = {}
    for number, module in enumerate(MODULES):
        package = importlib.import_module(module)
        for line, notes in said.items():
            name = line.removeprefix(f"reveal_type(module{number}.")[:-1]
            if not line.startswith(f"reveal_type(module{number}."):
                continue
            value = getattr(package, name)
            kind = notes[0].removeprefix('note: Revealed type is "')[:-1]
            if callable(value) and not inspect.isclass(value) and result(kind) == "Any":
                vague[f"{module}.{name}"] = kind
    assert vague.keys() == VAGUE.keys(), vague


def test_public_functions_are_annotated():
    record = json.loads((Path(__file__).parents[1] / "data" / "public_names.json").read_text())
    bare = []
    for module in (*MODULES, *(f"weft.{name}" for name in BELOW.split())):
        package = importlib.import_module(module)
        for name in record.get(module) or [n for n in dir(package) if n[0] != "_"]:
            value = getattr(package, name, None)
            if not inspect.isroutine(value) or not value.__module__.startswith("weft"):
                continue  # a class, an object with a method __call__, or NumPy's own
            signature = signature_of(value)
            given = [p.annotation for p in signature.parameters.values()]
            if inspect.Signature.empty in (*given, signature.return_annotation):
                bare.append(f"{module}.{name}{signature}")
    assert not bare


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
