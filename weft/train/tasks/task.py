"""``Task``: a source, preprocessing, features, metrics and postprocessing under a name."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.train import data
from weft.train.data.permutation import fold
from weft.train.tasks import cache, preprocessors
from weft.train.tasks.features import Feature, TaskError, check_element
from weft.train.tasks.fingerprints import describe, fingerprint
from weft.train.tasks.preprocessors.applying import apply
from weft.train.tasks.sources import as_source

_NAME = re.compile(r"[\w.:-]+")
SHUFFLE_WINDOW = 1000


class CachePoint:
    """A mark among preprocessors: a cache holds what is before it, and the rest runs every time.

    >>> CachePoint()
    CachePoint()
    """

    def __repr__(self) -> str:
        return "CachePoint()"


class Task:
    """Data for a purpose: where it comes from, what is done with it, and how results are judged.

    Args:
        name: letters, digits, ``_``, ``.``, ``:`` and ``-``.
        source: a dictionary of data sets by split, or a ``Source``.
        output_features: features by name.
        preprocessors: functions that take a data set and return one (``tasks.preprocessors``).
        metric_fns: functions of ``(targets, predictions)`` or ``(targets, scores)``, which
            return values by name.
        postprocess_fn: takes a decoded text, and ``example`` and ``is_target`` if it has such
            parameters; returns what the metrics compare.
        cache_dir: a folder for ``cache``.

    Example:
        >>> from weft.train import tasks
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> translate = Task(
        ...     "translate",
        ...     source={"train": [{"en": "yes", "de": "ja"}, {"en": "no", "de": "nein"}]},
        ...     preprocessors=[
        ...         functools.partial(
        ...             preprocessors.rekey, key_map={"inputs": "en", "targets": "de"}
        ...         ),
        ...         preprocessors.tokenize_and_append_eos],
        ...     output_features={name: Feature(ByteVocabulary()) for name in ("inputs", "targets")})
        >>> element = next(iter(translate.get_dataset(split="train", shuffle=False)))
        >>> element["targets_pretokenized"], element["targets"]
        ('ja', array([109, 100,   1], dtype=int32))
    """

    def __init__(
        self,
        name: str,
        source: Any,
        output_features: Mapping[str, Feature],
        preprocessors: Sequence[Callable | CachePoint] = (),
        metric_fns: Sequence[Callable] = (),
        postprocess_fn: Callable | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise TaskError(
                f"{name!r} isn't a valid task name: use letters, digits, '_', '.', ':' and '-'"
            )
        self.name, self.source = name, as_source(source)
        self.output_features = dict(output_features)
        for key, feature in self.output_features.items():
            if not isinstance(feature, Feature):
                raise TypeError(f"output_features[{key!r}] must be a Feature, not {feature!r}")
        self.preprocessors = tuple(preprocessors)
        marks = sum(isinstance(one, CachePoint) for one in self.preprocessors)
        if marks > 1:
            raise TaskError(f"task {name!r} has {marks} cache points; it can have at most one")
        self.metric_fns = tuple(metric_fns)
        self.postprocess_fn = postprocess_fn
        self.cache_dir = None if cache_dir is None else os.fspath(cache_dir)

    def __repr__(self) -> str:
        return f"<Task {self.name!r}, splits {', '.join(self.splits)}>"

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return self.source.splits

    @property
    def tasks(self) -> tuple["Task", ...]:
        """The task itself, as mixtures have several."""
        return (self,)

    def num_examples(self, split: str) -> int | None:
        """How many elements a split has: those of the cache if there is one, or of the source.

        Args:
            split: its name.
        """
        manifest = cache.read_manifest(self._folder(split)) if self.cache_dir else None
        return self.source.num_examples(split) if manifest is None else manifest["examples"]

    def get_dataset(
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = "train",
        *,
        use_cached: bool = False,
        shuffle: bool = True,
        seed: int = 0,
        shard: tuple[int, int] | None = None,
        num_epochs: int | None = 1,
        trim_output_features: bool = True,
    ) -> data.Dataset:
        """The preprocessed elements of a split.

        Args:
            sequence_length: lengths of features, to which they are trimmed.
            split: which part of the data.
            use_cached: read what ``cache`` wrote.
            shuffle: in a random order, another one in every epoch.
            seed: of the order and of random preprocessors.
            shard: number and count of parts of the source, if only one is wanted.
            num_epochs: how often; None: without end.
            trim_output_features: whether features are trimmed.

        Returns:
            A data set of ``weft.train.data``, whose iterators can save and restore their place.
        """
        before, after = self._parts()
        if use_cached:
            dataset, steps = self._cached(split, seed), after
        else:
            dataset, steps = self.source.dataset(split), [*before, *after]
        if shard is not None:
            dataset = dataset.shard(*shard)
        shuffled = False
        if shuffle:
            try:
                dataset, shuffled = dataset.shuffle(fold(seed, 0) >> 1), True
            except TypeError:  # it can only be read from front to back
                pass
        dataset = self._preprocessed(dataset, steps, sequence_length, seed, use_cached)
        check = functools.partial(check_element, features=self.output_features, task=self.name)
        dataset = dataset.map(check)
        if sequence_length is not None and trim_output_features:
            dataset = preprocessors.trim(dataset, sequence_length, self.output_features)
        if shuffle and not shuffled:
            dataset = dataset.shuffle(fold(seed, 0) >> 1, window=SHUFFLE_WINDOW)
        return dataset if num_epochs == 1 else dataset.repeat(num_epochs)

    def _preprocessed(
        self,
        dataset: data.Dataset,
        steps: Sequence[Callable],
        sequence_length: Mapping[str, int] | None,
        seed: int,
        cached: bool,
    ) -> data.Dataset:
        offset = len(self._parts()[0]) if cached else 0
        for number, step in enumerate(steps, offset + 1):
            dataset = apply(
                step, dataset, self.output_features, sequence_length, fold(seed, number) >> 1
            )
        return dataset

    def _parts(self) -> tuple[list[Callable], list[Callable]]:
        """Preprocessors before and after the cache point, which by default is behind all."""
        listed = list(self.preprocessors)
        at = next((i for i, one in enumerate(listed) if isinstance(one, CachePoint)), len(listed))
        return listed[:at], listed[at + 1 :]  # type: ignore[return-value]

    def cache(
        self, splits: Sequence[str] | None = None, *, seed: int = 0, rebuild: bool = False
    ) -> dict[str, int]:
        """Write preprocessed elements to ``cache_dir``, up to the cache point.

        A cache that is there is kept if it is of the same source, preprocessors and features, and
        otherwise written again, with a message. ``sequence_length`` is None for preprocessors
        before the cache point.

        Args:
            splits: which; by default all.
            seed: of random preprocessors.
            rebuild: write it again in any case.

        Returns:
            The number of elements by split.
        """
        found = {}
        for split in self.splits if splits is None else splits:
            folder, origin = self._folder(split), self._origin(split, seed)
            try:
                manifest = None if rebuild else cache.read_manifest(folder)
            except TaskError:
                manifest = None
            if manifest is not None and (changed := cache.differences(manifest["origin"], origin)):
                cache.log_rebuild(folder, changed)
                manifest = None
            if manifest is None:
                dataset = self.source.dataset(split)
                made = self._preprocessed(dataset, self._parts()[0], None, seed, False)
                manifest = cache.write(folder, made, origin)
            found[split] = int(manifest["examples"])
        return found

    def _folder(self, split: str) -> str:
        if self.cache_dir is None:
            raise TaskError(f"task {self.name!r} has no cache_dir; pass one to Task")
        if split not in self.splits:
            raise TaskError(f"there is no split {split!r}, only {', '.join(self.splits)}")
        return os.path.join(self.cache_dir, self.name.replace(":", "__"), split)

    def _origin(self, split: str, seed: int) -> dict[str, Any]:
        steps = [[_name_of(one), fingerprint(one)] for one in self._parts()[0]]
        return {
            "source": fingerprint(self.source.config(split)),
            "preprocessors": steps,
            "features": fingerprint(describe(self.output_features)),
            "seed": seed,
        }

    def _cached(self, split: str, seed: int) -> data.Dataset:
        folder = self._folder(split)
        manifest = cache.read_manifest(folder)
        if manifest is None:
            raise TaskError(f"task {self.name!r} has no cache in {folder}; call task.cache() first")
        now = self._origin(split, manifest["origin"].get("seed", seed))
        if changed := cache.differences(manifest["origin"], now):
            raise TaskError(
                f"the cache {folder} is out of date: {' and '.join(changed)} changed since it was"
                " written; call task.cache() to build it again"
            )
        return data.source(cache.open_rows(folder, manifest))

    def postprocess(self, text: Any, example: Mapping[str, Any], is_target: bool) -> Any:
        """What the metrics compare, of a decoded text.

        Args:
            text: of a target or a prediction.
            example: the element that it belongs to.
            is_target: which of the two.
        """
        if self.postprocess_fn is None:
            return text
        accepted = inspect.signature(self.postprocess_fn).parameters
        every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in accepted.values())
        given = {"example": example, "is_target": is_target}
        chosen = {name: value for name, value in given.items() if every or name in accepted}
        return self.postprocess_fn(text, **chosen)


def _name_of(step: Any) -> str:
    while isinstance(step, functools.partial):
        step = step.func
    return str(getattr(step, "__name__", type(step).__name__))
