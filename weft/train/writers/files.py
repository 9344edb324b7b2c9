"""Metrics in files for other programs: JSON lines, and tables of CSV."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from weft.train.writers import base


def _plain(value: Any) -> Any:
    """What JSON has: numbers that it lacks as text, arrays as lists, and the rest as text."""
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
        )
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__"):
        return _plain(np.asarray(value).tolist())
    return str(value)


class JsonLinesWriter(base.MetricWriter):
    """Writes a line of JSON for every call: its kind, step, time and values.

    A file that is there is continued. Numbers that JSON lacks are ``"nan"``, ``"inf"`` and
    ``"-inf"``. Of pictures, only the shapes are written.

    Args:
        path: the file.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/metrics.jsonl"
        >>> with JsonLinesWriter(path) as writer:
        ...     writer.write_scalars(1, {"loss": 0.5})
        >>> [(line["kind"], line["step"], line["values"]) for line in read_json_lines(path)]
        [('scalars', 1, {'loss': 0.5})]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        self._file = open(self.path, "a+b")
        if self._file.tell():  # a process that was killed may have left half a line
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")

    def _write(self, kind: str, step: int | None, values: Any) -> None:
        line = {"kind": kind, "step": step, "time": round(time.time(), 3), "values": _plain(values)}
        self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")

    def write_scalars(self, step: int, scalars: base.Scalars) -> None:
        """Write numbers."""
        numbers = {name: base.as_number(name, value) for name, value in scalars.items()}
        self._write("scalars", int(step), numbers)

    def write_images(self, step: int, images: base.Arrays) -> None:
        """Write the shapes of pictures."""
        self._write("images", int(step), {name: list(np.shape(x)) for name, x in images.items()})

    def write_histograms(
        self, step: int, arrays: base.Arrays, num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write counts and edges of bins."""
        made = {}
        for name, values in arrays.items():
            counts, edges = base.histogram(values, (num_buckets or {}).get(name, 30))
            made[name] = {"counts": counts, "edges": edges}
        self._write("histograms", int(step), made)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write text."""
        self._write("texts", int(step), texts)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write the settings of the run."""
        self._write("hparams", None, hparams)

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_json_lines(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines that a ``JsonLinesWriter`` wrote, without half a line of a killed process.

    Args:
        path: the file.

    Yields:
        A dictionary with ``kind``, ``step``, ``time`` and ``values`` for each.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "metrics.jsonl"
        >>> _ = path.write_text('{"kind": "scalars", "step": 1}')
        >>> list(read_json_lines(path))
        []
    """
    with open(path, "rb") as file:
        for line in file:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict) and {"kind", "step", "time", "values"} <= found.keys():
                yield found


class CsvWriter(base.MetricWriter):
    """Writes a table with a row for every step and a column for every number.

    A name that comes later becomes a further column, for which the file is rewritten. A file
    that is there is continued.

    Args:
        path: the file.

    Example:
        >>> import pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/metrics.csv"
        >>> with CsvWriter(path) as writer:
        ...     writer.write_scalars(1, {"loss": 0.5})
        ...     writer.write_scalars(2, {"loss": 0.25})
        ...     writer.write_scalars(2, {"accuracy": 1.0})
        >>> print(pathlib.Path(path).read_text())
        step,loss,accuracy
        1,0.5,
        2,0.25,1.0
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        self._columns = ["step"]
        if os.path.exists(self.path) and os.path.getsize(self.path):
            with open(self.path, newline="") as file:
                self._columns = next(csv.reader(file), ["step"])
            self._file = open(self.path, "a", newline="")
        else:
            self._file = open(self.path, "w", newline="")
            csv.writer(self._file, lineterminator="\n").writerow(self._columns)
        self._step: int | None = None
        self._row: dict[str, Any] = {}

    def write_scalars(self, step: int, scalars: base.Scalars) -> None:
        """Write numbers; those of one step go into one row."""
        if step != self._step:
            self._write_row()
            self._step, self._row = int(step), {"step": int(step)}
        self._row |= {name: base.as_number(name, value) for name, value in scalars.items()}

    def _write_row(self) -> None:
        if not self._row:
            return
        added = [name for name in self._row if name not in self._columns]
        if added:
            self._widen(added)
        row = [self._row.get(name, "") for name in self._columns]
        csv.writer(self._file, lineterminator="\n").writerow(row)
        self._row, self._step = {}, None

    def _widen(self, added: list[str]) -> None:
        """Add columns: the file is replaced by one that has them."""
        self._file.close()
        with open(self.path, newline="") as file:
            rows = list(csv.reader(file))[1:]
        self._columns += added
        folder = os.path.dirname(self.path) or "."
        # opened as the file itself is: the umask says who may read it
        temporary = os.path.join(folder, f".metrics-{secrets.token_hex(4)}")
        try:
            with open(temporary, "x", newline="") as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerow(self._columns)
                table.writerows(row + [""] * (len(self._columns) - len(row)) for row in rows)
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        self._file = open(self.path, "a", newline="")

    def flush(self) -> None:
        """Write the row of the last step, which is then complete."""
        self._write_row()
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._write_row()
        self._file.close()
