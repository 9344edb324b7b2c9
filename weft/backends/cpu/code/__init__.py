"""LLVM text of kernels and loops."""
