"""Mutable references to arrays: their type, what is done with them, and indices into them."""
