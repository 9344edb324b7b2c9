"""Backends: what turns kernels into machine code and runs them."""
