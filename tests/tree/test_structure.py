"""Structures: what counts as a container, how structures print, compare, hash and pickle."""

import collections
import copy
import dataclasses
import pickle

import numpy as np
import pytest

from weft import tree, tree_util
from weft.tree import flattening, nodes

Pair = collections.namedtuple("Pair", "a b")


class SubPair(Pair):
    pass


class SubDict(dict):
    pass


@tree_util.register_pytree_node_class
class Box:
    def __init__(self, *items, tag=("aux", 1)):
        self.items, self.tag = items, tag

    def tree_flatten(self):
        return self.items, self.tag

    @classmethod
    def tree_unflatten(cls, aux, children):
        assert type(children) is tuple
        return cls(*children, tag=aux)


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: object
    size: int = dataclasses.field(metadata={"static": True})


@tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Mode:
    name: str


PRINTED = [
    (1, "*", 1, 1),
    (None, "None", 0, 1),
    ((), "()", 0, 1),
    ([], "[]", 0, 1),
    ({}, "{}", 0, 1),
    ((1,), "(*,)", 1, 2),
    ([1, [2, None]], "[*, [*, None]]", 2, 5),
    ({"b": 1, "a": (2, 3)}, "{'a': (*, *), 'b': *}", 3, 5),
    ({1: 2, 0: 3}, "{0: *, 1: *}", 2, 3),
    ({(1, 2): 3, (0, 1): 4}, "{(0, 1): *, (1, 2): *}", 2, 3),
    (
        collections.OrderedDict([("b", 1), ("a", 2)]),
        "CustomNode(OrderedDict[('b', 'a')], [*, *])",
        2,
        3,
    ),
    (
        collections.defaultdict(int, {"b": 1, "a": 2}),
        "CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *])",
        2,
        3,
    ),
    (Pair(1, (2,)), "CustomNode(namedtuple[Pair], [*, (*,)])", 2, 4),
    (SubPair(1, 2), "CustomNode(namedtuple[SubPair], [*, *])", 2, 3),
    (SubDict(a=1), "*", 1, 1),
    (Box(1, 2), "CustomNode(Box[('aux', 1)], [*, *])", 2, 3),
    (Layer(1, 2), "CustomNode(Layer[(2,)], [*])", 1, 2),
    (Mode("x"), "CustomNode(Mode[Mode(name='x')], [])", 0, 1),
    (
        tree_util.Partial(max, 1, 2, key=3),
        "CustomNode(Partial[<built-in function max>], [(*, *), {'key': *}])",
        3,
        6,
    ),
]


@pytest.mark.parametrize(("value", "text", "leaves", "count"), PRINTED, ids=[p[1] for p in PRINTED])
def test_prints_counts_and_survives_pickling(value, text, leaves, count):
    treedef = tree.structure(value)
    assert str(treedef) == repr(treedef) == f"PyTreeDef({text})"
    assert (treedef.num_leaves, treedef.num_nodes) == (leaves, count)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == treedef
    rebuilt = tree_util.PyTreeDef.from_node_data_and_children(
        tree_util.default_registry, treedef.node_data(), treedef.children()
    )
    assert rebuilt == treedef


def test_equal_structures_are_one_object():
    first = tree.structure({"a": [1, 2], "b": Pair(3, None), "c": Layer(1, 2)})
    second = tree.structure({"c": Layer(5, 2), "b": Pair(6, None), "a": [7, 8]})
    assert first is second


def test_equality_survives_a_full_table():
    first = tree.structure({"a": [1, 2], "b": None})
    nodes.clear()
    second = tree.structure({"a": [1, 2], "b": None})
    assert first == second
    assert hash(first) == hash(second)
    assert {first: 1}[second] == 1


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((1, 2), [1, 2]),
        ((1, 2), (1, 2, 3)),
        ({"a": 1}, {"b": 1}),
        (Pair(1, 2), (1, 2)),
        (Pair(1, 2), SubPair(1, 2)),
        (None, 1),
        (Layer(1, 2), Layer(1, 3)),
        (Mode("a"), Mode("b")),
        (collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=1, a=2)),
        (collections.defaultdict(int, a=1), collections.defaultdict(float, a=1)),
        ({"a": 1}, collections.OrderedDict(a=1)),
    ],
)
def test_different_structures_differ(one, two):
    assert tree.structure(one) != tree.structure(two)


def test_equal_keys_of_other_types_come_back_as_they_were():
    class Name(str):
        __slots__ = ()

    for _ in range(40):
        assert tree.structure({True: 1}) == tree.structure({1: 1})
        assert [type(k) for k in tree.map(lambda x: x, {True: 1})] == [bool]
        assert [type(k) for k in tree.map(lambda x: x, {1: 1})] == [int]
        assert [type(k) for k in tree.map(lambda x: x, {"a": (1,)})] == [str]
        assert [type(k) for k in tree.map(lambda x: x, {Name("a"): (1,)})] == [Name]


def test_equal_data_comes_back_as_it_was():
    for tag in (0.0, -0.0, 0, False, (1,), (True,)):
        out = tree.map(lambda x: x, Box(1, tag=tag)).tag
        assert repr(out) == repr(tag)
    mode = Mode("m")
    assert tree.map(lambda x: x, [mode])[0] is mode


def test_unhashable_data_compares_by_value():
    one, two = tree.structure(Box(1, tag=[1])), tree.structure(Box(1, tag=[1]))
    assert one == two
    assert hash(one) == hash(two)
    assert one != tree.structure(Box(1, tag=[2]))


def test_comparing_with_other_things():
    treedef = tree.structure(1)
    assert treedef != 5
    with pytest.raises(TypeError):
        _ = treedef < treedef
    with pytest.raises(TypeError):
        tree_util.PyTreeDef()


def test_compose_children_and_prefix():
    treedef = tree.structure({"a": 1, "b": (2, 3)})
    composed = treedef.compose(tree.structure([1, 2]))
    assert str(composed) == "PyTreeDef({'a': [*, *], 'b': ([*, *], [*, *])})"
    assert tree_util.treedef_children(treedef) == [tree.structure(1), tree.structure((2, 3))]
    assert tree_util.treedef_tuple(treedef.children()) == tree.structure((1, (2, 3)))
    assert treedef.is_prefix(composed)
    assert not composed.is_prefix(treedef)
    assert [tree_util.treedef_is_leaf(tree.structure(x)) for x in (1, None, (), [1])] == [
        True,
        True,
        True,
        False,
    ]


def test_walk_and_from_iterable_tree():
    treedef = tree.structure({"a": 1, "b": (Pair(2, 3), None)})
    seen = treedef.walk(lambda xs, data: (xs, data), lambda x: -x, [1, 2, 3])
    assert seen == ((-1, ((((-2, -3), Pair), ((), None)), None)), ["a", "b"])
    assert treedef.from_iterable_tree([1, [[2, 3], []]]) == {"a": 1, "b": (Pair(2, 3), None)}


def test_keys_that_do_not_sort():
    with pytest.raises(ValueError, match="int, str"):
        tree.flatten({"a": 1, 2: 3})


def test_leaf_counts_are_checked():
    treedef = tree.structure((1, 2))
    with pytest.raises(ValueError, match="too few"):
        treedef.unflatten([1])
    with pytest.raises(ValueError, match="too many"):
        tree.unflatten(treedef, iter([1, 2, 3]))
    with pytest.raises(TypeError):
        treedef.unflatten(5)


def test_generated_functions():
    sample = {"a": np.ones(2), "b": [Pair(1, {}), Box(2, 3)], 'q"\n': (None, Layer(4, 5))}
    treedef = tree.structure(sample)
    generated = flattening.flattener_of(treedef.node)
    flatten = lambda obj: generated(obj, True)
    unflatten = flattening.unflattener_of(treedef.node)
    leaves = flatten(sample)
    assert all(x is y for x, y in zip(leaves, tree.leaves(sample)))
    assert tree.structure(unflatten(leaves)) == treedef
    for other in (1, {}, {**sample, "a": [1]}, {**sample, "b": None}, {**sample, "z": 1}):
        assert flatten(other) is None


def test_keys_of_different_kinds_hash_differently():
    kinds = [tree_util.SequenceKey, tree_util.FlattenedIndexKey, tree_util.DictKey]
    assert len({hash(kind(1)) for kind in kinds}) == len(kinds)
    assert hash(tree_util.SequenceKey(1)) == hash(tree_util.SequenceKey(1))


@pytest.mark.parametrize(
    ("sample", "data"),
    [
        (1, b"\n\x02\x10\x01"),
        (None, b"\n\x02\x10\x03"),
        ([1], b"\n\x02\x10\x01\n\x04\x08\x01\x10\x02"),
        ((1, 2), b"\n\x02\x10\x01\n\x02\x10\x01\n\x04\x08\x02\x10\x04"),
        (
            {"b": 1, "a": {"a": 2, "c": [3]}},
            (
                b"\n\x02\x10\x01\n\x02\x10\x01\n\x04\x08\x01\x10\x02\n\n\x08\x02\x10\x05\x1a\x04\n\x02"
                b"\x00\x01\n\x02\x10\x01\n\n\x08\x02\x10\x05\x1a\x04\n\x02\x00\x02\x12\x01a\x12\x01c"
                b"\x12\x01b"
            ),
        ),
    ],
)
def test_protocol_buffers_are_those_of_jax(sample, data):
    structure = tree.structure(sample)
    assert structure.serialize_using_proto() == data
    assert type(structure).deserialize_using_proto(None, data) == structure


def test_protocol_buffers_of_many_keys():
    structure = tree.structure({f"key {i}": [i] * (i % 3) for i in range(300)})
    data = structure.serialize_using_proto()
    assert type(structure).deserialize_using_proto(None, data) == structure
    for cut in range(0, len(data), 97):
        with pytest.raises((RuntimeError, ValueError)):
            type(structure).deserialize_using_proto(None, data[:cut])


@pytest.mark.parametrize("sample", [Box(1), Pair(1, 2), {1: 2}, collections.OrderedDict(a=1)])
def test_structures_without_protocol_buffer(sample):
    with pytest.raises(ValueError, match="protocol buffer"):
        tree.structure(sample).serialize_using_proto()
