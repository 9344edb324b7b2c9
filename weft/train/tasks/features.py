"""What tasks deliver: features with a vocabulary, and arrays of them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.train.vocabularies import PassThroughVocabulary, Vocabulary


class TaskError(ValueError):
    """A task, its data or its cache does not fit what is done with it.

    >>> raise TaskError("the task 'translate' already exists")
    Traceback (most recent call last):
        ...
    weft.train.tasks.features.TaskError: the task 'translate' already exists
    """


@dataclasses.dataclass(frozen=True)
class Feature:
    """A feature that a task delivers, as in seqio.

    Args:
        vocabulary: makes ids of it and text of ids.
        add_eos: whether ``append_eos`` adds the end.
        required: whether every element has to have it.
        dtype: of its arrays.
        rank: how many axes they have.

    Example:
        >>> from weft.train.vocabularies import ByteVocabulary
        >>> Feature(ByteVocabulary()).vocabulary.vocab_size
        259
    """

    vocabulary: Vocabulary = dataclasses.field(default_factory=lambda: PassThroughVocabulary(0))
    add_eos: bool = True
    required: bool = True
    dtype: Any = "int32"
    rank: int = 1


def check_element(element: Any, features: Mapping[str, Feature], task: str) -> dict[str, Any]:
    """An element whose features have the dtype and rank that the task says.

    Args:
        element: a dictionary.
        features: by name.
        task: the name of the task, for messages.
    """
    if not isinstance(element, Mapping):
        raise TaskError(f"task {task!r} delivers {type(element).__name__}, not a dictionary")
    made = dict(element)
    for name, feature in features.items():
        if name not in made:
            if feature.required:
                raise TaskError(
                    f"an element of task {task!r} has no feature {name!r}, only"
                    f" {', '.join(map(repr, made))}; add a preprocessor that makes it, or pass"
                    " required=False to Feature"
                )
            continue
        value = np.asarray(made[name])
        wanted = np.dtype(feature.dtype)
        if value.ndim != feature.rank:
            raise TaskError(
                f"feature {name!r} of task {task!r} has {value.ndim} axes, and Feature says"
                f" rank={feature.rank}; tokenize it, or change the rank"
            )
        if value.dtype != wanted:
            if value.size and not np.can_cast(value.dtype, wanted, "same_kind"):
                raise TaskError(
                    f"feature {name!r} of task {task!r} is {value.dtype}, and Feature says"
                    f" {wanted}; tokenize it, or change the dtype"
                )
            value = value.astype(wanted)
        made[name] = value
    return made
