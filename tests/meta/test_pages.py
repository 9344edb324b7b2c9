"""Pages that users read: plain words, one title each, links that lead somewhere, code that runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(\s*)(```|~~~)(.*?)$(.*?)^\s*\2\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
PLACES = (
    "*.md",
    "docs/*.md",
    "docs/getting-started/*.md",
    "docs/tutorials/*.md",
    "bench/README.md",
)
PAGES = sorted(page for place in PLACES for page in ROOT.glob(place))
LINKED = sorted({*PAGES, *ROOT.glob("docs/decisions/*.md")})
README_LINES = 120
# Blocks without examples on these pages are run by other tests.
RUN_ELSEWHERE = {"docs/parallel.md": "tests/parallel/test_mpi.py runs it on several processes"}

# Phrases of a dialect that has crept into pages, and what to write instead.
PHRASES = {
    r"\banew\b": "again",
    r"\bare? wanted\b|\bis wanted\b": "you want, the target is",
    r"\bso many\b": "this many, up to 64",
    r"from which on": "from 64 up",
    r"\bis told\b|\bare told\b": "takes, receives",
    r"what no (round|iteration) changes": "loop-invariant, hoisted",
    r"goes? on with (the|a|its) (result|block)": "epilogue",
    r"the way by Python": "slow path, fallback",
    r"brought near|brings? near": "prefetch",
    r"\brims?\b": "halo, edges, padding",
    r"taken apart": "packed, split",
    r"made without care": "compiled at a low optimisation level",
    r"(Numbers|Functions) of (Python|the user)'s": "Python scalars, your functions",
    r"(?<!here )\bis no (?!longer|more)": "isn't a",
    r"run by the NumPy reference": "run with NumPy",
    r"back of the house|restless|in the morning of": "leave it out",
    r"\bone a (step|row|lane|process)\b": "one per step",
    r"the one is taken that": "weft picks",
    r"\bwhat is left\b": "the rest, the remainder",
    r"What is forgotten": "If you forget one",
    r"\bHas all on\b|\bhas all on\b": "runs everything on",
    r"computes what is there twice": "merges duplicate computations",
    r"without a word": "silently",
    r"is run by the tests|are run by the tests": "The tests run",
}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """A page without its code, lines in their places."""
    return FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    titles = re.findall(r"^#+ (.+)$", prose(page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", t)) for t in titles]
    return {title.strip().lower().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_words_are_plain(page):
    text = prose(page.read_text(encoding="utf-8"))
    found = [
        f"{name(page)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: write {better}"
        for phrase, better in PHRASES.items()
        for match in re.finditer(phrase, text)
    ]
    assert not found, "\n".join(found)


def test_the_check_of_words_can_fail():
    assert any(re.search(phrase, "The tests make the records anew.") for phrase in PHRASES)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_has_one_title(page):
    text = prose(page.read_text(encoding="utf-8"))
    assert text.startswith("# ") and len(re.findall(r"^# ", text, re.MULTILINE)) == 1


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_lead_somewhere(page):
    dead = []
    for target in LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        there = place.exists() and place.is_relative_to(ROOT)
        if not there or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            dead.append(target)
    assert not dead, f"{name(page)}: {dead}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_code_on_pages_runs(page):
    """A block that says it is Python has examples, which the tests run."""
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    idle = [body for _, _, kind, body in blocks if kind.strip() == "python" and ">>>" not in body]
    assert not idle or name(page) in RUN_ELSEWHERE, "\n".join(idle)


def test_the_readme_is_short():
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= README_LINES
