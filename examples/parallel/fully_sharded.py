"""Fully sharded: every device keeps a part of each parameter and has a part of the batch.

A parameter is gathered where it is used; the transpose of that sums its gradient over the devices
and leaves each with its own part (as ZeRO-3 does).

Run with several devices: WEFT_NUM_CPU_DEVICES=8 python examples/parallel/fully_sharded.py
"""

import transformer as one

import weft
from weft import P, lax

mesh = weft.make_mesh((weft.device_count(),), ("data",), (weft.sharding.AxisType.Auto,))


def gathered(params):
    """All parameters whole, from the rows that each device keeps."""
    return weft.tree.map(lambda p: lax.all_gather(p, "data", tiled=True), params)


def local_step(params, tokens):
    """The step of one device on its rows of the parameters."""

    def loss(params):
        # each device's loss is its share of the mean; the gradients of all of them are summed
        return one.loss(gathered(params), tokens) / lax.axis_size("data")

    value, grads = weft.value_and_grad(loss)(params)
    return lax.psum(value, "data"), one.descend(params, grads)


step = weft.jit(
    weft.shard_map(
        local_step, mesh=mesh, in_specs=(P("data"), P("data")), out_specs=(P(), P("data"))
    )
)


def train(i, params):
    """Step ``i``, from the parameters before it."""
    return step(one.parameters() if params is None else params, one.batch(i))


one.compare("fully sharded", train)
