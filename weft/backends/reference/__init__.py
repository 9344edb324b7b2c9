"""Programs run by NumPy: the smallest backend, and what the others are compared with."""
