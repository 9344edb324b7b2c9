"""``python -m weft.moving PATH ... [--all] [--diff] [--rewrite] [--json]``."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from weft.moving import Finding, Status, check_file, rewritten

_SKIPPED = frozenset(["__pycache__", "node_modules", "build", "dist", "site-packages"])


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for found in sorted(path.rglob("*.py")):
                inner = found.relative_to(path).parts
                if not any(part in _SKIPPED or part.startswith(".") for part in inner):
                    yield found
        else:
            yield path


def _told(path: Path, found: Finding) -> str:
    note = f": {found.note}" if found.note else ""
    return f"{path}:{found.line}: {found.name}: {found.status.value}{note}"


_COUNTED = {
    Status.SAME: ("works", "work"),
    Status.DIFFERENT: ("differs", "differ"),
    Status.ALIAS: ("works only under weft.as_jax", "work only under weft.as_jax"),
    Status.ABSENT: ("can only be imported", "can only be imported"),
    Status.MISSING: ("is missing", "are missing"),
}


def _verdict(counts: Counter[Status], changed: bool) -> str:
    """How many names work, and what to do, in a sentence or two."""
    total = sum(counts.values())
    if not total:
        return "Nothing here uses JAX."
    if counts[Status.SAME] == total:
        told = f"{total} names of JAX and its libraries are used; all work."
    else:
        parts = [f"{n} {_COUNTED[s][n > 1]}" for s in Status if (n := counts[s])]
        told = f"{total} names of JAX and its libraries are used: {', '.join(parts)}."
    if counts[Status.MISSING] or counts[Status.ABSENT]:
        advice = "Replace those that are missing or can only be imported first."
    elif counts[Status.ALIAS]:
        advice = "Run the program unchanged with: python -m weft.as_jax PROGRAM"
    elif changed:
        advice = "The imports are changed: run the program with python."
    else:
        advice = (
            "Change the imports with: python -m weft.moving PATH --rewrite, or run the program"
            " unchanged with: python -m weft.as_jax PROGRAM"
        )
    return f"{told} {advice}"


def main(arguments: list[str]) -> int:
    """Say what becomes of programs; 0 if nothing is missing, 1 if something is, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m weft.moving",
        description="Says what works, differs or is missing when a program written for JAX runs on"
        " weft. The program is read, not run.",
    )
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="files, or folders of packages"
    )
    parser.add_argument("--all", action="store_true", help="also list the names that simply work")
    parser.add_argument("--diff", action="store_true", help="show the imports changed, as a diff")
    parser.add_argument("--rewrite", action="store_true", help="change the imports in the files")
    parser.add_argument("--json", action="store_true", help="print findings as JSON lines")
    options = parser.parse_args(arguments)
    counts: Counter[Status] = Counter()
    failed = changed = False
    for path in _files(options.paths):
        try:
            findings = check_file(path)
            source = path.read_text(encoding="utf-8")
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            print(f"{path}: cannot be read: {error}", file=sys.stderr)
            failed = True
            continue
        counts.update(found.status for found in findings)
        for found in findings:
            if options.json:
                told = {**found._asdict(), "status": found.status.name.lower(), "file": str(path)}
                print(json.dumps(told))
            elif options.all or found.status is not Status.SAME:
                print(_told(path, found))
        if options.diff or options.rewrite:
            made = rewritten(source)
            if made != source:
                before, after = (text.splitlines(keepends=True) for text in (source, made))
                sys.stdout.writelines(difflib.unified_diff(before, after, str(path), str(path)))
                if options.rewrite:
                    path.write_text(made, encoding="utf-8")
                    changed = True
    if not options.json and (counts or not failed):
        print(_verdict(counts, changed))
    if failed:
        return 2
    return 1 if counts[Status.MISSING] or counts[Status.ABSENT] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
