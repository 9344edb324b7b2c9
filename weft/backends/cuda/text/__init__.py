"""Kernels as LLVM text for a GPU: what threads do, alone, in columns and in loops; and modules."""
