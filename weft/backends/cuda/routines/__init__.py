"""Operations with kernels or library calls of their own on a GPU."""
