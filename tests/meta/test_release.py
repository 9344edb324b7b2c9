"""What a release must have, and what `python -m weft` says of an installation."""

import ast
import base64
import hashlib
import importlib
import io
import subprocess
import sys
import tokenize
import tomllib
import zipfile
from pathlib import Path

import pytest

import weft
from tools import release
from tools.release import wheel_files


def test_all_pages_name_the_version():
    assert release.agreement() == []


def test_distributions_are_looked_at():
    good = list(release.NEEDED)
    assert release.problems(good, 1000, True) == []
    assert release.problems(good[1:], 1000, True) == [f"{good[0]} is missing"]
    assert "more than" in release.problems(good, 10**7, True)[0]
    bad = [*good, "weft/tests/x.py", "weft/core.cpython-311.pyc"]
    assert len(release.problems(bad, 1000, True)) == 2


@pytest.mark.parametrize(
    "deflate", [wheel_files.deflated, lambda data: wheel_files.deflated(data[::-1])]
)
def test_a_wheel_is_packed_again_as_it_was(deflate):
    """Names, times, modes and contents stay; a compressor that changes them is found out."""
    first = io.BytesIO()
    with zipfile.ZipFile(first, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"a/b.py": "x = 1\n" * 99, "empty.py": "", "ä.txt": "é"}.items():
            info = zipfile.ZipInfo(name, (2026, 11, 18, 20, 59, 58))
            info.external_attr = 0o100644 << 16
            archive.writestr(info, text)
    with zipfile.ZipFile(first) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    packed = zipfile.ZipFile(io.BytesIO(wheel_files.zip_of(files, deflate)))
    for info, (before, data) in zip(packed.infolist(), files, strict=True):
        assert info.filename == before.filename and info.date_time == before.date_time
        assert info.external_attr == before.external_attr and info.file_size == len(data)
    if deflate is wheel_files.deflated:
        assert packed.testzip() is None
        assert [packed.read(info) for info in packed.infolist()] == [data for _, data in files]
    else:
        with pytest.raises(zipfile.BadZipFile):
            packed.read("a/b.py")


CODE = '''"""A module."""

# why
def f(x):  # type: ignore
    """What it returns; # stays."""
    text = "# stays"
    return x  # why
'''


def test_comments_stay_out_of_the_wheel():
    """Code, docstrings and lines stay, and the list of files has the new digests."""
    name, record = "weft/a.py", "weft-0.1.0.dist-info/RECORD"
    files = {name: CODE.encode(), "weft/b.html": b"# stays", record: b"old"}
    made = wheel_files.bare(files)
    text = made[name].decode()
    assert "why" not in text and "type:" not in text and text.count("# stays") == 2
    assert len(text.splitlines()) == len(CODE.splitlines())
    assert made["weft/b.html"] == b"# stays"
    rows = dict(line.split(",", 1) for line in made[record].decode().splitlines())
    assert rows.keys() == files.keys() and rows[record] == ","
    digest = hashlib.sha256(made[name]).digest()
    assert rows[name] == f"sha256={base64.urlsafe_b64encode(digest).decode()[:43]},{len(text)}"


def _without_docstrings(text):
    """The syntax tree with positions, without the docstrings of functions and classes."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and len(node.body) > 1:
            if ast.get_docstring(node):
                del node.body[0]
    return ast.dump(tree, include_attributes=True)


def _commented(text):
    """The text without the comments that Python's own tokenizer finds."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    return "".join(lines)


@pytest.mark.parametrize("part", range(8))
def test_code_in_the_wheel_is_the_same_code(part):
    """Statements and their positions stay. One file in five is looked at."""
    paths = sorted((release.ROOT / "weft").rglob("*.py"))[part * 5 :: 40]
    assert len(paths) > 20
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found = wheel_files.without_comments(text)
        assert found == _commented(text), path
        name = path.relative_to(release.ROOT).as_posix()
        less = wheel_files.without_private_docstrings(found, name)
        assert less.count("\n") == text.count("\n"), path
        assert _without_docstrings(less) == _without_docstrings(text), path


HIDDEN = '''"""A module."""

def _called(x):
    """Hidden."""
    def _inner():
        "Hidden."
        return x
    return _inner()

def _method(x):
    """Shown by the class below."""
    return _called(x)

class A:
    """Shown."""
    method = _method
    def _of_a_class(self):
        """Hidden
        in two lines."""
        return 1
    def shown(self):
        """Shown."""
        return self._of_a_class()
'''


def test_docstrings_that_help_shows_stay_in_the_wheel():
    found = wheel_files.without_private_docstrings(HIDDEN)
    assert "Hidden" not in found and "two lines" not in found and found.count("Shown") == 3
    scope: dict = {}
    exec(found, scope)
    assert scope["A"]().shown() == 1 and scope["_called"](3) == 3
    inside = wheel_files.without_private_docstrings(HIDDEN, "weft/compiler/a.py")
    assert "Shown." not in inside
    assert wheel_files.without_private_docstrings(HIDDEN, "weft/lax/a.py") == found


def test_pip_builds_with_this_backend(monkeypatch):
    """Both distributions have the backend; editable installations keep setuptools' hook."""
    pytest.importorskip("setuptools", reason="pip installs it where it builds")
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text())
    system = project["build-system"]
    (folder,) = system["backend-path"]
    monkeypatch.syspath_prepend(release.ROOT / folder)
    backend = importlib.import_module(system["build-backend"])
    assert backend.build_editable is backend.build_meta.build_editable
    assert backend.build_wheel is not backend.build_meta.build_wheel
    listed = (release.ROOT / "MANIFEST.in").read_text()
    for module in (backend, wheel_files):
        path = Path(module.__file__).relative_to(release.ROOT)
        assert f"include {path.as_posix()}\n" in listed
        command = ["git", "check-ignore", "-q", str(path)]
        assert subprocess.run(command, cwd=release.ROOT).returncode == 1, f"{path} is ignored"


def test_the_wheel_that_pip_builds_is_small(tmp_path):
    """Below 3 MB, estimated from the files of the source tree, which the wheel takes over."""
    files = [*(release.ROOT / "weft").rglob("*.py")]
    size = 0
    for path in files:
        text = wheel_files.without_comments(path.read_text(encoding="utf-8"))
        name = path.relative_to(release.ROOT).as_posix()
        data = wheel_files.deflated(wheel_files.without_private_docstrings(text, name).encode())
        digest, headers = 34, 76  # of the list of files, compressed, and of the zip format
        size += len(data) + 2 * len(name) + digest + headers
    assert 2_000_000 < size < release.MAX_WHEEL_BYTES - 45_000  # pages, licence, paths in the list


def test_an_installation_tells_what_it_is():
    command = [sys.executable, "-m", "weft"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("weft:", "python:", "processor:", "threads:", "disk cache:", "verdict: this"):
        assert word in done.stdout, word


def test_a_small_cache_has_a_size(monkeypatch, tmp_path):
    from weft.base import disk

    monkeypatch.setattr(disk, "folder", lambda: str(tmp_path))
    for size, text in ((3 * 2**10, "1 entries, 3 KiB"), (3 * 2**20, "1 entries, 3.0 MiB")):
        (tmp_path / "kernel").write_bytes(bytes(size))
        assert text in weft.print_environment_info(return_string=True)


@pytest.mark.parametrize("driver", [True, False])
def test_an_installation_tells_whether_there_is_a_driver(driver, monkeypatch, tmp_path):
    from weft.debug import installation

    path = tmp_path / "version"
    if driver:
        path.write_text("NVRM version")
    monkeypatch.setattr(installation, "_DRIVER", str(path))
    monkeypatch.setattr(installation, "devices", lambda *_: weft.devices("cpu"))
    out = io.StringIO()
    installation.report(out)
    assert ("GPU driver" in out.getvalue()) == driver
    assert ("no GPU: this machine has no NVIDIA driver" in out.getvalue()) != driver


def test_a_problem_comes_with_what_to_do(tmp_path):
    code = (
        "import sys\nfrom weft.debug import installation as i\n"
        "i._DRAWN = i._DRAWN + 1\nsys.exit(i.report())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "PROBLEM random numbers: results are off by 1" in done.stdout
    assert "To do: " in done.stdout and "verdict: 1 of the checks" in done.stdout


def test_the_release_checks_every_extra_of_users():
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text())["project"]
    of_developers = {"test", "dev", "demo", "docs", "oracle"}
    assert {*release.EXTRAS} == {*project["optional-dependencies"]} - of_developers


def test_sizes_of_an_environment_leave_pip_out(tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, size in {
        "weft/a.py": 10,
        "weft/__pycache__/a.pyc": 5,
        "numpy/b.py": 7,
        "pip/c": 9,
    }.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_bytes(b"x" * size)
    found = release.installed(str(tmp_path / "bin" / "python"))
    assert found == {"weft with byte code": 15, "with all dependencies": 22}
