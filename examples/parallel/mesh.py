"""A mesh of two axes: the batch is divided over one, heads and features over the other.

Run with several devices: WEFT_NUM_CPU_DEVICES=8 python examples/parallel/mesh.py
"""

import transformer as one

import weft
from weft import P, lax

COUNT = min(weft.device_count() // 2 or 1, one.HEADS)
SHAPE = (weft.device_count() // COUNT, COUNT)
mesh = weft.make_mesh(SHAPE, ("data", "model"), (weft.sharding.AxisType.Auto,) * 2)
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


def loss(params, tokens):
    """The mean over the batch of all devices."""
    x = params["embed"][tokens[:, :-1]]
    for layer in params["layers"]:
        mixed = one.attention(layer, one.normalized(x), one.HEADS // COUNT)
        x = x + lax.psum(mixed, "model")
        x = x + lax.psum(one.feed_forward(layer, one.normalized(x)), "model")
    value = one.cross_entropy(one.normalized(x) @ params["last"], tokens[:, 1:])
    return lax.pmean(value, "data")


def local_step(params, tokens):
    """The step of one device."""
    value, grads = weft.value_and_grad(loss)(params, tokens)
    return value, one.descend(params, grads)


step = weft.jit(
    weft.shard_map(local_step, mesh=mesh, in_specs=(SPECS, P("data")), out_specs=(P(), SPECS))
)


def train(i, params):
    """Step ``i``, from the parameters before it."""
    return step(one.parameters() if params is None else params, one.batch(i))


one.compare("mesh of two axes", train)
