"""LAPACK and BLAS: the library (``openblas``), and its functions on stacks of NumPy matrices
(``stacks``). References of primitives and routines of the CPU backend call them."""
