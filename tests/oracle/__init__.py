"""Differential tests: weft against the recorded answers of JAX."""
