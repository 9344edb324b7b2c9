"""Steps of the examples: weft.linen, weft.optim and weft.train next to flax and optax on JAX.

Both libraries run the files of ``examples/``. For JAX they are loaded with its modules in the place
of weft's: jax for weft, flax.linen for weft.linen, optax for weft.optim.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from bench.rows import Program, Row, same

FOLDER = Path(__file__).parents[2] / "examples"


ARCHITECTURES = Path(__file__).parents[2] / "weft" / "linen" / "architectures"


class _Absent:
    """In the place of what flax lacks: metrics, averages, tasks, which are no part of the steps."""

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
    without = dict.fromkeys("EMA metrics writers tasks launch".split(), absent)
    train = module("weft.train", TrainState=state, **without)
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
    found["weft.train.report"] = module("weft.train.report", make_report=absent)
    found["weft.train.vocabularies"] = module("weft.train.vocabularies", ByteVocabulary=absent)
    names = ("config", "decoding", "t5_config", "t5_layers", "t5")
    found |= dict.fromkeys(f"weft.linen.architectures.{name}" for name in names)
    return found | {"weft": top}


def _gin() -> types.ModuleType:
    """In the place of gin: rows name the sizes themselves, and load an example more than once."""
    made = types.ModuleType("gin")
    made.configurable = made.external_configurable = lambda function: function  # type: ignore
    return made


def _load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if name in sys.modules:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def example(jax: Any, name: str) -> Any:
    """The module of an example, run with a library."""
    changed: dict[str, Any] = {} if jax.__name__ == "weft" else _stand_ins(jax)
    changed["gin"] = _gin()
    before = {key: sys.modules.get(key) for key in changed}
    sys.path.insert(0, str(FOLDER))
    sys.modules.update(changed)
    try:
        for key in changed:
            package, _, file = key.rpartition(".")
            if package == "weft.linen.architectures":
                _load(key, ARCHITECTURES / f"{file}.py")
        return _load(f"example_{name}", FOLDER / f"{name}.py")
    finally:
        sys.path.pop(0)
        for key, old in before.items():
            sys.modules.pop(key)
            if old is not None:
                sys.modules[key] = old


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


def t5(jax: Any) -> Program:
    m = example(jax, "t5")
    sizes = {"features": 64, "hidden": 128, "num_heads": 4, "head_dim": 16}
    config = m.T5Config(vocab_size=259, encoder_layers=2, decoder_layers=1, **sizes)
    model, lengths = m.T5(config), {"inputs": 40, "targets": 3}
    m.optimiser = functools.partial(m.optimiser, rate=3e-3, warmup=50)
    names, answers = (3 + _integers(128, 64, length) for length in lengths.values())
    batch = {"encoder_input_tokens": names, "decoder_target_tokens": answers}
    batch["decoder_input_tokens"] = np.pad(answers, ((0, 0), (1, 0)))[:, :-1]
    batch["decoder_loss_weights"] = np.ones_like(answers)
    return _step(jax, m.create_state(model, lengths, 0, 100), m.loss_of(model), (batch,))


def ppo(jax: Any) -> Program:
    m = example(jax, "ppo")
    m.CARTS, m.STEPS, m.EPOCHS, m.PARTS = 16, 32, 2, 2  # JAX takes minutes to compile the example's
    carts = jax.vmap(m.fresh)(jax.random.split(jax.random.key(1), m.CARTS))
    leaves, tree = jax.tree.flatten(m.create_state(0, 100))

    def run(leaves: Any, carts: Any, ages: Any, key: Any) -> Any:
        carry = jax.tree.unflatten(tree, leaves), carts, ages
        (state, carts, ages), length = m.round_of_learning(carry, key)
        return jax.tree.leaves(state), carts, ages, length

    ages = jax.numpy.zeros(m.CARTS, jax.numpy.int32)
    made = jax.tree.map(jax.numpy.asarray, leaves)
    return Program(run, (made, carts, ages, jax.random.key(2)), convert=False)


def sharded_transformer(jax: Any) -> Program:
    """A step on four devices: `train.make_step`, and for JAX what it does, written out."""
    m = example(jax, "sharded_transformer")
    kinds = 2 * (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((2, 2), ("data", "model"), kinds)
    tokens = _integers(m.WORDS, 32, m.LENGTH + 1)
    if jax.__name__ == "weft":
        step = m.train.make_step(m.loss, mesh=mesh, sharding=m.RULES, donate=False)
        state = step.place(m.create_state(0, 100))
        leaves = lambda *given: jax.tree.leaves(step(*given))
        return Program(leaves, (state, tokens), compiled=False, convert=False)
    optax = importlib.import_module("optax")
    P, sharding = jax.sharding.PartitionSpec, jax.sharding.NamedSharding

    def divided(path: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        specs = [spec for rule, spec in m.RULES if re.search(rule, name)]
        return sharding(mesh, specs[0] if specs and leaf.ndim > 1 else P())

    state = m.create_state(0, 100)
    places = jax.tree_util.tree_map_with_path(lambda p, x: divided(p, jax.numpy.asarray(x)), state)
    state = jax.tree.map(jax.device_put, state, places)
    rows = sharding(mesh, P("data"))

    @functools.partial(jax.jit, in_shardings=(places, rows), out_shardings=(places, None))
    def step(state: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(m.loss)(state.params, tokens)
        outputs = {"loss": value, "grad_norm": optax.global_norm(grads)}
        return state.apply_gradients(grads=grads), outputs

    leaves = lambda *given: jax.tree.leaves(step(*given))
    return Program(leaves, (state, tokens), compiled=False, convert=False)


def sweep(jax: Any) -> Program:
    m = example(jax, "sweep")
    network = m.Network(64, 2)
    params = network.init(jax.random.key(0), jax.numpy.ones((1, 64)))["params"]
    make = m.train.TrainState.create
    state = make(apply_fn=network.apply, params=params, tx=m.optim.adam(1e-2))
    batch = _draw(64, 64), _integers(10, 64)
    return _step(jax, state, m.loss_of(network), (batch,))


SHARDED = "sharded transformer, 4 devices"
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
    "T5": t5,
    "PPO, 16 carts and 32 moments": ppo,
    SHARDED: sharded_transformer,
    "sweep, one network": sweep,
}
ROWS = [
    Row(
        name,
        "a step of the example",
        same(setup),
        unit="ms",
        ratio=0.7,
        limit=120.0,
        devices=4 if name == SHARDED else 1,
    )
    for name, setup in STEPS.items()
]
