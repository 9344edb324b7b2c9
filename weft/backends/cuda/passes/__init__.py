"""Passes that GPUs bring to the pipeline: attention found in plain programs."""
