"""Measurements of weft beside other libraries, in one run on one machine: ``python -m bench``."""
