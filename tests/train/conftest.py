"""The script that records checkpoints imports other libraries: it is no module to test."""

collect_ignore = ["record.py"]
