"""Tasks of seqio, where it is installed, as tasks of ours."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from weft.train.tasks.features import Feature, TaskError
from weft.train.tasks.sources import Source
from weft.train.tasks.task import Task
from weft.train.vocabularies import Vocabulary


class SeqioVocabulary(Vocabulary):
    """A vocabulary of seqio with our interface; it encodes and decodes by itself.

    >>> class Shifted:  # stands for a vocabulary of seqio
    ...     eos_id, unk_id, pad_id, extra_ids, vocab_size = 1, 2, 0, 0, 259
    ...     def encode(self, text):
    ...         return [value + 3 for value in text.encode()]
    ...     def decode(self, ids):
    ...         return bytes(one - 3 for one in ids if one > 2).decode()
    >>> SeqioVocabulary(Shifted()).decode([100, 1, 101])
    'a'
    """

    def __init__(self, vocabulary: Any) -> None:
        """A vocabulary.

        Args:
            vocabulary: of seqio.
        """
        super().__init__(int(getattr(vocabulary, "extra_ids", 0) or 0))
        self.wrapped = vocabulary
        self.eos_id, self.unk_id = vocabulary.eos_id, vocabulary.unk_id
        self.pad_id = vocabulary.pad_id

    @property
    def base_vocab_size(self) -> int:
        """How many ids there are without the extra ones."""
        return int(self.wrapped.vocab_size) - self.extra_ids

    def config(self) -> dict[str, Any]:
        """What is known of the definition."""
        return {"class": type(self.wrapped).__name__, "text": str(self.wrapped)}

    def _encode(self, text: Any) -> Any:
        return [int(one) for one in self.wrapped.encode(text)]

    def _decode(self, ids: list[int]) -> Any:
        return self.wrapped.decode(ids)


def _found(task: Any) -> Any:
    """A task or mixture of seqio, by itself or by its name."""
    if not isinstance(task, str):
        needed = ("name", "get_dataset", "output_features", "splits")
        missing = [name for name in needed if not hasattr(task, name)]
        if missing:
            raise TypeError(f"{type(task).__name__} isn't a seqio task: it has no {missing[0]}")
        return task
    try:
        seqio = importlib.import_module("seqio")
    except ImportError as error:
        raise ImportError(
            f"the task {task!r} is looked up in seqio, which is not installed ({error}); pip"
            " install seqio, or write it as a weft.train.tasks.Task"
        ) from None
    return seqio.get_mixture_or_task(task)


def _plain(value: Any) -> Any:
    """A tensor as an array, and bytes of a text as text."""
    value = value.numpy() if hasattr(value, "numpy") else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else np.asarray(value)


def _elements(task: Any, split: str, lengths: Mapping[str, int] | None) -> Iterator[dict[str, Any]]:
    dataset = task.get_dataset(sequence_length=lengths, split=split, shuffle=False)
    rows = dataset.as_numpy_iterator() if hasattr(dataset, "as_numpy_iterator") else dataset
    for row in rows:
        yield {name: _plain(value) for name, value in row.items()}


def from_seqio(task: Any, sequence_length: Mapping[str, int] | None = None) -> Task:
    """Return a task of seqio as one of ours: seqio reads and preprocesses, the rest is done here.

    Args:
        task: a ``seqio.Task``, or the name of a registered one, which needs seqio.
        sequence_length: lengths of features, for preprocessors that need them.

    Returns:
        A task with the splits, features, metrics and postprocessing of seqio's.

    Example:
        >>> from weft.train import tasks
        >>> task = tasks.from_seqio("glue_cola_v002")  # doctest: +SKIP
    """
    found = _found(task)
    features = {
        name: Feature(
            SeqioVocabulary(feature.vocabulary),
            add_eos=bool(feature.add_eos),
            required=bool(feature.required),
            dtype=_dtype(feature.dtype),
            rank=int(getattr(feature, "rank", 1)),
        )
        for name, feature in found.output_features.items()
    }
    read = lambda split: lambda: _elements(found, split, sequence_length)
    name = str(found.name).replace("/", ".")
    source = Source(read, splits=tuple(found.splits))
    metrics = tuple(getattr(found, "metric_fns", None) or ())
    postprocess = getattr(found, "postprocess_fn", None)
    return Task(name, source, features, (), metrics, postprocess)


def _dtype(dtype: Any) -> np.dtype:
    return np.dtype(getattr(dtype, "as_numpy_dtype", dtype))


def sample_seqio_task(
    task: Any,
    split: str = "train",
    sequence_length: Mapping[str, int] | None = None,
    num_examples: int = 5,
) -> list[dict[str, Any]]:
    """Return the first elements of a task of seqio, as NumPy arrays and texts.

    Args:
        task: a ``seqio.Task``, or the name of a registered one, which needs seqio.
        split: the split.
        sequence_length: lengths of features.
        num_examples: how many.

    Returns:
        A list of dictionaries.

    Example:
        >>> from weft.train import tasks
        >>> examples = tasks.sample_seqio_task("glue_cola_v002")  # doctest: +SKIP
    """
    found = _found(task)
    if split not in found.splits:
        raise TaskError(f"seqio's task {found.name!r} has no split {split!r}")
    return [one for one, _ in zip(_elements(found, split, sequence_length), range(num_examples))]
