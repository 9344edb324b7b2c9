"""Precision, rematerialisation, accumulation, averages, the rate finder, and the watch for NaN."""

import os

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import optim, train
from weft.ad_checkpoint import checkpoint_name
from weft.train import checkpoint, gradients, nan_watch, precision


def test_policies_by_text():
    full = train.get_policy("float32")
    assert full == train.Policy(jnp.dtype("float32"), jnp.dtype("float32"), jnp.dtype("float32"))
    assert train.get_policy("mixed_float16").compute_dtype == jnp.float16
    assert train.get_policy("params=f32, compute=bf16, output=f32") == train.get_policy(
        "mixed_bfloat16"
    )
    assert train.get_policy("c=half").param_dtype == jnp.float32
    for wrong in ("compute", "x=f32", "mixed_float33", "p=float33"):
        with pytest.raises((TypeError, ValueError)):
            train.get_policy(wrong)


def test_a_policy_casts_inside_and_gradients_stay():
    seen = []

    def loss(params, x):
        seen.append((params["w"].dtype, x.dtype, params["n"].dtype))
        return (params["w"] * x).sum()

    params = {"w": jnp.ones(3), "n": jnp.arange(3)}
    wrapped = train.get_policy("mixed_bfloat16").wrap(loss)
    value, grads = weft.value_and_grad(wrapped, allow_int=True)(params, jnp.arange(3.0))
    assert seen == [(jnp.bfloat16, jnp.bfloat16, jnp.int32)]
    assert value.dtype == jnp.float32 and grads["w"].dtype == jnp.float32
    key = weft.random.key(0)
    assert precision.cast_floating(key, jnp.float16) is key


@pytest.mark.parametrize("keep", ["nothing", "dots", "weights", "everything", ("mid",)])
def test_rematerialisation_keeps_values_and_gradients(keep):
    def layer(w, x):
        return jnp.tanh(checkpoint_name(jnp.sin(x @ w), "mid") @ w).sum()

    w, x = jnp.arange(9.0).reshape(3, 3) / 9, jnp.ones((2, 3))
    found = weft.jit(weft.value_and_grad(train.remat(layer, keep)))(w, x)
    weft.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
        found,
        weft.value_and_grad(layer)(w, x),
    )
    residuals = lambda f: len(weft.make_jaxpr(lambda w: weft.vjp(f, w, x)[1])(w).jaxpr.outvars)
    if keep == "nothing":
        assert residuals(train.remat(layer, keep)) < residuals(layer)
    with pytest.raises(ValueError, match="write one of"):
        train.remat(layer, "most")


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_accumulated_gradients(parts, dtype):
    def loss(params, batch, factor):
        error = (batch["x"] @ params["w"] - batch["y"]) * factor
        return (error**2).mean(), {"mean": error.mean()}

    draw = np.random.RandomState(0)
    batch = {"x": draw.standard_normal((8, 3)), "y": draw.standard_normal(8)}
    batch = weft.tree.map(lambda x: jnp.asarray(x, dtype), batch)
    params = {"w": jnp.ones(3, dtype)}
    grad = gradients.accumulated_value_and_grad(loss, parts, has_aux=True)
    found = weft.jit(grad)(params, batch, 2)
    wanted = weft.value_and_grad(loss, has_aux=True)(params, batch, 2)
    rtol = 1e-5 if dtype == "float32" else 5e-2
    close = lambda a, b: np.testing.assert_allclose(
        np.asarray(a, float), np.asarray(b, float), rtol=rtol, atol=rtol
    )
    weft.tree.map(close, found, wanted)
    assert found[1]["w"].dtype == dtype
    if parts > 1:
        with pytest.raises(ValueError, match="cannot be split"):
            grad(params, weft.tree.map(lambda x: x[:7], batch), 2)


def test_the_average_of_parameters():
    params = {"w": jnp.zeros(2), "n": jnp.array(0)}
    ema = train.EMA.create(params, decay=0.5)
    update = weft.jit(lambda ema, params: ema.update(params))
    for step in range(1, 4):
        ema = update(ema, {"w": jnp.full(2, float(step)), "n": jnp.array(step)})
    np.testing.assert_allclose(ema.average["w"], [2.125, 2.125])
    assert int(ema.average["n"]) == 3 and int(ema.count) == 3
    warm = train.EMA.create({"w": jnp.zeros(())}, decay=0.999, warmup=True)
    np.testing.assert_allclose(warm.update({"w": jnp.ones(())}).average["w"], 0.9)
    with pytest.raises(ValueError, match="decay"):
        train.EMA.create(params, decay=1.0)


def test_the_rate_finder():
    draw = np.random.RandomState(0)
    x = draw.standard_normal((64, 4)).astype(np.float32)
    batches = [(x[i::4], x[i::4] @ np.arange(4, dtype=np.float32)) for i in range(4)]
    loss = lambda w, batch: ((batch[0] @ w - batch[1]) ** 2).mean()
    start = jnp.zeros(4)
    found = train.find_learning_rate(loss, start, batches, optim.sgd, low=1e-5, high=100.0)
    assert 1e-3 < found.suggestion < 1.0 and not start.any()
    assert found.rates[-1] < 100 and len(found.rates) == len(found.losses), "stopped at divergence"
    trained = start
    for _ in range(200):
        trained = trained - found.suggestion * weft.grad(loss)(trained, batches[0])
    assert loss(trained, batches[1]) < 0.1 * loss(start, batches[1])
    for wrong in ({"low": 1.0, "high": 0.1}, {"steps": 1}):
        with pytest.raises(ValueError, match="low < high"):
            train.find_learning_rate(loss, start, batches, **wrong)
    with pytest.raises(ValueError, match="no batch"):
        train.find_learning_rate(loss, start, [])
    with pytest.raises(ValueError, match="not finite"):
        train.find_learning_rate(lambda w, b: w.sum() * jnp.nan, start, batches)


def test_the_watch_names_leaf_step_and_batch(tmp_path):
    watch = train.NanWatch(tmp_path, every=2)
    good = {"params": {"Dense_0": {"kernel": jnp.ones(3)}}, "n": jnp.array(3), "text": "a"}
    for step in range(4):
        watch.check(step, good)
    assert os.listdir(tmp_path) == []
    bad = good | {"grads": {"Dense_1": {"bias": jnp.array([1.0, jnp.nan, -jnp.inf])}}}
    watch.check(5, bad)  # not one of every two
    batch, state = {"x": np.arange(3)}, train.TrainState.create(
        apply_fn=None, params=good["params"], tx=optim.sgd(0.1)
    )  # fmt: skip
    with pytest.raises(
        train.NonFiniteError, match=r"step 6: grads/Dense_1/bias has 1 NaN, 1 inf of 3"
    ) as caught:
        watch.check(6, bad, batch=batch, state=state)
    error = caught.value
    assert error.step == 6 and error.names == ("grads/Dense_1/bias",)
    assert isinstance(error, FloatingPointError) and error.path in str(error)
    saved = checkpoint.restore(error.path, {"batch": batch, "state": state})
    np.testing.assert_array_equal(saved["batch"]["x"], batch["x"])
    np.testing.assert_array_equal(saved["state"].params["Dense_0"]["kernel"], np.ones(3))
    assert checkpoint.read_manifest(error.path).metadata["non_finite"].keys() == set(error.names)
    with pytest.raises(train.NonFiniteError) as again:
        watch.check(6, bad)
    assert again.value.path != error.path


def test_the_watch_survives_donated_states():
    x = jnp.ones(1000)
    weft.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted() and nan_watch._without_deleted({"x": x}) == {"x": None}
    with pytest.raises(train.NonFiniteError, match="and 2 more"):
        train.NanWatch().check(1, [jnp.array(np.nan)] * 7)
    with pytest.raises(ValueError, match="every"):
        train.NanWatch(every=0)


def test_trees_of_other_kinds():
    assert train.non_finite({"a": 1.0, "b": "x", "k": weft.random.key(0), "n": np.arange(3)}) == {}
    assert train.non_finite({"c": jnp.array([complex(0, np.inf)])}) == {"c": "0 NaN, 1 inf of 1"}
    assert train.non_finite([np.array([np.nan], np.float64)]) == {"0": "1 NaN, 0 inf of 1"}
