"""Errors inside compiled code: programs that stop at a NaN, a bad index, a wrapped integer."""
