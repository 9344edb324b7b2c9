"""Traces read back: what took how long."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

from weft.base.record import Record


class ProfileEvent(Record):
    """One span of a trace.

    Args:
        name: the name of the span.
        start_ns: when it began, in nanoseconds since the trace began.
        duration_ns: how long it took, in nanoseconds.
        stats: further facts, pairs of name and value.

    Example:
        >>> from weft.profiler import ProfileEvent
        >>> ProfileEvent("load", 0.0, 5.0).duration_ns
        5.0
    """

    name: str
    start_ns: float
    duration_ns: float
    stats: tuple[tuple[str, Any], ...] = ()

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns


class ProfileLine(Record):
    """The spans of one thread."""

    name: str
    events: tuple[ProfileEvent, ...]


class ProfilePlane(Record):
    """The threads of one process in a trace.

    Args:
        name: the name of the process.
        lines: the threads, each with its spans.
        stats: further facts, pairs of name and value.

    Example:
        >>> from weft.profiler import ProfilePlane
        >>> ProfilePlane("host", ()).name
        'host'
    """

    name: str
    lines: tuple[ProfileLine, ...]
    stats: tuple[tuple[str, Any], ...] = ()


class ProfileData:
    """A trace that ``stop_trace`` wrote; ``from_file`` reads one.

    Args:
        planes: the processes.

    Example:
        >>> from weft.profiler import ProfileData
        >>> list(ProfileData(()).planes)
        []
    """

    def __init__(self, planes: tuple[ProfilePlane, ...]) -> None:
        self.planes = planes

    @staticmethod
    def from_file(path: Any) -> ProfileData:
        """Read a ``.trace.json.gz``."""
        text = gzip.decompress(Path(os.fspath(path)).read_bytes())
        return _from_json(json.loads(text))

    def find_plane_with_name(self, name: str) -> ProfilePlane | None:
        """The process of this name, or None."""
        return next((plane for plane in self.planes if plane.name == name), None)


def _from_json(written: dict[str, Any]) -> ProfileData:
    names: dict[tuple[int, int | None], str] = {}
    spans: dict[int, dict[int, list[ProfileEvent]]] = {}
    for item in written["traceEvents"]:
        if item["ph"] == "M":
            thread = None if item["name"] == "process_name" else item["tid"]
            names[item["pid"], thread] = item["args"]["name"]
        else:
            event = ProfileEvent(
                item["name"], item["ts"] * 1000, item["dur"] * 1000, tuple(item["args"].items())
            )
            spans.setdefault(item["pid"], {}).setdefault(item["tid"], []).append(event)
    planes = []
    for (process, thread), name in names.items():
        if thread is None:
            lines = tuple(
                ProfileLine(names.get((process, number), ""), tuple(found))
                for number, found in spans.get(process, {}).items()
            )
            planes.append(ProfilePlane(name, lines))
    return ProfileData(tuple(planes))
