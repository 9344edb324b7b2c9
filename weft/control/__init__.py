"""Primitives that carry a program: jit, branches, loops, custom derivatives."""
