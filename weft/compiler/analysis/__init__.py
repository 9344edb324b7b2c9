"""What can be said of programs, kernels and plans without changing them."""
