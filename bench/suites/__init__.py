"""Suites: modules with a list ``ROWS``."""
