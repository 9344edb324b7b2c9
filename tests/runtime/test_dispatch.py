"""Calls of compiled functions: every kind of argument and result, by the native walker and by
Python's, against the interpreter; and what happens around a call: traces, scopes, callbacks."""

import collections
import dataclasses
import enum
import gc
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.runtime import ways
from weft import lax
from weft import numpy as jnp
from weft.backends.llvm.calls import dispatch, entries
from weft.base import knobs, lazy
from weft.errors import JaxRuntimeError


@pytest.fixture(params=ways.WAYS)
def way(request, monkeypatch):
    ways.take(request.param, monkeypatch)
    return request.param


@pytest.fixture
def by_native(monkeypatch):
    ways.take("native", monkeypatch)


def agree(fun, *args, calls=4, **kwargs):
    """The results of several calls are the interpreter's."""
    want = ways.interpreted(fun, *args, **kwargs)
    function = weft.jit(lambda *a, **k: fun(*a, **k))
    for _ in range(calls):
        ways.same(function(*args, **kwargs), want)
    return function


# --- arguments ------------------------------------------------------------------------------------


class Kind(np.ndarray):
    """A subclass of NumPy's arrays."""


def misaligned(values):
    raw = np.zeros(values.nbytes + 1, np.uint8)[1:]
    made = raw.view(values.dtype)
    made[...] = values
    assert not made.flags.aligned or values.dtype.itemsize == 1
    return made


def frozen(values):
    values.flags.writeable = False
    return values


FLOATS = np.linspace(-2, 2, 24, dtype=np.float32)
SCALARS = [True, False, 0, 3, -1, 2**31 - 1, -(2**31), 0.0, -0.0, 0.1, np.inf, -np.inf, np.nan]
SCALARS += [1e300, 1e-46, -5e-324, 1 + 2j, np.float32(3), np.int8(-4), np.bool_(True)]
SCALARS += [np.float64(0.1), np.float16(0.1), ml_dtypes.bfloat16(3), np.uint32(2**32 - 1)]
NUMPY = {
    "strided": FLOATS[::2],
    "reversed": FLOATS[::-1],
    "transposed": FLOATS.reshape(4, 6).T,
    "column-major": np.asfortranarray(FLOATS.reshape(4, 6)),
    "misaligned": misaligned(FLOATS),
    "misaligned doubles": misaligned(FLOATS.astype(np.float64)),
    "byte-swapped": FLOATS.astype(">f4"),
    "swapped integers": np.arange(9, dtype=">i4"),
    "subclass": FLOATS.view(Kind),
    "read-only": frozen(FLOATS.copy()),
    "number": np.array(0.1, np.float32),
    "doubles": np.linspace(0, 1, 7),
    "long integers": np.arange(7),
    "bytes": np.arange(-5, 5, dtype=np.int8),
    "booleans": FLOATS > 0,
    "bfloat16": FLOATS.astype(ml_dtypes.bfloat16),
    "half": FLOATS.astype(np.float16),
    "complex": FLOATS.astype(np.complex64),
    "broadcast": np.broadcast_to(np.float32(2), (3, 4)),
    "empty": np.zeros((0, 3), np.float32),
    "empty strided": np.zeros((4, 0), np.float32)[::2],
    "special": np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42], np.float32),
}


def double(x):
    return weft.tree.map(lambda v: v + v, x)


@pytest.mark.parametrize("value", SCALARS, ids=repr)
@pytest.mark.parametrize("wide", [False, True], ids=["32", "64"])
def test_numbers(way, value, wide):
    with weft.enable_x64(wide):
        agree(double, value)
        agree(lambda x: x, value)
        agree(lambda x: (x, jnp.full(3, 2.0) * x), value)


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_arrays(way, name):
    value = NUMPY[name]
    function = agree(double, value)
    if name in ("read-only", "number", "booleans", "bfloat16", "empty") and way == "native":
        assert ways.hits(function) > 0
    agree(lambda x: x, value)
    agree(lambda x: x.T, value)


@pytest.mark.parametrize("name", NUMPY)
def test_arrays(way, name):
    function = agree(double, jnp.asarray(NUMPY[name]))
    assert (ways.hits(function) > 0) == (way == "native")


def test_shapes_that_take_turns(way):
    function = weft.jit(double)
    values = [jnp.ones(n) * n for n in range(20)] + [np.float32(1), 2, 2.0, True, np.ones(3)]
    values += [{"a": 1.0}, (1, 2), [1, 2], None, {"a": None}]
    for _ in range(3):
        for value in values:
            ways.same(function(value), ways.interpreted(double, value))


def test_types_of_numpy_arrays_take_turns(way):
    function = weft.jit(lambda x: x)
    for _ in range(3):
        for value in NUMPY.values():
            ways.same(function(value), ways.interpreted(lambda x: x, value))


def test_integers_that_do_not_fit(way):
    function = weft.jit(double)
    for _ in range(3):
        assert int(function(5)) == 10
        with pytest.raises(OverflowError):
            function(2**31)
        with pytest.raises(OverflowError):
            function(-(2**70))
    with weft.enable_x64(True):
        for _ in range(3):
            assert int(function(2**40)) == 2**41


def test_weak_types(way):
    for value in (1, 1.0, jnp.asarray(1), jnp.asarray(1.0), jnp.float32(1), np.float32(1), True):
        agree(lambda x: x + jnp.ones(2, jnp.bfloat16), value)
        agree(lambda x: x * 2, value)
    weak, strong = jnp.asarray(1.0), jnp.float32(1)
    assert weak.weak_type and not strong.weak_type
    function = weft.jit(lambda x: x * 2)
    for _ in range(3):
        assert function(weak).weak_type and not function(strong).weak_type


def test_scopes_of_64_bits_take_turns(way):
    function = weft.jit(lambda x: x / 3)
    for _ in range(4):
        assert function(1.0).dtype == np.float32
        with weft.enable_x64(True):
            assert function(1.0).dtype == np.float64
            assert float(function(1.0)) == 1 / 3
        assert function(np.float64(1)).dtype == np.float32


# --- trees ----------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "first second")
calls = []


class Counted(Pair):
    """A named tuple that does something when it is made."""

    def __new__(cls, first, second):
        calls.append(cls)
        return super().__new__(cls, first, second)


class Named(Pair):
    """A named tuple with attributes."""


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class Record:
    """A registered dataclass."""

    value: object
    label: object = dataclasses.field(metadata={"static": True}, default="x")


@weft.tree_util.register_pytree_node_class
class Custom:
    """A container of the user's."""

    def __init__(self, *items):
        self.items = items

    def tree_flatten(self):
        return self.items, None

    @classmethod
    def tree_unflatten(cls, _, items):
        return cls(*items)


def nested(depth):
    tree = jnp.ones(2)
    for i in range(depth):
        tree = [(tree,), {"a": tree}, [tree], Pair(tree, None)][i % 4]
    return tree


ONE = jnp.arange(3.0)
TREES = {
    "nothing": None,
    "no items": ((), [], {}, None),
    "tuple": (ONE, 2.0),
    "list": [ONE, [ONE, (3,)]],
    "dict": {"b": ONE, "a": 1, "c": {"z": (), "y": [ONE]}},
    "numbered": {3: ONE, 1: ONE, 2: None},
    "named": Pair(ONE, Pair(1, None)),
    "named with attributes": Named(ONE, 2),
    "counted": Counted(ONE, 2),
    "ordered": collections.OrderedDict(b=ONE, a=1),
    "default": collections.defaultdict(list, b=ONE, a=1),
    "record": Record(ONE),
    "inside": [{"a": Record((ONE, 1))}],
    "deep": nested(90),
    "many": [jnp.full(2, i) for i in range(1500)],
    "many in dicts": {f"k{i:04}": {"x": float(i), "y": None} for i in range(1100)},
    "numpy": {"x": np.ones(3), "y": (np.float32(2), [True, 3])},
}


@pytest.mark.parametrize("name", TREES)
def test_trees(way, name):
    tree = TREES[name]
    change = double if "many" not in name else lambda x: weft.tree.leaves(x)[::-1]
    agree(lambda x: x, tree)
    agree(lambda x: (change(x), x, None), tree)
    agree(lambda *a, **k: (k, a), tree, kw=tree)


def test_trees_of_users_classes(way):
    function = weft.jit(lambda x: Custom(x.items[0] + 1, {"a": x}))
    for _ in range(4):
        got = function(Custom(ONE, 2))
        assert type(got) is Custom and type(got.items[1]["a"]) is Custom
        assert np.array_equal(got.items[0], ONE + 1) and int(got.items[1]["a"].items[1]) == 2


def test_named_tuples_are_made_by_their_class(way):
    function = weft.jit(lambda x: Counted(x, x))
    function(ONE), function(ONE)
    calls.clear()
    for _ in range(3):
        function(ONE)
    assert calls == [Counted] * 3
    named = weft.jit(lambda x: Named(x, x))
    for _ in range(3):
        got = named(ONE)
        got.note = 1
        assert got.first is not None and gc.is_tracked(got) and got.note == 1


def test_named_tuples_among_results_have_their_own_hash(way):
    # from Python 3.14 on a tuple keeps its hash, which whoever allocates it has to clear
    Nothing = collections.namedtuple("Nothing", "first second")
    function = weft.jit(lambda x: (x + 1, Nothing(None, None)))
    for _ in range(4):
        made = function(1.0)[1]
        assert made == Nothing(None, None) and hash(made) == hash(Nothing(None, None))


def test_errors_while_a_tree_is_made(by_native):
    class Strict(Pair):
        broken = False

        def __new__(cls, first, second):
            if cls.broken:
                raise ValueError("not now")
            return super().__new__(cls, first, second)

    function = weft.jit(lambda x: Strict(x, x + 1))
    for _ in range(3):
        function(ONE)
    assert ways.hits(function) > 0
    Strict.broken = True
    with pytest.raises(ValueError, match="not now"):
        function(ONE)
    Strict.broken = False
    assert np.array_equal(function(ONE).second, ONE + 1)


def test_dicts_in_any_order_and_with_other_keys(way):
    function = weft.jit(lambda d: d)
    for d in ({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}, {"a": 1}, {"a": 1, "c": 2.0}, {}):
        for _ in range(3):
            ways.same(function(d), ways.interpreted(lambda d: d, d))
    assert function({"a": 1}).keys() == {"a"}


# --- static and named arguments -------------------------------------------------------------------


class Mutable:
    """An object whose hash is that of what it holds now."""

    def __init__(self, factor):
        self.factor = factor

    def __hash__(self):
        return hash(self.factor)

    def __eq__(self, other):
        return self.factor == other.factor


@dataclasses.dataclass(frozen=True)
class Settings:
    factor: object
    mode: str = "plain"


class Color(enum.Enum):
    RED = 2
    BLUE = 3


def test_static_arguments_by_identity_and_by_value(way):
    runs = []

    def scale(x, by, mode="plain"):
        runs.append(by)
        return x * by.factor if hasattr(by, "factor") else x * len(mode) * hash(by)

    function = weft.jit(scale, static_argnums=1, static_argnames="mode")
    for _ in range(3):
        for by in (1, 1.5, "a", (1, "b"), Settings(2), Settings(3), len, Color.RED, Color.BLUE):
            for mode in ("plain", "other"):
                expected = ways.interpreted(lambda x, m=mode, by=by: scale(x, by, m), ONE)
                ways.same(function(ONE, by, mode=mode), expected)
    runs.clear()
    # 1 == 1.0 == True: the same static argument by value, as for dictionaries
    for _ in range(3):
        function(ONE, Settings(2), mode="plain"), function(ONE, Settings(3), mode="other")
    assert runs == []


@pytest.mark.parametrize(
    "make", [Mutable, lambda m: (Mutable(m), 1), lambda m: Settings(Mutable(m))]
)
def test_static_arguments_that_change(way, make):
    changing = make(2)
    inner = next(
        x
        for x in (
            changing,
            getattr(changing, "factor", 0),
            changing[0] if type(changing) is tuple else 0,
        )
        if type(x) is Mutable
    )
    function = weft.jit(lambda x, s: x * inner.factor, static_argnums=1)
    for _ in range(4):
        assert np.array_equal(function(ONE, changing), ONE * 2)
    inner.factor = 5
    assert np.array_equal(function(ONE, changing), ONE * 5)


def test_static_arguments_that_have_no_hash(way):
    function = weft.jit(lambda x, s: x, static_argnums=1)
    for _ in range(3):
        with pytest.raises(ValueError):
            function(ONE, [])
        function(ONE, ())


def test_named_arguments(way):
    def fun(a, b=2.0, *, c, d=None):
        return {"a": a, "b": b, "c": c, "d": d}

    agree(fun, 1, c=ONE)
    agree(fun, c=ONE, a=1)
    function = weft.jit(fun)
    for _ in range(3):
        one, two = function(a=1, b=3, c=ONE, d=4), function(d=4, c=ONE, b=3, a=1)
        ways.same(one, two)
        ways.same(function(1, 3, c=ONE), ways.interpreted(fun, 1, 3, c=ONE))
        ways.same(function(1, c=ONE), ways.interpreted(fun, 1, c=ONE))
        with pytest.raises(TypeError):
            function(1)
        with pytest.raises(TypeError):
            function(1, c=ONE, e=2)
    assert (ways.hits(function) > 0) == (way == "native")


def test_methods(way):
    class Model:
        def __init__(self, factor):
            self.factor = factor

        @weft.jit
        def plain(self, x):
            return x * 2

        @staticmethod
        @weft.jit
        def loose(x):
            return x * 3

    weft.tree_util.register_pytree_node(
        Model, lambda m: ((m.factor,), None), lambda _, c: Model(*c)
    )
    model = Model(2.0)
    for _ in range(3):
        assert np.array_equal(model.plain(ONE), ONE * 2)
        assert np.array_equal(Model.loose(ONE), ONE * 3)


# --- traces and scopes ----------------------------------------------------------------------------


def ready(fun, *args, **options):
    """A function that native code answers."""
    function = weft.jit(fun, **options)
    for _ in range(3):
        function(*args)
    return function


def test_compiled_functions_are_traced_where_something_is_traced(way):
    function = ready(lambda x: jnp.sin(x) * 2, ONE)
    closed = weft.make_jaxpr(lambda x: function(ONE) + x)(ONE)
    assert [e.primitive.name for e in closed.eqns].count("jit") == 1
    assert np.allclose(weft.grad(lambda x: function(x).sum())(ONE), 2 * np.cos(ONE))
    rows = jnp.stack([ONE, ONE + 1])
    assert np.allclose(weft.vmap(function)(rows), 2 * np.sin(rows))
    assert np.allclose(weft.jvp(function, (ONE,), (ONE,))[1], 2 * np.cos(ONE) * ONE)
    assert np.allclose(weft.vmap(weft.grad(lambda x: function(x).sum()))(rows), 2 * np.cos(rows))
    again = weft.jit(lambda x: function(function(x)))
    for _ in range(3):
        assert np.allclose(again(ONE), 2 * np.sin(2 * np.sin(ONE)))


def test_named_axes_are_seen(way):
    function = weft.jit(lambda x: x * 2)
    for _ in range(3):
        function(ONE)
    seen = weft.vmap(lambda x: lax.psum(function(x), "i"), axis_name="i")(ONE)
    assert np.array_equal(seen, [6.0, 6.0, 6.0])
    inner = weft.jit(lambda x: x - lax.psum(x, "i"))
    for _ in range(3):
        assert np.array_equal(weft.vmap(inner, axis_name="i")(ONE), ONE - 3)


def test_tracers_among_arguments_and_closures(way):
    function = ready(lambda x, y: x * y, ONE, ONE)
    assert np.allclose(weft.grad(lambda x: function(x, ONE).sum())(ONE), ONE)

    def outer(x):
        return weft.jit(lambda y: x * y)(ONE).sum()

    for _ in range(3):
        assert np.allclose(weft.grad(outer)(ONE), ONE)


def test_disable_jit(way):
    runs = []
    function = ready(lambda x: (runs.append(1), x + 1)[1], ONE)
    before = len(runs)
    with weft.disable_jit():
        function(ONE), function(ONE)
    assert len(runs) == before + 2
    function(ONE)
    assert len(runs) == before + 2


def test_interpreter_scope(by_native):
    function = ready(lambda x: x + 1, ONE)
    before = ways.hits(function)
    with knobs.scope(backend="reference"):
        function(ONE)
    assert ways.hits(function) == before
    function(ONE)
    assert ways.hits(function) == before + 1


def test_caches_are_cleared_between_and_within_calls(way):
    def clear(x):
        function.clear_cache()
        weft.clear_caches()
        gc.collect()
        return np.asarray(x)

    shape = weft.ShapeDtypeStruct((3,), np.float32)
    function = weft.jit(lambda x: weft.pure_callback(clear, shape, x * 2) + x)
    for _ in range(6):
        assert np.array_equal(function(ONE), ONE * 3)


# --- callbacks ------------------------------------------------------------------------------------

SHAPE = weft.ShapeDtypeStruct((3,), np.float32)


def test_errors_in_callbacks(way):
    wanted = [None]

    def back(x):
        if wanted[0] is not None:
            raise wanted[0]
        return np.asarray(x)

    function = ready(lambda x: weft.pure_callback(back, SHAPE, x) + 1, ONE)
    for _ in range(3):
        wanted[0] = ValueError("no such thing")
        with pytest.raises(JaxRuntimeError, match="no such thing"):
            function(ONE)
        for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
            wanted[0] = kind()
            with pytest.raises(kind):
                function(ONE)
        wanted[0] = None
        assert np.array_equal(function(ONE), ONE + 1)


def test_errors_in_callbacks_of_loops(way):
    def back(i):
        if i == 7:
            raise ValueError("seven")
        return np.asarray(i)

    shape = weft.ShapeDtypeStruct((), np.int32)

    def body(i, c):
        return c + weft.pure_callback(back, shape, i)

    function = weft.jit(lambda n: lax.fori_loop(0, n, body, 0))
    for _ in range(3):
        assert int(function(7)) == 21
        with pytest.raises(JaxRuntimeError, match="seven"):
            function(9)


def test_callbacks_call_compiled_functions(way):
    inner = ready(lambda x: jnp.sum(x * x), jnp.ones(70_000))
    large = weft.ShapeDtypeStruct((), np.float32)
    function = weft.jit(lambda x: weft.pure_callback(inner, large, x * 2) + x[0])
    x = jnp.ones(70_000)
    for _ in range(4):
        assert float(function(x)) == 280_001.0


def test_recursion_through_callbacks(way):
    shape = weft.ShapeDtypeStruct((), np.float32)

    def back(x):
        return np.asarray(function(x - 1) if x > 0 else x, np.float32)

    function = weft.jit(lambda x: weft.pure_callback(back, shape, x) + 1)
    for _ in range(3):
        assert float(function(jnp.float32(12))) == 13.0


def test_endless_recursion_ends():
    text = """
import weft, numpy as np
from weft.backends.llvm.calls import dispatch
dispatch.native()
shape = weft.ShapeDtypeStruct((), np.float32)
function = weft.jit(lambda x: weft.pure_callback(lambda y: function(y), shape, x) + 1)
try:
    function(1.0)
except BaseException as error:
    print("RecursionError" in repr(error) or isinstance(error, RecursionError))
print(float(weft.jit(lambda x: x + 1)(1.0)))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["True", "2.0"]


def test_callbacks_may_keep_what_they_are_given(way):
    kept = []

    def back(x):
        kept.append(x)
        return np.asarray(x)

    large = weft.ShapeDtypeStruct((5000,), np.float32)
    function = weft.jit(lambda x: weft.pure_callback(back, large, x * 3) * 2)
    for i in range(5):
        function(jnp.full(5000, float(i)))
    assert [float(x[-1]) for x in kept] == [3.0 * i for i in range(5)]
    assert all(np.array_equal(x, np.full(5000, 3.0 * i)) for i, x in enumerate(kept))


@pytest.mark.parametrize("make", [np.array, jnp.asarray], ids=["numpy", "array"])
def test_callbacks_may_drop_the_arguments(way, make):
    given = []

    def back(x):
        given.clear()
        gc.collect()
        kept.extend(np.full(50_000, 7, np.float32) for _ in range(20))
        return np.asarray(x)

    function = weft.jit(lambda xs: (weft.pure_callback(back, SHAPE, xs[0][:3]) + xs[0][:3], xs))
    for i in range(4):
        kept = []
        given.append(make(np.full(50_000, i, np.float32)))
        head, (same,) = function(given)
        assert np.array_equal(head, np.full(3, 2.0 * i, np.float32))
        assert np.array_equal(same, np.full(50_000, i, np.float32))
    assert (ways.hits(function) > 0) == (way == "native")
    with pytest.raises(IndexError):
        function([])


def test_callbacks_with_other_scopes(way):
    def back(x):
        with weft.enable_x64(True), weft.num_threads(1):
            assert weft.jit(lambda v: v * 2)(1.0).dtype == np.float64
        return np.asarray(weft.grad(lambda v: jnp.sum(v * v))(x))

    function = weft.jit(lambda x: weft.pure_callback(back, SHAPE, x))
    for _ in range(3):
        assert np.array_equal(function(ONE), 2 * ONE)


def test_ordered_effects_stay_in_order(way):
    seen = []
    one = weft.ShapeDtypeStruct((), np.int32)

    def note(i):
        seen.append(int(i))
        return np.int32(i)

    def fun(n):
        def body(i, c):
            return c + weft.experimental.io_callback(note, one, i, ordered=True)

        return lax.fori_loop(0, n, body, 0)

    function = weft.jit(fun)
    for _ in range(3):
        seen.clear()
        assert int(function(5)) == 10 and seen == [0, 1, 2, 3, 4]


# --- results --------------------------------------------------------------------------------------


def test_results_that_are_arguments_constants_and_each_other(way):
    constant = jnp.arange(4.0)

    def fun(x, y):
        z = x + y
        return x, z, z, constant, 3, y, x, constant * 1, np.ones(2)

    agree(fun, ONE, ONE)
    agree(fun, np.ones(3), ONE)
    agree(fun, 1.0, ONE)
    agree(lambda x: (x, x), ONE)
    agree(lambda: (constant, 1, None))


def test_the_callers_memory_is_never_returned(way):
    function = weft.jit(lambda x: (x, x.reshape(2, 2), x[:2], x + 1))
    for _ in range(4):
        value = np.arange(4, dtype=np.float32)
        found = function(value)
        value[:] = -1
        assert [list(np.ravel(v)) for v in found] == [
            [0, 1, 2, 3],
            [0, 1, 2, 3],
            [0, 1],
            [1, 2, 3, 4],
        ]


def test_random_keys(way):
    keys = weft.random.split(weft.random.key(1), 3)
    agree(lambda k: k, keys)
    agree(lambda k: (k[0], weft.random.bits(k[1], (3,))), keys)
    agree(lambda k, n: weft.random.split(k, 2), keys[0], 1)
    agree(lambda k: {"key": k, "bits": weft.random.bits(k)}, weft.random.key(7))


def test_deleted_arrays(way):
    function = ready(lambda x, y: x + y, ONE, ONE)
    for _ in range(2):
        gone = jnp.ones(3)
        gone.delete()
        with pytest.raises((RuntimeError, ValueError), match="deleted"):
            function(gone, ONE)
        with pytest.raises((RuntimeError, ValueError), match="deleted"):
            gone + ONE
        assert np.array_equal(function(ONE, ONE), ONE + ONE)


def test_results_outlive_everything(way):
    def make():
        function = weft.jit(lambda x: (x * 2, x))
        for i in range(4):
            results = function(jnp.full(2000, float(i)))
        return results

    twice, once = make()
    views = np.asarray(twice), memoryview(np.asarray(once))
    del once
    weft.clear_caches()
    gc.collect()
    weft.jit(lambda x: x * 5)(jnp.ones(2000))
    assert np.array_equal(twice, np.full(2000, 6.0))
    del twice
    gc.collect()
    weft.jit(lambda x: x * 5)(jnp.ones(2000))
    assert np.array_equal(views[0], np.full(2000, 6.0))
    assert np.array_equal(views[1], np.full(2000, 3.0))


# --- operators ------------------------------------------------------------------------------------

OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "radd": lambda x, y: y + x,
    "rsub": lambda x, y: y - x,
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: abs(x),
}
UNARY = ("neg", "abs")
OPERANDS = [jnp.arange(1.0, 4.0), jnp.arange(1, 4), jnp.float32(2.5), jnp.asarray(3), 2, 2.5, -0.0]
OPERANDS += [True, np.float32(2), np.arange(1, 4), jnp.arange(1, 4, dtype=jnp.uint8), np.nan]
OPERANDS += [jnp.arange(1, 4).astype(jnp.bfloat16), jnp.array([True, False, True]), 2**31 - 1, -3]


def outcome(fun, *args):
    """The result of an operation, or the class of what it raises."""
    try:
        return fun(*args)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operators(by_native, name):
    operation = OPERATIONS[name]
    start = list(OPERATIONS).index(name) % 2
    for i, x in enumerate(OPERANDS):
        for y in OPERANDS[(start + i) % 2 :: 2]:  # each pair for every other operation
            if not isinstance(x, weft.Array) and (name in UNARY or not isinstance(y, weft.Array)):
                continue
            with knobs.scope(backend="reference"):
                want = outcome(operation, x, y)
            for _ in range(4):
                got = outcome(operation, x, y)
                if isinstance(want, weft.Array):
                    ways.same(got, want)
                else:
                    assert got is want


INDICES = [0, -1, 2, (0, 1), (1, slice(None)), slice(1, 3), slice(None, None, 2), None, Ellipsis]
INDICES += [(Ellipsis, 0), (0, Ellipsis, 1), (None, 2), (slice(0, 0),), (slice(None), -1), ()]
INDICES += [
    jnp.array([2, 0]),
    (jnp.array([0, 1]), 1),
    True,
    [0, 1],
    np.array([1, 1]),
    3,
    -4,
    7,
    1.5,
]
INDICES += [slice(None, None, -1), (0, 0, 0, 0), (slice(1, 9), slice(-3, None)), "a"]


def test_indexing(by_native):
    x = jnp.arange(24.0).reshape(3, 4, 2)
    for _ in range(2):
        for index in INDICES:
            with knobs.scope(backend="reference"):
                want = outcome(lambda x, i=index: x[i], x)
            for _ in range(3):
                got = outcome(lambda x, i=index: x[i], x)
                if isinstance(want, weft.Array):
                    ways.same(got, want)
                else:
                    assert got is want, index


def test_operators_are_answered_natively_and_traced_where_they_should(by_native):
    x = jnp.arange(5.0)
    for _ in range(5):
        x + x
    closed = weft.make_jaxpr(lambda y: (x + x) * y)(x)
    assert [e.primitive.name for e in closed.eqns] == ["add", "mul"]
    assert np.allclose(weft.grad(lambda y: (y + y).sum())(x), 2)


def test_operators_and_integers_that_do_not_fit(by_native):
    x = jnp.arange(3)
    for _ in range(4):
        x + 1
        with pytest.raises(OverflowError):
            x + 2**31
    assert np.array_equal(x + (2**31 - 1), np.arange(3, dtype=np.int32) + np.int32(2**31 - 1))


# --- loading --------------------------------------------------------------------------------------


def test_programs_run_where_the_native_caller_cannot_be_made(monkeypatch, caplog):
    def broken():
        raise OSError("no memory for code")

    monkeypatch.setattr(dispatch, "Native", broken)
    monkeypatch.setattr(dispatch, "_native", None)
    monkeypatch.setattr(dispatch, "_loading", None)
    function = weft.jit(lambda x: x * 3)
    for _ in range(4):
        assert np.array_equal(function(ONE), ONE * 3)
        assert dispatch.native() is None
        x = ONE + ONE
    assert np.array_equal(x, 2 * ONE)
    assert [r.levelname for r in caplog.records if "no memory for code" in r.message] == ["WARNING"]


def test_an_entry_is_made_once_for_each_kind_of_call(by_native):
    function = weft.jit(lambda x: x + 1)
    for _ in range(5):
        function(1.0), function(ONE), function(np.ones(3, np.float32))
    assert len(entries.entries_of(function)) == 3
    for n in range(2 * entries.MAX_FUNCTION_ENTRIES):
        for _ in range(2):
            assert function(jnp.ones(n)).shape == (n,)
    assert len(entries.entries_of(function)) == entries.MAX_FUNCTION_ENTRIES


def test_threads_see_their_own_scopes(way):
    function = weft.jit(lambda x: x / 3)
    found = {}

    def work(wide):
        with weft.enable_x64(wide):
            found[wide] = [function(1.0).dtype for _ in range(300)]

    threads = [threading.Thread(target=work, args=(wide,)) for wide in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found[True]) == {np.dtype(np.float64)}
    assert set(found[False]) == {np.dtype(np.float32)}


@pytest.mark.parametrize("busy", [dispatch.busy, lambda: lazy._importing])
@pytest.mark.parametrize("wanted", [False, True])
def test_the_caller_is_not_made_while_a_program_is_compiled_or_files_are_loaded(
    wanted, busy, monkeypatch
):
    monkeypatch.setattr(dispatch, "Native", dict)
    monkeypatch.setattr(dispatch.pool, "load", lambda: None)
    with busy():
        loading = dispatch._Loading()
        loading.thread.join(10 * dispatch.START_DELAY_S)
        assert loading.made is None
        if wanted:  # somebody waits for it after all
            loading.wanted.set()
            loading.thread.join()
    loading.thread.join()
    assert loading.made == {}


@pytest.mark.parametrize("first", [True, False])
def test_the_caller_waits_while_new_programs_follow_each_other(first, monkeypatch):
    """First calls of many programs have the processor to themselves; a second call ends that."""
    monkeypatch.setattr(dispatch, "Native", dict)
    monkeypatch.setattr(dispatch.pool, "load", lambda: None)
    monkeypatch.setattr(dispatch, "_native", None)
    monkeypatch.setattr(dispatch, "QUIET_S", 60.0)
    with dispatch.busy():
        pass
    loading = dispatch._Loading()
    monkeypatch.setattr(dispatch, "_loading", loading)
    assert dispatch.native(wait=False, first=True) is None
    loading.thread.join(10 * dispatch.START_DELAY_S)
    assert not loading.begun
    assert dispatch.native(wait=False, first=first) is None
    loading.thread.join(10 * dispatch.START_DELAY_S if first else None)
    assert loading.begun is not first
    loading.wait()
    assert loading.made == {}


def test_calls_let_the_native_caller_be_made(monkeypatch):
    """Each call sleeps once the thread is at work, and before that none does."""
    slept, hold = [], threading.Event()

    def made():
        hold.wait()
        return {}

    monkeypatch.setattr(dispatch, "Native", made)
    monkeypatch.setattr(dispatch.pool, "load", lambda: None)
    monkeypatch.setattr(dispatch, "_native", None)
    with dispatch.busy():
        loading = dispatch._Loading()
        monkeypatch.setattr(dispatch, "_loading", loading)
        with monkeypatch.context() as patch:
            patch.setattr(dispatch.time, "sleep", slept.append)
            assert dispatch.native(wait=False) is None
        assert not slept and not loading.begun
        loading.wanted.set()
        while not loading.begun:
            loading.thread.join(0.001)
    with monkeypatch.context() as patch:
        patch.setattr(dispatch.time, "sleep", slept.append)
        assert dispatch.native(wait=False) is None and dispatch.native(wait=False) is None
    assert slept == [dispatch.TURN_S] * 2
    hold.set()
    loading.thread.join()
