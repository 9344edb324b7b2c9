"""Data parallel: every device has all parameters and a part of the batch.

Run with several devices: WEFT_NUM_CPU_DEVICES=8 python examples/parallel/data.py
"""

import transformer as one

import weft
from weft import P, lax

mesh = weft.make_mesh((weft.device_count(),), ("data",), (weft.sharding.AxisType.Auto,))


def local_step(params, tokens):
    """The step of one device: parameters are shared, so their gradients are summed for all."""
    mean = lambda params: lax.pmean(one.loss(params, tokens), "data")
    value, grads = weft.value_and_grad(mean)(params)
    return value, one.descend(params, grads)


step = weft.jit(weft.shard_map(local_step, mesh=mesh, in_specs=(P(), P("data")), out_specs=P()))


def train(i, params):
    """Step ``i``, from the parameters before it."""
    return step(one.parameters() if params is None else params, one.batch(i))


one.compare("data parallel", train)
