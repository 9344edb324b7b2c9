"""Preprocessors for training on text: chunks, segments, span corruption and prefixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.train.data import Dataset
from weft.train.data.permutation import fold
from weft.train.tasks.features import TaskError
from weft.train.tasks.preprocessors.applying import Element, Features, Lengths
from weft.train.tasks.windows import flat_map, map_windows


def select_random_chunk(
    dataset: Dataset,
    max_length: int = 65536,
    feature_key: str = "targets",
    seed: int = 0,
) -> Dataset:
    """Return a data set with one of the chunks of a feature, drawn at random.

    Elements without any ids are left out.

    Args:
        dataset: the data set.
        max_length: the length of a chunk; the last one may be shorter.
        feature_key: the feature.
        seed: of the choice.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> chosen = select_random_chunk(data.source([{"targets": np.arange(9)}]), 3)
        >>> bool(next(iter(chosen))["targets"][0] in (0, 3, 6))
        True
    """

    def chunk(element: Element, rng: np.random.Generator) -> Element:
        ids = element[feature_key]
        start = max_length * int(rng.integers(-(-len(ids) // max_length)))
        return {**element, feature_key: ids[start : start + max_length]}

    return dataset.filter(lambda element: len(element[feature_key]) > 0).map(chunk, seed=seed)


def reduce_concat_tokens(
    dataset: Dataset, feature_key: str = "targets", batch_size: int = 128
) -> Dataset:
    """Return a data set with a feature of neighbours joined; other features are left out.

    Args:
        dataset: the data set.
        feature_key: the feature.
        batch_size: how many elements are joined.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> ids = data.source([{"targets": np.array([1, 2])}, {"targets": np.array([3])}])
        >>> next(iter(reduce_concat_tokens(ids)))
        {'targets': array([1, 2, 3])}
    """
    join = lambda some: [
        {feature_key: np.concatenate([np.asarray(one[feature_key]) for one in some])}
    ]
    return map_windows(dataset, join, batch_size, name="reduce_concat_tokens")


def split_tokens(
    dataset: Dataset,
    max_tokens_per_segment: int,
    min_tokens_per_segment: int | None = None,
    feature_key: str = "targets",
    passthrough_features: Sequence[str] = (),
    seed: int = 0,
) -> Dataset:
    """Return a data set with a feature split into segments, each an element.

    Args:
        dataset: the data set.
        max_tokens_per_segment: the length of segments; the last one may be shorter.
        min_tokens_per_segment: if given, the length for an element is drawn between the two, with
            its logarithm uniform.
        feature_key: the feature.
        passthrough_features: features that every segment gets; others are left out.
        seed: of the lengths.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> parts = split_tokens(data.source([{"targets": np.arange(5)}]), 2)
        >>> [one["targets"].tolist() for one in parts]
        [[0, 1], [2, 3], [4]]
    """
    if max_tokens_per_segment < 1:
        raise TaskError(f"segments need a positive length, not {max_tokens_per_segment}")

    def split(element: Element, rng: np.random.Generator) -> list[Element]:
        ids, length = np.asarray(element[feature_key]), max_tokens_per_segment
        if min_tokens_per_segment is not None:
            low, high = np.log(min_tokens_per_segment), np.log(max_tokens_per_segment)
            length = int(np.exp(rng.uniform(low, high)))
        kept = {name: element[name] for name in passthrough_features}
        return [
            {feature_key: ids[start : start + length], **kept}
            for start in range(0, len(ids), length)
        ]

    return flat_map(dataset, split, seed, name=f"split_tokens({max_tokens_per_segment})")


def random_spans_lengths(
    inputs_length: int, noise_density: float = 0.15, mean_noise_span_length: float = 3.0
) -> tuple[int, int]:
    """How many ids fill inputs after span corruption, and how long their targets are.

    Args:
        inputs_length: the length of inputs, with the end.
        noise_density: which part of the ids is noise.
        mean_noise_span_length: the mean length of spans of noise.

    Returns:
        The number of ids before corruption, and the length of targets with the end.

    Example:
        >>> random_spans_lengths(512)
        (568, 114)
    """

    def lengths(tokens: int) -> tuple[int, int]:
        noise = round(tokens * noise_density)
        spans = round(noise / mean_noise_span_length)
        return tokens - noise + spans + 1, noise + spans + 1

    tokens = max(1, inputs_length - 1)
    while lengths(tokens + 1)[0] <= inputs_length:
        tokens += 1
    return tokens, lengths(tokens)[1]


def random_spans_noise_mask(
    length: int,
    rng: np.random.Generator,
    noise_density: float = 0.15,
    mean_noise_span_length: float = 3.0,
) -> np.ndarray:
    """Return which ids are noise: spans of random lengths, of which the first is none.

    The number of ids and of spans of noise is fixed by the length. Reference: Raffel et al.,
    Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer, 2020.

    Args:
        length: the number of ids.
        rng: draws the lengths.
        noise_density: which part of the ids is noise.
        mean_noise_span_length: the mean length of spans of noise.

    Returns:
        A boolean array of shape (length,).

    Example:
        >>> random_spans_noise_mask(20, np.random.default_rng(0)).sum()
        np.int64(3)
    """
    wanted, length = length, max(length, 2)
    noise = min(max(round(length * noise_density), 1), length - 1)
    spans = min(max(round(noise / mean_noise_span_length), 1), noise, length - noise)
    sizes = np.empty(2 * spans, np.int64)
    sizes[0::2] = _random_parts(length - noise, spans, rng)
    sizes[1::2] = _random_parts(noise, spans, rng)
    return np.repeat(np.arange(2 * spans) % 2 == 1, sizes)[:wanted]


def _random_parts(total: int, parts: int, rng: np.random.Generator) -> np.ndarray:
    """Positive numbers with a sum, all choices equally likely."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def corrupt_spans(
    ids: np.ndarray, noise: np.ndarray, sentinels: Callable[[int], int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs with a sentinel for every span of noise, and targets with the spans.

    Args:
        ids: the ids.
        noise: which of them are noise.
        sentinels: the id of a sentinel by its number.

    Returns:
        A pair of arrays of ids.

    Example:
        >>> noise = np.array([False, True, True, False])
        >>> corrupt_spans(np.array([5, 6, 7, 8]), noise, lambda number: 99 - number)
        (array([ 5, 99,  8]), array([99,  6,  7, 98]))
    """
    return _with_sentinels(ids, noise, sentinels), _with_sentinels(ids, ~noise, sentinels)


def _with_sentinels(
    ids: np.ndarray, replaced: np.ndarray, sentinels: Callable[[int], int]
) -> np.ndarray:
    first = replaced & ~np.concatenate([[False], replaced[:-1]])
    made = ids.copy()
    made[first] = [sentinels(number) for number in range(int(first.sum()))]
    return made[first | ~replaced]


def _sequence_length(lengths: Lengths, names: tuple[str, ...], what: str) -> list[int]:
    if lengths is None or any(name not in lengths for name in names):
        wanted = ", ".join(f"{name!r}: ..." for name in names)
        raise TaskError(f"{what} needs sequence_length={{{wanted}}}")
    return [lengths[name] for name in names]


def span_corruption(
    dataset: Dataset,
    sequence_length: Lengths,
    output_features: Features,
    noise_density: float = 0.15,
    mean_noise_span_length: float = 3.0,
    merge_examples: bool = True,
    feature_key: str = "targets",
    seed: int = 0,
) -> Dataset:
    """Return T5's objective: spans of ids are replaced by sentinels, and the targets are the spans.

    Elements are joined and split so that inputs and targets, with the end, fill their lengths.
    Sentinels are the extra ids of the vocabulary, the last one first. Add ``append_eos`` behind it.

    Args:
        dataset: elements with ids.
        sequence_length: lengths of ``inputs`` and ``targets``.
        output_features: of the task.
        noise_density: which part of the ids is replaced.
        mean_noise_span_length: the mean length of spans.
        merge_examples: join elements before they are split.
        feature_key: the feature with the ids.
        seed: of the spans.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data, tasks
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> feature = tasks.Feature(ByteVocabulary(extra_ids=9))
        >>> features = {"inputs": feature, "targets": feature}
        >>> ids = data.source([{"targets": np.arange(10, 40)}])
        >>> sorted(next(iter(span_corruption(ids, {"inputs": 20, "targets": 9}, features))))
        ['inputs', 'targets']
    """
    inputs, targets = _sequence_length(sequence_length, ("inputs", "targets"), "span_corruption")
    tokens, needed = random_spans_lengths(inputs, noise_density, mean_noise_span_length)
    if targets < needed:
        raise TaskError(
            f"span_corruption of inputs of length {inputs} makes targets of length {needed}, more"
            f" than {targets}; make the targets longer, or the inputs shorter"
        )
    vocabulary = output_features[feature_key].vocabulary
    spans = max(1, round(round(tokens * noise_density) / mean_noise_span_length))
    if spans > vocabulary.extra_ids:
        raise TaskError(
            f"span_corruption of inputs of length {inputs} needs {spans} sentinels, and the"
            f" vocabulary has {vocabulary.extra_ids} extra ids; pass extra_ids= to it"
        )
    chunks = select_random_chunk(dataset, feature_key=feature_key, seed=fold(seed, 1))
    if merge_examples:
        chunks = reduce_concat_tokens(chunks, feature_key)
    parts = split_tokens(chunks, tokens, feature_key=feature_key)

    def corrupt(element: Element, rng: np.random.Generator) -> Element:
        ids = np.asarray(element[feature_key])
        noise = random_spans_noise_mask(len(ids), rng, noise_density, mean_noise_span_length)
        made = corrupt_spans(ids, noise, vocabulary.sentinel_id)
        return {"inputs": made[0], "targets": made[1]}

    return parts.map(corrupt, seed=fold(seed, 2))


def prefix_lm(
    dataset: Dataset,
    sequence_length: Lengths,
    output_features: Features,
    merge_examples: bool = True,
    feature_key: str = "targets",
    seed: int = 0,
) -> Dataset:
    """Return a data set with ids split at a random place: first ``inputs``, then ``targets``.

    Elements are joined and split into as many ids as the longer of ``inputs`` and ``targets`` can
    have, with room for the end. Add ``append_eos`` behind it.

    Args:
        dataset: elements with ids.
        sequence_length: lengths of ``inputs`` and ``targets``.
        output_features: of the task.
        merge_examples: join elements before they are split.
        feature_key: the feature with the ids.
        seed: of the places.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data, tasks
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> feature = tasks.Feature(ByteVocabulary())
        >>> features = {"inputs": feature, "targets": feature}
        >>> ids = data.source([{"targets": np.arange(10, 40)}])
        >>> sorted(next(iter(prefix_lm(ids, {"inputs": 9, "targets": 9}, features))))
        ['inputs', 'targets']
    """
    lengths = _sequence_length(sequence_length, ("inputs", "targets"), "prefix_lm")
    add_eos = [
        name in output_features and output_features[name].add_eos for name in ("inputs", "targets")
    ]
    inputs, targets = (length - end for length, end in zip(lengths, add_eos, strict=True))
    chunks = select_random_chunk(dataset, feature_key=feature_key, seed=fold(seed, 1))
    if merge_examples:
        chunks = reduce_concat_tokens(chunks, feature_key)
    parts = split_tokens(chunks, max(inputs, targets), feature_key=feature_key)

    def split(element: Element, rng: np.random.Generator) -> Element:
        ids = np.asarray(element[feature_key])
        low = max(min(1, len(ids) - 1), len(ids) - targets)
        place = int(rng.integers(low, max(low, min(len(ids) - 1, inputs)) + 1))
        return {"inputs": ids[:place], "targets": ids[place:]}

    return parts.map(split, seed=fold(seed, 2))
