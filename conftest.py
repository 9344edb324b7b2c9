"""Strict settings for tests, docstring examples and documents: warnings are errors (see
pyproject.toml), seeds are fixed, and no test leaves a knob turned for the next one."""

import doctest
import io
import os
import random
import re
import sys
import zlib
from typing import ClassVar

import numpy as np
import pytest

# Made by tools/api_docs.py from docstrings, whose examples run where they are written.
collect_ignore = ["docs/api"]
# Their examples need eight devices, in a process of their own: tests/parallel runs them.
if os.environ.get("WEFT_NUM_CPU_DEVICES") != "8":
    collect_ignore += ["docs/parallel.md", "docs/tutorials/parallel.md"]

FENCE = re.compile(r"^\s*(```|~~~).*$", re.MULTILINE)


# Tests plan what they compile, and what they compile with other settings than its own is not kept.
os.environ.setdefault("WEFT_CACHE_PROGRAMS", "off")
# What eager operations learn does not depend on how fast the machine is.
os.environ.setdefault("WEFT_EAGER_COMPILE_SHARE", "1")
# GPUs are there for the tests that ask for them; the others are of the CPU.
os.environ.setdefault("WEFT_PLATFORMS", "cpu,cuda" if os.path.exists("/dev/nvidiactl") else "cpu")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also run the tests marked 'full'")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    skip = pytest.mark.skip(reason="exhaustive; run with --full")
    for item in items:
        sampled = item.get_closest_marker("sampled")
        left_out = sampled is not None and zlib.crc32(item.nodeid.encode()) % sampled.args[0]
        if left_out or "full" in item.keywords:
            item.add_marker(skip)


class Knobs:
    """The values of every knob as the run began, and a way back to them."""

    saved: ClassVar[dict] = {}

    @classmethod
    def save(cls):
        knobs = sys.modules.get("weft.base.knobs")
        if knobs is not None and not cls.saved:
            cls.saved = dict(knobs.config.values)

    @classmethod
    def restore(cls):
        if cls.saved:
            config = sys.modules["weft.base.knobs"].config
            for name, value in config.values.items():
                if value != cls.saved.get(name, value):
                    config.update(name, cls.saved[name])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    random.seed(0)
    np.random.seed(0)
    Knobs.save()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    Knobs.restore()


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".md":
        return Document.from_parent(parent, path=file_path)


class Document(pytest.File):
    """A Markdown page whose `>>>` examples run in order, sharing their names."""

    def collect(self):
        text = FENCE.sub("", self.path.read_text(encoding="utf-8"))
        test = doctest.DocTestParser().get_doctest(text, {}, self.path.name, str(self.path), 0)
        if test.examples:
            yield Page.from_parent(self, name=self.path.name, test=test)


class Page(pytest.Item):
    """The examples of one page."""

    def __init__(self, *, test, **kwargs):
        super().__init__(**kwargs)
        self.test = test

    def runtest(self):
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        report = io.StringIO()
        runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
        runner.run(self.test, out=report.write, clear_globs=False)
        if runner.failures:
            raise PageFailure(report.getvalue())

    def repr_failure(self, excinfo):
        if isinstance(excinfo.value, PageFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, 0, self.name


class PageFailure(Exception):
    """What the examples of a page printed instead of what they should have."""
