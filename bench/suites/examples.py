"""Steps of the examples: weft.linen, weft.optim and weft.train next to flax and optax on JAX.

Both libraries run the files of ``examples/``. For JAX they are loaded with its modules in the place
of weft's: jax for weft, flax.linen for weft.linen, optax for weft.optim.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from bench.rows import Program, Row, same

FOLDER = Path(__file__).parents[2] / "examples"


class _Absent:
    """In the place of what flax lacks: metrics and averages, which are no part of these steps."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return None


def _stand_ins(jax: Any) -> dict[str, Any]:
    """JAX's modules under weft's names."""

    def module(name: str, **members: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__dict__.update(members)
        return made

    load = importlib.import_module
    state = load("flax.training.train_state").TrainState
    absent = _Absent()
    absent.__dict__["Collection"] = types.SimpleNamespace(create=lambda **_: absent)
    train = module("weft.train", TrainState=state, EMA=absent, metrics=absent, writers=absent)
    parts = {
        "numpy": jax.numpy,
        "lax": jax.lax,
        "linen": load("flax.linen"),
        "optim": load("optax"),
        "train": train,
    }
    top = module("weft", **parts)
    top.__getattr__ = lambda name: getattr(jax, name)
    others = {"experimental.ode": "jax.experimental.ode", "scipy.linalg": "jax.scipy.linalg"}
    found = {f"weft.{name}": part for name, part in parts.items()}
    found |= {f"weft.{name}": load(other) for name, other in others.items()}
    return found | {"weft": top}


def example(jax: Any, name: str) -> Any:
    """The module of an example, run with a library."""
    changed = {} if jax.__name__ == "weft" else _stand_ins(jax)
    before = {key: sys.modules.get(key) for key in changed}
    sys.path.insert(0, str(FOLDER))
    sys.modules.update(changed)
    try:
        spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
        for key, old in before.items():
            sys.modules.pop(key)
            if old is not None:
                sys.modules[key] = old
    return module


def _step(jax: Any, state: Any, loss: Any, batch: Any, has_aux: bool = False) -> Program:
    """Loss, gradient and update, from the leaves of a state to those of the next."""
    leaves, tree = jax.tree.flatten(state)

    def run(leaves: Any, *batch: Any) -> Any:
        state = jax.tree.unflatten(tree, leaves)
        value, grads = jax.value_and_grad(loss, has_aux=has_aux)(state.params, *batch)
        new = state.apply_gradients(grads=grads)
        return (value[0] if has_aux else value), jax.tree.leaves(new)

    convert = lambda x: jax.tree.map(jax.numpy.asarray, x)
    return Program(run, (convert(leaves), *convert(batch)), convert=False)


def _draw(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).standard_normal(shape).astype(np.float32)


def _integers(most: int, *shape: int) -> np.ndarray:
    return np.random.RandomState(1).randint(0, most, shape).astype(np.int32)


def digits_mlp(jax: Any) -> Program:
    m = example(jax, "digits_mlp")
    batch = {"image": _draw(64, 64), "label": _integers(10, 64)}
    return _step(jax, m.create_state(0, 100), m.loss, (batch,), has_aux=True)


def digits_cnn(jax: Any) -> Program:
    m = example(jax, "digits_cnn")
    batch = {"image": _draw(64, 8, 8, 1), "label": _integers(10, 64)}
    return _step(jax, m.create_state(0, 100), m.loss, (batch, jax.random.key(0)))


def resnet(jax: Any) -> Program:
    m = example(jax, "resnet")
    leaves, tree = jax.tree.flatten(m.create_state(0, 100))

    def run(leaves: Any, images: Any, labels: Any) -> Any:
        state, value = m.step(jax.tree.unflatten(tree, leaves), images, labels)
        return value, jax.tree.leaves(state)

    made = jax.tree.map(jax.numpy.asarray, (leaves, _draw(64, 32, 32, 1), _integers(10, 64)))
    return Program(run, made, convert=False)


def vit(jax: Any) -> Program:
    m = example(jax, "vit")
    batch = {"image": _draw(64, 8, 8, 1), "label": _integers(10, 64)}
    return _step(jax, m.create_state(0, 100), m.loss, (batch,))


def seq2seq(jax: Any) -> Program:
    m = example(jax, "seq2seq")
    batch = _integers(10, 128, m.QUESTION), _integers(10, 128, m.ANSWER)
    return _step(jax, m.create_state(0, 100), m.loss, (batch,))


def tagging(jax: Any) -> Program:
    m = example(jax, "tagging")
    letters = 1 + _integers(m.LETTERS - 1, 64, m.LENGTH)
    tags = _integers(len(m.TAGS), 64, m.LENGTH)
    return _step(jax, m.create_state(0, 100), m.loss, ((letters, tags),))


def graph(jax: Any) -> Program:
    m = example(jax, "graph")
    met, sides = m.club()
    mix = jax.numpy.asarray(m.normalised(met))
    keys = jax.random.split(jax.random.key(0), 20)
    states = jax.vmap(m.create_state, (0, None))(keys, mix)
    leaves, tree = jax.tree.flatten(states)

    def run(leaves: Any, mix: Any, sides: Any) -> Any:
        states = jax.tree.unflatten(tree, leaves)
        states, values = jax.vmap(m.step, (0, None, None))(states, mix, sides)
        return values, jax.tree.leaves(states)

    return Program(run, (leaves, mix, jax.numpy.asarray(sides)), convert=False)


def language_model(jax: Any) -> Program:
    m = example(jax, "language_model")
    return _step(jax, m.create_state(0, 100), m.loss, (_integers(m.WORDS, 16, m.LENGTH + 1),))


def vae(jax: Any) -> Program:
    m = example(jax, "vae")
    x = np.float32(_draw(128, 64) > 0)
    return _step(jax, m.create_state(0, 100), m.loss, (x, jax.random.key(0)))


def diffusion(jax: Any) -> Program:
    m = example(jax, "diffusion")
    batch = _draw(64, 8, 8, 1), _integers(10, 64)
    return _step(jax, m.create_state(0, 100), m.loss, (batch, jax.random.key(0)))


def neural_ode(jax: Any) -> Program:
    m = example(jax, "neural_ode")
    times = np.linspace(0, 1, 20, dtype=np.float32)
    batch = 0.5 * _draw(20, 2), times, 0.5 * _draw(20, 20, 2)
    return _step(jax, m.create_state(0, 100), m.loss, (batch,))


def gaussian_process(jax: Any) -> Program:
    m = example(jax, "gaussian_process")
    sizes = {"size": np.float32(-0.3), "linear": np.float32(-1.5), "noise": np.float32(-0.3)}
    params = sizes | {"length": np.full(10, 1.5, np.float32)}
    return Program(jax.value_and_grad(m.loss), (params, _draw(331, 10), _draw(331)))


def hmc(jax: Any) -> Program:
    m = example(jax, "hmc")
    size = np.float32(0.4)

    def run(key: Any, z: Any) -> Any:
        return m.sample(key, z, size, 10)

    z = jax.numpy.asarray(_draw(400, 10))
    return Program(run, (jax.random.key(0), z), convert=False)


STEPS = {
    "digits MLP": digits_mlp,
    "digits CNN": digits_cnn,
    "ResNet": resnet,
    "ViT": vit,
    "LSTM seq2seq": seq2seq,
    "tagging, bidirectional LSTM": tagging,
    "graph network, 20 at once": graph,
    "language model": language_model,
    "VAE": vae,
    "diffusion": diffusion,
    "neural ODE": neural_ode,
    "Gaussian process": gaussian_process,
    "Hamiltonian Monte Carlo, 10 moves": hmc,
}
ROWS = [
    Row(
        name,
        "a step of the example",
        same(setup),
        unit="ms",
        ratio=0.7,
        limit=120.0,
    )
    for name, setup in STEPS.items()
]
