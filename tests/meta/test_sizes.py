"""Files stay short enough to be read; budgets by room are reported, not enforced."""

from pathlib import Path

from tools.size import measure, measure_all, report, too_long, too_many


def test_no_file_is_too_long() -> None:
    sizes = measure_all()
    assert not too_long(sizes), "\n" + report(sizes)
    assert not too_many(sizes)


def test_comments_and_docstrings_are_free(tmp_path: Path) -> None:
    path = tmp_path / "weft" / "core" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text('"""Two\nlines."""\n\n# why\nx = (\n    1\n)\ndef f():\n    """Does."""\n')
    size = measure(path, tmp_path)
    assert (size.code, size.room) == (4, "core")
    assert "core" in report([size])
