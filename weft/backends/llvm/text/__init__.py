"""Kernels and stubs as LLVM text."""
