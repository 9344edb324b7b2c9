"""Texts of errors and warnings: plain English, with no phrase that needs a second reading."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "weft").rglob("*.py"))
FEWEST = 2500  # texts that weft has; far fewer mean that they are no longer found

# A phrase, and what to write instead.
PHRASES = {
    r"\banew\b": "again",
    r"\bso many\b": "that many, up to 64",
    r"(?<!here )\b(is|are) no (?!longer\b|more\b)": "is not a",
    r"\b(?<!there )(is|are) none of\b": "is not one of",
    r"\b(has|have) not (an? |\{|the )": "does not have",
    r"\bknows? no\b": "does not know, finds no",
    r"\bof (its|their) own\b": "must define; its own",
    r"\bgoes on (with|by)\b": "continues",
    r"\bmay not\b": "must not, cannot, might not",
    r"\b(is|are) told\b": "takes, receives",
    r"\b(is|are) wanted\b": "you want",
    r"\b(is|are) meant\b": "you want, must be",
    r"\bis there (twice|already)\b": "appears twice, already exists",
    r"\b(has|have) to be\b": "must be",
    r"\bbeforehand\b": "in advance",
    r"\binside of\b": "inside",
    r"\bby hand\b": "manual, manually",
    r"\balike\b": "both",
    r"\bleft to be (made|done)\b": "unreduced, unfinished",
    r"\b(is|are) divided over\b": "is sharded over",
    r"\bdifferentiate by\b": "differentiate with respect to",
    r"\bhas no form\b": "cannot be",
    r"\bno StableHLO\b": "weft can't write ... as StableHLO",
    r"\bsays? not\b": "does not define",
    r"\bsum up\b": "sum",
    r"\bwithout a word\b": "silently",
    r"\bany more\b": "no longer",
    r"\bin the place of\b": "instead of",
}
WARNINGS = {"warn", "warning", "warn_once"}


def text(node: ast.AST) -> str:
    """What an expression says: its strings, with {} for values."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return f"{text(node.left)}{text(node.right)}"
    if isinstance(node, ast.IfExp):
        return f"{text(node.body)} {text(node.orelse)}"
    if isinstance(node, ast.Call):
        return said(node)
    return ""


def said(call: ast.Call) -> str:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return " ".join(filter(None, map(text, values)))


def texts(source: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each error or warning in a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield node.lineno, said(node.exc)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in WARNINGS:
            yield node.lineno, said(node)


@pytest.fixture(scope="module")
def everything() -> dict[Path, list[tuple[int, str]]]:
    return {path: list(texts(path.read_text())) for path in FILES}


def found(said: list[tuple[int, str]]) -> list[str]:
    """Phrases in the texts of a file, each with its line and what to write."""
    return [
        f"line {line}: {match[0]!r}, write for example {instead!r}"
        for line, words in said
        for phrase, instead in PHRASES.items()
        if (match := re.search(phrase, words))
    ]


def test_texts_are_plain(everything: dict) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} {text}"
        for path, said in everything.items()
        for text in found(said)
    ]
    assert not wrong, "\n".join(wrong)


def test_texts_are_found(everything: dict) -> None:
    assert sum(bool(words) for said in everything.values() for _, words in said) > FEWEST


@pytest.mark.parametrize("source", [
    'raise ValueError(f"{x} is no kind")',
    'warn("the axes are divided over devices", UserWarning)',
    'raise TypeError("it has to be " "positive" if x else "below 1")',
    'raise KeyError(tell(f"{x} knows no machine", hint="none"))',
])  # fmt: skip
def test_the_check_of_texts_can_fail(source: str) -> None:
    assert found(list(texts(source)))
