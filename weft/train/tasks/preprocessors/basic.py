"""Preprocessors for names, ids, ends and lengths of features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.train.data import Dataset
from weft.train.tasks.features import Feature, TaskError
from weft.train.tasks.preprocessors.applying import Element, Features, Lengths


def rekey(dataset: Dataset, key_map: Mapping[str, str | None]) -> Dataset:
    """Elements with other names.

    Args:
        dataset: the data set.
        key_map: new names and the old ones; None gives an empty text.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> list(rekey(data.source([{"en": "yes", "de": "ja"}]), {"inputs": "en", "targets": "de"}))
        [{'inputs': 'yes', 'targets': 'ja'}]
    """
    names = dict(key_map)

    def renamed(element: Element) -> Element:
        missing = [old for old in names.values() if old is not None and old not in element]
        if missing:
            raise TaskError(f"rekey needs {missing[0]!r}; the element has {sorted(element)}")
        return {new: "" if old is None else element[old] for new, old in names.items()}

    return dataset.map(renamed)


def tokenize(
    dataset: Dataset,
    output_features: Features,
    copy_pretokenized: bool = True,
    with_eos: bool = False,
) -> Dataset:
    """Return a data set with ids of the texts of features.

    Args:
        dataset: the data set.
        output_features: of the task; other texts stay.
        copy_pretokenized: keep the text under the name with ``_pretokenized``.
        with_eos: add the end to features that want it.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> features = {"targets": Feature(ByteVocabulary())}
        >>> list(tokenize(data.source([{"targets": "ab"}]), features))
        [{'targets_pretokenized': 'ab', 'targets': array([100, 101], dtype=int32)}]
    """

    def encoded(element: Element) -> Element:
        made = {}
        for name, value in element.items():
            feature = output_features.get(name)
            if feature is None:
                made[name] = value
                continue
            value = value.decode("utf-8") if isinstance(value, bytes) else value
            if copy_pretokenized and isinstance(value, str):
                made[f"{name}_pretokenized"] = value
            ids = feature.vocabulary.encode(value) if isinstance(value, str) else value
            ids = np.asarray(ids, feature.dtype)
            made[name] = _with_eos(ids, name, feature) if with_eos and feature.add_eos else ids
        return made

    return dataset.map(encoded)


def tokenize_and_append_eos(
    dataset: Dataset, output_features: Features, copy_pretokenized: bool = True
) -> Dataset:
    """Return a data set with ids of the texts of features, with the end.

    Args:
        dataset: the data set.
        output_features: of the task.
        copy_pretokenized: keep the text under the name with ``_pretokenized``.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> features = {"targets": Feature(ByteVocabulary())}
        >>> texts = data.source([{"targets": "ab"}])
        >>> next(iter(tokenize_and_append_eos(texts, features, copy_pretokenized=False)))
        {'targets': array([100, 101,   1], dtype=int32)}
    """
    return tokenize(dataset, output_features, copy_pretokenized, with_eos=True)


def _with_eos(ids: np.ndarray, name: str, feature: Feature) -> np.ndarray:
    eos = feature.vocabulary.eos_id
    if eos is None:
        raise TaskError(
            f"the vocabulary of feature {name!r} has no end-of-sequence id; pass"
            " add_eos=False to Feature"
        )
    return np.append(ids, np.asarray(eos, ids.dtype))


def append_eos(dataset: Dataset, output_features: Features) -> Dataset:
    """Return a data set with the end added to features with ``add_eos``.

    Args:
        dataset: the data set.
        output_features: of the task.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> features = {"targets": Feature(ByteVocabulary())}
        >>> list(append_eos(data.source([{"targets": np.array([5, 6])}]), features))
        [{'targets': array([5, 6, 1])}]
    """
    return append_eos_after_trim(dataset, output_features, None)


def append_eos_after_trim(
    dataset: Dataset, output_features: Features, sequence_length: Lengths
) -> Dataset:
    """Return a data set with the end added to features with ``add_eos``, trimmed so that it fits.

    Args:
        dataset: the data set.
        output_features: of the task.
        sequence_length: lengths of features; None does not trim.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> features = {"targets": Feature(ByteVocabulary())}
        >>> ids = data.source([{"targets": np.array([5, 6, 7])}])
        >>> next(iter(append_eos_after_trim(ids, features, {"targets": 3})))
        {'targets': array([5, 6, 1])}
    """
    wanted = {name: one for name, one in output_features.items() if one.add_eos}

    def ended(element: Element) -> Element:
        made = dict(element)
        for name, feature in wanted.items():
            if name in made:
                ids = np.asarray(made[name])
                if sequence_length is not None and name in sequence_length:
                    ids = ids[: sequence_length[name] - 1]
                made[name] = _with_eos(ids, name, feature)
        return made

    return dataset.map(ended)


def trim(
    dataset: Dataset, sequence_length: Lengths, output_features: Features | None = None
) -> Dataset:
    """Return a data set with features cut to their length.

    Args:
        dataset: the data set.
        sequence_length: lengths of features.
        output_features: only these are trimmed; by default all that have a length.

    Returns:
        A data set.

    Example:
        >>> from weft.train import data
        >>> list(trim(data.source([{"x": np.arange(5)}]), {"x": 2}))
        [{'x': array([0, 1])}]
    """
    if not sequence_length:
        return dataset
    lengths = {
        name: length
        for name, length in sequence_length.items()
        if output_features is None or name in output_features
    }

    def trimmed(element: Element) -> Element:
        cut = {name: element[name][:length] for name, length in lengths.items() if name in element}
        return {**element, **cut}

    return dataset.map(trimmed)
