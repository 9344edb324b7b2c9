"""Prompts read in one pass: the same tokens as reading them one by one."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.linen.architectures import GPT, GPTConfig, beam_search
from weft.linen.architectures.decoding import sample
from weft.linen.architectures.prompts import align_prompts, prefill

SIZES = {"vocab_size": 40, "max_length": 24, "features": 16, "hidden": 32, "num_layers": 2}
MODELS = {
    "rotary, grouped": {"num_heads": 4, "num_kv_heads": 2},
    "rotary, scanned": {"num_heads": 4, "num_kv_heads": 1, "scan_layers": True},
    "learned": {"num_heads": 2, "positions": "learned", "norm": "layer", "use_bias": True},
}
PROMPT = np.random.RandomState(0).randint(2, 40, (3, 7))
LENGTHS = np.array([7, 3, 5])


def model_of(name):
    model = GPT(GPTConfig(**SIZES, **MODELS[name]))
    variables = model.init(weft.random.key(1), jnp.asarray(PROMPT))
    # larger weights, so that tokens depend on those before them
    return model, weft.tree.map(lambda x: 3 * x, variables)


def one_by_one(model, variables, prompt, max_length, **options):
    """What reading and writing token by token gives, with the cache of one call a token."""
    apply = lambda state, tokens: model.apply(state, tokens, decode=True, mutable=["cache"])

    def step(tokens, cache):
        logits, updates = apply({**variables, "cache": cache}, tokens)
        return logits[:, -1], updates["cache"]

    whole = jnp.zeros((len(prompt), max_length), int)
    shapes = weft.eval_shape(lambda: apply(variables, whole))[1]["cache"]
    cache = weft.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return sample(step, cache, prompt, max_length=max_length, **options)


def without_cache(model, variables, tokens, max_length):
    """The likeliest tokens behind one prompt, by whole passes."""
    tokens = list(tokens)
    while len(tokens) < max_length:
        logits = model.apply(variables, jnp.asarray([tokens]))
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_those_of_reading_one_by_one(name):
    model, variables = model_of(name)
    want = one_by_one(model, variables, PROMPT, 16)
    assert len(np.unique(want[:, 7:])) > 4
    for size in (None, 1, 4):
        write = weft.jit(
            lambda v, size=size: model.generate(v, PROMPT, max_length=16, prefill=size)
        )
        np.testing.assert_array_equal(write(variables), want)
    np.testing.assert_array_equal(model.generate(variables, PROMPT, max_length=16), want)


@pytest.mark.parametrize("name", MODELS)
def test_prompts_of_different_lengths(name):
    model, variables = model_of(name)
    right = np.where(np.arange(7) < LENGTHS[:, None], PROMPT, 39)
    left = np.stack([np.roll(row, 7 - n) for row, n in zip(right, LENGTHS, strict=True)])
    want = one_by_one(model, variables, right, 14, prompt_lengths=jnp.asarray(LENGTHS))
    for row, prompt, n in zip(np.asarray(want), right, LENGTHS, strict=True):
        assert row.tolist() == without_cache(model, variables, prompt[:n].tolist(), 14)
    for padding, given in (("right", right), ("left", left)):
        write = weft.jit(
            lambda v, prompt, lengths, padding=padding: model.generate(
                v, prompt, max_length=14, prompt_lengths=lengths, padding=padding
            )
        )
        np.testing.assert_array_equal(write(variables, given, LENGTHS), want)


def test_drawn_tokens_are_the_same_too():
    model, variables = model_of("rotary, grouped")
    options = {"key": weft.random.key(3), "temperature": 1.0, "top_k": 9, "eos_id": 5}
    lengths = jnp.asarray(LENGTHS)
    want = one_by_one(model, variables, PROMPT, 20, prompt_lengths=lengths, **options)
    found = model.generate(variables, PROMPT, max_length=20, prompt_lengths=lengths, **options)
    np.testing.assert_array_equal(found, want)


def test_a_beam_search_behind_prompts():
    model, variables = model_of("rotary, scanned")
    options = {"max_length": 12, "beams": 3, "eos_id": -1}  # no text ends
    found = model.generate(variables, PROMPT, **options)
    np.testing.assert_array_equal(found[:, :7], PROMPT)
    np.testing.assert_array_equal(model.generate(variables, PROMPT, prefill=4, **options), found)

    def step(tokens, cache):
        """Logits by whole passes over the texts, which are the cache."""
        texts, i = cache
        texts = texts.at[:, i].set(tokens[:, 0])
        return model.apply(variables, texts)[:, i], (texts, i + 1)

    rows = jnp.zeros((9, 12), int).at[:, :6].set(jnp.repeat(PROMPT[:, :6], 3, axis=0))
    want = beam_search(step, (rows, jnp.array(6)), PROMPT, start=6, **options)[0][:, 0]
    np.testing.assert_array_equal(found, want)


def test_a_search_counts_tokens_behind_the_prompt():
    table = jnp.log(weft.random.dirichlet(weft.random.key(4), jnp.ones(5), (5,)))
    step = lambda tokens, cache: (table[tokens[:, 0]], cache)
    options = {"beams": 3, "eos_id": 1, "length_penalty": 1.5}
    short, scores = beam_search(step, None, jnp.array([[3]]), max_length=5, **options)
    prompt = jnp.array([[2, 4, 3]])
    long, same = beam_search(step, None, prompt, max_length=7, start=2, **options)
    np.testing.assert_array_equal(long[:, :, 2:], short)
    np.testing.assert_allclose(same, scores, rtol=1e-6)


def test_one_pass_takes_the_prompt():
    shapes = []

    def step(tokens, cache):
        shapes.append(tokens.shape)
        return None, cache + tokens.shape[1]

    cache, start = prefill(step, jnp.array(0), PROMPT, jnp.asarray(LENGTHS))
    assert shapes == [(3, 6)] and int(cache) == int(start) == 2


def test_wrong_input_says_what_to_write():
    model, variables = model_of("learned")
    with pytest.raises(ValueError, match=r"from 1 to 7, not \[7, 0, 5\]"):
        model.generate(variables, PROMPT, max_length=9, prompt_lengths=np.array([7, 0, 5]))
    with pytest.raises(ValueError, match="one for each of 3 prompts"):
        model.generate(variables, PROMPT, max_length=9, prompt_lengths=np.array([7, 5]))
    with pytest.raises(ValueError, match="neither 'left' nor 'right'"):
        model.generate(variables, PROMPT, max_length=9, padding="both")
    with pytest.raises(ValueError, match="at least 1 token a pass"):
        model.generate(variables, PROMPT, max_length=9, prefill=0)
    with pytest.raises(ValueError, match=r"at least 1 token a pass, not 2\.5"):
        model.generate(variables, PROMPT, max_length=9, prefill=2.5)
    with pytest.raises(ValueError, match="no room for prompts of 7"):
        model.generate(variables, PROMPT, max_length=5)
    assert model.generate(variables, PROMPT[:0], max_length=9).shape == (0, 9)
    with pytest.raises(ValueError, match="integers of shape"):
        align_prompts(np.ones((2, 3)))
    with pytest.raises(ValueError, match="needs eos_id"):
        model.generate(variables, PROMPT, max_length=9, beams=2)
    with pytest.raises(ValueError, match="start=2, not 0"):
        beam_search(None, None, PROMPT[:, :3], beams=2, max_length=9, eos_id=1)
