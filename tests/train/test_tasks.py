"""Tasks: preprocessing, mixtures, caches, evaluation, and tasks of seqio."""

import functools
import itertools
import json
import logging
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.train import data, tasks, vocabularies, writers
from weft.train.data import pickling
from weft.train.tasks import preprocessors
from weft.train.tasks.preprocessors import corrupt_spans, random_spans_noise_mask

BYTES = vocabularies.ByteVocabulary(extra_ids=100)
FEATURES = {name: tasks.Feature(BYTES) for name in ("inputs", "targets")}
TEXT_FEATURES = {"inputs": tasks.Feature(BYTES, required=False), "targets": tasks.Feature(BYTES)}
PAIRS = [{"en": word * 3, "de": word.upper()} for word in ("yes", "no", "maybe", "never", "often")]
REKEY = functools.partial(preprocessors.rekey, key_map={"inputs": "en", "targets": "de"})


def translate(**options):
    steps = [REKEY, preprocessors.tokenize, preprocessors.append_eos]
    given = {"source": {"train": PAIRS, "validation": PAIRS[:3]}, "preprocessors": steps}
    return tasks.Task(options.pop("name", "translate"), output_features=FEATURES, **given | options)


def plain(elements):
    return [{k: np.asarray(v).tolist() for k, v in one.items()} for one in elements]


def text_task(name="text", count=40, seed=0, **options):
    rng = np.random.RandomState(seed)
    texts = [{"targets": "".join(rng.choice(list("abcdefgh "), 60))} for _ in range(count)]
    return tasks.Task(name, {"train": texts}, TEXT_FEATURES, **options)


def test_a_task_delivers_its_features():
    elements = list(translate().get_dataset(shuffle=False))
    assert [one["inputs_pretokenized"] for one in elements] == [one["en"] for one in PAIRS]
    for one in elements:
        assert one["targets"].dtype == np.int32 and one["targets"][-1] == BYTES.eos_id
        assert BYTES.decode(one["inputs"]) == one["inputs_pretokenized"]
    trimmed = list(translate().get_dataset({"inputs": 4, "targets": 2}, shuffle=False))
    assert {(len(one["inputs"]), len(one["targets"])) for one in trimmed} == {(4, 2)}
    assert translate().splits == ("train", "validation")
    assert translate().num_examples("validation") == 3


SEQIO = Path(__file__).parent / "data" / "seqio"
RECORDED = json.loads((SEQIO / "tasks.json").read_text())


@pytest.mark.parametrize("number", range(len(RECORDED["tasks"])))
def test_elements_are_those_of_seqio(number):
    case = RECORDED["tasks"][number]
    sentencepiece = lambda: vocabularies.SentencePieceVocabulary(SEQIO / "bpe.model")
    vocabulary = sentencepiece() if case["vocabulary"] else vocabularies.ByteVocabulary()
    features = {
        "inputs": tasks.Feature(vocabulary, add_eos=False),
        "targets": tasks.Feature(vocabulary),
    }
    steps = [REKEY, *(getattr(preprocessors, step) for step in case["steps"])]
    task = tasks.Task("recorded", {"train": RECORDED["pairs"]}, features, steps)
    assert plain(task.get_dataset(case["lengths"], shuffle=False)) == case["made"]


def test_rates_by_size_are_those_of_seqio():
    task = tasks.Task("recorded", {"train": RECORDED["pairs"]}, {})
    found = [tasks.rate_num_examples(**options)(task) for options in RECORDED["options"]]
    assert found == RECORDED["rates"]


def test_eos_after_trim():
    steps = [REKEY, preprocessors.tokenize, preprocessors.append_eos_after_trim]
    task = translate(preprocessors=steps)
    for one in task.get_dataset({"inputs": 4, "targets": 3}, shuffle=False):
        assert one["inputs"][-1] == one["targets"][-1] == BYTES.eos_id
        assert len(one["inputs"]) <= 4 and len(one["targets"]) <= 3


def test_seeds_and_epochs_decide_the_order():
    task = text_task(preprocessors=[preprocessors.tokenize])
    read = lambda **options: plain(task.get_dataset(**options))
    assert read(seed=1) == read(seed=1) != read(seed=2)
    twice = read(seed=1, num_epochs=2)
    assert twice[:40] == read(seed=1) and twice[40:] != twice[:40]
    key = lambda one: one["targets_pretokenized"]
    assert sorted(map(key, twice[40:])) == sorted(map(key, twice[:40]))
    parts = [plain(task.get_dataset(shard=(i, 3), shuffle=False)) for i in range(3)]
    assert sorted(map(key, itertools.chain(*parts))) == sorted(map(key, twice[:40]))


STEPS = {
    "span_corruption": [preprocessors.tokenize, preprocessors.span_corruption],
    "prefix_lm": [preprocessors.tokenize, preprocessors.prefix_lm],
    "split": [
        preprocessors.tokenize,
        functools.partial(
            preprocessors.split_tokens, max_tokens_per_segment=9, min_tokens_per_segment=3
        ),
    ],
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("taken", [0, 1, 7, 30])
def test_random_preprocessing_resumes_exactly(name, taken):
    steps = [*STEPS[name], preprocessors.append_eos]
    task = text_task(preprocessors=steps)
    dataset = task.get_dataset({"inputs": 30, "targets": 20}, seed=3, num_epochs=2)
    wanted = plain(dataset)
    assert len(wanted) > 40
    first = iter(dataset)
    for _ in range(taken):
        next(first)
    second = iter(task.get_dataset({"inputs": 30, "targets": 20}, seed=3, num_epochs=2))
    second.restore(json.loads(json.dumps(first.state())))
    assert plain(second) == wanted[taken:]


@pytest.mark.parametrize("seed", range(5))
def test_span_corruption_loses_nothing(seed):
    task = text_task(preprocessors=STEPS["span_corruption"], seed=seed)
    lengths = {"inputs": 64, "targets": 30}
    made = list(task.get_dataset(lengths, shuffle=False, seed=seed))
    tokens, target_length = preprocessors.random_spans_lengths(64)
    restored = []
    for at, one in enumerate(made):
        spans, inputs, targets = {}, one["inputs"].tolist(), one["targets"].tolist()
        for token in targets:
            if token >= BYTES.base_vocab_size:
                spans[last := token] = []
            else:
                spans[last].append(token)
        assert list(spans) == [BYTES.sentinel_id(n) for n in range(len(spans))]
        ids = [y for x in inputs for y in (spans.pop(x) if x in spans else [x])]
        assert not spans
        restored += ids
        if at + 1 < len(made):
            assert (
                len(ids) == tokens and len(inputs) + 1 == 64 and len(targets) + 1 == target_length
            )
    whole = "".join(one["targets"] for one in task.source.dataset("train"))
    assert BYTES.decode(restored) == whole


@pytest.mark.parametrize("length", [1, 2, 3, 10, 100, 568])
def test_noise_has_a_fixed_amount(length):
    for seed in range(20):
        mask = random_spans_noise_mask(length, np.random.default_rng(seed))
        assert len(mask) == length and not mask[0]
        if length > 1:
            noise = min(max(round(length * 0.15), 1), length - 1)
            starts = (mask[1:] & ~mask[:-1]).sum()
            assert mask.sum() == noise and starts == max(1, round(noise / 3))
    # Raffel et al. 2020: 512 inputs hold 568 tokens and need 114 targets
    assert preprocessors.random_spans_lengths(512) == (568, 114)


def test_corrupt_spans_by_hand():
    # the example in figure 2 of Raffel et al. 2020, as numbers
    ids = np.array([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    noise = np.isin(ids, [12, 13, 18])
    inputs, targets = corrupt_spans(ids, noise, lambda number: 99 - number)
    assert inputs.tolist() == [10, 11, 99, 14, 15, 16, 17, 98, 19]
    assert targets.tolist() == [99, 12, 13, 98, 18, 97]


def test_prefix_lm_and_chunks():
    task = text_task(preprocessors=[*STEPS["prefix_lm"], preprocessors.append_eos])
    lengths = {"inputs": 30, "targets": 20}
    made = list(task.get_dataset(lengths, shuffle=False))
    ids = []
    for one in made:
        assert 0 < len(one["inputs"]) <= 30 and 0 < len(one["targets"]) <= 20
        ids += [*one["inputs"][:-1], *one["targets"][:-1]]
    assert BYTES.decode(ids) == "".join(x["targets"] for x in task.source.dataset("train"))
    assert len({len(one["inputs"]) for one in made}) > 3
    numbers = data.source([{"targets": np.arange(10)}, {"targets": np.arange(0)}] * 50)
    chunks = list(preprocessors.select_random_chunk(numbers, 4, seed=1))
    assert {tuple(one["targets"]) for one in chunks} == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)}
    assert len(chunks) == 50


def test_own_preprocessors():
    @tasks.map_over_dataset
    def lengths(element, sequence_length):
        return {**element, "limit": sequence_length["targets"]}

    @tasks.map_over_dataset(random=True)
    def draw(element, rng):
        return {**element, "draw": rng.random()}

    task = translate(preprocessors=[REKEY, preprocessors.tokenize, lengths, draw])
    made = list(task.get_dataset({"inputs": 9, "targets": 7}, shuffle=False))
    assert {one["limit"] for one in made} == {7}
    assert len({one["draw"] for one in made}) == 5
    assert (
        made[0]["draw"]
        == next(iter(task.get_dataset({"inputs": 9, "targets": 7}, shuffle=False)))["draw"]
    )
    broken = translate(preprocessors=[lambda dataset: 3])
    with pytest.raises(
        tasks.TaskError, match=r"returned int, not a data set; decorate\s.*map_over_dataset"
    ):
        broken.get_dataset()


def test_errors_name_task_and_feature():
    with pytest.raises(
        tasks.TaskError, match="task 'translate' has no feature 'inputs', only 'en'"
    ):
        next(iter(translate(preprocessors=[]).get_dataset(shuffle=False)))
    with pytest.raises(tasks.TaskError, match="'inputs' of task 'translate' has 0 axes"):
        next(iter(translate(preprocessors=[REKEY]).get_dataset(shuffle=False)))
    with pytest.raises(tasks.TaskError, match="no split 'test', only train, validation"):
        translate().get_dataset(split="test")
    with pytest.raises(tasks.TaskError, match="valid task name"):
        translate(name="a/../b")
    with pytest.raises(tasks.TaskError, match="needs sequence_length="):
        text_task(preprocessors=STEPS["span_corruption"]).get_dataset()
    with pytest.raises(tasks.TaskError, match=r"targets of length \d+, more than 5"):
        text_task(preprocessors=STEPS["span_corruption"]).get_dataset({"inputs": 64, "targets": 5})
    with pytest.raises(TypeError, match="must be a Feature"):
        tasks.Task("x", {"train": []}, {"targets": BYTES})
    with pytest.raises(TypeError, match="needs splits="):
        tasks.Source(lambda split: [])
    few = {n: tasks.Feature(vocabularies.ByteVocabulary(2)) for n in ("inputs", "targets")}
    lacking = tasks.Task("x", {"train": []}, few, STEPS["span_corruption"])
    with pytest.raises(tasks.TaskError, match="the vocabulary has 2 extra ids"):
        lacking.get_dataset({"inputs": 64, "targets": 64})


def test_registry():
    task = tasks.add(translate(name="kept"))
    try:
        assert tasks.get("kept") is task and "kept" in tasks.names()
        with pytest.raises(tasks.TaskError, match="'kept' already exists"):
            tasks.add(translate(name="kept"))
        mixture = tasks.Mixture("mixed", ["kept"], default_rate=1.0)
        assert mixture.tasks == (task,)
    finally:
        tasks.remove("kept")
    with pytest.raises(tasks.TaskError, match="no task or mixture 'kept'"):
        tasks.get("kept")
    with pytest.raises(TypeError, match="only tasks and mixtures"):
        tasks.add("kept")


def test_mixtures_keep_rates():
    make = lambda name, size: tasks.Task(name, {"train": [{"name": name}] * size}, {})
    one, two, three = make("one", 10), make("two", 40), make("three", 1000)
    mixture = tasks.Mixture("all", [(one, 1), (two, 2), (three, lambda task: 5)])
    names = [e["name"] for e in mixture.get_dataset(shuffle=False).take(800)]
    assert [names.count(name) for name in ("one", "two", "three")] == [100, 200, 500]
    rate = tasks.rate_num_examples(temperature=2.0, maximum=90, scale=10)
    assert [rate(task) for task in (one, two, three)] == [90**0.5, 90**0.5, 90**0.5]
    sized = tasks.Mixture("sized", [one, two], default_rate=tasks.rate_num_examples())
    assert sized.rates == {"one": 10.0, "two": 40.0}
    nested = tasks.Mixture("nested", [(sized, 1), (three, 1)])
    assert nested.rates == {"one": 0.2, "two": 0.8, "three": 1.0}
    once = [e["name"] for e in sized.get_dataset(num_epochs=1)]
    assert (once.count("one"), once.count("two")) == (10, 40)
    for bad in (0, -1, float("nan")):
        with pytest.raises(tasks.TaskError, match="must be positive"):
            tasks.Mixture("bad", [(one, bad)])
    other = tasks.Task("o", {"train": []}, {"x": tasks.Feature(vocabularies.ByteVocabulary(1))})
    same = tasks.Task("s", {"train": []}, {"x": tasks.Feature(vocabularies.ByteVocabulary(2))})
    with pytest.raises(tasks.TaskError, match="different vocabularies for 'x'"):
        tasks.Mixture("bad", [(other, 1), (same, 1)])


def test_workers_deliver_the_same():
    task = text_task(preprocessors=[*STEPS["span_corruption"], preprocessors.append_eos])
    lengths = {"inputs": 30, "targets": 20}
    mixture = tasks.Mixture("mixed", [(task, 1)]).get_dataset(lengths, num_epochs=1)
    packed = tasks.EncDecFeatureConverter()(mixture, lengths).batch(4, drop_remainder=True)
    with packed.iterator(workers=2, threads=True) as elements:
        found = plain(elements)
    assert len(found) > 5 and found == plain(packed)
    sent, buffers = pickling.dumps(packed._node)  # as for worker processes
    copy = pickle.loads(sent, buffers=buffers)
    assert plain(data.Dataset(copy)) == found


def test_mixtures_resume_exactly():
    steps = [preprocessors.tokenize, preprocessors.span_corruption]
    parts = [text_task(f"t{n}", 30, n, preprocessors=steps) for n in range(3)]
    mixture = tasks.Mixture("mixed", [(part, at + 1) for at, part in enumerate(parts)])
    dataset = mixture.get_dataset({"inputs": 30, "targets": 20}, seed=5)
    wanted = plain(dataset.take(60))
    first = iter(dataset)
    for _ in range(23):
        next(first)
    second = iter(mixture.get_dataset({"inputs": 30, "targets": 20}, seed=5))
    second.restore(first.state())
    assert plain([next(second) for _ in range(37)]) == wanted[23:]


def cached(folder, **options):
    return translate(cache_dir=folder, **options)


def test_caches_hold_the_same_elements(tmp_path):
    task = cached(tmp_path)
    with pytest.raises(tasks.TaskError, match=r"has no cache in .*; call task.cache\(\) first"):
        task.get_dataset(use_cached=True)
    assert task.cache() == {"train": 5, "validation": 3}
    for options in ({"shuffle": False}, {"seed": 4}, {"shuffle": False, "shard": (1, 2)}):
        read = lambda one, **given: plain(one.get_dataset(**given))
        assert read(task, use_cached=True, **options) == read(task, **options)
    first = next(iter(task.get_dataset(use_cached=True, shuffle=False)))
    assert isinstance(first["inputs_pretokenized"], str) and first["inputs"].dtype == np.int32
    folders = sorted(one.name for one in (tmp_path / "translate").iterdir())
    assert folders == ["train", "validation"]


def test_a_cache_holds_all_kinds(tmp_path):
    rows = [
        {"text": "é", "raw": b"\xff", "count": 3, "share": 0.5, "flag": True,
         "single": np.float32(1.5), "grid": np.arange(4.0).reshape(2, 2), "none": []},
        {"text": "", "raw": b"", "count": -1, "share": 2.0, "flag": False,
         "single": np.float32(2.5), "grid": np.zeros((0, 2)), "none": []},
    ]  # fmt: skip
    task = tasks.Task("kinds", {"train": rows}, {}, cache_dir=tmp_path)
    assert task.cache() == {"train": 2}
    for found, wanted in zip(task.get_dataset(use_cached=True, shuffle=False), rows, strict=True):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            kind = np.ndarray if isinstance(value, list) else type(value)
            assert type(found[name]) is kind
            np.testing.assert_array_equal(found[name], value)
    empty = tasks.Task("empty", {"train": []}, {}, cache_dir=tmp_path)
    assert empty.cache() == {"train": 0} and not list(empty.get_dataset(use_cached=True))
    mixed = tasks.Task("mixed", {"train": [{"x": 1}, {"x": "a"}]}, {}, cache_dir=tmp_path)
    with pytest.raises(tasks.TaskError, match="'x' of element 1 is text"):
        mixed.cache()
    assert sorted(x.name for x in tmp_path.rglob("*") if x.name.startswith(".")) == []


def double(element, factor=2):
    return {**element, "de": element["de"] * factor}


def triple(element, factor=3):
    return {**element, "de": element["de"] * factor}


def test_stale_caches_are_refused_and_rebuilt(tmp_path, caplog):
    step = lambda function: [tasks.map_over_dataset(function), REKEY, preprocessors.tokenize]
    cached(tmp_path, preprocessors=step(double)).cache(["train"])
    changes = {
        "preprocessor double": {"preprocessors": step(functools.wraps(double)(lambda e: e))},
        "the list of preprocessors": {"preprocessors": step(triple)},
        "the source": {
            "preprocessors": step(double),
            "source": {"train": [*PAIRS[:-1], {"en": "x", "de": "y"}]},
        },
    }
    for what, options in changes.items():
        task = cached(tmp_path, **options)
        with pytest.raises(tasks.TaskError, match=f"out of date: {what} changed"):
            task.get_dataset(use_cached=True)
    task.output_features = {"targets": tasks.Feature(BYTES, add_eos=False)}
    with pytest.raises(tasks.TaskError, match="the source and the output features changed"):
        task.get_dataset(use_cached=True)
    with caplog.at_level(logging.WARNING, "weft.train.tasks"):
        task.cache(["train"])
    assert "the source and the output features changed" in caplog.text
    assert len(list(task.get_dataset(use_cached=True))) == 5
    caplog.clear()
    task.cache(["train"])
    assert not caplog.text


def test_fingerprints_are_the_same_in_every_process():
    code = (
        "import functools; from weft.train import tasks, vocabularies as v;"
        "f = lambda x: x in {'a', 'b', 'c', 'd'} and {1: x};"
        "g = functools.partial(tasks.preprocessors.rekey, key_map={'a': 'b'});"
        "print(tasks.fingerprint([f, g, tasks.Feature(v.ByteVocabulary(2)), 0.1, None]))"
    )
    run = lambda: (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )
    assert run() == run()
    offset = 1
    one, two = (lambda x: x + offset), (lambda x: x + offset)
    before = tasks.fingerprint(one)
    assert before == tasks.fingerprint(two)
    offset = 2
    assert before != tasks.fingerprint(one)


def test_damaged_caches_are_refused(tmp_path):
    task = cached(tmp_path)
    task.cache(["train"])
    folder = tmp_path / "translate" / "train"
    for path in sorted(folder.iterdir()):
        good = path.read_bytes()
        assert good
        for bad in (good[:-1], good[:-1] + bytes([good[-1] ^ 1]), b""):
            path.write_bytes(bad)
            with pytest.raises(tasks.TaskError, match="damaged"):
                task.get_dataset(use_cached=True)
        path.write_bytes(good)
    (folder / "0.values").unlink()
    with pytest.raises(tasks.TaskError, match="damaged"):
        task.get_dataset(use_cached=True)
    task.cache(["train"], rebuild=True)
    assert len(list(task.get_dataset(use_cached=True))) == 5


CALLS = []


def test_what_is_behind_the_cache_point_runs_every_time(tmp_path):
    @tasks.map_over_dataset
    def count(element):
        CALLS.append(1)
        return element

    steps = [preprocessors.tokenize, count, tasks.CachePoint(), preprocessors.span_corruption]
    task = text_task(preprocessors=steps, cache_dir=tmp_path)
    task.cache()
    called = len(CALLS)
    lengths = {"inputs": 30, "targets": 20}
    read = lambda **options: plain(task.get_dataset(lengths, **options))
    one, two = read(use_cached=True, seed=1), read(use_cached=True, seed=2)
    assert one != two and len(CALLS) == called
    assert one == read(seed=1)
    with pytest.raises(tasks.TaskError, match="has 2 cache points"):
        text_task(preprocessors=[tasks.CachePoint(), tasks.CachePoint()])


def copy_task(name="copy", **options):
    rows = [{"inputs": word, "targets": word} for word in ("ab", "c", "def", "ghij", "k")]
    steps = [preprocessors.tokenize_and_append_eos]
    given = {"metric_fns": [tasks.metrics.accuracy]} | options
    return tasks.Task(name, {"validation": rows}, FEATURES, steps, **given)


def test_evaluation(tmp_path):
    shapes = set()

    def predict(batch):
        shapes.add(batch["encoder_input_tokens"].shape)
        made = batch["encoder_input_tokens"].copy()
        made[made == BYTES.encode("c")[0]] = BYTES.encode("x")[0]
        return made, {"length": (made > 2).sum(1)}

    def longest(targets, predictions, aux_values):
        return {"longest": max(aux_values["length"]), "pairs": len(list(zip(targets, predictions)))}

    task = copy_task(
        metric_fns=[tasks.metrics.accuracy, longest, tasks.metrics.mean_score],
        postprocess_fn=lambda text, is_target: text.upper() if is_target else text.upper() + "",
    )
    writer = writers.JsonLinesWriter(tmp_path / "metrics.jsonl")
    converter = tasks.EncDecFeatureConverter(pack=False)
    evaluator = tasks.Evaluator(tasks.Mixture("m", [(task, 1)]), converter, 2, writer=writer)
    found = evaluator.evaluate(predict, lambda batch: batch["decoder_loss_weights"].sum(1), step=7)
    writer.close()
    wanted = {"accuracy": 0.8, "longest": 4, "pairs": 5, "mean_score": (3 + 2 + 4 + 5 + 2) / 5}
    assert found == {"copy": wanted}
    assert shapes == {(2, 5)}
    (line,) = writers.read_json_lines(tmp_path / "metrics.jsonl")
    assert line["step"] == 7 and line["values"]["copy/accuracy"] == 0.8


def test_evaluation_of_lengths_and_texts():
    converter = tasks.PrefixLMFeatureConverter(pack=False)
    lengths = {"inputs": 4, "targets": 4}
    evaluator = tasks.Evaluator(copy_task(), converter, 3, sequence_length=lengths, num_examples=2)
    assert evaluator.evaluate(lambda batch: ["ab", "c", ""]) == {"copy": {"accuracy": 1.0}}
    with pytest.raises(tasks.TaskError, match="returned 4 rows for a batch of 3"):
        evaluator.evaluate(lambda batch: ["ab"] * 4)
    encoder = tasks.EncDecFeatureConverter(pack=False, passthrough_features=["weights"])
    with pytest.raises(tasks.TaskError, match="needs the feature 'weights'"):
        tasks.Evaluator(copy_task(), encoder).evaluate(lambda batch: [])
    with pytest.raises(tasks.TaskError, match="pass predict_fn= to evaluate"):
        evaluator.evaluate()
    with pytest.raises(tasks.TaskError, match="pass pack=False"):
        tasks.Evaluator(copy_task(), tasks.LMFeatureConverter())
    with pytest.raises(tasks.TaskError, match="no task of 'copy' has metrics"):
        tasks.Evaluator(copy_task(metric_fns=[]), converter)
    with pytest.raises(TypeError, match=r"parameters \(x\)"):
        tasks.Evaluator(copy_task(metric_fns=[lambda x: {}]), converter).evaluate(lambda b: [])


def test_metrics_by_hand():
    metrics = tasks.metrics
    assert metrics.accuracy([1, [2, 3]], [1, [2, 4]]) == {"accuracy": 0.5}
    assert metrics.squad(["The cat!", ["a dog", "dogs"]], ["cat", "the dogs ran"]) == {
        "em": 0.5,
        "f1": (1 + 2 / 3) / 2,
    }
    assert metrics.squad([""], [""]) == {"em": 1.0, "f1": 1.0}
    assert metrics.bleu([["a b c d", "x"]], ["a b c d"]) == {"bleu": 1.0}
    assert metrics.bleu(["a b"], [""]) == {"bleu": 0.0}
    assert metrics.rouge([["x", "a b c"]], ["a c"])["rougeL"] == 0.8
    with pytest.raises(ValueError, match="1 targets and 2 predictions"):
        metrics.accuracy([1], [1, 2])


class StandInDataset(list):
    def as_numpy_iterator(self):
        return iter(self)


class StandInVocabulary:
    eos_id, unk_id, pad_id, extra_ids, vocab_size = 1, 2, 0, 0, 259

    def encode(self, text):
        return [value + 3 for value in text.encode()]

    def decode(self, ids):
        return bytes(one - 3 for one in ids if one > 2).decode()


class StandInTask:
    """Has the public attributes of a seqio task."""

    name, splits = "of/seqio", ("train", "validation")

    def __init__(self):
        feature = type("Feature", (), {
            "vocabulary": StandInVocabulary(), "add_eos": True, "required": True,
            "dtype": np.int32, "rank": 1,
        })  # fmt: skip
        self.output_features = {"inputs": feature(), "targets": feature()}
        self.metric_fns = [tasks.metrics.accuracy]
        self.postprocess_fn = lambda text, **_: text.strip()

    def get_dataset(self, sequence_length=None, split="train", shuffle=True):
        ids = np.array([*StandInVocabulary().encode(split), 1], np.int32)
        row = {"inputs": ids, "targets": ids, "targets_pretokenized": split.encode()}
        return StandInDataset([row] * 3)


def test_tasks_like_those_of_seqio():
    task = tasks.from_seqio(StandInTask())
    assert task.name == "of.seqio" and task.splits == ("train", "validation")
    (first, *_) = task.get_dataset()
    assert first["targets_pretokenized"] == "train" and first["targets"].dtype == np.int32
    evaluator = tasks.Evaluator(task, tasks.EncDecFeatureConverter(pack=False))
    assert evaluator.evaluate(lambda batch: batch["encoder_input_tokens"]) == {
        "of.seqio": {"accuracy": 1.0}
    }
    assert len(tasks.sample_seqio_task(StandInTask(), num_examples=2)) == 2
    with pytest.raises(TypeError, match="a seqio task: it has no name"):
        tasks.from_seqio(3)


def test_names_of_seqio_need_seqio(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqio", None)
    with pytest.raises(ImportError, match="pip install seqio"):
        tasks.from_seqio("some_task")


def test_a_real_task_of_seqio():
    seqio = pytest.importorskip("seqio", reason="seqio, which needs TensorFlow, is not installed")
    tf = sys.modules["tensorflow"]
    words = tf.data.Dataset.from_tensor_slices({"targets": ["ab", "c"], "inputs": ["x", "yz"]})
    made = seqio.Task(
        "weft_real_task",
        source=seqio.FunctionDataSource(lambda split, shuffle_files, seed=None: words, ["train"]),
        preprocessors=[seqio.preprocessors.tokenize, seqio.preprocessors.append_eos],
        output_features={n: seqio.Feature(seqio.ByteVocabulary()) for n in ("inputs", "targets")},
        metric_fns=[tasks.metrics.accuracy],
    )
    task = tasks.from_seqio(made)
    elements = list(task.get_dataset(shuffle=False))
    assert [one["targets"].tolist() for one in elements] == [[100, 101, 1], [102, 1]]
    assert [one["inputs_pretokenized"] for one in elements] == ["x", "yz"]
    evaluator = tasks.Evaluator(task, tasks.EncDecFeatureConverter(pack=False), split="train")
    found = evaluator.evaluate(lambda batch: batch["decoder_target_tokens"])
    assert found == {"weft_real_task": {"accuracy": 1.0}}


def test_docs_name_what_is_there():
    page = (Path(__file__).parents[2] / "docs" / "train.md").read_text()
    listed = [n for n in dir(tasks) if n.endswith("FeatureConverter") and n != "FeatureConverter"]
    assert all(name in page for name in listed)
