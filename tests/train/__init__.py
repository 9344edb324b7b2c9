"""Tests of ``weft.train``."""
