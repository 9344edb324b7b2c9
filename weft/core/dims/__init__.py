"""Symbolic dimensions: whole numbers written in named dimensions whose values are not known."""
