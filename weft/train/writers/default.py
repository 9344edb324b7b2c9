"""The writers that a training has unless it asks for others."""

from __future__ import annotations

import os

from weft.train.writers.base import MetricWriter, MultiWriter
from weft.train.writers.console import ConsoleWriter
from weft.train.writers.events import TensorBoardWriter
from weft.train.writers.files import JsonLinesWriter


def create_default_writer(
    folder: str | os.PathLike[str] | None = None,
    *,
    total_steps: int | None = None,
    just_logging: bool = False,
) -> MultiWriter:
    """Return a writer to the console and, if there is a folder, to JSON lines and TensorBoard.

    Args:
        folder: where ``metrics.jsonl`` and the event file go; None for the console only.
        total_steps: the number of steps, for the progress bar.
        just_logging: only the console, as all processes but the first have it.

    Returns:
        A ``MultiWriter``.

    Example:
        >>> import tempfile
        >>> writer = create_default_writer(tempfile.mkdtemp(), total_steps=100)
        >>> [type(one).__name__ for one in writer.writers]
        ['ConsoleWriter', 'JsonLinesWriter', 'TensorBoardWriter']
        >>> writer.close()
    """
    made: list[MetricWriter] = [ConsoleWriter(total_steps)]
    if folder is not None and not just_logging:
        made.append(JsonLinesWriter(os.path.join(os.fspath(folder), "metrics.jsonl")))
        made.append(TensorBoardWriter(folder))
    return MultiWriter(made)
