"""``Evaluator``: runs a model over examples of tasks, and its results through their metrics."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.train import data
from weft.train.tasks import mixture
from weft.train.tasks.converters import FeatureConverter
from weft.train.tasks.features import TaskError
from weft.train.tasks.task import Task

MASK = "__row_is_real"


class Evaluator:
    """Evaluates a model on tasks: predictions are decoded, postprocessed and compared.

    Args:
        task_or_mixture: a task, a mixture, or the name of one. Tasks without metrics or without
            the split are left out.
        feature_converter: makes what the model takes; it must not pack.
        batch_size: how many examples the model gets at once. The last batch is filled up with
            zeros, so that all have the same shapes.
        split: the split to evaluate on.
        sequence_length: lengths of features; by default those of the longest examples.
        num_examples: how many examples of each task at most.
        use_cached: read the tasks' caches.
        writer: of ``weft.train.writers``; gets every value as ``task/metric``.
        seed: of random preprocessors.

    Example:
        >>> from weft.train import tasks
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> features = {name: tasks.Feature(ByteVocabulary()) for name in ("inputs", "targets")}
        >>> copy = tasks.Task(
        ...     "copy", {"validation": [{"inputs": x, "targets": x} for x in ("ab", "c", "de")]},
        ...     features, [tasks.preprocessors.tokenize_and_append_eos], [tasks.metrics.accuracy])
        >>> evaluator = Evaluator(copy, tasks.EncDecFeatureConverter(pack=False), batch_size=2)
        >>> evaluator.evaluate(predict_fn=lambda batch: batch["encoder_input_tokens"])
        {'copy': {'accuracy': 1.0}}
    """

    def __init__(
        self,
        task_or_mixture: Any,
        feature_converter: FeatureConverter,
        batch_size: int = 32,
        *,
        split: str = "validation",
        sequence_length: Mapping[str, int] | None = None,
        num_examples: int | None = None,
        use_cached: bool = False,
        writer: Any = None,
        seed: int = 0,
    ) -> None:
        found = (
            mixture.get(task_or_mixture) if isinstance(task_or_mixture, str) else task_or_mixture
        )
        self.tasks = [one for one in found.tasks if one.metric_fns and split in one.splits]
        if not self.tasks:
            raise TaskError(f"no task of {found.name!r} has metrics and a split {split!r}")
        if feature_converter.pack:
            raise TaskError(
                "evaluation needs one row per example; pass pack=False to the converter"
            )
        self.feature_converter, self.batch_size = feature_converter, int(batch_size)
        self.writer, self.sequence_length = writer, sequence_length
        self.examples: dict[str, list[dict[str, Any]]] = {}
        self.targets: dict[str, list[Any]] = {}
        for task in self.tasks:
            options = {"split": split, "shuffle": False, "use_cached": use_cached, "seed": seed}
            dataset = task.get_dataset(sequence_length, **options)
            if num_examples is not None:
                dataset = dataset.take(num_examples)
            self.examples[task.name] = list(dataset)
            self.targets[task.name] = [
                task.postprocess(_target_text(task, one), one, is_target=True)
                for one in self.examples[task.name]
            ]

    def lengths(self) -> dict[str, int]:
        """The lengths of features: those that were given, or those of the longest examples."""
        if self.sequence_length is not None:
            return dict(self.sequence_length)
        converter = self.feature_converter
        found = dict.fromkeys((*converter.task_features, *converter.passthrough_features), 1)
        for examples in self.examples.values():
            for example in examples:
                if missing := [name for name in found if name not in example]:
                    raise TaskError(
                        f"{type(converter).__name__} needs the feature {missing[0]!r}; the examples"
                        f" have {', '.join(map(repr, example))}"
                    )
                found = {name: max(n, len(example[name])) for name, n in found.items()}
        return found

    def evaluate(
        self,
        predict_fn: Callable[[Any], Any] | None = None,
        score_fn: Callable[[Any], Any] | None = None,
        step: int | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Run a model and compute all metrics.

        Args:
            predict_fn: takes a batch; returns ids, texts, or a pair of them and a dictionary of
                arrays for metrics with a parameter ``aux_values``.
            score_fn: takes a batch; returns a number for each example.
            step: the training step, for the writer.

        Returns:
            Values by task and metric.
        """
        made = {task.name: self._evaluated(task, predict_fn, score_fn) for task in self.tasks}
        if self.writer is not None:
            values = {f"{t}/{m}": value for t, found in made.items() for m, value in found.items()}
            scalars = {name: value for name, value in values.items() if np.ndim(value) == 0}
            self.writer.write_scalars(0 if step is None else step, scalars)
        return made

    def _evaluated(
        self, task: Task, predict_fn: Callable | None, score_fn: Callable | None
    ) -> dict[str, Any]:
        run = functools.cache(lambda kind: self._run(task, kind, predict_fn, score_fn))
        values: dict[str, Any] = {}
        for metric in task.metric_fns:
            parameters = list(inspect.signature(metric).parameters)
            results, aux = run(_kind_of(metric, parameters))
            extra = {"aux_values": aux} if "aux_values" in parameters else {}
            found = metric(self.targets[task.name], results, **extra)
            if twice := values.keys() & found.keys():
                raise TaskError(f"two metrics of task {task.name!r} return {sorted(twice)[0]!r}")
            values |= found
        return values

    def _run(
        self, task: Task, kind: str, predict_fn: Callable | None, score_fn: Callable | None
    ) -> tuple[list[Any], dict[str, list[Any]]]:
        function = predict_fn if kind == "predictions" else score_fn
        if function is None:
            name = "predict_fn" if kind == "predictions" else "score_fn"
            raise TaskError(f"task {task.name!r} has metrics of {kind}; pass {name}= to evaluate")
        results: list[Any] = []
        aux: dict[str, list[Any]] = {}
        for batch, count in self._batches(task):
            outputs = function(batch)
            if isinstance(outputs, tuple):
                outputs, more = outputs
                for name, rows in more.items():
                    aux.setdefault(name, []).extend(_rows(rows, count, self.batch_size))
            results.extend(_rows(outputs, count, self.batch_size))
        if kind == "scores":
            return [float(one) for one in results], aux
        pairs = zip(results, self.examples[task.name], strict=True)
        decoded = ((_decoded(task, one), example) for one, example in pairs)
        return [task.postprocess(one, x, is_target=False) for one, x in decoded], aux

    def _batches(self, task: Task) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        examples = data.source(self.examples[task.name])
        converted = self.feature_converter(examples, self.lengths())
        for batch in converted.batch(self.batch_size, pad_remainder=True, mask=MASK):
            count = int(batch.pop(MASK).sum())
            yield batch, count


def _rows(outputs: Any, count: int, size: int) -> Sequence[Any]:
    rows = outputs if isinstance(outputs, list) else np.asarray(outputs)
    if len(rows) not in (count, size):
        raise TaskError(f"the model returned {len(rows)} rows for a batch of {size}")
    return list(rows[:count])


def _decoded(task: Task, output: Any) -> Any:
    if isinstance(output, str):
        return output
    return task.output_features["targets"].vocabulary.decode(np.asarray(output).tolist())


def _target_text(task: Task, example: Mapping[str, Any]) -> Any:
    if "targets_pretokenized" in example:
        return example["targets_pretokenized"]
    return task.output_features["targets"].vocabulary.decode(
        np.asarray(example["targets"]).tolist()
    )


def _kind_of(metric: Callable[..., Any], parameters: Sequence[str]) -> str:
    """Whether a metric takes predictions or scores, by the name of its second parameter."""
    names = list(parameters)
    if names[:1] == ["targets"] and len(names) > 1 and names[1] in ("predictions", "scores"):
        return names[1]
    raise TypeError(
        f"the metric {getattr(metric, '__name__', metric)} has the parameters"
        f" ({', '.join(names)}); they must be (targets, predictions) or (targets, scores)"
    )
