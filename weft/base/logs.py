"""What is logged, and at which level: as warnings where a knob asks for it, else for debugging."""

from __future__ import annotations

import sys

DEBUG, WARNING = 10, 30


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
