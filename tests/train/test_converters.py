"""Feature converters: equal to seqio's, and packed examples hold the same ids as padded ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from weft.train import data, tasks

RECORDED = json.loads((Path(__file__).parent / "data" / "seqio" / "converters.json").read_text())


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_equal_to_seqio(number):
    case = RECORDED[number]
    converter = getattr(tasks, case["converter"])(**case["options"])
    made = list(converter(data.source(case["examples"]), case["lengths"]))
    assert [{k: v.tolist() for k, v in one.items()} for one in made] == case["made"]
    assert all(v.dtype == np.int32 for one in made for v in one.values())
    assert converter.get_model_feature_lengths(case["lengths"]) == case["model_lengths"]


CONVERTERS = [
    (tasks.LMFeatureConverter, ["targets"]),
    (tasks.EncDecFeatureConverter, ["inputs", "targets"]),
    (tasks.PrefixLMFeatureConverter, ["inputs", "targets"]),
]


def random_examples(seed, names, longest):
    rng = np.random.RandomState(seed)
    ids = lambda: rng.randint(1, 50, rng.randint(0, longest + 1)).astype(np.int32)
    return [{name: ids() for name in names} for _ in range(rng.randint(1, 60))]


def segments_of(one, kind):
    ids, segments = one[f"{kind}_tokens"], one[f"{kind.split('_')[0]}_segment_ids"]
    return {n: ids[segments == n].tolist() for n in range(1, int(segments.max(initial=0)) + 1)}


@pytest.mark.parametrize(("converter", "names"), CONVERTERS)
@pytest.mark.parametrize("seed", range(4))
def test_packed_and_padded_hold_the_same_ids(converter, names, seed):
    examples = random_examples(seed, names, 9)
    lengths = dict.fromkeys(names, 20)
    padded = list(converter(pack=False)(data.source(examples), lengths))
    packed = list(converter(pack=True)(data.source(examples), lengths))
    assert len(padded) == len(examples) and len(packed) <= len(examples)
    for kind in ("decoder_target", "encoder_input"):
        if f"{kind}_tokens" not in padded[0]:
            continue
        plain = [one[f"{kind}_tokens"] for one in padded]
        wanted = [ids[ids != 0].tolist() for ids in plain]
        found = [x for one in packed for x in segments_of(one, kind).values()]
        assert [x for x in found if x] == [x for x in wanted if x]
    weight = lambda some: sum(one["decoder_loss_weights"].sum() for one in some)
    assert weight(packed) == weight(padded)


def test_empty_features_keep_their_segment():
    examples = [{"inputs": [5], "targets": []}, {"inputs": [6], "targets": [7, 1]}]
    one = next(
        iter(tasks.EncDecFeatureConverter()(data.source(examples), {"inputs": 4, "targets": 4}))
    )
    assert one["encoder_segment_ids"].tolist() == [1, 2, 0, 0]
    assert one["decoder_segment_ids"].tolist() == [2, 2, 0, 0]


def test_features_can_pass_through():
    examples = [{"targets": [3, 1], "weights": [9, 8]}, {"targets": [4, 1], "weights": [7]}]
    lengths = {"targets": 6, "weights": 6}
    converter = tasks.LMFeatureConverter(passthrough_features=["weights"])
    (one,) = converter(data.source(examples), lengths)
    assert one["weights"].tolist() == [9, 8, 7, 0, 0, 0]
    assert converter.get_model_feature_lengths(lengths)["weights"] == 6


@pytest.mark.parametrize("taken", range(7))
def test_packing_resumes_exactly(taken):
    examples = random_examples(3, ["targets"], 5) * 2
    packed = tasks.LMFeatureConverter()(data.source(examples).shuffle(1).repeat(2), {"targets": 8})
    wanted = [one["decoder_target_tokens"].tolist() for one in packed]
    first = iter(packed)
    for _ in range(taken):
        next(first)
    second = iter(packed)
    second.restore(json.loads(json.dumps(first.state())))
    assert [one["decoder_target_tokens"].tolist() for one in second] == wanted[taken:]


def test_errors_say_what_to_do():
    convert = tasks.EncDecFeatureConverter(pack=False)
    good = data.source([{"inputs": [1, 2], "targets": [3]}])
    with pytest.raises(
        tasks.TaskError, match="needs lengths of inputs, targets, and got those of x"
    ):
        convert(good, {"x": 3})
    with pytest.raises(tasks.TaskError, match="must be positive"):
        convert(good, {"inputs": 0, "targets": 3})
    with pytest.raises(
        tasks.TaskError, match="'inputs' has 2 ids, more than its length 1; trim it"
    ):
        next(iter(convert(good, {"inputs": 1, "targets": 3})))
    with pytest.raises(tasks.TaskError, match="needs the feature 'targets'"):
        next(iter(convert(data.source([{"inputs": [1]}]), {"inputs": 1, "targets": 3})))
    with pytest.raises(tasks.TaskError, match="sequence of ids, not <U1"):
        texts = data.source([{"inputs": "a", "targets": [1]}])
        next(iter(convert(texts, {"inputs": 1, "targets": 3})))
