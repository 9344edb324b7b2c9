"""Scripts that record what other libraries do import them: they are no modules to test."""

collect_ignore = ["record.py", "record_seqio.py"]
