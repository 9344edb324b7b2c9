"""Pipeline: every device has one layer, and parts of the batch pass from one to the next.

Run with several devices: WEFT_NUM_CPU_DEVICES=2 python examples/parallel/pipeline.py
"""

import transformer as one

import weft
import weft.numpy as jnp
from weft import P, lax

STAGES, PIECES = one.LAYERS, 4
AUTO = (weft.sharding.AxisType.Auto,)
mesh = weft.make_mesh((STAGES,), ("stage",), AUTO, devices=weft.devices()[:STAGES])
SPECS = {"embed": P(), "layers": P("stage"), "last": P()}
NEXT = [(i, i + 1) for i in range(STAGES - 1)]


def loss(params, tokens):
    """The loss: in each round a stage works on what the one before it made in the last round."""
    stage = lax.axis_index("stage")
    layer = weft.tree.map(lambda p: p[0], params["layers"])
    pieces = params["embed"][tokens[:, :-1]].reshape(PIECES, -1, one.LENGTH, one.WIDTH)

    def turn(held, i):
        fresh = pieces[jnp.minimum(i, PIECES - 1)]
        made = one.block(layer, jnp.where(stage == 0, fresh, held))
        return lax.ppermute(made, "stage", NEXT), made

    start = lax.pcast(jnp.zeros_like(pieces[0]), "stage", to="varying")
    _, made = lax.scan(turn, start, jnp.arange(PIECES + STAGES - 1))
    # what the last stage made in its rounds; the others give nothing
    last = jnp.where(stage == STAGES - 1, made[STAGES - 1 :], 0)
    x = lax.psum(last, "stage").reshape(one.BATCH, one.LENGTH, one.WIDTH)
    return one.cross_entropy(one.normalized(x) @ params["last"], tokens[:, 1:])


def local_step(params, tokens):
    """The step of one stage."""
    value, grads = weft.value_and_grad(loss)(params, tokens)
    return value, one.descend(params, grads)


step = weft.jit(
    weft.shard_map(local_step, mesh=mesh, in_specs=(SPECS, P()), out_specs=(P(), SPECS))
)


def stacked(params):
    """Parameters with the layers stacked, one for each stage."""
    layers = weft.tree.map(lambda *ps: jnp.stack(ps), *params["layers"])
    return {**params, "layers": layers}


def unstacked(params):
    """The same with a list of layers again."""
    layers = [weft.tree.map(lambda p, i=i: p[i], params["layers"]) for i in range(STAGES)]
    return {**params, "layers": layers}


def train(i, params):
    """Step ``i``, from the parameters before it."""
    value, params = step(stacked(one.parameters() if params is None else params), one.batch(i))
    return value, unstacked(params)


one.compare("pipeline", train)
