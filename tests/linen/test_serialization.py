"""Bytes that flax wrote are read, and the same bytes are written; structures and dictionaries."""

import re
from typing import NamedTuple

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
    with pytest.raises(ValueError, match="does not start a MessagePack value"):
        msgpack.unpackb(b"\xc1")
    with pytest.raises(ValueError, match="extra bytes follow"):
        msgpack.unpackb(b"\x01\x02")
    for cut in range(1, 40):
        data = serialization.to_bytes({"a": np.arange(3), "b": "text"})
        if cut < len(data):
            with pytest.raises(ValueError):
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


class Pair(NamedTuple):
    left: object
    right: object


@struct.dataclass
class Counted:
    step: object
    weights: object


ZEROS = np.zeros((3, 4), np.float32)
# Targets, states that do not fit them, and the path that the error names.
UNFIT = {
    "shape": ({"w": ZEROS}, {"w": np.zeros(2, np.float32)}, "./w"),
    "rank": ({"a": {"w": ZEROS}}, {"a": {"w": np.zeros((1, 3, 4), np.float32)}}, "./a/w"),
    "kind": ({"w": ZEROS}, {"w": np.zeros((3, 4), np.int32)}, "./w"),
    "sign": ([np.zeros(2, np.int32)], {"0": np.zeros(2, np.uint32)}, "./0"),
    "complex": ((ZEROS,), {"0": ZEROS.astype(np.complex64)}, "./0"),
    "flag": ({"w": np.zeros(2, bool)}, {"w": np.zeros(2, np.int8)}, "./w"),
    "text": ({"w": ZEROS}, {"w": "hello"}, "./w"),
    "nothing": ({"w": ZEROS}, {"w": None}, "./w"),
    "dictionary": ({"w": ZEROS}, {"w": {"w": ZEROS}}, "./w"),
    "scalar": ({"w": ZEROS}, {"w": 1.0}, "./w"),
    "array_for_number": (Counted(0, ZEROS), {"step": ZEROS, "weights": ZEROS}, "./step"),
    "float_for_int": (Counted(0, ZEROS), {"step": 1.5, "weights": ZEROS}, "./step"),
    "number_for_text": ({"name": "x"}, {"name": 3}, "./name"),
    "deep": ([{"a": Pair(ZEROS, 1)}], {"0": {"a": {"left": 1, "right": 1}}}, "./0/a/left"),
    "missing": ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, "./a"),
    "more": ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, "./a"),
    "more_frozen": (core.freeze({"a": {"b": 1}}), {"a": {"b": 1}, "d": 3}, "."),
    "fields": (Pair(1, 2), {"left": 1, "middle": 2}, "."),
    "list_of_number": ([1, 2], 7, "."),
    "list_of_list": ([1, 2], [1, 2], "."),
    "other_numbers": ([1, 2], {"0": 1, "2": 2}, "."),
    "named_of_number": ({"p": Pair(1, 2)}, {"p": 7}, "./p"),
    "old_named": (Pair(1, 2), {"name": "Pair", "fields": 3, "values": {}}, "."),
    "class_of_number": (Counted(0, 1), 7, "."),
    "partial_of_number": (weft.tree_util.Partial(max, 1), 7, "."),
    "partial_without": (weft.tree_util.Partial(max, 1), {"args": {"0": 1}}, "."),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_does_not_fit_the_target_is_refused_with_its_path(name):
    target, state, path = UNFIT[name]
    with pytest.raises(ValueError, match=re.escape(f"at {path!r}")):
        serialization.from_state_dict(target, state)
    with pytest.raises(ValueError, match=re.escape(f"at {path!r}")):
        serialization.from_bytes(target, msgpack.packb(state, default=serialization._encode))
    ours = weft.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, target)
    with pytest.raises(ValueError, match=re.escape(f"at {path!r}")):
        serialization.from_state_dict(ours, state)


def test_leaves_that_fit():
    """Other widths of one kind, numbers for arrays without axes, and what a target leaves open."""
    half = ZEROS.astype(ml_dtypes.bfloat16)
    for target, state in [
        ({"w": ZEROS}, {"w": half}),
        ({"w": half}, {"w": ZEROS.astype(np.float64)}),
        ({"w": np.zeros(2, np.int64)}, {"w": np.zeros(2, np.int8)}),
        ({"step": 0}, {"step": np.zeros((), np.int32)}),
        ({"step": jnp.int32(0)}, {"step": 7}),
        ({"w": weft.ShapeDtypeStruct((3, 4), np.float32)}, {"w": ZEROS}),
        ({"w": None}, {"w": {"anything": ZEROS}}),
        ({"name": "x"}, {"name": "y"}),
    ]:
        (found,) = serialization.from_state_dict(target, state).values()
        assert found is next(iter(state.values()))


def test_as_flax_takes_it():
    """``strict=False`` looks at names only, and leaves out further ones, also inside handlers."""
    target = {"a": [Counted(0, ZEROS)], "b": Pair(1, 2)}
    state = {
        "a": {"0": {"step": "text", "weights": np.zeros(2)}},
        "b": {"left": {"x": 1}, "right": None},
        "c": 3,
    }
    found = serialization.from_bytes(target, serialization.msgpack_serialize(state), strict=False)
    assert list(found) == ["a", "b"] and found["b"] == Pair({"x": 1}, None)
    assert found["a"][0].step == "text" and found["a"][0].weights.shape == (2,)
    assert serialization.from_state_dict(target, state, strict=False)["b"] == found["b"]
    with pytest.raises(ValueError, match="strict=False"):
        serialization.from_state_dict(target, state)
    with pytest.raises(ValueError, match="lacks 'b'"):
        serialization.from_state_dict(target, {"a": state["a"]}, strict=False)


DAMAGED = {
    "a list as a key": b"\x81\x91\x01\x02",
    "nesting": b"\x91" * 200_000 + b"\x01",
    "nested keys": b"\x81\xa1a" * 200_000 + b"\x01",
    "no array": msgpack.packb(msgpack.ExtType(1, msgpack.packb(7))),
    "no dtype": msgpack.packb(msgpack.ExtType(1, msgpack.packb([[2], "finfo", b"\0" * 8]))),
    "an unknown dtype": msgpack.packb(msgpack.ExtType(1, msgpack.packb([[2], "float7", b""]))),
    "a number as dtype": msgpack.packb(msgpack.ExtType(1, msgpack.packb([[2], 3, b"\0" * 8]))),
    "text as shape": msgpack.packb(msgpack.ExtType(1, msgpack.packb(["x", "int8", b"\0"]))),
    "a huge shape": msgpack.packb(msgpack.ExtType(1, msgpack.packb([[1 << 63], "int8", b"\0"]))),
    "no complex number": msgpack.packb(msgpack.ExtType(2, msgpack.packb([1.0, "x"]))),
    "no pieces": msgpack.packb({"__msgpack_chunked_array__": True}),
    "wrong pieces": msgpack.packb({"__msgpack_chunked_array__": True, "shape": 3, "chunks": 4}),
}


@pytest.mark.parametrize("name", ["nesting", "nested keys"])
def test_deep_values_are_a_value_error_of_each_reader(name):
    with pytest.raises(ValueError, match="nested too deeply"):
        msgpack.unpackb(DAMAGED[name])


def test_values_of_any_depth_are_read_or_refused():
    """The bytes may be read at depths at which pieces of arrays are not joined."""
    read = 0
    for depth in range(100, 1200, 20):
        data = b"\x81\xa1a" * depth + b"\x01"
        try:
            found = serialization.msgpack_restore(data)
        except ValueError as error:
            assert "nested too deeply" in str(error)
            continue
        for _ in range(depth):
            found = found["a"]
        assert found == 1
        read += 1
    assert 0 < read < 55


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_bytes_are_a_value_error(name):
    with pytest.raises(ValueError):
        serialization.msgpack_restore(DAMAGED[name])
    with pytest.raises(ValueError):
        serialization.from_bytes({"a": 1}, DAMAGED[name])
