"""Linear algebra: decompositions and solves of stacks of matrices, one kind a file."""
