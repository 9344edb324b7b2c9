"""Arrays in files: damaged headers and parts are refused, and nothing half-written stays."""

import json
import os
import time

import ml_dtypes
import numpy as np
import pytest

from weft.experimental.array_serialization import zarr


def saved(folder, value=None, **changes):
    """An array in files, whose header is changed."""
    value = np.arange(6.0, dtype=np.float32).reshape(2, 3) if value is None else value
    zarr.begin(folder, value.shape, value.dtype, value.shape)
    zarr.write(folder, [slice(0, n) for n in value.shape], value.shape, value)
    path = os.path.join(folder, zarr.HEADER)
    with open(path) as file:
        header = json.load(file)
    with open(path, "w") as file:
        json.dump(header | changes, file)
    return value


def read(folder):
    stored = zarr.Stored(folder)
    return stored.read([slice(0, n) for n in stored.shape])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16", "int4"])
def test_arrays_are_read_as_they_were_written(tmp_path, dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    value = saved(str(tmp_path), np.arange(6).reshape(2, 3).astype(kind))
    found = read(str(tmp_path))
    assert found.dtype == kind and found.tobytes() == value.tobytes()
    saved(str(tmp_path / "scalar"), np.asarray(3.0))
    assert read(str(tmp_path / "scalar")) == 3.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"chunks": [-2, 3]}, "chunks must be integers from 1 up"),
        ({"chunks": [0, 3]}, "chunks must be integers from 1 up"),
        ({"chunks": [2.0, 3]}, "chunks must be integers"),
        ({"chunks": [True, 3]}, "chunks must be integers"),
        ({"chunks": [2]}, "a size for each of 2 axes"),
        ({"chunks": None}, "chunks must be integers"),
        ({"shape": [2, -3]}, "shape must be integers from 0 up"),
        ({"shape": "ab"}, "shape must be integers"),
        ({"dimension_separator": "/../"}, "dimension_separator must be '.' or '/'"),
        ({"dimension_separator": 3}, "dimension_separator must be '.' or '/'"),
        ({"dtype": "|O"}, "dtype must be the name of a dtype of numbers"),
        ({"dtype": "finfo"}, "dtype must be"),
        ({"dtype": "<U3"}, "dtype must be"),
        ({"dtype": "float7"}, "dtype must be"),
        ({"dtype": [["a", "<f4"]]}, "dtype must be"),
    ],
)
def test_headers_that_are_none_of_the_format(tmp_path, changes, text):
    saved(str(tmp_path), **changes)
    with pytest.raises(ValueError, match=text):
        read(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000])
def test_headers_that_are_no_dictionaries(tmp_path, text):
    saved(str(tmp_path))
    (tmp_path / zarr.HEADER).write_text(text)
    with pytest.raises(ValueError, match="isn't a zarr header"):
        read(str(tmp_path))


def test_parts_that_are_not_whole(tmp_path):
    saved(str(tmp_path), chunks=[1 << 40, 1 << 40])
    with pytest.raises(ValueError, match="is incomplete"):
        read(str(tmp_path))
    saved(str(tmp_path))
    (tmp_path / "0.0").write_bytes(b"12345")
    with pytest.raises(ValueError, match="is incomplete"):
        read(str(tmp_path))
    os.unlink(tmp_path / "0.0")
    with pytest.raises(FileNotFoundError, match="is missing"):
        read(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
@pytest.mark.parametrize("name", ["0.0", zarr.HEADER])
def test_pipes_are_refused(tmp_path, name):
    saved(str(tmp_path))
    os.unlink(tmp_path / name)
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=r"is incomplete|a pipe or a device"):
        read(str(tmp_path))


def test_nothing_half_written_stays(tmp_path, monkeypatch):
    old = time.time() - 2 * zarr.STALE_SECONDS
    for name in (".0.0.01234567", "..zarray.89abcdef", ".0.1.x", "other"):
        (tmp_path / name).write_bytes(b"partial")
        os.utime(tmp_path / name, (old, old))
    saved(str(tmp_path))
    assert set(os.listdir(tmp_path)) == {".0.1.x", "other", ".zarray", "0.0"}
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space left"):
            saved(str(tmp_path))
    assert set(os.listdir(tmp_path)) == {".0.1.x", "other", ".zarray", "0.0"}
