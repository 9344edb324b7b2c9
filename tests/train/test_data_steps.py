"""Sources and steps of data pipelines: what they deliver, and what they say about bad input."""

import collections

import numpy as np
import pytest

from weft.train import data
from weft.train.data.permutation import Permutation


def test_arrays_and_their_trees():
    Pair = collections.namedtuple("Pair", "a b")
    tree = {"x": np.arange(12).reshape(6, 2), "pair": Pair(np.arange(6.0), [1, 2, 3, 4, 5, 6])}
    made = data.arrays(tree)
    assert len(made) == 6 and made[-1]["pair"] == Pair(5.0, 6)
    batch = made.shuffle(seed=3).batch(4)[0]
    assert batch["x"].shape == (4, 2) and isinstance(batch["pair"], Pair)
    assert (batch["x"][:, 0] == 2 * batch["pair"].a).all()
    with pytest.raises(data.DataError, match=r"'x'\] has 3, \['y'\] has 2"):
        data.arrays({"x": np.zeros(3), "y": np.zeros(2)})
    with pytest.raises(data.DataError, match="at least one"):
        data.arrays({})
    with pytest.raises(IndexError):
        made[6]


def test_mapped_files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10.0))
    np.save(tmp_path / "y.npy", np.arange(20).reshape(10, 2))
    made = data.npy({"x": tmp_path / "x.npy", "y": tmp_path / "y.npy"})
    assert made[3]["y"].tolist() == [6, 7]
    (tmp_path / "z.npy").write_text("text")
    with pytest.raises(data.DataError, match=r"z\.npy is not a"):
        data.npy(tmp_path / "z.npy")


def test_lines_of_several_files(tmp_path):
    (tmp_path / "a").write_bytes("eins\r\nzwölf\n".encode())
    (tmp_path / "b").write_bytes(b"\nend")
    (tmp_path / "c").write_bytes(b"")
    made = data.text([tmp_path / name for name in "acb"])
    assert list(made) == ["eins", "zwölf", "", "end"]
    assert made[3] == "end" and list(made.shuffle(seed=1)) != list(made)
    assert data.text(tmp_path / "a", encoding=None)[1] == "zwölf".encode()
    with pytest.raises(data.DataError, match=r"record 2: .*can't decode"):
        list(data.text(tmp_path / "a", encoding="ascii"))
    with pytest.raises(FileNotFoundError):
        data.text(tmp_path / "none")


def test_lines_are_found_in_pieces(tmp_path, monkeypatch):
    from weft.train.data import files

    text = 'a,"b\nc",d\r\n"x""y",\n\n"1,2",3\r\n' * 5
    whole = files.line_bounds(text.encode()), files.line_bounds(text.encode(), quotes=True)
    for size in (1, 3, 7):
        monkeypatch.setattr(files, "_SCAN", size)
        assert (files.line_bounds(text.encode()) == whole[0]).all()
        assert (files.line_bounds(text.encode(), quotes=True) == whole[1]).all()


def test_json_lines(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text('{"x": [1, 2]}\n\n  {"x": [3, 4]}  \n{"x": [5, 6]}\n')
    made = data.jsonl(path)
    assert len(made) == 3 and made.batch(3)[0]["x"].tolist() == [[1, 2], [3, 4], [5, 6]]
    path.write_text('{"x": 1}\n{"x": \n{"x": 3}\n')
    reader = iter(data.jsonl(path))
    assert next(reader) == {"x": 1}
    with pytest.raises(data.DataError, match=r"data\.jsonl, record 2"):
        next(reader)
    path.write_text('{"x": 1} {"x": 2}\n')
    with pytest.raises(data.DataError, match="Extra data"):
        data.jsonl(path)[0]


def test_csv(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('name,size\n"a, ""b""\nc",1\nd,2.5\n')
    made = data.csv(path, types={"size": float})
    assert list(made) == [{"name": 'a, "b"\nc', "size": 1.0}, {"name": "d", "size": 2.5}]
    assert data.csv(path, columns=["u", "v"])[0] == {"u": "name", "v": "size"}
    with pytest.raises(data.DataError, match=r"names a column 'sise'.*'name', 'size'"):
        data.csv(path, types={"sise": float})
    with pytest.raises(data.DataError, match="record 1: column 'name': could not convert"):
        data.csv(path, types=float)[0]
    path.write_text("a;b\n1;2\n3\n")
    with pytest.raises(data.DataError, match="record 2: a row has 1 cells"):
        list(data.csv(path, delimiter=";"))
    path.write_text("")
    with pytest.raises(data.DataError, match="is empty"):
        data.csv(path)


def test_streams():
    reads = []

    def numbers():
        reads.append(1)
        return iter(range(7))

    made = data.source(numbers).map(lambda x: x + 1)
    assert list(made) == [1, 2, 3, 4, 5, 6, 7] and len(reads) == 1
    assert [b.tolist() for b in made.batch(3)] == [[1, 2, 3], [4, 5, 6], [7]]
    assert list(made.batch(4, drop_remainder=True).map(len)) == [4]
    with pytest.raises(TypeError, match="front to back"):
        made[0]
    with pytest.raises(TypeError, match="until it has been read"):
        len(made)
    with pytest.raises(TypeError, match=r"shuffle\(seed, window="):
        made.shuffle(seed=0)
    shuffled = list(made.shuffle(seed=0, window=4))
    assert sorted(shuffled[:4]) == [1, 2, 3, 4] and shuffled != sorted(shuffled)
    with pytest.raises(TypeError, match="arrays"):
        data.source({"x": np.zeros(3)})
    with pytest.raises(TypeError, match="not int"):
        data.source(3)


def test_an_iterator_is_read_once():
    made = data.source(iter(range(5)))
    reader = iter(made)
    assert next(reader) == 0
    state = reader.state()
    assert list(reader) == [1, 2, 3, 4]
    with pytest.raises(data.DataError, match="only once"):
        reader.restore(state)
        next(reader)
    fresh = iter(data.source(iter(range(5))))
    fresh.restore(state)
    assert list(fresh) == [1, 2, 3, 4]


def test_torch_like_tensors_become_arrays():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.ones(3, np.float32)

    made = data.source([(Tensor(), 1), (Tensor(), 2)]).batch(2)[0]
    assert made[0].dtype == np.float32 and made[0].shape == (2, 3) and made[1].tolist() == [1, 2]


def test_many_items_at_once():
    class Items:
        def __len__(self):
            return 9

        def __getitem__(self, index):
            raise AssertionError

        def __getitems__(self, indices):
            return [{"x": index} for index in indices]

    assert data.source(Items()).batch(4)[1]["x"].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("length", [1, 2, 3, 10, 1000, 65536, 65537, 200_000])
def test_permutations(length):
    orders = [Permutation(length, key).at(np.arange(length)) for key in range(3)]
    for order in orders:
        assert (np.bincount(order, minlength=length) == 1).all()
    one = Permutation(length, 1)
    some = np.random.default_rng(0).integers(length, size=50)
    assert (one.at(some) == orders[1][some]).all()
    assert (one.at(some[:1]) == orders[1][some[:1]]).all()
    if length >= 1000:
        assert (orders[0] != orders[1]).mean() > 0.99
        assert abs(np.corrcoef(np.arange(length), orders[0])[0, 1]) < 0.1
        assert len(np.unique(np.diff(orders[0]))) > length / 4  # not a simple pattern


def test_small_permutations_are_uniform():
    counts = collections.Counter(tuple(Permutation(4, key).at(np.arange(4))) for key in range(4800))
    assert len(counts) == 24 and all(120 < count < 280 for count in counts.values())


def test_epochs_have_orders_of_their_own():
    made = data.source(range(50)).shuffle(seed=1)
    first, second = np.array(list(made.repeat(2))).reshape(2, 50)
    assert (first != second).any() and list(made) == first.tolist()
    assert sorted(first) == sorted(second) == list(range(50))
    # batches may reach over the end of an epoch, and filters keep permutations whole
    flat = [x for b in made.repeat(3).batch(7) for x in b.tolist()]
    assert flat[:50] == first.tolist() and flat[50:100] == second.tolist() and len(flat) == 150
    odd = list(data.source(range(50)).filter(lambda x: x % 2).shuffle(seed=1))
    assert sorted(odd) == list(range(1, 50, 2)) and odd != sorted(odd)
    with pytest.raises(TypeError, match="before repeat"):
        made.repeat().shuffle(seed=0)


def test_random_maps_depend_on_seed_epoch_and_element_only():
    made = data.source(range(6)).map(lambda x, rng: (x, int(rng.integers(1 << 40))), seed=5)
    drawn = list(made.repeat(2))
    assert len({value for _, value in drawn}) == 12
    assert [made[i] for i in range(6)] == drawn[:6] == list(made)
    other = data.source(range(6)).map(lambda x, rng: (x, int(rng.integers(1 << 40))), seed=6)
    assert not {value for _, value in other} & {value for _, value in drawn}
    with pytest.raises(TypeError, match=r"after batch\(\)"):
        made.map(lambda x, rng: x, batched=True, seed=1)


def test_batches():
    made = data.source(range(5))
    assert [len(b) for b in made.batch(2)] == [2, 2, 1] and len(made.batch(2)) == 3
    assert [len(b) for b in made.batch(2, drop_remainder=True)] == [2, 2]
    last, mask = made.batch(2, pad_remainder=True)[2]
    assert last.tolist() == [4, 0] and mask.tolist() == [True, False]
    named = made.map(lambda x: {"x": x, "name": str(x)}).batch(4, pad_remainder=True, mask="real")
    assert named[1]["real"].tolist() == [True, False, False, False]
    assert named[1]["name"].tolist() == ["4", "", "", ""]
    with pytest.raises(data.DataError, match="pass mask="):
        made.map(lambda x: {"mask": x}).batch(2, pad_remainder=True)[0]
    with pytest.raises(ValueError, match="not both"):
        made.batch(2, pad_remainder=True, drop_remainder=True)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        made.batch(0)


def test_ragged_batches():
    made = data.source([{"x": np.ones(n)} for n in (1, 3, 2)])
    with pytest.raises(data.DataError, match=r"\['x'\].*\(1,\).*number 1.*\(3,\).*fill=0"):
        made.batch(3)[0]
    filled = made.batch(3, fill=-1)[0]["x"]
    assert filled.tolist() == [[1, -1, -1], [1, 1, 1], [1, 1, -1]]
    with pytest.raises(data.DataError, match="different ranks"):
        data.source([np.ones(2), np.ones((2, 2))]).batch(2, fill=0)[0]


def test_structures_that_differ():
    def keyed(x):
        return {"x": x} if x < 2 else {"x": x, "y": x}

    with pytest.raises(data.DataError, match=r"\{'x': int\}, number 2 .* \{'x': int, 'y': int\}"):
        data.source(range(3)).map(keyed).batch(3)[0]
    kinds = [1, (1, 2), None, "a", {"x": 1}, np.ones(2)]
    for a in kinds:
        for b in kinds:
            if a is not b:
                with pytest.raises(data.DataError):
                    data.source([a, b]).batch(2)[0]
    with pytest.raises(data.DataError, match="first axis must have one row"):
        data.arrays(np.arange(4)).map(lambda x: x[:2], batched=True).batch(4)[0]
    with pytest.raises(data.DataError, match=r"must return bool\[4\]"):
        list(data.arrays(np.arange(4)).filter(lambda x: x[:2] > 0, batched=True).batch(4))


def test_errors_name_the_element_and_the_line():
    def fails(x):
        if x == 7:
            raise KeyError("label")  # the line
        return x

    for made in (
        data.source(range(20)).map(fails),
        data.source(range(20)).map(fails).batch(4),
        data.source(range(20)).shuffle(seed=1, window=1).map(fails),
    ):
        reader = iter(made)
        with pytest.raises(KeyError, match="label") as caught:
            for _ in range(8):
                next(reader)
        (note,) = caught.value.__notes__
        assert "element 7 of map(fails (test_data_steps.py:" in note
        assert note.endswith(", in fails")
        with pytest.raises(KeyError):  # it does not go on as if nothing had been
            next(reader)
    reader = iter(data.source(range(20)).map(fails))
    assert [next(reader) for _ in range(7)] == list(range(7))  # what comes before is delivered


def test_mixtures():
    parts = [data.source([name] * 600) for name in "abc"]
    made = list(data.mix(parts, [0.5, 0.3, 0.2]).take(500))
    for count in range(1, 500):
        for name, rate in zip("abc", (0.5, 0.3, 0.2)):
            assert abs(made[:count].count(name) - rate * count) < 1
    odd = collections.Counter(data.mix([p.repeat() for p in parts], [1, 0.123, 7.7]).take(8192))
    assert abs(odd["b"] / 8192 - 0.123 / 8.823) < 1 / 4096
    short = [data.source([1, 2]), data.source("abcdef")]
    assert list(data.mix(short)) == [1, "a", 2, "b"]
    assert list(data.mix(short, stop="all")) == [1, "a", 2, "b", "c", "d", "e", "f"]
    for rates in ([1, 0], [1, -1], [1, float("nan")]):
        with pytest.raises(data.DataError, match="positive"):
            data.mix(short, rates)
    with pytest.raises(data.DataError, match="2 data sets and 1 rates"):
        data.mix(short, [1])
    with pytest.raises(TypeError, match="takes data sets"):
        data.mix([np.ones(3)])
    with pytest.raises(ValueError, match="'first' or 'all'"):
        data.mix(short, stop="never")


def test_streamed_mixtures_are_those_of_random_access():
    parts = [data.source(range(30)), data.source(range(100, 120)).shuffle(seed=1)]
    streamed = [part.filter(lambda x: True) for part in parts]
    assert list(data.mix(parts, [2, 1])) == list(data.mix(streamed, [2, 1]))
    assert len(data.mix(parts, [2, 1])) == len(list(data.mix(streamed, [2, 1])))


def test_shards():
    made = data.source(range(10)).shuffle(seed=0)
    assert [len(made.shard(i, 3)) for i in range(3)] == [4, 3, 3]
    assert [len(made.shard(i, 3, drop_remainder=True)) for i in range(3)] == [3, 3, 3]
    assert list(made.shard()) == list(made)  # one process
    with pytest.raises(ValueError, match="below count"):
        made.shard(3, 3)
    with pytest.raises(TypeError, match="needs a length"):
        made.filter(bool).shard(0, 2, drop_remainder=True)


def test_names_of_steps_are_shown():
    made = data.source(range(3)).shuffle(seed=1).filter(bool).batch(2)
    assert repr(made) == "<Dataset source.shuffle(seed=1).filter.batch(2, remainder='keep')>"
    with pytest.raises(TypeError, match="takes a function, not int"):
        data.source(range(3)).map(3)
