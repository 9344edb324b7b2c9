"""Splits text into words, digits, punctuation and white space; learned pieces are parts of them."""

import collections
import functools
import re
import unicodedata
from collections.abc import Iterable

MAX_WORD = 64  # characters; longer runs are split, which bounds the time for one word
_SELECTORS = "\U000e0100-\U000e01ef"  # variation selectors, beyond the planes that are searched


def _mark_ranges(points: range) -> str:
    ranges: list[list[int]] = []
    for point in points:
        if unicodedata.category(chr(point))[0] != "M":
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges)


@functools.cache
def _words() -> re.Pattern[str]:
    """A pattern whose matches, one after the other, are the whole text.

    A space belongs to the word behind it. Marks, such as vowel signs, belong to words: Python's
    ``\\w`` leaves them out.
    """
    near, far = (_mark_ranges(range(*plane)) for plane in ((0x300, 0x10000), (0x10000, 0x20000)))
    # two classes: re looks up one that is within the first plane in a table
    letter = rf"[^\W\d_]|[{near}]|[{far}{_SELECTORS}]"
    word = rf" ?[^\W\d_](?:{letter}){{0,{MAX_WORD - 2}}}"
    most = f"{{1,{MAX_WORD - 1}}}"
    return re.compile(
        rf"{word}| ?\d{{1,3}}| ?(?:[^\w\s]|_){most}|\s{most}(?!\S)|\s{most}?(?= \S)|\s{most}"
    )


def split_words(text: str) -> list[str]:
    """Split a text into parts that, joined, are the text.

    >>> split_words("It's 3.14,  really")
    ['It', "'", 's', ' 3', '.', '14', ',', ' ', ' really']
    """
    return _words().findall(text)


def count_words(texts: Iterable[str]) -> dict[str, int]:
    """How often each part is there, in the order of first appearance.

    >>> count_words(["a b", "a a"])
    {'a': 2, ' b': 1, ' a': 1}
    """
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"training takes texts, got {type(text).__name__}")
        counts.update(split_words(text))
    return dict(counts)
