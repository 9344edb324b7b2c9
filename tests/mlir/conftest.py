"""Programs that need JAX and flax to be recorded are no tests."""

collect_ignore = ["jax_cases.py"]
