"""Writers: event files to the byte as TensorBoard has them, tables, lines, and the progress bar."""

import csv
import io
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import weft.numpy as jnp
from weft.train import metrics, tfrecord, writers
from weft.train.writers import console, png

# Records of TensorBoard 2.21.0's own messages, each with its length and checksums.
RECORDED = {
    name: bytes.fromhex(data)
    for name, data in json.loads(
        (Path(__file__).parent / "data" / "tensorboard_events.json").read_text()
    ).items()
}


def board(tmp_path, monkeypatch):
    monkeypatch.setattr(writers.TensorBoardWriter, "_now", lambda self: 1234.5)
    return writers.TensorBoardWriter(tmp_path / "run")


def test_event_files_are_tensorboards_to_the_byte(tmp_path, monkeypatch):
    with board(tmp_path, monkeypatch) as writer:
        writer.write_scalars(7, {"loss": jnp.array(0.25), "größe": 1e300})
        writer.write_histograms(7, {"w": np.array([1.0, 2.0, 3.0])}, {"w": 2})
        writer.write_texts(8, {"note": "**hi**"})
        writer.write_hparams({"rate": 0.5, "warm": True})
    names = ("version", "scalars", "histograms", "texts", "hparams")
    assert Path(writer.path).read_bytes() == b"".join(RECORDED[name] for name in names)
    assert os.path.basename(writer.path).startswith("events.out.tfevents.0000001234.")


def unpack_png(data):
    """Pixels of a PNG without filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind] = body
        at += 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert depth == 8 and not rows[:, 0].any() and list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pictures(channels):
    pixels = np.random.RandomState(0).randint(0, 256, (5, 7, channels), np.uint8)
    np.testing.assert_array_equal(unpack_png(writers.encode_png(pixels)), pixels)
    np.testing.assert_array_equal(unpack_png(writers.encode_png(pixels / 255.0)), pixels)


def test_pictures_of_other_kinds():
    assert unpack_png(writers.encode_png(np.eye(2, dtype=bool))).tolist() == [
        [[255], [0]], [[0], [255]],
    ]  # fmt: skip
    odd = np.array([[[np.nan], [np.inf]], [[-5.0], [0.5]]])
    assert unpack_png(writers.encode_png(odd)).tolist() == [[[0], [255]], [[0], [128]]]
    for shape in ((2,), (2, 2, 5), (0, 2, 3), (1, 2, 2, 3)):
        with pytest.raises(ValueError, match="height, width, channels"):
            png.encode_png(np.zeros(shape))


def test_pictures_in_event_files(tmp_path, monkeypatch):
    pictures = np.random.RandomState(0).rand(2, 4, 6, 3)
    with board(tmp_path, monkeypatch) as writer:
        writer.write_images(3, {"seen": pictures})
    record = list(tfrecord.read_records(writer.path))[1]
    for picture in pictures:
        assert writers.encode_png(picture) in record
    assert b"\x42\x016" in record and b"\x42\x014" in record and b"images" in record


def test_metrics_can_be_written_as_they_are(tmp_path, monkeypatch):
    Both = metrics.Collection.create(
        loss=metrics.Average.from_output("x"), seen=metrics.Histogram.over(0, 1, 4).from_output("x")
    )
    found = Both.single_from_model_output(x=jnp.array([0.1, 0.9])).compute()
    lines = writers.JsonLinesWriter(tmp_path / "lines")
    with writers.MultiWriter([board(tmp_path, monkeypatch), lines]) as writer:
        writer.write_histograms(1, {"seen": found.pop("seen")})
        writer.write_scalars(1, found)
    first, second = writers.read_json_lines(tmp_path / "lines")
    assert first["values"]["seen"]["counts"] == [1, 0, 0, 1]
    assert second["values"] == {"loss": 0.5}


def crc32c(data):
    """Bit by bit."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


@pytest.mark.parametrize("size", [0, 1, 9, 255, 256, 257, 1023, 4096, 20_001])
def test_checksums(size):
    data = np.random.RandomState(size).bytes(size)
    assert tfrecord.crc32c(data) == crc32c(data)
    zeros = bytes(size)
    assert tfrecord.crc32c(zeros) == crc32c(zeros)


def test_records_come_back_and_damage_is_found(tmp_path):
    path = tmp_path / "records"
    written = [b"", b"one", bytes(1000), b"last"]
    with tfrecord.RecordWriter(path) as writer:
        for record in written[:3]:
            writer.write(record)
    with tfrecord.RecordWriter(path, append=True) as writer:
        writer.write(written[3])
    assert list(tfrecord.read_records(path)) == written
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        found = []
        with pytest.raises(tfrecord.RecordError):
            for record in tfrecord.read_records(path):
                found.append(record)
        assert found == written[: len(found)]
    for size in range(1, len(data), 13):
        path.write_bytes(data[:size])
        if size not in (16, 35, 1051):
            with pytest.raises(tfrecord.RecordError):
                list(tfrecord.read_records(path))


def test_json_lines_survive_a_kill(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with writers.JsonLinesWriter(path) as writer:
        writer.write_scalars(1, {"loss": np.float32("nan"), "n": 3})
        writer.write_hparams({"rate": 0.1, "shape": (2, jnp.ones(2)), "fun": len})
    path.write_bytes(path.read_bytes() + b'{"kind": "scalars", "st')
    with writers.JsonLinesWriter(path) as writer:
        writer.write_scalars(2, {"loss": float("-inf")})
        writer.write_texts(2, {"a": "b"})
        writer.write_images(2, {"p": np.zeros((2, 3, 3, 1))})
    found = list(writers.read_json_lines(path))
    assert [line["kind"] for line in found] == ["scalars", "hparams", "scalars", "texts", "images"]
    assert found[0]["values"] == {"loss": "nan", "n": 3} and found[2]["values"] == {"loss": "-inf"}
    assert found[1]["values"]["shape"] == [2, [1, 1]] and found[4]["values"] == {"p": [2, 3, 3, 1]}


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_csv_that_grows_keeps_what_the_umask_says(tmp_path):
    before = os.umask(0o077)
    try:
        with writers.CsvWriter(tmp_path / "metrics.csv") as writer:
            writer.write_scalars(1, {"loss": 1.0})
            writer.write_scalars(2, {"loss": 1.0, "accuracy": 0.5})
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == ["metrics.csv"]
    assert (tmp_path / "metrics.csv").stat().st_mode & 0o777 == 0o600


def test_csv_grows_and_goes_on(tmp_path):
    path = tmp_path / "metrics.csv"
    with writers.CsvWriter(path) as writer:
        writer.write_scalars(1, {"loss": 0.5})
        writer.write_scalars(2, {"loss": 0.25, 'a,"b"': 1})
        writer.flush()
        writer.write_scalars(3, {'a,"b"': 2})
    with writers.CsvWriter(path) as writer:
        writer.write_scalars(4, {"loss": 0.125})
        writer.write_scalars(4, {"new": 9})
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["loss"] for row in rows] == ["0.5", "0.25", "", "0.125"]
    assert rows[2]['a,"b"'] == "2" and rows[3]["new"] == "9"
    assert os.listdir(tmp_path) == ["metrics.csv"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_bar_in_a_terminal():
    clock, stream = Clock(), Terminal()
    with writers.ProgressBar(total=200, stream=stream, width=70, clock=clock) as bar:
        for step in range(1, 101):
            clock.now += 0.0625
            bar.update(step, {"loss": 1.0 / step, "n": step})
        assert " 49%|" in stream.getvalue() and "[00:06<00:06, 16.00 step/s]" in stream.getvalue()
        bar.write("a line between")
    drawn = stream.getvalue().split("\r")
    assert 40 <= len(drawn) <= 70, "drawn at most ten times a second"
    assert all(len(line.rstrip("\n")) < 70 for line in drawn) and drawn[-1].endswith("\n")
    assert "a line between\n" in stream.getvalue() and "loss 0.01 n 100" in drawn[-1]


def test_the_bar_in_a_log_file():
    clock, stream = Clock(), io.StringIO()
    with writers.ProgressBar(total=100, stream=stream, clock=clock) as bar:
        for step in range(1, 101):
            clock.now += 1.0
            bar.update(step)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4 and "\r" not in stream.getvalue()
    assert lines[0].startswith("30% 30/100 [00:30<01:10, 1.00 step/s]")
    assert lines[-1].startswith("100% 100/100 [01:40<00:00")


def test_the_bar_in_a_notebook():
    stream_type = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    stream = stream_type()
    with writers.ProgressBar(total=2, stream=stream) as bar:
        bar.update(1)
    assert stream.getvalue().startswith("\r 50%|")


def test_the_bar_of_a_resumed_training():
    clock, stream = Clock(), Terminal()
    with writers.ProgressBar(total=1000, stream=stream, clock=clock) as bar:
        for step in range(900, 951):
            clock.now += 1.0
            bar.update(step)
        assert "<00:50, 1.00 step/s]" in bar.text(clock.now)


def test_the_bar_of_a_loop_that_says_every_hundredth_step():
    clock, stream = Clock(), Terminal()
    with writers.ProgressBar(total=400, stream=stream, clock=clock) as bar:
        clock.now += 60.0
        bar.update(100)
        assert "<?, ? step/s]" in bar.text(clock.now)
        clock.now += 50.0
        bar.update(200)
        assert "<01:40, 2.00 step/s]" in bar.text(clock.now)


def test_odd_bars():
    assert console.bar(2.0, 4) == "████" and console.bar(-1, 2) == "  "
    assert console.duration(-1) == "?" and console.duration(3599.7) == "1:00:00"
    stream = io.StringIO()
    with writers.ProgressBar(stream=stream) as bar:
        bar.update(0)
    assert stream.getvalue().startswith("0 steps [00:00, ? step/s]")


@pytest.mark.parametrize("value", [np.zeros(2), "text", None, [1, 2]])
def test_what_is_not_a_number(tmp_path, value):
    with writers.CsvWriter(tmp_path / "a.csv") as writer:
        with pytest.raises((TypeError, ValueError)):
            writer.write_scalars(1, {"loss": value})


def test_all_are_closed_even_if_one_fails(tmp_path):
    class Broken(writers.MetricWriter):
        def close(self):
            raise OSError("disk")

    good = writers.CsvWriter(tmp_path / "a.csv")
    with pytest.raises(OSError, match="disk"):
        writers.MultiWriter([Broken(), good]).close()
    assert good._file.closed
