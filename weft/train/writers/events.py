"""TensorBoard's event files: scalars, histograms, pictures, text and settings of runs.

The messages are those of TensorFlow's ``event.proto`` and ``summary.proto``, and of TensorBoard's
``hparams/plugin_data.proto``, written without either.
"""

import itertools
import os
import platform
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.train import tfrecord
from weft.train.writers import base, png
from weft.train.writers import protobuf as pb

_FLOAT, _STRING = 1, 7  # of TensorFlow's DataType
_TENSOR_CLASS, _BLOB_CLASS = 2, 3  # of SummaryMetadata's DataClass
_numbers = itertools.count()


def event(wall_time: float, step: int = 0, *, version: str = "", summary: bytes = b"") -> bytes:
    """An ``Event``: when, at which step, and a version or a summary.

    >>> event(0.0, version="brain.Event:2")
    b'\\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x1a\\rbrain.Event:2'
    """
    made = pb.double(1, wall_time)
    made += pb.integer(2, step) if step else b""
    made += pb.data(3, version) if version else b""
    return made + (pb.data(5, summary) if summary else b"")


def _metadata(plugin: str, data_class: int, content: bytes = b"") -> bytes:
    plugin_data = pb.data(1, plugin) + (pb.data(2, content) if content else b"")
    return pb.data(1, plugin_data) + (pb.integer(4, data_class) if data_class else b"")


def _strings(values: list[bytes]) -> bytes:
    """A ``TensorProto`` of one axis, of text or bytes."""
    shape = pb.data(2, pb.data(2, pb.integer(1, len(values))))
    return pb.integer(1, _STRING) + shape + b"".join(pb.data(8, value) for value in values)


def _value(tag: str, content: bytes) -> bytes:
    return pb.data(1, pb.data(1, tag) + content)


def scalar_summary(tag: str, number: float) -> bytes:
    """A summary of a number.

    >>> scalar_summary("a", 1.0)
    b'\\n\\x08\\n\\x01a\\x15\\x00\\x00\\x80?'
    """
    return _value(tag, pb.single(2, float(number)))


def histogram_summary(tag: str, counts: np.ndarray, edges: np.ndarray) -> bytes:
    """A summary of a histogram."""
    middles = (edges[1:] + edges[:-1]) / 2
    made = pb.double(1, edges[0]) + pb.double(2, edges[-1]) + pb.double(3, counts.sum())
    made += pb.double(4, (counts * middles).sum()) + pb.double(5, (counts * middles**2).sum())
    return _value(tag, pb.data(5, made + pb.doubles(6, edges[1:]) + pb.doubles(7, counts)))


def images_summary(tag: str, pictures: Any) -> bytes:
    """A summary of the pictures of a batch."""
    pictures = np.asarray(pictures)
    pictures = pictures[None] if pictures.ndim < 4 else pictures
    height, width = pictures.shape[1:3]
    encoded = [png.encode_png(one) for one in pictures]
    tensor = _strings([str(width).encode(), str(height).encode(), *encoded])
    return _value(tag, pb.data(8, tensor) + pb.data(9, _metadata("images", _BLOB_CLASS)))


def text_summary(tag: str, words: str) -> bytes:
    """A summary of text."""
    tensor = _strings([words.encode("utf-8", "replace")])
    return _value(tag, pb.data(8, tensor) + pb.data(9, _metadata("text", _TENSOR_CLASS)))


def _hparam_kind(value: Any) -> tuple[int, bytes]:
    """The type of a setting, and its value as ``google.protobuf.Value``."""
    if isinstance(value, (bool, np.bool_)):
        return 2, pb.integer(4, bool(value))
    if isinstance(value, (int, float, np.integer, np.floating)):
        return 3, pb.double(2, float(value))
    return 1, pb.data(3, str(value))


def _hparams_value(tag: str, field: int, message: bytes) -> bytes:
    content = pb.data(field, message)  # of HParamsPluginData, whose version is 0
    nothing = pb.integer(1, _FLOAT) + pb.data(2, pb.data(2, b""))
    metadata = _metadata("hparams", 0, content)
    return _value(tag, pb.data(8, nothing) + pb.data(9, metadata))


def hparams_summaries(settings: Mapping[str, Any], now: float) -> list[bytes]:
    """Summaries of the settings of a run: what kinds there are, and their values."""
    infos, pairs = b"", b""
    for name, value in settings.items():
        kind, encoded = _hparam_kind(value)
        infos += pb.data(4, pb.data(1, name) + pb.integer(4, kind))
        pairs += pb.data(1, pb.data(1, name) + pb.data(2, encoded))
    experiment = pb.double(3, now) + infos
    return [
        _hparams_value("_hparams_/experiment", 2, experiment),
        _hparams_value("_hparams_/session_start_info", 3, pairs + pb.double(5, now)),
    ]


class TensorBoardWriter(base.MetricWriter):
    """Writes an event file that TensorBoard shows: ``tensorboard --logdir FOLDER``.

    Args:
        folder: where the file goes; TensorBoard takes each folder as a run.

    Example:
        >>> import tempfile
        >>> with TensorBoardWriter(tempfile.mkdtemp()) as writer:
        ...     writer.write_scalars(1, {"loss": 0.5})
        >>> len(list(tfrecord.read_records(writer.path)))
        2
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        os.makedirs(folder, exist_ok=True)
        now = self._now()
        name = f"{int(now):010}.{platform.node()}.{os.getpid()}.{next(_numbers)}"
        self.path = os.path.join(os.fspath(folder), f"events.out.tfevents.{name}")
        self._file = tfrecord.RecordWriter(self.path)
        self._file.write(event(now, version="brain.Event:2"))
        self._file.flush()

    def _now(self) -> float:
        return time.time()

    def _write(self, step: int, summary: bytes) -> None:
        self._file.write(event(self._now(), int(step), summary=summary))

    def write_scalars(self, step: int, scalars: base.Scalars) -> None:
        """Write numbers, as floats of 32 bits."""
        numbers = {name: base.as_number(name, value) for name, value in scalars.items()}
        self._write(step, b"".join(scalar_summary(name, value) for name, value in numbers.items()))

    def write_images(self, step: int, images: base.Arrays) -> None:
        """Write pictures."""
        made = (images_summary(name, pictures) for name, pictures in images.items())
        self._write(step, b"".join(made))

    def write_histograms(
        self, step: int, arrays: base.Arrays, num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write distributions."""
        made = []
        for name, values in arrays.items():
            made.append(
                histogram_summary(name, *base.histogram(values, (num_buckets or {}).get(name, 30)))
            )
        self._write(step, b"".join(made))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write text."""
        self._write(step, b"".join(text_summary(name, words) for name, words in texts.items()))

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write the settings of the run."""
        for summary in hparams_summaries(hparams, self._now()):
            self._write(0, summary)

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
