"""Programs as plain C: one file of C99 that needs a C compiler and its mathematical library."""
