"""``Mixture``: several tasks with rates; and names under which tasks and mixtures are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.train import data
from weft.train.data.permutation import fold
from weft.train.tasks.features import Feature, TaskError
from weft.train.tasks.task import Task

Rate = float | Callable[[Task], float]


def rate_num_examples(
    temperature: float = 1.0,
    maximum: float | None = None,
    scale: float = 1.0,
    split: str = "train",
) -> Callable[[Task], float]:
    """Return a rate in proportion to the size of a task.

    The rate is ``min(scale * examples, maximum) ** (1 / temperature)``, as in T5.

    Args:
        temperature: 1 is proportional, and large values make rates equal.
        maximum: examples beyond it do not count.
        scale: a factor of the number of examples.
        split: whose size counts.

    Returns:
        A function of a task that returns its rate.

    Example:
        >>> task = Task("a", {"train": [{}] * 100}, {})
        >>> rate_num_examples(temperature=2.0, maximum=64)(task)
        8.0
    """

    def rate(task: Task) -> float:
        size = task.num_examples(split)
        if size is None:
            raise TaskError(
                f"the size of task {task.name!r} is not known until it has been read; cache it, "
                "or pass a number as its rate"
            )
        value = float(size) * scale
        if maximum is not None:
            value = min(value, float(maximum))
        return float(value ** (1.0 / temperature))

    return rate


class Mixture:
    """Tasks, and how often each has its turn.

    Args:
        name: as for a task.
        tasks: tasks, mixtures, or names of registered ones, alone or in pairs with a rate: a
            number, or a function of the task.
        default_rate: of those without one.

    Example:
        >>> numbers = Task("numbers", {"train": [{"x": 1}]}, {})
        >>> letters = Task("letters", {"train": [{"x": "a"}, {"x": "b"}]}, {})
        >>> mixture = Mixture("both", [(numbers, 1), (letters, 2)])
        >>> elements = mixture.get_dataset(split="train", shuffle=False, num_epochs=None)
        >>> [element["x"] for element in elements.take(6)]
        ['a', 1, 'b', 'a', 1, 'b']
    """

    def __init__(self, name: str, tasks: Sequence[Any], default_rate: Rate | None = None) -> None:
        self.name = name
        rates: dict[str, float] = {}
        found: dict[str, Task] = {}
        for entry in tasks:
            given, rate = entry if isinstance(entry, tuple) else (entry, default_rate)
            if rate is None:
                raise TaskError(f"{given!r} in mixture {name!r} has no rate; pass default_rate=")
            part = get(given) if isinstance(given, str) else given
            for task, share in _shares(part, rate):
                found[task.name] = task
                rates[task.name] = rates.get(task.name, 0.0) + share
        if not found:
            raise TaskError(f"mixture {name!r} has no tasks")
        self.tasks = tuple(found.values())
        self.rates = rates
        _check_features(name, self.tasks)

    def __repr__(self) -> str:
        return f"<Mixture {self.name!r} of {', '.join(self.rates)}>"

    @property
    def output_features(self) -> dict[str, Feature]:
        """The features of the tasks."""
        return {k: feature for task in self.tasks for k, feature in task.output_features.items()}

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that any of the tasks has."""
        return tuple(dict.fromkeys(split for task in self.tasks for split in task.splits))

    def get_dataset(
        self,
        sequence_length: Mapping[str, int] | None = None,
        split: str = "train",
        *,
        seed: int = 0,
        num_epochs: int | None = None,
        **options: Any,
    ) -> data.Dataset:
        """Elements of the tasks that have the split, in turn by their rates.

        Args:
            sequence_length: lengths of features.
            split: which part of the data.
            seed: of the order and of random preprocessors, for each task another one.
            num_epochs: how often each task is read; None: without end.
            **options: as for ``Task.get_dataset``.
        """
        chosen = [task for task in self.tasks if split in task.splits]
        if not chosen:
            raise TaskError(f"no task of mixture {self.name!r} has a split {split!r}")
        datasets = [
            task.get_dataset(
                sequence_length, split, seed=fold(seed, at) >> 1, num_epochs=num_epochs, **options
            )
            for at, task in enumerate(chosen)
        ]
        stop = "first" if num_epochs is None else "all"
        return data.mix(datasets, [self.rates[task.name] for task in chosen], stop=stop)


def _shares(part: Any, rate: Rate) -> list[tuple[Task, float]]:
    if isinstance(part, Mixture):
        inner = part.rates
        total = sum(inner.values())
        if callable(rate):
            raise TaskError(f"the rate of mixture {part.name!r} must be a number")
        return [(task, float(rate) * inner[task.name] / total) for task in part.tasks]
    if not isinstance(part, Task):
        raise TypeError(f"a mixture consists of tasks, not {type(part).__name__}")
    value = float(rate(part) if callable(rate) else rate)
    if not 0 < value < float("inf"):
        raise TaskError(f"the rate of task {part.name!r} is {value}; it must be positive")
    return [(part, value)]


def _check_features(name: str, tasks: Sequence[Task]) -> None:
    first = tasks[0]
    for task in tasks[1:]:
        for key, feature in task.output_features.items():
            other = first.output_features.get(key)
            if other is not None and other.vocabulary != feature.vocabulary:
                raise TaskError(
                    f"tasks {first.name!r} and {task.name!r} of mixture {name!r} have different"
                    f" vocabularies for {key!r}"
                )


_REGISTRY: dict[str, Task | Mixture] = {}


def add(task: Any) -> Any:
    """Keep a task or mixture under its name.

    Args:
        task: the task or mixture.

    Returns:
        The task or mixture.

    Raises:
        TaskError: the name is already taken.

    Example:
        >>> from weft.train import tasks
        >>> task = tasks.add(tasks.Task("copy", {"train": [{"x": 1}]}, {}))
        >>> tasks.get("copy") is task, "copy" in tasks.names()
        (True, True)
        >>> tasks.remove("copy")
    """
    if not isinstance(task, (Task, Mixture)):
        raise TypeError(f"only tasks and mixtures can be added, not {type(task).__name__}")
    if task.name in _REGISTRY:
        raise TaskError(
            f"{task.name!r} already exists; choose another name, or remove({task.name!r}) first"
        )
    _REGISTRY[task.name] = task
    return task


def get(name: str) -> Any:
    """Return the task or mixture of a name.

    Args:
        name: its name.

    Returns:
        A ``Task`` or ``Mixture``.

    Example:
        >>> from weft.train import tasks
        >>> try:
        ...     tasks.get("no such task")
        ... except tasks.TaskError:
        ...     print("not added")
        not added
    """
    if name not in _REGISTRY:
        raise TaskError(
            f"there is no task or mixture {name!r}; there are {', '.join(names()) or 'none'}"
        )
    return _REGISTRY[name]


def remove(name: str) -> None:
    """Forget the task or mixture of a name.

    Args:
        name: its name.

    Example:
        >>> from weft.train import tasks
        >>> "gone" in tasks.names()
        False
    """
    get(name)
    del _REGISTRY[name]


def names() -> list[str]:
    """Return the names of all tasks and mixtures that were added.

    Returns:
        A list of names.

    Example:
        >>> from weft.train import tasks
        >>> isinstance(tasks.names(), list)
        True
    """
    return sorted(_REGISTRY)
