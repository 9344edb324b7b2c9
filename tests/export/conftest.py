"""Programs that need JAX to be recorded are no tests."""

collect_ignore = ["jax_export_cases.py"]
