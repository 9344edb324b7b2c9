"""A network and a training that gin configures; experiments of the tests run them."""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import numpy as np

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft import optim, train

for _thing, _module in (
    (nn.Dense, "nn"),
    (nn.LayerNorm, "nn"),
    (nn.gelu, "nn"),
    (nn.relu, "nn"),
    (nn.initializers.variance_scaling, "nn.initializers"),
    (optim.adamw, "optim"),
    (optim.sgd, "optim"),
    (optim.warmup_cosine_decay_schedule, "optim"),
    (train.Keep, "train"),
    (train.data.arrays, "data"),
    (train.data.Dataset.batch, "data"),
):
    gin.external_configurable(_thing, module=_module)
gin.constant("jnp.bfloat16", jnp.bfloat16)


@gin.configurable
class Network(nn.Module):
    widths: Sequence[int]
    activation: Callable = nn.relu
    layer: Any = nn.Dense

    @nn.compact
    def __call__(self, x):
        for width in self.widths:
            x = self.activation(self.layer(features=width)(x))
        return self.layer(features=1, name="head")(x)


@gin.configurable
def inputs(count, columns=3):
    return {"x": np.ones((count, columns), np.float32)}


@gin.configurable
def fit(run, model, tx, data, steps=2, keep=None):
    """A loop of which gin decides everything."""
    batches = iter(data.repeat())
    params = model.init(weft.random.key(0), next(batches)["x"])["params"]
    state = train.TrainState.create(apply_fn=model.apply, params=params, tx=tx)
    step = train.make_step(lambda params, x: (model.apply({"params": params}, x) ** 2).mean())
    losses = []
    for _ in range(steps):
        state, outputs = step(state, next(batches)["x"])
        losses.append(float(outputs["loss"]))
    shapes = weft.tree.map(lambda leaf: list(leaf.shape), state.params)
    return {"shapes": shapes, "losses": losses, "keep": repr(keep)}
