"""The build backend: setuptools', whose wheels `wheel_files` makes smaller."""

from pathlib import Path

import wheel_files
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 (hooks that stay as they are)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook that pip and build call for a wheel."""
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    wheel_files.shrink(Path(wheel_directory) / name)
    return name
