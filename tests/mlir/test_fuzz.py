"""Damaged modules: reading gives a function or our error with its line, nothing else, and soon."""

import random
import re
import time
import warnings

import pytest

from tests.mlir.test_jax_modules import MODULES
from weft import export

SHORT = [m["text"] for m in MODULES.values() if len(m["text"]) < 6000]
WORDS = sorted({word for text in SHORT[::5] for word in re.findall(r"[%@#\w.\"<>]+", text)})
SECONDS = 20  # for one module; those here take milliseconds


def mutated(text, draw):
    """A text with one to three changes."""
    for _ in range(draw.randint(1, 3)):
        i = draw.randrange(len(text))
        kind = draw.randrange(9)
        if kind == 0:  # drop a character
            text = text[:i] + text[i + 1 :]
        elif kind == 1:  # another character
            text = text[:i] + draw.choice('<>{}()[],:=%@#"0x9-.?\\ \n\u00e4') + text[i:]
        elif kind == 2:  # cut the end
            text = text[:i] if draw.random() < 0.3 else text
        elif kind == 3:  # another number
            places = list(re.finditer(r"\d+", text))
            m = draw.choice(places) if places else re.match("", text)
            new = draw.choice(["0", "1", "2", "7", "-1", "99999999999999999999", "4x4"])
            text = text[: m.start()] + new + text[m.end() :]
        elif kind == 4:  # another word
            places = list(re.finditer(r"[%@#\w.\"<>]+", text))
            m = draw.choice(places) if places else re.match("", text)
            text = text[: m.start()] + draw.choice(WORDS) + text[m.end() :]
        elif kind == 5:  # drop a line
            lines = text.split("\n")
            del lines[draw.randrange(len(lines))]
            text = "\n".join(lines)
        elif kind == 6:  # repeat or move a line
            lines = text.split("\n")
            lines.insert(draw.randrange(len(lines)), draw.choice(lines))
            text = "\n".join(lines)
        elif kind == 7:  # another type
            types = ["f32", "i1", "ui64", "complex<f64>", "bf16", "q8", "f8E5M2", "index", "i4"]
            places = list(re.finditer(r"\b(f32|i32|i1|ui32)\b", text))
            if places:
                m = draw.choice(places)
                text = text[: m.start()] + draw.choice(types) + text[m.end() :]
        else:  # repeat a part
            j = min(len(text), i + draw.randint(1, 60))
            text = text[:j] + text[i:j] * draw.choice([1, 2, 50]) + text[j:]
        if not text:
            return "module {"
    return text


def check(count, seed):
    draw = random.Random(seed)
    read = refused = 0
    for number in range(count):
        text = mutated(draw.choice(SHORT), draw)
        start = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                export.from_stablehlo(text + "\n")
            read += 1
        except export.StableHLOError as error:
            refused += 1
            assert error.line > 0 or "function=" in str(error), str(error)
        except Exception as error:
            raise AssertionError(
                f"{seed}, {number}: {type(error).__name__}: {error}\n{text}"
            ) from error
        assert time.monotonic() - start < SECONDS, f"{seed}, {number} takes long:\n{text}"
    return read, refused


def test_damaged_modules():
    read, refused = check(120, 5)
    assert read and refused > 60


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_modules(seed):
    check(1000, 100 + seed)
