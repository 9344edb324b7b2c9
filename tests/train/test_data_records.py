"""TFRecord files with examples, Parquet and Arrow files, and objects of other libraries."""

import struct
import sys

import numpy as np
import pytest

from weft.train import data
from weft.train.tfrecord import RecordWriter, encode_record

# Recorded from TensorFlow 2.21.
EXAMPLE = bytes.fromhex(
    "0a770a090a05656d70747912000a2c0a0369647312251a230a210001ffffffffffffffffff01ac0280808080808080"
    "8040808080808080808080010a190a046e616d6512110a0f0a036361740a000a067a77c3b66c660a0a0a046e6f6e65"
    "12021a000a150a01781210120e0a0c0000003f0000a0bfcaf24971"
)
FILE = bytes.fromhex(
    "0e00000000000000c5e5693f0a0c0a0a0a016912051a030a01009888c9440e00000000000000c5e5693f0a0c0a0a0a"
    "016912051a030a0101ef63c4460e00000000000000c5e5693f0a0c0a0a0a016912051a030a01028e4a2ce6"
)


def test_an_example_of_tensorflow():
    found = data.parse_example(EXAMPLE)
    assert list(found) == ["empty", "ids", "name", "none", "x"]
    assert found["ids"].tolist() == [0, 1, -1, 300, 2**62, -(2**63)]
    assert found["x"].dtype == np.float32 and found["x"][2] == np.float32(1e30)
    assert found["name"].tolist() == [b"cat", b"", "zwölf".encode()]
    assert len(found["empty"]) == len(found["none"]) == 0
    given = {k: v for k, v in found.items() if k not in ("empty", "none")}
    assert data.parse_example(data.encode_example(given)).keys() == given.keys()
    written = data.encode_example(
        {"ids": found["ids"], "name": ["cat", b"", "zwölf"], "x": [0.5, -1.25, 1e30]}
    )
    assert written[2:] in EXAMPLE.replace(EXAMPLE[2:13], b"").replace(
        b"\n\n\n\4none\x12\2\x1a\0", b""
    )


@pytest.mark.parametrize("seed", range(20))
def test_examples_come_back(seed):
    draw = np.random.default_rng(seed)
    given = {
        "integers": draw.integers(-(2**63), 2**63, draw.integers(1, 50)),
        "small": draw.integers(0, 128, 9),
        "one": 7,
        "flag": True,
        "floats": draw.normal(size=(3, 2)).astype(np.float32),
        "bytes": [draw.bytes(n) for n in (0, 1, 300)],
        "text": "schön",
    }
    found = data.parse_example(data.encode_example(given))
    assert (found["integers"] == given["integers"]).all() and found["one"].tolist() == [7]
    assert (found["small"] == given["small"]).all() and found["flag"].tolist() == [1]
    assert (found["floats"] == given["floats"].reshape(-1)).all()
    assert found["bytes"].tolist() == given["bytes"] and found["text"][0].decode() == "schön"


def test_messages_that_are_damaged_are_errors():
    draw = np.random.default_rng(0)
    for _ in range(3000):
        message = bytearray(EXAMPLE)
        for _ in range(draw.integers(1, 4)):
            message[draw.integers(len(message))] = draw.integers(256)
        message = bytes(message[: draw.integers(1, len(message) + 1)])
        try:
            found = data.parse_example(message)
        except data.DataError:
            continue
        assert all(isinstance(value, np.ndarray) for value in found.values())
    # lists that are not packed, as old writers have them
    field = lambda number, body: bytes([number << 3 | 2, len(body)]) + body
    floats = b"".join(b"\x0d" + struct.pack("<f", x) for x in (1.5, 2.5))
    integers = b"\x08\x05\x08\xac\x02"
    for kind, body, expected in ((2, floats, [1.5, 2.5]), (3, integers, [5, 300])):
        entry = field(1, b"a") + field(2, field(kind, body))
        assert data.parse_example(field(1, field(1, entry)))["a"].tolist() == expected
    with pytest.raises(data.DataError, match="dtype complex128"):
        data.encode_example({"x": 1j})
    with pytest.raises(data.DataError, match="mixes texts"):
        data.encode_example({"x": ["a", 1]})


def test_record_files(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(FILE)
    assert [e["i"].tolist() for e in data.tfrecord(path)] == [[0], [1], [2]]
    assert FILE == b"".join(map(encode_record, data.tfrecord(path, examples=False)))
    with RecordWriter(tmp_path / "b.tfrecord") as writer:
        for number in range(50):
            writer.write(data.encode_example({"i": number, "x": np.arange(number)}))
    made = data.tfrecord([path, tmp_path / "b.tfrecord"])
    assert len(made) == 53 and made[3 + 17]["x"].tolist() == list(range(17))
    assert sorted(int(e["i"][0]) for e in made.shuffle(seed=1).skip(0)) == sorted(
        [0, 1, 2, *range(50)]
    )


def test_record_files_that_are_damaged(tmp_path):
    path = tmp_path / "a.tfrecord"
    for place, message in ((3, "record 1 has a damaged length"), (33, "record 2 has a damaged")):
        path.write_bytes(FILE[:place] + bytes([FILE[place] ^ 1]) + FILE[place + 1 :])
        with pytest.raises(data.DataError, match=message):
            data.tfrecord(path).shuffle(seed=0)
    path.write_bytes(FILE[:-10])
    with pytest.raises(data.DataError, match="record 3"):
        list(data.tfrecord(path))
    path.write_bytes(FILE[:-6] + b"\7" + FILE[-5:])
    with pytest.raises(data.DataError, match="record 3: the record is damaged"):
        list(data.tfrecord(path))
    assert len(list(data.tfrecord(path, check=False, examples=False))) == 3
    with RecordWriter(path) as writer:
        writer.write(b"\xff\xff")
    with pytest.raises(data.DataError, match=r"record 1: not a tf\.train\.Example"):
        list(data.tfrecord(path))


def test_pyarrow_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a").write_bytes(b"x")
    for make in (data.parquet, data.arrow):
        with pytest.raises(ImportError, match="needs the package pyarrow"):
            make(tmp_path / "a")


def table(pyarrow, start, count):
    numbers = range(start, start + count)
    return pyarrow.table(
        {
            "x": np.asarray(numbers, np.float32),
            "name": [f"n{x}" for x in numbers],
            "ids": [[x, x + 1] for x in numbers],
        }
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_tables(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow", reason="tables are read by pyarrow")
    paths = [tmp_path / f"{i}.{kind}" for i in range(2)]
    for number, path in enumerate(paths):
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table(pyarrow, 50 * number, 50), path, row_group_size=7)
        else:
            with pyarrow.ipc.new_file(path, table(pyarrow, 0, 1).schema) as writer:
                writer.write_table(table(pyarrow, 50 * number, 50), max_chunksize=7)
    made = getattr(data, kind)(paths)
    assert len(made) == 100 and made[63]["name"] == "n63" and made[63]["ids"].tolist() == [63, 64]
    batch = made.shuffle(seed=1).batch(100)[0]
    assert batch["x"].dtype == np.float32 and sorted(batch["x"]) == list(range(100))
    assert (batch["ids"] == np.stack([batch["x"], batch["x"] + 1], 1)).all()
    assert batch["name"][5] == f"n{int(batch['x'][5])}"
    some = getattr(data, kind)(paths, columns=["x"]).shuffle(seed=1)
    assert some[0].keys() == {"x"}
    reader = iter(some.batch(8))
    next(reader)
    state = reader.state()
    with some.batch(8).iterator(workers=1) as other:
        other.restore(state)
        for a, b in zip(reader, other, strict=True):
            assert (a["x"] == b["x"]).all()
    with pytest.raises(data.DataError, match=r"names 'y'; .* has 'x', 'name', 'ids'"):
        getattr(data, kind)(paths, columns=["y"])


def test_objects_of_torch():
    torch = pytest.importorskip("torch", reason="a bridge to what a user has installed")
    tensors = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3))
    x, y = data.source(tensors).batch(3)[0]
    assert x.tolist() == [[0, 1], [2, 3], [4, 5]] and y.dtype == np.int64
    assert isinstance(x, np.ndarray)
    loader = torch.utils.data.DataLoader(tensors, batch_size=2)
    assert [len(batch[1]) for batch in data.source(loader)] == [2, 1]


def test_objects_of_grain_and_datasets():
    grain = pytest.importorskip("grain", reason="a bridge to what a user has installed")
    datasets = pytest.importorskip("datasets", reason="a bridge to what a user has installed")
    squares = grain.MapDataset.range(10).map(lambda x: x * x)
    assert data.source(squares).batch(10)[0].tolist() == [x * x for x in range(10)]
    streamed = data.source(squares.to_iter_dataset())
    assert [int(x) for x in streamed] == [x * x for x in range(10)]
    rows = datasets.Dataset.from_dict({"x": [1, 2, 3], "text": ["a", "b", "c"]})
    assert data.source(rows).shuffle(seed=0).batch(3)[0]["x"].sum() == 6
    assert data.source(rows)[2] == {"x": 3, "text": "c"}
