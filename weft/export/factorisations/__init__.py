"""Linear algebra as loops over columns, for programs without LAPACK; stacks of matrices at once."""
