"""Tensor parallel: every device has some heads and some inner features of each layer.

Products that make features are divided by columns, those that use them up by rows; one sum over
the devices for each gives whole features again.

Run with several devices: WEFT_NUM_CPU_DEVICES=4 python examples/parallel/tensor.py
"""

import transformer as one

import weft
from weft import P, lax

COUNT = min(weft.device_count(), one.HEADS)
mesh = weft.make_mesh((COUNT,), ("model",), (weft.sharding.AxisType.Auto,))
COLUMNS, ROWS = P(None, "model"), P("model")
LAYER = {
    "query": COLUMNS,
    "key": COLUMNS,
    "value": COLUMNS,
    "up": COLUMNS,
    "out": ROWS,
    "down": ROWS,
}
SPECS = {"embed": P(), "layers": [LAYER] * one.LAYERS, "last": P()}


def block(layer, x):
    """One layer, of which this device has a part."""
    mixed = one.attention(layer, one.normalized(x), one.HEADS // COUNT)
    x = x + lax.psum(mixed, "model")
    return x + lax.psum(one.feed_forward(layer, one.normalized(x)), "model")


def loss(params, tokens):
    """The loss, the same on all devices."""
    x = params["embed"][tokens[:, :-1]]
    for layer in params["layers"]:
        x = block(layer, x)
    return one.cross_entropy(one.normalized(x) @ params["last"], tokens[:, 1:])


def local_step(params, tokens):
    """The step of one device."""
    value, grads = weft.value_and_grad(loss)(params, tokens)
    return value, one.descend(params, grads)


step = weft.jit(
    weft.shard_map(local_step, mesh=mesh, in_specs=(SPECS, P()), out_specs=(P(), SPECS))
)


def train(i, params):
    """Step ``i``, from the parameters before it."""
    return step(one.parameters() if params is None else params, one.batch(i))


one.compare("tensor parallel", train)
