"""Options as flags of absl, for programs that read their command line with it.

absl is imported here and only when a program asks for flags.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

_state = {"parsed": False}


def define(options: Iterable[tuple[str, Any]]) -> Any:
    """Declare a flag for each (name, knob), and have ``app.run`` set what is given.

    A flag that exists already is kept.
    """
    from absl import app, flags  # type: ignore[import-not-found]

    pairs = list(options)
    for name, knob in pairs:
        if name not in flags.FLAGS:
            _declare(flags, name, knob)
    app.call_after_init(lambda: _set_given(flags.FLAGS, pairs))
    return flags.FLAGS


def _declare(flags: Any, name: str, knob: Any) -> None:
    value, doc = knob.value, knob.doc
    if knob.kind is bool:
        flags.DEFINE_bool(name, value, doc)
    elif isinstance(knob.choices, tuple) and all(isinstance(c, str) for c in knob.choices):
        flags.DEFINE_enum(name, value, [*knob.choices, *knob.aliases], doc)
    elif knob.kind is int:
        flags.DEFINE_integer(name, value, doc)
    elif knob.kind is float:
        flags.DEFINE_float(name, value, doc)
    else:
        flags.DEFINE_string(name, value if value is None else str(value), doc)


def parse(define_all: Callable[[], Any], options: Iterable[tuple[str, Any]]) -> None:
    """Read the flags of options on the command line, before a ``--``; others are left alone."""
    if _state["parsed"]:
        return
    given = itertools.takewhile(lambda text: text != "--", sys.argv[1:])
    starts = ("--jax", "--nojax", "--weft", "--noweft")
    found = define_all()
    found(["", *(text for text in given if text.startswith(starts))], known_only=True)
    _set_given(found, options)
    _state["parsed"] = True


def _set_given(found: Any, options: Iterable[tuple[str, Any]]) -> None:
    for name, knob in options:
        if found[name].present:
            value = found[name].value
            knob.set_global(knob.parse(value) if isinstance(value, str) else value)
