"""A function checked against itself: other ways to run it, more digits, other transformations."""
