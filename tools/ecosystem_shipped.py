"""The tests that libraries ship in their wheels, run on weft and on JAX, and what they tell.

`tools/ecosystem.py --shipped` is the command. Every file runs in a process of its own; outcomes are
kept in a folder, a file for each, so that a run that was cut goes on where it stopped. A library's
figure is how many of the tests that pass on JAX pass on weft.
"""

import fnmatch
import json
import os
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 2400  # seconds for a file

# Where the tests of a library lie in the installed package.
SHIPPED = {
    "chex": "chex",
    "dm_pix": "dm_pix",
    "haiku": "haiku",
    "jmp": "jmp",
    "mctx": "mctx",
    "optax": "optax",
    "rlax": "rlax",
}
# Share of tests that pass on JAX to pass on weft.
WANTED = {"chex": 0.99, "dm_pix": 1, "haiku": 0.98, "jmp": 1, "mctx": 1, "optax": 0.99}

# Tests that say nothing of weft, by name; "file::test" with shell wildcards.
EXCUSED = {
    "haiku": {
        "checkpoint_test::*": "reads files of integration/checkpoints, which the wheel lacks",
        "data_structures_test::*golden_pickle*": "reads files of testdata, which the wheel lacks",
    },
}


def site_packages(python):
    """Where an environment keeps its packages."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def outcome(case):
    """How a test case of a JUnit report ended."""
    for child in case:
        if child.tag in ("failure", "error"):
            return "failed"
        if child.tag == "skipped":
            return "skipped"
    return "passed"


def run_file(python, file, side, folder):
    """The outcome of every test of a file on one side, run in a library's folder."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as reports:
        report = Path(reports, "report.xml")
        # -P: files of the library must not stand for modules of Python
        command = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += ["-p", "weft.as_jax.pytest"] if side == "weft" else []
        command += [f"--junitxml={report}", str(file)]
        try:
            done = subprocess.run(
                command, env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            return {"tests": {"(file)": "failed"}, "messages": {"(file)": f"above {LIMIT} s"}}
        if not report.exists():
            lines = done.stderr.strip().splitlines() or ["no report"]
            return {"tests": {"(file)": "failed"}, "messages": {"(file)": lines[-1][:300]}}
        tests, messages, seconds = {}, {}, 0.0
        for case in ElementTree.parse(report).iter("testcase"):
            name = ".".join([case.get("classname").rpartition(".")[2], case.get("name")])
            tests[name] = outcome(case)
            seconds += float(case.get("time", 0))
            if tests[name] == "failed":
                messages[name] = (case[0].get("message") or "")[:600]
    return {"tests": tests, "messages": messages, "seconds": round(seconds, 1)}


def run_library(python, library, side, results, only=()):
    """Run the files of a library on one side, but for those that have a record."""
    root = site_packages(python)
    for file in sorted((root / SHIPPED[library]).rglob("*_test.py")):
        name = str(file.relative_to(root)).replace("/", ".").removesuffix(".py")
        record = results / side / f"{name}.json"
        if record.exists() or (only and not any(part in name for part in only)):
            continue
        found = run_file(python, file, side, root / SHIPPED[library])
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(found, indent=1))
        ends = list(found["tests"].values())
        counts = ", ".join(f"{ends.count(e)} {e}" for e in ("passed", "failed", "skipped"))
        print(f"{side} {name}: {counts}, {found.get('seconds', 0)} s", flush=True)


def excuse(library, file, test):
    """Why a test is left out, or None."""
    for pattern, reason in EXCUSED.get(library, {}).items():
        if fnmatch.fnmatchcase(f"{file.rpartition('.')[2]}::{test}", pattern):
            return reason
    return None


def outcomes(record):
    """The outcome of every test of a file, and the messages of those that failed."""
    if not record.exists():
        return None, {}
    found = json.loads(record.read_text())
    return found["tests"], found["messages"]


def figures(library, results):
    """What a library's records say; a file that was not run on JAX counts as passing there."""
    row = {"jax": 0, "both": 0, "missed": {}, "excused": {}, "assumed": 0, "left out": []}
    for record in sorted((results / "weft").glob(f"{SHIPPED[library]}.*.json")):
        ours, messages = outcomes(record)
        theirs, _ = outcomes(results / "jax" / record.name)
        if theirs is None:
            theirs = {t: "skipped" if end == "skipped" else "passed" for t, end in ours.items()}
            row["assumed"] += sum(end == "passed" for end in theirs.values())
        passing = [test for test, end in theirs.items() if end == "passed"]
        if "(file)" in theirs or not theirs:
            row["left out"].append(record.stem)
        for test in passing:
            name, end = f"{record.stem}::{test}", ours.get(test, "failed")
            reason = excuse(library, record.stem, test) if end != "passed" else None
            if reason:
                row["excused"][name] = reason
                continue
            row["jax"] += 1
            row["both"] += end == "passed"
            if end != "passed":
                row["missed"][name] = messages.get(test, messages.get("(file)", end))
    return row


def table(libraries, results):
    """The figures of libraries as a table of Markdown, and below it what is missed or excused."""
    head = (
        "| library | pass on JAX | of them on weft | share | asked for | excused | not run on JAX |"
    )
    lines, below = [head, "|---|---|---|---|---|---|---|"], []
    for library in libraries:
        row = figures(library, results)
        share = f"{100 * row['both'] / row['jax']:.1f} %" if row["jax"] else "-"
        wanted = f"{100 * WANTED[library]:g} %" if library in WANTED else ""
        rest = f"{len(row['excused']) or ''} | {row['assumed'] or ''}"
        lines.append(f"| {library} | {row['jax']} | {row['both']} | {share} | {wanted} | {rest} |")
        for name, message in row["missed"].items():
            text = re.sub(r"\s+", " ", message).replace("|", "/")[:160]
            below.append(f"- {name}: {text}")
        for reason in dict.fromkeys(row["excused"].values()):
            names = [name for name, why in row["excused"].items() if why == reason]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            below.append(f"- {names[0]}{more}: excused, as it {reason}")
        below += [f"- {name}: cannot be run on JAX here" for name in row["left out"]]
    return "\n".join([*lines, "", *below])
