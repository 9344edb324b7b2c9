"""Runs as a report shows them, from folders that may hold anything.

A run is a folder that ``weft.train.launch`` made, or any folder with a ``metrics.jsonl``. Names,
configurations and metrics are taken as data: shortened, and never executed or followed.
"""

import base64
import dataclasses
import json
import math
import os
from typing import IO, Any

from weft.train.launch import configs, worker
from weft.train.report import events, inside

MAX_LINE, MAX_FILE = 1_000_000, 1_000_000_000
MAX_RUNS, MAX_METRICS, MAX_SETTINGS, MAX_TEXT = 5_000, 300, 500, 1_000
MAX_PICTURE, MAX_PICTURES, MAX_ALL_PICTURES = 2_000_000, 24, 30_000_000
PICTURES_OF_A_TAG = 4
CURVE_POINTS, ALL_POINTS = 1_500, 600_000
_SKIPPED = {"attempts", "checkpoints", "artefacts", "launches"}
_STATES = {"pending", "running", "completed", "failed", "interrupted", "stopped"}


@dataclasses.dataclass
class Metrics:
    """The curves and settings that a file of metrics holds."""

    curves: dict[str, dict[float, float]] = dataclasses.field(default_factory=dict)
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    first: float | None = None
    last: float | None = None
    skipped: int = 0


def short(value: Any, most: int = MAX_TEXT) -> str:
    """Text of at most some letters, without what UTF-8 cannot hold.

    >>> short("a" * 9, 4)
    'aaa…'
    """
    text = value if isinstance(value, str) else str(value)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.encode("utf-8", "replace").decode()


def number(value: Any) -> float | None:
    """A number, also from the text that writers use where JSON has none; else None.

    >>> number("nan"), number(3), number("3"), number(10**400)
    (nan, 3.0, None, inf)
    """
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return float(value) if value in ("nan", "inf", "-inf") else None


def _lines(file: IO[bytes], metrics: Metrics) -> Any:
    """What the lines of a file hold; lines that are too long or damaged are counted."""
    read = 0
    while read < MAX_FILE:
        line = file.readline(MAX_LINE)
        if not line:
            return
        read += len(line)
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
                read += len(line)
            metrics.skipped += 1
            continue
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            metrics.skipped += 1
            continue
        if isinstance(found, dict):
            yield found
        else:
            metrics.skipped += 1


def read_metrics(file: IO[bytes]) -> Metrics:
    """Read JSON lines, as ``JsonLinesWriter`` writes them or with numbers beside ``step``.

    A step that is there twice, as after an interruption, has its last value.
    """
    metrics = Metrics()
    for line in _lines(file, metrics):
        kind, step = line.get("kind", "scalars"), number(line.get("step"))
        values = line.get("values") if "kind" in line else line
        if kind == "hparams" and isinstance(values, dict):
            for name, value in list(values.items())[:MAX_SETTINGS]:
                metrics.settings[short(name, 200)] = setting(value)
        if kind != "scalars" or not isinstance(values, dict):
            continue
        if step is None or not math.isfinite(step):
            metrics.skipped += 1
            continue
        when = number(line.get("time"))
        if when is not None and math.isfinite(when):
            metrics.first = when if metrics.first is None else metrics.first
            metrics.last = when
        for name, value in values.items():
            plain = None if "kind" not in line and name in ("step", "time") else number(value)
            if plain is not None:
                _add(metrics.curves, short(name, 200), step, plain)
    return metrics


def _add(curves: dict[str, dict[float, float]], name: str, step: float, value: float) -> None:
    curve = curves.get(name)
    if curve is None:
        if len(curves) >= MAX_METRICS:
            return
        curve = curves[name] = {}
    curve[step] = value


def setting(value: Any) -> Any:
    """A setting as a table shows it: a number, a boolean, or short text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str):
        return short(value)
    try:
        return short(json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return short(value)


def thin(steps: list[float], values: list[float], most: int) -> list[list[Any]]:
    """Steps and values of at most some points, with the extremes of every stretch kept.

    >>> thin([0, 1, 2, 3], [5.0, 1.0, 9.0, 2.0], 2)
    [[1, 2], [1.0, 9.0]]
    """
    if len(steps) > most:
        stretches = max(1, most // 2)
        kept: list[int] = []
        for index in range(stretches):
            low = index * len(steps) // stretches
            high = (index + 1) * len(steps) // stretches
            places = [i for i in range(low, high) if math.isfinite(values[i])] or [low]
            least = min(places, key=values.__getitem__)
            largest = max(places, key=values.__getitem__)
            kept += sorted({least, largest})
        steps, values = [steps[i] for i in kept], [values[i] for i in kept]
    whole = [int(step) if step == int(step) else step for step in steps]
    return [whole, [plain_number(value) for value in values]]


def plain_number(value: float) -> Any:
    """A number that JSON has, to seven digits; text for the others."""
    if math.isfinite(value):
        return float(f"{value:.7g}")
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def read_dictionary(folder: int, *names: str) -> dict[str, Any]:
    """A JSON file with a dictionary; empty where it is missing, damaged or something else."""
    text = inside.read_file(folder, *names, most=4_000_000)
    try:
        found = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_unit(folder: int, path: str) -> dict[str, Any]:
    """What ``weft.train.launch`` has recorded of a run."""
    unit = read_dictionary(folder, "unit.json")
    attempts = [name for name in inside.names_in(folder, "attempts") if name.isdecimal()]
    attempts = sorted(attempts, key=lambda name: (len(name), name))
    made: dict[str, Any] = {"state": "pending", "attempts": len(attempts)}
    try:
        flat = configs.flatten(unit.get("args", {}))
    except RecursionError:
        flat = {}
    made["config"] = {short(k, 200): setting(v) for k, v in list(flat.items())[:MAX_SETTINGS]}
    if unit.get("identity"):
        made["config"]["identity"] = short(unit["identity"])
    executable = unit.get("executable")
    if isinstance(executable, dict):
        made["executable"] = short(executable.get("name") or executable.get("command"), 300)
    if not attempts:
        return made
    first = read_dictionary(folder, "attempts", attempts[0], "attempt.json")
    begun = read_dictionary(folder, "attempts", attempts[-1], "attempt.json")
    ended = read_dictionary(folder, "attempts", attempts[-1], "exit.json")
    environment, git = begun.get("environment"), begun.get("git")
    if isinstance(environment, dict):
        shown = {name: environment.get(name) for name in ("host", "python", "cores", "platform")}
        made["environment"] = {name: setting(value) for name, value in shown.items()}
    for name in ("devices", "versions"):
        if ended.get(name):
            made.setdefault("environment", {})[name] = setting(ended[name])
    if isinstance(git, dict):
        made["commit"] = short(git.get("commit"), 40) + (" + changes" if git.get("changed") else "")
    made["started"], made["ended"] = number(first.get("started")), number(ended.get("ended"))
    if ended:
        state = ended.get("state")
        made["state"] = state if state in _STATES else "failed"
    else:
        made["state"] = "running" if worker.is_locked(os.path.join(path, "lock")) else "interrupted"
    if ended.get("error"):
        made["error"] = short(ended["error"], 4_000)
    if ended.get("result") is not None:
        made["result"] = setting(ended["result"])
    for name in ("stdout", "stderr"):
        text = inside.read_end(folder, "attempts", attempts[-1], f"{name}.txt", most=2_000)
        if text.strip():
            made[name] = short(text, 2_000)
    return made


def read_pictures(folder: int) -> list[dict[str, Any]]:
    """Pictures of a run: the last of each summary in event files, and PNG files it kept."""
    last: dict[tuple[str, int], tuple[int, bytes]] = {}
    for name in inside.names_in(folder):
        file = inside.open_file(folder, name) if ".tfevents." in name else None
        if file is None:
            continue
        with file:
            for tag, step, found in events.pictures(file):
                for place, picture in enumerate(found[:PICTURES_OF_A_TAG]):
                    key = (short(tag, 200), place)
                    if step >= last.get(key, (step, b""))[0]:
                        last[key] = (step, picture)
                if len(last) > 10 * MAX_PICTURES:
                    break
    made = [(tag, step, data) for (tag, _), (step, data) in sorted(last.items())]
    for name in inside.names_in(folder, "artefacts"):
        if name.lower().endswith(".png"):
            data = inside.read_file(folder, "artefacts", name, most=MAX_PICTURE + 1) or b""
            made.append((short(name, 200), None, data))
    kept = [one for one in made if one[2].startswith(events.PNG) and len(one[2]) <= MAX_PICTURE]
    return [
        {"tag": tag, "step": step, "png": base64.b64encode(data).decode()}
        for tag, step, data in kept[:MAX_PICTURES]
    ]


class Reader:
    """Reads the runs below a folder, and reads again only what has changed.

    Args:
        folder: the folder.

    Example:
        >>> import tempfile
        >>> from weft.train import writers
        >>> folder = tempfile.mkdtemp()
        >>> with writers.JsonLinesWriter(folder + "/first/metrics.jsonl") as writer:
        ...     writer.write_scalars(1, {"loss": 0.5})
        >>> [run["name"] for run in Reader(folder).read()["runs"]]
        ['first']
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)
        if not os.path.isdir(self.folder):
            raise NotADirectoryError(f"{self.folder} is not a folder")
        self._metrics: dict[str, tuple[Any, Metrics]] = {}
        self._pictures: dict[str, tuple[Any, list[dict[str, Any]]]] = {}

    def read(self) -> dict[str, Any]:
        """All runs and their curves, as the page takes them."""
        runs, notes = [], []
        title = short(os.path.basename(self.folder) or self.folder, 200)
        for path, folders, files, descriptor in inside.walk(self.folder):
            launched = "unit.json" in files
            if "experiment.json" in files and path == ".":
                title = short(
                    read_dictionary(descriptor, "experiment.json").get("title") or title, 200
                )
            if launched or "metrics.jsonl" in files:
                if len(runs) == MAX_RUNS:
                    notes.append(f"only the first {MAX_RUNS} runs are shown")
                    break
                runs.append(self._run(path, descriptor, launched))
            folders[:] = [name for name in folders if not launched and name not in _SKIPPED]
        names = sorted({name for run in runs for name in run["metrics"].curves})
        skipped = sum(run["metrics"].skipped for run in runs)
        if skipped:
            notes.append(f"{skipped} lines of metrics were damaged or too long, and left out")
        self._finish(runs, names, notes)
        return {"title": title, "metrics": names, "runs": runs, "notes": notes}

    def _run(self, path: str, folder: int, launched: bool) -> dict[str, Any]:
        """One run: its record, metrics and pictures."""
        made: dict[str, Any] = {"state": "", "config": {}}
        if launched:
            made = read_unit(folder, os.path.join(self.folder, path))
        name = path.removeprefix("runs" + os.sep) if launched else path
        made["name"] = short(name, 300)
        sign = inside.signature(folder, "metrics.jsonl")
        kept = self._metrics.get(path)
        if kept is None or kept[0] != sign:
            file = inside.open_file(folder, "metrics.jsonl")
            found = Metrics()
            if file is not None:
                with file:
                    found = read_metrics(file)
            kept = self._metrics[path] = (sign, found)
        made["metrics"] = kept[1]
        made["config"] = {**kept[1].settings, **made["config"]}
        if made.get("started") is None:
            made["started"], made["ended"] = kept[1].first, kept[1].last
        made["pictures"] = self._run_pictures(path, folder)
        made["files"] = [short(one, 200) for one in inside.names_in(folder, "artefacts", most=200)]
        return made

    def _run_pictures(self, path: str, folder: int) -> list[dict[str, Any]]:
        named = [name for name in inside.names_in(folder) if ".tfevents." in name]
        kept = [inside.signature(folder, name) for name in named]
        kept += [
            inside.signature(folder, "artefacts", n) for n in inside.names_in(folder, "artefacts")
        ]
        found = self._pictures.get(path)
        if found is None or found[0] != kept:
            found = self._pictures[path] = (kept, read_pictures(folder))
        return found[1]

    def _finish(self, runs: list[dict[str, Any]], names: list[str], notes: list[str]) -> None:
        """Thin curves and leave pictures out, so that the page stays of a size for browsers."""
        place = {name: index for index, name in enumerate(names)}
        count = sum(len(run["metrics"].curves) for run in runs)
        most = min(CURVE_POINTS, max(40, ALL_POINTS // max(count, 1)))
        room = MAX_ALL_PICTURES
        for run in runs:
            metrics = run.pop("metrics")
            run["curves"], run["last"], run["least"], run["most"] = {}, {}, {}, {}
            for name, curve in metrics.curves.items():
                steps = sorted(curve)
                values = [curve[step] for step in steps]
                index, finite = place[name], [value for value in values if math.isfinite(value)]
                run["curves"][index] = thin(steps, values, most)
                run["last"][index] = plain_number(values[-1])
                run["least"][index] = plain_number(min(finite)) if finite else "nan"
                run["most"][index] = plain_number(max(finite)) if finite else "nan"
            shown = []
            for picture in run["pictures"]:
                room -= len(picture["png"])
                if room >= 0:
                    shown.append(picture)
            run["pictures"] = shown
            for name in ("started", "ended"):
                if run.get(name) is not None and not math.isfinite(run[name]):
                    run[name] = None
        if room < 0:
            notes.append("some pictures are left out: they are too large together")
