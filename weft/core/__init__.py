"""Tracing, abstract values, programs and primitives: what every transformation stands on."""
