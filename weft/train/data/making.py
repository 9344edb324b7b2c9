"""Functions that make data sets from what users have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.train.data import files, sources, tables
from weft.train.data.dataset import Dataset


def source(items: Any) -> Dataset:
    """The elements of any object that has some.

    Args:
        items: an object with ``__len__`` and ``__getitem__`` (a list, a torch ``Dataset``, a
            grain source, a Hugging Face ``datasets.Dataset``), which gets random access; or an
            iterable; or a function that returns one. An iterable is read again for every epoch
            and by every worker, so it has to return the same elements. An iterator can be read
            only once.

    Returns:
        The data set.

    Example:
        >>> list(source(["a", "b"]))
        ['a', 'b']
        >>> list(source(lambda: (x * x for x in range(3))))
        [0, 1, 4]
    """
    return Dataset(sources.source_of(items))


def arrays(tree: Any) -> Dataset:
    """The rows of arrays.

    Args:
        tree: an array, or a dictionary or tuple of arrays (or of such), whose first axes have the
            same size.

    Returns:
        The data set, with random access. A batch is one gather of each array.

    Example:
        >>> import numpy as np
        >>> arrays({"x": np.eye(2), "label": np.array([3, 4])})[1]
        {'x': array([0., 1.]), 'label': np.int64(4)}
    """
    return Dataset(sources.Arrays(tree))


def npy(path: Any) -> Dataset:
    """The rows of arrays in ``.npy`` files, which are mapped into memory and not loaded.

    Args:
        path: a file, or a dictionary or tuple of files.

    Returns:
        The data set, with random access.

    Example:
        >>> import tempfile, numpy as np
        >>> path = tempfile.mkdtemp() + "/x.npy"
        >>> np.save(path, np.arange(6).reshape(3, 2))
        >>> npy({"x": path})[2]
        {'x': array([4, 5])}
    """
    return Dataset(sources.MappedArrays(path))


def text(path: Any, *, encoding: str | None = "utf-8") -> Dataset:
    """The lines of text files.

    Args:
        path: a file or a list of files. They are mapped into memory; an index of lines gives
            random access.
        encoding: of the text; None: lines are bytes.

    Returns:
        The data set of lines, without line ends.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "words.txt")
        >>> _ = path.write_text("one\\ntwo\\n")
        >>> text(path)[1]
        'two'
    """
    return Dataset(files.Lines(path, encoding))


def jsonl(path: Any) -> Dataset:
    """The values of files with JSON lines; empty lines are left out.

    Args:
        path: a file or a list of files, as for ``text``.

    Returns:
        The data set, with random access.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "data.jsonl")
        >>> _ = path.write_text('{"x": 1}\\n{"x": 2}\\n')
        >>> list(jsonl(path))
        [{'x': 1}, {'x': 2}]
    """
    return Dataset(files.JsonLines(path))


def csv(
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    types: Callable[[str], Any] | Mapping[str, Callable[[str], Any]] | None = None,
    delimiter: str = ",",
) -> Dataset:
    """The rows of CSV files, as dictionaries.

    Args:
        path: a file or a list of files, as for ``text``.
        columns: names of columns; None: the first line of every file has them.
        types: what makes values of texts: for all columns, or by column. Others stay texts.
        delimiter: between cells.

    Returns:
        The data set, with random access.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "data.csv")
        >>> _ = path.write_text('name,size\\n"a, b",1.5\\n')
        >>> csv(path, types={"size": float})[0]
        {'name': 'a, b', 'size': 1.5}
    """
    return Dataset(files.Csv(path, columns, types, delimiter))


def tfrecord(path: Any, *, examples: bool = True, check: bool = True) -> Dataset:
    """The records of TFRecord files.

    Args:
        path: a file or a list of files, as for ``text``.
        examples: parse records as ``tf.train.Example``, with ``parse_example``; False: records
            are bytes.
        check: compare the checksums of records. Those of lengths always are.

    Returns:
        The data set, with random access.

    Example:
        >>> import tempfile
        >>> from weft.train.data import encode_example
        >>> from weft.train.tfrecord import RecordWriter
        >>> path = tempfile.mkdtemp() + "/data.tfrecord"
        >>> with RecordWriter(path) as writer:
        ...     for number in range(3):
        ...         writer.write(encode_example({"x": [number, number + 1]}))
        >>> tfrecord(path)[1]
        {'x': array([1, 2])}
    """
    return Dataset(tables.TFRecords(path, examples, check))


def parquet(path: Any, *, columns: Sequence[str] | None = None) -> Dataset:
    """The rows of Parquet files, as dictionaries. It needs the package pyarrow.

    Args:
        path: a file or a list of files.
        columns: which columns to read; by default all.

    Returns:
        The data set, with random access. Row groups are read whole, and four stay in memory: where
        they are large, ``shuffle(seed, window=...)`` is faster than a full shuffle.

    Example:
        >>> # needs pyarrow
        >>> parquet("data.parquet", columns=["text"])  # doctest: +SKIP
    """
    return Dataset(tables.Parquet(path, columns))


def arrow(path: Any, *, columns: Sequence[str] | None = None) -> Dataset:
    """The rows of Arrow IPC files, as dictionaries. It needs the package pyarrow.

    Args:
        path: a file or a list of files, which are mapped into memory.
        columns: which columns to read; by default all.

    Returns:
        The data set, with random access.

    Example:
        >>> # needs pyarrow
        >>> arrow("data.arrow")  # doctest: +SKIP
    """
    return Dataset(tables.Arrow(path, columns))
