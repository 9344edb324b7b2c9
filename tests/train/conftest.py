"""Scripts that import other libraries are no modules to test."""

# names for gin are registered once, so no examples are looked for in gin_programs
collect_ignore = ["gin_programs.py", "record.py", "record_seqio.py", "ray_sweep.py"]
