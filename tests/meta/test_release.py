"""What a release must have, and what `python -m weft` says of an installation."""

import subprocess
import sys
import tomllib

from tools import release


def test_all_pages_name_the_version():
    assert release.agreement() == []


def test_distributions_are_looked_at():
    good = list(release.NEEDED)
    assert release.problems(good, 1000, True) == []
    assert release.problems(good[1:], 1000, True) == [f"{good[0]} is missing"]
    assert "more than" in release.problems(good, 10**7, True)[0]
    bad = [*good, "weft/tests/x.py", "weft/core.cpython-311.pyc"]
    assert len(release.problems(bad, 1000, True)) == 2


def test_an_installation_tells_what_it_is():
    command = [sys.executable, "-m", "weft"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("weft:", "python:", "processor:", "threads:", "disk cache:", "verdict: this"):
        assert word in done.stdout, word


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
