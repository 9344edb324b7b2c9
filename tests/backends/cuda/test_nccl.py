"""NCCL's calls, with a library made of the host: who calls what, on which bytes, and errors."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.backends.cuda import fake_nccl, host_device
from weft import dtypes
from weft.backends.cuda import libraries, nccl

MEMBERS = 3


@pytest.fixture
def fake(monkeypatch):
    host_device.install(monkeypatch)
    with fake_nccl.installed(monkeypatch) as found:
        yield found


def on_all(members, run):
    """What each member's thread returns."""
    with ThreadPoolExecutor(len(members)) as threads:
        return list(threads.map(run, members))


def joined(size=MEMBERS):
    key = nccl.new_key()
    return on_all(range(size), lambda rank: nccl.join(key, rank, size, 10))


def draws(rank, shape=(6,), dtype=np.float32):
    return (np.random.default_rng(rank).normal(size=shape) * 8).astype(dtype)


def address(x):
    return x.ctypes.data


def ring(comm, x, y):
    with nccl.group():
        comm.send(address(x), x.nbytes, (comm.rank + 1) % comm.size, None)
        comm.receive(address(y), x.nbytes, (comm.rank - 1) % comm.size, None)


MOVES = {
    "all_gather": (
        lambda c, x, y: c.all_gather(address(x), address(y), x.nbytes, None),
        lambda rows, i: np.concatenate(rows),
    ),
    "broadcast": (
        lambda c, x, y: c.broadcast(address(x), address(y), x.nbytes, 1, None),
        lambda rows, i: rows[1],
    ),
    "all_to_all": (
        lambda c, x, y: c.all_to_all(address(x), address(y), x.nbytes // c.size, None),
        lambda rows, i: np.concatenate([np.split(row, MEMBERS)[i] for row in rows]),
    ),
    "ring": (ring, lambda rows, i: rows[i - 1]),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name, fake):
    call, want = MOVES[name]
    rows = [draws(i) for i in range(MEMBERS)]

    def run(comm):
        found = np.full(6 * MEMBERS, -1, np.float32)
        call(comm, rows[comm.rank], found)
        return found

    for i, found in enumerate(on_all(joined(), run)):
        expected = want(rows, i)
        np.testing.assert_array_equal(found[: len(expected)], expected)
        assert (found[len(expected) :] == -1).all()


def test_a_row_for_oneself_can_be_left_out(fake):
    def run(comm):
        x, y = draws(comm.rank), np.zeros(6, np.float32)
        comm.all_to_all(address(x), address(y), 8, None, own=False)
        return y

    for i, found in enumerate(on_all(joined(), run)):
        assert not found[2 * i : 2 * i + 2].any() and np.count_nonzero(found) == 4


KINDS = [np.float16, dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint8, np.int32]
KINDS += [np.uint32, np.int64, np.uint64, np.complex64, np.complex128]


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("operation", ["sum", "prod", "max", "min", "avg"])
def test_reductions(operation, dtype, fake):
    rows = [np.arange(1, 7).astype(dtype) + np.dtype(dtype).type(i) for i in range(MEMBERS)]
    if nccl.words_of(dtype, operation) is None:
        (comm,) = nccl.join_all([0])
        with pytest.raises(nccl.NcclError, match=f"no {operation} of {np.dtype(dtype)}"):
            comm.all_reduce(0, 0, 1, dtype, operation, None)
        return
    reduce = {"prod": np.prod, "max": np.max, "min": np.min}.get(operation, np.sum)
    want = reduce(np.stack(rows), 0).astype(dtype)
    if operation == "avg":
        want = (want / MEMBERS).astype(dtype)

    def run(comm):
        whole, part = np.zeros(6, dtype), np.zeros(2, dtype)
        given = address(rows[comm.rank])
        comm.all_reduce(given, address(whole), 6, dtype, operation, None)
        comm.reduce_scatter(given, address(part), 2, dtype, operation, None)
        return whole, part

    for i, (whole, part) in enumerate(on_all(joined(), run)):
        np.testing.assert_array_equal(whole, want)
        np.testing.assert_array_equal(part, want[2 * i : 2 * i + 2])
    words = {told["count"] for _, _, name, told in fake.calls if name == "all_reduce"}
    assert words == {12 if np.dtype(dtype).kind == "c" else 6}


def test_booleans_are_bytes():
    assert nccl.words_of(bool, "max") == nccl.words_of(np.uint8, "max")
    assert nccl.words_of(bool, "sum") is None


def test_communicators_of_one_process(fake):
    comms = nccl.join_all([0, 1, 2])
    assert [(c.rank, c.size) for c in comms] == [(0, 3), (1, 3), (2, 3)]
    rows, found = [draws(i) for i in range(3)], [np.zeros(18, np.float32) for _ in range(3)]
    with nccl.group():  # one thread calls for all of them
        for comm, x, y in zip(comms, rows, found, strict=True):
            comm.all_gather(address(x), address(y), x.nbytes, None)
    for y in found:
        np.testing.assert_array_equal(y, np.concatenate(rows))
    assert all(told["grouped"] for _, _, _, told in fake.calls)


# --- errors ---------------------------------------------------------------------------------------


def test_a_refusal_says_why(fake):
    fake.refuses = fake_nccl.BAD_USE
    with pytest.raises(nccl.NcclError, match=r"join GPU 0 to 1 others: .*last words.*own"):
        nccl.join(nccl.new_key(), 0, 2, 10)
    with pytest.raises(nccl.NcclError, match="ncclCommInitAll"):
        nccl.join_all([0, 0])


def test_members_that_never_come_are_not_waited_for(fake, monkeypatch):
    monkeypatch.setattr(fake_nccl, "PATIENCE", 1)
    with pytest.raises(nccl.NcclError, match=r"not all of 2 members .* 0.1 seconds"):
        nccl.join(nccl.new_key(), 0, 2, 0.1)

    def stop():
        raise RuntimeError("process 1 is gone")

    with pytest.raises(RuntimeError, match="process 1 is gone"):
        nccl.join(nccl.new_key(), 0, 2, 10, stop)


def test_errors_that_come_later(fake):
    (comm,) = nccl.join_all([0])
    comm.check()
    fake.fault = 6
    with pytest.raises(nccl.NcclError, match="messages between GPUs failed: status 6"):
        comm.check()
    comm.abort()
    comm.abort()
    with pytest.raises(nccl.NcclError, match="aborted"):
        comm.check()


def test_an_abort_ends_a_call(fake):
    comms = joined(2)

    def run(comm):
        if comm.rank:
            comms[0].abort()
            return ""
        x, y = draws(0), np.zeros(12, np.float32)
        with pytest.raises(nccl.NcclError) as error:
            comm.all_gather(address(x), address(y), x.nbytes, None)
        return str(error.value)

    told, _ = on_all(comms, run)
    assert "ncclAllGather" in told


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setattr(libraries, "folders_of", lambda name: [])
    monkeypatch.setattr(libraries.ctypes, "CDLL", _missing)
    libraries.library.cache_clear()
    nccl.library.cache_clear()
    try:
        assert not nccl.available()
        with pytest.raises(libraries.DriverError, match=r"libnccl was not found.*\.\[cuda\]"):
            nccl.version()
    finally:
        libraries.library.cache_clear()


def _missing(path):
    raise OSError(path)


def test_wheels_are_found_in_namespaces(tmp_path, monkeypatch):
    for part in "ab":
        folder = tmp_path / part / "nvidia" / part / "lib"
        folder.mkdir(parents=True)
        (folder / f"lib{part}.so.2").touch()
        monkeypatch.syspath_prepend(str(tmp_path / part))
    assert any(path.endswith("liba.so.2") for path in libraries.files("lib*.so.*"))
    assert any(path.endswith("libb.so.2") for path in libraries.files("lib*.so.*"))
