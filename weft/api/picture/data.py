"""What the page of a program shows, as plain data: parts, values, memory, and lines of code."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from typing import Any

from weft.base.source import display_name
from weft.runtime.drawing import Part, memory_over_time, peak

# Lines of a file that are shown whole, and around each line that matters in a longer one.
MAX_FILE_LINES, AROUND = 1500, 12
# Values that are listed at the peak of memory, and details of a part.
MAX_HELD, MAX_DETAILS = 12, 8


def page_data(name: str, text: str, parts: Sequence[Part]) -> dict[str, Any]:
    """All that the page of a program needs."""
    flat: list[dict[str, Any]] = []
    values: dict[int, tuple[str, int]] = {}
    files: dict[str, int] = {}
    top = _region(parts, flat, values, files)
    at, moment = peak(parts, _results(parts))
    lines = _line_costs(parts, files)
    return {
        "name": name,
        "text": text,
        "measured": any(part.seconds is not None for part in _all(parts)),
        "top": top,
        "parts": flat,
        "values": values,
        "memory": memory_over_time(parts, _results(parts)),
        "peak": {
            "at": at,
            "size": moment.size,
            "held": [
                [v.type, v.size, top[writer] if writer >= 0 else -1]
                for v, writer in moment.held[:MAX_HELD]
            ],
        },
        "files": [
            {"name": display_name(path), "lines": _source(path, lines.get(number, {}))}
            for path, number in files.items()
        ],
        "costs": {number: [[n, *pair] for n, pair in of.items()] for number, of in lines.items()},
    }


def _all(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        yield from _all(part.inner)


def _results(parts: Sequence[Part]) -> set[int]:
    """Values that nothing reads: what the function returns is alive until its end."""
    read = {v.number for part in _all(parts) for v in part.ins}
    return {v.number for part in parts for v in part.outs} - read


def _region(
    parts: Sequence[Part],
    flat: list[dict[str, Any]],
    values: dict[int, tuple[str, int]],
    files: dict[str, int],
) -> list[int]:
    """Add the parts of a region; their numbers."""
    layers = _layers(parts)
    numbers = []
    clock: dict[int, float] = {}
    for part, layer in zip(parts, layers, strict=True):
        for v in (*part.ins, *part.outs):
            values[v.number] = (v.type, v.size)
        places = [
            [files.setdefault(file, len(files)), line, function]
            for file, line, function, _ in part.places
        ]
        start = clock.get(part.track, 0.0)
        clock[part.track] = start + (part.seconds or 0.0)
        made = {
            "name": part.name,
            "kind": part.kind,
            "what": part.what,
            "ins": [v.number for v in part.ins],
            "outs": [v.number for v in part.outs],
            "places": places,
            "read": part.read,
            "written": part.written,
            "operations": part.operations,
            "seconds": part.seconds,
            "rounds": part.rounds,
            "details": list(part.details[:MAX_DETAILS]),
            "layer": layer,
            "track": part.track,
            "start": start,
        }
        numbers.append(len(flat))
        flat.append(made)
        made["inner"] = _region(part.inner, flat, values, files)
    return numbers


def _layers(parts: Sequence[Part]) -> list[int]:
    """How many parts at least come before each, one after the other."""
    writers: dict[int, int] = {}
    layers: list[int] = []
    for i, part in enumerate(parts):
        before = [layers[writers[v.number]] for v in part.ins if v.number in writers]
        layers.append(1 + max(before, default=-1))
        for v in part.outs:
            writers[v.number] = i
    return layers


def _cost(part: Part) -> tuple[float, float]:
    return part.seconds or 0.0, part.read + part.written


def _line_costs(
    parts: Sequence[Part], files: dict[str, int], times: float = 1.0
) -> dict[int, dict[int, tuple[float, float]]]:
    """Seconds and bytes by file and line: a part gives its lines shares by their operations."""
    found: dict[int, dict[int, tuple[float, float]]] = {}

    def add(file: int, line: int, seconds: float, moved: float) -> None:
        of = found.setdefault(file, {})
        known = of.get(line, (0.0, 0.0))
        of[line] = known[0] + seconds, known[1] + moved

    for part in parts:
        if part.inner and not (part.seconds and not any(p.seconds for p in _all(part.inner))):
            inner = _line_costs(part.inner, files, times * max(part.rounds, 1))
            for file, lines in inner.items():
                for line, (seconds, moved) in lines.items():
                    add(file, line, seconds, moved)
            continue
        seconds, moved = _cost(part)
        places = [p for inside in _all([part]) for p in inside.places]
        total = sum(place[3] for place in places) or 1.0
        for path, number, _, operations in places:
            share = operations / total
            add(files[path], number, seconds * share, times * moved * share)
    return found


def _source(path: str, costs: dict[int, Any]) -> list[list[Any]]:
    """Numbers and texts of lines: of a file, or around those that cost something."""
    lines = linecache.getlines(path)
    if len(lines) > MAX_FILE_LINES:
        near = sorted({n + d for n in costs for d in range(-AROUND, AROUND + 1)})
        wanted = [n for n in near if 1 <= n <= len(lines)]
    else:
        wanted = list(range(1, len(lines) + 1))
    return [[n, lines[n - 1].rstrip("\n")] for n in wanted]
