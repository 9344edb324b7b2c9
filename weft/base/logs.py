"""What is logged, and at which level: as warnings where a knob asks for it, else for debugging."""

from __future__ import annotations

import sys

from weft.base import knobs

DEBUG, WARNING = 10, 30


def _set_level(level: str) -> None:
    import logging  # costs import time

    logging.getLogger("weft").setLevel(level)


def _set_modules(names: str) -> None:
    import logging  # costs import time

    for name in _modules:
        logging.getLogger(name).setLevel(logging.NOTSET)
    _modules[:] = [name.strip() for name in names.split(",") if name.strip()]
    for name in _modules:
        logging.getLogger(name).setLevel(DEBUG)


_modules: list[str] = []
for _knob, _apply in ((knobs.logging_level, _set_level), (knobs.debug_log_modules, _set_modules)):
    _knob.on_update.append(_apply)
    if _knob.value != _knob.default:
        _apply(_knob.value)


def level_of(asked: bool, logger: str = "weft") -> int:
    """The level at which to log now; 0 if nobody would see it.

    Logging takes time to import, so it is looked at only where a knob asks or a program has it.
    """
    if asked:
        return WARNING
    logging = sys.modules.get("logging")
    if logging is None or not logging.getLogger(logger).isEnabledFor(DEBUG):
        return 0
    return DEBUG


def log(level: int, message: str, logger: str = "weft") -> None:
    """Log a message, unless the level is 0."""
    if level:
        import logging  # costs import time

        logging.getLogger(logger).log(level, message)
