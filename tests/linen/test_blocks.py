"""Layers that flax leaves to its users: each against what it stands for, written out."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft import random

KEY = random.key(0)


def values(*shape, seed=0):
    return jnp.asarray(np.random.RandomState(seed).standard_normal(shape), jnp.float32)


def close(a, b, bound=2e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=bound, atol=bound)


@pytest.mark.parametrize("gated", [False, True])
def test_ffn_is_two_or_three_products(gated):
    x = values(4, 3)
    layer = nn.FFN(8, activation=nn.silu, gated=gated)
    y, variables = layer.init_with_output(KEY, x)
    p = variables["params"]
    h = nn.silu(x @ p["up"]["kernel"])
    h = h * (x @ p["gate"]["kernel"]) if gated else h
    close(y, h @ p["down"]["kernel"])


def test_rotary_products_depend_on_the_distance_only():
    q, k = values(1, 1, 1, 8), values(1, 1, 1, 8, seed=1)
    at = lambda x, i: nn.apply_rotary_embedding(x, jnp.array([i]))
    for interleaved in (False, True):
        at = lambda x, i, form=interleaved: nn.apply_rotary_embedding(
            x, jnp.array([i]), interleaved=form
        )
        products = [float(jnp.sum(at(q, i + 3) * at(k, i))) for i in (0, 5, 90)]
        close(products, [products[0]] * 3, 1e-4)
        close(jnp.linalg.norm(at(q, 7)), jnp.linalg.norm(q))
    with pytest.raises(ValueError, match="even depth"):
        nn.apply_rotary_embedding(values(1, 2, 1, 3))


def test_grouped_queries_are_multi_head_attention_with_repeated_heads():
    x = values(2, 5, 8)
    grouped = nn.GroupedQueryAttention(4, 2, causal=True)
    y, variables = grouped.init_with_output(KEY, x)
    p = variables["params"]
    assert p["key"]["kernel"].shape == (8, 2, 2)
    repeated = {k: {"kernel": jnp.repeat(p[k]["kernel"], 2, axis=1)} for k in ("key", "value")}
    whole = nn.MultiHeadAttention(4, use_bias=False)
    close(y, whole.apply({"params": {**p, **repeated}}, x, mask=nn.make_causal_mask(x[..., 0])))


@pytest.mark.parametrize("rotary", [False, True])
def test_grouped_queries_decode_as_they_attend(rotary):
    x = values(2, 6, 8)
    options = {"num_heads": 4, "num_kv_heads": 2, "rotary": rotary}
    variables = nn.GroupedQueryAttention(**options, decode=True).init(KEY, x)
    step = nn.GroupedQueryAttention(**options, decode=True)
    outs = []
    for i in range(6):
        out, updates = step.apply(variables, x[:, i : i + 1], mutable=["cache"])
        variables = {**variables, **updates}
        outs.append(out)
    whole = nn.GroupedQueryAttention(**options, causal=True)
    close(jnp.concatenate(outs, 1), whole.apply({"params": variables["params"]}, x))
    with pytest.raises(ValueError, match="the cache has 6 of 6 positions"):
        step.apply(variables, x[:, :2], mutable=["cache"])
    with pytest.raises(ValueError, match="7 positions do not fit into the cache, which holds 6"):
        step.apply(variables, values(2, 7, 8), mutable=["cache"])
    with pytest.raises(ValueError, match="one position at a time"):
        step.apply(variables, values(3, 1, 8), mutable=["cache"])


@pytest.mark.parametrize("rotary", [False, True])
def test_grouped_queries_take_several_positions(rotary):
    x = values(2, 6, 8)
    options = {"num_heads": 4, "num_kv_heads": 2, "rotary": rotary}
    layer = nn.GroupedQueryAttention(**options, decode=True)
    variables, outs = layer.init(KEY, x), []
    for piece in (x[:, :3], x[:, 3:4], x[:, 4:]):
        out, updates = layer.apply(variables, piece, mutable=["cache"])
        variables = {**variables, **updates}
        outs.append(out)
    whole = nn.GroupedQueryAttention(**options, causal=True)
    close(jnp.concatenate(outs, 1), whole.apply({"params": variables["params"]}, x))


@pytest.mark.parametrize("top_k, gated", [(1, False), (2, True), (4, False)])
def test_experts_are_as_if_all_were_computed(top_k, gated):
    x = values(3, 5, 6)
    layer = nn.MoE(num_experts=4, hidden=7, top_k=top_k, gated=gated, activation=nn.tanh)
    variables = layer.init(KEY, x)
    y, aux = layer.apply(variables, x, mutable=["losses"])
    p, tokens = variables["params"], x.reshape(-1, 6)
    probabilities = nn.softmax(tokens @ p["router"]["kernel"])
    wanted = np.zeros((15, 6), np.float32)
    for t in range(15):
        best = np.argsort(-np.asarray(probabilities[t]))[:top_k]
        total = probabilities[t, best].sum() if top_k > 1 else 1.0
        for e in best:
            h = nn.tanh(tokens[t] @ p["up"][e])
            h = h * (tokens[t] @ p["gate"][e]) if gated else h
            wanted[t] += np.asarray(h @ p["down"][e] * probabilities[t, e] / total)
    close(y.reshape(15, 6), wanted)
    (balance,) = aux["losses"]["load_balance"]
    assert 0.5 < float(balance) < 4.0
    grads = weft.grad(lambda v: layer.apply({"params": v}, x).sum())(p)
    assert all(bool(jnp.isfinite(g).all()) for g in weft.tree.leaves(grads))


def test_experts_pass_over_what_does_not_fit():
    x = jnp.ones((8, 4))
    layer = nn.MoE(num_experts=2, hidden=3, top_k=1, capacity_factor=0.5)
    y, _ = layer.init_with_output(KEY, x)
    assert [bool((row != 0).any()) for row in y] == [True, True] + [False] * 6


def test_adapters_begin_as_the_layer_and_train_alone():
    x = values(4, 3)
    layer = nn.LoRADense(5, rank=2, alpha=4.0)
    variables = layer.init(KEY, x)
    p = variables["params"]
    plain = nn.Dense(5).apply({"params": {"kernel": p["kernel"], "bias": p["bias"]}}, x)
    close(layer.apply(variables, x), plain)
    grads = weft.grad(lambda v: jnp.sum(layer.apply(v, x) ** 2))(variables)["params"]
    assert not grads["kernel"].any() and not grads["bias"].any() and grads["lora_b"].any()
    trained = {"params": {**p, "lora_b": values(2, 5)}}
    merged = nn.merge_lora(trained["params"], alpha=4.0)
    assert sorted(merged) == ["bias", "kernel"]
    close(nn.Dense(5).apply({"params": merged}, x), layer.apply(trained, x))
    around = nn.LoRA(5, rank=2, base=nn.Dense(5))
    variables = around.init(KEY, x)
    close(around.apply(variables, x), nn.Dense(5).apply({"params": variables["params"]["base"]}, x))


def test_stochastic_depth_drops_whole_examples():
    x = jnp.ones((64, 3, 2))
    layer = nn.StochasticDepth(0.25, deterministic=False)
    y = layer.apply({}, x, rngs={"dropout": KEY})
    kept = y.reshape(64, -1)
    assert (kept == kept[:, :1]).all()
    close(np.unique(kept), [0.0, 1 / 0.75])
    assert 0.5 < float((kept[:, 0] > 0).mean()) < 0.95
    assert layer.clone(deterministic=True).apply({}, x) is x


def test_a_transformer_block_keeps_the_past():
    x = values(2, 6, 8)
    block = nn.TransformerBlock(num_heads=2, hidden=16, num_kv_heads=1, norm=nn.RMSNorm)
    variables = block.init(KEY, x)
    changed = block.apply(variables, x.at[:, 4].add(1.0)) - block.apply(variables, x)
    moved = np.abs(np.asarray(changed)).max((0, 2)) > 1e-6
    assert moved.tolist() == [False] * 4 + [True] * 2
