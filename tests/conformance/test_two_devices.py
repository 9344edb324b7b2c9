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

# Sizes that depend on values, and indices: where the values are from.
there = weft.device_put(np.array([0, 1, 1]), second)
y = there.astype("float32")
wanted = [
    there[there > 0], there[jnp.zeros(3, bool)], *jnp.nonzero(there), *jnp.where(there > 0),
    jnp.flatnonzero(there), jnp.argwhere(there), jnp.unique(there), *jnp.unique_all(there),
    jnp.extract(np.array([True, False, True]), there), jnp.compress(np.array([True, False]), there),
    jnp.union1d(there, x.astype(int)), jnp.setdiff1d(there, np.arange(1)), jnp.bincount(there),
    jnp.setxor1d(np.arange(2), there), *jnp.intersect1d(there, there, return_indices=True),
    x[there], x[there[0]], jnp.ones((3, 3))[jnp.ix_(there, there)], x.at[there].add(1.0),
    x.at[there[0]].set(2.0), jnp.take(x, there), jnp.put(x, there, 1.0, inplace=False),
    weft.lax.dynamic_slice(x, (there[1],), (2,)), jnp.insert(x, there, 2.0),
    weft.lax.dynamic_update_slice(x, jnp.zeros(2), (there[1],)),
    jnp.repeat(x[:3], there, total_repeat_length=2),
    jnp.histogram2d(y, y, bins=2)[0],
]
for number, out in enumerate(wanted):
    assert out.committed and out.devices() == {second}, (number, out.sharding)
for out in (x[:3][there > 0], jnp.extract(there, x[:3]), jnp.compress(there, x[:3])):
    assert not out.committed and out.devices() == {first}, out.sharding  # masks choose

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
    for out in (*jnp.nonzero(x), jnp.unique(x), jnp.setdiff1d(x, np.ones(1)), jnp.argwhere(x)):
        assert out.committed and out.sharding.is_fully_replicated and len(out.devices()) == 2
    for row in weft.device_put(np.ones((2, 3)), sharding):
        assert not row.committed and row.devices() == {first}
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
