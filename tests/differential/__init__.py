"""Functions of ``weft.numpy`` and ``weft.scipy`` against NumPy and SciPy, eager and compiled."""
