"""Tests that run GPUs' kernels on the host, a thread for each of theirs, take long: of some files
one in four is run by default, of others one in four of a test's cases, all of them in the full
tier. Those that need a GPU are all run."""

import zlib

import pytest

from weft.backends.cuda.routines import products

SLOW = ("test_routines.py", "test_loops.py", "test_solver.py", "test_columns.py", "test_races.py")
MANY_CASES = ("test_marks.py", "test_named.py", "test_own_loops.py", "test_planes.py")
MANY_CASES += ("test_rows.py", "test_runs.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        sampled = item.path.name in SLOW
        sampled |= item.path.name in MANY_CASES and hasattr(item, "callspec")
        if sampled and item.path.parent.name == "cuda":
            if item.get_closest_marker("skipif") is None and zlib.crc32(item.nodeid.encode()) % 4:
                item.add_marker(pytest.mark.full)


@pytest.fixture(autouse=True)
def exact_products(monkeypatch):
    """Products in full float32, as the references of these tests have them."""
    monkeypatch.setattr(products, "has_tf32", lambda: False)
