"""Sampling and beam search on tables of probabilities, where the answers are known."""

import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.linen.architectures.harness import close
from weft.linen.architectures import beam_search, sample
from weft.linen.architectures.decoding import filter_logits

TABLES = jnp.log(weft.random.dirichlet(weft.random.key(4), jnp.ones(5), (4, 5)))


def step(tokens, count):
    """A Markov chain with other probabilities at each step."""
    return TABLES[count, tokens[:, 0]], count + 1


def best_texts(first, length, end, penalty):
    """All texts that end, best first, with their scores."""
    tables, found = np.asarray(TABLES, np.float64), []
    for n in range(1, length):
        for text in itertools.product(range(5), repeat=n):
            if text[-1] == end and end not in text[:-1]:
                steps = zip(tables, (first, *text), text, strict=False)
                score = sum(table[a, b] for table, a, b in steps) / ((5 + n) / 6) ** penalty
                found.append((score, (first, *text, *[0] * (length - 1 - n))))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_the_best_texts_in_order(penalty):
    options = {"beams": 130, "max_length": 5, "eos_id": 1, "length_penalty": penalty}
    search = weft.jit(lambda c, p: beam_search(step, c, p, **options))
    texts, scores = search(0, jnp.array([[0], [3]]))
    for row, first in enumerate((0, 3)):
        expected = best_texts(first, 5, 1, penalty)[:10]
        assert [tuple(map(int, text)) for text in texts[row, :10]] == [t for _, t in expected]
        close(scores[row, :10], [s for s, _ in expected])


@pytest.mark.parametrize("axis", [0, 1])
def test_caches_follow_their_texts(axis):
    """A model whose logits come from its cache alone, which has all tokens of a text."""
    weights = weft.random.normal(weft.random.key(1), (4, 5, 5))
    options = {"beams": 3, "max_length": 5, "eos_id": 0, "length_penalty": 0.0}

    def remember(tokens, cache):
        history = jnp.moveaxis(cache["history"], axis, 0)
        history = history.at[:, cache["count"]].set(weft.nn.one_hot(tokens[:, 0], 5))
        logits = jnp.einsum("btv,tvw->bw", history, weights)
        return logits, {"history": jnp.moveaxis(history, 0, axis), "count": cache["count"] + 1}

    start = {"history": jnp.moveaxis(jnp.zeros((6, 4, 5)), 0, axis), "count": jnp.array(0)}
    first = jnp.array([[2], [4]])
    texts, scores = beam_search(remember, start, first, cache_axis=axis, **options)
    for text, score in zip(np.asarray(texts).reshape(-1, 5), scores.reshape(-1), strict=True):
        history = np.tril(np.ones((4, 4)))[:, :, None] * np.eye(5)[text[:-1]]
        logits = weft.nn.log_softmax(jnp.einsum("ntv,tvw->nw", jnp.asarray(history), weights))
        written = np.cumsum(text[1:] == 0) - (text[1:] == 0) == 0  # up to the end, with it
        close(np.asarray(logits)[range(4), text[1:]][written].sum(), score, 1e-4)


def test_texts_that_do_not_end_fill_what_is_missing():
    never = jnp.log(jnp.array([[0.0, 0.5, 0.5], [0.0, 0.9, 0.1], [0.0, 0.3, 0.7]]))
    chain = lambda tokens, cache: (never[tokens[:, 0]], cache)
    texts, scores = beam_search(
        chain, None, jnp.array([[1]]), beams=2, max_length=3, eos_id=0, length_penalty=0.0
    )
    np.testing.assert_array_equal(texts[0], [[1, 1, 1], [1, 1, 2]])
    close(scores[0], np.log([0.81, 0.09]))


def test_greedy_follows_prompts_of_any_length():
    texts = sample(
        lambda tokens, cache: (weft.nn.one_hot(tokens[:, 0] + 1, 10), cache),
        None,
        jnp.array([[3, 3, 3], [5, 0, 0]]),
        max_length=6,
        prompt_lengths=jnp.array([3, 1]),
        eos_id=7,
    )
    np.testing.assert_array_equal(texts, [[3, 3, 3, 4, 5, 6], [5, 6, 7, 0, 0, 0]])


def test_draws_have_the_probabilities_of_the_model():
    rows = 4000
    draw = weft.jit(
        lambda key: sample(step, 0, jnp.full((rows, 1), 2), max_length=2, key=key, temperature=1.0)
    )
    counts = np.bincount(np.asarray(draw(weft.random.key(0))[:, 1]), minlength=5) / rows
    np.testing.assert_allclose(counts, np.exp(TABLES[0, 2]), atol=0.04)


def test_filters_keep_the_likeliest():
    logits = jnp.log(jnp.array([[0.5, 0.05, 0.3, 0.15], [0.1, 0.2, 0.3, 0.4]]))
    kept = lambda **options: np.isfinite(np.asarray(filter_logits(logits, **options)))
    np.testing.assert_array_equal(kept(top_k=1), [[1, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(kept(top_p=0.75), [[1, 0, 1, 0], [0, 1, 1, 1]])
    np.testing.assert_array_equal(kept(top_p=1e-6), [[1, 0, 0, 0], [0, 0, 0, 1]])
    assert kept(top_k=9).all()
    with pytest.raises(ValueError, match="top_p in"):
        filter_logits(logits, top_p=0.0)


def test_wrong_calls_say_what_to_write():
    with pytest.raises(ValueError, match="no room for prompts of 3"):
        sample(step, 0, jnp.zeros((1, 3), int), max_length=2)
    with pytest.raises(ValueError, match=r"pass key=weft\.random\.key"):
        sample(step, 0, jnp.zeros((1, 1), int), max_length=2, temperature=1.0)
