"""Bytes that flax wrote are read, and the same bytes are written; structures and dictionaries."""

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.linen import harness
from weft import linen as nn
from weft.linen import core, jax_utils, msgpack, serialization, struct, traverse_util


def same(a, b) -> bool:
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (np.ndarray, np.generic)):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and (a == b).all()
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("name, tree", harness.stored_trees().items())
def test_bytes_are_those_of_flax_both_ways(name, tree):
    recorded = (harness.DATA / f"{name}.msgpack").read_bytes()
    assert serialization.to_bytes(tree) == recorded
    assert same(serialization.msgpack_restore(recorded), serialization.to_state_dict(tree))


def test_arrays_of_weft_are_stored_as_those_of_numpy():
    values = {"a": np.arange(6.0, dtype=np.float32), "b": np.ones(3, ml_dtypes.bfloat16)}
    ours = weft.tree.map(jnp.asarray, values)
    assert serialization.to_bytes(ours) == serialization.to_bytes(values)
    back = serialization.from_bytes(ours, serialization.to_bytes(ours))
    assert same(back, values)


def test_large_arrays_are_split_and_joined(monkeypatch):
    monkeypatch.setattr(serialization, "MAX_CHUNK_SIZE", 64)
    values = {"a": np.arange(100.0).reshape(4, 25), "b": {"c": np.arange(5)}}
    data = serialization.to_bytes(values)
    assert b"__msgpack_chunked_array__" in data
    assert same(serialization.msgpack_restore(data), values)


def test_objects_and_code_cannot_be_stored_or_read():
    with pytest.raises(ValueError, match="dtype object"):
        serialization.to_bytes({"a": np.array([object()])})
    with pytest.raises(ValueError, match="begins no MessagePack value"):
        msgpack.unpackb(b"\xc1")
    with pytest.raises(ValueError, match="left after"):
        msgpack.unpackb(b"\x01\x02")
    for cut in range(1, 40):
        data = serialization.to_bytes({"a": np.arange(3), "b": "text"})
        if cut < len(data):
            with pytest.raises((ValueError, TypeError, KeyError)):
                serialization.msgpack_restore(data[:-cut])


def test_dataclasses_are_trees_and_can_be_restored():
    @struct.dataclass
    class Point:
        x: object
        label: str = struct.field(pytree_node=False, default="p")

    point = Point(jnp.ones(2))
    moved = weft.jit(lambda p: weft.tree.map(lambda v: v * 2, p))(point)
    assert moved.label == "p" and float(moved.x[0]) == 2.0
    back = serialization.from_bytes(Point(None), serialization.to_bytes(moved))
    assert (back.x == 2.0).all()
    assert serialization.to_state_dict(point).keys() == {"x"}
    with pytest.raises(AttributeError):
        point.x = 3

    class Node(struct.PyTreeNode):
        a: int
        b: int = 2

    assert weft.tree.leaves(Node(1)) == [1, 2] and Node(1).replace(b=5).b == 5


def test_frozen_dictionaries():
    frozen = core.freeze({"b": {"c": 1}, "a": 2})
    assert weft.tree.leaves(frozen) == [2, 1]
    assert hash(frozen) == hash(core.freeze({"a": 2, "b": {"c": 1}}))
    assert frozen.copy({"a": 3})["a"] == 3 and frozen["a"] == 2
    rest, value = frozen.pop("b")
    assert dict(rest) == {"a": 2} and value["c"] == 1
    assert core.unfreeze(frozen) == {"b": {"c": 1}, "a": 2}
    assert core.pop({"a": 1}, "a") == ({}, 1) and core.copy({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    moved = weft.tree.map(lambda x: x + 1, frozen)
    assert isinstance(moved, core.FrozenDict) and moved["b"]["c"] == 2


def test_flat_dictionaries_and_traversals():
    nested = {"a": {"b": 1, "c": {}}, "d": 2}
    flat = traverse_util.flatten_dict(nested, keep_empty_nodes=True)
    assert flat[("a", "c")] is traverse_util.empty_node
    assert traverse_util.unflatten_dict(flat) == nested
    kernels = traverse_util.ModelParamTraversal(lambda path, _: path.endswith("kernel"))
    params = {"x": {"kernel": 1, "bias": 2}, "y": {"kernel": 3}}
    assert list(kernels.iterate(params)) == [1, 3]
    assert kernels.update(lambda v: -v, params)["x"] == {"kernel": -1, "bias": 2}
    places = traverse_util.t_identity["a"].tree().filter(lambda v: v > 1)
    assert places.update(lambda v: 0, {"a": [1, 2, 3]}) == {"a": [1, 0, 0]}
    assert traverse_util.t_identity.each().set([5, 6], (1, 2)) == (5, 6)


def test_batches_of_any_size_run_on_all_devices():
    count = weft.local_device_count()
    double = jax_utils.pad_shard_unpad(lambda _, x: x * 2)
    x = np.arange(5.0 * count + 1).reshape(-1, 1)
    assert (double(None, x) == 2 * x).all()
    tree = jax_utils.replicate({"a": jnp.ones(3)})
    assert tree["a"].shape == (count, 3) and jax_utils.unreplicate(tree)["a"].shape == (3,)
    batches = ({"x": np.full((count, 2), i)} for i in range(5))
    seen = [int(batch["x"][0, 0]) for batch in jax_utils.prefetch_to_device(batches, 2)]
    assert seen == [0, 1, 2, 3, 4]


def test_partial_evaluation_by_shape_knows_what_it_can():
    out = jax_utils.partial_eval_by_shape(lambda x, y: (x * y, y + 1), [(2, 3)], jnp.ones(3))
    assert out[0].shape == (2, 3) and not isinstance(out[0], weft.Array)
    assert (out[1] == 2).all()


def test_a_checkpoint_of_a_model_is_restored_into_another():
    model = nn.Sequential([nn.Dense(3), nn.BatchNorm(use_running_average=True), nn.Dense(2)])
    first = model.init(weft.random.key(0), jnp.ones((1, 4)))
    second = model.init(weft.random.key(1), jnp.ones((1, 4)))
    loaded = serialization.from_bytes(second, serialization.to_bytes(first))
    x = jnp.arange(4.0)[None]
    assert (model.apply(weft.tree.map(jnp.asarray, loaded), x) == model.apply(first, x)).all()
