"""A plugin that runs tests written for JAX on weft: ``pytest -p weft.as_jax.pytest``."""

from __future__ import annotations

from typing import Any

from weft.as_jax import VERSION, install


def pytest_load_initial_conftests(early_config: Any, parser: Any, args: Any) -> None:
    """Give weft the name before any conftest is imported."""
    install()


def pytest_configure(config: Any) -> None:
    """The same in processes that are started without initial conftests."""
    install()


def pytest_report_header(config: Any) -> str:
    """Say it at the head of the report."""
    return f"weft under the name jax {VERSION}"
