"""T5 against FlaxFormer's: names, shapes, outputs and gradients, and decoding with a cache."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.linen.architectures.harness import close, recorded, subtree
from weft.linen.architectures import T5, T5Config, stack_layers
from weft.linen.architectures.t5_layers import position_bucket

V1_1 = T5Config(
    vocab_size=256,
    features=64,
    num_heads=4,
    head_dim=16,
    hidden=128,
    encoder_layers=2,
    decoder_layers=2,
)
V1_0 = T5Config.named(
    "t5-small",
    vocab_size=32,
    features=8,
    num_heads=2,
    head_dim=4,
    hidden=16,
    encoder_layers=2,
    decoder_layers=2,
)
shapes = lambda tree: weft.tree.map(jnp.shape, tree)


@pytest.fixture(scope="module")
def tiny():
    record = recorded("t5_1_1_tiny")
    tokens = [jnp.asarray(record[name], jnp.int32) for name in ("enc", "dec")]
    return record, subtree(record, "params"), *tokens


def cross_entropy(logits, targets):
    chosen = jnp.take_along_axis(weft.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -jnp.mean(chosen)


@pytest.mark.parametrize("scan", [False, True])
def test_version_1_1_gives_the_loss_and_gradients_of_flaxformer(tiny, scan):
    record, params, enc, dec = tiny
    norms = subtree(record, "grad_norm")
    if scan:
        params = stack_layers(params)
        norms = weft.tree.map(lambda n: jnp.linalg.norm(n), stack_layers(norms))
    model = T5(V1_1.replace(scan_layers=scan, remat=scan))
    made = weft.eval_shape(model.init, weft.random.key(0), enc, dec)["params"]
    assert shapes(made) == shapes(params)
    loss = lambda p: cross_entropy(model.apply({"params": p}, enc, dec, dec), dec)
    value, grads = weft.jit(weft.value_and_grad(loss))(params)
    close(value, record["loss"])
    weft.tree.map(lambda g, n: close(jnp.linalg.norm(g.ravel()), n), grads, norms)
    close(model.apply({"params": params}, enc, dec, dec), record["logits"])


def test_version_1_0_gives_the_outputs_and_initial_values_of_flaxformer():
    record = recorded("t5_1_0_tiny")
    params = subtree(record, "params")
    tokens = [jnp.asarray(record[name]) for name in ("enc", "inputs", "dec")]
    segments = [jnp.asarray(record[f"{part}_segments"]) for part in ("encoder", "decoder")]
    model = T5(V1_0)
    made = model.init(weft.random.key(0), *tokens)["params"]
    assert shapes(made) == shapes(params)
    weft.tree.map(close, made, params)
    seen = record["dec"] > 0  # what stands at padding does not count
    close(model.apply({"params": params}, *tokens)[seen], record["logits"][seen])
    packed = model.apply({"params": params}, *tokens, *segments)
    seen &= record["decoder_segments"] != 1  # as are rows that see no token of the encoder
    close(packed[seen], record["packed_logits"][seen])


def test_buckets_of_distances():
    record = recorded("t5_1_0_tiny")
    distances = jnp.arange(-200, 201)
    names = [name for name in record if name.startswith("buckets/")]
    assert len(names) == 4
    for name in names:
        _, both, buckets, limit = name.split("/")
        options = {"buckets": int(buckets), "max_distance": int(limit)}
        found = position_bucket(distances, bidirectional=both == "True", **options)
        np.testing.assert_array_equal(found, record[name])


@pytest.mark.parametrize("scan", [False, True])
def test_cached_decoding_writes_what_whole_texts_give(tiny, scan):
    _, params, enc, _ = tiny
    params = stack_layers(params) if scan else params
    model = T5(V1_1.replace(scan_layers=scan))
    write = weft.jit(lambda p: model.generate({"params": p}, enc, max_length=6, eos_id=-1))
    texts = write(params)
    inputs = jnp.concatenate([jnp.zeros((2, 1), texts.dtype), texts[:, :-1]], axis=1)
    logits = model.apply({"params": params}, enc, inputs)
    np.testing.assert_array_equal(texts, jnp.argmax(logits, axis=-1))


@pytest.mark.parametrize("scan", [False, True])
def test_a_beam_of_everything_finds_the_likeliest_text(scan):
    size = V1_0.replace(vocab_size=4, encoder_layers=1, scan_layers=scan)
    model, enc = T5(size), jnp.array([[2, 3, 1], [3, 1, 0]])
    variables = model.init(weft.random.key(3), enc, enc)
    texts = jnp.array([[a, b, c] for a in (0, 2, 3) for b in (0, 2, 3) for c in range(4)])
    inputs = jnp.concatenate([jnp.zeros((36, 1), texts.dtype), texts[:, :-1]], axis=1)
    options = {"max_length": 3, "beams": 9, "eos_id": 1, "length_penalty": 0.0}
    found = weft.jit(lambda v: model.generate(v, enc, **options))(variables)
    apply = weft.jit(model.apply)
    for row in range(2):
        rows = jnp.repeat(enc[row : row + 1], 36, axis=0)
        logits = weft.nn.log_softmax(apply(variables, rows, inputs))
        steps = jnp.take_along_axis(logits, texts[..., None], axis=-1)[..., 0]
        steps, all_steps = np.asarray(steps), np.asarray(logits)
        # texts may also end before the third token: their candidates are in the same table
        candidates = {}
        for n, text in enumerate(np.asarray(texts)):
            if text[2] == 1:
                candidates[tuple(text)] = steps[n].sum()
            candidates[(text[0], 1, 0)] = steps[n, 0] + all_steps[n, 1, 1]
            candidates[(1, 0, 0)] = all_steps[n, 0, 1]
        best = max(candidates, key=candidates.get)
        assert tuple(int(token) for token in found[row]) == best


def test_embeddings_of_their_own():
    model = T5(V1_0.replace(share_embeddings=False))
    tokens = jnp.array([[3, 4, 1]])
    params = model.init(weft.random.key(0), tokens, tokens)["params"]
    assert "token_embedder" not in params
    assert params["encoder"]["token_embedder"]["embedding"].shape == (32, 8)
    other = weft.tree.map(lambda x: x, params)
    other["decoder"]["token_embedder"]["embedding"] = jnp.zeros((32, 8))
    encode = lambda p: model.apply({"params": p}, tokens, method="encode")
    np.testing.assert_array_equal(encode(params), encode(other))
    close(model.apply({"params": other}, tokens, tokens), jnp.zeros((1, 3, 32)))


def test_dropout_draws_and_bfloat16_computes():
    model = T5(V1_1.replace(dropout_rate=0.5, dtype=jnp.bfloat16, encoder_layers=1))
    tokens = jnp.array([[3, 4, 1]])
    variables = model.init(weft.random.key(0), tokens, tokens)
    draw = lambda seed: model.apply(
        variables, tokens, tokens, deterministic=False, rngs={"dropout": weft.random.key(seed)}
    )
    assert draw(0).dtype == jnp.float32
    assert bool(jnp.all(draw(0) == draw(0))) and not bool(jnp.any(draw(0) == draw(1)))
    assert model.apply(variables, tokens, method="encode").dtype == jnp.bfloat16


def test_unknown_sizes_are_named():
    with pytest.raises(ValueError, match="T5Config has no size 't5-tiny'; choose one of byt5-base"):
        T5Config.named("t5-tiny")
