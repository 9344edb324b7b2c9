"""Files stay short enough to be read; budgets by room are reported, not enforced."""

from pathlib import Path

from tools.size import FILE_HARD, MOST_FILES, measure, measure_all, report, too_long, too_many


def test_no_file_is_too_long() -> None:
    assert not too_long(), "\n" + report(measure_all())
    assert not too_many()


def test_files_beyond_the_limits_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "weft" / "backends" / "cpu"
    folder.mkdir(parents=True)
    for number in range(MOST_FILES + 1):
        (folder / f"f{number}.py").write_text("x = 1\n" * (FILE_HARD + (number == 3)))
    assert too_long(tmp_path) == [f"weft/backends/cpu/f3.py: {FILE_HARD + 1} code lines"]
    assert too_many(tmp_path) == [f"weft/backends/cpu: {MOST_FILES + 1} files"]


def test_comments_and_docstrings_are_free(tmp_path: Path) -> None:
    path = tmp_path / "weft" / "core" / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text('"""Two\nlines."""\n\n# why\nx = (\n    1\n)\ndef f():\n    """Does."""\n')
    size = measure(path, tmp_path)
    assert (size.code, size.room) == (4, "core")
    assert "core" in report([size])
