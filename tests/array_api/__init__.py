"""The Python array API standard (2024.12) as checks that run on any namespace."""
