"""Sorting, partition and the largest elements."""
