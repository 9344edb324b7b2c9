"""The closed kernel IR: scalar values over index expressions, and programs of kernels."""
