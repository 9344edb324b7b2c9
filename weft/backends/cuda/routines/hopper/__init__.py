"""Kernels for Hopper GPUs, written as PTX."""
