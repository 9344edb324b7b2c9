"""Every primitive has all its rules, or a written reason for the one it lacks, and samples."""

from tests.samples import all_samples
from tools.rules import LEFT_OUT, PAGE, RULES, gaps, load, render

PRIMITIVES = load()


def test_every_rule_is_there_or_accounted_for() -> None:
    assert not list(gaps())


def test_reasons_are_written_out() -> None:
    for name, primitive in PRIMITIVES.items():
        assert set(primitive.holes) <= {*RULES, "partial_eval", "dce"}, name
        for rule, reason in primitive.holes.items():
            assert len(reason.split()) >= 2, f"{name}: {rule}: {reason!r}"


def test_every_primitive_has_a_sample() -> None:
    sampled = {sample.prim for sample in all_samples()}
    assert not sorted(set(PRIMITIVES) - sampled)
    assert not sorted(sampled - set(PRIMITIVES))


def test_samples_have_names_of_their_own() -> None:
    names = [sample.name for sample in all_samples()]
    assert len(names) == len(set(names))


def test_what_is_unusual_about_a_sample_has_a_reason() -> None:
    for sample in all_samples():
        usual = sample.differentiable and sample.order == 2 and sample.mapped is None
        assert usual or sample.notes, sample.name


def test_nothing_left_out_is_there() -> None:
    assert not set(LEFT_OUT) & set(PRIMITIVES)


def test_contracts_of_libraries_are_told() -> None:
    page = (PAGE.parent / "backends.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    told = dict(line.strip("| ").split(" | ", 1) for line in rows)
    for name, primitive in PRIMITIVES.items():
        if primitive.library:
            assert told.get(f"`{name}`") == primitive.library, name


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python tools/rules.py"
