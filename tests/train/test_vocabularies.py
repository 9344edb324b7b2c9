"""Vocabularies: decoding undoes encoding, and ids are those of seqio and SentencePiece."""

import json
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from weft.train import vocabularies
from weft.train.vocabularies.lattice import Lattice
from weft.train.vocabularies.splitting import split_words
from weft.train.vocabularies.unigram import _digamma, piece_table, viterbi

DATA = Path(__file__).parent / "data" / "seqio"
RECORDED = json.loads((DATA / "vocabularies.json").read_text())
MODELS = sorted(RECORDED["sentencepiece"]["models"])
CORPUS = [
    "the weft crosses the warp, the weaver weaves",
    "weaving wefts and warps; 100 threads, 1000 threads",
    "été à la mode: l'été, l'âme",
    "हिन्दी में लिखना, 日本語のテスト",
] * 5


def unicode_text(seed: int) -> str:
    """Text of all planes: letters, marks, controls, private and unassigned characters."""
    rng = random.Random(seed)
    pools = [
        lambda: rng.choice("the weft warp,.  \n\t_1234567890"),
        lambda: chr(rng.randrange(0x250)),
        lambda: chr(rng.randrange(0x300, 0x370)),
        lambda: chr(rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x10000)])),
        lambda: chr(rng.randrange(0x10000, 0x110000)),
        lambda: rng.choice(CORPUS),
        lambda: rng.choice(["<extra_id_0>", "<extra_id_99>", "<extra_id_", "\r\n", " " * 70]),
    ]
    used = rng.sample(pools, rng.randrange(1, len(pools)))
    return "".join(rng.choice(used)() for _ in range(rng.randrange(60)))


@pytest.fixture(scope="module")
def trained():
    return {
        "byte": vocabularies.ByteVocabulary(5),
        "character": vocabularies.CharacterVocabulary.train(CORPUS, 20, 5, byte_fallback=True),
        "bpe": vocabularies.BPEVocabulary.train(CORPUS, 330, 5),
        "unigram": vocabularies.UnigramVocabulary.train(CORPUS, 360, 5),
    }


KINDS = ["byte", "character", "bpe", "unigram"]


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_undoes_encoding(trained, kind):
    vocabulary = trained[kind]
    for seed in range(200):
        text = unicode_text(seed)
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        assert vocabulary.decode(np.array(ids, np.int32)) == text
        assert all(2 < one < vocabulary.vocab_size for one in ids)
        assert vocabulary.decode([*ids, vocabulary.eos_id, 100, 101]) == text


def test_split_words_keeps_all():
    for seed in range(200):
        text = unicode_text(seed)
        assert "".join(split_words(text)) == text
    assert split_words("a" * 200 + " b") == ["a" * 63] * 3 + ["a" * 11, " b"]
    assert split_words("हिन्दी में") == ["हिन्दी", " में"]


@pytest.mark.parametrize("kind", KINDS)
def test_any_ids_can_be_decoded(trained, kind):
    vocabulary = trained[kind]
    rng = random.Random(0)
    for _ in range(100):
        ids = [rng.randrange(-2, vocabulary.vocab_size + 3) for _ in range(10)]
        assert isinstance(vocabulary.decode(ids), str)


@pytest.mark.parametrize("kind", ["character", "bpe", "unigram"])
def test_extra_ids_are_written(trained, kind):
    vocabulary = trained[kind]
    last = vocabulary.vocab_size - 1
    assert vocabulary.encode("<extra_id_0>") == [last]
    assert vocabulary.encode("<extra_id_4> ")[0] == last - 4 == vocabulary.sentinel_id(4)
    assert vocabulary.decode([last - 1]) == "<extra_id_1>"
    assert max(vocabulary.encode("<extra_id_5> <extra_id_01>")) < last - 4
    with pytest.raises(ValueError, match="not among 5 extra ids"):
        vocabulary.sentinel_id(5)


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_pickles_keep_a_vocabulary(trained, kind, tmp_path):
    vocabulary = trained[kind]
    path = tmp_path / "vocabulary.json"
    vocabularies.save_vocabulary(path, vocabulary)
    for other in (vocabularies.load_vocabulary(path), pickle.loads(pickle.dumps(vocabulary))):
        assert other == vocabulary and hash(other) == hash(vocabulary)
        assert other.fingerprint() == vocabulary.fingerprint()
        assert other.encode(CORPUS[2]) == vocabulary.encode(CORPUS[2])
    assert [one.name for one in tmp_path.iterdir()] == ["vocabulary.json"]


def test_pass_through():
    vocabulary = vocabularies.PassThroughVocabulary(50, eos_id=3)
    assert vocabulary.encode([9, 8]) == [9, 8] and vocabulary.decode([9, 3, 8]) == [9, 3]
    assert (vocabulary.vocab_size, vocabulary.unk_id, vocabulary.pad_id) == (50, None, 0)
    assert vocabulary != vocabularies.PassThroughVocabulary(50)


def test_damaged_files_are_refused(trained, tmp_path):
    path = tmp_path / "vocabulary.json"
    vocabularies.save_vocabulary(path, trained["bpe"])
    good = path.read_bytes()
    record = json.loads(good)
    changed = record | {"config": record["config"] | {"merges": [[3, 4]]}}
    later = record | {"config": record["config"] | {"merges": [[3, 900]]}}
    cases = [b"", b"[]", b"{}", good[:-9], b"[" * 100_000, b"\xff\xfe"]
    cases += [json.dumps(record | {"kind": kind}).encode() for kind in ("os.system", None, [])]
    cases += [json.dumps(one).encode() for one in (changed, later, record | {"config": {"x": 1}})]
    for case in cases:
        path.write_bytes(case)
        with pytest.raises(ValueError, match=r"vocabulary\.json"):
            vocabularies.load_vocabulary(path)


def test_training_is_reproducible_and_bounded():
    for cls in (vocabularies.BPEVocabulary, vocabularies.UnigramVocabulary):
        one, two = cls.train(CORPUS, 340), cls.train(iter(CORPUS), 340)
        assert one == two and 300 < one.vocab_size <= 340
        with pytest.raises(ValueError, match="too small"):
            cls.train(CORPUS, 258)
        assert cls.train([], 400).decode(cls.train([], 400).encode("héllo")) == "héllo"
        with pytest.raises(TypeError, match="takes texts, got bytes"):
            cls.train([b"x"], 400)
        with pytest.raises(TypeError, match="takes text, got bytes"):
            one.encode(b"x")


def test_training_compresses():
    text = " ".join(CORPUS[:2]) * 3
    count = lambda cls, size: len(cls.train(CORPUS, size).encode(text))
    for cls in (vocabularies.BPEVocabulary, vocabularies.UnigramVocabulary):
        assert count(cls, 420) < count(cls, 325) < len(text.encode()) / 1.5


def test_bpe_merges_the_most_frequent_pair():
    # "ab" 3 times, "bc" 2 times, then "abc" 2 times: counted by hand
    vocabulary = vocabularies.BPEVocabulary.train(["abc", "abc", "ab"], 261)
    a, b, c = vocabularies.ByteVocabulary().encode("abc")
    assert vocabulary.merges == [(a, b), (259, c)]


def brute_force_splits(word, scores):
    if not word:
        return [([], 0.0)]
    found = []
    for end in range(1, len(word) + 1):
        if word[:end] in scores:
            rest = brute_force_splits(word[end:], scores)
            found += [([word[:end], *x], scores[word[:end]] + s) for x, s in rest]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_lattice_sums_over_all_splits(seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abc", k=rng.randrange(1, 7))) for _ in range(8)]
    pieces = {"a", "b", "c"} | {"".join(rng.choices("abc", k=rng.choice([2, 3]))) for _ in range(9)}
    ordered = sorted(pieces)
    scores = {piece: rng.uniform(-6, -1) for piece in ordered}
    counts = np.array([rng.randrange(1, 5) for _ in words], float)
    lattice = Lattice(words, {piece: at for at, piece in enumerate(ordered)})
    array = np.array([scores[piece] for piece in ordered])
    expected, wanted, likelihood = lattice.expected(array, counts), np.zeros(len(ordered)), 0.0
    rows, best = lattice.best(array)
    for at, word in enumerate(words):
        splits = brute_force_splits(word, scores)
        weights = np.exp([score for _, score in splits])
        likelihood += counts[at] * np.log(weights.sum())
        for (split, _), weight in zip(splits, weights / weights.sum()):
            for piece in split:
                wanted[ordered.index(piece)] += counts[at] * weight
        top = max(splits, key=lambda one: one[1])[0]
        assert sorted(ordered[x] for x in best[rows == at]) == sorted(top)
        table = piece_table((piece, scores[piece], 0) for piece in ordered)
        assert [piece for piece, _ in viterbi(word, table, -50.0)] == top
    np.testing.assert_allclose(expected[0], wanted, rtol=1e-9)
    np.testing.assert_allclose(expected[1], likelihood, rtol=1e-9)


def test_digamma():
    # Abramowitz and Stegun, table 6.1 and 6.3.2: -gamma, and 1 + 1/2 + 1/3 - gamma
    gamma = 0.57721566490153286
    wanted = [-gamma, 1 + 1 / 2 + 1 / 3 - gamma, -gamma - 2 * np.log(2)]
    np.testing.assert_allclose(_digamma(np.array([1.0, 4.0, 0.5])), wanted, rtol=1e-12)


def test_bytes_are_numbered_as_in_seqio():
    recorded = RECORDED["byte"]
    vocabulary = vocabularies.ByteVocabulary(extra_ids=10)
    assert vocabulary.vocab_size == recorded["vocab_size"]
    texts = RECORDED["sentencepiece"]["texts"]
    assert [vocabulary.encode(text) for text in texts[: len(recorded["encoded"])]] == (
        recorded["encoded"]
    )
    assert [vocabulary.decode(ids) for ids in recorded["ids"]] == recorded["texts"]


@pytest.mark.parametrize("name", MODELS)
def test_sentencepiece_models_give_the_same_ids(name):
    recorded = RECORDED["sentencepiece"]["models"][name]
    texts = RECORDED["sentencepiece"]["texts"]
    vocabulary = vocabularies.SentencePieceVocabulary(DATA / f"{name}.model", extra_ids=7)
    assert vocabulary.vocab_size == recorded["vocab_size"]
    assert (vocabulary.eos_id, vocabulary.unk_id, vocabulary.bos_id) == (1, 2, None)
    for text, ids, decoded in zip(texts, recorded["encoded"], recorded["decoded"], strict=True):
        assert vocabulary.encode(text) == ids, text
        assert vocabulary.decode(ids) == decoded, text
    for ids, text in zip(recorded["ids"], recorded["texts"], strict=True):
        assert vocabulary.decode(ids) == text, ids
    other = pickle.loads(pickle.dumps(vocabulary))
    assert other == vocabulary and other.encode(texts[3]) == recorded["encoded"][3]


def test_damaged_sentencepiece_models_are_refused(tmp_path):
    good = (DATA / "unigram.model").read_bytes()
    path, rng, refused = tmp_path / "some.model", random.Random(0), 0
    for case in [b"", b"text", good[:1000], good[:-1]]:
        path.write_bytes(case)
        with pytest.raises(ValueError, match=r"some\.model isn't a SentencePiece model"):
            vocabularies.SentencePieceVocabulary(path)
    for _ in range(150):
        changed = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            vocabulary = vocabularies.SentencePieceVocabulary(path)
        except ValueError:
            refused += 1
        else:
            assert isinstance(vocabulary.encode("the wéft ① \t x"), list)
    assert refused > 5
