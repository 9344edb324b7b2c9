"""A small transformer in plain functions, and one step of training it on one device.

The examples beside it run on several devices of one process, or, with the argument ``mpi``, on
those of several: mpiexec -n 2 python examples/parallel/data.py mpi
"""

import sys

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax
from weft.experimental import multihost_utils

if "mpi" in sys.argv:
    weft.distributed.initialize()

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 32, 16, 4, 2, 8, 8
RATE = 0.05


def parameters(seed=0):
    """Weights of the network, from a fixed seed."""
    rng = np.random.default_rng(seed)

    def weight(*shape):
        return jnp.asarray(rng.standard_normal(shape).astype(np.float32) / np.sqrt(shape[0]))

    layer = lambda: {
        "query": weight(WIDTH, WIDTH),
        "key": weight(WIDTH, WIDTH),
        "value": weight(WIDTH, WIDTH),
        "out": weight(WIDTH, WIDTH),
        "up": weight(WIDTH, 4 * WIDTH),
        "down": weight(4 * WIDTH, WIDTH),
    }
    layers = [layer() for _ in range(LAYERS)]
    return {"embed": weight(VOCABULARY, WIDTH), "layers": layers, "last": weight(WIDTH, VOCABULARY)}


def batch(seed=0):
    """Rows of tokens."""
    return jnp.asarray(np.random.default_rng(seed).integers(0, VOCABULARY, (BATCH, LENGTH + 1)))


def normalized(x):
    """Features of mean 0 and variance 1."""
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def attention(layer, x, heads=HEADS):
    """Causal self-attention; the heads may be some of them."""
    rows, length, _ = x.shape
    split = lambda y: y.reshape(rows, length, heads, -1)
    q, k, v = (split(x @ layer[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones((length, length), bool))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weft.nn.softmax(jnp.where(mask, scores, -1e9)), v)
    return mixed.reshape(rows, length, -1) @ layer["out"]


def feed_forward(layer, x):
    """Two products with a nonlinearity between them; the inner features may be some of them."""
    return weft.nn.gelu(x @ layer["up"]) @ layer["down"]


def block(layer, x):
    """One layer."""
    x = x + attention(layer, normalized(x))
    return x + feed_forward(layer, normalized(x))


def cross_entropy(logits, targets):
    """The mean of the negative logarithms of what the targets were given."""
    picked = jnp.take_along_axis(weft.nn.log_softmax(logits), targets[..., None], -1)
    return -picked.mean()


def loss(params, tokens):
    """How badly the next tokens are predicted."""
    x = params["embed"][tokens[:, :-1]]
    for layer in params["layers"]:
        x = block(layer, x)
    return cross_entropy(normalized(x) @ params["last"], tokens[:, 1:])


def descend(params, grads):
    """Parameters after a step down the gradient."""
    return weft.tree.map(lambda p, g: p - RATE * g, params, grads)


@weft.jit
def step(params, tokens):
    """One step on one device: the loss and the new parameters."""
    value, grads = weft.value_and_grad(loss)(params, tokens)
    return value, descend(params, grads)


def whole(x):
    """All values of an array, of which this process may have a part."""
    gather = lambda x: multihost_utils.process_allgather(x, tiled=True)
    return np.asarray(x if x.is_fully_addressable else gather(x))


def compare(name, other, steps=3):
    """Train both ways and say how far apart they are."""
    params, theirs = parameters(), None
    for i in range(steps):
        value, params = step(params, batch(i))
        found, theirs = other(i, theirs)
        apart = abs(float(value) - float(found))
        assert apart < 1e-5, (name, i, float(value), float(found))
    leaves = zip(weft.tree.leaves(params), map(whole, weft.tree.leaves(theirs)), strict=True)
    apart = max(float(np.abs(a - b).max()) for a, b in leaves)
    assert apart < 1e-5, (name, apart)
    print(f"{name}: loss {float(value):.4f}, parameters within {apart:.1e}")
