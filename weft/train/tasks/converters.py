"""Feature converters: what a task delivers as what a model takes, padded or packed.

Names and values are those of seqio's converters. Two cases differ on purpose, where seqio loses
what it is given: a feature that is empty keeps its segment number, and a padding id between other
ids stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.train.data import Dataset
from weft.train.tasks.features import TaskError
from weft.train.tasks.windows import map_windows

Element = dict[str, Any]


class FeatureConverter:
    """The base of feature converters: subclasses have ``task_features``, ``convert`` and lengths.

    Args:
        pack: put several examples into one, with segment ids and positions; otherwise each is
            padded.
        bos_id: the first id of the decoder's input.
        passthrough_features: names of features that are padded or packed and otherwise kept.

    Example:
        >>> from weft.train import tasks
        >>> issubclass(tasks.EncoderFeatureConverter, tasks.FeatureConverter)
        True
    """

    task_features: tuple[str, ...] = ()

    def __init__(
        self, pack: bool = True, bos_id: int = 0, passthrough_features: Sequence[str] = ()
    ) -> None:
        self.pack, self.bos_id = bool(pack), int(bos_id)
        self.passthrough_features = tuple(passthrough_features)

    def __call__(self, dataset: Dataset, task_feature_lengths: Mapping[str, int]) -> Dataset:
        """The data set of what the model takes.

        Args:
            dataset: elements with the features of a task. They are not batched.
            task_feature_lengths: the length of each feature.

        Returns:
            The data set; every array has the length of ``get_model_feature_lengths``.
        """
        lengths = self._checked_lengths(task_feature_lengths)
        internal = self._internal_lengths(lengths)
        prepare = lambda element: self._prepare(self._checked(element, lengths))
        if not self.pack:
            convert = lambda element: self._convert(_padded(prepare(element), internal))
            return dataset.map(convert)
        # As in seqio, examples are packed among as many as the longest feature is long.
        window = max(internal.values())
        packed = lambda elements: [
            self._convert(one) for one in pack_examples(map(prepare, elements), internal)
        ]
        return map_windows(dataset, packed, window, name=f"pack({internal})")

    def get_model_feature_lengths(self, task_feature_lengths: Mapping[str, int]) -> dict[str, int]:
        """The length of every array that the model takes.

        Args:
            task_feature_lengths: the length of each feature.
        """
        lengths = self._checked_lengths(task_feature_lengths)
        internal = self._internal_lengths(lengths)
        empty = {name: np.zeros(0, np.int32) for name in lengths}
        example = next(iter(pack_examples([self._prepare(empty)], internal)))
        if not self.pack:
            example = _padded(self._prepare(empty), internal)
        return {name: len(value) for name, value in self._convert(example).items()}

    def _checked_lengths(self, lengths: Mapping[str, int]) -> dict[str, int]:
        wanted = {*self.task_features, *self.passthrough_features}
        if set(lengths) != wanted:
            raise TaskError(
                f"{type(self).__name__} needs lengths of {', '.join(sorted(wanted))}, and got"
                f" those of {', '.join(sorted(lengths)) or 'nothing'}"
            )
        if any(int(length) < 1 for length in lengths.values()):
            raise TaskError(f"lengths of features must be positive: {dict(lengths)}")
        return {name: int(length) for name, length in lengths.items()}

    def _checked(self, element: Mapping[str, Any], lengths: Mapping[str, int]) -> Element:
        made = {}
        for name, length in lengths.items():
            if name not in element:
                raise TaskError(
                    f"{type(self).__name__} needs the feature {name!r}; the element has"
                    f" {', '.join(map(repr, element))}"
                )
            value = np.asarray(element[name])
            if value.ndim != 1 or (value.size and value.dtype.kind not in "iu"):
                raise TaskError(
                    f"feature {name!r} must be a sequence of ids, not {value.dtype} of shape"
                    f" {value.shape}; tokenize it"
                )
            if len(value) > length:
                raise TaskError(
                    f"feature {name!r} has {len(value)} ids, more than its length {length}; trim it"
                )
            made[name] = value.astype(np.int32)
        return made

    def _internal_lengths(self, lengths: dict[str, int]) -> dict[str, int]:
        return lengths

    def _prepare(self, element: Element) -> Element:
        return element

    def _convert(self, element: Element) -> Element:
        raise TypeError(f"{type(self).__name__} must define _convert")

    def _passed(self, element: Element) -> Element:
        return {name: element[name] for name in self.passthrough_features}


class EncDecFeatureConverter(FeatureConverter):
    """For an encoder and a decoder: ``inputs`` are the encoder's, ``targets`` the decoder's.

    >>> from weft.train import data
    >>> examples = data.source([{"inputs": [7, 8, 5, 1], "targets": [3, 9, 1]},
    ...                         {"inputs": [8, 4, 9, 3, 1], "targets": [4, 1]}])
    >>> convert = EncDecFeatureConverter(pack=True)
    >>> for name, ids in next(iter(convert(examples, {"inputs": 10, "targets": 7}))).items():
    ...     print(f"{name:>21}", ids)
     encoder_input_tokens [7 8 5 1 8 4 9 3 1 0]
    decoder_target_tokens [3 9 1 4 1 0 0]
     decoder_input_tokens [0 3 9 0 4 0 0]
     decoder_loss_weights [1 1 1 1 1 0 0]
      encoder_segment_ids [1 1 1 1 2 2 2 2 2 0]
      decoder_segment_ids [1 1 1 2 2 0 0]
        encoder_positions [0 1 2 3 0 1 2 3 4 0]
        decoder_positions [0 1 2 0 1 0 0]
    """

    task_features = ("inputs", "targets")

    def _convert(self, element: Element) -> Element:
        targets = element["targets"]
        segments = element.get("targets_segment_ids")
        made = {
            "encoder_input_tokens": element["inputs"],
            "decoder_target_tokens": targets,
            "decoder_input_tokens": autoregressive_inputs(targets, segments, self.bos_id),
            "decoder_loss_weights": (targets != 0).astype(np.int32),
            **self._passed(element),
        }
        if self.pack:
            made |= {
                "encoder_segment_ids": element["inputs_segment_ids"],
                "decoder_segment_ids": element["targets_segment_ids"],
                "encoder_positions": element["inputs_positions"],
                "decoder_positions": element["targets_positions"],
            }
        return made


class LMFeatureConverter(FeatureConverter):
    """For a language model: ``targets`` only.

    >>> from weft.train import data
    >>> examples = data.source([{"targets": [3, 9, 1]}, {"targets": [4, 1]}])
    >>> for name, ids in next(iter(LMFeatureConverter()(examples, {"targets": 6}))).items():
    ...     print(f"{name:>21}", ids)
    decoder_target_tokens [3 9 1 4 1 0]
     decoder_input_tokens [0 3 9 0 4 0]
     decoder_loss_weights [1 1 1 1 1 0]
      decoder_segment_ids [1 1 1 2 2 0]
        decoder_positions [0 1 2 0 1 0]
    """

    task_features = ("targets",)

    def _convert(self, element: Element) -> Element:
        targets = element["targets"]
        segments = element.get("targets_segment_ids")
        made = {
            "decoder_target_tokens": targets,
            "decoder_input_tokens": autoregressive_inputs(targets, segments, self.bos_id),
            "decoder_loss_weights": (targets != 0).astype(np.int32),
        }
        if self.pack:
            made["decoder_segment_ids"] = element["targets_segment_ids"]
            made["decoder_positions"] = element["targets_positions"]
        return made | self._passed(element)


class PrefixLMFeatureConverter(LMFeatureConverter):
    """A converter for a decoder that sees ``inputs`` as a whole and predicts ``targets``.

    ``decoder_causal_attention`` is 1 where attention goes both ways: on the inputs, and on the
    place where the first target is predicted.

    Args:
        loss_on_targets_only: leave the inputs out of the loss.
        **options: the options of ``FeatureConverter``.

    Example:
        >>> from weft.train import data
        >>> examples = data.source([{"inputs": [9, 4, 6, 1], "targets": [3, 9, 1]}])
        >>> convert = PrefixLMFeatureConverter(pack=False)
        >>> for name, ids in next(iter(convert(examples, {"inputs": 5, "targets": 4}))).items():
        ...     print(f"{name:>24}", ids)
           decoder_target_tokens [9 4 6 1 3 9 1 0 0]
            decoder_input_tokens [0 9 4 6 1 3 9 1 0]
            decoder_loss_weights [0 0 0 0 1 1 1 0 0]
        decoder_causal_attention [1 1 1 1 1 0 0 0 0]
    """

    task_features = ("inputs", "targets")

    def __init__(self, loss_on_targets_only: bool = True, **options: Any) -> None:
        """A converter.

        Args:
            loss_on_targets_only: whether inputs have no weight in the loss.
            **options: as for ``FeatureConverter``.
        """
        super().__init__(**options)
        self.loss_on_targets_only = bool(loss_on_targets_only)

    def _internal_lengths(self, lengths: dict[str, int]) -> dict[str, int]:
        total = lengths["inputs"] + lengths["targets"]
        passed = {name: lengths[name] for name in self.passthrough_features}
        return {"targets": total, "width": total, **passed}

    def _prepare(self, element: Element) -> Element:
        inputs, targets = element["inputs"], element["targets"]
        if not self.pack and not len(targets):
            targets = np.zeros(1, np.int32)  # as in seqio, a place where a target is predicted
        joined = np.concatenate([inputs, targets])
        if self.pack:
            joined = strip_padding(joined)
        width = np.full(len(joined), len(inputs) + 1, np.int32)  # never 0, which is padding
        return {"targets": joined, "width": width} | self._passed(element)

    def _convert(self, element: Element) -> Element:
        made = super()._convert(element)
        width = element["width"]
        if self.pack:
            positions = element["targets_positions"]
        else:
            positions = np.arange(len(width), dtype=np.int32)
        made["decoder_causal_attention"] = (positions < width).astype(np.int32)
        if self.loss_on_targets_only:
            made["decoder_loss_weights"] *= positions >= width - 1
        return made


class DecoderFeatureConverter(PrefixLMFeatureConverter):
    """A converter for a decoder: a prefix LM if ``inputs`` has a length, else a language model.

    >>> from weft.train import data
    >>> convert, examples = DecoderFeatureConverter(pack=False), data.source([{"targets": [3, 1]}])
    >>> next(iter(convert(examples, {"targets": 3})))["decoder_input_tokens"]
    array([0, 3, 1], dtype=int32)
    """

    def __call__(self, dataset: Dataset, task_feature_lengths: Mapping[str, int]) -> Dataset:
        """The data set of what the model takes."""
        return self._chosen(task_feature_lengths)(dataset, task_feature_lengths)

    def get_model_feature_lengths(self, task_feature_lengths: Mapping[str, int]) -> dict[str, int]:
        """The length of every array that the model takes."""
        return self._chosen(task_feature_lengths).get_model_feature_lengths(task_feature_lengths)

    def _chosen(self, lengths: Mapping[str, int]) -> FeatureConverter:
        options = {
            "pack": self.pack,
            "bos_id": self.bos_id,
            "passthrough_features": self.passthrough_features,
        }
        if "inputs" in lengths:
            return PrefixLMFeatureConverter(self.loss_on_targets_only, **options)
        return LMFeatureConverter(**options)


class EncoderFeatureConverter(FeatureConverter):
    """A converter for an encoder such as BERT: the loss is on the inputs that are masked.

    Args:
        mask_id: the id of the mask.
        **options: the options of ``FeatureConverter``.

    Example:
        >>> from weft.train import data
        >>> examples = data.source([{"inputs": [8, 9, 9, 3, 4, 1], "targets": [8, 7, 4, 3, 4, 1]}])
        >>> convert = EncoderFeatureConverter(mask_id=9, pack=False)
        >>> next(iter(convert(examples, {"inputs": 7, "targets": 7})))["encoder_loss_weights"]
        array([0, 1, 1, 0, 0, 0, 0], dtype=int32)
    """

    task_features = ("inputs", "targets")

    def __init__(self, mask_id: int, **options: Any) -> None:
        """A converter.

        Args:
            mask_id: the id that stands for masked ids in the inputs.
            **options: as for ``FeatureConverter``.
        """
        super().__init__(**options)
        self.mask_id = int(mask_id)

    def _convert(self, element: Element) -> Element:
        inputs = element["inputs"]
        made = {
            "encoder_input_tokens": inputs,
            "encoder_target_tokens": element["targets"],
            "encoder_loss_weights": (inputs == self.mask_id).astype(np.int32),
        }
        if self.pack:
            made["encoder_segment_ids"] = element["inputs_segment_ids"]
            made["encoder_positions"] = element["inputs_positions"]
        return made | self._passed(element)


class PassThroughFeatureConverter(FeatureConverter):
    """Leaves elements as they are.

    >>> from weft.train import data
    >>> next(iter(PassThroughFeatureConverter()(data.source([{"x": 1}]), {})))
    {'x': 1}
    """

    def __init__(self) -> None:
        super().__init__(pack=False)

    def __call__(self, dataset: Dataset, task_feature_lengths: Mapping[str, int]) -> Dataset:
        """The data set itself."""
        return dataset

    def get_model_feature_lengths(self, task_feature_lengths: Mapping[str, int]) -> dict[str, int]:
        """The lengths of the features."""
        return dict(task_feature_lengths)


def autoregressive_inputs(
    targets: np.ndarray, segments: np.ndarray | None = None, bos_id: int = 0
) -> np.ndarray:
    """What a decoder reads when it predicts targets: the targets, one place later.

    Args:
        targets: ids.
        segments: which example each id is of, if several are packed.
        bos_id: what the first id of every example is.

    Example:
        >>> autoregressive_inputs(np.array([3, 8, 1, 9, 1, 0]), np.array([1, 1, 1, 2, 2, 0]))
        array([0, 3, 8, 0, 9, 0])
    """
    made = np.empty_like(targets)
    made[:1], made[1:] = bos_id, targets[:-1]
    if segments is not None:
        made[1:][segments[1:] != segments[:-1]] = bos_id
    return made


def strip_padding(ids: np.ndarray) -> np.ndarray:
    """Ids without the padding at their end.

    >>> strip_padding(np.array([3, 0, 1, 0, 0]))
    array([3, 0, 1])
    """
    filled = np.flatnonzero(ids)
    return ids[: filled[-1] + 1] if len(filled) else ids[:0]


def _padded(element: Element, lengths: Mapping[str, int]) -> Element:
    made = {}
    for name, length in lengths.items():
        value = np.zeros(length, np.int32)
        ids = element[name][:length]
        value[: len(ids)] = ids
        made[name] = value
    return made


def pack_examples(examples: Any, lengths: Mapping[str, int]) -> Any:
    """Put neighbours into one example as long as all features fit.

    Args:
        examples: dictionaries of ids by feature.
        lengths: the length of each feature.

    Yields:
        Examples with ids, ``_segment_ids``, which count from 1, and ``_positions``.

    Example:
        >>> some = [{"x": np.array([5, 6])}, {"x": np.array([7])}, {"x": np.array([8, 9])}]
        >>> [one["x_segment_ids"].tolist() for one in pack_examples(some, {"x": 4})]
        [[1, 1, 2, 0], [1, 1, 0, 0]]
    """
    waiting: list[Element] = []
    used = dict.fromkeys(lengths, 0)
    for example in examples:
        taken = {name: strip_padding(example[name])[:size] for name, size in lengths.items()}
        if any(used[name] + len(ids) > lengths[name] for name, ids in taken.items()):
            yield _joined(waiting, lengths)
            waiting, used = [], dict.fromkeys(lengths, 0)
        waiting.append(taken)
        for name, ids in taken.items():
            used[name] += len(ids)
    if waiting:
        yield _joined(waiting, lengths)


def _joined(examples: list[Element], lengths: Mapping[str, int]) -> Element:
    made = {}
    for name, length in lengths.items():
        ids, segments, positions = (np.zeros(length, np.int32) for _ in range(3))
        at = 0
        for number, example in enumerate(examples):
            end = at + len(example[name])
            ids[at:end], segments[at:end] = example[name], number + 1
            positions[at:end] = np.arange(end - at)
            at = end
        made |= {name: ids, f"{name}_segment_ids": segments, f"{name}_positions": positions}
    return made
