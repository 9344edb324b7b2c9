"""Training steps: as written by hand, scaled, averaged, and over four devices."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.train import sharded_steps
from weft import P, optim, train
from weft.train import sharding_rules

ROOT = Path(__file__).resolve().parents[2]


class State(train.TrainState):
    dynamic_scale: Any = None
    ema: Any = None


def quadratic(params, batch):
    return ((params["w"] - batch) ** 2).mean()


def state_of(tx, **more):
    return State.create(apply_fn=None, params={"w": jnp.zeros(3)}, tx=tx, **more)


def test_a_step_is_value_grad_and_update():
    step = train.make_step(quadratic)
    tx, batch = optim.adam(0.1), jnp.ones((4, 3))
    state, params = state_of(tx), {"w": jnp.zeros(3)}
    opt_state = tx.init(params)
    for _ in range(5):
        value, grads = weft.value_and_grad(quadratic)(params, batch)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optim.apply_updates(params, updates)
        state, outputs = step(state, batch)
        np.testing.assert_allclose(outputs["loss"], value, rtol=1e-6)
        np.testing.assert_allclose(outputs["grad_norm"], optim.tree.norm(grads), rtol=1e-6)
    np.testing.assert_allclose(state.params["w"], params["w"], rtol=1e-5)
    assert int(state.step) == 5


def test_a_scaled_loss_skips_steps_that_are_not_finite():
    scale = train.DynamicScale(growth_interval=1, scale=2.0**10)
    state = state_of(optim.sgd(0.1, momentum=0.9), dynamic_scale=scale)
    step = train.make_step(quadratic, donate=False)
    state, outputs = step(state, jnp.ones((2, 3)))
    assert outputs["finite"] and int(state.step) == 1
    after, outputs = step(state, jnp.full((2, 3), jnp.inf))
    assert not outputs["finite"] and after.dynamic_scale.scale == state.dynamic_scale.scale / 2
    np.testing.assert_array_equal(after.params["w"], state.params["w"])
    weft.tree.map(np.testing.assert_array_equal, after.opt_state, state.opt_state)
    assert int(after.step) == 2


@pytest.mark.parametrize("policy", [None, "mixed_float16"])
def test_a_scaled_loss_in_parts_is_that_of_the_whole_batch(policy):
    scale = train.DynamicScale(scale=2.0**10)
    batch = jnp.arange(12.0).reshape(4, 3) / 7
    found = []
    for parts in (1, 2, 4):
        state = state_of(optim.sgd(0.1), dynamic_scale=scale)
        step = train.make_step(quadratic, accumulate=parts, policy=policy, donate=False)
        after, outputs = step(state, batch)
        assert outputs["finite"] and int(after.dynamic_scale.fin_steps) == 1
        found.append(after.params["w"])
        bad, outputs = step(state, batch.at[1].set(jnp.inf))  # in one part only
        assert not outputs["finite"] and bad.dynamic_scale.scale == 2.0**9
        np.testing.assert_array_equal(bad.params["w"], state.params["w"])
    near = 1e-6 if policy is None else 2e-3
    np.testing.assert_allclose(found[1], found[0], rtol=near)
    np.testing.assert_allclose(found[2], found[0], rtol=near)


def test_the_average_follows():
    start = {"w": jnp.zeros(3)}
    state = state_of(optim.sgd(0.5), ema=train.EMA.create(start, decay=0.5))
    step = train.make_step(quadratic)
    wanted = np.zeros(3)
    for _ in range(3):
        state, _ = step(state, jnp.ones((2, 3)))
        wanted = (wanted + np.asarray(state.params["w"])) / 2
    np.testing.assert_allclose(state.ema.average["w"], wanted, rtol=1e-6)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", train.get_policy("mixed_float16")])
def test_policies(policy):
    seen = []

    def loss(params, batch):
        seen.append(params["w"].dtype)
        return quadratic(params, batch)

    state, outputs = train.make_step(loss, policy=policy)(
        state_of(optim.sgd(0.1)), jnp.ones((2, 3))
    )
    assert seen[0] in (jnp.bfloat16, jnp.float16)
    assert state.params["w"].dtype == outputs["loss"].dtype == jnp.float32


def test_the_donated_state_is_used_again():
    state = state_of(optim.sgd(0.1))
    kept, _ = train.make_step(quadratic, donate=False)(state, jnp.ones((2, 3)))
    train.make_step(quadratic)(kept, jnp.ones((2, 3)))
    assert kept.params["w"].is_deleted() and not state.params["w"].is_deleted()


def test_over_four_devices():
    environment = dict(os.environ, WEFT_NUM_CPU_DEVICES="4")
    command = [sys.executable, "-m", "tests.train.sharded_steps"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.stdout == "as on one device\n", done.stdout + done.stderr


def test_resumed_on_one_device():
    sharded_steps.resumed(train.make_step(sharded_steps.loss, has_aux=True))


class FakeMesh:
    axis_names = ("data", "fsdp")
    shape = {"data": 2, "fsdp": 4}


def test_rules():
    spec = lambda shape, rules: train.partition_spec("params/layer/w", shape, FakeMesh, rules)
    assert spec((8, 4), "data") == P()
    assert spec((8, 4), "fsdp") == P("fsdp") and spec((4, 8), "fsdp") == P(None, "fsdp")
    assert spec((8, 8), "fsdp") == P(None, "fsdp") and spec((3, 5), "fsdp") == P()
    assert spec((), "fsdp") == P() and spec((6, 4), "fsdp") == P(None, "fsdp")
    assert spec((8,), [("other", P("fsdp")), ("layer", P("data"))]) == P("data")
    assert spec((8,), [("other", P("fsdp"))]) == P() and spec((), [("w", P("data"))]) == P()
    assert spec((8,), lambda name, shape: P(("data", "fsdp"))) == P(("data", "fsdp"))
    for rules, message in (
        ("model", "write 'data', 'fsdp'"),
        ([("w", P(None, "data"))], "its rule is"),
        ([("w", P(("data", "fsdp")))], "which has 8 devices"),
    ):
        with pytest.raises(ValueError, match=message):
            spec((4,), rules)
    assert sharding_rules.batch_axis(FakeMesh) == "data"


@pytest.mark.parametrize("accumulate", [0, -1])
def test_wrong_arguments(accumulate):
    with pytest.raises(ValueError, match="accumulate"):
        train.make_step(quadratic, accumulate=accumulate)
