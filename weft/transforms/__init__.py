"""Transformations: interpreters of primitives and of programs, one file each."""
