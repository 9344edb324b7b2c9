"""Traces: what is traced, compiled and called, the kernels of each thread and of GPUs, and the
user's own spans, as JSON.

The file is the one that chrome://tracing and Perfetto read. While a trace is taken, calls of
compiled functions come by Python, so that they are seen: each costs some microseconds more, and a
kernel about a tenth of one for each piece that a thread takes.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.api.jit import forget_entries
from weft.base import events
from weft.base.functional import wraps


class ProfileOptions:
    """What a trace holds: level 0 of ``host_tracer_level`` is nothing, 1 only the user's own spans.

    >>> from weft.profiler import ProfileOptions
    >>> options = ProfileOptions()
    >>> options.host_tracer_level = 1
    """

    def __init__(self) -> None:
        self.host_tracer_level = 2
        self.python_tracer_level = 0
        self.device_tracer_level = 1
        self.enable_hlo_proto = False
        self.include_dataset_ops = False
        self.duration_ms = 0
        self.start_timestamp_ns = 0
        self.repository_path = ""
        self.session_id = ""
        self.raise_error_on_start_failure = False
        self.advanced_configuration: dict[str, Any] = {}


class Recording:
    """A trace that is being taken."""

    def __init__(
        self, log_dir: Any, link: bool, perfetto: bool, options: ProfileOptions | None
    ) -> None:
        self.log_dir = Path(os.fspath(log_dir))
        self.link = link
        self.perfetto = perfetto or link
        self.options = options or ProfileOptions()
        self.rows: list[tuple[str, str, int, int, int, dict[str, Any]]] = []
        self.threads: dict[int, str] = {}
        self.devices: list[tuple[str, list[Any]]] = []
        self.kernels = events.Kernels()
        self.begin = time.perf_counter_ns()

    def __call__(self, kind: str, name: str, begin: int, end: int, details: Any) -> None:
        level = self.options.host_tracer_level
        if level >= (1 if kind == "span" else 2):
            thread = threading.get_ident()
            if thread not in self.threads:
                self.threads[thread] = threading.current_thread().name
            self.rows.append((kind, name, begin, end, thread, details))

    def take_kernels(self) -> None:
        """Take what kernels of the host did, in threads that may be of the pool."""
        names = {t.ident: t.name for t in threading.enumerate()}
        pool = 0
        for a in self.kernels.records():
            if a.stream not in self.threads:
                pool += a.stream not in names
                self.threads[a.stream] = names.get(a.stream, f"weft-pool {pool}")
            self.rows.append((a.kind, a.name, a.begin, a.end, a.stream, a.details))

    def to_json(self) -> dict[str, Any]:
        """The trace as the dictionary that is written."""
        numbers = {thread: i + 1 for i, thread in enumerate(self.threads)}
        marks: list[dict[str, Any]] = [_mark("process_name", 0, "/host:CPU")]
        marks += [_mark("thread_name", numbers[t], name) for t, name in self.threads.items()]
        spans = [
            {
                "ph": "X",
                "pid": 1,
                "tid": numbers[thread],
                "ts": (begin - self.begin) / 1000,
                "dur": (end - begin) / 1000,
                "name": name if kind in ("span", "kernel") else f"{kind} {name}",
                "cat": kind,
                "args": {key: _plain(value) for key, value in details.items()},
            }
            for kind, name, begin, end, thread, details in self.rows
        ]
        for i, (name, activities) in enumerate(self.devices):
            marks += [_mark("process_name", 0, name, i + 2)]
            streams = dict.fromkeys(a.stream for a in activities)
            marks += [_mark("thread_name", n, f"stream {n}", i + 2) for n in streams]
            spans += [self._span(a, i + 2) for a in activities]
        return {"displayTimeUnit": "ns", "traceEvents": [*marks, *spans]}

    def _span(self, activity: Any, process: int) -> dict[str, Any]:
        """Something that a device did."""
        return {
            "ph": "X",
            "pid": process,
            "tid": activity.stream,
            "ts": (activity.begin - self.begin) / 1000,
            "dur": (activity.end - activity.begin) / 1000,
            "name": activity.name,
            "cat": activity.kind,
            "args": {key: _plain(value) for key, value in activity.details.items()},
        }

    def write(self) -> Path:
        stamp = time.strftime("%Y_%m_%d_%H_%M_%S")
        folder = self.log_dir / "plugins" / "profile" / (self.options.session_id or stamp)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_json()).encode()
        path = folder / f"{platform.node() or 'host'}.trace.json.gz"
        path.write_bytes(gzip.compress(text))
        if self.perfetto:
            (folder / "perfetto_trace.json.gz").write_bytes(gzip.compress(text))
        return path


def _mark(what: str, thread: int, name: str, process: int = 1) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


_lock = threading.Lock()
_recording: Recording | None = None


def start_trace(
    log_dir: Any,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Begin a trace, which ``stop_trace`` writes.

    Args:
        log_dir: the folder under which the trace is written.
        create_perfetto_link: print where the file is, to be opened at ui.perfetto.dev. Nothing is
            served.
        create_perfetto_trace: accepted for JAX: the file that is always written can be opened
            there.
        profiler_options: what the trace holds, a ``ProfileOptions``.

    Example:
        >>> import tempfile, weft
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     weft.profiler.start_trace(folder)
        ...     weft.profiler.stop_trace()
    """
    global _recording
    with _lock:
        if _recording is not None:
            raise RuntimeError("a trace is already running; call stop_trace first")
        _recording = Recording(
            log_dir, create_perfetto_link, create_perfetto_trace, profiler_options
        )
        if _recording.options.host_tracer_level >= 2:
            events.trace_kernels(_recording.kernels)
        if _recording.options.device_tracer_level:
            events.start_devices()
        events.listen(_recording)
    forget_entries()


def stop_trace() -> None:
    """End the trace and write it.

    >>> import tempfile, weft
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     weft.profiler.start_trace(folder)
    ...     weft.profiler.stop_trace()
    """
    global _recording
    with _lock:
        if _recording is None:
            raise RuntimeError("no trace is running; call start_trace first")
        recording, _recording = _recording, None
        events.listen(None)
        events.trace_kernels(None)
    recording.take_kernels()
    recording.devices = events.stop_devices()
    path = recording.write()
    if recording.link:
        print(f"open {path.parent / 'perfetto_trace.json.gz'} at https://ui.perfetto.dev")


@contextmanager
def trace(
    log_dir: Any,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Return a context manager that takes a trace of what a block does.

    The trace shows functions traced, compiled and called, operations and kernels with the lines of
    your code and the thread that ran them, and spans.

    Args:
        log_dir: the folder under which the trace is written.
        create_perfetto_link: print where the file is, to be opened at ui.perfetto.dev. Nothing is
            served.
        create_perfetto_trace: accepted for JAX: the file that is always written can be opened
            there.
        profiler_options: what the trace holds, a ``ProfileOptions``.

    Returns:
        A context manager.

    Example:
        >>> import tempfile, weft, weft.numpy as jnp
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with weft.profiler.trace(folder):
        ...         y = weft.jit(lambda x: x + 1)(jnp.ones(3))
        ...     len(list(Path(folder).rglob('*.trace.json.gz')))
        1
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation:
    """A span with a name in the trace, if one is being taken.

    Args:
        name: the name of the span.
        **kwargs: further facts that the trace shows with it.

    Example:
        >>> import weft
        >>> with weft.profiler.TraceAnnotation("load", batch=3):
        ...     pass
    """

    __slots__ = ("_name", "_details", "_began")

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name = name
        self._details = kwargs
        self._began = 0

    def __enter__(self) -> TraceAnnotation:
        self._began = events.begin()
        return self

    def __exit__(self, *_: Any) -> None:
        events.end(self._began, "span", self._name, **self._details)

    def set_metadata(self, **kwargs: Any) -> None:
        """Add details to the span."""
        self._details.update(kwargs)

    @staticmethod
    def is_enabled() -> bool:
        """Whether a trace is being taken."""
        return events.listener is not None


class StepTraceAnnotation(TraceAnnotation):
    """A span that is one step of a loop.

    Args:
        name: the name of the loop.
        **kwargs: ``step_num``, the number of the step, and further facts.

    Example:
        >>> import weft
        >>> for step in range(2):
        ...     with weft.profiler.StepTraceAnnotation("train", step_num=step):
        ...         pass
    """

    __slots__ = ()

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """Return a function, every call of which is a span in the trace.

    Args:
        func: the function.
        name: the name of the span. By default that of the function.
        **decorator_kwargs: further facts that the trace shows with it.

    Returns:
        A function of the same arguments.

    Example:
        >>> import weft
        >>> weft.profiler.annotate_function(len)([1, 2])
        2
    """
    label = name if name else str(getattr(func, "__qualname__", type(func).__name__))

    @wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated
