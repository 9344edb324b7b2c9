"""What a writer of metrics is, and one that passes everything on to several."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Scalars = Mapping[str, Any]
Arrays = Mapping[str, Any]


class MetricWriter:
    """Writes metrics of a training; the methods are CLU's, and do nothing here.

    A writer of your own overrides those that it has a use for.

    >>> class Loudest(MetricWriter):
    ...     def write_scalars(self, step, scalars):
    ...         print(step, max(scalars, key=scalars.get))
    >>> with Loudest() as writer:
    ...     writer.write_scalars(3, {"loss": 2.0, "accuracy": 0.5})
    3 loss
    """

    def write_scalars(self, step: int, scalars: Scalars) -> None:
        """Write numbers.

        Args:
            step: the training step.
            scalars: numbers, or arrays of one element, by name.
        """

    def write_images(self, step: int, images: Arrays) -> None:
        """Write pictures.

        Args:
            step: the training step.
            images: arrays of shape (batch, height, width, channels) or (height, width, channels)
                by name, with 1, 3 or 4 channels; bytes, or floats from 0 to 1.
        """

    def write_histograms(
        self, step: int, arrays: Arrays, num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write how values are distributed.

        Args:
            step: the training step.
            arrays: values of any shape by name; or pairs of counts and edges of bins.
            num_buckets: how many bins, by name; 30 where nothing is said.
        """

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write text, which viewers show as Markdown.

        Args:
            step: the training step.
            texts: text by name.
        """

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write the settings of the run.

        Args:
            hparams: numbers, booleans and text by name.
        """

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""

    def close(self) -> None:
        """Flush, and close files."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


class MultiWriter(MetricWriter):
    """Passes everything on to several writers.

    Args:
        writers: the writers.

    Example:
        >>> import pathlib, tempfile
        >>> from weft.train import writers
        >>> folder = tempfile.mkdtemp()
        >>> lines = writers.JsonLinesWriter(folder + "/a.jsonl")
        >>> both = [lines, writers.CsvWriter(folder + "/a.csv")]
        >>> with MultiWriter(both) as writer:
        ...     writer.write_scalars(1, {"loss": 0.5})
        >>> print(pathlib.Path(folder, "a.csv").read_text())
        step,loss
        1,0.5
    """

    def __init__(self, writers: Sequence[MetricWriter]) -> None:
        self.writers = tuple(writers)

    def write_scalars(self, step: int, scalars: Scalars) -> None:
        """Write numbers to all."""
        plain = {name: as_number(name, value) for name, value in scalars.items()}
        for writer in self.writers:
            writer.write_scalars(step, plain)

    def write_images(self, step: int, images: Arrays) -> None:
        """Write pictures to all."""
        for writer in self.writers:
            writer.write_images(step, images)

    def write_histograms(
        self, step: int, arrays: Arrays, num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write distributions to all."""
        for writer in self.writers:
            writer.write_histograms(step, arrays, num_buckets)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write text to all."""
        for writer in self.writers:
            writer.write_texts(step, texts)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write settings to all."""
        for writer in self.writers:
            writer.write_hparams(hparams)

    def flush(self) -> None:
        """Flush all."""
        for writer in self.writers:
            writer.flush()

    def close(self) -> None:
        """Close all, also if one fails."""
        errors = []
        for writer in self.writers:
            try:
                writer.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]


def as_number(name: str, value: Any) -> float | int:
    """A Python number from what stands for one.

    >>> as_number("loss", np.array([0.5]))
    0.5
    """
    if type(value) in (int, float):
        return value
    array = np.asarray(value)
    if array.size != 1 or array.dtype == object:
        raise ValueError(f"{name!r} is not a number: it has the shape {array.shape}")
    number = array.reshape(()).astype(np.float64 if array.dtype.kind not in "biu" else np.int64)
    return number.item()


def histogram(values: Any, buckets: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Counts and edges of bins, of an array or of a pair of them that is passed on.

    >>> histogram(np.array([0.0, 1.0, 1.0]), 2)
    (array([1., 2.]), array([0. , 0.5, 1. ]))
    """
    if isinstance(values, tuple) and len(values) == 2:
        return np.asarray(values[0], float), np.asarray(values[1], float)
    flat = np.asarray(values, np.float64).reshape(-1)
    flat = flat[np.isfinite(flat)]
    counts, edges = np.histogram(flat, bins=buckets)
    return counts.astype(float), edges
