"""Programs for ``reproducible``: each gives the same bits on every processor.

Run as a module, it prints the digest of each as JSON; ``--record`` writes the record.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

import weft
from weft import lax, random
from weft import numpy as jnp
from weft.base import knobs

RECORD = Path(__file__).parent.parent / "data" / "reproducible.json"


def floats(*shape, dtype=np.float32, step=7919):
    """Numbers between -2 and 2 that are the same on every machine."""
    size = int(np.prod(shape))
    found = (np.arange(size, dtype=np.int64) * step % 100003) / 25000.75 - 2.0
    return found.reshape(shape).astype(dtype)


def complexes(*shape):
    return (floats(*shape) + 1j * floats(*shape, step=104729)).astype(np.complex64)


def model(w, x):
    h = jnp.tanh(x @ w["in"] + w["bias"])
    h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
    return weft.nn.log_softmax(h @ w["out"])


def loss(w, x):
    return -jnp.mean(model(w, x)[:, 0])


def weights():
    return {"in": floats(33, 50) / 4, "bias": floats(50), "out": floats(50, 7, step=31) / 4}


def attention(q, k, v):
    return weft.nn.softmax(q @ k.T / 8.0) @ v


def conv(x, w):
    return lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


# Layouts of convolutions; and channels, groups, sides of windows, strides, dilations of the input
# and of the window. With few channels of the result, vectors lie along space or the batch.
LAYOUTS = (("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("CHWN", "IHWO", "CHWN"))
CONVOLUTIONS = [
    (4, 1, 1, 3, 1, 1, 1),
    (4, 2, 1, 3, 1, 1, 1),
    (17, 3, 1, 3, 1, 1, 1),
    (1, 3, 1, 5, 1, 1, 1),
    (6, 4, 2, 3, 1, 1, 1),
    (5, 5, 5, 3, 2, 1, 2),
    (8, 2, 1, 3, 1, 2, 1),
    (3, 20, 1, 4, 4, 1, 1),
    (20, 17, 1, 1, 1, 1, 1),
]


def convolutions(layout, batch=slice(0, 13)):
    """The results of convolutions in a layout, the batch first."""
    images, kernels, results = layout
    found = []
    for features, outputs, groups, side, stride, dilation, holes in CONVOLUTIONS:
        x = floats(13, 9, 8, features)[batch]
        w = floats(side, side, features // groups, outputs, step=31)
        given = [
            jnp.asarray(a.transpose([names.index(n) for n in spec]))
            for a, names, spec in ((x, "NHWC", images), (w, "HWIO", kernels))
        ]
        fun = lambda x, w, s=stride, d=dilation, h=holes, g=groups: lax.conv_general_dilated(
            x, w, (s, s), [(w.shape[kernels.index("H")] // 2,) * 2] * 2, (d, d), (h, h), layout, g
        )
        found.append(jnp.moveaxis(weft.jit(fun)(*given), results.index("N"), 0))
    return found


def pool(x):
    return lax.reduce_window(x, np.float32(0), lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def recurrent(x):
    return lax.scan(lambda c, r: (jnp.tanh(c @ x + r), c.sum()), x[0], x)


X = floats(1001)
ELEMENTWISE = "exp log1p sin cos tanh arctan expm1 sinh cbrt".split()
CASES = {
    **{name: (getattr(jnp, name), (X,)) for name in ELEMENTWISE},
    "log": (lambda x: jnp.log(x + 2.5), (X,)),
    "erf": (weft.scipy.special.erf, (X,)),
    "lgamma": (lambda x: lax.lgamma(x + 3), (X,)),
    "power": (lambda x: jnp.abs(x) ** 1.7, (X,)),
    "tiny": (lambda x: x * 1e-38 * 0.3, (X,)),
    "bfloat16": (lambda x: weft.nn.gelu(x), (X.astype(jnp.bfloat16),)),
    "sum": (jnp.sum, (floats(100003),)),
    "sum of rows": (lambda x: jnp.sum(x, 1), (floats(37, 129),)),
    "sum of columns": (lambda x: jnp.sum(x, 0), (floats(129, 37),)),
    "sum of two axes": (lambda x: jnp.sum(x, (0, 2)), (floats(9, 10, 11),)),
    "sum in bfloat16": (jnp.sum, (floats(999).astype(jnp.bfloat16),)),
    "variance": (lambda x: jnp.var(x, 1), (floats(37, 129),)),
    "product": (jnp.prod, (floats(33),)),
    "cumsum": (lambda x: jnp.cumsum(x, 1), (floats(5, 100),)),
    "logsumexp": (lambda x: weft.scipy.special.logsumexp(x, 1), (floats(37, 129),)),
    "softmax": (weft.nn.softmax, (floats(37, 129),)),
    "norm": (jnp.linalg.norm, (floats(777),)),
    "dot": (jnp.dot, (floats(1000), floats(1000, step=31))),
    "matrix and vector": (jnp.dot, (floats(60, 301), floats(301, step=31))),
    "matmul": (jnp.dot, (floats(67, 301), floats(301, 41, step=31))),
    "matmul, transposed": (lambda x, y: x @ y.T, (floats(67, 301), floats(41, 301, step=31))),
    "small matmul": (jnp.dot, (floats(3, 4), floats(4, 5, step=31))),
    "batch of products": (jnp.matmul, (floats(70, 3, 4), floats(70, 4, 5, step=31))),
    "long matmul": (jnp.dot, (floats(5, 9001), floats(9001, 3, step=31))),
    "bfloat16 matmul": (
        jnp.dot,
        (floats(64, 96).astype(jnp.bfloat16), floats(96, 32, step=31).astype(jnp.bfloat16)),
    ),
    "complex matmul": (jnp.dot, (complexes(17, 40), complexes(40, 9))),
    "convolution": (conv, (floats(3, 12, 12, 3), floats(3, 3, 3, 8, step=31))),
    **{f"convolutions, {layout[0]}": (lambda d=layout: convolutions(d), ()) for layout in LAYOUTS},
    "windows": (pool, (floats(3, 12, 12, 3),)),
    "attention": (attention, (floats(20, 64), floats(30, 64, step=31), floats(30, 64, step=17))),
    "uniform": (lambda: random.uniform(random.key(7), (1001,)), ()),
    "normal": (lambda: random.normal(random.key(7), (1001,)), ()),
    "categorical": (lambda x: random.categorical(random.key(7), x), (floats(50, 20),)),
    "model": (model, (weights(), floats(19, 33, step=17))),
    "gradient": (weft.grad(loss), (weights(), floats(19, 33, step=17))),
    "loop": (recurrent, (floats(20, 20),)),
}


def bits(tree):
    return b"".join(np.asarray(x).tobytes() for x in weft.tree.leaves(tree))


def digest(name):
    fun, args = CASES[name]
    return hashlib.sha256(bits(weft.jit(fun)(*args))).hexdigest()[:32]


def digests():
    """The digest of every case."""
    with knobs.scope(reproducible=True):
        return {name: digest(name) for name in CASES}


if __name__ == "__main__":
    found = digests()
    if "--record" in sys.argv:
        RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    else:
        print(json.dumps(found))
