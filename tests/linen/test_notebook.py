"""Modules and reports as notebooks show them."""

import re
from html.parser import HTMLParser

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft.base.notebook import folded


class Block(nn.Module):
    layers: tuple = (nn.Dense(3), nn.relu)

    def setup(self):
        self.first = nn.Dense(4)
        self.norm = nn.BatchNorm(use_running_average=True)

    def __call__(self, x):
        return self.norm(self.layers[0](self.first(x)))


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return Block()(nn.Dense(5, name="<in>")(x))


def shown(thing) -> str:
    """The text of a thing's HTML, whose tags all close."""
    text, open_tags = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_data(self, data):
            text.append(data)

    made = thing if isinstance(thing, str) else thing._repr_html_()
    Reader().feed(made)
    assert not open_tags
    return "\n".join(text)


def test_a_module_by_itself_shows_its_fields():
    text = shown(nn.Sequential([nn.Dense(3), nn.relu]))
    assert "layers_0: Dense" in text and "features = 3" in text and "layers_1 = relu" in text
    assert "parameters" not in text
    assert shown(Net()) == "Net"


def test_a_bound_module_shows_its_variables():
    variables = Net().init(weft.random.key(0), jnp.ones((2, 2)))
    text = shown(Net().bind(variables))
    assert "Net" in text and "<in>" in text and "float32[2,5]" in text
    count = sum(x.size for x in weft.tree.leaves(variables["params"]))
    assert f"{count} parameters, {4 * count} B" in text
    inner = {c: v["Block_0"] for c, v in variables.items()}
    text = shown(Block().bind(inner))
    assert "first: Dense" in text and "norm: BatchNorm" in text and "batch_stats" in text


def test_modules_below_the_first_are_folded():
    variables = Net().init(weft.random.key(0), jnp.ones((2, 2)))
    made = Net().bind(variables)._repr_html_()
    assert len(re.findall("<details open>", made)) == 1
    assert len(re.findall("<details>", made)) == 5


def test_an_explanation_folds_its_kernels():
    report = weft.explain(lambda x: jnp.exp(x - x.max()), quiet=True)(jnp.ones(8))
    text = shown(report)
    assert "<lambda>" in text and "k0: reduce_max" in text
    assert re.sub(r"\s", "", text) == re.sub(r"\s", "", str(report))
    assert report._repr_html_().count("<details") == 1 + report.kernels


def test_folded_text_of_any_depth():
    text = "a\n  b\n    c <x>\n      d\n  e\nf"
    assert shown(folded(text)).split("\n") == ["a", "b", "c <x>", "d", "e", "f"]
    assert folded(text).count("<details") == 3
