"""No file names a folder of someone's machine or the address of a package registry."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {".git", ".venv", "__pycache__", "build", "dist"}

# Written with gaps so that this file does not find itself.
FOLDERS = [
    "home/\\w",
    "Users/\\w",
    "root\\b",
    "work\\b",
    "tmp\\b",
    "opt/\\w",
    "private/\\w",
    "mnt/\\w",
]
REGISTRIES = ["pypi\\.or[g]", "pythonhosted\\.or[g]", "anaconda\\.or[g]", "(?:extra-)?index-ur[l]"]
FOLDER = re.compile(r"(?<![\w.\-~$}\])>/:])/(?:" + "|".join(FOLDERS) + ")")
REGISTRY = re.compile("|".join(REGISTRIES))


def project_files() -> list[Path]:
    """The files git knows or would take; all files where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if name not in LEFT_OUT]
            found += [Path(folder, name) for name in names]
        return found
    return [path for line in listing.stdout.splitlines() if (path := ROOT / line).is_file()]


def faults(text: str) -> list[str]:
    return [
        line.strip()
        for line in text.splitlines()
        if not line.startswith("#!") and (FOLDER.search(line) or REGISTRY.search(line))
    ]


def test_no_machine_paths() -> None:
    found = []
    for path in project_files():
        content = path.read_bytes()
        if b"\0" not in content and path != Path(__file__).resolve():
            text = content.decode("utf-8", errors="replace")
            found += [f"{path.relative_to(ROOT)}: {line}" for line in faults(text)]
    assert not found, "\n" + "\n".join(found)


def test_what_is_looked_for_is_found() -> None:
    slash = "/"
    for folder in ("home/me/x", "work/a", "tmp", "root", "Users/me"):
        assert faults(f'open("{slash}{folder}")'), folder
    for fine in ("a/work/b", "frame/work", "x / root", "../tmp", "${HOME}/tmp", "#!/usr/bin/env"):
        assert not faults(fine), fine
