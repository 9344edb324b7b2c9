"""Whole-tree functions: mapping, reducing, paths, prefixes, registration and their errors."""

import collections
import dataclasses
import enum
import random
import sys

import numpy as np
import pytest

import weft
from weft import tree, tree_util
from weft.tree import compare, flattening

Pair = collections.namedtuple("Pair", "a b")


@tree_util.register_pytree_with_keys_class
class Named:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def tree_flatten_with_keys(self):
        return ((tree_util.GetAttrKey("x"), self.x), (tree_util.GetAttrKey("y"), self.y)), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)


@tree_util.register_dataclass
@dataclasses.dataclass
class Point:
    x: object
    unit: str = tree.static(default="m")


def random_tree(rng, depth):
    if not depth:
        return rng.random()
    kind = rng.randrange(9)
    n = rng.randrange(4) if kind else rng.randrange(12)
    parts = [random_tree(rng, depth - 1) for _ in range(max(n, 2))]
    names = rng.sample("abcdefghijklmnop", n)
    makers = [
        lambda: parts[:n],
        lambda: tuple(parts[:n]),
        lambda: dict(zip(names, parts)),
        lambda: Pair(*parts[:2]),
        lambda: Named(*parts[:2]),
        lambda: Point(parts[0], "km"),
        lambda: collections.OrderedDict(zip(names, parts)),
        lambda: None,
        lambda: rng.random(),
    ]
    return makers[kind]()


@pytest.mark.parametrize("seed", range(60))
def test_round_trips_however_often(seed):
    sample = random_tree(random.Random(seed), 4)
    leaves, treedef = tree.flatten(sample)
    never = []
    node = flattening.flatten_until(sample, never, lambda x: False)
    pairs, with_paths = tree.flatten_with_path(sample)
    stopped, _ = tree.flatten_with_path(sample, is_leaf=lambda x: False)
    assert never == leaves == [leaf for _, leaf in pairs]
    assert node.treedef is treedef is with_paths
    assert stopped == pairs
    for _ in range(40):
        assert tree.unflatten(treedef, leaves) == sample
        again, same = tree.flatten(sample)
        assert again == leaves
        assert same is treedef
        assert treedef.flatten_up_to(sample) == leaves


def test_the_learnt_shape_follows_the_data():
    for i in range(200):
        inner = [(1, 2), [1, 2], {"z": 1}, 5, None][i // 20 % 5]
        sample = {"k": inner, "j": {"y": i, "x": inner}}
        expected = "{'j': {'x': %s, 'y': *}, 'k': %s}"
        text = str(tree.structure(inner))[len("PyTreeDef(") : -1]
        assert str(tree.structure(sample)) == f"PyTreeDef({expected % (text, text)})"
        assert tree.map(lambda x: x, sample) == sample


def test_types_registered_late_stop_being_leaves():
    class Late:
        pass

    sample = {"a": [Late()], "b": (1,)}
    for _ in range(40):
        assert len(tree.leaves(sample)) == 2
    tree_util.register_pytree_node(Late, lambda x: ((1, 2), None), lambda aux, xs: Late())
    assert tree.leaves(sample) == [1, 2, 1]

    triple = collections.namedtuple("triple", "a b c")
    sample = {"a": [triple(1, 2, 3)], "b": (1,)}
    for _ in range(40):
        assert tree.leaves(sample) == [1, 2, 3, 1]
    tree_util.register_pytree_node(triple, lambda x: ((x.a,), None), lambda aux, xs: xs)
    assert tree.leaves(sample) == [1, 1]


def test_map():
    assert tree.map(lambda x, y: x + y, {"b": 1, "a": [2]}, {"a": [3], "b": 4}) == {
        "a": [5],
        "b": 5,
    }
    assert tree.map(lambda x, y: (x, y), (1, 2), ([3], None)) == ((1, [3]), (2, None))
    is_none = {"is_leaf": lambda x: x is None}
    assert tree.map(lambda x, y: (x, y), [None, 1], [5, None], **is_none) == [(None, 5), (1, None)]
    assert tree.map_with_path(lambda p, x, y: (len(p), x, y), (1, [2]), (3, [4])) == (
        (1, 1, 3),
        [(2, 2, 4)],
    )


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        ((1, 2), (1, 2, 3), ["tree", "tuple of length 2", "tuple of length 3"]),
        ({"a": (1, 2)}, {"a": [1, 2]}, ["tree['a']", "<class 'tuple'>", "<class 'list'>"]),
        ({"a": 1}, {"b": 1}, ["('a',)", "('b',)", "keys"]),
        ({"a": 1}, {"a": 1, "b": 2}, ["1 child", "2 children", "'b'"]),
        ([None], [1], ["tree[0]", "NoneType", "int"]),
        ([Named(1, [2])], [Named(1, (2,))], ["tree[0].y", "list", "tuple"]),
        (Point(1), Point(1, "km"), ["('m',)", "('km',)"]),
        (Pair(1, 2), (1, 2), ["Pair", "tuple"]),
    ],
)
def test_map_names_the_place_of_a_mismatch(one, two, words):
    for _ in range(20):
        with pytest.raises(ValueError, match="mismatch") as caught:
            tree.map(lambda x, y: x, one, two)
        assert all(word in str(caught.value) for word in words)
        with pytest.raises(ValueError, match="mismatch"):
            tree.map_with_path(lambda p, x, y: x, one, two)
        with pytest.raises(ValueError, match="expected"):
            tree.structure(one).flatten_up_to(two)


def test_reduce_all_transpose_broadcast():
    assert tree.reduce(lambda a, b: a + b, {"a": 1, "b": [2, 3]}, 10) == 16
    with pytest.raises(TypeError):
        tree.reduce(lambda a, b: a, ())
    pair = {"operation": lambda a, b: (a, b)}
    assert tree.reduce_associative(tree=[1, 2, 3, 4, 5], **pair) == ((1, 2), (3, (4, 5)))
    assert tree.reduce_associative(tree=[], identity=7, **pair) == 7
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(tree=[], **pair)
    assert tree.all([]) is True
    outer = tree.structure([0, 0])
    assert tree.transpose(outer, None, [(1, 2, 3), (4, 5, 6)]) == ([1, 4], [2, 5], [3, 6])
    with pytest.raises(TypeError, match="transpose"):
        tree.transpose(outer, tree.structure((0, 0)), [(1, 2, 3), (4, 5, 6)])
    assert tree.broadcast((1, 2), ([1, 2], 3)) == ([1, 1], 2)
    with pytest.raises(ValueError, match="prefix_tree"):
        tree.broadcast((1, 2), ([1, 2], 3, 4))


def test_paths():
    sample = {"a": [1, Pair(2, 3)], "b": Named(4, Point(5)), "c": tree_util.Partial(max, 1, k=2)}
    paths = [path for path, _ in tree.leaves_with_path(sample)]
    assert [tree_util.keystr(path) for path in paths] == [
        "['a'][0]",
        "['a'][1].a",
        "['a'][1].b",
        "['b'].x",
        "['b'].y.x",
        "['c'][<flat index 0>][0]",
        "['c'][<flat index 1>]['k']",
    ]
    simple = [tree_util.keystr(path, simple=True, separator="/") for path in paths]
    assert simple == ["a/0", "a/1/a", "a/1/b", "b/x", "b/y/x", "c/0/0", "c/1/k"]
    short = tree.leaves_with_path(sample, lambda p, x: len(p) == 1, is_leaf_takes_path=True)
    assert [tree_util.keystr(path) for path, _ in short] == ["['a']", "['b']", "['c']"]
    key = tree_util.DictKey("a")
    assert key == tree_util.DictKey("a")
    assert hash(key) == hash("a")
    assert key != tree_util.GetAttrKey("a")
    assert repr(tree_util.SequenceKey(1)) == "SequenceKey(idx=1)"
    match key:
        case tree_util.DictKey(key=name):
            assert name == "a"


def test_is_leaf_must_be_a_predicate():
    with pytest.raises(ValueError, match="True or False"):
        tree.flatten([1], is_leaf=lambda x: 0)
    with pytest.raises(ValueError, match="True or False"):
        tree.flatten([1], is_leaf=lambda x: np.bool_(True) if x == 1 else False)
    with pytest.raises(TypeError, match="is_leaf"):
        tree.flatten([1], is_leaf=5)
    seen = []
    tree.leaves([1, {"a": (2, None)}], is_leaf=lambda x: bool(seen.append(x)))
    assert seen == [[1, {"a": (2, None)}], 1, {"a": (2, None)}, (2, None), 2, None]


def test_one_level():
    assert tree_util.flatten_one_level({"b": 1, "a": (2, 3)}) == (((2, 3), 1), ("a", "b"))
    assert tree_util.flatten_one_level(None) == ((), None)
    pairs, data = tree_util.flatten_one_level_with_keys(Pair(1, 2))
    assert pairs == ((tree_util.GetAttrKey("a"), 1), (tree_util.GetAttrKey("b"), 2))
    assert data is Pair
    for function in (tree_util.flatten_one_level, tree_util.flatten_one_level_with_keys):
        with pytest.raises(ValueError, match="int"):
            function(1)
    assert [tree_util.is_tree_node(t) for t in (int, tuple, Pair, Point, type(None))] == [
        False,
        True,
        True,
        True,
        True,
    ]
    assert tree_util.all_leaves([1, "a"])
    assert not tree_util.all_leaves([1, None])


def test_registration_errors():
    for cls in (Named, dict, type(None)):
        with pytest.raises(ValueError, match="already"):
            tree_util.register_pytree_node(cls, lambda x: x, lambda a, x: x)
    with pytest.raises(ValueError, match="already"):
        tree_util.register_dataclass(Point)
    with pytest.raises(TypeError, match="flatten_func"):
        tree_util.register_pytree_node(int, None, None)

    class Wrong:
        result = None

    tree_util.register_pytree_node(Wrong, lambda x: Wrong.result, lambda a, x: x)
    for Wrong.result in ([1, 2], (1, 2, 3), (5, None), None):
        with pytest.raises(ValueError, match="must return a pair"):
            tree.flatten(Wrong())


def test_dataclass_fields():
    @dataclasses.dataclass
    class Some:
        x: int
        y: int
        z: int = dataclasses.field(default=1, init=False)

    register = tree_util.register_dataclass
    with pytest.raises(ValueError, match="missing: y"):
        register(Some, ["x"], [])
    with pytest.raises(ValueError, match="unexpected: w"):
        register(Some, ["x", "y", "w"], [])
    with pytest.raises(ValueError, match="not both: x"):
        register(Some, ["x"], ["x", "y"])
    with pytest.raises(TypeError, match="both"):
        register(Some, ["x"])
    with pytest.raises(TypeError, match="not a dataclass"):
        register(int)
    register(Some, ["y"], ["x"])
    assert tree.map(lambda v: v + 1, Some(1, 2)) == Some(1, 3)


def test_partial_keeps_inner_arguments_out():
    inner = tree_util.Partial(max, 1)
    outer = tree_util.Partial(inner, 2)
    assert tree.leaves(outer) == [2]
    assert outer(3) == 3
    assert tree.structure(outer) == tree.structure(tree_util.Partial(inner, 5))
    assert tree.map(lambda x: x + 5, outer)(3) == 7


def test_prefixes():
    structure = tree.structure
    assert compare.flatten_axes("in_axes", structure((1, (2, 3))), (0, None)) == [0, None, None]
    assert compare.flatten_axes("in_axes", structure((1, None)), (0, None)) == [0]
    assert compare.flatten_axes("in_axes", structure((1, 2)), None) == [None, None]
    with pytest.raises(ValueError, match="in_axes must be a tree prefix"):
        compare.flatten_axes("in_axes", structure((1, (2, 3))), (0,))
    with pytest.raises(ValueError, match=r"write in_axes=\(\(0, 1\),\)"):
        compare.flatten_axes("in_axes", structure(((1, 2),)), (0, 1), tupled_args=True)
    assert compare.broadcast_prefix((None, 1), (None, [1, 2])) == [1, 1]
    assert compare.broadcast_prefix((None, 1), (3, [1, 2]), lambda x: x is None) == [None, 1, 1]
    errors = compare.prefix_errors(([1], {"a": (1,)}), ((1,), {"a": (1, 2)}))
    assert ["arg[0]" in str(errors[0]("arg")), "arg[1]['a']" in str(errors[1]("arg"))] == [True] * 2


def test_equality_errors():
    found = list(compare.equality_errors({"a": [1], "b": 1}, {"a": [1, 2], "b": (1,)}))
    assert [(tree_util.keystr(path), why) for path, _, _, why in found] == [
        ("['a']", "the lengths do not match"),
        ("['b']", "their Python types differ"),
    ]
    one, two = tree.structure([1]), tree.structure([(1,)])
    ((path, first, second, _),) = compare.equality_errors_treedef(one, two)
    assert (tree_util.keystr(path), first, second) == ("[0]", "pytree leaf", "<class 'tuple'>")


def test_text_enumerations_are_keys_of_their_own():
    class Colour(enum.StrEnum):
        RED = "red"

    for _ in range(40):
        assert tree.map(lambda x: x, {"red": {"w": (1,)}}) == {"red": {"w": (1,)}}
        (key,) = tree.map(lambda x: x, {Colour.RED: {"w": (1,)}})
        assert key is Colour.RED


def test_very_wide_and_deep_trees():
    wide = {f"k{i}": i for i in range(6000)}
    assert tree.map(lambda x: x, wide) == wide
    assert tree.structure(list(range(6000))) == tree.structure(list(range(6000)))
    deep = 1
    for _ in range(150):
        deep = [deep, (deep,)] if _ < 3 else {"d": deep}
    for _ in range(40):
        assert tree.map(lambda x: x, deep) == deep


def nested(depth, wrap, value=1.0):
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize("depth", [300, 900, 990])
@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"k": x}, lambda x: (0, x)])
def test_deep_nests_up_to_a_thousand_levels(depth, wrap):
    """JAX follows as many; deeper ones are an error in both."""
    x, limit = nested(depth, wrap), sys.getrecursionlimit()
    again = tree.map(lambda v, w: v + w, x, x)
    leaves, treedef = tree.flatten(again)
    assert leaves[-1] == 2.0 and tree.leaves(x)[-1] == 1.0
    assert treedef == tree.structure(x) and hash(treedef) == hash(tree.structure(x))
    if depth <= 900:  # functions of functions follow a little less
        assert tree.leaves(weft.jit(lambda t: tree.map(lambda v: v * 3, t))(x))[-1] == 3.0
    assert len(tree.flatten_with_path(x)[0][-1][0]) == depth
    assert tree.leaves(x, is_leaf=lambda v: False)[-1] == 1.0
    assert sys.getrecursionlimit() == limit


def test_trees_without_end():
    x = []
    x.append(x)
    with pytest.raises(RecursionError):
        tree.leaves(x)
    with pytest.raises(RecursionError):
        tree.map(lambda v: v, nested(100_000, lambda v: [v]))
