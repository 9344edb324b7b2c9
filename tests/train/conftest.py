"""Scripts that import other libraries are no modules to test."""

collect_ignore = ["record.py", "record_seqio.py", "ray_sweep.py"]
