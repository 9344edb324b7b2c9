"""Writes SentencePiece models and what SentencePiece and seqio say, into ``tests/train/data``.

Run with Python where seqio is installed: ``python tests/train/record_seqio.py``.
"""

import functools
import json
import random
import tempfile
from pathlib import Path

import sentencepiece
import seqio
import tensorflow as tf

DATA = Path(__file__).parent / "data" / "seqio"
TEXT = """The wheel turns and the weaver sings; the shuttle carries the weft across the warp.
In weaving, the weft is the thread that crosses over and under the warp threads.
A loom holds 100 warp threads under tension, and 1000 more if it is wide.
Übung macht den Meister; l'été, l'âme et le cœur; 日本語 の テスト です.
Threads of 10, 100, 1000 and 10000 turns: aaa aaaa aaaaa aaaaaa.
She said: "don't tear the cloth!" (but they did, twice) <sep> again."""
RULES = [("\t", " "), ("\n", " "), ("e\u0301", "é"), ("ﬁ", "fi"), ("①", "1"), ("\u00a0", " "),
         ("\u200b", ""), ("A", "a"), ("AB", "ß")]  # fmt: skip
MODELS = {
    "unigram": {"model_type": "unigram"},
    "unigram_bytes": {"model_type": "unigram", "byte_fallback": True, "vocab_size": 400},
    "unigram_raw": {"model_type": "unigram", "remove_extra_whitespaces": False,
                    "add_dummy_prefix": False, "user_defined_symbols": ["<sep>", "warp thr"]},
    "unigram_suffix": {"model_type": "unigram", "treat_whitespace_as_suffix": True},
    "bpe": {"model_type": "bpe", "user_defined_symbols": ["<sep>"]},
    "bpe_bytes": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 400},
    "char": {"model_type": "char"},
    "word": {"model_type": "word"},
}  # fmt: skip
TEXTS = [
    "", "  ", " a", "the weft", "  the   warp\tthreads  ", "e\u0301te\u0301 ﬁ ① ABA",
    "日本 xyz🚂🚂 🚂 語", "a" * 40, "▁x▁▁y ▁", "▁", "<unk> </s> <pad> <s>", "a\u00a0b\u200bc",
    "2.00000000 and 1000000", "<sep><sep> <se", "the warp threads", "Übung <extra_id_0> x",
    "<extra_id_1>the<extra_id_2>ly", "<extra_id_7>",
]  # fmt: skip


def vocabularies() -> dict[str, object]:
    """Train small models and record ids and texts."""
    rng = random.Random(0)
    letters = "ateh wrp0 1\t\u0301eA▁<sep>日🚂ß"
    texts = TEXTS + ["".join(rng.choices(letters, k=rng.randrange(40))) for _ in range(40)]
    texts += TEXT.split("\n")
    recorded: dict[str, object] = {"texts": texts, "models": {}}
    with tempfile.TemporaryDirectory() as folder:
        corpus, rules = Path(folder, "corpus.txt"), Path(folder, "rules.tsv")
        corpus.write_text("\n".join([TEXT] * 3))
        points = lambda text: " ".join(f"{ord(one):X}" for one in text)
        rules.write_text("".join(f"{points(old)}\t{points(new)}\n" for old, new in RULES))
        for name, options in MODELS.items():
            sentencepiece.SentencePieceTrainer.train(
                input=str(corpus), model_prefix=f"{folder}/{name}", pad_id=0, eos_id=1, unk_id=2,
                bos_id=-1, normalization_rule_tsv=str(rules), hard_vocab_limit=False,
                minloglevel=5, **{"vocab_size": 150, **options},
            )  # fmt: skip
            data = Path(folder, f"{name}.model").read_bytes()
            model = sentencepiece.sentencepiece_model_pb2.ModelProto.FromString(data)
            model.trainer_spec.ClearField("input")
            model.trainer_spec.ClearField("model_prefix")
            model.normalizer_spec.ClearField("normalization_rule_tsv")
            (DATA / f"{name}.model").write_bytes(model.SerializeToString())
            recorded["models"][name] = vocabulary(name, texts, rng)
    return recorded


def vocabulary(name: str, texts: list[str], rng: random.Random) -> dict[str, object]:
    """What seqio says about one model, with seven extra ids."""
    made = seqio.SentencePieceVocabulary(str(DATA / f"{name}.model"), extra_ids=7)
    size = made.vocab_size
    draw = lambda: rng.choice([rng.randrange(size + 4), rng.randrange(size - 9, size + 4)])
    ids = [[draw() for _ in range(rng.randrange(12))] for _ in range(40)]
    return {
        "vocab_size": size,
        "encoded": [list(map(int, made.encode(text))) for text in texts],
        "decoded": [made.decode(made.encode(text)) for text in texts],
        "ids": ids,
        "texts": [made.decode(one) for one in ids],
    }


def byte_vocabulary() -> dict[str, object]:
    """What seqio's vocabulary of bytes says."""
    made, rng = seqio.ByteVocabulary(extra_ids=10), random.Random(1)
    ids = [[rng.randrange(made.vocab_size + 4) for _ in range(12)] for _ in range(40)]
    ids += [[100, 101, 1, 102], [], [0, 0, 100]]
    return {
        "vocab_size": made.vocab_size,
        "encoded": [made.encode(text) for text in TEXTS],
        "ids": ids,
        "texts": [made.decode(one) for one in ids],
    }


CONVERTERS = {
    "LMFeatureConverter": [{}, {"bos_id": 5}],
    "EncDecFeatureConverter": [{}, {"bos_id": 5}],
    "PrefixLMFeatureConverter": [{}, {"loss_on_targets_only": False}, {"bos_id": 5}],
    "EncoderFeatureConverter": [{"mask_id": 9}],
    "DecoderFeatureConverter": [{}, {"loss_on_targets_only": False}],
}


def converters() -> list[dict[str, object]]:
    """What seqio's feature converters make of random examples."""
    rng, recorded = random.Random(2), []
    for name, options in CONVERTERS.items():
        for option in options:
            for pack in (True, False):
                for case in range(3):
                    lengths = {"inputs": rng.randrange(4, 12), "targets": rng.randrange(4, 12)}
                    if name == "EncoderFeatureConverter":
                        lengths["targets"] = lengths["inputs"]
                    examples = [example(name, lengths, rng) for _ in range((25, 9, 1)[case])]
                    if name == "LMFeatureConverter":
                        lengths.pop("inputs")
                    made = converted(name, {"pack": pack, **option}, examples, lengths)
                    recorded.append({
                        "converter": name, "options": {"pack": pack, **option},
                        "lengths": lengths, "examples": examples, **made,
                    })  # fmt: skip
    return recorded


def example(name: str, lengths: dict[str, int], rng: random.Random) -> dict[str, list[int]]:
    """One example; an empty prefix now and then."""
    draw = lambda most, least: [rng.randrange(2, 30) for _ in range(rng.randrange(least, most))]
    inputs = draw(lengths["inputs"], 0 if name == "PrefixLMFeatureConverter" else 1)
    targets = [*draw(lengths["targets"], 0), 1]
    if name == "LMFeatureConverter":
        return {"targets": targets}
    if name == "EncoderFeatureConverter":
        inputs = [rng.choice([9, one]) for one in inputs]
        return {"inputs": inputs, "targets": [rng.randrange(2, 30) for _ in inputs]}
    return {"inputs": inputs, "targets": targets}


def converted(
    name: str,
    options: dict[str, object],
    examples: list[dict[str, list[int]]],
    lengths: dict[str, int],
) -> dict[str, object]:
    """Elements and lengths that a converter of seqio makes."""
    spec = {key: tf.TensorSpec([None], tf.int32) for key in examples[0]}
    dataset = tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=spec)
    converter = getattr(seqio, name)(**options)
    made = [{k: v.tolist() for k, v in e.items()} for e in
            converter(dataset, lengths).as_numpy_iterator()]  # fmt: skip
    return {"made": made, "model_lengths": dict(converter.get_model_feature_lengths(lengths))}


PAIRS = [{"en": text, "de": text[::-1]} for text in TEXT.split("\n")] + [{"en": "", "de": "x"}]
STEPS = {
    "tokenize": ["tokenize"],
    "append_eos": ["tokenize", "append_eos"],
    "append_eos_after_trim": ["tokenize", "append_eos_after_trim"],
    "tokenize_and_append_eos": ["tokenize_and_append_eos"],
}


def tasks() -> dict[str, object]:
    """What tasks of seqio deliver, and mixing rates of their sizes."""
    rows = {key: [one[key] for one in PAIRS] for key in PAIRS[0]}
    read = lambda split, shuffle_files, seed=None: tf.data.Dataset.from_tensor_slices(rows)
    source = seqio.FunctionDataSource(read, ["train"], num_input_examples={"train": len(PAIRS)})
    rekey = functools.partial(seqio.preprocessors.rekey, key_map={"inputs": "en", "targets": "de"})
    vocabularies = [seqio.ByteVocabulary(), seqio.SentencePieceVocabulary(f"{DATA}/bpe.model")]
    recorded = []
    for name, steps in STEPS.items():
        for number, vocabulary in enumerate(vocabularies):
            features = {
                "inputs": seqio.Feature(vocabulary, add_eos=False),
                "targets": seqio.Feature(vocabulary),
            }
            listed = [rekey, *(getattr(seqio.preprocessors, step) for step in steps)]
            task = seqio.Task(f"{name}_{number}", source, features, listed)
            for lengths in (None, {"inputs": 12, "targets": 9}):
                elements = task.get_dataset(lengths, "train", shuffle=False).as_numpy_iterator()
                recorded.append({
                    "steps": steps, "vocabulary": number, "lengths": lengths,
                    "made": [{k: plain(v) for k, v in one.items()} for one in elements],
                })  # fmt: skip
    options = [{}, {"maximum": 5}, {"scale": 3.0, "temperature": 2.0, "maximum": 10}]
    rates = [seqio.mixing_rate_num_examples(task, **option) for option in options]
    return {"pairs": PAIRS, "tasks": recorded, "options": options, "rates": rates}


def plain(value: object) -> object:
    """A value as JSON can hold it."""
    return value.decode() if isinstance(value, bytes) else value.tolist()


def main() -> None:
    """Write all of them."""
    DATA.mkdir(exist_ok=True)
    text = json.dumps(converters(), separators=(",", ":"))
    (DATA / "converters.json").write_text(text + "\n")
    (DATA / "tasks.json").write_text(json.dumps(tasks(), separators=(",", ":")) + "\n")
    recorded = {"byte": byte_vocabulary(), "sentencepiece": vocabularies()}
    text = json.dumps(recorded, ensure_ascii=True, separators=(",", ":"))
    (DATA / "vocabularies.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
