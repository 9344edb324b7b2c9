"""``device_put``: what it accepts, whether it copies, and whether the result is committed."""

import copy

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

DEVICE = weft.devices()[0]
LIKE = [
    jnp.zeros_like,
    jnp.ones_like,
    jnp.empty_like,
    lambda x: jnp.full_like(x, 1, shape=(2,)),
    lambda x: lax.full_like(x, 1),
    copy.copy,
    copy.deepcopy,
    lambda x: next(iter(x)),
    lambda x: weft.device_put(x, may_alias=False),
]
MADE = [
    lambda **at: jnp.ones(3, **at),
    lambda **at: jnp.arange(3, **at),
    lambda **at: jnp.eye(3, **at),
    lambda **at: jnp.linspace(0, 1, 3, **at),
    lambda **at: jnp.asarray(np.ones(3), **at),
    lambda **at: jnp.zeros_like(np.ones(3), **at),
    lambda **at: weft.device_put(1.0, **at),
]


@pytest.mark.parametrize("x", [np.arange(3), jnp.arange(3), 1.0, weft.random.key(0)])
def test_a_place_commits(x):
    assert not weft.device_put(x).committed
    for place in (DEVICE, weft.sharding.SingleDeviceSharding(DEVICE), weft.memory.Space.Device):
        assert weft.device_put(x, place).committed
        assert not getattr(x, "committed", False)


@pytest.mark.parametrize("like", LIKE)
def test_arrays_like_a_committed_one_are_committed(like):
    assert like(weft.device_put(jnp.arange(3), DEVICE)).committed
    assert not like(jnp.arange(3)).committed


@pytest.mark.parametrize("make", MADE)
def test_arrays_made_on_a_device_are_committed(make):
    assert make(device=DEVICE).committed and not make().committed


def test_identity_and_memory():
    x = jnp.arange(3)
    assert weft.device_put(x) is x and weft.device_put(x, may_alias=True) is x
    put = weft.device_put(x, DEVICE)
    assert (
        put is not x and weft.device_put(put) is put and weft.device_put(put, put.sharding) is put
    )
    assert put.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    copied = weft.device_put(x, may_alias=False)
    assert copied.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    x.delete()
    assert put.tolist() == copied.tolist() == [0, 1, 2]


@pytest.mark.parametrize("place", ["cpu", 3, object(), [DEVICE, "cpu"]])
def test_places_that_are_none(place):
    x = [jnp.ones(2), jnp.ones(2)]
    with pytest.raises(ValueError, match="device_put takes a device"):
        weft.device_put(x, place)
    with pytest.raises(ValueError, match="device_put takes a device"):
        weft.jit(lambda x: weft.device_put(x, place))(x)


def test_trees_of_options():
    x = [jnp.ones(2), jnp.ones(2)]
    first, second = weft.device_put(x, [DEVICE, None])
    assert first.committed and not second.committed
    with pytest.raises(ValueError, match="the donate of device_put"):
        weft.device_put(x, DEVICE, donate=[True])
    with pytest.raises(ValueError, match="both donate"):
        weft.device_put(x, DEVICE, donate=True, may_alias=True)
