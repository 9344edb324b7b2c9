"""Metrics: values as NumPy computes them, whatever the batches, devices and transformations."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.linen import struct
from weft.train import metrics

ROOT = Path(__file__).resolve().parents[2]
DRAW = np.random.RandomState(0)
LOGITS = DRAW.standard_normal((4, 25, 3)).astype(np.float32)
LABELS = DRAW.randint(0, 3, (4, 25))
MASK = DRAW.rand(4, 25) < 0.7
LOSS = (1e4 + DRAW.standard_normal((4, 25))).astype(np.float32)

All = metrics.Collection.create(
    loss=metrics.Average.from_output("loss"),
    spread=metrics.Std.from_output("loss"),
    last=metrics.LastValue.from_output("loss"),
    accuracy=metrics.Accuracy,
    perplexity=metrics.Perplexity,
    precision=metrics.Precision.of(3),
    recall=metrics.Recall.of(3, "weighted"),
    f1=metrics.F1.of(3, "micro"),
    auc=metrics.AUC.from_fun(lambda logits, labels, mask=None, **_: {
        "logits": logits[..., 1], "labels": labels == 1, "mask": mask}),
    seen=metrics.Histogram.over(-3, 3, 6).from_output("logits"),
)  # fmt: skip


def batch(i, masked=True):
    made = {"loss": LOSS[i], "logits": LOGITS[i], "labels": LABELS[i]}
    return {**made, "mask": MASK[i]} if masked else made


def expected(masked=True):
    """All of it at once, in float64."""
    mask = MASK if masked else np.ones_like(MASK)
    loss, logits, labels = LOSS[mask].astype(float), LOGITS[mask].astype(float), LABELS[mask]
    said, classes = logits.argmax(-1), range(3)
    hits = np.array([((said == c) & (labels == c)).sum() for c in classes])
    of_class = np.array([(labels == c).sum() for c in classes])
    predicted = np.array([(said == c).sum() for c in classes])
    likely = np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(labels)), labels]
    last = LOSS[3][mask[3]].astype(float)
    positive, negative = logits[labels == 1, 1], logits[labels != 1, 1]
    pairs = np.sign(positive[:, None] - negative[None]) / 2 + 0.5
    counts = np.histogram(np.clip(logits, -2.999, 2.999), 6, (-3, 3))[0]
    return {
        "loss": loss.mean(), "spread": loss.std(), "last": last.mean(),
        "accuracy": (said == labels).mean(), "perplexity": np.exp(likely.mean()),
        "precision": (hits / predicted).mean(),
        "recall": (hits / of_class * of_class).sum() / of_class.sum(),
        "f1": (said == labels).mean(), "auc": pairs.mean(), "seen": counts,
    }  # fmt: skip


def check(found, masked=True):
    wanted = expected(masked)
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        value = value[0] if name == "seen" else value
        # bins; and float32 around 10,000, where sums of squares would have no digit right
        tolerance = {"auc": 2e-3, "spread": 3e-4}.get(name, 2e-5)
        np.testing.assert_allclose(value, wanted[name], rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("masked", [True, False])
def test_merged_over_steps(masked):
    step = weft.jit(lambda state, **outputs: state.merge(All.single_from_model_output(**outputs)))
    state = All.empty()
    for i in range(4):
        state = step(state, **batch(i, masked))
    check(state.compute(), masked)


def test_in_a_scan():
    stacked = {name: np.stack([batch(i)[name] for i in range(4)]) for name in batch(0)}
    body = lambda state, one: (state.merge(All.single_from_model_output(**one)), None)
    check(weft.jit(lambda xs: lax.scan(body, All.empty(), xs)[0])(stacked).compute())


def test_reduced_from_a_mapped_axis():
    stacked = {name: np.stack([batch(i)[name] for i in range(4)]) for name in batch(0)}
    mapped = weft.vmap(lambda one: All.single_from_model_output(**one))(stacked)
    check(mapped.reduce().compute())
    gathered = weft.vmap(
        lambda one: All.gather_from_model_output(axis_name="i", **one), axis_name="i"
    )(stacked)
    check(gathered.unreplicate().compute())


ON_DEVICES = """
import weft, numpy as np
from tests.train import test_metrics as t
assert weft.device_count() == 4
stacked = {name: np.stack([t.batch(i)[name] for i in range(4)]) for name in t.batch(0)}
one = lambda xs: t.All.gather_from_model_output(axis_name="d", **xs)
t.check(weft.pmap(one, axis_name="d")(stacked).unreplicate().compute())
mesh = weft.sharding.Mesh(np.array(weft.devices()), ("d",))
put = lambda x: weft.device_put(x.reshape(-1, *x.shape[2:]), weft.NamedSharding(mesh, weft.P("d")))
whole = weft.jit(lambda xs: t.All.single_from_model_output(**xs))(weft.tree.map(put, stacked))
found = whole.compute()
found["last"] = t.expected()["last"]  # of the one batch that this is, not of its last quarter
t.check(found)
print("equal")
"""


def test_over_four_devices():
    environment = dict(os.environ, WEFT_NUM_CPU_DEVICES="4")
    command = [sys.executable, "-c", ON_DEVICES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.stdout == "equal\n", done.stderr


def test_a_collection_as_a_class():
    @struct.dataclass
    class Mine(metrics.Collection):
        loss: metrics.Average.from_output("loss")
        accuracy: metrics.Accuracy

    state = Mine.single_from_model_output(**batch(0))
    assert state.loss.compute() == state.compute()["loss"] and list(state.compute()) == [
        "loss", "accuracy",
    ]  # fmt: skip
    same = metrics.Collection.create_collection(loss=state.loss)
    assert same.merge(same).compute()["loss"] == state.loss.compute()


def test_a_metric_of_ones_own():
    @struct.dataclass
    class Largest(metrics.Metric):
        value: object

        @classmethod
        def empty(cls):
            return cls(value=-jnp.inf)

        @classmethod
        def from_model_output(cls, values, **_):
            return cls(value=jnp.max(values))

        def merge(self, other):
            return type(self)(value=jnp.maximum(self.value, other.value))

        def compute(self):
            return self.value

    Both = metrics.Collection.create(largest=Largest.from_output("loss"))
    parts = [Both.single_from_model_output(**batch(i)) for i in range(4)]
    assert metrics.over_steps([Both.empty(), *parts]).compute()["largest"] == LOSS.max()


def test_empty_changes_nothing():
    state = All.single_from_model_output(**batch(0))
    for one in (All.empty().merge(state), state.merge(All.empty())):
        weft.tree.map(np.testing.assert_allclose, one, state)
    assert np.isnan(All.empty().compute()["loss"])


def test_collected_outputs():
    Kept = metrics.CollectingMetric.from_outputs(("labels", "loss"))
    state = Kept.empty()
    for i in range(4):
        state = state.merge(Kept.from_model_output(**batch(i)))
    found = state.compute()
    assert found.keys() == {"labels", "loss"}
    np.testing.assert_array_equal(found["labels"], LABELS.reshape(-1))
    stacked = Kept.from_model_output(labels=LABELS, loss=LOSS)
    np.testing.assert_array_equal(stacked.reduce().compute()["loss"], LOSS.reshape(-1))


def test_images_are_of_the_last_batch():
    one, two = (metrics.Images.from_model_output(jnp.full((2, 3, 3, 1), x)) for x in (1, 2))
    assert metrics.Images.empty().merge(one).merge(two).compute().max() == 2
    assert one.merge(metrics.Images.empty()).compute().shape == (2, 3, 3, 1)


def test_exact_auc():
    scores, labels = DRAW.randint(0, 20, 200) / 20, DRAW.randint(0, 2, 200)
    pairs = np.sign(scores[labels == 1][:, None] - scores[labels == 0][None]) / 2 + 0.5
    np.testing.assert_allclose(weft.jit(metrics.roc_auc)(scores, labels), pairs.mean(), rtol=1e-5)


def test_binary_counts():
    logits, labels = jnp.array([1.0, -1, 2, -2, 3]), jnp.array([1, 1, 0, 0, 1])
    use = lambda metric: float(metric.from_model_output(logits=logits, labels=labels).compute())
    assert [round(use(m), 4) for m in (metrics.Precision, metrics.Recall, metrics.F1)] == [
        0.6667, 0.6667, 0.6667,
    ]  # fmt: skip
    nothing = metrics.F1.from_model_output(predictions=jnp.zeros(3), labels=jnp.zeros(3, int))
    assert nothing.compute() == 0


@pytest.mark.parametrize(
    ("predictions", "references", "smooth", "score"),
    [  # by hand, from counts of n-grams
        (["the cat sat on the mat"], [["the cat sat on the mat"]], False, 1.0),
        (["the the the the"], [["the cat is on the mat"]], False, 0.0),
        (["a b c d"], [["a b c d e f g h"]], False, np.exp(1 - 2)),
        (["a b c d e"], [["a b c x e", "y b c d e"]], False, (4 / 4 * 3 / 3 * 1 / 2) ** 0.25),
        (["a b x d e f"], [["a b c d e f"]], True, (5 / 6 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25),
        ([["a", "b"], []], [[["a", "b"]], ["c"]], True, np.exp(1 - 3 / 2)),
        ([], [], False, 0.0),
    ],
)
def test_bleu(predictions, references, smooth, score):
    assert metrics.corpus_bleu(predictions, references, smooth=smooth) == pytest.approx(score)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.Accuracy.from_model_output(logits=LABELS, labels=LABELS),
            "integer labels",
        ),
        (lambda: metrics.Average.from_model_output(LOSS, mask=MASK[:3]), "does not fit"),
        (lambda: metrics.F1.of(3, "mean"), "write one of"),
        (lambda: metrics.F1.from_model_output(logits=LOSS[0], labels=LABELS), "do not fit"),
        (lambda: metrics.Histogram.over(1, 0), "low < high"),
        (lambda: metrics.Images.from_model_output(LOSS), "height, width"),
        (lambda: metrics.Collection.empty(), "struct.dataclass"),
        (lambda: metrics.Metric.empty(), "must define empty"),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
