"""The disk cache: what is kept is found; what is not sound, or not ours, is not used."""

import hashlib
import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

from weft.backends.llvm.native import machine
from weft.base import disk, knobs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="no disk cache here")
KEY = hashlib.sha256(b"key").digest()
OBJECT = bytes(range(256)) * 9


@pytest.fixture
def room(tmp_path: Path):
    with knobs.cache(str(tmp_path)):
        yield tmp_path / disk.FOLDER


def entry(room: Path) -> Path:
    return room / KEY.hex()


def test_what_is_kept_is_found(room: Path) -> None:
    assert disk.load(KEY) is None
    disk.save(KEY, OBJECT)
    assert disk.load(KEY) == OBJECT
    assert stat.S_IMODE(room.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(room).stat().st_mode) == 0o600
    assert [p.name for p in room.iterdir()] == [KEY.hex()]


def damaged(whole: bytes) -> list[bytes]:
    flips = [whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in (0, 9, 50, 75, 90, -1)]
    return [b"", whole[:5], whole[:-1], whole[:80], whole + b"\0", os.urandom(3000), *flips]


def test_damaged_entries_are_ignored_and_written_again(room: Path) -> None:
    disk.save(KEY, OBJECT)
    for whole in damaged(entry(room).read_bytes()):
        entry(room).write_bytes(whole)
        assert disk.load(KEY) is None
        disk.save(KEY, OBJECT)
        assert disk.load(KEY) == OBJECT


def test_an_entry_answers_its_own_key_only(room: Path) -> None:
    disk.save(KEY, OBJECT)
    other = hashlib.sha256(b"other").digest()
    entry(room).rename(room / other.hex())
    assert disk.load(other) is None


def test_links_and_what_others_may_write_are_not_followed(room: Path, tmp_path: Path) -> None:
    disk.save(KEY, OBJECT)
    there = tmp_path / "elsewhere"
    entry(room).rename(there)
    entry(room).symlink_to(there)
    assert disk.load(KEY) is None
    disk.save(KEY, OBJECT)
    assert not entry(room).is_symlink() and disk.load(KEY) == OBJECT
    entry(room).chmod(0o666)
    assert disk.load(KEY) is None
    entry(room).chmod(0o600)
    room.chmod(0o777)
    assert disk.load(KEY) is None
    room.chmod(0o700)
    room.rename(tmp_path / "moved")
    room.symlink_to(tmp_path / "moved")
    assert disk.load(KEY) is None
    os.unlink(room)
    os.mkfifo(tmp_path / "moved" / "pipe")


def test_somebody_elses_folder_is_not_used(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.save(KEY, OBJECT)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert disk.load(KEY) is None
    with knobs.raise_persistent_cache_errors(True), pytest.raises(PermissionError):
        disk.save(KEY, OBJECT)
    disk.save(KEY, OBJECT)


def test_where_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    with knobs.scope(cache=None, compilation_cache_dir=None):
        assert disk.folder() == str(tmp_path / "x" / "weft" / disk.FOLDER)
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert disk.folder() == str(tmp_path / ".cache" / "weft" / disk.FOLDER)
    with knobs.scope(cache=None, compilation_cache_dir="/some/where"):
        assert disk.folder() == f"/some/where/{disk.FOLDER}"
    for off in (knobs.cache("off"), knobs.enable_compilation_cache(False)):
        with off:
            assert disk.folder() is None
            disk.save(KEY, OBJECT)
            assert disk.load(KEY) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with knobs.cache(str(tmp_path / "file" / "below")):
        disk.save(KEY, OBJECT)
        assert disk.load(KEY) is None


def test_what_was_used_longest_ago_goes_first(room: Path) -> None:
    keys = [hashlib.sha256(bytes([i])).digest() for i in range(6)]
    now = time.time()
    for i, key in enumerate(keys):
        disk.save(key, OBJECT)
        os.utime(room / key.hex(), (now - 7200 + i, now - 7200 + i))
    assert disk.load(keys[0]) == OBJECT  # used now
    (room / ".left").write_text("x")
    os.utime(room / ".left", (now - 7200, now - 7200))
    handle = os.open(room, os.O_RDONLY)
    try:
        disk.trim(handle, 3 * (len(OBJECT) + 100))
    finally:
        os.close(handle)
    assert {p.name for p in room.iterdir()} == {keys[i].hex() for i in (0, 4, 5)}


def fill(folder: str) -> None:
    with knobs.cache(folder):
        for i in range(50):
            key = hashlib.sha256(bytes([i])).digest()
            disk.save(key, OBJECT + bytes([i]))
            assert disk.load(key) in (None, OBJECT + bytes([i]))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_processes_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    work = [context.Process(target=fill, args=(str(tmp_path),)) for _ in range(3)]
    for process in work:
        process.start()
    for process in work:
        process.join(600)
    assert [process.exitcode for process in work] == [0, 0, 0]
    with knobs.cache(str(tmp_path)):
        for i in range(50):
            assert disk.load(hashlib.sha256(bytes([i])).digest()) == OBJECT + bytes([i])
    assert len(os.listdir(tmp_path / disk.FOLDER)) == 50


def test_keys_depend_on_text_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    one = machine.key_of("text")
    assert one == machine.key_of("text") != machine.key_of("text ")
    machine.setting.cache_clear()
    monkeypatch.setattr(machine, "description", lambda: ("another machine",))
    try:
        assert machine.key_of("text") != one
    finally:
        monkeypatch.undo()
        machine.setting.cache_clear()


def test_a_pipe_under_an_entrys_name_is_not_waited_for(room: Path) -> None:
    disk.save(KEY, OBJECT)
    entry(room).unlink()
    os.mkfifo(entry(room), 0o600)
    assert disk.load(KEY) is None
