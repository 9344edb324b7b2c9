"""Native calls with containers of users' classes: read by attribute, taken apart and built by
functions of Python, and what happens where these do unusual things."""

import collections
import dataclasses
import sys
import threading

import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import numpy as jnp

ONE = jnp.arange(3.0)


@pytest.fixture(autouse=True)
def by_native(monkeypatch):
    ways.take("native", monkeypatch)


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    """Fields with leaves, and fields that are part of the program."""

    step: object
    params: object
    apply: object = dataclasses.field(metadata={"static": True}, default=None)
    label: object = dataclasses.field(metadata={"static": True}, default="x")


@weft.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass whose fields are slots."""

    low: object
    high: object = None


@weft.tree_util.register_pytree_node_class
class Span:
    """A class with its own flatten function."""

    def __init__(self, low, high, unit):
        self.low, self.high, self.unit = low, high, unit

    def tree_flatten(self):
        return (self.low, self.high), self.unit

    @classmethod
    def tree_unflatten(cls, unit, ends):
        return cls(*ends, unit)

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


@weft.tree_util.register_static
class Mode(str):
    """A class without leaves."""


def twice(x):
    return 2 * x


def answered(function, *args, **kwargs):
    """The result of a call that native code answers."""
    for _ in range(3):
        function(*args, **kwargs)
    before = ways.hits(function)
    result = function(*args, **kwargs)
    assert ways.hits(function) == before + 1
    return result


TREES = {
    "dataclass": State(1, [ONE, {"a": ONE}], twice, "y"),
    "method": State(1, ONE, Span(0, 1, "m").tree_flatten, len),
    "within another": State(1, State(ONE, (), None, ("a", 3, 0.5, None, True)), twice),
    "in containers": [{"a": (State(ONE, None), Frozen(ONE, State(2.0, ONE)))}],
    "slots": Frozen(ONE, 2.0),
    "custom": Span(ONE, 2, "m"),
    "custom within custom": Span([Span(ONE, 1, None)], Span(ONE, ONE, ("a", 2)), 0.5),
    "custom in a dataclass": State(Span(ONE, ONE, "m"), [Span(1, ONE, "s")], twice),
    "dataclass in custom": Span(State(1, ONE), Frozen(ONE), "m"),
    "ordered": collections.OrderedDict(b=ONE, a=1),
    "default": collections.defaultdict(list, b=ONE, a=State(1, ONE)),
    "partial": weft.tree_util.Partial(twice, ONE, y=ONE),
    "many leaves": State(0, [Span(jnp.full(2, i), i, "m") for i in range(400)]),
}


@pytest.mark.parametrize("name", TREES)
def test_trees(name):
    tree = TREES[name]
    for fun in (lambda x: x, lambda x: weft.tree.map(twice, x), weft.tree.leaves):
        function = weft.jit(fun)
        ways.same(answered(function, tree), ways.interpreted(fun, tree))
        assert weft.tree.structure(function(tree)) == weft.tree.structure(fun(tree))
    keyed = weft.jit(lambda *, x: x)
    ways.same(answered(keyed, x=tree), ways.interpreted(lambda *, x: x, x=tree))


def test_what_is_part_of_the_program_is_compared_by_value():
    traced = []
    function = weft.jit(lambda s: (traced.append(0), s.params * 2)[1])
    answered(function, State(1, ONE, twice, "label"))
    before = ways.hits(function)
    function(State(1, ONE, twice, "".join(["la", "bel"])))
    assert ways.hits(function) == before + 1 and len(traced) == 1
    function(State(1, ONE, twice, "other"))
    function(State(1, ONE, len, "label"))
    assert ways.hits(function) == before + 1 and len(traced) == 3


@pytest.mark.parametrize(
    "one, other",
    [("a", "b"), (1, 2), (1.5, 2.5), (("a", 1), ("a", 2)), (None, ()), (len, twice)],
)
@pytest.mark.parametrize(
    "make", [lambda aux: State(1, ONE, None, aux), lambda aux: Span(1, 2, aux)]
)
def test_other_values_are_other_programs(one, other, make):
    function = weft.jit(lambda s: s)
    label = "label" if type(make(one)) is State else "unit"
    for value in (one, other, one, other, one, other):
        for _ in range(3):
            got = getattr(function(make(value)), label)
            assert repr(got) == repr(value)
    assert ways.hits(function) > 0


def test_text_and_floats_among_static_arguments():
    function = weft.jit(lambda x, mode, rate: x * rate, static_argnums=(1, 2))
    answered(function, ONE, "a mode", 0.5)
    before = ways.hits(function)
    assert np.array_equal(function(ONE, " ".join(["a", "mode"]), float("0.5")), ONE * 0.5)
    assert ways.hits(function) == before + 1
    assert np.array_equal(function(ONE, "a mode", 0.25), ONE * 0.25)


def test_classes_without_leaves():
    function = weft.jit(lambda x, mode: x + 1 if mode == "train" else x)
    for mode in (Mode("train"), Mode("test")):
        for _ in range(3):
            assert np.array_equal(function(ONE, mode), ONE + (mode == "train"))


class Sum:
    """Children that are attributes, one of them computed."""

    def __init__(self, left, total=None):
        self.left = left

    @property
    def total(self):
        return self.left + 1


weft.tree_util.register_dataclass(Sum, ["left", "total"], [])


class Guarded:
    """An attribute that comes from ``__getattr__`` if the object has none."""

    value: object

    def __init__(self, value=None):
        if value is not None:
            self.value = value

    def __getattr__(self, name):
        return jnp.full(3, 7.0) if name == "value" else super().__getattribute__(name)


weft.tree_util.register_dataclass(Guarded, ["value"], [])


def test_attributes_that_are_computed():
    flat = weft.jit(lambda s: weft.tree.leaves(s)[1] * 2)
    for _ in range(50):
        assert np.array_equal(flat(Sum(ONE)), (ONE + 1) * 2)
    assert np.array_equal(answered(flat, Sum(ONE)), (ONE + 1) * 2)
    guarded = weft.jit(lambda g: weft.tree.leaves(g)[0] + 1)
    for _ in range(5):
        assert np.array_equal(guarded(Guarded(ONE)), ONE + 1)
        assert np.array_equal(guarded(Guarded()), jnp.full(3, 8.0))


class Fresh:
    """Its children are made anew at each flattening."""

    def __init__(self, factor):
        self.factor = factor


taken_apart = []
weft.tree_util.register_pytree_node(
    Fresh,
    lambda f: (
        taken_apart.append(0),
        ([np.full(1000, f.factor, np.float32), jnp.full(1000, f.factor)], None),
    )[1],
    lambda _, xs: list(xs),
)


def test_children_that_live_for_one_call():
    function = weft.jit(lambda f: [x + 1 for x in weft.tree.leaves(f)])
    for i in range(50):
        for got in function(Fresh(float(i))):
            assert np.array_equal(got, np.full(1000, i + 1.0, np.float32))
    assert ways.hits(function) > 0
    taken_apart.clear()
    function(Fresh(2.0))
    assert len(taken_apart) == 1


class Failing:
    """A class whose functions raise when they are told to."""

    broken = None

    def __init__(self, value):
        if Failing.broken == "build":
            raise ValueError("not built")
        self.value = value


def _open(x):
    if Failing.broken == "open":
        raise ValueError("not opened")
    return (x.value,), None


weft.tree_util.register_pytree_node(Failing, _open, lambda _, xs: Failing(*xs))


@pytest.mark.parametrize("where", ["open", "build"])
def test_functions_that_raise(where, monkeypatch):
    function = weft.jit(lambda x: [(x, x.value + 1), {"a": x}, x])
    given = Failing(ONE)
    answered(function, given)
    monkeypatch.setattr(Failing, "broken", where)
    counts = sys.getrefcount(ONE), sys.getrefcount(None)
    for _ in range(20):
        with pytest.raises(ValueError, match="not"):
            function(given)
    assert sys.getrefcount(ONE) <= counts[0] + 1
    monkeypatch.setattr(Failing, "broken", None)
    assert np.array_equal(function(given)[0][1], ONE + 1)


def test_numbers_of_references_stay():
    tree = State(Span(ONE, ONE, "unit of its own"), Frozen(ONE), twice, "label of its own")
    function = weft.jit(lambda s: (s, s.params.low + 1))
    answered(function, tree)
    held = [
        ONE,
        tree,
        tree.step,
        tree.params,
        tree.label,
        tree.step.unit,
        twice,
        State,
        Span,
        Frozen,
    ]
    before = [sys.getrefcount(x) for x in held]
    for _ in range(200):
        function(tree)
    assert all(abs(a - b) < 10 for a, b in zip(before, map(sys.getrefcount, held), strict=True))


@pytest.mark.parametrize("make", [lambda x: State(0, x), lambda x: Span(0, x, "m")])
def test_donated_arguments(make):
    step = weft.jit(
        lambda s: weft.tree.unflatten(weft.tree.structure(s), [x + 1 for x in weft.tree.leaves(s)]),
        donate_argnums=0,
    )
    state = make(jnp.zeros(1000))
    for _ in range(20):
        given = state
        state = step(given)
        leaf = weft.tree.leaves(given)[1]
        assert leaf.is_deleted()
    assert np.array_equal(weft.tree.leaves(state)[1], np.full(1000, 20.0))
    assert ways.hits(step) > 0


def test_containers_that_change_while_they_are_taken_apart():
    """A function that takes one container apart removes another one that has been looked at."""
    others, meddles = [], []

    class Meddling:
        def __init__(self, value):
            self.value = value

    def take(x):
        if meddles:
            others.clear()
        return (x.value,), None

    weft.tree_util.register_pytree_node(Meddling, take, lambda _, xs: Meddling(*xs))
    function = weft.jit(lambda row, x: sum(weft.tree.leaves(row)) + x.value)
    for i in range(30):
        others[:] = [jnp.full(100, float(i)), [jnp.full(100, 1.0)]]
        meddles[:] = [0] * (i > 5)
        got = function((others, 1.0), Meddling(jnp.full(100, 2.0)))
        assert float(got[0] if got.ndim else got) == (3.0 if meddles else i + 4.0)
    assert ways.hits(function) > 0


def test_threads_that_replace_what_others_pass():
    state = State(0, [jnp.ones(2000)])
    function = weft.jit(lambda s, c: s.params[0] + c.low)
    answered(function, state, Span(1.0, 2.0, "m"))
    done = []

    def replace():
        while not done:
            state.params = [jnp.ones(2000)]

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(2000):
            assert float(function(state, Span(1.0, 2.0, "m"))[0]) == 2.0
    finally:
        done.append(0)
        thread.join()


def test_a_training_state_stays_in_native_code():
    """Optimiser states are named tuples, training states dataclasses with functions in them."""
    from weft import optim
    from weft.linen.training.train_state import TrainState

    params = {f"layer{i}": {"kernel": jnp.ones((4, 4)), "bias": jnp.ones(4)} for i in range(20)}
    state = TrainState.create(apply_fn=twice, params=params, tx=optim.adam(1e-3))
    step = weft.jit(lambda s: s.apply_gradients(grads=s.params))
    for _ in range(4):
        state = step(state)
    before = ways.hits(step)
    state = step(state)
    assert ways.hits(step) == before + 1 and int(state.step) == 5
