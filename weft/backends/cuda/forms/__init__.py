"""Programs on a GPU that serve other shapes and other processes."""
