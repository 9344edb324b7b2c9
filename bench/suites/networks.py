"""Networks written with modules and optimisers: weft.linen and weft.optim, flax and optax on JAX.

Both libraries run the same modules from the same keys; torch has the same layers of its own. A step
is forward, backward and update.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from bench.rows import Program, Row, same
from bench.suites import torch_networks


def _parts(jax: Any) -> tuple[Any, Any]:
    """Layers and optimisers of a library."""
    ours = jax.__name__ == "weft"
    names = ("weft.linen", "weft.optim") if ours else ("flax.linen", "optax")
    nn, optim = (importlib.import_module(name) for name in names)
    return nn, optim


def _images(*shape: int) -> Any:
    """A function that makes a batch and its labels."""

    def make() -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.RandomState(0)
        x = rng.standard_normal(shape).astype(np.float32)
        return x, rng.randint(0, 10, shape[0]).astype(np.int32)

    return make


def _tokens() -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.RandomState(0).randint(0, 1000, (4, 65)).astype(np.int32)
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


MLP_DATA, RESNET_DATA = _images(128, 784), _images(8, 32, 32, 3)
LSTM_DATA, VIT_DATA = _images(32, 50, 64), _images(16, 32, 32, 3)


def mlp(jax: Any) -> tuple[Any, Any]:
    nn, _ = _parts(jax)

    class MLP(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (512, 512, 256):
                x = nn.relu(nn.Dense(width)(x))
            return nn.Dense(10)(x)

    return MLP(), MLP_DATA()


def resnet(jax: Any) -> tuple[Any, Any]:
    nn, _ = _parts(jax)

    class Block(nn.Module):
        width: int
        stride: int

        @nn.compact
        def __call__(self, x):
            norm = lambda: nn.BatchNorm(use_running_average=False, momentum=0.9)
            conv = lambda w, k, s=1: nn.Conv(w, (k, k), strides=s, use_bias=False)
            y = nn.relu(norm()(conv(self.width, 3, self.stride)(x)))
            y = norm()(conv(self.width, 3)(y))
            if x.shape != y.shape:
                x = norm()(conv(self.width, 1, self.stride)(x))
            return nn.relu(x + y)

    class ResNet(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(64, (3, 3), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(x))
            for stage, width in enumerate((64, 128, 256, 512)):
                for i in range(2):
                    x = Block(width, 2 if i == 0 and stage else 1)(x)
            return nn.Dense(10)(x.mean((1, 2)))

    return ResNet(), RESNET_DATA()


def transformer(layers: int) -> Any:
    def make(jax: Any) -> tuple[Any, Any]:
        nn, _ = _parts(jax)

        class Block(nn.Module):
            @nn.compact
            def __call__(self, x, mask):
                x = x + nn.MultiHeadDotProductAttention(8)(nn.LayerNorm()(x), mask=mask)
                h = nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
                return x + nn.Dense(x.shape[-1])(h)

        class Transformer(nn.Module):
            @nn.compact
            def __call__(self, tokens):
                x = nn.Embed(1000, 256)(tokens)
                mask = nn.make_causal_mask(tokens)
                for _ in range(layers):
                    x = Block()(x, mask)
                return nn.Dense(1000)(nn.LayerNorm()(x))

        return Transformer(), _tokens()

    return make


def lstm(jax: Any) -> tuple[Any, Any]:
    nn, _ = _parts(jax)

    class LSTM(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(2):
                x = nn.RNN(nn.OptimizedLSTMCell(128))(x)
            return nn.Dense(10)(x[:, -1])

    return LSTM(), LSTM_DATA()


def vit(jax: Any) -> tuple[Any, Any]:
    nn, _ = _parts(jax)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            h = nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x)))
            return x + nn.Dense(x.shape[-1])(h)

    class ViT(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(128, (4, 4), strides=(4, 4), padding="VALID")(x)
            x = x.reshape(x.shape[0], -1, x.shape[-1])
            x = x + self.param("position", nn.initializers.normal(0.02), (1, *x.shape[1:]))
            for _ in range(4):
                x = Block()(x)
            return nn.Dense(10)(nn.LayerNorm()(x).mean(1))

    return ViT(), VIT_DATA()


NETWORKS = {
    "MLP": mlp,
    "ResNet-18 (32×32)": resnet,
    "transformer of 2": transformer(2),
    "transformer of 12": transformer(12),
    "LSTM": lstm,
    "ViT": vit,
}
TORCH = {
    "MLP": (torch_networks.mlp, MLP_DATA),
    "ResNet-18 (32×32)": (torch_networks.resnet, RESNET_DATA),
    "transformer of 2": (torch_networks.transformer(2), _tokens),
    "transformer of 12": (torch_networks.transformer(12), _tokens),
    "LSTM": (torch_networks.lstm, LSTM_DATA),
    "ViT": (torch_networks.vit, VIT_DATA),
}


def by_hand(jax: Any) -> Any:
    """The transformer as a function of its parameters, without modules."""
    jnp, nn = jax.numpy, jax.nn

    def dense(p: Any, x: Any) -> Any:
        return x @ p["kernel"] + p["bias"]

    def norm(p: Any, x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        spread = jnp.maximum(0, (x * x).mean(-1, keepdims=True) - mean * mean)
        return (x - mean) * (jax.lax.rsqrt(spread + 1e-6) * p["scale"]) + p["bias"]

    def attend(p: Any, x: Any, mask: Any) -> Any:
        q, k, v = (
            jnp.einsum("bld,dhk->blhk", x, p[name]["kernel"]) + p[name]["bias"]
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("bqhk,bmhk->bhqm", q / np.sqrt(q.shape[-1]).astype(np.float32), k)
        weights = nn.softmax(jnp.where(mask, scores, jnp.finfo(jnp.float32).min))
        mixed = jnp.einsum("bhqm,bmhk->bqhk", weights, v)
        return jnp.einsum("bqhk,hkd->bqd", mixed, p["out"]["kernel"]) + p["out"]["bias"]

    def apply(params: Any, tokens: Any) -> Any:
        x = params["Embed_0"]["embedding"][tokens]
        length = tokens.shape[1]
        mask = jnp.arange(length)[:, None] >= jnp.arange(length)
        for name in [name for name in params if name.startswith("Block")]:
            p = params[name]
            h = norm(p["LayerNorm_0"], x)
            x = x + attend(p["MultiHeadDotProductAttention_0"], h, mask)
            h = nn.gelu(dense(p["Dense_0"], norm(p["LayerNorm_1"], x)))
            x = x + dense(p["Dense_1"], h)
        return dense(params["Dense_0"], norm(params["LayerNorm_0"], x))

    return apply


def step(make: Any, function: Any = None) -> Any:
    """A training step with AdamW: loss, parameters and states; of a function without modules, if
    one is given."""

    def setup(jax: Any) -> Program:
        _, optim = _parts(jax)
        model, (x, y) = make(jax)
        plain = function and function(jax)
        variables = jax.jit(model.init)(jax.random.key(0), x)
        variables = jax.tree.map(np.asarray, variables)
        params, rest = variables["params"], {k: v for k, v in variables.items() if k != "params"}
        tx = optim.adamw(1e-3)
        state = jax.tree.map(np.asarray, tx.init(jax.tree.map(jax.numpy.asarray, params)))
        leaves, tree = jax.tree.flatten(state)

        def run(params: Any, rest: Any, state: Any, x: Any, y: Any) -> Any:
            def loss(params: Any) -> Any:
                if plain:
                    logits, changed = plain(params, x), {}
                else:
                    logits, changed = model.apply({"params": params, **rest}, x, mutable=list(rest))
                logs = jax.nn.log_softmax(logits)
                hits = jax.numpy.take_along_axis(logs, y[..., None], axis=-1)
                return -jax.numpy.mean(hits), changed

            (value, changed), grads = jax.value_and_grad(loss, has_aux=True)(params)
            states = jax.tree.unflatten(tree, state)
            updates, states = tx.update(grads, states, params)
            return value, optim.apply_updates(params, updates), changed, jax.tree.leaves(states)

        return Program(run, (params, rest, leaves, x, y))

    return setup


def trace_of(setup: Any) -> Any:
    """The tracing of a step, again each time."""

    def traced(jax: Any) -> Any:
        program = setup(jax)
        return lambda: jax.make_jaxpr(lambda *args: program.function(*args))(*program.args)

    return traced


def init_of(make: Any) -> Any:
    """Parameters of a network, outside of jit."""

    def setup(jax: Any) -> Any:
        model, (x, _) = make(jax)
        x, key = jax.numpy.asarray(x), jax.random.key(0)
        return lambda: jax.block_until_ready(model.init(key, x))

    return setup


def eager_layers(jax: Any) -> Any:
    """A call of twenty small layers, outside of jit."""
    nn, _ = _parts(jax)

    class Layers(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(20):
                x = nn.Dense(8)(x)
            return x

    x = jax.numpy.ones((4, 8))
    variables = Layers().init(jax.random.key(0), x)
    return lambda: Layers().apply(variables, x)


# The same step with modules and without.
_WAYS = {"modules": step(transformer(2)), "by hand": step(transformer(2), by_hand)}

ROWS = [
    *(
        Row(
            name,
            "one step of AdamW",
            same(step(make)) | {"torch": torch_networks.step(*TORCH[name])},
            unit="ms",
            ratio=0.7,
            limit=120.0,
        )
        for name, make in NETWORKS.items()
    ),
    *(
        Row(
            f"first call: {name}",
            "the first step in a new process, with an empty cache",
            same(step(make)),
            kind="cold",
            unit="ms",
            ratio=0.3,
            limit=180.0,
        )
        for name, make in NETWORKS.items()
    ),
    *(
        Row(
            f"peak: {name}",
            "resident memory of a process that makes three steps",
            same(step(make)),
            kind="peak",
            unit="MB",
            ratio=0.8,
            limit=180.0,
        )
        for name, make in NETWORKS.items()
    ),
    Row(
        "init: transformer of 12",
        "parameters from a key, outside of jit",
        same(init_of(transformer(12))),
        unit="ms",
        ratio=0.3,
        limit=60.0,
    ),
    Row(
        "apply: a small Dense layer",
        "outside of jit, a layer",
        same(eager_layers),
        per=20,
        budget=35.0,
    ),
    *(
        Row(
            f"trace: transformer of 2, {way}",
            "a step, traced",
            same(trace_of(setup)),
            unit="ms",
            ratio=1.0,
        )
        for way, setup in _WAYS.items()
    ),
    *(
        Row(
            f"run: transformer of 2, {way}",
            "a step, compiled",
            same(setup),
            unit="ms",
            ratio=1.0,
            limit=60.0,
        )
        for way, setup in _WAYS.items()
    ),
]
