"""Where results are on two devices, in a process that has as many."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np
import weft
import weft.numpy as jnp

first, second = weft.devices()
one = weft.device_put(1.0, second)  # a number that is committed, of a weak type
x = jnp.ones(4)
for out in (
    x + one, one * x, jnp.maximum(x, one), jnp.where(x > 0, x, one), one.astype("float16"),
    jnp.asarray(one, "float32"), x.astype("float16") + one, weft.jit(lambda x, y: x + y)(x, one),
):
    assert out.committed and out.devices() == {second}, out.sharding
for _ in range(4):  # as often as it takes to be native
    try:
        weft.device_put(x, first) + one
    except ValueError as error:
        assert "different devices" in str(error)
    else:
        raise AssertionError("arrays on different devices were added")

for kind in weft.sharding.AxisType.Explicit, weft.sharding.AxisType.Auto:
    mesh = weft.make_mesh((2,), "x", (kind,))
    sharding = weft.NamedSharding(mesh, weft.P("x"))
    x = weft.device_put(np.ones(4, "float32"), sharding)
    for like in jnp.zeros_like(x), jnp.ones_like(x), jnp.full_like(x, 2):
        assert like.sharding == sharding, like.sharding
    try:
        x + one
    except ValueError:
        pass
    else:
        raise AssertionError("an array on a mesh and a number on a device of it were added")
"""


def test_where_results_are():
    root = Path(__file__).resolve().parents[2]
    environment = dict(os.environ, WEFT_NUM_CPU_DEVICES="2", PYTHONPATH=str(root))
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=300)
