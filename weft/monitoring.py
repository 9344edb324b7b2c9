"""Events of tracing and compiling, for those who count or time them.

What fires: ``/jax/core/compile/jaxpr_trace_duration`` when a function is staged,
``/jax/core/compile/backend_compile_duration`` when a program is compiled (both with its
``fun_name``), and ``/jax/compilation_cache/cache_hits`` and ``cache_misses`` once for each kernel
looked for on disk. Libraries may record events of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from weft.base import events as _events

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs",
    "record_event_time_span", "record_scalar", "register_event_duration_secs_listener",
    "register_event_listener", "register_event_time_span_listener", "register_scalar_listener",
    "unregister_event_duration_listener", "unregister_event_listener",
    "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip

TRACE = "/jax/core/compile/jaxpr_trace_duration"
COMPILE = "/jax/core/compile/backend_compile_duration"
HIT, MISS = "/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"

_event: list[Callable[..., None]] = []
_duration: list[Callable[..., None]] = []
_span: list[Callable[..., None]] = []
_scalar: list[Callable[..., None]] = []


def record_event(event: str, **kwargs: Any) -> None:
    """Tell the listeners that something happened.

    Args:
        event: the name of the event, like a path.
        **kwargs: what else listeners should know.

    Example:
        >>> import weft.monitoring
        >>> seen = []
        >>> weft.monitoring.register_event_listener(lambda event, **kwargs: seen.append(event))
        >>> weft.monitoring.record_event("/mine/saved")
        >>> seen
        ['/mine/saved']
        >>> weft.monitoring.clear_event_listeners()
    """
    for callback in [*_event]:
        callback(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Any) -> None:
    """Tell the listeners how long something took.

    Args:
        event: the name of the event, like a path.
        duration: the time in seconds.
        **kwargs: what else listeners should know.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.record_event_duration_secs("/mine/saved", 0.5)
    """
    for callback in [*_duration]:
        callback(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Any) -> None:
    """Tell the listeners when something began and ended.

    Args:
        event: the name of the event, like a path.
        start_time: the beginning, in seconds since the epoch.
        end_time: the end, in seconds since the epoch.
        **kwargs: what else listeners should know.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.record_event_time_span("/mine/saved", 1.0, 2.5)
    """
    for callback in [*_span]:
        callback(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Any) -> None:
    """Tell the listeners a number.

    Args:
        event: the name of the event, like a path.
        value: the number.
        **kwargs: what else listeners should know.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.record_scalar("/mine/loss", 0.5)
    """
    for callback in [*_scalar]:
        callback(event, value, **kwargs)


def _told(kind: str, name: str, began: int, ended: int, details: dict[str, Any]) -> None:
    """Pass on what weft does, under the names of events."""
    if kind == "cache":
        for event, count in ((HIT, details["hits"]), (MISS, details["misses"])):
            for _ in range(count):
                record_event(event)
        return
    event, label = (TRACE, name) if kind == "trace" else (COMPILE, f"jit({name})")
    seconds = (ended - began) * 1e-9
    now = time.time()
    record_scalar(event, now - seconds, fun_name=label)
    record_event_duration_secs(event, seconds, fun_name=label)
    record_event_time_span(event, now - seconds, now, fun_name=label)


def _register(listeners: list[Callable[..., None]], callback: Callable[..., None]) -> None:
    listeners.append(callback)
    _events.watch(_told)


def _unregister(listeners: list[Callable[..., None]], callback: Callable[..., None]) -> None:
    if callback not in listeners:
        raise ValueError(f"{callback!r} is not registered as a listener of these events")
    listeners.remove(callback)
    if not (_event or _duration or _span or _scalar):
        _events.watch(None)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Call ``callback(event, **kwargs)`` at every event.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_event_listener(lambda event, **kwargs: print(event))
        >>> weft.monitoring.record_event("/mine/saved")
        /mine/saved
        >>> weft.monitoring.clear_event_listeners()
    """
    _register(_event, callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Call ``callback(event, seconds, **kwargs)`` at every event that took time.

    Args:
        callback: the listener.

    Example:
        >>> import weft, weft.monitoring
        >>> seen = []
        >>> weft.monitoring.register_event_duration_secs_listener(
        ...     lambda event, seconds, **kwargs: seen.append((event, kwargs["fun_name"])))
        >>> def double(x):
        ...     return 2 * x
        >>> _ = weft.jit(double)(1.0)
        >>> seen[0]
        ('/jax/core/compile/jaxpr_trace_duration', 'double')
        >>> weft.monitoring.clear_event_listeners()
    """
    _register(_duration, callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call ``callback(event, start, end, **kwargs)`` at every event that took time.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_event_time_span_listener(lambda event, a, b, **_: print(b - a))
        >>> weft.monitoring.record_event_time_span("/mine/saved", 1.0, 2.5)
        1.5
        >>> weft.monitoring.clear_event_listeners()
    """
    _register(_span, callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Call ``callback(event, value, **kwargs)`` at every number recorded.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_scalar_listener(lambda event, value, **kwargs: print(value))
        >>> weft.monitoring.record_scalar("/mine/loss", 0.5)
        0.5
        >>> weft.monitoring.clear_event_listeners()
    """
    _register(_scalar, callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Stop calling a listener of events.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_event_listener(print)
        >>> weft.monitoring.unregister_event_listener(print)
    """
    _unregister(_event, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Stop calling a listener of durations.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_event_duration_secs_listener(print)
        >>> weft.monitoring.unregister_event_duration_listener(print)
    """
    _unregister(_duration, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Stop calling a listener of time spans.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_event_time_span_listener(print)
        >>> weft.monitoring.unregister_event_time_span_listener(print)
    """
    _unregister(_span, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Stop calling a listener of numbers.

    Args:
        callback: the listener.

    Example:
        >>> import weft.monitoring
        >>> weft.monitoring.register_scalar_listener(print)
        >>> weft.monitoring.unregister_scalar_listener(print)
    """
    _unregister(_scalar, callback)


def clear_event_listeners() -> None:
    """Stop calling any listener.

    >>> import weft.monitoring
    >>> weft.monitoring.clear_event_listeners()
    """
    for listeners in (_event, _duration, _span, _scalar):
        listeners.clear()
    _events.watch(None)
