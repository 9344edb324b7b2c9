"""Calls that trace, compile or copy: what a report says of them, and scopes that refuse them."""

import dataclasses
import functools
import logging
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.backends.llvm.calls import dispatch
from weft.base import background, knobs, observing
from weft.runtime.client import host_named


@functools.partial(weft.jit, static_argnames=("n", "mode"))
def step(params, batch, n=1, mode=None, *, lr=0.1):
    return {"w": params["w"] - lr * n * batch["x"].sum()}


PARAMS = {"w": np.ones(3, np.float32)}


def arguments(rows=8, dtype="float32"):
    return weft.device_put(PARAMS), {"x": jnp.ones((rows, 3), dtype)}


@pytest.fixture(autouse=True)
def warm():
    step.clear_cache()
    step(*arguments())
    arguments(9), jnp.float32(2), arguments(8, "int32")  # whose own programs are there
    yield
    assert observing.thread.scopes == () and observing.thread.call is None
    assert knobs.thread.context_key.plain is None


def reasons(call, *args, **kwargs):
    """Why a call is traced, or () if it is not."""
    with weft.explain_recompiles() as report:
        call(*args, **kwargs)
    found = [r for r in report.recompiles if "step" in r.function or "<lambda>" in r.function]
    assert len(found) <= 1
    return found[0].reasons if found else ()


class Opaque:
    def __repr__(self):
        return "opaque"


def changed_calls():
    params, batch = arguments()
    masked = {**batch, "mask": jnp.ones(3, bool)}
    return {
        "nothing": ((params, batch), {}, ()),
        "shape": ((params, {"x": jnp.ones((9, 3))}), {}, ("batch['x']: shape (8, 3) → (9, 3)",)),
        "rank": ((params, {"x": jnp.ones(3)}), {}, ("batch['x']: shape (8, 3) → (3,)",)),
        "dtype": ((params, arguments(8, "int32")[1]), {}, ("batch['x']: dtype float32 → int32",)),
        "static": ((params, batch), {"n": 2}, ("n: static value 1 (by default) → 2",)),
        "structure": ((params, masked), {}, ("batch['mask']: new, bool[3]",)),
        "position": ((params, batch, 3), {}, ("n: static value 1 (by default) → 3",)),
    }


@pytest.mark.parametrize("name", changed_calls())
def test_what_changed_is_named(name):
    args, kwargs, want = changed_calls()[name]
    assert reasons(step, *args, **kwargs) == want
    assert reasons(step, *args, **kwargs) == ()


def test_several_changes_and_the_nearest_call():
    params, _ = arguments()
    found = reasons(step, params, {"x": jnp.ones((9, 3), jnp.int32)}, n=2)
    assert found == (
        "batch['x']: shape (8, 3) → (9, 3), dtype float32 → int32",
        "n: static value 1 (by default) → 2",
    )
    found = reasons(step, params, {"x": jnp.ones((9, 3), jnp.int32)}, n=3)
    assert found == ("n: static value 2 → 3",)


def test_weak_types():
    f = weft.jit(lambda x, y: x * y)
    f(jnp.ones(3), 2.0)
    assert reasons(f, jnp.ones(3), jnp.float32(2)) == (
        "y: weak type: weak (as of a Python number) → not weak",
    )


def test_static_values_that_are_not_equal():
    args = arguments()
    step(*args, mode=Opaque())
    (found,) = reasons(step, *args, mode=Opaque())
    assert (
        found == "mode: static value opaque → opaque (equal in print; define __eq__ and __hash__)"
    )


class Named:
    """A static value whose class does not define equality."""


def test_static_objects_that_are_never_equal():
    args = arguments()
    step(*args, mode=Named())
    (found,) = reasons(step, *args, mode=Named())
    assert found.endswith("(two objects of Named are never equal; define __eq__ and __hash__)")


@dataclasses.dataclass(frozen=True)
class Config:
    """A static value of many parts."""

    title: str = "a title that takes most of the characters that a message has for one value"
    rate: float = 0.1
    layers: tuple = (1, 2, 3)
    more: dict = dataclasses.field(default_factory=dict, hash=False)


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    w: object
    steps: int = dataclasses.field(metadata={"static": True})


def static_changes():
    long = ("x" * 300, 1)
    return {
        "a field": (Config(), Config(rate=0.2), ["c.rate: static value 0.1 → 0.2"]),
        "an element": (
            Config(),
            Config(layers=(1, 5, 3)),
            ["c.layers[1]: static value 2 → 5"],
        ),
        "a key": (
            Config(more={"a": 1}),
            Config(more={"a": 2}),
            ["c.more['a']: static value 1 → 2"],
        ),
        "two fields": (
            Config(),
            Config(rate=0.2, layers=()),
            ["c.rate: static value 0.1 → 0.2", "c.layers: static value (1, 2, 3) → ()"],
        ),
        "long texts": (
            "x" * 300 + "a",
            "x" * 300 + "b",
            [f"c: static value …{'x' * 20}a' → …{'x' * 20}b'"],
        ),
        "long tuples": (long, (long[0], 2), ["c[1]: static value 1 → 2"]),
        "other kinds": (1, "1", ["c: static value 1 → '1'"]),
        "many parts": (
            tuple(range(9)),
            tuple(range(1, 10)),
            [*[f"c[{i}]: static value {i} → {i + 1}" for i in range(4)], "c: 5 more parts differ"],
        ),
    }


@pytest.mark.parametrize("name", static_changes())
def test_the_part_of_a_static_value_is_named(name):
    old, new, want = static_changes()[name]
    f = weft.jit(lambda x, c: x, static_argnums=1)
    f(1.0, old)
    assert list(reasons(f, 1.0, new)) == want
    f = weft.jit(lambda x, c: x, static_argnames="c")
    f(1.0, c=old)
    assert list(reasons(f, 1.0, c=new)) == want


def test_structures_of_arguments():
    x = jnp.ones(3)
    f = weft.jit(lambda s, y=None: s)
    f(State(x, 1))
    assert reasons(f, State(x, 2)) == ("s.steps: static value 1 → 2",)
    assert reasons(f, State(jnp.ones(4), 2)) == ("s.w: shape (3,) → (4,)",)
    assert reasons(f, State(x, 2), None) == ("y: not given → None",)
    assert reasons(f, State(x, 2), 1.0) == ("y: new, float32[]",)
    assert reasons(f, State(x, 2), y=1.0) == ("y: given by position → by name",)
    f([x, {"a": x}])
    assert reasons(f, (x, {"a": x})) == ("s: a list → a tuple",)
    assert reasons(f, (x, {"a": x, "b": None})) == ("s[1]['b']: new, None",)


def test_transformations():
    x, xs = jnp.ones(3), jnp.ones((2, 3))
    f = weft.jit(lambda x, y: x @ y)
    weft.vmap(f)(xs, xs)

    def why(call):
        with weft.explain_recompiles() as report:
            call()
        return next(r.reasons for r in report.recompiles if "<lambda>" in r.function)

    assert why(lambda: weft.vmap(f, (0, None))(xs, x)) == (
        "y: float32[2,3], mapped along axis 0 → a value that is not transformed",
    )
    assert why(lambda: weft.grad(f)(x, x)) == (
        "x: float32[2,3], mapped along axis 0 → float32[3], differentiated",
    )
    more = jnp.ones((4, 3))
    assert "y: a value that is not transformed → float32[4,3], mapped along axis 0" in why(
        lambda: weft.vmap(f)(more, more)
    )


class Model:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, x):
        return x * self.rate

    def step(self, x):
        return x * self.rate


def test_methods_and_objects():
    x, model = jnp.ones(3), Model(2)
    weft.jit(model.step)(x)
    (found,) = reasons(weft.jit(model.step), x)
    assert "the bound method step is another object each time it is read; call jit of it" in found
    assert reasons(weft.jit(Model(3).step), x)[1] == "attribute rate: 2 → 3"
    weft.jit(Model(2))(x)
    with weft.explain_recompiles() as report:
        weft.jit(Model(5))(x)
    found = report.recompiles[0].reasons
    assert "an object of type Model is made for each call" in found[0]
    assert found[1] == "attribute rate: 2 → 5"


def test_settings_and_missing_arguments():
    args = arguments()
    with weft.enable_x64(True):
        assert reasons(step, *args) == ("setting enable_x64: False → True",)
    step(*args, lr=jnp.float32(2))
    step.clear_cache()
    step(*args, lr=jnp.float32(2))
    assert reasons(step, *args) == ("lr: missing, was float32[]",)


def test_caches_that_were_cleared():
    args = arguments()
    step.clear_cache()
    assert "cache was cleared" in reasons(step, *args)[0]


def test_functions_that_are_made_for_each_call():
    x = jnp.ones(3)

    def square(x):
        return (x * x).sum()

    with weft.explain_recompiles() as report:
        for scale in (2.0, 3.0):
            weft.jit(lambda x: x * scale)(x)  # noqa: B023 -- called at once
            weft.jit(weft.grad(square))(x)
            weft.jit(functools.partial(square))(x)
            lax.scan(lambda c, y: (c + y, c), 0.0, x)
            weft.jit(square)(x)  # the same function: not traced again
    assert sum(r.first for r in report.recompiles) >= 5
    texts = [str(r.reasons) for r in report.again]
    assert sum("a new function object: <lambda> is defined again" in t for t in texts) == 2
    assert any("variable scale: 2.0 → 3.0" in t for t in texts)
    assert sum("a transformation of square is made for each call" in t for t in texts) == 1
    assert sum("functools.partial of square is made for each call" in t for t in texts) == 1


def test_arguments_that_partial_gives():
    def scaled(scale, x, *, shift):
        return x * scale + shift

    with weft.explain_recompiles() as report:
        for scale, shift in ((2.0, 1), (3.0, 1), (3.0, 4)):
            weft.jit(functools.partial(scaled, scale, shift=shift))(jnp.ones(3))
    texts = [r.reasons[1:] for r in report.again]
    assert texts == [
        ("argument of functools.partial scale: 2.0 → 3.0",),
        ("argument of functools.partial shift: 1 → 4",),
    ]


def test_lines_and_the_text():
    params, _ = arguments()
    batch = {"x": jnp.ones((11, 3))}
    with weft.explain_recompiles() as report:
        step(params, batch)
    code = pathlib.Path(__file__).read_text().splitlines()
    here = [n for n, line in enumerate(code, 1) if line.endswith("step(params, batch)")]
    (one,) = report.recompiles
    assert one.line in [f"test_recompiles.py:{n} (test_lines_and_the_text)" for n in here]
    assert one.function.startswith("step at test_recompiles.py:") and one.seconds > 0
    assert one.stages == ("traced", "compiled") and not one.first
    text = str(report)
    assert text.splitlines()[0].startswith("1 call traced or compiled, in ")
    assert "  batch['x']: shape (8, 3) → (11, 3)" in text.splitlines()
    assert "→ (11, 3)" in report._repr_html_() and repr(report).startswith("<report: 1 call")
    with weft.explain_recompiles() as report:
        step(params, batch)
    assert str(report) == "nothing was traced, compiled or copied"


def test_calls_inside_of_others_are_part_of_them():
    inner = weft.jit(lambda x: x + 1)
    outer = weft.jit(lambda x: inner(x) * 2)
    with weft.explain_recompiles() as report:
        outer(jnp.ones(3))
    assert sum("<lambda>" in r.function for r in report.recompiles) == 1


def test_logs(caplog):
    params, _ = arguments()
    with caplog.at_level(logging.WARNING, "weft"), weft.log_recompiles(True):
        step(params, {"x": jnp.ones((13, 3))})
    (text,) = [r.message for r in caplog.records if "step" in r.message]
    assert text.startswith("Recompile: step at test_recompiles.py:")
    assert "batch['x']: shape (8, 3) → (13, 3)" in text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "weft"), weft.log_transfers(True):
        step(params, {"x": np.ones((8, 3), np.float32)})
    (text,) = [r.message for r in caplog.records]
    assert text.startswith("Transfer: float32[8,3] (96 bytes), host to device: step at test_rec")


# --- refusals -------------------------------------------------------------------------------------


def test_no_recompiles():
    params, batch = arguments()
    other = {"x": jnp.ones((9, 3))}
    traces = step.cache_info()["misses"]
    with weft.no_recompiles():
        step(params, batch)
        with pytest.raises(weft.errors.RecompileError) as caught:
            step(params, other)
        step(params, batch)
    assert step.cache_info()["entries"] == 1 and step.cache_info()["misses"] <= traces + 1
    text = str(caught.value)
    assert "step at test_recompiles.py" in text and "batch['x']: shape (8, 3) → (9, 3)" in text
    assert "— test_recompiles.py:" in text and "no_recompiles forbids" in text
    step(params, other)


def test_some_may_be_allowed_and_scopes_nest():
    params, _ = arguments()
    rows = [{"x": jnp.ones((n, 3))} for n in range(20, 26)]
    with weft.no_recompiles(allow=2):
        step(params, rows[0])
        with pytest.raises(weft.errors.RecompileError), weft.no_recompiles():
            step(params, rows[1])
        with (
            weft.no_recompiles(allow=5),
            pytest.raises(weft.errors.RecompileError, match="allow=2"),
        ):
            step(params, rows[2])
        with pytest.raises(weft.errors.RecompileError):
            step(params, rows[3])
    with pytest.raises(ValueError, match="from 0 up"), weft.no_recompiles(allow=-1):
        pass
    with pytest.raises(TypeError), weft.no_recompiles(allow=1.5):
        pass


def test_a_scope_is_of_its_thread():
    params, _ = arguments()
    rows = [{"x": jnp.ones((n, 3))} for n in (31, 32)]
    errors = []

    def other():
        try:
            step(params, rows[0])
        except Exception as error:
            errors.append(error)

    with weft.no_recompiles(), weft.explain_recompiles() as report:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert not errors
    assert not report.recompiles


def test_what_is_compiled_in_the_background_does_not_count():
    f = weft.jit(lambda x: jnp.sin(x) * 2)
    x, y = jnp.ones(1000), jnp.ones(1001)
    f(x), f(y)
    with weft.no_recompiles():
        for _ in range(knobs.thread.exact_after + 3):
            f(y)
        background.settle()
        f(y)


def test_eager_operations_that_are_known():
    x, y = jnp.ones((40, 40)), jnp.arange(5.0)
    program = lambda: [x @ x, x + 2, jnp.tanh(y), y[1], y.at[2].set(3.0), jnp.where(y > 1, y, 0)]
    program()
    with weft.no_recompiles(), weft.no_transfers():
        for _ in range(5):
            program()
    for _ in range(5):
        program()
    with weft.no_recompiles(), weft.no_transfers(), weft.explain_recompiles() as report:
        program()
    assert not report.recompiles


def test_loops_with_new_bodies():
    run = lambda: lax.fori_loop(0, 3, lambda i, c: c + 1.0, 0.0)
    run()
    with weft.no_recompiles(), pytest.raises(weft.errors.RecompileError, match="new function"):
        run()


def test_no_transfers():
    params, batch = arguments()
    host = np.ones((8, 3), np.float32)
    step(params, {"x": host})
    with weft.no_transfers():
        step(params, batch, lr=0.5)
        step(params, weft.device_put({"x": host}))
        batch["x"] + 1
        for call in (
            lambda: step(params, {"x": host}),
            lambda: batch["x"] + host,
            lambda: jnp.add(batch["x"], host),
            lambda: jnp.asarray(host),
        ):
            with pytest.raises(weft.errors.TransferError, match=r"float32\[8,3\] \(96 bytes\)"):
                call()
    with weft.no_transfers(allow_explicit=False), pytest.raises(weft.errors.TransferError):
        weft.device_put(host)
    assert issubclass(weft.errors.TransferError, weft.errors.JaxRuntimeError)


def test_transfers_in_a_report():
    params, _ = arguments()
    with weft.explain_recompiles() as report:
        for _ in range(2):
            step(params, {"x": np.ones((8, 3), np.float32)})
        weft.device_put(np.ones(5))
    first, again, put = report.transfers
    assert (first.direction, first.nbytes, first.function) == ("host to device", 96, "step")
    assert first == again and not first.explicit and put.explicit
    assert "(2 times)" in str(report) and "test_recompiles.py:" in first.line


def test_transfer_guards_are_as_they_were():
    with weft.transfer_guard("disallow"), pytest.raises(weft.errors.JaxRuntimeError) as caught:
        step(arguments()[0], 2.0)
    assert type(caught.value) is weft.errors.JaxRuntimeError


SHARDS = """
import weft, weft.numpy as jnp
from weft.sharding import NamedSharding, PartitionSpec as P
mesh = weft.make_mesh((4,), ("i",))
f = weft.jit(lambda x: x + 1, donate_argnums=0)
with weft.explain_recompiles() as report:
    for place in (None, NamedSharding(mesh, P("i")), weft.devices()[1], weft.devices()[1]):
        f(weft.device_put(jnp.arange(8.0), place))
print(report)
"""


def test_places_of_arguments():
    done = subprocess.run(
        [sys.executable, "-c", SHARDS],
        env={**os.environ, "WEFT_NUM_CPU_DEVICES": "4", "WEFT_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "float32[8] (32 bytes), device to device: device_put at <string>:8" in done.stdout
    assert "  x: sharding none → P('i',)" in done.stdout


def test_settings_of_another_thread_reach_a_call_that_is_observed():
    seen = []

    def change():
        thread = threading.Thread(target=lambda: weft.config.update("jax_random_seed_offset", 3))
        thread.start()
        thread.join()
        return np.float32(0)

    f = weft.jit(lambda: weft.pure_callback(change, weft.ShapeDtypeStruct((), np.float32)))
    try:
        with weft.explain_recompiles():
            f()
            seen.append(knobs.thread.context_key)
            seen.append(dict(zip(knobs.in_key_values(), seen[0].values, strict=False)))
        assert seen[0].plain is not None and seen[1]["random_seed_offset"] == 3
    finally:
        weft.config.update("jax_random_seed_offset", 0)


# --- cost -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not dispatch.supported(), reason="there is no native caller here")
def test_native_calls_stay_native():
    frames = []

    def look(frame, event, arg):
        if event == "call" and "weft" in frame.f_code.co_filename:
            frames.append(frame.f_code.co_name)

    def called(f, *args):
        frames.clear()
        sys.setprofile(look)
        try:
            f(*args)
        finally:
            sys.setprofile(None)
        return [name for name in frames if name != "look"]

    f = weft.jit(lambda x, y: x * y)
    x = jnp.ones(7)
    with knobs.backend("native"):
        for _ in range(10):
            f(x, x)
        assert called(f, x, x) == []
        with weft.no_recompiles():
            assert called(f, x, x) == []
        with weft.no_transfers():
            hits = host_named("native").hits(f)
            assert "observed" in called(f, x, x)
            assert host_named("native").hits(f) == hits + 1  # looked at, then answered natively
        with weft.explain_recompiles():
            assert "observed" in called(f, x, x)
        assert called(f, x, x) == []


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_backends_take_one_road(backend):
    with knobs.backend(backend):
        f = weft.jit(lambda x: jnp.sin(x) + 1)
        x, y = jnp.ones(4), jnp.ones(5)
        f(x)
        with weft.explain_recompiles() as report:
            f(y)
        assert report.again[-1].reasons == ("x: shape (4,) → (5,)",)
        with weft.no_recompiles():
            f(y)


def test_objects_that_answer_badly_are_not_asked():
    class Odd:
        def __getattr__(self, name):
            raise ModuleNotFoundError(name)

    class Worse:
        dtype = np.dtype(np.float32)

        @property
        def shape(self):
            raise RuntimeError("not yet")

    odd, worse = Odd(), Worse()

    def f(x, default=worse):
        return x + (odd is worse) + (default is odd)

    assert float(weft.jit(f, static_argnames="default")(1.0)) == 1.0
